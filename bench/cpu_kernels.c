/* Times the fast CPU provider op by op against the floor of this machine: the greater of bytes / read bandwidth and
 * operations / tile (or vector) rate, both measured first, in the same run and with the same threads.
 *
 *   cpu_kernels [-t THREADS] [-s SECONDS_PER_ROW] [-f FILTER] [-c MB] [-r GFLOP/s]
 *
 * Weights are random blocks, a new copy for each call of a row until MB are in use, so that a decode row reads
 * from as far away as in a model. The least time of many calls is printed: on a shared machine it is the one that
 * others disturbed least. */
#include "base/alloc.h"
#include "base/thread.h"
#include "dev/cpu/cpu.h"
#include "op/op.h"
#include "quant/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COLD_BYTES ((size_t)96 << 20)
#define MAX_COPIES 64

static och_device *device;
static och_queue *queue;
static double seconds_per_row = 0.3, cold_bytes = (double)COLD_BYTES;
static const char *filter = "";
static double read_rate, flop_rate; /* of the threads together */

static void ok(och_status st, const och_err *err) {
    if (st == OCH_OK) return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

/* With one thread the time that it ran counts, not what others took from it. */
static double now(void) {
    if (och_pool_size(och_cpu_pool(device)) > 1) return och_now_seconds();
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t random_state = 88172645463325252u;
static uint32_t random_u32(void) { /* xorshift64: Marsaglia 2003 */
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 16);
}
static float random_float(void) { return ((float)(random_u32() & 0xFFFF) / 32768.0f - 1.0f); }

static och_tensor tensor(och_dtype dtype, int64_t rows, int64_t cols) {
    uint64_t row_bytes;
    if (!och_dtype_row_bytes(dtype, (uint64_t)cols, &row_bytes)) abort();
    och_buf b;
    och_err err;
    och_err_clear(&err);
    ok(och_buf_alloc(device, row_bytes * (uint64_t)rows, OCH_MEM_DEVICE, &b, &err), &err);
    if (dtype == OCH_DTYPE_F32)
        for (int64_t i = 0; i < rows * cols; i++) ((float *)b.host)[i] = random_float();
    else memset(b.host, 0, row_bytes * (uint64_t)rows);
    return (och_tensor){.dtype = dtype, .rows = rows, .cols = cols, .row_bytes = row_bytes, .addr = b.addr, .host = b.host};
}
static void drop(och_tensor *t) {
    och_buf b = {.device = device, .addr = t->addr, .host = t->host, .size_bytes = t->row_bytes * (uint64_t)t->rows};
    if (t->layout == OCH_LAYOUT_NATIVE) och_buf_free(&b);
}

static const och_op_provider *provider_of(const och_op_call *c) {
    const och_op_provider *p;
    och_err err;
    och_err_clear(&err);
    ok(och_op_select(device, c, NULL, &p, &err), &err);
    return p;
}

/* ---- rates of the machine ---- */

typedef struct probe {
    const uint8_t *data;
    size_t n_bytes;
    uint64_t sums[64];
} probe;

static void read_member(void *arg, const och_pool_member *me) {
    probe *p = arg;
    size_t share = p->n_bytes / (size_t)me->n;
    const uint64_t *q = (const uint64_t *)(const void *)(p->data + share * (size_t)me->index);
    uint64_t s0 = 0, s1 = 0, s2 = 0, s3 = 0, s4 = 0, s5 = 0, s6 = 0, s7 = 0;
    for (size_t i = 0; i + 8 <= share / 8; i += 8) { /* vectorised by the compiler or not: one line an iteration */
        __builtin_prefetch(q + i + 512);
        s0 += q[i]; s1 += q[i + 1]; s2 += q[i + 2]; s3 += q[i + 3];
        s4 += q[i + 4]; s5 += q[i + 5]; s6 += q[i + 6]; s7 += q[i + 7];
    }
    p->sums[me->index & 63] = s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Pieces of a large buffer in turn, so that each is as cold as a weight; the best tenth counts. */
static double measure_read(void) {
    enum { PIECE = 1 << 20, ROUNDS = 5 };
    const size_t n = COLD_BYTES / PIECE;
    static double seconds[ROUNDS * (COLD_BYTES / PIECE)];
    uint8_t *data = och_malloc_aligned(COLD_BYTES, 4096);
    if (!data) abort();
    memset(data, 1, COLD_BYTES);
    size_t used = 0;
    for (size_t i = 0; i < n * ROUNDS; i++) {
        probe p = {.data = data + i % n * PIECE, .n_bytes = PIECE};
        double t = now();
        och_pool_run(och_cpu_pool(device), read_member, &p);
        seconds[used++] = now() - t;
    }
    och_free_aligned(data);
    qsort(seconds, used, sizeof *seconds, by_value);
    return (double)PIECE / seconds[used / 10];
}

/* ---- rows ---- */

typedef struct row {
    char name[64];
    och_op_call calls[MAX_COPIES];
    int n_calls;
    double bytes, flops;
} row;

static void print_header(void) {
    printf("%-44s %10s %10s %10s %8s %8s\n", "row", "us", "GB/s", "GFLOP/s", "floor us", "x floor");
}

static void time_row(row *r) {
    if (!strstr(r->name, filter)) return;
    const och_op_provider *p = provider_of(&r->calls[0]);
    och_err err;
    och_err_clear(&err);
    uint64_t scratch_bytes = p->scratch_bytes ? p->scratch_bytes(device, &r->calls[0]) : 0;
    void *scratch = och_malloc_aligned(scratch_bytes + 64, 64);
    if (!scratch) abort();
    och_op_ctx ctx = {.queue = queue, .scratch = scratch, .scratch_bytes = scratch_bytes};
    double best = 1e9, until = och_now_seconds() + seconds_per_row;
    int n = 0;
    while (och_now_seconds() < until || n < 2 * r->n_calls) {
        double t = now();
        ok(p->run(&ctx, &r->calls[n % r->n_calls], &err), &err);
        t = now() - t;
        if (n >= r->n_calls && t < best) best = t;
        n++;
    }
    double floor_s = r->bytes / read_rate;
    if (flop_rate > 0 && r->flops / flop_rate > floor_s) floor_s = r->flops / flop_rate;
    printf("%-44s %10.1f %10.2f %10.1f %8.1f %8.2f  %s\n", r->name, best * 1e6, r->bytes / best * 1e-9,
           r->flops / best * 1e-9, floor_s * 1e6, best / floor_s, p->name);
    fflush(stdout);
    och_free_aligned(scratch);
}

static const och_op_provider *linear_provider(och_dtype dtype, int64_t m, int64_t k, uint64_t *out_bytes, och_layout *out_layout) {
    for (int i = och_op_provider_count() - 1; i >= 0; i--) {
        const och_op_provider *p = och_op_provider_at(i);
        if (p->op != OCH_OP_LINEAR || !p->weight_layout) continue;
        *out_layout = p->weight_layout(device, dtype, m, k, out_bytes);
        if (*out_layout != OCH_LAYOUT_NATIVE) return p;
    }
    return NULL;
}

static och_tensor weight(och_dtype dtype, int64_t m, int64_t k) {
    och_tensor t = tensor(dtype, m, k);
    och_err err;
    och_err_clear(&err);
    float *x = och_malloc_array((size_t)k, sizeof *x);
    if (!x) abort();
    for (int64_t i = 0; i < k; i++) x[i] = random_float();
    ok(och_format_encode_row(dtype, x, t.host, (uint64_t)k, &err), &err);
    for (int64_t i = 1; i < m; i++) memcpy((char *)t.host + (uint64_t)i * t.row_bytes, t.host, t.row_bytes);
    och_free(x);
    uint64_t bytes;
    och_layout layout;
    const och_op_provider *p = linear_provider(dtype, m, k, &bytes, &layout);
    if (!p) return t;
    och_buf b;
    ok(och_buf_alloc(device, bytes, OCH_MEM_DEVICE, &b, &err), &err);
    p->weight_pack(dtype, m, k, t.host, b.host, 0, m);
    drop(&t);
    t.layout = layout;
    t.host = b.host;
    t.addr = b.addr;
    t.row_bytes = 0;
    return t;
}

static void linear_row(const char *label, int64_t n, int64_t k, int n_weights, const och_dtype *dtypes, const int64_t *m,
                       och_act glu, bool norm, bool residual) {
    static row r;
    memset(&r, 0, sizeof r);
    snprintf(r.name, sizeof r.name, "linear %s n=%lld", label, (long long)n);
    if (!strstr(r.name, filter)) return;
    och_op_call c = {.op = OCH_OP_LINEAR};
    for (int i = 0; i < OCH_OP_MAX_IN; i++) c.in[i].dtype = OCH_DTYPE_NONE;
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) c.out[i].dtype = OCH_DTYPE_NONE;
    c.attr.linear = (och_attr_linear){n_weights, glu, {1e-5f, false}};
    c.in[OCH_LINEAR_X] = tensor(OCH_DTYPE_F32, n, k);
    if (norm) c.in[OCH_LINEAR_NORM] = tensor(OCH_DTYPE_F32, 1, k);
    if (residual) c.in[OCH_LINEAR_RESIDUAL] = tensor(OCH_DTYPE_F32, n, m[0]);
    for (int i = 0; i < (glu ? 1 : n_weights); i++) c.out[i] = tensor(OCH_DTYPE_F32, n, m[i]);
    for (int i = 0; i < n_weights; i++) {
        uint64_t bytes;
        if (!och_dtype_bytes(dtypes[i], (uint64_t)m[i], (uint64_t)k, &bytes)) abort();
        r.bytes += (double)bytes;
        r.flops += 2.0 * (double)(n * m[i] * k);
    }
    int copies = (int)(cold_bytes / r.bytes) + 1;
    r.n_calls = copies > MAX_COPIES ? MAX_COPIES : copies;
    if (n >= 64) r.n_calls = r.n_calls > 4 ? 4 : r.n_calls;
    for (int j = 0; j < r.n_calls; j++) {
        r.calls[j] = c;
        for (int i = 0; i < n_weights; i++) r.calls[j].in[OCH_LINEAR_W0 + i] = weight(dtypes[i], m[i], k);
    }
    time_row(&r);
    for (int j = 0; j < r.n_calls; j++)
        for (int i = 0; i < n_weights; i++) {
            och_buf b = {.device = device, .addr = r.calls[j].in[OCH_LINEAR_W0 + i].addr, .host = r.calls[j].in[OCH_LINEAR_W0 + i].host};
            och_layout layout;
            (void)linear_provider(dtypes[i], m[i], k, &b.size_bytes, &layout);
            och_buf_free(&b);
        }
    drop(&c.in[OCH_LINEAR_X]);
    if (norm) drop(&c.in[OCH_LINEAR_NORM]);
    if (residual) drop(&c.in[OCH_LINEAR_RESIDUAL]);
    for (int i = 0; i < (glu ? 1 : n_weights); i++) drop(&c.out[i]);
}

/* n tokens at the end of `context` positions, one sequence. */
static void attention_rows(const char *label, int64_t n, int context, int heads, int kv_heads, int head_dim) {
    enum { BT = 64 };
    int blocks = (context + BT - 1) / BT;
    static row r;
    memset(&r, 0, sizeof r);
    och_attr_kv kv = {kv_heads, head_dim, BT};
    och_op_call c = {.op = OCH_OP_ATTENTION};
    for (int i = 0; i < OCH_OP_MAX_IN; i++) c.in[i].dtype = OCH_DTYPE_NONE;
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) c.out[i].dtype = OCH_DTYPE_NONE;
    och_tensor q = tensor(OCH_DTYPE_F32, n, (int64_t)heads * head_dim), y = tensor(OCH_DTYPE_F32, n, (int64_t)heads * head_dim);
    och_tensor kc = tensor(OCH_DTYPE_F16, blocks, (int64_t)kv_heads * BT * head_dim);
    och_tensor vc = tensor(OCH_DTYPE_F16, blocks, (int64_t)kv_heads * BT * head_dim);
    och_tensor k = tensor(OCH_DTYPE_F32, n, (int64_t)kv_heads * head_dim), v = tensor(OCH_DTYPE_F32, n, (int64_t)kv_heads * head_dim);
    och_tensor table = tensor(OCH_DTYPE_F32, n, head_dim), tables = tensor(OCH_DTYPE_I32, 1, blocks);
    och_tensor seqs = tensor(OCH_DTYPE_I32, n, 1), positions = tensor(OCH_DTYPE_I32, n, 1), slots = tensor(OCH_DTYPE_I32, n, 1);
    for (int i = 0; i < blocks; i++) ((int32_t *)tables.host)[i] = i;
    for (int64_t i = 0; i < n; i++)
        ((int32_t *)positions.host)[i] = ((int32_t *)slots.host)[i] = (int32_t)(context - n + i);
    c.attr.attention = (och_attr_attention){kv, heads, 0.125f, 0.0f, 0};
    c.in[OCH_ATTENTION_Q] = q;
    c.in[OCH_ATTENTION_K] = kc;
    c.in[OCH_ATTENTION_V] = vc;
    c.in[OCH_ATTENTION_TABLES] = tables;
    c.in[OCH_ATTENTION_SEQS] = seqs;
    c.in[OCH_ATTENTION_POSITIONS] = positions;
    c.out[0] = y;
    r.n_calls = 1;
    r.calls[0] = c;
    snprintf(r.name, sizeof r.name, "attention %s n=%lld ctx=%d", label, (long long)n, context);
    double pairs = 0;
    for (int64_t i = 0; i < n; i++) pairs += (double)(context - n + i + 1);
    r.flops = 4.0 * pairs * heads * head_dim;
    r.bytes = 4.0 * context * kv_heads * head_dim;
    time_row(&r);

    och_op_call p = {.op = OCH_OP_QKV_POST};
    for (int i = 0; i < OCH_OP_MAX_IN; i++) p.in[i].dtype = OCH_DTYPE_NONE;
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) p.out[i].dtype = OCH_DTYPE_NONE;
    p.attr.qkv_post = (och_attr_qkv_post){kv, {heads, head_dim, head_dim, OCH_ROPE_HALF}, {1e-5f, false}};
    p.in[OCH_QKV_POST_Q] = q;
    p.in[OCH_QKV_POST_K] = k;
    p.in[OCH_QKV_POST_V] = v;
    p.in[OCH_QKV_POST_TABLE] = table;
    p.in[OCH_QKV_POST_SLOTS] = slots;
    p.out[0] = y;
    p.out[1] = kc;
    p.out[2] = vc;
    r.calls[0] = p;
    r.flops = 0;
    r.bytes = (double)n * head_dim * (4.0 * (2 * heads + 2 * kv_heads) + 4.0 * kv_heads);
    snprintf(r.name, sizeof r.name, "qkv_post %s n=%lld", label, (long long)n);
    time_row(&r);
    och_tensor *all[] = {&q, &y, &kc, &vc, &k, &v, &table, &tables, &seqs, &positions, &slots};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) drop(all[i]);
}

