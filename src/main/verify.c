/* ochre verify: a model's logits against golden files, or against the reference provider on the same model. */
#include "main/main.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/size.h"
#include "base/thread.h"
#include "engine/api.h"
#include "engine/verify.h"
#include "file/gguf.h"
#include "file/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const och_usage usage = {
    "verify", "MODEL --against GOLDEN [GOLDEN...] [options]\n       ochre verify MODEL --against reference [options]",
    "Feeds the model the golden's own tokens and compares its logits and its choice of each next token. The\n"
    "reference provider must equal a float32 oracle to rounding; a faster one must keep mean KL and the worst\n"
    "|delta logit| within the bounds of the weights' format (of the state's, where that is fp8), and a token may\n"
    "differ only where the oracle itself was near a tie. With several goldens each one is judged; oracles that\n"
    "disagree with each other (several runs, several programs) are judged with --any, by the one that is closest\n"
    "for each prompt. `--against reference` makes the golden on the spot with the reference provider, from a few\n"
    "built-in prompts.\n"
    "exit status: 0 within the bounds; 1 not, or it could not be compared\n",
    "  ochre verify smollm2-135m --against tests/golden/smollm2-135m-q4_1.safetensors\n"
    "  ochre verify smollm2-135m --provider reference --against tests/golden/smollm2-135m-q4_1.safetensors\n"
    "  ochre verify model.gguf --against reference --tokens 32\n"};

static const struct {
    const char *name, *text;
} prompts[] = {
    {"english", "The harbour was quiet in the morning, and the fishermen were already"},
    {"code", "int add(int a, int b) {\n    return"},
    {"spanish", "La biblioteca estaba cerrada, pero por la ventana se veía"},
    {"numbers", "1, 1, 2, 3, 5, 8, 13,"},
};

/* One prompt of one golden. */
typedef struct outcome {
    char name[64];
    och_verify_result result;
} outcome;

typedef struct state {
    ochre_model *model, *reference;
    ochre_session_options session;
    int n_vocab, step_tokens;
    const char *only;
    const och_verify_bounds *bounds;
    och_verify_total total;
    outcome *outcomes; /* owned */
    size_t n_outcomes, capacity;
    bool json, first, any;
    och_strbuf out;
} state;

/* The coarsest format among the matrices: the one with the fewest bits an element. */
static och_status coarsest_format(const char *path, och_dtype *out_dtype, och_err *err) {
    och_gguf *g = NULL;
    och_safetensors *s = NULL;
    struct stat info;
    double least = INFINITY;
    *out_dtype = OCH_DTYPE_F32;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) OCH_TRY(och_safetensors_open_dir(path, &s, err));
    else OCH_TRY(och_gguf_open(path, &g, err));
    uint64_t n = g ? och_gguf_n_tensors(g) : och_safetensors_n_tensors(s);
    for (uint64_t i = 0; i < n; i++) {
        const och_file_tensor *t = g ? och_gguf_tensor(g, i) : och_safetensors_tensor(s, i);
        const och_dtype_info *d = t->dtype == OCH_DTYPE_NONE ? NULL : och_dtype_get(t->dtype);
        if (!d || t->rank < 2) continue;
        double bits = 8.0 * d->block_bytes / d->block_elems;
        if (bits < least) least = bits, *out_dtype = t->dtype;
    }
    och_gguf_close(g);
    och_safetensors_close(s);
    return OCH_OK;
}

static void print_number(och_strbuf *b, double v) {
    if (isfinite(v)) och_strbuf_printf(b, "%.6g", v);
    else och_strbuf_puts(b, "null");
}

