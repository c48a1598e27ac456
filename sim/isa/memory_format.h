/* Typed elements of buffers and images: a data format (how bits split into components) and a number format (what they
 * mean), numbered as gfx9's descriptors do; the unified numbers of later targets are mapped to these. */
#ifndef SIM_ISA_MEMORY_FORMAT_H
#define SIM_ISA_MEMORY_FORMAT_H

#include "isa/inst.h"

typedef enum sim_dfmt {
    SIM_DF_INVALID, SIM_DF_8, SIM_DF_16, SIM_DF_8_8, SIM_DF_32, SIM_DF_16_16, SIM_DF_10_11_11, SIM_DF_11_11_10,
    SIM_DF_10_10_10_2, SIM_DF_2_10_10_10, SIM_DF_8_8_8_8, SIM_DF_32_32, SIM_DF_16_16_16_16, SIM_DF_32_32_32,
    SIM_DF_32_32_32_32
} sim_dfmt;
typedef enum sim_nfmt {
    SIM_NF_UNORM, SIM_NF_SNORM, SIM_NF_USCALED, SIM_NF_SSCALED, SIM_NF_UINT, SIM_NF_SINT, SIM_NF_6, SIM_NF_FLOAT
} sim_nfmt;

typedef struct sim_typed {
    uint8_t dfmt, nfmt;
} sim_typed;

/* From a target's number: gfx9 dfmt | nfmt << 4, gfx10 7 bits, gfx11 and gfx12 6 bits. INVALID: no such format. */
sim_typed sim_typed_of(sim_isa isa, unsigned format);
/* The target's number of a format; 0: it has none. */
unsigned sim_typed_number(sim_isa isa, sim_typed t);

unsigned sim_typed_components(sim_typed t);
unsigned sim_typed_bytes(sim_typed t);
static inline bool sim_typed_is_int(sim_typed t) { return t.nfmt == SIM_NF_UINT || t.nfmt == SIM_NF_SINT; }

/* An element's components as registers hold them: floats (or integers for UINT, SINT); absent ones are 0, 0, 0, 1. */
void sim_typed_read(sim_typed t, const uint8_t *p, uint32_t out[4]);
void sim_typed_write(sim_typed t, uint8_t *p, const uint32_t in[4]);
/* A component to and from the 16 bits of d16 forms. */
uint16_t sim_typed_to16(sim_typed t, uint32_t x);
uint32_t sim_typed_from16(sim_typed t, uint16_t x);

#endif
