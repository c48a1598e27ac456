#include "engine/session.h"

#include "base/alloc.h"
#include "base/size.h"
#include "dev/trace.h"
#include "engine/passes.h"
#include "engine/selftest.h"
#include "model/layer/layer.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_CONTEXT 4096
#define DEFAULT_STEP_TOKENS 512
#define MAX_PINNED_LOGITS ((uint64_t)256 << 20)

static och_status positive(const char *what, int v, int hi, och_err *err) {
    if (v >= 1 && v <= hi) return OCH_OK;
    return och_err_set(err, OCH_RANGE, "session: %s: expected 1 to %d, found %d", what, hi, v);
}

static och_status resolve_options(och_session *s, och_err *err) {
    och_session_options *o = &s->options;
    const och_config *c = &s->model->config;
    if (!o->max_sequences) o->max_sequences = 1;
    if (!o->max_context) o->max_context = OCH_MIN(c->context_length, DEFAULT_CONTEXT);
    if (!o->max_step_tokens) o->max_step_tokens = DEFAULT_STEP_TOKENS;
    if (!o->max_logits) o->max_logits = o->max_sequences;
    OCH_TRY(positive("max_sequences", o->max_sequences, 1 << 16, err));
    if (o->max_context < 1 || o->max_context > c->context_length)
        return och_err_set(err, OCH_RANGE, "session: max_context: expected 1 to %d, the model's context length, found %d",
                           c->context_length, o->max_context);
    OCH_TRY(positive("max_step_tokens", o->max_step_tokens, 1 << 20, err));
    if (o->max_step_tokens < o->max_sequences) o->max_step_tokens = o->max_sequences;
    OCH_TRY(positive("max_logits", o->max_logits, o->max_step_tokens, err));
    if (o->kv_dtype == OCH_DTYPE_NONE)
        o->kv_dtype = s->model->only && !strcmp(s->model->only, "reference") ? OCH_DTYPE_F32 : OCH_DTYPE_F16;
    if (o->kv_dtype != OCH_DTYPE_F32 && o->kv_dtype != OCH_DTYPE_F16 && o->kv_dtype != OCH_DTYPE_BF16 &&
        o->kv_dtype != OCH_DTYPE_F8_E4M3)
        return och_err_set(err, OCH_UNSUPPORTED, "session: kv type: expected F32, F16, BF16 or F8_E4M3, found %s",
                           och_dtype_name(o->kv_dtype));
    return OCH_OK;
}

/* Memory of the device; of a model that is only measured, its size alone. */
static och_status take(och_session *s, uint64_t n_bytes, och_mem_kind kind, och_buf *out_buf, och_err *err) {
    if (!s->model->measured) return och_buf_alloc(s->model->device, n_bytes, kind, out_buf, err);
    *out_buf = (och_buf){.size_bytes = n_bytes, .kind = kind};
    return OCH_OK;
}

