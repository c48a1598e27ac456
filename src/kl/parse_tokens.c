/* What the parser's functions share: names, the current token, errors and the way out of them. */
#include "kl/parse_priv.h"

#include <stdio.h>
#include <string.h>

void *och_kl_new(och_kl_parser *p, size_t size_bytes) {
    void *node = och_arena_alloc(p->arena, 1, size_bytes);
    if (!node) p->nomem = p->panic = true;
    return node;
}

och_kl_interned *och_kl_interned_of(och_kl_parser *p, const char *text, size_t n_bytes) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n_bytes; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
    och_kl_interned **bucket = &p->names[(h ^ h >> 16) % OCH_KL_BUCKETS];
    for (och_kl_interned *i = *bucket; i; i = i->next)
        if (strlen(i->name) == n_bytes && !memcmp(i->name, text, n_bytes)) return i;
    och_kl_interned *i = och_kl_new(p, sizeof *i);
    if (!i) return NULL;
    i->name = och_arena_strndup(p->arena, text, n_bytes);
    if (!i->name) {
        p->nomem = p->panic = true;
        return NULL;
    }
    i->next = *bucket, *bucket = i;
    return i;
}

const char *och_kl_intern(och_kl_parser *p, const char *text, size_t n_bytes) {
    och_kl_interned *i = och_kl_interned_of(p, text, n_bytes);
    return i ? i->name : NULL;
}

och_kl_pos och_kl_here(const och_kl_parser *p) {
    return och_kl_token_pos(p->file, p->t);
}

bool och_kl_word(const och_kl_parser *p, const och_kl_token *t, const char *word) {
    return t->kind == OCH_KL_T_NAME && strlen(word) == t->length && !memcmp(p->file->text + t->at, word, t->length);
}

/* Words that begin a statement, then the rest. Words of declarations (param, format, unit, step, ...) are names elsewhere. */
static const char *const reserved[] = {"let",   "var",      "lds",    "if",       "while",  "for",   "static",
                                       "break", "continue", "return", "pipeline", "else",   "true",  "false",
                                       "in",    "out",      "inout",  "fn",       "kernel", "const", NULL};
#define N_STATEMENT_WORDS 11

/* t is a word that is no name. */
static bool is_reserved(const och_kl_parser *p, const och_kl_token *t) {
    for (int i = 0; reserved[i]; i++)
        if (och_kl_word(p, t, reserved[i])) return true;
    return false;
}

bool och_kl_at(const och_kl_parser *p, int kind) {
    return !p->panic && p->t->kind == kind;
}

bool och_kl_at_word(const och_kl_parser *p, const char *word) {
    return !p->panic && och_kl_word(p, p->t, word);
}

bool och_kl_accept(och_kl_parser *p, int kind) {
    if (!och_kl_at(p, kind)) return false;
    if (kind != OCH_KL_T_END) p->t++;
    return true;
}

bool och_kl_accept_word(och_kl_parser *p, const char *word) {
    if (!och_kl_at_word(p, word)) return false;
    p->t++;
    return true;
}

void och_kl_fail(och_kl_parser *p, och_kl_pos pos, const char *fmt, ...) {
    va_list args;
    if (p->panic) return;
    p->panic = true;
    va_start(args, fmt);
    och_kl_error_va(p->diag, pos, fmt, args);
    va_end(args);
}

void och_kl_expected(och_kl_parser *p, const char *fmt, ...) {
    char what[160], found[64];
    va_list args;
    if (p->panic) return;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    int n = p->t->length < 40 ? (int)p->t->length : 40;
    if (p->t->kind == OCH_KL_T_END) snprintf(found, sizeof found, "the end of the file");
    else
        snprintf(found, sizeof found, "'%.*s'%s", n, p->file->text + p->t->at,
                 is_reserved(p, p->t) ? ", a reserved word" : "");
    och_kl_fail(p, och_kl_here(p), "expected %s, found %s", what, found);
}

static const char *kind_text(int kind, char one[4]) {
    switch (kind) {
    case OCH_KL_T_DOTS: return "'..'";
    case OCH_KL_T_ARROW: return "'->'";
    case OCH_KL_T_LAMBDA: return "'=>'";
    case OCH_KL_T_INT: return "a whole number";
    }
    snprintf(one, 4, "'%c'", kind);
    return one;
}

