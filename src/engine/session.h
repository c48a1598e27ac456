/* A session: state, sequences and steps over one model. Everything is allocated at creation; a step allocates nothing. */
#ifndef OCH_ENGINE_SESSION_H
#define OCH_ENGINE_SESSION_H

#include "engine/graph.h"
#include "engine/sampler.h"
#include "kv/blocks.h"
#include "model/model.h"
#include "model/rope.h"
#include "op/plan.h"

#define OCH_BLOCK_TOKENS 32

typedef struct och_session_options {
    int max_sequences, max_context, max_step_tokens, max_logits; /* 0: see ochre_session_options */
    uint64_t kv_tokens;
    och_dtype kv_dtype; /* F32, F16, BF16, F8_E4M3; NONE: by the providers */
    bool batch_invariant;
    bool no_passes; /* leave the plan as the architecture built it */
    och_graphs_wish graphs;
    bool host_sampling; /* tokens are chosen on the host even where the device could */
} och_session_options;

/* State of one kind: full layers (PAGED) or sliding ones (RING). */
typedef struct och_state_group {
    bool used;
    och_kv_group_desc desc;
    och_kv_pool *pool; /* owned */
    uint32_t table_len;
    uint32_t kv_index; /* its number in och_kv_seq */
    och_buf buf;       /* K and V of all its layers */
    uint64_t block_bytes; /* of K, and of V, of one layer */
} och_state_group;

/* An input of the plan: where the host writes it and where the device reads it. It lies where a step of so many rows needs it
 * (och_session_place_inputs), so that one copy brings all of a step's inputs. */
typedef struct och_step_input {
    uint64_t offset_bytes, size_bytes;
    och_plan_ref ref; /* OCH_PLAN_NONE: the plan has no such input */
} och_step_input;

enum { OCH_IN_TOKENS, OCH_IN_POSITIONS, OCH_IN_SEQS, OCH_IN_OUT_ROWS, OCH_IN_SLOTS, OCH_IN_TABLES = OCH_IN_SLOTS + 2,
       OCH_IN_ROPE = OCH_IN_TABLES + 2, OCH_IN_NUMBERS = OCH_IN_ROPE + 2, OCH_IN_DRAWS, OCH_IN_COUNT_ };

typedef struct och_session {
    och_model *model; /* borrowed */
    och_session_options options; /* resolved */
    och_queue *queue;
    och_plan plan;
    och_buf arena, scratch, logits, inputs, staging; /* staging is empty on unified devices */
    uint64_t counters_at; /* in scratch, behind what ops use of it */
    bool step_failed;     /* the last one */
    void *logits_host; /* a copy where the device is not unified: in logits_pinned, or owned */
    och_buf logits_pinned; /* what logits_host then is: copies to it can be recorded */
    bool samples;          /* the device chooses tokens where a step asks for no more than tokens */
    int sample_record;     /* of the plan, its last; -1: none. Steps that want logits leave it out */
    och_buf ids, ids_pinned; /* i32 [max_logits], what it chose; ids_pinned is empty on unified devices */
    void *sampler_scratch; /* owned; for what is chosen on the host */
    size_t sampler_scratch_bytes;
    och_step_input in[OCH_IN_COUNT_];
    int64_t in_tokens, in_outputs; /* what inputs are placed for */
    och_graphs graphs;
    och_step_stats stats;
    och_state_group groups[2];
    uint32_t n_groups;
    och_rope rope[2];
    och_kv_seq **sequences; /* [max_sequences], NULL: free */
    och_kv_copy *copies;    /* scratch of a step */
    uint32_t copies_capacity;
    size_t *span_of;    /* [max_sequences]: the span that held the sequence when it was last checked */
    int64_t n_out_rows; /* of the last step */
} och_session;

typedef struct och_span {
    int32_t sequence;
    const int32_t *tokens;
    int32_t n_tokens;
    int logits; /* 0 none, 1 last, 2 all */
} och_span;

/* How a span's token is chosen. */
typedef struct och_choice {
    och_sampler_params params;
    const int32_t *history; /* [n_history], for the penalties; borrowed */
    size_t n_history;
} och_choice;

/* Of a model that was opened to be measured: one that cannot step, but tells what it would take. */
och_status och_session_create(och_model *m, const och_session_options *options, och_session **out_session,
                              och_err *err) OCH_WARN_UNUSED;
void och_session_destroy(och_session *s);

och_status och_session_sequence_create(och_session *s, int32_t *out_sequence, och_err *err) OCH_WARN_UNUSED;
och_status och_session_sequence_fork(och_session *s, int32_t source, int32_t *out_sequence, och_err *err) OCH_WARN_UNUSED;
och_status och_session_sequence_release(och_session *s, int32_t sequence, och_err *err) OCH_WARN_UNUSED;
och_status och_session_sequence_truncate(och_session *s, int32_t sequence, int32_t n_tokens, och_err *err) OCH_WARN_UNUSED;
och_status och_session_sequence_length(const och_session *s, int32_t sequence, int32_t *out_n, och_err *err) OCH_WARN_UNUSED;

/* Sets what workgroups count themselves in to 0, behind what the queue has. */
OCH_WARN_UNUSED och_status och_session_clear_counters(och_session *s, och_err *err);

/* Places the inputs for steps of so many tokens and rows of logits, and returns the bytes that they take together. The plan's
 * input buffers are there from then on. */
uint64_t och_session_place_inputs(och_session *s, int64_t n_tokens, int64_t n_outputs);

/* See ochre_step. */
och_status och_session_step(och_session *s, const och_span *spans, size_t n_spans, och_err *err) OCH_WARN_UNUSED;
/* See ochre_step_sample: choices [n_spans], out_tokens [n_spans]. */
och_status och_session_step_sample(och_session *s, const och_span *spans, size_t n_spans, const och_choice *choices, int32_t *out_tokens,
                                   och_err *err) OCH_WARN_UNUSED;
/* Row `row` of the last step's logits by och_sample. */
och_status och_session_sample_row(och_session *s, size_t row, const och_choice *choice, uint64_t position, int32_t *out_token,
                                  och_err *err) OCH_WARN_UNUSED;
/* float32 [rows, n_vocab] of the last step; borrowed. No rows after och_session_step_sample. */
const float *och_session_logits(const och_session *s, size_t *out_rows);

/* Memory by part, for listings. */
typedef struct och_session_memory {
    uint64_t state_bytes, arena_bytes, scratch_bytes, logits_bytes, inputs_bytes;
} och_session_memory;
och_session_memory och_session_memory_get(const och_session *s);

#endif
