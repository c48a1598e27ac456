/* ochre bench op: one op on one device, held against the reference before anything else; then its speed on real devices, its
 * counts on simulated ones. */
#include "main/main.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/size.h"
#include "base/thread.h"
#include "engine/selftest.h"
#include "file/json.h"
#include "op/gpu/gpu.h"
#include "quant/format.h"
#include "quant/planes.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const och_usage usage = {
    "bench op", "NAME [options]",
    "Runs one op on one device: checks it against the reference, then times it. On a simulated device it prints counts "
    "and never\n"
    "seconds: DRAM bytes over the floor (each input once, each output once, weights as the file has them), lines that "
    "miss a\n"
    "16 KiB cache of the workgroup, instructions by class and per weight, bytes in flight, registers, spills, "
    "occupancy.\n"
    "linear: y[rows, m] = x[rows, k] w[m, k]; with --m 4096,1024,1024 three weights for one x, with --gate two of m rows\n"
    "whose results become silu(y0) * y1, with --state those of --heads and --kv-heads, which are turned and stored. attention: one token a row over --context tokens. rope, kv_write, qkv_post: rows of\n"
    "heads. Others: rows of k.\n"
    "Variants: default; invariant (the one that --batch-invariant pins).\n",
    "  ochre bench op linear --device sim:gfx1151 --dtype Q4_K --k 8192 --m 8192\n"
    "  ochre bench op linear --device sim:gfx1100 --dtype Q4_K --m 14336 --gate --norm\n"
    "  ochre bench op attention --device sim:gfx942 --context 8192\n"
    "  ochre bench op linear --device cpu --dtype Q8_0 --rows 16 --k 4096 --m 4096 --json\n"};

typedef struct shape {
    int32_t rows, k, m[OCH_LINEAR_MAX_WEIGHTS], n_m, context, heads, kv_heads, head_dim;
    bool gate, norm, residual, codes, next_norm, state; /* of linear */
    och_dtype dtype;
} shape;

static och_tensor typed(och_dtype t, int64_t rows, int64_t cols) {
    och_tensor x = {.dtype = t, .rows = rows, .cols = cols};
    if (!och_dtype_row_bytes(t, (uint64_t)cols, &x.row_bytes)) x.row_bytes = 0; /* refused by the op's check */
    return x;
}
static och_tensor f32(int64_t rows, int64_t cols) { return typed(OCH_DTYPE_F32, rows, cols); }
static och_tensor i32(int64_t rows, int64_t cols) {
    return (och_tensor){.dtype = OCH_DTYPE_I32, .rows = rows, .cols = cols, .row_bytes = (uint64_t)cols * 4};
}

/* Codes of rows of k elements, for a norm or not. */
static och_tensor codes_of(int64_t k, bool normed) {
    och_tensor t = {.dtype = OCH_DTYPE_U8, .rows = OCH_OP_CODES_ROWS};
    uint64_t squares;
    if (normed ? !och_op_normed_codes(k, &t, &squares) : !och_planes_act_row_bytes((uint64_t)k, &t.row_bytes))
        return (och_tensor){.dtype = OCH_DTYPE_U8}; /* refused by the op's check */
    t.cols = (int64_t)t.row_bytes;
    return t;
}

enum { BLOCK = 32, READ_BYTES = 1 << 30 };

