/* Text to ids: cut out added tokens, normalise what lies between, split it, merge each piece. */
#include "base/alloc.h"
#include "tok/internal.h"

#include <string.h>

typedef struct work {
    const och_tok *t;
    bool control;
    och_strbuf alike; /* the text with U+2581 as spaces */
    och_strbuf a, b;  /* a segment while it is normalised */
    och_tok_spans spans, tmp;
    och_tok_bpe bpe;
} work;

static void work_deinit(work *w) {
    och_strbuf_deinit(&w->alike);
    och_strbuf_deinit(&w->a);
    och_strbuf_deinit(&w->b);
    och_free(w->spans.v);
    och_free(w->tmp.v);
    och_tok_bpe_deinit(&w->bpe);
}

/* Text without added tokens. `first`: it stands at the very start. */
static och_status plain(work *w, const char *text, size_t n, bool first, och_tok_ids *out, och_err *err) {
    const och_tok *t = w->t;
    och_strbuf changed = {0};
    och_status st = OCH_OK;
    if (n == 0) return OCH_OK;
    if (t->space_prefix && text[0] != ' ') {
        och_strbuf_append(&changed, " ", 1);
        och_strbuf_append(&changed, text, n);
    } else if (t->metaspace) {
        bool prefix =
            t->metaspace_prefix == OCH_TOK_PREFIX_ALWAYS || (t->metaspace_prefix == OCH_TOK_PREFIX_FIRST && first);
        if (prefix && text[0] != ' ' && (n < 3 || memcmp(text, OCH_TOK_SPACE, 3) != 0))
            och_strbuf_append(&changed, OCH_TOK_SPACE, 3);
        size_t done = 0;
        for (size_t i = 0; i < n; i++)
            if (text[i] == ' ') {
                och_strbuf_append(&changed, text + done, i - done);
                och_strbuf_append(&changed, OCH_TOK_SPACE, 3);
                done = i + 1;
            }
        och_strbuf_append(&changed, text + done, n - done);
    }
    OCH_TRY_GOTO(och_strbuf_status(&changed, err));
    if (changed.data) {
        text = changed.data;
        n = changed.size;
    }
    OCH_TRY_GOTO(och_tok_pre_split(t, text, n, &w->spans, &w->tmp, err));
    for (size_t i = 0; i < w->spans.n; i++)
        OCH_TRY_GOTO(och_tok_bpe_piece(t, &w->bpe, text + w->spans.v[i].start, w->spans.v[i].end - w->spans.v[i].start,
                                       out, err));
done:
    och_strbuf_deinit(&changed);
    return st;
}

/* What lies between added tokens of the raw text. */
static och_status segment(work *w, const char *text, size_t n, bool first, och_tok_ids *out, och_err *err) {
    const och_tok *t = w->t;
    uint64_t limit = OCH_TOK_NORM_LIMIT(n);
    for (size_t i = 0; i < t->n_norm; i++) {
        och_strbuf *to = i % 2 ? &w->b : &w->a;
        OCH_TRY(och_tok_norm_apply(&t->norm[i], text, n, limit, to, err));
        text = och_strbuf_str(to);
        n = to->size;
    }
    size_t pos = 0, taken = 0;
    och_tok_hit hit;
    while (och_tok_special_find(&t->normalized, text, n, pos, taken, w->control, &hit, &pos)) {
        if (hit.start > taken) OCH_TRY(plain(w, text + taken, hit.start - taken, first && taken == 0, out, err));
        OCH_TRY(och_tok_ids_push(out, hit.id, err));
        taken = hit.end;
    }
    return taken < n ? plain(w, text + taken, n - taken, first && taken == 0, out, err) : OCH_OK;
}

och_status och_tok_encode(const och_tok *t, const char *text, size_t n_bytes, unsigned flags, och_tok_ids *out,
                          och_err *err) {
    if (n_bytes > OCH_TOK_MAX_TEXT_BYTES)
        return och_err_set(err, OCH_RANGE, "the text is %zu bytes, at most %llu are allowed", n_bytes,
                           (unsigned long long)OCH_TOK_MAX_TEXT_BYTES);
    size_t n_before = out->n;
    work w = {.t = t, .control = (flags & OCH_TOK_PARSE_SPECIAL) != 0};
    och_status st = OCH_OK;
    if (flags & OCH_TOK_ADD_SPECIAL)
        for (size_t i = 0; i < t->prefix.n; i++) OCH_TRY_GOTO(och_tok_ids_push(out, t->prefix.ids[i], err));
    if (t->spaces_alike && memmem(text, n_bytes, OCH_TOK_SPACE, 3)) {
        och_tok_replace(text, n_bytes, OCH_TOK_SPACE, 3, " ", 1, &w.alike);
        OCH_TRY_GOTO(och_strbuf_status(&w.alike, err));
        text = och_strbuf_str(&w.alike);
        n_bytes = w.alike.size;
    }
    size_t pos = 0, taken = 0;
    och_tok_hit hit;
    while (och_tok_special_find(&t->raw, text, n_bytes, pos, taken, w.control, &hit, &pos)) {
        if (hit.start > taken) OCH_TRY_GOTO(segment(&w, text + taken, hit.start - taken, taken == 0, out, err));
        OCH_TRY_GOTO(och_tok_ids_push(out, hit.id, err));
        taken = hit.end;
    }
    if (taken < n_bytes) OCH_TRY_GOTO(segment(&w, text + taken, n_bytes - taken, taken == 0, out, err));
    if (flags & OCH_TOK_ADD_SPECIAL)
        for (size_t i = 0; i < t->suffix.n; i++) OCH_TRY_GOTO(och_tok_ids_push(out, t->suffix.ids[i], err));
done:
    if (st != OCH_OK) out->n = n_before;
    work_deinit(&w);
    return st;
}
