/* Pipelines and copies of tiles into LDS. */
#include "kl/spec.h"

bool och_kl_stmt_pipeline(och_kl_spec *s, const och_kl_stmt *x) { return och_kl_error(s->diag, x->pos, "pipelines are not lowered yet"); }
bool och_kl_stmt_copy(och_kl_spec *s, const och_kl_stmt *x) { return och_kl_error(s->diag, x->pos, "copies are not lowered yet"); }
