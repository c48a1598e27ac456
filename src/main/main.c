/* The program: finds the subcommand, and checks at the end that what was printed has arrived. */
#include "main/main.h"

#include "base/env.h"
#include "base/log.h"
#include "base/size.h"
#include "dev/cuda/cuda_lib.h"
#include "dev/hip/hip_lib.h"
#include "engine/graph.h"
#include "op/op.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

typedef struct command {
    const char *name;
    int (*fn)(int argc, char **argv);
    const char *summary;
} command;

static const command commands[] = {
    {"run", och_cmd_run, "generate text with a model"},
    {"pull", och_cmd_pull, "download a model"},
    {"inspect", och_cmd_inspect, "what is in a model file, memory, plan, what the device can do with it"},
    {"fit", och_cmd_fit, "whether a model fits a device, and with how long a context"},
    {"bench", och_cmd_bench, "measure prefill and decode speed"},
    {"verify", och_cmd_verify, "compare a model's logits with golden files or with the reference provider"},
    {"tokenize", och_cmd_tokenize, "text to token ids and back"},
    {"devices", och_cmd_devices, "list the devices that models can run on"},
    {"doctor", och_cmd_doctor, "what of GPUs works on this machine, what does not, and what to do"},
    {"selftest", och_cmd_selftest, "hold a device against the reference, and write a report of it"},
    {"sim", och_cmd_sim, "run a HIP program on AMD GPUs in software"},
    {"ops", och_cmd_ops, "list the ops and which provider covers them on which device"},
    {"kernels", och_cmd_kernels, "GPU kernels: list, emit, build, check, disassemble, pack"},
    {"targets", och_cmd_targets, "what kernels can be compiled for"},
    {"tune", och_cmd_tune, "measure how a device's products are fastest: list, clear"},
    {"cache", och_cmd_cache, "compiled kernels that are kept: list, verify, clear"},
};

static volatile sig_atomic_t interrupted, exits_at_once;

static void exit_interrupted(void) {
    static const char text[] = "ochre: interrupted\n";
    ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
    (void)n;
    _exit(OCH_EXIT_INTERRUPTED);
}

static void on_interrupt(int signo) {
    (void)signo;
    interrupted = 1;
    if (exits_at_once) exit_interrupted();
}

void och_main_catch_interrupt(void) {
    struct sigaction sa = {0};
    sa.sa_handler = on_interrupt;
    sa.sa_flags = (int)SA_RESETHAND; /* the second one ends the process */
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
}
/* Models are read where they lie: a page that is gone is a signal, not a failed read. */
static void on_lost_page(int signo) {
    static const char text[] = "ochre: error: a file in use became shorter, or could not be read any more\n";
    (void)signo;
    ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
    (void)n;
    _exit(OCH_EXIT_FAILURE);
}

bool och_main_interrupted(void) { return interrupted != 0; }
void och_main_interrupt_exits(bool at_once) {
    exits_at_once = at_once;
    if (at_once && interrupted) exit_interrupted(); /* it came while there was still something to finish */
}

int och_main_error(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fputs("ochre: error: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return OCH_EXIT_FAILURE;
}

int och_main_usage(const char *cmd, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fputs("ochre: error: ", stderr);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    if (*cmd) fprintf(stderr, "\nochre: see: ochre %s --help\n", cmd);
    else fputs("\nochre: see: ochre --help\n", stderr);
    return OCH_EXIT_USAGE;
}

int och_main_fail(const och_err *err) {
    if (err->status == OCH_CANCELLED && interrupted) {
        fputs("ochre: interrupted\n", stderr);
        return OCH_EXIT_INTERRUPTED;
    }
    return och_main_error("%s", err->message[0] ? err->message : och_status_name(err->status));
}

int och_main_fail_public(const ochre_error *e) {
    if (e->status == OCHRE_CANCELLED && interrupted) {
        fputs("ochre: interrupted\n", stderr);
        return OCH_EXIT_INTERRUPTED;
    }
    return och_main_error("%s", e->message[0] ? e->message : ochre_status_name(e->status));
}

static void print_help(void) {
    printf("ochre %s: runs language models, from C\n\n"
           "usage: ochre COMMAND [arguments]\n\ncommands:\n",
           ochre_version());
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].summary);
    printf("  %-10s %s\n", "help", "`ochre help COMMAND`, `ochre help environment`");
    printf("\nfirst steps:\n"
           "  ochre pull smollm2-135m\n"
           "  ochre run smollm2-135m --chat --prompt \"What is the capital of France?\"\n"
           "\nResults go to standard output, everything else to standard error.\n"
           "exit status: 0 done; 1 it failed; 2 the command line makes no sense; 130 interrupted\n");
}

