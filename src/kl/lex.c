#include "kl/lex.h"

#include "base/alloc.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct lexer {
    const och_kl_file *file;
    och_kl_diag *diag;
    och_kl_token *tokens;
    size_t n, capacity;
    uint32_t at, line, line_at; /* line_at: where the line begins */
} lexer;

static bool is_digit(int c) {
    return c >= '0' && c <= '9';
}

static bool is_name(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

/* The text ends with a NUL, so that looking one or two bytes ahead of a byte that is not the end is safe. */
static int peek(const lexer *l, uint32_t ahead) {
    return l->at + ahead < l->file->n_bytes ? (unsigned char)l->file->text[l->at + ahead] : 0;
}

static bool push(lexer *l, int kind, int op, uint32_t length) {
    if (l->n == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 256;
        och_kl_token *more = och_realloc_array(l->tokens, capacity, sizeof *more);
        if (!more) return false;
        l->tokens = more, l->capacity = capacity;
    }
    l->tokens[l->n++] = (och_kl_token){.kind = kind, .op = op, .at = l->at, .length = length, .line = l->line,
                                       .column = l->at - l->line_at + 1};
    l->at += length;
    return true;
}

static och_kl_pos here(const lexer *l, uint32_t length) {
    return (och_kl_pos){l->file, l->line, l->at - l->line_at + 1, length};
}

static void newline(lexer *l) {
    l->at++, l->line++, l->line_at = l->at;
}

/* Blanks and comments. */
static void skip(lexer *l) {
    while (l->at < l->file->n_bytes) {
        int c = peek(l, 0);
        if (c == '\n') newline(l);
        else if (c == ' ' || c == '\t' || c == '\r') l->at++;
        else if (c == '/' && peek(l, 1) == '/')
            while (l->at < l->file->n_bytes && peek(l, 0) != '\n') l->at++;
        else if (c == '/' && peek(l, 1) == '*') {
            och_kl_pos begin = here(l, 2);
            l->at += 2;
            while (l->at < l->file->n_bytes && !(peek(l, 0) == '*' && peek(l, 1) == '/')) {
                if (peek(l, 0) == '\n') newline(l);
                else l->at++;
            }
            if (l->at == l->file->n_bytes) och_kl_report(l->diag, begin, "this comment has no end");
            else l->at += 2;
        } else
            return;
    }
}

/* Length of a number; its kind. A dot belongs to it only before a digit, so that 0..n is a range. */
static uint32_t number(const lexer *l, int *out_kind) {
    uint32_t n = 1;
    *out_kind = OCH_KL_T_INT;
    if (peek(l, 0) == '0' && (peek(l, 1) == 'x' || peek(l, 1) == 'b')) {
        while (is_name(peek(l, n))) n++;
        return n;
    }
    while (is_digit(peek(l, n)) || peek(l, n) == '_') n++;
    if (peek(l, n) == '.' && is_digit(peek(l, n + 1))) {
        *out_kind = OCH_KL_T_FLOAT;
        n++;
        while (is_digit(peek(l, n)) || peek(l, n) == '_') n++;
    }
    if (peek(l, n) == 'e' || peek(l, n) == 'E') {
        uint32_t sign = peek(l, n + 1) == '+' || peek(l, n + 1) == '-';
        if (is_digit(peek(l, n + 1 + sign))) {
            *out_kind = OCH_KL_T_FLOAT;
            n += 2 + sign;
            while (is_digit(peek(l, n))) n++;
        }
    }
    while (is_name(peek(l, n))) n++; /* 12abc is one wrong token and not two right ones */
    return n;
}

static bool string(lexer *l) {
    uint32_t n = 1;
    while (l->at + n < l->file->n_bytes && peek(l, n) != '"' && peek(l, n) != '\n') n++;
    if (peek(l, n) != '"') {
        och_kl_report(l->diag, here(l, n), "this string has no end in its line");
        return push(l, OCH_KL_T_STRING, 0, n);
    }
    return push(l, OCH_KL_T_STRING, 0, n + 1);
}

static const struct {
    const char *text;
    int kind, op;
} operators[] = { /* longer ones first */
    {"<<=", OCH_KL_T_ASSIGN, OCH_KL_OP_SHL}, {">>=", OCH_KL_T_ASSIGN, OCH_KL_OP_SHR},
    {"==", OCH_KL_OP_EQ, 0}, {"!=", OCH_KL_OP_NE, 0}, {"<=", OCH_KL_OP_LE, 0}, {">=", OCH_KL_OP_GE, 0},
    {"&&", OCH_KL_OP_AND, 0}, {"||", OCH_KL_OP_OR, 0}, {"<<", OCH_KL_OP_SHL, 0}, {">>", OCH_KL_OP_SHR, 0},
    {"..", OCH_KL_T_DOTS, 0}, {"->", OCH_KL_T_ARROW, 0}, {"=>", OCH_KL_T_LAMBDA, 0},
    {"+=", OCH_KL_T_ASSIGN, '+'}, {"-=", OCH_KL_T_ASSIGN, '-'}, {"*=", OCH_KL_T_ASSIGN, '*'}, {"/=", OCH_KL_T_ASSIGN, '/'},
    {"%=", OCH_KL_T_ASSIGN, '%'}, {"&=", OCH_KL_T_ASSIGN, '&'}, {"|=", OCH_KL_T_ASSIGN, '|'}, {"^=", OCH_KL_T_ASSIGN, '^'},
};

static bool token(lexer *l) {
    int c = peek(l, 0), kind;
    if (is_digit(c)) {
        uint32_t n = number(l, &kind);
        return push(l, kind, 0, n);
    }
    if (is_name(c)) {
        uint32_t n = 1;
        while (is_name(peek(l, n))) n++;
        return push(l, OCH_KL_T_NAME, 0, n);
    }
    if (c == '"') return string(l);
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        uint32_t n = (uint32_t)strlen(operators[i].text), k = 0;
        while (k < n && peek(l, k) == (unsigned char)operators[i].text[k]) k++;
        if (k == n) return push(l, operators[i].kind, operators[i].op, n);
    }
    if (c && strchr("(){}[]<>,;:.=+-*/%&|^~!?", c)) return push(l, c, 0, 1);
    uint32_t n = 1;
    if (c >= 0x80)
        while (peek(l, n) >= 0x80) n++;
    if (c >= 0x80) och_kl_report(l->diag, here(l, n), "expected ASCII outside comments and strings");
    else if (c < 0x20 || c == 0x7f) och_kl_report(l->diag, here(l, 1), "unexpected byte 0x%02x", (unsigned)c);
    else och_kl_report(l->diag, here(l, 1), "unexpected character '%c'", c);
    l->at += n;
    return true;
}

