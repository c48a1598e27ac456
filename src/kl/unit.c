/* Units: a file and all that it uses. */
#include "base/alloc.h"
#include "kl/builtin.h"
#include "kl/kl.h"
#include "kl/parse_priv.h"

#include <string.h>

/* Files of a unit: a chain of uses ends. */
#define MAX_FILES 64

typedef struct parse {
    och_kl_unit *unit;
    och_kl_parser *parser;
    och_kl_file **files_tail;
    och_kl_decl **decls_tail;
    och_kl_use *uses, **uses_tail;
    int n_files;
} parse;

static och_status add_file(parse *s, const char *name, const char *text, size_t n_bytes, och_err *err) {
    och_kl_parser *p = s->parser;
    och_kl_token *tokens;
    size_t n_tokens;
    och_kl_file *f = och_arena_alloc(p->arena, 1, sizeof *f);
    if (!f || !(f->name = och_arena_strndup(p->arena, name, strlen(name))) ||
        !(f->text = och_arena_strndup(p->arena, text, n_bytes)))
        return och_err_nomem(err, n_bytes, "a kernel file");
    f->n_bytes = n_bytes;
    *s->files_tail = f, s->files_tail = &f->next;
    s->n_files++;
    OCH_TRY(och_kl_lex(f, p->diag, &tokens, &n_tokens, err));
    p->file = f, p->tokens = p->t = tokens;
    p->panic = false, p->depth = 0;
    och_kl_parse_decls(p, &s->decls_tail, &s->uses_tail);
    p->tokens = p->t = NULL;
    och_free(tokens);
    return p->nomem ? och_err_nomem(err, n_bytes, "the syntax tree of a kernel file") : OCH_OK;
}

/* A file of this name is there already. Only the first file has a name with a path. */
static bool is_there(const parse *s, const char *name) {
    for (const och_kl_file *f = s->unit->files; f; f = f->next) {
        const char *slash = strrchr(f->name, '/');
        if (!strcmp(slash ? slash + 1 : f->name, name)) return true;
    }
    return false;
}

static och_status add_use(parse *s, const och_kl_use *u, const och_kl_loader *loader, const och_kl_builtins *builtins,
                          och_err *err) {
    const char *text = NULL;
    size_t n_bytes = 0;
    if (is_there(s, u->name)) return OCH_OK;
    if (strchr(u->name, '/') || !*u->name) {
        och_kl_report(s->parser->diag, u->pos, "expected a file's name without a path, found \"%s\"", u->name);
        return OCH_OK;
    }
    /* A built-in file means the built-in file of the name, whatever stands beside the one that was asked for. */
    bool by_builtin = u->by != s->unit->files && och_kl_builtins_find(builtins, u->by->name, &text, &n_bytes) &&
                      n_bytes == u->by->n_bytes && !memcmp(text, u->by->text, n_bytes);
    bool found = loader && !by_builtin && loader->find(loader->self, u->name, u->by->name, &text, &n_bytes);
    if (!found) found = och_kl_builtins_find(builtins, u->name, &text, &n_bytes);
    if (!found) {
        och_kl_guess guess;
        och_kl_guess_init(&guess, u->name);
        for (int i = 0; i < och_kl_builtins_count(builtins); i++) och_kl_guess_offer(&guess, och_kl_builtins_name(builtins, i));
        const char *near = och_kl_guess_best(&guess);
        const char *dir = och_kl_builtins_dir(builtins);
        och_kl_report(s->parser->diag, u->pos, "cannot find \"%s\"%s%s%.200s", u->name,
                      loader ? ": neither beside this file nor among the built-in kernels" : " among the built-in kernels",
                      dir ? " nor in " : "", dir ? dir : "");
        if (near) och_kl_note(s->parser->diag, u->pos, "did you mean \"%s\"?", near);
        return OCH_OK;
    }
    if (s->n_files == MAX_FILES || n_bytes > OCH_KL_MAX_FILE_BYTES) {
        if (s->n_files == MAX_FILES) och_kl_report(s->parser->diag, u->pos, "a unit has at most %d files", MAX_FILES);
        else och_kl_report(s->parser->diag, u->pos, "\"%s\" is longer than %u bytes", u->name, OCH_KL_MAX_FILE_BYTES);
        return OCH_OK;
    }
    return add_file(s, u->name, text, n_bytes, err);
}

