/* Products by a library (op/blas) on simulated boards, with a hipBLASLt in host memory (fake_blas.c): which library serves, what is
 * recorded and what is not, which rows go where, slabs, and the store of measured times. That results are right in every shape and
 * format, conform/blas tests. A library is opened once a process: each test runs in one of its own. */
#include "unit/in_child.h"

#include <dlfcn.h>
#include <math.h>

#include "base/alloc.h"
#include "base/size.h"
#include "file/write.h"
#include "op/blas/blas.h"
#include "op/blas/time.h"
#include "op/registry.h"
#include "quant/format.h"

#define FAKE(name) OCHRE_BUILD_DIR "/tests/libfake_hipblaslt_" name ".so"

static int counter(const char *name) {
    void *library = dlopen(FAKE("plain"), RTLD_NOW | RTLD_NOLOAD);
    int *at = library ? dlsym(library, name) : NULL;
    CHECK(at);
    return *at;
}
static int products(void) { return counter("fake_blas_products"); }

/* ---- calls ---- */

static och_device *device;
static och_queue *queue;

static void open_board(const char *name) {
    OK(och_device_open(name, NULL, &device, &err));
    OK(device->vtable->queue_create(device, &queue, &err));
}
static void close_board(void) {
    device->vtable->queue_destroy(queue);
    och_device_release(device);
}

typedef struct product {
    och_op_call call;
    och_buf bufs[8];
    int n_bufs;
    och_buf scratch;
    const och_op_provider *provider;
    float *expected; /* owned: by loops over the decoded weights */
} product;

static uint64_t seed = 1;
static float random_float(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(seed >> 32) * 0x1p-31f;
}

static och_tensor tensor(product *p, och_dtype t, int64_t rows, int64_t cols, const void *bytes, uint64_t n_bytes) {
    och_buf *b = &p->bufs[p->n_bufs++];
    OK(och_buf_alloc(device, n_bytes, OCH_MEM_DEVICE, b, &err));
    OK(device->vtable->copy_to_device(queue, b->addr, bytes, n_bytes, &err));
    OK(device->vtable->synchronise(queue, &err));
    och_tensor x = {.dtype = t, .rows = rows, .cols = cols, .addr = b->addr, .host = b->host};
    CHECK(och_dtype_row_bytes(t, (uint64_t)cols, &x.row_bytes));
    return x;
}
static och_tensor floats(product *p, int64_t rows, int64_t cols, float **out_values) {
    uint64_t n = (uint64_t)(rows * cols);
    float *v = och_malloc_array(n, sizeof *v);
    for (uint64_t i = 0; i < n; i++) v[i] = random_float();
    och_tensor x = tensor(p, OCH_DTYPE_F32, rows, cols, v, n * 4);
    *out_values = v;
    return x;
}

