/* ochre kernels test: the kernels of a device against the references of the ops that they serve. */
#include "main/kernels.h"

#include "engine/selftest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const och_usage usage = {
    "kernels test", "[KERNEL...] [--device D] [options]",
    "Runs every op case that `ochre selftest` has on the device and compares what the kernels computed with the op's\n"
    "reference in plain C. With names, only cases that launch one of these kernels count. With OCHRE_KERNELS_DIR the\n"
    "kernels of that directory are tried: the way to work on one.\n"
    "exit status: 0 all within their bounds; 1 not, or no case launches the kernel\n",
    "  ochre kernels test --device sim:gfx1151\n"
    "  ochre kernels test matmul --device sim:gfx942\n"
    "  OCHRE_KERNELS_DIR=kernels ochre kernels test rms_norm\n"};

#define MAX_NAMES 32

/* A launched kernel's symbol begins with the kernel's name. */
static bool launches(const och_trial *t, const char *const *names, int n_names) {
    if (!n_names) return t->kernels[0] != 0;
    for (const char *p = t->kernels; *p;) {
        size_t n = strcspn(p, ", ");
        for (int i = 0; i < n_names; i++) {
            size_t k = strlen(names[i]);
            if (n >= k && !memcmp(p, names[i], k) && (n == k || p[k] == '_')) return true;
        }
        p += n;
        p += strspn(p, ", ");
    }
    return false;
}

static void print_row(const char *name, const och_trial *t, och_status st, const och_err *err, bool ok, bool json, bool first) {
    if (!json) {
        printf("%-34s %-8.1e %-8.1e %s  %s\n", name, st == OCH_OK ? t->nmse : INFINITY, t->bound, ok ? "ok    " : "FAILED",
               st == OCH_OK ? t->kernels : err->message);
        return;
    }
    och_strbuf b = {0};
    och_strbuf_printf(&b, "%s{\"case\": ", first ? "\n" : ",\n");
    och_strbuf_json(&b, name, strlen(name));
    och_strbuf_printf(&b, ", \"ok\": %s, \"nmse\": ", ok ? "true" : "false");
    if (st == OCH_OK && isfinite(t->nmse)) och_strbuf_printf(&b, "%.4g", t->nmse);
    else och_strbuf_puts(&b, "null");
    och_strbuf_printf(&b, ", \"bound\": %.4g, \"kernels\": ", t->bound);
    och_strbuf_json(&b, t->kernels, strlen(t->kernels));
    if (st != OCH_OK) {
        och_strbuf_puts(&b, ", \"error\": ");
        och_strbuf_json(&b, err->message, strlen(err->message));
    }
    och_strbuf_puts(&b, "}");
    fputs(och_strbuf_str(&b), stdout);
    och_strbuf_deinit(&b);
}

static int run(och_device *d, och_queue *q, const char *const *names, int n_names, bool json) {
    int n = 0, bad = 0;
    char name[128];
    och_op_call shape;
    if (json) printf("{\"device\": \"%s\", \"cases\": [", d->info.label);
    else printf("%-34s %-8s %-8s %-7s %s\n", "case", "error", "bound", "", "kernels");
    for (int i = 0; och_selftest_case(i, &shape, name, sizeof name); i++) {
        och_trial t = {0};
        och_err err;
        och_err_clear(&err);
        och_status st = och_trial_run(q, &shape, &(och_trial_options){.seed = (uint64_t)i}, &t, &err);
        bool ok = st == OCH_OK && t.nmse <= t.bound;
        /* A case that failed before its launch says which kernel in its message. */
        bool meant = launches(&t, names, n_names);
        for (int k = 0; k < n_names && st != OCH_OK; k++) meant = meant || strstr(err.message, names[k]);
        if (!meant && (n_names || st == OCH_OK)) continue;
        print_row(name, &t, st, &err, ok, json, n == 0);
        n++;
        bad += !ok;
    }
    if (json) printf("], \"n\": %d, \"failed\": %d}\n", n, bad);
    else printf("%d cases on %s, %d failed; error: normalised mean square error\n", n, d->info.label, bad);
    if (!n) return och_main_error("no op case launches %s on device %s", n_names ? names[0] : "a kernel", d->info.label);
    return bad ? OCH_EXIT_FAILURE : OCH_EXIT_OK;
}

/* A name that no kernel has would be told of as one that no op launches; -1, or a message and the exit code. */
static int check_names(const char *const *names, int n_names) {
    och_kernel_files files;
    const char *known[256];
    int rc = och_kernel_files_open(&files, NULL, 0);
    size_t n = 0;
    if (rc >= 0) return rc;
    for (int i = 0; i < files.n; i++)
        for (const och_kl_decl *d = NULL; n < 256 && (d = och_kernel_next(files.units[i], d));) known[n++] = d->name;
    for (int k = 0; k < n_names && rc < 0; k++) {
        bool found = false;
        for (size_t i = 0; i < n && !found; i++) found = !strcmp(known[i], names[k]);
        const char *near = found ? NULL : och_main_nearest(names[k], known, n);
        if (near) rc = och_main_usage(usage.command, "no kernel %.100s; did you mean %s?", names[k], near);
        else if (!found) rc = och_main_usage(usage.command, "no kernel %.100s; ochre kernels ls lists them", names[k]);
    }
    och_kernel_files_close(&files);
    return rc;
}

int och_cmd_kernels_test(int argc, char **argv) {
    const char *device = "auto", *names[MAX_NAMES];
    bool json = false;
    int n_names;
    const och_opt opts[] = {
        {"device", 'd', OCH_OPT_STR, &device, 0, 0, "D", "see `ochre devices` (default: auto)", NULL},
        {"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object", NULL},
    };
    int rc = och_opts_parse(&usage, opts, sizeof opts / sizeof *opts, argc, argv, names, MAX_NAMES, &n_names);
    if (rc < 0 && n_names) rc = check_names(names, n_names);
    if (rc >= 0) return rc;
    och_err err;
    och_err_clear(&err);
    och_device *d = NULL;
    och_queue *q = NULL;
    och_status st = och_device_open(device, NULL, &d, &err);
    if (st == OCH_OK && !d->info.wave_size)
        st = och_err_set(&err, OCH_UNSUPPORTED, "device %s runs no kernels: name a GPU, or a simulated board (sim:gfx1151)", d->info.label);
    if (st == OCH_OK) st = d->vtable->queue_create(d, &q, &err);
    rc = st == OCH_OK ? run(d, q, names, n_names, json) : och_main_fail(&err);
    if (q) d->vtable->queue_destroy(q);
    if (d) och_device_release(d);
    return rc;
}
