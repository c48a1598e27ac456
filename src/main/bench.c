/* ochre bench: prefill and decode speed, the share of what the device could do, and the memory they took. */
#include "main/bench.h"
#include "main/main.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/size.h"
#include "base/thread.h"
#include "engine/api.h"
#include "op/op.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const och_usage usage = {
    "bench", "MODEL [options]\n       ochre bench --synthetic SHAPE --format F [options]\n       ochre bench op NAME [options]",
    "Measures prefill (tokens of a prompt a second) and decode (generated tokens a second), after one run of each\n"
    "that does not count. Tokens are pseudo-random; a device that samples ends its decode steps with the likeliest token\n"
    "(--logits: with logits, as others do), and nothing is sampled elsewhere. Prints median, least and greatest of the\n"
    "runs, and the peak of resident memory. No speed is printed if an op fell back to the reference tier.\n"
    "-p, --batch and --depth take lists (1,8,64): a prefill for each length, a decode for each batch at each depth, all\n"
    "on one loaded model. Decode is held against its floor: the bytes that a step has to read (every matrix once, as the\n"
    "file has it, and the keys and values it attends to) at the rate of a large read, measured in the same process.\n"
    "Prefill prints operations a second: two for each weight and token, and those of causal attention.\n"
    "The depth's tokens are fed once, as a prompt; with --fill zeros nothing is computed for them and their keys and\n"
    "values are zeros, which decode reads all the same.\n"
    "A device that captures graphs replays decode steps where --graphs (or OCHRE_GRAPHS, or what was measured on the\n"
    "platform) says so; with --graphs both, decode is measured with and without, taking turns over one model.\n"
    "With --interactive it answers each line `prefill [TOKENS]`, `decode [BATCH [DEPTH]]` or `rate` on standard input with\n"
    "one JSON line, so that a driver can take turns between this program and another.\n",
    "  ochre bench smollm2-135m -p 512 -n 128 -r 5\n"
    "  ochre bench model.gguf -t 8 --batch 16 --json\n"
    "  ochre bench --synthetic qwen3-0.6b --device cuda --graphs both -p 0 -n 128\n"
    "  ochre bench --synthetic llama-8b --format Q4_K -p 512,2048 --batch 1,8,64 --depth 512 -n 64 -r 3\n"};

/* A list of whole numbers. */
typedef struct list {
    int32_t v[OCH_BENCH_MAX_LIST];
    int n;
} list;

typedef struct run {
    och_bench b;
    och_bench_slot prefill, decode[2]; /* decode with --graphs both: off, then on; else one */
    int n_modes;
    list p, batch, depth;
    int32_t n, runs;
    och_bench_row *rows; /* [n_rows] */
    int n_rows;
    double load_seconds;
    int threads;
    const char *name;
} run;

static uint64_t peak_rss_bytes(void) {
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (uint64_t)u.ru_maxrss * 1024 : 0;
}

/* Whether `text` is whole numbers from min to max, at most OCH_BENCH_MAX_LIST, with commas between them. */
static bool read_list(const char *text, int32_t min, int32_t max, list *out) {
    out->n = 0;
    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        long long v = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : min - 1LL;
        if (v < min || v > max || errno || out->n == OCH_BENCH_MAX_LIST) return false;
        out->v[out->n++] = (int32_t)v;
        at = end;
        if (!*at) return true;
        if (*at != ',') return false;
    }
}

/* The ops that ran in the reference tier although nobody asked for it, by their cost in one more run. */
static int refuse_speed(run *r, och_bench_slot *slot) {
    och_op_stat rows[64];
    ochre_error e = {0};
    double ignored;
    fprintf(stderr, "ochre: error: no speed is printed, since %" PRIu64 " calls fell back to the reference tier; in one run:\n",
            och_op_reference_hits());
    och_op_stats_reset();
    och_op_stats_enable(true);
    if (och_bench_run(&r->b, slot, &ignored, &e) != OCHRE_OK) return och_main_fail_public(&e);
    int n = och_op_stats(rows, 64);
    for (int i = 0; i < OCH_MIN(n, 64); i++)
        if (rows[i].reference_tier)
            fprintf(stderr, "  %-12s %-8s %10" PRIu64 " calls %14" PRIu64 " bytes %10.4f s\n", och_op_name(rows[i].op),
                    rows[i].device, rows[i].calls, rows[i].bytes, rows[i].seconds);
    fputs("ochre: to time the reference itself, ask for it by name: --provider reference\n", stderr);
    return OCH_EXIT_FAILURE;
}

