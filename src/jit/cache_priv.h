/* What cache.c (entries) and cache_admin.c (the whole folder) share. */
#ifndef OCH_JIT_CACHE_PRIV_H
#define OCH_JIT_CACHE_PRIV_H

#include "jit/cache.h"

#include <pthread.h>

struct och_cache {
    char *dir;  /* owned */
    char *root; /* DIR/v1; owned */
    uint64_t limit_bytes;
    pthread_mutex_t lock;    /* of what follows */
    uint64_t known_bytes;    /* all entries, as of the last look at the folder, and what was stored since */
    unsigned stores_to_look; /* stores until the next look: others store too */
};

/* ROOT/sub/name, or ROOT/name where sub is NULL, or ROOT where both are; NULL: no memory. Owned by the caller. */
char *och_cache_join(const och_cache *cache, const char *sub, const char *name);
/* Takes the lock or finds it taken (UNAVAILABLE), without waiting. */
och_status och_cache_try_lock(och_cache *cache, const char *key, int *out_lock, och_err *err) OCH_WARN_UNUSED;
/* Reads without marking the entry as used. */
och_status och_cache_read(och_cache *cache, const char *key, och_cache_entry *out_entry, och_err *err) OCH_WARN_UNUSED;
/* Removes a folder of files; best effort. */
void och_cache_remove_dir(const char *path);
/* Makes room for what was just stored. Best effort. */
void och_cache_evict(och_cache *cache, const char *kept_key, uint64_t stored_bytes);
bool och_cache_is_key(const char *name);

#endif
