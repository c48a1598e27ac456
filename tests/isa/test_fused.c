/* Instructions that run at once where they follow each other: what they compute against C, entered in their midst, watched one
 * at a time, and counted as what they are. */
#include "exec/observer.h"
#include "exec/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static uint64_t state = 0x9e3779b97f4a7c15ull;
static uint32_t rnd(void) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 32);
}

static uint64_t seen;
static bool after(sim_observer *o, sim_wave *w, const sim_uop *u) {
    (void)o, (void)w, (void)u;
    seen++;
    return true;
}

static sim_wave *start(sim_isa isa, unsigned lanes) {
    och_err e = {0};
    sim_wave *w;
    if (sim_wave_create(isa, lanes, 8, 0, 0, NULL, &w, &e) != OCH_OK) fail_msg("%s", e.message);
    return w;
}
/* Runs the words; how many instructions ran. watched: under an observer that looks at each. */
static uint64_t run(sim_wave *w, const uint32_t *words, size_t n_bytes, bool watched) {
    och_err e = {0};
    sim_program *p;
    sim_observer o = {.after = after}, *list[] = {&o};
    if (sim_program_create(w->isa, w->lanes, (const uint8_t *)words, n_bytes, 0x1000, 0, NULL, 0, &p, &e) != OCH_OK)
        fail_msg("%s", e.message);
    w->worker->observers = list;
    w->worker->n_observers = watched ? 1 : 0;
    seen = 0;
    if (sim_run_wave(p, w, 0, &e) != OCH_OK) fail_msg("%s", e.message);
    if (watched) assert_int_equal(seen, w->n_executed);
    sim_program_destroy(p);
    return w->n_executed;
}

/* (v2, mask) = v0 + v1; (v3, mask) = v2 + v5 + carries; the first is jumped over where SCC is 1. */
static const uint32_t add_w32[] = {0xbfa20002, 0xd7006a02, 0x00020300, 0xd5200503, 0x01aa0b02, 0xbfb00000};
static const uint32_t add_w64[] = {0xbf850001, 0x32040300, 0xd11c0603, 0x01aa0b02, 0xbf810000};
/* v5 = v0 + v1; v5 = v5 + v5 + carries. */
static const uint32_t twice_w32[] = {0xd7000405, 0x00020300, 0xd5207c05, 0x00120b05, 0xbfb00000};
static const uint32_t twice_w64[] = {0x320a0300, 0x380a0b05, 0xbf810000};

static void sums_of_64_bits(void **unused) {
    (void)unused;
    for (int round = 0; round < 800; round++) {
        const unsigned lanes = round & 1 ? 64 : 32;
        const bool over = round & 2, twice = round & 4, watched = round & 8, some = round & 16;
        sim_wave *w = start(lanes == 64 ? SIM_GFX90A : SIM_GFX1100, lanes);
        uint32_t *v = w->v, want2[64], want3[64], want5[64];
        for (unsigned i = 0; i < 8 * lanes; i++) v[i] = rnd() % 3 ? rnd() : 0u - (rnd() & 1);
        uint64_t exec = some ? ((uint64_t)rnd() << 32 | rnd()) & w->exec_full : w->exec_full, old = (uint64_t)rnd() << 32 | rnd();
        w->s[SIM_S_EXEC_LO] = (uint32_t)exec;
        w->s[SIM_S_EXEC_HI] = (uint32_t)(exec >> 32);
        w->s[SIM_S_VCC_LO] = (uint32_t)old;
        w->s[SIM_S_VCC_HI] = (uint32_t)(old >> 32);
        w->scc = over;
        uint64_t carries = over && !twice ? old : 0, out = 0;
        for (unsigned l = 0; l < lanes; l++) {
            const bool on = exec >> l & 1;
            want2[l] = v[2 * lanes + l], want3[l] = v[3 * lanes + l], want5[l] = v[5 * lanes + l];
            if (!on) continue;
            const uint64_t low = (uint64_t)v[l] + v[lanes + l];
            if (twice || !over) carries |= (low >> 32) << l;
            if (twice) {
                want5[l] = (uint32_t)(2 * (uint32_t)low + (uint32_t)(carries >> l & 1));
                out |= (uint64_t)((uint64_t)(uint32_t)low * 2 + (carries >> l & 1)) >> 32 << l;
                continue;
            }
            if (!over) want2[l] = (uint32_t)low;
            const uint64_t high = (uint64_t)want2[l] + v[5 * lanes + l] + (carries >> l & 1);
            want3[l] = (uint32_t)high;
            out |= (high >> 32) << l;
        }
        const uint64_t n = lanes == 32 ? twice ? run(w, twice_w32, sizeof twice_w32, watched) : run(w, add_w32, sizeof add_w32, watched)
                           : twice     ? run(w, twice_w64, sizeof twice_w64, watched)
                                       : run(w, add_w64, sizeof add_w64, watched);
        assert_int_equal(n, twice || over ? 3 : 4);
        assert_memory_equal(v + 2 * lanes, want2, 4 * lanes);
        assert_memory_equal(v + 3 * lanes, want3, 4 * lanes);
        assert_memory_equal(v + 5 * lanes, want5, 4 * lanes);
        const unsigned reg = lanes == 64 ? twice ? SIM_S_VCC_LO : 6 : 5;
        const uint64_t mask = (uint64_t)w->s[reg] | (lanes == 64 ? (uint64_t)w->s[reg + 1] << 32 : 0);
        if (lanes == 64 || !twice) assert_true(mask == out); /* wave32's second form has no place for them */
        if (lanes == 32) assert_int_equal(w->s[twice ? 4 : SIM_S_VCC_LO], (uint32_t)carries);
        else if (!twice) assert_true(SIM_VCC(w) == carries);
        sim_wave_destroy(w);
    }
}

