/* Many kernels for many targets, on all CPUs: what `ochre kernels check` and `pack` share. */
#include "main/kernels.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/thread.h"
#include "jit/kernel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct och_kernels_progress {
    atomic_size_t done, wrong;
    double began, last_told; /* when the progress was printed */
    bool is_terminal, has_told;
    pthread_mutex_t telling;
    atomic_bool stop;
} progress;

/* ---- what is to be done ---- */

int och_kernels_job_targets(och_kernels_job *j, const char *command, const char *list) {
    och_err err = {0};
    char one[OCH_TARGET_NAME_BYTES + 1];
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (j->n_targets == OCH_KERNELS_MAX_TARGETS || n >= sizeof one)
            return och_main_usage(command, "--target: expected at most %d names", OCH_KERNELS_MAX_TARGETS);
        snprintf(one, sizeof one, "%.*s", (int)n, p);
        if (och_kl_profile_init(&j->targets[j->n_targets], one, 0, &err) != OCH_OK) return och_main_fail(&err);
        j->n_targets++;
        p += n + (p[n] == ',');
    }
    return j->n_targets ? -1 : och_main_usage(command, "--target: expected names separated by commas");
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

int och_kernels_job_collect(och_kernels_job *j, const char *command, const och_kernel_files *files, const char *list, bool all,
                            const char *const *names, int n_names) {
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
            if (och_kernel_specs_of(files->units[f], d, all, &j->specs, &err) != OCH_OK) return och_main_fail(&err);
        }
    if (!j->specs.n) return och_main_usage(command, "%.200s has no kernel of its own: name one of those that it uses", files->units[0]->files->name);
    return -1;
}

/* ---- doing it ---- */

static void run_one(och_kernels_job *j, size_t at) {
    const och_kernel_spec *spec = &j->specs.items[at / (size_t)j->n_targets];
    const och_kl_profile *target = &j->targets[at % (size_t)j->n_targets];
    och_kernel_outcome *o = &j->outcomes[at];
    och_strbuf diag = {0};
    och_err err = {0};
    och_jit_artifact *a = NULL;
    double begin = och_now_seconds();
    och_jit_kernel *k = och_calloc(1, sizeof *k);
    o->tried = true;
    o->status = k ? och_jit_kernel_init(k, spec->unit, spec->kernel->name, spec->bindings, spec->n_bindings, target, &diag, &err)
                  : och_err_nomem(&err, sizeof *k, "a kernel");
    if (o->status == OCH_OK) {
        snprintf(o->parameters, sizeof o->parameters, "%s", k->signature.spec);
        och_jit *jit = j->ptx && target->target.target->vendor == OCH_VENDOR_NVIDIA ? j->ptx : j->jit;
        o->status = och_jit_get(jit, &k->request, &a, &diag, &err);
    }
    if (o->status == OCH_OK) {
        const och_jit_resources *r = &a->resources;
        o->resources = *r, o->code_bytes = a->code_bytes, o->has_code = true, o->from_cache = a->origin == OCH_JIT_FROM_CACHE;
        if ((spec->marks & OCH_KERNEL_DECODE) && r->known && (r->vgpr_spills || r->sgpr_spills || r->scratch_bytes))
            o->status = och_err_set(&err, OCH_COMPILE, "a decode kernel that spills: %u vector and %u scalar registers, %u bytes of scratch memory",
                                    (unsigned)r->vgpr_spills, (unsigned)r->sgpr_spills, (unsigned)r->scratch_bytes);
        else if (j->look)
            o->status = och_kernel_look(spec, o->parameters, target, a, &o->n_matrix, &o->n_dot4, &err);
    }
    if (o->status != OCH_OK) snprintf(o->message, sizeof o->message, "%.300s", err.message);
    if (j->artifacts && o->status == OCH_OK) j->artifacts[at] = a, j->kernels[at] = k;
    else {
        och_jit_artifact_destroy(a);
        if (k) och_jit_kernel_deinit(k);
        och_free(k);
    }
    och_strbuf_deinit(&diag);
    o->seconds = och_now_seconds() - begin;
    if (o->status != OCH_OK) atomic_fetch_add(&j->progress->wrong, 1);
    atomic_fetch_add(&j->progress->done, 1);
}

