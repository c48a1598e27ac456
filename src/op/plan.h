/* A plan: a model's step as op records over named buffers, built once, printable, rewritten by passes, executed in order.
 *
 * Buffers are weights (the model's), state (the session's caches), inputs (written by the host before each step),
 * outputs (read after it) and arena (values inside a step; offsets assigned from their lifetimes). The number of rows of
 * a buffer is fixed, or follows the step: one a token, one an output row, one a sequence. A layout places the arena for
 * at most so many tokens and outputs; a step uses the smallest layout that holds it. */
#ifndef OCH_OP_PLAN_H
#define OCH_OP_PLAN_H

#include "base/strbuf.h"
#include "op/memo.h"
#include "op/op.h"

typedef enum och_plan_kind { OCH_PLAN_WEIGHT, OCH_PLAN_STATE, OCH_PLAN_INPUT, OCH_PLAN_OUTPUT, OCH_PLAN_ARENA } och_plan_kind;
typedef enum och_plan_rows { OCH_ROWS_FIXED, OCH_ROWS_TOKENS, OCH_ROWS_OUTPUTS, OCH_ROWS_SEQUENCES } och_plan_rows;

#define OCH_PLAN_NAME_BYTES 48

typedef struct och_plan_buf {
    char name[OCH_PLAN_NAME_BYTES];
    och_plan_kind kind;
    och_plan_rows rows_kind;
    och_tensor tensor; /* rows: the fixed number, else 0; address and host pointer set for all but arena buffers */
} och_plan_buf;

/* A buffer's number in its plan; negative: absent. */
typedef int32_t och_plan_ref;
#define OCH_PLAN_NONE (-1)

typedef struct och_plan_op {
    och_op_id op;
    int layer; /* -1: outside the layers */
    och_plan_ref in[OCH_OP_MAX_IN], out[OCH_OP_MAX_OUT];
    och_op_call attr; /* only its `attr` is used */
    const och_op_provider *provider; /* set by och_plan_select */
} och_plan_op;

typedef struct och_plan_layout {
    int64_t max_tokens, max_outputs;
    uint64_t arena_bytes, scratch_bytes;
    uint64_t *offsets; /* owned; one a buffer; UINT64_MAX where it is not in the arena or not used */
} och_plan_layout;

#define OCH_PLAN_MAX_LAYOUTS 8

typedef struct och_plan {
    och_plan_buf *bufs; /* owned */
    int n_bufs, cap_bufs;
    och_plan_op *ops; /* owned */
    int n_ops, cap_ops;
    och_op_memo *memos; /* owned; one a record, made by och_plan_select where providers have kernels; else NULL */
    int layer; /* given to the ops that are added */
    och_plan_layout layouts[OCH_PLAN_MAX_LAYOUTS]; /* ascending in max_tokens */
    int n_layouts;
    bool failed; /* an allocation failed while building */
} och_plan;

void och_plan_init(och_plan *p);
void och_plan_deinit(och_plan *p);

/* Each returns the new buffer's number; after a failed allocation OCH_PLAN_NONE and p->failed. `tensor` is copied. */
och_plan_ref och_plan_add_bound(och_plan *p, och_plan_kind kind, och_plan_rows rows_kind, const och_tensor *tensor,
                                const char *fmt, ...) OCH_PRINTF(5, 6);
/* A float32 arena buffer with `cols` columns. */
och_plan_ref och_plan_add_value(och_plan *p, och_plan_rows rows_kind, int64_t cols, const char *fmt, ...)
    OCH_PRINTF(4, 5);
/* Adds a record with all operands absent and attributes zero; NULL after a failed allocation. Valid until the next. */
och_plan_op *och_plan_add_op(och_plan *p, och_op_id op);
void och_plan_remove_op(och_plan *p, int index);

/* Reads of a buffer by records [begin, end). */
int och_plan_count_reads(const och_plan *p, och_plan_ref ref, int begin, int end);

/* The call of a record with `n` rows for token buffers and so on; arena operands get addresses from the layout and
 * `arena` (value 0 and NULL: shapes only). */
typedef struct och_plan_extent {
    int64_t tokens, outputs, sequences;
} och_plan_extent;
void och_plan_call(const och_plan *p, const och_plan_layout *layout, int op, och_plan_extent extent, och_dev_addr arena,
                   void *arena_host, och_op_call *out_call);

/* Runs a record's call, which och_plan_call made. One thread at a time. */
och_status och_plan_run(och_plan *p, int op, const och_op_ctx *ctx, const och_op_call *call, och_err *err) OCH_WARN_UNUSED;

/* Checks every record against its op's contract and chooses its provider, which then knows what steps of up to `most` may launch.
 * `only`: see och_op_select. */
och_status och_plan_select(och_plan *p, const och_device *device, const char *only, och_plan_extent most, och_err *err) OCH_WARN_UNUSED;

/* Adds a layout for at most max_tokens and max_outputs. Select first. */
och_status och_plan_add_layout(och_plan *p, const och_device *device, int64_t max_tokens, int64_t max_outputs,
                               int64_t max_sequences, och_err *err) OCH_WARN_UNUSED;

/* A line a record: layer, op, operands with shapes, attributes, provider. */
void och_plan_print(const och_plan *p, och_strbuf *out);
/* A JSON array of the same. */
void och_plan_print_json(const och_plan *p, och_strbuf *out);

#endif
