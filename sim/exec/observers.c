/* Which observers a launch gets, from the environment. */
#include "exec/observers.h"
#include "exec/settings.h"

#include "base/env.h"

#include <string.h>

static const struct {
    const char *name;
    och_status (*create)(const sim_launch *l, sim_observer **out, och_err *err);
} checks[] = {
#define SIM_CHECK(name, create) {name, create},
#include "exec/checks.def"
#undef SIM_CHECK
};

static och_status add(och_status (*create)(const sim_launch *, sim_observer **, och_err *), const sim_launch *l,
                      sim_observer **out, int *out_n, och_err *err) {
    OCH_TRY(create(l, &out[*out_n], err));
    ++*out_n;
    return OCH_OK;
}

#define N_CHECKS (sizeof checks / sizeof *checks)

static och_status wanted_checks(const char *list, bool wanted[N_CHECKS], och_err *err) {
    memset(wanted, 0, N_CHECKS * sizeof *wanted);
    if (!list || !strcmp(list, "0")) return OCH_OK;
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        bool all = n == 3 && !memcmp(p, "all", 3), known = all || n == 0;
        for (size_t i = 0; i < N_CHECKS; i++)
            if (all || (strlen(checks[i].name) == n && !memcmp(checks[i].name, p, n))) wanted[i] = known = true;
        if (!known) {
            char names[128] = "";
            for (size_t i = 0; i < N_CHECKS; i++) {
                strncat(names, checks[i].name, sizeof names - strlen(names) - 1);
                strncat(names, ", ", sizeof names - strlen(names) - 1);
            }
            return och_err_set(err, OCH_INVALID, "OCHRE_SIM_CHECK: \"%.*s\" is no check; known are %sall", (int)(n > 60 ? 60 : n), p,
                               names);
        }
        p += n + (p[n] == ',');
    }
    return OCH_OK;
}

och_status sim_settings_judge(och_err *err) {
    bool wanted[N_CHECKS];
    OCH_TRY(wanted_checks(och_env_get(OCH_ENV_OCHRE_SIM_CHECK), wanted, err));
    return sim_count_judge(och_env_get(OCH_ENV_OCHRE_SIM_COUNT), err);
}

static och_status create_all(const sim_launch *l, sim_observer **out, int *out_n, och_err *err) {
    if (och_env_flag(OCH_ENV_OCHRE_SIM_COUNT)) OCH_TRY(add(sim_count_create, l, out, out_n, err));
    bool wanted[N_CHECKS];
    OCH_TRY(wanted_checks(och_env_get(OCH_ENV_OCHRE_SIM_CHECK), wanted, err));
    for (size_t i = 0; i < N_CHECKS; i++)
        if (wanted[i]) OCH_TRY(add(checks[i].create, l, out, out_n, err));
    return OCH_OK;
}

och_status sim_observers_create(const sim_launch *l, sim_observer **out, int *out_n, och_err *err) {
    *out_n = 0;
    och_status st = create_all(l, out, out_n, err);
    if (st != OCH_OK) {
        for (int i = 0; i < *out_n; i++) out[i]->end(out[i], NULL);
        *out_n = 0;
    }
    return st;
}
