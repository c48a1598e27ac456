/* Vocabularies that lie, features that are refused, memory that runs out, texts that try to run away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "base/thread.h"
#include "file/gguf.h"
#include "tok/tok.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DIR OCHRE_TEST_DIR "/golden/tok/"
#define S "\xE2\x96\x81"

/* -- a GGUF of key-values alone, written by hand -- */
typedef struct file {
    och_strbuf kv;
    uint64_t n;
} file;

static void put(file *f, uint64_t v, int n) {
    for (int i = 0; i < n; i++) {
        char c = (char)(v >> (8 * i) & 255);
        och_strbuf_append(&f->kv, &c, 1);
    }
}
static void put_str(file *f, const char *s) {
    put(f, strlen(s), 8);
    och_strbuf_puts(&f->kv, s);
}
static void key(file *f, const char *name, uint32_t type) {
    och_strbuf b = {0};
    och_strbuf_printf(&b, "tokenizer.ggml.%s", name);
    put_str(f, och_strbuf_str(&b));
    och_strbuf_deinit(&b);
    put(f, type, 4);
    f->n++;
}
static void kv_str(file *f, const char *name, const char *value) {
    key(f, name, 8);
    put_str(f, value);
}
static void kv_u32(file *f, const char *name, uint32_t value) {
    key(f, name, 4);
    put(f, value, 4);
}
static void kv_bool(file *f, const char *name, bool value) {
    key(f, name, 7);
    put(f, value, 1);
}
static void kv_strs(file *f, const char *name, const char *const *v, size_t n) {
    key(f, name, 9);
    put(f, 8, 4);
    put(f, n, 8);
    for (size_t i = 0; i < n; i++) put_str(f, v[i]);
}
static void kv_i32s(file *f, const char *name, const int *v, size_t n) {
    key(f, name, 9);
    put(f, 5, 4);
    put(f, n, 8);
    for (size_t i = 0; i < n; i++) put(f, (uint32_t)v[i], 4);
}
static void kv_f32s(file *f, const char *name, const float *v, size_t n) {
    key(f, name, 9);
    put(f, 6, 4);
    put(f, n, 8);
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &v[i], 4);
        put(f, u, 4);
    }
}

/* The bytes of a file with what f holds; empties f. */
static och_strbuf bytes_of(file *f) {
    file all = {0};
    och_strbuf_append(&all.kv, "GGUF", 4);
    put(&all, 3, 4);
    put(&all, 0, 8);
    put(&all, f->n, 8);
    och_strbuf_append(&all.kv, f->kv.data, f->kv.size);
    while (all.kv.size % 32) put(&all, 0, 1);
    och_strbuf_deinit(&f->kv);
    f->n = 0;
    return all.kv;
}

static och_status open_bytes(const och_strbuf *b, och_tok **out_tok, och_err *err) {
    och_gguf *g;
    *out_tok = NULL;
    och_status st = och_gguf_open_memory("lie.gguf", b->data, b->size, &g, err);
    if (st == OCH_OK) st = och_tok_open_gguf(g, out_tok, err);
    och_gguf_close(g);
    return st;
}

/* Opens what f holds, and empties it. */
static och_status open_file(file *f, och_tok **out_tok, och_err *err) {
    och_strbuf b = bytes_of(f);
    och_status st = open_bytes(&b, out_tok, err);
    och_strbuf_deinit(&b);
    return st;
}

static void refuses(file *f, och_status want, const char *part) {
    och_tok *t;
    och_err e = {0};
    och_status st = open_file(f, &t, &e);
    if (st != want || t || !strstr(e.message, part) || !strstr(e.message, "lie.gguf"))
        fail_msg("expected status %d with '%s', found %d with '%s'", want, part, st, e.message);
}

static const char *const letters[] = {"a", "b", "ab", "<s>"};
static const char *const merges[] = {"a b"};

static void bpe(file *f, const char *const *tokens, size_t n, const char *const *m, size_t n_m) {
    kv_str(f, "model", "gpt2");
    kv_str(f, "pre", "gpt-2");
    kv_strs(f, "tokens", tokens, n);
    kv_strs(f, "merges", m, n_m);
}

static const char *const pieces[] = {"<unk>", "<s>", "</s>", "<0x41>", S, "a", "b", "ab", S "ab"};
static const float scores[] = {0, 0, 0, 0, -5, -6, -7, -1, -2};
static const int types[] = {2, 3, 3, 6, 1, 1, 1, 1, 1};

static void spm(file *f, size_t n_pieces, const float *sc, size_t n_sc, const int *ty, size_t n_ty) {
    kv_str(f, "model", "llama");
    kv_strs(f, "tokens", pieces, n_pieces);
    if (sc) kv_f32s(f, "scores", sc, n_sc);
    if (ty) kv_i32s(f, "token_type", ty, n_ty);
}

#define MODEL(extra) "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]" extra "}"
#define LEVEL                                                                                                          \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"}"

