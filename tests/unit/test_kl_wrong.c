/* Wrong kernels (tests/kl/wrong): each says in its head what the first diagnostic is, and where.
 *
 *     // expect: LINE:COLUMN: error: TEXT
 *     // note: TEXT                        a note that stands somewhere below; any number of these
 *     // with: NAME=VALUE NAME=VALUE       parameters; without it, those that have defaults
 *
 * {target} and {wave} in a text stand for what the kernel is specialised for. Where a parameter's value is refused, which has
 * no place in the file, TEXT is the message alone. The file is parsed, then its first kernel is specialised for gfx1100 and for
 * gfx942. --print shows all that is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "kl/builtin.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIR_NAME OCHRE_SOURCE_DIR "/tests/kl/wrong"
#define MAX_FILES 200

static bool print;

/* The rest of the line behind `head`, from *at on; NULL: there is none. */
static char *line_of(const char **at, const char *head, char *line, size_t n_line) {
    const char *p = strstr(*at, head);
    if (!p) return NULL;
    p += strlen(head);
    size_t n = strcspn(p, "\n");
    assert_true(n < n_line);
    memcpy(line, p, n);
    line[n] = '\0';
    *at = p + n;
    return line;
}

/* Puts a value in the place of a name. */
static void put_in(och_strbuf *text, const char *name, const char *value) {
    char *p = strstr(och_strbuf_str(text), name);
    if (!p) return;
    char *rest = strdup(p + strlen(name));
    text->size = (size_t)(p - text->data);
    och_strbuf_puts(text, value);
    och_strbuf_puts(text, rest);
    free(rest);
}

static int bindings_of(char *text, och_kl_binding *out) {
    int n = 0;
    for (char *save, *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(word, '=');
        assert_non_null(eq);
        *eq = '\0';
        out[n++] = (och_kl_binding){word, eq + 1};
    }
    return n;
}

static void one_file(const char *name, const char *target) {
    char path[512], line[512], with[256] = "";
    snprintf(path, sizeof path, "%s/%s", DIR_NAME, name);
    static char text[1 << 16];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    int64_t live = och_alloc_live();
    och_kl_unit *u;
    och_strbuf diag = {0};
    och_err err = {0};
    och_status st = och_kl_parse(name, text, strlen(text), NULL, &u, &diag, &err);
    if (st == OCH_OK) {
        och_kl_profile profile;
        och_kl_code *code;
        och_kl_binding bindings[16];
        const char *at = text;
        int n = line_of(&at, "// with: ", with, sizeof with) ? bindings_of(with, bindings) : 0;
        assert_int_equal(och_kl_profile_init(&profile, target, 0, &err), OCH_OK);
        st = och_kl_specialise(u, och_kl_kernel_name(u, 0), bindings, n, &profile, &code, &diag, &err);
        och_kl_code_destroy(code);
    }
    och_kl_unit_destroy(u);
    if (print) printf("%s\n%s\n", name, diag.size ? diag.data : err.message);
    else {
        och_strbuf want = {0};
        const char *at = text;
        if (st == OCH_OK) fail_msg("%s for %s: nothing is found wrong", name, target);
        if (st != OCH_COMPILE && st != OCH_INVALID) fail_msg("%s for %s: %s: %s", name, target, och_status_name(st), err.message);
        if (!line_of(&at, "// expect: ", line, sizeof line)) fail_msg("%s says not what to expect", name);
        och_strbuf_printf(&want, "%s%s%s", st == OCH_COMPILE ? name : "", st == OCH_COMPILE ? ":" : "", line);
        put_in(&want, "{target}", target);
        put_in(&want, "{wave}", strcmp(target, "gfx942") ? "32" : "64");
        size_t n = strcspn(och_strbuf_str(&diag), "\n");
        if (st == OCH_COMPILE && (want.size != n || memcmp(want.data, diag.data, n)))
            fail_msg("%s for %s: expected\n%s\nfound\n%s", name, target, want.data, och_strbuf_str(&diag));
        assert_string_equal(err.message, want.data);
        for (at = text; line_of(&at, "// note: ", line, sizeof line);) {
            och_strbuf_clear(&want);
            och_strbuf_printf(&want, ": note: %s\n", line);
            if (!strstr(och_strbuf_str(&diag), want.data)) fail_msg("%s for %s: no note \"%s\" in\n%s", name, target, line, och_strbuf_str(&diag));
        }
        och_strbuf_deinit(&want);
    }
    och_strbuf_deinit(&diag);
    assert_int_equal(och_alloc_live(), live);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void all_files(void **s) {
    char *names[MAX_FILES];
    int n = 0;
    (void)s;
    DIR *d = opendir(DIR_NAME);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (!strstr(e->d_name, ".ok")) continue;
        assert_true(n < MAX_FILES);
        names[n++] = strdup(e->d_name);
    }
    closedir(d);
    qsort(names, (size_t)n, sizeof names[0], by_name);
    assert_true(n >= 30);
    for (int i = 0; i < n; i++) {
        one_file(names[i], "gfx1100");
        if (!print) one_file(names[i], "gfx942");
        free(names[i]);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_files)};
    print = argc > 1 && !strcmp(argv[1], "--print");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
