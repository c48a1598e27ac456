#include "load/apply.h"

#include "base/size.h"

#include <inttypes.h>
#include <string.h>

/* How a type's value is made (AMDGPUUsage, "Relocation Records"): S symbol, A addend, B load address, P place. */
typedef enum value { VALUE_NONE, VALUE_S_A, VALUE_S_A_P, VALUE_B_A, VALUE_WORDS } value;
typedef enum part { PART_LOW, PART_HIGH, PART_ALL /* must fit */ } part;

static const struct {
    uint32_t type;
    const char *name;
    uint8_t value, part, bytes;
} types[] = {
    {0, "R_AMDGPU_NONE", VALUE_NONE, PART_LOW, 0},
    {1, "R_AMDGPU_ABS32_LO", VALUE_S_A, PART_LOW, 4},
    {2, "R_AMDGPU_ABS32_HI", VALUE_S_A, PART_HIGH, 4},
    {3, "R_AMDGPU_ABS64", VALUE_S_A, PART_ALL, 8},
    {4, "R_AMDGPU_REL32", VALUE_S_A_P, PART_ALL, 4},
    {5, "R_AMDGPU_REL64", VALUE_S_A_P, PART_ALL, 8},
    {6, "R_AMDGPU_ABS32", VALUE_S_A, PART_ALL, 4},
    {10, "R_AMDGPU_REL32_LO", VALUE_S_A_P, PART_LOW, 4},
    {11, "R_AMDGPU_REL32_HI", VALUE_S_A_P, PART_HIGH, 4},
    {13, "R_AMDGPU_RELATIVE64", VALUE_B_A, PART_ALL, 8},
    {14, "R_AMDGPU_REL16", VALUE_WORDS, PART_ALL, 2}, /* a branch: dwords from the next instruction */
};

bool sim_reloc_is_distance(const och_obj_reloc *r) {
    for (size_t t = 0; t < OCH_COUNT(types); t++)
        if (types[t].type == r->type) return types[t].value == VALUE_S_A_P || types[t].value == VALUE_WORDS;
    return false;
}

och_status sim_reloc_apply(const och_obj_reloc *r, uint8_t *host, uint64_t n_bytes, uint64_t lo, uint64_t base, uint64_t symbol,
                           och_err *err) {
    size_t t = 0;
    while (t < OCH_COUNT(types) && types[t].type != r->type) t++;
    if (t == OCH_COUNT(types))
        return och_err_set(err, OCH_UNSUPPORTED,
                           "code object: relocation at 0x%" PRIx64 ": expected a dynamic type, found type %u", r->addr,
                           r->type);
    uint64_t at = r->addr - lo, place = base + at, a = (uint64_t)r->addend, v = 0;
    unsigned bytes = types[t].bytes;
    if (at > n_bytes || bytes > n_bytes - at)
        return och_err_set(err, OCH_CORRUPT,
                           "code object: %s: expected %u bytes at 0x%" PRIx64 " in the image, found it ends at 0x%" PRIx64,
                           types[t].name, bytes, r->addr, lo + n_bytes);
    switch ((value)types[t].value) {
    case VALUE_NONE: return OCH_OK;
    case VALUE_S_A: v = symbol + a; break;
    case VALUE_S_A_P: v = symbol + a - place; break;
    case VALUE_B_A: v = base - lo + a; break;
    case VALUE_WORDS: v = (uint64_t)((int64_t)(symbol + a - place - 4) / 4); break;
    }
    bool is_signed = types[t].value != VALUE_S_A;
    unsigned bits = bytes * 8;
    bool fits = bits == 64 || (is_signed ? (int64_t)v >= -((int64_t)1 << (bits - 1)) && (int64_t)v < (int64_t)1 << (bits - 1)
                                         : v >> bits == 0);
    if (types[t].part == PART_ALL && !fits)
        return och_err_set(err, OCH_CORRUPT,
                           "code object: %s at 0x%" PRIx64 " to '%.200s': expected a value of %u bits, found 0x%" PRIx64,
                           types[t].name, r->addr, r->symbol, bits, v);
    if (types[t].part == PART_HIGH) v >>= 32;
    for (unsigned i = 0; i < bytes; i++) host[at + i] = (uint8_t)(v >> (8 * i));
    return OCH_OK;
}
