#include "jit/jit.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/log.h"
#include "base/size.h"
#include "jit/cache.h"
#include "jit/cache_priv.h"
#include "jit/check.h"
#include "jit/compiler.h"
#include "jit/pack.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define COMPILE_TIMEOUT_NS 300000000000u

struct och_jit {
    och_packs packs;
    och_cache *cache; /* NULL: none */
    char *only, *hiprtc_library; /* owned; NULL for none */
    uint64_t timeout_ns;
    const atomic_bool *cancel;
    pthread_mutex_t lock;     /* of compilers' creation */
    och_compilers *compilers; /* NULL until the first is needed */
    atomic_bool cache_warned, stale_warned;
    atomic_ullong from_packs, from_cache, compiled;
};

/* ---- life ---- */

static void warn_cache(och_jit *jit, const och_err *why) {
    if (!atomic_exchange(&jit->cache_warned, true))
        och_log(OCH_LOG_WARN, "compiled kernels are not kept: %s", why->message);
}

static och_status copy(const char *from, char **out, och_err *err) {
    *out = from ? och_strdup(from) : NULL;
    return from && !*out ? och_err_nomem(err, strlen(from), "the JIT") : OCH_OK;
}

och_status och_jit_create(const och_jit_options *options, och_jit **out_jit, och_err *err) {
    static const och_jit_options defaults;
    *out_jit = NULL;
    if (!options) options = &defaults;
    och_jit *jit = och_calloc(1, sizeof *jit);
    if (!jit) return och_err_nomem(err, sizeof *jit, "the JIT");
    pthread_mutex_init(&jit->lock, NULL);
    jit->timeout_ns = options->compile_timeout_ns ? options->compile_timeout_ns : COMPILE_TIMEOUT_NS;
    jit->cancel = options->cancel;
    const char *only = options->compiler ? options->compiler : och_env_get(OCH_ENV_OCHRE_JIT_COMPILER);
    och_status st = copy(only, &jit->only, err);
    if (st == OCH_OK) st = copy(options->hiprtc_library, &jit->hiprtc_library, err);
    if (st == OCH_OK) st = och_packs_open(options->packs, options->n_packs, options->only_these_packs, &jit->packs, err);
    if (st == OCH_OK && !options->no_cache) {
        och_err why = {0};
        och_status opened = och_cache_open(options->cache_dir, options->cache_limit_bytes, &jit->cache, &why);
        if (opened == OCH_NOTFOUND) warn_cache(jit, &why);
        else if (opened != OCH_OK) st = och_err_set(err, opened, "%s", why.message);
    }
    if (st != OCH_OK) {
        och_jit_destroy(jit);
        return st;
    }
    *out_jit = jit;
    return OCH_OK;
}

void och_jit_destroy(och_jit *jit) {
    if (!jit) return;
    och_packs_close(&jit->packs);
    och_cache_close(jit->cache);
    och_compilers_destroy(jit->compilers);
    och_free(jit->only);
    och_free(jit->hiprtc_library);
    pthread_mutex_destroy(&jit->lock);
    och_free(jit);
}

void och_jit_get_counts(const och_jit *jit, och_jit_counts *out) {
    *out = (och_jit_counts){atomic_load(&jit->from_packs), atomic_load(&jit->from_cache), atomic_load(&jit->compiled)};
}

/* ---- artifacts ---- */

typedef struct owner {
    och_jit_artifact artifact; /* first: a pointer to it is a pointer to this */
    void *blocks[2];           /* freed with it */
} owner;

void och_jit_artifact_destroy(och_jit_artifact *artifact) {
    owner *o = (owner *)artifact;
    if (!o) return;
    och_free(o->blocks[0]);
    och_free(o->blocks[1]);
    och_free(o);
}

/* Completes *a, whose strings are copied and whose code and record stay where they are, in `block`, which is taken where this
 * succeeds. */
