#include "jit/places.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/strbuf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ROCM_INSTALLED "/opt" "/rocm"

static och_status add(och_places *p, const char *path, const char *why, och_err *err) {
    struct stat sb;
    if (stat(path, &sb) != 0 || !S_ISDIR(sb.st_mode)) return OCH_OK;
    char **paths = och_realloc_array(p->paths, p->n + 1, sizeof *paths);
    if (!paths) return och_err_nomem(err, (p->n + 1) * sizeof *paths, "a list of folders");
    p->paths = paths;
    const char **reasons = och_realloc_array(p->why, p->n + 1, sizeof *reasons);
    if (!reasons) return och_err_nomem(err, (p->n + 1) * sizeof *reasons, "a list of folders");
    p->why = reasons;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    if (!(paths[p->n] = och_strndup(path, n))) return och_err_nomem(err, n, "a path");
    reasons[p->n++] = why;
    return OCH_OK;
}

static int newer(const void *a, const void *b) { return strverscmp(*(char *const *)b, *(char *const *)a); }

bool och_places_glob(const char *pattern, int flags, glob_t *g) {
    memset(g, 0, sizeof *g);
    if (glob(pattern, flags | GLOB_NOSORT, NULL, g) != 0) return false;
    qsort(g->gl_pathv, g->gl_pathc, sizeof *g->gl_pathv, newer);
    return true;
}

static och_status add_matches(och_places *p, const char *pattern, const char *why, och_err *err) {
    glob_t g;
    och_status st = OCH_OK;
    if (och_places_glob(pattern, GLOB_ONLYDIR, &g))
        for (size_t i = 0; i < g.gl_pathc && st == OCH_OK; i++) st = add(p, g.gl_pathv[i], why, err);
    globfree(&g);
    return st;
}

static och_status add_python(och_places *p, och_env_id id, const char *below, och_err *err) {
    static const char *const packages[] = {"_rocm_sdk_devel", "_rocm_sdk_core"};
    const char *root = och_env_get(id);
    och_status st = OCH_OK;
    for (int i = 0; root && i < 2 && st == OCH_OK; i++) {
        och_strbuf pattern = {0};
        och_strbuf_printf(&pattern, "%s%s/lib/python3*/site-packages/%s", root, below, packages[i]);
        st = och_strbuf_status(&pattern, err);
        if (st == OCH_OK) st = add_matches(p, och_strbuf_str(&pattern), och_env_name(id), err);
        och_strbuf_deinit(&pattern);
    }
    return st;
}

och_status och_places_rocm(och_places *p, och_err *err) {
    memset(p, 0, sizeof *p);
    const char *given = och_env_get(OCH_ENV_ROCM_PATH);
    och_status st = given ? add(p, given, "ROCM_PATH", err) : OCH_OK;
    if (st == OCH_OK) st = add_python(p, OCH_ENV_VIRTUAL_ENV, "", err);
    if (st == OCH_OK) st = add_python(p, OCH_ENV_CONDA_PREFIX, "", err);
    if (st == OCH_OK) st = add_python(p, OCH_ENV_HOME, "/.local", err);
    if (st == OCH_OK) st = add(p, ROCM_INSTALLED, "installed", err);
    if (st == OCH_OK) st = add_matches(p, ROCM_INSTALLED "-*", "installed", err);
    if (st != OCH_OK) och_places_deinit(p);
    return st;
}

void och_places_deinit(och_places *p) {
    for (size_t i = 0; i < p->n; i++) och_free(p->paths[i]);
    och_free(p->paths);
    och_free(p->why);
    memset(p, 0, sizeof *p);
}
