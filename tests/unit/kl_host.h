/* CUDA texts on threads of the host (cuda_host.hh): a folder for what is made of them, the text without its PTX, the program. */
#ifndef OCH_TEST_KL_HOST_H
#define OCH_TEST_KL_HOST_H

#include "unit/kl_support.h"

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

/* The host's words, in a file of this folder, and the text without what is said in PTX. */
static inline void text_for_host(const char *text, const char *words, och_strbuf *out) {
    och_strbuf_printf(out, "#include \"%s/unit/%s\"\n", OCHRE_TEST_DIR, words);
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

#endif