static void gguf_vocabularies_that_lie(void **s) {
    (void)s;
    file f = {0};
    bpe(&f, letters, 0, merges, 0);
    refuses(&f, OCH_CORRUPT, "the vocabulary is empty");
    bpe(&f, letters, 4, (const char *const[]){"a c"}, 1);
    refuses(&f, OCH_CORRUPT, "merge 0 names 'c', which is no token");
    bpe(&f, letters, 4, (const char *const[]){"a b", "b a"}, 2);
    refuses(&f, OCH_CORRUPT, "merge 1 makes 'b' + 'a', which together are no token");
    bpe(&f, letters, 4, (const char *const[]){"ab"}, 1);
    refuses(&f, OCH_CORRUPT, "merge 0 is 'ab', expected two tokens with a space between");
    bpe(&f, letters, 4, (const char *const[]){"a "}, 1);
    refuses(&f, OCH_CORRUPT, "expected two tokens");
    bpe(&f, (const char *const[]){"a", "b", "a"}, 3, merges, 0);
    refuses(&f, OCH_CORRUPT, "token 2 repeats token 0: 'a'");
    bpe(&f, letters, 4, merges, 1);
    kv_u32(&f, "bos_token_id", 4);
    refuses(&f, OCH_CORRUPT, "tokenizer.ggml.bos_token_id is 4, expected an id below the vocabulary's 4");
    bpe(&f, letters, 4, merges, 1);
    kv_u32(&f, "eot_token_id", 1u << 31);
    refuses(&f, OCH_CORRUPT, "eot_token_id is 2147483648");
    bpe(&f, letters, 4, merges, 1);
    kv_i32s(&f, "token_type", types, 3);
    refuses(&f, OCH_CORRUPT, "token_type has 3 entries, expected 4");
    bpe(&f, letters, 4, merges, 1);
    kv_i32s(&f, "token_type", (const int[]){1, 1, 1, 7}, 4);
    refuses(&f, OCH_CORRUPT, "token 3's is 7");
    bpe(&f, letters, 4, merges, 1);
    kv_f32s(&f, "token_type", scores, 4);
    refuses(&f, OCH_CORRUPT, "token_type: expected an array of integers");
    kv_str(&f, "model", "gpt2");
    kv_i32s(&f, "tokens", types, 4);
    refuses(&f, OCH_CORRUPT, "tokenizer.ggml.tokens");
    kv_str(&f, "model", "gpt2");
    kv_strs(&f, "tokens", letters, 4);
    refuses(&f, OCH_NOTFOUND, "tokenizer.ggml.merges");
    kv_str(&f, "model", "gpt2");
    refuses(&f, OCH_NOTFOUND, "tokenizer.ggml.tokens");
    refuses(&f, OCH_NOTFOUND, "tokenizer.ggml.model");
    spm(&f, 9, NULL, 0, types, 9);
    refuses(&f, OCH_NOTFOUND, "tokenizer.ggml.scores");
    spm(&f, 9, scores, 8, types, 9);
    refuses(&f, OCH_CORRUPT, "scores has 8 entries, expected 9");
    spm(&f, 9, (const float[]){0, 0, 0, 0, NAN, 0, 0, 0, 0}, 9, types, 9);
    refuses(&f, OCH_CORRUPT, "token 4's is not finite");
    spm(&f, 9, scores, 9, (const int[]){2, 3, 3, 6, 6, 1, 1, 1, 1}, 9);
    refuses(&f, OCH_CORRUPT, "token 4 is marked as a byte, expected <0xNN>");
}

static void gguf_features_refused_by_name(void **s) {
    (void)s;
    file f = {0};
    kv_str(&f, "model", "bert");
    refuses(&f, OCH_UNSUPPORTED, "'bert' (WordPiece)");
    kv_str(&f, "model", "t5");
    refuses(&f, OCH_UNSUPPORTED, "'t5' (Unigram)");
    kv_str(&f, "model", "zap");
    refuses(&f, OCH_UNSUPPORTED, "'zap'; known are: gpt2");
    kv_str(&f, "model", "gpt2");
    kv_str(&f, "pre", "qwen");
    kv_strs(&f, "tokens", letters, 4);
    kv_strs(&f, "merges", merges, 1);
    refuses(&f, OCH_UNSUPPORTED, "pre-tokenizer 'qwen' is not known; known are: gpt-2");
}

static void expect_ids(const och_tok *t, const char *text, unsigned flags, const int32_t *want, size_t n) {
    och_tok_ids ids = {0};
    assert_int_equal(och_tok_encode(t, text, strlen(text), flags, &ids, NULL), OCH_OK);
    assert_int_equal(ids.n, n);
    if (n) assert_memory_equal(ids.ids, want, n * sizeof *want);
    och_tok_ids_deinit(&ids);
}
#define IDS(...) ((const int32_t[]){__VA_ARGS__}), sizeof((const int32_t[]){__VA_ARGS__}) / 4