/* n rows, with a bias and a residual in y's place, or with a gate. */
static void make(product *p, och_dtype t, int64_t n, int64_t m, int64_t k, och_act glu, const char *provider) {
    memset(p, 0, sizeof *p);
    och_op_call *c = &p->call;
    c->op = OCH_OP_LINEAR;
    for (int i = 0; i < OCH_OP_MAX_IN; i++) c->in[i].dtype = OCH_DTYPE_NONE;
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) c->out[i].dtype = OCH_DTYPE_NONE;
    int n_weights = glu != OCH_ACT_NONE ? 2 : 1;
    float *x, *bias = NULL, *y, *w = och_malloc_array((size_t)k, sizeof *w);
    double *sums = och_malloc_array((size_t)(2 * n * m), sizeof *sums);
    uint64_t row, packed;
    CHECK(och_dtype_row_bytes(t, (uint64_t)k, &row));
    c->attr.linear.n_weights = n_weights;
    c->attr.linear.glu = glu;
    c->in[OCH_LINEAR_X] = floats(p, n, k, &x);
    c->out[0] = floats(p, n, m, &y);
    if (glu == OCH_ACT_NONE) {
        c->in[OCH_LINEAR_RESIDUAL] = c->out[0];
        c->in[OCH_LINEAR_B0] = floats(p, 1, m, &bias);
    }
    char *native = och_malloc_array((size_t)m, row);
    for (int i = 0; i < n_weights; i++) {
        for (int64_t r = 0; r < m; r++) {
            for (int64_t j = 0; j < k; j++) w[j] = 0.2f * random_float();
            OK(och_format_encode_row(t, w, native + (uint64_t)r * row, (uint64_t)k, &err));
            och_format_decode_row(t, native + (uint64_t)r * row, w, (uint64_t)k);
            for (int64_t b = 0; b < n; b++) {
                double s = 0.0;
                for (int64_t j = 0; j < k; j++) s += (double)w[j] * x[b * k + j];
                sums[(i * n + b) * m + r] = s;
            }
        }
        och_tensor native_w = {.dtype = t, .rows = m, .cols = k, .row_bytes = row};
        c->in[OCH_LINEAR_W0 + i] = native_w;
        const och_op_provider *packer;
        och_op_call shape = *c;
        if (n_weights == 2) shape.in[OCH_LINEAR_W0 + 1] = native_w;
        OK(och_op_select_packer(device, &shape, provider, &packer, &err));
        och_layout layout = packer->weight_layout(device, t, m, k, &packed);
        char *image = och_malloc_array(packed, 1);
        packer->weight_pack(t, m, k, native, image, 0, m);
        c->in[OCH_LINEAR_W0 + i] = tensor(p, t, m, k, image, packed);
        c->in[OCH_LINEAR_W0 + i].layout = layout;
        c->in[OCH_LINEAR_W0 + i].row_bytes = 0;
        och_free(image);
    }
    p->expected = och_malloc_array((size_t)(n * m), sizeof *p->expected);
    for (int64_t i = 0; i < n * m; i++) {
        double g = sums[i], u = sums[n * m + (glu == OCH_ACT_NONE ? 0 : i) - (glu == OCH_ACT_NONE ? n * m : 0)];
        p->expected[i] = (float)(glu == OCH_ACT_NONE ? g + bias[i % m] + y[i] : g / (1.0 + exp(-g)) * u);
    }
    OK(och_op_select(device, c, provider, &p->provider, &err));
    uint64_t scratch = p->provider->scratch_bytes(device, c);
    OK(och_buf_alloc(device, scratch, OCH_MEM_DEVICE, &p->scratch, &err));
    och_free(x), och_free(bias), och_free(y), och_free(w), och_free(sums), och_free(native);
}

static void drop(product *p) {
    for (int i = 0; i < p->n_bufs; i++) och_buf_free(&p->bufs[i]);
    och_buf_free(&p->scratch);
    och_free(p->expected);
}

static och_status run_with(product *p, bool invariant) {
    const och_op_ctx ctx = {.queue = queue, .scratch = p->scratch.host, .scratch_addr = p->scratch.addr,
                            .scratch_bytes = p->scratch.size_bytes, .batch_invariant = invariant};
    och_err_clear(&err);
    return p->provider->run(&ctx, &p->call, &err);
}
static void run(product *p) { OK(run_with(p, false)); }

static float *result(const product *p) {
    const och_tensor *y = &p->call.out[0];
    uint64_t n = (uint64_t)(y->rows * y->cols) * 4;
    float *v = och_malloc_array(n, 1);
    OK(device->vtable->copy_to_host(queue, v, y->addr, n, &err));
    OK(device->vtable->synchronise(queue, &err));
    return v;
}
/* Against the loops: the bound is that of conform's cases. */
static void check(const product *p) {
    float *v = result(p);
    double error = 0.0, square = 0.0;
    for (int64_t i = 0; i < p->call.out[0].rows * p->call.out[0].cols; i++) {
        error += pow((double)v[i] - (double)p->expected[i], 2.0);
        square += pow((double)p->expected[i], 2.0);
    }
    if (!(error <= 5e-4 * square)) fprintf(stderr, "normalised mean square error %g\n", error / square), _exit(1);
    och_free(v);
}

static bool takes(och_dtype t, int64_t n, int64_t m, int64_t k) {
    product p;
    make(&p, t, n, m, k, OCH_ACT_NONE, NULL);
    CHECK(!strcmp(p.provider->name, "blas"));
    int before = products();
    run(&p);
    check(&p);
    drop(&p);
    return products() > before;
}

/* ---- which library serves ---- */

