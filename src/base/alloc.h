/* The host allocator. Everything that Ochre allocates on the host goes through here, so that the fault tests can make
 * the nth allocation fail, and so that memory can be accounted for. malloc and friends are called nowhere else. */
#ifndef OCH_BASE_ALLOC_H
#define OCH_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* NULL when the system, or the fault plan, refuses. A size of 0 gives a unique pointer. */
void *och_malloc(size_t size_bytes);
void *och_calloc(size_t count, size_t size_bytes); /* overflow-checked, zeroed */
void *och_malloc_array(size_t count, size_t size_bytes);
void *och_realloc(void *p, size_t size_bytes);
void *och_realloc_array(void *p, size_t count, size_t size_bytes);
char *och_strdup(const char *s);
char *och_strndup(const char *s, size_t n_bytes);
void och_free(void *p);

/* `align` is a power of two of at least 64; release with och_free_aligned. Counted in the fault plan too. */
void *och_malloc_aligned(size_t size_bytes, size_t align);
void och_free_aligned(void *p);

/* Zeroed pages of their own, aligned to `align` (a power of two), returned to the system when unmapped; untouched pages
 * cost nothing. Counted in the fault plan too. och_unmap takes the size that was asked for; NULL is allowed. */
void *och_map(size_t size_bytes, size_t align);
void och_unmap(void *p, size_t size_bytes);

/* Fault plan for tests: the allocation number n from now (1 = the next) fails, and only that one; 0 switches it off. */
void och_alloc_fail_at(uint64_t n);
/* Allocations counted since the plan was last set; live = allocations not yet released. */
uint64_t och_alloc_count(void);
int64_t och_alloc_live(void);

#endif