static void show(state *v, const char *golden, const char *name, const och_verify_result *r) {
    och_verify_bounds own = *v->bounds;
    och_verify_total one = {0};
    /* Mean KL and the share of near ties are judged over all prompts. */
    own.max_kl = INFINITY;
    own.max_share = 1;
    och_verify_total_add(&one, r);
    const char *bad = och_verify_judge(&one, &own);
    if (!v->json) {
        och_strbuf_printf(&v->out, "%-16s %4d/%-4d %5d   %10.3g %10.3g %10.3g %10.3g  %s%s\n", name, r->n_equal, r->n_tokens,
                          r->n_near_ties, r->mean_kl, r->worst_kl, r->worst_delta, one.worst_relative, bad ? "FAILED: " : "ok",
                          bad ? bad : "");
        for (int i = 0; i < r->n_listed; i++) {
            const och_verify_difference *d = &r->differences[i];
            och_strbuf_printf(&v->out, "  token %d: expected %d, found %d, gap %.4g: %s (twice the worst |delta| is %.4g)\n",
                              d->position, d->expected, d->found, d->gap, d->near_tie ? "a near tie" : "NO NEAR TIE",
                              2 * r->worst_delta);
        }
        return;
    }
    och_strbuf_puts(&v->out, v->first ? "" : ", ");
    v->first = false;
    och_strbuf_puts(&v->out, "{\"golden\": ");
    och_strbuf_json(&v->out, golden, strlen(golden));
    och_strbuf_puts(&v->out, ", \"prompt\": ");
    och_strbuf_json(&v->out, name, strlen(name));
    och_strbuf_printf(&v->out, ", \"tokens\": %d, \"equal\": %d, \"near_ties\": %d, \"positions\": %d, \"mean_kl\": ", r->n_tokens,
                      r->n_equal, r->n_near_ties, r->n_positions);
    print_number(&v->out, r->mean_kl);
    och_strbuf_puts(&v->out, ", \"worst_kl\": ");
    print_number(&v->out, r->worst_kl);
    och_strbuf_puts(&v->out, ", \"worst_delta\": ");
    print_number(&v->out, r->worst_delta);
    och_strbuf_puts(&v->out, ", \"max_abs\": ");
    print_number(&v->out, r->max_abs);
    och_strbuf_printf(&v->out, ", \"failed\": ");
    if (bad) och_strbuf_json(&v->out, bad, strlen(bad));
    else och_strbuf_puts(&v->out, "null");
    och_strbuf_puts(&v->out, ", \"differences\": [");
    for (int i = 0; i < r->n_listed; i++) {
        const och_verify_difference *d = &r->differences[i];
        och_strbuf_printf(&v->out, "%s{\"token\": %d, \"expected\": %d, \"found\": %d, \"near_tie\": %s, \"gap\": ", i ? ", " : "",
                          d->position, d->expected, d->found, d->near_tie ? "true" : "false");
        print_number(&v->out, d->gap);
        och_strbuf_puts(&v->out, "}");
    }
    och_strbuf_puts(&v->out, "]}");
}

static bool keep(state *v, const char *name, const och_verify_result *r) {
    if (v->n_outcomes == v->capacity) {
        size_t capacity = v->capacity ? 2 * v->capacity : 64;
        outcome *grown = och_realloc_array(v->outcomes, capacity, sizeof *grown);
        if (!grown) return false;
        v->outcomes = grown;
        v->capacity = capacity;
    }
    outcome *o = &v->outcomes[v->n_outcomes++];
    snprintf(o->name, sizeof o->name, "%s", name);
    o->result = *r;
    return true;
}

/* Whether a is closer to its oracle than b is to its own. */
static bool closer(const och_verify_result *a, const och_verify_result *b) {
    int wrong_a = a->n_tokens - a->n_equal - a->n_near_ties, wrong_b = b->n_tokens - b->n_equal - b->n_near_ties;
    if (wrong_a != wrong_b) return wrong_a < wrong_b;
    return a->worst_delta < b->worst_delta;
}

/* All outcomes; with --any, of each prompt the one that is closest to its oracle. */
static void add_up(state *v) {
    for (size_t i = 0; i < v->n_outcomes; i++) {
        const outcome *o = &v->outcomes[i];
        bool counts = true;
        for (size_t k = 0; v->any && k < v->n_outcomes; k++) {
            const outcome *p = &v->outcomes[k];
            if (k == i || strcmp(p->name, o->name) != 0) continue;
            if (closer(&p->result, &o->result) || (k < i && !closer(&o->result, &p->result))) counts = false;
        }
        if (counts) och_verify_total_add(&v->total, &o->result);
    }
}

static int compare(state *v, const char *golden, const och_golden_prompt *g) {
    och_verify_result r;
    och_err err = {0};
    ochre_error e = {0};
    ochre_session *s = NULL;
    ochre_session_options o = v->session;
    o.max_context = g->n_ids + g->n_greedy;
    if (ochre_session_create(v->model, &o, &s, &e) != OCHRE_OK) return och_main_fail_public(&e);
    och_status st = och_verify_prompt(s, g, v->n_vocab, v->step_tokens, &r, &err);
    ochre_session_destroy(s);
    if (st != OCH_OK) return och_main_fail(&err);
    show(v, golden, g->name, &r);
    if (!keep(v, g->name, &r)) return och_main_error("out of memory for the report");
    if (!v->json) {
        fputs(och_strbuf_str(&v->out), stdout);
        fflush(stdout);
        och_strbuf_clear(&v->out);
    }
    return -1;
}

static int against_file(state *v, const char *path) {
    och_golden g;
    och_err err = {0};
    if (och_golden_read(path, &g, &err) != OCH_OK) return och_main_fail(&err);
    int rc = -1, n = 0;
    for (int i = 0; i < g.n_prompts && rc < 0; i++) {
        if (v->only && strcmp(v->only, g.prompts[i].name) != 0) continue;
        rc = compare(v, path, &g.prompts[i]);
        n++;
    }
    if (rc < 0 && !n) rc = och_main_error("%s holds no prompt named %s", path, v->only);
    och_golden_deinit(&g);
    return rc;
}