static void models(int64_t n) {
    const och_dtype q4_1[] = {OCH_DTYPE_Q4_1, OCH_DTYPE_Q4_1, OCH_DTYPE_Q4_1}, q8[] = {OCH_DTYPE_Q8_0};
    const och_dtype q5[] = {OCH_DTYPE_Q5_0, OCH_DTYPE_Q5_0, OCH_DTYPE_Q8_0}, q4k[] = {OCH_DTYPE_Q4_K}, q6k[] = {OCH_DTYPE_Q6_K};
    linear_row("smollm2 qkv Q4_1", n, 576, 3, q4_1, (int64_t[]){576, 192, 192}, OCH_ACT_NONE, true, false);
    linear_row("smollm2 o Q4_1", n, 576, 1, q4_1, (int64_t[]){576}, OCH_ACT_NONE, false, true);
    linear_row("smollm2 gate,up Q4_1", n, 576, 2, q4_1, (int64_t[]){1536, 1536}, OCH_ACT_SILU, true, false);
    linear_row("smollm2 down Q4_1", n, 1536, 1, q4_1, (int64_t[]){576}, OCH_ACT_NONE, false, true);
    if (n <= 8) linear_row("smollm2 head Q8_0", n, 576, 1, q8, (int64_t[]){49152}, OCH_ACT_NONE, true, false);
    if (n == 1) linear_row("gemma head Q8_0", n, 640, 1, q8, (int64_t[]){262144}, OCH_ACT_NONE, true, false);
    linear_row("gemma qkv Q5_0,Q8_0", n, 640, 3, q5, (int64_t[]){1024, 256, 256}, OCH_ACT_NONE, true, false);
    linear_row("gemma o Q4_K", n, 1024, 1, q4k, (int64_t[]){640}, OCH_ACT_NONE, false, false);
    linear_row("gemma gate,up Q5_0", n, 640, 2, q5, (int64_t[]){2048, 2048}, OCH_ACT_GELU_TANH, true, false);
    linear_row("gemma down Q6_K", n, 2048, 1, q6k, (int64_t[]){640}, OCH_ACT_NONE, false, false);
    linear_row("gemma down Q4_K", n, 2048, 1, q4k, (int64_t[]){640}, OCH_ACT_NONE, false, false);
}

