/* The address space: one reservation of device addresses. Its lower half is mapped without access; what it means to the
 * device stands in a second mapping, the simulator's own view, a constant distance away. The upper half is readable and
 * writable and serves what the host may dereference. So an allocation costs no mapping of its own, and large ones can have
 * huge pages, which files in memory often cannot.
 *
 * Ranges stand in a snapshot: an immutable sorted list cut into chunks. A change copies one chunk and the list of chunks
 * and publishes the new list. Readers announce themselves in one of two sets of counters and take whatever list is
 * current; a list that was replaced is released once both sets have been seen empty since. */
#include "mem/space.h"

#include "mem/around.h"
#include "mem/space_list.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/tls.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define RESERVE_MAX ((uint64_t)1 << 42)
#define RESERVE_MIN ((uint64_t)1 << 34)
#define HUGE_BYTES ((uint64_t)2 << 20)
/* Freed ranges that stay known; the oldest leaves when there are more, and its addresses may then be used again. */
#define QUARANTINE 1024
#define N_SLOTS 32 /* of readers' counters, a set */
#define N_CLASSES 512

typedef struct extent { /* addresses that may be used again, of one size class */
    struct extent *next;
    uint64_t addr;
} extent;

typedef struct area { /* a half of the reservation */
    uint64_t next, end; /* addresses never used */
    extent *classes[N_CLASSES];
} area;

typedef struct quarantined {
    uint64_t lo, serial;
} quarantined;

typedef struct slot {
    _Alignas(64) atomic_uint n;
} slot;

struct sim_space {
    sim_space_head head;  /* first; every access of a kernel reads it */
    pthread_mutex_t lock; /* of everything but `list`, `generation` and the readers' counters */
    _Atomic(sim_list *) list;
    _Atomic unsigned parity;
    slot readers[2][N_SLOTS];
    sim_list *retired;
    unsigned n_retired;
    uint64_t base, reserve_bytes;
    uint8_t *view; /* of the lower half */
    bool poison;
    uint64_t serial;
    area areas[2];
    quarantined quarantine[QUARANTINE];
    uint64_t n_quarantined; /* ever: entry i is at i % QUARANTINE, the last QUARANTINE are held */
    uint64_t quarantine_head;
};

/* Threads spread over the counters. */
static unsigned slot_of_thread(void) {
    static atomic_uint next;
    static OCH_THREAD_LOCAL unsigned mine;
    if (!mine) mine = 1 + atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % N_SLOTS;
    return mine - 1;
}

/* The order of these accesses is what makes releasing safe: a reader counts itself first and loads the list after, the
 * writer publishes first and looks at the counters after; all of them are in one total order. */
static const sim_list *enter(const sim_space *space, atomic_uint **out_n) {
    sim_space *s = (sim_space *)space;
    unsigned set = atomic_load(&s->parity) & 1;
    *out_n = &s->readers[set][slot_of_thread()].n;
    atomic_fetch_add(*out_n, 1);
    return atomic_load(&s->list);
}
static void leave(atomic_uint *n) { atomic_fetch_sub(n, 1); }

static bool set_empty(sim_space *s, unsigned set) {
    for (unsigned i = 0; i < N_SLOTS; i++)
        if (atomic_load(&s->readers[set][i].n)) return false;
    return true;
}

/* Releases lists that no reader can hold. When many wait, readers are waited for: their sections are a few dozen
 * instructions, and new ones count in the other set. */
static void reclaim(sim_space *s) {
    if (!s->retired) return;
    if (s->n_retired < 64) {
        if (!set_empty(s, 0) || !set_empty(s, 1)) return;
    } else {
        for (unsigned k = 0; k < 2; k++) {
            unsigned old = atomic_fetch_xor(&s->parity, 1) & 1;
            while (!set_empty(s, old)) sched_yield();
        }
    }
    while (s->retired) {
        sim_list *l = s->retired;
        s->retired = l->next_retired;
        sim_list_free_replaced(l);
    }
    s->n_retired = 0;
}

static void publish(sim_space *s, sim_list *list) {
    sim_list *old = atomic_load(&s->list);
    atomic_store(&s->list, list);
    atomic_fetch_add(&s->head.generation, 1);
    if (!old) return;
    old->next_retired = s->retired;
    s->retired = old;
    s->n_retired++;
    reclaim(s);
}

