/* ochre kernels check: every kernel for every target; what it takes, what it holds. */
#include "main/kernels.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "file/write.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* The boards of the simulator, the two AMD targets beside them, and NVIDIA's as PTX. */
static const char all_targets[] = "gfx906,gfx908,gfx90a,gfx942,gfx950,gfx1030,gfx1100,gfx1101,gfx1102,gfx1103,gfx1150,gfx1151,gfx1152,"
                                  "gfx1153,gfx1200,gfx1201,gfx1250,sm_80,sm_90";

static const och_usage usage = {
    "kernels check", "[KERNEL...] [options]",
    "Compiles the kernels for a list of targets, in the specialisations that a list or the comments above each kernel name:\n"
    "  // check: F=Q4_K,F16 B=1,8   the first value of each, then each other value of one with the first ones of the rest\n"
    "  // decode                    the kernel may not spill registers\n"
    "  // matrix                    its products are matrix instructions, where the target has them\n"
    "  // dot4                      products of codes are dot products of four bytes, with signed activations\n"
    "NVIDIA's targets are compiled to PTX, by clang unless OCHRE_JIT_COMPILER says otherwise.\n"
    "Fails where something does not compile, does not hold what its marks say, a number counts a wave's lanes, or (--strict) a\n"
    "parameter has one value only. In the table: the most vector registers of a kernel, s where some of its specialisations spill,\n"
    "ok where registers are the driver's business, !N where N failed.\n",
    "  ochre kernels check\n  ochre kernels check matvec --target gfx1151,gfx942\n  ochre kernels check --file my.ok --no-cache\n"
    "  ochre kernels check --strict --report kernels.csv\n"};

static const och_kernel_spec *spec_at(const och_kernels_job *j, size_t at) { return &j->specs.items[at / (size_t)j->n_targets]; }
static const char *target_at(const och_kernels_job *j, size_t at) { return j->targets[at % (size_t)j->n_targets].target.name; }

/* Every parameter, or those that were bound where not even that much could be told. */
static void put_parameters(const och_kernels_job *j, size_t at, och_strbuf *b) {
    const och_kernel_spec *s = spec_at(j, at);
    if (*j->outcomes[at].parameters) och_strbuf_puts(b, j->outcomes[at].parameters);
    else
        for (int i = 0; i < s->n_bindings; i++) och_strbuf_printf(b, "%s%s=%s", i ? "," : "", s->bindings[i].name, s->bindings[i].value);
}

static bool spills(const och_kernel_outcome *o) {
    const och_jit_resources *r = &o->resources;
    return r->known && (r->vgpr_spills || r->sgpr_spills || r->scratch_bytes);
}

/* ---- one by one ---- */

static void put_json(const och_kernels_job *j, size_t at, och_strbuf *b) {
    const och_kernel_outcome *o = &j->outcomes[at];
    const och_jit_resources *r = &o->resources;
    och_strbuf parameters = {0};
    put_parameters(j, at, &parameters);
    och_strbuf_printf(b, "%s\n{\"kernel\": \"%s\", \"parameters\": ", at ? "," : "", spec_at(j, at)->kernel->name);
    och_strbuf_json(b, och_strbuf_str(&parameters), parameters.size);
    och_strbuf_printf(b, ", \"target\": \"%s\", \"ok\": %s, \"seconds\": %.3f", target_at(j, at), o->status == OCH_OK ? "true" : "false", o->seconds);
    if (r->known)
        och_strbuf_printf(b, ", \"vgprs\": %u, \"agprs\": %u, \"sgprs\": %u, \"vgpr_spills\": %u, \"sgpr_spills\": %u, \"lds_bytes\": %u, \"scratch_bytes\": %u",
                          (unsigned)r->vgprs, (unsigned)r->agprs, (unsigned)r->sgprs, (unsigned)r->vgpr_spills, (unsigned)r->sgpr_spills,
                          (unsigned)r->lds_bytes, (unsigned)r->scratch_bytes);
    if (o->n_matrix) och_strbuf_printf(b, ", \"matrix_instructions\": %u", (unsigned)o->n_matrix);
    if (o->n_dot4) och_strbuf_printf(b, ", \"dot4_instructions\": %u", (unsigned)o->n_dot4);
    if (o->status != OCH_OK) och_strbuf_puts(b, ", \"message\": ");
    if (o->status != OCH_OK) och_strbuf_json(b, o->message, strlen(o->message));
    och_strbuf_puts(b, "}");
    och_strbuf_deinit(&parameters);
}

