#include "jit/cache_priv.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/size.h"
#include "base/thread.h"
#include "file/cursor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_BYTES ((uint64_t)1 << 30)
#define MANIFEST_BYTES ((uint64_t)64 << 10)
#define FILE_BYTES ((uint64_t)1 << 30)
#define SCRATCH_BYTES ((uint64_t)64 << 20) /* a builder's files must fit: where the disk is nearly full they go elsewhere */
#define POLL_FIRST_NS 2000000
#define POLL_LAST_NS 50000000
#define NOTE_S 1.0    /* a wait is mentioned after this */
#define WARN_S 30.0   /* and is a warning after this, again and again */

static const char title[] = "ochre kernel 1";
static const char *const files[] = {"code", "record", "log"};

/* ---- where it is ---- */

char *och_cache_join(const och_cache *c, const char *sub, const char *name) {
    och_strbuf b = {0};
    och_strbuf_puts(&b, c->root);
    if (sub) och_strbuf_printf(&b, "/%s", sub);
    if (name) och_strbuf_printf(&b, "/%s", name);
    if (!b.failed) return b.data;
    och_strbuf_deinit(&b);
    return NULL;
}

och_status och_cache_path(const och_cache *c, const char *key, och_strbuf *out, och_err *err) {
    och_strbuf_printf(out, "%s/%s", c->root, key);
    return och_strbuf_status(out, err);
}

const char *och_cache_dir(const och_cache *c) { return c->dir; }

static uint64_t limit_from_environment(void) {
    const char *text = och_env_get(OCH_ENV_OCHRE_CACHE_LIMIT);
    if (!text) return LIMIT_BYTES;
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    int shift = *end == 'K' || *end == 'k' ? 10 : *end == 'M' || *end == 'm' ? 20 : *end == 'G' || *end == 'g' ? 30 : 0;
    if (end == text || *text == '-' || errno || end[shift != 0] || !n || n > UINT64_MAX >> shift) {
        och_log(OCH_LOG_WARN, "OCHRE_CACHE_LIMIT: expected a number of bytes, with K, M or G, found \"%s\"; 1G is used", text);
        return LIMIT_BYTES;
    }
    return (uint64_t)n << shift;
}

och_status och_cache_open(const char *dir, uint64_t limit_bytes, och_cache **out_cache, och_err *err) {
    *out_cache = NULL;
    och_strbuf path = {0};
    const char *base;
    if (dir || (dir = och_env_get(OCH_ENV_OCHRE_CACHE_DIR))) och_strbuf_puts(&path, dir);
    else if ((base = och_env_get(OCH_ENV_XDG_CACHE_HOME))) och_strbuf_printf(&path, "%s/ochre", base);
    else if ((base = och_env_get(OCH_ENV_HOME))) och_strbuf_printf(&path, "%s/.cache/ochre", base);
    else return och_err_set(err, OCH_NOTFOUND, "no folder for a cache: OCHRE_CACHE_DIR, XDG_CACHE_HOME and HOME are not set");
    och_cache *c = och_calloc(1, sizeof *c);
    och_status st = och_strbuf_status(&path, err);
    och_strbuf root = {0};
    och_strbuf_printf(&root, "%s/v%d", och_strbuf_str(&path), OCH_JIT_FORMAT);
    if (st == OCH_OK) st = och_strbuf_status(&root, err);
    if (st == OCH_OK && !c) st = och_err_nomem(err, sizeof *c, "the kernel cache");
    if (st != OCH_OK) {
        och_strbuf_deinit(&path);
        och_strbuf_deinit(&root);
        och_free(c);
        return st;
    }
    c->dir = path.data; /* the buffers' memory becomes the cache's */
    c->root = root.data;
    c->limit_bytes = limit_bytes ? limit_bytes : limit_from_environment();
    pthread_mutex_init(&c->lock, NULL);
    *out_cache = c;
    return OCH_OK;
}

void och_cache_close(och_cache *c) {
    if (!c) return;
    pthread_mutex_destroy(&c->lock);
    och_free(c->dir);
    och_free(c->root);
    och_free(c);
}

bool och_cache_is_key(const char *name) {
    return strlen(name) == OCH_JIT_KEY_BYTES - 1 && strspn(name, "0123456789abcdef") == OCH_JIT_KEY_BYTES - 1;
}

