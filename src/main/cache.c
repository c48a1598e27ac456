/* ochre cache: compiled kernels that are kept on disk. */
#include "main/main.h"

#include "jit/cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const och_usage usage = {
    "cache", "ls | verify | clear [options]",
    "Kernels are compiled once and kept in OCHRE_CACHE_DIR, else XDG_CACHE_HOME/ochre, else ~/.cache/ochre; what was used least\n"
    "recently goes when there is more than OCHRE_CACHE_LIMIT (1 GiB). The folder may be deleted at any time.\n\n"
    "  ls       what is there: kernel, parameters, target, compiler, size, when it was last used\n"
    "  verify   reads every byte; what is broken is printed and taken away (it will be compiled again), and the exit status is 1\n"
    "  clear    takes away all that nobody is building\n",
    "  ochre cache ls\n  ochre cache ls --json\n  OCHRE_CACHE_DIR=/tmp/kernels ochre cache verify\n  ochre cache clear\n"};

typedef struct listing {
    och_strbuf out;
    bool json, broken_only, first;
    int64_t now_s;
} listing;

static void put_size(och_strbuf *b, uint64_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes / 1024;
    int u = 0;
    while (v >= 1023.95 && u < 3) v /= 1024, u++;
    if (bytes < 1024) och_strbuf_printf(b, "%" PRIu64 " B", bytes);
    else och_strbuf_printf(b, "%.1f %s", v, units[u]);
}

static void put_age(och_strbuf *b, int64_t seconds) {
    if (seconds < 0) seconds = 0; /* another machine's clock */
    if (seconds < 60) och_strbuf_printf(b, "%" PRId64 " s", seconds);
    else if (seconds < 3600) och_strbuf_printf(b, "%" PRId64 " min", seconds / 60);
    else if (seconds < 48 * 3600) och_strbuf_printf(b, "%" PRId64 " h", seconds / 3600);
    else och_strbuf_printf(b, "%" PRId64 " days", seconds / 86400);
}

static void put_string(och_strbuf *b, const char *name, const char *v) {
    och_strbuf_printf(b, ", \"%s\": ", name);
    och_strbuf_json(b, v, strlen(v));
}

static void put_item_json(listing *l, const och_cache_item *i) {
    const och_cache_entry *e = i->entry;
    och_strbuf_printf(&l->out, "%s{\"key\": \"%s\", \"bytes\": %" PRIu64 ", \"used\": %" PRId64, l->first ? "" : ", ", i->key, i->bytes, i->used_s);
    if (e) {
        put_string(&l->out, "kernel", e->kernel);
        put_string(&l->out, "parameters", e->specialisation);
        put_string(&l->out, "target", e->target);
        put_string(&l->out, "compiler", e->compiler);
        och_strbuf_printf(&l->out, ", \"wave_size\": %d, \"code_bytes\": %zu}", e->wave_size, e->code_bytes);
    } else {
        put_string(&l->out, "problem", i->problem);
        och_strbuf_puts(&l->out, "}");
    }
}

static void put_item(void *ctx, const och_cache_item *i) {
    listing *l = ctx;
    const och_cache_entry *e = i->entry;
    if (l->broken_only && e) return;
    if (l->json) put_item_json(l, i);
    else {
        och_strbuf size = {0}, age = {0};
        put_size(&size, i->bytes);
        put_age(&age, l->now_s - i->used_s);
        och_strbuf_printf(&l->out, "%.12s  %10s  %8s  ", i->key, och_strbuf_str(&size), och_strbuf_str(&age));
        if (!e) och_strbuf_printf(&l->out, "broken: %s\n", i->problem);
        else
            och_strbuf_printf(&l->out, "%-24s %2d  %-28s %s%s%s\n", e->target, e->wave_size, e->compiler, e->kernel[0] ? e->kernel : "-",
                              e->specialisation[0] ? " " : "", e->specialisation);
        l->out.failed |= size.failed || age.failed;
        och_strbuf_deinit(&size);
        och_strbuf_deinit(&age);
    }
    l->first = false;
}

static void put_entries(och_strbuf *b, uint64_t n, uint64_t bytes) {
    och_strbuf_printf(b, "%" PRIu64 " %s, ", n, n == 1 ? "entry" : "entries");
    put_size(b, bytes);
}

