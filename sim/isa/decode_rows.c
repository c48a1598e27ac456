/* The rows of all tables, and the index over them, made once. */
#include "isa/decode_row.h"

#include <pthread.h>

enum {
    GFX906 = SIM_BIT(SIM_GFX906),
    GFX908 = SIM_BIT(SIM_GFX908),
    GFX90A = SIM_BIT(SIM_GFX90A),
    GFX942 = SIM_BIT(SIM_GFX942),
    GFX950 = SIM_BIT(SIM_GFX950),
    GFX1030 = SIM_BIT(SIM_GFX1030),
    GFX1100 = SIM_BIT(SIM_GFX1100),
    GFX1150 = SIM_BIT(SIM_GFX1150),
    GFX1200 = SIM_BIT(SIM_GFX1200),
    SUFFIX = SIM_F_SUFFIX,
    LITERAL = SIM_F_LITERAL,
    STORE = SIM_F_STORE,
    ATOMIC = SIM_F_ATOMIC,
    MFMA = SIM_F_MFMA
};

#define OP(role, type, n, cls) {SIM_R_##role, SIM_T_##type, n, false, SIM_C_##cls},
#define OH(role, type, cls) {SIM_R_##role, SIM_T_##type, 1, true, SIM_C_##cls},
#define NO_OP {SIM_R_NONE, SIM_T_ANY, 0, false, SIM_C_ANY},
#define ROW(isas, opcode, mnemonic, meaning, flags, ops) {{mnemonic, #meaning, FORMAT, opcode, isas}, flags, {ops}},

const sim_entry sim_entries[] = {
#define FORMAT SIM_SOP1
#include "isa/tables/sop1.def"
#undef FORMAT
#define FORMAT SIM_SOP2
#include "isa/tables/sop2.def"
#undef FORMAT
#define FORMAT SIM_SOPC
#include "isa/tables/sopc.def"
#undef FORMAT
#define FORMAT SIM_SOPK
#include "isa/tables/sopk.def"
#undef FORMAT
#define FORMAT SIM_SOPP
#include "isa/tables/sopp.def"
#undef FORMAT
#define FORMAT SIM_SMEM
#include "isa/tables/smem.def"
#undef FORMAT
#define FORMAT SIM_VOP1
#include "isa/tables/vop1.def"
#undef FORMAT
#define FORMAT SIM_VOP2
#include "isa/tables/vop2.def"
#undef FORMAT
#define FORMAT SIM_VOPC
#include "isa/tables/vopc.def"
#undef FORMAT
#define FORMAT SIM_VOP3
#include "isa/tables/vop3.def"
#undef FORMAT
#define FORMAT SIM_VOP3SD
#include "isa/tables/vop3sd.def"
#undef FORMAT
#define FORMAT SIM_VOP3P
#include "isa/tables/vop3p.def"
#undef FORMAT
#define FORMAT SIM_VOP3PX2
#include "isa/tables/vop3px2.def"
#undef FORMAT
#define FORMAT SIM_VOPD
#include "isa/tables/vopd.def"
#undef FORMAT
#define FORMAT SIM_VINTERP
#include "isa/tables/vinterp.def"
#undef FORMAT
#define FORMAT SIM_LDSDIR
#include "isa/tables/ldsdir.def"
#undef FORMAT
#define FORMAT SIM_DS
#include "isa/tables/ds.def"
#undef FORMAT
#define FORMAT SIM_FLAT
#include "isa/tables/flat.def"
#undef FORMAT
#define FORMAT SIM_GLOBAL
#include "isa/tables/global.def"
#undef FORMAT
#define FORMAT SIM_SCRATCH
#include "isa/tables/scratch.def"
#undef FORMAT
#define FORMAT SIM_MUBUF
#include "isa/tables/mubuf.def"
#undef FORMAT
#define FORMAT SIM_MTBUF
#include "isa/tables/mtbuf.def"
#undef FORMAT
#define FORMAT SIM_MIMG
#include "isa/tables/mimg.def"
#undef FORMAT
#define FORMAT SIM_EXP
#include "isa/tables/exp.def"
#undef FORMAT
};
const size_t sim_n_entries = sizeof sim_entries / sizeof sim_entries[0];

/* Opcodes that each format has room for: FORMAT(name, opcodes). */
#define FORMATS(FORMAT)                                                                                                    \
    FORMAT(SOP1, 256) FORMAT(SOP2, 128) FORMAT(SOPC, 128) FORMAT(SOPK, 32) FORMAT(SOPP, 128) FORMAT(SMEM, 256)             \
    FORMAT(VOP1, 256) FORMAT(VOP2, 64) FORMAT(VOPC, 256) FORMAT(VOP3, 1024) FORMAT(VOP3P, 128) FORMAT(VOP3PX2, 128)        \
    FORMAT(VOPD, 32) FORMAT(VINTERP, 128) FORMAT(LDSDIR, 4) FORMAT(DS, 256) FORMAT(FLAT, 256) FORMAT(GLOBAL, 256)          \
    FORMAT(SCRATCH, 256) FORMAT(MUBUF, 256) FORMAT(MTBUF, 16) FORMAT(MIMG, 512) FORMAT(EXP, 1)

#define ROOM(name, n) [SIM_##name] = (n),
#define PLUS(name, n) +(n)
static const uint16_t room[SIM_N_FORMAT] = {FORMATS(ROOM)};
enum { ALL_ROOM = 0 FORMATS(PLUS) };

static uint16_t row_at[SIM_N_ISA][ALL_ROOM]; /* entry number + 1, 0: none */
static uint16_t first[SIM_N_FORMAT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_index(void) {
    unsigned at = 0;
    for (unsigned f = 0; f < SIM_N_FORMAT; f++) {
        first[f] = (uint16_t)at;
        at += room[f];
    }
    for (size_t i = 0; i < sim_n_entries; i++) {
        const sim_row *r = &sim_entries[i].row;
        unsigned f = r->format == SIM_VOP3SD ? SIM_VOP3 : r->format;
        if (r->opcode >= room[f]) continue;
        for (unsigned isa = 0; isa < SIM_N_ISA; isa++)
            if (r->isas & SIM_BIT(isa)) row_at[isa][first[f] + r->opcode] = (uint16_t)(i + 1);
    }
}

const sim_entry *sim_entry_find(sim_isa isa, sim_format format, unsigned opcode) {
    pthread_once(&once, make_index);
    if (opcode >= room[format] || (unsigned)isa >= SIM_N_ISA) return NULL;
    unsigned i = row_at[isa][first[format] + opcode];
    return i ? &sim_entries[i - 1] : NULL;
}

const sim_row *sim_row_at(size_t i) {
    return i < sim_n_entries ? &sim_entries[i].row : NULL;
}

unsigned sim_isa_gen(sim_isa isa) {
    return isa < SIM_GFX1030 ? 9 : isa == SIM_GFX1030 ? 10 : isa < SIM_GFX1200 ? 11 : 12;
}

const char *sim_isa_name(sim_isa isa) {
    static const char *const names[SIM_N_ISA] = {"gfx906",  "gfx908",  "gfx90a",  "gfx942",  "gfx950",
                                                 "gfx1030", "gfx1100", "gfx1150", "gfx1200", "gfx1250"};
    return (unsigned)isa < SIM_N_ISA ? names[isa] : "unknown";
}