static och_status describe_groups(och_session *s, och_err *err) {
    const och_config *c = &s->model->config;
    const och_session_options *o = &s->options;
    int n_layers[2] = {0, 0};
    for (int l = 0; l < c->n_layers; l++) n_layers[c->sliding[l]]++;
    for (int g = 0; g < 2; g++) {
        och_state_group *sg = &s->groups[g];
        if (!n_layers[g]) continue;
        sg->used = true;
        sg->kv_index = s->n_groups++;
        sg->desc = (och_kv_group_desc){g ? OCH_KV_RING : OCH_KV_PAGED, OCH_BLOCK_TOKENS, (uint32_t)c->window,
                                       (uint32_t)o->max_step_tokens, (uint32_t)o->max_context};
        sg->table_len = och_kv_table_len(&sg->desc);
        if (!sg->table_len) return och_err_set(err, OCH_INTERNAL, "session: state group %d has no table", g);
        uint64_t blocks = (uint64_t)sg->table_len * (uint64_t)o->max_sequences;
        if (!g && o->kv_tokens) blocks = och_u64_ceil_div(o->kv_tokens, OCH_BLOCK_TOKENS);
        if (blocks > INT32_MAX / OCH_BLOCK_TOKENS)
            return och_err_set(err, OCH_RANGE, "session: state: expected at most %d blocks, found %llu: lower max_context or max_sequences",
                               INT32_MAX / OCH_BLOCK_TOKENS, (unsigned long long)blocks);
        OCH_TRY(och_kv_pool_create((uint32_t)blocks, &sg->pool, err));
        uint64_t bytes;
        if (!och_dtype_bytes(o->kv_dtype, OCH_BLOCK_TOKENS, (uint64_t)c->n_kv_heads * (uint64_t)c->head_dim, &sg->block_bytes) ||
            !och_u64_mul(sg->block_bytes, blocks * 2, &bytes) || !och_u64_mul(bytes, (uint64_t)n_layers[g], &bytes))
            return och_err_set(err, OCH_RANGE, "session: the size of the state overflows");
        och_status st = take(s, bytes, OCH_MEM_DEVICE, &sg->buf, err);
        if (st != OCH_OK) {
            och_err_prefix(err, "session: state for %llu tokens of %d layers (lower --context or the number of sequences)",
                           (unsigned long long)blocks * OCH_BLOCK_TOKENS, n_layers[g]);
            return st;
        }
    }
    return OCH_OK;
}

uint64_t och_session_place_inputs(och_session *s, int64_t n_tokens, int64_t n_outputs) {
    const och_config *c = &s->model->config;
    uint64_t n = (uint64_t)n_tokens, sizes[OCH_IN_COUNT_] = {0}, at = 0;
    sizes[OCH_IN_TOKENS] = sizes[OCH_IN_POSITIONS] = sizes[OCH_IN_SEQS] = n * 4;
    sizes[OCH_IN_OUT_ROWS] = (uint64_t)n_outputs * 4;
    for (int g = 0; g < 2; g++) {
        if (!s->groups[g].used) continue;
        sizes[OCH_IN_SLOTS + g] = n * 4;
        sizes[OCH_IN_TABLES + g] = (uint64_t)s->options.max_sequences * 4 * s->groups[g].table_len;
        sizes[OCH_IN_ROPE + g] = n * (uint64_t)(g ? c->rope_sliding.dim : c->rope.dim) * 4;
    }
    if (s->samples) {
        sizes[OCH_IN_NUMBERS] = (uint64_t)n_outputs * OCH_SAMPLE_N_NUMBERS * 4;
        sizes[OCH_IN_DRAWS] = (uint64_t)n_outputs * OCH_SAMPLE_N_DRAWS * 4;
    }
    for (int i = 0; i < OCH_IN_COUNT_; i++) {
        s->in[i].offset_bytes = at;
        s->in[i].size_bytes = sizes[i];
        at += (sizes[i] + 255) / 256 * 256;
        if (s->in[i].ref < 0) continue;
        och_tensor *t = &s->plan.bufs[s->in[i].ref].tensor;
        t->addr = och_dev_addr_add(s->inputs.addr, s->in[i].offset_bytes);
        t->host = s->inputs.host ? (char *)s->inputs.host + s->in[i].offset_bytes : NULL;
    }
    s->in_tokens = n_tokens;
    s->in_outputs = n_outputs;
    return at;
}

/* One buffer for all inputs of the largest step. */
static och_status create_inputs(och_session *s, och_err *err) {
    const och_session_options *o = &s->options;
    for (int g = 0; g < 2; g++) {
        uint64_t bytes;
        if (s->groups[g].used && !och_u64_mul((uint64_t)o->max_sequences * 4, s->groups[g].table_len, &bytes))
            return och_err_set(err, OCH_RANGE, "session: the size of the block tables overflows");
    }
    for (int i = 0; i < OCH_IN_COUNT_; i++) s->in[i].ref = OCH_PLAN_NONE;
    uint64_t n_bytes = och_session_place_inputs(s, o->max_step_tokens, o->max_logits);
    OCH_TRY(take(s, n_bytes, OCH_MEM_DEVICE, &s->inputs, err));
    if (s->inputs.host || s->model->measured) return OCH_OK;
    return take(s, n_bytes, OCH_MEM_PINNED, &s->staging, err);
}

