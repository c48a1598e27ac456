/* Instruction words of any content, run: whatever they say, the host survives. The first byte picks the instruction set, the
 * second the wave size and how it is launched, two more the registers; the rest are words. Those that have no meaning are
 * skipped and branches led to instructions that are kept, so that what remains is a program. It runs as a lone wave, on
 * through its faults, with registers, LDS and scratch that are allocations of their own; then as a workgroup of two waves. */
#define FUZZ_ISA "generic" /* the lane functions that are instrumented, when the environment does not say otherwise */
#include "fuzz_sim.h"

#include "base/size.h"
#include "exec/launch.h"
#include "exec/run.h"

enum { MAX_INST = 160, MAX_WORDS = MAX_INST * 6, LDS_BYTES = 512, SCRATCH_BYTES = 64, MAX_FAULTS = 400 };
enum { WIDE = 1, WATCHED = 2, PARTIAL = 4, BOUNDED_SCRATCH = 8, MODE_SHIFT = 4 };
/* Where code stands: an address that is no allocation. */
#define CODE_ADDR 0x7f0000000000ull

static const sim_isa isas[] = {SIM_GFX906,  SIM_GFX908,  SIM_GFX90A,  SIM_GFX942, SIM_GFX950,
                               SIM_GFX1030, SIM_GFX1100, SIM_GFX1150, SIM_GFX1200};

static uint32_t next_random(uint32_t *x) {
    *x ^= *x << 13;
    *x ^= *x >> 17;
    return *x ^= *x << 5;
}

static uint64_t buffer_addr(uint32_t r) {
    static const int32_t at[] = {0, 4, 64, 256, FUZZ_BUFFER_BYTES - 4, FUZZ_BUFFER_BYTES - 16, FUZZ_BUFFER_BYTES - 1, -4};
    return (uint64_t)(uintptr_t)fuzz_buffers[r % FUZZ_N_BUFFERS] + (uint64_t)(int64_t)at[r / 4 % OCH_COUNT(at)];
}

/* A register's value: numbers at the edges of things, or anything. */
static uint32_t value(uint32_t *x) {
    static const uint32_t edge[] = {0,          1,          2,          3,          4,          15,         16,         31,
                                    32,         63,         64,         127,        128,        255,        256,        LDS_BYTES - 4,
                                    0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffc, 0xffff,     0x10000,    0x3f800000, 0x7f800000,
                                    0x7fc00000, 0x00000001, 0x7c007c00, 0xbf800000, 0x4f000000, 0x80008000, 0x00800000, SCRATCH_BYTES - 4};
    uint32_t r = next_random(x);
    return r & 1 ? edge[r >> 1 & 31] : next_random(x);
}

static void put64(uint32_t *to, uint64_t v) {
    to[0] = (uint32_t)v;
    to[1] = (uint32_t)(v >> 32);
}

/* Addresses, a buffer resource, an image resource and a sampler in the low scalar registers. */
static void pointers(uint32_t *s, uint32_t *x, sim_isa isa) {
    put64(s, buffer_addr(next_random(x)));
    put64(s + 2, buffer_addr(next_random(x)));
    uint64_t base = (uint64_t)(uintptr_t)fuzz_buffers[0];
    bool gcn = SIM_BIT(isa) & SIM_GCN;
    s[4] = (uint32_t)base; /* a buffer: its format field holds 32_FLOAT or what chance gives */
    s[5] = (uint32_t)(base >> 32) | (next_random(x) & 0xffff0000u & (next_random(x) & 1 ? 0xffffffffu : 0));
    s[6] = next_random(x) & 1 ? FUZZ_BUFFER_BYTES : value(x);
    s[7] = next_random(x) & 1 ? (gcn ? 0x27000u : 0x31016facu) : next_random(x);
    s[8] = (uint32_t)(base >> 8); /* an image: a few texels each way */
    s[9] = (uint32_t)(base >> 40) | (next_random(x) & 0xfff00000u);
    s[10] = (next_random(x) & 15) | (next_random(x) & 15) << 14;
    s[11] = (next_random(x) & 0x0fffffffu) | (8 + next_random(x) % 8) << 28;
    for (int i = 12; i < 16; i++) s[i] = next_random(x) & 1 ? 0 : value(x);
    for (int i = 16; i < 20; i++) s[i] = next_random(x);
}

