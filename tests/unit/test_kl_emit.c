/* The emitter, on code made by hand: what is printed, and that compilers take it for every target. */
#include "unit/kl_support.h"

/* Stores x, of any type, to the f32 buffer y at the lane's place: through bits where it is no f32. */
static void keep(och_kl_code *c, och_kl_list *to, och_kl_var *y, och_kl_ir *x) {
    static int at;
    och_kl_ir *index = och_kl_binary(c, no_pos, '+', och_kl_convert(c, no_pos, I64, CALL0(c, THREAD_ID, I32, 0)),
                                     och_kl_int(c, no_pos, I64, 256 * at++));
    if (x->type.base == OCH_KL_BOOL) x = och_kl_convert(c, no_pos, I32, x);
    if (x->type.base != OCH_KL_F32) x = och_kl_convert(c, no_pos, och_kl_type_of(OCH_KL_F32, x->type.lanes), x);
    store_to(c, to, y, index, x, 4);
}

/* A kernel with every intrinsic and every kind of node in it. */
static och_kl_code *everything(const char *target, int wave) {
    och_kl_code *c = code_for(target, wave, 2);
    och_kl_list *b = &c->body;
    const och_kl_type f32x4 = {OCH_KL_F32, 4}, f16 = {OCH_KL_F16, 1}, f16x2 = {OCH_KL_F16, 2}, f16x8 = {OCH_KL_F16, 8}, u64 = {OCH_KL_U64, 1},
                      i32x4 = {OCH_KL_I32, 4}, u32x4 = {OCH_KL_U32, 4}, f32x8 = {OCH_KL_F32, 8};
    och_kl_var *x = parameter(c, "x", OCH_KL_F32, true, true), *stride = parameter(c, "x_stride", OCH_KL_I64, false, true);
    och_kl_var *n = parameter(c, "n", OCH_KL_I64, false, true), *eps = parameter(c, "eps", OCH_KL_F32, false, true);
    och_kl_var *w = parameter(c, "w", OCH_KL_U8, true, true), *y = parameter(c, "y", OCH_KL_F32, true, false);
    och_kl_var *counter = parameter(c, "counter", OCH_KL_U32, true, false), *sums = parameter(c, "sums", OCH_KL_F32, true, false);
    och_kl_var *wide = parameter(c, "wide", OCH_KL_U64, true, false), *flags = parameter(c, "int", OCH_KL_I32, true, false);
    och_kl_var *lds = och_kl_new_var(c, "tile", och_kl_type_of(OCH_KL_F16, 1), OCH_KL_LDS, (uint32_t[]){16, 72}, 2);
    och_kl_var *lane = declare(c, b, "lane", CALL0(c, LANE, I32, 0));
    och_kl_ir *i = och_kl_use(c, no_pos, lane);
    och_kl_ir *r = och_kl_use(c, no_pos, declare(c, b, "r", CALL0(c, GROUP_ID, I32, 0)));
    och_kl_ir *row = och_kl_binary(c, no_pos, '*', och_kl_convert(c, no_pos, I64, r), och_kl_use(c, no_pos, stride));
    och_kl_ir *four = och_kl_binary(c, no_pos, '*', i, integer(c, 4));
    och_kl_ir *at = och_kl_binary(c, no_pos, '+', row, och_kl_convert(c, no_pos, I64, four));
    och_kl_ir *v4 = och_kl_use(c, no_pos, declare(c, b, "v", load_from(c, x, OCH_KL_F32, 4, at, 16)));
    och_kl_ir *s = och_kl_use(c, no_pos, declare(c, b, "v", och_kl_elem(c, no_pos, v4, 1)));
    och_kl_ir *h = och_kl_use(c, no_pos, declare(c, b, "h", och_kl_convert(c, no_pos, f16, s)));
    och_kl_ir *u = och_kl_use(c, no_pos, declare(c, b, "u", och_kl_bitcast(c, no_pos, U32, s)));
    och_kl_ir *k = och_kl_use(c, no_pos, declare(c, b, "k", och_kl_convert(c, no_pos, I32, s)));
    och_kl_ir *h8 = och_kl_use(c, no_pos, declare(c, b, "h8", load_from(c, lds, OCH_KL_F16, 8, och_kl_binary(c, no_pos, '*', i, integer(c, 8)), 16)));
    och_kl_ir *h2 = och_kl_slice(c, no_pos, h8, 2, 2);
    och_kl_ir *l64 = och_kl_use(c, no_pos, declare(c, b, "l64", och_kl_convert(c, no_pos, u64, u)));
    /* arithmetic */
    keep(c, b, y, och_kl_binary(c, no_pos, '+', v4, och_kl_build(c, no_pos, f32x4, (och_kl_ir *[]){s}, 1)));
    keep(c, b, y, och_kl_binary(c, no_pos, '-', och_kl_unary(c, no_pos, '-', v4), och_kl_build(c, no_pos, f32x4, (och_kl_ir *[]){s, s, och_kl_real(c, no_pos, F32, 1.5), s}, 4)));
    keep(c, b, y, och_kl_binary(c, no_pos, '*', h8, och_kl_real(c, no_pos, f16x8, 0.1)));
    keep(c, b, y, och_kl_binary(c, no_pos, '/', h, och_kl_unary(c, no_pos, '-', h)));
    keep(c, b, y, och_kl_binary(c, no_pos, '/', s, och_kl_use(c, no_pos, eps)));
    och_kl_ir *uv = och_kl_use(c, no_pos, declare(c, b, "uv", load_from(c, w, OCH_KL_U32, 4, och_kl_convert(c, no_pos, I64, u), 4)));
    keep(c, b, y, och_kl_binary(c, no_pos, OCH_KL_OP_SHR, uv, och_kl_int(c, no_pos, u32x4, 4)));
    keep(c, b, y, och_kl_binary(c, no_pos, OCH_KL_OP_SHL, uv, uv));
    keep(c, b, y, och_kl_unary(c, no_pos, '~', och_kl_binary(c, no_pos, '&', uv, och_kl_int(c, no_pos, u32x4, 0x0f0f0f0f))));
    for (const char *op = "+-*/%&|^"; *op; op++) {
        keep(c, b, y, och_kl_binary(c, no_pos, *op, k, i));
        keep(c, b, y, och_kl_binary(c, no_pos, *op, l64, och_kl_convert(c, no_pos, u64, och_kl_use(c, no_pos, n))));
    }
    keep(c, b, y, och_kl_binary(c, no_pos, OCH_KL_OP_SHR, k, i));
    keep(c, b, y, och_kl_binary(c, no_pos, OCH_KL_OP_SHL, u, och_kl_convert(c, no_pos, U32, i)));
    for (int op = OCH_KL_OP_EQ; op <= OCH_KL_OP_GE; op++) {
        keep(c, b, y, och_kl_binary(c, no_pos, op, s, och_kl_use(c, no_pos, eps)));
        keep(c, b, y, och_kl_binary(c, no_pos, op, h, och_kl_unary(c, no_pos, '-', h)));
        keep(c, b, y, och_kl_select(c, no_pos, och_kl_binary(c, no_pos, op, k, i), v4, och_kl_real(c, no_pos, f32x4, -2)));
    }
    och_kl_ir *lt = och_kl_binary(c, no_pos, '<', k, i), *gt = och_kl_binary(c, no_pos, '>', u, och_kl_convert(c, no_pos, U32, i));
    keep(c, b, y, och_kl_unary(c, no_pos, '!', och_kl_binary(c, no_pos, OCH_KL_OP_AND, lt, och_kl_binary(c, no_pos, OCH_KL_OP_OR, gt, lt))));
    keep(c, b, y, och_kl_real(c, no_pos, F32, HUGE_VAL));
    /* vectors */
    keep(c, b, y, och_kl_slice(c, no_pos, h8, 4, 4));
    keep(c, b, y, och_kl_concat(c, no_pos, (och_kl_ir *[]){v4, v4, v4, v4}, 4));
    keep(c, b, y, och_kl_bitcast(c, no_pos, u32x4, h8));
    /* conversions */
    const och_kl_base storage[] = {OCH_KL_BF16, OCH_KL_FP8, OCH_KL_BF8, OCH_KL_I8, OCH_KL_U8, OCH_KL_I16, OCH_KL_U16};
    for (size_t t = 0; t < sizeof storage / sizeof storage[0]; t++) {
        och_kl_type one = {storage[t], 1}, eight = {storage[t], 8};
        och_kl_ir *index = och_kl_convert(c, no_pos, I64, four);
        keep(c, b, y, och_kl_convert(c, no_pos, F32, load_from(c, w, storage[t], 1, index, 1)));
        keep(c, b, y, och_kl_convert(c, no_pos, f32x8, load_from(c, w, storage[t], 8, index, 1)));
        keep(c, b, y, och_kl_convert(c, no_pos, f32x8, och_kl_convert(c, no_pos, eight, och_kl_concat(c, no_pos, (och_kl_ir *[]){v4, v4}, 2))));
        keep(c, b, y, och_kl_convert(c, no_pos, F32, och_kl_convert(c, no_pos, one, h)));
        keep(c, b, y, och_kl_convert(c, no_pos, f16x8, load_from(c, w, storage[t], 8, index, 8)));
    }
    /* calls */
    och_kl_ir *const floats[] = {s, h, v4, h8, k, u};
    for (int t = 0; t < 6; t++) {
        och_kl_ir *z = floats[t];
        keep(c, b, y, CALL(c, MIN, z->type, 0, z, z));
        keep(c, b, y, CALL(c, MAX, z->type, 0, z, z));
        if (t < 5) keep(c, b, y, CALL(c, ABS, z->type, 0, z));
        if (t < 4) keep(c, b, y, CALL(c, FMA, z->type, 0, z, z, z));
    }
    const och_kl_intrinsic unary[] = {OCH_KL_F_SQRT, OCH_KL_F_RCP, OCH_KL_F_RSQRT, OCH_KL_F_EXP2, OCH_KL_F_LOG2, OCH_KL_F_FLOOR, OCH_KL_F_CEIL,
                                      OCH_KL_F_ROUND, OCH_KL_F_TRUNC};
    for (size_t t = 0; t < sizeof unary / sizeof unary[0]; t++) keep(c, b, y, och_kl_call(c, no_pos, unary[t], F32, 0, &s, 1));
    keep(c, b, y, CALL(c, COPYSIGN, F32, 0, s, s));
    keep(c, b, y, CALL(c, ISNAN, BOOL, 0, s));
    keep(c, b, y, CALL(c, ISINF, BOOL, 0, s));
    keep(c, b, y, CALL(c, ISFINITE, BOOL, 0, s));
    keep(c, b, y, CALL(c, MULHI, I32, 0, k, k));
    keep(c, b, y, CALL(c, MULHI, U32, 0, u, u));
    keep(c, b, y, CALL(c, CLZ, I32, 0, u));
    keep(c, b, y, CALL(c, CTZ, U32, 0, k));
    keep(c, b, y, CALL(c, POPCOUNT, I32, 0, u));
    keep(c, b, y, CALL(c, BFE, U32, 0, u, integer(c, 4), integer(c, 8)));
    keep(c, b, y, CALL(c, SBFE, I32, 0, k, integer(c, 4), i));
    keep(c, b, y, CALL(c, PERM, U32, 0, u, u, och_kl_int(c, no_pos, U32, 0x07050301)));
    keep(c, b, y, CALL(c, DOT4_SS, I32, 0, u, u, k));
    keep(c, b, y, CALL(c, DOT4_US, I32, 0, u, u, k));
    keep(c, b, y, CALL(c, DOT4_UU, I32, 0, u, u, k));
    keep(c, b, y, CALL(c, DOT8_US4, I32, 0, u, u, k));
    keep(c, b, y, CALL(c, DOT2, F32, 0, h2, och_kl_build(c, no_pos, f16x2, (och_kl_ir *[]){h, h}, 2), s));
    keep(c, b, y, CALL(c, PACK4_I8, U32, 0, v4));
    keep(c, b, y, CALL(c, UNPACK4_I8, i32x4, 0, u));
    keep(c, b, y, CALL(c, UNPACK4_U8, u32x4, 0, u));
    int full = c->profile.wave;
    for (int lanes = 8; lanes <= full; lanes *= 2) {
        keep(c, b, y, CALL(c, WAVE_SUM, F32, lanes, s));
        keep(c, b, y, CALL(c, WAVE_SUM, v4->type, lanes, v4));
        keep(c, b, y, CALL(c, WAVE_SUM, I32, lanes, k));
        keep(c, b, y, CALL(c, WAVE_SUM, u64, lanes, l64));
        keep(c, b, y, CALL(c, WAVE_MAX, f16, lanes, h));
        keep(c, b, y, CALL(c, WAVE_MIN, U32, lanes, u));
        keep(c, b, y, CALL(c, WAVE_SCAN, I32, lanes, k));
        keep(c, b, y, CALL(c, SHUFFLE, F32, lanes, s, k));
        keep(c, b, y, CALL(c, BROADCAST, F32, lanes, s, r));
        for (int m = 1; m < lanes; m = m * 2 + 1) keep(c, b, y, CALL(c, SHUFFLE_XOR, F32, lanes, s, integer(c, m)));
        keep(c, b, y, CALL(c, SHUFFLE_XOR, F32, lanes, s, integer(c, lanes / 2)));
        keep(c, b, y, CALL(c, SHUFFLE_XOR, h8->type, lanes, h8, i));
    }
    keep(c, b, y, CALL(c, FIRST, u64, 0, l64));
    keep(c, b, y, CALL(c, FIRST, BOOL, 0, lt));
    keep(c, b, y, CALL(c, BALLOT, u64, 0, lt));
    keep(c, b, y, CALL0(c, WAVE_ID, I32, 0));
    for (int axis = 0; axis < 3; axis++) {
        keep(c, b, y, CALL0(c, GROUP_ID, I32, axis));
        keep(c, b, y, CALL0(c, GROUP_COUNT, I32, axis));
    }
    keep(c, b, y, CALL(c, PRESENT, BOOL, 0, och_kl_use(c, no_pos, x)));
    /* memory order */
    och_kl_var *const bases[] = {counter, flags, wide, sums};
    for (int scope = OCH_KL_SCOPE_WAVE; scope <= OCH_KL_SCOPE_SYSTEM; scope++) {
        och_kl_ins_new(c, b, OCH_KL_I_DO, no_pos)->value = CALL0(c, FENCE, och_kl_type_of(OCH_KL_VOID, 1), scope);
        for (int t = 0; t < 4; t++) {
            och_kl_type type = bases[t]->type;
            och_kl_ir *one = och_kl_convert(c, no_pos, type, u);
            for (int f = OCH_KL_F_ATOMIC_ADD; f <= OCH_KL_F_ATOMIC_STORE; f++) {
                if (t == 3 && f != OCH_KL_F_ATOMIC_ADD && f != OCH_KL_F_ATOMIC_EXCHANGE && f < OCH_KL_F_ATOMIC_LOAD) continue;
                och_kl_ir *args[2] = {one, one};
                int n_args = f == OCH_KL_F_ATOMIC_CAS ? 2 : f == OCH_KL_F_ATOMIC_LOAD ? 0 : 1;
                och_kl_ir *a = och_kl_call(c, no_pos, (och_kl_intrinsic)f, f == OCH_KL_F_ATOMIC_STORE ? och_kl_type_of(OCH_KL_VOID, 1) : type, scope, args, n_args);
                a->mem = (och_kl_mem){.base = bases[t], .elem = type.base, .lanes = 1, .index = och_kl_convert(c, no_pos, I64, i)};
                och_kl_ins_new(c, b, OCH_KL_I_DO, no_pos)->value = a;
            }
        }
    }
    /* instructions */
    och_kl_var *acc = och_kl_new_var(c, "acc", F32, OCH_KL_REG, (uint32_t[]){4, 2}, 2);
    och_kl_ins *ins = och_kl_ins_new(c, b, OCH_KL_I_DECLARE, no_pos);
    ins->var = acc;
    ins->value = s;
    och_kl_ins_new(c, b, OCH_KL_I_BARRIER, no_pos);
    ins = och_kl_ins_new(c, b, OCH_KL_I_FOR, no_pos);
    ins->var = och_kl_new_var(c, "j", I32, OCH_KL_REG, NULL, 0);
    ins->var->fixed = true;
    ins->var->uniformity = OCH_KL_U_LANE;
    ins->value = i;
    ins->limit = och_kl_convert(c, no_pos, I32, och_kl_use(c, no_pos, n));
    ins->step = integer(c, full);
    och_kl_ir *j = och_kl_convert(c, no_pos, I64, och_kl_binary(c, no_pos, '*', och_kl_use(c, no_pos, ins->var), integer(c, 4)));
    och_kl_mem stream = {.base = x, .elem = OCH_KL_F32, .lanes = 4, .align_bytes = 16, .streamed = true, .index = och_kl_binary(c, no_pos, '+', row, j)};
    och_kl_ir *streamed = och_kl_use(c, no_pos, declare(c, &ins->body, "streamed", och_kl_load(c, no_pos, &stream)));
    och_kl_ins *assign = och_kl_ins_new(c, &ins->body, OCH_KL_I_ASSIGN, no_pos);
    assign->var = acc;
    assign->at[0] = 3;
    assign->value = och_kl_binary(c, no_pos, '+', och_kl_use_at(c, no_pos, acc, assign->at), och_kl_elem(c, no_pos, streamed, 0));
    och_kl_ins *cond = och_kl_ins_new(c, &ins->body, OCH_KL_I_IF, no_pos);
    cond->value = lt;
    och_kl_ins_new(c, &cond->body, OCH_KL_I_CONTINUE, no_pos);
    och_kl_ins_new(c, &cond->other, OCH_KL_I_BREAK, no_pos);
    keep(c, b, y, och_kl_use_at(c, no_pos, acc, (uint32_t[3]){3, 0, 0}));
    store_to(c, b, lds, i, h, 2);
    store_to(c, b, lds, och_kl_binary(c, no_pos, '*', i, integer(c, 8)), h8, 16);
    ins = och_kl_ins_new(c, b, OCH_KL_I_WHILE, no_pos);
    ins->value = lt;
    och_kl_ins_new(c, &ins->body, OCH_KL_I_BREAK, no_pos);
    och_kl_ins_new(c, b, OCH_KL_I_RETURN, no_pos);
    assert_false(c->failed);
    return c;
}

