/* A folder with a tiny model whose configuration a test may change, and a tokenizer of single bytes: id = byte, then <s>
 * and </s>. The model's vocabulary is larger than the tokenizer's. */
#ifndef OCH_TESTS_MODEL_FOLDER_H
#define OCH_TESTS_MODEL_FOLDER_H

#include "support.h"

#include "base/strbuf.h"

#include <unistd.h>

#define BYTES_BOS 256
#define BYTES_EOS 257

static char folder_path[64];

static inline void folder_file(const char *name, const char *text, size_t n) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder_path, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline char *golden_text(const char *model, const char *name, size_t *out_n) {
    char path[512];
    snprintf(path, sizeof path, "%s/golden/%s/%s", OCHRE_TEST_DIR, model, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *text = malloc((size_t)n + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)n, f), n);
    text[n] = '\0';
    fclose(f);
    *out_n = (size_t)n;
    return text;
}

/* UTF-8 of the letter that stands for a byte in byte-level vocabularies (GPT-2's bytes_to_unicode). */
static inline void put_byte_letter(och_strbuf *b, int byte) {
    int c = byte;
    if (byte < 33 || (byte > 126 && byte < 161) || byte == 173) {
        c = 256;
        for (int i = 0; i < byte; i++) c += i < 33 || (i > 126 && i < 161) || i == 173;
    }
    if (c == '"' || c == '\\') och_strbuf_printf(b, "\\%c", c);
    else if (c < 128) och_strbuf_printf(b, "%c", c);
    else och_strbuf_printf(b, "%c%c", 0xC0 | c >> 6, 0x80 | (c & 63));
}

/* eos: the id whose letter is declared the end token; -1: </s>. */
static inline void folder_tokenizer(int eos) {
    och_strbuf b;
    och_strbuf_init(&b);
    och_strbuf_puts(&b, "{\"added_tokens\": [{\"id\": 256, \"content\": \"<s>\", \"special\": true}, "
                        "{\"id\": 257, \"content\": \"</s>\", \"special\": true}], \"normalizer\": null, "
                        "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}, "
                        "\"post_processor\": null, \"decoder\": {\"type\": \"ByteLevel\"}, "
                        "\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {");
    for (int i = 0; i < 256; i++) {
        och_strbuf_puts(&b, i ? ", \"" : "\"");
        put_byte_letter(&b, i);
        och_strbuf_printf(&b, "\": %d", i);
    }
    och_strbuf_puts(&b, ", \"<s>\": 256, \"</s>\": 257}}}");
    folder_file("tokenizer.json", b.data, b.size);
    och_strbuf_clear(&b);
    och_strbuf_puts(&b, "{\"bos_token\": \"<s>\", \"eos_token\": \"");
    if (eos < 0) och_strbuf_puts(&b, "</s>");
    else put_byte_letter(&b, eos);
    och_strbuf_puts(&b, "\"}");
    folder_file("tokenizer_config.json", b.data, b.size);
    och_strbuf_deinit(&b);
}

/* Copies a golden model's folder; in its config.json the text `from` becomes `to` (NULL: nothing does). */
static inline void folder_make(const char *model, const char *from, const char *to) {
    size_t n;
    if (!folder_path[0]) {
        snprintf(folder_path, sizeof folder_path, "/tmp/ochre-test-XXXXXX");
        assert_non_null(mkdtemp(folder_path));
    }
    char *weights = golden_text(model, "model.safetensors", &n);
    folder_file("model.safetensors", weights, n);
    free(weights);
    char *config = golden_text(model, "config.json", &n);
    if (from) {
        char *at = strstr(config, from);
        if (!at) fail_msg("%s: config.json has no %s", model, from);
        och_strbuf b;
        och_strbuf_init(&b);
        och_strbuf_append(&b, config, (size_t)(at - config));
        och_strbuf_puts(&b, to);
        och_strbuf_puts(&b, at + strlen(from));
        folder_file("config.json", b.data, b.size);
        och_strbuf_deinit(&b);
    } else
        folder_file("config.json", config, n);
    free(config);
}

static inline void folder_remove(void) {
    static const char *const names[] = {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "model.gguf"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder_path, names[i]);
        unlink(path);
    }
    rmdir(folder_path);
    folder_path[0] = '\0';
}

static inline ochre_model *folder_open(const char *provider) {
    ochre_error error;
    ochre_model *m = NULL;
    ochre_model_options o = OCHRE_MODEL_OPTIONS_INIT;
    o.provider = provider;
    o.n_threads = 2;
    MUST(ochre_model_open(folder_path, &o, &m, &error));
    return m;
}

#endif
