/* ochre kernels check and pack: many kernels for many targets, on all CPUs. */
#include "main/kernels.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "jit/kernel.h"
#include "jit/pack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The boards of the simulator, the two AMD targets beside them, and NVIDIA's as PTX. */
static const char all_targets[] = "gfx906,gfx908,gfx90a,gfx942,gfx950,gfx1030,gfx1100,gfx1101,gfx1102,gfx1103,gfx1150,gfx1151,gfx1152,"
                                  "gfx1153,gfx1200,gfx1201,gfx1250,sm_80,sm_90";
#define MAX_TARGETS 64

typedef struct outcome {
    och_status status;
    och_jit_resources resources;
    char message[320];
} outcome;

typedef struct job {
    och_kernel_specs specs;
    och_kl_profile targets[MAX_TARGETS];
    int n_targets;
    och_jit *jit;
    outcome *outcomes;         /* of specification i and target t: [i * n_targets + t] */
    och_jit_artifact **artifacts; /* NULL: not kept */
    och_jit_kernel **kernels;
    atomic_size_t done;
    double last_told; /* when the progress was printed */
    bool is_terminal, has_told;
    pthread_mutex_t telling;
    atomic_bool stop;
} job;

static void run_one(job *j, size_t at) {
    const och_kernel_spec *spec = &j->specs.items[at / (size_t)j->n_targets];
    outcome *o = &j->outcomes[at];
    och_strbuf diag = {0};
    och_err err = {0};
    och_jit_artifact *a = NULL;
    och_jit_kernel *k = och_calloc(1, sizeof *k);
    o->status = k ? och_jit_kernel_init(k, spec->unit, spec->kernel->name, spec->bindings, spec->n_bindings, &j->targets[at % (size_t)j->n_targets],
                                        &diag, &err)
                  : och_err_nomem(&err, sizeof *k, "a kernel");
    if (o->status == OCH_OK) o->status = och_jit_get(j->jit, &k->request, &a, &diag, &err);
    if (o->status == OCH_OK) {
        o->resources = a->resources;
        const och_jit_resources *r = &o->resources;
        if (spec->decode && r->known && (r->vgpr_spills || r->sgpr_spills || r->scratch_bytes)) {
            o->status = OCH_COMPILE;
            snprintf(o->message, sizeof o->message, "a decode kernel that spills: %u vector and %u scalar registers, %u bytes of scratch memory",
                     (unsigned)r->vgpr_spills, (unsigned)r->sgpr_spills, (unsigned)r->scratch_bytes);
        }
    } else
        snprintf(o->message, sizeof o->message, "%.300s", err.message);
    if (j->artifacts && o->status == OCH_OK) j->artifacts[at] = a, j->kernels[at] = k;
    else {
        och_jit_artifact_destroy(a);
        if (k) och_jit_kernel_deinit(k);
        och_free(k);
    }
    och_strbuf_deinit(&diag);
    atomic_fetch_add(&j->done, 1);
}

/* On a terminal a line that is kept up to date; elsewhere a line from time to time. */
static void tell_progress(job *j) {
    double now = och_now_seconds();
    pthread_mutex_lock(&j->telling);
    if (now - j->last_told >= (j->is_terminal ? 0.2 : 10.0)) {
        size_t n = j->specs.n * (size_t)j->n_targets;
        fprintf(stderr, j->is_terminal ? "\r%zu of %zu kernels" : "%zu of %zu kernels\n", atomic_load(&j->done), n);
        fflush(stderr);
        j->last_told = now, j->has_told = true;
    }
    pthread_mutex_unlock(&j->telling);
}

static void run_range(void *arg, size_t begin, size_t end, const och_pool_member *me) {
    job *j = arg;
    (void)me;
    for (size_t i = begin; i < end && !atomic_load(&j->stop); i++) {
        run_one(j, i);
        tell_progress(j);
        if (och_main_interrupted()) atomic_store(&j->stop, true);
    }
}

static int parse_targets(job *j, const char *command, const char *list) {
    och_err err = {0};
    char one[OCH_TARGET_NAME_BYTES + 1];
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (j->n_targets == MAX_TARGETS || n >= sizeof one) return och_main_usage(command, "--target: expected at most %d names", MAX_TARGETS);
        snprintf(one, sizeof one, "%.*s", (int)n, p);
        if (och_kl_profile_init(&j->targets[j->n_targets], one, 0, &err) != OCH_OK) return och_main_fail(&err);
        j->n_targets++;
        p += n + (p[n] == ',');
    }
    return j->n_targets ? -1 : och_main_usage(command, "--target: expected names separated by commas");
}

