/* Which specialisations of the kernels are checked and packed: what comments beside them, or a list, say. */
#include "main/kernels.h"

#include "base/alloc.h"
#include "file/mapping.h"
#include "kl/builtin.h"

#include <stdio.h>
#include <string.h>

static int show_failure(const char *diag, const och_err *err) {
    if (*diag) fputs(diag, stderr);
    return och_main_fail(err);
}

int och_kernel_files_open(och_kernel_files *files, const char *const *paths, int n_paths) {
    och_err err = {0};
    och_strbuf diag = {0};
    och_kl_builtins *builtins = NULL;
    *files = (och_kernel_files){0};
    if (!paths && och_kl_builtins_open(&builtins, &err) != OCH_OK) return och_main_fail(&err);
    int n = paths ? n_paths : och_kl_builtins_count(builtins), rc = -1;
    files->units = och_calloc((size_t)n + 1, sizeof *files->units);
    if (!files->units) rc = och_main_error("out of memory");
    for (int i = 0; i < n && rc < 0; i++) {
        och_status st = paths ? och_kl_parse_file(paths[i], &files->units[i], &diag, &err)
                              : och_kl_parse_builtin(och_kl_builtins_name(builtins, i), &files->units[i], &diag, &err);
        if (st != OCH_OK) rc = show_failure(och_strbuf_str(&diag), &err);
        else files->n++;
    }
    och_kl_builtins_close(builtins);
    och_strbuf_deinit(&diag);
    if (rc >= 0) och_kernel_files_close(files);
    return rc;
}

void och_kernel_files_close(och_kernel_files *files) {
    for (int i = 0; i < files->n; i++) och_kl_unit_destroy(files->units[i]);
    och_free(files->units);
    *files = (och_kernel_files){0};
}

const och_kl_decl *och_kernel_next(const och_kl_unit *unit, const och_kl_decl *after) {
    for (const och_kl_decl *d = after ? after->next : unit->decls; d; d = d->next)
        if (d->kind == OCH_KL_D_KERNEL && d->pos.file == unit->files) return d;
    return NULL;
}

const och_kl_decl *och_kernel_named(const och_kl_unit *unit, const char *name) {
    for (const och_kl_decl *d = unit->decls; d; d = d->next)
        if (d->kind == OCH_KL_D_KERNEL && !strcmp(d->name, name)) return d;
    return NULL;
}

/* One "NAME=VALUE,VALUE" of a line. */
typedef struct choice {
    const char *name, *values; /* up to the blank */
    size_t n_name, n_values;
    int count;
} choice;

static int choices_of(const char *text, size_t n_bytes, choice *out, int max) {
    int n = 0;
    const char *end = text + n_bytes;
    while (text < end) {
        while (text < end && (*text == ' ' || *text == '\t' || *text == '\r')) text++;
        const char *word = text;
        while (text < end && *text != ' ' && *text != '\t' && *text != '\r') text++;
        if (text == word) break;
        const char *eq = memchr(word, '=', (size_t)(text - word));
        if (!eq || eq == word || eq + 1 == text || n == max) return -1;
        choice c = {word, eq + 1, (size_t)(eq - word), (size_t)(text - eq - 1), 1};
        for (const char *p = c.values; p < text; p++) c.count += *p == ',';
        out[n++] = c;
    }
    return n;
}

static void value_of(const choice *c, int which, const char **out_value, size_t *out_bytes) {
    const char *p = c->values, *end = c->values + c->n_values;
    for (; which; which--) p = (const char *)memchr(p, ',', (size_t)(end - p)) + 1;
    const char *comma = memchr(p, ',', (size_t)(end - p));
    *out_value = p, *out_bytes = (size_t)((comma ? comma : end) - p);
}

static bool same(const och_kernel_spec *a, const och_kernel_spec *b) {
    if (a->kernel != b->kernel || a->n_bindings != b->n_bindings) return false;
    for (int i = 0; i < a->n_bindings; i++)
        if (strcmp(a->bindings[i].name, b->bindings[i].name) || strcmp(a->bindings[i].value, b->bindings[i].value)) return false;
    return true;
}

/* Bindings point into their own record, which moves when the list grows. */
static void point(och_kernel_spec *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char *p = s[i].text;
        for (int k = 0; k < s[i].n_bindings; k++) {
            s[i].bindings[k].name = p;
            p += strlen(p) + 1;
            s[i].bindings[k].value = p;
            p += strlen(p) + 1;
        }
    }
}