/* ---- reading ---- */

static och_status corrupt(const och_cache *c, const char *key, och_err *err, const char *what) {
    return och_err_set(err, OCH_CORRUPT, "%s/%s: %s", c->root, key, what);
}

/* Reads a whole file of an entry into *out, which has room for `size` bytes; or, with out NULL, gives its size. */
static och_status read_file(const och_cache *c, const char *key, int dir, const char *name, uint8_t *out, uint64_t *size,
                            och_err *err) {
    /* a pipe in a file's place is no reason to wait */
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ELOOP))
        return och_err_set(err, OCH_CORRUPT, "%s/%s: it has no %s", c->root, key, name);
    if (fd < 0) return och_err_set_native(err, OCH_IO, errno, "%s/%s/%s: %s", c->root, key, name, strerror(errno));
    struct stat sb;
    och_status st = OCH_OK;
    if (fstat(fd, &sb) != 0 || !S_ISREG(sb.st_mode)) {
        st = och_err_set(err, OCH_CORRUPT, "%s/%s: %s is not a file", c->root, key, name);
    } else if (!out) {
        *size = (uint64_t)sb.st_size;
    } else if ((uint64_t)sb.st_size != *size) {
        st = och_err_set(err, OCH_CORRUPT, "%s/%s: %s: expected %llu bytes, found %lld", c->root, key, name,
                         (unsigned long long)*size, (long long)sb.st_size);
    } else {
        for (uint64_t at = 0; at < *size && st == OCH_OK;) {
            ssize_t n = read(fd, out + at, (size_t)(*size - at));
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) st = och_err_set_native(err, OCH_IO, errno, "%s/%s/%s: %s", c->root, key, name, strerror(errno));
            else if (!n) st = och_err_set(err, OCH_CORRUPT, "%s/%s: %s ends early", c->root, key, name);
            else at += (uint64_t)n;
        }
    }
    close(fd);
    return st;
}

/* "NAME VALUE\n": gives the value, ended with a NUL in place. */
static bool take_line(char **at, const char *name, const char **out_value) {
    size_t n = strlen(name);
    if (strncmp(*at, name, n) || (*at)[n] != ' ') return false;
    char *value = *at + n + 1, *end = strchr(value, '\n');
    if (!end) return false;
    *end = 0;
    *out_value = value;
    *at = end + 1;
    return true;
}

static bool take_number(char **at, const char *name, uint64_t most, uint64_t *out) {
    const char *value;
    if (!take_line(at, name, &value)) return false;
    size_t n = strspn(value, "0123456789");
    *out = strtoull(value, NULL, 10);
    return n && n < 12 && !value[n] && *out <= most;
}

typedef struct file_line {
    uint64_t size;
    const char *hash;
} file_line;

static bool take_file(char **at, const char *name, file_line *out) {
    const char *value;
    if (!take_line(at, name, &value)) return false;
    size_t n = strspn(value, "0123456789");
    out->size = strtoull(value, NULL, 10);
    out->hash = value + n + 1;
    return n && n < 12 && value[n] == ' ' && out->size <= FILE_BYTES;
}

/* text is changed in place; what the entry points to stays in it. */
static bool parse_manifest(char *text, const char *key, och_cache_entry *e, file_line lines[3]) {
    const char *first = "", *own_key = "";
    uint64_t wave = 0, version = 0, kind = 0;
    char *at = text;
    char *end = strchr(at, '\n');
    if (!end) return false;
    *end = 0;
    first = at;
    at = end + 1;
    bool ok = !strcmp(first, title) && take_line(&at, "key", &own_key) && !strcmp(own_key, key) &&
              take_line(&at, "kernel", &e->kernel) && take_line(&at, "specialisation", &e->specialisation) &&
              take_line(&at, "target", &e->target) && take_line(&at, "compiler", &e->compiler) &&
              take_number(&at, "wave", 64, &wave) && take_number(&at, "version", 6, &version) &&
              take_number(&at, "kind", OCH_JIT_CUBIN, &kind);
    for (int i = 0; i < 3 && ok; i++) ok = take_file(&at, files[i], &lines[i]);
    e->wave_size = (int)wave;
    e->code_object_version = (int)version;
    e->kind = (och_jit_code_kind)kind;
    return ok && !*at;
}

