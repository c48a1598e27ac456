/* Kernels of one's own over pointers and on a stream of one's own runtime. usage: c_kernels DEVICE... ("sim:gfx1100") */
#include <dlfcn.h>
#include <ochre/kernels.h>
#include <stdio.h>
#include <string.h>

static const char hip_text[] =
    "extern \"C\" __global__ void axpy(float *y, const float *x, float a, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) y[i] += a * x[i];\n"
    "}\n"
    "extern \"C\" __global__ void turn(int *p, int n) {\n"
    "  __shared__ int s[64];\n"
    "  s[threadIdx.x] = p[blockIdx.x * 64 + threadIdx.x];\n"
    "  __syncthreads();\n"
    "  p[blockIdx.x * 64 + threadIdx.x] = s[n - 1 - threadIdx.x];\n"
    "}\n";

static const char ok_text[] =
    "kernel scale(x: in buf<T>[n, d], y: out buf<T>[n, d] over x, a: f32)\n"
    "  param T: elem = f32, WAVES: int = 4\n"
    "  launch grid(n) waves(WAVES)\n"
    "{\n"
    "  let r = group.id.x;\n"
    "  for i in group.lanes(d) { y[r, i] = T(a * f32(x[r, i])); }\n"
    "}\n";

/* The runtime that the device is a device of, as a program of it has it. */
typedef struct runtime {
    void *library;
    int (*set_device)(int);
    int (*stream_create)(void **);
    int (*stream_synchronize)(void *);
    int (*stream_destroy)(void *);
    int (*alloc)(void **, size_t);
    int (*release)(void *);
    int (*copy)(void *, const void *, size_t, int, void *);
} runtime;

static int look(const runtime *r, const char *name, void *out) {
    void *f = dlsym(r->library, name);
    memcpy(out, &f, sizeof f);
    if (!f) fprintf(stderr, "%s: missing\n", name);
    return f != NULL;
}

static int open_runtime(const ochre_device_info *info, runtime *r) {
    /* It is there already: another one would have other streams. */
    r->library = dlopen(info->runtime_library, RTLD_NOW | RTLD_NOLOAD);
    if (!r->library) return fprintf(stderr, "%s: not open\n", info->runtime_library), 0;
    return look(r, "hipSetDevice", &r->set_device) && look(r, "hipStreamCreate", &r->stream_create) &&
           look(r, "hipStreamSynchronize", &r->stream_synchronize) && look(r, "hipStreamDestroy", &r->stream_destroy) &&
           look(r, "hipMalloc", &r->alloc) && look(r, "hipFree", &r->release) && look(r, "hipMemcpyAsync", &r->copy) &&
           r->set_device(info->runtime_device) == 0;
}

enum { N = 1000, ROWS = 10, ROW = N / ROWS, TO_DEVICE = 1, TO_HOST = 2 };

static int wrong(const char *what, const ochre_error *e) {
    fprintf(stderr, "%s: %s: %s\n", what, ochre_status_name(e->status), e->message);
    return 0;
}

static int compile(ochre_device *d, ochre_language language, const char *text, const char *kernel, ochre_program **p,
                   ochre_kernel **k) {
    ochre_error e = {0};
    ochre_program_options o = OCHRE_PROGRAM_OPTIONS_INIT;
    o.language = language;
    o.file_name = language == OCHRE_LANGUAGE_OK ? "scale.ok" : "axpy.hip";
    if (ochre_program_compile(d, text, strlen(text), &o, p, &e) != OCHRE_OK) return wrong(ochre_program_log(NULL), &e);
    if (ochre_program_kernel(*p, kernel, k, &e) != OCHRE_OK) return wrong(kernel, &e);
    return 1;
}