static void declined(const char *library, const char *part) {
    product p;
    if (library) CHECK(och_env_set("OCHRE_HIPBLASLT", library));
    open_board("sim:gfx1151");
    och_blas *b;
    FAILS(OCH_UNSUPPORTED, och_blas_of(device, &b, &err));
    says(part);
    make(&p, OCH_DTYPE_BF16, 64, 32, 64, OCH_ACT_NONE, NULL); /* nothing changes */
    CHECK(!strcmp(p.provider->name, "kernel"));
    run(&p);
    check(&p);
    CHECK(och_env_set("OCHRE_BLAS", "1")); /* it is asked for: its absence is told */
    const och_op_provider *none;
    FAILS(OCH_UNAVAILABLE, och_op_select(device, &p.call, NULL, &none, &err));
    says("OCHRE_BLAS=1");
    says(part);
    CHECK(och_env_set("OCHRE_BLAS", "perhaps"));
    FAILS(OCH_INVALID, och_op_select(device, &p.call, NULL, &none, &err));
    says("perhaps");
    drop(&p);
    close_board();
}

TEST(none_is_named) { declined(NULL, "OCHRE_HIPBLASLT"); }
TEST(no_such_file) { declined("/no/such/libhipblaslt.so", "no such file"); }
TEST(a_call_is_missing) { declined(FAKE("no_matmul"), "it lacks hipblasLtMatmul"); }
TEST(too_old) { declined(FAKE("version"), "hipBLASLt 0.5.0"); }
TEST(no_library_at_all) { declined("/dev/null", "cannot be opened"); }

TEST(switched_off) {
    product p;
    CHECK(och_env_set("OCHRE_HIPBLASLT", FAKE("plain")));
    CHECK(och_env_set("OCHRE_BLAS", "0"));
    open_board("sim:gfx1151");
    make(&p, OCH_DTYPE_BF16, 64, 32, 64, OCH_ACT_NONE, NULL);
    CHECK(!strcmp(p.provider->name, "kernel"));
    drop(&p);
    close_board();
}

TEST(all_is_given_back) {
    int64_t live = 0; /* after the first time, which leaves what the process keeps */
    CHECK(och_env_set("OCHRE_HIPBLASLT", FAKE("plain")));
    for (int time = 0; time < 2; time++) {
        open_board("sim:gfx1151");
        CHECK(takes(OCH_DTYPE_BF16, 64, 32, 64));
        CHECK(counter("fake_blas_handles") == 1 && counter("fake_blas_objects") > 0);
        close_board();
        CHECK(counter("fake_blas_handles") == 0 && counter("fake_blas_objects") == 0);
        if (time) CHECK(och_alloc_live() == live);
        live = och_alloc_live();
    }
}

/* More shapes than are kept: the oldest go. */
TEST(many_shapes) {
    product p;
    CHECK(och_env_set("OCHRE_HIPBLASLT", FAKE("plain")));
    CHECK(och_env_set("OCHRE_BLAS", "1"));
    open_board("sim:gfx1151");
    make(&p, OCH_DTYPE_BF16, 320, 16, 32, OCH_ACT_NONE, NULL);
    for (int64_t n = 320; n >= 40; n--) {
        p.call.in[OCH_LINEAR_X].rows = p.call.in[OCH_LINEAR_RESIDUAL].rows = p.call.out[0].rows = n;
        run(&p);
    }
    CHECK(counter("fake_blas_objects") <= 5 * 256);
    CHECK(products() == 281);
    drop(&p);
    close_board();
}

TEST(no_algorithm) {
    product p;
    CHECK(och_env_set("OCHRE_HIPBLASLT", FAKE("refuses")));
    CHECK(och_env_set("OCHRE_BLAS", "1"));
    open_board("sim:gfx1151");
    make(&p, OCH_DTYPE_Q4_0, 70, 32, 64, OCH_ACT_NONE, NULL);
    CHECK(!strcmp(p.provider->name, "blas"));
    run(&p);
    check(&p); /* by the kernels */
    drop(&p);
    close_board();
}

/* ---- which rows ---- */

