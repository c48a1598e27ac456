/* Compiled kernels on disk, shared by processes.
 *
 *   DIR/v1/KEY/            an entry: code, record, log, manifest (what it is, with the size and hash of each), and the mark
 *                          "committed", which has the manifest's hash
 *   DIR/v1/tmp/KEY.PID.N   an entry being built, or on its way out
 *   DIR/v1/locks/KEY       held by whoever builds an entry or takes one away; it dies with its holder
 *
 * An entry is built aside, synced, marked, and renamed to its place, so that it is there whole or not at all; reading takes no
 * lock. Every byte is under a hash: a changed one is CORRUPT. A folder that cannot be written serves what it has. */
#ifndef OCH_JIT_CACHE_H
#define OCH_JIT_CACHE_H

#include "jit/key.h"

typedef struct och_cache och_cache;

typedef struct och_cache_entry {
    const uint8_t *code; /* a NUL follows it */
    size_t code_bytes;
    const uint8_t *record;
    size_t record_bytes;
    const char *log;
    och_jit_code_kind kind;
    int wave_size, code_object_version;
    const char *kernel, *specialisation, *target, *compiler;
    void *owned; /* what the pointers point into, of an entry that was read; NULL of one that is to be stored */
} och_cache_entry;

/* `dir` NULL: OCHRE_CACHE_DIR, XDG_CACHE_HOME/ochre, HOME/.cache/ochre; NOTFOUND where none of them is set. limit_bytes 0:
 * OCHRE_CACHE_LIMIT or 1 GiB. Touches nothing. */
och_status och_cache_open(const char *dir, uint64_t limit_bytes, och_cache **out_cache, och_err *err) OCH_WARN_UNUSED;
void och_cache_close(och_cache *cache);
const char *och_cache_dir(const och_cache *cache);

/* Reads an entry and marks it as used. NOTFOUND; CORRUPT: a byte is not what it was; IO: it cannot be read. */
och_status och_cache_load(och_cache *cache, const char *key, och_cache_entry *out_entry, och_err *err) OCH_WARN_UNUSED;
void och_cache_entry_deinit(och_cache_entry *entry);

/* Waits until nobody else builds the entry; `label` names it in the notes of a long wait. IO: nothing can be locked here, and
 * nothing stored. CANCELLED. */
och_status och_cache_lock(och_cache *cache, const char *key, const char *label, const atomic_bool *cancel, int *out_lock,
                          och_err *err) OCH_WARN_UNUSED;
void och_cache_unlock(och_cache *cache, const char *key, int lock);

/* Under the lock. Store also makes room: the least recently used entries go until the limit is kept. An entry that is there
 * already stays. */
och_status och_cache_store(och_cache *cache, const char *key, const och_cache_entry *entry, och_err *err) OCH_WARN_UNUSED;
och_status och_cache_discard(och_cache *cache, const char *key, och_err *err) OCH_WARN_UNUSED;

/* Makes an empty folder for what a builder of the entry writes on its way; takes away what earlier ones left who were killed.
 * IO also where the disk is nearly full. Under the lock; its caller removes it with och_cache_remove_dir (cache_priv.h). */
och_status och_cache_scratch(och_cache *cache, const char *key, och_strbuf *out_path, och_err *err) OCH_WARN_UNUSED;

/* The path of an entry. */
och_status och_cache_path(const och_cache *cache, const char *key, och_strbuf *out, och_err *err) OCH_WARN_UNUSED;

/* ---- for `ochre cache` ---- */

typedef struct och_cache_item {
    const char *key;
    uint64_t bytes;
    int64_t used_s;  /* seconds since 1970 of the last use */
    const och_cache_entry *entry; /* NULL: it is not whole, and `problem` says why */
    const char *problem;
} och_cache_item;
typedef void (*och_cache_item_fn)(void *ctx, const och_cache_item *item);

typedef struct och_cache_totals {
    uint64_t entries, bytes, corrupt;
    uint64_t leftovers; /* of builders that were killed; taken away by verify and clear */
} och_cache_totals;

/* Every entry, read and checked, the last used first. fn may be NULL. */
och_status och_cache_list(och_cache *cache, och_cache_item_fn fn, void *ctx, och_cache_totals *out_totals, och_err *err)
    OCH_WARN_UNUSED;
/* The same; corrupt entries and leftovers are taken away. totals.entries counts the whole ones, which stay. */
och_status och_cache_verify(och_cache *cache, och_cache_item_fn fn, void *ctx, och_cache_totals *out_totals, och_err *err)
    OCH_WARN_UNUSED;
/* Takes every entry away but those that are being built. totals: what went. */
och_status och_cache_clear(och_cache *cache, och_cache_totals *out_totals, och_err *err) OCH_WARN_UNUSED;

#endif
