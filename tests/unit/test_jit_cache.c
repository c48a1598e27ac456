/* The cache: what is in the key, what is in an entry, who may share it, and what happens to those who are killed. A script stands
 * for the compiler, so that all of it runs where there is none. */
#include "unit/jit_support.h"

#include "base/size.h"
#include "base/thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

static och_jit *open_jit(const char *compiler) {
    och_jit *jit;
    och_err e = {0};
    assert_ok(och_jit_create(&(och_jit_options){.compiler = compiler, .only_these_packs = true}, &jit, &e), e);
    return jit;
}

static void assert_good(const och_jit_artifact *a) {
    size_t n;
    uint8_t *want = read_all(GOOD_OBJECT, &n);
    assert_int_equal(a->code_bytes, n);
    assert_memory_equal(a->code, want, n);
    assert_int_equal(a->code[n], 0);
    free(want);
    assert_int_equal(a->record_bytes, 7);
    assert_memory_equal(a->record, "rec\0ord", 7);
    assert_string_equal(a->target, "gfx1151");
    assert_int_equal(a->kind, OCH_JIT_HSACO);
    assert_int_equal(a->wave_size, 64);
    assert_int_equal(a->code_object_version, 6);
    assert_has(a->compiler, "clang 22.1.0 (");
    assert_has(a->log, "warning: from the script");
}

/* ---- keys ---- */

/* One field of the key's parts is changed at a time; every one must change the key, and no two the same way. */
static void each_part_changes_the_key(void **s) {
    (void)s;
    och_jit_key_parts base = {.format = 1,
                              .text = "text",
                              .text_bytes = 4,
                              .file_name = "file",
                              .target = "gfx942",
                              .dialect = 0,
                              .wave_size = 64,
                              .code_object_version = 5,
                              .arguments = "-a\0-b\0",
                              .arguments_bytes = 6,
                              .compiler = "clang",
                              .compiler_version = "22",
                              .compiler_path = "/bin/clang",
                              .compiler_file_bytes = 100,
                              .compiler_file_mtime_ns = 200,
                              .record = "record",
                              .record_bytes = 6};
    char keys[40][OCH_JIT_KEY_BYTES];
    size_t n = 0;
#define KEY(change)                                                                                                    \
    do {                                                                                                               \
        och_jit_key_parts p = base;                                                                                    \
        change;                                                                                                        \
        och_jit_key(&p, keys[n++]);                                                                                    \
    } while (0)
    KEY((void)0);
    KEY(p.format = 2);
    KEY(p.text = "texu");
    KEY(p.text_bytes = 3);
    KEY(p.file_name = "filf");
    KEY(p.target = "gfx942:xnack-");
    KEY(p.dialect = 1);
    KEY(p.wave_size = 32);
    KEY(p.code_object_version = 4);
    KEY(p.arguments = "-a\0-c\0");
    KEY(p.arguments_bytes = 3);
    KEY(p.compiler = "hiprtc");
    KEY(p.compiler_version = "23");
    KEY(p.compiler_path = "/bin/clanh");
    KEY(p.compiler_file_bytes = 101);
    KEY(p.compiler_file_mtime_ns = 201);
    KEY(p.record = "recorD");
    KEY(p.record_bytes = 5);
    KEY(p.record_bytes = 0);
    /* what moves from one part to the next is not the same: each part has its length before it */
    KEY((p.text = "textf", p.text_bytes = 5, p.file_name = "ile"));
    KEY((p.file_name = "filegfx", p.target = "942"));
    KEY((p.arguments = "-a\0-b\0clang", p.arguments_bytes = 11, p.compiler = ""));
    KEY((p.compiler = "clang2", p.compiler_version = "2"));
    KEY((p.compiler_version = "22/bin", p.compiler_path = "/clang"));
#undef KEY
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (!strcmp(keys[i], keys[k])) fail_msg("changes %zu and %zu give one key", k, i);
    /* and the key is a function of its parts alone */
    char again[OCH_JIT_KEY_BYTES];
    och_jit_key(&base, again);
    assert_string_equal(again, keys[0]);
}

