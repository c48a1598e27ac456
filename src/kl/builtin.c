#include "kl/builtin.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/env.h"
#include "file/mapping.h"
#include "kl/builtin_embedded.h"
#include "kl/lex.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct row {
    const char *name, *text;
    size_t n_bytes;
} row;

struct och_kl_builtins {
    och_arena arena;   /* of a directory: names and texts */
    const char *dir;   /* NULL: no directory was named */
    row *rows;         /* NULL: the embedded ones */
    int n_rows;
};

static bool is_kernel_file(const char *name) {
    size_t n = strlen(name);
    return n > 3 && name[0] != '.' && !strcmp(name + n - 3, ".ok");
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const row *)a)->name, ((const row *)b)->name);
}

/* The text of a file, with a NUL behind it. */
static och_status read_text(och_arena *arena, const char *path, const char **out_text, size_t *out_bytes, och_err *err) {
    och_mapping *m;
    OCH_TRY(och_mapping_open(path, &m, err));
    och_status st = OCH_OK;
    if (m->size > OCH_KL_MAX_FILE_BYTES)
        st = och_err_set(err, OCH_INVALID, "%.400s: expected at most %u bytes, found %llu", path, OCH_KL_MAX_FILE_BYTES,
                         (unsigned long long)m->size);
    else if (!(*out_text = och_arena_strndup(arena, (const char *)m->data, (size_t)m->size)))
        st = och_err_nomem(err, m->size, "a kernel file");
    else
        *out_bytes = (size_t)m->size;
    och_mapping_close(m);
    return st;
}

static och_status make_room(och_kl_builtins *b, int *capacity, och_err *err) {
    if (b->n_rows < *capacity) return OCH_OK;
    int more = *capacity ? 2 * *capacity : 16;
    row *rows = och_realloc_array(b->rows, (size_t)more, sizeof *rows);
    if (!rows) return och_err_nomem(err, (uint64_t)more * sizeof *rows, "kernel files");
    b->rows = rows, *capacity = more;
    return OCH_OK;
}

static och_status read_row(och_kl_builtins *b, const char *dir, const char *name, int *capacity, och_err *err) {
    och_strbuf path = {0};
    och_status st;
    OCH_TRY(make_room(b, capacity, err));
    row *r = &b->rows[b->n_rows];
    och_strbuf_printf(&path, "%s/%s", dir, name);
    st = och_strbuf_status(&path, err);
    if (st == OCH_OK) st = read_text(&b->arena, path.data, &r->text, &r->n_bytes, err);
    if (st == OCH_OK && !(r->name = och_arena_strndup(&b->arena, name, strlen(name))))
        st = och_err_nomem(err, strlen(name), "a kernel file's name");
    if (st == OCH_OK) b->n_rows++;
    och_strbuf_deinit(&path);
    return st;
}

typedef struct declared {
    const char *name, *file; /* name: a view of the file's text */
    size_t n_bytes;
} declared;

/* Two files that declare one kernel, of which who asks for it by name would get either: refused before anybody does. What is
 * no token is none of this function's business: whoever parses the file says so. */
static och_status refuse_twice(const och_kl_builtins *b, och_err *err) {
    declared *all = NULL;
    size_t n = 0, capacity = 0;
    och_status st = OCH_OK;
    for (int i = 0; st == OCH_OK && i < b->n_rows; i++) {
        const och_kl_file file = {.name = b->rows[i].name, .text = b->rows[i].text, .n_bytes = b->rows[i].n_bytes};
        och_kl_token *t = NULL;
        och_kl_diag diag;
        size_t n_tokens = 0;
        och_kl_diag_init(&diag, NULL, NULL);
        st = och_kl_lex(&file, &diag, &t, &n_tokens, err);
        for (size_t k = 0; st == OCH_OK && k + 1 < n_tokens; k++) {
            const och_kl_token *name = &t[k + 1];
            if (t[k].kind != OCH_KL_T_NAME || t[k].length != 6 || memcmp(file.text + t[k].at, "kernel", 6) || name->kind != OCH_KL_T_NAME) continue;
            declared d = {file.text + name->at, file.name, name->length};
            for (size_t o = 0; st == OCH_OK && o < n; o++)
                if (all[o].file != d.file && all[o].n_bytes == d.n_bytes && !memcmp(all[o].name, d.name, d.n_bytes))
                    st = och_err_set(err, OCH_INVALID, "kernel %.*s: expected one file that declares it, found %.100s and %.100s (%s: %.200s)",
                                     (int)d.n_bytes, d.name, all[o].file, d.file, och_env_name(OCH_ENV_OCHRE_KERNELS_DIR), b->dir);
            if (st == OCH_OK && n == capacity) {
                declared *more = och_realloc_array(all, capacity ? 2 * capacity : 64, sizeof *more);
                if (more) all = more, capacity = capacity ? 2 * capacity : 64;
                else st = och_err_nomem(err, 64 * sizeof *more, "kernels' names");
            }
            if (st == OCH_OK) all[n++] = d;
        }
        och_free(t);
    }
    och_free(all);
    return st;
}

