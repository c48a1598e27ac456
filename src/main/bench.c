/* ochre bench: prefill and decode speed, and the memory they took. */
#include "main/main.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/size.h"
#include "base/thread.h"
#include "engine/graph.h"
#include "op/op.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const och_usage usage = {
    "bench", "MODEL [options]\n       ochre bench --synthetic SHAPE --format F [options]\n       ochre bench op NAME [options]",
    "Measures prefill (tokens of a prompt a second) and decode (generated tokens a second), after one run of each\n"
    "that does not count. Tokens are pseudo-random and nothing is sampled. Prints median, least and greatest of the\n"
    "runs, and the peak of resident memory. No speed is printed if an op fell back to the reference tier.\n"
    "A device that captures graphs replays decode steps where --graphs (or OCHRE_GRAPHS, or what was measured on the\n"
    "platform) says so; with --graphs both, decode is measured with and without, taking turns over one model.\n"
    "With --interactive it answers each line `prefill` or `decode` on standard input with one JSON line, so that a\n"
    "driver can take turns between this program and another.\n",
    "  ochre bench smollm2-135m -p 512 -n 128 -r 5\n"
    "  ochre bench model.gguf -t 8 --batch 16 --json\n"
    "  ochre bench --synthetic qwen3-0.6b --device cuda --graphs both -p 0 -n 128\n"
    "  ochre bench --synthetic llama-8b --format Q4_K -p 128 -n 16 -r 3\n"};

enum { MAX_RUNS = 1000, STEP_TOKENS = 512 };

/* What the steps of a mode's decode runs were. */
typedef struct mode {
    ochre_graphs graphs;
    ochre_session *session;
    double *decode; /* [runs] tokens a second */
    och_step_stats stats;
} mode;

typedef struct bench {
    ochre_model *model;
    ochre_session *session; /* of the mode whose turn it is */
    mode modes[2]; /* with --graphs both: off, then on; else one */
    int n_modes;
    ochre_model_info info;
    int32_t p, n, runs, batch, depth;
    int32_t *tokens;
    int32_t *sequences;
    ochre_span *spans;
    double load_seconds;
    int threads;
    const char *name;
} bench;

static uint64_t peak_rss_bytes(void) {
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (uint64_t)u.ru_maxrss * 1024 : 0;
}

static ochre_status open_sequences(bench *b, ochre_error *e) {
    for (int32_t i = 0; i < b->batch; i++) {
        ochre_status st = ochre_sequence_create(b->session, &b->sequences[i], e);
        if (st != OCHRE_OK) return st;
    }
    return OCHRE_OK;
}

static ochre_status close_sequences(bench *b, ochre_error *e) {
    for (int32_t i = 0; i < b->batch; i++) {
        ochre_status st = ochre_sequence_release(b->session, b->sequences[i], e);
        if (st != OCHRE_OK) return st;
    }
    return OCHRE_OK;
}

/* Feeds n tokens to every sequence, one after the other; logits of the last. */
static ochre_status feed(bench *b, int32_t n, ochre_error *e) {
    for (int32_t i = 0; i < b->batch; i++)
        for (int32_t at = 0; at < n; at += STEP_TOKENS) {
            int32_t k = OCH_MIN(n - at, STEP_TOKENS);
            ochre_span s = {b->sequences[i], b->tokens + at, k, at + k == n ? OCHRE_LOGITS_LAST : OCHRE_LOGITS_NONE};
            ochre_status st = ochre_step(b->session, &s, 1, e);
            if (st != OCHRE_OK) return st;
        }
    return OCHRE_OK;
}

static void add_stats(och_step_stats *to, const och_step_stats *from, const och_step_stats *until) {
    to->steps += until->steps - from->steps;
    to->captures += until->captures - from->captures;
    to->replays += until->replays - from->replays;
    to->refusals += until->refusals - from->refusals;
    to->launches += until->launches - from->launches;
    to->graph_launches += until->graph_launches - from->graph_launches;
    to->host_seconds += until->host_seconds - from->host_seconds;
    to->seconds += until->seconds - from->seconds;
}

