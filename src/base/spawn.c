#include "base/spawn.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if !defined(__GLIBC__) || !__GLIBC_PREREQ(2, 34)
#include <dirent.h>
#include <stdlib.h>
#endif

#define LIMIT_BYTES ((size_t)256 << 20)
#define TICK_NS 50000000u       /* between two looks at the cancel flag */
#define TICK_BLIND_NS 5000000u  /* where the kernel has no descriptor for a process */
#define DRAIN_NS 200000000u     /* what a program's own children may hold the outputs open after it */
#define MERCY_NS 1000000000u    /* between asking it to end and ending it: compilers remove their temporary files */

enum { IN, OUT, ERR, N_PIPES };

typedef struct child {
    pid_t pid;
    int pidfd;         /* -1: the kernel has none */
    int fd[N_PIPES];   /* our ends; -1 when closed */
    const char *input;
    size_t left;       /* of the input */
    size_t limit;
    bool ended;        /* not yet reaped: its id, and its group's, are still its own */
    och_spawn_result *result;
} child;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void shut(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* A pipe whose ends are above the three standard descriptors, which may be closed in this process. */
static bool make_pipe(int fd[2]) {
    if (pipe2(fd, O_CLOEXEC) != 0) {
        fd[0] = fd[1] = -1;
        return false;
    }
    for (int i = 0; i < 2; i++) {
        if (fd[i] > 2) continue;
        int up = fcntl(fd[i], F_DUPFD_CLOEXEC, 3);
        if (up < 0) {
            int e = errno;
            shut(&fd[0]);
            shut(&fd[1]);
            errno = e;
            return false;
        }
        close(fd[i]);
        fd[i] = up;
    }
    return true;
}

/* What this process holds open without close-on-exec, libraries of others above all, is closed too. */
static int close_others(posix_spawn_file_actions_t *actions) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    return posix_spawn_file_actions_addclosefrom_np(actions, 3);
#else
    int rc = 0;
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; d && !rc && (e = readdir(d));) {
        int fd = atoi(e->d_name), flags = fd > 2 ? fcntl(fd, F_GETFD) : -1;
        if (flags >= 0 && !(flags & FD_CLOEXEC)) rc = posix_spawn_file_actions_addclose(actions, fd);
    }
    if (d) closedir(d);
    return rc;
#endif
}

/* This process's environment without some names and with some values: a list that views both; NULL: no memory. */
static const char **environment_of(const och_spawn *s) {
    static const char *const none[] = {NULL};
    const char *const *unset = s->unset ? s->unset : none, *const *set = s->set ? s->set : none;
    size_t n = 0, n_set = 0;
    while (set[n_set]) n_set++;
    char *const *old = och_env_hold();
    while (old && old[n]) n++;
    const char **list = och_calloc(n + n_set + 1, sizeof *list);
    if (!list) {
        och_env_release();
        return NULL;
    }
    memcpy(list, set, n_set * sizeof *list);
    size_t kept = n_set;
    for (size_t i = 0; i < n; i++) {
        size_t len = strcspn(old[i], "=");
        bool keep = true;
        for (const char *const *u = unset; *u && keep; u++) keep = strlen(*u) != len || memcmp(*u, old[i], len) != 0;
        for (const char *const *v = set; *v && keep; v++) keep = strcspn(*v, "=") != len || memcmp(*v, old[i], len) != 0;
        if (keep) list[kept++] = old[i];
    }
    och_env_release();
    return list;
}

static int start(const och_spawn *s, const int theirs[N_PIPES], char *const *envp, pid_t *out_pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int rc = posix_spawn_file_actions_init(&actions);
    if (rc) return rc;
    if ((rc = posix_spawnattr_init(&attr)) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return rc;
    }
    for (int i = 0; i < N_PIPES && !rc; i++) rc = posix_spawn_file_actions_adddup2(&actions, theirs[i], i);
    if (!rc) rc = close_others(&actions);
    if (!rc) rc = posix_spawnattr_setpgroup(&attr, 0);
    if (!rc) rc = posix_spawnattr_setsigmask(&attr, &none);
    if (!rc) rc = posix_spawnattr_setsigdefault(&attr, &all);
    if (!rc) rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!rc) rc = posix_spawn(out_pid, s->argv[0], &actions, &attr, (char *const *)(uintptr_t)s->argv, envp);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* ---- while it runs ---- */

