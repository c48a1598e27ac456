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
                      i32x4 = {OCH_KL_I32, 4}, u32x2 = {OCH_KL_U32, 2}, u32x4 = {OCH_KL_U32, 4}, f32x8 = {OCH_KL_F32, 8};
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
    och_kl_ir *u4 = och_kl_build(c, no_pos, u32x4, (och_kl_ir *[]){u, u, u, u}, 4), *u2 = och_kl_build(c, no_pos, u32x2, (och_kl_ir *[]){u, u}, 2);
    keep(c, b, y, CALL(c, MMA_SS, i32x4, 0, u4, u2, och_kl_build(c, no_pos, i32x4, (och_kl_ir *[]){k, k, k, k}, 4)));
    keep(c, b, y, CALL(c, MMA_US, i32x4, 0, u4, u2, och_kl_build(c, no_pos, i32x4, (och_kl_ir *[]){k, k, k, k}, 4)));
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
    och_kl_profile p;
    for (size_t at = 0; next_profile(&at, &p);) {
        if (!want(p.target.target)) continue;
        och_kl_code *c = everything(p.target.name, p.wave);
        char *text = emitted(c), *code = compile(clang, &c->profile, text);
        free(text);
        och_kl_code_destroy(c);
        if (!code) skip();
        free(code);
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

/* ---- texts that are kept ---- */

static const struct {
    const char *kernel, *target;
    int wave;
    const char *param, *value; /* one that is bound; NULL: none */
} goldens[] = {
    {"scale", "gfx1151", 32, NULL, NULL},      {"scale", "gfx942", 64, "T", "bf16"}, {"scale", "sm_90", 32, NULL, NULL},
    {"dots", "gfx1010", 32, NULL, NULL},       {"dots", "gfx906", 64, NULL, NULL},   {"dots", "gfx1151", 32, NULL, NULL},
    {"dots", "gfx1151", 64, "ROWS", "1"},      {"dots", "sm_80", 32, NULL, NULL},    {"product", "gfx1151", 32, NULL, NULL},
    {"product", "gfx1201", 64, "T", "bf16"},   {"product", "gfx90a", 64, NULL, NULL}, {"product", "gfx1030", 32, NULL, NULL},
    {"product", "sm_90", 32, "T", "bf16"},     {"count", "gfx1100", 32, NULL, NULL}, {"count", "sm_90", 32, NULL, NULL},
    {"staged", "sm_90", 32, NULL, NULL},       {"staged", "gfx942", 64, NULL, NULL},
};
#define N_GOLDENS (sizeof goldens / sizeof goldens[0])

static char *read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = calloc(1, 1 << 18);
    size_t n = fread(text, 1, (1 << 18) - 1, f);
    text[n] = 0;
    fclose(f);
    return text;
}

static char *text_of(const char *kernel, const char *target, int wave, const char *param, const char *value, char path[512], och_kl_profile *p) {
    och_err err = {0};
    och_strbuf diag = {0};
    och_kl_unit *u;
    och_kl_code *c;
    snprintf(path, 512, "%s/golden/kl/kernels.ok", OCHRE_TEST_DIR);
    char *source = read_text(path);
    assert_non_null(source);
    if (och_kl_parse("kernels.ok", source, strlen(source), NULL, &u, &diag, &err) != OCH_OK) fail_msg("%s", och_strbuf_str(&diag));
    assert_int_equal(och_kl_profile_init(p, target, wave, &err), OCH_OK);
    och_kl_binding b = {param, value};
    if (och_kl_specialise(u, kernel, &b, param ? 1 : 0, p, &c, &diag, &err) != OCH_OK)
        fail_msg("%s%s", och_strbuf_str(&diag), err.message);
    char *text = emitted(c);
    och_kl_code_destroy(c);
    och_kl_unit_destroy(u);
    och_strbuf_deinit(&diag);
    free(source);
    snprintf(path, 512, "%s/golden/kl/%s-%s-w%d.txt", OCHRE_TEST_DIR, kernel, target, wave);
    return text;
}
static char *golden_text(size_t i, char path[512], och_kl_profile *p) {
    return text_of(goldens[i].kernel, goldens[i].target, goldens[i].wave, goldens[i].param, goldens[i].value, path, p);
}

