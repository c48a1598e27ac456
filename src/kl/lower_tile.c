/* Tiles: what tile.h does, called from statements. */
#include "kl/spec.h"
#include "kl/tile.h"

bool och_kl_var_tile(och_kl_spec *s, const och_kl_stmt *x) { return och_kl_error(s->diag, x->pos, "tiles are not lowered yet"); }
bool och_kl_tile_method(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *tile, const char *name, och_kl_val *out) {
    (void)tile, (void)name, (void)out;
    return och_kl_error(s->diag, e->pos, "tiles are not lowered yet");
}
bool och_kl_rowvec_index(och_kl_spec *s, const och_kl_expr *e, const och_kl_val *v, och_kl_val *out) {
    (void)v, (void)out;
    return och_kl_error(s->diag, e->pos, "tiles are not lowered yet");
}
