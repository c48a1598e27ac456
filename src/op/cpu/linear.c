/* LINEAR: cuts the call into panels, brings the activations into the form that the kernels want, and hands tiles of
 * results to the epilogue.
 *
 * Two variants. "dot": rows are quantised to int8 in blocks of 32 (float weights: kept), products are exact integer sums
 * of a block, scaled in float; any number of rows, the same bytes for a row whatever goes along. "amx": panels are
 * decoded to bfloat16 and multiplied by tiles; from AMX_ROWS rows on. Each result is computed by one member, in one
 * order. */
#include "op/cpu/linear_amx.h"
#include "op/cpu/provider.h"

#include <string.h>

/* Rows from which the tiles pay for decoding the weights. */
#define AMX_ROWS 16

/* At least as far ahead as a core's outstanding loads reach. */
#define PREFETCH_BYTES 8192

/* Panels are numbered over all weights of the call; under glu panel p stands for panel p of both. */
typedef struct weight {
    const uint8_t *packed;
    och_dtype dtype;
    size_t panel_bytes;
    int64_t n_panels;
    och_cpu_epilogue epilogue;
} weight;

typedef struct job {
    const och_op_call *call;
    const och_cpu_kernels *kernels;
    weight w[OCH_LINEAR_MAX_WEIGHTS];
    int n_weights;   /* that have panels of their own: 1 under glu */
    bool glu;
    int64_t n, k;
    och_cpu_act act; /* shared; its pointers are of member 0 when `private_act` */
    bool private_act;
    size_t act_bytes, member_bytes;
    uint8_t *act_mem, *member_mem;
    unsigned needs;
    och_cpu_amx_act amx;
} job;

enum { NEEDS_INT = 1, NEEDS_HALVES = 2, NEEDS_FLOAT = 4 };

static unsigned needs_of(const och_op_call *c) {
    unsigned needs = 0;
    for (int i = 0; i < c->attr.linear.n_weights; i++) {
        const och_cpu_format *f = och_cpu_format_get(c->in[OCH_LINEAR_W0 + i].dtype);
        if (!f->low_bits) needs |= NEEDS_FLOAT;
        else needs |= NEEDS_INT;
        if (f->scale == OCH_CPU_SCALE_SUB16 || f->scale == OCH_CPU_SCALE_SUB16_MIN) needs |= NEEDS_HALVES;
    }
    return needs;
}

/* Places the arrays for n rows in mem (NULL: only counts); returns their bytes. */
static size_t act_layout(unsigned needs, int64_t n, int64_t k, uint8_t *mem, och_cpu_act *out_act) {
    size_t at = 0;
    memset(out_act, 0, sizeof *out_act);
    out_act->k = k;
    out_act->nb = k / OCH_CPU_BLOCK;
    out_act->q_stride = (int64_t)och_cpu_round64((uint64_t)k);
#define PLACE(field, bytes)                                                                                            \
    do {                                                                                                               \
        if (mem) out_act->field = (void *)(mem + at);                                                                  \
        at += och_cpu_round64((uint64_t)(bytes));                                                                      \
    } while (0)
    int64_t blocks = n * out_act->nb;
    if (needs & NEEDS_INT) {
        PLACE(q, n * out_act->q_stride);
        PLACE(d, blocks * 4);
        PLACE(ds, blocks * 4);
        PLACE(nsum, blocks * 4);
    }
    if (needs & NEEDS_HALVES) {
        PLACE(ds16, blocks * 8);
        PLACE(nsum16, blocks * 8);
    }
    if (needs & NEEDS_FLOAT) PLACE(x, n * k * 4);
#undef PLACE
    return at;
}

/* A member's own memory: a normed row, then its own activations (of one row) or its decoded panels. */
static size_t norm_bytes(int64_t k) { return och_cpu_round64((uint64_t)k * 4); }

#if defined(__x86_64__)
static bool use_amx(const och_device *d, const och_op_call *c, int64_t n, bool batch_invariant) {
    return !batch_invariant && n >= AMX_ROWS && och_cpu_device_isa(d) == OCH_CPU_AMX && och_cpu_amx_serves(c);
}
#endif

