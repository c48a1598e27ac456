/* Compilers as rows of a table, each looked for in a stated order, used where it suits the target:
 *
 *   nvrtc    CUDA   libnvrtc, opened at run time; gives cubin, or PTX where it is too old for that
 *   clang    both   clang or amdclang, 19 or newer, spawned; gives a code object, or PTX
 *   hiprtc   HIP    libhiprtc, or a libamdhip64 that still has it, opened at run time
 *
 * So HIP text goes to clang before hipRTC: a compiler in a process of its own can be stopped, and can crash alone. A row has
 * candidates (jit/clang.c, jit/rtc.c list them); each is tried once, and what became of it is kept for the message. */
#ifndef OCH_JIT_COMPILER_H
#define OCH_JIT_COMPILER_H

#include "jit/job.h"

typedef struct och_compiler_row och_compiler_row;
typedef struct och_candidate och_candidate;
typedef struct och_compilers och_compilers;

typedef enum och_candidate_state {
    OCH_CANDIDATE_UNTRIED,
    OCH_CANDIDATE_ABSENT, /* or the same as an earlier one */
    OCH_CANDIDATE_UNFIT, /* there, but too old or broken: detail says why */
    OCH_CANDIDATE_FOUND
} och_candidate_state;

struct och_candidate {
    const och_compiler_row *row;
    char *place;     /* a path, or a name that the system looks for; owned, as all strings here */
    const char *why; /* "OCHRE_CLANG", "PATH"; static */
    och_candidate_state state;
    char *detail;    /* NULL for none */
    /* when FOUND */
    char *path;
    char *version;   /* all that it says of itself: "Debian clang version 22.1.8 (1~deb12u1)" */
    char *label;     /* "clang 22.1.8 (/usr/bin/clang-22)" */
    int clang_major; /* of the clang that it is or holds; 0 where there is none */
    int most_version; /* the code object version that it makes at most; 0: any */
    uint64_t file_bytes, file_device, file_inode;
    int64_t file_mtime_ns;
    void *library;   /* of rows that are libraries */
    void *calls;     /* owned */
};

typedef struct och_compiled {
    uint8_t *code; /* owned; a NUL follows */
    size_t code_bytes;
    och_jit_code_kind kind;
    och_strbuf log; /* all that the compiler said */
} och_compiled;

/* What ends a compilation early, and where it may write. */
typedef struct och_compile_limits {
    uint64_t timeout_ns;
    const atomic_bool *cancel;
    const char *scratch; /* an empty folder, which the caller removes; NULL: one of the compilation's own, in TMPDIR */
} och_compile_limits;

struct och_compiler_row {
    const char *name;
    bool hip, cuda;
    bool needs_prelude; /* brings no words of HIP or CUDA */
    const char *looked_for; /* for the message that none was found */
    /* Appends the candidates, in order (och_compilers_add). */
    och_status (*list)(och_compilers *compilers, const och_compiler_row *row, const char *given, och_err *err);
    /* Finds out whether it is there, and fills what FOUND needs; fails only where memory does. */
    och_status (*probe)(och_candidate *candidate, och_err *err);
    /* Whether it knows the target, as far as it says; NULL: nothing is asked but the clang that it is or holds. */
    bool (*knows)(const och_candidate *candidate, const och_target *target);
    /* Appends what the compiler is told, argument by argument, each with its NUL: the key has it, and compile uses it. */
    och_status (*arguments)(const och_candidate *compiler, const och_jit_job *job, och_strbuf *out, och_err *err);
    och_status (*compile)(const och_candidate *compiler, const och_jit_job *job, const och_strbuf *text,
                          const och_strbuf *arguments, const och_compile_limits *limits, och_compiled *out_compiled,
                          och_err *err);
};
extern const och_compiler_row och_compiler_clang, och_compiler_hiprtc, och_compiler_nvrtc;

/* `only`: a row's name or the path of a clang; NULL: all. `hiprtc_library`: tried first; NULL for none. Nothing is probed
 * yet. INVALID: `only` is neither. */
och_status och_compilers_create(const char *only, const char *hiprtc_library, och_compilers **out_compilers, och_err *err)
    OCH_WARN_UNUSED;
void och_compilers_destroy(och_compilers *compilers);
och_status och_compilers_add(och_compilers *compilers, const och_compiler_row *row, const char *place, const char *why,
                             och_err *err) OCH_WARN_UNUSED;

/* The first that suits the job. One that makes older code objects than the job says suits where the request left the version
 * open: the job is then to take most_version. UNAVAILABLE: none was found, with all that was looked for; UNSUPPORTED: those
 * that are there do not suit. The candidate lives as long as the list. */
och_status och_compilers_pick(och_compilers *compilers, const och_jit_job *job, const och_candidate **out_compiler,
                              och_err *err) OCH_WARN_UNUSED;

/* The job's text through the compiler; keeps a copy where OCHRE_JIT_KEEP says. COMPILE: out_compiled->log says why, err has
 * the first diagnostic. Release with och_compiled_deinit in any case. */
och_status och_compile(const och_candidate *compiler, const och_jit_job *job, const och_compile_limits *limits,
                       och_compiled *out_compiled, och_err *err) OCH_WARN_UNUSED;
void och_compiled_deinit(och_compiled *compiled);

/* What row->arguments gave, as a list that views it and ends with NULL, after n_before empty places. NULL: no memory. */
const char **och_arguments_split(const och_strbuf *arguments, size_t n_before, size_t *out_n);

/* The first line of a log that reports an error, without its end; the first line where none does. */
void och_first_diagnostic(const char *log, const char **out_line, size_t *out_bytes);

/* The candidates in order, all probed; NULL past the end. */
const och_candidate *och_compilers_at(och_compilers *compilers, size_t i);

#endif