static och_bench_case prefill_of(int32_t tokens) { return (och_bench_case){.tokens = tokens, .batch = 1}; }
static och_bench_case decode_of(const run *r, int32_t batch, int32_t depth) {
    return (och_bench_case){.decode = true, .tokens = r->n, .batch = batch, .depth = depth};
}

/* ---- all at once ---- */

static int measure_case(run *r, const och_bench_case *c) {
    och_bench_slot *slots = c->decode ? r->decode : &r->prefill;
    int n = c->decode ? r->n_modes : 1;
    ochre_error e = {0};
    for (int k = 0; k < n; k++) {
        och_bench_row *row = &r->rows[r->n_rows + k];
        if (och_bench_prepare(&r->b, &slots[k], c, &e) != OCHRE_OK) return och_main_fail_public(&e);
        if (och_op_reference_hits()) return refuse_speed(r, &slots[k]);
        *row = (och_bench_row){.of = *c, .key = !c->decode ? "prefill" : k ? "decode_graphs" : "decode",
                               .limit = och_bench_limit_of(&slots[k])};
        row->runs = och_malloc_array((size_t)r->runs, sizeof *row->runs);
        if (!row->runs) return och_main_error("out of memory");
    }
    for (int32_t i = 0; i < r->runs; i++)
        for (int at = 0; at < n; at++) {
            int k = i % 2 ? n - 1 - at : at; /* neither is always the second */
            if (och_bench_run(&r->b, &slots[k], &r->rows[r->n_rows + k].runs[i], &e) != OCHRE_OK)
                return och_main_fail_public(&e);
        }
    if (och_op_reference_hits()) return refuse_speed(r, &slots[0]);
    for (int k = 0; k < n; k++) {
        r->rows[r->n_rows + k].stats = slots[k].stats;
        och_bench_slot_deinit(&slots[k]); /* room for the next one's state */
    }
    r->n_rows += n;
    return OCH_EXIT_OK;
}

static int measure_all(run *r, och_bench_output output) {
    size_t most = (size_t)r->p.n + (size_t)r->batch.n * (size_t)r->depth.n * (size_t)r->n_modes;
    int rc = OCH_EXIT_OK;
    r->rows = och_calloc(most, sizeof *r->rows);
    if (!r->rows) return och_main_error("out of memory");
    for (int i = 0; i < r->p.n && rc == OCH_EXIT_OK; i++) {
        och_bench_case c = prefill_of(r->p.v[i]);
        if (c.tokens) rc = measure_case(r, &c);
    }
    for (int d = 0; r->n && d < r->depth.n; d++)
        for (int i = 0; i < r->batch.n && rc == OCH_EXIT_OK; i++) {
            och_bench_case c = decode_of(r, r->batch.v[i], r->depth.v[d]);
            rc = measure_case(r, &c);
        }
    if (rc == OCH_EXIT_OK) {
        och_bench_report report = {.name = r->name,
                                   .info = &r->b.info,
                                   .threads = r->threads,
                                   .n_runs = r->runs,
                                   .n_rows = r->n_rows,
                                   .rows = r->rows,
                                   .load_seconds = r->load_seconds,
                                   .peak_rss_bytes = peak_rss_bytes()};
        och_err err = {0};
        report.simulated = och_api_model(r->b.model)->device->info.kind == OCH_DEV_SIMULATED;
        if (och_bench_read_rate(och_api_model(r->b.model), r->threads, &report.read_rate, &err) != OCH_OK)
            fprintf(stderr, "ochre: no share of the read rate: %s\n", err.message);
        rc = och_bench_print(&report, output);
    }
    for (size_t i = 0; i < most; i++) och_free(r->rows[i].runs);
    return rc;
}

/* ---- line by line ---- */