static och_status add(och_kernel_specs *out, const och_kl_unit *unit, const och_kl_decl *kernel, uint32_t marks, const choice *c, int n,
                      const int *which, och_err *err) {
    if (out->n == out->capacity) {
        size_t capacity = out->capacity ? 2 * out->capacity : 64;
        och_kernel_spec *more = och_realloc_array(out->items, capacity, sizeof *more);
        if (!more) return och_err_nomem(err, capacity * sizeof *more, "specialisations");
        out->items = more, out->capacity = capacity;
        point(out->items, out->n);
    }
    och_kernel_spec *s = &out->items[out->n];
    memset(s, 0, sizeof *s);
    s->unit = unit, s->kernel = kernel, s->marks = marks, s->n_bindings = n;
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        const char *value;
        size_t n_value;
        value_of(&c[i], which[i], &value, &n_value);
        if (at + c[i].n_name + n_value + 2 > sizeof s->text)
            return och_err_set(err, OCH_INVALID, "%s: values of more than %zu bytes", kernel->name, sizeof s->text);
        memcpy(s->text + at, c[i].name, c[i].n_name);
        at += c[i].n_name + 1;
        memcpy(s->text + at, value, n_value);
        at += n_value + 1;
    }
    point(s, 1);
    for (size_t i = 0; i < out->n; i++)
        if (same(&out->items[i], s)) return OCH_OK;
    out->n++;
    return OCH_OK;
}

static och_status add_line(och_kernel_specs *out, const och_kl_unit *unit, const och_kl_decl *kernel, uint32_t marks, bool all, const char *text,
                           size_t n_bytes, const char *where, och_err *err) {
    choice c[OCH_KERNELS_MAX_BINDINGS];
    int which[OCH_KERNELS_MAX_BINDINGS] = {0}, n = choices_of(text, n_bytes, c, OCH_KERNELS_MAX_BINDINGS);
    if (n < 0) return och_err_set(err, OCH_INVALID, "%s: expected NAME=VALUE,VALUE ..., found \"%.*s\"", where, (int)n_bytes, text);
    OCH_TRY(add(out, unit, kernel, marks, c, n, which, err));
    if (!all) {
        for (int i = 0; i < n; i++) {
            for (which[i] = 1; which[i] < c[i].count; which[i]++) OCH_TRY(add(out, unit, kernel, marks, c, n, which, err));
            which[i] = 0;
        }
        return OCH_OK;
    }
    for (;;) {
        int i = 0;
        while (i < n && ++which[i] == c[i].count) which[i++] = 0;
        if (i == n) return OCH_OK;
        OCH_TRY(add(out, unit, kernel, marks, c, n, which, err));
    }
}

/* The line's begin and length, blanks before it left out. Lines count from 1. */
static const char *line_at(const och_kl_file *f, uint32_t line, size_t *out_n) {
    const char *p = f->text, *end = f->text + f->n_bytes;
    for (; line > 1 && p; line--) {
        p = memchr(p, '\n', (size_t)(end - p));
        if (p) p++;
    }
    if (!p) return NULL;
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    *out_n = (size_t)((newline ? newline : end) - p);
    return p;
}

static bool begins(const char **text, size_t *n, const char *head) {
    size_t k = strlen(head);
    if (*n < k || memcmp(*text, head, k)) return false;
    *text += k, *n -= k;
    return true;
}

/* The line says `word` and nothing else. */
static bool says(const char *text, size_t n, const char *word) {
    size_t k = strlen(word);
    while (n > k && (text[n - 1] == ' ' || text[n - 1] == '\r')) n--;
    return n == k && !memcmp(text, word, k);
}

/* The comment lines directly above a kernel: the first one's number (the kernel's own where there is none), and their marks. */
static uint32_t comments_of(const och_kl_decl *kernel, uint32_t *out_marks, bool *out_has_pack) {
    static const struct {
        const char *line;
        uint32_t mark;
    } marks[] = {{"// decode", OCH_KERNEL_DECODE}, {"// matrix", OCH_KERNEL_MATRIX}, {"// dot4", OCH_KERNEL_DOT4}};
    uint32_t first = kernel->pos.line;
    const char *text;
    size_t n;
    *out_marks = 0, *out_has_pack = false;
    while (first > 1 && (text = line_at(kernel->pos.file, first - 1, &n)) && n >= 2 && !memcmp(text, "//", 2)) {
        first--;
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
            if (says(text, n, marks[i].line)) *out_marks |= marks[i].mark;
        *out_has_pack |= begins(&text, &n, "// pack:");
    }
    return first;
}

