/* A bundle of any content: it opens or it says why not; entries are in it or in what it held compressed. */
#include "base/alloc.h"
#include "obj/obj.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok) {
    if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0; /* would mean: as long as its headers say */
    och_obj_bundle b;
    och_err e = {0};
    int64_t live = och_alloc_live();
    och_status st = och_obj_bundle_open(data, size, &b, &e);
    check(st == e.status && (st == OCH_OK || (e.message[0] && !b.entries && !b.owned)));
    volatile uint8_t ends = 0; /* both ends of an entry can be read */
    for (size_t i = 0; i < b.n_entries; i++) {
        const och_obj_entry *t = &b.entries[i];
        check(memchr(t->triple, 0, sizeof t->triple) && memchr(t->target, 0, sizeof t->target));
        check(strlen(t->target) <= strlen(t->triple) && (t->bytes || !t->n_bytes));
        if (t->n_bytes) ends = t->bytes[0], ends = t->bytes[t->n_bytes - 1];
    }
    och_obj_bundle_close(&b);
    (void)ends;
    check(och_alloc_live() == live);
    return 0;
}
