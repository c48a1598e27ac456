/* Ops: what a step is made of.
 *
 * A call names an op, its operands and its attributes; a provider runs it. Every op has a reference provider (plain C,
 * negative priority, any device whose memory the host may dereference); faster providers register above it. Choosing
 * happens when a plan is built, never inside a step, and only OCH_UNSUPPORTED lets the registry try the next provider.
 *
 * Shapes: operands are matrices [rows, cols], row-major; a row of `cols` elements starts every `row_bytes` bytes.
 * Activations are float32. Token-parallel operands have one row a token of the step.
 *
 * Ids are data and are looked at when an op runs. Those that the scheduler makes (slots, tables, seqs, positions, rows)
 * are checked by the reference (OCH_RANGE), and a faster provider may trust them. EMBED's come from outside: the engine checks
 * them against the vocabulary before a step, every provider that runs on the host checks them again, and one that runs on a
 * device reads a row that exists instead. */
#ifndef OCH_OP_OP_H
#define OCH_OP_OP_H

#include "base/dtype.h"
#include "base/status.h"
#include "dev/dev.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum och_op_id {
#define OCH_OP(sym, name, operands) OCH_OP_##sym,
#include "op/ops.def"
#undef OCH_OP
    OCH_OP_COUNT_
} och_op_id;

/* How a weight lies in device memory. NATIVE is the file's layout; the others belong to the provider that packs them. */
typedef enum och_layout {
    OCH_LAYOUT_NATIVE = 0,
    OCH_LAYOUT_CPU_PACKED = 1, /* src/op/cpu/pack.h */
    OCH_LAYOUT_PLANES = 2      /* src/quant/planes.h */
} och_layout;

typedef struct och_tensor {
    och_dtype dtype;   /* OCH_DTYPE_NONE: the operand is absent */
    och_layout layout;
    int64_t rows, cols;
    uint64_t row_bytes; /* NATIVE only */
    och_dev_addr addr;
    void *host; /* the same memory where the device is unified, else NULL */
} och_tensor;

static inline bool och_tensor_present(const och_tensor *t) { return t->dtype != OCH_DTYPE_NONE; }

/* Operand numbers. */
enum { OCH_EMBED_IDS, OCH_EMBED_TABLE };
enum { OCH_RMS_NORM_X, OCH_RMS_NORM_W, OCH_RMS_NORM_RESIDUAL };
enum { OCH_LINEAR_X, OCH_LINEAR_NORM, OCH_LINEAR_RESIDUAL, OCH_LINEAR_W0, OCH_LINEAR_B0 = OCH_LINEAR_W0 + 3,
       OCH_LINEAR_XCODES = OCH_LINEAR_B0 + 3, OCH_LINEAR_TABLE, OCH_LINEAR_SLOTS, OCH_LINEAR_YNORM };
enum { OCH_LINEAR_YCODES = 3, OCH_LINEAR_KCACHE, OCH_LINEAR_VCACHE, OCH_ATTENTION_YCODES = 1 }; /* of outputs */
enum { OCH_ROPE_X, OCH_ROPE_TABLE };
enum { OCH_KV_WRITE_K, OCH_KV_WRITE_V, OCH_KV_WRITE_SLOTS };
enum { OCH_QKV_POST_Q, OCH_QKV_POST_K, OCH_QKV_POST_V, OCH_QKV_POST_QNORM, OCH_QKV_POST_KNORM, OCH_QKV_POST_TABLE,
       OCH_QKV_POST_SLOTS };
enum { OCH_ATTENTION_Q, OCH_ATTENTION_K, OCH_ATTENTION_V, OCH_ATTENTION_TABLES, OCH_ATTENTION_SEQS,
       OCH_ATTENTION_POSITIONS };
enum { OCH_GLU_GATE, OCH_GLU_UP };
enum { OCH_GATHER_X, OCH_GATHER_ROWS };
enum { OCH_SAMPLE_LOGITS, OCH_SAMPLE_NUMBERS, OCH_SAMPLE_DRAWS };
enum { OCH_SAMPLE_TEMPERATURE, OCH_SAMPLE_TOP_P, OCH_SAMPLE_MIN_P, OCH_SAMPLE_N_NUMBERS }; /* columns of numbers */
enum { OCH_SAMPLE_TOP_K, OCH_SAMPLE_SEED, OCH_SAMPLE_POSITION = OCH_SAMPLE_SEED + 2,
       OCH_SAMPLE_N_DRAWS = OCH_SAMPLE_POSITION + 2 }; /* columns of draws; 64 bits: the low word first */

