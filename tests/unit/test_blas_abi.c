/* Where cuBLASLt's own headers are installed: every number of the library's row is theirs, and what the heuristic returns lies as
 * they say. hipBLASLt's headers are C++; its numbers are written down in fake_blas.c, from the same documentation, apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "op/blas/library.h"

#if __has_include(<cublasLt.h>)
#define CUBLASLT_H <cublasLt.h>
#elif __has_include("/usr/local/cuda/include/cublasLt.h")
#define CUBLASLT_H "/usr/local/cuda/include/cublasLt.h"
#endif

#ifdef CUBLASLT_H
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wunused-function"
#include CUBLASLT_H

static void numbers(void **state) {
    (void)state;
    const och_blas_kind *k = och_blas_kind_of("cuda");
    assert_non_null(k);
    assert_int_equal(k->type_f32, CUDA_R_32F);
    assert_int_equal(k->type_f16, CUDA_R_16F);
    assert_int_equal(k->type_bf16, CUDA_R_16BF);
    assert_int_equal(k->compute_f32, CUBLAS_COMPUTE_32F);
    assert_int_equal(k->op_none, CUBLAS_OP_N);
    assert_int_equal(k->op_transpose, CUBLAS_OP_T);
    assert_int_equal(k->desc_trans_a, CUBLASLT_MATMUL_DESC_TRANSA);
    assert_int_equal(k->desc_trans_b, CUBLASLT_MATMUL_DESC_TRANSB);
    assert_int_equal(k->pref_workspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
    assert_int_equal(k->pref_align_a, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
    assert_int_equal(k->pref_align_a + 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
    assert_int_equal(k->pref_align_a + 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
    assert_int_equal(k->pref_align_a + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
    assert_int_equal(k->result_bytes, sizeof(cublasLtMatmulHeuristicResult_t));
    assert_int_equal(0, offsetof(cublasLtMatmulHeuristicResult_t, algo));
    assert_int_equal(k->result_workspace, offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
    assert_int_equal(k->result_state, offsetof(cublasLtMatmulHeuristicResult_t, state));
    char text[32];
    och_blas_version_text(k, CUBLAS_VER_MAJOR * k->major_unit + CUBLAS_VER_MINOR * 100 + CUBLAS_VER_PATCH, text, sizeof text);
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH);
    assert_string_equal(text, expected);
    assert_int_equal(CUBLAS_VERSION, CUBLAS_VER_MAJOR * k->major_unit + CUBLAS_VER_MINOR * 100 + CUBLAS_VER_PATCH);
}

/* Arguments are passed as the table says: pointers, ints of enumerators, 64-bit sizes. The calls are assigned, not called. */
#define SAME(type, as) _Static_assert(sizeof(type) == sizeof(as) && __alignof__(type) == __alignof__(as), #type)
SAME(cublasStatus_t, int);
SAME(cublasLtHandle_t, void *);
SAME(cublasLtMatmulDesc_t, void *);
SAME(cublasLtMatrixLayout_t, void *);
SAME(cublasLtMatmulPreference_t, void *);
SAME(cublasComputeType_t, int);
SAME(cudaDataType_t, int);
SAME(cublasLtMatmulDescAttributes_t, int);
SAME(cublasLtMatmulPreferenceAttributes_t, int);
#define TYPED(name, ...)                                                                                                       \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&cublasLt##name), cublasStatus_t(*)(__VA_ARGS__)), #name)
TYPED(Create, cublasLtHandle_t *);
TYPED(Destroy, cublasLtHandle_t);
TYPED(MatmulDescCreate, cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t);
TYPED(MatmulDescDestroy, cublasLtMatmulDesc_t);
TYPED(MatmulDescSetAttribute, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *, size_t);
TYPED(MatrixLayoutCreate, cublasLtMatrixLayout_t *, cudaDataType, uint64_t, uint64_t, int64_t);
TYPED(MatrixLayoutDestroy, cublasLtMatrixLayout_t);
TYPED(MatmulPreferenceCreate, cublasLtMatmulPreference_t *);
TYPED(MatmulPreferenceDestroy, cublasLtMatmulPreference_t);
TYPED(MatmulPreferenceSetAttribute, cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void *, size_t);
TYPED(MatmulAlgoGetHeuristic, cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
      cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t[], int *);
TYPED(Matmul, cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *, cublasLtMatrixLayout_t, const void *,
      cublasLtMatrixLayout_t, const void *, const void *, cublasLtMatrixLayout_t, void *, cublasLtMatrixLayout_t,
      const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t);
_Static_assert(__builtin_types_compatible_p(__typeof__(&cublasLtGetVersion), size_t(*)(void)), "GetVersion");
#else
static void numbers(void **state) {
    (void)state;
    skip();
}
#endif

/* What the heuristic returns fits, its fields lie in it. */
static void results(void **state) {
    (void)state;
    static const char *const backends[] = {"cuda", "hip", "sim"};
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        const och_blas_kind *k = och_blas_kind_of(backends[i]);
        assert_non_null(k);
        assert_true(k->result_bytes <= OCH_BLAS_RESULT_BYTES);
        assert_true(k->result_workspace + 8 <= k->result_bytes && k->result_state + 4 <= k->result_bytes);
    }
    assert_null(och_blas_kind_of("cpu"));
    assert_null(och_blas_kind_of("null"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(results)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
