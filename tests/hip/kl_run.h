/* Runs a kernel of tests/kl on the simulator: parsed, specialised, emitted, compiled by the simulator's hipRTC, launched with
 * arguments laid out from the signature by this file alone. With a device in KL_BOARD (cuda:0) it runs there instead, compiled and
 * loaded as the program does it (hip/kl_device.h). */
#ifndef TESTS_HIP_KL_RUN_H
#define TESTS_HIP_KL_RUN_H

#include "support.h"

#include "base/env.h"
#include "base/half.h"
#include "base/strbuf.h"
#include "dev/dev.h"
#include "kl/kl.h"

typedef struct board {
    const char *arch;
    int wave;
} board;
static const board boards[] = {{"gfx1151", 32}, {"gfx1151", 64}, {"gfx942", 64}, {"gfx1201", 32},
                               {"gfx1100", 32}, {"gfx90a", 64},  {"gfx906", 64}, {"gfx1030", 32}};
/* Every board compiles and runs every kernel, which takes minutes: without KL_BOARD these stand for all, one of each kind (waves
 * of 32 and of 64 of one target, FNUZ and OCP fp8, MFMA and both WMMAs). KL_BOARD=all runs all, KL_BOARD=gfx906 the one;
 * KL_TEST=conversions one test. */
#define N_USUAL 4
static const board *on; /* the board of this process */

/* A buffer argument (host != NULL) or a scalar. */
typedef struct actual {
    const char *name;
    void *host;
    int64_t dims[3];
    size_t row_bytes; /* distance of rows; 0: dense */
    int64_t integer;
    double real;
    bool absent;
    void *device;
    size_t bytes;
    och_buf buf; /* on a device of the seam */
} actual;

#include "kl_device.h"

static inline int64_t rule_value(const och_kl_rule *r, const int64_t *sizes, const actual *const *scalars) {
    int64_t st[OCH_KL_MAX_STEPS + 1];
    int n = 0;
    for (int i = 0; i < r->n_steps; i++) {
        int64_t v = r->steps[i].value, b = 0, a = 0;
        och_kl_step_op op = r->steps[i].op;
        if (op > OCH_KL_R_SCALAR && op != OCH_KL_R_NOT) b = st[--n];
        if (op > OCH_KL_R_SCALAR) a = st[--n];
        switch (op) {
        case OCH_KL_R_CONST: st[n++] = v; break;
        case OCH_KL_R_SIZE: st[n++] = sizes[v]; break;
        case OCH_KL_R_SCALAR: st[n++] = scalars[v]->integer; break;
        case OCH_KL_R_ADD: st[n++] = a + b; break;
        case OCH_KL_R_SUB: st[n++] = a - b; break;
        case OCH_KL_R_MUL: st[n++] = a * b; break;
        case OCH_KL_R_DIV: st[n++] = a / b; break;
        case OCH_KL_R_MOD: st[n++] = a % b; break;
        case OCH_KL_R_CEIL_DIV: st[n++] = (a + b - 1) / b; break;
        case OCH_KL_R_MIN: st[n++] = a < b ? a : b; break;
        case OCH_KL_R_MAX: st[n++] = a > b ? a : b; break;
        case OCH_KL_R_EQ: st[n++] = a == b; break;
        case OCH_KL_R_NE: st[n++] = a != b; break;
        case OCH_KL_R_LT: st[n++] = a < b; break;
        case OCH_KL_R_LE: st[n++] = a <= b; break;
        case OCH_KL_R_AND: st[n++] = a && b; break;
        case OCH_KL_R_OR: st[n++] = a || b; break;
        case OCH_KL_R_NOT: st[n++] = !a; break;
        }
    }
    CHECK(n == 1);
    return st[0];
}

static inline och_kl_unit *parse_file(const char *file) {
    char path[1024];
    const char *data = och_env_get(OCH_ENV_OCHRE_TEST_DATA);
    snprintf(path, sizeof path, "%s/kl/%s", data ? data : OCHRE_TEST_DIR, file);
    FILE *f = fopen(path, "rb");
    if (!f) fprintf(stderr, "%s: cannot open\n", path), _exit(2);
    static char text[1 << 18];
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    fclose(f);
    och_kl_unit *u;
    och_strbuf diag = {0};
    och_err err = {0};
    if (och_kl_parse(file, text, n, NULL, &u, &diag, &err) != OCH_OK) fprintf(stderr, "%s", och_strbuf_str(&diag)), _exit(2);
    och_strbuf_deinit(&diag);
    return u;
}

