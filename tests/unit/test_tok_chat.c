/* Chat formats against Jinja2 (tools/oracle/make_tok.py chat). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "file/json.h"
#include "tok/tok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIR OCHRE_TEST_DIR "/golden/tok/"

static char *slurp(const char *path, size_t *out_n) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot read %s", path);
    och_strbuf b = {0};
    char buf[4096];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, f)) > 0) och_strbuf_append(&b, buf, n);
    fclose(f);
    *out_n = b.size;
    return b.data;
}

/* A small vocabulary with a template of our choice. */
static och_tok *tok_with(const char *vocabulary, const char *bos, const char *eos, const char *template) {
    char path[512];
    size_t n;
    snprintf(path, sizeof path, DIR "%s.json", vocabulary);
    char *json = slurp(path, &n);
    och_strbuf config = {0};
    och_strbuf_puts(&config, "{\"chat_template\":");
    och_strbuf_json(&config, template, strlen(template));
    if (*bos) och_strbuf_printf(&config, ",\"bos_token\":{\"content\":\"%s\"}", bos);
    if (*eos) och_strbuf_printf(&config, ",\"eos_token\":\"%s\"", eos);
    och_strbuf_puts(&config, "}");
    och_tok *t;
    och_err e = {0};
    if (och_tok_open_json_text(json, n, config.data, config.size, &t, &e) != OCH_OK) fail_msg("%s", e.message);
    och_strbuf_deinit(&config);
    och_free(json);
    return t;
}

static void formats_equal_jinja(void **s) {
    (void)s;
    FILE *f = fopen(DIR "chat.jsonl", "r");
    if (!f) fail_msg("cannot read %s", DIR "chat.jsonl");
    char *line = NULL;
    size_t capacity = 0, wrong = 0, n = 0;
    ssize_t len;
    och_tok *t = NULL;
    char name[64] = "";
    while ((len = getline(&line, &capacity, f)) > 0) {
        och_json doc;
        och_err e = {0};
        if (och_json_load_memory("chat.jsonl", line, (size_t)len, &doc, &e) != OCH_OK) fail_msg("%s", e.message);
        const json_t *template = json_object_get(doc.root, "template");
        if (template) {
            och_tok_destroy(t);
            t = tok_with(json_string_value(json_object_get(doc.root, "vocabulary")),
                         json_string_value(json_object_get(doc.root, "bos")),
                         json_string_value(json_object_get(doc.root, "eos")), json_string_value(template));
            snprintf(name, sizeof name, "%s", json_string_value(json_object_get(doc.root, "name")));
            /* a template's name begins with its family's */
            assert_memory_equal(och_tok_chat_family(t), name, strlen(och_tok_chat_family(t)));
            assert_true(och_tok_has_chat(t) && *och_tok_chat_family(t));
            och_json_deinit(&doc);
            continue;
        }
        och_tok_turn turns[8];
        size_t i;
        json_t *v, *list = json_object_get(doc.root, "turns");
        json_array_foreach(list, i, v)
            turns[i] = (och_tok_turn){json_string_value(json_array_get(v, 0)), json_string_value(json_array_get(v, 1))};
        och_strbuf out = {0};
        const char *want = json_string_value(json_object_get(doc.root, "text"));
        och_status st =
            och_tok_chat(t, turns, json_array_size(list), json_is_true(json_object_get(doc.root, "prompt")), &out, &e);
        n++;
        if (want ? st != OCH_OK || strcmp(och_strbuf_str(&out), want) != 0 : st != OCH_INVALID || out.size) {
            fprintf(stderr, "%s, %s: %s\n  expected <%s>\n  found    <%s>\n", name,
                    json_string_value(json_object_get(doc.root, "talk")), e.message, want ? want : "(refused)",
                    och_strbuf_str(&out));
            wrong++;
        }
        och_strbuf_deinit(&out);
        och_json_deinit(&doc);
    }
    free(line);
    fclose(f);
    och_tok_destroy(t);
    if (wrong) fail_msg("%zu of %zu differ", wrong, n);
    assert_true(n > 400);
}

static void unknown_templates_are_refused(void **s) {
    static const char *const templates[] = {
        "{{ something_new }}\nsecond line", "{{ '<|user|>\\n' + message['content'] + '<|end|>\\n<|assistant|>' }}",
        "{{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }}{{ message['content'] + '!' }}",
        "{{ '<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>' }}",
    };
    (void)s;
    och_tok_turn turn = {"user", "hi"};
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        och_tok *t = tok_with("llama2", "<s>", "</s>", templates[i]);
        och_strbuf out = {0};
        och_err e = {0};
        och_strbuf_puts(&out, "kept");
        assert_int_equal(och_tok_chat(t, &turn, 1, true, &out, &e), OCH_UNSUPPORTED);
        assert_string_equal(och_strbuf_str(&out), "kept");
        if (i == 0) {
            assert_non_null(strstr(e.message, "{{ something_new }}"));
            assert_null(strstr(e.message, "second line"));
            assert_string_equal(och_tok_chat_family(t), "");
            assert_true(och_tok_has_chat(t));
        }
        och_strbuf_deinit(&out);
        och_tok_destroy(t);
    }
}

static void no_template_is_said(void **s) {
    (void)s;
    och_tok *t = tok_with("llama2", "<s>", "</s>", "");
    och_tok_turn turn = {"user", "hi"};
    och_strbuf out = {0};
    och_err e = {0};
    assert_false(och_tok_has_chat(t));
    assert_int_equal(och_tok_chat(t, &turn, 1, true, &out, &e), OCH_NOTFOUND);
    och_strbuf_deinit(&out);
    och_tok_destroy(t);
}

/* A role or a text that looks like a template is data. Bytes that are not UTF-8 pass. */
static void content_is_data(void **s) {
    (void)s;
    och_tok *t =
        tok_with("llama3", "<|begin_of_text|>", "<|end_of_text|>",
                 "{{ '<|start_header_id|>' + message['content'] | trim + '<|eot_id|>' }} add_generation_prompt");
    och_tok_turn turn = {"user", " \xFF\x80 \xE2\x80"};
    och_strbuf out = {0};
    assert_int_equal(och_tok_chat(t, &turn, 1, false, &out, NULL), OCH_OK);
    assert_string_equal(och_strbuf_str(&out),
                        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n\xFF\x80 \xE2\x80<|eot_id|>");
    och_strbuf_deinit(&out);
    och_tok_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_equal_jinja),
        cmocka_unit_test(unknown_templates_are_refused),
        cmocka_unit_test(no_template_is_said),
        cmocka_unit_test(content_is_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