/* The same one level up: each field of a request, and each thing that a compiler is known by. */
static void each_input_changes_the_key(void **s) {
    (void)s;
    och_err e = {0};
    char keys[40][OCH_JIT_KEY_BYTES];
    size_t n = 0;
    const char *flags[] = {"-DX=1", "-DY"}, *swapped[] = {"-DY", "-DX=1"}, *joined[] = {"-DX=1-DY"};
    och_candidate base = {.row = &och_compiler_clang, .path = (char[]){"/bin/clang"}, .version = (char[]){"clang version 22"}, .clang_major = 22,
                          .file_bytes = 5, .file_mtime_ns = 6};
#define KEY(change)                                                                                                    \
    do {                                                                                                               \
        och_jit_request q = good_request();                                                                            \
        och_candidate c = base;                                                                                        \
        och_jit_job job;                                                                                               \
        change;                                                                                                        \
        assert_ok(och_jit_job_init(&q, &job, &e), e);                                                                  \
        assert_ok(och_jit_key_of(&job, &c, keys[n++], &e), e);                                                         \
    } while (0)
    KEY((void)0);
    KEY(q.text = "the texu\n");
    KEY(q.text_bytes = 8);
    KEY(q.file_name = "other.ok");
    KEY(q.prelude = true);
    KEY(q.target = "gfx1101");
    KEY((q.target = "sm_90", q.dialect = OCH_JIT_CUDA, q.wave_size = 0));
    KEY(q.wave_size = 32);
    KEY(q.opt_level = 2);
    KEY(q.opt_level = 1);
    KEY((q.flags = flags, q.n_flags = 1));
    KEY((q.flags = flags, q.n_flags = 2));
    KEY((q.flags = swapped, q.n_flags = 2));
    KEY((q.flags = joined, q.n_flags = 1));
    KEY(q.code_object_version = 4);
    KEY(q.code_object_version = 5);
    KEY(q.record = "rec\0orD");
    KEY(q.record_bytes = 6);
    KEY(c.version = (char[]){"clang version 23"});
    KEY(c.path = (char[]){"/bin/other"});
    KEY(c.file_bytes = 6);
    KEY(c.file_mtime_ns = 7);
    KEY(c.row = &och_compiler_hiprtc);
#undef KEY
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (!strcmp(keys[i], keys[k])) fail_msg("changes %zu and %zu give one key", k, i);
}

/* ---- entries ---- */

static void compiled_then_cached(void **s) {
    (void)s;
    fresh();
    och_jit *jit = open_jit(make_good_compiler());
    och_jit_request q = good_request();
    och_err e = {0};
    for (int i = 0; i < 3; i++) {
        och_jit_artifact *a;
        och_strbuf log = {0};
        assert_ok(och_jit_get(jit, &q, &a, &log, &e), e);
        assert_int_equal(a->origin, i ? OCH_JIT_FROM_CACHE : OCH_JIT_FROM_COMPILER);
        assert_good(a);
        assert_has(och_strbuf_str(&log), "warning: from the script");
        assert_has(a->place, at("cache"));
        och_strbuf_deinit(&log);
        och_jit_artifact_destroy(a);
    }
    assert_int_equal(count_runs(), 1);
    och_jit_counts counts;
    och_jit_get_counts(jit, &counts);
    assert_int_equal(counts.compiled, 1);
    assert_int_equal(counts.from_cache, 2);
    och_jit_destroy(jit);
    /* another process, another text */
    jit = open_jit(at("clang"));
    och_jit_artifact *a;
    assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
    assert_int_equal(a->origin, OCH_JIT_FROM_CACHE);
    och_jit_artifact_destroy(a);
    q.text = "new text\n";
    assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
    assert_int_equal(a->origin, OCH_JIT_FROM_COMPILER);
    och_jit_artifact_destroy(a);
    assert_int_equal(count_runs(), 2);
    och_jit_destroy(jit);
}

static och_cache *open_cache(uint64_t limit) {
    och_cache *c;
    och_err e = {0};
    assert_ok(och_cache_open(NULL, limit, &c, &e), e);
    return c;
}

static och_cache_entry small_entry(void) {
    return (och_cache_entry){.code = (const uint8_t *)"some code", .code_bytes = 9, .record = (const uint8_t *)"record", .record_bytes = 6, .log = "log\n",
                             .kind = OCH_JIT_HSACO, .wave_size = 32, .code_object_version = 5, .kernel = "k\n", .specialisation = "A=1", .target = "gfx1100",
                             .compiler = "clang 1"};
}