#define OCH_OP_MAX_IN 13
#define OCH_OP_MAX_OUT 6
#define OCH_LINEAR_MAX_WEIGHTS 3

typedef enum och_act { OCH_ACT_NONE, OCH_ACT_SILU, OCH_ACT_GELU_TANH, OCH_ACT_GELU_ERF } och_act;

/* Which pairs of a head's first rot_dim elements a rotation turns. */
typedef enum och_rope_style {
    OCH_ROPE_HALF,       /* (i, i + rot_dim/2): Hugging Face, GPT-NeoX */
    OCH_ROPE_INTERLEAVED /* (2i, 2i + 1): the original paper; GGUF files of the llama family permute q and k for it */
} och_rope_style;

/* y[i, :] = scale * table[ids[i], :].  ids i32[n,1]; table any weight format [V,d]; y f32[n,d]. An id outside the table
 * is OCH_RANGE, or reads some row of the table where a device finds it. */
typedef struct och_attr_embed {
    float scale;
} och_attr_embed;

/* Each row of x is cut into groups of w.cols elements (one group, or one a head), and
 * y = x * rsqrt(mean(x^2) + eps) * (w + (add_one ? 1 : 0)) [+ residual]   (Zhang, Sennrich 2019, equation 4).
 * x, y, residual f32[n, g * d]; w f32[1, d]. y may be x or residual. */
typedef struct och_attr_rms_norm {
    float eps;
    bool add_one;
} och_attr_rms_norm;

/* Rotates the first rot_dim elements of each head: (u, v) -> (u cos - v sin, v cos + u sin)   (Su et al. 2021, eq. 34).
 * x, y f32[n, n_heads * head_dim], y may be x; table f32[n, rot_dim]: for each token rot_dim/2 cosines then
 * rot_dim/2 sines, made on the host (any scaling of magnitude is in the table). */
typedef struct och_attr_rope {
    int n_heads, head_dim, rot_dim;
    och_rope_style style;
} och_attr_rope;

/* Paged state of one layer. kcache and vcache: [n_blocks] blocks of n_kv_heads * block_tokens * head_dim elements in the
 * cache's dtype (F32, F16, BF16, F8_E4M3: quant/fp8.h), as a tensor of n_blocks rows and that many columns. k, v f32[n, n_kv_heads * head_dim].
 * In a block, K is [n_kv_heads][head_dim][block_tokens] (a row is one dimension of
 * block_tokens tokens, so that scores are computed for many tokens at once) and V is [n_kv_heads][block_tokens][head_dim].
 * slots i32[n,1]: block id * block_tokens + offset of the token; negative: not stored. */
typedef struct och_attr_kv {
    int n_kv_heads, head_dim, block_tokens;
} och_attr_kv;

/* kv_write(rope(norm(k)), v) and y = rope(norm(q)), in one pass; y may be q. qnorm and knorm f32[1, head_dim], either may
 * be absent. rot_dim may be 0 (then the table has no columns). */
typedef struct och_attr_qkv_post {
    och_attr_kv kv;
    och_attr_rope rope; /* n_heads: of q */
    och_attr_rms_norm norm;
    bool one_row_done; /* see och_op_one_row */
} och_attr_qkv_post;

/* With a = norm ? rms_norm(x, norm) : x and n_weights weights w_i [m_i, k]:
 *   glu == NONE: y_i = a w_i^T [+ b_i]; [y_0 += residual] (residual only with one weight);
 *   else (two weights of equal shape): y_0 = act(a w_0^T [+ b_0]) * (a w_1^T [+ b_1]).
 * x f32[n,k]; norm f32[1,k]; w_i any weight format; b_i f32[1,m_i]; y_i f32[n,m_i]; y_0 may be residual.
 * ynorm f32[1,m_0]: the norm that y_0's codes are for (see OCH_OP_CODES_ROWS), with ynorm_add_one as there. */
typedef struct och_attr_linear {
    int n_weights;
    och_act glu;
    och_attr_rms_norm norm;
    bool x_halves, y_halves; /* see OCH_OP_HALVES_ROWS */
    bool ynorm_add_one;
    och_attr_qkv_post post;  /* beside slots: see och_op_one_row */
} och_attr_linear;

