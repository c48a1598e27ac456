/* Diagnostics of the kernel language:
 *
 *     FILE:LINE:COL: error: TEXT
 *         let x = y + 1;
 *                 ^
 *     FILE:LINE:COL: note: TEXT
 *
 * The source line is printed with its tabs kept, the caret's line repeats them, and tildes follow the caret as far as the
 * place is long. A text is lower case, without a final period, and says what was expected and what was found. */
#ifndef OCH_KL_DIAG_H
#define OCH_KL_DIAG_H

#include "base/strbuf.h"
#include "kl/ast.h"

#include <stdbool.h>

/* Errors printed at most; what comes after is counted, and one line says so. */
#define OCH_KL_MAX_ERRORS 10

typedef struct och_kl_diag {
    och_strbuf *text; /* borrowed; NULL: nothing is printed */
    och_err *err;     /* borrowed; receives the first error's line as COMPILE. NULL is allowed */
    int n_errors;
    bool muted;       /* the last error was not printed: neither are its notes */
} och_kl_diag;

void och_kl_diag_init(och_kl_diag *d, och_strbuf *text, och_err *err);

/* Gives false, for `return och_kl_error(diag, pos, fmt, ...)`: where the compiler sees it. A place without a file prints the
 * text alone. */
#define och_kl_error(...) (och_kl_report(__VA_ARGS__), och_kl_false())
static inline bool och_kl_false(void) { return false; }
void och_kl_report(och_kl_diag *d, och_kl_pos pos, const char *fmt, ...) OCH_PRINTF(3, 4);
void och_kl_error_va(och_kl_diag *d, och_kl_pos pos, const char *fmt, va_list args);
/* What would be right, or where the other half of a conflict stands; belongs to the error before it. */
void och_kl_note(och_kl_diag *d, och_kl_pos pos, const char *fmt, ...) OCH_PRINTF(3, 4);
/* Whether as many errors as are printed have been found: a good time to stop. */
bool och_kl_diag_full(const och_kl_diag *d);

/* From the first character of `from` to the last of `to`, where both are in one line; else `from`. */
och_kl_pos och_kl_pos_span(och_kl_pos from, och_kl_pos to);

/* A search for the name that was meant: offer every candidate, then take the best, or NULL where none is near. */
typedef struct och_kl_guess {
    const char *word, *best;
    size_t distance;
} och_kl_guess;
void och_kl_guess_init(och_kl_guess *g, const char *word);
void och_kl_guess_offer(och_kl_guess *g, const char *candidate); /* borrowed until the end of the search; NULL is ignored */
const char *och_kl_guess_best(const och_kl_guess *g);

#endif
