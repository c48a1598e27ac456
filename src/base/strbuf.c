#include "base/strbuf.h"

#include "base/alloc.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

void och_strbuf_init(och_strbuf *b) { memset(b, 0, sizeof *b); }

void och_strbuf_deinit(och_strbuf *b) {
    och_free(b->data);
    memset(b, 0, sizeof *b);
}

void och_strbuf_clear(och_strbuf *b) {
    b->size = 0;
    b->failed = false;
    if (b->data) b->data[0] = 0;
}

static bool reserve(och_strbuf *b, size_t more) {
    if (b->failed) return false;
    if (more > SIZE_MAX / 2 - b->size) {
        b->failed = true;
        return false;
    }
    size_t need = b->size + more + 1;
    if (need <= b->capacity) return true;
    size_t capacity = b->capacity ? b->capacity : 64;
    while (capacity < need) capacity *= 2;
    char *p = och_realloc(b->data, capacity);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->data = p;
    b->capacity = capacity;
    return true;
}

void och_strbuf_append(och_strbuf *b, const void *bytes, size_t n_bytes) {
    if (!reserve(b, n_bytes)) return;
    if (n_bytes) memcpy(b->data + b->size, bytes, n_bytes);
    b->size += n_bytes;
    b->data[b->size] = 0;
}

void och_strbuf_puts(och_strbuf *b, const char *s) { och_strbuf_append(b, s, strlen(s)); }

void och_strbuf_printf(och_strbuf *b, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n >= 0 && reserve(b, (size_t)n)) {
        vsnprintf(b->data + b->size, (size_t)n + 1, fmt, again);
        b->size += (size_t)n;
    }
    va_end(again);
}

/* Length of the UTF-8 sequence at s (RFC 3629, table in section 4), 0 if it is not one. */
static size_t utf8_sequence(const unsigned char *s, size_t n) {
    unsigned char c = s[0];
    if (c < 0x80) return 1;
    size_t len = c >= 0xC2 && c <= 0xDF ? 2 : c >= 0xE0 && c <= 0xEF ? 3 : c >= 0xF0 && c <= 0xF4 ? 4 : 0;
    if (!len || len > n) return 0;
    unsigned char lo = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80, hi = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    if (s[1] < lo || s[1] > hi) return 0;
    for (size_t i = 2; i < len; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    return len;
}

void och_strbuf_json(och_strbuf *b, const char *s, size_t n_bytes) {
    och_strbuf_append(b, "\"", 1);
    for (size_t i = 0; i < n_bytes;) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\') {
            och_strbuf_printf(b, "\\%c", c);
            i++;
        } else if (c < 0x20 || c == 0x7F) {
            och_strbuf_printf(b, "\\u%04x", c);
            i++;
        } else {
            size_t len = utf8_sequence((const unsigned char *)s + i, n_bytes - i);
            if (len) och_strbuf_append(b, s + i, len);
            else och_strbuf_puts(b, "\\ufffd");
            i += len ? len : 1;
        }
    }
    och_strbuf_append(b, "\"", 1);
}

const char *och_strbuf_str(const och_strbuf *b) { return b->data ? b->data : ""; }

och_status och_strbuf_status(const och_strbuf *b, och_err *err) {
    return b->failed ? och_err_nomem(err, b->size, "a string") : OCH_OK;
}