static inline void kl_sim_load(kl_code *k, const och_kl_signature *s, const och_strbuf *text) {
    GIVES(HIPRTC_SUCCESS, H(hiprtcCreateProgram)(&k->prog, och_strbuf_str(text), "kernel.hip", 0, NULL, NULL));
    char arch[64];
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", on->arch);
    const char *options[] = {arch, "-O3", "-ffp-contract=off", on->wave == 64 && on->arch[3] == '1' ? "-mwavefrontsize64" : "-O3"};
    size_t n;
    if (H(hiprtcCompileProgram)(k->prog, 4, options)) {
        GIVES(HIPRTC_SUCCESS, H(hiprtcGetProgramLogSize)(k->prog, &n));
        char *log = calloc(1, n + 1);
        if (!H(hiprtcGetProgramLog)(k->prog, log)) fprintf(stderr, "%s%s", getenv("KL_TEXT") ? och_strbuf_str(text) : "", log);
        _exit(2);
    }
    GIVES(HIPRTC_SUCCESS, H(hiprtcGetCodeSize)(k->prog, &n));
    k->code = malloc(n);
    GIVES(HIPRTC_SUCCESS, H(hiprtcGetCode)(k->prog, k->code));
    OK(H(hipModuleLoadData)(&k->m, k->code));
    OK(H(hipModuleGetFunction)(&k->f, k->m, s->entry));
}

static inline void kl_sim_unload(kl_code *k) {
    OK(H(hipModuleUnload)(k->m));
    GIVES(HIPRTC_SUCCESS, H(hiprtcDestroyProgram)(&k->prog));
    free(k->code);
}

/* bindings: "T=f16,WAVES=2". args end with a NULL name. */
static inline void run(const char *file, const char *kernel, const char *bindings, actual *args) {
    och_kl_unit *u = parse_file(file);
    och_strbuf diag = {0}, text = {0};
    och_err err = {0};
    och_kl_profile p;
    if (och_kl_profile_init(&p, on->arch, on->wave, &err) != OCH_OK) fprintf(stderr, "%s\n", err.message), _exit(2);
    char words[512];
    snprintf(words, sizeof words, "%s", bindings);
    och_kl_binding b[16];
    int nb = 0;
    for (char *w = strtok(words, ","); w; w = strtok(NULL, ",")) {
        char *eq = strchr(w, '=');
        *eq = 0;
        b[nb++] = (och_kl_binding){w, eq + 1};
    }
    och_kl_code *c;
    if (och_kl_specialise(u, kernel, b, nb, &p, &c, &diag, &err) != OCH_OK) fprintf(stderr, "%s%s (%s, %s)\n", och_strbuf_str(&diag), err.message, on->arch, bindings), _exit(2);
    const och_kl_signature *s = och_kl_code_signature(c);
    if (och_kl_emit(c, &text, &err) != OCH_OK) fprintf(stderr, "%s\n", err.message), _exit(2);

    kl_code made = {0};
    if (kl_device) kl_device_load(&made, s, &text);
    else kl_sim_load(&made, s, &text);

    /* Sizes, then the arguments where the signature says. */
    int64_t sizes[OCH_KL_MAX_SIZES];
    memset(sizes, -1, sizeof sizes);
    actual *by_arg[OCH_KL_MAX_ARGS];
    unsigned char packed[OCH_KL_MAX_ARG_BYTES] = {0};
    CHECK(s->args_bytes <= sizeof packed);
    for (int i = 0; i < s->n_args; i++) {
        const och_kl_arg *a = &s->args[i];
        actual *v = args;
        while (v->name && strcmp(v->name, a->name)) v++;
        if (!v->name) fprintf(stderr, "%s: no argument %s\n", kernel, a->name), _exit(2);
        by_arg[i] = v;
        if (a->kind == OCH_KL_A_SCALAR) {
            float f32 = (float)v->real;
            uint16_t f16 = och_f32_to_f16(f32);
            if (!strcmp(a->type, "f32")) memcpy(packed + a->offset, &f32, 4);
            else if (!strcmp(a->type, "f16")) memcpy(packed + a->offset, &f16, 2);
            else memcpy(packed + a->offset, &v->integer, a->bytes);
            continue;
        }
        size_t rows = 1, row = v->row_bytes;
        for (int d = 0; d < a->rank; d++) {
            if (a->dims[d].steps[0].op != OCH_KL_R_SIZE) {
                CHECK(a->dims[d].steps[0].value == v->dims[d]);
            } else if (sizes[a->dims[d].steps[0].value] < 0) sizes[a->dims[d].steps[0].value] = v->dims[d];
            else CHECK(sizes[a->dims[d].steps[0].value] == v->dims[d]);
            if (d + 1 < a->rank) rows *= (size_t)v->dims[d];
        }
        uint32_t unit = a->kind == OCH_KL_A_BUFFER ? a->elem_bytes : 1;
        if (!row) row = (size_t)v->dims[a->rank - 1] * unit;
        v->bytes = rows * row;
        for (int d = 0; d + 1 < a->rank; d++) {
            int64_t stride = (int64_t)(row / unit);
            for (int k = d + 1; k + 1 < a->rank; k++) stride *= v->dims[k];
            memcpy(packed + a->stride_offset[d], &stride, 8);
        }
        if (v->absent) continue;
        if (kl_device) kl_device_take(v, a->in);
        else {
            OK(H(hipMalloc)(&v->device, v->bytes));
            if (a->in) OK(H(hipMemcpy)(v->device, v->host, v->bytes, hipMemcpyHostToDevice));
        }
        CHECK((uintptr_t)v->device % a->align_bytes == 0);
        memcpy(packed + a->offset, &v->device, 8);
    }
    for (int i = 0; i < s->n_sizes; i++) memcpy(packed + s->size_offset[i], &sizes[i], 8);
    for (int i = 0; i < s->n_rules; i++)
        if (!rule_value(&s->rules[i], sizes, (const actual *const *)by_arg)) fprintf(stderr, "%s: not met: %s\n", kernel, s->rules[i].text), _exit(2);
    unsigned grid[3];
    for (int i = 0; i < 3; i++) grid[i] = (unsigned)rule_value(&s->grid[i], sizes, (const actual *const *)by_arg);
    if (kl_device) kl_device_launch(&made, s, grid, packed);
    else {
        size_t bytes = s->args_bytes;
        void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes, HIP_LAUNCH_PARAM_END};
        OK(H(hipModuleLaunchKernel)(made.f, grid[0], grid[1], grid[2], (unsigned)s->threads, 1, 1, s->lds_launch_bytes, NULL, NULL, extra));
        OK(H(hipDeviceSynchronize)());
    }
    for (int i = 0; i < s->n_args; i++) {
        actual *v = by_arg[i];
        if (!v->device) continue;
        if (kl_device) kl_device_give(v, s->args[i].out);
        else {
            if (s->args[i].out) OK(H(hipMemcpy)(v->host, v->device, v->bytes, hipMemcpyDeviceToHost));
            OK(H(hipFree)(v->device));
        }
        v->device = NULL;
    }
    if (kl_device) kl_device->vtable->module_unload(made.module);
    else kl_sim_unload(&made);
    och_kl_code_destroy(c);
    och_kl_unit_destroy(u);
    och_strbuf_deinit(&diag);
    och_strbuf_deinit(&text);
}

