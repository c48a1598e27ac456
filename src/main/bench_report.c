/* The report of `ochre bench`: a table, JSON, comma-separated values. */
#include "main/bench.h"
#include "main/main.h"

#include "base/size.h"
#include "base/strbuf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Of a row's runs, and what that makes of the device. */
typedef struct summary {
    double median, least, greatest; /* tokens a second */
    double bytes_per_second, floor, share; /* decode; the latter two 0 where the device's rate is not known */
    double flops_per_second; /* prefill */
} summary;

static summary summarise(const och_bench_report *r, const och_bench_row *row) {
    double s[OCH_BENCH_MAX_RUNS];
    int n = r->n_runs;
    memcpy(s, row->runs, (size_t)n * sizeof *s);
    qsort(s, (size_t)n, sizeof *s, by_value);
    summary y = {.median = n % 2 ? s[n / 2] : 0.5 * (s[n / 2 - 1] + s[n / 2]), .least = s[0], .greatest = s[n - 1]};
    if (row->of.decode) {
        y.bytes_per_second = row->limit.bytes * y.median / row->of.batch;
        y.floor = r->read_rate / row->limit.bytes * row->of.batch;
        y.share = r->read_rate > 0.0 ? y.bytes_per_second / r->read_rate : 0.0;
    } else y.flops_per_second = row->limit.flops / row->of.tokens * y.median;
    return y;
}

static double per(uint64_t n, uint64_t steps) { return steps ? (double)n / (double)steps : 0.0; }
static double host_seconds(const och_step_stats *s) { return s->steps ? s->host_seconds / (double)s->steps : 0.0; }

static void json_row(const och_bench_report *r, const och_bench_row *row, och_strbuf *j) {
    summary y = summarise(r, row);
    const och_step_stats *s = &row->stats;
    och_strbuf_printf(
        j,
        "{\"test\": \"%s\", \"tokens\": %d, \"batch\": %d, \"depth\": %d, \"unit\": \"tokens/s\", \"median\": %.3f, "
        "\"least\": %.3f, \"greatest\": %.3f, \"runs\": [",
        row->key, row->of.tokens, row->of.batch, row->of.depth, y.median, y.least, y.greatest);
    for (int k = 0; k < r->n_runs; k++) och_strbuf_printf(j, "%s%.3f", k ? ", " : "", row->runs[k]);
    och_strbuf_puts(j, "]");
    if (row->of.decode) {
        och_strbuf_printf(j, ", \"bytes_per_step\": %.0f", row->limit.bytes);
        if (!r->simulated) och_strbuf_printf(j, ", \"bytes_per_second\": %.6g", y.bytes_per_second);
        if (y.share > 0.0) och_strbuf_printf(j, ", \"floor_tokens_per_second\": %.3f, \"share\": %.4f", y.floor, y.share);
        och_strbuf_printf(j,
                          ", \"steps\": %" PRIu64 ", \"replays\": %" PRIu64 ", \"captures\": %" PRIu64
                          ", \"refusals\": %" PRIu64
                          ", \"launches_per_step\": %.2f, \"kernels_per_step\": %.2f, \"host_seconds_per_step\": %.9f",
                          s->steps, s->replays, s->captures, s->refusals, per(s->launches, s->steps),
                          per(s->launches + s->graph_launches, s->steps), host_seconds(s));
        och_strbuf_printf(j, ", \"copied_in_per_step\": %.0f, \"copied_out_per_step\": %.0f, \"tokens_chosen\": %" PRIu64,
                          per(s->bytes_in, s->steps), per(s->bytes_out, s->steps), s->device_samples);
    } else {
        och_strbuf_printf(j, ", \"flops\": %.0f", row->limit.flops);
        if (!r->simulated) och_strbuf_printf(j, ", \"flops_per_second\": %.6g", y.flops_per_second);
    }
    och_strbuf_puts(j, "}");
}

/* The first row of each kind is there by its name too, for readers that want no more than one. */
static void print_json(const och_bench_report *r, och_strbuf *j) {
    const och_bench_case *first = &r->rows[0].of;
    for (int i = 0; !first->decode && i < r->n_rows; i++)
        if (r->rows[i].of.decode) first = &r->rows[i].of;
    och_strbuf_puts(j, "{\"model\": ");
    och_strbuf_json(j, r->name, strlen(r->name));
    och_strbuf_printf(j,
                      ", \"architecture\": \"%s\", \"device\": \"%s\", \"threads\": %d, \"batch\": %d, \"depth\": %d, "
                      "\"parameters\": %" PRIu64 ", \"load_seconds\": %.4f, \"peak_rss_bytes\": %" PRIu64,
                      r->info->architecture, r->info->device, r->threads, first->batch, first->depth, r->info->n_parameters,
                      r->load_seconds, r->peak_rss_bytes);
    if (r->read_rate > 0.0) och_strbuf_printf(j, ", \"read_bytes_per_second\": %.6g", r->read_rate);
    for (int i = 0; i < r->n_rows; i++) {
        bool seen = false;
        for (int k = 0; k < i && !seen; k++) seen = !strcmp(r->rows[k].key, r->rows[i].key);
        if (seen) continue;
        och_strbuf_printf(j, ", \"%s\": ", r->rows[i].key);
        json_row(r, &r->rows[i], j);
    }
    och_strbuf_puts(j, ", \"rows\": [");
    for (int i = 0; i < r->n_rows; i++) {
        och_strbuf_puts(j, i ? ",\n" : "\n");
        json_row(r, &r->rows[i], j);
    }
    och_strbuf_puts(j, "]}\n");
}

