/* The provider of devices that load code: each op is one or a few launches of built-in kernels (kernels/), specialised for
 * the call's formats and attributes, made for the device's target.
 *
 * Kernels are asked for when a plan is built (each file's supports() names every kernel that its run() may launch) and are
 * compiled by threads meanwhile, so that a step compiles nothing but what the first one comes to too early. */
#ifndef OCH_OP_GPU_GPU_H
#define OCH_OP_GPU_GPU_H

#include "kl/kl.h"
#include "op/def.h"

#include <stdbool.h>
#include <stdint.h>

/* A loaded kernel; owned by the device's store, lives as long as the device. */
typedef struct och_gpu_kernel {
    och_kl_signature signature;
    och_function *function;
} och_gpu_kernel;

/* Makes the kernel at first use, waiting for its code; later calls find it. spec: "F=Q4_K,B=1", every parameter without a
 * default. out_kernel NULL: asks that it be made, and gives what is known by now; what compiling finds is then told by the call
 * that waits. UNSUPPORTED where the device loads no code; COMPILE, UNAVAILABLE and so on from the language and the JIT. An answer
 * holds as long as the device is open, a refusal too (NOMEM apart): packs and compilers that come later are seen once no device of
 * the runtime is open any more (jit/jit.h). Any thread. */
OCH_WARN_UNUSED och_status och_gpu_kernel_get(const och_device *d, const char *kernel, const och_gpu_kernel **out_kernel,
                                              och_err *err, const char *spec, ...) OCH_PRINTF(5, 6);

/* What och_gpu_kernel_get says of code that is not to be had here, where another way may be: no pack has it, and there is no compiler,
 * or it was not done in time (UNAVAILABLE), or none makes code of the target (UNSUPPORTED). */
static inline bool och_gpu_absent(och_status st) { return st == OCH_UNAVAILABLE || st == OCH_UNSUPPORTED; }

/* The kernel as `cut` says beside spec, "" or ",WAVES=16", or without it where packs hold the plain one alone and nothing here makes
 * the other. */
OCH_WARN_UNUSED och_status och_gpu_kernel_cut(const och_device *d, const char *kernel, const char *spec, const char *cut,
                                              const och_gpu_kernel **out_kernel, och_err *err);

/* How often kernels were looked up by name, by all threads: a record that runs again with as many rows does not, for those that it
 * was refused neither (op/memo.h). */
uint64_t och_gpu_kernel_lookups(void);

/* Kernels that were made, or begun, by all threads. */
uint64_t och_gpu_kernels_begun(void);

/* Returns when no thread makes a kernel of the device that was asked for before: what is allocated after it, the caller allocates. */
void och_gpu_kernels_wait(const och_device *d);

/* What the environment asks of a device's kernels, as it was when the first of them was asked for. */
typedef struct och_gpu_wish {
    int own_codes;  /* OCHRE_OWN_CODES: 0, 1; -1: as measured */
    int next_codes; /* OCHRE_NEXT_CODES: the same */
    int one_row;    /* OCHRE_ONE_ROW: the same */
    int norm_codes; /* OCHRE_NORM_CODES: the same */
    int ring;       /* OCHRE_RING: the same */
    bool attention_last; /* OCHRE_ATTENTION_LAST: 1 */
} och_gpu_wish;
och_gpu_wish och_gpu_wish_of(const och_device *d);

/* Arguments by name, for och_gpu_launch. */
och_kl_actual och_gpu_tensor(const char *name, const och_tensor *t); /* absent: address 0 */
/* A tensor of one row: [cols]. */
och_kl_actual och_gpu_vector(const char *name, const och_tensor *t);
/* OCH_LAYOUT_PLANES; columns as the planes have them, a whole number of units. */
och_kl_actual och_gpu_weight(const char *name, const och_tensor *t);
/* Columns of a weight up to a whole unit of its planes: of 32 where activations are codes beside it, else of 8. */
int64_t och_gpu_unit_cols(const och_tensor *t);
och_kl_actual och_gpu_matrix(const char *name, och_dev_addr addr, int64_t rows, int64_t cols, uint64_t row_bytes);
och_kl_actual och_gpu_int(const char *name, int64_t v);
och_kl_actual och_gpu_real(const char *name, double v);

OCH_WARN_UNUSED och_status och_gpu_launch(const och_op_ctx *ctx, const och_gpu_kernel *k, const och_kl_actual *actuals,
                                          int n_actuals, och_err *err);
/* The same, where what runs beside the kernel matters. */
OCH_WARN_UNUSED och_status och_gpu_launch_beside(const och_op_ctx *ctx, const och_gpu_kernel *k, const och_kl_actual *actuals,
                                                 int n_actuals, och_lds_share share, och_err *err);

/* Elements that a lane may take at a time, 4 or 1: rows of `cols` floats that all start at multiples of 16 bytes. */
int och_gpu_width(int64_t cols, const och_tensor *const *tensors, int n);