static och_status make_artifact(const och_jit_artifact *a, void *block, och_jit_artifact **out, och_err *err) {
    const char *strings[] = {a->target, a->compiler, a->log, a->place};
    size_t n = 0;
    for (size_t i = 0; i < OCH_COUNT(strings); i++) n += strlen(strings[i]) + 1;
    owner *o = och_calloc(1, sizeof *o);
    char *text = och_malloc(n);
    if (!o || !text) {
        och_free(o);
        och_free(text);
        return och_err_nomem(err, sizeof *o + n, "an artifact");
    }
    o->artifact = *a;
    o->blocks[0] = block;
    o->blocks[1] = text;
    const char **fields[] = {&o->artifact.target, &o->artifact.compiler, &o->artifact.log, &o->artifact.place};
    for (size_t i = 0; i < OCH_COUNT(strings); i++) {
        size_t size = strlen(strings[i]) + 1;
        memcpy(text, strings[i], size);
        *fields[i] = text;
        text += size;
    }
    *out = &o->artifact;
    return OCH_OK;
}

/* ---- packs ---- */

/* NOTFOUND: no pack has it. A broken or wrong entry is a warning, and the next pack is looked at. */
static och_status from_packs(och_jit *jit, const och_jit_job *job, och_jit_artifact **out, och_err *err) {
    for (size_t i = 0; i < jit->packs.n; i++) {
        const och_pack *pack = jit->packs.items[i];
        bool stale;
        const och_pack_entry *e = och_pack_find(pack, job, &stale);
        if (stale && !atomic_exchange(&jit->stale_warned, true))
            och_log(OCH_LOG_WARN, "%s: its %s was made from another source than this program's, and is passed over",
                    och_pack_path(pack), job->kernel);
        if (!e) continue;
        och_err why = {0};
        uint8_t *block;
        och_status st = och_pack_take(pack, e, &block, &why);
        och_checked checked;
        if (st == OCH_OK) {
            st = och_jit_check(block, (size_t)e->code_bytes, e->kind, job, &e->target, e->code_object_version, &checked, &why);
            if (st == OCH_OK)
                st = make_artifact(&(och_jit_artifact){.code = block,
                                                       .code_bytes = (size_t)e->code_bytes,
                                                       .kind = e->kind,
                                                       .target = e->target.name,
                                                       .wave_size = e->wave_size,
                                                       .code_object_version = e->code_object_version,
                                                       .record = block + e->code_bytes + 1,
                                                       .record_bytes = (size_t)e->record_bytes,
                                                       .compiler = e->compiler,
                                                       .log = "",
                                                       .origin = OCH_JIT_FROM_PACK,
                                                       .place = och_pack_path(pack),
                                                       .resources = checked.resources},
                                   block, out, &why);
            if (st == OCH_OK) return OCH_OK;
            och_free(block);
        }
        if (st == OCH_NOMEM) return och_err_set(err, st, "%s", why.message);
        och_log(OCH_LOG_WARN, "%s: an entry is passed over: %s", och_pack_path(pack), why.message);
    }
    return OCH_NOTFOUND;
}

/* What to say, after `why` no compiler could do it, about packs. */
static och_status no_pack(och_jit *jit, const och_jit_job *job, och_status status, const char *why, och_err *err) {
    och_strbuf have = {0};
    bool covered = false;
    for (size_t i = 0; i < jit->packs.n; i++) {
        bool covers = och_pack_covers(jit->packs.items[i], &job->target);
        covered |= covers;
        och_strbuf_printf(&have, "%s%s has", i ? ", " : "", och_pack_path(jit->packs.items[i]));
        och_pack_put_targets(jit->packs.items[i], &have);
    }
    char what[300];
    const char *file = job->target.target->name;
    if (covered) snprintf(what, sizeof what, "no pack of %s has %s %s", file, job->kernel, job->specialisation);
    else snprintf(what, sizeof what, "no pack is for %s", job->target.name);
    och_status st = och_err_set(
        err, status, "%.120s: %s%s%.160s%s; one is built by: ochre kernels pack --target %s -o %s%s; %s", job->label, what,
        have.size ? " (" : "", och_strbuf_str(&have), have.size ? ")" : "", job->target.name, file, OCH_PACK_SUFFIX, why);
    och_strbuf_deinit(&have);
    return st;
}

