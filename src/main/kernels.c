/* ochre kernels: what kernels there are, their text for a target, their code. */
#include "main/kernels.h"

#include "base/alloc.h"
#include "base/env.h"
#include "file/write.h"
#include "jit/kernel.h"
#include "kl/builtin.h"
#include "kl/unit_print.h"

#include <stdio.h>
#include <string.h>

/* ---- options that emit, build and disasm share ---- */

typedef struct wanted {
    const char *file, *target, *kernel, *out;
    int32_t wave;
    bool json;
    och_kl_binding bindings[OCH_KERNELS_MAX_BINDINGS];
    int n_bindings;
    och_kernel_files files;
    const och_kl_unit *unit;
} wanted;

#define MAX_ARGS (OCH_KERNELS_MAX_BINDINGS + 2)

/* -p NAME=VALUE may come any number of times: the options' table knows it as a plain argument. */
static int drop_p(const och_usage *usage, int argc, char **argv, char **out) {
    int n = 0;
    for (int i = 0; i < argc; i++) {
        char *a = argv[i];
        if (!strcmp(a, "-p") || !strcmp(a, "--param")) {
            if (i + 1 == argc || !strchr(argv[i + 1], '=')) {
                och_main_usage(usage->command, "%s: expected NAME=VALUE", a);
                return -1;
            }
            continue;
        }
        if (!strncmp(a, "-p", 2) && strchr(a, '=')) a += 2;
        else if (!strncmp(a, "--param=", 8)) a += 8;
        out[n++] = a;
    }
    out[n] = NULL;
    return n;
}

static int find_kernel(wanted *w, const och_usage *usage) {
    const char *paths[1] = {w->file};
    int rc = och_kernel_files_open(&w->files, w->file ? paths : NULL, 1);
    const char *names[256];
    size_t n = 0;
    if (rc >= 0) return rc;
    for (int i = 0; i < w->files.n; i++)
        for (const och_kl_decl *d = NULL; (d = och_kernel_next(w->files.units[i], d));) {
            if (w->kernel && !strcmp(d->name, w->kernel)) w->unit = w->files.units[i];
            if (n < 256) names[n++] = d->name;
        }
    if (!w->kernel && n == 1) w->kernel = names[0], w->unit = w->files.units[0];
    const size_t n_own = n;
    for (int i = 0; w->file && i < w->files.n; i++) { /* what the file uses, behind its own */
        if (w->kernel && !w->unit && och_kernel_named(w->files.units[i], w->kernel)) w->unit = w->files.units[i];
        for (const och_kl_decl *d = w->files.units[i]->decls; d; d = d->next)
            if (d->kind == OCH_KL_D_KERNEL && d->pos.file != w->files.units[i]->files && n < 256) names[n++] = d->name;
    }
    if (!w->kernel) return och_main_usage(usage->command, "which kernel? see: ochre kernels ls%s%s", w->file ? " " : "", w->file ? w->file : "");
    if (w->unit) return -1;
    const char *near = och_main_nearest(w->kernel, names, n);
    if (near) return och_main_error("no kernel %.100s; did you mean %s?", w->kernel, near);
    if (!w->file) return och_main_error("no kernel %.100s; see: ochre kernels ls", w->kernel);
    och_strbuf own = {0};
    for (size_t i = 0; i < n_own; i++) och_strbuf_printf(&own, "%s%s", i ? ", " : "", names[i]);
    rc = och_main_error("no kernel %.100s in %.200s nor in what it uses; its own: %.400s", w->kernel, w->file, n_own ? och_strbuf_str(&own) : "none");
    och_strbuf_deinit(&own);
    return rc;
}