static void put_quoted(och_strbuf *b, const char *text) { /* RFC 4180 */
    och_strbuf_puts(b, "\"");
    for (const char *p = text; *p; p++) och_strbuf_append(b, *p == '"' ? "\"\"" : p, *p == '"' ? 2 : 1);
    och_strbuf_puts(b, "\"");
}

static och_status write_report(const och_kernels_job *j, const char *path, och_err *err) {
    och_strbuf b = {0}, parameters = {0};
    och_strbuf_puts(&b, "kernel,parameters,target,ok,decode,vgprs,agprs,sgprs,vgpr_spills,sgpr_spills,lds_bytes,scratch_bytes,"
                        "matrix_instructions,dot4_instructions,seconds,cached,message\n");
    for (size_t i = 0; i < j->specs.n * (size_t)j->n_targets; i++) {
        const och_kernel_outcome *o = &j->outcomes[i];
        const och_jit_resources *r = &o->resources;
        och_strbuf_clear(&parameters);
        put_parameters(j, i, &parameters);
        och_strbuf_printf(&b, "%s,\"%s\",%s,%d,%d,", spec_at(j, i)->kernel->name, och_strbuf_str(&parameters), target_at(j, i), o->status == OCH_OK,
                          (spec_at(j, i)->marks & OCH_KERNEL_DECODE) != 0);
        if (r->known)
            och_strbuf_printf(&b, "%u,%u,%u,%u,%u,%u,%u,", (unsigned)r->vgprs, (unsigned)r->agprs, (unsigned)r->sgprs, (unsigned)r->vgpr_spills,
                              (unsigned)r->sgpr_spills, (unsigned)r->lds_bytes, (unsigned)r->scratch_bytes);
        else och_strbuf_puts(&b, ",,,,,,,");
        och_strbuf_printf(&b, "%u,%u,%.3f,%d,", (unsigned)o->n_matrix, (unsigned)o->n_dot4, o->seconds, o->from_cache);
        if (o->status != OCH_OK) put_quoted(&b, o->message);
        och_strbuf_puts(&b, "\n");
    }
    och_status st = och_strbuf_status(&b, err);
    if (st == OCH_OK) st = och_write_file(path, b.data, b.size, err);
    och_strbuf_deinit(&b);
    och_strbuf_deinit(&parameters);
    return st;
}

/* ---- kernels and targets ---- */

/* A kernel's specialisations are neighbours. Where they end. */
static size_t last_of(const och_kernels_job *j, size_t first) {
    size_t i = first;
    while (i < j->specs.n && j->specs.items[i].kernel == j->specs.items[first].kernel && j->specs.items[i].unit == j->specs.items[first].unit) i++;
    return i;
}

