/* Small calls by which predicates are asked what they take, for the coverage table and for the test that holds it equal
 * to the capability table. */
#include "op/registry.h"

#include "op/def.h"
#include "quant/format.h"

#include <string.h>

/* Sizes that every format and every provider's alignment divides: 512 columns, 64 rows, two heads of 64. */
enum { D = 512, ROWS = 64, HEADS = 2, HEAD_DIM = 64, BLOCK = 16, BLOCKS = 4 };

static och_tensor shaped(och_dtype dtype, int64_t rows, int64_t cols) {
    och_tensor t = {.dtype = dtype, .rows = rows, .cols = cols};
    if (!och_dtype_row_bytes(dtype, (uint64_t)cols, &t.row_bytes)) t.row_bytes = 0;
    return t;
}
static och_tensor f32(int64_t rows, int64_t cols) { return shaped(OCH_DTYPE_F32, rows, cols); }
static och_tensor i32(int64_t rows, int64_t cols) { return shaped(OCH_DTYPE_I32, rows, cols); }

static och_tensor weight(const och_op_provider *provider, const och_device *device, och_dtype dtype) {
    och_tensor w = shaped(dtype, ROWS, D);
    uint64_t n_bytes;
    if (provider && provider->weight_layout) w.layout = provider->weight_layout(device, dtype, ROWS, D, &n_bytes);
    return w;
}

bool och_op_has_weight(och_op_id op) { return op == OCH_OP_EMBED || op == OCH_OP_LINEAR; }

bool och_op_probe(const och_op_provider *provider, const och_device *device, och_op_id op, och_dtype dtype,
                  och_op_call *out_call) {
    och_op_call *c = out_call;
    memset(c, 0, sizeof *c);
    c->op = op;
    for (int i = 0; i < OCH_OP_MAX_IN; i++) c->in[i].dtype = OCH_DTYPE_NONE;
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) c->out[i].dtype = OCH_DTYPE_NONE;
    if (och_op_has_weight(op) && ((unsigned)dtype >= OCH_DTYPE_COUNT_ || !och_format_get(dtype))) return false;
    const och_attr_kv kv = {HEADS, HEAD_DIM, BLOCK};
    const och_attr_rope rope = {HEADS, HEAD_DIM, HEAD_DIM, OCH_ROPE_HALF};
    const och_tensor heads = f32(1, HEADS * HEAD_DIM), cache = shaped(OCH_DTYPE_F16, BLOCKS, HEADS * HEAD_DIM * BLOCK);
    switch (op) {
    case OCH_OP_EMBED:
        c->attr.embed.scale = 1.0f;
        c->in[OCH_EMBED_IDS] = i32(1, 1);
        c->in[OCH_EMBED_TABLE] = weight(provider, device, dtype);
        c->out[0] = f32(1, D);
        break;
    case OCH_OP_RMS_NORM:
        c->in[OCH_RMS_NORM_X] = f32(1, D);
        c->in[OCH_RMS_NORM_W] = f32(1, D);
        c->out[0] = f32(1, D);
        break;
    case OCH_OP_LINEAR:
        c->attr.linear.n_weights = 1;
        c->in[OCH_LINEAR_X] = f32(1, D);
        c->in[OCH_LINEAR_W0] = weight(provider, device, dtype);
        c->out[0] = f32(1, ROWS);
        break;
    case OCH_OP_ROPE:
        c->attr.rope = rope;
        c->in[OCH_ROPE_X] = heads;
        c->in[OCH_ROPE_TABLE] = f32(1, HEAD_DIM);
        c->out[0] = heads;
        break;
    case OCH_OP_KV_WRITE:
        c->attr.kv_write = kv;
        c->in[OCH_KV_WRITE_K] = c->in[OCH_KV_WRITE_V] = heads;
        c->in[OCH_KV_WRITE_SLOTS] = i32(1, 1);
        c->out[0] = c->out[1] = cache;
        break;
    case OCH_OP_QKV_POST:
        c->attr.qkv_post.kv = kv;
        c->attr.qkv_post.rope = rope;
        c->in[OCH_QKV_POST_Q] = c->in[OCH_QKV_POST_K] = c->in[OCH_QKV_POST_V] = heads;
        c->in[OCH_QKV_POST_TABLE] = f32(1, HEAD_DIM);
        c->in[OCH_QKV_POST_SLOTS] = i32(1, 1);
        c->out[0] = heads;
        c->out[1] = c->out[2] = cache;
        break;
    case OCH_OP_ATTENTION:
        c->attr.attention = (och_attr_attention){.kv = kv, .n_heads = HEADS, .scale = 0.125f};
        c->in[OCH_ATTENTION_Q] = heads;
        c->in[OCH_ATTENTION_K] = c->in[OCH_ATTENTION_V] = cache;
        c->in[OCH_ATTENTION_TABLES] = i32(1, BLOCKS);
        c->in[OCH_ATTENTION_SEQS] = c->in[OCH_ATTENTION_POSITIONS] = i32(1, 1);
        c->out[0] = heads;
        break;
    case OCH_OP_GLU:
        c->attr.glu.act = OCH_ACT_SILU;
        c->in[OCH_GLU_GATE] = c->in[OCH_GLU_UP] = c->out[0] = f32(1, D);
        break;
    case OCH_OP_ADD: c->in[0] = c->in[1] = c->out[0] = f32(1, D); break;
    case OCH_OP_GATHER:
        c->in[OCH_GATHER_X] = c->out[0] = f32(1, D);
        c->in[OCH_GATHER_ROWS] = i32(1, 1);
        break;
    case OCH_OP_SAMPLE:
        c->in[OCH_SAMPLE_LOGITS] = f32(1, D);
        c->in[OCH_SAMPLE_NUMBERS] = f32(1, OCH_SAMPLE_N_NUMBERS);
        c->in[OCH_SAMPLE_DRAWS] = i32(1, OCH_SAMPLE_N_DRAWS);
        c->out[0] = i32(1, 1);
        break;
    case OCH_OP_COUNT_: break;
    }
    return true;
}
