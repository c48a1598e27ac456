/* From logits to a token.
 *
 * Order of the steps (llama.cpp and Hugging Face differ here; this is Ochre's):
 *   1. penalties, on the raw logits of the distinct ids in the last penalty_last_n ids of the history:
 *      repetition (logit > 0: divided, else multiplied; CTRL, Keskar et al. 2019, section 4.1),
 *      then minus frequency_penalty * count, then minus presence_penalty;
 *   2. temperature 0: the greatest logit, the lowest id on an exact tie; the rest is skipped;
 *   3. logits / temperature;
 *   4. top-k: the k greatest, on a tie the lower id;
 *   5. top-p: the shortest run of the candidates, by falling probability (softmax over what top-k left), whose sum
 *      reaches top_p; at least one;
 *   6. min-p: drops candidates whose probability is below min_p times the greatest;
 *   7. one draw over what is left, renormalised: the id in which a walk by rising id passes u times the sum, with
 *      u = och_rng_uniform(seed, position, 0).
 *
 * Weights are exp((logit - greatest) / temperature), of a fixed exponential, cut to whole multiples of 2^-40: sums are integers, so
 * that whoever computes them, in whatever order, has the same (base/weight.h). An id below 2^-40 of the greatest's probability is
 * never drawn. The op SAMPLE is steps 2 to 7 on a device, and gives the same token.
 *
 * The result is a function of (params, logits, history, position) alone. Nothing is allocated. */
#ifndef OCH_ENGINE_SAMPLER_H
#define OCH_ENGINE_SAMPLER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct och_sampler_params {
    float temperature;        /* 0: greedy; >= 0 */
    int32_t top_k;            /* 0: off */
    float top_p;              /* (0, 1]; 1: off */
    float min_p;              /* [0, 1]; 0: off */
    float repetition_penalty; /* > 0; 1: off */
    float frequency_penalty;  /* any finite; 0: off */
    float presence_penalty;   /* any finite; 0: off */
    int32_t penalty_last_n;   /* ids of history that count; 0: none; -1: all */
    uint64_t seed;
} och_sampler_params;

/* Greedy: temperature 0, everything off, penalty_last_n 64, seed 0. */
och_sampler_params och_sampler_defaults(void);

/* RANGE with the field, what is allowed and what was found. */
OCH_WARN_UNUSED och_status och_sampler_validate(const och_sampler_params *p, och_err *err);

/* Whether penalties change a logit: such a draw needs the history, which no device has. */
bool och_sampler_penalises(const och_sampler_params *p, size_t n_history);

/* Bytes of scratch that och_sample needs for this vocabulary (64-byte alignment is enough). */
size_t och_sampler_scratch_bytes(uint32_t vocab);

/* logits f32[vocab], unchanged on return; history: the ids so far, oldest first (ids outside the vocabulary are
 * skipped). `position` names the draw: the index of the token in its sequence. params must be valid and the vocabulary one of 1 to
 * 2^23 ids (checked: RANGE). CORRUPT: a logit is NaN or infinite (the message names the first); *out_id is then 0. The exponential is
 * Ochre's own (relative error below 3e-7), so that a draw does not depend on the C library. */
OCH_WARN_UNUSED och_status och_sample(const och_sampler_params *p, const float *logits, uint32_t vocab,
                                      const int32_t *history, size_t n_history, uint64_t position, void *scratch,
                                      size_t scratch_bytes, uint32_t *out_id, och_err *err);

#endif