static void key_number(int i, char key[OCH_JIT_KEY_BYTES]) { och_hash_hex((och_hash128){(uint64_t)i, 7}, key); }

static void put_entry(och_cache *c, const char *key, const och_cache_entry *entry) {
    och_err e = {0};
    int lock;
    assert_ok(och_cache_lock(c, key, "a test", NULL, &lock, &e), e);
    assert_ok(och_cache_store(c, key, entry, &e), e);
    och_cache_unlock(c, key, lock);
}

/* Every byte of every file of an entry, each with one bit changed: none is taken for whole. */
static void each_flipped_bit_is_detected(void **s) {
    (void)s;
    fresh();
    och_cache *c = open_cache(0);
    och_cache_entry small = small_entry(), e;
    och_err err = {0};
    char key[OCH_JIT_KEY_BYTES];
    key_number(1, key);
    put_entry(c, key, &small);
    assert_ok(och_cache_load(c, key, &e, &err), err);
    assert_memory_equal(e.code, "some code", 10);
    assert_memory_equal(e.record, "record", 6);
    assert_string_equal(e.log, "log\n");
    assert_string_equal(e.kernel, "k?");
    assert_string_equal(e.compiler, "clang 1");
    och_cache_entry_deinit(&e);
    static const char *const files[] = {"code", "record", "log", "manifest", "committed"};
    size_t flips = 0;
    for (size_t f = 0; f < OCH_COUNT(files); f++) {
        char path[600];
        size_t n;
        snprintf(path, sizeof path, "%s/v1/%s/%s", at("cache"), key, files[f]);
        uint8_t *bytes = read_all(path, &n);
        assert_true(n > 0);
        int fd = open(path, O_RDWR); /* in place: a file made anew each time costs the disk seconds */
        assert_true(fd >= 0);
        for (size_t i = 0; i < n; i++)
            for (int bit = 0; bit < 8; bit++, flips++) {
                uint8_t changed = (uint8_t)(bytes[i] ^ 1 << bit);
                assert_int_equal(pwrite(fd, &changed, 1, (off_t)i), 1);
                och_err_clear(&err);
                if (och_cache_load(c, key, &e, &err) != OCH_CORRUPT) fail_msg("%s: byte %zu, bit %d: not detected", files[f], i, bit);
                assert_has(err.message, key);
                assert_int_equal(pwrite(fd, &bytes[i], 1, (off_t)i), 1);
            }
        och_err_clear(&err);
        assert_ok(och_cache_load(c, key, &e, &err), err);
        och_cache_entry_deinit(&e);
        /* and every length but the right one, and no file at all */
        for (size_t length = n + 2; length-- > 0;) {
            if (length == n) continue;
            assert_int_equal(ftruncate(fd, (off_t)length), 0);
            och_err_clear(&err);
            assert_int_equal(och_cache_load(c, key, &e, &err), OCH_CORRUPT);
        }
        close(fd);
        unlink(path);
        och_err_clear(&err);
        assert_int_equal(och_cache_load(c, key, &e, &err), OCH_CORRUPT);
        mkdir(path, 0700);
        och_err_clear(&err);
        assert_int_equal(och_cache_load(c, key, &e, &err), OCH_CORRUPT);
        rmdir(path);
        write_all(path, bytes, n);
        free(bytes);
    }
    assert_true(flips > 2000);
    och_err_clear(&err);
    assert_ok(och_cache_load(c, key, &e, &err), err);
    och_cache_entry_deinit(&e);
    /* a whole entry under another's name */
    char other[OCH_JIT_KEY_BYTES], from[512], to[512];
    key_number(2, other);
    snprintf(from, sizeof from, "%s/v1/%s", at("cache"), key);
    snprintf(to, sizeof to, "%s/v1/%s", at("cache"), other);
    rename(from, to);
    assert_int_equal(och_cache_load(c, other, &e, &err), OCH_CORRUPT);
    och_err_clear(&err);
    assert_int_equal(och_cache_load(c, key, &e, &err), OCH_NOTFOUND);
    och_cache_close(c);
}

