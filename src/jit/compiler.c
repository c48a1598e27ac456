#include "jit/compiler.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/size.h"
#include "file/write.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const och_compiler_row *const rows[] = {&och_compiler_nvrtc, &och_compiler_clang, &och_compiler_hiprtc};

struct och_compilers {
    pthread_mutex_t lock; /* probing: one at a time, each candidate once */
    och_candidate **items;
    size_t n;
};

static void candidate_destroy(och_candidate *c) {
    och_free(c->place);
    och_free(c->detail);
    och_free(c->path);
    och_free(c->version);
    och_free(c->label);
    och_free(c->calls);
    och_free(c);
}

och_status och_compilers_add(och_compilers *all, const och_compiler_row *row, const char *place, const char *why,
                             och_err *err) {
    och_candidate **items = och_realloc_array(all->items, all->n + 1, sizeof *items);
    if (!items) return och_err_nomem(err, (all->n + 1) * sizeof *items, "the list of compilers");
    all->items = items;
    och_candidate *c = och_calloc(1, sizeof *c);
    if (!c) return och_err_nomem(err, sizeof *c, "a compiler's record");
    c->row = row;
    c->why = why;
    if (!(c->place = och_strdup(place))) {
        och_free(c);
        return och_err_nomem(err, strlen(place), "a path");
    }
    items[all->n++] = c;
    return OCH_OK;
}

och_status och_compilers_create(const char *only, const char *hiprtc_library, och_compilers **out_compilers, och_err *err) {
    *out_compilers = NULL;
    bool is_row = false, is_path = only && strchr(only, '/');
    for (size_t i = 0; only && i < OCH_COUNT(rows); i++) is_row |= !strcmp(only, rows[i]->name);
    if (only && !is_row && !is_path)
        return och_err_set(err, OCH_INVALID, "compiler \"%s\": expected nvrtc, clang, hiprtc, or the path of a clang", only);
    och_compilers *all = och_calloc(1, sizeof *all);
    if (!all) return och_err_nomem(err, sizeof *all, "the list of compilers");
    pthread_mutex_init(&all->lock, NULL);
    och_status st = OCH_OK;
    if (is_path) st = och_compilers_add(all, &och_compiler_clang, only, "asked for", err);
    for (size_t i = 0; !is_path && i < OCH_COUNT(rows) && st == OCH_OK; i++)
        if (!only || !strcmp(only, rows[i]->name))
            st = rows[i]->list(all, rows[i], rows[i] == &och_compiler_hiprtc ? hiprtc_library : NULL, err);
    if (st != OCH_OK) {
        och_compilers_destroy(all);
        return st;
    }
    *out_compilers = all;
    return OCH_OK;
}

void och_compilers_destroy(och_compilers *all) {
    if (!all) return;
    for (size_t i = 0; i < all->n; i++) candidate_destroy(all->items[i]);
    och_free(all->items);
    pthread_mutex_destroy(&all->lock);
    och_free(all);
}

/* ---- finding ---- */