/* Worked out by hand from the entries above. */
static void small_by_hand(void **s) {
    (void)s;
    och_tok *t;
    och_err e = {0};
    file f = {0};
    spm(&f, 9, scores, 9, types, 9);
    if (open_file(&f, &t, &e) != OCH_OK) fail_msg("%s", e.message);
    expect_ids(t, "ab", 0, IDS(8));
    expect_ids(t, "ab", OCH_TOK_ADD_SPECIAL, IDS(1, 8));
    expect_ids(t, "abab b", 0, IDS(8, 7, 4, 6));
    expect_ids(t, "A", 0, IDS(4, 3));              /* byte fallback */
    expect_ids(t, "aZZb", 0, IDS(4, 5, 0, 6));     /* no such byte: unk, one for a run */
    expect_ids(t, "a</s>b", OCH_TOK_PARSE_SPECIAL, IDS(4, 5, 2, 4, 6));
    expect_ids(t, "", OCH_TOK_ADD_SPECIAL, IDS(1));
    assert_int_equal(och_tok_bos(t), 1);
    assert_int_equal(och_tok_eos(t), 2);
    assert_int_equal(och_tok_unk(t), 0);
    assert_int_equal(och_tok_pad(t), -1);
    assert_true(och_tok_is_end(t, 2) && !och_tok_is_end(t, 1) && och_tok_is_special(t, 1) && !och_tok_is_special(t, 8));
    assert_true(och_tok_adds_bos(t) && !och_tok_adds_eos(t));
    och_strbuf out = {0};
    /* the dummy prefix goes once, from the first text that is there */
    assert_int_equal(och_tok_decode(t, (const int32_t[]){1, 8, 8, 3, 2}, 5, true, &out, NULL), OCH_OK);
    assert_string_equal(och_strbuf_str(&out), "ab abA");
    och_strbuf_clear(&out);
    assert_int_equal(och_tok_decode(t, (const int32_t[]){1, 8}, 2, false, &out, NULL), OCH_OK);
    assert_string_equal(och_strbuf_str(&out), "<s> ab");
    assert_int_equal(och_tok_decode(t, (const int32_t[]){9}, 1, false, &out, &e), OCH_INVALID);
    assert_string_equal(e.message, "token id 9 is outside the vocabulary of 9");
    const char *p;
    size_t n;
    assert_false(och_tok_piece(t, 9, &p, &n) || och_tok_piece(t, -1, &p, &n));
    assert_int_equal(och_tok_id(t, "ab", 2), 7);
    assert_int_equal(och_tok_id(t, "", 0), -1);
    assert_int_equal(och_tok_id(t, "zzzzzzzzzzzzzzzzzzzzz", 21), -1);
    och_strbuf_deinit(&out);
    och_tok_destroy(t);

    /* an UNUSED entry carries a merge and is taken apart again */
    spm(&f, 9, scores, 9, (const int[]){2, 3, 3, 6, 1, 1, 1, 5, 1}, 9);
    kv_bool(&f, "add_space_prefix", false);
    kv_u32(&f, "padding_token_id", UINT32_MAX);
    if (open_file(&f, &t, &e) != OCH_OK) fail_msg("%s", e.message);
    expect_ids(t, "ab", 0, IDS(5, 6));
    expect_ids(t, " ab", 0, IDS(8));
    och_tok_destroy(t);

    /* an entry may hold a space inside: only there may a merge cross the start of a word */
    static const char *const inner[] = {"<unk>", "<s>", "</s>", S, "a", "b", "a" S, "a" S "b"};
    kv_str(&f, "model", "llama");
    kv_strs(&f, "tokens", inner, 8);
    kv_f32s(&f, "scores", scores, 8);
    kv_i32s(&f, "token_type", (const int[]){2, 3, 3, 1, 1, 1, 1, 1}, 8);
    kv_bool(&f, "add_space_prefix", false);
    if (open_file(&f, &t, &e) != OCH_OK) fail_msg("%s", e.message);
    expect_ids(t, "a b", 0, IDS(7));
    expect_ids(t, "b a b", 0, IDS(5, 3, 7));
    och_tok_destroy(t);

    /* byte-level: a byte without a token is dropped; a merge needs both sides */
    bpe(&f, letters, 4, merges, 1);
    kv_i32s(&f, "token_type", (const int[]){1, 1, 1, 3}, 4);
    kv_u32(&f, "bos_token_id", 3);
    kv_bool(&f, "add_bos_token", true);
    kv_bool(&f, "add_eos_token", true);
    if (open_file(&f, &t, &e) != OCH_OK) fail_msg("%s", e.message);
    expect_ids(t, "abzba", OCH_TOK_ADD_SPECIAL, IDS(3, 2, 1, 0));
    expect_ids(t, "a<s>b", OCH_TOK_PARSE_SPECIAL, IDS(0, 3, 1));
    expect_ids(t, "a<s>b", 0, IDS(0, 1));
    och_tok_destroy(t);

    /* llama-bpe: a piece that is an entry is that entry, though no merge leads there */
    static const char *const whole[] = {"a", "b", "c", "ab", "abc"};
    kv_str(&f, "model", "gpt2");
    kv_str(&f, "pre", "llama-bpe");
    kv_strs(&f, "tokens", whole, 5);
    kv_strs(&f, "merges", merges, 1);
    if (open_file(&f, &t, &e) != OCH_OK) fail_msg("%s", e.message);
    expect_ids(t, "abc", 0, IDS(4));
    expect_ids(t, "abca", 0, IDS(3, 2, 0));
    och_tok_destroy(t);

    /* U+180E is no White_Space (since Unicode 6.3), though PCRE2's \\s takes it: a space joins it as it joins a sign */
    static const char *const mongolian[] = {"\xC4\xA0", "\xC3\xA1", "\xC4\xA0\xC3\xA1", "\xC5\x82", "\xC4\xB0", "y"};
    bpe(&f, mongolian, 6, (const char *const[]){"\xC4\xA0 \xC3\xA1"}, 1);
    if (open_file(&f, &t, &e) != OCH_OK) fail_msg("%s", e.message);
    expect_ids(t, " \xE1\xA0\x8Ey", 0, IDS(2, 3, 4, 5));
    och_tok_destroy(t);
}

