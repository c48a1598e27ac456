/* Text of a .ok file to tokens. */
#ifndef OCH_KL_LEX_H
#define OCH_KL_LEX_H

#include "kl/ast.h"
#include "kl/diag.h"

/* A file longer than this is refused: positions and lengths then fit 32 bits with room to spare. */
#define OCH_KL_MAX_FILE_BYTES (1u << 20)

/* Single characters are their own kind; operators of two are OCH_KL_OP_* (ast.h). */
enum {
    OCH_KL_T_END = 512,
    OCH_KL_T_NAME,
    OCH_KL_T_INT,
    OCH_KL_T_FLOAT,
    OCH_KL_T_STRING,
    OCH_KL_T_DOTS,   /* .. */
    OCH_KL_T_ARROW,  /* -> */
    OCH_KL_T_LAMBDA, /* => */
    OCH_KL_T_ASSIGN  /* += and the like: `op` is the operator */
};

typedef struct och_kl_token {
    int kind, op;
    uint32_t at, length, line, column;
} och_kl_token;

/* The last token is T_END, at the end of the text. Bytes that begin no token are reported and left out. Release the tokens
 * with och_free. NOMEM: memory was refused. */
OCH_WARN_UNUSED och_status och_kl_lex(const och_kl_file *file, och_kl_diag *diag, och_kl_token **out_tokens, size_t *out_n,
                                      och_err *err);

och_kl_pos och_kl_token_pos(const och_kl_file *file, const och_kl_token *t);

/* The value of a T_INT; false where it does not fit. */
bool och_kl_lex_int(const char *text, uint32_t length, uint64_t *out_value);
/* The value of a T_FLOAT, whatever the locale; false where it is too large or longer than any number need be. */
bool och_kl_lex_float(const char *text, uint32_t length, double *out_value);

/* The other way: numbers as texts, whatever the locale. */
#define OCH_KL_REAL_BYTES 48
/* As %.*g writes it. */
void och_kl_real_text(double v, int digits, char out[OCH_KL_REAL_BYTES]);
/* The shortest that reads back as the same float. */
void och_kl_f32_text(float v, char out[OCH_KL_REAL_BYTES]);
/* A point in the place of a locale's, which may have several bytes. */
void och_kl_plain_point(char *text, const char *decimal_point);

#endif