static void put_table(const och_kernels_job *j, och_strbuf *b) {
    och_strbuf_printf(b, "%-16s %4s", "kernel", "n");
    for (int t = 0; t < j->n_targets; t++) {
        const char *name = j->targets[t].target.name;
        och_strbuf_printf(b, " %5s", !strncmp(name, "gfx", 3) ? name + 3 : name);
    }
    och_strbuf_puts(b, " spills    lds\n");
    for (size_t i = 0, end; i < j->specs.n; i = end) {
        uint32_t lds = 0;
        size_t n_spills = 0;
        end = last_of(j, i);
        och_strbuf_printf(b, "%-16s %4zu", j->specs.items[i].kernel->name, end - i);
        for (int t = 0; t < j->n_targets; t++) {
            uint32_t vgprs = 0;
            size_t wrong = 0, here = 0;
            char cell[32];
            for (size_t s = i; s < end; s++) {
                const och_kernel_outcome *o = &j->outcomes[s * (size_t)j->n_targets + (size_t)t];
                if (o->resources.vgprs > vgprs) vgprs = o->resources.vgprs;
                if (o->resources.lds_bytes > lds) lds = o->resources.lds_bytes;
                wrong += o->status != OCH_OK, here += spills(o);
            }
            n_spills += here;
            if (wrong) snprintf(cell, sizeof cell, "!%zu", wrong);
            else if (vgprs) snprintf(cell, sizeof cell, "%u%s", (unsigned)vgprs, here ? "s" : "");
            else snprintf(cell, sizeof cell, "ok");
            och_strbuf_printf(b, " %5s", cell);
        }
        och_strbuf_printf(b, " %6zu %6u\n", n_spills, (unsigned)lds);
    }
}

/* Those that may spill, and do. */
static void put_spilled(const och_kernels_job *j, och_strbuf *b) {
    for (size_t i = 0; i < j->specs.n * (size_t)j->n_targets; i++) {
        const och_jit_resources *r = &j->outcomes[i].resources;
        if (j->outcomes[i].status != OCH_OK || !spills(&j->outcomes[i])) continue;
        och_strbuf_printf(b, "spills: %s ", spec_at(j, i)->kernel->name);
        put_parameters(j, i, b);
        och_strbuf_printf(b, " for %s: %u vector and %u scalar registers, %u bytes of scratch memory\n", target_at(j, i), (unsigned)r->vgpr_spills,
                          (unsigned)r->sgpr_spills, (unsigned)r->scratch_bytes);
    }
}

static size_t put_wrong(const och_kernels_job *j, och_strbuf *b) {
    size_t wrong = 0;
    for (size_t i = 0; i < j->specs.n * (size_t)j->n_targets; i++) {
        if (j->outcomes[i].status == OCH_OK) continue;
        wrong++;
        och_strbuf_printf(b, "%s ", spec_at(j, i)->kernel->name);
        put_parameters(j, i, b);
        och_strbuf_printf(b, " for %s: %s\n", target_at(j, i), j->outcomes[i].message);
    }
    return wrong;
}

/* Kernels with a parameter that had one value in all that was compiled, a line each. */
static och_status put_single(const och_kernels_job *j, och_strbuf *b, och_err *err) {
    size_t n = j->specs.n * (size_t)j->n_targets;
    const char **texts = och_calloc(n + 1, sizeof *texts);
    if (!texts) return och_err_nomem(err, n * sizeof *texts, "a list of specialisations");
    for (size_t i = 0; i < n; i++) texts[i] = j->outcomes[i].parameters;
    for (size_t i = 0, end; i < j->specs.n; i = end) {
        const och_kl_decl *d = j->specs.items[i].kernel;
        och_strbuf one = {0};
        end = last_of(j, i);
        och_kernel_specs_single(d, texts + i * (size_t)j->n_targets, (end - i) * (size_t)j->n_targets, &one);
        if (one.size) och_strbuf_printf(b, "%s:%u: %s is checked with one value only of %s\n", d->pos.file->name, (unsigned)d->pos.line, d->name, one.data);
        och_strbuf_deinit(&one);
    }
    och_free(texts);
    return och_strbuf_status(b, err);
}