static int against_reference(state *v, int n_tokens, const char *text) {
    int rc = -1, n_prompts = 0;
    for (size_t i = 0; rc < 0 && i < (text ? 1 : OCH_COUNT(prompts)); i++) {
        const char *name = text ? "prompt" : prompts[i].name, *t = text ? text : prompts[i].text;
        if (v->only && strcmp(v->only, name) != 0) continue;
        ochre_error e = {0};
        och_err err = {0};
        size_t n = 0;
        int32_t ids[4096];
        if (ochre_tokenize(v->model, t, strlen(t), OCHRE_ADD_SPECIAL, ids, OCH_COUNT(ids), &n, &e) != OCHRE_OK)
            return och_main_fail_public(&e);
        if (!n) return och_main_error("the prompt \"%s\" has no tokens", name);
        ochre_session_options o = v->session;
        ochre_session *s = NULL;
        o.kv_type = OCHRE_KV_F32;
        o.max_context = (int32_t)n + n_tokens;
        if (ochre_session_create(v->reference, &o, &s, &e) != OCHRE_OK) return och_main_fail_public(&e);
        och_golden_prompt g;
        och_status st = och_golden_generate(s, v->n_vocab, name, ids, (int)n, n_tokens, &g, &err);
        ochre_session_destroy(s);
        if (st != OCH_OK) return och_main_fail(&err);
        rc = compare(v, "reference", &g);
        och_golden_prompt_deinit(&g);
        n_prompts++;
    }
    if (rc < 0 && !n_prompts) rc = och_main_error("--only: no prompt is called %s", v->only);
    return rc;
}

static void summary(state *v) {
    const och_verify_total *t = &v->total;
    const och_verify_bounds *b = v->bounds;
    const char *bad = och_verify_judge(t, b);
    if (v->json) {
        och_strbuf_printf(&v->out, "], \"bounds\": {\"for\": \"%s\", \"max_relative\": ", b->what);
        print_number(&v->out, b->max_relative);
        och_strbuf_puts(&v->out, ", \"max_kl\": ");
        print_number(&v->out, b->max_kl);
        och_strbuf_printf(&v->out, ", \"max_near_tie_share\": %g}, \"tokens\": %d, \"equal\": %d, \"near_ties\": %d, \"mean_kl\": ",
                          b->max_share, t->n_tokens, t->n_equal, t->n_near_ties);
        print_number(&v->out, t->mean_kl);
        och_strbuf_puts(&v->out, ", \"worst_delta\": ");
        print_number(&v->out, t->worst_delta);
        och_strbuf_puts(&v->out, ", \"worst_relative\": ");
        print_number(&v->out, t->worst_relative);
        och_strbuf_puts(&v->out, ", \"failed\": ");
        if (bad) och_strbuf_json(&v->out, bad, strlen(bad));
        else och_strbuf_puts(&v->out, "null");
        och_strbuf_puts(&v->out, "}\n");
        return;
    }
    och_strbuf_printf(&v->out, "%-16s %4d/%-4d %5d   %10.3g %10s %10.3g %10.3g  %s%s\n", "all", t->n_equal, t->n_tokens,
                      t->n_near_ties, t->mean_kl, "", t->worst_delta, t->worst_relative, bad ? "FAILED: " : "ok", bad ? bad : "");
    och_strbuf_printf(&v->out, "bounds for %s:", b->what);
    och_strbuf_printf(&v->out, " relative %g,", b->max_relative);
    if (isfinite(b->max_kl)) och_strbuf_printf(&v->out, " mean KL %g,", b->max_kl);
    och_strbuf_printf(&v->out, " near ties %g%%\n", 100 * b->max_share);
}

