/* Where libamdhip64 may be: an override, what the user's environment names, Python packages, the distribution. */
#include "dev/hip/hip_lib.h"

#include "base/alloc.h"
#include "base/env.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Newest first: a folder with several has the newest as its own. */
static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};
enum { N_NAMES = sizeof names / sizeof names[0] };

hip_attempt *och_hip_attempt_add(hip_attempts *a, const char *place, const char *path) {
    if (a->n == a->capacity) {
        size_t more = a->capacity ? a->capacity * 2 : 16;
        hip_attempt *at = och_realloc_array(a->at, more, sizeof *at);
        if (!at) {
            a->failed = true;
            return NULL;
        }
        a->at = at;
        a->capacity = more;
    }
    hip_attempt *t = &a->at[a->n++];
    memset(t, 0, sizeof *t);
    t->place = place;
    snprintf(t->path, sizeof t->path, "%s", path);
    return t;
}

const char *och_hip_system_path(const char *at, char *out, size_t n_bytes) {
    const char *root = och_env_get(OCH_ENV_OCHRE_SYSTEM_ROOT);
    size_t n = root ? strlen(root) : 0;
    while (n && root[n - 1] == '/') n--;
    snprintf(out, n_bytes, "%.*s%s", (int)n, root ? root : "", at);
    return out;
}

static bool tried(const hip_attempts *a, const char *path) {
    for (size_t i = 0; i < a->n; i++)
        if (!strcmp(a->at[i].path, path)) return true;
    return false;
}

/* The files of one folder, or the folder itself as one that has none. */
static void add_folder(hip_attempts *a, const char *place, const char *folder) {
    char path[512];
    struct stat sb;
    bool any = false;
    for (int i = 0; i < N_NAMES; i++) {
        if (snprintf(path, sizeof path, "%s/%s", folder, names[i]) >= (int)sizeof path) return;
        if (stat(path, &sb) != 0) continue;
        any = true;
        if (!tried(a, path)) och_hip_attempt_add(a, place, path);
    }
    if (!any && !tried(a, folder)) {
        hip_attempt *t = och_hip_attempt_add(a, place, folder);
        if (t) snprintf(t->why, sizeof t->why, "%s", stat(folder, &sb) ? "no such folder" : "no libamdhip64 in it");
    }
}

/* Matches of a pattern; the last in order first, since that is the newest version. */
static void add_glob(hip_attempts *a, const char *place, const char *pattern) {
    glob_t g;
    if (glob(pattern, GLOB_NOSORT | GLOB_ONLYDIR, NULL, &g) != 0) {
        if (!tried(a, pattern)) {
            hip_attempt *t = och_hip_attempt_add(a, place, pattern);
            if (t) snprintf(t->why, sizeof t->why, "no such folder");
        }
        return;
    }
    for (size_t done = 0; done < g.gl_pathc; done++) {
        size_t last = 0;
        for (size_t i = 1; i < g.gl_pathc; i++)
            if (!g.gl_pathv[last][0] || (g.gl_pathv[i][0] && strverscmp(g.gl_pathv[i], g.gl_pathv[last]) > 0)) last = i;
        add_folder(a, place, g.gl_pathv[last]);
        g.gl_pathv[last][0] = 0; /* taken */
    }
    globfree(&g);
}

/* The folders of a list separated by colons. */
static void add_list(hip_attempts *a, const char *place, const char *list) {
    for (const char *s = list; *s;) {
        size_t n = strcspn(s, ":");
        char folder[512];
        if (n && n < sizeof folder) {
            snprintf(folder, sizeof folder, "%.*s", (int)n, s);
            add_folder(a, place, folder);
        }
        s += n + (s[n] == ':');
    }
}

/* TheRock's packages, then what wheels of PyTorch bring along. */
static void add_python(hip_attempts *a, const char *place, const char *prefix, const char *packages) {
    static const char *const wheels[] = {"_rocm_sdk_core/lib", "_rocm_sdk_libraries/lib", "torch/lib"};
    for (size_t i = 0; i < sizeof wheels / sizeof wheels[0]; i++) {
        char pattern[512];
        if (snprintf(pattern, sizeof pattern, "%s/%s/%s", prefix, packages, wheels[i]) < (int)sizeof pattern)
            add_glob(a, place, pattern);
    }
}

void och_hip_search(hip_attempts *out) {
    const char *v = och_env_get(OCH_ENV_OCHRE_HIP_LIBRARY);
    char path[512];
    struct stat sb;
    if (v) {
        if (stat(v, &sb) == 0 && S_ISDIR(sb.st_mode)) add_folder(out, "OCHRE_HIP_LIBRARY", v);
        else {
            hip_attempt *t = och_hip_attempt_add(out, "OCHRE_HIP_LIBRARY", v);
            if (t && stat(v, &sb) != 0) snprintf(t->why, sizeof t->why, "no such file");
        }
        return;
    }
    /* the loader's own path comes before what is only a convention */
    if ((v = och_env_foreign("LD_LIBRARY_PATH"))) {
        hip_attempts found = {0};
        add_list(&found, "LD_LIBRARY_PATH", v);
        for (size_t i = 0; i < found.n; i++) /* its folders are for many things: only files are worth telling */
            if (!found.at[i].why[0]) och_hip_attempt_add(out, "LD_LIBRARY_PATH", found.at[i].path);
        och_free(found.at);
    }
    static const char *const prefixes[] = {"ROCM_PATH", "HIP_PATH"};
    for (int i = 0; i < 2; i++) {
        if (!(v = och_env_foreign(prefixes[i]))) continue;
        if (snprintf(path, sizeof path, "%s/lib", v) < (int)sizeof path) add_folder(out, prefixes[i], path);
    }
    static const char *const environments[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    for (int i = 0; i < 2; i++)
        if ((v = och_env_foreign(environments[i]))) add_python(out, environments[i], v, "lib/python3*/site-packages");
    if ((v = och_env_foreign("HOME"))) add_python(out, "Python packages of the user", v, ".local/lib/python3*/site-packages");
    add_python(out, "Python packages", och_hip_system_path("/usr/local", path, sizeof path), "lib/python3*/dist-packages");
    add_python(out, "Python packages", och_hip_system_path("/usr", path, sizeof path), "lib/python3*/site-packages");
    static const char *const folders[] = {OCH_HIP_ROCM "/lib", OCH_HIP_ROCM "-*/lib", OCH_HIP_ROCM "/core-*/lib",
                                          "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/lib"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        och_hip_system_path(folders[i], path, sizeof path);
        if (strchr(folders[i], '*')) add_glob(out, "distribution", path);
        else add_folder(out, "distribution", path);
    }
    if (och_env_get(OCH_ENV_OCHRE_SYSTEM_ROOT)) return; /* the loader knows of no other root */
    for (int i = 0; i < N_NAMES; i++) och_hip_attempt_add(out, "the loader's search", names[i]);
}
