/* The one place that makes cache keys. */
#ifndef OCH_JIT_KEY_H
#define OCH_JIT_KEY_H

#include "base/hash.h"
#include "jit/compiler.h"

/* Of the cache's entries, and of how keys are made. */
#define OCH_JIT_FORMAT 1

#define OCH_JIT_KEY_BYTES OCH_HASH_HEX_BYTES

/* Everything that can change what an entry holds. */
typedef struct och_jit_key_parts {
    uint64_t format;
    const char *text; /* as the compiler gets it */
    size_t text_bytes;
    const char *file_name, *target;
    uint64_t dialect, wave_size, code_object_version;
    const char *arguments; /* the compiler's, one after another, each with its NUL */
    size_t arguments_bytes;
    const char *compiler, *compiler_version, *compiler_path;
    uint64_t compiler_file_bytes, compiler_file_mtime_ns;
    const void *record;
    size_t record_bytes;
} och_jit_key_parts;

void och_jit_key(const och_jit_key_parts *parts, char out_key[OCH_JIT_KEY_BYTES]);

/* The key of a job that a compiler does. */
och_status och_jit_key_of(const och_jit_job *job, const och_candidate *compiler, char out_key[OCH_JIT_KEY_BYTES], och_err *err)
    OCH_WARN_UNUSED;

#endif