/* ---- the cache ---- */

static och_status use_entry(const och_jit_job *job, och_cache_entry *e, const char *place, och_jit_artifact **out,
                            och_err *err) {
    och_checked checked;
    if (strcmp(e->target, job->target.name) || e->wave_size != job->wave_size ||
        e->code_object_version != (e->kind == OCH_JIT_HSACO ? job->code_object_version : 0))
        return och_err_set(err, OCH_CORRUPT, "%s: expected an entry for wave%d, found one for %s, wave%d", job->label,
                           job->wave_size, e->target, e->wave_size);
    OCH_TRY(och_jit_check(e->code, e->code_bytes, e->kind, job, &job->target, job->code_object_version, &checked, err));
    OCH_TRY(make_artifact(&(och_jit_artifact){.code = e->code,
                                              .code_bytes = e->code_bytes,
                                              .kind = e->kind,
                                              .target = e->target,
                                              .wave_size = e->wave_size,
                                              .code_object_version = e->code_object_version,
                                              .record = e->record,
                                              .record_bytes = e->record_bytes,
                                              .compiler = e->compiler,
                                              .log = e->log,
                                              .origin = OCH_JIT_FROM_CACHE,
                                              .place = place,
                                              .resources = checked.resources},
                          e->owned, out, err));
    e->owned = NULL;
    return OCH_OK;
}

/* NOTFOUND: not there; CORRUPT: there, and broken, stale or not what it should be; IO. */
static och_status from_cache(och_jit *jit, const och_jit_job *job, const char *key, och_jit_artifact **out, och_err *err) {
    och_cache_entry e;
    och_strbuf place = {0};
    OCH_TRY(och_cache_load(jit->cache, key, &e, err));
    och_status st = och_cache_path(jit->cache, key, &place, err);
    if (st == OCH_OK) st = use_entry(job, &e, och_strbuf_str(&place), out, err);
    och_cache_entry_deinit(&e);
    och_strbuf_deinit(&place);
    return st;
}

/* ---- compiling ---- */

static const atomic_bool *cancel_of(const och_jit *jit, const och_jit_job *job) {
    return job->request->cancel ? job->request->cancel : jit->cancel;
}

