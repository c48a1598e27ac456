/* A tokenizer from Hugging Face's tokenizer.json and tokenizer_config.json: BPE models only. */
#include "base/alloc.h"
#include "base/size.h"
#include "file/json.h"
#include "file/mapping.h"
#include "tok/internal.h"
#include "tok/utf8.h"

#include <string.h>

typedef struct entry {
    const char *text; /* borrowed from the document; NULL: a hole */
    size_t len;
} entry;

typedef struct loader {
    och_tok *t;
    och_json doc, config;
    entry *entries; /* owned, [n] */
    size_t n;
    bool decodes_bytes; /* the decoder turns <0xNN> into bytes */
} loader;

static const char *type_of(const json_t *v) {
    const char *s = json_string_value(json_object_get(v, "type"));
    return s ? s : "";
}

static bool flag(const json_t *v, const char *key, bool otherwise) {
    const json_t *b = json_object_get(v, key);
    return json_is_boolean(b) ? json_is_true(b) : otherwise;
}

/* A token's text: a string, or an object with "content". */
static const json_t *content_of(const json_t *v) { return json_is_object(v) ? json_object_get(v, "content") : v; }

static och_status refuse(const char *part, const json_t *v, const char *known, och_err *err) {
    const char *type = type_of(v);
    return och_err_set(err, OCH_UNSUPPORTED, "%s '%s' is not built; known are: %s", part,
                       json_is_null(v) || !v ? "null" : type, known);
}

/* -- vocabulary -- */
static och_status entry_put(loader *l, const char *where, const char *text, size_t len, json_int_t id, och_err *err) {
    char q[96];
    och_tok_quote(text, len, q, sizeof q);
    if (id < 0 || (size_t)id >= l->n)
        return och_err_set(err, OCH_CORRUPT, "%s: token '%s' has id %lld, expected 0 to %zu", where, q, (long long)id,
                           l->n - 1);
    if (len > OCH_TOK_MAX_ENTRY)
        return och_err_set(err, OCH_RANGE, "%s: token %lld is %zu bytes, at most %d are allowed", where, (long long)id,
                           len, OCH_TOK_MAX_ENTRY);
    entry *e = &l->entries[id];
    if (e->text && (e->len != len || memcmp(e->text, text, len) != 0))
        return och_err_set(err, OCH_CORRUPT, "%s: token '%s' has id %lld, which is another token's", where, q,
                           (long long)id);
    *e = (entry){.text = text, .len = len};
    return OCH_OK;
}

static och_status load_entries(loader *l, json_t *vocab, json_t *added, och_err *err) {
    size_t count = json_object_size(vocab) + json_array_size(added), i;
    const char *key;
    json_t *v;
    json_int_t most = -1;
    json_object_foreach(vocab, key, v) {
        if (!json_is_integer(v))
            return och_err_set(err, OCH_CORRUPT, "model.vocab: token '%.64s' has a %s, expected an integer id", key,
                               och_json_type_name(v));
        most = OCH_MAX(most, json_integer_value(v));
    }
    json_array_foreach(added, i, v) {
        if (!json_is_integer(json_object_get(v, "id")) || !json_is_string(json_object_get(v, "content")))
            return och_err_set(err, OCH_CORRUPT, "added_tokens.%zu: expected an integer id and a string content", i);
        most = OCH_MAX(most, json_integer_value(json_object_get(v, "id")));
    }
    if (most < 0) return och_err_set(err, OCH_CORRUPT, "model.vocab: the vocabulary is empty");
    /* holes are allowed, a lying id that would reserve memory for millions of them is not */
    if (most >= OCH_TOK_MAX_VOCAB || (uint64_t)most > (uint64_t)count * 4 + 65536)
        return och_err_set(err, OCH_CORRUPT, "model.vocab: the largest id is %lld in a vocabulary of %zu entries",
                           (long long)most, count);
    l->n = (size_t)most + 1;
    l->entries = och_calloc(l->n, sizeof *l->entries);
    if (!l->entries) return och_err_nomem(err, l->n * sizeof *l->entries, "the vocabulary");
    for (void *it = json_object_iter(vocab); it; it = json_object_iter_next(vocab, it))
        OCH_TRY(entry_put(l, "model.vocab", json_object_iter_key(it), json_object_iter_key_len(it),
                          json_integer_value(json_object_iter_value(it)), err));
    json_array_foreach(added, i, v) {
        const json_t *content = json_object_get(v, "content");
        OCH_TRY(entry_put(l, "added_tokens", json_string_value(content), json_string_length(content),
                          json_integer_value(json_object_get(v, "id")), err));
    }
    uint64_t bytes = 0;
    for (i = 0; i < l->n; i++) bytes += l->entries[i].len;
    och_tok *t = l->t;
    OCH_TRY(och_tok_vocab_reserve(t, l->n, bytes, false, err));
    uint32_t at = 0;
    for (i = 0; i < l->n; i++) {
        if (l->entries[i].len) memcpy(t->text + at, l->entries[i].text, l->entries[i].len);
        at += (uint32_t)l->entries[i].len;
        t->off[i + 1] = at;
    }
    return och_tok_vocab_index(t, err);
}

