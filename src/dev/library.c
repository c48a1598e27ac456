#include "dev/library.h"

#include "base/alloc.h"
#include "base/env.h"

#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

och_attempt *och_attempt_add(och_attempts *a, const char *place, const char *path) {
    if (a->n == a->capacity) {
        size_t more = a->capacity ? a->capacity * 2 : 16;
        och_attempt *at = och_realloc_array(a->at, more, sizeof *at);
        if (!at) {
            a->failed = true;
            return NULL;
        }
        a->at = at;
        a->capacity = more;
    }
    och_attempt *t = &a->at[a->n++];
    memset(t, 0, sizeof *t);
    t->place = place;
    snprintf(t->path, sizeof t->path, "%s", path);
    return t;
}

bool och_attempts_tried(const och_attempts *a, const char *path) {
    for (size_t i = 0; i < a->n; i++)
        if (!strcmp(a->at[i].path, path)) return true;
    return false;
}

static bool add_files(och_attempts *a, const och_library_names *names, const char *place, const char *folder) {
    char path[512];
    struct stat sb;
    bool any = false;
    for (size_t i = 0; i < names->n; i++) {
        if (snprintf(path, sizeof path, "%s/%s", folder, names->names[i]) >= (int)sizeof path) break;
        if (stat(path, &sb) != 0) continue;
        any = true;
        if (!och_attempts_tried(a, path)) och_attempt_add(a, place, path);
    }
    return any;
}

void och_attempts_add_folder(och_attempts *a, const och_library_names *names, const char *place, const char *folder) {
    struct stat sb;
    if (add_files(a, names, place, folder) || och_attempts_tried(a, folder)) return;
    och_attempt *t = och_attempt_add(a, place, folder);
    if (t && stat(folder, &sb)) snprintf(t->why, sizeof t->why, "no such folder");
    else if (t) snprintf(t->why, sizeof t->why, "no %s in it", names->what);
}

void och_attempts_add_files(och_attempts *a, const och_library_names *names, const char *place, const char *list) {
    for (const char *s = list; *s;) {
        size_t n = strcspn(s, ":");
        char folder[512];
        if (n && n < sizeof folder) {
            snprintf(folder, sizeof folder, "%.*s", (int)n, s);
            (void)add_files(a, names, place, folder);
        }
        s += n + (s[n] == ':');
    }
}

void och_attempts_add_named(och_attempts *a, const och_library_names *names, const char *place, const char *path) {
    struct stat sb;
    bool there = stat(path, &sb) == 0;
    if (there && S_ISDIR(sb.st_mode)) {
        och_attempts_add_folder(a, names, place, path);
        return;
    }
    och_attempt *t = och_attempt_add(a, place, path);
    if (t && !there) snprintf(t->why, sizeof t->why, "no such file");
}

const char *och_system_path(const char *at, char *out, size_t n_bytes) {
    const char *root = och_env_get(OCH_ENV_OCHRE_SYSTEM_ROOT);
    size_t n = root ? strlen(root) : 0;
    while (n && root[n - 1] == '/') n--;
    snprintf(out, n_bytes, "%.*s%s", (int)n, root ? root : "", at);
    return out;
}

bool och_node_usable(const char *path) { return faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) == 0; }

void och_node_explain(const char *path, och_strbuf *out) {
    struct stat sb;
    char group[64] = "?";
    if (stat(path, &sb) == 0) {
        const struct group *g = getgrgid(sb.st_gid);
        if (g) snprintf(group, sizeof group, "%s", g->gr_name);
        else snprintf(group, sizeof group, "%u", (unsigned)sb.st_gid);
    } else sb.st_mode = 0;
    och_strbuf_printf(
        out,
        "%s may not be read and written by this user (mode %03o, group %s): add the user to that group (sudo "
        "usermod -aG %s $USER) and log in again",
        path, (unsigned)(sb.st_mode & 0777), group, group);
}

bool och_pci_same(const char *a, const char *b) {
    unsigned x[4] = {0}, y[4] = {0};
    int n = 0;
    if ((sscanf(a, "%x:%x:%x.%x%n", &x[0], &x[1], &x[2], &x[3], &n) != 4 || a[n]) &&
        (x[0] = 0, sscanf(a, "%x:%x.%x%n", &x[1], &x[2], &x[3], &n) != 3 || a[n]))
        return false;
    return sscanf(b, "%x:%x:%x.%x", &y[0], &y[1], &y[2], &y[3]) == 4 && !memcmp(x, y, sizeof x);
}
