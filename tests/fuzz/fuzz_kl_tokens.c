/* Kernel files changed word by word, so that most of them still parse and reach what types, uniformity and lowering
 * look at. The library and the built-in formats are part of each unit as of any other; parameters without a default are
 * given a value; the target changes with the text. What is specialised is printed, twice the same, and its signature
 * takes launches of any sizes. */
#include "base/alloc.h"
#include "base/hash.h"
#include "kl/ast.h"
#include "kl/builtin.h"
#include "kl/kl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out,
                                 size_t max_size, unsigned int seed);

static void check(bool ok) {
    if (!ok) abort();
}

/* ---- words ---- */

#define MAX_WORDS 4096

typedef struct word {
    size_t at, n;
} word;

static bool is_name(uint8_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* A name or number, a run of blanks, or one other byte. */
static size_t split(const uint8_t *text, size_t size, word *out) {
    size_t n = 0;
    for (size_t i = 0; i < size && n < MAX_WORDS;) {
        size_t begin = i++;
        if (is_name(text[begin]))
            while (i < size && is_name(text[i])) i++;
        else if (text[begin] == ' ' || text[begin] == '\n')
            while (i < size && (text[i] == ' ' || text[i] == '\n')) i++;
        out[n++] = (word){begin, i - begin};
    }
    return n;
}

static uint32_t state;
static uint32_t draw(size_t below) {
    state = state * 1664525u + 1013904223u;
    return below ? (state >> 8) % (uint32_t)below : 0;
}

static const char *const given[] = {
    "0",
    "1",
    "2",
    "3",
    "4",
    "8",
    "16",
    "31",
    "32",
    "33",
    "64",
    "128",
    "1024",
    "4096",
    "65536",
    "2147483647",
    "4294967295",
    "9223372036854775807",
    "0.0",
    "1.5",
    "1e38",
    "f32",
    "f16",
    "bf16",
    "fp8",
    "bf8",
    "i8",
    "u8",
    "i16",
    "u16",
    "i32",
    "u32",
    "i64",
    "u64",
    "bool",
    "f32x4",
    "f16x8",
    "u32x2",
    "i32x4",
    "f32x16",
    "group",
    "wave",
    "thread.id",
    "group.id.x",
    "wave.lane",
    "wave.first",
    "wave.size",
    "group.size",
    "cluster(8)",
    "cluster(32)",
    "true",
    "false",
    "n",
    "d",
    "group.barrier();",
    "group.sum(1.0)",
    "wave.max(1.0)",
    "wave.shuffle_xor(1, 1)",
    "static for i in 0..4 { }",
    "if wave.first { }",
    "let a = 1;",
    "var a = 0.0;",
    "for i in group.lanes(n) { }",
    "for i in wave.lanes(4) { }",
    "while false { }",
    "break;",
    "continue;",
    "return;",
    "fma(1.0, 2.0, 3.0)",
    "min",
    "max",
    "exp",
    "atomic_add",
    "dot4_us",
    "perm",
    "bfe",
    "bits<u32>",
    "has(matrix)",
    "Q4_K",
    "Q8_0",
    "F16",
    "T",
    "F",
    ".row(0)",
    ".load4(0)",
    ".store4(0, f32x4(1.0))",
    ".unit(0)",
    ".staged(A, 0, 0)",
    ".sub(0, 0)",
    ".sub_inside(0, 0)",
    ".decode()",
    "<<",
    ">>",
    "%",
    "/",
    "-",
    "!",
    "~",
    "&&",
    "||",
    "==",
    "<=",
    "?",
    ":",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ";",
    ",",
    "..",
    " pad auto",
    " swizzle",
    "acc_tile<f32, 32, 32>",
    ".mma(A, B)",
    ".map((i, j, v) => v)",
    ".each((i, j, v) => { })",
    ".row_max()",
    ".to_lds(A)",
    "pipeline k in 0..n step 32 depth 2 ",
    "then { }",
    "await();",
    "stage { }",
    "do { }",
    "copy A[0] <- a.sub(0, 0);",
    "lds A: f16[32][32];",
    "require n % 8 == 0",
    "over x",
    "in?",
    "inout",
    "out",
    "in",
};

static size_t change(uint8_t *data, size_t size, size_t max_size) {
    static word words[MAX_WORDS];
    static uint8_t copy[1 << 16];
    size_t n = split(data, size, words);
    if (!n || size > sizeof copy) return size;
    memcpy(copy, data, size);
    word a = words[draw(n)], b = words[draw(n)];
    const uint8_t *put = NULL;
    size_t n_put = 0, cut = a.n;
    switch (draw(8)) {
    case 0:
        break; /* a word goes */
    case 1:
        put = copy + b.at, n_put = b.n;
        break; /* another takes its place */
    case 2:
        put = copy + b.at, n_put = b.n, cut = 0;
        break; /* another comes before it */
    case 3:
    case 4: { /* one of ours takes its place, or comes before it */
        const char *text = given[draw(sizeof given / sizeof *given)];
        put = (const uint8_t *)text, n_put = strlen(text);
        if (draw(2)) cut = 0;
        break;
    }
    default: { /* a run of words goes, is doubled, or comes elsewhere */
        size_t first = draw(n), count = 1 + draw(12), last = first + count < n ? first + count : n - 1;
        word run = {words[first].at, words[last].at + words[last].n - words[first].at};
        if (draw(3) == 0)
            a = run, cut = run.n;
        else
            put = copy + run.at, n_put = run.n, cut = 0;
        break;
    }
    }
    if (size - cut + n_put > max_size) return size;
    if (n_put) memcpy(data + a.at, put, n_put);
    memcpy(data + a.at + n_put, copy + a.at + cut, size - a.at - cut);
    return size - cut + n_put;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    state = seed;
    for (uint32_t i = 1 + draw(4); i > 0; i--) size = change(data, size, max_size);
    return size;
}

/* The beginning of one and the end of another, each cut behind a ';' or a brace. */
static size_t cut_at(const uint8_t *text, size_t size) {
    size_t at = draw(size + 1);
    while (at < size && text[at] != ';' && text[at] != '{' && text[at] != '}') at++;
    return at < size ? at + 1 : size;
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out,
                                 size_t max_size, unsigned int seed) {
    state = seed;
    size_t n = cut_at(a, a_size), from = cut_at(b, b_size), m = b_size - from;
    if (n > max_size) n = max_size;
    if (m > max_size - n) m = max_size - n;
    memcpy(out, a, n);
    memcpy(out + n, b + from, m);
    return n + m;
}

/* ---- what must hold ---- */

#define MAX_BYTES 16384
#define MAX_KERNELS 3
#define MAX_PARAMS 32

static void launches(const och_kl_signature *s) {
    static och_kl_packed packed;
    och_kl_actual x[OCH_KL_MAX_ARGS];
    static const int64_t extents[] = {0, 1, 64, 4096, INT32_MAX, INT64_MAX};
    for (size_t round = 0; round < sizeof extents / sizeof *extents; round++) {
        och_err err = {0};
        memset(x, 0, sizeof x);
        for (int i = 0; i < s->n_args; i++) {
            x[i].name = s->args[i].name;
            x[i].addr = s->args[i].optional && round % 2 ? 0 : (uint64_t)(i + 1) << 44;
            for (int d = 0; d < 3; d++) x[i].dims[d] = extents[round];
            if (s->args[i].kind != OCH_KL_A_BUFFER) x[i].row_bytes[0] = 1 << 20;
            x[i].integer = 1;
        }
        if (och_kl_pack(s, x, s->n_args, &packed, &err) == OCH_OK)
            check(packed.n_bytes <= OCH_KL_MAX_ARG_BYTES);
        else
            check(err.message[0] != 0);
    }
}

static void specialise(const och_kl_unit *u, const och_kl_decl *kernel, const och_kl_profile *profile) {
    och_kl_binding bindings[MAX_PARAMS];
    char numbers[MAX_PARAMS][24];
    int n = 0;
    const char *format = "";
    for (const och_kl_decl *d = u->decls; d; d = d->next)
        if (d->kind == OCH_KL_D_FORMAT && !*format) format = d->name;
    for (const och_kl_param_ast *p = kernel->params; p && n < MAX_PARAMS; p = p->next) {
        if (p->default_value) continue;
        snprintf(numbers[n], sizeof numbers[n], "%d",
                 p->ranged && p->lo->kind == OCH_KL_E_INT && p->lo->u.integer < 1024 ? (int)p->lo->u.integer : 4);
        bindings[n].name = p->name;
        bindings[n].value = p->kind == OCH_KL_P_ELEM     ? "f16"
                            : p->kind == OCH_KL_P_FORMAT ? format
                            : p->kind == OCH_KL_P_BOOL   ? "true"
                                                         : numbers[n];
        n++;
    }
    och_kl_code *code;
    och_strbuf diag = {0}, text = {0}, again = {0}, bytes = {0};
    static och_kl_signature back;
    och_err err = {0};
    och_status st = och_kl_specialise(u, kernel->name, bindings, n, profile, &code, &diag, &err);
    check(st == err.status && (st == OCH_OK) == (code != NULL) && (st == OCH_OK || err.message[0]) &&
          st != OCH_INTERNAL);
    if (code) {
        st = och_kl_emit(code, &text, &err);
        check(st == OCH_OK && och_kl_emit(code, &again, &err) == OCH_OK);
        check(text.size == again.size && memcmp(text.data, again.data, text.size) == 0);
        check(och_kl_signature_write(och_kl_code_signature(code), &bytes, &err) == OCH_OK);
        check(och_kl_signature_read(bytes.data, bytes.size, &back, &err) == OCH_OK);
        launches(&back);
    }
    och_kl_code_destroy(code);
    och_strbuf_deinit(&diag);
    och_strbuf_deinit(&text);
    och_strbuf_deinit(&again);
    och_strbuf_deinit(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const targets[] = {"gfx1100", "gfx942", "gfx1201", "gfx906", "sm_90", "gfx950", "gfx1030"};
    if (size > MAX_BYTES) return 0;
    int64_t live = och_alloc_live();
    och_kl_profile profile;
    och_kl_unit *u;
    och_strbuf diag = {0};
    och_err err = {0};
    uint64_t h = och_hash_bytes(data, size).low;
    check(och_kl_profile_init(&profile, targets[h % (sizeof targets / sizeof *targets)], 0, &err) == OCH_OK);
    och_status st = och_kl_parse("t.ok", (const char *)data, size, NULL, &u, &diag, &err);
    check(st == err.status && (st == OCH_OK) == (u != NULL));
    int n = 0;
    for (const och_kl_decl *d = u ? u->decls : NULL; d && n < MAX_KERNELS; d = d->next)
        if (d->kind == OCH_KL_D_KERNEL) specialise(u, d, &profile), n++;
    och_kl_unit_destroy(u);
    och_strbuf_deinit(&diag);
    check(och_alloc_live() == live);
    return 0;
}
