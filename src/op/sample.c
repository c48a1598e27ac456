/* SAMPLE: a token from a row of logits. The reference sorts, where faster ones select. */
#include "op/def.h"

#include "base/half.h"
#include "base/rng.h"
#include "base/weight.h"

#include <float.h>
#include <math.h>

_Static_assert(OCH_SAMPLE_MAX_IDS <= OCH_WEIGHT_MAX_IDS, "sums of weights fit 64 bits");

static och_status check(const och_op_call *c, och_err *err) {
    const och_tensor *x = &c->in[OCH_SAMPLE_LOGITS];
    OCH_TRY(och_op_expect(c, och_in(OCH_SAMPLE_LOGITS), OCH_DTYPE_F32, -1, -1, err));
    if (x->cols < 1 || x->cols > OCH_SAMPLE_MAX_IDS)
        return och_op_fail(c, och_in(OCH_SAMPLE_LOGITS), OCH_RANGE, err, "expected 1 to %lld columns, found %lld",
                           (long long)OCH_SAMPLE_MAX_IDS, (long long)x->cols);
    OCH_TRY(och_op_expect(c, och_in(OCH_SAMPLE_NUMBERS), OCH_DTYPE_F32, x->rows, OCH_SAMPLE_N_NUMBERS, err));
    OCH_TRY(och_op_expect(c, och_in(OCH_SAMPLE_DRAWS), OCH_DTYPE_I32, x->rows, OCH_SAMPLE_N_DRAWS, err));
    OCH_TRY(och_op_expect(c, och_out(0), OCH_DTYPE_I32, x->rows, 1, err));
    return och_op_expect_overlap(c, 0, -1, -1, err);
}

static void cost(const och_op_call *c, uint64_t *out_bytes, uint64_t *out_flops) {
    *out_bytes = och_op_call_bytes(c);
    *out_flops = 0;
}

static uint64_t scratch_bytes(const och_device *device, const och_op_call *c) {
    (void)device;
    return (uint64_t)c->in[OCH_SAMPLE_LOGITS].cols * sizeof(uint64_t);
}

static const int32_t *ints(const och_tensor *t, int64_t row) {
    return (const int32_t *)(const void *)((const char *)t->host + (uint64_t)row * t->row_bytes);
}

static och_status check_numbers(const och_op_call *c, int64_t row, och_err *err) {
    const float *f = och_op_row_f32(&c->in[OCH_SAMPLE_NUMBERS], row);
    float t = f[OCH_SAMPLE_TEMPERATURE], p = f[OCH_SAMPLE_TOP_P], m = f[OCH_SAMPLE_MIN_P];
    int32_t k = ints(&c->in[OCH_SAMPLE_DRAWS], row)[OCH_SAMPLE_TOP_K];
    if (t >= 0 && isfinite(t) && p > 0 && p <= 1 && m >= 0 && m <= 1 && k >= 0) return OCH_OK;
    return och_op_fail(c, och_in(OCH_SAMPLE_NUMBERS), OCH_RANGE, err,
                       "row %lld: expected a temperature from 0, top_p of (0, 1], min_p of [0, 1], top_k from 0, found %g, %g, %g, %d",
                       (long long)row, (double)t, (double)p, (double)m, k);
}

static float scaled(float x, float top, float temperature) {
    float z = (x - top) / temperature;
    return z < -FLT_MAX ? -FLT_MAX : z;
}

/* Greater is better: the greater z, of which -0 is +0, then the lower id. */
static uint64_t key_of(float z, int64_t id) {
    uint32_t b = och_f32_bits(z + 0.0f);
    return (uint64_t)(b >> 31 ? ~b : b | 0x80000000u) << 32 | (uint32_t)~(uint32_t)id;
}

static float z_of(uint64_t key) {
    uint32_t k = (uint32_t)(key >> 32);
    return och_f32_from_bits(k >> 31 ? k & 0x7FFFFFFFu : ~k);
}