static void put_totals(listing *l, const char *dir, const och_cache_totals *t, const char *command) {
    och_strbuf *b = &l->out;
    bool clears = !strcmp(command, "clear"), verifies = !strcmp(command, "verify");
    if (l->json) {
        och_strbuf_puts(b, clears ? "{\"folder\": " : "], \"folder\": ");
        och_strbuf_json(b, dir, strlen(dir));
        och_strbuf_printf(b, ", \"%s\": %" PRIu64 ", \"bytes\": %" PRIu64, clears ? "removed" : "whole", t->entries, t->bytes);
        if (!clears) och_strbuf_printf(b, ", \"broken\": %" PRIu64, t->corrupt);
        if (verifies || clears) och_strbuf_printf(b, ", \"leftovers\": %" PRIu64, t->leftovers);
        och_strbuf_puts(b, "}\n");
        return;
    }
    och_strbuf_printf(b, "%s: ", dir);
    if (clears) och_strbuf_puts(b, "removed ");
    put_entries(b, t->entries, t->bytes);
    if (verifies) och_strbuf_puts(b, t->corrupt ? " whole" : ", all whole");
    if (t->corrupt) och_strbuf_printf(b, "; %" PRIu64 " broken%s", t->corrupt, verifies ? ", taken away" : ": ochre cache verify takes such away");
    if (t->leftovers) och_strbuf_printf(b, "; %" PRIu64 " left by who was interrupted, taken away", t->leftovers);
    och_strbuf_puts(b, "\n");
}

static int work(const char *command, och_cache *cache, listing *l) {
    och_err err = {0};
    och_cache_totals totals = {0};
    och_status st;
    if (!strcmp(command, "clear")) st = och_cache_clear(cache, &totals, &err);
    else {
        bool verifies = !strcmp(command, "verify");
        l->broken_only = verifies;
        if (l->json) och_strbuf_puts(&l->out, verifies ? "{\"problems\": [" : "{\"entries\": [");
        st = verifies ? och_cache_verify(cache, put_item, l, &totals, &err) : och_cache_list(cache, put_item, l, &totals, &err);
        if (!l->json && !l->first && !verifies) { /* once it is known that there is a table */
            och_strbuf rows = l->out;
            och_strbuf_init(&l->out);
            och_strbuf_printf(&l->out, "%-12s  %10s  %8s  %-24s %2s  %-28s %s\n", "key", "size", "used", "target", "w", "compiler", "kernel");
            och_strbuf_append(&l->out, rows.data, rows.size);
            l->out.failed |= rows.failed;
            och_strbuf_deinit(&rows);
        }
    }
    if (st != OCH_OK) return och_main_fail(&err);
    put_totals(l, och_cache_dir(cache), &totals, command);
    if (l->out.failed) return och_main_error("out of memory");
    fputs(och_strbuf_str(&l->out), stdout);
    return totals.corrupt && !strcmp(command, "verify") ? OCH_EXIT_FAILURE : OCH_EXIT_OK;
}

int och_cmd_cache(int argc, char **argv) {
    static const char *const commands[] = {"ls", "verify", "clear"};
    bool json = false, known = false;
    const char *command = NULL;
    int n_args = 0;
    const och_opt opts[] = {{"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object", NULL}};
    int rc = och_opts_parse(&usage, opts, 1, argc, argv, &command, 1, &n_args);
    if (rc >= 0) return rc;
    if (!n_args) return och_main_usage("cache", "expected ls, verify or clear");
    for (int i = 0; i < 3; i++) known |= !strcmp(command, commands[i]);
    if (!known) {
        const char *near = och_main_nearest(command, commands, 3);
        if (near) return och_main_usage("cache", "expected ls, verify or clear, found \"%.100s\"; did you mean %s?", command, near);
        return och_main_usage("cache", "expected ls, verify or clear, found \"%.100s\"", command);
    }
    och_cache *cache;
    och_err err = {0};
    if (och_cache_open(NULL, 0, &cache, &err) != OCH_OK) return och_main_fail(&err);
    listing l = {.json = json, .first = true, .now_s = (int64_t)time(NULL)};
    rc = work(command, cache, &l);
    och_strbuf_deinit(&l.out);
    och_cache_close(cache);
    return rc;
}
