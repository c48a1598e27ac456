/* Between the files of the parser. */
#ifndef OCH_KL_PARSE_PRIV_H
#define OCH_KL_PARSE_PRIV_H

#include "base/arena.h"
#include "kl/ast.h"
#include "kl/diag.h"
#include "kl/lex.h"

typedef struct och_kl_interned {
    const char *name;
    const och_kl_decl *decl; /* the unit's declaration of this name, once it is there */
    struct och_kl_interned *next;
} och_kl_interned;

#define OCH_KL_BUCKETS 4096 /* a power of two */

/* Once an error is reported `panic` stands until a place is reached where parsing may go on; while it does, nothing is
 * consumed and nothing more is reported. Functions return NULL then, and also when memory is refused (`nomem`). */
typedef struct och_kl_parser {
    och_arena *arena;
    och_kl_diag *diag;
    const och_kl_file *file;
    const och_kl_token *tokens, *t; /* t: the current one */
    bool panic, nomem;
    uint32_t depth; /* of the recursion */
    och_kl_interned *names[OCH_KL_BUCKETS];
} och_kl_parser;

/* parse_tokens.c */
void *och_kl_new(och_kl_parser *p, size_t size_bytes); /* zeroed */
const char *och_kl_intern(och_kl_parser *p, const char *text, size_t n_bytes);
och_kl_interned *och_kl_interned_of(och_kl_parser *p, const char *text, size_t n_bytes);
och_kl_pos och_kl_here(const och_kl_parser *p);
bool och_kl_word(const och_kl_parser *p, const och_kl_token *t, const char *word); /* t is this name */
/* All of these are false, and consume nothing, while in panic. */
bool och_kl_at(const och_kl_parser *p, int kind);
bool och_kl_at_word(const och_kl_parser *p, const char *word);
bool och_kl_accept(och_kl_parser *p, int kind);
bool och_kl_accept_word(och_kl_parser *p, const char *word);
bool och_kl_expect(och_kl_parser *p, int kind, const char *after); /* after: "after the condition"; "" for none */
bool och_kl_expect_word(och_kl_parser *p, const char *word, const char *after);
const char *och_kl_expect_name(och_kl_parser *p, const char *what, och_kl_pos *out_pos); /* what: "a variable's name" */
const char *och_kl_expect_string(och_kl_parser *p, const char *what, och_kl_pos *out_pos);
bool och_kl_expect_end(och_kl_parser *p, const char *what); /* the ';' after a statement */
/* "expected WHAT, found ...": at the current token. */
void och_kl_expected(och_kl_parser *p, const char *fmt, ...) OCH_PRINTF(2, 3);
void och_kl_fail(och_kl_parser *p, och_kl_pos pos, const char *fmt, ...) OCH_PRINTF(3, 4);
/* Counts a level of recursion; false, with an error, where there are too many. Each enter that gave true has its leave. */
bool och_kl_enter(och_kl_parser *p);
void och_kl_leave(och_kl_parser *p);
/* Leaves a panic: skips to behind the next ';', to a '}' that closes what is open here, or to the begin of a statement or
 * declaration. Goes on by one token at least, if none was read since `begin`. */
void och_kl_recover(och_kl_parser *p, const och_kl_token *begin, bool in_body);

/* Arguments, parameters, planes, functions of a format: no list is longer. */
#define OCH_KL_MAX_LIST 64

/* parse_expr.c */
och_kl_expr *och_kl_parse_expr(och_kl_parser *p);
och_kl_expr *och_kl_parse_postfix(och_kl_parser *p); /* no operator outside brackets */
och_kl_type_ast *och_kl_parse_type(och_kl_parser *p);

/* parse_stmt.c */
bool och_kl_parse_body(och_kl_parser *p, och_kl_stmt **out_body, const char *after); /* { ... }; true where it was all right */

/* parse_decl.c: declarations of the parser's file, appended to *tail; names of the files that it uses to *uses. */
typedef struct och_kl_use {
    const char *name;
    och_kl_pos pos;
    const och_kl_file *by;
    struct och_kl_use *next;
} och_kl_use;
void och_kl_parse_decls(och_kl_parser *p, och_kl_decl ***tail, och_kl_use ***uses_tail);

#endif
