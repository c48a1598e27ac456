/* A kernel file from any bytes. What parses is printed, and its print parses to the same print; and its kernels are specialised
 * with their defaults and emitted: whatever the numbers in it, there is a text or a message. */
#include "base/alloc.h"
#include "kl/builtin.h"
#include "kl/unit_print.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok) {
    if (!ok) abort();
}

/* Loops that are unrolled make much of little: files of some size are enough, and of the kernels the first ones. */
#define MAX_BYTES 4096
#define MAX_KERNELS 4

static void specialise(const och_kl_unit *u) {
    och_kl_profile profile;
    och_err err = {0};
    check(och_kl_profile_init(&profile, "gfx1100", 0, &err) == OCH_OK);
    for (int i = 0; i < och_kl_kernel_count(u) && i < MAX_KERNELS; i++) {
        och_kl_code *code;
        och_strbuf diag = {0}, text = {0}, bytes = {0};
        static och_kl_signature back;
        och_err_clear(&err);
        och_status st = och_kl_specialise(u, och_kl_kernel_name(u, i), NULL, 0, &profile, &code, &diag, &err);
        check(st == err.status && (st == OCH_OK) == (code != NULL) && (st == OCH_OK || err.message[0]));
        if (code) {
            check(och_kl_emit(code, &text, &err) == OCH_OK);
            check(och_kl_signature_write(och_kl_code_signature(code), &bytes, &err) == OCH_OK);
            check(och_kl_signature_read(bytes.data, bytes.size, &back, &err) == OCH_OK);
        }
        och_kl_code_destroy(code);
        och_strbuf_deinit(&diag);
        och_strbuf_deinit(&text);
        och_strbuf_deinit(&bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int64_t live = och_alloc_live();
    och_kl_unit *u, *again;
    och_strbuf diag = {0}, one = {0}, two = {0};
    och_err err = {0};
    /* Under the library's name, so that it is the whole unit. */
    och_status st = och_kl_parse(OCH_KL_LIBRARY, (const char *)data, size, NULL, &u, &diag, &err);
    check(st == err.status && (st == OCH_OK) == (u != NULL));
    check(st == OCH_OK || (st == OCH_COMPILE && diag.size > 0));
    if (u) {
        check(diag.size == 0);
        if (size <= MAX_BYTES) specialise(u);
        och_kl_print_unit(u, &one);
        for (int i = 0; i < och_kl_kernel_count(u); i++) check(och_kl_kernel_name(u, i) != NULL);
        st = och_kl_parse(OCH_KL_LIBRARY, one.data ? one.data : "", one.size, NULL, &again, &diag, &err);
        check(st == OCH_OK || one.size > (1u << 20));
        if (again) och_kl_print_unit(again, &two);
        if (again) check(one.size == two.size && (!one.size || !memcmp(one.data, two.data, one.size)));
        och_kl_unit_destroy(again);
    }
    och_kl_unit_destroy(u);
    och_strbuf_deinit(&diag);
    och_strbuf_deinit(&one);
    och_strbuf_deinit(&two);
    check(och_alloc_live() == live);
    return 0;
}