static bool hash_is(const void *bytes, uint64_t n, const char *hex) {
    char found[OCH_HASH_HEX_BYTES];
    och_hash_hex(och_hash_bytes(bytes, (size_t)n), found);
    return !strcmp(found, hex);
}

static och_status read_entry(const och_cache *c, const char *key, int dir, och_cache_entry *e, och_err *err) {
    char mark[OCH_HASH_HEX_BYTES];
    uint64_t size = sizeof mark, manifest_bytes = 0;
    file_line lines[3];
    uint8_t *block = NULL;
    char *manifest = NULL;
    och_status st;
    OCH_TRY_GOTO(read_file(c, key, dir, "committed", (uint8_t *)mark, &size, err));
    OCH_TRY_GOTO(read_file(c, key, dir, "manifest", NULL, &manifest_bytes, err));
    if (manifest_bytes > MANIFEST_BYTES || mark[sizeof mark - 1] != '\n') {
        st = corrupt(c, key, err, "its mark or its manifest is broken");
        goto done;
    }
    mark[sizeof mark - 1] = 0;
    if (!(manifest = och_calloc((size_t)manifest_bytes + 1, 1))) {
        st = och_err_nomem(err, manifest_bytes, "a cache entry");
        goto done;
    }
    OCH_TRY_GOTO(read_file(c, key, dir, "manifest", (uint8_t *)manifest, &manifest_bytes, err));
    if (!hash_is(manifest, manifest_bytes, mark)) {
        st = corrupt(c, key, err, "the manifest is not the one that was committed");
        goto done;
    }
    if (strlen(manifest) != manifest_bytes || !parse_manifest(manifest, key, e, lines)) {
        st = corrupt(c, key, err, "the manifest is not of this version, or of another entry");
        goto done;
    }
    /* one block: code, NUL, record, log, NUL, manifest */
    size_t total = (size_t)(lines[0].size + 1 + lines[1].size + lines[2].size + 1 + manifest_bytes + 1);
    if (!(block = och_malloc(total))) {
        st = och_err_nomem(err, total, "a cache entry");
        goto done;
    }
    uint8_t *parts[3] = {block, block + lines[0].size + 1, block + lines[0].size + 1 + lines[1].size};
    for (int i = 0; i < 3; i++) {
        OCH_TRY_GOTO(read_file(c, key, dir, files[i], parts[i], &lines[i].size, err));
        if (!hash_is(parts[i], lines[i].size, lines[i].hash)) {
            st = och_err_set(err, OCH_CORRUPT, "%s/%s: the bytes of %s are not those that were stored", c->root, key, files[i]);
            goto done;
        }
    }
    block[lines[0].size] = 0;
    parts[2][lines[2].size] = 0;
    char *kept = (char *)parts[2] + lines[2].size + 1;
    memcpy(kept, manifest, (size_t)manifest_bytes + 1);
    const char **strings[] = {&e->kernel, &e->specialisation, &e->target, &e->compiler};
    for (size_t i = 0; i < OCH_COUNT(strings); i++) *strings[i] = kept + (*strings[i] - manifest);
    e->code = parts[0];
    e->code_bytes = (size_t)lines[0].size;
    e->record = parts[1];
    e->record_bytes = (size_t)lines[1].size;
    e->log = (const char *)parts[2];
    e->owned = block;
done:
    och_free(manifest);
    if (st != OCH_OK) {
        och_free(block);
        memset(e, 0, sizeof *e);
    }
    return st;
}

/* Opens an entry's folder; -1 and a status where it is not there. */
static och_status open_entry(const och_cache *c, const char *key, int *out_dir, och_err *err) {
    *out_dir = -1;
    char *path = och_cache_join(c, NULL, key);
    if (!path) return och_err_nomem(err, strlen(c->root) + OCH_JIT_KEY_BYTES, "a path");
    *out_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    och_status st = OCH_OK;
    if (*out_dir < 0) {
        bool none = errno == ENOENT;
        st = och_err_set_native(err,
                                none               ? OCH_NOTFOUND
                                : errno == ENOTDIR ? OCH_CORRUPT
                                                   : OCH_IO,
                                errno, "%s: %s", path, strerror(errno));
    }
    och_free(path);
    return st;
}

