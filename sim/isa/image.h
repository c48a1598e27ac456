/* Image resources: linear surfaces of one level, 1D, 2D, 3D and arrays of 1D and 2D.
 *
 * Element (x, y, z) of a surface is at base + z * slice + y * pitch + x * element bytes. The base is a multiple of 256
 * bytes. The pitch is a whole number of elements: free for 1D, 2D and on gfx9 for all; from gfx10 on 3D and arrays have
 * sim_image_pitch(). A slice is pitch * height. 1D textures on linear memory (what tex1Dfetch reads) are buffer resources:
 * SIM_IMAGE_BUFFER.
 *
 * A texture object is 16 dwords: the resource (8 dwords; a buffer's 4 and 4 unused), type and order of the channels and the
 * width as the HSA runtime notes them for the device library (its fourth dword is unused), the sampler (4 dwords). Compiled
 * kernels load all of them from there: samples of the nearest texel round normalized coordinates by the width noted. */
#ifndef SIM_ISA_IMAGE_H
#define SIM_ISA_IMAGE_H

#include "isa/memory_format.h"

typedef enum sim_image_kind {
    SIM_IMAGE_1D, SIM_IMAGE_2D, SIM_IMAGE_3D, SIM_IMAGE_1D_ARRAY, SIM_IMAGE_2D_ARRAY, SIM_IMAGE_BUFFER
} sim_image_kind;
typedef enum sim_image_address {
    SIM_IMAGE_WRAP = 0,
    SIM_IMAGE_MIRROR = 1,
    SIM_IMAGE_CLAMP = 2,
    SIM_IMAGE_BORDER = 6
} sim_image_address;

/* What a component of the result is; 0 in all four means x, y, z, w. */
typedef enum sim_image_select { SIM_SEL_0 = 0, SIM_SEL_1 = 1, SIM_SEL_X = 4, SIM_SEL_Y, SIM_SEL_Z, SIM_SEL_W } sim_image_select;

typedef struct sim_image_fields {
    sim_image_kind kind;
    uint64_t base;
    uint32_t width, height, depth; /* height of 1D: 1; depth: of 3D, or layers of arrays; else 1. At least 1 each */
    uint32_t pitch_bytes;          /* 0: sim_image_pitch() */
    sim_typed format;              /* UNORM and SNORM are read as floats from 0 or -1 to 1 */
    uint8_t select[4];
    uint8_t address[3];            /* sim_image_address of x, y, z */
    bool linear;                   /* filter */
    bool unnormalized;             /* coordinates count texels */
    bool white_border;             /* else zero */
} sim_image_fields;

uint32_t sim_image_pitch(uint32_t width, sim_typed format); /* width * element bytes, up to a multiple of 256 */

/* Writes the resource to out[0..7], what the device library reads to out[8..10], the sampler to out[12..15], the rest 0.
 * INVALID, RANGE: the message says which field
 * the target's descriptor cannot hold. UNSUPPORTED: a format that it has not. */
och_status sim_image_descriptor(sim_isa isa, const sim_image_fields *f, uint32_t out[16], och_err *err) OCH_WARN_UNUSED;

/* For the instructions: reads them back. */
typedef struct sim_image {
    uint64_t base;
    uint32_t width, height, depth, pitch_bytes;
    uint32_t first_layer;
    sim_typed format;
    uint8_t kind, select[4];
    bool valid;
} sim_image;
typedef struct sim_sampler {
    uint8_t address[3], compare, border;
    bool linear, unnormalized;
} sim_sampler;
sim_image sim_image_of(sim_isa isa, const uint32_t r[8]);
sim_sampler sim_sampler_of(sim_isa isa, const uint32_t s[4]);

#endif
