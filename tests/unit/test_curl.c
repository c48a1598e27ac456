/* The numbers and signatures that src/file/curl.h declares, against libcurl's own header where that is installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "file/curl.h"
#include "file/fetch.h"

#include <string.h>

#if __has_include(<curl/curl.h>)
#include <curl/curl.h>
#define HAVE_CURL_HEADER 1

#define X(name, number) _Static_assert((int)CURLOPT_##name == OCH_CURLOPT_##name, "CURLOPT_" #name);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
OCH_CURL_OPTIONS(X)
#pragma GCC diagnostic pop
#undef X
#define X(name, number) _Static_assert((int)CURLE_##name == OCH_CURLE_##name, "CURLE_" #name);
OCH_CURL_CODES(X)
#undef X
_Static_assert((int)CURLINFO_RESPONSE_CODE == OCH_CURLINFO_RESPONSE_CODE, "CURLINFO_RESPONSE_CODE");
_Static_assert(CURLPROTO_HTTP == OCH_CURLPROTO_HTTP && CURLPROTO_HTTPS == OCH_CURLPROTO_HTTPS, "CURLPROTO");
_Static_assert(CURL_ERROR_SIZE == OCH_CURL_ERROR_SIZE, "CURL_ERROR_SIZE");
_Static_assert(CURL_GLOBAL_DEFAULT == OCH_CURL_GLOBAL_DEFAULT, "CURL_GLOBAL_DEFAULT");
_Static_assert(sizeof(curl_off_t) == sizeof(int64_t), "the progress callback's numbers");
_Static_assert(sizeof(CURLcode) == sizeof(int) && sizeof(CURLoption) == sizeof(int) && sizeof(CURLINFO) == sizeof(int),
               "enumerations are passed as int");
#else
#define HAVE_CURL_HEADER 0
#endif

static void numbers_agree_with_the_header(void **s) {
    (void)s;
    if (!HAVE_CURL_HEADER) skip(); /* libcurl's header is not installed */
}

static void urls_are_sorted(void **s) {
    (void)s;
    static const char *const good[] = {"https://example.org/a",   "HTTPS://example.org",     "http://127.0.0.1:8080/x",
                                       "http://localhost/x",      "http://[::1]:80/x",       "https://example.org:443/a?b=c@d",
                                       "http://127.1.2.3?x",      "https://[2001:db8::1]/x"};
    static const char *const bad[] = {"",
                                      "example.org/a",
                                      "ftp://example.org/a",
                                      "http://example.org/a",
                                      "http://127.0.0.1.example.org/",
                                      "http://localhost.example.org/",
                                      "http://127.0.0.1@example.org/",
                                      "http://[::1]@example.org/",
                                      "http://[::1]x/",
                                      "http://[::1",
                                      "https://u:p@example.org/",
                                      "https://",
                                      "https:///x",
                                      "https://:80/x",
                                      "http://127/\\x",
                                      "https://example.org/a b",
                                      "https://example.org/\t",
                                      "https://example.org/\x7f"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        och_err e = {0};
        if (och_fetch_check_url(good[i], &e) != OCH_OK) fail_msg("%s: %s", good[i], e.message);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        och_err e = {0};
        if (och_fetch_check_url(bad[i], &e) != OCH_INVALID) fail_msg("%s was taken", bad[i]);
        assert_non_null(strstr(e.message, "expected"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_agree_with_the_header),
        cmocka_unit_test(urls_are_sorted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