och_status och_kernel_specs_of(const och_kl_unit *unit, const och_kl_decl *kernel, bool all, och_kernel_specs *out, och_err *err) {
    bool has_pack;
    uint32_t marks, first = comments_of(kernel, &marks, &has_pack);
    size_t n, before = out->n;
    char where[128];
    for (uint32_t line = first; line < kernel->pos.line; line++) {
        const char *text = line_at(kernel->pos.file, line, &n);
        snprintf(where, sizeof where, "%.100s:%u", kernel->pos.file->name, (unsigned)line);
        if (says(text, n, "// pack:")) continue;
        if (begins(&text, &n, all && has_pack ? "// pack:" : "// check:"))
            OCH_TRY(add_line(out, unit, kernel, marks, all, text, n, where, err));
    }
    bool none = all && has_pack; /* what is said of packs is `// pack:` and nothing behind it */
    if (out->n == before && !none) OCH_TRY(add(out, unit, kernel, marks, NULL, 0, NULL, err)); /* its defaults */
    return OCH_OK;
}

void och_kernel_specs_astray(const och_kl_unit *unit, och_strbuf *out) {
    const och_kl_file *file = unit->files;
    const char *text;
    size_t n;
    for (uint32_t line = 1; (text = line_at(file, line, &n)); line++) {
        if (!begins(&text, &n, "// check:")) continue;
        uint32_t below = line + 1;
        while ((text = line_at(file, below, &n)) && n >= 2 && !memcmp(text, "//", 2)) below++;
        bool is_above = false;
        for (const och_kl_decl *d = NULL; (d = och_kernel_next(unit, d));) is_above |= d->pos.line == below;
        if (!is_above)
            och_strbuf_printf(out, "%s:%u: warning: `// check:` is not read here: expected it directly above a kernel\n", file->name, (unsigned)line);
    }
}

static const och_kl_decl *find(const och_kernel_files *files, const char *name, size_t n_bytes, const och_kl_unit **out_unit) {
    for (int i = 0; i < files->n; i++)
        for (const och_kl_decl *d = NULL; (d = och_kernel_next(files->units[i], d));)
            if (strlen(d->name) == n_bytes && !memcmp(d->name, name, n_bytes)) {
                *out_unit = files->units[i];
                return d;
            }
    for (int i = 0; i < files->n; i++) /* what they use */
        for (const och_kl_decl *d = files->units[i]->decls; d; d = d->next)
            if (d->kind == OCH_KL_D_KERNEL && strlen(d->name) == n_bytes && !memcmp(d->name, name, n_bytes)) {
                *out_unit = files->units[i];
                return d;
            }
    return NULL;
}

och_status och_kernel_specs_read(const char *path, const och_kernel_files *files, och_kernel_specs *out, och_err *err) {
    och_mapping *m;
    OCH_TRY(och_mapping_open(path, &m, err));
    och_status st = OCH_OK;
    const char *p = (const char *)m->data, *end = p + m->size;
    for (int line = 1; p < end && st == OCH_OK; line++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p)), *stop = newline ? newline : end;
        const char *hash = memchr(p, '#', (size_t)(stop - p)), *to = hash ? hash : stop;
        while (p < to && (*p == ' ' || *p == '\t')) p++;
        const char *word = p;
        while (p < to && *p != ' ' && *p != '\t' && *p != '\r') p++;
        if (p > word) {
            char where[300];
            const och_kl_unit *unit = NULL;
            const och_kl_decl *kernel = find(files, word, (size_t)(p - word), &unit);
            snprintf(where, sizeof where, "%.250s:%d", path, line);
            if (!kernel) st = och_err_set(err, OCH_NOTFOUND, "%s: no kernel %.*s", where, (int)(p - word), word);
            else {
                uint32_t marks;
                bool has_pack;
                (void)comments_of(kernel, &marks, &has_pack);
                st = add_line(out, unit, kernel, marks, true, p, (size_t)(to - p), where, err);
            }
        }
        p = newline ? newline + 1 : end;
    }
    och_mapping_close(m);
    return st;
}

void och_kernel_specs_deinit(och_kernel_specs *specs) {
    och_free(specs->items);
    *specs = (och_kernel_specs){0};
}

size_t och_kernel_value(const char *text, const char *name, const char **out_value) {
    size_t k = strlen(name);
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, ",");
        if (n > k && p[k] == '=' && !memcmp(p, name, k)) {
            *out_value = p + k + 1;
            return n - k - 1;
        }
        p += n + (p[n] == ',');
    }
    return 0;
}

void och_kernel_specs_single(const och_kl_decl *kernel, const char *const *texts, size_t n, och_strbuf *out) {
    for (const och_kl_param_ast *p = kernel->params; p; p = p->next) {
        const char *first = NULL, *value;
        size_t n_first = 0;
        bool two = false;
        for (size_t i = 0; i < n && !two; i++) {
            size_t bytes = och_kernel_value(texts[i], p->name, &value);
            if (!bytes) continue;
            two = first && (bytes != n_first || memcmp(first, value, bytes) != 0);
            first = value, n_first = bytes;
        }
        if (!two) och_strbuf_printf(out, "%s%s", out->size ? ", " : "", p->name);
    }
}