uint64_t och_cpu_linear_scratch(const och_device *device, const och_op_call *c) {
    int64_t n = c->in[OCH_LINEAR_X].rows, k = c->in[OCH_LINEAR_X].cols;
    uint64_t members = (uint64_t)och_pool_size(och_cpu_pool((och_device *)(uintptr_t)device));
    och_cpu_act act;
    unsigned needs = needs_of(c);
    uint64_t most = act_layout(needs, n, k, NULL, &act) + members * (norm_bytes(k) + act_layout(needs, 1, k, NULL, &act));
#if defined(__x86_64__)
    if (use_amx(device, c, n, false)) {
        uint64_t amx = och_cpu_amx_act_bytes(c, n) + members * (norm_bytes(k) + och_cpu_amx_member_bytes(c));
        if (amx > most) most = amx;
    }
#endif
    return most;
}

/* Row i as the products take it: normed into `tmp` where the call asks for it. */
static const float *prepared_row(const job *j, int64_t i, float *tmp) {
    const och_tensor *norm = &j->call->in[OCH_LINEAR_NORM];
    const float *x = och_cpu_row(&j->call->in[OCH_LINEAR_X], i);
    if (!och_tensor_present(norm)) return x;
    const och_attr_rms_norm *a = &j->call->attr.linear.norm;
    j->kernels->rms_norm(x, och_cpu_row(norm, 0), a->eps, a->add_one ? 1.0f : 0.0f, NULL, tmp, j->k);
    return tmp;
}

/* Panels [begin, end) of a member: shares are equal in bytes. */
static void panel_share(const job *j, const och_pool_member *me, int64_t align, int64_t *out_begin, int64_t *out_end) {
    uint64_t total = 0, bounds[2];
    for (int i = 0; i < j->n_weights; i++) total += (uint64_t)j->w[i].n_panels * j->w[i].panel_bytes;
    for (int side = 0; side < 2; side++) {
        uint64_t want = total * (uint64_t)(me->index + side) / (uint64_t)me->n, panel = 0;
        for (int i = 0; i < j->n_weights; i++) {
            uint64_t here = (uint64_t)j->w[i].n_panels * j->w[i].panel_bytes;
            if (want < here) {
                panel += want / j->w[i].panel_bytes;
                break;
            }
            want -= here;
            panel += (uint64_t)j->w[i].n_panels;
        }
        if (me->index + side < me->n) panel -= panel % (uint64_t)align;
        bounds[side] = panel;
    }
    *out_begin = (int64_t)bounds[0];
    *out_end = (int64_t)bounds[1];
}

/* The weight that panel number p belongs to; its number there in *out_local. */
static int panel_weight(const job *j, int64_t p, int64_t *out_local) {
    int i = 0;
    while (i + 1 < j->n_weights && p >= j->w[i].n_panels) p -= j->w[i++].n_panels;
    *out_local = p;
    return i;
}

static void dot_member(void *arg, const och_pool_member *me) {
    job *j = arg;
    uint8_t *mine = j->member_mem + (size_t)me->index * j->member_bytes;
    float *tmp = (float *)(void *)mine;
    och_cpu_act act = j->act;
    if (j->private_act) {
        /* quantising one row is less work than waiting for another member to have done it */
        act_layout(j->needs, 1, j->k, mine + norm_bytes(j->k), &act);
        j->kernels->quantise(prepared_row(j, 0, tmp), &act, 0);
    } else {
        int64_t begin, end;
        och_cpu_share(j->n, me, &begin, &end);
        for (int64_t i = begin; i < end; i++) {
            /* float weights: the norm goes straight to where it is kept */
            float *dst = act.x ? act.x + i * j->k : tmp;
            j->kernels->quantise(prepared_row(j, i, dst), &act, i);
        }
        och_pool_barrier(me);
    }
    int64_t begin, end;
    panel_share(j, me, 1, &begin, &end);
    for (int64_t p = begin; p < end; p++) {
        float t0[OCH_CPU_MAX_ROWS * 16], t1[OCH_CPU_MAX_ROWS * 16];
        int64_t local;
        const weight *w = &j->w[panel_weight(j, p, &local)];
        const uint8_t *panel = w->packed + (size_t)local * w->panel_bytes;
        const uint8_t *panel1 = j->glu ? j->w[1].packed + (size_t)local * j->w[1].panel_bytes : NULL;
        for (int64_t r = 0; r < j->n; r += OCH_CPU_MAX_ROWS) {
            int rows = j->n - r < OCH_CPU_MAX_ROWS ? (int)(j->n - r) : OCH_CPU_MAX_ROWS;
            size_t ahead = w->panel_bytes > PREFETCH_BYTES ? w->panel_bytes : PREFETCH_BYTES;
            j->kernels->panel[w->dtype](panel, r == 0 ? panel + ahead : NULL, &act, r, rows, t0);
            if (j->glu) j->kernels->panel[j->w[1].dtype](panel1, r == 0 ? panel1 + ahead : NULL, &act, r, rows, t1);
            j->kernels->epilogue(&w->epilogue, r, rows, local * OCH_CPU_PANEL, t0, t1);
        }
    }
}