static och_status parse_all(parse *s, const char *name, const char *text, size_t n_bytes, const och_kl_loader *loader,
                            och_err *err) {
    och_kl_builtins *builtins;
    och_kl_diag *diag = s->parser->diag;
    const char *library;
    size_t library_bytes;
    OCH_TRY(och_kl_builtins_open(&builtins, err));
    och_status st = add_file(s, name, text, n_bytes, err);
    for (const och_kl_use *u = s->uses; u && st == OCH_OK && !och_kl_diag_full(diag); u = u->next)
        st = add_use(s, u, loader, builtins, err);
    if (st == OCH_OK && !diag->n_errors && !is_there(s, OCH_KL_LIBRARY)) {
        if (och_kl_builtins_find(builtins, OCH_KL_LIBRARY, &library, &library_bytes))
            st = add_file(s, OCH_KL_LIBRARY, library, library_bytes, err);
        else
            st = och_err_set(err, OCH_NOTFOUND, "the library %s is not among the built-in kernels", OCH_KL_LIBRARY);
    }
    och_kl_builtins_close(builtins);
    return st;
}

och_status och_kl_parse(const char *name, const char *text, size_t n_bytes, const och_kl_loader *loader, och_kl_unit **out_unit,
                        och_strbuf *diag_text, och_err *err) {
    och_kl_diag diag;
    parse s = {0};
    *out_unit = NULL;
    if (n_bytes > OCH_KL_MAX_FILE_BYTES)
        return och_err_set(err, OCH_INVALID, "%.200s: expected at most %u bytes, found %zu", name,
                           OCH_KL_MAX_FILE_BYTES, n_bytes);
    och_kl_diag_init(&diag, diag_text, err);
    och_kl_unit *u = och_calloc(1, sizeof *u);
    och_arena *arena = och_calloc(1, sizeof *arena);
    if (!u || !arena) {
        och_free(u);
        och_free(arena);
        return och_err_nomem(err, sizeof *arena, "a kernel unit");
    }
    och_arena_init(arena);
    u->arena = arena;
    s.unit = u, s.files_tail = &u->files, s.decls_tail = &u->decls, s.uses_tail = &s.uses;
    och_status st;
    if (!(s.parser = och_arena_alloc(arena, 1, sizeof *s.parser))) st = och_err_nomem(err, sizeof *s.parser, "the parser");
    else {
        s.parser->arena = arena, s.parser->diag = &diag;
        st = parse_all(&s, name, text, n_bytes, loader, err);
    }
    if (st == OCH_OK && diag.n_errors) st = OCH_COMPILE;
    if (st == OCH_OK && diag_text && diag_text->failed) st = och_err_nomem(err, n_bytes, "diagnostics");
    if (st == OCH_OK) *out_unit = u;
    else och_kl_unit_destroy(u);
    return st;
}

void och_kl_unit_destroy(och_kl_unit *u) {
    if (!u) return;
    och_arena_deinit(u->arena);
    och_free(u->arena);
    och_free(u);
}

static bool is_own_kernel(const och_kl_unit *u, const och_kl_decl *d) {
    return d->kind == OCH_KL_D_KERNEL && d->pos.file == u->files;
}

int och_kl_kernel_count(const och_kl_unit *u) {
    int n = 0;
    for (const och_kl_decl *d = u->decls; d; d = d->next) n += is_own_kernel(u, d);
    return n;
}

const char *och_kl_kernel_name(const och_kl_unit *u, int i) {
    for (const och_kl_decl *d = u->decls; d; d = d->next)
        if (is_own_kernel(u, d) && i-- == 0) return d->name;
    return NULL;
}
