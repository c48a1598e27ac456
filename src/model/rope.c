#include "model/rope.h"

#include <math.h>

static void scale_llama3(const och_rope_config *c, float *f, int n) {
    double low_wave = c->original_context / c->low_freq_factor, high_wave = c->original_context / c->high_freq_factor;
    for (int i = 0; i < n; i++) {
        double wave = 2.0 * M_PI / f[i];
        if (wave < high_wave) continue;
        if (wave > low_wave) {
            f[i] = (float)(f[i] / c->factor);
            continue;
        }
        double smooth = (c->original_context / wave - c->low_freq_factor) / (c->high_freq_factor - c->low_freq_factor);
        f[i] = (float)((1.0 - smooth) * (f[i] / c->factor) + smooth * f[i]);
    }
}

/* The dimension at which a wave turns `rotations` times over the original context. */
static double yarn_dimension(const och_rope_config *c, double rotations) {
    return c->dim * log(c->original_context / (rotations * 2.0 * M_PI)) / (2.0 * log(c->base));
}

static void scale_yarn(const och_rope_config *c, float *f, int n) {
    double low = yarn_dimension(c, c->beta_fast), high = yarn_dimension(c, c->beta_slow);
    if (c->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, c->dim - 1.0);
    if (low == high) high += 0.001;
    for (int i = 0; i < n; i++) {
        double ramp = fmin(fmax((i - low) / (high - low), 0.0), 1.0); /* 0: keep, 1: interpolate */
        f[i] = (float)(f[i] / c->factor * ramp + f[i] * (1.0 - ramp));
    }
}

double och_rope_yarn_magnitude(double factor) { return factor > 1.0 ? 0.1 * log(factor) + 1.0 : 1.0; }

void och_rope_init(const och_rope_config *c, const float *factors, och_rope *r) {
    int n = c->dim / 2;
    r->dim = c->dim;
    r->magnitude = 1.0f;
    /* In float, step by step, as the checkpoints were trained: at position 10^4 a last place of the frequency is 10^-3 of
     * an angle. */
    for (int i = 0; i < n; i++) r->inv_freq[i] = 1.0f / powf((float)c->base, (float)(2 * i) / (float)c->dim);
    switch (c->scaling) {
    case OCH_ROPE_PLAIN: break;
    case OCH_ROPE_LINEAR:
        for (int i = 0; i < n; i++) r->inv_freq[i] = (float)(r->inv_freq[i] / c->factor);
        break;
    case OCH_ROPE_LLAMA3: scale_llama3(c, r->inv_freq, n); break;
    case OCH_ROPE_YARN:
        scale_yarn(c, r->inv_freq, n);
        r->magnitude = (float)(c->attention_factor > 0.0 ? c->attention_factor : och_rope_yarn_magnitude(c->factor));
        break;
    }
    if (factors)
        for (int i = 0; i < n; i++) r->inv_freq[i] /= factors[i];
}

void och_rope_row(const och_rope *r, int32_t position, float *out) {
    int n = r->dim / 2;
    for (int i = 0; i < n; i++) {
        float angle = (float)position * r->inv_freq[i];
        out[i] = cosf(angle) * r->magnitude;
        out[n + i] = sinf(angle) * r->magnitude;
    }
}