bool och_kl_expect(och_kl_parser *p, int kind, const char *after) {
    char one[4];
    if (och_kl_accept(p, kind)) return true;
    och_kl_expected(p, "%s%s%s", kind_text(kind, one), *after ? " " : "", after);
    return false;
}

bool och_kl_expect_word(och_kl_parser *p, const char *word, const char *after) {
    if (och_kl_accept_word(p, word)) return true;
    och_kl_expected(p, "'%s'%s%s", word, *after ? " " : "", after);
    return false;
}

const char *och_kl_expect_name(och_kl_parser *p, const char *what, och_kl_pos *out_pos) {
    *out_pos = och_kl_here(p);
    if (!och_kl_at(p, OCH_KL_T_NAME) || is_reserved(p, p->t)) {
        och_kl_expected(p, "%s", what);
        return NULL;
    }
    const och_kl_token *t = p->t++;
    return och_kl_intern(p, p->file->text + t->at, t->length);
}

const char *och_kl_expect_string(och_kl_parser *p, const char *what, och_kl_pos *out_pos) {
    *out_pos = och_kl_here(p);
    if (!och_kl_at(p, OCH_KL_T_STRING)) {
        och_kl_expected(p, "%s", what);
        return NULL;
    }
    const och_kl_token *t = p->t++;
    /* One that has no end in its line was reported by the lexer. */
    uint32_t n = t->length - 1;
    if (n && p->file->text[t->at + n] == '"') n--;
    return och_kl_intern(p, p->file->text + t->at + 1, n);
}

/* A missing ';' is reported where it is missing, and does no harm where the next token stands in another line. */
bool och_kl_expect_end(och_kl_parser *p, const char *what) {
    if (p->panic) return false;
    if (och_kl_accept(p, ';')) return true;
    const och_kl_token *before = p->t > p->tokens ? p->t - 1 : p->t;
    bool next_line = before->line != p->t->line;
    if (!next_line) {
        och_kl_expected(p, "';' after %s", what);
        return false;
    }
    och_kl_pos pos = och_kl_token_pos(p->file, before);
    pos.column += pos.length, pos.length = 1;
    och_kl_fail(p, pos, "expected ';' after %s", what);
    p->panic = p->nomem;
    return !p->nomem;
}

bool och_kl_enter(och_kl_parser *p) {
    if (p->panic) return false;
    if (p->depth >= OCH_KL_MAX_HEIGHT) {
        och_kl_fail(p, och_kl_here(p), "this is nested too deeply: at most %d levels", OCH_KL_MAX_HEIGHT);
        return false;
    }
    p->depth++;
    return true;
}

void och_kl_leave(och_kl_parser *p) {
    p->depth--;
}

static bool begins_statement(const och_kl_parser *p) {
    for (int i = 0; i < N_STATEMENT_WORDS; i++)
        if (och_kl_word(p, p->t, reserved[i])) return true;
    return false;
}

static bool begins_declaration(const och_kl_parser *p) {
    return och_kl_word(p, p->t, "kernel") || och_kl_word(p, p->t, "fn") || och_kl_word(p, p->t, "const");
}

void och_kl_recover(och_kl_parser *p, const och_kl_token *begin, bool in_body) {
    uint32_t open = 0;
    p->panic = p->nomem;
    if (p->nomem) return;
    /* The token that was not expected goes on with nothing, unless it begins a line. */
    for (bool first = p->t == begin || p->t->line == p->t[-1].line;; first = false) {
        int kind = p->t->kind;
        if (kind == OCH_KL_T_END) return;
        if (!first && begins_declaration(p) && (p->t->column == 1 || !open)) return;
        if (!open && !first && in_body && begins_statement(p)) return;
        if (kind == '}') {
            if (!open) {
                if (in_body) return;
                p->t++; /* a declaration's end */
                return;
            }
            open--;
            if (!open && !in_body) {
                p->t++;
                return;
            }
        } else if (kind == '{') open++;
        else if (kind == ';' && !open) {
            p->t++;
            return;
        }
        p->t++;
    }
}
