/* The settings of launches in the environment (OCHRE_SIM_CHECK, OCHRE_SIM_COUNT), judged without a launch. */
#ifndef SIM_EXEC_SETTINGS_H
#define SIM_EXEC_SETTINGS_H

#include "base/status.h"

/* INVALID: an unknown check (the message lists the known ones), a word that is no way to count. IO: a file of counters that
 * cannot be written. */
och_status sim_settings_judge(och_err *err) OCH_WARN_UNUSED;

#endif