/* Size classes: eight a doubling from a page on, so that a freed extent fits every later request of its class. */
static unsigned class_of(uint64_t bytes, uint64_t *out_bytes) {
    uint64_t pages = (bytes + PAGE - 1) / PAGE;
    if (pages <= 8) { *out_bytes = pages * PAGE; return (unsigned)pages; }
    unsigned top = 63 - (unsigned)__builtin_clzll(pages);
    uint64_t step = (uint64_t)1 << (top - 3), up = (pages + step - 1) / step * step;
    top = 63 - (unsigned)__builtin_clzll(up);
    *out_bytes = up * PAGE;
    return (top - 3) * 8 + (unsigned)(up >> (top - 3));
}

och_status sim_space_create(sim_space **out_space, och_err *err) {
    *out_space = NULL;
    och_status st = OCH_OK;
    sim_space *s = och_malloc_aligned(sizeof *s, 64);
    if (!s) return och_err_nomem(err, sizeof *s, "the simulator's address space");
    memset(s, 0, sizeof *s);
    /* No two spaces of a process share a generation: a worker's ranges of one that was where this one is now are stale. */
    static _Atomic uint64_t n_spaces;
    atomic_store(&s->head.generation, atomic_fetch_add(&n_spaces, 1) << 40);
    void *base = MAP_FAILED, *view = MAP_FAILED;
    uint64_t bytes = 0;
    sim_list *list = sim_list_empty();
    if (!list) { st = och_err_nomem(err, sizeof *list, "the list of allocations"); goto done; }
    const int quiet = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    for (bytes = RESERVE_MAX; bytes >= RESERVE_MIN; bytes /= 2) {
        base = mmap(NULL, bytes, PROT_NONE, quiet, -1, 0);
        if (base == MAP_FAILED) continue;
        view = mmap(NULL, bytes / 2, PROT_READ | PROT_WRITE, quiet, -1, 0);
        if (view != MAP_FAILED && mprotect((uint8_t *)base + bytes / 2, bytes / 2, PROT_READ | PROT_WRITE) == 0) break;
        if (view != MAP_FAILED) munmap(view, bytes / 2);
        munmap(base, bytes);
        base = view = MAP_FAILED;
    }
    if (view == MAP_FAILED) {
        st = och_err_set_native(err, OCH_NOMEM, errno, "cannot reserve %llu GiB of addresses for device memory: %s",
                                (unsigned long long)(RESERVE_MIN >> 30), strerror(errno));
        goto done;
    }
    uint64_t half = bytes / 2;
    (void)madvise(base, bytes, MADV_DONTDUMP);
    (void)madvise(view, half, MADV_DONTDUMP);
    s->base = (uint64_t)(uintptr_t)base;
    s->reserve_bytes = bytes;
    s->view = view;
    /* Extents are handed out from an aligned start; the first pages stay unused, as a null device address would be. */
    s->areas[0] = (area){.next = s->base + 16 * PAGE, .end = s->base + half};
    s->areas[1] = (area){.next = s->base + half + 16 * PAGE, .end = s->base + bytes};
    int e = pthread_mutex_init(&s->lock, NULL);
    if (e) { st = och_err_set_native(err, OCH_INTERNAL, e, "pthread_mutex_init: %s", strerror(e)); goto done; }
    publish(s, list);
    *out_space = s;
    return OCH_OK;
done:
    if (view != MAP_FAILED) munmap(view, bytes / 2);
    if (base != MAP_FAILED) munmap(base, bytes);
    if (list) sim_list_destroy(list);
    och_free_aligned(s);
    return st;
}

void sim_space_destroy(sim_space *s) {
    if (!s) return;
    while (s->retired) {
        sim_list *l = s->retired;
        s->retired = l->next_retired;
        sim_list_free_replaced(l);
    }
    sim_list_destroy(atomic_load(&s->list));
    for (unsigned a = 0; a < 2; a++)
        for (unsigned c = 0; c < N_CLASSES; c++)
            while (s->areas[a].classes[c]) {
                extent *x = s->areas[a].classes[c];
                s->areas[a].classes[c] = x->next;
                och_free(x);
            }
    munmap(s->view, s->reserve_bytes / 2);
    munmap((void *)(uintptr_t)s->base, s->reserve_bytes);
    pthread_mutex_destroy(&s->lock);
    och_free_aligned(s);
}