static och_status probe(och_compilers *all, size_t i, och_err *err) {
    och_candidate *c = all->items[i];
    if (c->state != OCH_CANDIDATE_UNTRIED) return OCH_OK;
    OCH_TRY(c->row->probe(c, err));
    if (c->state != OCH_CANDIDATE_FOUND) return OCH_OK;
    struct stat sb;
    if (stat(c->path, &sb) == 0) {
        c->file_bytes = (uint64_t)sb.st_size;
        c->file_device = sb.st_dev;
        c->file_inode = sb.st_ino;
        c->file_mtime_ns = (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec;
    }
    for (size_t k = 0; k < i && c->file_inode; k++) {
        const och_candidate *e = all->items[k];
        if (e->row != c->row || e->state != OCH_CANDIDATE_FOUND || e->file_inode != c->file_inode ||
            e->file_device != c->file_device)
            continue;
        och_strbuf same = {0};
        och_strbuf_printf(&same, "the same as %s", e->place);
        c->state = OCH_CANDIDATE_ABSENT;
        och_free(c->detail);
        c->detail = same.data; /* the buffer's memory becomes the record's */
        return och_strbuf_status(&same, err);
    }
    return OCH_OK;
}

/* NULL: it suits; else why not. */
static const char *unsuited(const och_candidate *c, const och_jit_job *job, char *buf, size_t n) {
    const och_target *t = job->target.target;
    const char *target = t->name;
    int asked = job->request->code_object_version, least = t->code_object_v6 || t->generic ? 6 : asked;
    if (c->most_version && least > c->most_version) {
        snprintf(buf, n, "%s: it makes code objects of version %d at most", c->label, c->most_version);
        return buf;
    }
    if (c->clang_major && c->clang_major < job->request->clang_min)
        snprintf(buf, n, "%s: the text needs one of clang %d", c->label, job->request->clang_min);
    else if (t->clang_min > 0 && c->clang_major && c->clang_major < t->clang_min)
        snprintf(buf, n, "%s: %s needs one of clang %d", c->label, target, (int)t->clang_min);
    else if (t->clang_removed > 0 && c->clang_major >= t->clang_removed)
        snprintf(buf, n, "%s: %s went with clang %d", c->label, target, (int)t->clang_removed);
    else if (c->row->knows && !c->row->knows(c, t)) snprintf(buf, n, "%s: it does not know %s", c->label, target);
    else return NULL;
    return buf;
}

static void say(char *text, size_t size, const char *what) {
    size_t at = strlen(text);
    snprintf(text + at, size - at, "%s%s", at ? "; " : "", what);
}

och_status och_compilers_pick(och_compilers *all, const och_jit_job *job, const och_candidate **out_compiler, och_err *err) {
    *out_compiler = NULL;
    char unfit[400] = "", line[300];
    bool any = false;
    och_status st = OCH_OK;
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < all->n && !*out_compiler && st == OCH_OK; i++) {
        och_candidate *c = all->items[i];
        if (!(job->request->dialect == OCH_JIT_HIP ? c->row->hip : c->row->cuda)) continue;
        st = probe(all, i, err);
        if (c->state == OCH_CANDIDATE_UNFIT) {
            const char *name = c->path ? c->path : c->place, *detail = c->detail ? c->detail : "unfit";
            bool named = !strncmp(detail, name, strlen(name));
            snprintf(line, sizeof line, "%s%s%s", named ? "" : name, named ? "" : ": ", detail);
            say(unfit, sizeof unfit, line);
        }
        if (c->state != OCH_CANDIDATE_FOUND) continue;
        any = true;
        const char *why = unsuited(c, job, line, sizeof line);
        if (why) say(unfit, sizeof unfit, why);
        else *out_compiler = c;
    }
    pthread_mutex_unlock(&all->lock);
    if (st != OCH_OK || *out_compiler) return st;
    char looked_for[400] = "";
    const och_compiler_row *before = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const och_compiler_row *row = all->items[i]->row;
        if (row == before || !(job->request->dialect == OCH_JIT_HIP ? row->hip : row->cuda)) continue;
        before = row;
        snprintf(line, sizeof line, "%s (%s)", row->name, all->n == 1 ? all->items[i]->place : row->looked_for);
        say(looked_for, sizeof looked_for, line);
    }
    if (!*looked_for) snprintf(looked_for, sizeof looked_for, "nothing, since only %s may be used, which compiles none of it",
                               all->n ? all->items[0]->row->name : "?");
    return och_err_set(err, any ? OCH_UNSUPPORTED : OCH_UNAVAILABLE, "no compiler for %s: looked for %s%s%s",
                       job->target.name, looked_for, *unfit ? "; found unfit: " : "",
                       unfit);
}

const och_candidate *och_compilers_at(och_compilers *all, size_t i) {
    if (i >= all->n) return NULL;
    pthread_mutex_lock(&all->lock);
    och_err err = {0};
    if (probe(all, i, &err) != OCH_OK) och_log(OCH_LOG_WARN, "%s: %s", all->items[i]->place, err.message);
    pthread_mutex_unlock(&all->lock);
    return all->items[i];
}

/* ---- compiling ---- */

const char **och_arguments_split(const och_strbuf *arguments, size_t n_before, size_t *out_n) {
    size_t n = n_before;
    for (size_t i = 0; i < arguments->size; i++) n += !arguments->data[i];
    *out_n = n;
    const char **list = och_calloc(n + 1, sizeof *list);
    for (size_t i = n_before, at = 0; list && i < n; i++) {
        list[i] = arguments->data + at;
        at += strlen(list[i]) + 1;
    }
    return list;
}

