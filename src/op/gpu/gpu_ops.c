/* The provider table: a row an op and backend. */
#include "op/gpu/gpu_ops.h"

#include "op/gpu/gpu.h"
#include "quant/planes.h"

#define ROW(backend_name, sym, fn)                                                                                             \
    .name = "kernel", .backend = backend_name, .priority = 100, .has_kernels = true, .op = OCH_OP_##sym,                       \
    .supports = och_gpu_##fn##_supports, .run = och_gpu_##fn##_run

#define ROWS(backend)                                                                                                  \
    {ROW(backend, EMBED, embed), .weight_layout = och_gpu_weight_layout, .weight_pack = och_planes_pack},              \
    {ROW(backend, RMS_NORM, rms_norm)},                                                                                \
    {ROW(backend, LINEAR, linear), .takes_codes = true, .takes_one_row = true, .scratch_bytes = och_gpu_linear_scratch, \
     .weight_layout = och_gpu_weight_layout, .weight_pack = och_planes_pack},                                          \
    {ROW(backend, ROPE, rope)},                                                                                        \
    {ROW(backend, KV_WRITE, kv_write)},                                                                                \
    {ROW(backend, QKV_POST, qkv_post), .takes_one_row = true},                                                         \
    {ROW(backend, ATTENTION, attention), .takes_codes = true, .scratch_bytes = och_gpu_attention_scratch},                                  \
    {ROW(backend, GLU, glu)},                                                                                          \
    {ROW(backend, ADD, add)},                                                                                          \
    {ROW(backend, GATHER, gather)},                                                                                    \
    {ROW(backend, SAMPLE, sample), .scratch_bytes = och_gpu_sample_scratch}

const och_op_provider och_op_gpu_providers[] = {ROWS("hip"), ROWS("sim"), ROWS("cuda")};
const int och_op_gpu_provider_count = (int)(sizeof och_op_gpu_providers / sizeof och_op_gpu_providers[0]);
