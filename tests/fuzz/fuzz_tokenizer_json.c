/* A tokenizer.json of any content: it opens or it says why not; what opens encodes and decodes without harm. A first
 * line "#TEXT" before the document gives the text to encode; an expression that gives up is a fair answer. */
#include "base/alloc.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "tok/tok.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char otherwise[] = "ab <s>a\xCC\x81 12 \xFF\n\n it's </s> \xE2\x96\x81x";
    const char *json = (const char *)data, *text = otherwise;
    size_t n = sizeof otherwise - 1;
    if (size && data[0] == '#') {
        const char *end = memchr(data, '\n', size);
        if (!end) return 0;
        text = (const char *)data + 1;
        n = (size_t)(end - text);
        json = end + 1;
        size -= (size_t)(json - (const char *)data);
    }
    och_tok *t;
    och_err e = {0};
    och_status st = och_tok_open_json_text(json, size, NULL, 0, &t, &e);
    if (st != OCH_OK) {
        if (t || !e.message[0] || e.status != st) abort();
        return 0;
    }
    for (unsigned flags = 0; flags < 4; flags++) {
        och_tok_ids ids = {0};
        och_strbuf out = {0};
        st = och_tok_encode(t, text, n, flags, &ids, &e);
        if (st != OCH_OK && st != OCH_RANGE) abort();
        och_err_clear(&e);
        for (size_t i = 0; i < ids.n; i++)
            if (ids.ids[i] < 0 || ids.ids[i] >= och_tok_vocab_size(t)) abort();
        if (och_tok_decode(t, ids.ids, ids.n, flags & 1, &out, &e) != OCH_OK) abort();
        och_strbuf_deinit(&out);
        och_tok_ids_deinit(&ids);
    }
    och_tok_destroy(t);
    return 0;
}