/* Causal attention of each token over the positions <= its own (and > own - window when window > 0) of its sequence:
 * y = softmax(scale * q k^T) v, with softcap > 0: scores pass through softcap * tanh(s / softcap) first.
 * q, y f32[n, n_heads * head_dim], y may be q; query head h reads kv head h / (n_heads / n_kv_heads);
 * seqs i32[n,1]: row of the token's sequence in `tables`, negative: a padding token, its y is set to 0;
 * positions i32[n,1]; tables i32[n_seqs, table_len]: position p lies in block tables[s, (p / block_tokens) % table_len]. */
typedef struct och_attr_attention {
    och_attr_kv kv;
    int n_heads;
    float scale, softcap;
    int window; /* 0: all */
} och_attr_attention;

/* y = act(gate) * up. f32[n,d]; y may be gate or up. */
typedef struct och_attr_glu {
    och_act act;
} och_attr_glu;

/* ADD: y = a + b, f32[n,d]; y may be a or b.  GATHER: y[i,:] = x[rows[i],:], f32; rows i32[m,1].
 *
 * SAMPLE: a token a row of logits f32[n,v], v of 1 to 2^20: steps 2 to 7 of engine/sampler.h, to the bit. numbers f32[n,3]:
 * temperature (finite, from 0; 0: the first id of the greatest logit), top_p of (0, 1], min_p of [0, 1]; draws i32[n,5]: top_k (0: off),
 * seed, position; id i32[n,1]: -1 - i where logit i, the first such, is no finite number. Keys order (z, id), z = (logit - greatest) /
 * temperature not below -FLT_MAX: a greater z first, then a lower id. Weights: base/weight.h. */
#define OCH_SAMPLE_MAX_IDS (INT64_C(1) << 20)

/* Codes: rows of activations as products with weights of codes read them, OCH_ACT_Q8_32S in planes (quant/planes.h). As a tensor U8
 * [OCH_OP_CODES_ROWS, bytes of a row]. A call of at most so many rows hands them on instead of the rows themselves: what has ycodes
 * writes those, and in y what it likes; what has xcodes reads those and not x. A call of more rows is as if it had none. They are,
 * to the bit, what the reader would have made of y. ycodes: of ATTENTION, and of a LINEAR with a gate; xcodes: of a LINEAR without
 * a norm whose weights all pair with such activations. A pass adds them (engine/passes.c) where a provider's row says that it takes
 * them.
 *
 * Codes through a norm: beside ynorm, ycodes of a LINEAR without a gate and with one weight are those of y_0 * (ynorm + add_one): what
 * the norm of a row comes to but for its own factor rsqrt(mean(y_0^2) + eps). Behind them, at the next multiple of 16 bytes, lies the
 * sum of y_0^2 of each block, float32. xcodes beside a norm are the same of x, and the reader multiplies its sums by the factor. As a
 * tensor U8 [1, bytes] (och_op_normed_codes). A call of one row that need not be computed as among others writes them beside y_0, and
 * may read either them or x; any other call is as if it had none. Codes are those of the normed row, up to a last bit of what they are made of. */
#define OCH_OP_CODES_ROWS 8

typedef struct och_op_call {
    och_op_id op;
    och_tensor in[OCH_OP_MAX_IN];
    och_tensor out[OCH_OP_MAX_OUT];
    union {
        och_attr_embed embed;
        och_attr_rms_norm rms_norm;
        och_attr_linear linear;
        och_attr_rope rope;
        och_attr_kv kv_write;
        och_attr_qkv_post qkv_post;
        och_attr_attention attention;
        och_attr_glu glu;
    } attr;
} och_op_call;

/* Halves: from so many rows on, and where each row need not be computed as alone, a LINEAR with x_halves reads rows of x, and one with
 * y_halves writes rows of y_0, as bf16 from the row's first byte on; what follows in a row is neither read nor written. They are what
 * the reader would have made of y. y_halves: with a gate; x_halves: without a norm, weights of BF16 alone, k a multiple of 8. A pass
 * sets them (engine/passes.h) where a provider's row says that it takes them. */
#define OCH_OP_HALVES_ROWS 64

