/* Ids of the corpus against other implementations (tools/oracle/make_tok.py says which), decoding, streaming. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "file/gguf.h"
#include "file/json.h"
#include "tok/tok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIR OCHRE_TEST_DIR "/golden/tok/"


typedef struct corpus_case {
    const char *name;
    och_strbuf text;
} corpus_case;

static corpus_case *cases;
static size_t n_cases;
static och_json corpus;

static int base64_digit(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *p = c ? strchr(digits, c) : NULL;
    return p ? (int)(p - digits) : -1;
}

static void base64(const char *s, och_strbuf *out) {
    uint32_t bits = 0;
    int n = 0;
    for (; *s && *s != '='; s++) {
        bits = bits << 6 | (uint32_t)base64_digit(*s);
        n += 6;
        if (n >= 8) {
            n -= 8;
            char c = (char)(bits >> n & 255);
            och_strbuf_append(out, &c, 1);
        }
    }
}

static int load_corpus(void **s) {
    (void)s;
    och_err e = {0};
    json_t *list, *v;
    size_t i;
    if (och_json_load(DIR "corpus.json", 0, &corpus, &e) != OCH_OK ||
        och_json_get_array(&corpus, "cases", true, &list, &e) != OCH_OK) {
        fprintf(stderr, "%s\n", e.message);
        return -1;
    }
    n_cases = json_array_size(list);
    cases = och_calloc(n_cases, sizeof *cases);
    json_array_foreach(list, i, v) {
        const json_t *text = json_object_get(v, "text"), *times = json_object_get(v, "times");
        cases[i].name = json_string_value(json_object_get(v, "name"));
        if (text) {
            for (json_int_t k = 0; k < (times ? json_integer_value(times) : 1); k++)
                och_strbuf_append(&cases[i].text, json_string_value(text), json_string_length(text));
        } else {
            base64(json_string_value(json_object_get(v, "base64")), &cases[i].text);
        }
    }
    return 0;
}

static int free_corpus(void **s) {
    (void)s;
    for (size_t i = 0; i < n_cases; i++) och_strbuf_deinit(&cases[i].text);
    och_free(cases);
    och_json_deinit(&corpus);
    return 0;
}

static och_tok *open_tok(const char *path) {
    och_err e = {0};
    och_tok *t = NULL;
    size_t n = strlen(path);
    if (n > 5 && strcmp(path + n - 5, ".gguf") == 0) {
        och_gguf *g;
        if (och_gguf_open(path, &g, &e) != OCH_OK) fail_msg("%s", e.message);
        och_status st = och_tok_open_gguf(g, &t, &e);
        och_gguf_close(g);
        if (st != OCH_OK) fail_msg("%s", e.message);
    } else if (och_tok_open_json(path, NULL, &t, &e) != OCH_OK) {
        fail_msg("%s", e.message);
    }
    return t;
}

static void print_ids(const char *what, const och_tok *t, const int32_t *ids, size_t n) {
    fprintf(stderr, "  %s:", what);
    for (size_t i = 0; i < n && i < 60; i++) {
        const char *p;
        size_t len;
        och_tok_piece(t, ids[i], &p, &len);
        fprintf(stderr, " %d'%.*s'", ids[i], (int)len, p);
    }
    fprintf(stderr, "\n");
}

static bool same_ids(const och_tok *t, const char *file, const char *name, const char *key, const och_tok_ids *got,
                     const json_t *want) {
    bool same = json_array_size(want) == got->n;
    for (size_t i = 0; same && i < got->n; i++) same = json_integer_value(json_array_get(want, i)) == got->ids[i];
    if (same) return true;
    fprintf(stderr, "%s %s %s\n", file, name, key);
    och_tok_ids w = {0};
    for (size_t i = 0; i < json_array_size(want); i++)
        assert_int_equal(och_tok_ids_push(&w, (int32_t)json_integer_value(json_array_get(want, i)), NULL), OCH_OK);
    print_ids("expected", t, w.ids, w.n);
    print_ids("found   ", t, got->ids, got->n);
    och_tok_ids_deinit(&w);
    return false;
}

/* Every way to cut the text by ids gives the text of decoding at once, each time whole characters. */
static void streams_equal(const och_tok *t, const och_tok_ids *ids, const och_strbuf *whole) {
    och_detok d;
    och_strbuf out = {0};
    och_detok_init(&d, t, false);
    for (size_t i = 0; i < ids->n; i++) {
        size_t before = out.size;
        assert_int_equal(och_detok_push(&d, ids->ids[i], &out, NULL), OCH_OK);
        assert_true(d.n_tail <= 3);
        /* what was appended starts and ends between characters: no lone continuation, no unfinished lead */
        for (size_t k = before; k < out.size;) {
            unsigned char c = (unsigned char)out.data[k];
            size_t len = c < 0x80 ? 1 : c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 0;
            assert_true(len > 0 && k + len <= out.size);
            k += len;
        }
    }
    assert_int_equal(och_detok_flush(&d, &out, NULL), OCH_OK);
    assert_int_equal(out.size, whole->size);
    if (out.size) assert_memory_equal(out.data, whole->data, out.size);
    och_strbuf_deinit(&out);
}

