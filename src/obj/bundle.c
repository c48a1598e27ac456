/* Bundles (LLVM's ClangOffloadBundler document): finds the code objects in what hipcc embeds or writes. Owns decompressed
 * contents, in a list behind och_obj_bundle.owned; entries are views. */
#include "obj/priv.h"

#include "base/alloc.h"
#include "base/size.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#define MAGIC "__CLANG_OFFLOAD_BUNDLE__"
#define MAGIC_BYTES 24
#define ZIP_MAGIC "CCOB"
/* A bundle's header has no table size of its own; a real one has a few dozen entries. */
#define MAX_ENTRIES 65536

typedef struct contents { /* of one compressed bundle */
    struct contents *next;
    size_t n_bytes;
    uint8_t bytes[];
} contents;

/* Bytes to read: n of them, or (unbounded) as many as their own headers say. */
typedef struct span {
    const uint8_t *p;
    size_t n;
    bool unbounded;
} span;

static bool has(const span *s, uint64_t at, uint64_t n) {
    return s->unbounded || (at <= s->n && n <= s->n - at);
}

static och_status add_entry(och_obj_bundle *b, const och_obj_entry *e, och_err *err) {
    if ((b->n_entries & (b->n_entries - 1)) == 0) { /* grows at powers of two */
        size_t wider = b->n_entries ? b->n_entries * 2 : 1;
        och_obj_entry *p = och_realloc_array(b->entries, wider, sizeof *p);
        if (!p) return och_err_nomem(err, wider * sizeof *p, "bundle entries");
        b->entries = p;
    }
    b->entries[b->n_entries++] = *e;
    return OCH_OK;
}

/* kind-arch-vendor-os-environment-target: the target may hold dashes of its own; a host entry has none, or an empty one. */
static const char *target_part(const char *id) {
    if (!strncmp(id, "host", 4)) return "";
    for (int i = 0; i < 5; i++) {
        id = strchr(id, '-');
        if (!id) return "";
        id++;
    }
    return id;
}

static och_status read_plain(const span *s, och_obj_bundle *b, size_t *out_used, och_err *err) {
    uint64_t at = MAGIC_BYTES + 8, used = at, end;
    if (!has(s, 0, at))
        return och_err_set(err, OCH_CORRUPT, "bundle: expected a count of entries, found the end of %zu bytes", s->n);
    uint64_t n = och_obj_le(s->p + MAGIC_BYTES, 8);
    if (n > MAX_ENTRIES)
        return och_err_set(err, OCH_CORRUPT, "bundle: expected at most %d entries, found %" PRIu64, MAX_ENTRIES, n);
    for (uint64_t i = 0; i < n; i++) {
        och_obj_entry e = {0};
        if (!has(s, at, 24))
            return och_err_set(err, OCH_CORRUPT, "bundle: entry %" PRIu64 ": expected a header, found the end of %zu bytes", i,
                               s->n);
        uint64_t offset = och_obj_le(s->p + at, 8), size = och_obj_le(s->p + at + 8, 8), n_id = och_obj_le(s->p + at + 16, 8);
        at += 24;
        if (n_id >= sizeof e.triple || !has(s, at, n_id) || memchr(s->p + at, 0, (size_t)n_id))
            return och_err_set(err, OCH_CORRUPT,
                               "bundle: entry %" PRIu64 ": expected a name of at most %zu bytes, found one of %" PRIu64, i,
                               sizeof e.triple - 1, n_id);
        memcpy(e.triple, s->p + at, (size_t)n_id);
        at += n_id;
        used = OCH_MAX(used, at);
        const char *target = target_part(e.triple);
        char show[OCH_OBJ_SHOW_BYTES];
        och_obj_show(show, e.triple, strlen(e.triple));
        if (strlen(target) >= sizeof e.target)
            return och_err_set(err, OCH_CORRUPT, "bundle: entry '%s': expected a target of at most %zu bytes, found %zu", show,
                               sizeof e.target - 1, strlen(target));
        strcpy(e.target, target);
        if (!och_u64_add(offset, size, &end) || end > SIZE_MAX / 2 || !has(s, offset, size))
            return och_err_set(err, OCH_CORRUPT,
                               "bundle: entry '%s': expected %" PRIu64 " bytes at offset %" PRIu64 ", found a bundle of %zu",
                               show, size, offset, s->n);
        e.bytes = s->p + offset;
        e.n_bytes = (size_t)size;
        used = OCH_MAX(used, end);
        OCH_TRY(add_entry(b, &e, err));
    }
    *out_used = (size_t)used;
    return OCH_OK;
}

static och_status read_elf(const span *s, och_obj_bundle *b, size_t *out_used, och_err *err) {
    och_obj_entry e = {.bytes = s->p, .n_bytes = s->n};
    if (s->unbounded) OCH_TRY(och_obj_elf_size(s->p, &e.n_bytes, err));
    OCH_TRY(och_obj_elf_target(s->p, e.n_bytes, e.target, err));
    snprintf(e.triple, sizeof e.triple, "hip-amdgcn-amd-amdhsa--%s", e.target);
    *out_used = e.n_bytes;
    return add_entry(b, &e, err);
}

static och_status read_all(span s, och_obj_bundle *b, bool inside, och_err *err);

/* Version 1: magic, u16 version, u16 method, u32 size of the contents, u64 hash. Version 2: u32 size of the whole comes
 * before that; version 3: both sizes are u64. */