TEST(rows_by_rule) {
    CHECK(och_env_set("OCHRE_HIPBLASLT", FAKE("plain")));
    open_board("sim:gfx942");
    CHECK(takes(OCH_DTYPE_BF16, 64, 32, 64) && !takes(OCH_DTYPE_BF16, 63, 32, 64));
    CHECK(takes(OCH_DTYPE_F16, 64, 32, 64) && !takes(OCH_DTYPE_F16, 63, 32, 64));
    CHECK(takes(OCH_DTYPE_Q8_0, 256, 32, 64) && !takes(OCH_DTYPE_Q8_0, 255, 32, 64));
    CHECK(och_env_set("OCHRE_BLAS", "1"));
    CHECK(takes(OCH_DTYPE_Q8_0, 9, 32, 64) && !takes(OCH_DTYPE_Q8_0, 8, 32, 64));
    CHECK(!takes(OCH_DTYPE_F32, 64, 32, 64)); /* it would round them */
    product p;
    make(&p, OCH_DTYPE_BF16, 64, 32, 64, OCH_ACT_NONE, NULL);
    int before = products();
    OK(run_with(&p, true)); /* batch-invariant: one variant for every batch */
    check(&p);
    CHECK(products() == before);
    drop(&p);
    close_board();
}

/* A slab at a time: as many products as there are slabs, the last a smaller one, and the same bytes. */
static void slabs_of(och_dtype t, och_act glu) {
    product whole, cut;
    uint64_t kept = seed;
    make(&whole, t, 20, 300, 64, glu, NULL);
    seed = kept;
    make(&cut, t, 20, 300, 64, glu, NULL);
    int before = products();
    run(&whole);
    check(&whole);
    CHECK(products() == before + 1 + (glu != OCH_ACT_NONE));
    och_blas_set_slab_bytes(1);
    run(&cut);
    och_blas_set_slab_bytes(0);
    check(&cut);
    bool direct = t == OCH_DTYPE_BF16 && glu == OCH_ACT_NONE;
    CHECK(products() - before == (direct ? 2 : glu != OCH_ACT_NONE ? 2 + 6 : 1 + 3));
    float *a = result(&whole), *b = result(&cut);
    CHECK(!memcmp(a, b, 20 * 300 * 4));
    och_free(a), och_free(b);
    drop(&whole);
    drop(&cut);
}
TEST(slabs) {
    CHECK(och_env_set("OCHRE_HIPBLASLT", FAKE("plain")));
    CHECK(och_env_set("OCHRE_BLAS", "1"));
    open_board("sim:gfx1151");
    slabs_of(OCH_DTYPE_Q4_0, OCH_ACT_NONE);
    slabs_of(OCH_DTYPE_Q4_0, OCH_ACT_SILU);
    slabs_of(OCH_DTYPE_F16, OCH_ACT_NONE);
    slabs_of(OCH_DTYPE_BF16, OCH_ACT_SILU);
    slabs_of(OCH_DTYPE_BF16, OCH_ACT_NONE);
    close_board();
}

/* Shapes whose bytes do not fit 64 bits, and large ones that do. */
TEST(scratch_is_counted) {
    CHECK(och_env_set("OCHRE_HIPBLASLT", FAKE("plain")));
    open_board("sim:gfx1151");
    product p;
    make(&p, OCH_DTYPE_Q4_0, 64, 32, 64, OCH_ACT_NONE, NULL);
    och_op_call c = p.call;
    c.in[OCH_LINEAR_X].rows = c.out[0].rows = INT64_C(1) << 60;
    c.in[OCH_LINEAR_X].cols = c.in[OCH_LINEAR_W0].cols = 1 << 20;
    CHECK(och_blas_linear_scratch(device, &c) == UINT64_MAX);
    c.in[OCH_LINEAR_X].rows = c.out[0].rows = 8192;
    c.in[OCH_LINEAR_X].cols = c.in[OCH_LINEAR_W0].cols = 16384;
    c.in[OCH_LINEAR_W0].rows = c.out[0].cols = 262144;
    uint64_t n = och_blas_linear_scratch(device, &c);
    /* two slabs, the workspace, activations in both types */
    CHECK(n > (UINT64_C(160) << 20) && n < (UINT64_C(160) << 20) + UINT64_C(8192) * 16384 * 5);
    drop(&p);
    close_board();
}

/* ---- graphs ---- */

static och_graph *record(product *p) {
    och_graph *g = NULL;
    OK(device->vtable->capture_begin(queue, &err));
    run(p);
    OK(device->vtable->capture_end(queue, &g, &err));
    return g;
}