/* A broken entry is made again, with a note, by whoever asks for it. */
static void a_corrupt_entry_is_made_again(void **s) {
    (void)s;
    fresh();
    och_jit *jit = open_jit(make_good_compiler());
    och_jit_request q = good_request();
    och_err e = {0};
    och_jit_artifact *a;
    assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
    char path[600];
    snprintf(path, sizeof path, "%s/code", a->place);
    och_jit_artifact_destroy(a);
    size_t n;
    uint8_t *bytes = read_all(path, &n);
    bytes[n / 2] ^= 4;
    write_all(path, bytes, n);
    free(bytes);
    start_listening();
    assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
    assert_int_equal(a->origin, OCH_JIT_FROM_COMPILER);
    assert_good(a);
    och_jit_artifact_destroy(a);
    assert_int_equal(n_warnings, 1);
    assert_said("discarded and made again");
    assert_said("the bytes of code are not those that were stored");
    stop_listening();
    assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
    assert_int_equal(a->origin, OCH_JIT_FROM_CACHE);
    och_jit_artifact_destroy(a);
    assert_int_equal(count_runs(), 2);
    /* a whole entry that is not what is asked for now: made by hand under the right key, of another target's code */
    och_cache *c = open_cache(0);
    och_cache_entry stale, now;
    och_jit_job job;
    assert_ok(och_jit_job_init(&q, &job, &e), e);
    och_compilers *compilers;
    const och_candidate *compiler;
    char key[OCH_JIT_KEY_BYTES];
    assert_ok(och_compilers_create(at("clang"), NULL, &compilers, &e), e);
    assert_ok(och_compilers_pick(compilers, &job, &compiler, &e), e);
    assert_ok(och_jit_key_of(&job, compiler, key, &e), e);
    assert_ok(och_cache_load(c, key, &now, &e), e);
    stale = now;
    bytes = read_all(CORPUS "v4-gfx90a.co", &n);
    stale.code = bytes;
    stale.code_bytes = n;
    assert_ok(och_cache_discard(c, key, &e), e);
    put_entry(c, key, &stale);
    free(bytes);
    och_cache_entry_deinit(&now);
    och_cache_close(c);
    och_compilers_destroy(compilers);
    start_listening();
    assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
    assert_int_equal(a->origin, OCH_JIT_FROM_COMPILER);
    och_jit_artifact_destroy(a);
    assert_said("expected code for gfx1151, found code for gfx90a");
    stop_listening();
    och_jit_destroy(jit);
}

static void limits_and_the_least_recently_used(void **s) {
    (void)s;
    fresh();
    char big[20000], key[OCH_JIT_KEY_BYTES];
    memset(big, 'x', sizeof big);
    och_cache_entry e = small_entry(), got;
    e.code = (const uint8_t *)big;
    e.code_bytes = sizeof big;
    och_err err = {0};
    och_cache *c = open_cache(10 * sizeof big);
    for (int i = 0; i < 8; i++) {
        key_number(i, key);
        put_entry(c, key, &e);
        nanosleep(&(struct timespec){0, 15000000}, NULL);
    }
    key_number(0, key); /* the oldest is used */
    assert_ok(och_cache_load(c, key, &got, &err), err);
    och_cache_entry_deinit(&got);
    nanosleep(&(struct timespec){0, 15000000}, NULL);
    for (int i = 8; i < 12; i++) {
        key_number(i, key);
        put_entry(c, key, &e);
        nanosleep(&(struct timespec){0, 15000000}, NULL);
    }
    och_cache_totals t;
    assert_ok(och_cache_list(c, NULL, NULL, &t, &err), err);
    assert_true(t.bytes <= 10 * sizeof big);
    assert_true(t.entries >= 8);
    key_number(0, key);
    assert_int_equal(och_cache_load(c, key, &got, &err), OCH_OK);
    och_cache_entry_deinit(&got);
    key_number(1, key);
    assert_int_equal(och_cache_load(c, key, &got, &err), OCH_NOTFOUND);
    och_err_clear(&err);
    key_number(11, key);
    assert_int_equal(och_cache_load(c, key, &got, &err), OCH_OK);
    och_cache_entry_deinit(&got);
    /* one that alone is more than the limit stays: it was just asked for */
    och_cache_close(c);
    c = open_cache(1000);
    key_number(99, key);
    put_entry(c, key, &e);
    assert_ok(och_cache_list(c, NULL, NULL, &t, &err), err);
    assert_int_equal(t.entries, 1);
    och_cache_close(c);
    /* the limit by name */
    static const struct {
        const char *text;
        int warns;
    } limits[] = {{"1000", 0}, {"5K", 0}, {"7m", 0}, {"2G", 0}, {"x", 1}, {"-1", 1}, {"5KB", 1}, {"0", 1}, {"99999999999999999999", 1}, {"20000000000G", 1}};
    for (size_t i = 0; i < OCH_COUNT(limits); i++) {
        setenv("OCHRE_CACHE_LIMIT", limits[i].text, 1);
        start_listening();
        c = open_cache(0);
        if (n_warnings != limits[i].warns) fail_msg("OCHRE_CACHE_LIMIT=%s: %d warnings", limits[i].text, n_warnings);
        stop_listening();
        och_cache_close(c);
    }
    unsetenv("OCHRE_CACHE_LIMIT");
}