static void texts_are_as_they_were(void **state) {
    (void)state;
    for (size_t i = 0; i < N_GOLDENS; i++) {
        char path[512];
        och_kl_profile p;
        char *text = golden_text(i, path, &p), *want = read_text(path);
        if (!want) fail_msg("%s: cannot be read", path);
        if (strcmp(text, want)) {
            int line = 1;
            const char *a = text, *b = want;
            for (; *a == *b; a++, b++) line += *a == '\n';
            while (a > text && a[-1] != '\n') a--;
            while (b > want && b[-1] != '\n') b--;
            fail_msg("%s:%d:\n  expected %.*s\n  found    %.*s\nwhat a change should do to the text is seen by: unit_test_kl_emit --write, git diff", path, line,
                     (int)strcspn(b, "\n"), b, (int)strcspn(a, "\n"), a);
        }
        free(text);
        free(want);
    }
}

/* Groups of copies, as the PTX ISA counts them ("cp.async.wait_group"): what a lane has committed, and how many of those had arrived when
 * the workgroup last met. */
typedef struct groups {
    int open, committed, waited, met; /* open: copies that belong to no group yet */
} groups;

/* The first reading of LDS in the turn t needs the group of step t; false: there it had not arrived. */
static bool follow(groups *g, const char *text, const char *end, int t) {
    static const char *const words[] = {"och_copy_async(", "och_copy_commit(", "och_copy_wait<", "och_barrier(", "och_load_matrix("};
    for (const char *p = text; p < end;) {
        int which = -1;
        const char *first = end;
        for (int w = 0; w < 5; w++) {
            const char *at = strstr(p, words[w]);
            if (at && at < first) first = at, which = w;
        }
        if (which < 0) break;
        p = first + strlen(words[which]);
        if (which == 0) g->open++;
        if (which == 1) g->committed++, g->open = 0;
        if (which == 2) g->waited = g->committed - atoi(p);
        if (which == 3) g->met = g->waited;
        if (which == 4 && (g->met < t + 1 || g->open)) return false;
    }
    return true;
}

/* Whether every turn reads what has arrived; `less`: with a wait that leaves so many groups more on their way. */
static bool arrives(const char *depth, int less) {
    char path[512];
    och_kl_profile p;
    char *text = text_of("staged", "sm_90", 32, "DEPTH", depth, path, &p);
    char *kernel = strstr(text, "extern \"C\"");
    assert_non_null(kernel);
    for (char *w = kernel; less && (w = strstr(w, "och_copy_wait<")); w++) w[14] = (char)(w[14] + less);
    char *loop = strstr(kernel, "for (i32 kk");
    assert_non_null(loop);
    char *end = strstr(loop, "slot = now ==");
    assert_non_null(end);
    assert_true(strstr(kernel, "och_copy_async(") < loop && strstr(loop, "och_copy_async(") < end);
    groups g = {0};
    bool ok = follow(&g, kernel, loop, 0);
    for (int t = 0; t < 9 && ok; t++) ok = follow(&g, loop, end, t);
    free(text);
    return ok;
}

static void copies_have_arrived(void **state) {
    (void)state;
    static const char *const depths[] = {"2", "3", "4"};
    for (int i = 0; i < 3; i++) {
        assert_true(arrives(depths[i], 0));
        assert_false(arrives(depths[i], 1)); /* one group too few is waited for */
    }
}

static void kept_texts_compile(void **state) {
    (void)state;
    for (size_t i = 0; i < N_GOLDENS; i++) {
        char path[512];
        och_kl_profile p;
        char *text = golden_text(i, path, &p), *code = compile_any(&p, text);
        if (!code) skip();
        assert_non_null(strstr(code, goldens[i].kernel));
        /* Arrays of registers are registers. */
        bool amd = p.target.target->vendor == OCH_VENDOR_AMD;
        if (amd) assert_non_null(strstr(code, ".private_segment_fixed_size: 0\n"));
        else assert_null(strstr(code, "__local_depot"));
        if (strcmp(goldens[i].kernel, "dots") == 0 && amd) { /* what a decode kernel lives on */
            assert_non_null(strstr(code, "_load_dwordx4") ? strstr(code, "_load_dwordx4") : strstr(code, "_load_b128"));
            if (p.target.target->ops & OCH_DOT4_IU8) assert_non_null(strstr(code, "v_dot4_i32_iu8"));
            else if (p.target.target->ops & OCH_DOT4_I8) assert_non_null(strstr(code, "v_dot4"));
        }
        free(code);
        free(text);
    }
}

