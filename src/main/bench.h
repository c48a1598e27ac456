/* Parts of `ochre bench`: what is measured, runs of it, what the device could do at most, and the report. */
#ifndef OCH_MAIN_BENCH_H
#define OCH_MAIN_BENCH_H

#include "engine/graph.h"
#include "engine/session.h"
#include "model/model.h"

#include <ochre/ochre.h>
#include <stdbool.h>
#include <stdint.h>

enum { OCH_BENCH_MAX_RUNS = 1000, OCH_BENCH_MAX_LIST = 16 };

/* A run: `tokens` of a prompt into one empty sequence, or `tokens` steps of one token for each of `batch` sequences that hold
 * `depth` tokens. */
typedef struct och_bench_case {
    bool decode;
    int32_t tokens, batch, depth;
} och_bench_case;

/* How the `depth` tokens get there: by steps, as a prompt does, or as positions whose keys and values are zeros. */
typedef enum och_bench_fill { OCH_BENCH_FILL_PROMPT, OCH_BENCH_FILL_ZEROS } och_bench_fill;

/* ---- runs ---- */

/* A session made for one case, and the sequences that its decode runs go on from. */
typedef struct och_bench_slot {
    ochre_graphs graphs;
    och_bench_case of;
    ochre_session *session; /* owned; NULL: none yet */
    int32_t *sequences;     /* owned, [of.batch] */
    ochre_span *spans;      /* owned, [of.batch] */
    int32_t *chosen;        /* owned, [of.batch]; what the device chose, which is not fed */
    int32_t n_sequences;    /* that are open */
    och_step_stats stats;   /* of its decode runs */
} och_bench_slot;

typedef struct och_bench {
    ochre_model *model;
    ochre_model_info info;
    ochre_session_options options; /* the session's, but for sizes and graphs */
    int32_t step_tokens; /* of a prompt in one step */
    och_bench_fill fill;
    int32_t *tokens; /* owned; pseudo-random */
    int32_t n_tokens;
} och_bench;

/* Makes the slot one of the case, unless it is, with a run that does not count. */
ochre_status och_bench_prepare(och_bench *b, och_bench_slot *slot, const och_bench_case *c, ochre_error *e) OCH_WARN_UNUSED;
/* Tokens a second of one run; the depth's filling is not timed. */
ochre_status och_bench_run(och_bench *b, och_bench_slot *slot, double *out_speed, ochre_error *e) OCH_WARN_UNUSED;
void och_bench_slot_deinit(och_bench_slot *slot);
void och_bench_deinit(och_bench *b); /* the tokens; the model is the caller's */

/* ---- limits ---- */

/* What no engine gets around. bytes: of a decode step, on the average of a run's: every matrix and vector once, as the file has
 * them (of the embedding, the rows that are looked up), the keys and values that the layers attend to, and those written.
 * flops: of a prefill run: two for each weight of the layers' matrices and token, the output matrix for one token, and what
 * causal attention multiplies, sliding windows cut off. */
typedef struct och_bench_limit {
    double bytes, flops; /* 0: the other kind of run */
} och_bench_limit;
och_bench_limit och_bench_limit_of(const och_bench_slot *slot);

/* Bytes a second of a read that does nothing else, on the model's device: a kernel's of 1 GiB on a GPU, all threads' sum of as
 * much as the weights take (256 MiB at most) on the CPU. 0 and OK on devices whose time means nothing. */
och_status och_bench_read_rate(const och_model *m, int n_threads, double *out_rate, och_err *err) OCH_WARN_UNUSED;

/* ---- report ---- */

typedef struct och_bench_row {
    och_bench_case of;
    const char *key; /* "prefill", "decode", "decode_graphs" */
    double *runs;    /* owned by the caller, [n_runs], tokens a second */
    och_step_stats stats; /* decode */
    och_bench_limit limit;
} och_bench_row;

typedef struct och_bench_report {
    const char *name; /* the model's or the shape's */
    const ochre_model_info *info;
    int threads, n_runs, n_rows;
    const och_bench_row *rows;
    bool simulated; /* rates would be the simulator's own */
    double load_seconds, read_rate; /* 0: not known */
    uint64_t peak_rss_bytes;
} och_bench_report;

typedef enum och_bench_output { OCH_BENCH_TABLE, OCH_BENCH_JSON, OCH_BENCH_CSV } och_bench_output;
/* To stdout; returns an exit code. */
int och_bench_print(const och_bench_report *r, och_bench_output output);

#endif