/* On a terminal a line that is kept up to date; elsewhere a line from time to time. */
static void tell(och_kernels_job *j) {
    progress *p = j->progress;
    double now = och_now_seconds();
    pthread_mutex_lock(&p->telling);
    if (now - p->last_told >= (p->is_terminal ? 0.2 : 10.0)) {
        size_t n = j->specs.n * (size_t)j->n_targets, done = atomic_load(&p->done), wrong = atomic_load(&p->wrong);
        double left = done ? (now - p->began) / (double)done * (double)(n - done) : 0;
        fprintf(stderr, "%s%zu of %zu kernels", p->is_terminal ? "\r" : "", done, n);
        if (wrong) fprintf(stderr, ", %zu wrong", wrong);
        if (now - p->began > 5) fprintf(stderr, ", about %.0f s left", left);
        fputs(p->is_terminal ? "\033[K" : "\n", stderr);
        fflush(stderr);
        p->last_told = now, p->has_told = true;
    }
    pthread_mutex_unlock(&p->telling);
}

static void run_range(void *arg, size_t begin, size_t end, const och_pool_member *me) {
    och_kernels_job *j = arg;
    (void)me;
    for (size_t i = begin; i < end && !atomic_load(&j->progress->stop); i++) {
        run_one(j, i);
        tell(j);
        if (och_main_interrupted()) atomic_store(&j->progress->stop, true);
    }
}

int och_kernels_job_run(och_kernels_job *j, int32_t threads, bool no_cache, bool keep) {
    och_pool *pool = NULL;
    och_err err = {0};
    size_t n = j->specs.n * (size_t)j->n_targets;
    j->progress = och_calloc(1, sizeof *j->progress);
    j->outcomes = och_calloc(n + 1, sizeof *j->outcomes);
    if (keep) j->artifacts = och_calloc(n + 1, sizeof *j->artifacts);
    if (keep) j->kernels = och_calloc(n + 1, sizeof(och_jit_kernel *));
    if (!j->progress || !j->outcomes || (keep && (!j->artifacts || !j->kernels))) return och_main_error("out of memory");
    progress *p = j->progress;
    och_jit_options options = {.only_these_packs = true, .no_cache = no_cache, .cancel = &p->stop};
    och_status st = och_jit_create(&options, &j->jit, &err);
    if (j->look && !och_env_get(OCH_ENV_OCHRE_JIT_COMPILER)) options.compiler = "clang";
    if (st == OCH_OK && j->look) st = och_jit_create(&options, &j->ptx, &err);
    if (st == OCH_OK) st = och_pool_create(threads, &pool, &err);
    if (st != OCH_OK) return och_main_fail(&err);
    och_main_catch_interrupt();
    pthread_mutex_init(&p->telling, NULL);
    p->is_terminal = isatty(STDERR_FILENO) == 1, p->began = p->last_told = och_now_seconds();
    och_pool_for_dynamic(pool, n, 1, run_range, j);
    och_pool_destroy(pool);
    pthread_mutex_destroy(&p->telling);
    if (p->is_terminal && p->has_told) fputs("\r\033[K", stderr);
    if (!atomic_load(&p->stop)) return -1;
    fputs("ochre: interrupted\n", stderr);
    return OCH_EXIT_INTERRUPTED;
}

void och_kernels_job_deinit(och_kernels_job *j) {
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
    och_free(j->progress);
    och_jit_destroy(j->jit);
    och_jit_destroy(j->ptx);
    och_kernel_specs_deinit(&j->specs);
}
