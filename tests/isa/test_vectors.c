/* Instruction vectors: every line of tests/isa/vectors and of tests/isa/hand is one instruction on one wave. Their expected
 * results come from AMD's pseudocode, their bytes from LLVM's assembler (vectors/README.md).
 *
 *   test_vectors [FAMILY [MNEMONIC]]   one file, one instruction, all of its failures */
#include "exec/run.h"
#include "mem/space.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <inttypes.h>
#include <math.h>

#include "isa/vector_file.h"

enum { N_ROWS = 512, CODE_AT = 0x10000, SHOWN = 3, MAX_TALLY = 4096 };

static const struct {
    const char *name;
    sim_isa isa;
} isas[] = {{"gfx906", SIM_GFX906},   {"gfx908", SIM_GFX908},   {"gfx90a", SIM_GFX90A},   {"gfx942", SIM_GFX942},
            {"gfx950", SIM_GFX950},   {"gfx1030", SIM_GFX1030}, {"gfx1100", SIM_GFX1100}, {"gfx1151", SIM_GFX1150},
            {"gfx1201", SIM_GFX1200}, {"gfx1250", SIM_GFX1250}};

static const char *only_mnemonic;
static sim_space *space;
static uint64_t memory_addr;

static sim_isa isa_of(const char *name) {
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++)
        if (!strcmp(isas[i].name, name)) return isas[i].isa;
    fail_msg("a vector file names the target %s, which the runner does not know", name);
    return SIM_N_ISA;
}

/* ---- comparing ---- */

static bool is_nan_bits(uint64_t bits, unsigned ebits, unsigned mbits) {
    return (bits >> mbits & ((1u << ebits) - 1)) == (1u << ebits) - 1 && (bits & ((1ull << mbits) - 1));
}
/* Numbers in order, so that neighbours differ by 1. */
static int64_t ordered(uint64_t bits, unsigned width) {
    uint64_t sign = 1ull << (width - 1), m = bits & (sign - 1);
    return bits & sign ? -(int64_t)m : (int64_t)m;
}
static double as_double(uint64_t bits, unsigned ebits, unsigned mbits) {
    int e = (int)(bits >> mbits & ((1u << ebits) - 1)), bias = (1 << (ebits - 1)) - 1;
    double m = (double)(bits & ((1ull << mbits) - 1));
    double v = e ? ldexp(m + ldexp(1, (int)mbits), e - bias - (int)mbits) : ldexp(m, 1 - bias - (int)mbits);
    return bits >> (ebits + mbits) & 1 ? -v : v;
}

static bool same_float(uint64_t got, uint64_t want, char kind, const char *tolerance) {
    unsigned ebits = kind == 'd' ? 11 : kind == 'h' ? 5 : 8, mbits = kind == 'd' ? 52 : kind == 'f' ? 23 : kind == 'h' ? 10 : 7;
    if (got == want) return true;
    if (is_nan_bits(want, ebits, mbits)) return is_nan_bits(got, ebits, mbits);
    if (is_nan_bits(got, ebits, mbits)) return false;
    double limit = *tolerance ? strtod(tolerance + 1, NULL) : 0;
    if (*tolerance == 'u') {
        int64_t d = ordered(got, ebits + mbits + 1) - ordered(want, ebits + mbits + 1);
        return fabs((double)d) <= limit;
    }
    if (*tolerance == 'a') return fabs(as_double(got, ebits, mbits) - as_double(want, ebits, mbits)) <= ldexp(1, -(int)limit);
    return false;
}

static bool same(uint64_t got, uint64_t want, unsigned digits, const char *cls) {
    bool low = *cls == 'l';
    if (low) cls++;
    if (*cls == 'f' || *cls == 'd') return same_float(got, want, *cls, cls + 1);
    if (*cls == 'h' || *cls == 'b') {
        if (!same_float(got & 0xffff, want & 0xffff, *cls, cls + 1)) return false;
        return low || same_float(got >> 16 & 0xffff, want >> 16 & 0xffff, *cls, cls + 1);
    }
    if (low) return ((got ^ want) & 0xffff) == 0;
    (void)digits;
    return got == want;
}

/* ---- running ---- */

typedef struct tally {
    const char *format, *mnemonic;
    unsigned n, failed, shown;
} tally;

