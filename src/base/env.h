/* Environment variables, as one table (env.def). */
#ifndef OCH_BASE_ENV_H
#define OCH_BASE_ENV_H

#include <stdbool.h>

typedef enum och_env_id {
#define OCH_ENV(name, doc) OCH_ENV_##name,
#include "base/env.def"
#undef OCH_ENV
    OCH_ENV_COUNT_
} och_env_id;

const char *och_env_name(och_env_id id);
const char *och_env_doc(och_env_id id);
/* The value, or NULL when unset or empty. Borrowed from the environment. */
const char *och_env_get(och_env_id id);
/* True for any value but unset, empty and "0". */
bool och_env_flag(och_env_id id);
/* The same as 1 or 0, of a variable that takes nothing else: a warning, once, where it has another value. Unset or empty: -1. */
int och_env_wish(och_env_id id);
/* Logs a warning for each OCHRE_* variable that no row names. */
void och_env_warn_unknown(void);
/* A variable that is not Ochre's (LD_LIBRARY_PATH, HIP_VISIBLE_DEVICES); NULL when unset or empty. */
const char *och_env_foreign(const char *name);
/* Whether it is set at all, to nothing too. */
bool och_env_is_set(const char *name);
/* Sets a variable of this process's environment; value NULL: takes it out. False: no memory, errno says. May be called while other
 * threads read variables by the functions above, which setenv may not; values read before stay valid. */
bool och_env_set(const char *name, const char *value);
/* The list environ as it is does not change between the two; no function above may be called between them. */
char *const *och_env_hold(void);
void och_env_release(void);

#endif