/* Of this process and of the compilers that it waited for. */
static double cpu_seconds(void) {
    double s = 0;
    static const int who[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    for (size_t i = 0; i < sizeof who / sizeof *who; i++) {
        struct rusage u;
        if (getrusage(who[i], &u) == 0)
            s += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
    }
    return s;
}

/* Says it all; the exit code. `n_lanes` numbers that count lanes, as `lanes` says. */
static int tell(const och_kernels_job *j, const och_strbuf *lanes, size_t n_lanes, bool list, bool strict, bool json, double seconds) {
    och_strbuf out = {0}, single = {0}, wrong = {0};
    och_err err = {0};
    size_t n_cached = 0, n = j->specs.n * (size_t)j->n_targets, n_wrong = put_wrong(j, &wrong);
    if (!list && put_single(j, &single, &err) != OCH_OK) return och_main_fail(&err);
    for (size_t i = 0; i < n; i++) n_cached += j->outcomes[i].from_cache;
    if (json) {
        och_strbuf_puts(&out, "{\"results\": [");
        for (size_t i = 0; i < n; i++) put_json(j, i, &out);
        och_strbuf_puts(&out, "],\n\"one_value_only\": ");
        och_strbuf_json(&out, och_strbuf_str(&single), single.size);
        och_strbuf_puts(&out, ", \"lane_counts\": ");
        och_strbuf_json(&out, och_strbuf_str(lanes), lanes->size);
        och_strbuf_printf(&out, ",\n\"wrong\": %zu, \"seconds\": %.1f, \"cpu_seconds\": %.1f}\n", n_wrong + n_lanes, seconds, cpu_seconds());
    } else {
        put_table(j, &out);
        put_spilled(j, &out);
        och_strbuf_printf(&out, "%s%s%s", och_strbuf_str(&single), och_strbuf_str(lanes), och_strbuf_str(&wrong));
        och_strbuf_printf(&out, "%zu specialisation%s for %d target%s: %zu of %zu right, %zu of them taken from the cache, in %.1f s (%.1f s of CPU time)\n",
                          j->specs.n, j->specs.n == 1 ? "" : "s", j->n_targets, j->n_targets == 1 ? "" : "s", n - n_wrong, n, n_cached, seconds, cpu_seconds());
    }
    int rc = OCH_EXIT_OK;
    if (n_wrong || n_lanes || (strict && single.size)) rc = OCH_EXIT_FAILURE;
    if (out.failed || wrong.failed || lanes->failed) rc = och_main_error("out of memory");
    else fputs(och_strbuf_str(&out), stdout);
    och_strbuf_deinit(&out);
    och_strbuf_deinit(&single);
    och_strbuf_deinit(&wrong);
    return rc;
}

int och_cmd_kernels_check(int argc, char **argv) {
    const char *names[64], *file = NULL, *list = NULL, *report = NULL, *targets = all_targets;
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
        {"report", 0, OCH_OPT_STR, &report, 0, 0, "FILE", "a line for each compilation, as comma-separated values", NULL},
        {"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object", NULL},
    };
    int rc = och_opts_parse(&usage, opts, sizeof opts / sizeof *opts, argc, argv, names, 64, &n_names);
    och_kernel_files files;
    if (rc >= 0) return rc;
    if ((rc = och_kernel_files_open(&files, file ? &file : NULL, 1)) >= 0) return rc;
    och_kernels_job j = {.look = true};
    och_strbuf astray = {0}, lanes = {0};
    och_err err = {0};
    size_t n_lanes = 0;
    double begin = och_now_seconds();
    rc = och_kernels_job_targets(&j, usage.command, targets);
    if (rc < 0) rc = och_kernels_job_collect(&j, usage.command, &files, list, false, names, n_names);
    for (int f = 0; f < files.n; f++) {
        if (!list) och_kernel_specs_astray(files.units[f], &astray);
        n_lanes += och_kernel_lane_counts(files.units[f], &lanes);
    }
    if (rc < 0) fputs(och_strbuf_str(&astray), stderr);
    if (rc < 0) rc = och_kernels_job_run(&j, threads, no_cache);
    if (rc < 0 && report && write_report(&j, report, &err) != OCH_OK) rc = och_main_fail(&err);
    if (rc < 0) rc = tell(&j, &lanes, n_lanes, list != NULL, strict, json, och_now_seconds() - begin);
    och_strbuf_deinit(&astray);
    och_strbuf_deinit(&lanes);
    och_kernels_job_deinit(&j);
    och_kernel_files_close(&files);
    return rc;
}