void sim_space_set_poison(sim_space *s, bool on) {
    pthread_mutex_lock(&s->lock);
    s->poison = on;
    pthread_mutex_unlock(&s->lock);
}

/* Where the simulator reaches an address of the reservation. */
static uint8_t *own_view(const sim_space *s, uint64_t addr) {
    uint64_t off = addr - s->base;
    return off < s->reserve_bytes / 2 ? s->view + off : (uint8_t *)(uintptr_t)addr;
}
static bool ours(const sim_space *s, uint64_t addr) { return addr - s->base < s->reserve_bytes; }

/* Forgets the oldest freed range: its record goes and, if it lies in the reservation, its addresses may be used again.
 * False: out of memory, nothing changed. */
static bool evict(sim_space *s) {
    quarantined q = s->quarantine[s->quarantine_head % QUARANTINE];
    sim_list *list = atomic_load(&s->list);
    sim_range r;
    /* A registered range's record may be gone already: its addresses belong to the host, which used them again. */
    if (sim_list_find(list, q.lo, &r) && r.serial == q.serial && r.freed) {
        extent *x = NULL;
        if (ours(s, q.lo)) {
            x = och_malloc(sizeof *x);
            if (!x) return false;
        }
        sim_list *next = sim_list_remove(list, q.lo);
        if (!next) { och_free(x); return false; }
        publish(s, next);
        if (x) {
            uint64_t bytes;
            unsigned c = class_of(r.hi - r.lo, &bytes);
            area *a = &s->areas[q.lo >= s->base + s->reserve_bytes / 2];
            x->addr = q.lo;
            x->next = a->classes[c];
            a->classes[c] = x;
        }
    }
    s->quarantine_head++;
    return true;
}

/* Addresses for `bytes` (a class's size) aligned to `align`; 0: none. */
static uint64_t take(sim_space *s, area *a, unsigned c, uint64_t bytes, uint64_t align) {
    for (extent **p = &a->classes[c]; *p; p = &(*p)->next)
        if (!((*p)->addr & (align - 1))) {
            extent *x = *p;
            uint64_t addr = x->addr;
            *p = x->next;
            och_free(x);
            return addr;
        }
    /* A page stays unused after each range, so that the first byte past an allocation is never another's. */
    uint64_t at, end;
    if (och_u64_align(a->next, align, &at) && och_u64_add(at, bytes + PAGE, &end) && end <= a->end) {
        a->next = end;
        return at;
    }
    (void)s;
    return 0;
}

och_status sim_space_alloc(sim_space *s, uint64_t size_bytes, uint64_t align, sim_mem_kind kind, int device, bool host_visible,
                           uint64_t *out_addr, och_err *err) {
    *out_addr = 0;
    if (!size_bytes) return och_err_set(err, OCH_INVALID, "an allocation of device memory needs at least 1 byte, found 0");
    if (align & (align - 1))
        return och_err_set(err, OCH_INVALID, "the alignment of an allocation must be a power of two, found %llu",
                           (unsigned long long)align);
    if (size_bytes > s->reserve_bytes / 2)
        return och_err_set(err, OCH_NOMEM, "an allocation of %llu bytes exceeds the %llu bytes of addresses reserved for it",
                           (unsigned long long)size_bytes, (unsigned long long)(s->reserve_bytes / 2));
    if (align < PAGE) align = PAGE;
    if (size_bytes >= 2 * HUGE_BYTES && align < HUGE_BYTES) align = HUGE_BYTES;
    och_status st = OCH_OK;
    pthread_mutex_lock(&s->lock);
    area *a = &s->areas[host_visible];
    uint64_t bytes, addr;
    unsigned c = class_of(size_bytes, &bytes);
    while (!(addr = take(s, a, c, bytes, align))) {
        /* Out of fresh addresses: freed ones leave the quarantine early, oldest first. */
        if (s->quarantine_head == s->n_quarantined || !evict(s)) {
            st = och_err_set(err, OCH_NOMEM, "no addresses left for an allocation of %llu bytes: %llu bytes are reserved",
                             (unsigned long long)size_bytes, (unsigned long long)(s->reserve_bytes / 2));
            goto done;
        }
    }
    sim_range r = {.lo = addr, .hi = addr + size_bytes, .kind = (uint8_t)kind, .device = device, .serial = ++s->serial};
    r.delta = host_visible ? 0 : (int64_t)((uint64_t)(uintptr_t)s->view - s->base);
    sim_list *next = sim_list_insert(atomic_load(&s->list), &r);
    if (!next) {
        /* The addresses are lost, which costs nothing but addresses. */
        st = och_err_nomem(err, sizeof r, "the record of an allocation");
        goto done;
    }
    uint8_t *own = own_view(s, addr);
    if (size_bytes >= 2 * HUGE_BYTES) (void)madvise(own, size_bytes & ~(HUGE_BYTES - 1), MADV_HUGEPAGE);
    if (s->poison) memset(own, 0xA5, size_bytes);
    publish(s, next);
    *out_addr = addr;
done:
    pthread_mutex_unlock(&s->lock);
    return st;
}

