/* AMDGPU code objects: ELF, kernel descriptors, metadata (versions 4, 5, 6), relocations, and the bundles they come in.
 * Everything here is bytes in, plain structs out: nothing is loaded or run. Layouts: LLVM's AMDGPUUsage ("Code Object",
 * "Kernel Descriptor") and ClangOffloadBundler documents.
 *
 * Every read is bounds-checked; broken input is CORRUPT with what was expected, found, and where. */
#ifndef OCH_OBJ_OBJ_H
#define OCH_OBJ_OBJ_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum och_obj_arg_kind { /* .value_kind */
    OCH_ARG_BY_VALUE, OCH_ARG_GLOBAL_BUFFER, OCH_ARG_DYNAMIC_SHARED_POINTER, OCH_ARG_SAMPLER, OCH_ARG_IMAGE, OCH_ARG_PIPE,
    OCH_ARG_QUEUE,
    OCH_ARG_HIDDEN_FIRST,
    OCH_ARG_HIDDEN_GLOBAL_OFFSET_X = OCH_ARG_HIDDEN_FIRST, OCH_ARG_HIDDEN_GLOBAL_OFFSET_Y, OCH_ARG_HIDDEN_GLOBAL_OFFSET_Z,
    OCH_ARG_HIDDEN_NONE, OCH_ARG_HIDDEN_PRINTF_BUFFER, OCH_ARG_HIDDEN_HOSTCALL_BUFFER, OCH_ARG_HIDDEN_DEFAULT_QUEUE,
    OCH_ARG_HIDDEN_COMPLETION_ACTION, OCH_ARG_HIDDEN_MULTIGRID_SYNC_ARG, OCH_ARG_HIDDEN_BLOCK_COUNT_X,
    OCH_ARG_HIDDEN_BLOCK_COUNT_Y, OCH_ARG_HIDDEN_BLOCK_COUNT_Z, OCH_ARG_HIDDEN_GROUP_SIZE_X, OCH_ARG_HIDDEN_GROUP_SIZE_Y,
    OCH_ARG_HIDDEN_GROUP_SIZE_Z, OCH_ARG_HIDDEN_REMAINDER_X, OCH_ARG_HIDDEN_REMAINDER_Y, OCH_ARG_HIDDEN_REMAINDER_Z,
    OCH_ARG_HIDDEN_GRID_DIMS, OCH_ARG_HIDDEN_HEAP_V1, OCH_ARG_HIDDEN_DYNAMIC_LDS_SIZE, OCH_ARG_HIDDEN_PRIVATE_BASE,
    OCH_ARG_HIDDEN_SHARED_BASE, OCH_ARG_HIDDEN_QUEUE_PTR,
    OCH_ARG_UNKNOWN /* a kind that this version does not know: value_kind text is kept */
} och_obj_arg_kind;

typedef struct och_obj_arg {
    const char *name;       /* "" when the compiler left it out */
    const char *type_name;
    const char *value_kind; /* as written */
    och_obj_arg_kind kind;
    uint32_t offset, size;  /* bytes in the kernel-argument segment */
} och_obj_arg;

typedef struct och_obj_kernel {
    const char *name;         /* "axpy" */
    const char *symbol;       /* "axpy.kd" */
    uint64_t descriptor_addr; /* virtual address in the object of the 64-byte kernel descriptor */
    uint64_t entry_addr;      /* virtual address of the first instruction: descriptor + its entry offset */
    /* the descriptor; kernarg_bytes is the metadata's where that is more */
    uint32_t group_bytes, private_bytes, kernarg_bytes;
    uint32_t rsrc1, rsrc2, rsrc3;
    uint16_t properties, kernarg_preload;
    /* metadata */
    uint32_t wave_size, sgprs, vgprs, agprs, sgpr_spills, vgpr_spills, kernarg_align, max_flat_workgroup_size;
    uint32_t reqd_workgroup_size[3];
    bool dynamic_stack, uniform_workgroup;
    const och_obj_arg *args;
    size_t n_args;
} och_obj_kernel;