/* The codes that the call, of so many rows, reads or writes in place of x or y; NULL: it has none, or more rows. */
static inline const och_tensor *och_op_codes(const och_tensor *codes, int64_t n_rows) {
    return codes && och_tensor_present(codes) && n_rows <= OCH_OP_CODES_ROWS ? codes : NULL;
}
/* The operands of a call that are codes in place of x or y, absent or not; NULL for ops that have none, and where a norm's are. */
static inline const och_tensor *och_op_xcodes(const och_op_call *c) {
    return c->op == OCH_OP_LINEAR && !och_tensor_present(&c->in[OCH_LINEAR_NORM]) ? &c->in[OCH_LINEAR_XCODES] : NULL;
}
static inline const och_tensor *och_op_ycodes(const och_op_call *c) {
    if (c->op == OCH_OP_ATTENTION) return &c->out[OCH_ATTENTION_YCODES];
    return c->op == OCH_OP_LINEAR && !och_tensor_present(&c->in[OCH_LINEAR_YNORM]) ? &c->out[OCH_LINEAR_YCODES] : NULL;
}
/* Codes through a norm, of x and of y_0: NULL where the call has none. */
static inline const och_tensor *och_op_xnormed(const och_op_call *c) {
    bool any = c->op == OCH_OP_LINEAR && och_tensor_present(&c->in[OCH_LINEAR_NORM]) && och_tensor_present(&c->in[OCH_LINEAR_XCODES]);
    return any ? &c->in[OCH_LINEAR_XCODES] : NULL;
}
static inline const och_tensor *och_op_ynormed(const och_op_call *c) {
    bool any = c->op == OCH_OP_LINEAR && och_tensor_present(&c->in[OCH_LINEAR_YNORM]) && och_tensor_present(&c->out[OCH_LINEAR_YCODES]);
    return any ? &c->out[OCH_LINEAR_YCODES] : NULL;
}
/* The tensor of codes through a norm, of rows of k elements, and where its squares begin, of which there is room for a multiple of
 * four; false: k is no whole number of blocks, or too much. Memory is the caller's to set. */
bool och_op_normed_codes(int64_t k, och_tensor *out_codes, uint64_t *out_squares_at) OCH_WARN_UNUSED;

/* What a provider may use while it runs. */
typedef struct och_op_ctx {
    och_queue *queue;
    void *scratch;          /* host memory of scratch_bytes, aligned to 64; NULL on devices that are not unified */
    och_dev_addr scratch_addr;
    uint64_t scratch_bytes; /* at least what the provider asked for */
    bool batch_invariant;   /* one variant whatever the number of rows */
    int64_t n_runs;         /* the step's tokens are so many runs of one sequence each: a hint for what is faster; 0: not known */
    bool reference_asked;   /* the reference was asked for by name: its calls are no fall back */
    uint64_t *n_launches;   /* counts kernels that are launched; NULL: nobody does */
    och_dev_addr counters;  /* OCH_OP_COUNTERS u32 for workgroups to count themselves, the queue's alone; 0: there are none. All are 0
                               before a kernel begins and when it ends: whoever counts in one sets it back */
} och_op_ctx;
#define OCH_OP_COUNTERS 1024

/* Whether a call of so many rows does what it has codes through a norm for. */
static inline bool och_op_takes_normed(const och_tensor *codes, int64_t n_rows, const och_op_ctx *ctx) {
    return codes && n_rows == 1 && !ctx->batch_invariant;
}

/* Whether a call of so many rows does what its x_halves or y_halves says. */
static inline bool och_op_halves(bool asked, int64_t n_rows, const och_op_ctx *ctx) {
    return asked && n_rows >= OCH_OP_HALVES_ROWS && !ctx->batch_invariant;
}

/* One row: a LINEAR of three weights (of q, k and v) with slots does, in a call of exactly one row that need not be computed as among
 * others, what a QKV_POST without norms would make of its results: y_0 is rope(q), k and v go into kcache and vcache, and y_1 and y_2
 * are what it likes. That QKV_POST, with one_row_done and q for its y, then does nothing. In calls of more rows the one is as if it had
 * no slots, and the other as if it were not marked. table, slots, kcache, vcache and the attributes are QKV_POST's. A pass adds them
 * (engine/passes.c) where a provider's row says that it takes them. */
static inline bool och_op_asks_one_row(const och_op_call *c) {
    return (c->op == OCH_OP_LINEAR && och_tensor_present(&c->in[OCH_LINEAR_SLOTS])) ||
           (c->op == OCH_OP_QKV_POST && c->attr.qkv_post.one_row_done);
}
static inline bool och_op_one_row(const och_op_call *c, const och_op_ctx *ctx) {
    return och_op_asks_one_row(c) && c->in[0].rows == 1 && !ctx->batch_invariant;
}

