/* A kernel's code, decoded and bound for one wave size. */
#ifndef SIM_EXEC_PROGRAM_H
#define SIM_EXEC_PROGRAM_H

#include "exec/bind.h"

/* One instruction without a meaning here, reachable from the kernel. */
typedef struct sim_unmodelled {
    char text[96];      /* mnemonic, or "unknown encoding" */
    uint32_t words[4];
    uint32_t offset;    /* bytes from the start of the code */
} sim_unmodelled;

/* code: n_bytes that device address `addr` begins (an instruction's address is addr + offset); entry: offset of the kernel.
 * extra_entries: offsets of functions that the kernel may reach by pointers (address-taken functions of the module).
 * Everything reachable is decoded and bound. UNSUPPORTED: something has no meaning here; the message names the first three
 * with encoding and offset, and *out_program is NULL. The program keeps no reference to `code`. */
och_status sim_program_create(sim_isa isa, unsigned wave_size, const uint8_t *code, size_t n_bytes, uint64_t addr,
                              uint64_t entry, const uint64_t *extra_entries, size_t n_extra, sim_program **out_program,
                              och_err *err) OCH_WARN_UNUSED;
void sim_program_destroy(sim_program *p);

const sim_uop *sim_program_entry(const sim_program *p);
/* The uop at a device address, for s_setpc and s_swappc; NULL: not code of this program. */
const sim_uop *sim_program_at(const sim_program *p, uint64_t addr);
/* The device address after, and of, a uop's instruction: for s_getpc, calls and reports. */
uint64_t sim_program_addr_after(const sim_program *p, const sim_uop *u);
uint64_t sim_program_addr_of(const sim_program *p, const sim_uop *u);
size_t sim_program_n_uops(const sim_program *p);
const sim_uop *sim_program_uop(const sim_program *p, size_t i);
const uint8_t *sim_program_consts(const sim_program *p);
/* Registers that its instructions name: vector ones, and accumulation ones beside them. */
uint32_t sim_program_n_vgprs(const sim_program *p);
/* Vector registers without what only extra entries reach: a kernel's descriptor must cover these. */
uint32_t sim_program_n_own_vgprs(const sim_program *p);
uint32_t sim_program_n_agprs(const sim_program *p);
/* What a workgroup of it took lately, in host nanoseconds; 0: not known. For the pool's choices alone. */
_Atomic uint32_t *sim_program_group_ns(sim_program *p);

#endif
