/* A code object as a whole: owns the arena that all parts are copied to. */
#include "obj/priv.h"

#include "base/alloc.h"

#include <string.h>

och_status och_obj_parse(const void *bytes, size_t n_bytes, och_obj **out_obj, och_err *err) {
    *out_obj = NULL;
    obj_build *b = och_calloc(1, sizeof *b);
    if (!b) return och_err_nomem(err, sizeof *b, "a code object");
    och_arena_init(&b->arena);
    b->bytes = bytes;
    b->n_bytes = n_bytes;
    och_status st;
    OCH_TRY_GOTO(och_obj_elf_read(b, err));
    OCH_TRY_GOTO(och_obj_metadata_read(b, err));
    b->bytes = b->metadata = NULL; /* the caller's: not kept */
    *out_obj = &b->pub;
    return OCH_OK;
done:
    och_obj_destroy(&b->pub);
    return st;
}

void och_obj_destroy(och_obj *obj) {
    obj_build *b = (obj_build *)obj;
    if (!b) return;
    och_arena_deinit(&b->arena);
    och_free(b);
}