static void graphs_on(const char *board) {
    product p;
    CHECK(och_env_set("OCHRE_HIPBLASLT", FAKE("plain")));
    CHECK(och_env_set("OCHRE_BLAS", "1"));
    open_board(board);
    const och_device_vtable *v = device->vtable;
    och_graph *g;
    och_blas *b;
    /* a library is not started while a graph is recorded, and that is not remembered */
    OK(v->capture_begin(queue, &err));
    FAILS(OCH_UNSUPPORTED, och_blas_of(device, &b, &err));
    OK(v->capture_end(queue, &g, &err));
    OK(v->graph_destroy(g, &err));
    OK(och_blas_of(device, &b, &err));
    /* descriptors alone are no first run: such a product is not recorded either, and the capture goes on */
    product one;
    make(&one, OCH_DTYPE_BF16, 16, 32, 64, OCH_ACT_NONE, NULL);
    och_blas_product direct = {.bf16 = true, .n = 16, .m = 32, .k = 64, .ld_x = 64, .ld_w = 64, .ld_y = 32, .x = one.scratch.addr,
                               .w = one.call.in[OCH_LINEAR_W0].addr, .y = one.call.out[0].addr};
    och_dev_addr workspace = och_dev_addr_add(one.scratch.addr, 4096);
    CHECK(one.scratch.size_bytes >= 4096 + 4096);
    OK(och_blas_ready(queue, b, &direct, &err));
    OK(v->capture_begin(queue, &err));
    FAILS(OCH_UNSUPPORTED, och_blas_ready(queue, b, &direct, &err));
    FAILS(OCH_UNSUPPORTED, och_blas_multiply(queue, b, &direct, workspace, &err));
    OK(v->capture_end(queue, &g, &err));
    OK(v->graph_destroy(g, &err));
    CHECK(products() == 0 && counter("fake_blas_refused") == 0);
    drop(&one);
    /* a product's first run would allocate: what is recorded is the kernels' way, once they have been loaded */
    make(&p, OCH_DTYPE_Q8_0, 40, 48, 64, OCH_ACT_SILU, NULL);
    CHECK(och_env_set("OCHRE_BLAS", "0"));
    run(&p);
    CHECK(och_env_set("OCHRE_BLAS", "1"));
    g = record(&p);
    CHECK(products() == 0 && counter("fake_blas_refused") == 0);
    OK(v->graph_replay(queue, g, &err));
    check(&p);
    OK(v->graph_destroy(g, &err));
    /* once it ran it is recorded */
    run(&p);
    check(&p);
    float *eager = result(&p);
    int before = products();
    CHECK(before == 2);
    g = record(&p);
    CHECK(products() == before + 2 && counter("fake_blas_refused") == 0);
    OK(v->fill(queue, p.call.out[0].addr, 0, 40 * 48 * 4, &err));
    OK(v->graph_replay(queue, g, &err));
    float *replayed = result(&p);
    CHECK(!memcmp(eager, replayed, 40 * 48 * 4));
    OK(v->graph_destroy(g, &err));
    och_free(eager), och_free(replayed);
    drop(&p);
    close_board();
}
TEST(graphs_unified) { graphs_on("sim:gfx1151"); }
TEST(graphs_discrete) { graphs_on("sim:gfx942"); }

/* ---- the store ---- */

static void drop_cache(void) {
    bool removed;
    OK(och_blas_store_clear(&removed, &err));
    remove_cache();
}

static const och_blas_key key = {"a \"board\"", "gfx1151", "HIP 7.0", "hipBLASLt 1.0.0", "0.1.0"};