static int parse_wanted(wanted *w, const och_usage *usage, bool has_out, bool has_json, int argc, char **argv) {
    const char *args[MAX_ARGS];
    och_opt opts[5] = {
        {"target", 't', OCH_OPT_STR, &w->target, 0, 0, "T", "what it is made for: gfx1151, gfx942:sramecc+:xnack-, sm_90 (see: ochre targets)", NULL},
        {"wave", 0, OCH_OPT_I32, &w->wave, 32, 64, "N", "lanes of a wave, where the target has both (default: its own)", NULL},
        {"file", 'f', OCH_OPT_STR, &w->file, 0, 0, "FILE", "a .ok file in place of the built-in ones", NULL},
    };
    size_t n_opts = 3;
    if (has_out) opts[n_opts++] = (och_opt){"output", 'o', OCH_OPT_STR, &w->out, 0, 0, "FILE", "where the code goes", NULL};
    if (has_json) opts[n_opts++] = (och_opt){"json", 0, OCH_OPT_FLAG, &w->json, 0, 0, NULL, "one JSON object", NULL};
    char **plain = och_malloc_array((size_t)argc + 1, sizeof *plain);
    if (!plain) return och_main_error("out of memory");
    int n_args = 0, n = drop_p(usage, argc, argv, plain);
    int rc = n < 0 ? OCH_EXIT_USAGE : och_opts_parse(usage, opts, n_opts, n, plain, args, MAX_ARGS, &n_args);
    for (int i = 0; rc < 0 && i < n_args; i++) {
        char *eq = strchr(args[i], '=');
        if (eq && eq != args[i]) {
            if (w->n_bindings == OCH_KERNELS_MAX_BINDINGS) rc = och_main_usage(usage->command, "more than %d parameters", OCH_KERNELS_MAX_BINDINGS);
            else {
                *eq = '\0';
                w->bindings[w->n_bindings++] = (och_kl_binding){args[i], eq + 1};
            }
        } else if (w->kernel) rc = och_main_usage(usage->command, "expected one kernel, found %.100s and %.100s", w->kernel, args[i]);
        else w->kernel = args[i];
    }
    if (rc < 0 && !w->target) rc = och_main_usage(usage->command, "--target is needed; see: ochre targets");
    och_free(plain);
    if (rc < 0) rc = find_kernel(w, usage);
    return rc;
}

/* Specialises and emits; -1 or the exit code. */
static int make(wanted *w, och_jit_kernel *k) {
    och_kl_profile profile;
    och_strbuf diag = {0};
    och_err err = {0};
    memset(k, 0, sizeof *k);
    och_status st = och_kl_profile_init(&profile, w->target, w->wave, &err);
    if (st == OCH_OK) st = och_jit_kernel_init(k, w->unit, w->kernel, w->bindings, w->n_bindings, &profile, &diag, &err);
    if (st != OCH_OK) {
        /* diagnostics say it, with place and line; the record holds the first of them again */
        fputs(och_strbuf_str(&diag), stderr);
        int rc = diag.size ? och_main_error("kernel %.100s for %.60s: not made, see above", w->kernel, w->target) : OCH_EXIT_OK;
        och_strbuf_deinit(&diag);
        return rc == OCH_EXIT_OK ? och_main_fail(&err) : rc;
    }
    och_strbuf_deinit(&diag);
    return -1;
}

static int compile(const och_jit_kernel *k, och_jit_artifact **out) {
    och_jit *jit;
    och_strbuf log = {0};
    och_err err = {0};
    const och_jit_options options = {.only_these_packs = true};
    och_status st = och_jit_create(&options, &jit, &err);
    if (st != OCH_OK) return och_main_fail(&err);
    st = och_jit_get(jit, &k->request, out, &log, &err);
    och_jit_destroy(jit);
    fputs(och_strbuf_str(&log), stderr);
    och_strbuf_deinit(&log);
    return st == OCH_OK ? -1 : och_main_fail(&err);
}

/* ---- ls ---- */

static const och_usage ls_usage = {
    "kernels ls", "[KERNEL | FILE.ok]... [options]",
    "Lists the built-in kernels, or those of .ok files, or of either those that are named, with the parameters that a\n"
    "specialisation fixes: their kinds, and defaults where there are any.\n",
    "  ochre kernels ls\n  ochre kernels ls matvec\n  ochre kernels ls my.ok --json\n"};

static void put_param(const och_kl_param_ast *p, och_strbuf *b) {
    static const char *const kinds[] = {"elem", "format", "int", "bool"};
    if (p->ranged) {
        och_kl_print_expr(p->lo, b);
        och_strbuf_puts(b, "..");
        och_kl_print_expr(p->hi, b);
    } else
        och_strbuf_puts(b, kinds[p->kind]);
}