och_status och_cache_read(och_cache *c, const char *key, och_cache_entry *e, och_err *err) {
    memset(e, 0, sizeof *e);
    int dir;
    OCH_TRY(open_entry(c, key, &dir, err));
    och_err why = {0};
    och_status st = read_entry(c, key, dir, e, &why);
    struct stat mine, now;
    if (st == OCH_CORRUPT && fstat(dir, &mine) == 0) {
        /* one that is being taken away looks broken for a moment */
        char *path = och_cache_join(c, NULL, key);
        if (path && (stat(path, &now) != 0 || now.st_ino != mine.st_ino)) {
            st = OCH_NOTFOUND;
            why.status = st;
        }
        och_free(path);
    }
    close(dir);
    if (st != OCH_OK) return och_err_set_native(err, st, why.native_code, "%s", why.message);
    return OCH_OK;
}

och_status och_cache_load(och_cache *c, const char *key, och_cache_entry *e, och_err *err) {
    OCH_TRY(och_cache_read(c, key, e, err));
    int dir;
    if (open_entry(c, key, &dir, NULL) == OCH_OK) {
        (void)utimensat(dir, "committed", (const struct timespec[2]){{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}}, 0);
        close(dir);
    }
    return OCH_OK;
}

void och_cache_entry_deinit(och_cache_entry *e) {
    och_free(e->owned);
    memset(e, 0, sizeof *e);
}

/* ---- locks ---- */

/* mkdir -p */
static bool make_folders(const char *path) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return true;
    if (errno != ENOENT) return false;
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return false;
    char *up = och_strndup(path, (size_t)(slash - path));
    bool ok = up && make_folders(up) && (mkdir(path, 0777) == 0 || errno == EEXIST);
    int e = errno;
    och_free(up);
    errno = e;
    return ok;
}

och_status och_cache_try_lock(och_cache *c, const char *key, int *out_lock, och_err *err) {
    *out_lock = -1;
    char *path = och_cache_join(c, "locks", key);
    if (!path) return och_err_nomem(err, strlen(c->root) + OCH_JIT_KEY_BYTES, "a path");
    och_status st = OCH_OK;
    for (int fd = -1;;) {
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (fd < 0 && errno == ENOENT) {
            char *slash = strrchr(path, '/');
            *slash = 0;
            bool made = make_folders(path);
            *slash = '/';
            if (made) fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        }
        if (fd < 0) {
            st = och_err_set_native(err, OCH_IO, errno, "%s: %s", path, strerror(errno));
            break;
        }
        int rc;
        do rc = flock(fd, LOCK_EX | LOCK_NB);
        while (rc != 0 && errno == EINTR);
        if (rc != 0) {
            st = och_err_set_native(err, errno == EWOULDBLOCK ? OCH_UNAVAILABLE : OCH_IO, errno, "%s: %s", path,
                                    strerror(errno));
            close(fd);
            break;
        }
        /* whoever unlocks also unlinks: the file that is locked must still be the one with the name */
        struct stat mine, named;
        if (fstat(fd, &mine) == 0 && stat(path, &named) == 0 && mine.st_ino == named.st_ino && mine.st_dev == named.st_dev) {
            *out_lock = fd;
            break;
        }
        close(fd);
    }
    och_free(path);
    return st;
}

och_status och_cache_lock(och_cache *c, const char *key, const char *label, const atomic_bool *cancel, int *out_lock,
                          och_err *err) {
    long wait_ns = POLL_FIRST_NS;
    double began = och_now_seconds(), said = 0;
    for (;;) {
        och_err why = {0};
        och_status st = och_cache_try_lock(c, key, out_lock, &why);
        if (st == OCH_OK) return OCH_OK;
        if (st != OCH_UNAVAILABLE) return och_err_set_native(err, st, why.native_code, "%s", why.message);
        if (cancel && atomic_load(cancel))
            return och_err_set(err, OCH_CANCELLED, "%s: cancelled while another process compiled it", label);
        double waited = och_now_seconds() - began;
        if (waited >= (said > 0 ? said + WARN_S : NOTE_S)) {
            och_log(waited >= WARN_S ? OCH_LOG_WARN : OCH_LOG_INFO, "%s: another process compiles it; waited %.0f s", label,
                    waited);
            said = waited;
        }
        nanosleep(&(struct timespec){0, wait_ns}, NULL);
        wait_ns = OCH_MIN(wait_ns * 2, POLL_LAST_NS);
    }
}