/* Rules of tokenizer.json that the corpus does not reach, as Hugging Face documents them. */
static void json_by_hand(void **s) {
    static const char first[] =
        "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"" S "\":5},\"merges\":[[\"a\",\"b\"]]},"
        "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"prepend_scheme\":\"first\",\"split\":false},\"decoder\":{\"type\":"
        "\"Metaspace\"},"
        "\"added_tokens\":[{\"id\":3,\"content\":\"<e>\"},{\"id\":4,\"content\":\"<n>\",\"normalized\":true}]}";
    static const char empty[] = "{" MODEL("") "," LEVEL ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{"
                                                        "\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},"
                                              "\"content\":\"\"},{\"type\":\"Prepend\",\"prepend\":\"b\"}]}}";
    (void)s;
    och_tok *t;
    och_err e = {0};
    if (och_tok_open_json_text(first, sizeof first - 1, NULL, 0, &t, &e) != OCH_OK) fail_msg("%s", e.message);
    expect_ids(t, "a<n>a<e>a", 0, IDS(5, 0, 4, 0, 3, 0));
    /* a detokeniser that was flushed starts anew: the prefix goes again */
    och_detok d;
    och_strbuf out = {0};
    och_detok_init(&d, t, false);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(och_detok_push(&d, 5, &out, NULL), OCH_OK);
        assert_int_equal(och_detok_push(&d, 0, &out, NULL), OCH_OK);
        assert_int_equal(och_detok_flush(&d, &out, NULL), OCH_OK);
    }
    assert_string_equal(och_strbuf_str(&out), "aa");
    och_strbuf_deinit(&out);
    och_tok_destroy(t);
    /* nothing is put before nothing */
    if (och_tok_open_json_text(empty, sizeof empty - 1, NULL, 0, &t, &e) != OCH_OK) fail_msg("%s", e.message);
    expect_ids(t, "x", 0, NULL, 0);
    expect_ids(t, "xa", 0, IDS(1, 0));
    och_tok_destroy(t);
}