/* Compiles all; -1, or the exit code. */
static int run_all(job *j, int32_t threads, bool no_cache, bool keep) {
    och_pool *pool = NULL;
    och_err err = {0};
    size_t n = j->specs.n * (size_t)j->n_targets;
    const och_jit_options options = {.only_these_packs = true, .no_cache = no_cache, .cancel = &j->stop};
    j->outcomes = och_calloc(n + 1, sizeof *j->outcomes);
    if (keep) j->artifacts = och_calloc(n + 1, sizeof *j->artifacts);
    if (keep) j->kernels = och_calloc(n + 1, sizeof *j->kernels);
    if (!j->outcomes || (keep && (!j->artifacts || !j->kernels))) return och_main_error("out of memory");
    och_status st = och_jit_create(&options, &j->jit, &err);
    if (st == OCH_OK) st = och_pool_create(threads, &pool, &err);
    if (st != OCH_OK) return och_main_fail(&err);
    och_main_catch_interrupt();
    pthread_mutex_init(&j->telling, NULL);
    j->is_terminal = isatty(STDERR_FILENO) == 1, j->last_told = och_now_seconds();
    och_pool_for_dynamic(pool, n, 1, run_range, j);
    och_pool_destroy(pool);
    pthread_mutex_destroy(&j->telling);
    if (j->is_terminal && j->has_told) fputs("\r\033[K", stderr);
    if (!atomic_load(&j->stop)) return -1;
    fputs("ochre: interrupted\n", stderr);
    return OCH_EXIT_INTERRUPTED;
}

static void job_deinit(job *j) {
    for (size_t i = 0; i < j->specs.n * (size_t)j->n_targets; i++) {
        if (j->artifacts) och_jit_artifact_destroy(j->artifacts[i]);
        if (j->kernels && j->kernels[i]) {
            och_jit_kernel_deinit(j->kernels[i]);
            och_free(j->kernels[i]);
        }
    }
    och_free(j->artifacts);
    och_free(j->kernels);
    och_free(j->outcomes);
    och_jit_destroy(j->jit);
    och_kernel_specs_deinit(&j->specs);
}

static bool named(const char *const *names, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return true;
    return n == 0;
}

/* The kernel is one of a file's own, or comes by an earlier file's use. */
static bool is_own(const och_kernel_files *files, int before, const char *name) {
    for (int f = 0; f < files->n; f++) {
        if (f < before && och_kernel_named(files->units[f], name)) return true;
        for (const och_kl_decl *d = NULL; (d = och_kernel_next(files->units[f], d));)
            if (!strcmp(d->name, name)) return true;
    }
    return false;
}

/* The specialisations of the kernels that were named, or of all. */
static int collect(job *j, const char *command, const och_kernel_files *files, const char *list, bool all, const char *const *names, int n_names,
                   och_strbuf *single) {
    och_err err = {0};
    for (int i = 0; i < n_names; i++) {
        bool found = false;
        for (int f = 0; f < files->n; f++) found |= och_kernel_named(files->units[f], names[i]) != NULL;
        if (found) continue;
        och_strbuf own = {0};
        for (int f = 0; f < files->n; f++)
            for (const och_kl_decl *d = NULL; (d = och_kernel_next(files->units[f], d));) och_strbuf_printf(&own, "%s%s", own.size ? ", " : "", d->name);
        int rc = och_main_usage(command, "no kernel %.100s; kernels of the files: %.1500s", names[i], own.size ? och_strbuf_str(&own) : "none");
        och_strbuf_deinit(&own);
        return rc;
    }
    if (list) return och_kernel_specs_read(list, files, &j->specs, &err) == OCH_OK ? -1 : och_main_fail(&err);
    for (int f = 0; f < files->n; f++)
        for (const och_kl_decl *d = files->units[f]->decls; d; d = d->next) {
            /* Of a used file those that were asked for, where no file of the list has them as its own. */
            if (d->kind != OCH_KL_D_KERNEL || !named(names, n_names, d->name)) continue;
            if (d->pos.file != files->units[f]->files && (!n_names || is_own(files, f, d->name))) continue;
            size_t before = j->specs.n;
            if (och_kernel_specs_of(files->units[f], d, all, &j->specs, &err) != OCH_OK) return och_main_fail(&err);
            och_strbuf one = {0};
            if (single) och_kernel_specs_single(d, j->specs.items + before, j->specs.n - before, &one);
            if (one.size) och_strbuf_printf(single, "%s:%u: %s is checked with one value only of %s\n", d->pos.file->name, (unsigned)d->pos.line, d->name, one.data);
            och_strbuf_deinit(&one);
        }
    if (!j->specs.n) return och_main_usage(command, "%.200s has no kernel of its own: name one of those that it uses", files->units[0]->files->name);
    return -1;
}

