/* The host's side of the comparison: runs every program and writes its results. host OUT: for each program, its number of
 * 64-bit words (u32) and the words. */
#include "prelude.h"

#include PROGRAMS

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Debian 12's compiler support library rounds to bf16 nowhere; clang calls these. */
bf16 __truncsfbf2(f32 x);
bf16 __truncdfbf2(f64 x);
bf16 __truncsfbf2(f32 x) {
    u32 b = __builtin_bit_cast(u32, x);
    u16 h = x != x ? (u16)(b >> 16 | 0x40) : (u16)((b + 0x7fff + (b >> 16 & 1)) >> 16);
    return __builtin_bit_cast(bf16, h);
}
bf16 __truncdfbf2(f64 x) {
    /* Through f32 rounded to odd, so that the second rounding is the only one. */
    f32 f = (f32)x;
    u32 b = __builtin_bit_cast(u32, f);
    if (x == x && (f64)f != x) {
        if (__builtin_fabs((f64)f) > __builtin_fabs(x)) b--;
        b |= 1;
    }
    return __truncsfbf2(__builtin_bit_cast(f32, b));
}

int main(int argc, char **argv) {
    static u32 in[512], words[128];
    u32 x = 12345;
    for (int i = 0; i < 512; i++) in[i] = x = x * 1664525u + 1013904223u;
    FILE *f = argc > 1 ? fopen(argv[1], "wb") : NULL;
    if (!f) return 1;
#define ENTRY(i, n)                                                                                                    \
    {                                                                                                                  \
        u32 count = GROUPS * THREADS * n;                                                                              \
        u64 *out = calloc(count, 8);                                                                                   \
        memset(words, 0, sizeof words);                                                                                \
        for (u32 g = 0; g < GROUPS; g++) run##i(g, in, out, words);                                                    \
        fwrite(&count, 4, 1, f);                                                                                       \
        fwrite(out, 8, count, f);                                                                                      \
        free(out);                                                                                                     \
    }
    ALL_PROGRAMS
    return fclose(f) != 0;
}