static void make_call(const shape *s, och_op_id op, och_op_call *c) {
    const och_attr_kv kv = {s->kv_heads, s->head_dim, BLOCK};
    const och_attr_rope rope = {s->heads, s->head_dim, s->head_dim, OCH_ROPE_HALF};
    int64_t q = (int64_t)s->heads * s->head_dim, kvs = (int64_t)s->kv_heads * s->head_dim,
            blocks = (s->context + BLOCK - 1) / BLOCK;
    och_dtype cache = s->dtype == OCH_DTYPE_NONE ? OCH_DTYPE_F16 : s->dtype,
              weight = s->dtype == OCH_DTYPE_NONE ? OCH_DTYPE_Q8_0 : s->dtype;
    memset(c, 0, sizeof *c);
    c->op = op;
    for (int i = 0; i < OCH_OP_MAX_IN; i++) c->in[i].dtype = OCH_DTYPE_NONE;
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) c->out[i].dtype = OCH_DTYPE_NONE;
    switch (op) {
    case OCH_OP_EMBED:
        c->attr.embed.scale = 1.0f;
        c->in[OCH_EMBED_IDS] = i32(s->rows, 1);
        c->in[OCH_EMBED_TABLE] = typed(weight, s->m[0], s->k);
        c->out[0] = f32(s->rows, s->k);
        break;
    case OCH_OP_LINEAR:
        c->attr.linear.n_weights = s->gate ? 2 : s->n_m;
        c->attr.linear.glu = s->gate ? OCH_ACT_SILU : OCH_ACT_NONE;
        c->attr.linear.norm.eps = 1e-6f;
        c->in[OCH_LINEAR_X] = f32(s->rows, s->k);
        if (s->norm) c->in[OCH_LINEAR_NORM] = f32(1, s->k);
        if (s->codes) c->in[OCH_LINEAR_XCODES] = codes_of(s->k, s->norm);
        if (s->codes && s->norm && s->gate) c->out[OCH_LINEAR_YCODES] = codes_of(s->m[0], false); /* as what reads such codes has it */
        if (s->next_norm) {
            c->in[OCH_LINEAR_YNORM] = f32(1, s->m[0]);
            c->out[OCH_LINEAR_YCODES] = codes_of(s->m[0], true);
        }
        if (s->residual) c->in[OCH_LINEAR_RESIDUAL] = f32(s->rows, s->m[0]);
        for (int i = 0; i < c->attr.linear.n_weights; i++) {
            c->in[OCH_LINEAR_W0 + i] = typed(weight, s->m[s->gate ? 0 : i], s->k);
            if (!i || !s->gate) c->out[i] = f32(s->rows, s->m[i]);
        }
        if (!s->state) break;
        c->attr.linear.post = (och_attr_qkv_post){.kv = kv, .rope = rope};
        c->in[OCH_LINEAR_TABLE] = f32(s->rows, s->head_dim);
        c->in[OCH_LINEAR_SLOTS] = i32(s->rows, 1);
        c->out[OCH_LINEAR_KCACHE] = c->out[OCH_LINEAR_VCACHE] = typed(OCH_DTYPE_F16, (s->rows + BLOCK - 1) / BLOCK, kvs * BLOCK);
        break;
    case OCH_OP_RMS_NORM:
        c->attr.rms_norm.eps = 1e-6f;
        c->in[OCH_RMS_NORM_X] = c->out[0] = f32(s->rows, s->k);
        c->in[OCH_RMS_NORM_W] = f32(1, s->k);
        break;
    case OCH_OP_ROPE:
        c->attr.rope = rope;
        c->in[OCH_ROPE_X] = c->out[0] = f32(s->rows, q);
        c->in[OCH_ROPE_TABLE] = f32(s->rows, s->head_dim);
        break;
    case OCH_OP_KV_WRITE:
        c->attr.kv_write = kv;
        c->in[OCH_KV_WRITE_K] = c->in[OCH_KV_WRITE_V] = f32(s->rows, kvs);
        c->in[OCH_KV_WRITE_SLOTS] = i32(s->rows, 1);
        c->out[0] = c->out[1] = typed(cache, (s->rows + BLOCK - 1) / BLOCK, kvs * BLOCK);
        break;
    case OCH_OP_QKV_POST:
        c->attr.qkv_post = (och_attr_qkv_post){kv, rope, {1e-6f, false}, false};
        c->in[OCH_QKV_POST_Q] = c->out[0] = f32(s->rows, q);
        c->in[OCH_QKV_POST_K] = c->in[OCH_QKV_POST_V] = f32(s->rows, kvs);
        c->in[OCH_QKV_POST_TABLE] = f32(s->rows, s->head_dim);
        c->in[OCH_QKV_POST_SLOTS] = i32(s->rows, 1);
        c->out[1] = c->out[2] = typed(cache, (s->rows + BLOCK - 1) / BLOCK, kvs * BLOCK);
        break;
    case OCH_OP_ATTENTION:
        c->attr.attention = (och_attr_attention){kv, s->heads, (float)(1.0 / sqrt(s->head_dim)), 0.0f, 0};
        c->in[OCH_ATTENTION_Q] = c->out[0] = f32(s->rows, q);
        c->in[OCH_ATTENTION_K] = c->in[OCH_ATTENTION_V] = typed(cache, blocks * s->rows, kvs * BLOCK);
        c->in[OCH_ATTENTION_TABLES] = i32(s->rows, blocks); /* a sequence a row */
        c->in[OCH_ATTENTION_SEQS] = c->in[OCH_ATTENTION_POSITIONS] = i32(s->rows, 1);
        break;
    case OCH_OP_GLU: c->attr.glu.act = OCH_ACT_SILU; /* fall through */
    case OCH_OP_ADD: c->in[0] = c->in[1] = c->out[0] = f32(s->rows, s->k); break;
    case OCH_OP_GATHER:
        c->in[OCH_GATHER_X] = c->out[0] = f32(s->rows, s->k);
        c->in[OCH_GATHER_ROWS] = i32(s->rows, 1);
        break;
    case OCH_OP_SAMPLE:
        c->in[OCH_SAMPLE_LOGITS] = f32(s->rows, s->k);
        c->in[OCH_SAMPLE_NUMBERS] = f32(s->rows, OCH_SAMPLE_N_NUMBERS);
        c->in[OCH_SAMPLE_DRAWS] = i32(s->rows, OCH_SAMPLE_N_DRAWS);
        c->out[0] = i32(s->rows, 1);
        break;
    case OCH_OP_COUNT_: break;
    }
}

