/* A tokenizer from the tokenizer.ggml.* keys of a GGUF. */
#include "base/alloc.h"
#include "base/size.h"
#include "file/gguf.h"
#include "tok/internal.h"
#include "tok/utf8.h"

#include <math.h>
#include <string.h>

#define KEY "tokenizer.ggml."

static och_status load_entries(och_tok *t, const och_gguf *g, bool scores, och_err *err) {
    const och_gguf_value *tokens, *types, *values = NULL;
    OCH_TRY(och_gguf_get_array(g, KEY "tokens", true, OCH_GGUF_STRING, &tokens, err));
    OCH_TRY(och_gguf_get_array(g, KEY "token_type", false, OCH_GGUF_TYPE_COUNT_, &types, err));
    if (scores) OCH_TRY(och_gguf_get_array(g, KEY "scores", true, OCH_GGUF_F32, &values, err));
    if (tokens->count == 0) return och_err_set(err, OCH_CORRUPT, KEY "tokens: the vocabulary is empty");
    if (types && types->count != tokens->count)
        return och_err_set(err, OCH_CORRUPT, KEY "token_type has %llu entries, expected %llu as in tokens",
                           (unsigned long long)types->count, (unsigned long long)tokens->count);
    if (values && values->count != tokens->count)
        return och_err_set(err, OCH_CORRUPT, KEY "scores has %llu entries, expected %llu as in tokens",
                           (unsigned long long)values->count, (unsigned long long)tokens->count);
    /* strings lie in the file with 8 bytes of length each, so this bounds their text */
    OCH_TRY(och_tok_vocab_reserve(t, (size_t)tokens->count, tokens->size_bytes, scores, err));

    och_gguf_str_iter it = och_gguf_str_iter_view(tokens);
    const char *s;
    size_t len;
    uint32_t at = 0;
    for (int32_t id = 0; id < t->n; id++) {
        if (!och_gguf_str_next(&it, &s, &len))
            return och_err_set(err, OCH_CORRUPT, KEY "tokens ends at entry %d of %d", id, t->n);
        if (len > OCH_TOK_MAX_ENTRY)
            return och_err_set(err, OCH_RANGE, KEY "tokens: token %d is %zu bytes, at most %d are allowed", id, len,
                               OCH_TOK_MAX_ENTRY);
        memcpy(t->text + at, s, len);
        at += (uint32_t)len;
        t->off[id + 1] = at;
        if (values) {
            if (!och_gguf_array_f32(values, (uint64_t)id, &t->score[id]) || !isfinite(t->score[id]))
                return och_err_set(err, OCH_CORRUPT, KEY "scores: token %d's is not finite", id);
        }
        if (types) {
            int64_t type = 0;
            if (!och_gguf_array_i64(types, (uint64_t)id, &type))
                return och_err_set(err, OCH_CORRUPT, KEY "token_type: expected an array of integers, found %s",
                                   och_gguf_type_name(types->elem_type));
            if (type < 0 || type > OCH_TOK_BYTE)
                return och_err_set(err, OCH_CORRUPT, KEY "token_type: token %d's is %lld, expected 0 to %d", id,
                                   (long long)type, OCH_TOK_BYTE);
            t->type[id] = (uint8_t)type;
        } else if (scores && len == 6 && memcmp(s, "<0x", 3) == 0 && s[5] == '>') {
            t->type[id] = OCH_TOK_BYTE;
        }
    }
    return och_tok_vocab_index(t, err);
}

static och_status load_merges(och_tok *t, const och_gguf *g, och_err *err) {
    const och_gguf_value *merges;
    OCH_TRY(och_gguf_get_array(g, KEY "merges", true, OCH_GGUF_STRING, &merges, err));
    OCH_TRY(och_tok_merges_reserve(t, (size_t)merges->count, err));
    och_gguf_str_iter it = och_gguf_str_iter_view(merges);
    const char *s;
    size_t len;
    for (uint64_t i = 0; i < merges->count; i++) {
        if (!och_gguf_str_next(&it, &s, &len))
            return och_err_set(err, OCH_CORRUPT, KEY "merges ends at entry %llu of %llu", (unsigned long long)i,
                               (unsigned long long)merges->count);
        const char *space = len > 1 ? memchr(s + 1, ' ', len - 1) : NULL;
        if (!space || space + 1 == s + len) {
            char q[96];
            och_tok_quote(s, len, q, sizeof q);
            return och_err_set(err, OCH_CORRUPT,
                               KEY "merges: merge %llu is '%s', expected two tokens with a space between",
                               (unsigned long long)i, q);
        }
        och_status st =
            och_tok_merge_put(t, (size_t)i, s, (size_t)(space - s), space + 1, (size_t)(s + len - space - 1), err);
        if (st != OCH_OK) return och_err_prefix(err, KEY "merges");
    }
    return OCH_OK;
}

static och_status load_id(const och_tok *t, const och_gguf *g, const char *key, int32_t *inout_id, och_err *err) {
    int64_t v = *inout_id;
    OCH_TRY(och_gguf_get_i64(g, key, false, &v, err));
    if (v == -1 || v == UINT32_MAX) { /* how "none" is written */
        *inout_id = -1;
        return OCH_OK;
    }
    if (v < 0 || v >= t->n)
        return och_err_set(err, OCH_CORRUPT, "%s is %lld, expected an id below the vocabulary's %d", key, (long long)v,
                           t->n);
    *inout_id = (int32_t)v;
    return OCH_OK;
}

static och_status copy_piece(const och_tok *t, int32_t id, char **out_s, och_err *err) {
    *out_s = id < 0 ? och_strndup("", 0) : och_strndup(och_tok_text(t, id), och_tok_len(t, id));
    return *out_s ? OCH_OK : och_err_nomem(err, 1, "a token's text");
}