static void seen(void *ctx, const och_cache_item *item) {
    och_strbuf_printf(ctx, "%s %s;", item->entry ? item->entry->kernel : "broken:", item->entry ? item->entry->specialisation : item->problem);
}

static void list_verify_clear(void **s) {
    (void)s;
    fresh();
    och_cache *c = open_cache(0);
    och_cache_totals t;
    och_err err = {0};
    och_cache_entry e = small_entry();
    och_strbuf text = {0};
    char key[OCH_JIT_KEY_BYTES], path[600];
    assert_ok(och_cache_list(c, seen, &text, &t, &err), err); /* no folder yet, and none is made */
    assert_int_equal(t.entries, 0);
    assert_int_not_equal(access(at("cache"), F_OK), 0);
    for (int i = 0; i < 3; i++) {
        key_number(i, key);
        e.specialisation = i == 0 ? "A=0" : i == 1 ? "A=1" : "A=2";
        put_entry(c, key, &e);
        nanosleep(&(struct timespec){0, 15000000}, NULL);
    }
    assert_ok(och_cache_list(c, seen, &text, &t, &err), err);
    assert_string_equal(och_strbuf_str(&text), "k? A=2;k? A=1;k? A=0;");
    assert_int_equal(t.entries, 3);
    assert_int_equal(t.corrupt, 0);
    key_number(1, key);
    snprintf(path, sizeof path, "%s/v1/%s/record", at("cache"), key);
    write_text(path, "recorD");
    /* what a killed builder leaves, and what is not the cache's */
    snprintf(path, sizeof path, "%s/v1/tmp/%s.77.0", at("cache"), key);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/v1/tmp/%s.77.0/code", at("cache"), key);
    write_text(path, "half");
    snprintf(path, sizeof path, "%s/v1/locks/%s", at("cache"), key);
    write_text(path, "");
    snprintf(path, sizeof path, "%s/v1/notes.txt", at("cache"));
    write_text(path, "mine");
    och_strbuf_clear(&text);
    assert_ok(och_cache_list(c, NULL, NULL, &t, &err), err);
    assert_int_equal(t.corrupt, 1);
    assert_ok(och_cache_verify(c, seen, &text, &t, &err), err);
    assert_int_equal(t.entries, 2);
    assert_int_equal(t.corrupt, 1);
    assert_int_equal(t.leftovers, 1); /* the lock's file went with the broken entry, under its lock */
    assert_has(och_strbuf_str(&text), "broken:");
    assert_has(och_strbuf_str(&text), "the bytes of record");
    assert_ok(och_cache_verify(c, NULL, NULL, &t, &err), err);
    assert_int_equal(t.entries, 2);
    assert_int_equal(t.corrupt + t.leftovers, 0);
    /* one that is being built stays */
    int lock;
    key_number(0, key);
    assert_ok(och_cache_lock(c, key, "a test", NULL, &lock, &err), err);
    assert_ok(och_cache_clear(c, &t, &err), err);
    assert_int_equal(t.entries, 1);
    och_cache_unlock(c, key, lock);
    assert_ok(och_cache_clear(c, &t, &err), err);
    assert_int_equal(t.entries, 1);
    assert_ok(och_cache_list(c, NULL, NULL, &t, &err), err);
    assert_int_equal(t.entries, 0);
    assert_int_equal(access(path, F_OK), 0);
    och_strbuf_deinit(&text);
    och_cache_close(c);
}