static och_status load_merges(och_tok *t, json_t *merges, och_err *err) {
    size_t i;
    json_t *v;
    if (!json_is_array(merges))
        return och_err_set(err, OCH_CORRUPT, "model.merges: expected an array, found %s", och_json_type_name(merges));
    OCH_TRY(och_tok_merges_reserve(t, json_array_size(merges), err));
    json_array_foreach(merges, i, v) {
        const json_t *a = json_array_get(v, 0), *b = json_array_get(v, 1);
        const char *left = json_string_value(a), *right = json_string_value(b);
        size_t left_len = json_string_length(a), right_len = json_string_length(b);
        if (json_is_string(v)) {
            const char *s = json_string_value(v), *space = strchr(s, ' ');
            left = s;
            left_len = space ? (size_t)(space - s) : 0;
            right = space ? space + 1 : NULL;
            right_len = space ? json_string_length(v) - left_len - 1 : 0;
        } else if (json_array_size(v) != 2) {
            right = NULL;
        }
        if (!left || !right || !left_len || !right_len)
            return och_err_set(err, OCH_CORRUPT, "model.merges.%zu: expected two tokens", i);
        if (och_tok_merge_put(t, i, left, left_len, right, right_len, err) != OCH_OK)
            return och_err_prefix(err, "model.merges");
    }
    return OCH_OK;
}

static och_status load_model(loader *l, och_err *err) {
    och_tok *t = l->t;
    json_t *model, *vocab, *added;
    OCH_TRY(och_json_get_object(&l->doc, "model", true, &model, err));
    const json_t *type = json_object_get(model, "type");
    if (type && strcmp(type_of(model), "BPE") != 0) return refuse("model.type", model, "BPE", err);
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < OCH_COUNT(affixes); i++)
        if (json_string_length(json_object_get(model, affixes[i])) > 0)
            return och_err_set(err, OCH_UNSUPPORTED, "model.%s is not built", affixes[i]);
    if (json_number_value(json_object_get(model, "dropout")) > 0)
        return och_err_set(err, OCH_UNSUPPORTED, "model.dropout is not built");
    t->byte_fallback = flag(model, "byte_fallback", false);
    t->fuse_unk = flag(model, "fuse_unk", false);
    t->ignore_merges = flag(model, "ignore_merges", false);
    OCH_TRY(och_json_get_object(&l->doc, "model.vocab", true, &vocab, err));
    OCH_TRY(och_json_get_array(&l->doc, "added_tokens", false, &added, err));
    OCH_TRY(load_entries(l, vocab, added, err));
    OCH_TRY(load_merges(t, json_object_get(model, "merges"), err));
    const json_t *unk = json_object_get(model, "unk_token");
    if (json_is_string(unk)) {
        t->unk = och_tok_id(t, json_string_value(unk), json_string_length(unk));
        if (t->unk < 0)
            return och_err_set(err, OCH_CORRUPT, "model.unk_token '%.64s' is no token", json_string_value(unk));
        t->unk_fallback = t->unk;
    }
    return OCH_OK;
}