static void feed(child *c) {
    while (c->left) {
        ssize_t n = write(c->fd[IN], c->input, c->left);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) break; /* it does not want to read the rest */
        c->input += n;
        c->left -= (size_t)n;
    }
    shut(&c->fd[IN]);
}

/* True when something came. */
static bool take(child *c, int which, och_strbuf *into) {
    char chunk[16384];
    bool any = false;
    for (;;) {
        ssize_t n = read(c->fd[which], chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return any;
        if (n <= 0) break;
        any = true;
        size_t room = c->limit - OCH_MIN(c->limit, into->size), keep = OCH_MIN((size_t)n, room);
        och_strbuf_append(into, chunk, keep);
        if (keep < (size_t)n) c->result->truncated = true;
    }
    shut(&c->fd[which]);
    return any;
}

static bool has_ended(child *c) {
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) c->ended = errno == ECHILD;
    else c->ended = info.si_pid == c->pid;
    return c->ended;
}

/* Waits for something to do, at most wait_ns, and does it. True when an output gave something. */
static bool pump(child *c, uint64_t wait_ns) {
    struct pollfd p[N_PIPES + 1];
    for (int i = 0; i < N_PIPES; i++) p[i] = (struct pollfd){.fd = c->fd[i], .events = i == IN ? POLLOUT : POLLIN};
    p[N_PIPES] = (struct pollfd){.fd = c->ended ? -1 : c->pidfd, .events = POLLIN};
    struct timespec t = {(time_t)(wait_ns / 1000000000u), (long)(wait_ns % 1000000000u)};
    if (ppoll(p, N_PIPES + 1, &t, NULL) < 0) return false;
    bool any = false;
    if (p[IN].revents) feed(c);
    if (p[OUT].revents) any |= take(c, OUT, &c->result->out);
    if (p[ERR].revents) any |= take(c, ERR, &c->result->err);
    return any;
}

/* Asks, then insists; nothing of its group is left. */
static void end_it(child *c) {
    kill(-c->pid, SIGTERM);
    for (uint64_t until = now_ns() + MERCY_NS; !has_ended(c) && now_ns() < until;) pump(c, TICK_BLIND_NS);
    kill(-c->pid, SIGKILL);
    for (uint64_t until = now_ns() + DRAIN_NS; (c->fd[OUT] >= 0 || c->fd[ERR] >= 0) && now_ns() < until;)
        pump(c, TICK_BLIND_NS);
}

static och_status watch(child *c, const och_spawn *s, och_err *err) {
    uint64_t began = now_ns(), quiet_since = 0;
    for (;;) {
        if (s->cancel && atomic_load(s->cancel)) {
            end_it(c);
            return och_err_set(err, OCH_CANCELLED, "%s: cancelled while it ran", s->argv[0]);
        }
        uint64_t now = now_ns();
        if (s->timeout_ns && now - began >= s->timeout_ns) {
            end_it(c);
            c->result->timed_out = true;
            return och_err_set(err, OCH_UNAVAILABLE, "%s: not done after %.1f s, and ended", s->argv[0],
                               1e-9 * (double)s->timeout_ns);
        }
        if (c->result->out.failed || c->result->err.failed) {
            end_it(c);
            return och_err_nomem(err, c->result->out.size + c->result->err.size, "a program's output");
        }
        bool open = c->fd[OUT] >= 0 || c->fd[ERR] >= 0;
        if (!c->ended && has_ended(c)) quiet_since = now;
        if (c->ended && (!open || now - quiet_since >= DRAIN_NS)) return OCH_OK;
        uint64_t wait = c->pidfd >= 0 ? TICK_NS : TICK_BLIND_NS;
        if (s->timeout_ns) wait = OCH_MIN(wait, s->timeout_ns - (now - began));
        if (pump(c, wait)) quiet_since = now_ns();
    }
}

