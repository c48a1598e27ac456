/* Many kernels for many targets, on all CPUs: what `ochre kernels check` and `pack` share. */
#include "main/kernels.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/thread.h"
#include "jit/check.h"
#include "jit/kernel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_TOGETHER 8

/* Specifications first .. first + n - 1 for one target. */
typedef struct batch {
    size_t first;
    int n, target;
} batch;

typedef struct och_kernels_progress {
    batch *batches;
    size_t n_batches;
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

static och_kernel_outcome *outcome_of(const och_kernels_job *j, const batch *b, int i) {
    return &j->outcomes[(b->first + (size_t)i) * (size_t)j->n_targets + (size_t)b->target];
}

static void fail(och_kernel_outcome *o, const och_err *err) {
    o->status = err->status;
    snprintf(o->message, sizeof o->message, "%.300s", err->message);
}

/* What came of a kernel, whose code is among the artifact's; `text`: its disassembly where it is marked. */
static void judge(const och_kernels_job *j, const batch *b, int i, const och_jit_kernel *k, const och_jit_artifact *a, const och_strbuf *text) {
    const och_kernel_spec *spec = &j->specs.items[b->first + (size_t)i];
    och_kernel_outcome *o = outcome_of(j, b, i);
    och_jit_job job;
    och_checked checked = {0};
    och_err err = {0};
    o->status = och_jit_job_init(&k->request, &job, &err);
    if (o->status == OCH_OK) o->status = och_jit_check(a->code, a->code_bytes, a->kind, &job, &job.target, a->code_object_version, &checked, &err);
    if (o->status == OCH_OK) {
        const och_jit_resources *r = &checked.resources;
        o->resources = *r, o->from_cache = a->origin == OCH_JIT_FROM_CACHE;
        if (j->look && (spec->marks & OCH_KERNEL_DECODE) && r->known && (r->vgpr_spills || r->sgpr_spills || r->scratch_bytes))
            o->status = och_err_set(&err, OCH_COMPILE, "a decode kernel that spills: %u vector and %u scalar registers, %u bytes of scratch memory",
                                    (unsigned)r->vgpr_spills, (unsigned)r->sgpr_spills, (unsigned)r->scratch_bytes);
        else if (text->size && och_kernel_is_marked(spec, o->parameters))
            o->status = och_kernel_look(spec, o->parameters, k->signature.entry, &j->targets[b->target], text, &o->n_matrix, &o->n_dot4, &err);
    }
    if (o->status != OCH_OK) fail(o, &err);
}

/* Compiles n kernels: one as it is, several in namespaces of one text. */
static och_status compile(const och_kernels_job *j, const batch *b, och_jit_kernel *const *k, const int *index, int n, och_jit_artifact **out_a,
                          och_strbuf *text, och_err *err) {
    const och_target *t = j->targets[b->target].target.target;
    och_jit *jit = j->ptx && t->vendor == OCH_VENDOR_NVIDIA ? j->ptx : j->jit;
    och_strbuf diag = {0}, all = {0};
    och_status st;
    if (n == 1) st = och_jit_get(jit, &k[0]->request, out_a, &diag, err);
    else {
        och_jit_request q = k[0]->request;
        for (int i = 0; i < n; i++) {
            bool again = false; /* of other comments, with the same values in the end */
            for (int e = 0; e < i; e++) again |= !strcmp(k[e]->signature.entry, k[i]->signature.entry);
            if (again) continue;
            q.own_target |= k[i]->request.own_target;
            och_strbuf_printf(&all, "namespace och_together_%d {\n", i);
            och_strbuf_append(&all, k[i]->text.data, k[i]->text.size);
            och_strbuf_puts(&all, "\n}\n");
        }
        q.specialisation = "and others", q.text = all.data, q.text_bytes = all.size;
        q.symbol = NULL, q.has_layout = false, q.args = NULL, q.n_args = 0, q.kernarg_bytes = 0, q.record = NULL, q.record_bytes = 0;
        st = och_strbuf_status(&all, err);
        if (st == OCH_OK) st = och_jit_get(jit, &q, out_a, &diag, err);
    }
    bool marked = false;
    for (int i = 0; i < n; i++) marked |= och_kernel_is_marked(&j->specs.items[b->first + (size_t)index[i]], k[i]->signature.spec);
    if (st == OCH_OK && j->look && marked && (*out_a)->kind != OCH_JIT_CUBIN) st = och_kernel_disassemble(*out_a, text, err);
    och_strbuf_deinit(&diag);
    och_strbuf_deinit(&all);
    return st;
}

static void run_batch(och_kernels_job *j, const batch *b) {
    och_jit_kernel *kernels[MAX_TOGETHER];
    int index[MAX_TOGETHER], n = 0;
    double begin = och_now_seconds();
    for (int i = 0; i < b->n; i++) {
        const och_kernel_spec *spec = &j->specs.items[b->first + (size_t)i];
        och_kernel_outcome *o = outcome_of(j, b, i);
        och_strbuf diag = {0};
        och_err err = {0};
        och_jit_kernel *k = kernels[n] = och_calloc(1, sizeof *k);
        o->status = k ? och_jit_kernel_init(k, spec->unit, spec->kernel->name, spec->bindings, spec->n_bindings, &j->targets[b->target], &diag, &err)
                      : och_err_nomem(&err, sizeof *k, "a kernel");
        if (o->status == OCH_OK) {
            snprintf(o->parameters, sizeof o->parameters, "%s", k->signature.spec);
            index[n++] = i;
        } else {
            fail(o, &err);
            if (k) och_jit_kernel_deinit(k);
            och_free(k);
        }
        och_strbuf_deinit(&diag);
    }
    /* Together; where that fails each alone, to find out which of them it was. */
    for (int from = 0, step = n; from < n; from += step) {
        och_strbuf text = {0};
        och_jit_artifact *a = NULL;
        och_err err = {0};
        och_status st = compile(j, b, kernels + from, index + from, step, &a, &text, &err);
        if (st == OCH_COMPILE && step > 1) {
            from = -1, step = 1;
        } else {
            for (int i = from; i < from + step; i++)
                if (st == OCH_OK) judge(j, b, index[i], kernels[i], a, &text);
                else fail(outcome_of(j, b, index[i]), &err);
        }
        och_strbuf_deinit(&text);
        size_t at = (b->first * (size_t)j->n_targets) + (size_t)b->target; /* of a batch of one */
        if (j->keep && st == OCH_OK) j->artifacts[at] = a, j->kernels[at] = kernels[0], n = 0;
        else och_jit_artifact_destroy(a);
    }
    for (int i = 0; i < n; i++) {
        och_jit_kernel_deinit(kernels[i]);
        och_free(kernels[i]);
    }
    double each = (och_now_seconds() - begin) / b->n;
    for (int i = 0; i < b->n; i++) {
        och_kernel_outcome *o = outcome_of(j, b, i);
        o->seconds = each;
        if (o->status != OCH_OK) atomic_fetch_add(&j->progress->wrong, 1);
        atomic_fetch_add(&j->progress->done, 1);
    }
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
        run_batch(j, &j->progress->batches[i]);
        tell(j);
        if (och_main_interrupted()) atomic_store(&j->progress->stop, true);
    }
}

