/* Kernel text to code, for one target: from a pack, from the cache, or from a compiler, in that order.
 *
 * The room depends on text and on an opaque record alone: what a kernel means (its geometry, its arguments) is in the record,
 * which its caller writes and reads. Code that comes from anywhere is checked against what was asked (jit/check.h) before it
 * is given out.
 *
 * An och_jit may be used from any number of threads, and any number of processes may share a cache: what several ask for at
 * once is compiled once. */
#ifndef OCH_JIT_JIT_H
#define OCH_JIT_JIT_H

#include "base/status.h"
#include "base/strbuf.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum och_jit_dialect { OCH_JIT_HIP, OCH_JIT_CUDA } och_jit_dialect;

typedef enum och_jit_code_kind {
    OCH_JIT_HSACO, /* a bare ELF code object */
    OCH_JIT_PTX,   /* text, with a NUL after its last byte that code_bytes does not count */
    OCH_JIT_CUBIN  /* a bare ELF for one sm_NN */
} och_jit_code_kind;

typedef enum och_jit_origin { OCH_JIT_FROM_PACK, OCH_JIT_FROM_CACHE, OCH_JIT_FROM_COMPILER } och_jit_origin;

/* An explicit argument as the code must place it, in bytes of the kernel-argument segment. */
typedef struct och_jit_arg {
    uint32_t offset_bytes, size_bytes;
} och_jit_arg;

/* What is asked for. Everything is borrowed for the call; a zeroed field has the meaning given. */
typedef struct och_jit_request {
    /* What a pack knows the code by. */
    const char *kernel;         /* "matvec"; NULL: not looked for in packs */
    const char *specialisation; /* canonical, e.g. "F=Q4_K,B=1"; NULL: "" */
    const char *source_id;      /* names the source that the kernel is written in (a hash of it); NULL: not compared. A pack's
                                   code of another source_id is stale: passed over, with a note */

    /* What a compiler needs. */
    const char *text;      /* includes nothing. NULL: packs alone are looked at */
    size_t text_bytes;
    const char *file_name; /* for diagnostics, where the text has no #line of its own; NULL: "kernel" */
    och_jit_dialect dialect;
    bool prelude;          /* the text uses HIP's or CUDA's own words (__global__, threadIdx, __syncthreads): they are defined
                              where the compiler does not bring them. false: the text defines what it uses */
    const char *target;    /* whole name, as in target/target.h: "gfx942:sramecc+:xnack-", "gfx11-generic", "sm_90" */
    bool own_target;       /* the text has what no later target of the family takes: sm_90 is compiled as sm_90a */
    int wave_size;         /* 32, 64; 0: the target's default */
    int opt_level;         /* 1, 2, 3; 0: 3 */
    const char *const *flags; /* further flags, in clang's spelling */
    size_t n_flags;
    int clang_min;            /* oldest clang that knows the builtins of the text, whichever library it is in; 0: any */
    int code_object_version;  /* 4, 5, 6; 0: 5, or 6 where the target needs it. HSACO only */
    int newest_code_object_version; /* that the runtime loads: a pack's newer code is passed over, and none newer is compiled
                                       unless the target needs it; 0: any */

    /* What the code must be. */
    const char *symbol;     /* the kernel's name in the code; NULL: any number of kernels, no argument is checked */
    bool has_layout;        /* args and kernarg_bytes are checked for `symbol` */
    uint32_t kernarg_bytes; /* of the explicit arguments: where the last one ends */
    const och_jit_arg *args;
    size_t n_args;

    const void *record; /* opaque; comes back with the code, whichever machine compiled it */
    size_t record_bytes;

    const atomic_bool *cancel; /* in place of the jit's; NULL: the jit's */
} och_jit_request;

/* From the code object's metadata; all 0 for PTX and cubin. */
typedef struct och_jit_resources {
    bool known;
    uint32_t vgprs, agprs, sgprs, vgpr_spills, sgpr_spills;
    uint32_t lds_bytes, scratch_bytes, kernarg_bytes, max_workgroup;
    bool dynamic_stack;
} och_jit_resources;