static och_plan_ref bind_input(och_session *s, int which, och_plan_rows rows, och_dtype dtype, int64_t cols, const char *name) {
    if (!s->in[which].size_bytes) return OCH_PLAN_NONE;
    och_tensor t = {.dtype = dtype, .cols = cols, .row_bytes = (uint64_t)cols * 4};
    return s->in[which].ref = och_plan_add_bound(&s->plan, OCH_PLAN_INPUT, rows, &t, "%s", name);
}

/* A layer's K or V: rows are blocks. */
static och_plan_ref bind_state(och_session *s, int group, int number, int layer, const char *name) {
    const och_state_group *sg = &s->groups[group];
    const och_config *c = &s->model->config;
    uint64_t blocks = och_kv_pool_blocks(sg->pool), offset = (uint64_t)number * blocks * sg->block_bytes;
    och_tensor t = {.dtype = s->options.kv_dtype, .rows = (int64_t)blocks,
                    .cols = (int64_t)c->n_kv_heads * c->head_dim * OCH_BLOCK_TOKENS, .row_bytes = sg->block_bytes};
    t.addr = och_dev_addr_add(sg->buf.addr, offset);
    t.host = sg->buf.host ? (char *)sg->buf.host + offset : NULL;
    return och_plan_add_bound(&s->plan, OCH_PLAN_STATE, OCH_ROWS_FIXED, &t, "%s.%d", name, layer);
}

/* The call that chooses tokens, of so many rows. */
static och_op_call sample_call(const och_session *s, int64_t rows) {
    och_op_call c;
    memset(&c, 0, sizeof c);
    c.op = OCH_OP_SAMPLE;
    for (int i = 0; i < OCH_OP_MAX_IN; i++) c.in[i].dtype = OCH_DTYPE_NONE;
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) c.out[i].dtype = OCH_DTYPE_NONE;
    int64_t v = s->model->config.n_vocab;
    c.in[OCH_SAMPLE_LOGITS] = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = rows, .cols = v, .row_bytes = (uint64_t)v * 4};
    c.in[OCH_SAMPLE_NUMBERS] = (och_tensor){.dtype = OCH_DTYPE_F32, .rows = rows, .cols = OCH_SAMPLE_N_NUMBERS,
                                            .row_bytes = OCH_SAMPLE_N_NUMBERS * 4};
    c.in[OCH_SAMPLE_DRAWS] = (och_tensor){.dtype = OCH_DTYPE_I32, .rows = rows, .cols = OCH_SAMPLE_N_DRAWS,
                                          .row_bytes = OCH_SAMPLE_N_DRAWS * 4};
    c.out[0] = (och_tensor){.dtype = OCH_DTYPE_I32, .rows = rows, .cols = 1, .row_bytes = 4};
    return c;
}

/* Whether the device chooses tokens: where it has a kernel for that. A device of the host's own code leaves it to the host's
 * sampler, which reads the logits where they lie. */
static och_status decide_sampling(och_session *s, och_err *err) {
    s->sample_record = -1;
    if (s->options.host_sampling || s->model->config.n_vocab > OCH_SAMPLE_MAX_IDS) return OCH_OK;
    och_op_call c = sample_call(s, 1);
    const och_op_provider *p;
    och_err why;
    och_err_clear(&why);
    och_status st = och_op_select(s->model->device, &c, s->model->only, &p, &why);
    if (st != OCH_OK && st != OCH_UNSUPPORTED) return och_err_set(err, st, "%s", why.message);
    s->samples = st == OCH_OK && p->has_kernels;
    return OCH_OK;
}