static och_status compile(och_jit *jit, const och_jit_job *job, const och_candidate *compiler, const char *key, bool store,
                          och_jit_artifact **out, och_strbuf *log, och_err *err) {
    och_compiled made;
    och_checked checked;
    och_strbuf place = {0}, scratch = {0};
    och_log(OCH_LOG_INFO, "%s: compiling with %s", job->label, compiler->label);
    och_err no_scratch = {0}; /* then the compiler looks for a folder itself */
    bool has_scratch = store && och_cache_scratch(jit->cache, key, &scratch, &no_scratch) == OCH_OK;
    const och_compile_limits limits = {jit->timeout_ns, cancel_of(jit, job), has_scratch ? scratch.data : NULL};
    och_status st = och_compile(compiler, job, &limits, &made, err);
    if (has_scratch) och_cache_remove_dir(scratch.data);
    och_strbuf_deinit(&scratch);
    if (log) och_strbuf_append(log, och_strbuf_str(&made.log), made.log.size);
    if (st == OCH_OK) {
        st = och_jit_check(made.code, made.code_bytes, made.kind, job, &job->target, job->code_object_version, &checked, err);
        if (st != OCH_OK) och_err_prefix(err, "what %s made", compiler->label);
    }
    if (st != OCH_OK) goto done;
    och_jit_artifact a = {.code = made.code,
                          .code_bytes = made.code_bytes,
                          .kind = made.kind,
                          .target = job->target.name,
                          .wave_size = job->wave_size,
                          .code_object_version = checked.code_object_version,
                          .compiler = compiler->label,
                          .log = och_strbuf_str(&made.log),
                          .origin = OCH_JIT_FROM_COMPILER,
                          .place = "",
                          .resources = checked.resources};
    /* code, NUL, record: one block */
    uint8_t *block = och_realloc(made.code, made.code_bytes + 1 + job->request->record_bytes);
    if (!block) {
        st = och_err_nomem(err, made.code_bytes + job->request->record_bytes, "an artifact");
        goto done;
    }
    made.code = block;
    block[made.code_bytes] = 0;
    if (job->request->record_bytes) memcpy(block + made.code_bytes + 1, job->request->record, job->request->record_bytes);
    a.code = block;
    a.record = block + made.code_bytes + 1;
    a.record_bytes = job->request->record_bytes;
    if (store) {
        och_err why = {0};
        och_status stored = och_cache_store(jit->cache, key,
                                            &(och_cache_entry){.code = a.code,
                                                               .code_bytes = a.code_bytes,
                                                               .record = a.record,
                                                               .record_bytes = a.record_bytes,
                                                               .log = a.log,
                                                               .kind = a.kind,
                                                               .wave_size = a.wave_size,
                                                               .code_object_version = a.code_object_version,
                                                               .kernel = job->kernel,
                                                               .specialisation = job->specialisation,
                                                               .target = a.target,
                                                               .compiler = a.compiler},
                                            &why);
        if (stored == OCH_OK) stored = och_cache_path(jit->cache, key, &place, &why);
        if (stored != OCH_OK) warn_cache(jit, &why);
        else a.place = och_strbuf_str(&place);
    }
    st = make_artifact(&a, block, out, err);
    if (st == OCH_OK) made.code = NULL;
    if (st == OCH_OK) atomic_fetch_add(&jit->compiled, 1);
done:
    och_compiled_deinit(&made);
    och_strbuf_deinit(&place);
    return st;
}

static och_status pick(och_jit *jit, const och_jit_job *job, const och_candidate **out, och_err *err) {
    pthread_mutex_lock(&jit->lock);
    och_status st = jit->compilers ? OCH_OK : och_compilers_create(jit->only, jit->hiprtc_library, &jit->compilers, err);
    pthread_mutex_unlock(&jit->lock);
    return st == OCH_OK ? och_compilers_pick(jit->compilers, job, out, err) : st;
}

/* From the cache, or compiled under the entry's lock. */
static och_status cached_or_compiled(och_jit *jit, const och_jit_job *job, const och_candidate *compiler,
                                     och_jit_artifact **out, och_strbuf *log, och_err *err) {
    char key[OCH_JIT_KEY_BYTES];
    OCH_TRY(och_jit_key_of(job, compiler, key, err));
    och_err why = {0};
    och_status st = from_cache(jit, job, key, out, &why);
    if (st == OCH_NOMEM) return och_err_set(err, st, "%s", why.message);
    int lock = -1;
    if (st != OCH_OK) {
        bool readable = st == OCH_NOTFOUND || st == OCH_CORRUPT || st == OCH_UNSUPPORTED;
        if (!readable) warn_cache(jit, &why);
        och_err_clear(&why);
        st = och_cache_lock(jit->cache, key, job->label, cancel_of(jit, job), &lock, &why);
        if (st == OCH_CANCELLED || st == OCH_NOMEM) return och_err_set(err, st, "%s", why.message);
        if (st != OCH_OK) {
            warn_cache(jit, &why);
            return compile(jit, job, compiler, key, false, out, log, err);
        }
        /* whoever held the lock may have made it; what is broken now is nobody's work in progress */
        och_err_clear(&why);
        st = from_cache(jit, job, key, out, &why);
        if (st == OCH_CORRUPT || st == OCH_UNSUPPORTED) {
            och_log(OCH_LOG_WARN, "a cached kernel is discarded and made again: %s", why.message);
            och_err_clear(&why);
            if (och_cache_discard(jit->cache, key, &why) != OCH_OK) warn_cache(jit, &why);
        }
    }
    if (st == OCH_OK) {
        atomic_fetch_add(&jit->from_cache, 1);
        if (log) och_strbuf_puts(log, (*out)->log);
    } else if (st == OCH_NOMEM) {
        och_err_set(err, st, "%s", why.message);
    } else {
        st = compile(jit, job, compiler, key, true, out, log, err);
    }
    och_cache_unlock(jit->cache, key, lock);
    return st;
}

