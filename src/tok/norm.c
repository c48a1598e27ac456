/* Normalising: literal replacement, a prefix, and Unicode's canonical composition. */
#include "base/alloc.h"
#include "base/size.h"
#include "tok/internal.h"
#include "tok/utf8.h"

#include <string.h>
#include <utf8proc.h>

void och_tok_replace(const char *in, size_t n, const char *from, size_t from_len, const char *to, size_t to_len,
                     och_strbuf *out) {
    size_t done = 0;
    while (n - done >= from_len) {
        const char *hit = memmem(in + done, n - done, from, from_len);
        if (!hit) break;
        och_strbuf_append(out, in + done, (size_t)(hit - in) - done);
        och_strbuf_append(out, to, to_len);
        done = (size_t)(hit - in) + from_len;
    }
    och_strbuf_append(out, in + done, n - done);
}

/* Sorts a run of combining marks by class, keeping the order of equals: merges of doubling width, since the exchange
 * sort that utf8proc would use is quadratic in a run that hostile text can make as long as it likes. */
static void order_marks(utf8proc_int32_t *v, size_t n, utf8proc_int32_t *tmp) {
    for (size_t w = 1; w < n; w *= 2) {
        for (size_t lo = 0; lo + w < n; lo += 2 * w) {
            size_t mid = lo + w, hi = OCH_MIN(lo + 2 * w, n), a = lo, b = mid, o = lo;
            while (a < mid && b < hi) {
                utf8proc_propval_t ca = utf8proc_get_property(v[a])->combining_class;
                utf8proc_propval_t cb = utf8proc_get_property(v[b])->combining_class;
                tmp[o++] = cb < ca ? v[b++] : v[a++];
            }
            while (a < mid) tmp[o++] = v[a++];
            while (b < hi) tmp[o++] = v[b++];
            memcpy(v + lo, tmp + lo, (hi - lo) * sizeof *v);
        }
    }
}

/* in is valid UTF-8 throughout. */
static och_status nfc_valid(const char *in, size_t n, och_strbuf *out, och_err *err) {
    const unsigned char *p = (const unsigned char *)in;
    /* A character decomposes canonically into at most 4 (UAX 15, table 14), and all but the first take 2 bytes. Half of
     * the buffer is scratch for sorting. */
    size_t capacity;
    if (__builtin_mul_overflow(n, (size_t)2, &capacity)) return och_err_set(err, OCH_RANGE, "the text is too long");
    capacity += 4;
    utf8proc_int32_t *v = och_malloc_array(capacity, 2 * sizeof *v);
    if (!v) return och_err_nomem(err, (uint64_t)capacity * 2 * sizeof *v, "normalising");
    utf8proc_int32_t *tmp = v + capacity;
    size_t n_cp = 0;
    int boundary = 0;
    for (size_t i = 0; i < n;) {
        size_t len = och_utf8_len(p + i, n - i);
        utf8proc_ssize_t got = utf8proc_decompose_char((utf8proc_int32_t)och_utf8_cp(p + i, len), v + n_cp,
                                                       (utf8proc_ssize_t)(capacity - n_cp),
                                                       UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &boundary);
        if (got < 0 || (size_t)got > capacity - n_cp) {
            och_free(v);
            return och_err_set(err, OCH_INTERNAL, "normalising: %s", utf8proc_errmsg(got));
        }
        n_cp += (size_t)got;
        i += len;
    }
    for (size_t i = 0; i < n_cp;) {
        if (utf8proc_get_property(v[i])->combining_class == 0) {
            i++;
            continue;
        }
        size_t end = i + 1;
        while (end < n_cp && utf8proc_get_property(v[end])->combining_class != 0) end++;
        order_marks(v + i, end - i, tmp);
        i = end;
    }
    /* U+11A7 stands one before the trailing jamo and is none (Unicode 3.12), but utf8proc composes it away: what comes
     * before it and what it starts are composed on their own. */
    utf8proc_ssize_t composed = 0;
    for (size_t i = 0; i < n_cp && composed >= 0;) {
        size_t end = i + 1;
        while (end < n_cp && v[end] != 0x11A7) end++;
        composed = utf8proc_normalize_utf32(v + i, (utf8proc_ssize_t)(end - i), UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        for (utf8proc_ssize_t k = 0; k < composed; k++) {
            unsigned char u[4];
            och_strbuf_append(out, u, och_utf8_put((uint32_t)v[i + (size_t)k], u));
        }
        i = end;
    }
    och_free(v);
    return composed < 0 ? och_err_set(err, OCH_INTERNAL, "normalising: %s", utf8proc_errmsg(composed)) : OCH_OK;
}

/* Everything below U+0300 is composed already, and nothing before a mark or a jamo can change: a stretch is worked on
 * from one such character to the next, so that plain text is copied. Bytes that are not UTF-8 stand as they are. */
static och_status nfc(const char *in, size_t n, och_strbuf *out, och_err *err) {
    const unsigned char *p = (const unsigned char *)in;
    size_t done = 0, i = 0;
    while (i < n) {
        size_t len = och_utf8_len(p + i, n - i);
        if (len <= 1 || (len == 2 && p[i] < 0xCC)) {
            i += len ? len : 1;
            continue;
        }
        /* back to the character before, which may compose with what follows; it is below U+0300, or invalid */
        size_t start = i;
        if (start > done) {
            size_t back = start - 1;
            while (back > done && (p[back] & 0xC0) == 0x80) back--;
            if (och_utf8_len(p + back, start - back) == start - back) start = back;
        }
        size_t end = i + len;
        while (end < n) {
            size_t l = och_utf8_len(p + end, n - end);
            if (l == 0 || (l == 1) || (l == 2 && p[end] < 0xCC)) break;
            end += l;
        }
        och_strbuf_append(out, in + done, start - done);
        OCH_TRY(nfc_valid(in + start, end - start, out, err));
        done = i = end;
    }
    och_strbuf_append(out, in + done, n - done);
    return OCH_OK;
}

/* How long the text becomes at most. */
static uint64_t replaced_size(const och_tok_norm *op, const char *in, size_t n) {
    uint64_t size = n;
    if (op->to_len <= op->from_len) return size;
    for (const char *p = in; (p = memmem(p, n - (size_t)(p - in), op->from, op->from_len)) != NULL; p += op->from_len)
        size += op->to_len - op->from_len;
    return size;
}

och_status och_tok_norm_apply(const och_tok_norm *op, const char *in, size_t n, uint64_t limit, och_strbuf *out,
                              och_err *err) {
    uint64_t size = n;
    och_strbuf_clear(out);
    if (op->kind == OCH_TOK_NORM_REPLACE) size = replaced_size(op, in, n);
    if (op->kind == OCH_TOK_NORM_PREPEND) size += op->to_len;
    if (size > limit)
        return och_err_set(err, OCH_RANGE, "normalising makes the text %llu bytes long, at most %llu are allowed",
                           (unsigned long long)size, (unsigned long long)limit);
    switch (op->kind) {
    case OCH_TOK_NORM_NFC: OCH_TRY(nfc(in, n, out, err)); break;
    case OCH_TOK_NORM_REPLACE: och_tok_replace(in, n, op->from, op->from_len, op->to, op->to_len, out); break;
    case OCH_TOK_NORM_PREPEND:
        if (n) och_strbuf_append(out, op->to, op->to_len);
        och_strbuf_append(out, in, n);
        break;
    }
    return och_strbuf_status(out, err);
}
