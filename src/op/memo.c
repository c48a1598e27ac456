#include "op/memo.h"

#include <stddef.h>
#include <string.h>

static _Thread_local och_op_memo *used;

och_op_memo *och_op_memo_use(och_op_memo *m) {
    och_op_memo *before = used;
    used = m;
    return before;
}

och_op_memo *och_op_memo_used(void) { return used; }

bool och_op_memo_make_key(och_op_memo_key *k, const char *name, const char *pattern, va_list args) {
    k->name = name;
    k->pattern = pattern;
    k->n_args = 0;
    for (const char *p = strchr(pattern, '%'); p; p = strchr(p + 2, '%')) {
        if (k->n_args == OCH_OP_MEMO_ARGS) return false;
        union och_op_memo_arg *a = &k->args[k->n_args++];
        memset(a, 0, sizeof *a);
        if (p[1] == 'd') {
            a->number = va_arg(args, int);
        } else if (p[1] == 's') {
            const char *text = va_arg(args, const char *);
            size_t n = text ? strnlen(text, sizeof a->text) : sizeof a->text;
            if (n == sizeof a->text) return false;
            memcpy(a->text, text, n);
        } else {
            return false;
        }
    }
    return true;
}

static bool same(const och_op_memo_key *a, const och_op_memo_key *b) {
    return a->name == b->name && a->pattern == b->pattern && a->n_args == b->n_args &&
           !memcmp(a->args, b->args, (size_t)a->n_args * sizeof a->args[0]);
}

const void *och_op_memo_find(const och_op_memo *m, const och_op_memo_key *key) {
    for (int i = 0; i < OCH_OP_MEMO_SLOTS && m->slots[i].value; i++)
        if (same(&m->slots[i].key, key)) return m->slots[i].value;
    return NULL;
}

void och_op_memo_put(och_op_memo *m, const och_op_memo_key *key, const void *value) {
    unsigned i = m->next++ % OCH_OP_MEMO_SLOTS;
    m->slots[i].key = *key;
    m->slots[i].value = value;
}