/* -- normalizer -- */
static och_status load_norm(och_tok *t, json_t *v, och_err *err) {
    if (!v || json_is_null(v)) return OCH_OK;
    const char *type = type_of(v);
    if (strcmp(type, "Sequence") == 0) {
        size_t i;
        json_t *part;
        json_array_foreach(json_object_get(v, "normalizers"), i, part) OCH_TRY(load_norm(t, part, err));
        return OCH_OK;
    }
    if (t->n_norm == OCH_TOK_MAX_STEPS)
        return och_err_set(err, OCH_UNSUPPORTED, "the normalizer has more than %d steps", OCH_TOK_MAX_STEPS);
    och_tok_norm op = {.kind = OCH_TOK_NORM_NFC};
    const json_t *from = NULL, *to = NULL;
    if (strcmp(type, "Replace") == 0) {
        op.kind = OCH_TOK_NORM_REPLACE;
        from = json_object_get(json_object_get(v, "pattern"), "String");
        to = json_object_get(v, "content");
        if (!json_is_string(from) || !json_is_string(to) || !json_string_length(from))
            return och_err_set(err, OCH_UNSUPPORTED, "normalizer 'Replace' is built for a String pattern only");
    } else if (strcmp(type, "Prepend") == 0) {
        op.kind = OCH_TOK_NORM_PREPEND;
        to = json_object_get(v, "prepend");
        if (!json_is_string(to)) return och_err_set(err, OCH_CORRUPT, "normalizer 'Prepend': expected a string");
    } else if (strcmp(type, "NFC") != 0) {
        return refuse("normalizer", v, "NFC, Replace, Prepend, Sequence", err);
    }
    op.from_len = json_string_length(from);
    op.to_len = json_string_length(to);
    op.from = och_strndup(from ? json_string_value(from) : "", op.from_len);
    op.to = och_strndup(to ? json_string_value(to) : "", op.to_len);
    t->norm[t->n_norm++] = op;
    return op.from && op.to ? OCH_OK : och_err_nomem(err, 1, "a normalizer");
}

/* -- pre-tokenizer -- */
static och_status load_split(och_tok *t, json_t *v, och_err *err) {
    static const char *const behaviors[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious",
                                            "MergedWithNext"};
    static const och_tok_split splits[] = {OCH_TOK_ISOLATED, OCH_TOK_REMOVED, OCH_TOK_CONTIGUOUS,
                                           OCH_TOK_MERGED_PREVIOUS, OCH_TOK_MERGED_NEXT};
    const json_t *pattern = json_object_get(v, "pattern"), *regex = json_object_get(pattern, "Regex");
    const json_t *text = regex ? regex : json_object_get(pattern, "String");
    const char *behavior = json_string_value(json_object_get(v, "behavior"));
    if (!json_is_string(text) || !json_string_length(text))
        return och_err_set(err, OCH_CORRUPT, "pre_tokenizer 'Split': expected a pattern");
    for (size_t i = 0; behavior && i < OCH_COUNT(behaviors); i++)
        if (strcmp(behavior, behaviors[i]) == 0)
            return och_tok_pre_add(t, json_string_value(text), json_string_length(text), !regex, splits[i],
                                   flag(v, "invert", false), err);
    return och_err_set(err, OCH_UNSUPPORTED, "pre_tokenizer 'Split': behavior '%.32s' is not built",
                       behavior ? behavior : "");
}