static void give_item(sim_wave *w, const item *it) {
    switch (it->what) {
    case 'm': w->mode = (uint32_t)it->value; break;
    case 'x': w->s[SIM_S_EXEC_LO] = (uint32_t)it->value, w->s[SIM_S_EXEC_HI] = (uint32_t)(it->value >> 32); break;
    case 'c': w->s[SIM_S_VCC_LO] = (uint32_t)it->value, w->s[SIM_S_VCC_HI] = (uint32_t)(it->value >> 32); break;
    case 'k': w->scc = (uint8_t)it->value; break;
    case 's': {
        uint64_t v = it->value + (it->address ? memory_addr : 0);
        w->s[it->reg] = (uint32_t)v;
        if (it->address) w->s[it->reg + 1] = (uint32_t)(v >> 32);
        break;
    }
    case 'v': {
        const pool *p = it->pool;
        assert_non_null(p);
        for (unsigned lane = 0; lane < w->lanes; lane++)
            for (unsigned d = 0; d < (it->address ? 2 : p->digits / 8); d++) {
                const char *h = p->hex + (size_t)lane * p->digits;
                uint32_t v;
                if (it->address) /* 32-bit offsets from the memory's address */
                    v = (uint32_t)((hex_value(h, p->digits) + memory_addr) >> 32 * d);
                else
                    v = (uint32_t)hex_value(h + p->digits - 8 * (d + 1), 8);
                w->v[(size_t)(it->reg + d) * w->lanes + lane] = v;
            }
        break;
    }
    case 'L':
    case 'G': {
        uint32_t *mem = it->what == 'L' ? (uint32_t *)(void *)w->group->lds
                                        : sim_space_host(space, memory_addr, MEMORY_DWORDS * 4);
        for (unsigned i = 0; i < MEMORY_DWORDS; i++) mem[i] = (uint32_t)hex_value(it->pool->hex + (size_t)i * 8, 8);
        break;
    }
    default: fail_msg("a vector has state of unknown kind '%c'", it->what);
    }
}

static void show(const vector *v, const char *target, const sim_wave *w, const item *it, unsigned lane, uint64_t got,
                 uint64_t want) {
    printf("    %s wave%u %s, code ", target, v->wave, v->mnemonic);
    for (unsigned i = 0; i < v->n_bytes; i++) printf("%02x", v->code[i]);
    printf(": %c%u", it->what, it->reg);
    if (it->what == 'v' || it->what == 'L' || it->what == 'G') printf(" %s %u", it->what == 'v' ? "lane" : "dword", lane);
    printf(" (%s): got %" PRIx64 ", expected %" PRIx64 "; from", it->cls, got, want);
    for (unsigned i = 0; i < v->n_in; i++) {
        const item *in = &v->in[i];
        if (in->what == 'v')
            printf(" v%u=%.*s", in->reg, (int)in->pool->digits, in->pool->hex + (size_t)lane % 64 * in->pool->digits);
        else if (!in->pool)
            printf(" %c%.0u=%" PRIx64, in->what, in->reg, in->value);
    }
    printf("\n");
    (void)w;
}

/* True if everything is as expected; else the first difference is shown when asked for. */
static bool check_item(const vector *v, const char *target, const sim_wave *w, const item *it, bool verbose) {
    uint64_t got = 0;
    switch (it->what) {
    case 'x': got = SIM_EXEC(w); break;
    case 'c': got = SIM_VCC(w); break;
    case 'k': got = w->scc; break;
    case 's': got = w->s[it->reg]; break;
    case 'v': {
        unsigned digits = (unsigned)(strlen(it->hex) / w->lanes), n = digits / 8;
        for (unsigned lane = 0; lane < w->lanes; lane++) {
            uint64_t g = 0, want = hex_value(it->hex + (size_t)lane * digits, digits);
            for (unsigned d = 0; d < n; d++) g |= (uint64_t)w->v[(size_t)(it->reg + d) * w->lanes + lane] << 32 * d;
            if (same(g, want, digits, it->cls)) continue;
            if (verbose) show(v, target, w, it, lane, g, want);
            return false;
        }
        return true;
    }
    case 'L':
    case 'G': {
        const uint32_t *mem = it->what == 'L' ? (const uint32_t *)(void *)w->group->lds
                                              : sim_space_host(space, memory_addr, MEMORY_DWORDS * 4);
        for (unsigned i = 0; i < MEMORY_DWORDS; i++) {
            uint64_t want = hex_value(it->hex + (size_t)i * 8, 8);
            if (same(mem[i], want, 8, it->cls)) continue;
            if (verbose) show(v, target, w, it, i, mem[i], want);
            return false;
        }
        return true;
    }
    default: fail_msg("a vector expects something of unknown kind '%c'", it->what);
    }
    if (it->what == 'x' || it->what == 'c') got &= w->exec_full;
    if (same(got, it->value, 8, it->cls)) return true;
    if (verbose) show(v, target, w, it, 0, got, it->value);
    return false;
}

