/* Added tokens: texts that are cut out before the rest is tokenized. A sorted table is narrowed byte by byte, so that
 * finding the longest match costs its length times a logarithm, whatever the text. */
#include "base/alloc.h"
#include "tok/internal.h"
#include "tok/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static int by_text(const void *a, const void *b) {
    const och_tok_special *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = memcmp(x->text, y->text, n);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

och_status och_tok_special_add(och_tok_special_set *s, const char *text, size_t len, och_tok_special flags,
                               och_err *err) {
    if (len == 0) return OCH_OK; /* would match everywhere */
    void *p = s->v;
    OCH_TRY(och_tok_grow(&p, &s->capacity, s->n + 1, sizeof *s->v, "the added tokens", err));
    s->v = p;
    flags.text = och_strndup(text, len);
    flags.len = len;
    if (!flags.text) return och_err_nomem(err, len, "an added token");
    s->v[s->n++] = flags;
    return OCH_OK;
}

void och_tok_special_sort(och_tok_special_set *s) {
    if (s->n) qsort(s->v, s->n, sizeof *s->v, by_text);
    memset(s->count, 0, sizeof s->count);
    for (size_t i = s->n; i-- > 0;) {
        unsigned char b = (unsigned char)s->v[i].text[0];
        s->first[b] = (uint32_t)i;
        s->count[b]++;
    }
}

void och_tok_special_deinit(och_tok_special_set *s) {
    for (size_t i = 0; i < s->n; i++) och_free(s->v[i].text);
    och_free(s->v);
    *s = (och_tok_special_set){0};
}

bool och_tok_is_space(uint32_t cp) {
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13);
    if (cp == 0x85) return true;
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL || c == UTF8PROC_CATEGORY_ZP;
}

/* A word character as regular expressions know it: Alphabetic, marks, decimal digits, connectors, joiners. The circled
 * and squared letters are Alphabetic without being letters. */
static bool is_word(uint32_t cp) {
    if (cp == 0x200C || cp == 0x200D || (cp >= 0x24B6 && cp <= 0x24E9)) return true;
    if (cp >= 0x1F130 && cp <= 0x1F189 && !(cp > 0x1F149 && cp < 0x1F150) &&
        !(cp > 0x1F169 && cp < 0x1F170))
        return true;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU: case UTF8PROC_CATEGORY_LL: case UTF8PROC_CATEGORY_LT: case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: case UTF8PROC_CATEGORY_MN: case UTF8PROC_CATEGORY_MC: case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND: case UTF8PROC_CATEGORY_NL: case UTF8PROC_CATEGORY_PC: return true;
    default: return false;
    }
}

/* The character that ends at `end`; false when the bytes before it are none. */
static bool char_before(const char *text, size_t end, uint32_t *out_cp, size_t *out_len) {
    const unsigned char *p = (const unsigned char *)text;
    for (size_t len = 1; len <= 4 && len <= end; len++)
        if (och_utf8_len(p + end - len, len) == len) {
            *out_cp = och_utf8_cp(p + end - len, len);
            *out_len = len;
            return true;
        }
    return false;
}

static bool char_at(const char *text, size_t n, size_t pos, uint32_t *out_cp, size_t *out_len) {
    const unsigned char *p = (const unsigned char *)text;
    if (pos >= n) return false;
    *out_len = och_utf8_len(p + pos, n - pos);
    if (*out_len == 0) return false;
    *out_cp = och_utf8_cp(p + pos, *out_len);
    return true;
}

/* The longest allowed entry that starts at pos; NULL when there is none. */
static const och_tok_special *longest_at(const och_tok_special_set *s, const char *text, size_t n, size_t pos,
                                         bool control) {
    unsigned char b = (unsigned char)text[pos];
    size_t lo = s->first[b], hi = lo + s->count[b];
    const och_tok_special *best = NULL;
    for (size_t depth = 1; lo < hi; depth++) {
        if (s->v[lo].len == depth) {
            if (control || !s->v[lo].control) best = &s->v[lo];
            lo++;
        }
        if (pos + depth >= n) break;
        b = (unsigned char)text[pos + depth];
        /* all of [lo, hi) share `depth` bytes and are longer: narrow to those whose next byte is b */
        size_t a = lo, z = hi;
        while (a < z) {
            size_t mid = a + (z - a) / 2;
            if ((unsigned char)s->v[mid].text[depth] < b) a = mid + 1;
            else z = mid;
        }
        lo = a;
        z = hi;
        while (a < z) {
            size_t mid = a + (z - a) / 2;
            if ((unsigned char)s->v[mid].text[depth] <= b) a = mid + 1;
            else z = mid;
        }
        hi = a;
    }
    return best;
}

bool och_tok_special_find(const och_tok_special_set *s, const char *text, size_t n, size_t pos, size_t taken,
                          bool control, och_tok_hit *out_hit, size_t *out_next) {
    if (s->n == 0) return false;
    for (; pos < n; pos++) {
        if (s->count[(unsigned char)text[pos]] == 0) continue;
        const och_tok_special *m = longest_at(s, text, n, pos, control);
        if (!m) continue;
        size_t start = pos, end = pos + m->len, len;
        uint32_t cp;
        *out_next = end;
        if (m->single_word && ((char_before(text, start, &cp, &len) && is_word(cp)) ||
                               (char_at(text, n, end, &cp, &len) && is_word(cp)))) {
            pos = end - 1;
            continue;
        }
        if (m->lstrip)
            while (start > taken && char_before(text, start, &cp, &len) && och_tok_is_space(cp))
                start -= len;
        if (m->rstrip)
            while (char_at(text, n, end, &cp, &len) && och_tok_is_space(cp)) end += len;
        *out_hit = (och_tok_hit){.start = start, .end = end, .id = m->id};
        return true;
    }
    return false;
}