int och_cmd_verify(int argc, char **argv) {
    enum { MAX_GOLDENS = 32 };
    const char *args[MAX_GOLDENS + 1], *against = NULL, *text = NULL, *kv = "auto";
    och_open_args open = {.quiet = true};
    int32_t step = 64, tokens = 64;
    state v = {.first = true};
    const och_opt opts[] = {
        {"against", 'a', OCH_OPT_ONCE, &against, 0, 0, "GOLDEN", "golden file, or the word reference; more files may follow", NULL},
        {"provider", 0, OCH_OPT_STR, &open.provider, 0, 0, "NAME", "judge these kernels: reference, cpu, kernel, blas (default: any)", NULL},
        {"step", 0, OCH_OPT_I32, &step, 1, 64, "N", "tokens of a step; 1 runs as generation does (default: 64)", NULL},
        {"only", 0, OCH_OPT_STR, &v.only, 0, 0, "NAME", "only this prompt of the golden", NULL},
        {"any", 0, OCH_OPT_FLAG, &v.any, 0, 0, NULL, "of a prompt in several goldens, the closest one counts", NULL},
        {"prompt", 'p', OCH_OPT_STR, &text, 0, 0, "TEXT", "with --against reference: this prompt, not the built-in ones", NULL},
        {"tokens", 'n', OCH_OPT_I32, &tokens, 1, 4096, "N", "with --against reference: tokens to compare (default: 64)", NULL},
        {"kv-type", 0, OCH_OPT_STR, &kv, 0, 0, "TYPE", "type of the state: auto, f32, f16, bf16, fp8", NULL},
        {"batch-invariant", 0, OCH_OPT_FLAG, &v.session.batch_invariant, 0, 0, NULL, "one kernel variant for every batch size", NULL},
        {"device", 'd', OCH_OPT_STR, &open.device, 0, 0, "D", "see `ochre devices` (default: auto)", NULL},
        {"threads", 't', OCH_OPT_I32, &open.threads, 1, OCH_POOL_MAX_THREADS, "N", "CPU threads", NULL},
        {"json", 0, OCH_OPT_FLAG, &v.json, 0, 0, NULL, "one JSON object", NULL},
    };
    v.session = (ochre_session_options)OCHRE_SESSION_OPTIONS_INIT;
    v.session.max_step_tokens = v.session.max_logits = 64;
    int n_args, rc = och_opts_parse(&usage, opts, OCH_COUNT(opts), argc, argv, args, MAX_GOLDENS + 1, &n_args);
    if (rc >= 0) return rc;
    if (n_args < 1) return och_main_usage("verify", "which model?");
    if (!against) return och_main_usage("verify", "--against GOLDEN is missing");
    bool reference = !strcmp(against, "reference");
    if (reference && n_args > 1) return och_main_usage("verify", "unexpected argument \"%.200s\"", args[1]);
    if (text && !reference) return och_main_usage("verify", "--prompt goes with --against reference");
    if (och_main_kv_type(kv, &v.session.kv_type) != OCH_EXIT_OK)
        return och_main_usage("verify", "--kv-type: expected auto, f32, f16, bf16 or fp8, found \"%.100s\"", kv);
    rc = och_main_check_provider("verify", open.provider);
    if (rc >= 0) return rc;
    v.step_tokens = step;
    och_main_catch_interrupt();
    och_main_interrupt_exits(true); /* what was judged so far has been printed */

    och_strbuf path = {0};
    och_err err = {0};
    ochre_error e = {0};
    och_dtype coarsest;
    open.model = args[0];
    if (och_model_path(args[0], &path, &err) != OCH_OK || coarsest_format(och_strbuf_str(&path), &coarsest, &err) != OCH_OK) {
        rc = och_main_fail(&err);
        goto done;
    }
    rc = och_main_open(&open, &v.model);
    if (rc >= 0) goto done;
    if (reference) {
        och_open_args second = open;
        second.provider = "reference";
        second.device = och_api_model(v.model)->device->info.label; /* auto chooses once, and says once what it chose */
        rc = och_main_open(&second, &v.reference);
        if (rc >= 0) goto done;
    }
    ochre_model_info info = {.size_bytes = sizeof info};
    if (ochre_model_describe(v.model, &info, &e) != OCHRE_OK) {
        rc = och_main_fail_public(&e);
        goto done;
    }
    v.n_vocab = info.n_vocab;
    const char *provider = open.provider ? open.provider : och_env_get(OCH_ENV_OCHRE_OP_ONLY);
    v.bounds = och_verify_bounds_for(provider && !strcmp(provider, "reference"), coarsest,
                                     v.session.kv_type == OCHRE_KV_FP8 ? OCH_DTYPE_F8_E4M3 : OCH_DTYPE_NONE);
    if (v.json) och_strbuf_puts(&v.out, "{\"prompts\": [");
    else och_strbuf_printf(&v.out, "%-16s %9s %5s   %10s %10s %10s %10s\n", "prompt", "equal", "ties", "mean KL", "worst KL",
                           "|delta|", "relative");
    if (reference) rc = against_reference(&v, tokens, text);
    else {
        rc = against_file(&v, against);
        for (int i = 1; i < n_args && rc < 0; i++) rc = against_file(&v, args[i]);
    }
    if (rc >= 0) goto done;
    add_up(&v);
    summary(&v);
    if (v.out.failed) rc = och_main_error("out of memory for the report");
    else {
        fputs(och_strbuf_str(&v.out), stdout);
        rc = och_verify_judge(&v.total, v.bounds) ? OCH_EXIT_FAILURE : OCH_EXIT_OK;
    }
done:
    och_strbuf_deinit(&path);
    och_strbuf_deinit(&v.out);
    och_free(v.outcomes);
    ochre_model_close(v.model);
    ochre_model_close(v.reference);
    return rc;
}
