/* Programs, run by their arguments and never through a shell. Standard input is given, both outputs are captured; no other
 * descriptor of this process reaches the program, whose signals are as the system starts them. It leads a process group of
 * its own, so that what it started ends with it where it is ended. */
#ifndef OCH_BASE_SPAWN_H
#define OCH_BASE_SPAWN_H

#include "base/status.h"
#include "base/strbuf.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct och_spawn {
    const char *const *argv;   /* ends with NULL; argv[0] is a path (och_spawn_find gives it) */
    const void *input;         /* standard input; NULL: empty */
    size_t input_bytes;
    const char *const *unset;  /* environment variables that it does not get; ends with NULL. NULL: it gets all */
    const char *const *set;    /* "NAME=value" that it gets, in place of this process's of that name; ends with NULL. NULL: none */
    uint64_t timeout_ns;       /* 0: none */
    const atomic_bool *cancel; /* looked at some twenty times a second; NULL: never cancelled */
    size_t output_limit_bytes; /* of each output; what is beyond is dropped. 0: 256 MiB */
} och_spawn;

typedef struct och_spawn_result {
    int exit_status; /* -1 where a signal ended it */
    int signal;      /* 0 where it exited */
    bool timed_out;
    bool truncated;  /* an output was longer than the limit */
    och_strbuf out, err;
} och_spawn_result;

/* Runs it to its end. OK: it ended by itself, with whatever status. NOTFOUND, IO: it could not be started. UNAVAILABLE: not
 * done in time, CANCELLED: both after it was ended, with what it had written. out_result is to be released in any case. */
och_status och_spawn_run(const och_spawn *spawn, och_spawn_result *out_result, och_err *err) OCH_WARN_UNUSED;
void och_spawn_result_deinit(och_spawn_result *result);

/* The path of a program as a shell would find it: through PATH, or `name` itself where it has a slash. False: none, or no
 * memory. */
bool och_spawn_find(const char *name, och_strbuf *out_path);

#endif
