/* Instances of the simulator. A library has one state and reads which boards it shows when it starts; for each set of boards
 * there is an instance of its own, a copy of the file in memory, which the loader takes for another library. */
#include "dev/hip/hip_lib.h"

#include "base/alloc.h"
#include "base/env.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_BOARDS "gfx1100"

/* Beside the file that holds this code, a program or libochre: in a build, a build's tests, an installed program's prefix,
 * and an installed library's folder. */
static const char *const places[] = {"sim", "../sim", "../lib/ochre/sim", "../" OCHRE_LIBDIR "/ochre/sim", "ochre/sim"};

och_status och_hip_sim_path(char *out_path, size_t n_bytes, och_err *err) {
    struct stat sb;
    const char *v = och_env_get(OCH_ENV_OCHRE_SIM_LIBRARY);
    if (v) {
        snprintf(out_path, n_bytes, "%s", v);
        if (stat(v, &sb) == 0) return OCH_OK;
        return och_err_set(err, OCH_UNAVAILABLE, "OCHRE_SIM_LIBRARY names %.300s: %s", v, strerror(errno));
    }
    char self[512] = "";
    Dl_info info;
    if (dladdr((const void *)places, &info) && info.dli_fname && strchr(info.dli_fname, '/'))
        snprintf(self, sizeof self, "%s", info.dli_fname);
    else {
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
        self[n > 0 ? n : 0] = 0;
    }
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++)
        if (snprintf(out_path, n_bytes, "%s/%s/libamdhip64.so", self, places[i]) < (int)n_bytes && stat(out_path, &sb) == 0)
            return OCH_OK;
    return och_err_set(err, OCH_UNAVAILABLE, "the simulator's libamdhip64.so was not found in sim, ../sim, ../lib/ochre/sim or "
                       "ochre/sim beside %.300s; name it in OCHRE_SIM_LIBRARY", self);
}

/* A file of its own with the bytes of `path`; the descriptor, or -1 with errno. */
static int copy_in_memory(const char *path) {
    int from = open(path, O_RDONLY | O_CLOEXEC), to = from < 0 ? -1 : memfd_create("libamdhip64.so", MFD_CLOEXEC);
    struct stat sb;
    bool good = to >= 0 && fstat(from, &sb) == 0;
    for (off_t left = good ? sb.st_size : 0; good && left > 0;) {
        ssize_t n = sendfile(to, from, NULL, (size_t)left);
        if (n <= 0) good = false;
        else left -= n;
    }
    int e = errno;
    if (from >= 0) close(from);
    if (!good && to >= 0) close(to), to = -1;
    errno = e;
    return to;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static hip_lib *instances;
static bool file_taken; /* the file itself is the first instance */

static och_status start(const char *boards, const char *path, hip_lib *lib, och_err *err) {
    char opened[64];
    int fd = -1;
    const char *from = path;
    if (file_taken) {
        if ((fd = copy_in_memory(path)) < 0)
            return och_err_set_native(err, OCH_IO, errno, "a copy of %.300s: %s", path, strerror(errno));
        snprintf(opened, sizeof opened, "/proc/self/fd/%d", fd);
        from = opened;
    }
    file_taken = true;
    och_attempt t = {0};
    /* The library reads its boards in its first call. The variable is put back at once. */
    const char *old = och_env_get(OCH_ENV_OCHRE_SIM_BOARD);
    char *kept = old ? och_strdup(old) : NULL;
    och_status st = OCH_OK;
    if ((old && !kept) || !och_env_set("OCHRE_SIM_BOARD", boards))
        st = och_err_nomem(err, strlen(boards) + 32, "the simulator's environment");
    else {
        if (!och_hip_lib_open_file(from, lib, &t))
            st = och_err_set(err, OCH_UNAVAILABLE, "the simulator %.300s cannot serve: %.300s", path, t.why);
        else och_hip_lib_count(lib);
        (void)och_env_set("OCHRE_SIM_BOARD", kept); /* that memory was there before */
    }
    och_free(kept);
    /* the descriptor stays: the loader tells libraries apart by name, and the next copy must not get this one */
    if (st == OCH_OK && !lib->n_devices && !lib->version)
        st = och_err_set(err, OCH_NOTFOUND, "the simulator does not start with boards \"%s\"; it says why on standard error: a "
                         "board that it has not, or a variable OCHRE_SIM_* that it does not understand", boards);
    if (st != OCH_OK) return st;
    lib->simulated = true;
    snprintf(lib->path, sizeof lib->path, "%s", path);
    snprintf(lib->boards, sizeof lib->boards, "%s", boards);
    return OCH_OK;
}

och_status och_hip_sim_lib(const char *boards, hip_lib **out_lib, och_err *err) {
    *out_lib = NULL;
    if (!boards) boards = och_env_get(OCH_ENV_OCHRE_SIM_BOARD);
    if (!boards) boards = DEFAULT_BOARDS;
    if (strlen(boards) >= sizeof instances->boards)
        return och_err_set(err, OCH_INVALID, "boards \"%.80s...\": expected at most %zu characters", boards,
                           sizeof instances->boards - 1);
    char path[512];
    pthread_mutex_lock(&lock);
    och_status st = OCH_OK;
    hip_lib *lib = instances;
    while (lib && strcmp(lib->boards, boards) != 0) lib = lib->next;
    if (!lib) {
        OCH_TRY_GOTO(och_hip_sim_path(path, sizeof path, err));
        hip_lib *fresh = och_calloc(1, sizeof *fresh);
        if (!fresh) {
            st = och_err_nomem(err, sizeof *fresh, "an instance of the simulator");
            goto done;
        }
        st = start(boards, path, fresh, err);
        if (st != OCH_OK) {
            och_free(fresh);
            goto done;
        }
        fresh->next = instances;
        instances = lib = fresh;
    }
    *out_lib = lib;
done:
    pthread_mutex_unlock(&lock);
    return st;
}