/* Takes its status; whoever ignores SIGCHLD, or waits for every child, has taken it from us. */
static och_status reap(child *c, const och_spawn *s, och_err *err) {
    int status;
    while (waitpid(c->pid, &status, 0) < 0)
        if (errno != EINTR)
            return och_err_set_native(err, OCH_IO, errno, "%s: its exit status was lost: %s (is SIGCHLD ignored?)", s->argv[0],
                                      strerror(errno));
    if (WIFSIGNALED(status)) c->result->signal = WTERMSIG(status);
    else c->result->exit_status = WEXITSTATUS(status);
    return OCH_OK;
}

och_status och_spawn_run(const och_spawn *s, och_spawn_result *out_result, och_err *err) {
    *out_result = (och_spawn_result){.exit_status = -1};
    child c = {.pid = -1, .pidfd = -1, .fd = {-1, -1, -1}, .input = s->input, .left = s->input_bytes, .result = out_result};
    c.limit = s->output_limit_bytes ? s->output_limit_bytes : LIMIT_BYTES;
    int theirs[N_PIPES] = {-1, -1, -1};
    och_status st = OCH_OK;
    for (int i = 0; i < N_PIPES; i++) {
        int fd[2];
        if (!make_pipe(fd)) {
            st = och_err_set_native(err, OCH_IO, errno, "%s: could not make a pipe: %s", s->argv[0], strerror(errno));
            goto done;
        }
        c.fd[i] = fd[i == IN];
        theirs[i] = fd[i != IN];
        fcntl(c.fd[i], F_SETFL, O_NONBLOCK);
    }
    const char **envp = environment_of(s);
    if (!envp) {
        st = och_err_nomem(err, sizeof *envp, "a program's environment");
        goto done;
    }
    int rc = start(s, theirs, (char *const *)(uintptr_t)envp, &c.pid);
    och_free(envp);
    for (int i = 0; i < N_PIPES; i++) shut(&theirs[i]);
    if (rc) {
        c.pid = -1;
        st = och_err_set_native(err, rc == ENOENT ? OCH_NOTFOUND : rc == ENOMEM ? OCH_NOMEM : OCH_IO, rc,
                                "%s: could not be started: %s", s->argv[0], strerror(rc));
        goto done;
    }
#ifdef SYS_pidfd_open
    c.pidfd = (int)syscall(SYS_pidfd_open, c.pid, 0);
#endif
    /* A program that closes its input must not raise SIGPIPE here; one that we raised ourselves is taken back. */
    sigset_t pipe_signal, before, pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    if (!c.left) shut(&c.fd[IN]);
    st = watch(&c, s, err);
    och_status reaped = reap(&c, s, st == OCH_OK ? err : NULL);
    if (st == OCH_OK) st = reaped;
    if (!was_pending)
        while (sigtimedwait(&pipe_signal, NULL, &(struct timespec){0}) < 0 && errno == EINTR) {}
    pthread_sigmask(SIG_SETMASK, &before, NULL);
done:
    for (int i = 0; i < N_PIPES; i++) {
        shut(&theirs[i]);
        shut(&c.fd[i]);
    }
    shut(&c.pidfd);
    return st;
}

void och_spawn_result_deinit(och_spawn_result *r) {
    och_strbuf_deinit(&r->out);
    och_strbuf_deinit(&r->err);
}

static bool is_program(const char *path) {
    struct stat sb;
    return stat(path, &sb) == 0 && S_ISREG(sb.st_mode) && access(path, X_OK) == 0;
}

bool och_spawn_find(const char *name, och_strbuf *out) {
    och_strbuf_clear(out);
    if (!*name) return false;
    if (strchr(name, '/')) {
        och_strbuf_puts(out, name);
        return !out->failed && is_program(name);
    }
    const char *path = och_env_get(OCH_ENV_PATH);
    for (const char *p = path ? path : "/usr/local/bin:/usr/bin:/bin"; *p;) {
        size_t n = strcspn(p, ":");
        och_strbuf_clear(out);
        och_strbuf_printf(out, "%.*s/%s", n ? (int)n : 1, n ? p : ".", name);
        if (!out->failed && is_program(och_strbuf_str(out))) return true;
        p += n + (p[n] == ':');
    }
    och_strbuf_clear(out);
    return false;
}
