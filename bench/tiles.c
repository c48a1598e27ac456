/* Times the kernels of matmul.ok as their parameters cut them, on a real device. Usage: tiles DEVICE N M K REPEATS SPEC..., a SPEC such as
 * F=BF16,W=bf16,BM=128,BN=256,STAGES=4,WAVES=8 for matmul, matmul_glu:F=BF16,ACT=1,... for another of them, matmul_part2:F=... for k in two
 * parts and what adds them; M is 4096, or 4096+1024+1024 of matmul_qkv. Results are not looked at (ochre bench op linear checks them). Repeats go round
 * through copies of the weight of AROUND bytes in all, more than a cache holds, and are one graph, as a step of the engine is, each
 * beginning early where it may.
 *   cc -std=c17 -D_GNU_SOURCE -O2 -Isrc -Iinclude bench/tiles.c build/release/libochre_internal.a -lelf -lmsgpackc -lxxhash -lzstd
 *      -lz -lm -ldl -lpthread -o tiles */
#include "base/size.h"
#include "base/thread.h"
#include "dev/dev.h"
#include "op/gpu/gpu.h"
#include "quant/format.h"
#include "quant/planes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(och_status st, const och_err *err, const char *what) {
    if (st == OCH_OK) return;
    fprintf(stderr, "tiles: %s: %s\n", what, err->message);
    exit(1);
}

/* Small numbers of both signs, as f16 and as bf16, none of them NaN: what is multiplied decides what a device's clock allows. */
static void fill(och_device *d, och_queue *q, och_dev_addr addr, uint64_t n_bytes, och_err *err) {
    enum { PART = 1 << 20 };
    static unsigned char part[PART];
    unsigned long long state = 1;
    for (int i = 0; i < PART; i += 2) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        part[i] = (unsigned char)(state >> 40);
        part[i + 1] = (unsigned char)(0x2c | (state >> 56 & 0x83));
    }
    for (uint64_t at = 0; at < n_bytes; at += PART)
        must(d->vtable->copy_to_device(q, och_dev_addr_add(addr, at), part, OCH_MIN(n_bytes - at, PART), err), err, "copy");
}

enum { AROUND = 256 << 20 };

static const och_format *format_of(const char *spec) {
    const char *f = strstr(spec, "F=");
    const och_format *x;
    for (size_t i = 0; f && (x = och_format_at(i)); i++)
        if (strlen(x->name) == strcspn(f + 2, ",") && !strncmp(x->name, f + 2, strlen(x->name))) return x;
    return NULL;
}

/* Products of a launch: what they are called, and where their results go; all of them read the same activations. */
typedef struct way {
    const char *kernel;
    int n_weights, n_results;
    const char *weight[3], *bias[3], *result[3];
} way;
static const way ways[] = {
    {"matmul", 1, 1, {"w"}, {"bias"}, {"y"}},
    {"matmul_glu", 2, 1, {"w0", "w1"}, {"bias0", "bias1"}, {"y"}},
    {"matmul_qkv", 3, 3, {"wq", "wk", "wv"}, {"bq", "bk", "bv"}, {"yq", "yk", "yv"}},
    {"matmul_part", 1, 0, {"w"}, {NULL}, {NULL}},
};
enum { MOST_PARTS = 8 };