/* The compiler speaks of the kernel's own file and line. */
static void errors_are_mapped_back(void **state) {
    (void)state;
    static const och_kl_file file = {.name = "my.ok"};
    och_kl_code *c = code_for("gfx1151", 32, 1);
    och_kl_var *y = parameter(c, "y", OCH_KL_F32, true, false);
    och_kl_ins *i = och_kl_ins_new(c, &c->body, OCH_KL_I_STORE, (och_kl_pos){.file = &file, .line = 41, .column = 1, .length = 1});
    i->mem = (och_kl_mem){.base = y, .elem = OCH_KL_F32, .lanes = 1, .index = och_kl_int(c, no_pos, I64, 0)};
    i->value = och_kl_real(c, no_pos, F32, 0.5);
    i = och_kl_ins_new(c, &c->body, OCH_KL_I_RETURN, (och_kl_pos){.file = &file, .line = 42, .column = 1, .length = 1});
    assert_non_null(i);
    char *text = emitted(c);
    assert_non_null(strstr(text, "#line 41 \"my.ok\"\n    och_put<f32, 4>((u8 *)y, 0.5f);\n    return;\n")); /* 42 is where it counts by itself */
    free(text);
    och_kl_code_destroy(c);
}

/* Names that C++ has, names of ours, two of one name. */
static void names_stay_apart(void **state) {
    (void)state;
    och_kl_code *c = code_for("gfx1151", 32, 1);
    och_kl_var *y = parameter(c, "class", OCH_KL_F32, true, false);
    och_kl_var *a = declare(c, &c->body, "x", och_kl_real(c, no_pos, F32, 1)), *b = declare(c, &c->body, "x", och_kl_real(c, no_pos, F32, 2));
    och_kl_var *d = declare(c, &c->body, "och_get", och_kl_real(c, no_pos, F32, 3)), *e = declare(c, &c->body, "a__b", och_kl_real(c, no_pos, F32, 4));
    och_kl_ir *sum = och_kl_binary(c, no_pos, '+', och_kl_use(c, no_pos, a), och_kl_use(c, no_pos, b));
    sum = och_kl_binary(c, no_pos, '-', sum, och_kl_binary(c, no_pos, '-', och_kl_use(c, no_pos, d), och_kl_use(c, no_pos, e)));
    store_to(c, &c->body, y, och_kl_int(c, no_pos, I64, 3), sum, 4);
    char *text = emitted(c);
    assert_non_null(strstr(text, "class_0 + 12, x + x_2 - (v_och_get - v_a_b));"));
    free(text);
    och_kl_code_destroy(c);
}

/* Arguments that a signature puts elsewhere than C does are ours to find, not the board's. */
static void arguments_must_lie_where_c_puts_them(void **state) {
    (void)state;
    och_kl_code *c = code_for("gfx1151", 32, 1);
    parameter(c, "n", OCH_KL_I32, false, true);
    parameter(c, "y", OCH_KL_F32, true, false)->offset = 4;
    och_strbuf text = {0};
    och_err err = {0};
    assert_int_equal(och_kl_emit(c, &text, &err), OCH_INTERNAL);
    och_strbuf_deinit(&text);
    och_kl_code_destroy(c);
}

static int64_t folded(och_kl_code *c, int op, och_kl_type t, int64_t a, int64_t b) {
    int64_t v;
    assert_true(och_kl_is_int(och_kl_binary(c, no_pos, op, och_kl_int(c, no_pos, t, a), och_kl_int(c, no_pos, t, b)), &v));
    return v;
}

