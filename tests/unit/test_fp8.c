/* E4M3: every code by its definition, and every number by its neighbours among them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "quant/fp8.h"

#include <math.h>

/* OFP8 1.0, section 5: (-1)^s 2^(e - 7) (1 + m / 8), or (-1)^s 2^-6 m / 8 where e is 0; s.1111.111 is NaN. */
static double meaning(unsigned code) {
    unsigned e = code >> 3 & 15, m = code & 7;
    double v = e ? pow(2.0, (double)e - 7.0) * (1.0 + m / 8.0) : pow(2.0, -6.0) * m / 8.0;
    return code & 128 ? -v : v;
}

static void codes(void **s) {
    (void)s;
    for (unsigned c = 0; c < 256; c++) {
        float found = och_e4m3_to_f32((uint8_t)c);
        if ((c & 127) == 127) {
            assert_true(isnan(found));
            continue;
        }
        assert_true((double)found == meaning(c));
        assert_int_equal(och_f32_to_e4m3(found), c == 128 ? 0 : c); /* zero is stored without a sign */
    }
    assert_true(och_e4m3_to_f32(0x7E) == 448.0f && och_e4m3_to_f32(0x08) == 0x1p-6f && och_e4m3_to_f32(0x01) == 0x1p-9f);
}

/* Between two neighbours: the lower one up to the middle, the upper one from there on, at the middle the even code. */
static void roundings(void **s) {
    (void)s;
    for (unsigned c = 0; c < 126; c++) {
        float lo = och_e4m3_to_f32((uint8_t)c), hi = och_e4m3_to_f32((uint8_t)(c + 1)), middle = (lo + hi) / 2;
        unsigned even = c % 2 ? c + 1 : c;
        for (unsigned sign = 0; sign < 256; sign += 128) {
            float by = sign ? -1.0f : 1.0f;
            unsigned low = c ? sign | c : 0, tie = even ? sign | even : 0;
            assert_int_equal(och_f32_to_e4m3(by * nextafterf(middle, 0.0f)), low);
            assert_int_equal(och_f32_to_e4m3(by * middle), tie);
            assert_int_equal(och_f32_to_e4m3(by * nextafterf(middle, 1000.0f)), sign | (c + 1));
            assert_int_equal(och_f32_to_e4m3(by * nextafterf(hi, 0.0f)), sign | (c + 1));
        }
    }
}

static void ends(void **s) {
    (void)s;
    static const float large[] = {449.0f, 463.9f, 464.0f, 465.0f, 480.0f, 512.0f, 1e9f, 3.4e38f};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        assert_int_equal(och_f32_to_e4m3(large[i]), 0x7E);
        assert_int_equal(och_f32_to_e4m3(-large[i]), 0xFE);
    }
    static const float none[] = {INFINITY, -INFINITY, NAN, -NAN};
    for (size_t i = 0; i < 4; i++) assert_int_equal(och_f32_to_e4m3(none[i]), OCH_E4M3_NAN);
    static const float small[] = {0.0f, -0.0f, 1e-45f, -1e-40f, 0x1p-11f, -0x1p-10f};
    for (size_t i = 0; i < 6; i++) assert_int_equal(och_f32_to_e4m3(small[i]), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(codes), cmocka_unit_test(roundings), cmocka_unit_test(ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
