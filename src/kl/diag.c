#include "kl/diag.h"

#include <stdio.h>
#include <string.h>

void och_kl_diag_init(och_kl_diag *d, och_strbuf *text, och_err *err) {
    *d = (och_kl_diag){.text = text, .err = err};
}

/* Bytes of a source line that are shown: a line may be as long as its file. */
#define SHOWN_BYTES 240

static void show_line(och_strbuf *out, och_kl_pos pos) {
    const char *text = pos.file->text, *end = text + pos.file->n_bytes;
    for (uint32_t line = 1; line < pos.line; line++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        if (!newline) return;
        text = newline + 1;
    }
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    size_t n = (size_t)((newline ? newline : end) - text), at = pos.column - 1;
    if (n && text[n - 1] == '\r') n--;
    if (at > n) at = n;
    /* The part around the place, where all would be too much. */
    size_t skip = at > SHOWN_BYTES / 2 && n > SHOWN_BYTES ? at - SHOWN_BYTES / 2 : 0;
    text += skip, n -= skip, at -= skip;
    if (n > SHOWN_BYTES) n = SHOWN_BYTES;
    och_strbuf_puts(out, "    ");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        char shown = (c < 0x20 && c != '\t') || c == 0x7f ? '?' : (char)c;
        och_strbuf_append(out, &shown, 1);
    }
    och_strbuf_puts(out, "\n    ");
    for (size_t i = 0; i < at; i++) {
        /* The bytes that continue a UTF-8 character take no column of their own. */
        if (((unsigned char)text[i] & 0xc0) == 0x80) continue;
        och_strbuf_append(out, text[i] == '\t' ? "\t" : " ", 1);
    }
    och_strbuf_puts(out, "^");
    for (size_t i = 1; i < pos.length && at + i < n; i++)
        if (((unsigned char)text[at + i] & 0xc0) != 0x80) och_strbuf_puts(out, "~");
    och_strbuf_puts(out, "\n");
}

static void show(och_kl_diag *d, och_kl_pos pos, const char *kind, const char *message) {
    if (!d->text) return;
    if (pos.file)
        och_strbuf_printf(d->text, "%s:%u:%u: %s: %s\n", pos.file->name, (unsigned)pos.line, (unsigned)pos.column, kind,
                          message);
    else
        och_strbuf_printf(d->text, "%s: %s\n", kind, message);
    if (pos.file && pos.line) show_line(d->text, pos);
}

void och_kl_error_va(och_kl_diag *d, och_kl_pos pos, const char *fmt, va_list args) {
    char message[512];
    vsnprintf(message, sizeof message, fmt, args);
    d->n_errors++;
    d->muted = d->n_errors > OCH_KL_MAX_ERRORS;
    if (!d->muted) show(d, pos, "error", message);
    else if (d->n_errors == OCH_KL_MAX_ERRORS + 1 && d->text)
        och_strbuf_printf(d->text, "error: more than %d errors: the rest is not shown\n", OCH_KL_MAX_ERRORS);
    if (d->n_errors == 1 && pos.file)
        och_err_set(d->err, OCH_COMPILE, "%.200s:%u:%u: error: %s", pos.file->name, (unsigned)pos.line,
                    (unsigned)pos.column, message);
    else if (d->n_errors == 1)
        och_err_set(d->err, OCH_COMPILE, "error: %s", message);
}

void och_kl_report(och_kl_diag *d, och_kl_pos pos, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    och_kl_error_va(d, pos, fmt, args);
    va_end(args);
}

void och_kl_note(och_kl_diag *d, och_kl_pos pos, const char *fmt, ...) {
    char message[512];
    va_list args;
    if (d->muted) return;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    show(d, pos, "note", message);
}

bool och_kl_diag_full(const och_kl_diag *d) {
    return d->n_errors >= OCH_KL_MAX_ERRORS;
}

och_kl_pos och_kl_pos_span(och_kl_pos from, och_kl_pos to) {
    uint64_t end = (uint64_t)to.column + to.length;
    if (from.file == to.file && from.line == to.line && end > (uint64_t)from.column + from.length)
        from.length = (uint32_t)(end - from.column);
    return from;
}

/* Letters to insert, remove, replace or swap with a neighbour. Names longer than this are not compared. */
#define GUESS_BYTES 32

static size_t distance(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b);
    uint8_t rows[3][GUESS_BYTES + 1];
    if (n > GUESS_BYTES || m > GUESS_BYTES) return SIZE_MAX;
    uint8_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++) last[j] = (uint8_t)j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = (uint8_t)i;
        for (size_t j = 1; j <= m; j++) {
            uint8_t best = (uint8_t)(last[j - 1] + (a[i - 1] != b[j - 1]));
            if (last[j] + 1 < best) best = (uint8_t)(last[j] + 1);
            if (row[j - 1] + 1 < best) best = (uint8_t)(row[j - 1] + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = (uint8_t)(before[j - 2] + 1);
            row[j] = best;
        }
        uint8_t *oldest = before;
        before = last, last = row, row = oldest;
    }
    return last[m];
}

void och_kl_guess_init(och_kl_guess *g, const char *word) {
    *g = (och_kl_guess){.word = word, .distance = SIZE_MAX};
}

void och_kl_guess_offer(och_kl_guess *g, const char *candidate) {
    if (!candidate) return;
    size_t d = distance(g->word, candidate);
    if (d < g->distance) g->distance = d, g->best = candidate;
}

const char *och_kl_guess_best(const och_kl_guess *g) {
    size_t n = strlen(g->word), limit = n <= 2 ? 1 : n <= 5 ? 2 : 3;
    return g->best && g->distance <= limit && g->distance < n ? g->best : NULL;
}