/* A name, and what it does in lines that end before column 120, all beginning behind the longest name. */
static void print_described(int width, const char *name, const char *text) {
    const int room = 120 - width - 3;
    printf("  %-*s", width, name);
    while (*text) {
        int n = (int)strlen(text), cut = OCH_MIN(n, room);
        if (cut < n) {
            int at = cut;
            while (at > 0 && text[at] != ' ') at--;
            if (at) cut = at;
        }
        printf(" %.*s\n", cut, text);
        text += cut;
        text += *text == ' ';
        if (*text) printf("  %*s", width, "");
    }
}

static void print_environment(void) {
    int width = 0;
    for (int i = 0; i < OCH_ENV_COUNT_; i++) width = OCH_MAX(width, (int)strlen(och_env_name(i)));
    printf("Environment variables that ochre reads:\n\n");
    for (int i = 0; i < OCH_ENV_COUNT_; i++) print_described(width, och_env_name(i), och_env_doc(i));
    printf("\nAny other variable named OCHRE_* is warned about.\n");
}

static const command *find(const char *name) {
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(commands[i].name, name)) return &commands[i];
    return NULL;
}

static int no_such_command(const char *name) {
    const char *names[sizeof commands / sizeof *commands + 1];
    size_t n = 0;
    for (; n < sizeof commands / sizeof *commands; n++) names[n] = commands[n].name;
    names[n++] = "help";
    const char *near = och_main_nearest(name, names, n);
    if (near) return och_main_usage("", "unknown command \"%.100s\"; did you mean %s?", name, near);
    return och_main_usage("", "unknown command \"%.100s\"", name);
}

static int set_log_level(void) {
    static const char *const names[] = {"debug", "info", "warn", "error", "off"};
    const char *v = och_env_get(OCH_ENV_OCHRE_LOG);
    if (!v) return -1;
    for (int i = 0; i < 5; i++)
        if (!strcasecmp(v, names[i])) {
            och_log_set_level((och_log_level)i);
            return -1;
        }
    return och_main_usage("", "OCHRE_LOG: expected debug, info, warn, error or off, found \"%.100s\"", v);
}

static int dispatch(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        fputs("ochre: error: no command; see: ochre --help\n", stderr);
        return OCH_EXIT_USAGE;
    }
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        printf("ochre %s\n", ochre_version());
        return OCH_EXIT_OK;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
        print_help();
        return OCH_EXIT_OK;
    }
    if (!strcmp(name, "help")) {
        if (argc == 2 || !strcmp(argv[2], "help")) print_help();
        else if (!strcmp(argv[2], "environment")) print_environment();
        else {
            const command *c = find(argv[2]);
            if (!c) return no_such_command(argv[2]);
            char flag[] = "--help", *help_argv[] = {argv[2], flag, NULL};
            return c->fn(2, help_argv);
        }
        return OCH_EXIT_OK;
    }
    const command *c = find(name);
    if (!c) {
        if (name[0] == '-') return och_main_usage("", "unknown option %.100s", name);
        return no_such_command(name);
    }
    return c->fn(argc - 1, argv + 1);
}

