/* Code objects and bundles that are cut, damaged, or read while memory runs out: an error, never a crash or a leak. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "obj/obj.h"
#include "unit/obj_file.h"

#include <string.h>

static const char *const objects[] = {"v4-gfx90a.co",         "v4-gfx1030-clang14.co", "v5-gfx1100.co",
                                      "v6-gfx1151-wave64.co", "v6-gfx9-generic.co",    "relocs.co"};
static const char *const bundles[] = {"bundle.hipfb", "bundle-v1.ccob", "bundle-v2.ccob", "bundle-v3.ccob"};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static och_status parse(const void *bytes, size_t n, och_err *e) {
    och_obj *o;
    och_err_clear(e);
    och_status st = och_obj_parse(bytes, n, &o, e);
    if (st != OCH_OK && (o || e->status != st || !e->message[0]))
        fail_msg("status %d, record %d '%s'", st, e->status, e->message);
    och_obj_destroy(o);
    return st;
}

/* Opens a bundle and parses what is in it; the first error counts. */
static och_status open_all(const void *bytes, size_t n, och_err *e) {
    och_obj_bundle b;
    och_err_clear(e);
    och_status st = och_obj_bundle_open(bytes, n, &b, e);
    if (st != OCH_OK && (b.entries || b.owned || e->status != st || !e->message[0]))
        fail_msg("status %d, record %d '%s'", st, e->status, e->message);
    for (size_t i = 0; i < b.n_entries && st == OCH_OK; i++)
        if (b.entries[i].target[0]) st = parse(b.entries[i].bytes, b.entries[i].n_bytes, e);
    och_obj_bundle_close(&b);
    return st;
}

/* Every length is given in an allocation of its own, so that a sanitizer sees a read past it. */
static och_status cut(const obj_file *f, size_t n, och_status (*run)(const void *, size_t, och_err *), och_err *e) {
    uint8_t *p = och_malloc(n ? n : 1);
    memcpy(p, f->bytes, n);
    och_status st = run(p, n, e);
    och_free(p);
    return st;
}

static void objects_cut_at_every_byte(void **s) {
    (void)s;
    och_err e;
    int64_t live = och_alloc_live();
    for (size_t i = 0; i < COUNT(objects); i++) {
        obj_file f = obj_file_read(objects[i]);
        for (size_t n = 0; n < f.n_bytes; n++) {
            och_status st = cut(&f, n, parse, &e);
            if (st != OCH_CORRUPT) fail_msg("%s cut to %zu bytes: status %d: %s", objects[i], n, st, e.message);
        }
        assert_int_equal(cut(&f, f.n_bytes, parse, &e), OCH_OK);
        obj_file_free(&f);
    }
    assert_int_equal(och_alloc_live(), live);
}

static void bundles_cut_at_every_byte(void **s) {
    (void)s;
    och_err e;
    for (size_t i = 0; i < COUNT(bundles); i++) {
        obj_file f = obj_file_read(bundles[i]);
        for (size_t n = 1; n < f.n_bytes; n++) {
            och_status st = cut(&f, n, open_all, &e);
            if (st != OCH_CORRUPT) fail_msg("%s cut to %zu bytes: status %d: %s", bundles[i], n, st, e.message);
        }
        assert_int_equal(cut(&f, f.n_bytes, open_all, &e), OCH_OK);
        obj_file_free(&f);
    }
}

/* Any byte may change: it parses or it does not, and the reader stays inside. */
static void objects_with_a_byte_changed(void **s) {
    (void)s;
    static const uint8_t values[] = {0, 1, 0x7F, 0x80, 0xDD, 0xDF, 0xFF};
    och_err e;
    size_t refused = 0;
    int64_t live = och_alloc_live();
    for (size_t i = 0; i < COUNT(objects); i++) {
        obj_file f = obj_file_read(objects[i]);
        for (size_t at = 0; at < f.n_bytes; at++) {
            uint8_t was = f.bytes[at];
            for (size_t v = 0; v < COUNT(values); v++) {
                f.bytes[at] = values[v];
                refused += parse(f.bytes, f.n_bytes, &e) != OCH_OK;
                if (e.status == OCH_NOMEM) fail_msg("%s with byte %zu at %u: %s", objects[i], at, values[v], e.message);
            }
            f.bytes[at] = was;
        }
        obj_file_free(&f);
    }
    assert_true(refused > 1000);
    assert_int_equal(och_alloc_live(), live);
}

static void bundles_with_a_byte_changed(void **s) {
    (void)s;
    static const uint8_t values[] = {0, 1, 0x80, 0xFF};
    och_err e;
    for (size_t i = 0; i < COUNT(bundles); i++) {
        obj_file f = obj_file_read(bundles[i]);
        for (size_t at = 0; at < f.n_bytes && at < 4000; at++) {
            uint8_t was = f.bytes[at];
            for (size_t v = 0; v < COUNT(values); v++) {
                f.bytes[at] = values[v];
                (void)!open_all(f.bytes, f.n_bytes, &e);
            }
            f.bytes[at] = was;
        }
        obj_file_free(&f);
    }
}