static void list_kernel(const och_kl_decl *d, bool json, bool first, och_strbuf *b) {
    och_strbuf text = {0};
    if (json) och_strbuf_printf(b, "%s{\"kernel\": \"%s\", \"file\": ", first ? "" : ", ", d->name);
    if (json) och_strbuf_json(b, d->pos.file->name, strlen(d->pos.file->name));
    if (json) och_strbuf_printf(b, ", \"line\": %u, \"parameters\": [", (unsigned)d->pos.line);
    else och_strbuf_printf(b, "%-20s %-18s", d->name, d->pos.file->name);
    for (const och_kl_param_ast *p = d->params; p; p = p->next) {
        och_strbuf_clear(&text);
        put_param(p, &text);
        if (json) och_strbuf_printf(b, "%s{\"name\": \"%s\", \"kind\": \"%s\", \"default\": ", p == d->params ? "" : ", ", p->name, och_strbuf_str(&text));
        else och_strbuf_printf(b, " %s:%s", p->name, och_strbuf_str(&text));
        och_strbuf_clear(&text);
        if (p->default_value) och_kl_print_expr(p->default_value, &text);
        if (json && p->default_value) och_strbuf_json(b, text.data, text.size);
        else if (json) och_strbuf_puts(b, "null");
        else if (p->default_value) och_strbuf_printf(b, "=%s", och_strbuf_str(&text));
        if (json) och_strbuf_puts(b, "}");
    }
    och_strbuf_puts(b, json ? "]}" : "\n");
    if (text.failed) b->failed = true;
    och_strbuf_deinit(&text);
}

static bool names_file(const char *arg) {
    size_t n = strlen(arg);
    return strchr(arg, '/') || (n > 3 && !strcmp(arg + n - 3, ".ok"));
}

static int cmd_ls(int argc, char **argv) {
    bool json = false, first = true, found[64] = {false};
    const char *args[64], *paths[64], *names[64], *known[256];
    int n_args = 0, n_paths = 0, n_names = 0;
    size_t n_known = 0;
    const och_opt opts[] = {{"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object", NULL}};
    int rc = och_opts_parse(&ls_usage, opts, 1, argc, argv, args, 64, &n_args);
    och_kernel_files files;
    if (rc >= 0) return rc;
    for (int i = 0; i < n_args; i++) {
        if (names_file(args[i])) paths[n_paths++] = args[i];
        else names[n_names++] = args[i];
    }
    if ((rc = och_kernel_files_open(&files, n_paths ? paths : NULL, n_paths)) >= 0) return rc;
    och_strbuf b = {0};
    och_strbuf_puts(&b, json ? "{\"kernels\": [" : "");
    if (!json) och_strbuf_printf(&b, "%-20s %-18s %s\n", "kernel", "file", "parameters");
    for (int i = 0; i < files.n; i++)
        for (const och_kl_decl *d = NULL; (d = och_kernel_next(files.units[i], d));) {
            bool wanted_one = !n_names;
            if (n_known < 256) known[n_known++] = d->name;
            for (int k = 0; k < n_names; k++)
                if (!strcmp(d->name, names[k])) wanted_one = found[k] = true;
            if (!wanted_one) continue;
            list_kernel(d, json, first, &b);
            first = false;
        }
    och_strbuf_puts(&b, json ? "]}\n" : "");
    for (int k = 0; k < n_names && rc < 0; k++) {
        const char *near = found[k] ? NULL : och_main_nearest(names[k], known, n_known);
        if (near) rc = och_main_error("no kernel %.100s; did you mean %s?", names[k], near);
        else if (!found[k]) rc = och_main_error("no kernel %.100s; a file of kernels ends in .ok", names[k]);
    }
    if (rc < 0 && b.failed) rc = och_main_error("out of memory");
    else if (rc < 0) fputs(och_strbuf_str(&b), stdout);
    och_strbuf_deinit(&b);
    och_kernel_files_close(&files);
    return rc >= 0 ? rc : OCH_EXIT_OK;
}

/* ---- emit ---- */

static const och_usage emit_usage = {
    "kernels emit", "KERNEL --target T [-p NAME=VALUE]... [options]",
    "Prints the text that a kernel becomes: HIP C++ for AMD targets, CUDA C++ for NVIDIA's. It includes no header. Parameters\n"
    "without a default are given with -p; -p may be left out.\n",
    "  ochre kernels emit rms_norm --target gfx1151\n  ochre kernels emit matvec --target gfx942 -p F=Q4_K -p B=1\n"
    "  ochre kernels emit --file my.ok --target sm_90 WAVES=8\n"};