/* A record at the plan's end, after the passes. */
static void add_sampling(och_session *s, och_plan_ref logits) {
    if (!s->samples) return;
    och_plan_ref numbers = bind_input(s, OCH_IN_NUMBERS, OCH_ROWS_OUTPUTS, OCH_DTYPE_F32, OCH_SAMPLE_N_NUMBERS, "numbers");
    och_plan_ref draws = bind_input(s, OCH_IN_DRAWS, OCH_ROWS_OUTPUTS, OCH_DTYPE_I32, OCH_SAMPLE_N_DRAWS, "draws");
    och_tensor ids = {.dtype = OCH_DTYPE_I32, .cols = 1, .row_bytes = 4, .addr = s->ids.addr, .host = s->ids.host};
    och_plan_ref out = och_plan_add_bound(&s->plan, OCH_PLAN_OUTPUT, OCH_ROWS_OUTPUTS, &ids, "ids");
    s->plan.layer = -1;
    och_plan_op *o = och_plan_add_op(&s->plan, OCH_OP_SAMPLE);
    if (!o) return; /* the plan has failed, and says so */
    o->in[OCH_SAMPLE_LOGITS] = logits;
    o->in[OCH_SAMPLE_NUMBERS] = numbers;
    o->in[OCH_SAMPLE_DRAWS] = draws;
    o->out[0] = out;
    s->sample_record = s->plan.n_ops - 1;
}

static och_status build_plan(och_session *s, och_err *err) {
    const och_model *m = s->model;
    const och_config *c = &m->config;
    och_builder *b = och_calloc(1, sizeof *b);
    if (!b) return och_err_nomem(err, sizeof *b, "a plan's builder");
    b->model = m;
    b->config = c;
    b->plan = &s->plan;
    b->block_tokens = OCH_BLOCK_TOKENS;
    b->tokens = bind_input(s, OCH_IN_TOKENS, OCH_ROWS_TOKENS, OCH_DTYPE_I32, 1, "tokens");
    b->positions = bind_input(s, OCH_IN_POSITIONS, OCH_ROWS_TOKENS, OCH_DTYPE_I32, 1, "positions");
    b->seqs = bind_input(s, OCH_IN_SEQS, OCH_ROWS_TOKENS, OCH_DTYPE_I32, 1, "seqs");
    b->out_rows = bind_input(s, OCH_IN_OUT_ROWS, OCH_ROWS_OUTPUTS, OCH_DTYPE_I32, 1, "out_rows");
    for (int g = 0; g < 2; g++) {
        b->slots[g] = bind_input(s, OCH_IN_SLOTS + g, OCH_ROWS_TOKENS, OCH_DTYPE_I32, 1, g ? "slots.sliding" : "slots");
        b->tables[g] = bind_input(s, OCH_IN_TABLES + g, OCH_ROWS_SEQUENCES, OCH_DTYPE_I32, s->groups[g].table_len,
                                  g ? "tables.sliding" : "tables");
        b->rope[g] = bind_input(s, OCH_IN_ROPE + g, OCH_ROWS_TOKENS, OCH_DTYPE_F32, g ? c->rope_sliding.dim : c->rope.dim,
                                g ? "rope.sliding" : "rope");
    }
    int number[2] = {0, 0};
    for (int l = 0; l < c->n_layers; l++) {
        int g = c->sliding[l];
        b->kcache[l] = bind_state(s, g, number[g]++, l, "k");
        b->vcache[l] = bind_state(s, g, number[g]++, l, "v");
    }
    och_tensor logits = {.dtype = OCH_DTYPE_F32, .cols = c->n_vocab, .row_bytes = (uint64_t)c->n_vocab * 4,
                         .addr = s->logits.addr, .host = s->logits.host};
    och_plan_ref logits_ref = b->logits = och_plan_add_bound(&s->plan, OCH_PLAN_OUTPUT, OCH_ROWS_OUTPUTS, &logits, "logits");
    m->arch->build(b);
    och_free(b);
    if (!s->options.no_passes) och_passes_run(&s->plan, m->device, m->only);
    add_sampling(s, logits_ref);
    if (!s->plan.failed) (void)och_session_place_inputs(s, s->options.max_step_tokens, s->options.max_logits);
    const och_plan_extent most = {s->options.max_step_tokens, s->options.max_logits, s->options.max_sequences};
    OCH_TRY(och_plan_select(&s->plan, m->device, m->only, most, err));
    int64_t buckets[] = {1, 8, 64, s->options.max_step_tokens};
    for (size_t i = 0; i < OCH_COUNT(buckets); i++) {
        if (i + 1 < OCH_COUNT(buckets) && buckets[i] >= s->options.max_step_tokens) continue;
        OCH_TRY(och_plan_add_layout(&s->plan, m->device, buckets[i], OCH_MIN(buckets[i], s->options.max_logits),
                                    s->options.max_sequences, err));
    }
    return OCH_OK;
}

