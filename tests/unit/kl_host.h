/* CUDA texts on threads of the host (cuda_host.hh): a folder for what is made of them, the text without its PTX, the program, its runs. */
#ifndef OCH_TEST_KL_HOST_H
#define OCH_TEST_KL_HOST_H

#include "unit/kl_support.h"

#include "base/half.h"
#include "kl/builtin.h"

static char folder[] = "/tmp/ochre-group-XXXXXX";

static inline int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}
static inline int remove_folder(void **state) {
    (void)state;
    static const char *const files[] = {"in", "out", "exe"};
    char path[64];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        (void)unlink(path);
    }
    return rmdir(folder);
}

static inline void path_of(const char *name, char path[64]) { snprintf(path, 64, "%s/%s", folder, name); }

static inline bool begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

/* The declaration that begins at p ends here: behind the line that closes its braces, or its continued lines. */
static inline const char *end_of(const char *p) {
    int depth = 0;
    bool seen_brace = false;
    for (;;) {
        const char *line = p;
        while (*p && *p != '\n') {
            depth += (*p == '{') - (*p == '}');
            seen_brace |= *p == '{';
            p++;
        }
        bool continued = p > line && p[-1] == '\\';
        if (*p) p++;
        if (!*p || (!continued && depth <= 0 && (seen_brace || (p - line >= 2 && (p[-2] == ';' || p[-2] == ')')) || *line == '#' || *line == '/' || p - line < 2))) return p;
    }
}

/* Arrays of LDS that have a declaration of their own lie one behind another in the host's. */
static inline void put_kernel(const char *p, och_strbuf *out) {
    static const char word[] = "    alignas(16) __shared__ ";
    unsigned at = 0;
    for (const char *end; *p; p = end) {
        char type[16], name[64];
        unsigned n;
        end = p + strcspn(p, "\n");
        if (*end) end++;
        if (begins(p, word) && sscanf(p + sizeof word - 1, "%15s %63[^[][%u]", type, name, &n) == 3) {
            och_strbuf_printf(out, "    const lds_array<%s> %s = {(%s *)(och_lds + %u)};\n", type, name, type, at);
            unsigned size = strstr(type, "32") ? 4 : strstr(type, "16") ? 2 : strstr(type, "64") ? 8 : 1;
            at += (n * size + 15) / 16 * 16;
        } else if (sscanf(p, "    %15s *const %63s = (%*[^)])(och_lds + %u)", type, name, &n) == 3)
            och_strbuf_printf(out, "    const lds_array<%s> %s = {(%s *)(och_lds + %u)};\n", type, name, type, n);
        else if (begins(p, "    alignas(16) extern __shared__ ")) och_strbuf_puts(out, "\n");
        else och_strbuf_append(out, p, (size_t)(end - p));
    }
}

/* The host's words, and the text without what is said in PTX. */
static inline void text_for_host(const char *text, och_strbuf *out) {
    och_strbuf_printf(out, "#include \"%s/unit/cuda_host_launch.hh\"\n", OCHRE_TEST_DIR);
    for (const char *p = text; *p;) {
        const char *end = end_of(p);
        char *part = strndup(p, (size_t)(end - p));
        bool kernel = begins(part, "extern \"C\"");
        bool drop = !kernel && (strstr(part, "asm") || strstr(part, "__cvta_") || strstr(part, "address_space") || begins(part, "OCH_F16(") ||
                                strstr(part, "void och_put("));
        if (kernel) { /* what it begins with is about its neighbours in time */
            char *early = strstr(part, "    asm volatile(");
            if (early) memset(early, ' ', strcspn(early, "\n"));
        }
        if (kernel) put_kernel(part, out);
        else if (!drop) och_strbuf_puts(out, part);
        free(part);
        p = end;
    }
}