/* What instructions are counted by: weights, elements of the state, or elements that the op makes. */
static double elements(const shape *s, const och_op_call *c) {
    double q = (double)s->heads * s->head_dim, kv = (double)s->kv_heads * s->head_dim, sum = 0.0;
    switch (c->op) {
    case OCH_OP_LINEAR:
        for (int i = 0; i < c->attr.linear.n_weights; i++)
            sum += (double)c->in[OCH_LINEAR_W0 + i].rows * (double)c->in[OCH_LINEAR_W0 + i].cols;
        return sum;
    case OCH_OP_ATTENTION: return 2.0 * s->rows * s->context * kv;
    case OCH_OP_ROPE: return s->rows * q;
    case OCH_OP_KV_WRITE: return s->rows * 2.0 * kv;
    case OCH_OP_QKV_POST: return s->rows * (q + 2.0 * kv);
    default: return (double)s->rows * s->k;
    }
}

/* "4096" or "4096,1024,1024". */
static bool parse_m(const char *text, shape *s) {
    for (s->n_m = 0; s->n_m < OCH_LINEAR_MAX_WEIGHTS; text++) {
        char *end;
        errno = 0;
        long v = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : 0;
        if (errno || v < 1 || v > 1 << 24) return false;
        s->m[s->n_m++] = (int32_t)v;
        if (!*end) return true;
        if (*end != ',') return false;
        text = end;
    }
    return false;
}

/* ---- counters ---- */

typedef struct counts {
    och_strbuf lines; /* the simulator's JSON, a launch a line */
    uint64_t dram_read, dram_written, misses, requested;
    int n_launches;
} counts;

static const char *const classes[] = {"valu", "valu_dual", "packed", "dot",    "f64",     "trans", "matrix", "salu",
                                      "smem", "load",      "store",  "atomic", "scratch", "lds",   "branch", "barrier"};

static uint64_t number(const och_json *j, const char *path) {
    uint64_t v = 0;
    och_err ignored;
    och_err_clear(&ignored);
    return och_json_get_u64(j, path, false, &v, &ignored) == OCH_OK ? v : 0;
}