/* ---- folders that do not take part ---- */

static void without_a_cache(void **s) {
    (void)s;
    fresh();
    const char *compiler = make_good_compiler();
    och_jit_request q = good_request();
    och_err e = {0};
    och_jit_artifact *a;
    write_text(at("file"), "");
    static const char *const places[] = {"/proc/ochre", "/dev/full/cache", NULL};
    for (int i = 0; i < 3; i++) {
        const char *place = places[i] ? places[i] : at("file"); /* no folder can be made there, whoever asks */
        setenv("OCHRE_CACHE_DIR", place, 1);
        start_listening();
        och_jit *jit = open_jit(compiler);
        for (int k = 0; k < 3; k++) {
            q.text = k == 2 ? "new text\n" : "the text\n";
            assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
            assert_int_equal(a->origin, OCH_JIT_FROM_COMPILER);
            assert_string_equal(a->place, "");
            assert_good(a);
            och_jit_artifact_destroy(a);
        }
        och_jit_destroy(jit);
        if (n_warnings != 1) fail_msg("%s: expected one warning, found %d: %s", place, n_warnings, och_strbuf_str(&said));
        assert_said("compiled kernels are not kept");
        stop_listening();
    }
    setenv("OCHRE_CACHE_DIR", at("cache"), 1);
    /* asked for without one: not a word */
    start_listening();
    och_jit *jit;
    assert_ok(och_jit_create(&(och_jit_options){.compiler = compiler, .only_these_packs = true, .no_cache = true}, &jit, &e), e);
    assert_ok(och_jit_get(jit, &q, &a, NULL, &e), e);
    och_jit_artifact_destroy(a);
    och_jit_destroy(jit);
    assert_int_equal(n_warnings, 0);
    stop_listening();
    assert_int_not_equal(access(at("cache"), F_OK), 0);
}

static void where_it_is(void **s) {
    (void)s;
    och_cache *c;
    och_err e = {0};
    unsetenv("OCHRE_CACHE_DIR");
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    setenv("HOME", "/home-folder", 1);
    assert_ok(och_cache_open(NULL, 0, &c, &e), e);
    assert_string_equal(och_cache_dir(c), "/xdg/ochre");
    och_cache_close(c);
    unsetenv("XDG_CACHE_HOME");
    assert_ok(och_cache_open(NULL, 0, &c, &e), e);
    assert_string_equal(och_cache_dir(c), "/home-folder/.cache/ochre");
    och_cache_close(c);
    assert_ok(och_cache_open("given", 0, &c, &e), e);
    assert_string_equal(och_cache_dir(c), "given");
    och_cache_close(c);
    unsetenv("HOME");
    assert_int_equal(och_cache_open(NULL, 0, &c, &e), OCH_NOTFOUND);
    assert_has(e.message, "OCHRE_CACHE_DIR");
    setenv("HOME", at("home"), 1);
    setenv("OCHRE_CACHE_DIR", at("cache"), 1);
}

/* ---- many at once ---- */

/* A child that asks once; its status says how that went. */
static pid_t ask_in_a_process(const char *compiler, int start_fd) {
    pid_t pid = fork();
    if (pid) return pid;
    char go;
    if (start_fd >= 0) (void)!read(start_fd, &go, 1);
    och_jit *jit;
    och_jit_artifact *a = NULL;
    och_jit_request q = good_request();
    och_err e = {0};
    bool ok = och_jit_create(&(och_jit_options){.compiler = compiler, .only_these_packs = true}, &jit, &e) == OCH_OK &&
              och_jit_get(jit, &q, &a, NULL, &e) == OCH_OK && a->record_bytes == 7 && a->code_bytes > 1000;
    if (!ok) fprintf(stderr, "%s\n", e.message);
    _exit(ok ? 0 : 1);
}

static const char *make_slow_compiler(const char *seconds) {
    char body[1024];
    snprintf(body, sizeof body, "cat > /dev/null; echo run >> %s; sleep %s; cat %s", at("runs"), seconds, GOOD_OBJECT);
    return make_compiler("clang", "22.1.0", body);
}