static och_status load_pre(och_tok *t, json_t *v, och_err *err) {
    if (!v || json_is_null(v)) return OCH_OK;
    const char *type = type_of(v);
    if (strcmp(type, "Sequence") == 0) {
        size_t i;
        json_t *part;
        json_array_foreach(json_object_get(v, "pretokenizers"), i, part) OCH_TRY(load_pre(t, part, err));
        return OCH_OK;
    }
    if (strcmp(type, "Split") == 0) return load_split(t, v, err);
    if (strcmp(type, "Digits") == 0)
        return och_tok_pre_add(t, "\\p{N}", 5, false,
                               flag(v, "individual_digits", false) ? OCH_TOK_ISOLATED : OCH_TOK_CONTIGUOUS, false, err);
    if (strcmp(type, "ByteLevel") == 0) {
        t->byte_level = true;
        if (flag(v, "add_prefix_space", true)) {
            if (t->n_step)
                return och_err_set(err, OCH_UNSUPPORTED, "pre_tokenizer 'ByteLevel' adds a space after other steps");
            t->space_prefix = true;
        }
        return flag(v, "use_regex", true) ? och_tok_pre_add(t, och_tok_gpt2_pattern, strlen(och_tok_gpt2_pattern),
                                                            false, OCH_TOK_ISOLATED, false, err)
                                          : OCH_OK;
    }
    if (strcmp(type, "Metaspace") == 0) {
        const char *replacement = json_string_value(json_object_get(v, "replacement"));
        const char *scheme = json_string_value(json_object_get(v, "prepend_scheme"));
        if (replacement && strcmp(replacement, OCH_TOK_SPACE) != 0)
            return och_err_set(err, OCH_UNSUPPORTED, "pre_tokenizer 'Metaspace' replaces with '%.16s'", replacement);
        if (t->n_step) return och_err_set(err, OCH_UNSUPPORTED, "pre_tokenizer 'Metaspace' comes after other steps");
        if (!scheme) scheme = flag(v, "add_prefix_space", true) ? "always" : "never"; /* files of before 0.15 */
        t->metaspace = true;
        t->metaspace_prefix = strcmp(scheme, "never") == 0   ? OCH_TOK_PREFIX_NEVER
                              : strcmp(scheme, "first") == 0 ? OCH_TOK_PREFIX_FIRST
                                                             : OCH_TOK_PREFIX_ALWAYS;
        return flag(v, "split", true)
                   ? och_tok_pre_add(t, OCH_TOK_SPACE, 3, true, OCH_TOK_MERGED_NEXT, false, err)
                   : OCH_OK;
    }
    return refuse("pre_tokenizer", v, "ByteLevel, Digits, Metaspace, Split, Sequence", err);
}

/* -- decoder: what it does must be what this room does -- */
typedef struct decoder {
    bool letters, spaces, bytes, strip;
} decoder;

static och_status load_decoder(json_t *v, decoder *d, och_err *err) {
    const char *type = type_of(v);
    size_t i;
    json_t *part;
    if (strcmp(type, "Sequence") == 0) {
        json_array_foreach(json_object_get(v, "decoders"), i, part) OCH_TRY(load_decoder(part, d, err));
        return OCH_OK;
    }
    if (strcmp(type, "ByteLevel") == 0) d->letters = true;
    else if (strcmp(type, "ByteFallback") == 0) d->bytes = true;
    else if (strcmp(type, "Fuse") == 0) return OCH_OK;
    else if (strcmp(type, "Metaspace") == 0) {
        const char *scheme = json_string_value(json_object_get(v, "prepend_scheme"));
        d->spaces = true;
        d->strip = scheme ? strcmp(scheme, "never") != 0 : flag(v, "add_prefix_space", true);
    } else if (strcmp(type, "Replace") == 0) {
        const char *from = json_string_value(json_object_get(json_object_get(v, "pattern"), "String"));
        const char *to = json_string_value(json_object_get(v, "content"));
        if (!from || !to || strcmp(from, OCH_TOK_SPACE) != 0 || strcmp(to, " ") != 0)
            return och_err_set(err, OCH_UNSUPPORTED, "decoder 'Replace' is built from U+2581 to a space only");
        d->spaces = true;
    } else if (strcmp(type, "Strip") == 0) {
        const char *what = json_string_value(json_object_get(v, "content"));
        json_int_t start = json_integer_value(json_object_get(v, "start")),
                   stop = json_integer_value(json_object_get(v, "stop"));
        if (!what || strcmp(what, " ") != 0 || start < 0 || start > 1 || stop != 0)
            return och_err_set(err, OCH_UNSUPPORTED, "decoder 'Strip' is built for one leading space only");
        d->strip = start == 1;
    } else {
        return refuse("decoder", v, "ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip, Sequence", err);
    }
    return OCH_OK;
}

