/* An index of names: insertion reports duplicates, look-up is O(1). Names are borrowed and must outlive the index. */
#ifndef OCH_FILE_NAMES_H
#define OCH_FILE_NAMES_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct och_name_slot {
    const char *name; /* NULL: free */
    uint32_t id;
} och_name_slot;

typedef struct och_name_index {
    och_name_slot *slots; /* owned */
    uint64_t n_slots;     /* 0 or a power of two */
    uint64_t count;
    uint64_t seed; /* per index and random, so that no file can be made whose names all collide */
} och_name_index;

void och_name_index_init(och_name_index *ix);
void och_name_index_deinit(och_name_index *ix);
/* *out_is_new is false when the name was there already; the index then is unchanged. */
och_status och_name_index_add(och_name_index *ix, const char *name, uint32_t id, bool *out_is_new, och_err *err)
    OCH_WARN_UNUSED;
bool och_name_index_find(const och_name_index *ix, const char *name, uint32_t *out_id);

/* A name from a file, made fit for a message: at most 80 bytes, control characters as '?'. Returns buf. */
#define OCH_NAME_SHOW_BYTES 96
const char *och_name_show(char buf[OCH_NAME_SHOW_BYTES], const char *name, size_t n_bytes);

#endif
