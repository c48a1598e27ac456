/* Ids to text, whole characters at a time. */
#include "tok/internal.h"
#include "tok/utf8.h"

#include <string.h>

void och_detok_init(och_detok *d, const och_tok *tok, bool skip_special) {
    *d = (och_detok){.tok = tok, .skip_special = skip_special};
}

/* A character, or what stands for one. */
static void emit(och_detok *d, const void *bytes, size_t n, och_strbuf *out) {
    if (!d->started) {
        d->started = true;
        if (d->tok->strip_left && n == 1 && *(const char *)bytes == ' ') return;
    }
    och_strbuf_append(out, bytes, n);
}

static void put_byte(och_detok *d, unsigned char byte, och_strbuf *out) {
    d->tail[d->n_tail++] = byte;
    while (d->n_tail) {
        size_t len;
        och_utf8_kind kind = och_utf8_step(d->tail, d->n_tail, &len);
        if (kind == OCH_UTF8_SHORT) return;
        if (kind == OCH_UTF8_OK) emit(d, d->tail, len, out);
        else emit(d, "\xEF\xBF\xBD", 3, out);
        d->n_tail -= (uint32_t)len;
        memmove(d->tail, d->tail + len, d->n_tail);
    }
}

static void put_bytes(och_detok *d, const char *s, size_t n, och_strbuf *out) {
    for (size_t i = 0; i < n; i++) put_byte(d, (unsigned char)s[i], out);
}

/* Letters to bytes; an entry with a character outside the alphabet stands for itself as a whole. */
static void put_letters(och_detok *d, const char *s, size_t n, och_strbuf *out) {
    const unsigned char *p = (const unsigned char *)s;
    for (size_t i = 0, len; i < n; i += len) {
        len = och_utf8_len(p + i, n - i);
        if (len == 0 || och_tok_letter_byte(och_utf8_cp(p + i, len)) < 0) {
            put_bytes(d, s, n, out);
            return;
        }
    }
    for (size_t i = 0, len; i < n; i += len) {
        len = och_utf8_len(p + i, n - i);
        put_byte(d, (unsigned char)och_tok_letter_byte(och_utf8_cp(p + i, len)), out);
    }
}

och_status och_detok_push(och_detok *d, int32_t id, och_strbuf *out, och_err *err) {
    const och_tok *t = d->tok;
    if (id < 0 || id >= t->n)
        return och_err_set(err, OCH_INVALID, "token id %d is outside the vocabulary of %d", id, t->n);
    const char *s = och_tok_text(t, id);
    size_t n = och_tok_len(t, id);
    uint8_t type = t->type[id];
    if (d->skip_special && och_tok_is_special(t, id)) return OCH_OK;
    if (type == OCH_TOK_CONTROL || type == OCH_TOK_UNKNOWN || (t->byte_level && type == OCH_TOK_USER_DEFINED)) {
        put_bytes(d, s, n, out);
    } else if (t->byte_level) {
        put_letters(d, s, n, out);
    } else if (type == OCH_TOK_BYTE) {
        for (int b = 0; b < 256; b++)
            if (t->byte_id[b] == id) {
                put_byte(d, (unsigned char)b, out);
                break;
            }
    } else {
        for (size_t i = 0; i < n;) {
            if (n - i >= 3 && memcmp(s + i, OCH_TOK_SPACE, 3) == 0) {
                put_byte(d, ' ', out);
                i += 3;
            } else put_byte(d, (unsigned char)s[i++], out);
        }
    }
    return och_strbuf_status(out, err);
}

och_status och_detok_flush(och_detok *d, och_strbuf *out, och_err *err) {
    if (d->n_tail) emit(d, "\xEF\xBF\xBD", 3, out); /* what waits is one maximal subpart */
    d->n_tail = 0;
    d->started = false;
    return och_strbuf_status(out, err);
}

och_status och_tok_decode(const och_tok *tok, const int32_t *ids, size_t n, bool skip_special, och_strbuf *out,
                          och_err *err) {
    och_detok d;
    och_detok_init(&d, tok, skip_special);
    for (size_t i = 0; i < n; i++) OCH_TRY(och_detok_push(&d, ids[i], out, err));
    return och_detok_flush(&d, out, err);
}