och_status och_jit_get(och_jit *jit, const och_jit_request *request, och_jit_artifact **out, och_strbuf *log, och_err *err) {
    *out = NULL;
    och_jit_job job;
    OCH_TRY(och_jit_job_init(request, &job, err));
    och_status st = from_packs(jit, &job, out, err);
    if (st == OCH_OK) atomic_fetch_add(&jit->from_packs, 1);
    if (st != OCH_NOTFOUND) return st;
    if (!request->text) return no_pack(jit, &job, OCH_UNAVAILABLE, "no text was given to compile", err);
    och_err why = {0};
    const och_candidate *compiler;
    st = pick(jit, &job, &compiler, &why);
    if (st == OCH_UNAVAILABLE || st == OCH_UNSUPPORTED) return no_pack(jit, &job, st, why.message, err);
    if (st != OCH_OK) return och_err_set(err, st, "%s", why.message);
    if (compiler->most_version && job.code_object_version > compiler->most_version)
        job.code_object_version = compiler->most_version;
    if (!jit->cache) return compile(jit, &job, compiler, "", false, out, log, err);
    return cached_or_compiled(jit, &job, compiler, out, log, err);
}

/* ---- for people ---- */

void och_jit_describe(och_jit *jit, och_strbuf *out) {
    static const char *const states[] = {"not tried", "not there", "unfit", "found"};
    pthread_mutex_lock(&jit->lock);
    och_err why = {0};
    och_status st = jit->compilers ? OCH_OK : och_compilers_create(jit->only, jit->hiprtc_library, &jit->compilers, &why);
    pthread_mutex_unlock(&jit->lock);
    if (st != OCH_OK) och_strbuf_printf(out, "compilers: %s\n", why.message);
    const och_candidate *c;
    for (size_t i = 0; st == OCH_OK && (c = och_compilers_at(jit->compilers, i)); i++) {
        /* of one that is absent the detail is the whole story: not there, or the same as another */
        const char *state = c->state == OCH_CANDIDATE_ABSENT && c->detail ? c->detail : states[c->state];
        och_strbuf_printf(out, "compiler %s: %s (%s): %s", c->row->name, c->place, c->why, state);
        if (c->state == OCH_CANDIDATE_FOUND) och_strbuf_printf(out, ": %s, %s", c->path, c->version);
        else if (c->detail && c->detail != state) och_strbuf_printf(out, ": %s", c->detail);
        och_strbuf_puts(out, "\n");
    }
    for (size_t i = 0; i < jit->packs.n; i++) {
        size_t n = 0;
        while (och_pack_at(jit->packs.items[i], n)) n++;
        och_strbuf_printf(out, "pack %s: %zu kernels for", och_pack_path(jit->packs.items[i]), n);
        och_pack_put_targets(jit->packs.items[i], out);
        och_strbuf_puts(out, "\n");
    }
    if (!jit->packs.n) och_strbuf_puts(out, "pack: none found\n");
    och_strbuf_printf(out, "cache %s\n", jit->cache ? och_cache_dir(jit->cache) : "none");
}