static void set_registers(sim_wave *w, uint32_t seed) {
    uint32_t x = seed * 2654435761u | 1;
    for (uint32_t i = 0; i < SIM_S_EXEC_LO; i++) w->s[i] = value(&x);
    w->s[SIM_S_NULL] = 0;
    pointers(w->s, &x, w->isa);
    for (uint32_t r = 0; r < w->n_vgprs; r++) {
        uint32_t kind = next_random(&x) % 4, same = value(&x);
        for (uint32_t l = 0; l < w->lanes; l++)
            w->v[r * w->lanes + l] = kind == 0 ? l * 4 : kind == 1 ? same : kind == 2 ? next_random(&x) : value(&x);
    }
    /* Pairs that address memory, LDS through its aperture, and scratch through its own. */
    for (uint32_t r = 0; r + 1 < w->n_vgprs && r < 12; r += 2)
        for (uint32_t l = 0; l < w->lanes; l++) {
            uint64_t a = r % 6 == 0   ? buffer_addr(seed + r) + 4 * (l % 8)
                         : r % 6 == 2 ? SIM_SHARED_BASE + (seed & 255) + 4 * l
                                      : SIM_PRIVATE_BASE + (seed & 31);
            w->v[r * w->lanes + l] = (uint32_t)a;
            w->v[(r + 1) * w->lanes + l] = (uint32_t)(a >> 32);
        }
}

static bool is_branch(const sim_inst *i) {
    return !strncmp(i->meaning, "S_CBRANCH_", 10) || !strcmp(i->meaning, "S_BRANCH") || !strcmp(i->meaning, "S_CALL_B64");
}

static uint32_t end_word(sim_isa isa) { return isa >= SIM_GFX1100 ? 0xbfb00000u : 0xbf810000u; }

typedef struct made {
    uint32_t words[MAX_WORDS + 1];
    size_t n_words;
    struct {
        uint32_t at;
        bool branch;
    } inst[MAX_INST + 1];
    size_t n_inst;
} made;

/* Whether the simulator models the instruction: its program of one. */
static bool has_meaning(sim_isa isa, unsigned lanes, const uint32_t *words, unsigned n, sim_inst *inst) {
    uint32_t code[8] = {0};
    sim_program *p;
    och_err err = {0};
    memcpy(code, words, n * 4);
    if (is_branch(inst)) code[0] &= 0xffff0000u;
    code[n] = end_word(isa);
    och_status st = sim_program_create(isa, lanes, (const uint8_t *)code, (n + 1) * 4u, CODE_ADDR, 0, NULL, 0, &p, &err);
    fuzz_check(st == OCH_OK || (st == OCH_UNSUPPORTED && err.message[0] && !p), "a program of one is neither made nor refused");
    sim_program_destroy(p);
    return st == OCH_OK;
}

static void make(made *m, sim_isa isa, unsigned lanes, const uint8_t *data, size_t size) {
    m->n_words = m->n_inst = 0;
    for (size_t pos = 0; pos + 4 <= size && m->n_inst < MAX_INST;) {
        sim_inst x, y;
        och_err err = {0};
        memset(&x, 0, sizeof x);
        memset(&y, 0, sizeof y);
        if (sim_decode(isa, lanes, data, size & ~(size_t)3, pos, &x, &y, &err) != OCH_OK) {
            fuzz_check(err.message[0], "no message");
            pos += 4;
            continue;
        }
        char text[256];
        fuzz_check(x.n_words >= 1 && x.n_words <= 6 && pos + x.n_words * 4u <= size, "an instruction past the end");
        fuzz_check(strlen(sim_inst_print(&x, lanes, text, sizeof text)) < sizeof text, "text without an end");
        if (has_meaning(isa, lanes, x.words, x.n_words, &x)) {
            m->inst[m->n_inst].at = (uint32_t)m->n_words;
            m->inst[m->n_inst++].branch = is_branch(&x);
            memcpy(m->words + m->n_words, x.words, x.n_words * 4u);
            m->n_words += x.n_words;
        }
        pos += x.n_words * 4u;
    }
    m->inst[m->n_inst].at = (uint32_t)m->n_words;
    m->words[m->n_words++] = end_word(isa);
    for (size_t i = 0; i < m->n_inst; i++) {
        if (!m->inst[i].branch) continue;
        uint32_t *w = &m->words[m->inst[i].at];
        uint32_t to = m->inst[(*w & 0xffff) % (m->n_inst + 1)].at;
        *w = (*w & 0xffff0000u) | ((to - m->inst[i].at - 1) & 0xffff);
    }
}