static void sixteen_processes_compile_once(void **s) {
    (void)s;
    const char *compiler = make_slow_compiler("0.4");
    for (int round = 0; round < 3; round++) {
        fresh();
        int start[2];
        pid_t pids[16];
        assert_int_equal(pipe(start), 0);
        for (int i = 0; i < 16; i++) pids[i] = ask_in_a_process(compiler, start[0]);
        assert_int_equal(write(start[1], "0123456789abcdef", 16), 16);
        for (int i = 0; i < 16; i++) {
            int status;
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_int_equal(status, 0);
        }
        close(start[0]), close(start[1]);
        assert_int_equal(count_runs(), 1);
    }
}

typedef struct asker {
    och_jit *jit;
    pthread_t thread;
    bool ok;
} asker;

static void *ask(void *arg) {
    asker *me = arg;
    och_jit_request q = good_request();
    och_jit_artifact *a = NULL;
    me->ok = och_jit_get(me->jit, &q, &a, NULL, NULL) == OCH_OK && a->record_bytes == 7;
    och_jit_artifact_destroy(a);
    return NULL;
}

static void sixteen_threads_compile_once(void **s) {
    (void)s;
    fresh();
    och_jit *jit = open_jit(make_slow_compiler("0.3"));
    asker askers[16];
    for (int i = 0; i < 16; i++) {
        askers[i] = (asker){.jit = jit};
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < 16; i++) pthread_join(askers[i].thread, NULL);
    for (int i = 0; i < 16; i++) assert_true(askers[i].ok);
    assert_int_equal(count_runs(), 1);
    och_jit_counts counts;
    och_jit_get_counts(jit, &counts);
    assert_int_equal(counts.compiled, 1);
    assert_int_equal(counts.from_cache, 15);
    och_jit_destroy(jit);
}

/* One that waits for another's compilation can be told to stop. */
static void waiting_can_be_cancelled(void **s) {
    (void)s;
    fresh();
    make_good_compiler();
    och_cache *c = open_cache(0);
    och_err e = {0};
    och_jit_request q = good_request();
    och_jit_job job;
    och_compilers *compilers;
    const och_candidate *compiler;
    char key[OCH_JIT_KEY_BYTES];
    int lock, other;
    assert_ok(och_jit_job_init(&q, &job, &e), e);
    assert_ok(och_compilers_create(at("clang"), NULL, &compilers, &e), e);
    assert_ok(och_compilers_pick(compilers, &job, &compiler, &e), e);
    assert_ok(och_jit_key_of(&job, compiler, key, &e), e);
    assert_ok(och_cache_lock(c, key, "a test", NULL, &lock, &e), e);
    atomic_bool cancel;
    atomic_init(&cancel, true);
    assert_int_equal(och_cache_lock(c, key, "a test", &cancel, &other, &e), OCH_CANCELLED);
    assert_has(e.message, "while another process compiled it");
    och_cache_unlock(c, key, lock);
    /* the file of a lock that is free goes, and is made anew */
    och_err_clear(&e);
    assert_ok(och_cache_lock(c, key, "a test", &cancel, &other, &e), e);
    och_cache_unlock(c, key, other);
    och_compilers_destroy(compilers);
    och_cache_close(c);
}

/* ---- killed at any moment ---- */

/* Children that ask, each killed a little later than the one before. */
static void after_each_delay(const char *compiler, long step_ns, int steps, int *out_killed, int *out_done) {
    *out_killed = *out_done = 0;
    for (int i = 0; i < steps; i++) {
        if (i % 4 == 0) fresh();
        pid_t pid = ask_in_a_process(compiler, -1);
        nanosleep(&(struct timespec){0, (long)i * step_ns}, NULL);
        kill(pid, SIGKILL);
        int status;
        waitpid(pid, &status, 0);
        *(WIFSIGNALED(status) ? out_killed : out_done) += 1;
        och_cache *c = open_cache(0);
        och_cache_totals t;
        och_err e = {0};
        assert_ok(och_cache_verify(c, NULL, NULL, &t, &e), e);
        if (t.corrupt) fail_msg("killed after %ld us: the cache does not verify", i * step_ns / 1000);
        assert_ok(och_cache_verify(c, NULL, NULL, &t, &e), e);
        assert_int_equal(t.corrupt + t.leftovers, 0);
        och_cache_close(c);
    }
    /* and whoever asks next gets it */
    int status;
    assert_int_equal(waitpid(ask_in_a_process(compiler, -1), &status, 0) > 0, 1);
    assert_int_equal(status, 0);
}

