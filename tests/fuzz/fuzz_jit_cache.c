/* The files of a cache entry, each of any content: it is read whole or refused, and what it gives is inside what was
 * read. In half of the runs hashes and sizes are made right first, so that what they guard is reached too. Input: the
 * manifest, then a 0xff byte and code, record and log, each before a 0xff byte. */
#include "base/alloc.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "jit/cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok) {
    if (!ok) abort();
}

static const char key[] = "0123456789abcdef0123456789abcdef";
static char folder[64], entry[160];

static void write_part(const char *name, const void *bytes, size_t n) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", entry, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    check(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && close(fd) == 0);
}

static void make_folder(void) {
    char path[128];
    snprintf(folder, sizeof folder, "%s/och-fuzz-cache-%ld", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
             (long)getpid());
    snprintf(path, sizeof path, "%s/v%d", folder, OCH_JIT_FORMAT);
    snprintf(entry, sizeof entry, "%s/%s", path, key);
    check(mkdir(folder, 0700) == 0 && mkdir(path, 0700) == 0 && mkdir(entry, 0700) == 0);
}

static void remove_folder(void) {
    static const char *const names[] = {"manifest", "committed", "code", "record", "log"};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", entry, names[i]);
        unlink(path);
    }
    rmdir(entry);
    snprintf(path, sizeof path, "%s/v%d", folder, OCH_JIT_FORMAT);
    rmdir(path);
    rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"manifest", "code", "record", "log"};
    const uint8_t *parts[4];
    size_t sizes[4];
    if (!folder[0]) {
        make_folder();
        atexit(remove_folder);
    }
    bool right = size && data[size - 1] & 1;
    size -= size > 0;
    for (int i = 0; i < 4; i++) {
        const uint8_t *end = i < 3 && size ? memchr(data, 0xff, size) : NULL;
        parts[i] = data;
        sizes[i] = end ? (size_t)(end - data) : size;
        data += sizes[i] + (end != NULL), size -= sizes[i] + (end != NULL);
    }
    och_strbuf manifest = {0};
    och_strbuf_append(&manifest, parts[0], sizes[0]);
    char hex[OCH_HASH_HEX_BYTES];
    if (right)
        for (int i = 1; i < 4; i++) {
            och_hash_hex(och_hash_bytes(parts[i], sizes[i]), hex);
            och_strbuf_printf(&manifest, "%s %zu %s\n", names[i], sizes[i], hex);
        }
    const char *text = och_strbuf_str(&manifest);
    och_hash_hex(och_hash_bytes(text, manifest.size), hex);
    hex[sizeof hex - 1] = '\n';
    write_part("committed", hex, sizeof hex);
    write_part("manifest", text, manifest.size);
    for (int i = 1; i < 4; i++) write_part(names[i], parts[i], sizes[i]);
    int64_t live = och_alloc_live();
    och_cache *c;
    och_cache_entry e;
    och_err err = {0};
    check(och_cache_open(folder, 1 << 20, &c, &err) == OCH_OK);
    och_status st = och_cache_load(c, key, &e, &err);
    check(st == err.status && (st == OCH_OK || (st == OCH_CORRUPT && err.message[0] && !e.owned)));
    if (st == OCH_OK) {
        check(e.code_bytes == sizes[1] && !memcmp(e.code, parts[1], sizes[1]) && !e.code[e.code_bytes]);
        check(e.record_bytes == sizes[2] && !memcmp(e.record, parts[2], sizes[2]));
        check(strlen(e.log) <= sizes[3] && e.wave_size >= 0 && e.wave_size <= 64);
        check(strlen(e.kernel) + strlen(e.specialisation) + strlen(e.target) + strlen(e.compiler) < manifest.size);
        och_cache_entry_deinit(&e);
    }
    och_cache_close(c);
    check(och_alloc_live() + 0 == live);
    och_strbuf_deinit(&manifest);
    return 0;
}