static och_status norm_put(och_tok *t, och_tok_norm_kind kind, const char *from, const char *to, och_err *err) {
    och_tok_norm *op = &t->norm[t->n_norm++];
    *op = (och_tok_norm){.kind = kind, .from_len = strlen(from), .to_len = strlen(to)};
    op->from = och_strdup(from);
    op->to = och_strdup(to);
    return op->from && op->to ? OCH_OK : och_err_nomem(err, 1, "a normaliser");
}

static och_status load(och_tok *t, const och_gguf *g, och_err *err) {
    const char *model = NULL, *pre = "default", *chat = NULL;
    OCH_TRY(och_gguf_get_str(g, KEY "model", true, &model, err));
    bool spm = strcmp(model, "llama") == 0;
    if (!spm && strcmp(model, "gpt2") != 0) {
        const char *what = strcmp(model, "bert") == 0 ? " (WordPiece)" : strcmp(model, "t5") == 0 ? " (Unigram)" : "";
        return och_err_set(err, OCH_UNSUPPORTED,
                           KEY "model is '%.64s'%s; known are: gpt2 (byte-level BPE), llama (SentencePiece BPE)", model,
                           what);
    }
    t->byte_level = !spm;
    OCH_TRY(load_entries(t, g, spm, err));
    if (spm) {
        bool prefix = true;
        OCH_TRY(och_gguf_get_bool(g, KEY "add_space_prefix", false, &prefix, err));
        if (prefix) OCH_TRY(norm_put(t, OCH_TOK_NORM_PREPEND, "", " ", err));
        OCH_TRY(norm_put(t, OCH_TOK_NORM_REPLACE, " ", OCH_TOK_SPACE, err));
        t->spaces_alike = true;
        t->strip_left = prefix;
        t->byte_fallback = true;
        t->fuse_unk = true;
        t->bos = 1, t->eos = 2, t->unk = 0; /* SentencePiece's own, when the file names none */
        if (t->n <= 2) t->bos = t->eos = -1;
        t->add_bos = true;
    } else {
        OCH_TRY(load_merges(t, g, err));
        OCH_TRY(och_gguf_get_str(g, KEY "pre", false, &pre, err));
        och_status st = och_tok_pre_named(t, pre, err);
        if (st != OCH_OK) return och_err_prefix(err, KEY "pre");
    }
    OCH_TRY(load_id(t, g, KEY "bos_token_id", &t->bos, err));
    OCH_TRY(load_id(t, g, KEY "eos_token_id", &t->eos, err));
    OCH_TRY(load_id(t, g, KEY "unknown_token_id", &t->unk, err));
    OCH_TRY(load_id(t, g, KEY "padding_token_id", &t->pad, err));
    t->unk_fallback = spm ? t->unk : -1;
    OCH_TRY(och_gguf_get_bool(g, KEY "add_bos_token", false, &t->add_bos, err));
    OCH_TRY(och_gguf_get_bool(g, KEY "add_eos_token", false, &t->add_eos, err));
    t->add_bos = t->add_bos && t->bos >= 0;
    t->add_eos = t->add_eos && t->eos >= 0;
    if (t->add_bos) OCH_TRY(och_tok_ids_push(&t->prefix, t->bos, err));
    if (t->add_eos) OCH_TRY(och_tok_ids_push(&t->suffix, t->eos, err));

    static const char *const more_ends[] = {KEY "eot_token_id", KEY "eom_token_id"};
    for (size_t i = 0; i < OCH_COUNT(more_ends); i++) {
        int32_t id = -1;
        OCH_TRY(load_id(t, g, more_ends[i], &id, err));
        OCH_TRY(och_tok_add_end(t, id, err));
    }
    OCH_TRY(och_tok_vocab_finish(t, err));

    for (int32_t id = 0; id < t->n; id++) {
        uint8_t type = t->type[id];
        if (type != OCH_TOK_CONTROL && type != OCH_TOK_USER_DEFINED && type != OCH_TOK_UNKNOWN) continue;
        och_tok_special flags = {.id = id, .control = type != OCH_TOK_USER_DEFINED};
        const char *s = och_tok_text(t, id);
        size_t len = och_tok_len(t, id);
        /* SentencePiece sees a space and U+2581 as one, and files spell an entry either way: one spelling for both */
        och_strbuf b = {0};
        if (spm) och_tok_replace(s, len, OCH_TOK_SPACE, 3, " ", 1, &b);
        else och_strbuf_append(&b, s, len);
        och_status st = och_strbuf_status(&b, err);
        if (st == OCH_OK) st = och_tok_special_add(&t->raw, och_strbuf_str(&b), b.size, flags, err);
        och_strbuf_deinit(&b);
        OCH_TRY(st);
    }
    och_tok_special_sort(&t->raw);
    och_tok_special_sort(&t->normalized);

    OCH_TRY(och_gguf_get_str(g, "tokenizer.chat_template", false, &chat, err));
    if (chat) {
        t->chat = och_strdup(chat);
        if (!t->chat) return och_err_nomem(err, strlen(chat), "the chat template");
    }
    OCH_TRY(copy_piece(t, t->bos, &t->chat_bos, err));
    return copy_piece(t, t->eos, &t->chat_eos, err);
}

och_status och_tok_open_gguf(const och_gguf *g, och_tok **out_tok, och_err *err) {
    *out_tok = NULL;
    och_tok *t;
    OCH_TRY(och_tok_alloc(&t, err));
    och_status st = load(t, g, err);
    if (st != OCH_OK) {
        och_tok_destroy(t);
        och_err_prefix(err, "%s", och_gguf_path(g));
        return st;
    }
    *out_tok = t;
    return OCH_OK;
}
