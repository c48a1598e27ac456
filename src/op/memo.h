/* What the launches of a plan's record have resolved, kept with the record: from its second run on, a record that runs with the
 * same number of rows neither formats a kernel's name nor looks it up.
 *
 * Providers are asked with a call and a device; which record the call is of, the thread knows (och_op_memo_use). */
#ifndef OCH_OP_MEMO_H
#define OCH_OP_MEMO_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#define OCH_OP_MEMO_SLOTS 8
#define OCH_OP_MEMO_ARGS 8

/* A request for something by a name, a pattern of the printf kind with only %s and %d, and what goes into it. */
typedef struct och_op_memo_key {
    const char *name, *pattern; /* compared as pointers: literals */
    int n_args;
    union och_op_memo_arg {
        int64_t number;
        char text[64]; /* a longer one is for no memo: its kernel is looked up each time */
    } args[OCH_OP_MEMO_ARGS]; /* unused bytes are 0 */
} och_op_memo_key;

typedef struct och_op_memo {
    struct {
        och_op_memo_key key;
        const void *value; /* NULL: free */
    } slots[OCH_OP_MEMO_SLOTS];
    unsigned next; /* that is filled */
} och_op_memo;

/* The calling thread runs the record that m belongs to; NULL: none. The value that was there before. */
och_op_memo *och_op_memo_use(och_op_memo *m);
och_op_memo *och_op_memo_used(void);

/* False for what no memo holds: longer texts, other conversions, more of them. */
bool och_op_memo_make_key(och_op_memo_key *out_key, const char *name, const char *pattern, va_list args);
const void *och_op_memo_find(const och_op_memo *m, const och_op_memo_key *key); /* NULL: not there */
void och_op_memo_put(och_op_memo *m, const och_op_memo_key *key, const void *value);

#endif