static void setup_weights(job *j, const och_op_call *c) {
    const och_attr_linear *a = &c->attr.linear;
    j->glu = a->glu != OCH_ACT_NONE;
    j->n_weights = j->glu ? 1 : a->n_weights;
    for (int i = 0; i < a->n_weights; i++) {
        const och_tensor *t = &c->in[OCH_LINEAR_W0 + i], *b = &c->in[OCH_LINEAR_B0 + i], *y = &c->out[i];
        const och_tensor *residual = &c->in[OCH_LINEAR_RESIDUAL];
        weight *w = &j->w[i];
        *w = (weight){.packed = t->host, .dtype = t->dtype, .n_panels = (t->rows + OCH_CPU_PANEL - 1) / OCH_CPU_PANEL,
                      .panel_bytes = och_cpu_panel_bytes(och_cpu_format_get(t->dtype), t->cols)};
        w->epilogue = (och_cpu_epilogue){.m = t->rows, .glu = a->glu, .bias = och_tensor_present(b) ? b->host : NULL};
        if (j->glu && i == 1) continue;
        w->epilogue.y = y->host;
        w->epilogue.y_stride = (int64_t)(y->row_bytes / 4);
        if (och_tensor_present(residual)) {
            w->epilogue.residual = residual->host;
            w->epilogue.residual_stride = (int64_t)(residual->row_bytes / 4);
        }
    }
    if (j->glu) j->w[0].epilogue.bias1 = j->w[1].epilogue.bias;
}

#if defined(__x86_64__)
/* Tiles of rows x tiles of panels: B tiles of two panels stay in the nearest cache while all rows pass. */
static void amx_member(void *arg, const och_pool_member *me) {
    job *j = arg;
    uint8_t *mine = j->member_mem + (size_t)me->index * j->member_bytes;
    float *tmp = (float *)(void *)mine;
    int64_t begin, end, n_tiles = (j->n + 15) / 16;
    och_cpu_share(n_tiles, me, &begin, &end);
    for (int64_t i = 16 * begin; i < 16 * end; i++)
        och_cpu_amx_store_row(&j->amx, i, i < j->n ? prepared_row(j, i, tmp) : NULL);
    och_pool_barrier(me);
    panel_share(j, me, j->glu ? 1 : 2, &begin, &end);
    och_cpu_amx_begin();
    for (int64_t p = begin; p < end; p += j->glu ? 1 : 2) {
        const weight *w[2];
        int64_t local[2];
        w[0] = &j->w[panel_weight(j, p, &local[0])];
        int n_panels = 2;
        if (j->glu) {
            w[1] = &j->w[1];
            local[1] = local[0];
        } else if (p + 1 < end) {
            w[1] = &j->w[panel_weight(j, p + 1, &local[1])];
        } else {
            w[1] = w[0];
            local[1] = local[0];
            n_panels = 1;
        }
        och_cpu_amx_panels panels = {.n = n_panels};
        for (int i = 0; i < 2; i++) {
            panels.packed[i] = w[i]->packed + (size_t)local[i] * w[i]->panel_bytes;
            panels.dtype[i] = w[i]->dtype;
        }
        och_cpu_amx_load_panels(&j->amx, &panels, mine + norm_bytes(j->k));
        for (int64_t r = 0; r < j->n; r += 32) {
            float tile[2][32 * 16] __attribute__((aligned(64)));
            int rows = j->n - r < 32 ? (int)(j->n - r) : 32;
            och_cpu_amx_multiply(&j->amx, &panels, r, rows, mine + norm_bytes(j->k), tile[0], tile[1]);
            j->kernels->epilogue(&w[0]->epilogue, r, rows, local[0] * OCH_CPU_PANEL, tile[0], tile[1]);
            if (!j->glu && n_panels == 2)
                j->kernels->epilogue(&w[1]->epilogue, r, rows, local[1] * OCH_CPU_PANEL, tile[1], NULL);
        }
    }
    och_cpu_amx_end();
}
#endif