/* Tokens a second of one run of the mode's session; `what` is "prefill" or "decode". */
static ochre_status run_once(bench *b, mode *m, bool decode, double *out_speed, ochre_error *e) {
    b->session = m->session;
    ochre_status st = open_sequences(b, e);
    if (st == OCHRE_OK && decode && b->depth) st = feed(b, b->depth, e);
    och_step_stats before = och_step_stats_all();
    double t0 = och_now_seconds();
    if (st == OCHRE_OK && !decode) st = feed(b, b->p, e);
    for (int32_t i = 0; decode && st == OCHRE_OK && i < b->n; i++) {
        for (int32_t k = 0; k < b->batch; k++)
            b->spans[k] = (ochre_span){b->sequences[k], b->tokens + i, 1, OCHRE_LOGITS_LAST};
        st = ochre_step(b->session, b->spans, (size_t)b->batch, e);
    }
    double seconds = och_now_seconds() - t0;
    och_step_stats after = och_step_stats_all();
    if (decode) add_stats(&m->stats, &before, &after);
    if (st == OCHRE_OK) st = close_sequences(b, e);
    *out_speed = (double)(decode ? b->n : b->p) * b->batch / seconds;
    return st;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct summary {
    double median, least, greatest;
} summary;

static summary summarise(const double *runs, int n) {
    double s[MAX_RUNS];
    memcpy(s, runs, (size_t)n * sizeof *s);
    qsort(s, (size_t)n, sizeof *s, by_value);
    return (summary){n % 2 ? s[n / 2] : 0.5 * (s[n / 2 - 1] + s[n / 2]), s[0], s[n - 1]};
}

/* The ops that ran in the reference tier although nobody asked for it, by their cost in one more run. */
static int refuse_speed(bench *b) {
    och_op_stat rows[64];
    ochre_error e = {0};
    double ignored;
    fprintf(stderr, "ochre: error: no speed is printed, since %" PRIu64 " calls fell back to the reference tier; in one run:\n",
            och_op_reference_hits());
    och_op_stats_reset();
    och_op_stats_enable(true);
    if (run_once(b, &b->modes[0], b->n > 0, &ignored, &e) != OCHRE_OK) return och_main_fail_public(&e);
    int n = och_op_stats(rows, 64);
    for (int i = 0; i < OCH_MIN(n, 64); i++)
        if (rows[i].reference_tier)
            fprintf(stderr, "  %-12s %-8s %10" PRIu64 " calls %14" PRIu64 " bytes %10.4f s\n", och_op_name(rows[i].op),
                    rows[i].device, rows[i].calls, rows[i].bytes, rows[i].seconds);
    fputs("ochre: to time the reference itself, ask for it by name: --provider reference\n", stderr);
    return OCH_EXIT_FAILURE;
}

static int interactive(bench *b) {
    char line[64];
    printf("{\"ready\": true, \"engine\": \"ochre\", \"version\": \"%s\", \"threads\": %d, \"p\": %d, \"n\": %d, \"depth\": %d, "
           "\"load_seconds\": %.4f}\n", ochre_version(), b->threads, b->p, b->n, b->depth, b->load_seconds);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (!strcmp(line, "quit")) break;
        bool decode = !strcmp(line, "decode");
        if (!decode && strcmp(line, "prefill") != 0) {
            printf("{\"error\": \"expected prefill, decode or quit\"}\n");
        } else if (!(decode ? b->n : b->p)) {
            printf("{\"error\": \"%s of 0 tokens: nothing to measure\"}\n", line);
        } else {
            ochre_error e = {0};
            double speed;
            if (run_once(b, &b->modes[0], decode, &speed, &e) != OCHRE_OK) return och_main_fail_public(&e);
            if (och_op_reference_hits()) return refuse_speed(b);
            printf("{\"kind\": \"%s\", \"tok_per_s\": %.3f, \"peak_rss_bytes\": %" PRIu64 "}\n", line, speed, peak_rss_bytes());
        }
        if (fflush(stdout) != 0) return OCH_EXIT_OK; /* main() says why */
    }
    return OCH_EXIT_OK;
}

static double per(uint64_t n, uint64_t steps) { return steps ? (double)n / (double)steps : 0.0; }

/* A mode's decode steps: what the host gave the device for each, and how long that took it. */
static void report_steps(const mode *m, bool json, och_strbuf *out) {
    const och_step_stats *s = &m->stats;
    double host = s->steps ? s->host_seconds / (double)s->steps : 0.0;
    if (json)
        och_strbuf_printf(out, ", \"steps\": %" PRIu64 ", \"replays\": %" PRIu64 ", \"captures\": %" PRIu64 ", \"refusals\": %" PRIu64
                          ", \"launches_per_step\": %.2f, \"kernels_per_step\": %.2f, \"host_seconds_per_step\": %.9f", s->steps,
                          s->replays, s->captures, s->refusals, per(s->launches, s->steps),
                          per(s->launches + s->graph_launches, s->steps), host);
    else
        och_strbuf_printf(out, "%" PRIu64 " replays over %" PRIu64 " decode steps; a step: %.1f kernels, %.1f launches, host %.1f us\n",
                          s->replays, s->steps, per(s->launches + s->graph_launches, s->steps), per(s->launches, s->steps), host * 1e6);
}

