/* What the files of products share: linear.c has matrix-vector products of several rows and tiles, and what every call comes to;
 * linear_row.c the calls of one row, or of a few with a gate, that are one launch. */
#ifndef OCH_OP_GPU_LINEAR_H
#define OCH_OP_GPU_LINEAR_H

#include "op/gpu/gpu.h"
#include "quant/format.h"

/* What tiles of halves take as activations. */
typedef enum och_gpu_half { OCH_GPU_HALF_F16, OCH_GPU_HALF_BF16, OCH_GPU_HALF_KINDS } och_gpu_half;

/* What a product reads as activations. */
typedef struct och_gpu_acts {
    och_dev_addr q8, f32, f16[OCH_GPU_HALF_KINDS], scale[OCH_GPU_HALF_KINDS]; /* value 0: not made */
    uint64_t q8_row_bytes, f32_row_bytes;
} och_gpu_acts;

/* A call while it is launched. */
typedef struct och_gpu_job {
    const och_op_ctx *ctx;
    const och_op_call *c;
    och_gpu_scratch scratch;
    och_gpu_acts acts;
    och_tensor x;
    const och_tensor *normed; /* codes of x through the norm that are read; NULL: none */
    bool many; /* tiles */
} och_gpu_job;

static inline bool och_gpu_quantised(const och_tensor *w) { return och_format_get(w->dtype)->act == OCH_ACT_Q8_32S; }
static inline const char *och_gpu_yes(bool b) { return b ? "true" : "false"; }

/* Of a kernel that a call has another way beside. */
static inline och_status och_gpu_unless_absent(och_status st, och_err *err) {
    if (!och_gpu_absent(st)) return st;
    och_err_clear(err);
    return OCH_OK;
}

static inline och_kl_actual och_gpu_norm_arg(const och_gpu_job *j) { return och_gpu_vector("norm", &j->c->in[OCH_LINEAR_NORM]); }
static inline och_kl_actual och_gpu_eps_arg(const och_gpu_job *j) { return och_gpu_real("eps", (double)j->c->attr.linear.norm.eps); }

/* ---- linear.c ---- */

/* Many rows that are too short for a wave's lanes to have a unit each. */
bool och_gpu_short_rows(const och_tensor *w);
/* Three products of one row in one launch, which must not end with another sum than they do apart where that is asked. */
bool och_gpu_together(const och_op_call *c);
/* The kernel as `cut` says, or as `otherwise` does where that is not to be had here. */
OCH_WARN_UNUSED och_status och_gpu_cut_or(const och_device *d, const char *kernel, const char *cut, const char *otherwise, const char *spec,
                                          const och_gpu_kernel **out_k, och_err *err);
/* Of kernels whose activations are codes through a norm. */
#define OCH_GPU_SQUARES ",SQUARES=true"
/* `early`: units of a lane to load before what x comes from has ended, 0: as tuned. */
OCH_WARN_UNUSED och_status och_gpu_vec_kernel(const och_device *d, const och_tensor *w, int b, int early, och_act glu, bool invariant,
                                              bool squares, const och_gpu_kernel **out_k, och_err *err);
/* Activations of all rows as w reads them, made at the first need, as a tensor whose type is not looked at. */
OCH_WARN_UNUSED och_status och_gpu_acts_for(och_gpu_job *j, const och_tensor *w, och_tensor *out, och_err *err);
/* Weights, biases and results of kernels for q, k and v, behind n arguments; how many there are then. */
int och_gpu_three_args(const och_op_call *c, och_kl_actual *args, int n);

/* ---- linear_row.c ---- */

/* Asks for what the rest of this may launch for the call; UNSUPPORTED where what is asked of it beside y is not to be had, or no faster. */
OCH_WARN_UNUSED och_status och_gpu_row_supports(const och_device *d, const och_op_call *c, och_err *err);
/* Units of a lane that matvec loads before what n rows of x come from has ended; 0: as tuned. */
int och_gpu_row_early(const och_device *d, const och_op_call *c, int64_t n, bool invariant);
/* Has the call read codes of x through the norm where it has them and a kernel for them; else x is there. */
OCH_WARN_UNUSED och_status och_gpu_row_reads(och_gpu_job *j, och_err *err);
/* The call in one launch, y's codes with it (NULL: none) and what qkv_post makes of it where *out_posted. och_gpu_absent(): there is no
 * such kernel, or none here. */
OCH_WARN_UNUSED och_status och_gpu_row_run(och_gpu_job *j, const och_tensor *codes, bool *out_posted, och_err *err);
/* The same with y's codes through the next norm. */
OCH_WARN_UNUSED och_status och_gpu_row_normed(och_gpu_job *j, const och_tensor *codes, och_err *err);
/* Squares of codes through a norm of x, for kernels that have SQUARES. */
och_kl_actual och_gpu_squares_arg(const och_gpu_job *j);

#endif
