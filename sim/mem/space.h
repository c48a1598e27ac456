/* The address space of a process's simulated boards: every allocation that a kernel may touch.
 *
 * Device memory is reached by the device through its address and by the simulator through `delta`: host = addr + delta. For
 * a discrete board the device address is mapped without access, so that a host that dereferences it faults as it would on
 * the board; for a unified board, and for host memory, delta is 0. Freed ranges stay known (quarantine) until their
 * addresses are reused, so that a use after free is named as such.
 *
 * Look-ups run without locks on a snapshot; alloc and free publish a new one (generation counter). */
#ifndef SIM_MEM_SPACE_H
#define SIM_MEM_SPACE_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum sim_mem_kind {
    SIM_MEM_DEVICE,
    SIM_MEM_PINNED /* host, allocated or registered */,
    SIM_MEM_MANAGED,
    SIM_MEM_CODE,
    SIM_MEM_ARRAY,
    SIM_MEM_KERNARG
} sim_mem_kind;

typedef struct sim_range {
    uint64_t lo, hi;     /* [lo, hi) of the allocation as the caller sized it */
    int64_t delta;       /* host pointer = address + delta */
    uint8_t kind;        /* sim_mem_kind */
    bool read_only, freed;
    uint64_t rw_lo, rw_hi; /* of a read-only range: the part that kernels may write all the same; empty: none */
    int32_t device;      /* owner; -1: host */
    uint64_t serial;     /* of the allocation, 1, 2, ... */
    uint32_t flags;      /* the caller's */
    void *user;          /* the caller's */
} sim_range;

typedef struct sim_space sim_space;

och_status sim_space_create(sim_space **out_space, och_err *err) OCH_WARN_UNUSED;
void sim_space_destroy(sim_space *space);

/* Allocates size_bytes (0 is an error) aligned to align (a power of two; at least 256 is used). host_visible: the address
 * may be dereferenced by the host. Memory is not cleared between uses: fresh pages are zero, and OCHRE_SIM_CHECK's poison
 * fills it. */
och_status sim_space_alloc(sim_space *space, uint64_t size_bytes, uint64_t align, sim_mem_kind kind, int device,
                           bool host_visible, uint64_t *out_addr, och_err *err) OCH_WARN_UNUSED;
/* Makes host memory [p, p + size_bytes) known (hipHostRegister). */
och_status sim_space_register(sim_space *space, void *p, uint64_t size_bytes, och_err *err) OCH_WARN_UNUSED;
/* NOTFOUND: no allocation begins there (double free included: the message says so). */
och_status sim_space_free(sim_space *space, uint64_t addr, och_err *err) OCH_WARN_UNUSED;

/* The caller's fields of the live allocation that begins at addr, and whether kernels may write it. NOTFOUND: none. */
och_status sim_space_mark(sim_space *space, uint64_t addr, bool read_only, uint32_t flags, void *user,
                          och_err *err) OCH_WARN_UNUSED;
/* Kernels may write the live allocation that begins at addr in [rw_lo, rw_hi) alone. NOTFOUND: none begins there. */
och_status sim_space_protect(sim_space *space, uint64_t addr, uint64_t rw_lo, uint64_t rw_hi, och_err *err) OCH_WARN_UNUSED;
/* Later allocations are filled with 0xA5 bytes (OCHRE_SIM_CHECK's poison). */
void sim_space_set_poison(sim_space *space, bool on);

/* The live or freed range that holds addr. False: none; then *out is the nearest one below or above (lo == hi == 0: there is
 * none at all). */
bool sim_space_find(const sim_space *space, uint64_t addr, sim_range *out);
/* Whether one of [addr, addr + size_bytes) is an address that this space hands out, allocated or not: never memory of the
 * host's own. */
bool sim_space_owns(const sim_space *space, uint64_t addr, uint64_t size_bytes);
/* Rises with every alloc and free. A cached range is good while it has not changed. */
typedef struct sim_space_head { _Atomic uint64_t generation; } sim_space_head; /* what a space begins with */
static inline uint64_t sim_space_generation(const sim_space *space) {
    return atomic_load_explicit(&((sim_space_head *)(uintptr_t)space)->generation, memory_order_acquire);
}
/* Host pointer to [addr, addr + size) if it lies in one live range, else NULL. For copies and loaders. */
void *sim_space_host(const sim_space *space, uint64_t addr, uint64_t size_bytes);
/* Calls fn for every live range until it returns false. */
void sim_space_each(const sim_space *space, bool (*fn)(void *arg, const sim_range *r), void *arg);

#endif