TEST(times_are_kept) {
    own_cache();
    och_blas_time t[] = {{OCH_DTYPE_Q4_K, 4096, 2048, 16, 10.5, 21.25}, {OCH_DTYPE_Q4_K, 4096, 2048, 512, 100, 50}};
    och_blas_times put = {t, 2, 2}, got;
    och_blas_key other = key;
    size_t stale;
    bool removed;
    OK(och_blas_store_find(&key, &got, &stale, &err));
    CHECK(!got.n && !stale);
    OK(och_blas_store_put(&key, &put, &err));
    OK(och_blas_store_find(&key, &got, &stale, &err));
    CHECK(got.n == 2 && !stale && got.at[0].m == 4096 && got.at[0].kernel_us == 10.5 && got.at[0].library_us == 21.25);
    /* the nearest by ratio: 16 up to 90, then 512 */
    CHECK(och_blas_times_near(&got, OCH_DTYPE_Q4_K, 4096, 2048, 9)->rows == 16);
    CHECK(och_blas_times_near(&got, OCH_DTYPE_Q4_K, 4096, 2048, 90)->rows == 16);
    CHECK(och_blas_times_near(&got, OCH_DTYPE_Q4_K, 4096, 2048, 91)->rows == 512);
    CHECK(och_blas_times_near(&got, OCH_DTYPE_Q4_K, 4096, 2048, 99999)->rows == 512);
    CHECK(!och_blas_times_near(&got, OCH_DTYPE_Q4_0, 4096, 2048, 16) && !och_blas_times_near(&got, OCH_DTYPE_Q4_K, 2048, 4096, 16));
    och_blas_times_deinit(&got);
    /* the same shape again takes its place, another joins */
    t[1].rows = 2048, t[0].kernel_us = 7;
    OK(och_blas_store_put(&key, &put, &err));
    OK(och_blas_store_find(&key, &got, &stale, &err));
    CHECK(got.n == 3 && och_blas_times_near(&got, OCH_DTYPE_Q4_K, 4096, 2048, 16)->kernel_us == 7);
    och_blas_times_deinit(&got);
    /* another device stays beside it; another release of the library, once measured, takes its place */
    snprintf(other.device, sizeof other.device, "another");
    OK(och_blas_store_put(&other, &put, &err));
    other = key;
    snprintf(other.library, sizeof other.library, "hipBLASLt 1.1.0");
    OK(och_blas_store_find(&other, &got, &stale, &err));
    CHECK(!got.n && stale == 3);
    OK(och_blas_store_put(&other, &put, &err));
    och_blas_records all;
    OK(och_blas_store_read(&all, &err));
    CHECK(all.n == 4);
    och_blas_records_deinit(&all);
    OK(och_blas_store_clear(&removed, &err));
    CHECK(removed);
    OK(och_blas_store_clear(&removed, &err));
    CHECK(!removed);
    drop_cache();
}

TEST(a_corrupt_store) {
    static const char *const texts[] = {
        "", "{", "{\"format\": 2, \"products\": []}", "{\"format\": 1}", "{\"format\": 1, \"products\": [{}]}",
        "{\"format\": 1, \"products\": [{\"device\": \"d\", \"arch\": \"a\", \"driver\": \"d\", \"library\": \"l\", \"ochre\": \"o\", "
        "\"dtype\": \"Q9\", \"m\": 1, \"k\": 1, \"rows\": 1, \"kernel_us\": 1, \"library_us\": 1}]}",
        "{\"format\": 1, \"products\": [{\"device\": \"d\", \"arch\": \"a\", \"driver\": \"d\", \"library\": \"l\", \"ochre\": \"o\", "
        "\"dtype\": \"F16\", \"m\": 1, \"k\": 1, \"rows\": 1, \"kernel_us\": -1, \"library_us\": 1}]}",
    };
    own_cache();
    char path[512];
    och_blas_time t = {OCH_DTYPE_F16, 1, 1, 16, 1, 2};
    och_blas_times put = {&t, 1, 1}, got;
    size_t stale;
    snprintf(path, sizeof path, "%s/blas.json", cache);
    for (size_t i = 0; i < OCH_COUNT(texts); i++) {
        OK(och_write_file(path, texts[i], strlen(texts[i]), &err));
        FAILS(OCH_CORRUPT, och_blas_store_find(&key, &got, &stale, &err));
        says("blas.json");
    }
    CHECK(och_env_set("OCHRE_HIPBLASLT", FAKE("plain"))); /* products go on by the rule */
    open_board("sim:gfx1151");
    CHECK(takes(OCH_DTYPE_BF16, 64, 32, 64));
    close_board();
    OK(och_blas_store_put(&key, &put, &err)); /* written anew */
    OK(och_blas_store_find(&key, &got, &stale, &err));
    CHECK(got.n == 1);
    och_blas_times_deinit(&got);
    drop_cache();
}