och_status sim_space_register(sim_space *s, void *p, uint64_t size_bytes, och_err *err) {
    uint64_t lo = (uint64_t)(uintptr_t)p, hi;
    if (!p || !size_bytes || !och_u64_add(lo, size_bytes, &hi))
        return och_err_set(err, OCH_INVALID, "host memory to register must not be empty, found %llu bytes at %p",
                           (unsigned long long)size_bytes, p);
    if (lo < s->base + s->reserve_bytes && hi > s->base)
        return och_err_set(err, OCH_INVALID, "%llu bytes at %p are device memory, not host memory to register",
                           (unsigned long long)size_bytes, p);
    och_status st = OCH_OK;
    pthread_mutex_lock(&s->lock);
    sim_range r;
    /* Freed records there are of memory that the host has used again since. */
    while (sim_list_overlap(atomic_load(&s->list), lo, hi, &r)) {
        if (!r.freed) {
            st = och_err_set(err, OCH_INVALID, "%llu bytes at %p overlap [0x%llx, 0x%llx), which is registered already",
                             (unsigned long long)size_bytes, p, (unsigned long long)r.lo, (unsigned long long)r.hi);
            goto done;
        }
        sim_list *without = sim_list_remove(atomic_load(&s->list), r.lo);
        if (!without) { st = och_err_nomem(err, sizeof r, "the record of registered memory"); goto done; }
        publish(s, without);
    }
    r = (sim_range){.lo = lo, .hi = hi, .kind = SIM_MEM_PINNED, .device = -1, .serial = ++s->serial};
    sim_list *next = sim_list_insert(atomic_load(&s->list), &r);
    if (!next) { st = och_err_nomem(err, sizeof r, "the record of registered memory"); goto done; }
    publish(s, next);
done:
    pthread_mutex_unlock(&s->lock);
    return st;
}