static void killed_at_any_moment(void **s) {
    (void)s;
    const char *compiler = make_good_compiler();
    /* how long one takes, without anyone being killed */
    fresh();
    double began = och_now_seconds();
    int status;
    waitpid(ask_in_a_process(compiler, -1), &status, 0);
    assert_int_equal(status, 0);
    double whole = och_now_seconds() - began;
    int killed = 0, done;
    for (int i = 0; i < 5 && killed < 10; i++, whole /= 2) { /* the first may have been a slow one */
        after_each_delay(compiler, (long)(whole * 1.3e9 / 60), 60, &killed, &done);
        printf("%d killed, %d done before that\n", killed, done);
    }
    assert_true(killed >= 10);
}

/* A child that stores one entry and is killed when it is about to make its nth system call. False: it was done before. */
static bool killed_at_call(int n, bool *out_allowed) {
    pid_t pid = fork();
    if (!pid) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(77);
        raise(SIGSTOP);
        och_cache *c = open_cache(0);
        och_cache_entry entry = small_entry();
        char key[OCH_JIT_KEY_BYTES];
        key_number(5, key);
        put_entry(c, key, &entry);
        _exit(0);
    }
    int status, calls = 0;
    bool entering = true;
    *out_allowed = true;
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        if (WSTOPSIG(status) == SIGTRAP && entering && ++calls == n) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return true;
        }
        if (WSTOPSIG(status) == SIGTRAP) entering = !entering;
        if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) != 0) break;
    }
    *out_allowed = !WIFEXITED(status) || WEXITSTATUS(status) != 77;
    if (*out_allowed) assert_int_equal(status, 0);
    return false;
}

static void killed_before_each_system_call(void **s) {
    (void)s;
    och_cache *c = open_cache(0);
    och_err e = {0};
    och_cache_totals t;
    och_cache_entry entry = small_entry(), got;
    char key[OCH_JIT_KEY_BYTES];
    key_number(5, key);
    bool killed = true, allowed;
    int n = 0, whole = 0, left = 0;
    while (killed) {
        fresh();
        killed = killed_at_call(++n, &allowed);
        if (!allowed) skip();
        och_status st = och_cache_load(c, key, &got, &e);
        assert_true(st == OCH_OK || st == OCH_NOTFOUND);
        och_err_clear(&e);
        whole += st == OCH_OK;
        och_cache_entry_deinit(&got);
        assert_ok(och_cache_verify(c, NULL, NULL, &t, &e), e);
        assert_int_equal(t.corrupt, 0);
        assert_int_equal(t.entries, st == OCH_OK);
        left += t.leftovers > 0;
        put_entry(c, key, &entry);
        assert_ok(och_cache_load(c, key, &got, &e), e);
        och_cache_entry_deinit(&got);
    }
    printf("%d system calls; killed before the %d last of them the entry is whole; %d times something was left to sweep\n", n - 1, whole - 1, left);
    assert_true(n > 30 && whole > 1 && whole < n && left > 10);
    och_cache_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_changes_the_key),
        cmocka_unit_test(each_input_changes_the_key),
        cmocka_unit_test(compiled_then_cached),
        cmocka_unit_test(each_flipped_bit_is_detected),
        cmocka_unit_test(a_corrupt_entry_is_made_again),
        cmocka_unit_test(limits_and_the_least_recently_used),
        cmocka_unit_test(list_verify_clear),
        cmocka_unit_test(without_a_cache),
        cmocka_unit_test(where_it_is),
        cmocka_unit_test(sixteen_processes_compile_once),
        cmocka_unit_test(sixteen_threads_compile_once),
        cmocka_unit_test(waiting_can_be_cancelled),
        cmocka_unit_test(killed_at_any_moment),
        cmocka_unit_test(killed_before_each_system_call),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