void och_cache_unlock(och_cache *c, const char *key, int lock) {
    if (lock < 0) return;
    char *path = och_cache_join(c, "locks", key);
    if (path) (void)unlink(path);
    och_free(path);
    close(lock);
}

/* ---- writing ---- */

static och_status write_file(const char *dir_path, int dir, const char *name, const void *bytes, size_t n, och_err *err) {
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool ok = fd >= 0;
    for (const char *p = bytes; ok && n;) {
        ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        ok = done > 0;
        if (ok) p += done, n -= (size_t)done;
    }
    ok = ok && fsync(fd) == 0;
    int e = errno;
    if (fd >= 0 && close(fd) != 0 && ok) ok = false, e = errno;
    return ok ? OCH_OK : och_err_set_native(err, OCH_IO, e, "%s/%s: %s", dir_path, name, strerror(e));
}

static void put_line(och_strbuf *b, const char *name, const char *value) {
    och_strbuf_printf(b, "%s ", name);
    size_t start = b->size;
    och_strbuf_puts(b, value);
    for (size_t i = start; !b->failed && i < b->size; i++)
        if ((unsigned char)b->data[i] < 32) b->data[i] = '?';
    och_strbuf_puts(b, "\n");
}

static void put_manifest(och_strbuf *b, const char *key, const och_cache_entry *e) {
    och_strbuf_printf(b, "%s\n", title);
    put_line(b, "key", key);
    put_line(b, "kernel", e->kernel);
    put_line(b, "specialisation", e->specialisation);
    put_line(b, "target", e->target);
    put_line(b, "compiler", e->compiler);
    och_strbuf_printf(b, "wave %d\nversion %d\nkind %d\n", e->wave_size, e->code_object_version, (int)e->kind);
    const void *bytes[] = {e->code, e->record, e->log};
    const size_t sizes[] = {e->code_bytes, e->record_bytes, strlen(e->log)};
    for (int i = 0; i < 3; i++) {
        char hex[OCH_HASH_HEX_BYTES];
        och_hash_hex(och_hash_bytes(bytes[i], sizes[i]), hex);
        och_strbuf_printf(b, "%s %zu %s\n", files[i], sizes[i], hex);
    }
}

void och_cache_remove_dir(const char *path) {
    DIR *d = opendir(path);
    for (struct dirent *f; d && (f = readdir(d));)
        if (strcmp(f->d_name, ".") && strcmp(f->d_name, "..")) (void)unlinkat(dirfd(d), f->d_name, 0);
    if (d) closedir(d);
    (void)rmdir(path);
}

/* A name in tmp that nobody has had. */
static char *aside(const och_cache *c, const char *key) {
    static atomic_uint serial;
    char name[OCH_JIT_KEY_BYTES + 40];
    snprintf(name, sizeof name, "%s.%ld.%u", key, (long)getpid(), atomic_fetch_add(&serial, 1));
    return och_cache_join(c, "tmp", name);
}

/* What builders of this entry left who were killed: the lock says that none of them is at work. */
static void remove_left(const och_cache *c, const char *key) {
    char *tmp = och_cache_join(c, "tmp", NULL);
    DIR *d = tmp ? opendir(tmp) : NULL;
    for (struct dirent *f; d && (f = readdir(d));) {
        if (strncmp(f->d_name, key, OCH_JIT_KEY_BYTES - 1)) continue;
        char *path = och_cache_join(c, "tmp", f->d_name);
        if (path) och_cache_remove_dir(path);
        och_free(path);
    }
    if (d) closedir(d);
    och_free(tmp);
}