typedef struct och_obj_symbol {
    const char *name;
    uint64_t addr, size;
    uint8_t type;  /* ELF STT_* */
    uint8_t bind;  /* ELF STB_* */
    bool defined;
    bool absolute; /* SHN_ABS: addr is a value, not moved by the loader */
} och_obj_symbol;

typedef struct och_obj_segment { /* a PT_LOAD */
    uint64_t addr, file_offset, file_bytes, mem_bytes;
    bool read, write, exec;
} och_obj_segment;

typedef struct och_obj_reloc {
    uint64_t addr;    /* where, virtual address in the object */
    uint32_t type;    /* R_AMDGPU_* */
    const char *symbol; /* "" for none */
    uint64_t symbol_addr;
    bool symbol_defined, symbol_absolute, symbol_weak;
    int64_t addend;
} och_obj_reloc;

/* A parsed code object. Strings and arrays live as long as it; it copies what it needs from the bytes. */
typedef struct och_obj {
    char target[64];          /* whole name: "gfx942:sramecc+:xnack-", from e_flags and checked against the metadata */
    unsigned version;         /* code object version: 4, 5, 6 */
    uint32_t e_flags;
    const och_obj_kernel *kernels;
    size_t n_kernels;
    const och_obj_symbol *symbols; /* of .dynsym, or .symtab where there is none */
    size_t n_symbols;
    const och_obj_symbol *functions; /* STT_FUNC with an address, local ones too where .symtab was kept; by address */
    size_t n_functions;
    const och_obj_segment *segments;
    size_t n_segments;
    const och_obj_reloc *relocs; /* dynamic ones: what a loader applies */
    size_t n_relocs;
    const char *const *printf_formats; /* amdhsa.printf entries, as written */
    size_t n_printf;
    uint64_t text_addr, text_bytes; /* from the first executable section to the end of the last */
} och_obj;

/* UNSUPPORTED: version 2 or 3, a relocatable object, a target that src/obj/mach.def does not list, packed relative
 * relocations. */
och_status och_obj_parse(const void *bytes, size_t n_bytes, och_obj **out_obj, och_err *err) OCH_WARN_UNUSED;
void och_obj_destroy(och_obj *obj);
/* Code for NVIDIA's devices, a cubin or PTX: kernels (name, LDS, registers and scratch of a cubin, the group that it was
 * compiled for) and their arguments (offset, size; 8 bytes count as a buffer, since nothing says what they are). All else of
 * out_obj is empty. */
och_status och_obj_parse_nvidia(const void *bytes, size_t n_bytes, och_obj **out_obj, och_err *err) OCH_WARN_UNUSED;
/* NULL for none. */
const och_obj_symbol *och_obj_find_symbol(const och_obj *obj, const char *name);

/* An entry of a bundle (clang-offload-bundler), e.g. "hipv4-amdgcn-amd-amdhsa--gfx1100". */
typedef struct och_obj_entry {
    char triple[96];   /* the whole entry id */
    char target[64];   /* the target part of it; "" for a host entry */
    const uint8_t *bytes;
    size_t n_bytes;
} och_obj_entry;

typedef struct och_obj_bundle {
    och_obj_entry *entries;
    size_t n_entries;
    void *owned;       /* decompressed contents, when they were compressed */
} och_obj_bundle;

/* Opens a bundle: "__CLANG_OFFLOAD_BUNDLE__", compressed "CCOB" of versions 1 to 3 (zstd; zlib is UNSUPPORTED with a
 * message), several bundles one after another, or a bare ELF (one entry, its own target). Entries view `bytes` or `owned`.
 * n_bytes 0: the length is taken from the image's headers (a fat binary in memory carries no length). */
och_status och_obj_bundle_open(const void *bytes, size_t n_bytes, och_obj_bundle *out_bundle, och_err *err) OCH_WARN_UNUSED;
void och_obj_bundle_close(och_obj_bundle *bundle);

#endif