static int answer(run *r, bool decode, const list *numbers) {
    och_bench_slot *slot = decode ? &r->decode[0] : &r->prefill;
    och_bench_case c =
        decode ? decode_of(r, numbers->n > 0 ? numbers->v[0] : r->batch.v[0], numbers->n > 1 ? numbers->v[1] : r->depth.v[0])
               : prefill_of(numbers->n > 0 ? numbers->v[0] : r->p.v[0]);
    ochre_error e = {0};
    double speed;
    if (!c.tokens) {
        printf("{\"error\": \"%s of 0 tokens: nothing to measure\"}\n", decode ? "decode" : "prefill");
        return OCH_EXIT_OK;
    }
    if (och_bench_prepare(&r->b, slot, &c, &e) != OCHRE_OK || och_bench_run(&r->b, slot, &speed, &e) != OCHRE_OK)
        return och_main_fail_public(&e);
    if (och_op_reference_hits()) return refuse_speed(r, slot);
    och_bench_limit limit = och_bench_limit_of(slot);
    printf("{\"kind\": \"%s\", \"tok_per_s\": %.3f, \"tokens\": %d, \"batch\": %d, \"depth\": %d, ",
           decode ? "decode" : "prefill", speed, c.tokens, c.batch, c.depth);
    if (decode) printf("\"bytes_per_step\": %.0f, ", limit.bytes);
    else printf("\"flops\": %.0f, ", limit.flops);
    printf("\"peak_rss_bytes\": %" PRIu64 "}\n", peak_rss_bytes());
    return OCH_EXIT_OK;
}

static int answer_rate(run *r) {
    och_err err = {0};
    double rate;
    if (och_bench_read_rate(och_api_model(r->b.model), r->threads, &rate, &err) != OCH_OK) return och_main_fail(&err);
    if (rate > 0.0) printf("{\"kind\": \"rate\", \"read_bytes_per_second\": %.6g}\n", rate);
    else puts("{\"error\": \"rate: the device's time means nothing\"}");
    return OCH_EXIT_OK;
}

/* Both kinds are made ready first: a driver that waits for the first line times no loading. */
static int interactive(run *r) {
    char line[64];
    const list none = {0};
    ochre_error e = {0};
    och_bench_case p = prefill_of(r->p.v[0]), d = decode_of(r, r->batch.v[0], r->depth.v[0]);
    if ((p.tokens && och_bench_prepare(&r->b, &r->prefill, &p, &e) != OCHRE_OK) ||
        (d.tokens && och_bench_prepare(&r->b, &r->decode[0], &d, &e) != OCHRE_OK))
        return och_main_fail_public(&e);
    if (och_op_reference_hits()) return refuse_speed(r, d.tokens ? &r->decode[0] : &r->prefill);
    printf(
        "{\"ready\": true, \"engine\": \"ochre\", \"version\": \"%s\", \"threads\": %d, \"p\": %d, \"n\": %d, \"depth\": %d, "
        "\"load_seconds\": %.4f}\n",
        ochre_version(), r->threads, r->p.v[0], r->n, r->depth.v[0], r->load_seconds);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (!strcmp(line, "quit")) break;
        list numbers = none;
        char *rest = strchr(line, ' ');
        if (rest) *rest++ = '\0';
        for (char *at = rest; at && (at = strchr(at, ' '));) *at = ',';
        bool decode = !strcmp(line, "decode"), known = decode || !strcmp(line, "prefill"), rate = !strcmp(line, "rate");
        int rc = OCH_EXIT_OK;
        if (rest &&
            (!known || !read_list(rest, 0, 1 << 20, &numbers) || numbers.n > (decode ? 2 : 1) || (decode && !numbers.v[0])))
            known = rate = false;
        if (known) rc = answer(r, decode, &numbers);
        else if (rate) rc = answer_rate(r);
        else puts("{\"error\": \"expected prefill [TOKENS], decode [BATCH [DEPTH]], rate or quit\"}");
        if (rc != OCH_EXIT_OK) return rc;
        if (fflush(stdout) != 0) return OCH_EXIT_OK; /* main() says why */
    }
    return OCH_EXIT_OK;
}

/* ---- the command line ---- */