/* -- tokenizer.json -- */
static void json_refused(void **s) {
    static const struct {
        const char *json;
        och_status status;
        const char *part;
    } cases[] = {
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", OCH_UNSUPPORTED,
         "model.type 'Unigram' is not built; known are: BPE"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", OCH_UNSUPPORTED, "'WordPiece'"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}", OCH_UNSUPPORTED, "'WordLevel'"},
        {"[]", OCH_CORRUPT, "expected an object"},
        {"{}", OCH_NOTFOUND, "model"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}," LEVEL "}", OCH_CORRUPT, "the vocabulary is empty"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}," LEVEL "}", OCH_CORRUPT,
         "another token's"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1,\"b\":0},\"merges\":[]}," LEVEL "}", OCH_CORRUPT, "id -1"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999,\"b\":0},\"merges\":[]}," LEVEL "}", OCH_CORRUPT,
         "largest id is 99999999"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1000000,\"b\":0},\"merges\":[]}," LEVEL "}", OCH_CORRUPT,
         "largest id is 1000000"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"0\"},\"merges\":[]}," LEVEL "}", OCH_CORRUPT,
         "expected an integer id"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a c\"]}," LEVEL "}", OCH_CORRUPT,
         "'c', which is no token"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"a\"]]}," LEVEL "}", OCH_CORRUPT,
         "which together are no token"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}," LEVEL "}", OCH_CORRUPT,
         "model.merges.0: expected two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[3]}," LEVEL "}", OCH_CORRUPT, "model.merges.0"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}," LEVEL "}", OCH_CORRUPT,
         "model.merges: expected an array"},
        {"{" MODEL(",\"unk_token\":\"z\"") "," LEVEL "}", OCH_CORRUPT, "model.unk_token 'z' is no token"},
        {"{" MODEL(",\"dropout\":0.5") "," LEVEL "}", OCH_UNSUPPORTED, "model.dropout"},
        {"{" MODEL(",\"end_of_word_suffix\":\"</w>\"") "," LEVEL "}", OCH_UNSUPPORTED, "model.end_of_word_suffix"},
        {"{" MODEL("") ",\"normalizer\":{\"type\":\"NFKC\"}," LEVEL "}", OCH_UNSUPPORTED, "normalizer 'NFKC'"},
        {"{" MODEL("") ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Precompiled\"}]}," LEVEL
                       "}",
         OCH_UNSUPPORTED, "'Precompiled'"},
        {"{" MODEL("") ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"\"}," LEVEL
                       "}",
         OCH_UNSUPPORTED, "'Replace'"},
        {"{" MODEL("") ",\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}}", OCH_UNSUPPORTED,
         "pre_tokenizer 'BertPreTokenizer'"},
        {"{" MODEL(
             "") ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":\"Isolated\"}}",
         OCH_UNSUPPORTED, "does not compile"},
        {"{" MODEL("") ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"},\"behavior\":"
                       "\"Isolated\"}}",
         OCH_UNSUPPORTED, "intersects"},
        {"{" MODEL("") ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Odd\"}}",
         OCH_UNSUPPORTED, "behavior 'Odd'"},
        {"{" MODEL("") "}", OCH_UNSUPPORTED, "decoder 'null'"},
        {"{" MODEL("") ",\"decoder\":{\"type\":\"WordPiece\"}}", OCH_UNSUPPORTED, "decoder 'WordPiece'"},
        {"{" MODEL("") ",\"decoder\":{\"type\":\"Fuse\"}}", OCH_UNSUPPORTED, "does not undo"},
        {"{" MODEL("") ",\"decoder\":{\"type\":\"ByteLevel\"}}", OCH_UNSUPPORTED, "does not undo"},
        {"{" MODEL("") "," LEVEL ",\"post_processor\":{\"type\":\"Odd\"}}", OCH_UNSUPPORTED, "post_processor 'Odd'"},
        {"{" MODEL("") "," LEVEL ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
                                 "\"id\":\"x\"}}],\"special_tokens\":{}}}",
         OCH_CORRUPT, "'x' is not in special_tokens"},
        {"{" MODEL("") "," LEVEL ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
                                 "\"id\":\"x\"}}],\"special_tokens\":{\"x\":{\"ids\":[7]}}}}",
         OCH_CORRUPT, "below the vocabulary's 3"},
        {"{" MODEL("") "," LEVEL ",\"added_tokens\":[{\"id\":1,\"content\":\"x\"}]}", OCH_CORRUPT, "another token's"},
        {"{" MODEL("") "," LEVEL ",\"added_tokens\":[{\"id\":3,\"content\":\"ab\"}]}", OCH_CORRUPT,
         "token 3 repeats token 2"},
        {"{" MODEL("") "," LEVEL ",\"added_tokens\":[{\"content\":\"x\"}]}", OCH_CORRUPT, "added_tokens.0"},
    };
    (void)s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        och_tok *t;
        och_err e = {0};
        och_status st = och_tok_open_json_text(cases[i].json, strlen(cases[i].json), NULL, 0, &t, &e);
        if (st != cases[i].status || t || !strstr(e.message, cases[i].part))
            fail_msg("%s: expected status %d with '%s', found %d with '%s'", cases[i].json, cases[i].status,
                     cases[i].part, st, e.message);
    }
    static const char good[] = "{" MODEL("") "," LEVEL "}", config[] = "{\"bos_token\":\"<s>\"}";
    och_tok *t;
    och_err e = {0};
    assert_int_equal(och_tok_open_json_text(good, sizeof good - 1, config, sizeof config - 1, &t, &e), OCH_CORRUPT);
    assert_non_null(strstr(e.message, "bos_token '<s>' is no token"));
    och_err_clear(&e);
    assert_int_equal(och_tok_open_json("/nowhere/tokenizer.json", NULL, &t, &e), OCH_NOTFOUND);
}

static och_tok *small(const char *name) {
    char path[512];
    och_tok *t;
    och_err e = {0};
    snprintf(path, sizeof path, DIR "%s.json", name);
    if (och_tok_open_json(path, NULL, &t, &e) != OCH_OK) fail_msg("%s", e.message);
    return t;
}

/* The ids that Hugging Face puts around a text, and what ends a generation. */
static void specials_around(void **s) {
    (void)s;
    och_tok_ids ids = {0};
    och_tok *t = small("llama3");
    assert_int_equal(och_tok_encode(t, "a", 1, OCH_TOK_ADD_SPECIAL, &ids, NULL), OCH_OK);
    assert_int_equal(ids.ids[0], och_tok_id(t, "<|begin_of_text|>", 17));
    assert_int_equal(ids.n, 2);
    assert_true(och_tok_is_end(t, och_tok_id(t, "<|eot_id|>", 10)) &&
                och_tok_is_end(t, och_tok_id(t, "<|end_of_text|>", 15)));
    assert_false(och_tok_is_end(t, och_tok_bos(t)));
    och_tok_destroy(t);
    och_tok_ids_clear(&ids);
    t = small("flags");
    assert_int_equal(och_tok_encode(t, "a", 1, OCH_TOK_ADD_SPECIAL, &ids, NULL), OCH_OK);
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.ids[0], och_tok_id(t, "<s>", 3));
    assert_int_equal(ids.ids[2], och_tok_id(t, "</s>", 4));
    och_tok_destroy(t);
    t = small("gemma");
    assert_true(och_tok_is_end(t, och_tok_id(t, "<end_of_turn>", 13)));
    och_tok_destroy(t);
    och_tok_ids_deinit(&ids);
}

