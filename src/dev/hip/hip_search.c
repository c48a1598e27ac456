/* Where libamdhip64 may be: an override, what the user's environment names, Python packages, the distribution. */
#include "dev/hip/hip_lib.h"

#include "base/env.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

/* Newest first: a folder with several has the newest as its own. */
static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};
static const och_library_names library = {names, sizeof names / sizeof *names, "libamdhip64"};

/* Matches of a pattern; the last in order first, since that is the newest version. */
static void add_glob(och_attempts *a, const char *place, const char *pattern) {
    glob_t g;
    if (glob(pattern, GLOB_NOSORT | GLOB_ONLYDIR, NULL, &g) != 0) {
        if (!och_attempts_tried(a, pattern)) {
            och_attempt *t = och_attempt_add(a, place, pattern);
            if (t) snprintf(t->why, sizeof t->why, "no such folder");
        }
        return;
    }
    for (size_t done = 0; done < g.gl_pathc; done++) {
        size_t last = 0;
        for (size_t i = 1; i < g.gl_pathc; i++)
            if (!g.gl_pathv[last][0] || (g.gl_pathv[i][0] && strverscmp(g.gl_pathv[i], g.gl_pathv[last]) > 0)) last = i;
        och_attempts_add_folder(a, &library, place, g.gl_pathv[last]);
        g.gl_pathv[last][0] = 0; /* taken */
    }
    globfree(&g);
}

/* TheRock's packages, then what wheels of PyTorch bring along. */
static void add_python(och_attempts *a, const char *place, const char *prefix, const char *packages) {
    static const char *const wheels[] = {"_rocm_sdk_core/lib", "_rocm_sdk_libraries/lib", "torch/lib"};
    for (size_t i = 0; i < sizeof wheels / sizeof wheels[0]; i++) {
        char pattern[512];
        if (snprintf(pattern, sizeof pattern, "%s/%s/%s", prefix, packages, wheels[i]) < (int)sizeof pattern)
            add_glob(a, place, pattern);
    }
}

void och_hip_search(och_attempts *out) {
    const char *v = och_env_get(OCH_ENV_OCHRE_HIP_LIBRARY);
    char path[512];
    if (v) {
        och_attempts_add_named(out, &library, "OCHRE_HIP_LIBRARY", v);
        return;
    }
    /* the loader's own path comes before what is only a convention */
    if ((v = och_env_foreign("LD_LIBRARY_PATH"))) och_attempts_add_files(out, &library, "LD_LIBRARY_PATH", v);
    static const char *const prefixes[] = {"ROCM_PATH", "HIP_PATH"};
    for (int i = 0; i < 2; i++) {
        if (!(v = och_env_foreign(prefixes[i]))) continue;
        if (snprintf(path, sizeof path, "%s/lib", v) < (int)sizeof path) och_attempts_add_folder(out, &library, prefixes[i], path);
    }
    static const char *const environments[] = {"VIRTUAL_ENV", "CONDA_PREFIX"};
    for (int i = 0; i < 2; i++)
        if ((v = och_env_foreign(environments[i]))) add_python(out, environments[i], v, "lib/python3*/site-packages");
    if ((v = och_env_foreign("HOME"))) add_python(out, "Python packages of the user", v, ".local/lib/python3*/site-packages");
    add_python(out, "Python packages", och_system_path("/usr/local", path, sizeof path), "lib/python3*/dist-packages");
    add_python(out, "Python packages", och_system_path("/usr", path, sizeof path), "lib/python3*/site-packages");
    static const char *const folders[] = {OCH_HIP_ROCM "/lib", OCH_HIP_ROCM "-*/lib", OCH_HIP_ROCM "/core-*/lib",
                                          "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/lib"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        och_system_path(folders[i], path, sizeof path);
        if (strchr(folders[i], '*')) add_glob(out, "distribution", path);
        else och_attempts_add_folder(out, &library, "distribution", path);
    }
    if (och_env_get(OCH_ENV_OCHRE_SYSTEM_ROOT)) return; /* the loader knows of no other root */
    for (size_t i = 0; i < library.n; i++) (void)och_attempt_add(out, "the loader's search", names[i]);
}