/* ---- what the message says ---- */

static void expect(const char *file, size_t at, size_t n, uint64_t value, och_status status, const char *words) {
    och_err e;
    obj_file f = obj_file_read(file);
    for (size_t i = 0; i < n; i++) f.bytes[at + i] = (uint8_t)(value >> (8 * i));
    och_status st = open_all(f.bytes, f.n_bytes, &e);
    if (st != status || !strstr(e.message, words))
        fail_msg("%s, %zu bytes at %zu: expected status %d and '%s', found %d: %s", file, n, at, status, words, st, e.message);
    obj_file_free(&f);
}

/* Where a text is in a file, to damage what follows it. */
static size_t find(const char *file, const void *what, size_t n) {
    obj_file f = obj_file_read(file);
    uint8_t *p = memmem(f.bytes, f.n_bytes, what, n);
    if (!p) fail_msg("%s does not hold it", file);
    size_t at = (size_t)(p - f.bytes);
    obj_file_free(&f);
    return at;
}

static void messages(void **s) {
    (void)s;
    static const char v5[] = "v5-gfx1100.co";
    expect(v5, 0, 1, 0, OCH_CORRUPT, "expected a code object (ELF) or an offload bundle");
    expect(v5, 4, 1, 1, OCH_CORRUPT, "64-bit little-endian");
    expect(v5, 7, 1, 0, OCH_UNSUPPORTED, "OS ABI");
    expect(v5, 8, 1, 1, OCH_UNSUPPORTED, "expected version 4, 5 or 6, found 3");
    expect(v5, 8, 1, 0, OCH_UNSUPPORTED, "expected version 4, 5 or 6, found 2");
    expect(v5, 8, 1, 5, OCH_UNSUPPORTED, "expected version 4, 5 or 6, found probably 7");
    expect(v5, 16, 2, 1, OCH_UNSUPPORTED, "never linked");
    expect(v5, 18, 2, 62, OCH_CORRUPT, "expected machine 224 (AMDGPU), found 62");
    expect(v5, 48, 1, 0x50, OCH_UNSUPPORTED, "no target is known by the number 0x050");
    expect(v5, 48, 1, 0x46, OCH_CORRUPT,
           "expected it to name gfx1101 as the ELF header does, found 'amdgcn-amd-amdhsa--gfx1100'");
    expect("v4-gfx90a.co", 48, 2, 0xa3f, OCH_CORRUPT, "expected it to name gfx90a:sramecc-:xnack-");
    expect("v6-gfx9-generic.co", 51, 1, 0, OCH_CORRUPT, "generic version");
    expect(v5, 40, 8, 1 << 20, OCH_CORRUPT, "section table: expected entries of 64 bytes inside a file of 8752 bytes");
    expect(v5, 56, 2, 0xFFFF, OCH_CORRUPT, "segment table");
    expect(v5, 58, 2, 63, OCH_CORRUPT, "section table");
    /* segment 1: offset, address, file and memory sizes at 64 + 56 * 1 */
    expect(v5, 64 + 56 + 32, 8, 9000, OCH_CORRUPT, "segment 1: expected 9000 bytes at offset 0, found a file of 8752");
    expect(v5, 64 + 56 + 40, 8, 1, OCH_CORRUPT, "no more bytes of file than of memory");
    expect(v5, 64 + 2 * 56 + 16, 8, 16, OCH_CORRUPT, "segment 2: expected it after address 0x1200");
    /* the metadata note */
    size_t kind = find(v5, "hidden_heap_v1", 14);
    expect(v5, kind, 1, 0xC1, OCH_OK, ""); /* an unknown kind is kept as it is */
    size_t name = find(v5, "dispatch.kd", 11);
    expect(v5, name, 1, 'D', OCH_CORRUPT,
           "kernel descriptor 'Dispatch.kd': expected 64 bytes in a segment, found no such symbol");
    size_t size = find(v5, ".kernarg_segment_size", 21);
    expect(v5, size + 21, 3, 0x10FFD1, OCH_CORRUPT,
           "kernel 'dispatch': .kernarg_segment_size: expected an integer below 2^32, found a negative integer");
    size_t args = find(v5, ".args", 5);
    expect(v5, args + 5, 1, 0xDF, OCH_CORRUPT, "expected MessagePack nested at most 15 deep, found a break at byte");
    /* a descriptor whose entry is outside the code */
    expect(v5, 0x1140 + 16, 8, 0x10, OCH_CORRUPT,
           "kernel descriptor 'dispatch.kd': expected an entry in the code from 0x2200 to 0x2780, found 0x1150");
    expect(v5, 0x1140 + 16, 8, 0x1640, OCH_CORRUPT, "from 0x2200 to 0x2780, found 0x2780");
    size_t last = find("v4-gfx90a.co", "\xa7.offset\x18", 9); /* of axpy: 4 bytes at 24 of 28 */
    expect("v4-gfx90a.co", last + 8, 1, 25, OCH_CORRUPT,
           "kernel 'axpy': an argument: expected it inside 28 bytes of arguments, found 4 at 25");
    /* xnack not named in the header, "gfx90a:sramecc+:xnack-" in the metadata */
    expect("v4-gfx90a.co", 48, 2, 0xd3f, OCH_CORRUPT, "expected it to name gfx90a:sramecc+ as the ELF header does");
    /* relocations: place, symbol */
    size_t rela = 0x10c0;
    expect(v5, rela, 8, 0x9000, OCH_CORRUPT, "expected an address in a segment, found 0x9000");
    expect(v5, rela + 12, 4, 99, OCH_CORRUPT, "expected one of 11 dynamic symbols, found 99");
    /* .rela.dyn (section 6) turned into REL */
    expect(v5, 7600 + 6 * 64 + 4, 4, 9, OCH_UNSUPPORTED, "found REL");
    expect(v5, 7600 + 6 * 64 + 4, 4, 19, OCH_UNSUPPORTED, "found packed ones (RELR)");
    expect(v5, 7600 + 2 * 64 + 40, 4, 99, OCH_CORRUPT, "expected the number of its string table, found 99");
}

