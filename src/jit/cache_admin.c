/* The cache as a whole: listing, checking, emptying, and keeping it below its limit. */
#include "jit/cache_priv.h"

#include "base/alloc.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STORES_TO_LOOK 64

typedef struct found {
    char key[OCH_JIT_KEY_BYTES];
    uint64_t bytes;
    struct timespec used;
} found;

typedef struct found_list {
    found *items; /* owned */
    size_t n, capacity;
} found_list;

static int last_used_first(const void *a, const void *b) {
    const found *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? 1 : -1;
    if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? 1 : -1;
    return strcmp(x->key, y->key);
}

/* Sizes and times, without reading. An entry that goes meanwhile is left out. */
static void measure(int root, found *f) {
    struct stat sb;
    f->bytes = 0;
    f->used = (struct timespec){0};
    int dir = openat(root, f->key, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = dir >= 0 ? fdopendir(dir) : NULL;
    if (!d && dir >= 0) close(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (fstatat(dirfd(d), e->d_name, &sb, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(sb.st_mode)) continue;
        f->bytes += (uint64_t)sb.st_size;
        if (!strcmp(e->d_name, "committed")) f->used = sb.st_mtim;
    }
    if (d) closedir(d);
}

static och_status find_entries(const och_cache *c, found_list *out, och_err *err) {
    memset(out, 0, sizeof *out);
    DIR *d = opendir(c->root);
    if (!d && errno == ENOENT) return OCH_OK;
    if (!d) return och_err_set_native(err, OCH_IO, errno, "%s: %s", c->root, strerror(errno));
    och_status st = OCH_OK;
    for (struct dirent *e; st == OCH_OK && (e = readdir(d));) {
        if (!och_cache_is_key(e->d_name)) continue;
        if (out->n == out->capacity) {
            size_t capacity = out->capacity ? 2 * out->capacity : 64;
            found *items = och_realloc_array(out->items, capacity, sizeof *items);
            if (!items) {
                st = och_err_nomem(err, capacity * sizeof *items, "the list of cache entries");
                break;
            }
            out->items = items;
            out->capacity = capacity;
        }
        found *f = &out->items[out->n++];
        memcpy(f->key, e->d_name, sizeof f->key);
        measure(dirfd(d), f);
    }
    closedir(d);
    if (st != OCH_OK) {
        och_free(out->items);
        memset(out, 0, sizeof *out);
    }
    if (out->n) qsort(out->items, out->n, sizeof *out->items, last_used_first);
    return st;
}

/* Takes an entry away unless somebody is at it. */
static bool take_away(och_cache *c, const char *key) {
    int lock;
    if (och_cache_try_lock(c, key, &lock, NULL) != OCH_OK) return false;
    bool ok = och_cache_discard(c, key, NULL) == OCH_OK;
    och_cache_unlock(c, key, lock);
    return ok;
}

/* What was left in `sub` by those who were killed: its key's lock can be taken. Returns how many. */
static uint64_t sweep(och_cache *c, const char *sub) {
    char *folder = och_cache_join(c, sub, NULL);
    DIR *d = folder ? opendir(folder) : NULL;
    uint64_t n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char key[OCH_JIT_KEY_BYTES] = "";
        memcpy(key, e->d_name, strnlen(e->d_name, sizeof key - 1));
        int lock;
        if (!och_cache_is_key(key) || och_cache_try_lock(c, key, &lock, NULL) != OCH_OK) continue;
        char *path = och_cache_join(c, sub, e->d_name);
        if (path && !strcmp(sub, "tmp") && unlink(path) != 0) och_cache_remove_dir(path);
        och_free(path);
        n++;
        och_cache_unlock(c, key, lock); /* which removes the lock's file */
    }
    if (d) closedir(d);
    och_free(folder);
    return n;
}

static och_status walk(och_cache *c, och_cache_item_fn fn, void *ctx, bool repair, och_cache_totals *t, och_err *err) {
    memset(t, 0, sizeof *t);
    found_list list;
    OCH_TRY(find_entries(c, &list, err));
    och_status st = OCH_OK;
    for (size_t i = 0; i < list.n && st == OCH_OK; i++) {
        const found *f = &list.items[i];
        och_cache_entry entry;
        och_err why = {0};
        och_status read = och_cache_read(c, f->key, &entry, &why);
        if (read == OCH_NOTFOUND) continue;
        if (read == OCH_NOMEM) {
            st = och_err_set(err, read, "%s", why.message);
            continue;
        }
        och_cache_item item = {f->key, f->bytes, f->used.tv_sec, read == OCH_OK ? &entry : NULL,
                               read == OCH_OK ? NULL : why.message};
        t->entries += read == OCH_OK;
        t->corrupt += read != OCH_OK;
        t->bytes += read == OCH_OK ? f->bytes : 0;
        if (fn) fn(ctx, &item);
        if (read == OCH_OK) och_cache_entry_deinit(&entry);
        else if (repair && read == OCH_CORRUPT) (void)take_away(c, f->key);
    }
    och_free(list.items);
    if (repair && st == OCH_OK) t->leftovers = sweep(c, "tmp") + sweep(c, "locks");
    return st;
}

och_status och_cache_list(och_cache *c, och_cache_item_fn fn, void *ctx, och_cache_totals *out_totals, och_err *err) {
    return walk(c, fn, ctx, false, out_totals, err);
}

och_status och_cache_verify(och_cache *c, och_cache_item_fn fn, void *ctx, och_cache_totals *out_totals, och_err *err) {
    return walk(c, fn, ctx, true, out_totals, err);
}

och_status och_cache_clear(och_cache *c, och_cache_totals *t, och_err *err) {
    memset(t, 0, sizeof *t);
    found_list list;
    OCH_TRY(find_entries(c, &list, err));
    for (size_t i = 0; i < list.n; i++) {
        if (!take_away(c, list.items[i].key)) continue;
        t->entries++;
        t->bytes += list.items[i].bytes;
    }
    och_free(list.items);
    t->leftovers = sweep(c, "tmp") + sweep(c, "locks");
    pthread_mutex_lock(&c->lock);
    c->known_bytes = 0;
    c->stores_to_look = 0;
    pthread_mutex_unlock(&c->lock);
    return OCH_OK;
}

/* The folder is looked at when the limit may have been passed, and now and then, since other processes store too. */
void och_cache_evict(och_cache *c, const char *kept_key, uint64_t stored_bytes) {
    pthread_mutex_lock(&c->lock);
    c->known_bytes += stored_bytes;
    bool look = !c->stores_to_look || c->known_bytes > c->limit_bytes;
    c->stores_to_look = look ? STORES_TO_LOOK : c->stores_to_look - 1;
    found_list list;
    if (look && find_entries(c, &list, NULL) == OCH_OK) {
        uint64_t total = 0, gone = 0;
        for (size_t i = 0; i < list.n; i++) total += list.items[i].bytes;
        /* a tenth more than needed goes, so that not every store from now on has to look */
        uint64_t goal = total > c->limit_bytes ? c->limit_bytes - c->limit_bytes / 10 : total;
        for (size_t i = list.n; i-- > 0 && total > goal;) {
            if (!strcmp(list.items[i].key, kept_key) || !take_away(c, list.items[i].key)) continue;
            total -= list.items[i].bytes;
            gone++;
        }
        if (gone) (void)sweep(c, "tmp");
        if (gone)
            och_log(OCH_LOG_INFO, "%s: %llu entries went, the least recently used, to keep below %llu bytes", c->dir,
                    (unsigned long long)gone, (unsigned long long)c->limit_bytes);
        c->known_bytes = total;
        och_free(list.items);
    }
    pthread_mutex_unlock(&c->lock);
}