/* s4 = 0; do v1 += 3 and leave where v1 > v0; until no lane is left. */
static const uint32_t leave_w32[] = {0xbe840080, 0x4a020283, 0x7c980101, 0x8c04046a, 0x917e047e, 0xbfa6fffb, 0xbfb00000};
static const uint32_t leave_w64[] = {0xbe840180, 0x68020283, 0x7d980101, 0x8784046a, 0x89fe047e, 0xbf89fffb, 0xbf810000};

static void lanes_leave_a_loop(void **unused) {
    (void)unused;
    for (int round = 0; round < 64; round++) {
        const unsigned lanes = round & 1 ? 64 : 32;
        sim_wave *w = start(lanes == 64 ? SIM_GFX90A : SIM_GFX1100, lanes);
        uint32_t want[64] = {0}, turns = 1;
        uint64_t exec = round & 4 ? ((uint64_t)rnd() << 32 | rnd() | 1) & w->exec_full : w->exec_full;
        w->s[SIM_S_EXEC_LO] = (uint32_t)exec;
        w->s[SIM_S_EXEC_HI] = (uint32_t)(exec >> 32);
        for (unsigned l = 0; l < lanes; l++) {
            w->v[l] = rnd() % 100;
            w->v[lanes + l] = want[l] = rnd() % 5;
            if (!(exec >> l & 1)) continue;
            uint32_t n = 0;
            do want[l] += 3, n++;
            while (want[l] <= w->v[l]);
            if (n > turns) turns = n;
        }
        assert_int_equal(run(w, lanes == 64 ? leave_w64 : leave_w32, sizeof leave_w32, round & 2), 2 + 5 * turns);
        assert_memory_equal(w->v + lanes, want, 4 * lanes);
        assert_true(SIM_EXEC(w) == 0);
        assert_int_equal(w->scc, 0);
        const uint64_t left = (uint64_t)w->s[4] | (lanes == 64 ? (uint64_t)w->s[5] << 32 : 0);
        assert_true(left == exec);
        sim_wave_destroy(w);
    }
}

static bool holds(unsigned op, uint32_t a, uint32_t b) { /* in the order of the opcodes */
    const int64_t x = op < 6 ? (int64_t)(int32_t)a : (int64_t)a, y = op < 6 ? (int64_t)(int32_t)b : (int64_t)b;
    switch (op % 6) {
    case 0: return x == y;
    case 1: return x != y;
    case 2: return x > y;
    case 3: return x >= y;
    case 4: return x < y;
    default: return x <= y;
    }
}

static void compares_and_branches(void **unused) {
    (void)unused;
    static const uint32_t numbers[] = {0, 1, 0xffffffff, 0x7fffffff, 0x80000000, 5};
    for (unsigned op = 0; op < 12; op++)
        for (int round = 0; round < 6 * 6 * 8; round++) {
            const uint32_t a = numbers[round % 6], b = numbers[round / 6 % 6];
            const bool on1 = round / 36 & 1, constant = round / 36 & 2, watched = round / 36 & 4;
            sim_wave *w = start(SIM_GFX1100, 32);
            w->s[0] = a;
            w->s[1] = b;
            const uint32_t cmp = 0xbf000000 | op << 16, branch = on1 ? 0xbfa20001 : 0xbfa10001; /* over s_mov_b32 s2, 7 */
            const uint32_t regs[] = {cmp | 1 << 8, branch, 0xbe820087, 0xbfb00000};
            const uint32_t literal[] = {cmp | 255 << 8, b, branch, 0xbe820087, 0xbfb00000};
            const bool is = holds(op, a, b), taken = is == on1;
            const uint64_t n = constant ? run(w, literal, sizeof literal, watched) : run(w, regs, sizeof regs, watched);
            assert_int_equal(n, taken ? 3 : 4);
            assert_int_equal(w->s[2], taken ? 0 : 7);
            assert_int_equal(w->scc, is);
            sim_wave_destroy(w);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_64_bits),
        cmocka_unit_test(lanes_leave_a_loop),
        cmocka_unit_test(compares_and_branches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
