/* SHA-256 against the examples of FIPS 180-4 (NIST CSRC, "SHA256.pdf") and the NIST long-message example. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/sha256.h"

#include <stdlib.h>
#include <string.h>

static void nist_vectors(void **s) {
    (void)s;
    static const struct {
        const char *text, *hex;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrst"
         "u",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < 4; i++) {
        och_sha256 h;
        char hex[65];
        och_sha256_init(&h);
        och_sha256_update(&h, cases[i].text, strlen(cases[i].text));
        och_sha256_hex(&h, hex);
        assert_string_equal(hex, cases[i].hex);
    }
}

static void a_million_a_in_uneven_pieces(void **s) {
    (void)s;
    och_sha256 h;
    char hex[65], *a = malloc(1000000);
    memset(a, 'a', 1000000);
    och_sha256_init(&h);
    for (size_t at = 0, n = 1; at < 1000000; at += n, n = n * 7 % 331 + 1) {
        if (n > 1000000 - at) n = 1000000 - at;
        och_sha256_update(&h, a + at, n);
        if (at + n == 1000000) break;
    }
    och_sha256_hex(&h, hex);
    free(a);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void hex_is_recognised(void **s) {
    (void)s;
    assert_true(och_sha256_is_hex("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cD0"));
    assert_false(och_sha256_is_hex("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd"));
    assert_false(och_sha256_is_hex("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd00"));
    assert_false(och_sha256_is_hex("gdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"));
    assert_false(och_sha256_is_hex(""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nist_vectors),
        cmocka_unit_test(a_million_a_in_uneven_pieces),
        cmocka_unit_test(hex_is_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
