#include "kl/matrix.h"

#include <stddef.h>
#include <stdio.h>

#define MT(t) OCH_MT_##t
enum { OP_0 = 0, OP_SPARSE_MATRIX = OCH_SPARSE_MATRIX };

static const och_kl_matrix rows[] = {
#define OCH_KL_MATRIX(name, isa, needs, lacks, ops, no_ops, wave, m, n, k, in, out, form, builtin, arg, lanes, a, b,   \
                      c)                                                                                               \
    {#name,       OCH_MATRIX_##isa, needs,           lacks,   OP_##ops, OP_##no_ops, wave, m, n, k,                    \
     OCH_KL_##in, OCH_KL_##out,     OCH_KL_M_##form, builtin, arg,      lanes,       a,    b, c},
#include "kl/matrix.def"
#undef OCH_KL_MATRIX
};
#define N_ROWS ((int)(sizeof rows / sizeof rows[0]))

const och_kl_matrix *och_kl_matrix_at(int i) { return i >= 0 && i < N_ROWS ? &rows[i] : NULL; }
int och_kl_matrix_index(const och_kl_matrix *m) { return (int)(m - rows); }

bool och_kl_matrix_serves(const och_kl_matrix *m, const och_kl_profile *p) {
    const och_target *t = p->target.target;
    if (m->wave != p->wave) return false;
    if (m->isa == OCH_MATRIX_NONE) return true;
    uint32_t wave = m->wave == 64 ? OCH_WAVE64 : OCH_WAVE32;
    return m->isa == t->matrix && (t->matrix_waves & wave) && (t->matrix_types & m->needs) == m->needs &&
           !(t->matrix_types & m->lacks) && (t->ops & m->ops) == m->ops && !(t->ops & m->no_ops);
}

const och_kl_matrix *och_kl_matrix_find(const och_kl_profile *p, och_kl_base in, uint32_t m, uint32_t n, uint32_t depth) {
    for (int i = 0; i < N_ROWS; i++) {
        const och_kl_matrix *r = &rows[i];
        if (r->in == in && (!m || r->m == m) && (!n || r->n == n) && depth % r->k == 0 && och_kl_matrix_serves(r, p)) return r;
    }
    return NULL;
}

static int elems(const char *layout) {
    och_kl_fragment f;
    return och_kl_fragment_parse(layout, &f) ? 1 << f.n_elem_bits : 0;
}
int och_kl_matrix_a_lanes(const och_kl_matrix *m) { return elems(m->a); }
int och_kl_matrix_b_lanes(const och_kl_matrix *m) { return elems(m->b); }
int och_kl_matrix_c_lanes(const och_kl_matrix *m) { return elems(m->c); }

/* ---- text ---- */

/* The element of a layout at (row, col), among lane 0's. */
static int find_elem(const och_kl_fragment *f, uint32_t row, uint32_t col) {
    for (unsigned e = 0; e < 1u << f->n_elem_bits; e++) {
        uint32_t r, c;
        och_kl_fragment_at(f, 0, e, &r, &c);
        if (r == row && c == col) return (int)e;
    }
    return 0;
}

/* Every element of the lane's patch, in order of k. */
static void plain_body(const och_kl_matrix *m, och_strbuf *t) {
    och_kl_fragment a, b, c;
    if (!och_kl_fragment_parse(m->a, &a) || !och_kl_fragment_parse(m->b, &b) || !och_kl_fragment_parse(m->c, &c)) return;
    if (m->in == OCH_KL_I8)
        och_strbuf_printf(t,
                          "    const och_words<%d> aw = och_bits<och_words<%d>>(a);\n    const och_words<%d> bw = "
                          "och_bits<och_words<%d>>(b);\n",
                          elems(m->a) / 4, elems(m->a) / 4, elems(m->b) / 4, elems(m->b) / 4);
    uint32_t step = m->in == OCH_KL_I8 ? 4 : m->in == OCH_KL_F16 ? 2 : 1;
    for (uint32_t k = 0; k < m->k; k += step)
        for (unsigned e = 0; e < 1u << c.n_elem_bits; e++) {
            uint32_t row, col;
            och_kl_fragment_at(&c, 0, e, &row, &col);
            int i = find_elem(&a, row, k), j = find_elem(&b, col, k);
            if (m->in == OCH_KL_I8)
                och_strbuf_printf(t, "    c[%u] = och_dot4_ss((u32)aw.w[%d], (u32)bw.w[%d], c[%u]);\n", e, i / 4, j / 4, e);
            else if (m->in == OCH_KL_F16)
                och_strbuf_printf(t, "    c[%u] = och_dot2(f16x2{a[%d], a[%d]}, f16x2{b[%d], b[%d]}, c[%u]);\n", e, i,
                                  i + 1, j, j + 1, e);
            else och_strbuf_printf(t, "    c[%u] = och_fma(och_from_bf16(a[%d]), och_from_bf16(b[%d]), c[%u]);\n", e, i, j, e);
        }
    och_strbuf_puts(t, "    return c;\n");
}