static och_status read_compressed(const span *s, och_obj_bundle *b, size_t *out_used, och_err *err) {
    if (!has(s, 0, 8)) return och_err_set(err, OCH_CORRUPT, "compressed bundle: expected a header, found %zu bytes", s->n);
    uint64_t version = och_obj_le(s->p + 4, 2), method = och_obj_le(s->p + 6, 2), whole = s->n, size = 0;
    if (version < 1 || version > 3)
        return och_err_set(err, OCH_UNSUPPORTED, "compressed bundle: expected version 1, 2 or 3, found %" PRIu64, version);
    static const uint8_t headers[] = {0, 20, 24, 32};
    uint64_t header = headers[version];
    if (!has(s, 0, header))
        return och_err_set(err, OCH_CORRUPT, "compressed bundle: expected a header of %" PRIu64 " bytes, found %zu bytes",
                           header, s->n);
    if (method != 1)
        return och_err_set(err, method ? OCH_CORRUPT : OCH_UNSUPPORTED,
                           "compressed bundle: expected zstd (method 1), found %s (%" PRIu64 ")",
                           method ? "an unknown method" : "zlib", method);
    if (version == 1) size = och_obj_le(s->p + 8, 4);
    if (version == 2) whole = och_obj_le(s->p + 8, 4), size = och_obj_le(s->p + 12, 4);
    if (version == 3) whole = och_obj_le(s->p + 8, 8), size = och_obj_le(s->p + 16, 8);
    if (version == 1) { /* it ends with its frame */
        size_t limit = s->unbounded ? (size_t)UINT32_MAX : s->n - (size_t)header;
        size_t frame = ZSTD_findFrameCompressedSize(s->p + header, limit);
        if (ZSTD_isError(frame))
            return och_err_set(err, OCH_CORRUPT, "compressed bundle: expected a zstd frame, found: %s",
                               ZSTD_getErrorName(frame));
        whole = header + frame;
    }
    if (whole < header || whole > SIZE_MAX / 2 || !has(s, 0, whole))
        return och_err_set(err, OCH_CORRUPT, "compressed bundle: expected %" PRIu64 " bytes, found %zu", whole, s->n);
    *out_used = (size_t)whole;
    size_t n_frame = (size_t)(whole - header);
    /* What is allocated must not come from a header alone: a block of zstd has at least 4 bytes and gives at most 128 KiB. */
    unsigned long long stated = ZSTD_getFrameContentSize(s->p + header, n_frame);
    if (stated == ZSTD_CONTENTSIZE_ERROR || size > SIZE_MAX / 2 - sizeof(contents) ||
        (stated != ZSTD_CONTENTSIZE_UNKNOWN && stated != size) || size / 32768 > n_frame)
        return och_err_set(err, OCH_CORRUPT, "compressed bundle: expected a zstd frame of %" PRIu64 " bytes, found %s", size,
                           stated == ZSTD_CONTENTSIZE_ERROR ? "no frame" : "another size");
    contents *c = och_malloc(sizeof *c + (size_t)size);
    if (!c) return och_err_nomem(err, size, "a compressed bundle's contents");
    c->next = b->owned;
    b->owned = c;
    c->n_bytes = (size_t)size;
    size_t got = ZSTD_decompress(c->bytes, c->n_bytes, s->p + header, n_frame);
    if (ZSTD_isError(got) && ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation) return och_err_nomem(err, n_frame, "zstd");
    if (ZSTD_isError(got) || got != c->n_bytes)
        return och_err_set(err, OCH_CORRUPT, "compressed bundle: expected %zu bytes in a zstd frame, found: %s", c->n_bytes,
                           ZSTD_isError(got) ? ZSTD_getErrorName(got) : "fewer");
    och_status st = read_all((span){.p = c->bytes, .n = c->n_bytes}, b, true, err);
    return st == OCH_OK ? OCH_OK : och_err_prefix(err, "compressed bundle");
}

/* inside: the contents of a compressed bundle, where no compressed one is expected. */
static och_status read_all(span s, och_obj_bundle *b, bool inside, och_err *err) {
    bool first = true;
    for (;;) {
        size_t used = 0;
        if (has(&s, 0, MAGIC_BYTES) && !memcmp(s.p, MAGIC, MAGIC_BYTES)) {
            OCH_TRY(read_plain(&s, b, &used, err));
        } else if (!inside && has(&s, 0, 4) && !memcmp(s.p, ZIP_MAGIC, 4)) {
            OCH_TRY(read_compressed(&s, b, &used, err));
        } else if (first && has(&s, 0, 4) && !memcmp(s.p, OCH_OBJ_MAGIC, 4)) {
            return read_elf(&s, b, &used, err);
        } else if (first) {
            return och_err_set(err, OCH_CORRUPT,
                               "expected a code object (ELF) or an offload bundle, found %zu bytes that begin as neither", s.n);
        } else {
            return OCH_OK; /* what follows the last bundle is padding, or not ours */
        }
        if (s.unbounded) return OCH_OK; /* nothing says that more follows */
        s.p += used;
        s.n -= used;
        while (s.n && !*s.p) s.p++, s.n--;
        if (!s.n) return OCH_OK;
        first = false;
    }
}

och_status och_obj_bundle_open(const void *bytes, size_t n_bytes, och_obj_bundle *out_bundle, och_err *err) {
    *out_bundle = (och_obj_bundle){0};
    och_obj_bundle b = {0};
    och_status st = read_all((span){.p = bytes, .n = n_bytes, .unbounded = !n_bytes}, &b, false, err);
    if (st == OCH_OK) *out_bundle = b;
    else och_obj_bundle_close(&b);
    return st;
}

void och_obj_bundle_close(och_obj_bundle *bundle) {
    for (contents *c = bundle->owned; c;) {
        contents *next = c->next;
        och_free(c);
        c = next;
    }
    och_free(bundle->entries);
    *bundle = (och_obj_bundle){0};
}