static void print_csv(const och_bench_report *r, och_strbuf *b) {
    och_strbuf_puts(
        b, "test,tokens,batch,depth,threads,runs,median_tokens_per_second,least,greatest,peak_rss_bytes,bytes_per_step,"
           "bytes_per_second,read_bytes_per_second,flops_per_second,steps,replays,kernels_per_step,launches_per_step,"
           "host_seconds_per_step\n");
    for (int i = 0; i < r->n_rows; i++) {
        const och_bench_row *row = &r->rows[i];
        const och_step_stats *n = &row->stats;
        summary y = summarise(r, row);
        och_strbuf_printf(b, "%s,%d,%d,%d,%d,%d,%.3f,%.3f,%.3f,%" PRIu64, row->key, row->of.tokens, row->of.batch,
                          row->of.depth, r->threads, r->n_runs, y.median, y.least, y.greatest, r->peak_rss_bytes);
        if (!row->of.decode) {
            och_strbuf_puts(b, ",,,,");
            if (!r->simulated) och_strbuf_printf(b, "%.6g", y.flops_per_second);
            och_strbuf_puts(b, ",,,,,\n");
            continue;
        }
        och_strbuf_printf(b, ",%.0f,", row->limit.bytes);
        if (!r->simulated) och_strbuf_printf(b, "%.6g", y.bytes_per_second);
        och_strbuf_puts(b, ",");
        if (r->read_rate > 0.0) och_strbuf_printf(b, "%.6g", r->read_rate);
        och_strbuf_printf(b, ",,%" PRIu64 ",%" PRIu64 ",%.2f,%.2f,%.9f\n", n->steps, n->replays,
                          per(n->launches + n->graph_launches, n->steps), per(n->launches, n->steps), host_seconds(n));
    }
}

static void table_limit(const och_bench_report *r, const och_bench_row *row, const summary *y, och_strbuf *b) {
    if (!row->of.decode) {
        bool tera = y->flops_per_second >= 1e12;
        if (r->simulated) och_strbuf_printf(b, "  %.6g GFLOP\n", row->limit.flops * 1e-9);
        else och_strbuf_printf(b, "%9.2f %sFLOP/s\n", y->flops_per_second * (tera ? 1e-12 : 1e-9), tera ? "T" : "G");
        return;
    }
    if (r->simulated) och_strbuf_puts(b, "  ");
    else och_strbuf_printf(b, "%9.2f GB/s, ", y->bytes_per_second * 1e-9);
    och_strbuf_printf(b, "%.4g GB a step", row->limit.bytes * 1e-9);
    if (y->share > 0.0) och_strbuf_printf(b, ", %.1f%% of %.1f tokens/s", 100.0 * y->share, y->floor);
    och_strbuf_puts(b, "\n");
}

static void print_table(const och_bench_report *r, och_strbuf *b) {
    och_strbuf_printf(b, "%s (%s, %.1fM parameters) on %s, %d threads\n", r->name, r->info->architecture,
                      (double)r->info->n_parameters * 1e-6, r->info->device, r->threads);
    och_strbuf_printf(b, "%-8s %7s %5s %7s %5s %12s %10s %10s %8s   of what the device could\n", "", "tokens", "batch", "depth",
                      "runs", "tokens/s", "least", "greatest", "spread");
    bool over = false;
    for (int i = 0; i < r->n_rows; i++) {
        const och_bench_row *row = &r->rows[i];
        summary y = summarise(r, row);
        over = over || y.share > 1.0;
        och_strbuf_printf(b, "%-8s %7d %5d %7d %5d %12.2f %10.2f %10.2f %7.1f%% ",
                          strcmp(row->key, "decode_graphs") ? row->key : "+graphs", row->of.tokens, row->of.batch,
                          row->of.depth, r->n_runs, y.median, y.least, y.greatest, 100 * (y.greatest - y.least) / y.median);
        table_limit(r, row, &y, b);
    }
    for (int i = 0; i < r->n_rows; i++) {
        const och_step_stats *s = &r->rows[i].stats;
        if (!s->launches && !s->replays) continue; /* a device that is given no kernels */
        och_strbuf_printf(b,
                          "%s, batch %d, depth %d: %" PRIu64 " replays over %" PRIu64
                          " decode steps; a step: %.1f kernels, %.1f launches, host %.1f us, %.0f bytes to the device, %.0f back%s\n",
                          strcmp(r->rows[i].key, "decode_graphs") ? r->rows[i].key : "+graphs", r->rows[i].of.batch,
                          r->rows[i].of.depth, s->replays, s->steps, per(s->launches + s->graph_launches, s->steps),
                          per(s->launches, s->steps), host_seconds(s) * 1e6, per(s->bytes_in, s->steps),
                          per(s->bytes_out, s->steps), s->device_samples ? ": tokens" : "");
    }
    if (r->read_rate > 0.0)
        och_strbuf_printf(b, "the device reads %.2f GB/s of memory where it does nothing else%s\n", r->read_rate * 1e-9,
                          over ? "; more than 100%: some of the model stays in a cache, or others were busy meanwhile" : "");
    och_strbuf_printf(b, "load %.2f s, peak memory %.1f MB\n", r->load_seconds, (double)r->peak_rss_bytes * 1e-6);
}

int och_bench_print(const och_bench_report *r, och_bench_output output) {
    och_strbuf b = {0};
    if (output == OCH_BENCH_JSON) print_json(r, &b);
    else if (output == OCH_BENCH_CSV) print_csv(r, &b);
    else print_table(r, &b);
    bool failed = b.failed;
    if (!failed) fputs(och_strbuf_str(&b), stdout);
    och_strbuf_deinit(&b);
    return failed ? och_main_error("out of memory for the report") : OCH_EXIT_OK;
}