int main(int argc, char **argv) {
    int threads = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "-t")) threads = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "-s")) seconds_per_row = atof(argv[i + 1]);
        else if (!strcmp(argv[i], "-f")) filter = argv[i + 1];
        else if (!strcmp(argv[i], "-c")) cold_bytes = 1e6 * atof(argv[i + 1]);
        else if (!strcmp(argv[i], "-r")) flop_rate = 1e9 * atof(argv[i + 1]);
        else {
            fprintf(stderr, "usage: %s [-t threads] [-s seconds a row] [-f part of a row's name] [-c MB of weights that a row "
                            "walks through] [-r peak GFLOP/s]\n", argv[0]);
            return 2;
        }
    }
    och_err err;
    och_err_clear(&err);
    och_dev_options options = {.n_threads = threads};
    ok(och_device_open("cpu", &options, &device, &err), &err);
    ok(device->vtable->queue_create(device, &queue, &err), &err);
    read_rate = measure_read();
    printf("%d threads, %s, read %.1f GB/s\n", och_pool_size(och_cpu_pool(device)), och_cpu_isa_name(och_cpu_device_isa(device)),
           read_rate * 1e-9);
    print_header();
    static const int64_t rows[] = {1, 4, 16, 32, 512};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) models(rows[i]);
    /* every other format, one shape */
    for (size_t i = 0; och_format_at(i); i++) {
        och_dtype t = och_format_at(i)->dtype;
        char label[48];
        snprintf(label, sizeof label, "2048x2048 %s", och_dtype_name(t));
        linear_row(label, 1, 2048, 1, &t, (int64_t[]){2048}, OCH_ACT_NONE, false, false);
        linear_row(label, 128, 2048, 1, &t, (int64_t[]){2048}, OCH_ACT_NONE, false, false);
    }
    attention_rows("smollm2", 1, 128, 9, 3, 64);
    attention_rows("smollm2", 1, 1024, 9, 3, 64);
    attention_rows("smollm2", 512, 512, 9, 3, 64);
    attention_rows("gemma", 1, 128, 4, 1, 256);
    attention_rows("gemma", 1, 1024, 4, 1, 256);
    attention_rows("gemma", 512, 512, 4, 1, 256);
    device->vtable->queue_destroy(queue);
    och_device_release(device);
    return 0;
}
