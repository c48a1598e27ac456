#include "file/names.h"

#include "base/alloc.h"

#include <string.h>
#include <sys/random.h>

/* FNV-1a from a secret start, and a last mix since slots are taken from the low bits. */
static uint64_t hash(const och_name_index *ix, const char *name) {
    uint64_t h = ix->seed;
    for (const unsigned char *p = (const unsigned char *)name; *p; p++) h = (h ^ *p) * UINT64_C(0x100000001b3);
    h ^= h >> 32;
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

void och_name_index_init(och_name_index *ix) {
    *ix = (och_name_index){0};
    if (getrandom(&ix->seed, sizeof ix->seed, GRND_NONBLOCK) != sizeof ix->seed)
        ix->seed = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)(uintptr_t)ix;
}

void och_name_index_deinit(och_name_index *ix) {
    och_free(ix->slots);
    ix->slots = NULL;
    ix->n_slots = ix->count = 0;
}

/* The slot of name, or the free one where it would go. */
static och_name_slot *slot_of(const och_name_index *ix, const char *name) {
    uint64_t mask = ix->n_slots - 1;
    for (uint64_t i = hash(ix, name) & mask;; i = (i + 1) & mask) {
        och_name_slot *s = &ix->slots[i];
        if (!s->name || !strcmp(s->name, name)) return s;
    }
}

static och_status grow(och_name_index *ix, och_err *err) {
    och_name_index wider = *ix;
    wider.n_slots = ix->n_slots ? ix->n_slots * 2 : 64;
    wider.slots = och_calloc(wider.n_slots, sizeof *wider.slots);
    if (!wider.slots) return och_err_nomem(err, wider.n_slots * sizeof *wider.slots, "an index of names");
    for (uint64_t i = 0; i < ix->n_slots; i++)
        if (ix->slots[i].name) *slot_of(&wider, ix->slots[i].name) = ix->slots[i];
    och_free(ix->slots);
    *ix = wider;
    return OCH_OK;
}

och_status och_name_index_add(och_name_index *ix, const char *name, uint32_t id, bool *out_is_new, och_err *err) {
    *out_is_new = false;
    if (2 * (ix->count + 1) > ix->n_slots) OCH_TRY(grow(ix, err));
    och_name_slot *s = slot_of(ix, name);
    if (s->name) return OCH_OK;
    *s = (och_name_slot){.name = name, .id = id};
    ix->count++;
    *out_is_new = true;
    return OCH_OK;
}

bool och_name_index_find(const och_name_index *ix, const char *name, uint32_t *out_id) {
    *out_id = 0;
    if (!ix->n_slots) return false;
    const och_name_slot *s = slot_of(ix, name);
    if (!s->name) return false;
    *out_id = s->id;
    return true;
}

const char *och_name_show(char buf[OCH_NAME_SHOW_BYTES], const char *name, size_t n_bytes) {
    size_t n = n_bytes > 80 ? 80 : n_bytes;
    for (size_t i = 0; i < n; i++) buf[i] = (unsigned char)name[i] < 0x20 || name[i] == 0x7f ? '?' : name[i];
    strcpy(buf + n, n < n_bytes ? "..." : "");
    return buf;
}