static int cmd_emit(int argc, char **argv) {
    wanted w = {0};
    int rc = parse_wanted(&w, &emit_usage, false, false, argc, argv);
    if (rc < 0) {
        och_jit_kernel k;
        rc = make(&w, &k);
        if (rc < 0) fwrite(k.text.data, 1, k.text.size, stdout), rc = OCH_EXIT_OK;
        och_jit_kernel_deinit(&k);
    }
    och_kernel_files_close(&w.files);
    return rc;
}

/* ---- build ---- */

static const och_usage build_usage = {
    "kernels build", "KERNEL --target T [-p NAME=VALUE]... [-o FILE] [options]",
    "Compiles a kernel and reports what it takes: registers, spilled ones, LDS, scratch memory; and how it is launched. With -o\n"
    "the code is written: a code object, for NVIDIA's targets a cubin (by NVRTC) or PTX text (by clang). Compilers are looked for as `ochre doctor` lists them; code\n"
    "comes from the cache where it was compiled before. Packs are not read.\n",
    "  ochre kernels build matvec --target gfx1151 -p F=Q4_K -p B=1\n"
    "  ochre kernels build softmax --target gfx942 -o softmax.co\n"};

static void report_text(const och_jit_kernel *k, const och_jit_artifact *a) {
    const och_kl_signature *s = &k->signature;
    const och_jit_resources *r = &a->resources;
    static const char *const origins[] = {"a pack", "the cache", "a compiler"};
    printf("kernel     %s %s\nentry      %s\ntarget     %s, waves of %d\n", s->kernel, s->spec, s->entry, a->target, a->wave_size);
    printf("compiler   %s; from %s\n", a->compiler, origins[a->origin]);
    printf("workgroup  %d threads, %d waves\ncode       %zu bytes\narguments  %u bytes\nlds        %u bytes\n", s->threads, s->waves, a->code_bytes,
           (unsigned)s->args_bytes, (unsigned)s->lds_bytes);
    if (r->known)
        printf("registers  %u vector, %u accumulation, %u scalar\nspilled    %u vector, %u scalar\nscratch    %u bytes%s\n", (unsigned)r->vgprs,
               (unsigned)r->agprs, (unsigned)r->sgprs, (unsigned)r->vgpr_spills, (unsigned)r->sgpr_spills, (unsigned)r->scratch_bytes,
               r->dynamic_stack ? ", and a stack of unknown size" : "");
    else printf("registers  not told: NVIDIA's driver and its tools (cuobjdump -res-usage) know them\n");
}

static void report_json(const och_jit_kernel *k, const och_jit_artifact *a, och_strbuf *b) {
    const och_kl_signature *s = &k->signature;
    const och_jit_resources *r = &a->resources;
    och_strbuf_printf(b, "{\"kernel\": \"%s\", \"specialisation\": \"%s\", \"entry\": \"%s\", \"target\": \"%s\", \"wave\": %d, \"compiler\": ",
                      s->kernel, s->spec, s->entry, a->target, a->wave_size);
    och_strbuf_json(b, a->compiler, strlen(a->compiler));
    och_strbuf_printf(b, ", \"threads\": %d, \"code_bytes\": %zu, \"args_bytes\": %u, \"lds_bytes\": %u", s->threads, a->code_bytes,
                      (unsigned)s->args_bytes, (unsigned)s->lds_bytes);
    if (r->known)
        och_strbuf_printf(b, ", \"vgprs\": %u, \"agprs\": %u, \"sgprs\": %u, \"vgpr_spills\": %u, \"sgpr_spills\": %u, \"scratch_bytes\": %u",
                          (unsigned)r->vgprs, (unsigned)r->agprs, (unsigned)r->sgprs, (unsigned)r->vgpr_spills, (unsigned)r->sgpr_spills,
                          (unsigned)r->scratch_bytes);
    och_strbuf_puts(b, "}\n");
}