static void mma_body(const och_kl_matrix *m, och_strbuf *t) {
    int na = elems(m->a) * (int)och_kl_base_bytes(m->in) / 4, nb = elems(m->b) * (int)och_kl_base_bytes(m->in) / 4;
    const char *c = m->out == OCH_KL_F32 ? "f" : "r";
    och_strbuf_printf(t,
                      "    const och_words<%d> aw = och_bits<och_words<%d>>(a);\n    const och_words<%d> bw = "
                      "och_bits<och_words<%d>>(b);\n",
                      na, na, nb, nb);
    och_strbuf_printf(t, "    asm volatile(\"%s {%%0, %%1, %%2, %%3}, {", m->builtin);
    for (int i = 0; i < na; i++) och_strbuf_printf(t, "%s%%%d", i ? ", " : "", 4 + i);
    och_strbuf_puts(t, "}, {");
    for (int i = 0; i < nb; i++) och_strbuf_printf(t, "%s%%%d", i ? ", " : "", 4 + na + i);
    och_strbuf_puts(t, "}, {%0, %1, %2, %3};\"\n                 : ");
    for (int i = 0; i < 4; i++) och_strbuf_printf(t, "%s\"+%s\"(c[%d])", i ? ", " : "", c, i);
    och_strbuf_puts(t, "\n                 : ");
    for (int i = 0; i < na; i++) och_strbuf_printf(t, "%s\"r\"(aw.w[%d])", i ? ", " : "", i);
    for (int i = 0; i < nb; i++) och_strbuf_printf(t, ", \"r\"(bw.w[%d])", i);
    och_strbuf_puts(t, ");\n    return c;\n");
}

static void builtin_body(const och_kl_matrix *m, och_strbuf *t) {
    if (m->arg_lanes > 1)
        och_strbuf_printf(t, "    typedef %s arg __attribute__((ext_vector_type(%d)));\n", m->arg_type, m->arg_lanes);
    else och_strbuf_printf(t, "    typedef %s arg;\n", m->arg_type);
    const char *a = "och_bits<arg>(a)", *b = "och_bits<arg>(b)";
    och_strbuf_printf(t, "    return %s(", m->builtin);
    switch (m->form) {
    case OCH_KL_M_WMMA_IU8: och_strbuf_printf(t, "true, %s, true, %s, c, false", a, b); break;
    case OCH_KL_M_MFMA: och_strbuf_printf(t, "%s, %s, c, 0, 0, 0", a, b); break;
    default: och_strbuf_printf(t, "%s, %s, c", a, b); break;
    }
    och_strbuf_puts(t, ");\n");
}

void och_kl_matrix_text(const och_kl_matrix *m, och_strbuf *text) {
    const char *in = och_kl_base_names[m->in], *out = och_kl_base_names[m->out];
    och_strbuf_printf(text, "// C %ux%u += A %ux%u * B %ux%u; A: %s, B: %s, C: %s\n", m->m, m->n, m->m, m->k, m->k,
                      m->n, m->a, m->b, m->c);
    och_strbuf_printf(text, "static __device__ __forceinline__ %sx%d och_mma_%s(%sx%d a, %sx%d b, %sx%d c) {\n", out,
                      elems(m->c), m->name, in, elems(m->a), in, elems(m->b), out, elems(m->c));
    switch (m->form) {
    case OCH_KL_M_PLAIN: plain_body(m, text); break;
    case OCH_KL_M_MMA_SYNC: mma_body(m, text); break;
    default: builtin_body(m, text); break;
    }
    och_strbuf_puts(text, "}\n");
}

const char *och_kl_group_matrix_name(och_kl_base in, uint32_t n, bool turned, char buf[OCH_KL_GROUP_NAME_BYTES]) {
    snprintf(buf, OCH_KL_GROUP_NAME_BYTES, "och_group_mma_m64n%uk16_%s%s", (unsigned)n, och_kl_base_names[in], turned ? "_turned" : "");
    return buf;
}

void och_kl_group_matrix_text(och_kl_base in, uint32_t n, bool turned, och_strbuf *text) {
    char name[OCH_KL_GROUP_NAME_BYTES];
    const char *type = och_kl_base_names[in];
    unsigned at = n / 2;
    och_strbuf_printf(text, "static __device__ __forceinline__ void %s(f32x4 *c, %s a, u64 b) {\n",
                      och_kl_group_matrix_name(in, n, turned, name), turned ? "u32x4" : "u64");
    och_strbuf_printf(text, "    asm volatile(\"{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n%uk16.f32.%s.%s {\"", (unsigned)n, type, type);
    for (uint32_t i = 0; i < n / 2; i += 8) {
        och_strbuf_puts(text, "\n                 \"");
        for (uint32_t j = i; j < i + 8 && j < n / 2; j++) och_strbuf_printf(text, "%%%u%s", (unsigned)j, j + 1 < n / 2 ? ", " : "");
        och_strbuf_puts(text, "\"");
    }
    if (turned)
        och_strbuf_printf(text, "\n                 \"}, {%%%u, %%%u, %%%u, %%%u}, %%%u, p, 1, 1, 1; }\"\n                 : ", at, at + 1, at + 2,
                          at + 3, at + 4);
    else och_strbuf_printf(text, "\n                 \"}, %%%u, %%%u, p, 1, 1, 0, 0; }\"\n                 : ", at, at + 1);
    for (uint32_t i = 0; i < n / 8; i++)
        och_strbuf_printf(text, "%s\"+f\"(c[%u][0]), \"+f\"(c[%u][1]), \"+f\"(c[%u][2]), \"+f\"(c[%u][3])", i ? ",\n                   " : "",
                          (unsigned)i, (unsigned)i, (unsigned)i, (unsigned)i);
    och_strbuf_printf(text, "\n                 : %s, \"l\"(b));\n}\n",
                      turned ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])" : "\"l\"(a)");
}
