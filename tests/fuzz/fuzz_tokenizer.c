/* Text through small vocabularies: whatever the bytes, encoding ends well, ids are in range, every way to stream them
 * gives the same text, and a byte-level vocabulary with all letters gives the bytes back. The first byte picks the
 * vocabulary and the flags. */
#include "base/alloc.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "tok/tok.h"
#include "tok/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static const char *const names[] = {"gpt2",   "qwen2", "llama3",    "default", "tekken",
                                    "llama2", "gemma", "metaspace", "flags"};
#define N (sizeof names / sizeof *names)
static och_tok *toks[N];

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    const char *dir = getenv("OCHRE_FUZZ_TOK");
    for (size_t i = 0; i < N; i++) {
        char path[1024];
        och_err e = {0};
        snprintf(path, sizeof path, "%s/%s.json", dir ? dir : "tests/golden/tok", names[i]);
        if (och_tok_open_json(path, NULL, &toks[i], &e) != OCH_OK) {
            fprintf(stderr, "%s (run in the repository's root, or set OCHRE_FUZZ_TOK)\n", e.message);
            exit(1);
        }
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const och_tok *t = toks[(data[0] & 31) % N];
    unsigned flags = data[0] >> 5 & 3;
    const char *text = (const char *)data + 1;
    size_t n = size - 1;
    och_tok_ids ids = {0};
    och_err e = {0};
    och_status st = och_tok_encode(t, text, n, flags, &ids, &e);
    if (st != OCH_OK) abort();
    och_strbuf whole = {0}, stream = {0};
    if (och_tok_decode(t, ids.ids, ids.n, false, &whole, &e) != OCH_OK) abort();
    och_detok d;
    och_detok_init(&d, t, false);
    for (size_t i = 0; i < ids.n; i++) {
        if (ids.ids[i] < 0 || ids.ids[i] >= och_tok_vocab_size(t)) abort();
        if (och_detok_push(&d, ids.ids[i], &stream, &e) != OCH_OK || d.n_tail > 3) abort();
    }
    if (och_detok_flush(&d, &stream, &e) != OCH_OK) abort();
    if (stream.size != whole.size || (whole.size && memcmp(stream.data, whole.data, whole.size) != 0)) abort();
    /* gpt2, llama3, default, tekken keep every byte: where the text is UTF-8 it comes back */
    size_t k = (data[0] & 31) % N;
    if ((k == 0 || (k >= 2 && k <= 4)) && !(flags & OCH_TOK_ADD_SPECIAL)) {
        bool valid = true;
        for (size_t i = 0, len; valid && i < n; i += len) {
            len = och_utf8_len((const unsigned char *)text + i, n - i);
            valid = len != 0;
        }
        if (valid && (whole.size != n || (n && memcmp(whole.data, text, n) != 0))) abort();
    }
    och_strbuf_deinit(&whole);
    och_strbuf_deinit(&stream);
    och_tok_ids_deinit(&ids);
    return 0;
}