static void compiles_everywhere(const char *clang, bool (*want)(const och_target *t)) {
    for (size_t t = 0; t < och_target_count(); t++) {
        const och_target *target = och_target_at(t);
        if (!want(target)) continue;
        for (int wave = 32; wave <= 64; wave *= 2) {
            if (!(target->waves & (wave == 32 ? OCH_WAVE32 : OCH_WAVE64))) continue;
            och_kl_code *c = everything(target->name, wave);
            char *text = emitted(c), *code = compile(clang, &c->profile, text);
            free(text);
            och_kl_code_destroy(c);
            if (!code) skip();
            assert_null(strstr(code, "scratch_"));
            free(code);
        }
    }
}

/* A target of each kind: the others differ in what the tables of tests/unit/test_kl_matrix.c look at. */
static bool is_one(const och_target *t, const char *const *names) {
    for (; *names; names++)
        if (strcmp(*names, t->name) == 0) return true;
    return false;
}
static bool for_22(const och_target *t) {
    return is_one(t, (const char *const[]){"gfx900", "gfx906", "gfx90a", "gfx942", "gfx950", "gfx1010", "gfx1030", "gfx1100", "gfx1201", "gfx1250", "sm_80", "sm_90", NULL});
}
static bool for_19(const och_target *t) { return is_one(t, (const char *const[]){"gfx942", "gfx1030", "gfx1151", "gfx1200", "sm_90", NULL}); }

static void everything_compiles(void **state) {
    (void)state;
    compiles_everywhere("clang-22", for_22);
}
static void everything_compiles_with_the_older(void **state) {
    (void)state;
    compiles_everywhere("clang-19", for_19);
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "--print") == 0) { /* target, wave */
        och_kl_code *c = everything(argv[2], atoi(argv[3]));
        char *text = emitted(c);
        puts(text);
        free(text);
        och_kl_code_destroy(c);
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(everything_compiles), cmocka_unit_test(everything_compiles_with_the_older)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