/* The parameters of kernels that hold a row of k elements in registers (act_f16, act_bf16). width: as och_gpu_width. */
#define OCH_GPU_ROW_SPEC_BYTES 48
void och_gpu_row_spec(int64_t k, int width, char out_spec[OCH_GPU_ROW_SPEC_BYTES]);

/* The language's name of a storage type or format: "f32", "Q4_K"; NULL for a dtype that has none. */
const char *och_gpu_type(och_dtype t);
/* The parameters of kernels that read or write a cache of that type: "T=f16"; for F8_E4M3 with the target's own encoding. */
#define OCH_GPU_CACHE_SPEC_BYTES 24
void och_gpu_cache_spec(const och_device *d, och_dtype t, char out_spec[OCH_GPU_CACHE_SPEC_BYTES]);

/* Bytes a second that a kernel reads which does nothing else, over n_bytes that it allocates: take several times the cache. The
 * best of a few rounds, host time of the launches included. */
OCH_WARN_UNUSED och_status och_gpu_read_rate(och_queue *q, uint64_t n_bytes, double *out_bytes_per_second, och_err *err);

/* rms_norm of groups of that many columns, for the files that norm before a product. width: as och_gpu_width; sums do not
 * depend on it. */
OCH_WARN_UNUSED och_status och_gpu_norm_kernel(const och_device *d, int64_t group_cols, bool add_one, int width,
                                               const och_gpu_kernel **out_k, och_err *err);

/* Rows of floats to codes by a launch of its own (kernels/linear.ok, act_q8), in a call that has them for its `codes` (op/op.h). */
OCH_WARN_UNUSED och_status och_gpu_codes_of(const och_op_ctx *ctx, const och_tensor *x, const och_tensor *codes, och_err *err);
/* Asks that its kernel be made. */
OCH_WARN_UNUSED och_status och_gpu_codes_kernel(const och_device *d, och_err *err);
/* The same of codes through a norm, of the first row of x. */
OCH_WARN_UNUSED och_status och_gpu_normed_codes_of(const och_op_ctx *ctx, const och_tensor *x, const och_tensor *norm, bool add_one,
                                                   const och_tensor *codes, och_err *err);
/* An argument that is codes, of rows of k elements; absent: address 0. */
och_kl_actual och_gpu_codes_arg(const char *name, const och_tensor *codes, int64_t n_rows, int64_t k);

/* Scratch of a call, cut into pieces that start at multiples of 256 bytes. */
typedef struct och_gpu_scratch {
    och_dev_addr base;
    uint64_t used, size_bytes;
} och_gpu_scratch;
/* INTERNAL when the provider asked for less than it takes. */
OCH_WARN_UNUSED och_status och_gpu_take(och_gpu_scratch *s, uint64_t n_bytes, och_dev_addr *out_addr, och_err *err);

och_status och_gpu_embed_supports(const och_device *device, const och_op_call *call, och_err *err);
och_status och_gpu_embed_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
och_status och_gpu_rms_norm_supports(const och_device *device, const och_op_call *call, och_err *err);
och_status och_gpu_rms_norm_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
och_status och_gpu_linear_supports(const och_device *device, const och_op_call *call, och_err *err);
och_status och_gpu_linear_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
uint64_t och_gpu_linear_scratch(const och_device *device, const och_op_call *call);
och_layout och_gpu_weight_layout(const och_device *device, och_dtype dtype, int64_t rows, int64_t cols, uint64_t *out_bytes);
och_status och_gpu_rope_supports(const och_device *device, const och_op_call *call, och_err *err);
och_status och_gpu_rope_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
och_status och_gpu_kv_write_supports(const och_device *device, const och_op_call *call, och_err *err);
och_status och_gpu_kv_write_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
och_status och_gpu_qkv_post_supports(const och_device *device, const och_op_call *call, och_err *err);
och_status och_gpu_qkv_post_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
och_status och_gpu_attention_supports(const och_device *device, const och_op_call *call, och_err *err);
och_status och_gpu_attention_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
uint64_t och_gpu_attention_scratch(const och_device *device, const och_op_call *call);
och_status och_gpu_glu_supports(const och_device *device, const och_op_call *call, och_err *err);
och_status och_gpu_glu_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
och_status och_gpu_add_supports(const och_device *device, const och_op_call *call, och_err *err);
och_status och_gpu_add_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
och_status och_gpu_gather_supports(const och_device *device, const och_op_call *call, och_err *err);
och_status och_gpu_gather_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
och_status och_gpu_sample_supports(const och_device *device, const och_op_call *call, och_err *err);
uint64_t och_gpu_sample_scratch(const och_device *device, const och_op_call *call);
och_status och_gpu_sample_run(const och_op_ctx *ctx, const och_op_call *call, och_err *err);

#endif