static void check_vocabulary(const char *name, const char *path, const char *kind) {
    char ids_path[512], parse_key[32], plain_key[32];
    snprintf(ids_path, sizeof ids_path, DIR "%s.ids.jsonl", name);
    snprintf(parse_key, sizeof parse_key, "%s.parse", kind);
    snprintf(plain_key, sizeof plain_key, "%s.plain", kind);
    och_tok *t = open_tok(path);
    FILE *f = fopen(ids_path, "r");
    if (!f) fail_msg("cannot read %s", ids_path);
    char *line = NULL;
    size_t capacity = 0, wrong = 0, lines = 0;
    ssize_t len;
    while ((len = getline(&line, &capacity, f)) > 0) {
        och_json doc;
        och_err e = {0};
        if (och_json_load_memory(ids_path, line, (size_t)len, &doc, &e) != OCH_OK) fail_msg("%s", e.message);
        assert_true(lines < n_cases);
        const corpus_case *c = &cases[lines++];
        assert_string_equal(json_string_value(json_object_get(doc.root, "case")), c->name);
        for (int parse = 1; parse >= 0; parse--) {
            const char *key = parse ? parse_key : plain_key;
            const json_t *want = json_object_get(doc.root, key);
            if (!want) want = json_object_get(doc.root, "ids");
            och_tok_ids got = {0};
            och_strbuf back = {0};
            if (och_tok_encode(t, c->text.data, c->text.size, parse ? OCH_TOK_PARSE_SPECIAL : 0, &got, &e) != OCH_OK)
                fail_msg("%s: %s", c->name, e.message);
            if (!same_ids(t, path, c->name, key, &got, want)) wrong++;
            assert_int_equal(och_tok_decode(t, got.ids, got.n, false, &back, NULL), OCH_OK);
            /* decode(encode(x)) == x, or what the other implementation makes of it */
            if (want == json_object_get(doc.root, "ids")) {
                const json_t *decoded = json_object_get(doc.root, "decoded");
                const char *text = decoded ? json_string_value(decoded) : och_strbuf_str(&c->text);
                size_t size = decoded ? json_string_length(decoded) : c->text.size;
                if (json_is_null(decoded)) size = back.size, text = och_strbuf_str(&back); /* holds a NUL: not kept */
                if (back.size != size || memcmp(och_strbuf_str(&back), text, size) != 0) {
                    fprintf(stderr, "%s %s: decoded to '%s', expected '%s'\n", path, c->name, och_strbuf_str(&back),
                            text);
                    wrong++;
                }
            }
            streams_equal(t, &got, &back);
            och_strbuf_deinit(&back);
            och_tok_ids_deinit(&got);
        }
        och_json_deinit(&doc);
    }
    free(line);
    fclose(f);
    och_tok_destroy(t);
    if (wrong) fail_msg("%s: %zu of %zu cases differ", path, wrong, 2 * lines);
    assert_int_equal(lines, n_cases);
}

static void small_vocabularies(void **s) {
    static const char *const names[] = {"gpt2",   "qwen2", "llama3",    "default", "tekken",
                                        "llama2", "gemma", "metaspace", "flags"};
    (void)s;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, DIR "%s.json", names[i]);
        check_vocabulary(names[i], path, "json");
        snprintf(path, sizeof path, DIR "%s.gguf", names[i]);
        if (access(path, R_OK) == 0) check_vocabulary(names[i], path, "gguf");
    }
}

/* Vocabularies that are fetched, not committed: checked where they are. */
static void real_vocabularies(void **s) {
    static const char *const names[][2] = {
        {"smollm2", "models/SmolLM2-135M-Instruct.Q4_1.gguf"}, {"gemma3", "models/gemma-3-270m-q4_k_m.gguf"},
        {"real-gpt2", "models/tok/real-gpt2.gguf"},            {"real-qwen2", "models/tok/real-qwen2.gguf"},
        {"real-llama3", "models/tok/real-llama3.gguf"},        {"real-mistral", "models/tok/real-mistral.gguf"},
        {"real-tekken", "models/tok/real-tekken.gguf"},
    };
    (void)s;
    size_t found = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, OCHRE_SOURCE_DIR "/%s", names[i][1]);
        if (access(path, R_OK) != 0) {
            print_message("%s is not there: its vocabulary was not checked\n", names[i][1]);
            continue;
        }
        found++;
        check_vocabulary(names[i][0], path, "gguf");
    }
    if (!found) skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_vocabularies),
        cmocka_unit_test(real_vocabularies),
    };
    return cmocka_run_group_tests(tests, load_corpus, free_corpus);
}
