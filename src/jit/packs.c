/* Where packs are looked for. */
#include "jit/pack.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static och_status add_file(och_packs *all, const char *path, och_err *err) {
    for (size_t i = 0; i < all->n; i++)
        if (!strcmp(och_pack_path(all->items[i]), path)) return OCH_OK;
    och_pack *pack;
    och_err why = {0};
    och_status st = och_pack_open(path, &pack, &why);
    if (st == OCH_NOMEM) return och_err_set(err, st, "%s", why.message);
    if (st != OCH_OK) {
        och_log(OCH_LOG_WARN, "a pack of kernels is left out: %s", why.message);
        return OCH_OK;
    }
    och_pack **items = och_realloc_array(all->items, all->n + 1, sizeof *items);
    if (!items) {
        och_pack_close(pack);
        return och_err_nomem(err, (all->n + 1) * sizeof *items, "the list of packs");
    }
    all->items = items;
    items[all->n++] = pack;
    return OCH_OK;
}

static och_status add_folder(och_packs *all, const char *path, och_err *err) {
    och_strbuf pattern = {0};
    och_strbuf_printf(&pattern, "%s/*%s", path, OCH_PACK_SUFFIX);
    och_status st = och_strbuf_status(&pattern, err);
    glob_t g = {0};
    if (st == OCH_OK && glob(pattern.data, 0, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc && st == OCH_OK; i++) st = add_file(all, g.gl_pathv[i], err);
    globfree(&g);
    och_strbuf_deinit(&pattern);
    return st;
}

static och_status add(och_packs *all, const char *path, och_err *err) {
    struct stat sb;
    return stat(path, &sb) == 0 && S_ISDIR(sb.st_mode) ? add_folder(all, path, err) : add_file(all, path, err);
}

/* The folder of the program, or of the library that this is in. */
static bool own_folder(bool of_program, char *out, size_t size) {
    ssize_t n = -1;
    if (of_program) {
        n = readlink("/proc/self/exe", out, size - 1);
    } else {
        Dl_info info;
        static const char here;
        char full[4096];
        if (dladdr(&here, &info) && info.dli_fname && realpath(info.dli_fname, full) && strlen(full) < size) {
            n = (ssize_t)strlen(full);
            memcpy(out, full, (size_t)n);
        }
    }
    if (n <= 0) return false;
    out[n] = 0;
    char *slash = strrchr(out, '/');
    if (!slash) return false;
    *slash = 0;
    return true;
}

och_status och_packs_open(const char *const *given, size_t n_given, bool only_given, och_packs *all, och_err *err) {
    memset(all, 0, sizeof *all);
    och_status st = OCH_OK;
    for (size_t i = 0; i < n_given && st == OCH_OK; i++) st = add(all, given[i], err);
    const char *list = only_given ? NULL : och_env_get(OCH_ENV_OCHRE_PACK);
    for (const char *at = list; at && *at && st == OCH_OK;) {
        size_t n = strcspn(at, ":");
        char *path = och_strndup(at, n);
        if (!path) st = och_err_nomem(err, n, "a path");
        else if (n) st = add(all, path, err);
        och_free(path);
        at += n + (at[n] == ':');
    }
    for (int i = 0; i < 2 && !only_given && st == OCH_OK; i++) {
        char folder[4096 + 32];
        if (!own_folder(i == 0, folder, 4096)) continue;
        st = add_folder(all, folder, err);
        strcat(folder, "/../share/ochre/packs");
        if (st == OCH_OK) st = add_folder(all, folder, err);
    }
    if (st != OCH_OK) och_packs_close(all);
    return st;
}

void och_packs_close(och_packs *all) {
    for (size_t i = 0; i < all->n; i++) och_pack_close(all->items[i]);
    och_free(all->items);
    memset(all, 0, sizeof *all);
}
