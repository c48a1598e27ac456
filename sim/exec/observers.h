/* The makers of observers. `end` is called with NULL where the launch did not begin. */
#ifndef SIM_EXEC_OBSERVERS_H
#define SIM_EXEC_OBSERVERS_H

#include "exec/observer.h"

och_status sim_count_create(const sim_launch *l, sim_observer **out, och_err *err) OCH_WARN_UNUSED;
/* Whether OCHRE_SIM_COUNT's value (NULL: none) is text, json or a file that can be written; INVALID, IO. */
och_status sim_count_judge(const char *how, och_err *err) OCH_WARN_UNUSED;
#define SIM_CHECK(name, create) och_status create(const sim_launch *l, sim_observer **out, och_err *err) OCH_WARN_UNUSED;
#include "exec/checks.def"
#undef SIM_CHECK

#endif