static int cmd_build(int argc, char **argv) {
    wanted w = {0};
    int rc = parse_wanted(&w, &build_usage, true, true, argc, argv);
    if (rc < 0) {
        och_jit_kernel k;
        och_jit_artifact *a = NULL;
        rc = make(&w, &k);
        if (rc < 0) rc = compile(&k, &a);
        if (rc < 0 && och_env_get(OCH_ENV_OCHRE_PACK) && !w.json)
            fputs("ochre: OCHRE_PACK is not read here: what a compiler makes of the kernel is reported\n", stderr);
        if (rc < 0) {
            och_err err = {0};
            och_strbuf b = {0};
            if (w.out && och_write_file(w.out, a->code, a->code_bytes, &err) != OCH_OK) rc = och_main_fail(&err);
            else if (w.json) {
                report_json(&k, a, &b);
                fputs(och_strbuf_str(&b), stdout);
            } else report_text(&k, a);
            och_strbuf_deinit(&b);
        }
        och_jit_artifact_destroy(a);
        och_jit_kernel_deinit(&k);
    }
    och_kernel_files_close(&w.files);
    return rc < 0 ? OCH_EXIT_OK : rc;
}

/* ---- disasm ---- */

static const och_usage disasm_usage = {
    "kernels disasm", "KERNEL --target T [-p NAME=VALUE]... [options]",
    "Compiles a kernel and prints its instructions: through llvm-objdump for AMD targets (looked for in PATH and in ROCM_PATH),\n"
    "the PTX text for NVIDIA's where clang is the compiler (OCHRE_JIT_COMPILER=clang).\n",
    "  ochre kernels disasm matmul --target gfx1201 -p F=F16\n"};

static int cmd_disasm(int argc, char **argv) {
    wanted w = {0};
    int rc = parse_wanted(&w, &disasm_usage, false, false, argc, argv);
    if (rc < 0) {
        och_jit_kernel k;
        och_jit_artifact *a = NULL;
        rc = make(&w, &k);
        if (rc < 0) rc = compile(&k, &a);
        if (rc < 0) {
            och_strbuf text = {0};
            och_err err = {0};
            if (och_kernel_disassemble(a, &text, &err) != OCH_OK) rc = och_main_fail(&err);
            else fwrite(text.data, 1, text.size, stdout), rc = OCH_EXIT_OK;
            och_strbuf_deinit(&text);
        }
        och_jit_artifact_destroy(a);
        och_jit_kernel_deinit(&k);
    }
    och_kernel_files_close(&w.files);
    return rc;
}

/* ---- the command ---- */

static const struct {
    const char *name;
    int (*fn)(int argc, char **argv);
    const char *summary;
} subcommands[] = {
    {"ls", cmd_ls, "the kernels and their parameters"},
    {"emit", cmd_emit, "the text that a kernel becomes for a target"},
    {"build", cmd_build, "compile a kernel; what it takes"},
    {"check", och_cmd_kernels_check, "compile every kernel for every target"},
    {"test", och_cmd_kernels_test, "the kernels on a device against the references of their ops"},
    {"disasm", cmd_disasm, "a kernel's instructions"},
    {"pack", och_cmd_kernels_pack, "write a pack: kernels for machines without a compiler"},
};

int och_cmd_kernels(int argc, char **argv) {
    const size_t n = sizeof subcommands / sizeof *subcommands;
    const char *names[sizeof subcommands / sizeof *subcommands];
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        FILE *to = argc < 2 ? stderr : stdout;
        fprintf(to, "usage: ochre kernels COMMAND [arguments]\n\n"
                    "Kernels are written once, in Ochre's kernel language (docs/kernel-language.md), and compiled for a target.\n\ncommands:\n");
        for (size_t i = 0; i < n; i++) fprintf(to, "  %-8s %s\n", subcommands[i].name, subcommands[i].summary);
        fprintf(to, "\nEach explains itself: ochre kernels build --help\nA file in the directory OCHRE_KERNELS_DIR stands for the built-in one of its name, or beside those.\n");
        return argc < 2 ? OCH_EXIT_USAGE : OCH_EXIT_OK;
    }
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(argv[1], subcommands[i].name)) return subcommands[i].fn(argc - 1, argv + 1);
        names[i] = subcommands[i].name;
    }
    const char *near = och_main_nearest(argv[1], names, n);
    if (near) return och_main_usage("kernels", "unknown command \"%.100s\"; did you mean %s?", argv[1], near);
    return och_main_usage("kernels", "unknown command \"%.100s\"", argv[1]);
}
