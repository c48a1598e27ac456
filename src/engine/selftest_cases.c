/* The built-in set of op cases: every op, every weight format, few and many rows, the variants that models use. */
#include "engine/selftest.h"

#include "op/registry.h"
#include "quant/format.h"

#include <stdio.h>
#include <string.h>

static och_tensor f32(int64_t rows, int64_t cols) {
    return (och_tensor){.dtype = OCH_DTYPE_F32, .rows = rows, .cols = cols, .row_bytes = (uint64_t)cols * 4};
}
static och_tensor i32(int64_t rows, int64_t cols) {
    return (och_tensor){.dtype = OCH_DTYPE_I32, .rows = rows, .cols = cols, .row_bytes = (uint64_t)cols * 4};
}
static och_tensor typed(och_dtype t, int64_t rows, int64_t cols) {
    och_tensor x = {.dtype = t, .rows = rows, .cols = cols};
    (void)och_dtype_row_bytes(t, (uint64_t)cols, &x.row_bytes); /* shapes below are whole blocks */
    return x;
}

static void clear(och_op_call *c, och_op_id op) {
    memset(c, 0, sizeof *c);
    c->op = op;
    for (int i = 0; i < OCH_OP_MAX_IN; i++) c->in[i].dtype = OCH_DTYPE_NONE;
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) c->out[i].dtype = OCH_DTYPE_NONE;
}

enum { K = 512, M = 96, BLOCK = 32 };

static const int row_counts[] = {1, 5, 16};
#define N_ROWS 3
static const char *const linear_variants[] = {"plain", "norm and bias", "gate", "residual"};
#define N_LINEAR 4

static void linear(och_op_call *c, och_dtype t, int rows, int variant) {
    clear(c, OCH_OP_LINEAR);
    c->attr.linear = (och_attr_linear){.n_weights = variant == 2 ? 2 : 1, .glu = variant == 2 ? OCH_ACT_SILU : OCH_ACT_NONE, .norm = {1e-6f, false}};
    c->in[OCH_LINEAR_X] = f32(rows, K);
    c->in[OCH_LINEAR_W0] = typed(t, M, K);
    if (variant == 1) {
        c->in[OCH_LINEAR_NORM] = f32(1, K);
        c->in[OCH_LINEAR_B0] = f32(1, M);
    }
    if (variant == 2) c->in[OCH_LINEAR_W0 + 1] = typed(t, M, K);
    if (variant == 3) c->in[OCH_LINEAR_RESIDUAL] = f32(rows, M);
    c->out[0] = f32(rows, M);
}

static const struct {
    const char *name;
    och_dtype cache;
    int heads, kv_heads, dim, window;
    float softcap;
} attentions[] = {
    {"heads of 64, 9 over 3", OCH_DTYPE_F16, 9, 3, 64, 0, 0.0f},
    {"heads of 128, 8 over 2", OCH_DTYPE_F16, 8, 2, 128, 0, 0.0f},
    {"heads of 256, 4 over 1, window", OCH_DTYPE_F16, 4, 1, 256, 40, 0.0f},
    {"heads of 64, soft cap", OCH_DTYPE_F32, 4, 4, 64, 0, 30.0f},
    {"heads of 64, BF16", OCH_DTYPE_BF16, 4, 2, 64, 0, 0.0f},
    {"heads of 64, eight-bit floats", OCH_DTYPE_F8_E4M3, 4, 2, 64, 0, 0.0f},
};
#define N_ATTENTION 6

static void attention(och_op_call *c, int i, int rows) {
    och_attr_kv kv = {attentions[i].kv_heads, attentions[i].dim, BLOCK};
    int64_t q = (int64_t)attentions[i].heads * attentions[i].dim;
    clear(c, OCH_OP_ATTENTION);
    c->attr.attention = (och_attr_attention){kv, attentions[i].heads, 0.125f, attentions[i].softcap, attentions[i].window};
    c->in[OCH_ATTENTION_Q] = c->out[0] = f32(rows, q);
    c->in[OCH_ATTENTION_K] = c->in[OCH_ATTENTION_V] =
        typed(attentions[i].cache, 8, (int64_t)kv.n_kv_heads * kv.head_dim * BLOCK);
    c->in[OCH_ATTENTION_TABLES] = i32(2, 4);
    c->in[OCH_ATTENTION_SEQS] = c->in[OCH_ATTENTION_POSITIONS] = i32(rows, 1);
}

static void qkv_post(och_op_call *c, int rows, bool interleaved, bool norms) {
    och_attr_kv kv = {2, 64, BLOCK};
    clear(c, OCH_OP_QKV_POST);
    c->attr.qkv_post = (och_attr_qkv_post){kv, {4, 64, 64, interleaved ? OCH_ROPE_INTERLEAVED : OCH_ROPE_HALF}, {1e-6f, false}, false};
    c->in[OCH_QKV_POST_Q] = c->out[0] = f32(rows, 256);
    c->in[OCH_QKV_POST_K] = c->in[OCH_QKV_POST_V] = f32(rows, 128);
    if (norms) c->in[OCH_QKV_POST_QNORM] = c->in[OCH_QKV_POST_KNORM] = f32(1, 64);
    c->in[OCH_QKV_POST_TABLE] = f32(rows, 64);
    c->in[OCH_QKV_POST_SLOTS] = i32(rows, 1);
    c->out[1] = c->out[2] = typed(OCH_DTYPE_F16, 2, 128 * BLOCK);
}

