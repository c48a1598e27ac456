/* Rows of matrix instructions check themselves: shapes, layouts, and that compilers take the builtin with the row's types on every
 * target the row serves. */
#include "unit/kl_support.h"

#include "kl/matrix.h"

static uint32_t lanes_of(const och_kl_fragment *f) { return 1u << f->n_lane_bits; }

/* Every element of a tile is held once, or the same number of times, and the bits of lane and element say how often. */
static void layouts_cover_their_tiles(void **state) {
    (void)state;
    const och_kl_matrix *m;
    for (int i = 0; (m = och_kl_matrix_at(i)); i++) {
        och_kl_fragment a, b, c;
        assert_true(och_kl_fragment_parse(m->a, &a));
        assert_true(och_kl_fragment_parse(m->b, &b));
        assert_true(och_kl_fragment_parse(m->c, &c));
        assert_int_equal(lanes_of(&a), m->wave);
        assert_int_equal(lanes_of(&b), m->wave);
        assert_int_equal(lanes_of(&c), m->wave);
        assert_int_equal(och_kl_fragment_copies(&c, m->m, m->n), 1);
        unsigned ca = och_kl_fragment_copies(&a, m->m, m->k), cb = och_kl_fragment_copies(&b, m->n, m->k);
        assert_int_equal(ca * m->m * m->k, (unsigned)m->wave << a.n_elem_bits);
        assert_int_equal(cb * m->n * m->k, (unsigned)m->wave << b.n_elem_bits);
        assert_true(ca && cb);
        bool copies = m->isa == OCH_MATRIX_WMMA_GFX11 || m->form == OCH_KL_M_PLAIN;
        assert_int_equal(ca > 1, copies);
        /* The registers the builtin takes are those that the layout fills. */
        if (m->form != OCH_KL_M_PLAIN && m->form != OCH_KL_M_MMA_SYNC) {
            int size = strcmp(m->arg_type, "long") == 0 ? 8 : strcmp(m->arg_type, "int") == 0 ? 4 : 2;
            assert_int_equal(size * m->arg_lanes, (int)och_kl_base_bytes(m->in) << a.n_elem_bits);
        }
    }
}

