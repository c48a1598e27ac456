/* Options: one table a command gives both the parser and the help. */
#include "main/main.h"

#include "base/env.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Levenshtein distance, for words of at most 31 bytes; longer ones are never close. */
static size_t distance(const char *a, const char *b) {
    size_t na = strlen(a), nb = strlen(b), row[32];
    if (na > 31 || nb > 31) return SIZE_MAX;
    for (size_t j = 0; j <= nb; j++) row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[nb];
}

const char *och_main_nearest(const char *word, const char *const *names, size_t n) {
    const char *found = NULL;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(word, names[i]);
        /* A beginning that is long enough is close too: --max for --max-tokens. */
        if (strlen(word) >= 3 && !strncmp(word, names[i], strlen(word))) d = 1;
        if (d < best) best = d, found = names[i];
    }
    return best <= 2 && best < strlen(word) ? found : NULL;
}

/* What goes with every --device. The device is opened rooms away from here: the environment carries it there. */
static bool require_gpu;
static const och_opt require_option = {"require-gpu", 0, OCH_OPT_FLAG, &require_gpu, 0, 0, NULL,
                                       "fail where --device auto would fall back to the CPU", NULL};

static bool takes_device(const och_opt *opts, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(opts[i].name, "device")) return true;
    return false;
}

static void help(const och_usage *u, const och_opt *opts, size_t n_opts) {
    printf("usage: ochre %s %s\n\n%s", u->command, u->synopsis, u->about);
    if (n_opts) printf("\noptions:\n");
    for (size_t i = 0; i < n_opts; i++) {
        const och_opt *o = &opts[i];
        char left[64];
        snprintf(left, sizeof left, "%c%c%s --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
                 o->letter ? "," : " ", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
        printf("  %-29s %s\n", left, o->doc);
    }
    if (takes_device(opts, n_opts)) printf("      --%-23s %s\n", require_option.name, require_option.doc);
    printf("  %-29s %s\n", "-h, --help", "print this help");
    if (u->examples) printf("\nexamples:\n%s", u->examples);
}

static int bad_value(const och_usage *u, const och_opt *o, const char *value, const char *kind) {
    if (o->min < o->max && o->max < 1e15)
        return och_main_usage(u->command, "--%s: expected %s from %.15g to %.15g, found \"%.100s\"", o->name, kind, o->min,
                              o->max, value);
    return och_main_usage(u->command, "--%s: expected %s of at least %.15g, found \"%.100s\"", o->name, kind, o->min, value);
}

static int set_value(const och_usage *u, const och_opt *o, const char *value) {
    char *end = NULL;
    /* strtol and its kin take leading blanks; a number here starts with a digit, a sign or a point. */
    bool plain = *value && strchr("+-.0123456789", *value);
    errno = 0;
    switch (o->kind) {
    case OCH_OPT_FLAG: *(bool *)o->out = true; break;
    case OCH_OPT_STR: *(const char **)o->out = value; break;
    case OCH_OPT_ONCE:
        if (*(const char **)o->out) return och_main_usage(u->command, "--%s: expected once, found it twice", o->name);
        *(const char **)o->out = value;
        break;
    case OCH_OPT_I32: {
        long long v = strtoll(value, &end, 10);
        if (!plain || errno || *end || (double)v < o->min || (double)v > o->max || v < INT32_MIN || v > INT32_MAX)
            return bad_value(u, o, value, "a whole number");
        *(int32_t *)o->out = (int32_t)v;
        break;
    }
    case OCH_OPT_U64: {
        unsigned long long v = strtoull(value, &end, 10);
        if (!plain || *value == '-' || errno || *end || (o->max > 0 && ((double)v < o->min || (double)v > o->max)))
            return bad_value(u, o, value, "a whole number");
        *(uint64_t *)o->out = v;
        break;
    }
    case OCH_OPT_F32: {
        double v = strtod(value, &end);
        if (!plain || errno || *end || !isfinite(v) || v < o->min || v > o->max)
            return bad_value(u, o, value, "a number");
        *(float *)o->out = (float)v;
        break;
    }
    }
    if (o->given) *o->given = true;
    return -1;
}

static const och_opt *find_long(const och_opt *opts, size_t n, const char *name, size_t n_bytes) {
    for (size_t i = 0; i < n; i++)
        if (strlen(opts[i].name) == n_bytes && !memcmp(opts[i].name, name, n_bytes)) return &opts[i];
    if (takes_device(opts, n) && strlen(require_option.name) == n_bytes && !memcmp(require_option.name, name, n_bytes))
        return &require_option;
    return NULL;
}

static int unknown(const och_usage *u, const och_opt *opts, size_t n_opts, const char *shown, const char *name,
                   size_t n_bytes) {
    const char *names[64];
    char word[32];
    size_t n = 0;
    for (; n < n_opts && n < 62; n++) names[n] = opts[n].name;
    if (takes_device(opts, n_opts)) names[n++] = require_option.name;
    names[n++] = "help";
    snprintf(word, sizeof word, "%.*s", (int)(n_bytes < 31 ? n_bytes : 31), name);
    const char *near = n_bytes > 1 ? och_main_nearest(word, names, n) : NULL;
    if (near) return och_main_usage(u->command, "unknown option %s; did you mean --%s?", shown, near);
    return och_main_usage(u->command, "unknown option %s", shown);
}

int och_opts_parse(const och_usage *u, const och_opt *opts, size_t n_opts, int argc, char **argv, const char **args,
                   int max_args, int *out_n_args) {
    bool options = true;
    int rc;
    *out_n_args = 0;
    /* Help wins wherever it stands, so that it can be asked for with a line that is wrong otherwise. */
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            help(u, opts, n_opts);
            return OCH_EXIT_OK;
        }
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *value = NULL;
        const och_opt *o = NULL;
        if (options && !strcmp(a, "--")) {
            options = false;
            continue;
        }
        if (!options || a[0] != '-' || a[1] == '\0') {
            if (*out_n_args == max_args) return och_main_usage(u->command, "unexpected argument \"%.200s\"", a);
            args[(*out_n_args)++] = a;
            continue;
        }
        if (a[1] == '-') {
            size_t n = strcspn(a + 2, "=");
            o = find_long(opts, n_opts, a + 2, n);
            if (!o) return unknown(u, opts, n_opts, a, a + 2, n);
            if (a[2 + n] == '=') value = a + 3 + n;
            if (o->kind == OCH_OPT_FLAG && value) return och_main_usage(u->command, "--%s takes no value", o->name);
        } else {
            for (size_t k = 0; k < n_opts; k++)
                if (opts[k].letter == a[1]) o = &opts[k];
            if (!o) return unknown(u, opts, n_opts, a, a + 1, strlen(a + 1));
            if (a[2] && o->kind == OCH_OPT_FLAG) return och_main_usage(u->command, "-%c takes no value", a[1]);
            if (a[2]) value = a + 2;
        }
        if (o->kind != OCH_OPT_FLAG && !value) {
            if (i + 1 == argc) return och_main_usage(u->command, "--%s needs a value: --%s %s", o->name, o->name, o->arg);
            value = argv[++i];
        }
        rc = set_value(u, o, value ? value : "");
        if (rc >= 0) return rc;
    }
    if (require_gpu && !och_env_set("OCHRE_REQUIRE_GPU", "1")) return och_main_error("setenv: %s", strerror(errno));
    return -1;
}
