#include "base/env.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *doc;
} rows[] = {
#define OCH_ENV(name, doc) {#name, doc},
#include "base/env.def"
#undef OCH_ENV
};

extern char **environ;

const char *och_env_name(och_env_id id) { return rows[id].name; }
const char *och_env_doc(och_env_id id) { return rows[id].doc; }

const char *och_env_get(och_env_id id) {
    const char *v = getenv(rows[id].name);
    return v && *v ? v : NULL;
}

bool och_env_flag(och_env_id id) {
    const char *v = och_env_get(id);
    return v && strcmp(v, "0") != 0;
}

void och_env_warn_unknown(void) {
    for (char **e = environ; e && *e; e++) {
        if (strncmp(*e, "OCHRE_", 6) != 0) continue;
        size_t n = strcspn(*e, "=");
        bool known = false;
        for (int i = 0; i < OCH_ENV_COUNT_; i++)
            if (strlen(rows[i].name) == n && !memcmp(rows[i].name, *e, n)) known = true;
        if (!known) och_log(OCH_LOG_WARN, "environment variable %.*s is not one that ochre reads", (int)n, *e);
    }
}

const char *och_env_foreign(const char *name) {
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

bool och_env_is_set(const char *name) { return getenv(name) != NULL; }