static bool run_vector(const vector *v, const char *target, bool verbose) {
    sim_isa isa = isa_of(target);
    uint8_t code[160];
    memcpy(code, v->code, v->n_bytes);
    uint32_t end = SIM_BIT(isa) & (SIM_GFX11 | SIM_BIT(SIM_GFX1200) | SIM_BIT(SIM_GFX1250)) ? 0xbfb00000 : 0xbf810000;
    memcpy(code + v->n_bytes, &end, 4);
    sim_program *p = NULL;
    sim_wave *w = NULL;
    och_err err = {0};
    bool good = false;
    if (sim_program_create(isa, v->wave, code, v->n_bytes + 4, CODE_AT, 0, NULL, 0, &p, &err) ||
        sim_wave_create(isa, v->wave, N_ROWS, MEMORY_DWORDS * 4, 256, space, &w, &err)) {
        if (verbose) printf("    %s wave%u %s: %s\n", target, v->wave, v->mnemonic, err.message);
        goto done;
    }
    for (unsigned i = 0; i < v->n_in; i++) give_item(w, &v->in[i]);
    sim_wave_mode_changed(w);
    if (sim_run_wave(p, w, 100, &err)) {
        if (verbose) printf("    %s wave%u %s: %s\n", target, v->wave, v->mnemonic, err.message);
        goto done;
    }
    good = true;
    for (unsigned i = 0; i < v->n_out && good; i++) good = check_item(v, target, w, &v->out[i], verbose);
done:
    sim_wave_destroy(w);
    sim_program_destroy(p);
    return good;
}

static unsigned run_file(const char *path) {
    static vector v;
    vector_file f;
    if (!vector_file_open(&f, path)) fail_msg("%s cannot be read", path);
    tally *tallies = calloc(MAX_TARGETS * (size_t)MAX_TALLY, sizeof *tallies);
    unsigned n_tally = 0, failures = 0;
    const char *last = NULL;
    assert_non_null(tallies);
    while (vector_file_next(&f, &v)) {
        if (only_mnemonic && strcmp(only_mnemonic, v.mnemonic)) continue;
        if (v.mnemonic != last) {
            last = v.mnemonic;
            assert_true(++n_tally < MAX_TALLY);
        }
        for (unsigned t = 0; t < f.n_targets; t++) {
            if (!(v.targets >> t & 1)) continue;
            tally *y = &tallies[t * (size_t)MAX_TALLY + n_tally];
            y->format = v.format;
            y->mnemonic = v.mnemonic;
            y->n++;
            if (run_vector(&v, f.target[t], y->shown < SHOWN || only_mnemonic)) continue;
            y->shown++;
            y->failed++;
        }
    }
    for (unsigned t = 0; t < f.n_targets; t++) {
        unsigned n_inst = 0, n = 0, bad = 0, bad_inst = 0;
        for (unsigned i = 1; i <= n_tally; i++) {
            const tally *y = &tallies[t * (size_t)MAX_TALLY + i];
            n_inst += y->n > 0;
            n += y->n;
            bad += y->failed;
            bad_inst += y->failed > 0;
        }
        printf("%s: %u instructions, %u vectors, %u of %u instructions fail\n", f.target[t], n_inst, n, bad, bad_inst);
        for (unsigned i = 1; i <= n_tally; i++) {
            const tally *y = &tallies[t * (size_t)MAX_TALLY + i];
            if (y->failed) printf("  %s %s: %u of %u\n", y->format, y->mnemonic, y->failed, y->n);
        }
        failures += bad;
    }
    free(tallies);
    vector_file_close(&f);
    assert_true(n_tally > 0 || only_mnemonic); /* a file without vectors tests nothing */
    return failures;
}

static void run_named(const char *folder, const char *family) {
    char path[512];
    snprintf(path, sizeof path, "%s/isa/%s/%s.txt.zst", OCHRE_TEST_DIR, folder, family);
    assert_int_equal(run_file(path), 0);
}

static void gfx9(void **s) { (void)s; run_named("vectors", "gfx9"); }
static void gfx10(void **s) { (void)s; run_named("vectors", "gfx10"); }
static void gfx11(void **s) { (void)s; run_named("vectors", "gfx11"); }
static void gfx12(void **s) { (void)s; run_named("vectors", "gfx12"); }

/* Cases worked by hand: hand/NAME.case, made by tools/isa/make_hand.py. */
static void hand(void **s) {
    (void)s;
    static const char *const names[] = {"rounding", "scalar", "lanes", "scratch", "division"};
    unsigned failures = 0;
    for (size_t i = 0; i < 2 * sizeof names / sizeof names[0]; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/isa/hand/%s%s.txt.zst", OCHRE_TEST_DIR, names[i / 2], i % 2 ? "_gfx12" : "");
        printf("%s%s\n", names[i / 2], i % 2 ? ", gfx12" : "");
        failures += run_file(path);
    }
    assert_int_equal(failures, 0);
}

static int set_up(void **s) {
    (void)s;
    och_err err;
    if (sim_space_create(&space, &err)) return -1;
    return sim_space_alloc(space, MEMORY_DWORDS * 4, 4096, SIM_MEM_DEVICE, 0, true, &memory_addr, &err) ? -1 : 0;
}
static int tear_down(void **s) {
    (void)s;
    sim_space_destroy(space);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest all[] = {cmocka_unit_test(gfx9), cmocka_unit_test(gfx10), cmocka_unit_test(gfx11),
                                     cmocka_unit_test(gfx12), cmocka_unit_test(hand)};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    if (argc > 2) only_mnemonic = argv[2];
    return cmocka_run_group_tests(all, set_up, tear_down);
}
