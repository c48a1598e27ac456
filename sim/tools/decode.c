/* sim_decode TARGET WAVE_SIZE [HEX ...]: prints the instructions of hex dwords, or of raw code on standard input.
 *
 * A line an instruction: offset, tab, the number of dwords, tab, text; "?" and the message where there is none, and decoding
 * goes on a dword later. With --lines, each line of standard input is one instruction's hex dwords, and so is each line of
 * output. */
#include "base/alloc.h"
#include "isa/decode_row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CODE = 64 << 20 };

static size_t print_one(sim_isa isa, unsigned wave_size, const uint8_t *code, size_t n, size_t pos) {
    sim_inst x, y;
    och_err err;
    char text[1024];
    och_err_clear(&err);
    if (sim_decode(isa, wave_size, code, n, pos, &x, &y, &err) != OCH_OK) {
        printf("%zu\t1\t? %s\n", pos, err.message);
        return 4;
    }
    printf("%zu\t%u\t%s\n", pos, x.n_words, sim_inst_print(&x, wave_size, text, sizeof text));
    return 4u * x.n_words;
}

static size_t hex_dwords(const char *text, uint8_t *out, size_t max) {
    size_t n = 0;
    char *end;
    for (const char *p = text; n + 4 <= max; p = end) {
        unsigned long w = strtoul(p, &end, 16);
        if (end == p) break;
        for (int k = 0; k < 4; k++) out[n++] = (uint8_t)(w >> (8 * k));
    }
    return n;
}

static int by_lines(sim_isa isa, unsigned wave_size) {
    char line[256];
    uint8_t code[32];
    while (fgets(line, sizeof line, stdin)) print_one(isa, wave_size, code, hex_dwords(line, code, sizeof code), 0);
    return 0;
}

int main(int argc, char **argv) {
    sim_isa isa = SIM_N_ISA;
    for (int i = 0; argc > 2 && i < SIM_N_ISA; i++)
        if (!strcmp(argv[1], sim_isa_name((sim_isa)i))) isa = (sim_isa)i;
    unsigned wave_size = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    if (isa == SIM_N_ISA || (wave_size != 32 && wave_size != 64)) {
        fprintf(stderr, "use: %s TARGET 32|64 [--lines | HEX ...]\n", argv[0]);
        return 2;
    }
    if (argc > 3 && !strcmp(argv[3], "--lines")) return by_lines(isa, wave_size);
    uint8_t *code = och_malloc(MAX_CODE);
    if (!code) return 1;
    size_t n = 0;
    for (int i = 3; i < argc; i++) n += hex_dwords(argv[i], code + n, MAX_CODE - n);
    if (argc == 3) n = fread(code, 1, MAX_CODE, stdin);
    for (size_t pos = 0; pos < n;) pos += print_one(isa, wave_size, code, n, pos);
    och_free(code);
    return 0;
}