/* "matmul_glu:SPEC": the kernel's way, and its specialisation; NULL: there is none of that name. parts: of k. */
static const way *way_of(const char *arg, const char **out_spec, int *out_parts) {
    size_t n = strcspn(arg, ":");
    *out_spec = arg[n] ? arg + n + 1 : arg;
    *out_parts = 1;
    if (arg[n] && n && arg[n - 1] >= '2' && arg[n - 1] <= '0' + MOST_PARTS) {
        *out_parts = arg[n - 1] - '0';
        return strncmp(arg, "matmul_part", n - 1) ? NULL : &ways[3];
    }
    for (size_t i = 0; i < OCH_COUNT(ways); i++)
        if (!arg[n] ? !i : strlen(ways[i].kernel) == n && !strncmp(ways[i].kernel, arg, n)) return &ways[i];
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 7) {
        fprintf(stderr, "usage: tiles DEVICE N M K REPEATS SPEC...\n");
        return 2;
    }
    och_err err = {0};
    och_device *d;
    och_queue *q;
    int64_t n = atoll(argv[2]), m[3] = {0}, k = atoll(argv[4]), most = 0;
    const char *given = argv[3];
    for (int i = 0; i < 3; i++) { /* one number is that of all */
        m[i] = atoll(given);
        if (strchr(given, '+')) given = strchr(given, '+') + 1;
        most = OCH_MAX(most, m[i]);
    }
    int repeats = atoi(argv[5]);
    must(och_device_open(argv[1], &(och_dev_options){0}, &d, &err), &err, argv[1]);
    must(d->vtable->queue_create(d, &q, &err), &err, "a queue");
    uint64_t a_row = (uint64_t)(k + 31) / 32 * 64;
    och_buf a, scale, y[3], part = {0}, w = {0};
    must(och_buf_alloc(d, (uint64_t)n * a_row, OCH_MEM_DEVICE, &a, &err), &err, "a");
    must(och_buf_alloc(d, (uint64_t)n * 4, OCH_MEM_DEVICE, &scale, &err), &err, "scale");
    for (int i = 0; i < 3; i++) must(och_buf_alloc(d, (uint64_t)n * (uint64_t)most * 4, OCH_MEM_DEVICE, &y[i], &err), &err, "y");
    fill(d, q, a.addr, (uint64_t)n * a_row, &err);
    fill(d, q, scale.addr, (uint64_t)n * 4, &err);
    for (int i = 6; i < argc; i++) {
        const char *spec;
        int parts;
        const way *x = way_of(argv[i], &spec, &parts);
        const och_format *format = format_of(spec);
        uint64_t row, bytes, rows = 0;
        for (int j = 0; x && j < x->n_weights; j++) rows += (uint64_t)m[j];
        if (!x || !format || !och_planes_row_bytes(format->dtype, (uint64_t)k, &row) || !och_u64_mul(row, rows, &bytes)) {
            fprintf(stderr, "tiles: %s: expected F=a format, of matmul, matmul_glu: or matmul_qkv:\n", argv[i]);
            return 2;
        }
        uint64_t each = (bytes + 255) / 256 * 256, copies = OCH_MIN(och_u64_ceil_div(AROUND, each), (uint64_t)repeats);
        if (w.size_bytes < copies * each) {
            och_buf_free(&w);
            must(och_buf_alloc(d, copies * each, OCH_MEM_DEVICE, &w, &err), &err, "w");
            fill(d, q, w.addr, copies * each, &err);
        }
        const och_gpu_kernel *code, *sum = NULL;
        uint64_t part_bytes = (uint64_t)parts * (uint64_t)n * (uint64_t)m[0] * 4;
        if (parts > 1) {
            must(och_gpu_kernel_get(d, "matmul_sum", &sum, &err, "PARTS=%d", parts), &err, "matmul_sum");
            och_buf_free(&part);
            must(och_buf_alloc(d, part_bytes, OCH_MEM_DEVICE, &part, &err), &err, "parts");
        }
        if (och_gpu_kernel_get(d, x->kernel, &code, &err, "%s", spec) != OCH_OK) {
            printf("%s: %s\n", argv[i], err.message);
            continue;
        }
        och_op_ctx ctx = {.queue = q};
        och_graph *graph;
        must(d->vtable->synchronise(q, &err), &err, "waiting");
        must(d->vtable->capture_begin(q, &err), &err, "a graph");
        for (int r = 0; r < repeats; r++) {
            och_dev_addr at = och_dev_addr_add(w.addr, (uint64_t)r % copies * each);
            och_kl_actual args[12] = {och_gpu_matrix("a", a.addr, n, k, a_row)}, by = och_gpu_matrix("scale", scale.addr, n, 1, 4);
            int n_args = 1;
            if (!sum) args[n_args++] = by;
            for (int j = 0; j < x->n_weights; j++) {
                och_tensor wt = {.dtype = format->dtype, .layout = OCH_LAYOUT_PLANES, .rows = m[j], .cols = k, .row_bytes = row, .addr = at};
                args[n_args++] = och_gpu_weight(x->weight[j], &wt);
                if (!sum) args[n_args++] = (och_kl_actual){.name = x->bias[j]};
                at = och_dev_addr_add(at, (uint64_t)m[j] * row);
            }
            for (int j = 0; j < x->n_results; j++)
                args[n_args++] = och_gpu_matrix(x->result[j], y[j].addr, n, m[j], (uint64_t)m[j] * 4);
            if (x == &ways[0]) args[n_args++] = (och_kl_actual){.name = "residual"};
            och_kl_actual in_parts = {.name = "parts", .addr = part.addr.value, .dims = {parts, n, m[0]}};
            if (sum) args[n_args++] = in_parts;
            must(och_gpu_launch(&ctx, code, args, n_args, &err), &err, argv[i]);
            och_kl_actual of_sum[] = {in_parts, by, {.name = "bias"}, och_gpu_matrix("y", y[0].addr, n, m[0], 0), och_gpu_matrix("residual", y[0].addr, n, m[0], 0)};
            if (sum) must(och_gpu_launch(&ctx, sum, of_sum, OCH_COUNT(of_sum), &err), &err, argv[i]);
        }
        must(d->vtable->capture_end(q, &graph, &err), &err, "a graph");
        double best = 0;
        for (int round = 0; round < 4; round++) {
            must(d->vtable->synchronise(q, &err), &err, "waiting");
            double t = och_now_seconds();
            must(d->vtable->graph_replay(q, graph, &err), &err, argv[i]);
            must(d->vtable->synchronise(q, &err), &err, "waiting");
            t = (och_now_seconds() - t) / repeats;
            if (round && (!best || t < best)) best = t; /* the first warms up */
        }
        must(d->vtable->graph_destroy(graph, &err), &err, "a graph");
        printf("%-60s %lld x %lld x %lld: %9.1f us, %7.1f TFLOP/s, %6.0f GB/s of weights\n", argv[i], (long long)n, (long long)rows, (long long)k, best * 1e6,
               2.0 * (double)n * (double)rows * (double)k / best * 1e-12, (double)bytes / best * 1e-9);
        fflush(stdout);
    }
    och_buf_free(&w);
    och_buf_free(&part);
    for (int i = 0; i < 3; i++) och_buf_free(&y[i]);
    och_buf_free(&scale);
    och_buf_free(&a);
    d->vtable->queue_destroy(q);
    och_device_release(d);
    return 0;
}
