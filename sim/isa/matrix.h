/* Matrix instructions inside: tables that matrix.def expands to, and the kernels that multiply tiles.
 *
 * A and B are unpacked to float tiles [k][span], span = outer indices x blocks, so that every number format but f64 shares
 * one product: the integers of 4 and 8 bits have sums below 2^24, exact in float. C is brought to where D is and the
 * product is added there. */
#ifndef SIM_ISA_MATRIX_H
#define SIM_ISA_MATRIX_H

#include "exec/wave.h"

#define SIM_MX_MAX_STRIPS 128
#define SIM_MX_LEVELS 3

/* Flags of rows in matrix.def. */
enum { SIM_MX_SPARSE = 1, SIM_MX_SCALED = 2, SIM_MX_HALVES = 4, SIM_MX_PAIRS2 = 8 };

/* Strip s: the elements of one inner index (of A or B) or one row (of C or D), in consecutive lanes. */
typedef struct sim_mx_strips {
    uint16_t off[SIM_MX_MAX_STRIPS];  /* dwords from the operand's first row: register * lanes + first lane */
    uint8_t shift[SIM_MX_MAX_STRIPS]; /* first bit of the element in the dword */
    uint8_t elem[SIM_MX_MAX_STRIPS];  /* number of the element in its lane */
} sim_mx_strips;

typedef enum sim_mx_unpack_kind {
    SIM_MX_U_F32, SIM_MX_U_XF32, SIM_MX_U_F16, SIM_MX_U_BF16, SIM_MX_U_I8, SIM_MX_U_U8, SIM_MX_U_I4, SIM_MX_U_U4,
    SIM_MX_U_LUT8, SIM_MX_U_LUT6, SIM_MX_U_LUT4
} sim_mx_unpack_kind;

typedef struct sim_mx_unpack {
    uint8_t kind;        /* sim_mx_unpack_kind */
    bool flush;          /* a denormal becomes +0, for the 16-bit floats of gfx90a */
    bool neg_lo, neg_hi; /* negate the elements of bits 0 to 15, 16 to 31 */
    uint8_t lanes;
    const float *lut;    /* values by code, for the LUT kinds */
} sim_mx_unpack;

typedef struct sim_mx_kernels {
    /* dst[n][span] = strips 0..n-1 of `rows`. span is a multiple of 16. */
    void (*unpack)(float *dst, const uint32_t *rows, const sim_mx_strips *t, unsigned n, unsigned span,
                   const sim_mx_unpack *how);
    /* acc[off[i] + j] = fma over k, ascending, of a[k * span + i] and b[k * span + j]. m and n: 16 or 32. exact: float
     * holds every product exactly. */
    void (*chain)(float *acc, const uint16_t *off, const float *a, const float *b, unsigned span, unsigned m, unsigned n,
                  unsigned k, bool exact);
    /* The sums of gfx908 and gfx90a for 16-bit floats: products of `group` (2 or 4) consecutive k are added in pairs, their
     * sum to the accumulator; each step rounds. A denormal result becomes zero of its sign: flush_p of products and their
     * sums, flush_c (implied by it) of the accumulator, where a denormal is +0 to begin with. */
    void (*pairs)(float *acc, const uint16_t *off, const float *a, const float *b, unsigned span, unsigned m, unsigned n,
                  unsigned k, unsigned group, bool flush_p, bool flush_c);
    /* Sixteen 4x4 products side by side: acc[off[i] + l] over a[k * 64 + block[l / 4] * 4 + i] and b[k * 64 + l].
     * group 0: a chain of fma, else as `pairs`, k == group. */
    void (*quad)(float *acc, const uint16_t *off, const float *a, const float *b, unsigned k, const uint8_t *block,
                 unsigned group, bool flush);
    /* acc[off[i] + j] += tile[i * n + j] * 2^(ea[i] + eb[j] - 254); an exponent of 255 gives NaN. */
    void (*scale_add)(float *acc, const uint16_t *off, const float *tile, const uint8_t *ea, const uint8_t *eb, unsigned m,
                      unsigned n);
    /* The half at t's strip i of `rows` = tile[i * 16 + j], rounded to nearest even; the other half stays. */
    void (*store16)(uint32_t *rows, const sim_mx_strips *t, unsigned m, const float *tile, bool bf16);
    /* d[off[i] + j] += (int)tile[i * width + j], wrapping or saturating. */
    void (*add_int)(uint32_t *d, const uint16_t *off, const float *tile, unsigned strips, unsigned width, bool clamp);
    /* acc[i * n + j] = fma over k of a[k * lda + i], b[k * lda + j]. */
    void (*chain64)(double *acc, const double *a, const double *b, unsigned lda, unsigned m, unsigned n, unsigned k);
    /* n doubles from and to the low and the high halves in two rows. */
    void (*load64)(double *dst, const uint32_t *lo, const uint32_t *hi, unsigned n, bool negate);
    void (*store64)(uint32_t *lo, uint32_t *hi, const double *src, unsigned n);
} sim_mx_kernels;

extern const sim_mx_kernels sim_mx_kernels_generic;
#if defined(__x86_64__)
extern const sim_mx_kernels sim_mx_kernels_avx2, sim_mx_kernels_avx512;
#endif

/* What the instruction does with rows that the caller fills in: u->s[0..2] and u->d, byte offsets of A, B, C (or, when
 * sparse, the index) and D; u->imm, for the scaled forms, the rows (offset / (4 * lanes)) of the scales, low and high half.
 * level: as sim_host_level(). False: no such instruction on this target, or not in this wave size. */
bool sim_mx_prepare(sim_isa isa, unsigned lanes, const sim_inst *inst, int level, sim_uop *u);

/* Rows that a prepared uop reads at s[0..2] and writes at d. */
void sim_mx_registers(const sim_uop *u, unsigned out_n[4]);

#endif
