/* ochre sim: runs a HIP program on simulated boards: the simulator's libamdhip64 goes before the real one in the loader's
 * path, and the settings go into the environment. Everything else is the library's. */
#include "main/main.h"

#include "base/env.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const och_usage usage = {
    "sim", "[options] -- PROGRAM [arguments]",
    "Runs a program that uses HIP on AMD GPUs in software. The program is not changed: it loads the simulator's libamdhip64,\n"
    "which executes the code objects that a board would run. An access outside an allocation, a barrier that some waves never\n"
    "reach and their like end the kernel with a report on standard error, and HIP's error in the program.\n",
    "  ochre sim -- ./saxpy\n"
    "  ochre sim --board gfx1151 -- ./saxpy\n"
    "  ochre sim --board gfx942x4 --count text -- ./saxpy 1000000\n"
    "  ochre sim --check all -- ./saxpy\n"
    "  eval \"$(ochre sim --print-env)\"; ./saxpy\n"};

/* The folder of the simulator's library: beside the program in a build, else where it is installed. */
static bool library_dir(char *out, size_t n) {
    static const char *const places[] = {"sim", "../lib/ochre/sim"};
    char self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len <= 0) return false;
    self[len] = 0;
    char *slash = strrchr(self, '/');
    if (!slash) return false;
    *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char file[4200];
        struct stat sb;
        if (snprintf(out, n, "%s/%s", self, places[i]) >= (int)n) continue;
        if (snprintf(file, sizeof file, "%s/libamdhip64.so", out) < (int)sizeof file && stat(file, &sb) == 0) return true;
    }
    return false;
}

typedef struct setting {
    const char *name, *value, *option; /* option: NULL for what is not judged */
} setting;

/* The library itself says whether it understands the environment, before the program starts and meets a HIP that does not
 * work. -1, or a message and the exit code. */
static int judge(const char *dir, const setting *settings, size_t n) {
    char file[4200], why[1024] = "";
    snprintf(file, sizeof file, "%s/libamdhip64.so", dir);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) return och_main_error("the simulator does not load: %s", dlerror());
    int (*judged)(char *, size_t) = (int (*)(char *, size_t))(uintptr_t)dlsym(library, "ochreSimJudge");
    if (!judged) return och_main_error("%s is not the simulator's library", file);
    if (judged(why, sizeof why) == 0) return -1;
    for (size_t i = 0; i < n; i++) {
        const size_t len = strlen(settings[i].name);
        if (settings[i].option && settings[i].value && !strncmp(why, settings[i].name, len) && why[len] == ':')
            return och_main_usage("sim", "%s%s", settings[i].option, why + len);
    }
    return och_main_usage("sim", "%s", why);
}

/* 'value' as a word of the shell. */
static void print_quoted(const char *name, const char *value) {
    printf("export %s='", name);
    for (; *value; value++)
        if (*value == '\'') fputs("'\\''", stdout);
        else putchar(*value);
    fputs("'\n", stdout);
}

int och_cmd_sim(int argc, char **argv) {
    const char *board = NULL, *quirks = NULL, *check = NULL, *count = NULL, *version = NULL, *library = NULL;
    bool deterministic = false, trace = false, print_env = false;
    int32_t threads = 0;
    uint64_t budget = 0;
    const och_opt opts[] = {
        {"board", 'b', OCH_OPT_STR, &board, 0, 0, "BOARDS", "gfx1151, gfx1100x4, gfx1201+gfx1103 (default: gfx1100)", NULL},
        {"check", 0, OCH_OPT_STR, &check, 0, 0, "LIST", "optional checks: uninit, race, weak, barrier, or all", NULL},
        {"count", 0, OCH_OPT_STR, &count, 0, 0, "HOW", "counters of each launch: text, json, or a file for JSON lines (a / or . in its name)", NULL},
        {"quirks", 0, OCH_OPT_STR, &quirks, 0, 0, "LIST", "quirks of the runtime, NAME or NAME=VALUE (docs/simulator.md)", NULL},
        {"hip-version", 0, OCH_OPT_STR, &version, 0, 0, "V", "the HIP version to claim: 5.2, 6.3, 7.2", NULL},
        {"budget", 0, OCH_OPT_U64, &budget, 1, 0, "N", "instructions a wave may execute (default: 4e9)", NULL},
        {"threads", 't', OCH_OPT_I32, &threads, 1, 1024, "N", "host threads (default: all CPUs)", NULL},
        {"deterministic", 0, OCH_OPT_FLAG, &deterministic, 0, 0, NULL, "one order for everything", NULL},
        {"trace", 0, OCH_OPT_FLAG, &trace, 0, 0, NULL, "print each HIP call with its result", NULL},
        {"library", 0, OCH_OPT_STR, &library, 0, 0, "DIR", "the folder of the simulator's libamdhip64", NULL},
        {"print-env", 0, OCH_OPT_FLAG, &print_env, 0, 0, NULL, "print the settings for a shell and run nothing", NULL},
    };
    int split = 1;
    while (split < argc && strcmp(argv[split], "--") != 0) split++;
    int n_args, rc = och_opts_parse(&usage, opts, sizeof opts / sizeof *opts, split, argv, NULL, 0, &n_args);
    if (rc >= 0) return rc;
    char **program = split < argc ? argv + split + 1 : NULL;
    if (!print_env && (!program || !program[0]))
        return och_main_usage("sim", "no program: write it after --, as in: ochre sim -- ./program");
    char dir[4096], path[8300], threads_text[16], budget_text[24];
    if (library) snprintf(dir, sizeof dir, "%s", library);
    else if (!library_dir(dir, sizeof dir))
        return och_main_error("the simulator's libamdhip64.so was not found in sim/ beside this program or in ../lib/ochre/sim; "
                              "name its folder with --library");
    const char *old = och_env_foreign("LD_LIBRARY_PATH");
    snprintf(path, sizeof path, "%s%s%s", dir, old ? ":" : "", old ? old : "");
    snprintf(threads_text, sizeof threads_text, "%" PRId32, threads);
    snprintf(budget_text, sizeof budget_text, "%" PRIu64, budget);
    const setting settings[] = {
        {"LD_LIBRARY_PATH", path, NULL},
        {"OCHRE_SIM_BOARD", board, "--board"},
        {"OCHRE_SIM_CHECK", check, "--check"},
        {"OCHRE_SIM_COUNT", count, "--count"},
        {"OCHRE_SIM_QUIRKS", quirks, "--quirks"},
        {"OCHRE_SIM_HIP_VERSION", version, "--hip-version"},
        {"OCHRE_SIM_BUDGET", budget ? budget_text : NULL, NULL},
        {"OCHRE_SIM_THREADS", threads ? threads_text : NULL, NULL},
        {"OCHRE_SIM_DETERMINISTIC", deterministic ? "1" : NULL, NULL},
        {"OCHRE_SIM_TRACE", trace ? "1" : NULL, NULL},
    };
    const size_t n = sizeof settings / sizeof *settings;
    for (size_t i = 0; i < n; i++)
        if (settings[i].value && !och_env_set(settings[i].name, settings[i].value))
            return och_main_error("setenv: %s", strerror(errno));
    /* Judged as they are, whoever set them. */
    if ((rc = judge(dir, settings, n)) >= 0) return rc;
    for (size_t i = 0; i < n && print_env; i++)
        if (settings[i].value) print_quoted(settings[i].name, settings[i].value);
    if (print_env) return OCH_EXIT_OK;
    execvp(program[0], program);
    return och_main_error("cannot run %.500s: %s", program[0], strerror(errno));
}