/* The program of a text. False: there is no clang. */
static inline bool compile_for_host(const och_strbuf *text) {
    och_strbuf clang = {0};
    if (!och_spawn_find("clang-22", &clang)) {
        och_strbuf_deinit(&clang);
        return false;
    }
    char exe[64];
    path_of("exe", exe);
    const char *argv[] = {och_strbuf_str(&clang), "-x", "c++", "-std=c++17", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-w", "-o", exe, "-", "-lpthread", "-lm", NULL};
    och_spawn s = {.argv = argv, .input = text->data, .input_bytes = text->size};
    och_spawn_result r;
    och_err err = {0};
    assert_int_equal(och_spawn_run(&s, &r, &err), OCH_OK);
    if (r.exit_status) fail_msg("%s", och_strbuf_str(&r.err));
    och_spawn_result_deinit(&r);
    och_strbuf_deinit(&clang);
    return true;
}

/* ---- numbers ---- */

static uint64_t random_state;
static inline double random_one(void) { /* -1 .. 1 */
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(int32_t)(random_state >> 32) / 2147483648.0;
}
static inline uint16_t half_of(float x, bool bf16) { return bf16 ? och_f32_to_bf16(x) : och_f32_to_f16(x); }
static inline float value_of(uint16_t x, bool bf16) { return bf16 ? och_bf16_to_f32(x) : och_f16_to_f32(x); }

/* ---- texts ---- */

typedef struct made {
    char *text, entry[256]; /* text: owned */
    int threads;
    bool own_target;
} made;

/* A kernel of a built-in file, or of a text (`source`), as "A=x,B=y" says. */
static inline void specialise_for(const och_kl_profile *p, const char *file, const char *source, const char *kernel, const char *spec, made *out) {
    och_err err = {0};
    och_strbuf diag = {0};
    och_kl_unit *u;
    och_kl_code *c;
    och_kl_binding b[16];
    int n = 0;
    char words[256];
    snprintf(words, sizeof words, "%s", spec);
    for (char *at = strtok(words, ","); at; at = strtok(NULL, ",")) {
        char *value = strchr(at, '=');
        *value++ = 0;
        b[n++] = (och_kl_binding){at, value};
    }
    och_status st = source ? och_kl_parse(file, source, strlen(source), NULL, &u, &diag, &err) : och_kl_parse_builtin(file, &u, &diag, &err);
    if (st != OCH_OK) fail_msg("%s%s", och_strbuf_str(&diag), err.message);
    if (och_kl_specialise(u, kernel, b, n, p, &c, &diag, &err) != OCH_OK) fail_msg("%s%s", och_strbuf_str(&diag), err.message);
    out->text = emitted(c);
    out->threads = och_kl_code_signature(c)->threads;
    out->own_target = och_kl_code_own_target(c);
    snprintf(out->entry, sizeof out->entry, "%s", och_kl_code_signature(c)->entry);
    och_kl_code_destroy(c);
    och_kl_unit_destroy(u);
    och_strbuf_deinit(&diag);
}
static inline void specialise(const char *file, const char *source, const char *kernel, const char *target, const char *spec, made *out) {
    och_kl_profile p;
    och_err err = {0};
    assert_int_equal(och_kl_profile_init(&p, target, 0, &err), OCH_OK);
    specialise_for(&p, file, source, kernel, spec, out);
}

/* ---- a run ---- */

enum { MOST_BUFFERS = 16 };
/* As cuda_host_launch.hh reads it. */
typedef struct launch {
    int64_t threads, grid_x, grid_y, n_buffers;
    int64_t bytes[MOST_BUFFERS], out[MOST_BUFFERS];
} launch;

typedef struct job {
    launch shape;
    void *data[MOST_BUFFERS];
    och_strbuf rest; /* the arguments behind the buffers: ", 4, 1" */
} job;

/* Argument that is `bytes` of zeros to begin with, owned by the job; `out`: what it becomes is read back. */
static inline void *buffer(job *j, int64_t bytes, bool out) {
    int64_t n = j->shape.n_buffers++;
    j->shape.bytes[n] = bytes;
    j->shape.out[n] = out;
    j->data[n] = calloc((size_t)bytes + 1, 1);
    assert_true(n < MOST_BUFFERS);
    return j->data[n];
}
static inline void job_end(job *j) {
    for (int i = 0; i < j->shape.n_buffers; i++) free(j->data[i]);
    och_strbuf_deinit(&j->rest);
}

/* `instead` for each `word` of the kernel. */
static inline void change(made *m, const char *word, const char *instead) {
    och_strbuf changed = {0};
    const char *p = strstr(m->text, "extern \"C\"");
    assert_non_null(p);
    och_strbuf_append(&changed, m->text, (size_t)(p - m->text));
    int n = 0;
    for (const char *at; (at = strstr(p, word)); p = at + strlen(word), n++) {
        och_strbuf_append(&changed, p, (size_t)(at - p));
        och_strbuf_puts(&changed, instead);
    }
    if (!n) fail_msg("%s: no %s in the text", m->entry, word);
    och_strbuf_puts(&changed, p);
    free(m->text);
    m->text = strdup(och_strbuf_str(&changed));
    och_strbuf_deinit(&changed);
}

/* The text as a program that takes the job. False: there is no clang. */
static inline bool program(const made *m, const job *j) {
    och_strbuf text = {0};
    text_for_host(m->text, &text);
    och_strbuf_printf(&text, "static void kernel() {\n    %s(", m->entry);
    for (int i = 0; i < j->shape.n_buffers; i++) och_strbuf_printf(&text, "%sbuffer[%d]", i ? ", " : "", i);
    och_strbuf_printf(&text, "%s);\n}\n", och_strbuf_str(&j->rest));
    bool there = compile_for_host(&text);
    och_strbuf_deinit(&text);
    return there;
}

/* What the written buffers become. False: the run found the text out. */
static inline bool ran(const job *j, bool late_copies, bool late_products) {
    char exe[64], in[64], out[64];
    path_of("exe", exe), path_of("in", in), path_of("out", out);
    FILE *f = fopen(in, "wb");
    assert_non_null(f);
    fwrite(&j->shape, sizeof j->shape, 1, f);
    for (int i = 0; i < j->shape.n_buffers; i++) fwrite(j->data[i], 1, (size_t)j->shape.bytes[i], f);
    assert_int_equal(fclose(f), 0);
    const char *argv[] = {exe, in, out, late_copies ? "1" : "0", late_products ? "1" : "0", NULL};
    och_spawn s = {.argv = argv};
    och_spawn_result r;
    och_err err = {0};
    assert_int_equal(och_spawn_run(&s, &r, &err), OCH_OK);
    int status = r.exit_status;
    if (status != 0 && status != 1) fail_msg("the program ended with %d: %s", status, och_strbuf_str(&r.err));
    och_spawn_result_deinit(&r);
    f = fopen(out, "rb");
    assert_non_null(f);
    for (int i = 0; i < j->shape.n_buffers; i++)
        if (j->shape.out[i]) assert_int_equal(fread(j->data[i], 1, (size_t)j->shape.bytes[i], f), j->shape.bytes[i]);
    fclose(f);
    return status == 0;
}

/* Normalised mean square error. */
static inline double error_of(const float *found, const double *want, size_t n) {
    double error = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)found[i] - want[i];
        error += d * d;
        all += want[i] * want[i];
    }
    return isnan(error) ? INFINITY : error / all;
}

#endif