/* A line of the simulator's into the sums and, for people, into text. */
static och_status add_line(counts *n, const char *line, size_t size, double weights, och_strbuf *text, och_err *err) {
    och_json j = {0};
    const char *kernel = "?";
    OCH_TRY(och_json_load_memory("counters of the simulator", line, size, &j, err));
    och_status st = och_json_get_str(&j, "kernel", true, &kernel, err);
    uint64_t read = number(&j, "dram_bytes_read"), written = number(&j, "dram_bytes_written"), all = 0;
    n->dram_read += read;
    n->dram_written += written;
    n->misses += number(&j, "workgroup_miss_bytes");
    n->requested += number(&j, "requested_bytes_read") + number(&j, "requested_bytes_written");
    n->n_launches++;
    och_strbuf_printf(text, "%s\n", kernel);
    och_strbuf_printf(text,
                      "  DRAM bytes        %14" PRIu64 " read, %" PRIu64 " written; workgroups missed %" PRIu64
                      ", asked for %" PRIu64 "\n",
                      read, written, number(&j, "workgroup_miss_bytes"), number(&j, "requested_bytes_read"));
    och_strbuf_puts(text, "  instructions     ");
    for (size_t i = 0; i < OCH_COUNT(classes); i++) {
        char path[48];
        snprintf(path, sizeof path, "instructions.%s", classes[i]);
        uint64_t v = number(&j, path);
        if (v) och_strbuf_printf(text, " %s %" PRIu64, classes[i], v);
        all += v;
    }
    och_strbuf_printf(text, "\n  a weight          %14.4f instructions of a wave\n", weights > 0 ? (double)all / weights : 0.0);
    och_strbuf_printf(text,
                      "  bytes in flight   %14" PRIu64 " a multiprocessor (%" PRIu64 " loads, %" PRIu64
                      " bytes a wave before its first wait)\n",
                      number(&j, "bytes_in_flight_multiprocessor"), number(&j, "loads_in_flight_wave"),
                      number(&j, "bytes_in_flight_wave"));
    och_strbuf_printf(text,
                      "  registers         %14" PRIu64 " and %" PRIu64 " accumulators; spills %" PRIu64
                      " bytes a lane; LDS %" PRIu64 " bytes, %" PRIu64 " conflict cycles\n",
                      number(&j, "vgprs"), number(&j, "agprs"), number(&j, "scratch_lane_bytes"),
                      number(&j, "lds_bytes"), number(&j, "lds_conflict_cycles"));
    och_strbuf_printf(text, "  occupancy         %14" PRIu64 " waves a SIMD, %" PRIu64 " workgroups a multiprocessor\n",
                      number(&j, "waves_simd"), number(&j, "groups_multiprocessor"));
    och_json_deinit(&j);
    return st;
}

static och_status read_counts(const char *path, double weights, counts *n, och_strbuf *text, och_err *err) {
    char line[8192]; /* many times what the simulator prints */
    FILE *f = fopen(path, "r");
    if (!f) return och_err_set_native(err, OCH_IO, errno, "%s: %s", path, strerror(errno));
    och_status st = OCH_OK;
    while (st == OCH_OK && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        st = add_line(n, line, strlen(line), weights, text, err);
        och_strbuf_printf(&n->lines, "%s%s", n->n_launches > 1 ? ",\n" : "", line);
    }
    fclose(f);
    if (st == OCH_OK && !n->n_launches) st = och_err_set(err, OCH_DEVICE, "the simulator counted no launch");
    return st;
}

/* The trial with the simulator's counters on, into a file of its own. */
static och_status count(och_queue *q, const och_op_call *c, const och_trial_options *o, double weights, och_trial *t, counts *n,
                        och_strbuf *text, och_err *err) {
    const char *dir = och_env_get(OCH_ENV_TMPDIR);
    char path[512];
    if (snprintf(path, sizeof path, "%s/ochre-counts-XXXXXX", dir ? dir : "/tmp") >= (int)sizeof path)
        return och_err_set(err, OCH_RANGE, "TMPDIR: expected a shorter path");
    int fd = mkstemp(path);
    if (fd < 0) return och_err_set_native(err, OCH_IO, errno, "%s: %s", path, strerror(errno));
    close(fd);
    och_status st = och_env_set("OCHRE_SIM_COUNT", path) ? OCH_OK : och_err_nomem(err, sizeof path, "the environment");
    if (st == OCH_OK) st = och_trial_run(q, c, o, t, err);
    (void)och_env_set("OCHRE_SIM_COUNT", NULL);
    if (st == OCH_OK) st = read_counts(path, weights, n, text, err);
    unlink(path);
    return st;
}

/* ---- report ---- */

