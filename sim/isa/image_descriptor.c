#include "isa/image.h"

#include "base/size.h"

#include <string.h>

uint32_t sim_image_pitch(uint32_t width, sim_typed format) {
    return (uint32_t)(((uint64_t)width * sim_typed_bytes(format) + 255) & ~(uint64_t)255);
}

static bool gcn(sim_isa isa) { return SIM_BIT(isa) & SIM_GCN; }
static bool layered(unsigned kind) { return kind == SIM_IMAGE_3D || kind == SIM_IMAGE_1D_ARRAY || kind == SIM_IMAGE_2D_ARRAY; }
/* Resource types of the descriptor, by kind. */
static const uint8_t types[] = {8, 9, 10, 12, 13};

/* What HSA calls the type and the order of an image's channels (hsa_ext_image.h). */
static unsigned channel_type(sim_typed f) {
    unsigned bits = sim_typed_bytes(f) * 8 / sim_typed_components(f), size = bits == 8 ? 0 : bits == 16 ? 1 : 2;
    switch (f.nfmt) {
    case SIM_NF_SNORM: return 0 + size;
    case SIM_NF_UNORM: return 2 + size;
    case SIM_NF_SINT: return 8 + size;
    case SIM_NF_UINT: return 11 + size;
    default: return bits == 16 ? 14 : 15;
    }
}
static unsigned channel_order(sim_typed f) {
    static const uint8_t orders[] = {1, 1, 3, 6, 8}; /* R, RG, RGB, RGBA */
    unsigned n = sim_typed_components(f);
    return orders[n < 5 ? n : 4];
}

static och_status check(sim_isa isa, const sim_image_fields *f, uint32_t pitch, och_err *err) {
    unsigned bytes = sim_typed_bytes(f->format);
    if (!bytes || (!gcn(isa) && !sim_typed_number(isa, f->format)))
        return och_err_set(err, OCH_UNSUPPORTED, "this target has no image format for data format %u with number format %u",
                           f->format.dfmt, f->format.nfmt);
    if (f->kind == SIM_IMAGE_BUFFER) return OCH_OK;
    uint32_t max = gcn(isa) ? 16384 : 65536, max_depth = 8192;
    if (f->base & 255)
        return och_err_set(err, OCH_INVALID, "the base of an image must be a multiple of 256, found 0x%llx",
                           (unsigned long long)f->base);
    if (!f->width || f->width > max || !f->height || f->height > 16384 || !f->depth || f->depth > max_depth)
        return och_err_set(err, OCH_RANGE, "an image may have up to %u x 16384 x %u elements, found %u x %u x %u", max,
                           max_depth, f->width, f->height, f->depth);
    if (pitch % bytes || pitch / bytes < f->width || pitch / bytes > 65536)
        return och_err_set(err, OCH_RANGE, "the pitch of an image must hold a row of %u elements of %u bytes, found %u bytes",
                           f->width, bytes, pitch);
    if (!gcn(isa) && layered(f->kind) && pitch != sim_image_pitch(f->width, f->format))
        return och_err_set(err, OCH_INVALID, "the pitch of a layered image must be %u bytes on this target, found %u",
                           sim_image_pitch(f->width, f->format), pitch);
    return OCH_OK;
}