och_status sim_space_free(sim_space *s, uint64_t addr, och_err *err) {
    och_status st = OCH_OK;
    pthread_mutex_lock(&s->lock);
    sim_list *list = atomic_load(&s->list);
    sim_range r;
    unsigned long long a = addr;
    if (!sim_list_find(list, addr, &r)) {
        st = och_err_set(err, OCH_NOTFOUND, "no allocation begins at 0x%llx", a);
    } else if (r.freed) {
        st = och_err_set(err, OCH_NOTFOUND, "0x%llx was freed already (allocation %llu of %llu bytes at 0x%llx)", a,
                         (unsigned long long)r.serial, (unsigned long long)(r.hi - r.lo), (unsigned long long)r.lo);
    } else if (r.lo != addr) {
        st = och_err_set(err, OCH_NOTFOUND, "0x%llx lies %llu bytes inside the allocation at 0x%llx, none begins there", a,
                         (unsigned long long)(addr - r.lo), (unsigned long long)r.lo);
    } else if (s->n_quarantined - s->quarantine_head == QUARANTINE && !evict(s)) {
        st = och_err_nomem(err, sizeof r, "the record of a freed allocation");
    } else {
        r.freed = true;
        sim_list *next = sim_list_replace(atomic_load(&s->list), &r);
        if (!next) {
            st = och_err_nomem(err, sizeof r, "the record of a freed allocation");
        } else {
            publish(s, next);
            s->quarantine[s->n_quarantined++ % QUARANTINE] = (quarantined){.lo = r.lo, .serial = r.serial};
            if (ours(s, addr)) {
                uint64_t bytes;
                (void)class_of(r.hi - r.lo, &bytes);
                /* The pages go back to the system and read as zero when the addresses are used again. */
                if (madvise(own_view(s, addr), bytes, MADV_DONTNEED) != 0) memset(own_view(s, addr), 0, bytes);
            }
        }
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

och_status sim_space_mark(sim_space *s, uint64_t addr, bool read_only, uint32_t flags, void *user, och_err *err) {
    och_status st = OCH_OK;
    pthread_mutex_lock(&s->lock);
    sim_range r;
    sim_list *list = atomic_load(&s->list);
    if (!sim_list_find(list, addr, &r) || r.freed || r.lo != addr) {
        st = och_err_set(err, OCH_NOTFOUND, "no allocation begins at 0x%llx", (unsigned long long)addr);
    } else {
        r.read_only = read_only;
        r.flags = flags;
        r.user = user;
        sim_list *next = sim_list_replace(list, &r);
        if (next) publish(s, next);
        else st = och_err_nomem(err, sizeof r, "the record of an allocation");
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

och_status sim_space_protect(sim_space *s, uint64_t addr, uint64_t rw_lo, uint64_t rw_hi, och_err *err) {
    och_status st = OCH_OK;
    pthread_mutex_lock(&s->lock);
    sim_range r;
    sim_list *list = atomic_load(&s->list);
    if (!sim_list_find(list, addr, &r) || r.freed || r.lo != addr) {
        st = och_err_set(err, OCH_NOTFOUND, "no allocation begins at 0x%llx", (unsigned long long)addr);
    } else {
        r.read_only = true;
        r.rw_lo = rw_lo;
        r.rw_hi = rw_hi;
        sim_list *next = sim_list_replace(list, &r);
        if (next) publish(s, next);
        else st = och_err_nomem(err, sizeof r, "the record of an allocation");
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

bool sim_space_find(const sim_space *s, uint64_t addr, sim_range *out) {
    atomic_uint *n;
    const sim_list *list = enter(s, &n);
    bool found = sim_list_find(list, addr, out);
    leave(n);
    return found;
}

unsigned sim_space_around(const sim_space *s, uint64_t addr, sim_range *below, sim_range *above) {
    unsigned sides = 0;
    sim_range r;
    atomic_uint *n;
    const sim_list *list = enter(s, &n);
    for (uint64_t from = 0; !(sides & SIM_ABOVE) && sim_list_from(list, from, &r); from = r.hi) {
        if (r.kind == SIM_MEM_CODE || r.kind == SIM_MEM_KERNARG) continue;
        if (r.hi <= addr) *below = r, sides |= SIM_BELOW;
        else if (r.lo > addr) *above = r, sides |= SIM_ABOVE;
    }
    leave(n);
    return sides;
}

bool sim_space_owns(const sim_space *s, uint64_t addr, uint64_t size_bytes) {
    uint64_t end;
    if (!size_bytes || !och_u64_add(addr, size_bytes, &end)) return ours(s, addr);
    return addr < s->base + s->reserve_bytes && end > s->base;
}

void *sim_space_host(const sim_space *s, uint64_t addr, uint64_t size_bytes) {
    sim_range r;
    if (!sim_space_find(s, addr, &r) || r.freed || size_bytes > r.hi - addr) return NULL;
    return (void *)(uintptr_t)(addr + (uint64_t)r.delta);
}

void sim_space_each(const sim_space *s, bool (*fn)(void *arg, const sim_range *r), void *arg) {
    /* One look-up a range, so that fn may itself allocate and free. */
    uint64_t from = 0;
    for (;;) {
        sim_range r;
        atomic_uint *n;
        const sim_list *list = enter(s, &n);
        bool found = sim_list_from(list, from, &r);
        leave(n);
        if (!found) return;
        from = r.hi;
        if (!r.freed && !fn(arg, &r)) return;
    }
}