static void report(const bench *b, bool json, bool csv, const double *prefill) {
    struct {
        const char *name, *key;
        const double *runs;
        int32_t tokens;
        const mode *mode; /* NULL: prefill */
    } rows[3] = {{"prefill", "prefill", prefill, b->p, NULL}};
    for (int i = 0; i < b->n_modes; i++) {
        rows[i + 1].name = i ? "+graphs" : "decode";
        rows[i + 1].key = i ? "decode_graphs" : "decode";
        rows[i + 1].runs = b->modes[i].decode;
        rows[i + 1].tokens = b->n;
        rows[i + 1].mode = &b->modes[i];
    }
    och_strbuf j = {0};
    uint64_t peak = peak_rss_bytes();
    if (json) {
        och_strbuf_puts(&j, "{\"model\": ");
        och_strbuf_json(&j, b->name, strlen(b->name));
        och_strbuf_printf(&j, ", \"architecture\": \"%s\", \"device\": \"%s\", \"threads\": %d, \"batch\": %d, \"depth\": %d, "
                              "\"parameters\": %" PRIu64 ", \"load_seconds\": %.4f, \"peak_rss_bytes\": %" PRIu64,
                          b->info.architecture, b->info.device, b->threads, b->batch, b->depth, b->info.n_parameters,
                          b->load_seconds, peak);
    } else if (csv) {
        och_strbuf_puts(&j, "test,tokens,batch,threads,runs,median_tokens_per_second,least,greatest,peak_rss_bytes,steps,replays,"
                            "kernels_per_step,launches_per_step,host_seconds_per_step\n");
    } else {
        och_strbuf_printf(&j, "%s (%s, %.1fM parameters) on %s, %d threads, batch %d\n", b->name, b->info.architecture,
                          (double)b->info.n_parameters * 1e-6, b->info.device, b->threads, b->batch);
        och_strbuf_printf(&j, "%-8s %7s %5s %12s %10s %10s %8s   tokens/s\n", "", "tokens", "runs", "median", "least", "greatest",
                          "spread");
    }
    for (int i = 0; i < 1 + b->n_modes; i++) {
        if (!rows[i].tokens) continue;
        summary s = summarise(rows[i].runs, b->runs);
        if (json) {
            och_strbuf_printf(&j, ", \"%s\": {\"tokens\": %d, \"unit\": \"tokens/s\", \"median\": %.3f, \"least\": %.3f, "
                                  "\"greatest\": %.3f, \"runs\": [", rows[i].key, rows[i].tokens, s.median, s.least, s.greatest);
            for (int k = 0; k < b->runs; k++) och_strbuf_printf(&j, "%s%.3f", k ? ", " : "", rows[i].runs[k]);
            och_strbuf_puts(&j, "]");
            if (rows[i].mode) report_steps(rows[i].mode, true, &j);
            och_strbuf_puts(&j, "}");
        } else if (csv) {
            och_strbuf_printf(&j, "%s,%d,%d,%d,%d,%.3f,%.3f,%.3f,%" PRIu64, rows[i].key, rows[i].tokens, b->batch, b->threads, b->runs,
                              s.median, s.least, s.greatest, peak);
            const och_step_stats *n = rows[i].mode ? &rows[i].mode->stats : NULL;
            if (n)
                och_strbuf_printf(&j, ",%" PRIu64 ",%" PRIu64 ",%.2f,%.2f,%.9f\n", n->steps, n->replays,
                                  per(n->launches + n->graph_launches, n->steps), per(n->launches, n->steps),
                                  n->steps ? n->host_seconds / (double)n->steps : 0.0);
            else och_strbuf_puts(&j, ",,,,,\n");
        } else {
            och_strbuf_printf(&j, "%-8s %7d %5d %12.2f %10.2f %10.2f %7.1f%%\n", rows[i].name, rows[i].tokens, b->runs, s.median,
                              s.least, s.greatest, 100 * (s.greatest - s.least) / s.median);
        }
    }
    if (json) och_strbuf_puts(&j, "}\n");
    else if (!csv) {
        for (int i = 0; b->n && i < b->n_modes; i++)
            if (b->modes[i].stats.launches || b->modes[i].stats.replays) { /* a device that is given kernels */
                och_strbuf_printf(&j, "%s: ", i ? "+graphs" : "decode");
                report_steps(&b->modes[i], false, &j);
            }
        och_strbuf_printf(&j, "load %.2f s, peak memory %.1f MB\n", b->load_seconds, (double)peak * 1e-6);
    }
    fputs(och_strbuf_str(&j), stdout);
    och_strbuf_deinit(&j);
}