/* ---- check ---- */

static const och_usage check_usage = {
    "kernels check", "[KERNEL...] [options]",
    "Compiles the kernels for a list of targets, in the specialisations that a list or the comments above each kernel name:\n"
    "  // check: F=Q4_K,F16 B=1,8   the first value of each, then each other value of one with the first ones of the rest\n"
    "  // decode                    the kernel may not spill registers\n"
    "Fails where something does not compile, a decode kernel spills, or (--strict) a parameter has one value only.\n",
    "  ochre kernels check\n  ochre kernels check matvec --target gfx1151,gfx942\n  ochre kernels check --file my.ok --no-cache\n"};

static void put_row(const job *j, size_t at, bool json, bool first, och_strbuf *b) {
    const och_kernel_spec *s = &j->specs.items[at / (size_t)j->n_targets];
    const outcome *o = &j->outcomes[at];
    const och_jit_resources *r = &o->resources;
    och_strbuf values = {0};
    for (int i = 0; i < s->n_bindings; i++) och_strbuf_printf(&values, "%s%s=%s", i ? "," : "", s->bindings[i].name, s->bindings[i].value);
    if (json) {
        och_strbuf_printf(b, "%s\n{\"kernel\": \"%s\", \"parameters\": ", first ? "" : ",", s->kernel->name);
        och_strbuf_json(b, och_strbuf_str(&values), values.size);
        och_strbuf_printf(b, ", \"target\": \"%s\", \"ok\": %s", j->targets[at % (size_t)j->n_targets].target.name, o->status == OCH_OK ? "true" : "false");
        if (r->known)
            och_strbuf_printf(b, ", \"vgprs\": %u, \"agprs\": %u, \"sgprs\": %u, \"vgpr_spills\": %u, \"sgpr_spills\": %u, \"lds_bytes\": %u, \"scratch_bytes\": %u",
                              (unsigned)r->vgprs, (unsigned)r->agprs, (unsigned)r->sgprs, (unsigned)r->vgpr_spills, (unsigned)r->sgpr_spills,
                              (unsigned)r->lds_bytes, (unsigned)r->scratch_bytes);
        if (o->status != OCH_OK) och_strbuf_puts(b, ", \"message\": ");
        if (o->status != OCH_OK) och_strbuf_json(b, o->message, strlen(o->message));
        och_strbuf_puts(b, "}");
    } else if (o->status != OCH_OK)
        och_strbuf_printf(b, "%s %s for %s: %s\n", s->kernel->name, och_strbuf_str(&values), j->targets[at % (size_t)j->n_targets].target.name, o->message);
    och_strbuf_deinit(&values);
}

