/* A folder that a group of tests writes to: make_dir and remove_dir are the group's setup and teardown. */
#ifndef OCH_TEST_TEMP_DIR_H
#define OCH_TEST_TEMP_DIR_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64];

/* Lasts until the next call. */
static inline const char *in_dir(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static inline int make_dir(void **state) {
    (void)state;
    strcpy(dir, "/tmp/ochre-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

/* With the files and empty folders in it. */
static inline int remove_dir(void **state) {
    (void)state;
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.' && unlink(in_dir(e->d_name)) != 0) rmdir(in_dir(e->d_name));
    closedir(d);
    return rmdir(dir);
}

#endif