och_status och_cache_scratch(och_cache *c, const char *key, och_strbuf *out, och_err *err) {
    char *tmp = och_cache_join(c, "tmp", NULL), *path = aside(c, key);
    och_status st = OCH_OK;
    if (!tmp || !path) st = och_err_nomem(err, strlen(c->root) + 128, "a path");
    else if (!make_folders(tmp)) st = och_err_set_native(err, OCH_IO, errno, "%s: %s", tmp, strerror(errno));
    struct statvfs room;
    if (st == OCH_OK && statvfs(tmp, &room) == 0 && (uint64_t)room.f_bavail * room.f_frsize < SCRATCH_BYTES)
        st = och_err_set_native(err, OCH_IO, ENOSPC, "%s: %s", tmp, strerror(ENOSPC));
    if (st == OCH_OK) {
        remove_left(c, key);
        if (mkdir(path, 0700) != 0) st = och_err_set_native(err, OCH_IO, errno, "%s: %s", path, strerror(errno));
    }
    if (st == OCH_OK) {
        och_strbuf_puts(out, path);
        st = och_strbuf_status(out, err);
        if (st != OCH_OK) och_cache_remove_dir(path);
    }
    och_free(tmp);
    och_free(path);
    return st;
}

static och_status build(const char *path, const char *key, const och_cache_entry *e, uint64_t *out_bytes, och_err *err) {
    och_strbuf manifest = {0};
    och_status st = OCH_OK;
    int dir = mkdir(path, 0777) == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir < 0) {
        st = och_err_set_native(err, OCH_IO, errno, "%s: %s", path, strerror(errno));
        goto done;
    }
    put_manifest(&manifest, key, e);
    OCH_TRY_GOTO(och_strbuf_status(&manifest, err));
    OCH_TRY_GOTO(write_file(path, dir, files[0], e->code, e->code_bytes, err));
    OCH_TRY_GOTO(write_file(path, dir, files[1], e->record, e->record_bytes, err));
    OCH_TRY_GOTO(write_file(path, dir, files[2], e->log, strlen(e->log), err));
    OCH_TRY_GOTO(write_file(path, dir, "manifest", manifest.data, manifest.size, err));
    char mark[OCH_HASH_HEX_BYTES];
    och_hash_hex(och_hash_bytes(manifest.data, manifest.size), mark);
    mark[sizeof mark - 1] = '\n';
    OCH_TRY_GOTO(write_file(path, dir, "committed", mark, sizeof mark, err));
    if (fsync(dir) != 0 && errno != EINVAL)
        st = och_err_set_native(err, OCH_IO, errno, "%s: %s", path, strerror(errno));
    *out_bytes = e->code_bytes + e->record_bytes + strlen(e->log) + manifest.size + sizeof mark;
done:
    if (dir >= 0) close(dir);
    och_strbuf_deinit(&manifest);
    return st;
}

static void sync_folder(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

och_status och_cache_store(och_cache *c, const char *key, const och_cache_entry *e, och_err *err) {
    char *tmp = och_cache_join(c, "tmp", NULL), *path = aside(c, key), *place = och_cache_join(c, NULL, key);
    och_status st = OCH_OK;
    uint64_t bytes = 0;
    if (!tmp || !path || !place) {
        st = och_err_nomem(err, strlen(c->root) + 128, "a path");
        goto done;
    }
    if (!make_folders(tmp)) {
        st = och_err_set_native(err, OCH_IO, errno, "%s: %s", tmp, strerror(errno));
        goto done;
    }
    remove_left(c, key);
    st = build(path, key, e, &bytes, err);
    if (st != OCH_OK) {
        och_cache_remove_dir(path);
        goto done;
    }
    if (rename(path, place) != 0) {
        /* there already, where locks do not work: both are whole */
        if (errno != EEXIST && errno != ENOTEMPTY)
            st = och_err_set_native(err, OCH_IO, errno, "%s: %s", place, strerror(errno));
        och_cache_remove_dir(path);
        goto done;
    }
    sync_folder(c->root);
    och_cache_evict(c, key, bytes);
done:
    och_free(tmp);
    och_free(path);
    och_free(place);
    return st;
}

och_status och_cache_discard(och_cache *c, const char *key, och_err *err) {
    char *tmp = och_cache_join(c, "tmp", NULL), *path = aside(c, key), *place = och_cache_join(c, NULL, key);
    och_status st = OCH_OK;
    if (!tmp || !path || !place) st = och_err_nomem(err, strlen(c->root) + 128, "a path");
    else if ((!make_folders(tmp) || rename(place, path) != 0) && errno != ENOENT)
        st = och_err_set_native(err, OCH_IO, errno, "%s: %s", place, strerror(errno));
    else if (unlink(path) != 0) och_cache_remove_dir(path); /* something else than a folder may have had its name */
    och_free(tmp);
    och_free(path);
    och_free(place);
    return st;
}