static inline bool no_clang(void) { return system("command -v clang-22 clang-21 clang-20 clang-19 clang > /dev/null") != 0; }

/* A test whose body runs once on each board, with the simulator's checks. */
#define ON_ALL(name) ON_ALL_CHECKED(name, "all")
#define ON_ALL_CHECKED(name, checks)                                                                                                           \
    static void name##_body(void);                                                                                             \
    static void name(void **state) {                                                                                           \
        (void)state;                                                                                                           \
        const char *only = getenv("KL_BOARD");                                                                                 \
        if (only && strchr(only, ':')) {                                                                                       \
            if (kl_on_device(only, name##_body)) fail_msg(#name " on %s", only);                                               \
            return;                                                                                                            \
        }                                                                                                                      \
        if (no_clang()) skip();                                                                                                \
        for (size_t i_ = 0; i_ < sizeof boards / sizeof *boards; i_++) {                                                       \
            on = &boards[i_];                                                                                                  \
            if (only ? strcmp(only, "all") && strcmp(only, on->arch) : i_ >= N_USUAL) continue;                                \
            char env_[96];                                                                                                     \
            snprintf(env_, sizeof env_, "OCHRE_SIM_BOARD=%s OCHRE_SIM_CHECK=%s", on->arch, checks);                            \
            if (in_process(env_, NULL, name##_body, NULL, 0)) fail_msg(#name " on %s, waves of %d", on->arch, on->wave);     \
        }                                                                                                                      \
    }                                                                                                                          \
    static void name##_body(void)

/* Numbers without a pattern, the same in every run. */
static inline uint32_t noise(uint32_t i) {
    i = (i ^ 61) ^ (i >> 16);
    i *= 9;
    i ^= i >> 4;
    i *= 0x27d4eb2du;
    return i ^ i >> 15;
}

#define SAME(what, i, got, want)                                                                                               \
    do {                                                                                                                       \
        if ((got) != (want)) fprintf(stderr, "%s[%d] on %s, waves of %d: expected %lld, got %lld\n", what, (int)(i), on->arch, on->wave, (long long)(want), (long long)(got)), _exit(2); \
    } while (0)
#define CLOSE(what, i, got, want, tolerance)                                                                                   \
    do {                                                                                                                       \
        double g_ = (got), w_ = (want);                                                                                        \
        if (!(fabs(g_ - w_) <= (tolerance) * (1e-30 + fabs(w_))) && !(isnan(g_) && isnan(w_)) && !(g_ == w_))                  \
            fprintf(stderr, "%s[%d] on %s, waves of %d: expected %.9g, got %.9g\n", what, (int)(i), on->arch, on->wave, w_, g_), _exit(2); \
    } while (0)

#endif