static uint32_t rows_of(const sim_program *p) {
    uint32_t n = sim_program_n_agprs(p) ? 256 + sim_program_n_agprs(p) : sim_program_n_vgprs(p);
    return n < 4 ? 4 : n;
}

/* A fault ends a wave; this one is set going again behind it, with its pointers as they were. */
static void run_lone(sim_isa isa, unsigned lanes, sim_program *p, unsigned flags, uint32_t seed) {
    sim_wave *w;
    och_err err = {0};
    if (sim_wave_create(isa, lanes, rows_of(p), LDS_BYTES, flags & BOUNDED_SCRATCH ? SCRATCH_BYTES : 0, fuzz_space, &w, &err) != OCH_OK)
        fuzz_check(false, err.message);
    set_registers(w, seed);
    w->mode = (w->mode & ~0xffu) | (flags >> MODE_SHIFT & 15) * 0x11;
    och_status st = sim_run_wave(p, w, 2000, &err);
    const sim_uop *first = sim_program_uop(p, 0), *end = first + sim_program_n_uops(p);
    for (int i = 0; st != OCH_OK && i < MAX_FAULTS && w->n_executed < 20000; i++) {
        fuzz_check(st == OCH_DEVICE && err.message[0], "a fault without a report");
        fuzz_check(w->pc >= first && w->pc < end, "a wave stands outside its program");
        if (w->state == SIM_WAVE_DONE || (w->state == SIM_WAVE_FAULT && w->pc + 1 >= end)) break;
        const sim_uop *pc = w->state == SIM_WAVE_FAULT ? w->pc + 1 : w->pc;
        uint32_t x = seed + (uint32_t)i | 1;
        pointers(w->s, &x, isa);
        w->s[SIM_S_EXEC_LO] = i % 3 == 2 ? next_random(&x) : 0xffffffffu;
        w->s[SIM_S_EXEC_HI] = lanes == 64 ? 0xffffffffu : 0;
        memset(&w->fault, 0, sizeof w->fault);
        w->pc = pc;
        sim_wave_mode_set(w);
        sim_wave_resume(w, w->worker, 500);
        if (w->state == SIM_WAVE_FAULT) {
            char text[OCH_ERR_MESSAGE_BYTES];
            fuzz_check(w->fault.kind != SIM_FAULT_NONE, "a fault of no kind");
            sim_fault_describe(w, "the program", fuzz_space, text, sizeof text);
        } else if (w->state == SIM_WAVE_DONE) {
            break;
        }
    }
    sim_wave_destroy(w);
}

static void run_group(sim_isa isa, unsigned lanes, sim_program *p, unsigned flags, uint32_t seed) {
    const sim_board *board = NULL;
    for (size_t i = 0; !board && sim_board_at(i); i++)
        if (sim_board_at(i)->isa == isa) board = sim_board_at(i);
    if (!board) return;
    uint32_t x = seed * 2654435761u | 1, *args = (uint32_t *)(void *)fuzz_buffers[1];
    for (int i = 0; i < FUZZ_BUFFER_BYTES / 4; i++) args[i] = value(&x);
    pointers(args, &x, isa);
    sim_kernel k = {.name = "words", .program = p, .wave_size = lanes, .kernarg_preload = 16,
                    .rsrc1 = (flags >> MODE_SHIFT & 15) * 0x11 << 12, .rsrc2 = 16 << 1 | 1 << 7 | 2 << 11,
                    .lds_bytes = LDS_BYTES, .scratch_bytes = flags & BOUNDED_SCRATCH ? SCRATCH_BYTES : 0,
                    .n_vgprs = sim_program_n_vgprs(p) < 4 ? 4 : sim_program_n_vgprs(p), .n_agprs = sim_program_n_agprs(p),
                    .acc_offset = 256, .max_flat_workgroup_size = 1024};
    uint32_t block = lanes * 2 - (flags & PARTIAL ? 3 : 0);
    sim_launch l = {.kernel = &k, .isa = isa, .board = board, .space = fuzz_space, .grid = {2, 1, 1}, .block = {block, 1, 1},
                    .grid_items = {block + 1 + (flags & PARTIAL ? 0 : block - 1), 1, 1},
                    .kernarg_addr = (uint64_t)(uintptr_t)fuzz_buffers[1]};
    och_err err = {0};
    uint64_t n;
    fuzz_watch(flags & WATCHED);
    och_status st = sim_launch_run(&l, &n, &err);
    fuzz_watch(false);
    fuzz_check(st == OCH_OK || err.message[0], "a launch that fails without a message");
    fuzz_check(st == OCH_OK || st == OCH_DEVICE || st == OCH_RANGE, err.message);
}

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* Words that look like an instruction: any, or of the long encodings, whose operands are often the registers that hold
 * addresses; or of SOPP, where control is. */
