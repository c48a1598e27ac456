#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/dtype.h"
#include "base/half.h"
#include "base/size.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "base/thread.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

static void first_error_wins(void **s) {
    (void)s;
    och_err e;
    och_err_clear(&e);
    assert_int_equal(och_err_set(&e, OCH_CORRUPT, "field %s: expected %d, found %d", "x", 1, 2), OCH_CORRUPT);
    assert_int_equal(och_err_set(&e, OCH_NOMEM, "later"), OCH_NOMEM);
    assert_string_equal(e.message, "field x: expected 1, found 2");
    assert_int_equal(och_err_prefix(&e, "file %s", "a.gguf"), OCH_CORRUPT);
    assert_string_equal(e.message, "file a.gguf: field x: expected 1, found 2");
}

static void sizes_are_checked(void **s) {
    (void)s;
    uint64_t r;
    assert_true(och_u64_add(UINT64_MAX - 1, 1, &r) && r == UINT64_MAX);
    assert_false(och_u64_add(UINT64_MAX, 1, &r));
    assert_false(och_u64_mul(UINT64_C(1) << 32, UINT64_C(1) << 32, &r));
    assert_true(och_u64_align(65, 64, &r) && r == 128);
    assert_false(och_u64_align(UINT64_MAX, 64, &r));
    assert_null(och_malloc_array(SIZE_MAX / 2, 3));
}

static void the_nth_allocation_fails(void **s) {
    (void)s;
    och_alloc_fail_at(2);
    void *a = och_malloc(1), *b = och_malloc(1), *c = och_malloc(1);
    och_alloc_fail_at(0);
    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    och_free(a);
    och_free(c);
}

static void arena_gives_zeroed_memory(void **s) {
    (void)s;
    och_arena a;
    och_arena_init(&a);
    for (size_t n = 0; n < 200; n++) {
        unsigned char *p = och_arena_alloc(&a, n, 777);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n * 777; i++) assert_int_equal(p[i], 0);
        memset(p, 0xA5, n * 777);
    }
    assert_null(och_arena_alloc(&a, SIZE_MAX, 2));
    och_arena_deinit(&a);
}

/* Every half against the definition (IEEE 754-2019, section 3.4), and every half back to itself. */
static void halves(void **s) {
    (void)s;
    for (uint32_t h = 0; h < 65536; h++) {
        int e = (h >> 10) & 31, m = h & 1023;
        float f = och_f16_to_f32((uint16_t)h);
        if (e == 31 && m) {
            assert_true(isnan(f) && isnan(och_f16_to_f32(och_f32_to_f16(f))));
            continue;
        }
        double want = e == 31 ? INFINITY : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
        assert_true(f == (float)(h & 0x8000 ? -want : want));
        assert_int_equal(och_f32_to_f16(f), h);
    }
    assert_int_equal(och_f32_to_f16(65519.99f), 0x7BFF);
    assert_int_equal(och_f32_to_f16(65520.0f), 0x7C00);
    assert_int_equal(och_f32_to_f16(1.0f + 0x1p-11f), 0x3C00);             /* tie to even */
    assert_int_equal(och_f32_to_f16(1.0f + 0x1p-11f + 0x1p-20f), 0x3C01);
    assert_int_equal(och_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(och_f32_to_f16(0x1.8p-25f), 1);
    assert_int_equal(och_f32_to_bf16(1.0f + 0x1p-8f), 0x3F80);
    assert_int_equal(och_f32_to_bf16(1.0f + 0x1p-8f + 0x1p-20f), 0x3F81);
    assert_true(isnan(och_bf16_to_f32(och_f32_to_bf16(NAN))));
}

static void dtypes(void **s) {
    (void)s;
    uint64_t n;
    assert_true(och_dtype_bytes(OCH_DTYPE_Q4_K, 3, 512, &n) && n == 3 * 2 * 144);
    assert_false(och_dtype_bytes(OCH_DTYPE_Q4_K, 3, 500, &n));
    assert_false(och_dtype_bytes(OCH_DTYPE_F32, UINT64_MAX / 2, 4, &n));
    for (int t = 0; t < OCH_DTYPE_COUNT_; t++) {
        assert_int_equal(och_dtype_from_name(och_dtype_name((och_dtype)t)), t);
        if (och_dtype_get((och_dtype)t)->gguf_type >= 0)
            assert_int_equal(och_dtype_from_gguf((uint32_t)och_dtype_get((och_dtype)t)->gguf_type), t);
    }
    assert_int_equal(och_dtype_from_gguf(4), OCH_DTYPE_NONE);
}

static void json_strings(void **s) {
    (void)s;
    och_strbuf b;
    och_strbuf_init(&b);
    och_strbuf_json(&b, "a\"\\\n\xC3\xA9\xFF\xED\xA0\x80", 10);
    assert_string_equal(och_strbuf_str(&b), "\"a\\\"\\\\\\u000a\xC3\xA9\\ufffd\\ufffd\\ufffd\\ufffd\"");
    och_strbuf_deinit(&b);
}

typedef struct counter {
    _Atomic int n;
    int after_barrier[8];
} counter;

static void count(void *arg, const och_pool_member *me) {
    counter *c = arg;
    for (int i = 0; i < 3; i++) {
        atomic_fetch_add(&c->n, 1);
        och_pool_barrier(me);
        c->after_barrier[me->index] = atomic_load(&c->n);
        och_pool_barrier(me);
    }
}

static void pool_runs_everyone_once(void **s) {
    (void)s;
    for (int n = 1; n <= 5; n++) {
        och_pool *p;
        och_err e;
        och_err_clear(&e);
        assert_int_equal(och_pool_create(n, &p, &e), OCH_OK);
        for (int round = 0; round < 25; round++) {
            counter c = {0};
            och_pool_run(p, count, &c);
            assert_int_equal(c.n, 3 * n);
            for (int i = 0; i < n; i++) assert_int_equal(c.after_barrier[i], 3 * n);
        }
        och_pool_destroy(p);
    }
    och_pool *p;
    och_err e;
    och_err_clear(&e);
    assert_int_equal(och_pool_create(-1, &p, &e), OCH_RANGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_error_wins),          cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(the_nth_allocation_fails),  cmocka_unit_test(arena_gives_zeroed_memory),
        cmocka_unit_test(halves),                    cmocka_unit_test(dtypes),
        cmocka_unit_test(json_strings),              cmocka_unit_test(pool_runs_everyone_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
