/* Targets and boards as rows (targets.def, boards.def). A target is named whole: base name and features, as in
 * "gfx942:sramecc+:xnack-". Nothing falls back to a neighbour's row: an unknown name is an error that lists the known.
 */
#ifndef OCH_TARGET_TARGET_H
#define OCH_TARGET_TARGET_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A figure that no source gives. Printed "?" (och_target_print_num). */
#define OCH_UNKNOWN (-1)
/* A figure that does not apply to this target (wave32 registers of a wave64-only target). Printed "-". */
#define OCH_NOT_APPLICABLE (-2)

/* IF_XNACK: yes where the process runs with XNACK on and the kernel has HMM, no otherwise. MAYBE: not known, or boards
 * of both kinds exist. */
typedef enum och_tri { OCH_NO = 0, OCH_YES = 1, OCH_IF_XNACK = 2, OCH_MAYBE = -1 } och_tri;

typedef enum och_vendor { OCH_VENDOR_AMD, OCH_VENDOR_NVIDIA } och_vendor;

typedef enum och_matrix_isa {
    OCH_MATRIX_NONE,
    OCH_MATRIX_MFMA,
    OCH_MATRIX_WMMA_GFX11,
    OCH_MATRIX_WMMA_GFX12,
    OCH_MATRIX_WMMA_GFX125,
    OCH_MATRIX_MMA_SYNC /* NVIDIA mma.sync */
} och_matrix_isa;

/* Types a matrix instruction takes as A and B. */
enum {
    OCH_MT_F32 = 1 << 0,
    OCH_MT_XF32 = 1 << 1,
    OCH_MT_F64 = 1 << 2,
    OCH_MT_F16 = 1 << 3,
    OCH_MT_BF16 = 1 << 4,
    OCH_MT_I8 = 1 << 5,
    OCH_MT_IU8 = 1 << 6,
    OCH_MT_IU4 = 1 << 7,
    OCH_MT_FP8 = 1 << 8,
    OCH_MT_BF8 = 1 << 9,
    OCH_MT_FP6 = 1 << 10,
    OCH_MT_BF6 = 1 << 11,
    OCH_MT_FP4 = 1 << 12,
    OCH_MT_MX = 1 << 13,    /* takes E8M0 block scales */
    OCH_MT_BF16_K8 = 1 << 14 /* bf16 only in the K = 8 form */
};

typedef enum och_fp8_encoding { OCH_FP8_NONE, OCH_FP8_FNUZ, OCH_FP8_OCP } och_fp8_encoding;

/* Vector instructions beside the plain ISA. */
enum {
    OCH_DOT4_I8 = 1 << 0,     /* v_dot4_i32_i8: signed x signed */
    OCH_DOT4_IU8 = 1 << 1,    /* v_dot4_i32_iu8: sign chosen per operand; "alias" targets have only this one */
    OCH_DOT4_U8 = 1 << 2,
    OCH_DOT8_I4 = 1 << 3,
    OCH_DOT8_IU4 = 1 << 4,
    OCH_DOT2_F16 = 1 << 5,
    OCH_DOT2_BF16 = 1 << 6,
    OCH_DOT4_FP8 = 1 << 7,
    OCH_PK_FMA_F16 = 1 << 8,
    OCH_PK_FMA_BF16 = 1 << 9,
    OCH_PK_FMA_F32 = 1 << 10,
    OCH_VOPD = 1 << 11,       /* dual issue, wave32 only */
    OCH_CVT_FP8 = 1 << 12,
    OCH_CVT_FP4_FP6 = 1 << 13,
    OCH_CVT_PK_BF16 = 1 << 14,
    OCH_FMA_MIX = 1 << 15,
    OCH_MAD_MIX = 1 << 16,
    OCH_ATOMIC_ADD_F32 = 1 << 17, /* global_atomic_add_f32 */
    OCH_SPARSE_MATRIX = 1 << 18,  /* SMFMAC or SWMMAC */
    OCH_DEPENDENT_LAUNCH = 1 << 19, /* griddepcontrol: a kernel may start before what it depends on has ended, and wait itself */
    OCH_GROUP_MATRIX = 1 << 20 /* wgmma: matrix instructions of four waves, operands out of LDS; of this very target alone (sm_90a) */
};

/* Wave sizes, as a set. */
enum { OCH_WAVE32 = 1, OCH_WAVE64 = 2 };