/* -- post-processor: what stands before and after a single text -- */
static och_status push_checked(och_tok *t, och_tok_ids *a, const json_t *id, const char *where, och_err *err) {
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= t->n)
        return och_err_set(err, OCH_CORRUPT, "%s: expected an id below the vocabulary's %d", where, t->n);
    return och_tok_ids_push(a, (int32_t)json_integer_value(id), err);
}

static och_status load_post(och_tok *t, json_t *v, och_err *err) {
    if (!v || json_is_null(v)) return OCH_OK;
    const char *type = type_of(v);
    size_t i, k;
    json_t *part, *id;
    if (strcmp(type, "ByteLevel") == 0) return OCH_OK; /* trims offsets, which nobody here keeps */
    if (strcmp(type, "Sequence") == 0) {
        json_array_foreach(json_object_get(v, "processors"), i, part) OCH_TRY(load_post(t, part, err));
        return OCH_OK;
    }
    if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0) {
        OCH_TRY(push_checked(t, &t->prefix, json_array_get(json_object_get(v, "cls"), 1), "post_processor.cls", err));
        return push_checked(t, &t->suffix, json_array_get(json_object_get(v, "sep"), 1), "post_processor.sep", err);
    }
    if (strcmp(type, "TemplateProcessing") != 0)
        return refuse("post_processor", v, "ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing, Sequence",
                      err);
    bool after = false;
    json_array_foreach(json_object_get(v, "single"), i, part) {
        const char *name = json_string_value(json_object_get(json_object_get(part, "SpecialToken"), "id"));
        if (json_object_get(part, "Sequence")) {
            after = true;
            continue;
        }
        const json_t *row = name ? json_object_get(json_object_get(v, "special_tokens"), name) : NULL;
        if (!row)
            return och_err_set(err, OCH_CORRUPT, "post_processor.single.%zu: '%.64s' is not in special_tokens", i,
                               name ? name : "");
        json_array_foreach(json_object_get(row, "ids"), k, id)
            OCH_TRY(push_checked(t, after ? &t->suffix : &t->prefix, id, "post_processor.special_tokens", err));
    }
    return OCH_OK;
}

/* -- added tokens -- */
static och_status load_added(och_tok *t, json_t *added, och_err *err) {
    size_t i;
    json_t *v;
    json_array_foreach(added, i, v) {
        const json_t *content = json_object_get(v, "content");
        och_tok_special s = {.id = (int32_t)json_integer_value(json_object_get(v, "id")),
                             .control = flag(v, "special", false),
                             .lstrip = flag(v, "lstrip", false),
                             .rstrip = flag(v, "rstrip", false),
                             .single_word = flag(v, "single_word", false)};
        const char *text = json_string_value(content);
        size_t len = json_string_length(content);
        t->type[s.id] = s.control ? OCH_TOK_CONTROL : OCH_TOK_USER_DEFINED;
        if (!flag(v, "normalized", !s.control)) {
            OCH_TRY(och_tok_special_add(&t->raw, text, len, s, err));
            continue;
        }
        /* found in the normalised text, so it is itself normalised */
        och_strbuf a = {0}, b = {0};
        och_status st = OCH_OK;
        for (size_t k = 0; st == OCH_OK && k < t->n_norm; k++) {
            och_strbuf *to = k % 2 ? &b : &a;
            st = och_tok_norm_apply(&t->norm[k], text, len, OCH_TOK_NORM_LIMIT(OCH_TOK_MAX_ENTRY), to, err);
            text = och_strbuf_str(to);
            len = to->size;
        }
        if (st == OCH_OK) st = och_tok_special_add(&t->normalized, text, len, s, err);
        och_strbuf_deinit(&a);
        och_strbuf_deinit(&b);
        OCH_TRY(st);
    }
    och_tok_special_sort(&t->raw);
    och_tok_special_sort(&t->normalized);
    return OCH_OK;
}