static uint64_t weight(uint64_t key) { return och_weight_fixed(och_exp_neg(z_of(key))); }

static void sink(uint64_t *heap, int64_t at, int64_t n) {
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[at] <= heap[child]) return;
        uint64_t t = heap[at];
        heap[at] = heap[child];
        heap[child] = t;
    }
}

/* A heap whose least is first, taken apart from behind. */
static void sort_falling(uint64_t *keys, int64_t n) {
    for (int64_t i = n / 2; i-- > 0;) sink(keys, i, n);
    for (int64_t i = n - 1; i > 0; i--) {
        uint64_t t = keys[0];
        keys[0] = keys[i];
        keys[i] = t;
        sink(keys, 0, i);
    }
}

static uint64_t word64(const int32_t *low) { return (uint64_t)(uint32_t)low[1] << 32 | (uint32_t)low[0]; }

static int32_t draw(const float *x, int64_t v, int64_t best, const float *numbers, const int32_t *draws, uint64_t *keys) {
    float temperature = numbers[OCH_SAMPLE_TEMPERATURE], top_p = numbers[OCH_SAMPLE_TOP_P];
    uint64_t least = och_weight_fixed(numbers[OCH_SAMPLE_MIN_P]), total = 0, walked = 0;
    int64_t n = v;
    for (int64_t i = 0; i < v; i++) keys[i] = key_of(scaled(x[i], x[best], temperature), i);
    sort_falling(keys, v);
    if (draws[OCH_SAMPLE_TOP_K] > 0 && draws[OCH_SAMPLE_TOP_K] < n) n = draws[OCH_SAMPLE_TOP_K];
    if (top_p < 1) {
        uint64_t sum = 0, need;
        int64_t kept = 0;
        for (int64_t i = 0; i < n; i++) sum += weight(keys[i]);
        need = och_weight_needed(top_p, sum);
        for (sum = 0; sum < need; kept++) sum += weight(keys[kept]);
        n = kept;
    }
    uint64_t floor_key = keys[n - 1];
    for (int64_t i = 0; i < n; i++) total += weight(keys[i]) >= least ? weight(keys[i]) : 0;
    uint64_t target = och_weight_target(och_rng_bits(word64(&draws[OCH_SAMPLE_SEED]), word64(&draws[OCH_SAMPLE_POSITION]), 0), total);
    for (int64_t i = 0; i < v; i++) {
        uint64_t key = key_of(scaled(x[i], x[best], temperature), i);
        if (key < floor_key || weight(key) < least) continue;
        walked += weight(key);
        if (walked > target) return (int32_t)i;
    }
    return (int32_t)best; /* never: the greatest weighs 1 */
}

static och_status run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_tensor *logits = &c->in[OCH_SAMPLE_LOGITS];
    for (int64_t r = 0; r < logits->rows; r++) OCH_TRY(check_numbers(c, r, err));
    for (int64_t r = 0; r < logits->rows; r++) {
        const float *x = och_op_row_f32(logits, r), *numbers = och_op_row_f32(&c->in[OCH_SAMPLE_NUMBERS], r);
        int32_t *id = (int32_t *)(void *)((char *)c->out[0].host + (uint64_t)r * c->out[0].row_bytes);
        int64_t best = 0, i = 0;
        for (; i < logits->cols && isfinite(x[i]); i++)
            if (x[i] > x[best]) best = i;
        if (i < logits->cols) *id = (int32_t)(-1 - i);
        else if (numbers[OCH_SAMPLE_TEMPERATURE] == 0) *id = (int32_t)best;
        else *id = draw(x, logits->cols, best, numbers, ints(&c->in[OCH_SAMPLE_DRAWS], r), ctx->scratch);
    }
    return OCH_OK;
}

const och_op_def och_op_def_SAMPLE = {
    check, cost, {OCH_OP_REFERENCE_ROW(SAMPLE), .supports = och_op_supports_all, .run = run, .scratch_bytes = scratch_bytes}};