och_status och_cpu_linear_run(const och_op_ctx *ctx, const och_op_call *c, och_err *err) {
    const och_tensor *x = &c->in[OCH_LINEAR_X];
    if (x->rows == 0) return OCH_OK;
    const och_device *d = ctx->queue->device;
    int members = och_pool_size(och_cpu_pool(ctx->queue->device));
    job j = {.call = c, .kernels = och_cpu_kernels_get(d), .n = x->rows, .k = x->cols, .needs = needs_of(c)};
    setup_weights(&j, c);
    uint8_t *mem = ctx->scratch;
    uint64_t used;
#if defined(__x86_64__)
    if (use_amx(d, c, j.n, ctx->batch_invariant)) {
        j.member_bytes = norm_bytes(j.k) + och_cpu_amx_member_bytes(c);
        j.member_mem = mem + och_cpu_amx_act_bytes(c, j.n);
        used = och_cpu_amx_act_bytes(c, j.n) + (uint64_t)members * j.member_bytes;
        if (used > ctx->scratch_bytes) goto small;
        och_cpu_amx_act_init(&j.amx, c, j.n, mem);
        och_pool_run(och_cpu_pool(ctx->queue->device), amx_member, &j);
        return OCH_OK;
    }
#endif
    och_cpu_act one;
    j.private_act = j.n == 1;
    j.member_bytes = norm_bytes(j.k) + act_layout(j.needs, 1, j.k, NULL, &one);
    size_t shared = j.private_act ? 0 : act_layout(j.needs, j.n, j.k, mem, &j.act);
    j.member_mem = mem + shared;
    used = shared + (uint64_t)members * j.member_bytes;
    if (used > ctx->scratch_bytes) goto small;
    och_pool_run(och_cpu_pool(ctx->queue->device), dot_member, &j);
    return OCH_OK;
small:
    return och_err_set(err, OCH_INTERNAL, "op linear: %llu bytes of scratch are needed, %llu were given",
                       (unsigned long long)used, (unsigned long long)ctx->scratch_bytes);
}

och_status och_cpu_linear_supports(const och_device *device, const och_op_call *c, och_err *err) {
    OCH_TRY(och_cpu_supports(device, c, err));
    for (int i = 0; i < c->attr.linear.n_weights; i++) {
        const och_tensor *w = &c->in[OCH_LINEAR_W0 + i];
        if (w->layout != OCH_LAYOUT_CPU_PACKED)
            return och_err_set(err, OCH_UNSUPPORTED, "reads packed weights only, weight %d is in the file's layout", i);
        if (!och_cpu_pack_fits(w->dtype, w->cols))
            return och_err_set(err, OCH_UNSUPPORTED, "packs no %s weight of %lld columns", och_dtype_name(w->dtype),
                               (long long)w->cols);
    }
    return OCH_OK;
}

och_layout och_cpu_weight_layout(const och_device *device, och_dtype dtype, int64_t rows, int64_t cols,
                                 uint64_t *out_bytes) {
    uint64_t native = 0;
    if (och_cpu_kernels_get(device) && och_cpu_pack_fits(dtype, cols)) {
        *out_bytes = (uint64_t)((rows + OCH_CPU_PANEL - 1) / OCH_CPU_PANEL) *
                     och_cpu_panel_bytes(och_cpu_format_get(dtype), cols);
        return OCH_LAYOUT_CPU_PACKED;
    }
    if (!och_dtype_bytes(dtype, (uint64_t)rows, (uint64_t)cols, &native)) native = 0;
    *out_bytes = native;
    return OCH_LAYOUT_NATIVE;
}