/* Those that have neither weights nor variants of their own. */
static bool simple(int i, och_op_call *c, const char **out_what) {
    int rows = 5;
    static const char *const acts[] = {"", "silu", "gelu_tanh", "gelu_erf"};
    *out_what = "";
    if (i < 2) { /* one group a row, and one a head */
        clear(c, OCH_OP_RMS_NORM);
        c->attr.rms_norm = (och_attr_rms_norm){1e-6f, i == 1};
        c->in[OCH_RMS_NORM_X] = c->out[0] = f32(rows, K);
        c->in[OCH_RMS_NORM_W] = f32(1, i ? 64 : K);
        if (!i) c->in[OCH_RMS_NORM_RESIDUAL] = f32(rows, K);
        *out_what = i ? ", a head at a time, 1 + w" : ", residual";
    } else if (i < 4) {
        clear(c, OCH_OP_ROPE);
        c->attr.rope = (och_attr_rope){4, 64, 48, i == 2 ? OCH_ROPE_HALF : OCH_ROPE_INTERLEAVED};
        c->in[OCH_ROPE_X] = c->out[0] = f32(rows, 256);
        c->in[OCH_ROPE_TABLE] = f32(rows, 48);
        *out_what = i == 2 ? ", halves, partial" : ", pairs, partial";
    } else if (i < 7) {
        clear(c, OCH_OP_GLU);
        c->attr.glu.act = (och_act)(i - 3);
        c->in[OCH_GLU_GATE] = c->in[OCH_GLU_UP] = c->out[0] = f32(rows, K);
        *out_what = acts[i - 3];
    } else if (i == 7) {
        clear(c, OCH_OP_ADD);
        c->in[0] = c->in[1] = c->out[0] = f32(rows, K);
    } else if (i == 8) {
        clear(c, OCH_OP_GATHER);
        c->in[OCH_GATHER_X] = f32(rows, K);
        c->in[OCH_GATHER_ROWS] = i32(3, 1);
        c->out[0] = f32(3, K);
    } else if (i == 9) {
        clear(c, OCH_OP_KV_WRITE);
        c->attr.kv_write = (och_attr_kv){2, 64, BLOCK};
        c->in[OCH_KV_WRITE_K] = c->in[OCH_KV_WRITE_V] = f32(rows, 128);
        c->in[OCH_KV_WRITE_SLOTS] = i32(rows, 1);
        c->out[0] = c->out[1] = typed(OCH_DTYPE_F16, 2, 128 * BLOCK);
    } else if (i < 12) {
        qkv_post(c, rows, i == 11, i == 10);
        *out_what = i == 11 ? ", pairs" : ", norms";
    } else if (i < 14) {
        clear(c, OCH_OP_SAMPLE);
        rows = 12;
        c->in[OCH_SAMPLE_LOGITS] = f32(rows, i == 12 ? K : 20001);
        c->in[OCH_SAMPLE_NUMBERS] = f32(rows, OCH_SAMPLE_N_NUMBERS);
        c->in[OCH_SAMPLE_DRAWS] = i32(rows, OCH_SAMPLE_N_DRAWS);
        c->out[0] = i32(rows, 1);
        *out_what = i == 12 ? "" : "20001 ids";
    } else return false;
    return true;
}

static int n_formats(void) {
    int n = 0;
    while (och_format_at((size_t)n)) n++;
    return n;
}

bool och_selftest_case(int i, och_op_call *out_shape, char *out_name, size_t n_bytes) {
    const char *what;
    int formats = n_formats();
    if (i < 0) return false;
    if (simple(i, out_shape, &what)) {
        snprintf(out_name, n_bytes, "%s%s%s", och_op_name(out_shape->op), what[0] && what[0] != ',' ? ", " : "", what);
        return true;
    }
    i -= 14;
    if (i < N_ATTENTION * 2) {
        int rows = i % 2 ? 5 : 1;
        attention(out_shape, i / 2, rows);
        snprintf(out_name, n_bytes, "attention, %s, %d rows", attentions[i / 2].name, rows);
        return true;
    }
    i -= N_ATTENTION * 2;
    if (i < formats) {
        const och_format *f = och_format_at((size_t)i);
        clear(out_shape, OCH_OP_EMBED);
        out_shape->attr.embed.scale = 1.5f;
        out_shape->in[OCH_EMBED_IDS] = i32(5, 1);
        out_shape->in[OCH_EMBED_TABLE] = typed(f->dtype, M, K);
        out_shape->out[0] = f32(5, K);
        snprintf(out_name, n_bytes, "embed, %s", f->name);
        return true;
    }
    i -= formats;
    /* Every format with few, some and many rows; the variants go round. */
    if (i >= formats * N_ROWS) return false;
    const och_format *f = och_format_at((size_t)(i / N_ROWS));
    int rows = row_counts[i % N_ROWS], variant = (i + i / N_ROWS) % N_LINEAR;
    linear(out_shape, f->dtype, rows, variant);
    snprintf(out_name, n_bytes, "linear, %s, %d rows, %s", f->name, rows, linear_variants[variant]);
    return true;
}