void och_first_diagnostic(const char *log, const char **out_line, size_t *out_bytes) {
    static const char *const marks[] = {"fatal error:", "error:", "error :"};
    const char *found = NULL;
    for (size_t m = 0; m < OCH_COUNT(marks); m++) {
        const char *at = strstr(log, marks[m]);
        if (at && (!found || at < found)) found = at;
    }
    const char *line = found ? found : log;
    while (line > log && line[-1] != '\n') line--;
    if (!found) line += strspn(line, "\n");
    *out_line = line;
    *out_bytes = strcspn(line, "\n");
}

/* What was compiled and what came of it, under one name. It is for people who look into a kernel: what cannot be written is a
 * warning. */
static void keep(const och_candidate *c, const och_jit_job *job, const och_strbuf *text, const och_strbuf *arguments,
                 const och_compiled *done) {
    const char *dir = och_env_get(OCH_ENV_OCHRE_JIT_KEEP);
    if (!dir) return;
    char hex[OCH_HASH_HEX_BYTES], stem[512];
    och_hash_hex(och_hash_bytes(text->data, text->size), hex);
    snprintf(stem, sizeof stem, "%.80s-%s-w%d-%.8s", *job->kernel ? job->kernel : job->file_name, job->target.name,
             job->wave_size, hex);
    for (char *p = stem; *p; p++)
        if (*p == '/' || *p == ' ' || (unsigned char)*p < 32) *p = '_';
    och_strbuf what = {0};
    och_strbuf_printf(&what, "%s\n%s\n%s\n", job->label, c->version, c->path);
    for (size_t i = 0; i < arguments->size; i += strlen(arguments->data + i) + 1)
        och_strbuf_printf(&what, "%s\n", arguments->data + i);
    och_strbuf_printf(&what, "\n%s", och_strbuf_str(&done->log));
    const struct {
        const char *suffix;
        const void *bytes;
        size_t n;
    } files[] = {
        {job->request->dialect == OCH_JIT_HIP ? "hip" : "cu", text->data, text->size},
        {"log", what.data, what.size},
        {done->kind == OCH_JIT_PTX ? "ptx" : done->kind == OCH_JIT_CUBIN ? "cubin" : "hsaco", done->code, done->code_bytes},
    };
    (void)mkdir(dir, 0777);
    for (size_t i = 0; i < OCH_COUNT(files); i++) {
        if (!files[i].bytes) continue;
        och_strbuf path = {0};
        och_err err = {0};
        och_strbuf_printf(&path, "%s/%s.%s", dir, stem, files[i].suffix);
        if (och_strbuf_status(&path, &err) != OCH_OK || och_write_file(path.data, files[i].bytes, files[i].n, &err) != OCH_OK)
            och_log(OCH_LOG_WARN, "OCHRE_JIT_KEEP: %s", err.message);
        och_strbuf_deinit(&path);
    }
    och_strbuf_deinit(&what);
}

och_status och_compile(const och_candidate *c, const och_jit_job *job, const och_compile_limits *limits, och_compiled *out,
                       och_err *err) {
    memset(out, 0, sizeof *out);
    out->kind = job->request->dialect == OCH_JIT_HIP ? OCH_JIT_HSACO : OCH_JIT_PTX;
    och_strbuf text = {0}, arguments = {0};
    och_status st = och_jit_job_text(job, c->row->needs_prelude, &text, err);
    if (st == OCH_OK) st = c->row->arguments(c, job, &arguments, err);
    if (st == OCH_OK) st = c->row->compile(c, job, &text, &arguments, limits, out, err);
    if (st == OCH_OK || st == OCH_COMPILE) keep(c, job, &text, &arguments, out);
    if (st == OCH_OK && !out->code_bytes)
        st = och_err_set(err, OCH_COMPILE, "%s: %s reported no error and gave no code", job->label, c->label);
    och_strbuf_deinit(&text);
    och_strbuf_deinit(&arguments);
    return st;
}

void och_compiled_deinit(och_compiled *compiled) {
    och_free(compiled->code);
    och_strbuf_deinit(&compiled->log);
    memset(compiled, 0, sizeof *compiled);
}