static void constants_fold_as_the_target_computes(void **state) {
    (void)state;
    och_kl_code *c = code_for("gfx1151", 32, 1);
    const och_kl_type u64 = {OCH_KL_U64, 1}, f16 = {OCH_KL_F16, 1};
    assert_int_equal(folded(c, '+', I32, INT32_MAX, 1), INT32_MIN);
    assert_int_equal(folded(c, '*', U32, 0x10001, 0x10001), 0x20001);
    assert_int_equal(folded(c, '/', I32, INT32_MIN, -1), INT32_MIN);
    assert_int_equal(folded(c, '/', I32, -7, 2), -3);
    assert_int_equal(folded(c, '%', I32, -7, 2), -1);
    assert_int_equal(folded(c, '/', U32, -7, 2), 0x7ffffffc);
    assert_int_equal(folded(c, OCH_KL_OP_SHL, I32, 1, 33), 2);
    assert_int_equal(folded(c, OCH_KL_OP_SHR, I32, -8, 1), -4);
    assert_int_equal(folded(c, OCH_KL_OP_SHR, U32, -8, 1), 0x7ffffffc);
    assert_int_equal(folded(c, '<', u64, -1, 1), 0);
    assert_int_equal(folded(c, '<', I64, -1, 1), 1);
    /* a division by zero is left to run */
    assert_int_equal(och_kl_binary(c, no_pos, '/', integer(c, 1), integer(c, 0))->kind, OCH_KL_X_BINARY);
    /* 16777217 has no float; 2049 lies between two halves, the even one is below; just above half way goes up */
    assert_true(och_kl_convert(c, no_pos, F32, integer(c, 16777217))->real == 16777216.0);
    assert_true(och_kl_real(c, no_pos, f16, 2049)->real == 2048);
    assert_true(och_kl_real(c, no_pos, f16, 2049.0000001)->real == 2050);
    assert_true(och_kl_binary(c, no_pos, '+', och_kl_real(c, no_pos, F32, 0.1), och_kl_real(c, no_pos, F32, 0.2))->real == (double)(0.1f + 0.2f));
    /* out of range is the target's to say */
    assert_int_equal(och_kl_convert(c, no_pos, I32, och_kl_real(c, no_pos, F32, 3e9))->kind, OCH_KL_X_CONVERT);
    /* x * 0 with an effect in x stays; without, it goes; floats keep their zeros */
    och_kl_ir *lane = CALL0(c, LANE, I32, 0), *sum = CALL(c, WAVE_SUM, I32, 32, lane);
    int64_t v;
    assert_true(och_kl_is_int(och_kl_binary(c, no_pos, '*', lane, integer(c, 0)), &v) && v == 0);
    assert_false(och_kl_is_int(och_kl_binary(c, no_pos, '*', sum, integer(c, 0)), &v));
    och_kl_ir *f = och_kl_convert(c, no_pos, F32, lane);
    assert_int_equal(och_kl_binary(c, no_pos, '+', f, och_kl_real(c, no_pos, F32, 0))->kind, OCH_KL_X_BINARY);
    assert_true(och_kl_binary(c, no_pos, '+', lane, integer(c, 0)) == lane);
    assert_int_equal(sum->uniformity, OCH_KL_U_WAVE);
    assert_int_equal(CALL(c, WAVE_SUM, I32, 16, lane)->uniformity, OCH_KL_U_LANE);
    och_kl_code_destroy(c);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--write") == 0) {
        for (size_t i = 0; i < N_GOLDENS; i++) {
            char path[512];
            och_kl_profile p;
            char *text = golden_text(i, path, &p);
            FILE *f = fopen(path, "wb");
            if (!f || fputs(text, f) < 0 || fclose(f)) return 1;
            free(text);
        }
        return 0;
    }
    if (argc == 4 && strcmp(argv[1], "--print") == 0) { /* target, wave */
        och_kl_code *c = everything(argv[2], atoi(argv[3]));
        char *text = emitted(c);
        puts(text);
        free(text);
        och_kl_code_destroy(c);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_fold_as_the_target_computes), cmocka_unit_test(errors_are_mapped_back),
        cmocka_unit_test(names_stay_apart),                      cmocka_unit_test(arguments_must_lie_where_c_puts_them),
        cmocka_unit_test(texts_are_as_they_were),                cmocka_unit_test(kept_texts_compile),
        cmocka_unit_test(copies_have_arrived),
        cmocka_unit_test(everything_compiles),                   cmocka_unit_test(everything_compiles_with_the_older),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