och_status och_session_clear_counters(och_session *s, och_err *err) {
    return s->model->device->vtable->fill(s->queue, och_dev_addr_add(s->scratch.addr, s->counters_at), 0, OCH_OP_COUNTERS * 4, err);
}

static och_status create_memory(och_session *s, och_err *err) {
    uint64_t arena = 1, scratch = 1;
    for (int i = 0; i < s->plan.n_layouts; i++) {
        arena = OCH_MAX(arena, s->plan.layouts[i].arena_bytes);
        scratch = OCH_MAX(scratch, s->plan.layouts[i].scratch_bytes);
    }
    OCH_TRY(take(s, arena, OCH_MEM_DEVICE, &s->arena, err));
    s->counters_at = (scratch + 255) & ~UINT64_C(255);
    OCH_TRY(take(s, s->counters_at + OCH_OP_COUNTERS * 4, OCH_MEM_DEVICE, &s->scratch, err));
    return s->model->measured ? OCH_OK : och_session_clear_counters(s, err);
}

static och_status create_logits(och_session *s, och_err *err) {
    uint64_t bytes;
    if (!och_dtype_bytes(OCH_DTYPE_F32, (uint64_t)s->options.max_logits, (uint64_t)s->model->config.n_vocab, &bytes))
        return och_err_set(err, OCH_RANGE, "session: the size of the logits overflows");
    OCH_TRY(take(s, bytes, OCH_MEM_DEVICE, &s->logits, err));
    if (s->logits.host || s->model->measured) return OCH_OK;
    /* Pinned memory is no less than what all of the machine has to share: much of it, or none to be had, is ordinary memory. */
    och_err ignored;
    och_err_clear(&ignored);
    if (bytes <= MAX_PINNED_LOGITS && take(s, bytes, OCH_MEM_PINNED, &s->logits_pinned, &ignored) == OCH_OK) {
        s->logits_host = s->logits_pinned.host;
        return OCH_OK;
    }
    s->logits_host = och_malloc_aligned(bytes, 64);
    return s->logits_host ? OCH_OK : och_err_nomem(err, bytes, "logits");
}

/* What choosing tokens takes, on the device and on the host. */
static och_status create_sampling(och_session *s, och_err *err) {
    uint64_t bytes = (uint64_t)s->options.max_logits * 4;
    if (s->samples) {
        OCH_TRY(take(s, bytes, OCH_MEM_DEVICE, &s->ids, err));
        if (!s->ids.host && !s->model->measured) OCH_TRY(take(s, bytes, OCH_MEM_PINNED, &s->ids_pinned, err));
    }
    if (s->model->measured) return OCH_OK;
    s->sampler_scratch_bytes = och_sampler_scratch_bytes((uint32_t)s->model->config.n_vocab);
    s->sampler_scratch = och_malloc_aligned(s->sampler_scratch_bytes, 64);
    return s->sampler_scratch ? OCH_OK : och_err_nomem(err, s->sampler_scratch_bytes, "sampling");
}

