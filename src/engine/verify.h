/* Verification: a model's logits against a golden, teacher-forced (the run is fed the golden's own tokens).
 *
 * A golden prompt holds input ids, the oracle's greedy continuation, and its logits: either in full for positions 0 ..
 * n_rows-1 of ids + greedy, or for the positions that predict `greedy` alone as the greatest logits, a few probes, the
 * log-sum-exp and the greatest |logit|. Position i of the input predicts token i + 1.
 *
 * What is measured, with p the oracle's distribution and q the model's:
 *   worst |delta logit| over every logit that the golden holds, and that over the greatest |logit| of the prompt;
 *   mean KL(p || q) in nats; in a short golden the logits that are not stored are one bucket, which makes it a lower
 *   bound of the full one;
 *   for each token where the model's greatest logit differs from the oracle's: the gap between the two candidates in the
 *   oracle's logits. It is a near tie if the gap is below twice the worst |delta logit| of the prompt. */
#ifndef OCH_ENGINE_VERIFY_H
#define OCH_ENGINE_VERIFY_H

#include "base/dtype.h"
#include "base/status.h"

#include <ochre/ochre.h>

typedef struct och_golden_prompt {
    char *name; /* owned, as the arrays below */
    int32_t *ids, *greedy;
    int n_ids, n_greedy;
    int n_vocab; /* columns of `logits`; 0: unknown */
    float *logits; /* [n_rows, n_vocab]; NULL: short */
    int n_rows;
    int32_t *top_ids;  /* [n_greedy, n_top], greatest first */
    float *top_logits; /* [n_greedy, n_top] */
    int n_top;
    float *lse, *max_abs; /* [n_greedy] */
    int32_t *probe_ids;   /* [n_probe]; may be NULL */
    float *probe_logits;  /* [n_greedy, n_probe]; may be NULL */
    int n_probe;
} och_golden_prompt;

typedef struct och_golden {
    och_golden_prompt *prompts; /* owned */
    int n_prompts;
    char *model_file; /* owned; from the metadata, or NULL */
} och_golden;

/* Reads a safetensors golden: NAME.ids, NAME.greedy, then NAME.logits, or NAME.top_ids, NAME.top_logits, NAME.lse,
 * NAME.max_abs and optionally probe_ids and NAME.probe_logits. CORRUPT names the tensor. */
och_status och_golden_read(const char *path, och_golden *out_golden, och_err *err) OCH_WARN_UNUSED;
void och_golden_deinit(och_golden *g);

typedef struct och_verify_difference {
    int position; /* in greedy */
    int32_t expected, found;
    double gap; /* between the two in the oracle's logits; infinite when the golden does not hold `found` */
    bool near_tie;
} och_verify_difference;

#define OCH_VERIFY_MAX_LISTED 16

typedef struct och_verify_result {
    int n_positions; /* of which logits were compared */
    int n_tokens, n_equal, n_near_ties; /* greedy tokens */
    double worst_delta, max_abs, mean_kl, worst_kl;
    och_verify_difference differences[OCH_VERIFY_MAX_LISTED];
    int n_listed;
} och_verify_result;

/* Runs one prompt on a fresh sequence of `session` (whose max_context holds ids + greedy, max_step_tokens and max_logits 64). step_tokens: most tokens of
 * one step, at most 64; 1 runs the continuation token by token, as generation does. */
och_status och_verify_prompt(ochre_session *session, const och_golden_prompt *g, int n_vocab, int step_tokens,
                             och_verify_result *out_result, och_err *err) OCH_WARN_UNUSED;

/* A golden prompt from a session itself: n_greedy tokens after ids, with full logits of all positions. */
och_status och_golden_generate(ochre_session *session, int n_vocab, const char *name, const int32_t *ids, int n_ids,
                               int n_greedy, och_golden_prompt *out_prompt, och_err *err) OCH_WARN_UNUSED;
void och_golden_prompt_deinit(och_golden_prompt *g);

/* What a run must keep to. */
typedef struct och_verify_bounds {
    const char *what;    /* "the float32 reference", "weights of 8 bits and more", ... */
    double max_relative; /* worst |delta| / max |logit| */
    double max_kl; /* mean; infinite: not asked */
    double max_share; /* of near ties among tokens */
} och_verify_bounds;
/* A state of eight-bit floats (`state`; NONE: as sessions choose) has bounds of its own, whatever runs. Else strict: the
 * reference provider against a float32 oracle; else by the coarsest weight format. */
const och_verify_bounds *och_verify_bounds_for(bool strict, och_dtype coarsest, och_dtype state);

/* Several prompts together. */
typedef struct och_verify_total {
    int n_prompts, n_positions, n_tokens, n_equal, n_near_ties;
    double worst_delta, worst_relative; /* worst_relative: the greatest of each prompt's |delta| / max |logit| */
    double mean_kl;                     /* over all positions */
} och_verify_total;
void och_verify_total_add(och_verify_total *t, const och_verify_result *r);
/* NULL when the total keeps to the bounds, else what does not. */
const char *och_verify_judge(const och_verify_total *t, const och_verify_bounds *b);

#endif
