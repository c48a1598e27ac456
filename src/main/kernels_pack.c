/* ochre kernels pack: kernels for machines without a compiler. */
#include "main/kernels.h"

#include "base/thread.h"
#include "jit/kernel.h"
#include "jit/pack.h"

#include <stdio.h>

static const och_usage usage = {
    "kernels pack", "-o FILE --target LIST [KERNEL...] [options]",
    "Compiles kernels for a list of targets into one file, with their geometry and argument layouts: a machine with the pack\n"
    "needs no compiler. Which specialisations go into it a list says, or the comments above each kernel:\n"
    "  // pack: F=Q4_K,F16 B=1,8   every combination; those of // check: where a kernel has none; // pack: alone: nothing\n"
    "Packs are found beside the program, in ../share/ochre/packs from there, and where OCHRE_PACK says.\n",
    "  ochre kernels pack -o gfx11.okpack --target gfx1100,gfx1151\n  ochre kernels pack -o mine.okpack --target gfx942 --list kernels.txt\n"};

/* What is wrong, on stderr; how much of it. */
static size_t print_wrong(const och_kernels_job *j) {
    size_t wrong = 0;
    for (size_t i = 0; i < j->specs.n * (size_t)j->n_targets; i++) {
        const och_kernel_outcome *o = &j->outcomes[i];
        if (o->status == OCH_OK) continue;
        const och_kernel_spec *s = &j->specs.items[i / (size_t)j->n_targets];
        fprintf(stderr, "%s", s->kernel->name);
        for (int k = 0; k < s->n_bindings; k++) fprintf(stderr, "%c%s=%s", k ? ',' : ' ', s->bindings[k].name, s->bindings[k].value);
        fprintf(stderr, " for %s: %s\n", j->targets[i % (size_t)j->n_targets].target.name, o->message);
        wrong++;
    }
    return wrong;
}

int och_cmd_kernels_pack(int argc, char **argv) {
    const char *names[64], *file = NULL, *list = NULL, *targets = NULL, *path = NULL;
    int32_t threads = 0;
    int n_names = 0;
    const och_opt opts[] = {
        {"output", 'o', OCH_OPT_STR, &path, 0, 0, "FILE", "the pack", NULL},
        {"target", 't', OCH_OPT_STR, &targets, 0, 0, "LIST", "targets, separated by commas; generic ones too (gfx11-generic)", NULL},
        {"file", 'f', OCH_OPT_STR, &file, 0, 0, "FILE", "a .ok file in place of the built-in ones", NULL},
        {"list", 0, OCH_OPT_STR, &list, 0, 0, "FILE", "lines KERNEL NAME=VALUE,VALUE ... in place of the comments", NULL},
        {"jobs", 'j', OCH_OPT_I32, &threads, 1, OCH_POOL_MAX_THREADS, "N", "compilers at the same time (default: one a CPU)", NULL},
    };
    int rc = och_opts_parse(&usage, opts, sizeof opts / sizeof *opts, argc, argv, names, 64, &n_names);
    och_kernel_files files;
    if (rc >= 0) return rc;
    if (!path || !targets) return och_main_usage(usage.command, "%s is needed", path ? "--target" : "-o FILE");
    if ((rc = och_kernel_files_open(&files, file ? &file : NULL, 1)) >= 0) return rc;
    och_kernels_job j = {.keep = true};
    och_pack_writer *writer = NULL;
    och_err err = {0};
    rc = och_kernels_job_targets(&j, usage.command, targets);
    if (rc < 0) rc = och_kernels_job_collect(&j, usage.command, &files, list, true, names, n_names);
    if (rc < 0) rc = och_kernels_job_run(&j, threads, false);
    size_t n = j.specs.n * (size_t)j.n_targets, wrong = rc < 0 ? print_wrong(&j) : 0;
    if (wrong) rc = och_main_error("%zu of %zu kernels could not be made; nothing is written", wrong, n);
    if (rc < 0) {
        och_status st = och_pack_writer_create(&writer, &err);
        for (size_t i = 0; i < n && st == OCH_OK; i++) st = och_pack_writer_add(writer, &j.kernels[i]->request, j.artifacts[i], &err);
        if (st == OCH_OK) st = och_pack_writer_write(writer, path, &err);
        if (st != OCH_OK) rc = och_main_fail(&err);
        else printf("%s: %zu kernel%s for %d target%s\n", path, n, n == 1 ? "" : "s", j.n_targets, j.n_targets == 1 ? "" : "s");
        och_pack_writer_destroy(writer);
    }
    och_kernels_job_deinit(&j);
    och_kernel_files_close(&files);
    return rc < 0 ? OCH_EXIT_OK : rc;
}