typedef struct och_target {
    const char *name;     /* "gfx942", "gfx11-generic", "sm_90" */
    const char *family;   /* "CDNA3" */
    const char *products; /* "" for none; "?" unknown */
    och_vendor vendor;
    bool generic;              /* a generic target: one code object for several base targets */
    och_tri apu;               /* MAYBE: boards of both kinds exist */
    int32_t wave_default;      /* lanes */
    uint32_t waves;            /* OCH_WAVE*: the sizes that can be selected */
    int32_t lds_workgroup_bytes;
    int32_t lds_unit_bytes;    /* LDS behind one compute unit, or behind one WGP where lds_unit_cus is 2 */
    int32_t lds_unit_cus;      /* compute units that share lds_unit_bytes */
    int32_t vgprs_lane_w32;    /* registers a SIMD lane has in wave32 / wave64 */
    int32_t vgprs_lane_w64;
    int32_t vgprs_wave_max;    /* architectural VGPRs one wave can address */
    int32_t agprs;             /* accumulation registers; 0 for none */
    bool unified_vgprs;        /* AGPRs come out of the same file */
    int32_t sgprs_wave;
    int32_t waves_simd_max;
    int32_t simds_cu;
    och_matrix_isa matrix;
    uint32_t matrix_types;     /* OCH_MT_* */
    uint32_t matrix_waves;     /* OCH_WAVE*: where a matrix instruction may run */
    uint32_t ops;              /* OCH_DOT4_I8 ... */
    och_fp8_encoding fp8;
    bool xnack, sramecc;       /* the target has the feature, so that its name may carry it */
    const char *generic_target; /* the generic target that serves this one; "" none, "?" unknown */
    int32_t clang_min;         /* oldest major version known to compile for it: tried, or from its LLVM change */
    int32_t clang_removed;     /* first major version tried that no longer does; 0: still there */
    bool code_object_v6;       /* needs code object version 6 */
} och_target;

/* A feature of a whole target name: not named, on, or off. */
typedef enum och_feature { OCH_FEATURE_ANY, OCH_FEATURE_ON, OCH_FEATURE_OFF } och_feature;

#define OCH_TARGET_NAME_BYTES 64

/* A target named whole. `name` is canonical: base name, then ":sramecc±", then ":xnack±", as clang prints it. */
typedef struct och_target_id {
    const och_target *target;
    och_feature sramecc, xnack;
    char name[OCH_TARGET_NAME_BYTES];
} och_target_id;

/* Parses a whole name. INVALID: a malformed, repeated or inapplicable feature. NOTFOUND: the base name is unknown; the
 * message lists the known targets and, where the name looks like one of a generic target's family, the generic target
 * that may serve it. */
OCH_WARN_UNUSED och_status och_target_find(const char *name, och_target_id *out_id, och_err *err);

/* Whether code built for `code` may run on a device that reports `device`: equal or served generic base, and every
 * feature named in the code is the device's. */
bool och_target_serves(const och_target_id *code, const och_target_id *device);

/* Rows in table order; NULL past the end. */
const och_target *och_target_at(size_t i);
size_t och_target_count(void);

/* Figures are the vendor's peaks, dense. UNKNOWN and NOT_APPLICABLE as above. */
typedef struct och_board {
    const char *name; /* "Radeon RX 7900 XTX" */
    const char *arch; /* a target's name */
    och_vendor vendor;
    int32_t compute_units;   /* CUs or SMs of the whole package */
    int32_t multiprocessors; /* what the runtime reports as multiProcessorCount (WGPs on gfx10 and later) */
    int32_t clock_mhz;
    const char *memory;      /* "GDDR6 20 Gbps" */
    int32_t bus_bits;
    int64_t memory_bytes;    /* UNKNOWN for a carve-out that the owner sets */
    double bandwidth_gbps;   /* 1e9 bytes per second */
    double fp32_tflops, fp16_matrix_tflops, bf16_matrix_tflops, fp8_matrix_tflops, int8_tops, int4_tops, fp4_tflops;
    int64_t l2_bytes, mall_bytes; /* of the whole package; MALL: the memory-side cache */
    och_tri integrated, managed_memory, concurrent_managed, pageable_access;
    int32_t wave;
    int32_t devices;         /* devices that a runtime shows for one package */
    const char *notes;       /* what qualifies the figures; "" for none */
} och_board;

/* By name (case-insensitive; a unique part of one suffices) or by target name (the first board of that target). NULL
 * when nothing, or more than one name, fits. */
const och_board *och_board_find(const char *name);
const och_board *och_board_at(size_t i);
size_t och_board_count(void);

/* "?" for unknown, "-" for not applicable, else the number; writes at most n bytes and returns buf. */
const char *och_target_print_num(double value, char *buf, size_t n);
const char *och_tri_name(och_tri t);              /* "yes", "no", "with xnack", "?" */
const char *och_matrix_isa_name(och_matrix_isa m);
const char *och_fp8_encoding_name(och_fp8_encoding e);

#endif