/* "auto", "on", "off", "both"; OCH_EXIT_USAGE for another word. */
static int read_graphs(run *r, const char *word) {
    r->n_modes = 1;
    if (!strcmp(word, "auto")) r->decode[0].graphs = OCHRE_GRAPHS_AUTO;
    else if (!strcmp(word, "on")) r->decode[0].graphs = OCHRE_GRAPHS_ON;
    else if (!strcmp(word, "off")) r->decode[0].graphs = OCHRE_GRAPHS_OFF;
    else if (!strcmp(word, "both")) {
        r->n_modes = 2;
        r->decode[0].graphs = OCHRE_GRAPHS_OFF;
        r->decode[1].graphs = OCHRE_GRAPHS_ON;
    } else return OCH_EXIT_USAGE;
    r->prefill.graphs = r->decode[0].graphs;
    return OCH_EXIT_OK;
}

static int lists_say(const char *option, const char *found, int least, int most) {
    return och_main_usage("bench",
                          "--%s: expected whole numbers from %d to %d, at most %d with commas between them, found \"%.100s\"",
                          option, least, most, OCH_BENCH_MAX_LIST, found);
}

int och_cmd_bench(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "op")) return och_cmd_bench_op(argc - 1, argv + 1);
    const char *args[1], *kv = "auto", *trace = NULL, *graphs = "auto", *p = "512", *batch = "1", *depth = "0",
                         *fill = "prompt";
    run r = {.n = 128, .runs = 5, .b = {.options = OCHRE_SESSION_OPTIONS_INIT, .step_tokens = 512}};
    och_open_args open = {.quiet = true, .out_seconds = &r.load_seconds};
    bool turns = false, json = false, csv = false;
    const och_opt opts[] = {
        {"prompt-tokens", 'p', OCH_OPT_STR, &p, 0, 0, "N,...", "tokens of a prefill run; 0: none (default: 512)", NULL},
        {"tokens", 'n', OCH_OPT_I32, &r.n, 0, 1 << 20, "N", "steps of a decode run; 0: none (default: 128)", NULL},
        {"runs", 'r', OCH_OPT_I32, &r.runs, 1, OCH_BENCH_MAX_RUNS, "N", "runs of each (default: 5)", NULL},
        {"batch", 'b', OCH_OPT_STR, &batch, 0, 0, "N,...", "sequences of a decode run (default: 1)", NULL},
        {"depth", 0, OCH_OPT_STR, &depth, 0, 0, "N,...", "tokens of each sequence before a decode run (default: 0)", NULL},
        {"fill", 0, OCH_OPT_STR, &fill, 0, 0, "HOW", "where they come from: prompt, zeros (default: prompt)", NULL},
        {"step-tokens", 0, OCH_OPT_I32, &r.b.step_tokens, 1, 1 << 20, "N", "tokens of a prompt in one step (default: 512)", NULL},
        {"synthetic", 0, OCH_OPT_STR, &open.synthetic, 0, 0, "SHAPE", "a named shape with generated weights instead of a file", NULL},
        {"format", 0, OCH_OPT_STR, &open.format, 0, 0, "F", "with --synthetic: weight format, such as Q4_1 (default: Q8_0)", NULL},
        {"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object instead of a table", NULL},
        {"csv", 0, OCH_OPT_FLAG, &csv, 0, 0, NULL, "comma-separated values instead of a table", NULL},
        {"interactive", 0, OCH_OPT_FLAG, &turns, 0, 0, NULL, "answer lines on standard input", NULL},
        {"kv-type", 0, OCH_OPT_STR, &kv, 0, 0, "TYPE", "type of the state: auto, f32, f16, bf16, fp8", NULL},
        {"graphs", 0, OCH_OPT_STR, &graphs, 0, 0, "WHEN", "replay decode steps as graphs: auto, on, off, both (default: auto)", NULL},
        {"logits", 0, OCH_OPT_FLAG, &r.b.options.host_sampling, 0, 0, NULL, "decode steps give the host logits, not tokens", NULL},
        {"batch-invariant", 0, OCH_OPT_FLAG, &r.b.options.batch_invariant, 0, 0, NULL, "one kernel variant for every batch size", NULL},
        {"device", 'd', OCH_OPT_STR, &open.device, 0, 0, "D", "see `ochre devices` (default: auto)", NULL},
        {"provider", 0, OCH_OPT_STR, &open.provider, 0, 0, "NAME", "use only these kernels: reference, cpu, kernel, blas", NULL},
        {"trace", 0, OCH_OPT_STR, &trace, 0, 0, "FILE", "write a timeline of launches and host work (Chrome trace format); slower", NULL},
        {"threads", 't', OCH_OPT_I32, &open.threads, 1, OCH_POOL_MAX_THREADS, "N", "CPU threads (default: all this process may use)", NULL},
    };
    int n_args, rc = och_opts_parse(&usage, opts, OCH_COUNT(opts), argc, argv, args, 1, &n_args);
    if (rc >= 0) return rc;
    if (n_args < 1 && !open.synthetic) return och_main_usage("bench", "which model?");
    if (n_args && open.synthetic) return och_main_usage("bench", "both a model and --synthetic: expected one");
    if (open.format && !open.synthetic)
        return och_main_usage("bench", "--format is the weight format of --synthetic; for other output: --json, --csv");
    rc = och_main_check_format("bench", open.format);
    if (rc >= 0) return rc;
    if (json && csv) return och_main_usage("bench", "both --json and --csv: expected one");
    if (!read_list(p, 0, 1 << 20, &r.p)) return lists_say("prompt-tokens", p, 0, 1 << 20);
    if (!read_list(batch, 1, 4096, &r.batch)) return lists_say("batch", batch, 1, 4096);
    if (!read_list(depth, 0, 1 << 20, &r.depth)) return lists_say("depth", depth, 0, 1 << 20);
    if (!strcmp(fill, "zeros")) r.b.fill = OCH_BENCH_FILL_ZEROS;
    else if (strcmp(fill, "prompt") != 0)
        return och_main_usage("bench", "--fill: expected prompt or zeros, found \"%.100s\"", fill);
    if (och_main_kv_type(kv, &r.b.options.kv_type) != OCH_EXIT_OK)
        return och_main_usage("bench", "--kv-type: expected auto, f32, f16, bf16 or fp8, found \"%.100s\"", kv);
    if (read_graphs(&r, graphs) != OCH_EXIT_OK)
        return och_main_usage("bench", "--graphs: expected auto, on, off or both, found \"%.100s\"", graphs);
    if (turns && r.n_modes > 1) return och_main_usage("bench", "--graphs both and --interactive: expected one");
    rc = och_main_check_provider("bench", open.provider);
    if (rc >= 0) return rc;
    bool prefills = false;
    for (int i = 0; i < r.p.n; i++) prefills |= r.p.v[i] > 0;
    if (!prefills && !r.n) return och_main_usage("bench", "-p 0 and -n 0: nothing to measure");

    ochre_error e = {0};
    const char *threads = och_env_get(OCH_ENV_OCHRE_THREADS);
    r.threads = open.threads ? open.threads : threads ? atoi(threads) : och_cpu_count();
    open.model = n_args ? args[0] : NULL;
    r.name = open.synthetic ? open.synthetic : args[0];
    och_main_catch_interrupt();
    och_main_interrupt_exits(true); /* a measurement cut short is worth nothing */
    rc = och_main_trace_start(trace);
    if (rc >= 0) return rc;
    rc = och_main_open(&open, &r.b.model);
    if (rc >= 0) return och_main_trace_stop(rc);
    r.b.info.size_bytes = sizeof r.b.info;
    och_op_stats_reset();
    if (ochre_model_describe(r.b.model, &r.b.info, &e) != OCHRE_OK) rc = och_main_fail_public(&e);
    else rc = turns ? interactive(&r) : measure_all(&r, json ? OCH_BENCH_JSON : csv ? OCH_BENCH_CSV : OCH_BENCH_TABLE);
    och_bench_slot_deinit(&r.prefill);
    for (int k = 0; k < 2; k++) och_bench_slot_deinit(&r.decode[k]);
    ochre_model_close(r.b.model);
    och_bench_deinit(&r.b);
    och_free(r.rows);
    return och_main_trace_stop(rc);
}
