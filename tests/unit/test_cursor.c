#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "file/cursor.h"

static void reads_little_endian(void **s) {
    (void)s;
    const uint8_t bytes[] = {0x01, 0x34, 0x12, 0x78, 0x56, 0x34, 0x12, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0xC0, 0x3F,
                             0, 0, 0, 0, 0, 0, 0xC0, 0xBF};
    och_cursor c = och_cursor_view(bytes, sizeof bytes);
    uint8_t a;
    uint16_t b;
    uint32_t d;
    uint64_t e;
    float f;
    double g;
    assert_true(och_cursor_u8(&c, &a) && a == 1);
    assert_true(och_cursor_u16(&c, &b) && b == 0x1234);
    assert_true(och_cursor_u32(&c, &d) && d == 0x12345678);
    assert_true(och_cursor_u64(&c, &e) && e == UINT64_C(0x0102030405060708));
    assert_true(och_cursor_f32(&c, &f) && f == 1.5f);
    assert_true(och_cursor_f64(&c, &g) && g == -0.125);
    assert_int_equal(och_cursor_left(&c), 0);
    assert_false(och_cursor_u8(&c, &a));
    assert_int_equal(a, 0);
}

static void a_read_that_does_not_fit_changes_nothing(void **s) {
    (void)s;
    const uint8_t bytes[7] = {1, 2, 3, 4, 5, 6, 7};
    och_cursor c = och_cursor_view(bytes, sizeof bytes);
    const void *p = bytes;
    uint64_t v = 9;
    uint8_t out[8];
    volatile uint64_t huge = UINT64_MAX - 3; /* volatile: the compiler would warn of what the reader is to catch */
    assert_false(och_cursor_u64(&c, &v));
    assert_int_equal(v, 0);
    assert_true(och_cursor_skip(&c, 3));
    /* pos + n would wrap around to something small */
    assert_false(och_cursor_skip(&c, UINT64_MAX));
    assert_false(och_cursor_skip(&c, UINT64_MAX - 2));
    assert_false(och_cursor_bytes(&c, UINT64_MAX - 1, &p));
    assert_null(p);
    assert_false(och_cursor_copy(&c, out, huge));
    assert_false(och_cursor_seek(&c, 8));
    assert_int_equal(c.pos, 3);
    assert_true(och_cursor_bytes(&c, 4, &p) && p == bytes + 3);
    assert_true(och_cursor_bytes(&c, 0, &p) && p);
    assert_true(och_cursor_seek(&c, 0) && och_cursor_copy(&c, out, 7) && out[6] == 7);
}

static void nothing_can_be_read_from_nothing(void **s) {
    (void)s;
    och_cursor c = och_cursor_view(NULL, 0);
    const void *p;
    assert_true(och_cursor_bytes(&c, 0, &p) && p);
    assert_true(och_cursor_copy(&c, NULL, 0));
    assert_false(och_cursor_skip(&c, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_little_endian),
        cmocka_unit_test(a_read_that_does_not_fit_changes_nothing),
        cmocka_unit_test(nothing_can_be_read_from_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