/* Found by comparing random texts with Hugging Face tokenizers. */
static void corners(void **s) {
    static const char *const composed[] = {"\xEA\xB0\x80\xE1\x86\xA7", "\xE1\x86\xA7\xCC\x81",
                                           "\xEA\xB0\x80\xE1\x86\xA7\xE1\x86\xA8", "\xE1\x86\xA7\xE1\x86\xA7"};
    static const char *const words[] = {"\xE2\x93\x95<word>", "<word>\xF0\x9F\x84\xB0", "_<word>", "<word>\xCC\x81",
                                        "1<word>"};
    static const char *const apart[] = {"\xE2\x91\xA0<word>", "<word>\xF0\x9F\x85\x8A", "-<word>",
                                        "<word>\xF0\x9F\x98\x80", "\xFF<word>"};
    (void)s;
    och_tok *t = small("qwen2");
    for (size_t i = 0; i < 4; i++) { /* NFC leaves these as they are: U+11A7 is no trailing jamo */
        och_tok_ids ids = {0};
        och_strbuf out = {0};
        assert_int_equal(och_tok_encode(t, composed[i], strlen(composed[i]), 0, &ids, NULL), OCH_OK);
        assert_int_equal(och_tok_decode(t, ids.ids, ids.n, false, &out, NULL), OCH_OK);
        assert_string_equal(och_strbuf_str(&out), composed[i]);
        och_tok_ids_deinit(&ids);
        och_strbuf_deinit(&out);
    }
    och_tok_destroy(t);
    t = small("flags");
    int32_t word = och_tok_id(t, "<word>", 6);
    for (size_t i = 0; i < 10; i++) {
        const char *text = i < 5 ? words[i] : apart[i - 5];
        och_tok_ids ids = {0};
        bool found = false;
        assert_int_equal(och_tok_encode(t, text, strlen(text), 0, &ids, NULL), OCH_OK);
        for (size_t k = 0; k < ids.n; k++) found = found || ids.ids[k] == word;
        if (found != (i >= 5)) fail_msg("'%s'", text);
        och_tok_ids_deinit(&ids);
    }
    och_tok_destroy(t);
}

static och_status everything(const char *json, size_t n, och_err *err) {
    static const char config[] = "{\"chat_template\":\"<|im_start|>x<|im_end|>\",\"eos_token\":\"ab\"}";
    static const char text[] = "ab \xFF<e> e\xCC\x81 abababababababababababababababababababababab<n>ba";
    och_tok *t = NULL;
    och_tok_ids ids = {0};
    och_strbuf out = {0};
    och_tok_turn turn = {"user", "hi"};
    och_status st = och_tok_open_json_text(json, n, config, sizeof config - 1, &t, err);
    if (st == OCH_OK)
        st = och_tok_encode(t, text, sizeof text - 1, OCH_TOK_ADD_SPECIAL | OCH_TOK_PARSE_SPECIAL, &ids, err);
    if (st == OCH_OK) st = och_tok_decode(t, ids.ids, ids.n, false, &out, err);
    if (st == OCH_OK) st = och_tok_chat(t, &turn, 1, true, &out, err);
    och_tok_ids_deinit(&ids);
    och_strbuf_deinit(&out);
    och_tok_destroy(t);
    return st;
}