static unsigned random_words(uint32_t *words, uint32_t *x) {
    uint32_t kind = next_random(x) % 16;
    words[0] = next_random(x) | (kind ? 0x80000000u : 0) | (kind >= 5 ? 0x40000000u : 0);
    if (kind == 1) words[0] = 0xbf800000u | (next_random(x) & 0x7fffff);
    if (kind == 2) words[0] = 0xbe800000u | (next_random(x) & 0x7fffff);
    for (int i = 1; i < 4; i++) {
        words[i] = next_random(x);
        for (int b = 0; b < 32; b += 8) {
            uint32_t field = next_random(x);
            if (field & 1) words[i] = (words[i] & ~(0xffu << b)) | (field >> 1 & 7 ? field >> 4 & 11 : 255) << b;
        }
    }
    if (next_random(x) & 1) words[0] &= 0xffffff00u | (next_random(x) & 31);
    return 4;
}

/* Half of the time whole instructions are put in, exchanged or taken out. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    uint32_t x = seed * 2654435761u | 1;
    if (size < 8 || max_size < 64 || next_random(&x) % 2) return LLVMFuzzerMutate(data, size, max_size);
    sim_isa isa = isas[data[0] % OCH_COUNT(isas)];
    unsigned lanes = SIM_BIT(isa) & SIM_GCN || data[1] & WIDE ? 64 : 32, n_changes = 1 + next_random(&x) % 4;
    size -= size % 4;
    for (unsigned c = 0; c < n_changes; c++) {
        size_t at = 4 + next_random(&x) % (size / 4) * 4;
        uint32_t how = next_random(&x) % 4;
        if (how == 3 && size >= 16 && at + 4 < size) {
            memmove(data + at, data + at + 4, size - at - 4);
            size -= 4;
            continue;
        }
        for (int try = 0; try < 100; try++) {
            uint32_t words[4];
            sim_inst i, y;
            och_err err = {0};
            unsigned n = random_words(words, &x);
            memset(&i, 0, sizeof i);
            if (sim_decode(isa, lanes, (const uint8_t *)words, n * 4u, 0, &i, &y, &err) != OCH_OK) continue;
            size_t bytes = i.n_words * 4u;
            if (how && size + bytes > max_size) break;
            if (how) {
                memmove(data + at + bytes, data + at, size - at);
                size += bytes;
            } else if (at + bytes > size) {
                break;
            }
            memcpy(data + at, words, bytes);
            break;
        }
    }
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static made m;
    if (size < 8) return 0;
    sim_isa isa = isas[data[0] % OCH_COUNT(isas)];
    unsigned flags = data[1], lanes = SIM_BIT(isa) & SIM_GCN || flags & WIDE ? 64 : 32;
    uint32_t seed = data[2] | (uint32_t)data[3] << 8;
    make(&m, isa, lanes, data + 4, size - 4);
    sim_program *p;
    och_err err = {0};
    /* A branch into the middle of an instruction, or an address made by arithmetic, may still reach what has no meaning. */
    och_status st = sim_program_create(isa, lanes, (const uint8_t *)m.words, m.n_words * 4, CODE_ADDR, 0, NULL, 0, &p, &err);
    fuzz_check(st == OCH_OK || (st == OCH_UNSUPPORTED && err.message[0] && !p), "a program is neither made nor refused");
    if (st == OCH_OK) {
        for (int i = 0; i < FUZZ_N_BUFFERS; i++) memset(fuzz_buffers[i], (int)(seed >> i), FUZZ_BUFFER_BYTES);
        int64_t live = och_alloc_live();
        run_lone(isa, lanes, p, flags, seed);
        fuzz_check(och_alloc_live() == live, "a lone wave leaks");
        run_group(isa, lanes, p, flags, seed);
    }
    sim_program_destroy(p);
    return 0;
}
