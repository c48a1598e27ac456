#include "model/layer/layer.h"

#include "model/model.h"

static int64_t cols_of(const och_builder *b, och_plan_ref x) { return x < 0 ? 1 : b->plan->bufs[x].tensor.cols; }
static och_plan_rows rows_of(const och_builder *b, och_plan_ref x) {
    return x < 0 ? OCH_ROWS_TOKENS : b->plan->bufs[x].rows_kind;
}

/* The weight as a buffer of the plan; absent where the file has none. */
static och_plan_ref weight(och_builder *b, och_role role) {
    int layer = och_role_in_layer(role) ? b->plan->layer : -1;
    const och_tensor *t = och_model_weight(b->model, role, layer);
    if (!t) return OCH_PLAN_NONE;
    if (layer < 0) return och_plan_add_bound(b->plan, OCH_PLAN_WEIGHT, OCH_ROWS_FIXED, t, "%s", och_role_name(role));
    return och_plan_add_bound(b->plan, OCH_PLAN_WEIGHT, OCH_ROWS_FIXED, t, "%s.%d", och_role_name(role), layer);
}

static och_attr_rms_norm norm_attr(const och_builder *b) {
    return (och_attr_rms_norm){(float)b->config->norm_eps, b->config->norm_add_one};
}

och_plan_ref och_layer_embed(och_builder *b) {
    och_plan_ref table = weight(b, OCH_ROLE_EMBED);
    och_plan_ref y = och_plan_add_value(b->plan, OCH_ROWS_TOKENS, b->config->d_model, "x");
    och_plan_op *o = och_plan_add_op(b->plan, OCH_OP_EMBED);
    if (!o) return y;
    o->in[OCH_EMBED_IDS] = b->tokens;
    o->in[OCH_EMBED_TABLE] = table;
    o->out[0] = y;
    o->attr.attr.embed.scale = b->config->embed_scale;
    return y;
}

/* y may be x: a norm of heads in place. */
static void norm_into(och_builder *b, och_plan_ref x, och_plan_ref w, och_plan_ref y) {
    och_plan_op *o = och_plan_add_op(b->plan, OCH_OP_RMS_NORM);
    if (!o) return;
    o->in[OCH_RMS_NORM_X] = x;
    o->in[OCH_RMS_NORM_W] = w;
    o->out[0] = y;
    o->attr.attr.rms_norm = norm_attr(b);
}

och_plan_ref och_layer_norm(och_builder *b, och_plan_ref x, och_role role) {
    och_plan_ref w = weight(b, role);
    och_plan_ref y = och_plan_add_value(b->plan, rows_of(b, x), cols_of(b, x), "%s.out", och_role_name(role));
    norm_into(b, x, w, y);
    return y;
}

static och_plan_ref linear_into(och_builder *b, och_plan_ref x, och_plan_ref w, och_plan_ref bias, och_plan_ref y) {
    och_plan_op *o = och_plan_add_op(b->plan, OCH_OP_LINEAR);
    if (!o) return y;
    o->in[OCH_LINEAR_X] = x;
    o->in[OCH_LINEAR_W0] = w;
    o->in[OCH_LINEAR_B0] = bias;
    o->out[0] = y;
    o->attr.attr.linear.n_weights = 1;
    return y;
}

och_plan_ref och_layer_linear(och_builder *b, och_plan_ref x, och_role role, och_role bias) {
    och_plan_ref w = weight(b, role), bw = bias == OCH_ROLE_COUNT_ ? OCH_PLAN_NONE : weight(b, bias);
    int64_t rows, cols;
    och_role_shape(b->config, role, &rows, &cols);
    return linear_into(b, x, w, bw, och_plan_add_value(b->plan, rows_of(b, x), rows, "%s.out", och_role_name(role)));
}

och_plan_ref och_layer_add(och_builder *b, och_plan_ref x, och_plan_ref y) {
    och_plan_ref z = och_plan_add_value(b->plan, rows_of(b, x), cols_of(b, x), "x");
    och_plan_op *o = och_plan_add_op(b->plan, OCH_OP_ADD);
    if (!o) return z;
    o->in[0] = x;
    o->in[1] = y;
    o->out[0] = z;
    return z;
}

static void rotate(och_builder *b, och_plan_ref x, int n_heads, och_plan_ref table, const och_rope_config *rope) {
    och_plan_op *o = och_plan_add_op(b->plan, OCH_OP_ROPE);
    if (!o) return;
    o->in[OCH_ROPE_X] = x;
    o->in[OCH_ROPE_TABLE] = table;
    o->out[0] = x;
    o->attr.attr.rope = (och_attr_rope){n_heads, b->config->head_dim, rope->dim, rope->style};
}

