/* Bytes as a signature: refused, or one that is written back as the same bytes and that arguments can be laid out from, whatever the
 * extents. */
#include "base/strbuf.h"
#include "kl/kl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static och_kl_signature s;
    static och_kl_packed packed;
    och_err err = {0};
    och_status st = och_kl_signature_read(data, size, &s, &err);
    if (st != OCH_OK) {
        if (st != OCH_CORRUPT || !err.message[0]) abort();
        return 0;
    }
    och_strbuf again = {0};
    if (och_kl_signature_write(&s, &again, &err) != OCH_OK || again.size != size || memcmp(again.data, data, size) != 0) abort();
    och_strbuf_deinit(&again);
    och_kl_actual x[OCH_KL_MAX_ARGS];
    for (int round = 0; round < 3; round++) {
        memset(x, 0, sizeof x);
        for (int i = 0; i < s.n_args; i++) {
            x[i].name = s.args[i].name;
            x[i].addr = round ? 0x10000 : 0;
            for (int d = 0; d < 3; d++) x[i].dims[d] = round == 2 ? INT64_MAX : 64;
            for (int d = 0; d < 2; d++) x[i].row_bytes[d] = round == 2 ? UINT64_MAX : round ? 4096 : 0;
            x[i].integer = round == 2 ? INT64_MIN : 1;
        }
        och_err_clear(&err);
        st = och_kl_pack(&s, x, s.n_args, &packed, &err);
        if (st == OCH_OK && packed.n_bytes > OCH_KL_MAX_ARG_BYTES) abort();
    }
    return 0;
}
