/* What a kernel's code is made of: its disassembly, and the instructions that its marks ask for. */
#include "main/kernels.h"

#include "base/env.h"
#include "base/spawn.h"
#include "kl/matrix.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool find_objdump(och_strbuf *path, och_strbuf *tried) {
    static const char *const names[] = {"llvm-objdump-22", "llvm-objdump-21", "llvm-objdump-20", "llvm-objdump-19", "llvm-objdump"};
    const char *rocm = och_env_get(OCH_ENV_ROCM_PATH);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (och_spawn_find(names[i], path)) return true;
        och_strbuf_printf(tried, "%s%s", i ? ", " : "", names[i]);
    }
    if (!rocm) return false;
    och_strbuf_clear(path);
    och_strbuf_printf(path, "%s/llvm/bin/llvm-objdump", rocm);
    och_strbuf_printf(tried, ", %s", och_strbuf_str(path));
    return !path->failed && access(path->data, X_OK) == 0;
}

och_status och_kernel_disassemble(const och_jit_artifact *a, och_strbuf *out, och_err *err) {
    if (a->kind == OCH_JIT_CUBIN)
        return och_err_set(err, OCH_UNSUPPORTED,
                           "%s: what NVRTC made is not disassembled here; write it with `ochre kernels build -o FILE` for cuobjdump -sass, "
                           "or let clang make PTX (OCHRE_JIT_COMPILER=clang)", a->target);
    if (a->kind == OCH_JIT_PTX) {
        och_strbuf_append(out, a->code, a->code_bytes);
        return och_strbuf_status(out, err);
    }
    och_strbuf path = {0}, tried = {0};
    och_spawn_result result = {0};
    och_status st = OCH_OK;
    if (!find_objdump(&path, &tried)) st = och_err_set(err, OCH_UNAVAILABLE, "no disassembler: looked for %s", och_strbuf_str(&tried));
    if (st == OCH_OK) {
        const char *argv[] = {path.data, "-d", "--no-show-raw-insn", "-", NULL};
        st = och_spawn_run(&(och_spawn){.argv = argv, .input = a->code, .input_bytes = a->code_bytes}, &result, err);
        if (st == OCH_OK && result.exit_status != 0)
            st = och_err_set(err, OCH_IO, "%s: %.300s", path.data, result.err.size ? och_strbuf_str(&result.err) : "it failed without a message");
        if (st == OCH_OK) och_strbuf_append(out, och_strbuf_str(&result.out), result.out.size);
        if (st == OCH_OK) st = och_strbuf_status(out, err);
        och_spawn_result_deinit(&result);
    }
    och_strbuf_deinit(&path);
    och_strbuf_deinit(&tried);
    return st;
}

/* ---- what marks ask for ---- */

/* The format that the kernel is made for pairs with activations that are codes, not floats. */
static bool has_codes(const och_kernel_spec *s, const char *parameters) {
    for (const och_kl_param_ast *p = s->kernel->params; p; p = p->next) {
        const char *value;
        size_t n = p->kind == OCH_KL_P_FORMAT ? och_kernel_value(parameters, p->name, &value) : 0;
        for (const och_kl_decl *f = n ? s->unit->decls : NULL; f; f = f->next) {
            if (f->kind != OCH_KL_D_FORMAT || strlen(f->name) != n || memcmp(f->name, value, n) != 0 || !f->act) continue;
            for (const och_kl_decl *act = s->unit->decls; act; act = act->next)
                if (act->kind == OCH_KL_D_ACT && !strcmp(act->name, f->act) && act->planes && strcmp(act->planes->elem, "f32") != 0) return true;
        }
    }
    return false;
}

/* Lines of a kernel that hold `word`, and of these those that `ok` does not. */
static uint32_t count(const char *text, const char *end, const char *word, const char *ok, uint32_t *out_others) {
    uint32_t n = 0;
    for (const char *p = text; (p = strstr(p, word)) && p < end;) {
        size_t line = strcspn(p, "\n");
        const char *good = strstr(p, ok);
        if (!good || good > p + line) ++*out_others;
        n++;
        p += line;
    }
    return n;
}

/* The matrix instructions of targets by the words that they begin with. */
static const struct {
    och_matrix_isa isa;
    const char *word;
} matrices[] = {
    {OCH_MATRIX_MFMA, "v_mfma_"},        {OCH_MATRIX_WMMA_GFX11, "v_wmma_"}, {OCH_MATRIX_WMMA_GFX12, "v_wmma_"},
    {OCH_MATRIX_WMMA_GFX125, "v_wmma_"}, {OCH_MATRIX_MMA_SYNC, "mma.sync."},
};

