/* A kernel file from any bytes. What parses is printed, and its print parses to the same print. */
#include "base/alloc.h"
#include "kl/builtin.h"
#include "kl/unit_print.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok) {
    if (!ok) abort();
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