/* OCHRE_OP_STATS: what ran, by cost. */
static void print_op_stats(void) {
    och_op_stat rows[128];
    int n = och_op_stats(rows, 128);
    if (n > 128) n = 128;
    fprintf(stderr, "%-10s %-14s %-12s %10s %14s %10s %9s %9s\n", "op", "device", "provider", "calls", "bytes", "seconds", "GB/s",
            "GFLOP/s");
    for (int i = 0; i < n; i++) {
        const och_op_stat *r = &rows[i];
        const char *note = r->reference_tier ? "  fell back to the reference tier" : "";
        fprintf(stderr, "%-10s %-14s %-12s %10" PRIu64 " %14" PRIu64, och_op_name(r->op), r->device, r->provider, r->calls, r->bytes);
        if (r->simulated || r->seconds <= 0) fprintf(stderr, " %10s %9s %9s%s\n", r->simulated ? "simulated" : "-", "-", "-", note);
        else
            fprintf(stderr, " %10.4f %9.2f %9.2f%s\n", r->seconds, (double)r->bytes / r->seconds * 1e-9,
                    (double)r->flops / r->seconds * 1e-9, note);
    }
    fprintf(stderr, "reference-tier hits: %" PRIu64 "\n", och_op_reference_hits());
    och_step_stats t = och_step_stats_all();
    double steps = t.steps ? (double)t.steps : 1;
    if (!t.steps) return;
    fprintf(stderr, "steps: %" PRIu64 ", of them decode %" PRIu64 "; graphs: %" PRIu64 " captures, %" PRIu64 " refused, %" PRIu64
            " replays over %" PRIu64 " decode steps\n", t.steps, t.decode_steps, t.captures, t.refusals, t.replays, t.decode_steps);
    fprintf(stderr, "a step: %.1f kernels, %.1f launches, host %.1f us of %.1f us\n", (double)(t.launches + t.graph_launches) / steps,
            (double)t.launches / steps, t.host_seconds / steps * 1e6, t.seconds / steps * 1e6);
    fprintf(stderr, "tokens chosen in steps: %" PRIu64 " by devices, %" PRIu64 " by the host; copied a step: %.0f bytes there, %.0f back\n",
            t.device_samples, t.host_samples, (double)t.bytes_in / steps, (double)t.bytes_out / steps);
}

/* A file opened while a standard stream is closed would take its number, and what is printed would end up in it. What
 * stands in fails as the closed stream does: the others' use of it is the wrong way round. */
static bool hold_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) return false;
    return true;
}

/* The end belongs to finalizers of a GPU's runtime, which have been seen to hang and to crash. What was to be done is done and
 * written by now: they get a second, and cannot change the result. */
static int final_rc;
static void *end_late(void *arg) {
    (void)arg;
    struct timespec second = {1, 0};
    nanosleep(&second, NULL);
    _exit(final_rc);
    return NULL;
}
static void on_crash_at_end(int signo) {
    (void)signo;
    _exit(final_rc);
}
static void guard_end(int rc) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    pthread_t thread;
    if (!och_hip_any_opened() && !och_cuda_any_opened()) return;
    final_rc = rc;
    fflush(NULL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], on_crash_at_end);
    if (pthread_create(&thread, NULL, end_late, NULL) != 0) _exit(rc);
    pthread_detach(thread);
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of the write, and reported as one */
    signal(SIGXFSZ, SIG_IGN); /* so is a limit on the size of files */
    signal(SIGBUS, on_lost_page);
    if (!hold_standard_streams()) return OCH_EXIT_FAILURE;
    int rc = set_log_level();
    if (rc >= 0) return rc;
    och_env_warn_unknown();
    bool stats = och_env_flag(OCH_ENV_OCHRE_OP_STATS);
    /* to time each op is to wait for it, and a step that waits is no graph */
    const char *wish = och_env_get(OCH_ENV_OCHRE_OP_STATS);
    if (stats) och_op_stats_enable(strcmp(wish, "count") != 0);
    rc = dispatch(argc, argv);
    if (stats) print_op_stats();
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && rc == OCH_EXIT_OK)
        rc = och_main_error("standard output: %s", errno ? strerror(errno) : "a write failed");
    guard_end(rc);
    return rc;
}