och_status och_kl_lex(const och_kl_file *file, och_kl_diag *diag, och_kl_token **out_tokens, size_t *out_n, och_err *err) {
    lexer l = {.file = file, .diag = diag, .line = 1};
    bool ok = true;
    *out_tokens = NULL, *out_n = 0;
    while (ok) {
        skip(&l);
        if (l.at >= file->n_bytes) break;
        ok = token(&l);
    }
    l.at = (uint32_t)file->n_bytes;
    if (!ok || !push(&l, OCH_KL_T_END, 0, 0)) {
        och_free(l.tokens);
        return och_err_nomem(err, 2 * l.capacity * sizeof *l.tokens, "tokens of a kernel file");
    }
    *out_tokens = l.tokens, *out_n = l.n;
    return OCH_OK;
}

och_kl_pos och_kl_token_pos(const och_kl_file *file, const och_kl_token *t) {
    return (och_kl_pos){file, t->line, t->column, t->length ? t->length : 1};
}

bool och_kl_lex_int(const char *text, uint32_t length, uint64_t *out_value) {
    uint64_t value = 0, base = 10;
    uint32_t i = 0;
    *out_value = 0;
    if (length > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'b')) base = text[1] == 'x' ? 16 : 2, i = 2;
    for (; i < length; i++) {
        char c = text[i];
        if (c == '_') continue;
        uint64_t digit = c >= '0' && c <= '9' ? (uint64_t)(c - '0') : c >= 'a' && c <= 'f' ? (uint64_t)(c - 'a' + 10)
                       : c >= 'A' && c <= 'F' ? (uint64_t)(c - 'A' + 10) : 99;
        if (digit >= base || value > (UINT64_MAX - digit) / base) return false;
        value = value * base + digit;
    }
    *out_value = value;
    return text[length - 1] != '_' && text[length - 1] != 'x';
}

bool och_kl_lex_float(const char *text, uint32_t length, double *out_value) {
    char copy[128], *end;
    const char *point = localeconv()->decimal_point;
    size_t n = 0, n_point = strlen(point);
    *out_value = 0;
    for (uint32_t i = 0; i < length; i++) {
        if (text[i] == '_') continue;
        size_t more = text[i] == '.' ? n_point : 1;
        if (n + more >= sizeof copy) return false;
        memcpy(copy + n, text[i] == '.' ? point : text + i, more);
        n += more;
    }
    copy[n] = '\0';
    *out_value = strtod(copy, &end);
    return *end == '\0' && isfinite(*out_value);
}

void och_kl_plain_point(char *text, const char *decimal_point) {
    size_t n = strlen(decimal_point);
    char *at = n && strcmp(decimal_point, ".") ? strstr(text, decimal_point) : NULL;
    if (!at) return;
    *at = '.';
    memmove(at + 1, at + n, strlen(at + n) + 1);
}

void och_kl_real_text(double v, int digits, char out[OCH_KL_REAL_BYTES]) {
    snprintf(out, OCH_KL_REAL_BYTES, "%.*g", digits, v);
    och_kl_plain_point(out, localeconv()->decimal_point);
}

void och_kl_f32_text(float v, char out[OCH_KL_REAL_BYTES]) {
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(out, OCH_KL_REAL_BYTES, "%.*g", digits, (double)v);
        if (strtof(out, NULL) == v) break;
    }
    och_kl_plain_point(out, localeconv()->decimal_point);
}