/* Neighbours of one kernel, for a target after the other. */
static och_status cut(och_kernels_job *j, och_err *err) {
    size_t n = j->specs.n * (size_t)j->n_targets, most = j->keep ? 1 : MAX_TOGETHER;
    progress *p = j->progress;
    p->batches = och_calloc(n + 1, sizeof *p->batches);
    if (!p->batches) return och_err_nomem(err, n * sizeof *p->batches, "the work");
    for (size_t i = 0, next; i < j->specs.n; i = next) {
        next = i + 1;
        while (next < j->specs.n && next - i < most && j->specs.items[next].kernel == j->specs.items[i].kernel && j->specs.items[next].unit == j->specs.items[i].unit)
            next++;
        for (int t = 0; t < j->n_targets; t++) p->batches[p->n_batches++] = (batch){i, (int)(next - i), t};
    }
    return OCH_OK;
}

int och_kernels_job_run(och_kernels_job *j, int32_t threads, bool no_cache) {
    och_pool *pool = NULL;
    och_err err = {0};
    size_t n = j->specs.n * (size_t)j->n_targets;
    j->progress = och_calloc(1, sizeof *j->progress);
    j->outcomes = och_calloc(n + 1, sizeof *j->outcomes);
    if (j->keep) j->artifacts = och_calloc(n + 1, sizeof *j->artifacts);
    if (j->keep) j->kernels = och_calloc(n + 1, sizeof(och_jit_kernel *));
    if (!j->progress || !j->outcomes || (j->keep && (!j->artifacts || !j->kernels))) return och_main_error("out of memory");
    progress *p = j->progress;
    och_jit_options options = {.only_these_packs = true, .no_cache = no_cache, .cancel = &p->stop};
    och_status st = cut(j, &err);
    if (st == OCH_OK) st = och_jit_create(&options, &j->jit, &err);
    if (j->look && !och_env_get(OCH_ENV_OCHRE_JIT_COMPILER)) options.compiler = "clang";
    if (st == OCH_OK && j->look) st = och_jit_create(&options, &j->ptx, &err);
    if (st == OCH_OK) st = och_pool_create(threads, &pool, &err);
    if (st != OCH_OK) return och_main_fail(&err);
    och_main_catch_interrupt();
    pthread_mutex_init(&p->telling, NULL);
    p->is_terminal = isatty(STDERR_FILENO) == 1, p->began = p->last_told = och_now_seconds();
    och_pool_for_dynamic(pool, p->n_batches, 1, run_range, j);
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
    if (j->progress) och_free(j->progress->batches);
    och_free(j->progress);
    och_jit_destroy(j->jit);
    och_jit_destroy(j->ptx);
    och_kernel_specs_deinit(&j->specs);
}