static void messages_of_bundles(void **s) {
    (void)s;
    expect("bundle.hipfb", 24, 8, 1u << 20, OCH_CORRUPT, "expected at most 65536 entries");
    expect("bundle.hipfb", 32 + 8, 8, 1u << 20, OCH_CORRUPT, "entry 'host-x86_64-unknown-linux-gnu-': expected 1048576 bytes");
    expect("bundle.hipfb", 32 + 16, 8, 200, OCH_CORRUPT, "entry 0: expected a name of at most 95 bytes, found one of 200");
    expect("bundle-v2.ccob", 4, 2, 4, OCH_UNSUPPORTED, "expected version 1, 2 or 3, found 4");
    expect("bundle-v2.ccob", 6, 2, 0, OCH_UNSUPPORTED, "expected zstd (method 1), found zlib");
    expect("bundle-v2.ccob", 6, 2, 7, OCH_CORRUPT, "found an unknown method");
    expect("bundle-v2.ccob", 8, 4, 5000, OCH_CORRUPT, "expected 5000 bytes, found 1920");
    expect("bundle-v2.ccob", 12, 4, 8944, OCH_CORRUPT, "zstd frame of 8944 bytes");
    expect("bundle-v3.ccob", 16, 8, (uint64_t)1 << 40, OCH_CORRUPT, "zstd frame of 1099511627776 bytes");
    expect("bundle-v2.ccob", 24, 1, 0, OCH_CORRUPT, "found no frame");
}

/* A frame that does not state its size does not make the header's claim true. */
static void a_claim_that_no_frame_can_keep(void **s) {
    (void)s;
    static const uint8_t frame[] = {0x28, 0xB5, 0x2F, 0xFD, 0, 0, 1, 0, 0}; /* one empty block */
    uint8_t all[32 + sizeof frame] = "CCOB\3\0\1";
    memcpy(all + 32, frame, sizeof frame);
    all[8] = sizeof all;
    och_err e;
    for (int i = 19; i < 24; i++) {
        all[i] = 1;
        assert_int_equal(open_all(all, sizeof all, &e), OCH_CORRUPT);
        if (!strstr(e.message, "found another size")) fail_msg("%s", e.message);
        all[i] = 0;
    }
    all[16] = 5;
    assert_int_equal(open_all(all, sizeof all, &e), OCH_CORRUPT);
    assert_non_null(strstr(e.message, "expected 5 bytes in a zstd frame, found: fewer"));
}

/* ---- memory ---- */

static void every_allocation_fails_once(const char *file) {
    obj_file f = obj_file_read(file);
    och_err e;
    assert_int_equal(open_all(f.bytes, f.n_bytes, &e), OCH_OK);
    int64_t live = och_alloc_live();
    uint64_t n = 1;
    for (;; n++) {
        och_alloc_fail_at(n);
        och_status st = open_all(f.bytes, f.n_bytes, &e);
        bool reached = och_alloc_count() >= n;
        och_alloc_fail_at(0);
        assert_int_equal(och_alloc_live(), live);
        if (!reached) {
            assert_int_equal(st, OCH_OK);
            break;
        }
        if (st != OCH_NOMEM) fail_msg("%s: allocation %llu: status %d: %s", file, (unsigned long long)n, st, e.message);
    }
    print_message("[          ] %s: %llu allocations\n", file, (unsigned long long)(n - 1));
    assert_true(n > 4);
    obj_file_free(&f);
}

static void memory_runs_out(void **s) {
    (void)s;
    for (size_t i = 0; i < COUNT(objects); i++) every_allocation_fails_once(objects[i]);
    for (size_t i = 0; i < COUNT(bundles); i++) every_allocation_fails_once(bundles[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_cut_at_every_byte),
        cmocka_unit_test(bundles_cut_at_every_byte),
        cmocka_unit_test(objects_with_a_byte_changed),
        cmocka_unit_test(bundles_with_a_byte_changed),
        cmocka_unit_test(messages),
        cmocka_unit_test(messages_of_bundles),
        cmocka_unit_test(a_claim_that_no_frame_can_keep), cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
