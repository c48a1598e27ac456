/* Prints what the simulator knows, for tools/isa/coverage.py: the decoding tables' rows and the classes' meanings.
 *   row     FORMAT OPCODE MNEMONIC MEANING ISAS(hex)
 *   meaning CLASS NAME exact|approximate BOUND
 *   meanings decode: lines of "ISA WAVE HEX" on standard input, ISA the number of sim_isa; "FORMAT OPCODE [FORMAT OPCODE]" for
 *   each (the second half of a VOPD), or "-".
 * Columns are separated by tabs. */
#include "exec/bind.h"

#include <stdio.h>
#include <string.h>

static const char *const formats[SIM_N_FORMAT] = {
    "SOP1", "SOP2", "SOPC", "SOPK", "SOPP", "SMEM", "VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P", "VOP3PX2", "VOPD",
    "VINTERP", "LDSDIR", "DS", "FLAT", "GLOBAL", "SCRATCH", "MUBUF", "MTBUF", "MIMG", "EXP"};

static const struct {
    const char *name;
    bool (*at)(size_t i, sim_meaning *out);
} classes[] = {{"salu", sim_meaning_at_salu},     {"valu", sim_meaning_at_valu},   {"cross", sim_meaning_at_cross},
               {"matrix", sim_meaning_at_matrix}, {"lds", sim_meaning_at_lds},     {"memory", sim_meaning_at_memory},
               {"image", sim_meaning_at_image},   {"control", sim_meaning_at_control}};

static int decode_lines(void) {
    unsigned isa, wave;
    char hex[128];
    while (scanf("%u %u %127s", &isa, &wave, hex) == 3) {
        uint8_t code[64] = {0};
        size_t n = strlen(hex) / 2;
        for (size_t i = 0; i < n; i++) {
            unsigned byte = 0;
            sscanf(hex + 2 * i, "%2x", &byte);
            code[i] = (uint8_t)byte;
        }
        sim_inst x, y;
        och_err err;
        if (isa >= SIM_N_ISA || sim_decode((sim_isa)isa, wave, code, n, 0, &x, &y, &err) || !x.row)
            printf("-\n");
        else if (x.dual)
            printf("%s\t%u\t%s\t%u\n", formats[x.row->format], x.row->opcode, formats[y.row->format], y.row->opcode);
        else
            printf("%s\t%u\n", formats[x.row->format], x.row->opcode);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "decode")) return decode_lines();
    const sim_row *r;
    for (size_t i = 0; (r = sim_row_at(i)); i++)
        printf("row\t%s\t%u\t%s\t%s\t%x\n", formats[r->format], r->opcode, r->mnemonic, r->meaning ? r->meaning : "-", r->isas);
    sim_meaning m;
    for (size_t c = 0; c < sizeof classes / sizeof classes[0]; c++)
        for (size_t i = 0; classes[c].at(i, &m); i++)
            printf("meaning\t%s\t%s\t%s\t%s\n", classes[c].name, m.name, m.exactness == SIM_EXACT ? "exact" : "approximate",
                   m.bound ? m.bound : "");
    return 0;
}
