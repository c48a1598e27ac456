/* Rows that are handed on as halves (op/op.h): to the bit what the next product would have made of them; with fewer rows, and where
 * each is computed as alone, as if that had not been asked for. */
#ifndef OCH_TESTS_OPS_HALVES_H
#define OCH_TESTS_OPS_HALVES_H

#include "conform/support/ops_codes.h"

#include "base/half.h"

typedef struct halves_case {
    int64_t n, k, m;
    och_act act;
    bool bias, residual, invariant;
} halves_case;

/* Row for row; exact: the bytes of bf16 from the row's beginning on, the rest untouched. */
static void halves_match(const och_tensor *y, const och_tensor *found, bool exact, const char *what) {
    double error = 0.0, square = 0.0;
    for (int64_t i = 0; i < y->rows; i++) {
        const uint16_t *h = (const void *)rig_row(found, i);
        const uint8_t *rest = (const uint8_t *)(h + y->cols);
        for (int64_t j = 0; j < y->cols; j++) {
            float v = rig_row(y, i)[j], e = och_bf16_to_f32(h[j]) - v;
            if (exact && och_f32_to_bf16(v) != h[j]) fail_msg("%s: [%lld, %lld]: bf16 %#x for %.9g", what, (long long)i, (long long)j, h[j], (double)v);
            error += (double)e * (double)e, square += (double)v * (double)v;
        }
        for (int64_t j = 0; j < 2 * y->cols; j++)
            if (rest[j] != RIG_FILL) fail_msg("%s: row %lld: written beyond its halves", what, (long long)i);
    }
    if (!(error <= 1e-4 * square)) fail_msg("%s: normalised mean square error %.3g of halves", what, error / square);
}

static void halves_linear(rig *r) {
    static const halves_case cases[] = {
        {64, 96, 136, OCH_ACT_SILU, false, true, false}, {130, 64, 72, OCH_ACT_GELU_TANH, true, false, false},
        {63, 96, 72, OCH_ACT_SILU, false, true, false},  {66, 64, 40, OCH_ACT_SILU, false, true, true},
        {150, 64, 72, OCH_ACT_GELU_ERF, true, true, false},
    };
    const och_op_provider *p = rig_provider(r, OCH_OP_LINEAR);
    if (!p || !p->takes_halves) {
        rig_skips("provider %s takes no halves", r->who->provider);
        skip();
    }
    /* A library that refuses leaves them to kernels, whose own activations are finer. */
    const char *library = och_env_get(OCH_ENV_OCHRE_HIPBLASLT);
    bool exact = library && !strstr(library, "refuses");
    r->no_twin = true;
    for (size_t i = 0; i < OCH_COUNT(cases); i++) {
        const halves_case *s = &cases[i];
        rng g = {62000 + i};
        char name[96];
        snprintf(name, sizeof name, "halves of %lld rows, k %lld, m %lld", (long long)s->n, (long long)s->k, (long long)s->m);
        bool takes = s->n >= OCH_OP_HALVES_ROWS && !s->invariant;
        och_op_call up = linear_call(rig_random(r, &g, s->n, s->k, 1.0, 0), rig_weight(r, &g, OCH_DTYPE_BF16, s->m, s->k, 0.2));
        up.in[OCH_LINEAR_W0 + 1] = rig_weight(r, &g, OCH_DTYPE_BF16, s->m, s->k, 0.2);
        up.attr.linear.n_weights = 2;
        up.attr.linear.glu = s->act;
        for (int b = 0; s->bias && b < 2; b++) up.in[OCH_LINEAR_B0 + b] = rig_random(r, &g, 1, s->m, 1.0, 0);
        och_op_call plain = up;
        plain.out[0] = rig_tensor(r, OCH_DTYPE_F32, s->n, s->m, 0);
        assert_true(rig_ran(r, &plain, s->invariant, name));
        up.out[0] = rig_tensor(r, OCH_DTYPE_F32, s->n, s->m, 0);
        up.in[OCH_LINEAR_W0] = plain.in[OCH_LINEAR_W0], up.in[OCH_LINEAR_W0 + 1] = plain.in[OCH_LINEAR_W0 + 1]; /* packed */
        up.attr.linear.y_halves = true;
        assert_true(rig_ran(r, &up, s->invariant, name));
        if (takes) halves_match(&plain.out[0], &up.out[0], exact, name);
        else same_rows(&plain.out[0], &up.out[0], name);

        och_op_call down = linear_call(plain.out[0], rig_weight(r, &g, OCH_DTYPE_BF16, 40, s->m, 0.2));
        if (s->residual) down.in[OCH_LINEAR_RESIDUAL] = rig_random(r, &g, s->n, 40, 1.0, 0);
        down.out[0] = rig_tensor(r, OCH_DTYPE_F32, s->n, 40, 0);
        assert_true(rig_ran(r, &down, s->invariant, name));
        och_op_call next = down;
        next.in[OCH_LINEAR_X] = up.out[0];
        next.attr.linear.x_halves = true;
        next.out[0] = rig_tensor(r, OCH_DTYPE_F32, s->n, 40, 0);
        assert_true(rig_ran(r, &next, s->invariant, name));
        if (exact) same_rows(&down.out[0], &next.out[0], name);
        double error = 0.0, square = 0.0;
        for (int64_t a = 0; a < s->n; a++)
            for (int b = 0; b < 40; b++) {
                double v = (double)rig_row(&down.out[0], a)[b], e = (double)rig_row(&next.out[0], a)[b] - v;
                error += e * e, square += v * v;
            }
        if (!(error <= 1e-4 * square)) fail_msg("%s: normalised mean square error %.3g of what halves become", name, error / square);
        rig_reset(r);
    }
    r->no_twin = false;
}

#endif