/* y = 3 * (y + 2 * x), both steps in place, then groups of 64 turned round, on a stream and over memory of the program's. */
static int on_a_stream(ochre_device *d, runtime *r, ochre_kernel *axpy, ochre_kernel *scale, ochre_kernel *turn) {
    ochre_error e = {0};
    void *stream, *x, *y;
    static float hx[N], hy[N], got[N];
    (void)d;
    if (r->stream_create(&stream) || r->alloc(&x, sizeof hx) || r->alloc(&y, sizeof hy)) return 0;
    for (int i = 0; i < N; i++) hx[i] = (float)i, hy[i] = (float)(7 * i % 31);
    if (r->copy(x, hx, sizeof hx, TO_DEVICE, stream) || r->copy(y, hy, sizeof hy, TO_DEVICE, stream)) return 0;
    float a = 2;
    int n = N, turned = 64;
    const void *args[] = {&y, &x, &a, &n}, *turn_args[] = {&y, &turned};
    const unsigned grid[3] = {(N + 63) / 64, 1, 1}, group[3] = {64, 1, 1}, whole[3] = {N / 64, 1, 1};
    if (ochre_kernel_launch_raw(axpy, stream, grid, group, 0, args, 4, &e) != OCHRE_OK) return wrong("axpy", &e);
    ochre_argument named[3];
    memset(named, 0, sizeof named);
    named[0].name = "x", named[0].address = (uint64_t)(size_t)y, named[0].dims[0] = ROWS, named[0].dims[1] = ROW;
    named[1] = named[0];
    named[1].name = "y"; /* in place */
    named[2].name = "a", named[2].real = 3;
    if (ochre_kernel_launch(scale, stream, named, 3, &e) != OCHRE_OK) return wrong("scale", &e);
    if (ochre_kernel_launch_raw(turn, stream, whole, group, 0, turn_args, 2, &e) != OCHRE_OK) return wrong("turn", &e);
    if (r->copy(got, y, sizeof got, TO_HOST, stream) || r->stream_synchronize(stream)) return 0;
    for (int i = 0; i < N; i++) {
        int from = i < N / 64 * 64 ? i / 64 * 64 + 63 - i % 64 : i;
        float want = 3 * (hy[from] + 2 * hx[from]);
        if (got[i] != want) return fprintf(stderr, "element %d: expected %g, found %g\n", i, want, got[i]), 0;
    }
    /* The stream is still its owner's, and can be given more. */
    return !r->copy(got, x, sizeof got, TO_HOST, stream) && !r->stream_synchronize(stream) && got[N - 1] == N - 1 &&
           !r->stream_destroy(stream) && !r->release(x) && !r->release(y);
}

static int try_device(const char *name) {
    ochre_error e = {0};
    ochre_device *d;
    ochre_device_info info = {sizeof info, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    ochre_program *hip = NULL, *ok = NULL;
    ochre_kernel *axpy, *scale, *turn;
    ochre_argument_info argument;
    const uint32_t outputs[] = {0};
    runtime r;
    if (ochre_device_open(name, &d, &e) != OCHRE_OK) return wrong(name, &e);
    if (ochre_device_describe(d, &info, &e) != OCHRE_OK) return wrong(name, &e);
    int good = open_runtime(&info, &r) && compile(d, OCHRE_LANGUAGE_HIP, hip_text, "axpy", &hip, &axpy) &&
               compile(d, OCHRE_LANGUAGE_OK, ok_text, "scale", &ok, &scale);
    if (good && ochre_program_kernel(hip, "turn", &turn, &e) != OCHRE_OK) good = wrong("turn", &e);
    /* What a binding asks: which buffers a launch changes. */
    if (good && ochre_kernel_declare_outputs(axpy, outputs, 1, &e) != OCHRE_OK) good = wrong("outputs", &e);
    good = good && ochre_kernel_argument(axpy, 0, &argument, &e) == OCHRE_OK && argument.is_output && argument.in_place &&
           ochre_kernel_argument(axpy, 1, &argument, &e) == OCHRE_OK && !argument.is_output && argument.is_buffer &&
           ochre_kernel_argument(scale, 1, &argument, &e) == OCHRE_OK && argument.is_output && argument.in_place &&
           !strcmp(argument.name, "y") && argument.rank == 2;
    good = good && on_a_stream(d, &r, axpy, scale, turn);
    if (good) printf("%s: %s, runtime %s: axpy, scale and turn are right\n", name, info.target, info.runtime_library);
    ochre_program_destroy(ok);
    ochre_device_close(d); /* the program keeps it */
    ochre_program_destroy(hip);
    if (r.library) dlclose(r.library);
    return good;
}

int main(int argc, char **argv) {
    int good = argc > 1;
    for (int i = 1; i < argc; i++) good = try_device(argv[i]) && good;
    return !good;
}