static void print_json(och_strbuf *b, const och_device *d, const och_op_call *c, const shape *s, const och_trial *t,
                       const counts *n, double weights, double read_rate) {
    bool sim = n->n_launches > 0, simulated = d->info.kind == OCH_DEV_SIMULATED, right = t->nmse <= t->bound;
    och_strbuf_printf(b,
                      "{\"op\": \"%s\", \"device\": \"%s\", \"arch\": \"%s\", \"evidence\": \"%s\", \"dtype\": \"%s\", "
                      "\"rows\": %d, \"k\": %d, \"m\": %d, "
                      "\"context\": %d, \"provider\": \"%s\", \"kernels\": ",
                      och_op_name(c->op), d->info.label, d->info.arch, simulated ? "simulated" : "run",
                      och_dtype_name(s->dtype), s->rows, s->k, s->m[0], s->context, t->provider->name);
    och_strbuf_json(b, t->kernels, strlen(t->kernels));
    och_strbuf_printf(b, ", \"right\": %s, \"bound\": %.3g, \"nmse\": ", right ? "true" : "false", t->bound);
    if (isfinite(t->nmse)) och_strbuf_printf(b, "%.4g", t->nmse);
    else och_strbuf_puts(b, "null");
    och_strbuf_printf(b, ", \"floor_bytes\": %" PRIu64 ", \"flops\": %" PRIu64, t->floor_bytes, t->flops);
    if (sim)
        och_strbuf_printf(b,
                          ", \"weights\": %.0f, \"dram_bytes\": %" PRIu64
                          ", \"dram_over_floor\": %.5f, \"workgroup_miss_bytes\": %" PRIu64 ", \"launches\": [\n%s]}\n",
                          weights, n->dram_read + n->dram_written,
                          (double)(n->dram_read + n->dram_written) / (double)t->floor_bytes, n->misses,
                          och_strbuf_str(&n->lines));
    else if (t->seconds > 0) {
        och_strbuf_printf(b,
                          ", \"seconds\": %.6g, \"bytes_per_second\": %.4g, \"flops_per_second\": %.4g, \"copies\": %d, "
                          "\"graph\": %s",
                          t->seconds, (double)t->floor_bytes / t->seconds, (double)t->flops / t->seconds, t->n_copies,
                          t->graph ? "true" : "false");
        if (read_rate > 0) och_strbuf_printf(b, ", \"read_bytes_per_second\": %.4g", read_rate);
        och_strbuf_puts(b, "}\n");
    } else och_strbuf_puts(b, "}\n");
}

static void print_text(och_strbuf *b, const och_device *d, const och_op_call *c, const och_trial *t, const counts *n,
                       const och_strbuf *launches, double read_rate) {
    bool right = t->nmse <= t->bound;
    och_strbuf_printf(b, "%s on %s (%s), provider %s%s%s\n", och_op_name(c->op), d->info.label, d->info.arch, t->provider->name,
                      t->kernels[0] ? ": " : "", t->kernels);
    och_strbuf_printf(b, "normalised mean square error %.3g, at most %.1e: %s\n", t->nmse, t->bound, right ? "right" : "WRONG");
    och_strbuf_printf(b, "floor               %14" PRIu64 " bytes, %" PRIu64 " operations\n", t->floor_bytes, t->flops);
    if (n->n_launches) {
        och_strbuf_puts(b, och_strbuf_str(launches));
        och_strbuf_printf(b, "all, simulated      %14" PRIu64 " DRAM bytes, %.4f of the floor; workgroups missed %.4f of it\n",
                          n->dram_read + n->dram_written, (double)(n->dram_read + n->dram_written) / (double)t->floor_bytes,
                          (double)n->misses / (double)t->floor_bytes);
    } else if (t->seconds > 0) {
        och_strbuf_printf(b, "%.3f us a run%s", t->seconds * 1e6, t->graph ? " in a graph" : "");
        if (t->n_copies > 1) och_strbuf_printf(b, ", %d copies of the operands in turn", t->n_copies);
        och_strbuf_printf(b, ": %.2f GB/s of the floor, %.2f GFLOP/s\n", (double)t->floor_bytes / t->seconds * 1e-9,
                          (double)t->flops / t->seconds * 1e-9);
        if (read_rate > 0)
            och_strbuf_printf(b, "the device reads %.2f GB/s where it does nothing else: %.1f%% of that\n", read_rate * 1e-9,
                              100.0 * (double)t->floor_bytes / t->seconds / read_rate);
    }
}

static bool op_from_name(const char *name, och_op_id *out_op) {
    for (int i = 0; i < OCH_OP_COUNT_; i++)
        if (!strcmp(och_op_name((och_op_id)i), name)) {
            *out_op = (och_op_id)i;
            return true;
        }
    return false;
}