static void every_allocation_may_fail(void **s) {
    static const char byte_level[] = "{" MODEL(
        "") "," LEVEL
            ",\"normalizer\":{\"type\":\"NFC\"},\"added_tokens\":[{\"id\":3,\"content\":\"<e>\",\"special\":true},"
            "{\"id\":4,\"content\":\"<n>\",\"normalized\":true}]}";
    static const char chars[] = "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"" S
                                "\":5},\"merges\":[[\"a\",\"b\"]],\"byte_fallback\":true},"
                                "\"pre_tokenizer\":{\"type\":\"Metaspace\"},\"decoder\":{\"type\":\"Metaspace\"},"
                                "\"added_tokens\":[{\"id\":3,\"content\":\"<e>\","
                                "\"special\":true,\"lstrip\":true},{\"id\":4,\"content\":\"<n>\"}],\"normalizer\":{"
                                "\"type\":\"Prepend\",\"prepend\":\"b\"}}";
    static const char *const docs[] = {byte_level, chars};
    (void)s;
    for (size_t i = 0; i < 2; i++) {
        och_err e = {0};
        int64_t live = och_alloc_live();
        if (everything(docs[i], strlen(docs[i]), &e) != OCH_OK) fail_msg("%s", e.message);
        assert_int_equal(och_alloc_live(), live);
        uint64_t n = 1;
        for (;; n++) {
            och_err_clear(&e);
            och_alloc_fail_at(n);
            och_status st = everything(docs[i], strlen(docs[i]), &e);
            och_alloc_fail_at(0);
            assert_int_equal(och_alloc_live(), live);
            if (st == OCH_OK) break;
            if (st != OCH_NOMEM) fail_msg("allocation %d: status %d, '%s'", (int)n, st, e.message);
        }
        assert_true(n > 30);
    }
    file f = {0};
    for (int k = 0; k < 2; k++) {
        if (k) spm(&f, 9, scores, 9, types, 9);
        else bpe(&f, letters, 4, merges, 1);
        och_strbuf b = bytes_of(&f);
        int64_t live = och_alloc_live();
        uint64_t n = 1;
        for (;; n++) {
            och_tok *t;
            och_err e = {0};
            och_alloc_fail_at(n);
            och_status st = open_bytes(&b, &t, &e);
            och_alloc_fail_at(0);
            och_tok_destroy(t);
            assert_int_equal(och_alloc_live(), live);
            if (st == OCH_OK) break;
            if (st != OCH_NOMEM) fail_msg("allocation %d: status %d, '%s'", (int)n, st, e.message);
        }
        assert_true(n > 10);
        och_strbuf_deinit(&b);
    }
}

