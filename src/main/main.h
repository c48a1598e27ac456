/* The command line: a file a subcommand, each a function that gets its own name as argv[0] and returns an exit code.
 *
 * Exit codes: 0 done; 1 it failed, with a message; 2 the command line makes no sense; 130 interrupted (what was
 * generated until then has been written). Standard output carries the result alone, standard error all the rest.
 * A command prints to stdout through stdio and leaves the check of what could not be written to main(). */
#ifndef OCH_MAIN_MAIN_H
#define OCH_MAIN_MAIN_H

#include "base/status.h"
#include "base/strbuf.h"

#include <ochre/ochre.h>
#include <stdbool.h>
#include <stddef.h>

enum { OCH_EXIT_OK = 0, OCH_EXIT_FAILURE = 1, OCH_EXIT_USAGE = 2, OCH_EXIT_INTERRUPTED = 130 };

int och_cmd_bench(int argc, char **argv);
int och_cmd_cache(int argc, char **argv);
int och_cmd_bench_op(int argc, char **argv);
int och_cmd_devices(int argc, char **argv);
int och_cmd_doctor(int argc, char **argv);
int och_cmd_fit(int argc, char **argv);
int och_cmd_inspect(int argc, char **argv);
int och_cmd_kernels(int argc, char **argv);
int och_cmd_ops(int argc, char **argv);
int och_cmd_pull(int argc, char **argv);
int och_cmd_run(int argc, char **argv);
int och_cmd_selftest(int argc, char **argv);
int och_cmd_sim(int argc, char **argv);
int och_cmd_targets(int argc, char **argv);
int och_cmd_tune(int argc, char **argv);
int och_cmd_tokenize(int argc, char **argv);
int och_cmd_verify(int argc, char **argv);

/* ---- messages ---- */

/* "ochre: error: ..." on stderr; returns OCH_EXIT_FAILURE. */
int och_main_error(const char *fmt, ...) OCH_PRINTF(1, 2);
/* The same, and where to read on; returns OCH_EXIT_USAGE. */
int och_main_usage(const char *command, const char *fmt, ...) OCH_PRINTF(2, 3);
/* For an error record; OCH_CANCELLED gives OCH_EXIT_INTERRUPTED, else OCH_EXIT_FAILURE. */
int och_main_fail(const och_err *err);
int och_main_fail_public(const ochre_error *err);
/* The candidate closest to `word`, or NULL when none is close; names holds n strings. */
const char *och_main_nearest(const char *word, const char *const *names, size_t n);

/* ---- options ---- */

typedef enum och_opt_kind {
    OCH_OPT_FLAG, /* bool; present: true */
    OCH_OPT_STR,  /* const char *; borrowed from argv; the last one counts, as for the kinds below */
    OCH_OPT_ONCE, /* the same, but NULL on entry and refused when it comes twice */
    OCH_OPT_I32,  /* int32_t in [min, max] */
    OCH_OPT_U64,  /* uint64_t in [min, max] (max 0: any) */
    OCH_OPT_F32   /* float in [min, max], finite */
} och_opt_kind;

typedef struct och_opt {
    const char *name; /* "max-tokens" */
    char letter;      /* 'n', or 0 */
    och_opt_kind kind;
    void *out; /* of the kind's type; holds the default on entry */
    double min, max;
    const char *arg; /* "N" in the help; NULL for a flag */
    const char *doc; /* lower case, no final period */
    bool *given;     /* NULL, or set to true when the option is there */
} och_opt;

/* What --help prints around the table of options. */
typedef struct och_usage {
    const char *command;  /* "run" */
    const char *synopsis; /* "MODEL --prompt TEXT [options]" */
    const char *about;    /* whole lines */
    const char *examples; /* whole lines; NULL: none */
} och_usage;

/* Parses argv[1 ..]: long options "--name VALUE" and "--name=VALUE", letters "-n VALUE" and "-nVALUE", positional
 * arguments anywhere, "--" ends the options. --help and -h print the help to stdout. Returns -1 to go on, else the exit
 * code to return. A table with "device" also takes --require-gpu. *out_n_args positional arguments are left in args (at most max_args). */
int och_opts_parse(const och_usage *usage, const och_opt *opts, size_t n_opts, int argc, char **argv, const char **args,
                   int max_args, int *out_n_args) OCH_WARN_UNUSED;

/* ---- devices ---- */

struct och_device;
/* The table of `ochre devices`, and an object of its --json. */
void och_main_device_heading(och_strbuf *out);
void och_main_device_row(const struct och_device *d, och_strbuf *out);
void och_main_device_json(const struct och_device *d, och_strbuf *out);
/* Lines of `ochre doctor`, or objects of its --json: each device's library of products. */
void och_main_blas(const struct och_device *const *devices, int n, bool json, och_strbuf *out);

/* ---- models ---- */

/* Known models: the short name, the file that `pull` writes, and a line about it. */
typedef struct och_known_model {
    const char *name, *file, *about;
} och_known_model;
const och_known_model *och_known_model_at(size_t i); /* NULL past the end */
/* The directory of models: OCHRE_MODELS, or "models". */
const char *och_models_dir(void);
/* The path of what the user called a model: a path that exists, a known short name, or a file in the directory of models.
 * NOTFOUND says where it was looked for and how to get it. */
och_status och_model_path(const char *model, och_strbuf *out_path, och_err *err) OCH_WARN_UNUSED;

/* Options that commands with a model share, and opening it with progress on stderr (a bar on a terminal, else silent).
 * On failure a message has been printed and *out_model is NULL; returns -1 or the exit code. */
typedef struct och_open_args {
    const char *model, *device, *provider;
    const char *synthetic, *format; /* a named shape instead of a model; format NULL: Q8_0 */
    int32_t threads;
    bool quiet;
    double *out_seconds; /* NULL is allowed */
} och_open_args;
int och_main_open(const och_open_args *args, ochre_model **out_model) OCH_WARN_UNUSED;

/* "auto", "f32", "f16", "bf16"; OCH_EXIT_USAGE for another word. */
int och_main_kv_type(const char *name, ochre_kv_type *out_type) OCH_WARN_UNUSED;

/* --trace FILE (NULL: not given): starts a timeline; -1, or a message and OCH_EXIT_FAILURE. The end returns rc, or
 * OCH_EXIT_FAILURE with a message where the file could not be written. */
int och_main_trace_start(const char *path);
int och_main_trace_stop(int rc);

/* Whether --provider names one (NULL: not given); -1, or a message and OCH_EXIT_USAGE. */
int och_main_check_provider(const char *command, const char *name);

/* Whether --format names a weight format (NULL: not given); -1, or a message with all of them and OCH_EXIT_USAGE. */
int och_main_check_format(const char *command, const char *name);

/* Ctrl-C: installs a handler that sets a flag; a second Ctrl-C ends the process. */
void och_main_catch_interrupt(void);
bool och_main_interrupted(void);
/* Whether the handler ends the process there and then: for stretches that cannot look at the flag and have nothing to
 * finish. */
void och_main_interrupt_exits(bool at_once);

#endif