#define GROUP_WORD "wgmma.mma_async."

bool och_kernel_is_marked(const och_kernel_spec *s, const char *parameters) {
    return (s->marks & OCH_KERNEL_MATRIX) || ((s->marks & OCH_KERNEL_DOT4) && has_codes(s, parameters));
}

/* The kernel's part: behind "<entry>:" or ".entry entry(", up to the next one's. */
static const char *part(const char *text, const char *entry, bool ptx, const char **out_end) {
    och_strbuf head = {0};
    och_strbuf_printf(&head, ptx ? ".entry %s(" : "<%s>:\n", entry);
    const char *from = head.failed ? NULL : strstr(text, och_strbuf_str(&head));
    if (from) {
        from += head.size;
        const char *next = strstr(from, ptx ? ".entry " : ">:\n");
        *out_end = next ? next : from + strlen(from);
    }
    och_strbuf_deinit(&head);
    return from;
}

static och_status look_matrix(const och_kl_profile *p, const char *from, const char *end, uint32_t *out_n, och_err *err) {
    /* What the language has a form for, in halves: the targets' own list says more than it uses. */
    const och_kl_matrix *form = och_kl_matrix_find(p, OCH_KL_F16, 0, 0, 64);
    och_matrix_isa isa = form ? form->isa : OCH_MATRIX_NONE;
    const char *word = NULL, *found = NULL;
    uint32_t others = 0;
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        if (matrices[i].isa == isa) word = matrices[i].word;
        if (count(from, end, matrices[i].word, "", &others)) found = matrices[i].word;
    }
    if (word) *out_n = count(from, end, word, "", &others);
    /* Those of four waves serve beside the waves' own. */
    uint32_t n_group = count(from, end, GROUP_WORD, "", &others);
    if (n_group && !(p->target.target->ops & OCH_GROUP_MATRIX))
        return och_err_set(err, OCH_COMPILE, "a product with %s, which %s has not", GROUP_WORD, p->target.target->name);
    *out_n += n_group;
    if (word && !*out_n)
        return och_err_set(err, OCH_COMPILE, "a product without matrix instructions: expected %s, found %s", word, found ? found : "none");
    if (!word && found) return och_err_set(err, OCH_COMPILE, "a product with %s, which %s has not", found, p->target.target->name);
    return OCH_OK;
}

/* Activations are signed. Of the instruction that signs its sides one by one, one of them is at least. */
static och_status look_dot4(const och_target *t, const char *from, const char *end, uint32_t *out_n, och_err *err) {
    bool nvidia = t->vendor == OCH_VENDOR_NVIDIA, sides = t->ops & OCH_DOT4_IU8;
    bool expected = nvidia || (t->ops & (OCH_DOT4_IU8 | OCH_DOT4_I8));
    uint32_t wrong = 0;
    *out_n = count(from, end, nvidia ? "dp4a." : "v_dot4", nvidia ? "s32" : sides ? "neg_lo:[" : "_i32_i8", &wrong);
    if (nvidia) *out_n += count(from, end, "mma.sync.aligned.m16n8k32.", ".s8.s32", &wrong); /* wave.mma_ss and mma_us: activations come second */
    if (expected && !*out_n) return och_err_set(err, OCH_COMPILE, "a product of codes without dot products of four bytes");
    if (wrong) return och_err_set(err, OCH_COMPILE, "a product of codes with %u dot products of unsigned activations", (unsigned)wrong);
    return OCH_OK;
}

och_status och_kernel_look(const och_kernel_spec *s, const char *parameters, const char *entry, const och_kl_profile *p, const och_strbuf *text,
                           uint32_t *out_n_matrix, uint32_t *out_n_dot4, och_err *err) {
    const och_target *t = p->target.target;
    const char *end, *from = part(och_strbuf_str(text), entry, t->vendor == OCH_VENDOR_NVIDIA, &end);
    *out_n_matrix = *out_n_dot4 = 0;
    if (!from) return och_err_set(err, OCH_CORRUPT, "a disassembly without %s", entry);
    if (s->marks & OCH_KERNEL_MATRIX) OCH_TRY(look_matrix(p, from, end, out_n_matrix, err));
    if ((s->marks & OCH_KERNEL_DOT4) && has_codes(s, parameters)) OCH_TRY(look_dot4(t, from, end, out_n_dot4, err));
    return OCH_OK;
}