/* Immutable; owns what it points to. */
typedef struct och_jit_artifact {
    const uint8_t *code;
    size_t code_bytes;
    och_jit_code_kind kind;
    const char *target; /* what the code was built for: a pack's may be generic, or name fewer features than was asked */
    int wave_size;
    int code_object_version; /* 0 where kind is not HSACO */
    const uint8_t *record;
    size_t record_bytes;
    const char *compiler;    /* "clang 22.1.8 (/usr/bin/clang-22)": what compiled it, here or elsewhere */
    const char *log;         /* the compiler's warnings; "" for none */
    och_jit_origin origin;
    const char *place;       /* the pack's path, the cache entry's; "" for a compiler without a cache */
    och_jit_resources resources; /* of request.symbol, or of the only kernel; else unknown */
} och_jit_artifact;

void och_jit_artifact_destroy(och_jit_artifact *artifact); /* NULL is allowed */

/* Zeroed: everything by its default, with environment variables as base/env.def says. Borrowed for the call of create. */
typedef struct och_jit_options {
    const char *cache_dir;       /* NULL: OCHRE_CACHE_DIR, XDG_CACHE_HOME/ochre, HOME/.cache/ochre */
    bool no_cache;
    uint64_t cache_limit_bytes;  /* 0: OCHRE_CACHE_LIMIT, or 1 GiB */
    const char *const *packs;    /* files; before those of OCHRE_PACK, of the program's folder and of its data folder */
    size_t n_packs;
    bool only_these_packs;       /* the environment and the folders are not looked at */
    const char *compiler; /* "clang", "hiprtc", "nvrtc", or a path to a clang; NULL: OCHRE_JIT_COMPILER, or all in order */
    const char *hiprtc_library;  /* tried first for hipRTC: the runtime that is in use */
    uint64_t compile_timeout_ns; /* 0: five minutes. clang only: a library cannot be stopped */
    const atomic_bool *cancel;   /* borrowed for the jit's life; true ends waiting and compiling with CANCELLED. NULL: never */
} och_jit_options;

typedef struct och_jit och_jit;

/* Opens packs (a broken one is a warning, and left out) and finds out where the cache is. Compilers are looked for when the
 * first one is needed, once: neither a pack nor a compiler that comes later is seen. */
och_status och_jit_create(const och_jit_options *options, och_jit **out_jit, och_err *err) OCH_WARN_UNUSED;
void och_jit_destroy(och_jit *jit); /* NULL is allowed */

/* The one that devices of the same runtime share, made with the defaults at first use; runtime_library: a path, NULL
 * for none. Given back with unshare; the last one destroys it. */
och_status och_jit_share(const char *runtime_library, och_jit **out_jit, och_err *err) OCH_WARN_UNUSED;
void och_jit_unshare(och_jit *jit); /* NULL is allowed */

/* The dialect of what ochre/kernels.h calls a language; false: that is none which a compiler takes as it is. */
bool och_jit_dialect_of(int language, och_jit_dialect *out_dialect);

/* Gives the code. `log`, which may be NULL, receives all that the compiler said, also where it failed.
 * COMPILE: the first diagnostic. UNAVAILABLE: no pack has it and no compiler was found; the message says which targets the
 * packs have, the command that builds the missing pack, and what compilers were looked for; or the compiler was not done in time.
 * INVALID: the request. UNSUPPORTED: no compiler that is here can build it; CORRUPT: the compiler made something other than what
 * was asked. NOTFOUND, IO: the compiler is there no more, or could not be started. CANCELLED. */
och_status och_jit_get(och_jit *jit, const och_jit_request *request, och_jit_artifact **out_artifact, och_strbuf *log,
                       och_err *err) OCH_WARN_UNUSED;

/* How often each origin served, since create. */
typedef struct och_jit_counts {
    uint64_t from_packs, from_cache, compiled;
} och_jit_counts;
void och_jit_get_counts(const och_jit *jit, och_jit_counts *out_counts);

/* For people: compilers in order (found or not, version, path, what was looked for), packs with their targets, the cache. */
void och_jit_describe(och_jit *jit, och_strbuf *out);

#endif