/* "auto", "on", "off", "both"; OCH_EXIT_USAGE for another word. */
static int read_graphs(bench *b, const char *word) {
    b->n_modes = 1;
    if (!strcmp(word, "auto")) b->modes[0].graphs = OCHRE_GRAPHS_AUTO;
    else if (!strcmp(word, "on")) b->modes[0].graphs = OCHRE_GRAPHS_ON;
    else if (!strcmp(word, "off")) b->modes[0].graphs = OCHRE_GRAPHS_OFF;
    else if (!strcmp(word, "both")) {
        b->n_modes = 2;
        b->modes[0].graphs = OCHRE_GRAPHS_OFF;
        b->modes[1].graphs = OCHRE_GRAPHS_ON;
    } else return OCH_EXIT_USAGE;
    return OCH_EXIT_OK;
}

int och_cmd_bench(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "op")) return och_cmd_bench_op(argc - 1, argv + 1);
    const char *args[1], *kv = "auto", *trace = NULL, *graphs = "auto";
    bench b = {.p = 512, .n = 128, .runs = 5, .batch = 1};
    och_open_args open = {.quiet = true, .out_seconds = &b.load_seconds};
    ochre_session_options so = OCHRE_SESSION_OPTIONS_INIT;
    bool turns = false, json = false, csv = false;
    const och_opt opts[] = {
        {"prompt-tokens", 'p', OCH_OPT_I32, &b.p, 0, 1 << 20, "N", "tokens of a prefill run; 0: none (default: 512)", NULL},
        {"tokens", 'n', OCH_OPT_I32, &b.n, 0, 1 << 20, "N", "tokens of a decode run; 0: none (default: 128)", NULL},
        {"runs", 'r', OCH_OPT_I32, &b.runs, 1, MAX_RUNS, "N", "runs of each (default: 5)", NULL},
        {"batch", 'b', OCH_OPT_I32, &b.batch, 1, 4096, "N", "sequences at once (default: 1)", NULL},
        {"depth", 0, OCH_OPT_I32, &b.depth, 0, 1 << 20, "N", "tokens before a decode run (default: 0)", NULL},
        {"synthetic", 0, OCH_OPT_STR, &open.synthetic, 0, 0, "SHAPE", "a named shape with generated weights instead of a file", NULL},
        {"format", 0, OCH_OPT_STR, &open.format, 0, 0, "F", "with --synthetic: weight format, such as Q4_1 (default: Q8_0)", NULL},
        {"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object instead of a table", NULL},
        {"csv", 0, OCH_OPT_FLAG, &csv, 0, 0, NULL, "comma-separated values instead of a table", NULL},
        {"interactive", 0, OCH_OPT_FLAG, &turns, 0, 0, NULL, "answer lines on standard input", NULL},
        {"kv-type", 0, OCH_OPT_STR, &kv, 0, 0, "TYPE", "type of the state: auto, f32, f16, bf16, fp8", NULL},
        {"graphs", 0, OCH_OPT_STR, &graphs, 0, 0, "WHEN", "replay decode steps as graphs: auto, on, off, both (default: auto)", NULL},
        {"batch-invariant", 0, OCH_OPT_FLAG, &so.batch_invariant, 0, 0, NULL, "one kernel variant for every batch size", NULL},
        {"device", 'd', OCH_OPT_STR, &open.device, 0, 0, "D", "see `ochre devices` (default: auto)", NULL},
        {"provider", 0, OCH_OPT_STR, &open.provider, 0, 0, "NAME", "use only these kernels: reference, cpu", NULL},
        {"trace", 0, OCH_OPT_STR, &trace, 0, 0, "FILE", "write a timeline of launches and host work (Chrome trace format); slower", NULL},
        {"threads", 't', OCH_OPT_I32, &open.threads, 1, OCH_POOL_MAX_THREADS, "N", "CPU threads (default: all this process may use)", NULL},
    };
    int n_args, rc = och_opts_parse(&usage, opts, OCH_COUNT(opts), argc, argv, args, 1, &n_args);
    if (rc >= 0) return rc;
    if (n_args < 1 && !open.synthetic) return och_main_usage("bench", "which model?");
    if (n_args && open.synthetic) return och_main_usage("bench", "both a model and --synthetic: expected one");
    if (open.format && !open.synthetic)
        return och_main_usage("bench", "--format is the weight format of --synthetic; for other output: --json, --csv");
    if (json && csv) return och_main_usage("bench", "both --json and --csv: expected one");
    if (och_main_kv_type(kv, &so.kv_type) != OCH_EXIT_OK)
        return och_main_usage("bench", "--kv-type: expected auto, f32, f16, bf16 or fp8, found \"%.100s\"", kv);
    if (read_graphs(&b, graphs) != OCH_EXIT_OK)
        return och_main_usage("bench", "--graphs: expected auto, on, off or both, found \"%.100s\"", graphs);
    if (turns && b.n_modes > 1) return och_main_usage("bench", "--graphs both and --interactive: expected one");
    rc = och_main_check_provider("bench", open.provider);
    if (rc >= 0) return rc;
    if (!b.p && !b.n) return och_main_usage("bench", "-p 0 and -n 0: nothing to measure");

    ochre_error e = {0};
    double *prefill = NULL;
    const char *threads = och_env_get(OCH_ENV_OCHRE_THREADS);
    b.threads = open.threads ? open.threads : threads ? atoi(threads) : och_cpu_count();
    open.model = n_args ? args[0] : NULL;
    b.name = open.synthetic ? open.synthetic : args[0];
    och_main_catch_interrupt();
    och_main_interrupt_exits(true); /* a measurement cut short is worth nothing */
    rc = och_main_trace_start(trace);
    if (rc >= 0) return rc;
    rc = och_main_open(&open, &b.model);
    if (rc >= 0) return och_main_trace_stop(rc);
    rc = OCH_EXIT_FAILURE;
    b.info.size_bytes = sizeof b.info;
    int32_t longest = OCH_MAX(b.p, b.n + b.depth);
    b.tokens = och_malloc_array((size_t)longest, sizeof *b.tokens);
    b.sequences = och_malloc_array((size_t)b.batch, sizeof *b.sequences);
    b.spans = och_malloc_array((size_t)b.batch, sizeof *b.spans);
    prefill = och_malloc_array(MAX_RUNS, sizeof *prefill);
    for (int k = 0; k < b.n_modes; k++) b.modes[k].decode = och_malloc_array(MAX_RUNS, sizeof *b.modes[k].decode);
    if (!b.tokens || !b.sequences || !b.spans || !prefill || !b.modes[0].decode || (b.n_modes > 1 && !b.modes[1].decode)) {
        och_main_error("out of memory");
        goto done;
    }
    if (ochre_model_describe(b.model, &b.info, &e) != OCHRE_OK) goto failed;
    so.max_sequences = b.batch;
    so.max_context = longest;
    so.max_step_tokens = OCH_MAX(OCH_MIN(OCH_MAX(b.p, b.depth), STEP_TOKENS), b.batch);
    for (int k = 0; k < b.n_modes; k++) {
        so.graphs = b.modes[k].graphs;
        if (ochre_session_create(b.model, &so, &b.modes[k].session, &e) != OCHRE_OK) goto failed;
    }
    uint64_t x = 1; /* Knuth's MMIX generator */
    for (int32_t i = 0; i < longest; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        b.tokens[i] = (int32_t)((x >> 33) % (uint64_t)b.info.n_vocab);
    }
    double warm;
    och_op_stats_reset();
    if (b.p && run_once(&b, &b.modes[0], false, &warm, &e) != OCHRE_OK) goto failed;
    for (int k = 0; b.n && k < b.n_modes; k++) {
        if (run_once(&b, &b.modes[k], true, &warm, &e) != OCHRE_OK) goto failed;
        b.modes[k].stats = (och_step_stats){0};
    }
    if (och_op_reference_hits()) {
        rc = refuse_speed(&b);
        goto done;
    }
    if (turns) {
        rc = interactive(&b);
        goto done;
    }
    for (int32_t i = 0; i < b.runs; i++) {
        if (b.p && run_once(&b, &b.modes[0], false, &prefill[i], &e) != OCHRE_OK) goto failed;
        for (int k = 0; b.n && k < b.n_modes; k++) {
            mode *m = &b.modes[i % 2 ? b.n_modes - 1 - k : k]; /* neither is always the second */
            if (run_once(&b, m, true, &m->decode[i], &e) != OCHRE_OK) goto failed;
        }
    }
    if (och_op_reference_hits()) rc = refuse_speed(&b);
    else {
        report(&b, json, csv, prefill);
        rc = OCH_EXIT_OK;
    }
    goto done;
failed:
    rc = och_main_fail_public(&e);
done:
    for (int k = 0; k < b.n_modes; k++) {
        ochre_session_destroy(b.modes[k].session);
        och_free(b.modes[k].decode);
    }
    ochre_model_close(b.model);
    och_free(b.tokens);
    och_free(b.sequences);
    och_free(b.spans);
    och_free(prefill);
    return och_main_trace_stop(rc);
}