/* -- tokenizer_config.json -- */
static och_status config_token(loader *l, const char *key, int32_t *inout_id, char **out_text, och_err *err) {
    const json_t *v = content_of(l->config.root ? json_object_get(l->config.root, key) : NULL);
    och_tok *t = l->t;
    if (json_is_string(v)) {
        int32_t id = och_tok_id(t, json_string_value(v), json_string_length(v));
        if (id < 0)
            return och_err_set(err, OCH_CORRUPT, "%s: %s '%.64s' is no token", l->config.name, key,
                               json_string_value(v));
        *inout_id = id;
    }
    if (!out_text) return OCH_OK;
    *out_text = *inout_id < 0 ? och_strndup("", 0) : och_strndup(och_tok_text(t, *inout_id), och_tok_len(t, *inout_id));
    return *out_text ? OCH_OK : och_err_nomem(err, 1, "a token's text");
}

static och_status load_config(loader *l, och_err *err) {
    och_tok *t = l->t;
    if (t->prefix.n) t->bos = t->prefix.ids[0];
    if (t->suffix.n) t->eos = t->suffix.ids[t->suffix.n - 1];
    OCH_TRY(config_token(l, "bos_token", &t->bos, &t->chat_bos, err));
    OCH_TRY(config_token(l, "eos_token", &t->eos, &t->chat_eos, err));
    OCH_TRY(config_token(l, "unk_token", &t->unk, NULL, err));
    OCH_TRY(config_token(l, "pad_token", &t->pad, NULL, err));
    const json_t *root = l->config.root, *chat = json_object_get(root, "chat_template");
    const char *class = json_string_value(json_object_get(root, "tokenizer_class"));
    if (class && (strncmp(class, "Llama", 5) == 0 || strncmp(class, "Gemma", 5) == 0)) {
        /* these classes build the post-processor anew from the configuration */
        const json_t *b = json_object_get(root, "add_bos_token"), *e = json_object_get(root, "add_eos_token");
        if (json_is_boolean(b)) {
            t->prefix.n = 0;
            if (json_is_true(b) && t->bos >= 0) OCH_TRY(och_tok_ids_push(&t->prefix, t->bos, err));
        }
        if (json_is_boolean(e)) {
            t->suffix.n = 0;
            if (json_is_true(e) && t->eos >= 0) OCH_TRY(och_tok_ids_push(&t->suffix, t->eos, err));
        }
    }
    for (size_t i = 0; i < t->prefix.n; i++) t->add_bos |= t->prefix.ids[i] == t->bos;
    for (size_t i = 0; i < t->suffix.n; i++) t->add_eos |= t->suffix.ids[i] == t->eos;
    size_t i;
    json_t *v;
    const json_t *named = NULL;
    json_array_foreach(chat, i, v) {
        const char *name = json_string_value(json_object_get(v, "name"));
        if (name && strcmp(name, "default") == 0) named = json_object_get(v, "template");
    }
    if (json_is_array(chat)) chat = named;
    if (json_is_string(chat)) {
        t->chat = och_strdup(json_string_value(chat));
        if (!t->chat) return och_err_nomem(err, json_string_length(chat), "the chat template");
    }
    return OCH_OK;
}

static och_status load(loader *l, och_err *err) {
    och_tok *t = l->t;
    json_t *root = l->doc.root;
    decoder d = {0};
    if (!json_is_object(root))
        return och_err_set(err, OCH_CORRUPT, "expected an object, found %s", och_json_type_name(root));
    OCH_TRY(load_model(l, err));
    OCH_TRY(load_norm(t, json_object_get(root, "normalizer"), err));
    OCH_TRY(load_pre(t, json_object_get(root, "pre_tokenizer"), err));
    OCH_TRY(load_decoder(json_object_get(root, "decoder"), &d, err));
    if (d.letters != t->byte_level || (!d.letters && !d.spaces) || (d.letters && d.spaces))
        return och_err_set(err, OCH_UNSUPPORTED, "the decoder does not undo what the pre_tokenizer does: expected %s",
                           t->byte_level ? "ByteLevel" : "Replace or Metaspace");
    t->strip_left = d.strip;
    if (d.bytes || t->byte_fallback)
        for (int32_t id = 0; id < t->n; id++) {
            const char *s = och_tok_text(t, id);
            if (och_tok_len(t, id) == 6 && memcmp(s, "<0x", 3) == 0 && s[5] == '>' &&
                strspn(s + 3, "0123456789ABCDEFabcdef") >= 2)
                t->type[id] = OCH_TOK_BYTE;
        }
    OCH_TRY(load_post(t, json_object_get(root, "post_processor"), err));
    OCH_TRY(load_added(t, json_object_get(root, "added_tokens"), err));
    OCH_TRY(load_config(l, err));
    OCH_TRY(och_tok_vocab_finish(t, err));
    t->pre_name = och_strdup("tokenizer.json");
    return t->pre_name ? OCH_OK : och_err_nomem(err, 1, "a name");
}

