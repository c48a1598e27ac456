/* Syntax trees as text: what it prints parses to the same tree. For tests, and for messages that quote what was written. */
#ifndef OCH_KL_UNIT_PRINT_H
#define OCH_KL_UNIT_PRINT_H

#include "base/strbuf.h"
#include "kl/ast.h"

/* The declarations of the unit's first file. Names of files that it uses are not part of a tree. */
void och_kl_print_unit(const och_kl_unit *u, och_strbuf *out);
/* In one line, but for a lambda's body; with as few parentheses as there may be. */
void och_kl_print_expr(const och_kl_expr *e, och_strbuf *out);

#endif
