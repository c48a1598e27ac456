/* Code of any content against what was asked: PTX, code objects and cubins, with and without a symbol and a layout. It
 * is right or there is a message; what it is said to take is within what was read. */
#include "base/alloc.h"
#include "jit/check.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok) {
    if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const targets[] = {"sm_90", "gfx1100", "sm_80", "gfx942"};
    static const och_jit_arg args[] = {{0, 8}, {8, 4}, {16, 24}, {40, 2}, {48, 8}, {56, 8}, {64, 8}, {72, 4}};
    if (!size) return 0;
    int64_t live = och_alloc_live();
    unsigned how = data[size - 1];
    size--;
    /* of exactly that size, and ended as artifacts are: the sanitizers see a read beyond it */
    uint8_t *code = malloc(size + 1);
    memcpy(code, data, size);
    code[size] = 0;
    och_jit_job job;
    och_checked made;
    och_err e = {0};
    och_jit_request q = {.kernel = "k", .target = targets[how & 3], .dialect = how & 1 ? OCH_JIT_HIP : OCH_JIT_CUDA};
    if (how & 4) q.symbol = "k";
    if (how & 4 && how & 8)
        q.has_layout = true, q.args = args, q.n_args = 1 + (how >> 4) % 8,
        q.kernarg_bytes = args[q.n_args - 1].offset_bytes + args[q.n_args - 1].size_bytes;
    check(och_jit_job_init(&q, &job, &e) == OCH_OK);
    for (int kind = OCH_JIT_HSACO; kind <= OCH_JIT_CUBIN; kind++) {
        och_err_clear(&e);
        och_status st =
            och_jit_check(code, size, (och_jit_code_kind)kind, &job, &job.target, job.code_object_version, &made, &e);
        check(st == e.status && (st == OCH_OK || e.message[0]));
        if (st == OCH_OK && kind == OCH_JIT_HSACO) check(made.code_object_version == job.code_object_version);
    }
    free(code);
    check(och_alloc_live() == live);
    return 0;
}
