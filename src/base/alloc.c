#include "base/alloc.h"

#include "base/size.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t count;
static _Atomic uint64_t fail_at;
static _Atomic int64_t live;

void och_alloc_fail_at(uint64_t n) {
    atomic_store(&count, 0);
    atomic_store(&fail_at, n);
}

uint64_t och_alloc_count(void) { return atomic_load(&count); }
int64_t och_alloc_live(void) { return atomic_load(&live); }

static int refused(void) {
    uint64_t n = atomic_fetch_add_explicit(&count, 1, memory_order_relaxed) + 1;
    return n == atomic_load_explicit(&fail_at, memory_order_relaxed);
}

static void *counted(void *p) {
    if (p) atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return p;
}

void *och_malloc(size_t size_bytes) { return refused() ? NULL : counted(malloc(size_bytes ? size_bytes : 1)); }

void *och_calloc(size_t n, size_t size_bytes) {
    if (refused()) return NULL;
    return counted(n && size_bytes ? calloc(n, size_bytes) : calloc(1, 1));
}

void *och_malloc_array(size_t n, size_t size_bytes) {
    uint64_t total;
    if (!och_u64_mul(n, size_bytes, &total) || total > SIZE_MAX) return NULL;
    return och_malloc((size_t)total);
}

void *och_realloc(void *p, size_t size_bytes) {
    if (refused()) return NULL;
    void *q = realloc(p, size_bytes ? size_bytes : 1);
    return p ? q : counted(q);
}

void *och_realloc_array(void *p, size_t n, size_t size_bytes) {
    uint64_t total;
    if (!och_u64_mul(n, size_bytes, &total) || total > SIZE_MAX) return NULL;
    return och_realloc(p, (size_t)total);
}

char *och_strndup(const char *s, size_t n_bytes) {
    char *p = n_bytes < SIZE_MAX ? och_malloc(n_bytes + 1) : NULL;
    if (!p) return NULL;
    memcpy(p, s, n_bytes);
    p[n_bytes] = 0;
    return p;
}

char *och_strdup(const char *s) { return och_strndup(s, strlen(s)); }

void och_free(void *p) {
    if (!p) return;
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    free(p);
}

void *och_malloc_aligned(size_t size_bytes, size_t align) {
    uint64_t rounded;
    if (refused() || !och_u64_align(size_bytes ? size_bytes : 1, align, &rounded) || rounded > SIZE_MAX) return NULL;
    return counted(aligned_alloc(align, (size_t)rounded));
}

void och_free_aligned(void *p) { och_free(p); }

void *och_map(size_t size_bytes, size_t align) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size, total;
    align = OCH_MAX(align, (size_t)page);
    if (refused() || !och_u64_align(size_bytes ? size_bytes : 1, page, &size) ||
        !och_u64_add(size, align - page, &total) || total > SIZE_MAX)
        return NULL;
    char *base = mmap(NULL, (size_t)total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    /* mmap aligns to pages only: give back what lies before and behind the aligned part */
    size_t before = (size_t)(-(uintptr_t)base & (align - 1)), behind = (size_t)(total - size) - before;
    if (before) munmap(base, before);
    if (behind) munmap(base + before + size, behind);
    return counted(base + before);
}

void och_unmap(void *p, size_t size_bytes) {
    if (!p) return;
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size;
    if (och_u64_align(size_bytes ? size_bytes : 1, page, &size)) munmap(p, (size_t)size);
}
