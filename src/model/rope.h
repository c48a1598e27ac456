/* Rotary tables, made on the host. */
#ifndef OCH_MODEL_ROPE_H
#define OCH_MODEL_ROPE_H

#include "model/config.h"

typedef struct och_rope {
    int dim;
    float inv_freq[OCH_MAX_ROPE_DIM / 2];
    float magnitude; /* of cosines and sines */
} och_rope;

/* Frequencies: base^(-2i/dim) (Su et al. 2021, section 3.2.2), then the scaling: LINEAR divides all by the factor
 * (Chen et al. 2023); LLAMA3 divides the long waves and blends the middle (Hugging Face, _compute_llama3_parameters); YARN
 * blends by number of rotations (Peng et al. 2023, section 3.2 and equation 22). `factors` (may be NULL): dim/2 divisors
 * that a file brings (rope_freqs.weight). */
void och_rope_init(const och_rope_config *c, const float *factors, och_rope *out_rope);

/* What YARN multiplies cosines and sines by unless a file says otherwise: 0.1 ln(factor) + 1. */
double och_rope_yarn_magnitude(double factor);

/* out[dim]: dim/2 cosines, then dim/2 sines, at that position. */
void och_rope_row(const och_rope *r, int32_t position, float *out);

#endif