TEST(times_decide) {
    och_blas *b;
    och_blas_key mine;
    own_cache();
    CHECK(och_env_set("OCHRE_HIPBLASLT", FAKE("plain")));
    open_board("sim:gfx1151");
    OK(och_blas_of(device, &b, &err));
    CHECK(!strcmp(och_blas_label(b), "hipBLASLt 1.0.0"));
    och_blas_key_of(device, b, &mine);
    och_blas_time t[] = {{OCH_DTYPE_BF16, 32, 64, 16, 10, 5}, {OCH_DTYPE_BF16, 32, 64, 128, 10, 20}};
    OK(och_blas_store_put(&mine, &(och_blas_times){t, 2, 2}, &err));
    CHECK(takes(OCH_DTYPE_BF16, 16, 32, 64));
    CHECK(!takes(OCH_DTYPE_BF16, 128, 32, 64));
    CHECK(takes(OCH_DTYPE_BF16, 64, 48, 64)); /* not measured: the rule */
    CHECK(!takes(OCH_DTYPE_BF16, 16, 48, 64));
    /* of another release: not used */
    snprintf(mine.library, sizeof mine.library, "hipBLASLt 0.9.0");
    OK(och_blas_store_put(&mine, &(och_blas_times){t, 2, 2}, &err));
    och_blas_forget_times(b);
    CHECK(!takes(OCH_DTYPE_BF16, 16, 32, 64) && takes(OCH_DTYPE_BF16, 128, 32, 64));
    close_board();
    drop_cache();
}

/* The way of ochre tune: both run, the weight from more than one place where the device has a cache, nothing is stored. */
TEST(products_are_timed) {
    och_blas_time t;
    och_blas_records all;
    och_blas *b;
    own_cache();
    CHECK(och_env_set("OCHRE_HIPBLASLT", FAKE("plain")));
    open_board("sim:gfx1151");
    OK(och_blas_of(device, &b, &err));
    uint64_t bytes, count, bytes_before, count_before;
    och_buf_live(&bytes_before, &count_before);
    OK(och_blas_measure(queue, OCH_DTYPE_Q4_0, 64, 96, 16, &t, &err));
    CHECK(t.dtype == OCH_DTYPE_Q4_0 && t.m == 64 && t.k == 96 && t.rows == 16 && t.kernel_us > 0 && t.library_us > 0);
    CHECK(products() >= 9);
    int before = products();
    FAILS(OCH_UNSUPPORTED, och_blas_measure(queue, OCH_DTYPE_Q4_0, 64, 96, 8, &t, &err)); /* no library's */
    FAILS(OCH_INVALID, och_blas_measure(queue, OCH_DTYPE_Q4_K, 64, 96, 16, &t, &err));    /* no whole blocks */
    CHECK(products() == before);
    och_buf_live(&bytes, &count);
    CHECK(bytes == bytes_before && count == count_before);
    OK(och_blas_store_read(&all, &err));
    CHECK(!all.n);
    close_board();
    drop_cache();
}

int main(void) {
    setenv("OCHRE_SIM_LIBRARY", OCHRE_BUILD_DIR "/sim/libamdhip64.so", 0);
    setenv("OCHRE_CACHE_DIR", OCHRE_BUILD_DIR "/kernel-cache", 0);
    (void)och_env_set("OCHRE_HIPBLASLT", NULL);
    (void)och_env_set("OCHRE_BLAS", NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_is_named),     cmocka_unit_test(no_such_file),    cmocka_unit_test(a_call_is_missing),
        cmocka_unit_test(too_old),           cmocka_unit_test(no_library_at_all), cmocka_unit_test(switched_off),
        cmocka_unit_test(all_is_given_back), cmocka_unit_test(many_shapes),     cmocka_unit_test(no_algorithm),
        cmocka_unit_test(rows_by_rule),      cmocka_unit_test(slabs),           cmocka_unit_test(scratch_is_counted),
        cmocka_unit_test(graphs_unified),    cmocka_unit_test(graphs_discrete), cmocka_unit_test(times_are_kept),
        cmocka_unit_test(a_corrupt_store),   cmocka_unit_test(times_decide),
        cmocka_unit_test(products_are_timed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
