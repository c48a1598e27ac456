#include "base/env.h"

#include "base/log.h"

#include <pthread.h>
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

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* of the list that environ is; its strings last */

static const char *value_of(const char *name) {
    pthread_rwlock_rdlock(&lock);
    const char *v = getenv(name);
    pthread_rwlock_unlock(&lock);
    return v;
}

char *const *och_env_hold(void) {
    pthread_rwlock_rdlock(&lock);
    return environ;
}
void och_env_release(void) { pthread_rwlock_unlock(&lock); }

bool och_env_set(const char *name, const char *value) {
    pthread_rwlock_wrlock(&lock);
    int failed = value ? setenv(name, value, 1) : unsetenv(name);
    pthread_rwlock_unlock(&lock);
    return !failed;
}

const char *och_env_get(och_env_id id) {
    const char *v = value_of(rows[id].name);
    return v && *v ? v : NULL;
}

int och_env_wish(och_env_id id) {
    static bool told[OCH_ENV_COUNT_];
    const char *v = och_env_get(id);
    if (!v) return -1;
    if (strcmp(v, "0") != 0 && strcmp(v, "1") != 0 && !__atomic_exchange_n(&told[id], true, __ATOMIC_RELAXED))
        och_log(OCH_LOG_WARN, "environment variable %s: expected 0 or 1, found \"%.40s\": taken as 1", rows[id].name, v);
    return strcmp(v, "0") != 0;
}

bool och_env_flag(och_env_id id) {
    const char *v = och_env_get(id);
    return v && strcmp(v, "0") != 0;
}

void och_env_warn_unknown(void) {
    for (char *const *e = och_env_hold(); e && *e; e++) {
        if (strncmp(*e, "OCHRE_", 6) != 0) continue;
        size_t n = strcspn(*e, "=");
        bool known = false;
        for (int i = 0; i < OCH_ENV_COUNT_; i++)
            if (strlen(rows[i].name) == n && !memcmp(rows[i].name, *e, n)) known = true;
        if (!known) och_log(OCH_LOG_WARN, "environment variable %.*s is not one that ochre reads", (int)n, *e);
    }
    och_env_release();
}

const char *och_env_foreign(const char *name) {
    const char *v = value_of(name);
    return v && *v ? v : NULL;
}

bool och_env_is_set(const char *name) { return value_of(name) != NULL; }