/* Tables are made on the host, so that a file's divisors come back from a device of its own memory. */
static och_status create_rope(och_session *s, och_err *err) {
    const och_model *m = s->model;
    const och_device_vtable *v = m->device->vtable;
    const och_tensor *t = och_model_weight(m, OCH_ROLE_ROPE_FACTORS, -1);
    float copy[OCH_MAX_ROPE_DIM / 2];
    const float *factors = t ? t->host : NULL;
    if (t && !factors && !m->measured) {
        OCH_TRY(v->copy_to_host(s->queue, copy, t->addr, t->row_bytes, err));
        OCH_TRY(v->synchronise(s->queue, err));
        factors = copy;
    }
    och_rope_init(&m->config.rope, factors, &s->rope[0]);
    och_rope_init(&m->config.rope_sliding, factors, &s->rope[1]);
    return OCH_OK;
}

och_status och_session_create(och_model *m, const och_session_options *options, och_session **out_session, och_err *err) {
    *out_session = NULL;
    och_session *s = och_calloc(1, sizeof *s);
    if (!s) return och_err_nomem(err, sizeof *s, "a session");
    s->model = m;
    s->options = options ? *options : (och_session_options){.kv_dtype = OCH_DTYPE_NONE};
    och_plan_init(&s->plan);
    och_status st;
    double traced = och_trace_begin();
    OCH_TRY_GOTO(resolve_options(s, err));
    OCH_TRY_GOTO(m->device->vtable->queue_create(m->device, &s->queue, err));
    OCH_TRY_GOTO(create_rope(s, err));
    OCH_TRY_GOTO(describe_groups(s, err));
    OCH_TRY_GOTO(decide_sampling(s, err));
    OCH_TRY_GOTO(create_inputs(s, err));
    OCH_TRY_GOTO(create_logits(s, err));
    OCH_TRY_GOTO(create_sampling(s, err));
    OCH_TRY_GOTO(build_plan(s, err));
    OCH_TRY_GOTO(create_memory(s, err));
    OCH_TRY_GOTO(och_graphs_init(s, s->options.graphs, err));
    och_trace_end(traced, "load", "session");
    traced = och_trace_begin();
    OCH_TRY_GOTO(och_selftest_kernels(s, err));
    och_trace_end(traced, "load", "check of kernels");
    s->sequences = och_calloc((size_t)s->options.max_sequences, sizeof *s->sequences);
    /* At most one a sequence and group: the blocks after a span's first are fresh. */
    s->copies_capacity = (uint32_t)s->options.max_sequences * 2;
    s->copies = och_malloc_array(s->copies_capacity, sizeof *s->copies);
    s->span_of = och_calloc((size_t)s->options.max_sequences, sizeof *s->span_of);
    if (!s->sequences || !s->copies || !s->span_of) st = och_err_nomem(err, (uint64_t)s->options.max_sequences * sizeof *s->sequences, "sequences");
done:
    if (st != OCH_OK) {
        och_session_destroy(s);
        return st;
    }
    *out_session = s;
    return OCH_OK;
}

void och_session_destroy(och_session *s) {
    if (!s) return;
    if (s->sequences)
        for (int i = 0; i < s->options.max_sequences; i++) och_kv_seq_destroy(s->sequences[i]);
    och_free(s->sequences);
    och_free(s->copies);
    och_free(s->span_of);
    och_graphs_deinit(s);
    och_plan_deinit(&s->plan);
    for (int g = 0; g < 2; g++) {
        och_kv_pool_destroy(s->groups[g].pool);
        och_buf_free(&s->groups[g].buf);
    }
    och_buf_free(&s->arena);
    och_buf_free(&s->scratch);
    och_buf_free(&s->logits);
    och_buf_free(&s->inputs);
    och_buf_free(&s->staging);
    if (!s->logits_pinned.device) och_free_aligned(s->logits_host);
    och_buf_free(&s->logits_pinned);
    och_buf_free(&s->ids);
    och_buf_free(&s->ids_pinned);
    och_free_aligned(s->sampler_scratch);
    if (s->queue) s->model->device->vtable->queue_destroy(s->queue);
    och_free(s);
}

