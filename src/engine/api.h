/* From the public handles to what they hold, for the command line and the tests. */
#ifndef OCH_ENGINE_API_H
#define OCH_ENGINE_API_H

#include <ochre/ochre.h>

#include "engine/session.h"

och_model *och_api_model(ochre_model *model);         /* borrowed */
och_session *och_api_session(ochre_session *session); /* borrowed */
/* A public handle that owns m; on failure m is the caller's still. */
och_status och_api_wrap_model(och_model *m, ochre_model **out_model, och_err *err) OCH_WARN_UNUSED;

#endif