static och_status read_dir(och_kl_builtins *b, const char *dir, och_err *err) {
    och_status st = OCH_OK;
    int capacity = 0;
    DIR *d = opendir(dir);
    if (!d)
        return och_err_set_native(err, errno == ENOENT ? OCH_NOTFOUND : OCH_IO, errno, "%s: %.400s: %s",
                                  och_env_name(OCH_ENV_OCHRE_KERNELS_DIR), dir, strerror(errno));
    for (struct dirent *e; st == OCH_OK && (e = readdir(d));)
        if (is_kernel_file(e->d_name)) st = read_row(b, dir, e->d_name, &capacity, err);
    closedir(d);
    if (st == OCH_OK && !b->n_rows)
        st = och_err_set(err, OCH_NOTFOUND, "%s: %.400s holds no .ok file", och_env_name(OCH_ENV_OCHRE_KERNELS_DIR), dir);
    if (st == OCH_OK && !(b->dir = och_arena_strndup(&b->arena, dir, strlen(dir))))
        st = och_err_nomem(err, strlen(dir), "the name of a directory");
    for (int i = 0, n_own = b->n_rows; st == OCH_OK && i < och_kl_embedded_count; i++) {
        const och_kl_embedded *e = &och_kl_embedded_files[i];
        bool own = false;
        for (int k = 0; k < n_own && !own; k++) own = !strcmp(b->rows[k].name, e->name);
        if (own) continue;
        st = make_room(b, &capacity, err);
        if (st == OCH_OK) b->rows[b->n_rows++] = (row){e->name, (const char *)e->text, e->n_bytes};
    }
    if (st != OCH_OK) return st;
    qsort(b->rows, (size_t)b->n_rows, sizeof *b->rows, by_name);
    return refuse_twice(b, err);
}

och_status och_kl_builtins_open(och_kl_builtins **out_b, och_err *err) {
    const char *dir = och_env_get(OCH_ENV_OCHRE_KERNELS_DIR);
    och_kl_builtins *b = och_calloc(1, sizeof *b);
    *out_b = NULL;
    if (!b) return och_err_nomem(err, sizeof *b, "the built-in kernels");
    och_arena_init(&b->arena);
    och_status st = dir ? read_dir(b, dir, err) : OCH_OK;
    if (st != OCH_OK) och_kl_builtins_close(b);
    else *out_b = b;
    return st;
}

void och_kl_builtins_close(och_kl_builtins *b) {
    if (!b) return;
    och_arena_deinit(&b->arena);
    och_free(b->rows);
    och_free(b);
}

const char *och_kl_builtins_dir(const och_kl_builtins *b) {
    return b->dir;
}

int och_kl_builtins_count(const och_kl_builtins *b) {
    return b->rows ? b->n_rows : och_kl_embedded_count;
}

const char *och_kl_builtins_name(const och_kl_builtins *b, int i) {
    return b->rows ? b->rows[i].name : och_kl_embedded_files[i].name;
}

static const char *text_of(const och_kl_builtins *b, int i, size_t *out_bytes) {
    *out_bytes = b->rows ? b->rows[i].n_bytes : och_kl_embedded_files[i].n_bytes;
    return b->rows ? b->rows[i].text : (const char *)och_kl_embedded_files[i].text;
}

bool och_kl_builtins_find(const och_kl_builtins *b, const char *name, const char **out_text, size_t *out_bytes) {
    for (int i = 0; i < och_kl_builtins_count(b); i++)
        if (!strcmp(och_kl_builtins_name(b, i), name)) {
            *out_text = text_of(b, i, out_bytes);
            return true;
        }
    return false;
}

/* Beside a file. */
typedef struct beside {
    och_arena arena;
    const char *path; /* up to the last slash is the directory */
} beside;

static bool find_beside(void *self, const char *name, const char *used_by, const char **out_text, size_t *out_bytes) {
    beside *d = self;
    const char *slash = strrchr(d->path, '/');
    och_strbuf path = {0};
    och_err err;
    (void)used_by;
    och_err_clear(&err);
    och_strbuf_printf(&path, "%.*s%s", slash ? (int)(slash + 1 - d->path) : 0, d->path, name);
    bool found = !path.failed && read_text(&d->arena, path.data, out_text, out_bytes, &err) == OCH_OK;
    och_strbuf_deinit(&path);
    return found;
}

och_status och_kl_parse_file(const char *path, och_kl_unit **out_unit, och_strbuf *diag, och_err *err) {
    beside d = {.path = path};
    const och_kl_loader loader = {find_beside, &d};
    const char *text = NULL;
    size_t n_bytes = 0;
    *out_unit = NULL;
    och_arena_init(&d.arena);
    och_status st = read_text(&d.arena, path, &text, &n_bytes, err);
    if (st == OCH_OK) st = och_kl_parse(path, text, n_bytes, &loader, out_unit, diag, err);
    och_arena_deinit(&d.arena);
    return st;
}

och_status och_kl_parse_builtin(const char *name, och_kl_unit **out_unit, och_strbuf *diag, och_err *err) {
    och_kl_builtins *b;
    const char *text;
    size_t n_bytes;
    *out_unit = NULL;
    OCH_TRY(och_kl_builtins_open(&b, err));
    och_status st;
    if (och_kl_builtins_find(b, name, &text, &n_bytes)) st = och_kl_parse(name, text, n_bytes, NULL, out_unit, diag, err);
    else {
        och_strbuf list = {0};
        for (int i = 0; i < och_kl_builtins_count(b); i++)
            och_strbuf_printf(&list, "%s%s", i ? " " : "", och_kl_builtins_name(b, i));
        st = och_err_set(err, OCH_NOTFOUND, "no built-in kernel file %.100s%s%.200s; there are: %.500s", name,
                         b->dir ? ", nor one in " : "", b->dir ? b->dir : "", och_strbuf_str(&list));
        och_strbuf_deinit(&list);
    }
    och_kl_builtins_close(b);
    return st;
}