static och_status find_sequence(const och_session *s, int32_t sequence, och_kv_seq **out_seq, och_err *err) {
    *out_seq = NULL;
    if (sequence < 0 || sequence >= s->options.max_sequences || !s->sequences[sequence])
        return och_err_set(err, OCH_INVALID, "sequence: expected the id of a sequence of the session, found %d", sequence);
    *out_seq = s->sequences[sequence];
    return OCH_OK;
}

static och_status free_id(const och_session *s, int32_t *out_id, och_err *err) {
    for (int32_t i = 0; i < s->options.max_sequences; i++)
        if (!s->sequences[i]) {
            *out_id = i;
            return OCH_OK;
        }
    return och_err_set(err, OCH_RANGE, "sequence: all %d sequences of the session are in use: release one or raise max_sequences",
                       s->options.max_sequences);
}

och_status och_session_sequence_create(och_session *s, int32_t *out_sequence, och_err *err) {
    *out_sequence = -1;
    int32_t id = -1;
    OCH_TRY(free_id(s, &id, err));
    och_kv_group_desc descs[2];
    och_kv_pool *pools[2];
    for (int g = 0; g < 2; g++)
        if (s->groups[g].used) {
            descs[s->groups[g].kv_index] = s->groups[g].desc;
            pools[s->groups[g].kv_index] = s->groups[g].pool;
        }
    OCH_TRY(och_kv_seq_create(descs, pools, s->n_groups, &s->sequences[id], err));
    *out_sequence = id;
    return OCH_OK;
}

och_status och_session_sequence_fork(och_session *s, int32_t source, int32_t *out_sequence, och_err *err) {
    *out_sequence = -1;
    och_kv_seq *seq;
    int32_t id = -1;
    OCH_TRY(find_sequence(s, source, &seq, err));
    OCH_TRY(free_id(s, &id, err));
    OCH_TRY(och_kv_seq_fork(seq, &s->sequences[id], err));
    *out_sequence = id;
    return OCH_OK;
}

och_status och_session_sequence_release(och_session *s, int32_t sequence, och_err *err) {
    och_kv_seq *seq;
    OCH_TRY(find_sequence(s, sequence, &seq, err));
    och_kv_seq_destroy(seq);
    s->sequences[sequence] = NULL;
    return OCH_OK;
}

och_status och_session_sequence_truncate(och_session *s, int32_t sequence, int32_t n_tokens, och_err *err) {
    och_kv_seq *seq;
    OCH_TRY(find_sequence(s, sequence, &seq, err));
    if (n_tokens < 0) return och_err_set(err, OCH_RANGE, "sequence %d: truncate: expected 0 or more tokens, found %d", sequence, n_tokens);
    return och_kv_seq_truncate(seq, (uint32_t)n_tokens, err);
}

och_status och_session_sequence_length(const och_session *s, int32_t sequence, int32_t *out_n, och_err *err) {
    *out_n = 0;
    och_kv_seq *seq;
    OCH_TRY(find_sequence(s, sequence, &seq, err));
    *out_n = (int32_t)och_kv_seq_length(seq);
    return OCH_OK;
}

const float *och_session_logits(const och_session *s, size_t *out_rows) {
    *out_rows = (size_t)s->n_out_rows;
    return s->logits.host ? s->logits.host : s->logits_host;
}

och_session_memory och_session_memory_get(const och_session *s) {
    return (och_session_memory){s->groups[0].buf.size_bytes + s->groups[1].buf.size_bytes, s->arena.size_bytes, s->scratch.size_bytes,
                                s->logits.size_bytes, s->inputs.size_bytes};
}
