/* A bump allocator: many small objects of one lifetime, freed together. */
#ifndef OCH_BASE_ARENA_H
#define OCH_BASE_ARENA_H

#include <stddef.h>

typedef struct och_arena_chunk och_arena_chunk;
typedef struct och_arena {
    och_arena_chunk *head; /* owned */
} och_arena;

void och_arena_init(och_arena *a);
void och_arena_deinit(och_arena *a);
/* Zeroed, aligned to 16 bytes; NULL when memory is refused or count * size overflows. */
void *och_arena_alloc(och_arena *a, size_t count, size_t size_bytes);
char *och_arena_strndup(och_arena *a, const char *s, size_t n_bytes);

#endif