int och_cmd_kernels_check(int argc, char **argv) {
    const char *names[64], *file = NULL, *list = NULL, *targets = all_targets;
    int32_t threads = 0;
    bool json = false, no_cache = false, strict = false;
    int n_names = 0;
    const och_opt opts[] = {
        {"target", 't', OCH_OPT_STR, &targets, 0, 0, "LIST", "targets, separated by commas (default: all that Ochre is checked for)", NULL},
        {"file", 'f', OCH_OPT_STR, &file, 0, 0, "FILE", "a .ok file in place of the built-in ones", NULL},
        {"list", 0, OCH_OPT_STR, &list, 0, 0, "FILE", "lines KERNEL NAME=VALUE,VALUE ... in place of the comments", NULL},
        {"jobs", 'j', OCH_OPT_I32, &threads, 1, OCH_POOL_MAX_THREADS, "N", "compilers at the same time (default: one a CPU)", NULL},
        {"no-cache", 0, OCH_OPT_FLAG, &no_cache, 0, 0, NULL, "compile all of it again", NULL},
        {"strict", 0, OCH_OPT_FLAG, &strict, 0, 0, NULL, "at least two values of each parameter", NULL},
        {"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object", NULL},
    };
    int rc = och_opts_parse(&check_usage, opts, sizeof opts / sizeof *opts, argc, argv, names, 64, &n_names);
    och_kernel_files files;
    if (rc >= 0) return rc;
    if ((rc = och_kernel_files_open(&files, file ? &file : NULL, 1)) >= 0) return rc;
    job j = {0};
    och_strbuf out = {0}, single = {0};
    size_t wrong = 0;
    double begin = och_now_seconds();
    rc = parse_targets(&j, check_usage.command, targets);
    if (rc < 0) rc = collect(&j, check_usage.command, &files, list, false, names, n_names, &single);
    och_strbuf astray = {0};
    for (int f = 0; f < files.n && !list; f++) och_kernel_specs_astray(files.units[f], &astray);
    if (rc < 0) fputs(och_strbuf_str(&astray), stderr);
    och_strbuf_deinit(&astray);
    if (rc < 0) rc = run_all(&j, threads, no_cache, false);
    size_t n = j.specs.n * (size_t)j.n_targets;
    if (rc < 0) {
        och_jit_counts counts;
        och_jit_get_counts(j.jit, &counts);
        if (json) och_strbuf_puts(&out, "{\"results\": [");
        for (size_t i = 0; i < n; i++) {
            wrong += j.outcomes[i].status != OCH_OK;
            put_row(&j, i, json, i == 0, &out);
        }
        if (json) och_strbuf_printf(&out, "],\n\"wrong\": %zu, \"seconds\": %.1f}\n", wrong, och_now_seconds() - begin);
        else {
            och_strbuf_puts(&out, och_strbuf_str(&single));
            och_strbuf_printf(&out, "%zu specialisations for %d targets: %zu of %zu compiled, %llu of them taken from the cache, in %.1f s\n", j.specs.n,
                              j.n_targets, n - wrong, n, (unsigned long long)counts.from_cache, och_now_seconds() - begin);
        }
        if (out.failed || single.failed) rc = och_main_error("out of memory");
        else fputs(och_strbuf_str(&out), stdout);
    }
    if (rc < 0 && (wrong || (strict && single.size))) rc = OCH_EXIT_FAILURE;
    och_strbuf_deinit(&out);
    och_strbuf_deinit(&single);
    job_deinit(&j);
    och_kernel_files_close(&files);
    return rc < 0 ? OCH_EXIT_OK : rc;
}

/* ---- pack ---- */

static const och_usage pack_usage = {
    "kernels pack", "-o FILE --target LIST [KERNEL...] [options]",
    "Compiles kernels for a list of targets into one file, with their geometry and argument layouts: a machine with the pack\n"
    "needs no compiler. Which specialisations go into it a list says, or the comments above each kernel:\n"
    "  // pack: F=Q4_K,F16 B=1,8   every combination; those of // check: where a kernel has none\n"
    "Packs are found beside the program, in ../share/ochre/packs from there, and where OCHRE_PACK says.\n",
    "  ochre kernels pack -o gfx11.okpack --target gfx1100,gfx1151\n  ochre kernels pack -o mine.okpack --target gfx942 --list kernels.txt\n"};

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
    int rc = och_opts_parse(&pack_usage, opts, sizeof opts / sizeof *opts, argc, argv, names, 64, &n_names);
    och_kernel_files files;
    if (rc >= 0) return rc;
    if (!path || !targets) return och_main_usage(pack_usage.command, "%s is needed", path ? "--target" : "-o FILE");
    if ((rc = och_kernel_files_open(&files, file ? &file : NULL, 1)) >= 0) return rc;
    job j = {0};
    och_pack_writer *writer = NULL;
    och_err err = {0};
    rc = parse_targets(&j, pack_usage.command, targets);
    if (rc < 0) rc = collect(&j, pack_usage.command, &files, list, true, names, n_names, NULL);
    if (rc < 0) rc = run_all(&j, threads, false, true);
    size_t n = j.specs.n * (size_t)j.n_targets, wrong = 0;
    if (rc < 0) {
        och_strbuf out = {0};
        for (size_t i = 0; i < n; i++) {
            wrong += j.outcomes[i].status != OCH_OK;
            put_row(&j, i, false, false, &out);
        }
        fputs(och_strbuf_str(&out), stderr);
        och_strbuf_deinit(&out);
        if (wrong) rc = och_main_error("%zu of %zu kernels could not be made; nothing is written", wrong, n);
    }
    if (rc < 0) {
        och_status st = och_pack_writer_create(&writer, &err);
        for (size_t i = 0; i < n && st == OCH_OK; i++) st = och_pack_writer_add(writer, &j.kernels[i]->request, j.artifacts[i], &err);
        if (st == OCH_OK) st = och_pack_writer_write(writer, path, &err);
        if (st != OCH_OK) rc = och_main_fail(&err);
        else printf("%s: %zu kernels for %d targets\n", path, n, j.n_targets);
        och_pack_writer_destroy(writer);
    }
    job_deinit(&j);
    och_kernel_files_close(&files);
    return rc < 0 ? OCH_EXIT_OK : rc;
}