och_status sim_image_descriptor(sim_isa isa, const sim_image_fields *f, uint32_t out[16], och_err *err) {
    memset(out, 0, 16 * sizeof *out);
    unsigned bytes = sim_typed_bytes(f->format), number = sim_typed_number(isa, f->format);
    uint32_t pitch = f->pitch_bytes ? f->pitch_bytes : sim_image_pitch(f->width, f->format);
    OCH_TRY(check(isa, f, pitch, err));
    bool plain = !(f->select[0] | f->select[1] | f->select[2] | f->select[3]);
    uint32_t sel = 0;
    for (unsigned k = 0; k < 4; k++) {
        /* Components that the format lacks read as 0, 0, 0, 1. */
        unsigned natural = k < sim_typed_components(f->format) ? SIM_SEL_X + k : k == 3 ? SIM_SEL_1 : SIM_SEL_0;
        sel |= (plain ? natural : f->select[k] & 7u) << 3 * k;
    }
    out[8] = channel_type(f->format);
    out[9] = channel_order(f->format);
    out[10] = f->width;
    if (f->kind == SIM_IMAGE_BUFFER) {
        out[0] = (uint32_t)f->base;
        out[1] = (uint32_t)(f->base >> 32 & 0xffff) | bytes << 16;
        out[2] = f->width;
        out[3] = sel | (gcn(isa) ? (uint32_t)f->format.nfmt << 12 | (uint32_t)f->format.dfmt << 15 : number << 12 | 1u << 28);
        if (isa == SIM_GFX1030) out[3] |= 1u << 24;
        return OCH_OK;
    }
    uint32_t w = f->width - 1, h = f->height - 1, d = f->depth - 1, p = pitch / bytes - 1;
    out[0] = (uint32_t)(f->base >> 8);
    out[1] = (uint32_t)(f->base >> 40) & 0xff;
    out[3] = sel | (uint32_t)types[f->kind] << 28;
    if (gcn(isa)) {
        out[1] |= (uint32_t)f->format.dfmt << 20 | (uint32_t)f->format.nfmt << 26;
        out[2] = w | h << 14;
        out[4] = d | p << 13;
    } else {
        out[1] |= number << 20 | (w & 3) << 30;
        out[2] = w >> 2 | h << 14;
        out[4] = layered(f->kind) ? d : p;
    }
    uint32_t clamp = 0;
    for (unsigned k = 0; k < 3; k++) clamp |= (f->address[k] & 7u) << 3 * k;
    out[12] = clamp | (uint32_t)f->unnormalized << 15;
    out[13] = 0xfffu << 12; /* no limit to the level */
    out[14] = f->linear ? 1u << 20 | 1u << 22 | 1u << 24 : 0;
    out[15] = f->white_border ? 2u << 30 : 0;
    return OCH_OK;
}

sim_image sim_image_of(sim_isa isa, const uint32_t r[8]) {
    sim_image m = {.base = (uint64_t)r[0] << 8 | (uint64_t)(r[1] & 0xff) << 40};
    switch (r[3] >> 28) {
    case 8: m.kind = SIM_IMAGE_1D; break;
    case 9: m.kind = SIM_IMAGE_2D; break;
    case 10: m.kind = SIM_IMAGE_3D; break;
    case 12: m.kind = SIM_IMAGE_1D_ARRAY; break;
    case 13: m.kind = SIM_IMAGE_2D_ARRAY; break;
    default: return m;
    }
    for (unsigned k = 0; k < 4; k++) m.select[k] = r[3] >> 3 * k & 7;
    m.height = (r[2] >> 14 & 0x3fff) + 1;
    m.depth = layered(m.kind) ? (r[4] & 0x1fff) + 1 : 1;
    if (gcn(isa)) {
        m.format = sim_typed_of(isa, (r[1] >> 20 & 15) | (r[1] >> 26 & 7) << 4);
        m.width = (r[2] & 0x3fff) + 1;
        m.pitch_bytes = ((r[4] >> 13 & 0xffff) + 1) * sim_typed_bytes(m.format);
        m.first_layer = r[5] & 0x1fff;
    } else {
        m.format = sim_typed_of(isa, r[1] >> 20 & (isa == SIM_GFX1030 ? 0x1ff : 0xff));
        m.width = (r[1] >> 30 | (r[2] & 0x3fff) << 2) + 1;
        m.pitch_bytes =
            layered(m.kind) ? sim_image_pitch(m.width, m.format) : ((r[4] & 0xffff) + 1) * sim_typed_bytes(m.format);
        m.first_layer = r[4] >> 16 & 0x1fff;
    }
    m.valid = sim_typed_bytes(m.format) != 0 && !(r[3] >> 20 & 31); /* swizzle mode 0: linear */
    return m;
}

sim_sampler sim_sampler_of(sim_isa isa, const uint32_t s[4]) {
    (void)isa; /* the fields in use are where they were on all targets */
    sim_sampler m = {.compare = s[0] >> 12 & 7, .border = (uint8_t)(s[3] >> 30), .unnormalized = s[0] >> 15 & 1,
                     .linear = (s[2] >> 20 & 3) == 1};
    for (unsigned k = 0; k < 3; k++) m.address[k] = s[0] >> 3 * k & 7;
    return m;
}