/* Of this thread: a busy machine must not fail a test. */
static double cpu_seconds(void) {
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void timed(const och_tok *t, const char *name, const char *unit, size_t n, double limit_s) {
    size_t len = strlen(unit);
    char *text = och_malloc(n + len);
    for (size_t at = 0; at < n; at += len) memcpy(text + at, unit, len);
    och_tok_ids ids = {0};
    och_err e = {0};
    double start = cpu_seconds();
    if (och_tok_encode(t, text, n, 0, &ids, &e) != OCH_OK) fail_msg("%s, '%s': %s", name, unit, e.message);
    double took = cpu_seconds() - start;
    if (took > limit_s) fail_msg("%s, '%s': %.1f s for %zu bytes", name, unit, took, n);
    assert_true(ids.n > 0);
    och_tok_ids_deinit(&ids);
    och_free(text);
}

/* Runs that are quadratic for a careless merge, expression or normaliser: those would take minutes. The limits are
 * of processor time, and generous, for sanitizers. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { RUN = 1 << 15, LONG_RUN = 1 << 17 };
#else
enum { RUN = 1 << 17, LONG_RUN = 1 << 20 };
#endif

static void long_runs_end(void **s) {
    static const char *const names[] = {"gpt2",   "qwen2", "llama3",    "default", "tekken",
                                        "llama2", "gemma", "metaspace", "flags"};
    static const char *const units[] = {"a",
                                        " ",
                                        "\n",
                                        " \n",
                                        "=",
                                        "7",
                                        "\xE9\xBE\x8D",
                                        "\xF0\x9F\x98\x80",
                                        "'s",
                                        "\xFF",
                                        "ab",
                                        "a\xCC\x81\xCC\xA3",
                                        "\xCC\x81\xCC\xA3",
                                        S,
                                        "<|im_",
                                        "<s",
                                        "\t",
                                        "A",
                                        "aA",
                                        "\xE1\x84\x80\xE1\x85\xA1"};
    (void)s;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        och_tok *t = small(names[i]);
        for (size_t k = 0; k < sizeof units / sizeof *units; k++) timed(t, names[i], units[k], RUN, 20);
        if (i % 3 == 0) timed(t, names[i], " ", LONG_RUN, 60);
        if (i == 5) timed(t, names[i], "=", LONG_RUN, 60);
        och_tok_destroy(t);
    }
}

/* An expression that explodes is stopped, and says so. */
static void an_expression_that_explodes(void **s) {
    static const char json[] =
        "{" MODEL("") ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
                      "{\"Regex\":\"(a+)+$\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","
                      "\"add_prefix_space\":false,"
                      "\"use_regex\":false}]},\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":[{\"id\":3,"
                      "\"content\":\"<e>\"}]}";
    (void)s;
    och_tok *t;
    och_err e = {0};
    if (och_tok_open_json_text(json, sizeof json - 1, NULL, 0, &t, &e) != OCH_OK) fail_msg("%s", e.message);
    och_tok_ids ids = {0};
    assert_int_equal(och_tok_ids_push(&ids, 7, NULL), OCH_OK);
    static const char text[] = "<e>aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
    double start = cpu_seconds();
    assert_int_equal(och_tok_encode(t, text, sizeof text - 1, 0, &ids, &e), OCH_RANGE);
    assert_true(cpu_seconds() - start < 5);
    assert_non_null(strstr(e.message, "gave up"));
    assert_int_equal(ids.n, 1); /* what was there stays */
    och_tok_ids_deinit(&ids);
    och_tok_destroy(t);
}

/* Replacements in a row that each lengthen the text would fill any memory. */
static void a_normalizer_that_explodes(void **s) {
    och_strbuf json = {0};
    och_tok *t;
    och_err e = {0};
    och_tok_ids ids = {0};
    (void)s;
    och_strbuf_puts(&json, "{" MODEL("") "," LEVEL ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 12; i++)
        och_strbuf_printf(
            &json, "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaaaaaaaaaaaa\"}",
            i ? "," : "");
    och_strbuf_puts(&json, "]}}");
    if (och_tok_open_json_text(json.data, json.size, NULL, 0, &t, &e) != OCH_OK) fail_msg("%s", e.message);
    assert_int_equal(och_tok_encode(t, "a", 1, 0, &ids, &e), OCH_RANGE);
    assert_non_null(strstr(e.message, "normalising makes the text"));
    expect_ids(t, "b", 0, IDS(1));
    och_tok_destroy(t);
    och_strbuf_deinit(&json);
}

typedef struct crew {
    const och_tok *t;
    och_tok_ids ids[8];
} crew;

static void encode_one(void *arg, const och_pool_member *me) {
    crew *c = arg;
    for (int i = 0; i < 20; i++) {
        och_tok_ids_clear(&c->ids[me->index]);
        static const char text[] = "Many threads, one tokenizer: \xE2\x82\xAC 12345 e\xCC\x81 <|im_end|>\n\n  x";
        if (och_tok_encode(c->t, text, sizeof text - 1, OCH_TOK_PARSE_SPECIAL, &c->ids[me->index], NULL) != OCH_OK)
            return;
    }
}

static void threads_share_one(void **s) {
    static const char *const names[] = {"qwen2", "gemma"};
    (void)s;
    for (size_t k = 0; k < 2; k++) {
        crew c = {.t = small(names[k])};
        och_pool *pool;
        assert_int_equal(och_pool_create(4, &pool, NULL), OCH_OK);
        och_pool_run(pool, encode_one, &c);
        och_pool_destroy(pool);
        for (int i = 1; i < 4; i++) {
            assert_int_equal(c.ids[i].n, c.ids[0].n);
            assert_memory_equal(c.ids[i].ids, c.ids[0].ids, c.ids[0].n * sizeof(int32_t));
        }
        assert_true(c.ids[0].n > 10);
        for (int i = 0; i < 4; i++) och_tok_ids_deinit(&c.ids[i]);
        och_tok_destroy((och_tok *)(uintptr_t)c.t);
    }
}

/* Bytes in any order through the byte tokens: pushed one by one, the text equals a whole-text decode (hand-made). */
static void bytes_that_are_not_text(void **s) {
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        {"\xE2\x82\xAC", "\xE2\x82\xAC"},
        {"\xE2\x82", "\xEF\xBF\xBD"},
        {"\xE2\x82" "A", "\xEF\xBF\xBD" "A"},
        {"\xE2\xE2\x82\xAC", "\xEF\xBF\xBD\xE2\x82\xAC"},
        {"\xF0\x9F\x98", "\xEF\xBF\xBD"},
        {"\xF0\x9F\x98\xF0\x9F\x98\x80", "\xEF\xBF\xBD\xF0\x9F\x98\x80"},
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xE0\x80\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xFF\xFE" "a\x80", "\xEF\xBF\xBD\xEF\xBF\xBD" "a\xEF\xBF\xBD"},
        {"\xF1\x80\x80\xE1\x80\xC2", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    };
    static const char *const names[] = {"gpt2", "llama2"};
    (void)s;
    for (size_t k = 0; k < 2; k++) {
        och_tok *t = small(names[k]);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            och_detok d;
            och_strbuf out = {0};
            och_detok_init(&d, t, true);
            for (const char *p = cases[i].bytes; *p; p++) {
                och_tok_ids id = {0};
                if (k == 0) {
                    assert_int_equal(och_tok_encode(t, p, 1, 0, &id, NULL), OCH_OK);
                } else {
                    char name[8];
                    snprintf(name, sizeof name, "<0x%02X>", (unsigned char)*p);
                    assert_int_equal(och_tok_ids_push(&id, och_tok_id(t, name, 6), NULL), OCH_OK);
                }
                assert_int_equal(id.n, 1);
                assert_int_equal(och_detok_push(&d, id.ids[0], &out, NULL), OCH_OK);
                och_tok_ids_deinit(&id);
            }
            assert_int_equal(och_detok_flush(&d, &out, NULL), OCH_OK);
            assert_string_equal(och_strbuf_str(&out), cases[i].text);
            och_strbuf_deinit(&out);
        }
        och_tok_destroy(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_vocabularies_that_lie),
        cmocka_unit_test(gguf_features_refused_by_name),
        cmocka_unit_test(small_by_hand),
        cmocka_unit_test(json_by_hand),
        cmocka_unit_test(json_refused),
        cmocka_unit_test(specials_around),
        cmocka_unit_test(corners),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(long_runs_end),
        cmocka_unit_test(an_expression_that_explodes),
        cmocka_unit_test(a_normalizer_that_explodes),
        cmocka_unit_test(threads_share_one),
        cmocka_unit_test(bytes_that_are_not_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
