#include "base/arena.h"

#include "base/alloc.h"
#include "base/size.h"

#include <string.h>

struct och_arena_chunk {
    och_arena_chunk *next;
    size_t used, capacity;
    _Alignas(16) unsigned char data[];
};

void och_arena_init(och_arena *a) { a->head = NULL; }

void och_arena_deinit(och_arena *a) {
    for (och_arena_chunk *c = a->head; c;) {
        och_arena_chunk *next = c->next;
        och_free(c);
        c = next;
    }
    a->head = NULL;
}

void *och_arena_alloc(och_arena *a, size_t count, size_t size_bytes) {
    uint64_t bytes;
    if (!och_u64_mul(count, size_bytes, &bytes) || !och_u64_align(bytes ? bytes : 1, 16, &bytes)) return NULL;
    if (!a->head || a->head->capacity - a->head->used < bytes) {
        size_t capacity = OCH_MAX((size_t)bytes, (size_t)64 * 1024 - sizeof(och_arena_chunk));
        if (bytes > SIZE_MAX - sizeof(och_arena_chunk)) return NULL;
        och_arena_chunk *c = och_malloc(sizeof *c + capacity);
        if (!c) return NULL;
        c->used = 0;
        c->capacity = capacity;
        c->next = a->head;
        a->head = c;
    }
    void *p = a->head->data + a->head->used;
    a->head->used += (size_t)bytes;
    memset(p, 0, (size_t)bytes);
    return p;
}

char *och_arena_strndup(och_arena *a, const char *s, size_t n_bytes) {
    char *p = n_bytes < SIZE_MAX ? och_arena_alloc(a, n_bytes + 1, 1) : NULL;
    if (p && n_bytes) memcpy(p, s, n_bytes);
    return p;
}