och_plan_ref och_layer_attention(och_builder *b, och_plan_ref x) {
    const och_config *c = b->config;
    int layer = b->plan->layer, group = c->sliding[layer];
    och_attr_kv kv = {c->n_kv_heads, c->head_dim, b->block_tokens};
    och_plan_ref q = och_layer_linear(b, x, OCH_ROLE_Q, OCH_ROLE_Q_BIAS);
    och_plan_ref k = och_layer_linear(b, x, OCH_ROLE_K, OCH_ROLE_K_BIAS);
    och_plan_ref v = och_layer_linear(b, x, OCH_ROLE_V, OCH_ROLE_V_BIAS);
    och_plan_ref qw = weight(b, OCH_ROLE_Q_NORM), kw = weight(b, OCH_ROLE_K_NORM);
    if (qw >= 0) norm_into(b, q, qw, q);
    if (kw >= 0) norm_into(b, k, kw, k);
    const och_rope_config *rope = group ? &c->rope_sliding : &c->rope;
    rotate(b, q, c->n_heads, b->rope[group], rope);
    rotate(b, k, c->n_kv_heads, b->rope[group], rope);
    och_plan_op *w = och_plan_add_op(b->plan, OCH_OP_KV_WRITE);
    if (w) {
        w->in[OCH_KV_WRITE_K] = k;
        w->in[OCH_KV_WRITE_V] = v;
        w->in[OCH_KV_WRITE_SLOTS] = b->slots[group];
        w->out[0] = b->kcache[layer];
        w->out[1] = b->vcache[layer];
        w->attr.attr.kv_write = kv;
    }
    och_plan_ref y = och_plan_add_value(b->plan, OCH_ROWS_TOKENS, (int64_t)c->n_heads * c->head_dim, "attn.out");
    och_plan_op *a = och_plan_add_op(b->plan, OCH_OP_ATTENTION);
    if (!a) return y;
    a->in[OCH_ATTENTION_Q] = q;
    a->in[OCH_ATTENTION_K] = b->kcache[layer];
    a->in[OCH_ATTENTION_V] = b->vcache[layer];
    a->in[OCH_ATTENTION_TABLES] = b->tables[group];
    a->in[OCH_ATTENTION_SEQS] = b->seqs;
    a->in[OCH_ATTENTION_POSITIONS] = b->positions;
    a->out[0] = y;
    a->attr.attr.attention = (och_attr_attention){kv, c->n_heads, c->attn_scale, 0.0f, och_config_window(c, layer)};
    return y;
}

och_plan_ref och_layer_mlp(och_builder *b, och_plan_ref x) {
    och_plan_ref gate = och_layer_linear(b, x, OCH_ROLE_GATE, OCH_ROLE_COUNT_);
    och_plan_ref up = och_layer_linear(b, x, OCH_ROLE_UP, OCH_ROLE_COUNT_);
    och_plan_ref h = och_plan_add_value(b->plan, rows_of(b, x), b->config->d_ff, "glu.out");
    och_plan_op *o = och_plan_add_op(b->plan, OCH_OP_GLU);
    if (o) {
        o->in[OCH_GLU_GATE] = gate;
        o->in[OCH_GLU_UP] = up;
        o->out[0] = h;
        o->attr.attr.glu.act = b->config->act;
    }
    return och_layer_linear(b, h, OCH_ROLE_DOWN, OCH_ROLE_COUNT_);
}

och_plan_ref och_layer_outputs(och_builder *b, och_plan_ref x) {
    if (b->plan->layer != b->config->n_layers - 1) return x;
    och_plan_ref y = och_plan_add_value(b->plan, OCH_ROWS_OUTPUTS, cols_of(b, x), "rows");
    och_plan_op *o = och_plan_add_op(b->plan, OCH_OP_GATHER);
    if (!o) return y;
    o->in[OCH_GATHER_X] = x;
    o->in[OCH_GATHER_ROWS] = b->out_rows;
    o->out[0] = y;
    return y;
}

void och_layer_head(och_builder *b, och_plan_ref x) {
    b->plan->layer = -1;
    och_plan_ref h = och_layer_norm(b, x, OCH_ROLE_OUTPUT_NORM);
    linear_into(b, h, weight(b, OCH_ROLE_OUTPUT), OCH_PLAN_NONE, b->logits);
}

void och_layer_decoder(och_builder *b) {
    och_plan_ref x = och_layer_embed(b);
    for (int l = 0; l < b->config->n_layers; l++) {
        b->plan->layer = l;
        och_plan_ref a = och_layer_attention(b, och_layer_norm(b, x, OCH_ROLE_ATTN_NORM));
        a = och_layer_outputs(b, a);
        x = och_layer_outputs(b, x);
        x = och_layer_add(b, x, och_layer_linear(b, a, OCH_ROLE_O, OCH_ROLE_O_BIAS));
        x = och_layer_add(b, x, och_layer_mlp(b, och_layer_norm(b, x, OCH_ROLE_FFN_NORM)));
    }
    och_layer_head(b, x);
}