/* Takes both documents. */
static och_status open_docs(och_json doc, och_json config, och_tok **out_tok, och_err *err) {
    loader l = {.doc = doc, .config = config};
    och_status st = och_tok_alloc(&l.t, err);
    if (st == OCH_OK) {
        st = load(&l, err);
        /* Messages about the JSON itself name the file already. */
        if (st != OCH_OK && err && strncmp(err->message, doc.name, strlen(doc.name)) != 0)
            och_err_prefix(err, "%s", doc.name);
    }
    if (st == OCH_OK) *out_tok = l.t;
    else och_tok_destroy(l.t);
    och_free(l.entries);
    och_json_deinit(&l.doc);
    och_json_deinit(&l.config);
    return st;
}

och_status och_tok_open_json_text(const char *json, size_t n_bytes, const char *config, size_t n_config_bytes,
                                  och_tok **out_tok, och_err *err) {
    och_json doc, cfg = {0};
    *out_tok = NULL;
    OCH_TRY(och_json_load_memory("tokenizer.json", json, n_bytes, &doc, err));
    if (config) {
        och_status st = och_json_load_memory("tokenizer_config.json", config, n_config_bytes, &cfg, err);
        if (st != OCH_OK) {
            och_json_deinit(&doc);
            return st;
        }
    }
    return open_docs(doc, cfg, out_tok, err);
}

/* Newer folders keep the template in a file of its own, chat_template.jinja, beside tokenizer.json. */
static och_status load_template_file(och_tok *t, const char *beside, och_err *err) {
    static const char name[] = "chat_template.jinja";
    const char *slash = strrchr(beside, '/');
    size_t dir = slash ? (size_t)(slash - beside) + 1 : 0;
    char *path = och_malloc(dir + sizeof name);
    if (!path) return och_err_nomem(err, dir + sizeof name, "a path");
    memcpy(path, beside, dir);
    memcpy(path + dir, name, sizeof name);
    och_mapping *m;
    och_err ignored;
    och_err_clear(&ignored);
    och_status st = och_mapping_open(path, &m, &ignored);
    och_free(path);
    if (st == OCH_NOMEM) return och_err_nomem(err, 0, "a mapping");
    if (st != OCH_OK) return OCH_OK;
    och_free(t->chat);
    t->chat =
        memchr(m->data, 0, (size_t)m->size) ? och_strdup("") : och_strndup((const char *)m->data, (size_t)m->size);
    och_mapping_close(m);
    return t->chat ? OCH_OK : och_err_nomem(err, 0, "the chat template");
}

och_status och_tok_open_json(const char *tokenizer_json_path, const char *tokenizer_config_path, och_tok **out_tok,
                             och_err *err) {
    och_json doc, cfg = {0};
    *out_tok = NULL;
    OCH_TRY(och_json_load(tokenizer_json_path, 0, &doc, err));
    if (tokenizer_config_path) {
        och_status st = och_json_load(tokenizer_config_path, 0, &cfg, err);
        if (st != OCH_OK) {
            och_json_deinit(&doc);
            return st;
        }
    }
    OCH_TRY(open_docs(doc, cfg, out_tok, err));
    och_status st = load_template_file(*out_tok, tokenizer_json_path, err);
    if (st != OCH_OK) {
        och_tok_destroy(*out_tok);
        *out_tok = NULL;
    }
    return st;
}