static int no_such_op(const char *name) {
    const char *names[OCH_OP_COUNT_];
    for (int i = 0; i < OCH_OP_COUNT_; i++) names[i] = och_op_name((och_op_id)i);
    const char *near = och_main_nearest(name, names, OCH_OP_COUNT_);
    if (near) return och_main_usage("bench op", "unknown op \"%.60s\"; did you mean %s?", name, near);
    och_strbuf all = {0};
    for (int i = 0; i < OCH_OP_COUNT_; i++) och_strbuf_printf(&all, "%s%s", i ? ", " : "", names[i]);
    int rc = och_main_usage("bench op", "unknown op \"%.60s\"; there are %s", name, och_strbuf_str(&all));
    och_strbuf_deinit(&all);
    return rc;
}

int och_cmd_bench_op(int argc, char **argv) {
    const char *args[1], *device = NULL, *provider = NULL, *dtype = NULL, *variant = "default", *m = "4096";
    shape s = {.rows = 1,
               .k = 4096,
               .context = 4096,
               .heads = 32,
               .kv_heads = 8,
               .head_dim = 128,
               .dtype = OCH_DTYPE_NONE};
    int32_t runs = 20, threads = 0;
    bool json = false;
    double read_rate = 0.0;
    const och_opt opts[] = {
        {"device", 'd', OCH_OPT_STR, &device, 0, 0, "D", "see `ochre devices` (default: auto)", NULL},
        {"dtype", 0, OCH_OPT_STR, &dtype, 0, 0, "F", "of the weight (default: Q8_0) or of the state (default: F16)", NULL},
        {"rows", 0, OCH_OPT_I32, &s.rows, 1, 65536, "N", "rows of tokens (default: 1)", NULL},
        {"k", 0, OCH_OPT_I32, &s.k, 1, 1 << 20, "K", "columns (default: 4096)", NULL},
        {"m", 0, OCH_OPT_STR, &m, 0, 0, "M[,M,M]", "rows of the weight, or of linear's up to three (default: 4096)", NULL},
        {"gate", 0, OCH_OPT_FLAG, &s.gate, 0, 0, NULL, "linear: a gate and its product, m rows each", NULL},
        {"norm", 0, OCH_OPT_FLAG, &s.norm, 0, 0, NULL, "linear: x is normed before", NULL},
        {"residual", 0, OCH_OPT_FLAG, &s.residual, 0, 0, NULL, "linear: a residual is added", NULL},
        {"codes", 0, OCH_OPT_FLAG, &s.codes, 0, 0, NULL, "linear: x comes as codes, as from a gate or attention; behind --norm from a product", NULL},
        {"next-norm", 0, OCH_OPT_FLAG, &s.next_norm, 0, 0, NULL, "linear: y goes on as codes for a norm too", NULL},
        {"state", 0, OCH_OPT_FLAG, &s.state, 0, 0, NULL, "linear: of q, k and v, which go turned into a state of F16", NULL},
        {"context", 0, OCH_OPT_I32, &s.context, 1, 1 << 22, "N", "attention: tokens of the state (default: 4096)", NULL},
        {"heads", 0, OCH_OPT_I32, &s.heads, 1, 1024, "N", "query heads (default: 32)", NULL},
        {"kv-heads", 0, OCH_OPT_I32, &s.kv_heads, 1, 1024, "N", "heads of the state (default: 8)", NULL},
        {"head-dim", 0, OCH_OPT_I32, &s.head_dim, 1, 1024, "N", "elements of a head (default: 128)", NULL},
        {"variant", 0, OCH_OPT_STR, &variant, 0, 0, "V", "default, or invariant: the one for every batch size", NULL},
        {"provider", 0, OCH_OPT_STR, &provider, 0, 0, "NAME", "use only these kernels: reference, cpu, kernel, blas", NULL},
        {"runs", 'r', OCH_OPT_I32, &runs, 1, 100000, "N", "runs that are timed on a real device (default: 20)", NULL},
        {"threads", 't', OCH_OPT_I32, &threads, 1, OCH_POOL_MAX_THREADS, "N", "CPU threads", NULL},
        {"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object", NULL},
    };
    int n_args, rc = och_opts_parse(&usage, opts, OCH_COUNT(opts), argc, argv, args, 1, &n_args);
    if (rc >= 0) return rc;
    if (n_args < 1) return och_main_usage("ops", "bench op: which op?");
    och_op_id op = OCH_OP_COUNT_;
    if (!op_from_name(args[0], &op)) return no_such_op(args[0]);
    if (dtype && (s.dtype = och_dtype_from_name(dtype)) == OCH_DTYPE_NONE)
        return och_main_usage("inspect", "bench op: --dtype: expected a type of weights or state, found \"%.40s\"", dtype);
    if (!parse_m(m, &s))
        return och_main_usage("bench", "bench op: --m: expected one to three numbers from 1 to %d, found \"%.40s\"", 1 << 24, m);
    if (s.state) {
        s.n_m = OCH_LINEAR_MAX_WEIGHTS;
        for (int i = 0; i < s.n_m; i++) s.m[i] = (i ? s.kv_heads : s.heads) * s.head_dim;
    }
    if (s.n_m > 1 && (op != OCH_OP_LINEAR || s.gate))
        return och_main_usage("bench", "bench op: --m: several weights, and --state, are for linear without --gate alone");
    if ((s.gate || s.norm || s.residual || s.codes || s.next_norm || s.state) && op != OCH_OP_LINEAR)
        return och_main_usage("bench", "bench op: --gate, --norm, --residual, --codes, --next-norm and --state are linear's, not %s's", args[0]);
    if (s.codes && (s.rows > OCH_OP_CODES_ROWS || s.k % 32))
        return och_main_usage("bench", "bench op: --codes: expected up to %d rows of whole blocks of 32 columns, found %d of %d",
                              OCH_OP_CODES_ROWS, s.rows, s.k);
    bool invariant = !strcmp(variant, "invariant");
    if (!invariant && strcmp(variant, "default") != 0)
        return och_main_usage("bench", "--variant: expected default or invariant, found \"%.40s\"", variant);
    rc = och_main_check_provider("bench", provider);
    if (rc >= 0) return rc;
    och_device *d = NULL;
    och_queue *q = NULL;
    och_err err = {0};
    och_op_call call;
    och_trial t = {0};
    counts n = {0};
    och_strbuf launches = {0}, out = {0};
    och_dev_options dev = {.n_threads = threads};
    rc = OCH_EXIT_FAILURE;
    make_call(&s, op, &call);
    och_trial_options o = {.batch_invariant = invariant, .seed = 1};
    double weights = elements(&s, &call);
    och_status st = och_op_check(&call, &err);
    if (st == OCH_OK) st = och_device_open(device ? device : "auto", &dev, &d, &err);
    if (st == OCH_OK) st = d->vtable->queue_create(d, &q, &err);
    if (st == OCH_OK)
        st =
            och_op_select_packer(d, &call, provider ? provider : och_env_get(OCH_ENV_OCHRE_OP_ONLY), &o.provider, &err);
    if (st == OCH_OK && d->info.kind == OCH_DEV_SIMULATED && o.provider->has_kernels)
        st = count(q, &call, &o, weights, &t, &n, &launches, &err);
    else if (st == OCH_OK) {
        if (d->info.kind != OCH_DEV_SIMULATED) o.n_runs = runs;
        st = och_trial_run(q, &call, &o, &t, &err);
        if (st == OCH_OK && o.n_runs && o.provider->has_kernels) st = och_gpu_read_rate(q, READ_BYTES, &read_rate, &err);
    }
    if (st != OCH_OK) {
        rc = och_main_fail(&err);
        goto done;
    }
    if (json) print_json(&out, d, &call, &s, &t, &n, weights, read_rate);
    else print_text(&out, d, &call, &t, &n, &launches, read_rate);
    if (out.failed || launches.failed || n.lines.failed) och_main_error("out of memory for the report");
    else {
        fputs(och_strbuf_str(&out), stdout);
        if (t.nmse <= t.bound) rc = OCH_EXIT_OK;
        else och_main_error("op %s on %s gives another result than the reference", args[0], d->info.label);
    }
done:
    if (q) d->vtable->queue_destroy(q);
    och_device_release(d);
    och_strbuf_deinit(&launches);
    och_strbuf_deinit(&n.lines);
    och_strbuf_deinit(&out);
    return rc;
}