typedef struct och_op_provider {
    const char *name;    /* "reference", "cpu", ... */
    const char *backend; /* device backend it serves; "*": any device with unified memory */
    int priority;        /* the reference tier is negative */
    och_op_id op;
    /* OCH_OK, or OCH_UNSUPPORTED with the reason in err. Looks at dtypes, layouts, attributes and cols, never at rows
     * of tokens, but for what it has prepared: all that run() may need for any number of rows up to the call's. NULL in `device`
     * never happens. */
    och_status (*supports)(const och_device *device, const och_op_call *call, och_err *err);
    och_status (*run)(const och_op_ctx *ctx, const och_op_call *call, och_err *err);
    /* Most scratch that run() needs for this call's shape. NULL: none. */
    uint64_t (*scratch_bytes)(const och_device *device, const och_op_call *call);
    /* LINEAR and EMBED only: the layout this provider wants for a weight, its size in bytes, and the packing of rows
     * [row_begin, row_end) from the file's layout (row_begin and row_end are multiples of 64, or the last row). NULL:
     * NATIVE. */
    och_layout (*weight_layout)(const och_device *device, och_dtype dtype, int64_t rows, int64_t cols,
                                uint64_t *out_bytes);
    void (*weight_pack)(och_dtype dtype, int64_t rows, int64_t cols, const void *src, void *dst, int64_t row_begin,
                        int64_t row_end);
    bool takes_codes;    /* LINEAR and ATTENTION: it takes xcodes and ycodes, where supports() agrees */
    bool takes_halves;   /* LINEAR: the same of x_halves and y_halves */
    bool takes_one_row;  /* LINEAR and QKV_POST: the same of slots and one_row_done */
    bool has_kernels;    /* it launches code that was compiled for the device, which a session tries before it uses it */
} och_op_provider;

/* Registered providers, in the fixed order of providers.c. */
int och_op_provider_count(void);
const och_op_provider *och_op_provider_at(int i);

const char *och_op_name(och_op_id op);
const char *och_op_operands(och_op_id op); /* the third column of ops.def */

/* Checks presence, dtypes, shapes and attributes of the call against the op's contract. OCH_INVALID or OCH_RANGE, with
 * op, operand, expected and found. */
och_status och_op_check(const och_op_call *call, och_err *err) OCH_WARN_UNUSED;

/* The provider of highest priority that supports the call on the device, after och_op_check. `only` restricts to one name (NULL: any;
 * OCHRE_OP_ONLY is read by the caller). A refusal names the op, the device and each provider's reason. */
och_status och_op_select(const och_device *device, const och_op_call *call, const char *only,
                         const och_op_provider **out_provider, och_err *err) OCH_WARN_UNUSED;

/* The same for a LINEAR or EMBED call whose weights are still in the file's layout: each provider is asked as if it had packed
 * them (weight_layout). Where a weight is loaded, this decides who packs it. */
och_status och_op_select_packer(const och_device *device, const och_op_call *call, const char *only,
                                const och_op_provider **out_provider, och_err *err) OCH_WARN_UNUSED;

/* Runs a call by a provider chosen before, and counts it. */
och_status och_op_run(const och_op_ctx *ctx, const och_op_provider *provider, const och_op_call *call,
                      och_err *err) OCH_WARN_UNUSED;

/* Floor of the call: each input once, each output once (weights in their stored size), and operations. */
void och_op_cost(const och_op_call *call, uint64_t *out_bytes, uint64_t *out_flops);

/* Statistics: a row an (op, device, provider). */
typedef struct och_op_stat {
    och_op_id op;
    char device[64];     /* its label */
    const char *provider;
    bool reference_tier; /* a fall back: the reference ran although it was not asked for by name */
    uint64_t calls, bytes, flops;
    double seconds; /* 0 unless timing is on */
    bool simulated; /* seconds are the simulator's, and say nothing of the device */
} och_op_stat;
void och_op_stats_enable(bool timing); /* timing synchronises after each call */
void och_op_stats_reset(void);
/* Writes at most `capacity` rows sorted by seconds, then bytes; returns how many there are. */
int och_op_stats(och_op_stat *out_rows, int capacity);
/* Calls that fell back to the reference tier since the last reset. Always counted. */
uint64_t och_op_reference_hits(void);

#endif