static void refuses_malformed_layouts(void **state) {
    (void)state;
    och_kl_fragment f;
    const char *bad[] = {"", "r0 r1", "r0|r1|r2", "x0|r0", "r8|r0", "r0|-", "r|r0", "r0 r1 r2 r3 r4 r5 r6 r7 c0|c1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(och_kl_fragment_parse(bad[i], &f));
    assert_true(och_kl_fragment_parse("r0 r1|c0", &f)); /* an element twice, another never */
    assert_int_equal(och_kl_fragment_copies(&f, 4, 4), 0);
    assert_true(och_kl_fragment_parse("r0 r0|c0", &f));
    assert_int_equal(och_kl_fragment_copies(&f, 2, 2), 0);
}

/* A and B keep agreeing on k, element for element of the sum, and each lane's k lie side by side. */
static void packing_k_keeps_pairs(void **state) {
    (void)state;
    const och_kl_matrix *m;
    for (int i = 0; (m = och_kl_matrix_at(i)); i++) {
        och_kl_fragment a, b, pa, pb;
        assert_true(och_kl_fragment_parse(m->a, &a));
        assert_true(och_kl_fragment_parse(m->b, &b));
        pa = a;
        pb = b;
        assert_true(och_kl_fragment_pack_k(&pa, &pb));
        assert_int_equal(och_kl_fragment_copies(&pa, m->m, m->k), och_kl_fragment_copies(&a, m->m, m->k));
        uint32_t to[64];
        for (unsigned lane = 0; lane < lanes_of(&a); lane++)
            for (unsigned e = 0; e < 1u << a.n_elem_bits; e++) {
                uint32_t r, k, pr, pk;
                och_kl_fragment_at(&a, lane, e, &r, &k);
                och_kl_fragment_at(&pa, lane, e, &pr, &pk);
                assert_int_equal(r, pr);
                to[k] = pk;
            }
        for (unsigned lane = 0; lane < lanes_of(&b); lane++)
            for (unsigned e = 0; e < 1u << b.n_elem_bits; e++) {
                uint32_t r, k, pr, pk;
                och_kl_fragment_at(&b, lane, e, &r, &k);
                och_kl_fragment_at(&pb, lane, e, &pr, &pk);
                assert_int_equal(r, pr);
                assert_int_equal(to[k], pk);
            }
    }
}

/* Some places from the manuals' figures, in numbers: row and column of an element of a lane. */
static void places_of_the_manuals(void **state) {
    (void)state;
    const struct {
        const char *name;
        char operand;
        unsigned lane, elem;
        uint32_t row, col;
    } p[] = {
        {"wmma_gfx11_f16_w32", 'a', 17, 5, 1, 5},       {"wmma_gfx11_f16_w32", 'c', 17, 3, 7, 1},
        {"wmma_gfx11_f16_w64", 'c', 33, 3, 14, 1},      {"wmma_gfx12_f16_w32", 'a', 16, 0, 0, 4},
        {"wmma_gfx12_f16_w32", 'a', 0, 4, 0, 8},        {"wmma_gfx12_f16_w32", 'c', 16, 0, 8, 0},
        {"wmma_gfx12_f16_w64", 'c', 16, 0, 8, 0},       {"wmma_gfx12_f16_w64", 'c', 32, 1, 5, 0},
        {"wmma_gfx12_i8_w64", 'a', 16, 0, 0, 8},        {"mfma_32x32x8_f16", 'c', 32, 0, 4, 0},
        {"mfma_32x32x8_f16", 'c', 5, 4, 8, 5},          {"mfma_32x32x8_f16", 'a', 33, 1, 1, 5},
        {"mfma_16x16x16_f16", 'c', 17, 2, 6, 1},        {"mfma_16x16x32_i8", 'a', 16, 7, 0, 15},
        {"mma_m16n8k16_f16", 'a', 5, 2, 9, 2},          {"mma_m16n8k16_f16", 'a', 5, 5, 1, 11},
        {"mma_m16n8k16_f16", 'b', 5, 3, 1, 11},         {"mma_m16n8k16_f16", 'c', 5, 3, 9, 3},
        {"mma_m16n8k32_i8", 'a', 5, 9, 1, 21},
    };
    for (size_t i = 0; i < sizeof p / sizeof p[0]; i++) {
        const och_kl_matrix *m;
        int n = 0;
        while ((m = och_kl_matrix_at(n)) && strcmp(m->name, p[i].name) != 0) n++;
        assert_non_null(m);
        och_kl_fragment f;
        assert_true(och_kl_fragment_parse(p[i].operand == 'a' ? m->a : p[i].operand == 'b' ? m->b : m->c, &f));
        uint32_t row, col;
        och_kl_fragment_at(&f, p[i].lane, p[i].elem, &row, &col);
        if (row != p[i].row || col != p[i].col)
            fail_msg("%s, %c: lane %u element %u is (%u, %u), expected (%u, %u)", p[i].name, p[i].operand, p[i].lane, p[i].elem, row, col, p[i].row, p[i].col);
    }
}

static void every_profile_has_a_row(void **state) {
    (void)state;
    och_kl_profile p;
    for (size_t at = 0; next_profile(&at, &p);) {
        const och_target *target = p.target.target;
        const och_kl_matrix *f16 = och_kl_matrix_find(&p, OCH_KL_F16, 0, 0, 16), *bf16 = och_kl_matrix_find(&p, OCH_KL_BF16, 0, 0, 16),
                            *i8 = och_kl_matrix_find(&p, OCH_KL_I8, 0, 0, 32);
        assert_true(f16 && bf16 && i8);
        /* An accumulator is made before the type of A and B is known. */
        for (int i = 0; i < 2; i++) {
            uint32_t side = i ? 32 : 16;
            const och_kl_matrix *x = och_kl_matrix_find(&p, OCH_KL_F16, side, 0, 16), *y = och_kl_matrix_find(&p, OCH_KL_BF16, side, 0, 16),
                                *z = och_kl_matrix_find(&p, OCH_KL_F16, side, 0, 64);
            assert_int_equal(x != NULL, y != NULL);
            if (!x) continue;
            assert_string_equal(x->c, y->c);
            assert_string_equal(x->c, z->c);
        }
        bool has = target->matrix != OCH_MATRIX_NONE && target->matrix != OCH_MATRIX_WMMA_GFX125 && (target->matrix_waves & (p.wave == 32 ? OCH_WAVE32 : OCH_WAVE64));
        assert_int_equal(f16->form != OCH_KL_M_PLAIN, has);
    }
}

/* One kernel with each row that serves the profile. */
static och_kl_code *all_rows(const och_kl_profile *p) {
    och_kl_code *c = code_for(p->target.name, p->wave, 1);
    och_kl_var *in = parameter(c, "in", OCH_KL_U8, true, true), *out = parameter(c, "out", OCH_KL_F32, true, false);
    const och_kl_matrix *m;
    for (int i = 0; (m = och_kl_matrix_at(i)); i++) {
        if (!och_kl_matrix_serves(m, p)) continue;
        och_kl_ir *at = och_kl_convert(c, no_pos, I64, och_kl_binary(c, no_pos, '*', CALL0(c, LANE, I32, 0), integer(c, 64)));
        int n[3] = {och_kl_matrix_a_lanes(m), och_kl_matrix_b_lanes(m), och_kl_matrix_c_lanes(m)};
        och_kl_mem mem = {.base = in, .elem = m->in, .align_bytes = 4, .bytes = true, .index = at};
        och_kl_ir *args[3];
        for (int o = 0; o < 3; o++) {
            mem.lanes = (uint8_t)n[o];
            if (o == 2) mem.elem = m->out;
            args[o] = och_kl_load(c, no_pos, &mem);
        }
        och_kl_ir *d = och_kl_call(c, no_pos, OCH_KL_F_MMA, och_kl_type_of(m->out, n[2]), i, args, 3);
        if (m->out == OCH_KL_I32) d = och_kl_bitcast(c, no_pos, och_kl_type_of(OCH_KL_F32, n[2]), d);
        store_to(c, &c->body, out, och_kl_binary(c, no_pos, '+', at, och_kl_int(c, no_pos, I64, 65536 * i)), d, 4);
    }
    return c;
}

static void compilers_take_every_row(void **state) {
    (void)state;
    uint64_t done[64] = {0}; /* sets of rows that were compiled, by target kind: the others would be the same text */
    int n_done = 0;
    och_kl_profile p;
    for (size_t at = 0; next_profile(&at, &p);) {
        const och_target *target = p.target.target;
        uint64_t set = 0;
        const och_kl_matrix *m;
        for (int i = 0; (m = och_kl_matrix_at(i)); i++)
            if (och_kl_matrix_serves(m, &p)) set |= 1ull << i;
        set ^= (uint64_t)target->ops << 40 ^ (uint64_t)target->generic << 63;
        bool seen = false;
        for (int i = 0; i < n_done; i++) seen |= done[i] == set;
        if (seen) continue;
        assert_true(n_done < 64);
        done[n_done++] = set;
        och_kl_code *c = all_rows(&p);
        char *text = emitted(c), *code = compile_any(&p, text);
        free(text);
        if (!code) {
            och_kl_code_destroy(c);
            skip();
        }
        for (int i = 0; (m = och_kl_matrix_at(i)); i++) {
            if (!och_kl_matrix_serves(m, &p) || m->form == OCH_KL_M_PLAIN) continue;
            /* The mnemonic is the builtin's name, less its suffixes and underscores. */
            char want[96];
            const char *name = strncmp(m->builtin, "__builtin_amdgcn_", 17) == 0 ? m->builtin + 17 : m->builtin;
            snprintf(want, sizeof want, "%.*s", (int)(strchr(name + 9, 'x') - name + 3), name);
            if (!strstr(code, want)) fail_msg("%s: %s is not in the code for %s", m->name, want, p.target.name);
        }
        free(code);
        och_kl_code_destroy(c);
    }
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "--print") == 0) { /* target, wave */
        och_kl_profile p = {.wave = atoi(argv[3])};
        och_err err = {0};
        if (och_target_find(argv[2], &p.target, &err) != OCH_OK) return 1;
        och_kl_code *c = all_rows(&p);
        char *text = emitted(c);
        puts(text);
        free(text);
        och_kl_code_destroy(c);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_cover_their_tiles), cmocka_unit_test(refuses_malformed_layouts), cmocka_unit_test(packing_k_keeps_pairs),
        cmocka_unit_test(places_of_the_manuals),     cmocka_unit_test(every_profile_has_a_row),   cmocka_unit_test(compilers_take_every_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
