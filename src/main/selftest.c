/* ochre selftest: what a device computes, held against the reference, as a report that says where it was made. */
#include "main/main.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/thread.h"
#include "engine/api.h"
#include "engine/selftest.h"
#include "engine/verify.h"
#include "target/target.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

static const och_usage usage = {
    "selftest", "--device D [-o report.json] [options]",
    "Makes the evidence that a device works: probes of its attributes and memory, every op and weight format against "
    "the\n"
    "reference, 16 greedy tokens of a model against the same model on the reference, and, on real devices, a speed. "
    "The report\n"
    "says what it is: \"simulated\" from the simulator, \"run\" from real hardware, with machine, runtime and date.\n"
    "tools/platform-matrix makes the table of docs/platforms.md from such reports.\n"
    "exit status: 0 all passed; 1 not, or it could not be tried\n",
    "  ochre selftest --device hip:0 -o report.json\n"
    "  ochre selftest --device sim:gfx1151 -o report.json\n"
    "  ochre selftest --device cpu --model smollm2-135m\n"};

enum { N_TOKENS = 16, BENCH_TOKENS = 64 };

typedef struct selftest {
    och_device *device;
    och_queue *queue;
    bool simulated, quiet;
    int n_ok, n_bad;
    och_strbuf json, text;
} selftest;

static void result(selftest *s, bool ok) {
    if (ok) s->n_ok++;
    else s->n_bad++;
}

static void progress(const selftest *s, const char *what) {
    if (!s->quiet) fprintf(stderr, "ochre: selftest: %s\n", what);
}

static void put_string(och_strbuf *b, const char *key, const char *v) {
    och_strbuf_printf(b, "\"%s\": ", key);
    och_strbuf_json(b, v, strlen(v));
}

static void put_number(och_strbuf *b, double v) {
    if (isfinite(v)) och_strbuf_printf(b, "%.4g", v);
    else och_strbuf_puts(b, "null");
}

/* ---- where ---- */

static void cpu_name(char *out, size_t n) {
    char line[256];
    snprintf(out, n, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10) != 0) continue;
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, n, "%s", colon + 1 + (colon[1] == ' '));
        break;
    }
    if (f) fclose(f);
}

static void heading(selftest *s) {
    char cpu[200], date[32];
    struct utsname u = {0};
    time_t now = time(NULL);
    struct tm tm;
    cpu_name(cpu, sizeof cpu);
    if (uname(&u)) snprintf(u.sysname, sizeof u.sysname, "unknown");
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    och_strbuf_puts(&s->json, "{\"report\": \"ochre selftest\", \"version\": 1,\n");
    put_string(&s->json, "evidence", s->simulated ? "simulated" : "run");
    och_strbuf_puts(&s->json, ", ");
    put_string(&s->json, "ochre", ochre_version());
    och_strbuf_puts(&s->json, ", ");
    put_string(&s->json, "date", date);
    och_strbuf_puts(&s->json, ",\n\"machine\": {");
    put_string(&s->json, "cpu", cpu);
    och_strbuf_puts(&s->json, ", ");
    put_string(&s->json, "system", u.sysname);
    och_strbuf_puts(&s->json, ", ");
    put_string(&s->json, "architecture", u.machine);
    /* What runtime it was, and not where. */
    char *runtime = s->device->info.runtime, *from = strstr(runtime, ", "), *slash = strrchr(runtime, '/');
    if (from && slash && slash > from) memmove(from + 2, slash + 1, strlen(slash));
    och_strbuf_puts(&s->json, "},\n\"device\": ");
    och_main_device_json(s->device, &s->json);
    och_strbuf_printf(&s->text, "%s: %s, %s, %s\n", s->device->info.label, s->device->info.name, s->device->info.arch,
                      s->simulated ? "simulated: right results and counts, no board" : "run on this machine");
}

/* ---- attributes and memory ---- */

static void probe_row(selftest *s, const char *name, bool ok, const char *note, bool *first) {
    result(s, ok);
    och_strbuf_puts(&s->json, *first ? "\n{" : ",\n{");
    *first = false;
    put_string(&s->json, "probe", name);
    och_strbuf_printf(&s->json, ", \"ok\": %s, ", ok ? "true" : "false");
    put_string(&s->json, "note", note);
    och_strbuf_puts(&s->json, "}");
    if (!ok) och_strbuf_printf(&s->text, "  FAILED: %s: %s\n", name, note);
}

/* Bytes go to the device, over to another place on it, and come back. */
static och_status probe_copies(selftest *s, och_buf *a, och_buf *b, unsigned char *host, uint64_t n, bool *out_ok,
                               och_err *err) {
    const och_device_vtable *v = s->device->vtable;
    *out_ok = false;
    for (uint64_t i = 0; i < n; i++) host[i] = (unsigned char)(i * 131 + (i >> 8));
    OCH_TRY(v->copy_to_device(s->queue, a->addr, host, n, err));
    OCH_TRY(v->fill(s->queue, b->addr, 0x5a, n, err));
    OCH_TRY(v->copy(s->queue, och_dev_addr_add(b->addr, 256), a->addr, n - 512, err));
    OCH_TRY(v->synchronise(s->queue, err));
    memset(host, 0, n);
    OCH_TRY(v->copy_to_host(s->queue, host, b->addr, n, err));
    OCH_TRY(v->synchronise(s->queue, err));
    for (uint64_t i = 0; i < n; i++) {
        uint64_t k = i - 256;
        unsigned char want = i < 256 || i >= n - 256 ? 0x5a : (unsigned char)(k * 131 + (k >> 8));
        if (host[i] != want) return OCH_OK;
    }
    *out_ok = true;
    return OCH_OK;
}

static void probes(selftest *s) {
    const och_device_vtable *v = s->device->vtable;
    const och_dev_info *d = &s->device->info;
    const uint64_t n = 1 << 20;
    bool first = true, ok = false;
    och_err err = {0};
    och_buf a = {0}, b = {0}, pinned = {0};
    char note[200];
    uint64_t free_bytes = 0, limit = 0;
    progress(s, "attributes and memory");
    och_strbuf_puts(&s->json, ",\n\"attributes\": [");
    ok = v->memory(s->device, &free_bytes, &limit, &err) == OCH_OK && free_bytes <= limit && limit <= d->memory_bytes &&
         free_bytes > 0;
    snprintf(note, sizeof note, "free %" PRIu64 ", usable %" PRIu64 ", in all %" PRIu64 " bytes", free_bytes, limit,
             d->memory_bytes);
    probe_row(s, "memory sizes", ok, note, &first);
    bool cpu = d->kind == OCH_DEV_CPU;
    och_target_id id;
    bool known = cpu || och_target_find(d->arch, &id, &err) == OCH_OK;
    probe_row(s, "target", known, d->arch, &first);
    if (!cpu) {
        bool waves = known && (d->wave_size == 32 || d->wave_size == 64) && d->lds_bytes >= 32768 && d->max_group >= 256;
        snprintf(note, sizeof note, "waves of %d, %" PRIu32 " bytes of LDS, %" PRIu32 " work-items a workgroup",
                 d->wave_size, d->lds_bytes, d->max_group);
        probe_row(s, "limits", waves, note, &first);
    }
    unsigned char *host = och_malloc(n);
    och_err_clear(&err);
    och_status st = host ? OCH_OK : och_err_nomem(&err, n, "a probe");
    if (st == OCH_OK) st = och_buf_alloc(s->device, n, OCH_MEM_DEVICE, &a, &err);
    if (st == OCH_OK) st = och_buf_alloc(s->device, n, OCH_MEM_DEVICE, &b, &err);
    if (st == OCH_OK) st = probe_copies(s, &a, &b, host, n, &ok, &err);
    probe_row(s, "copies and fill", st == OCH_OK && ok,
              st == OCH_OK ? (ok ? "1 MiB there, across and back" : "other bytes came back") : err.message, &first);
    och_err_clear(&err);
    if (st == OCH_OK) st = och_buf_alloc(s->device, n, OCH_MEM_PINNED, &pinned, &err);
    probe_row(s, "pinned memory", st == OCH_OK && pinned.host, st == OCH_OK ? "the host may use it" : err.message, &first);
    bool unified = v->unified_memory(s->device);
    if (st == OCH_OK && unified && a.host) { /* the device reads what the host wrote in place */
        memset(a.host, 0x37, n);
        st = v->copy(s->queue, b.addr, a.addr, n, &err);
        if (st == OCH_OK) st = v->synchronise(s->queue, &err);
        const unsigned char *p = b.host;
        ok = st == OCH_OK && p && p[0] == 0x37 && p[n / 2] == 0x37 && p[n - 1] == 0x37;
    } else ok = st == OCH_OK && !unified && !a.host;
    probe_row(s, "unified memory", ok,
              unified ? "host and device use one address" : "the host may not use the device's memory", &first);
    och_event *e = NULL;
    bool done = false;
    och_err_clear(&err);
    st = v->event_create(s->device, &e, &err);
    if (st == OCH_OK) st = v->event_record(s->queue, e, &err);
    if (st == OCH_OK) st = v->event_wait_host(e, &err);
    if (st == OCH_OK) st = v->event_query(e, &done, &err);
    if (e) v->event_destroy(e);
    probe_row(s, "events", st == OCH_OK && done, st == OCH_OK ? "recorded and waited for" : err.message, &first);
    och_strbuf_puts(&s->json, "]");
    och_buf_free(&pinned);
    och_buf_free(&a);
    och_buf_free(&b);
    och_free(host);
    och_strbuf_printf(&s->text, "  attributes   %d of %d probes\n", s->n_ok, s->n_ok + s->n_bad);
}

/* ---- ops ---- */

static void conformance(selftest *s) {
    och_op_call c;
    char name[128], worst_name[128] = "-", line[160];
    int n = 0, passed = 0, n_reference = 0;
    double worst = 0.0, begin = och_now_seconds();
    och_strbuf_puts(&s->json, ",\n\"conformance\": {\"cases\": [");
    for (int i = 0; och_selftest_case(i, &c, name, sizeof name); i++, n++) {
        och_trial t;
        och_err err = {0};
        if (i % 16 == 0) {
            snprintf(line, sizeof line, "op case %d: %s", i + 1, name);
            progress(s, line);
        }
        och_status st = och_trial_run(s->queue, &c, &(och_trial_options){.seed = (uint64_t)i}, &t, &err);
        bool ok = st == OCH_OK && t.nmse <= t.bound;
        bool fallback = st == OCH_OK && t.provider->priority < 0;
        n_reference += fallback;
        passed += ok;
        result(s, ok);
        och_strbuf_puts(&s->json, i ? ",\n{" : "\n{");
        put_string(&s->json, "case", name);
        och_strbuf_printf(&s->json, ", \"ok\": %s, \"provider\": ", ok ? "true" : "false");
        if (t.provider) och_strbuf_printf(&s->json, "\"%s\"", t.provider->name);
        else och_strbuf_puts(&s->json, "null");
        och_strbuf_puts(&s->json, ", \"nmse\": ");
        put_number(&s->json, st == OCH_OK ? t.nmse : INFINITY);
        och_strbuf_puts(&s->json, ", \"bound\": ");
        put_number(&s->json, t.bound);
        och_strbuf_puts(&s->json, ", ");
        put_string(&s->json, "kernels", t.kernels);
        if (st != OCH_OK) {
            och_strbuf_puts(&s->json, ", ");
            put_string(&s->json, "error", err.message);
        }
        och_strbuf_puts(&s->json, "}");
        if (!ok && st == OCH_OK)
            och_strbuf_printf(&s->text, "  FAILED: %s: normalised mean square error %.2e, expected at most %.1e (%s)\n",
                              name, t.nmse, t.bound, t.kernels[0] ? t.kernels : t.provider->name);
        else if (!ok) och_strbuf_printf(&s->text, "  FAILED: %s: %s\n", name, err.message);
        if (st == OCH_OK && t.bound > 0.0 && t.nmse / t.bound >= worst) {
            worst = t.nmse / t.bound;
            snprintf(worst_name, sizeof worst_name, "%s", name);
        }
    }
    och_strbuf_printf(&s->json, "], \"n\": %d, \"passed\": %d, \"reference_tier\": %d, ", n, passed, n_reference);
    put_string(&s->json, "nearest_to_its_bound", worst_name);
    och_strbuf_puts(&s->json, ", \"share_of_bound\": ");
    put_number(&s->json, worst);
    och_strbuf_printf(&s->json, ", \"seconds\": %.2f}", och_now_seconds() - begin);
    och_strbuf_printf(&s->text, "  ops          %d of %d cases; nearest to its bound: %s, %.2f of it%s\n", passed, n,
                      worst_name, worst, n_reference ? "; some ran on the reference tier" : "");
}

/* ---- a model ---- */

static och_status open_pair(selftest *s, const char *path, ochre_model **out_model, ochre_model **out_reference, och_err *err) {
    och_device *cpu = NULL;
    och_model *m = NULL;
    och_model_options own = {0}, reference = {.only = "reference"};
    och_status st = och_device_open("cpu", NULL, &cpu, err);
    for (int i = 0; i < 2 && st == OCH_OK; i++) {
        och_device *d = i ? cpu : s->device;
        const och_model_options *o = i ? &reference : &own;
        st = path ? och_model_open(path, d, o, &m, err) : och_model_open_synthetic("tiny", OCH_DTYPE_Q8_0, d, o, &m, err);
        if (st != OCH_OK) break;
        st = och_api_wrap_model(m, i ? out_reference : out_model, err);
        if (st != OCH_OK) och_model_close(m);
    }
    och_device_release(cpu);
    return st;
}

static och_dtype coarsest_of(const och_model *m) {
    och_dtype t = OCH_DTYPE_F32;
    double least = INFINITY;
    for (int i = 0; i < m->n_weights; i++) {
        const och_dtype_info *d = och_dtype_get(m->weights[i].file_dtype);
        if (och_role_use(m->weights[i].role) == OCH_USE_VECTOR || 8.0 * d->block_bytes / d->block_elems >= least) continue;
        least = 8.0 * d->block_bytes / d->block_elems;
        t = m->weights[i].file_dtype;
    }
    return t;
}

static ochre_status session_of(ochre_model *m, bool reference, int context, ochre_session **out_s, ochre_error *e) {
    ochre_session_options o = OCHRE_SESSION_OPTIONS_INIT;
    o.max_context = context;
    o.max_step_tokens = o.max_logits = 64;
    o.kv_type = reference ? OCHRE_KV_F32 : OCHRE_KV_AUTO;
    return ochre_session_create(m, &o, out_s, e);
}

static och_status compare_models(ochre_model *model, ochre_model *reference, const int32_t *ids, int n_ids,
                                 och_verify_result *out_r, och_err *err) {
    ochre_session *s[2] = {NULL, NULL};
    ochre_error e = {0};
    och_golden_prompt g = {0};
    int n_vocab = och_api_model(model)->config.n_vocab;
    och_status st = OCH_OK;
    for (int i = 0; i < 2 && st == OCH_OK; i++) {
        ochre_status rc = session_of(i ? model : reference, !i, n_ids + N_TOKENS, &s[i], &e);
        if (rc != OCHRE_OK) st = och_err_set(err, (och_status)rc, "%s", e.message);
    }
    if (st == OCH_OK) st = och_golden_generate(s[0], n_vocab, "selftest", ids, n_ids, N_TOKENS, &g, err);
    if (st == OCH_OK) st = och_verify_prompt(s[1], &g, n_vocab, 64, out_r, err);
    och_golden_prompt_deinit(&g);
    ochre_session_destroy(s[0]);
    ochre_session_destroy(s[1]);
    return st;
}

/* Decode of a few tokens on a real device: a speed, or why there is none. */
static void bench(selftest *s, ochre_model *model) {
    ochre_error e = {0};
    ochre_session *session = NULL;
    int32_t sequence = 0, token = 1;
    och_strbuf_puts(&s->json, ",\n\"bench\": ");
    if (s->simulated || !model) {
        och_strbuf_printf(&s->json, "{\"speed\": null, \"note\": \"%s\"}",
                          s->simulated ? "simulated: no speed" : "there was no model");
        och_strbuf_printf(&s->text, "  bench        none: %s\n",
                          s->simulated ? "a simulator has no speed" : "there was no model");
        return;
    }
    progress(s, "bench");
    och_op_stats_reset();
    double begin = 0.0;
    ochre_status st = session_of(model, false, BENCH_TOKENS + 8, &session, &e);
    if (st == OCHRE_OK) st = ochre_sequence_create(session, &sequence, &e);
    for (int i = 0; i < BENCH_TOKENS + 8 && st == OCHRE_OK; i++) {
        if (i == 8) begin = och_now_seconds();
        ochre_span span = {sequence, &token, 1, OCHRE_LOGITS_LAST};
        st = ochre_step(session, &span, 1, &e);
    }
    double seconds = och_now_seconds() - begin;
    ochre_session_destroy(session);
    result(s, st == OCHRE_OK);
    if (st != OCHRE_OK || och_op_reference_hits()) {
        const char *why = st != OCHRE_OK ? e.message : "an op fell back to the reference tier";
        och_strbuf_puts(&s->json, "{\"speed\": null, ");
        put_string(&s->json, "note", why);
        och_strbuf_puts(&s->json, "}");
        och_strbuf_printf(&s->text, "  bench        none: %s\n", why);
        return;
    }
    double speed = BENCH_TOKENS / seconds, bytes = (double)och_api_model(model)->weight_bytes * speed;
    och_strbuf_printf(&s->json,
                      "{\"speed\": {\"decode_tokens_per_second\": %.2f, \"weight_bytes_per_second\": %.4g}, \"note\": "
                      "\"one run of %d "
                      "tokens\"}",
                      speed, bytes, BENCH_TOKENS);
    och_strbuf_printf(&s->text, "  bench        decode %.1f tokens/s, %.1f GB/s of weights (one run of %d tokens)\n",
                      speed, bytes * 1e-9, BENCH_TOKENS);
}

static void model_part(selftest *s, const char *path, const char *name) {
    ochre_model *model = NULL, *reference = NULL;
    ochre_error e = {0};
    och_err err = {0};
    int32_t ids[64] = {5, 9, 17, 33, 65, 129, 257, 513, 3, 7, 11};
    size_t n_ids = 11;
    och_verify_result r = {0};
    static const char prompt[] = "The harbour was quiet in the morning, and the fishermen were already";
    progress(s, "a model on the reference and on the device");
    och_strbuf_puts(&s->json, ",\n\"model\": {");
    put_string(&s->json, "name", name);
    och_status st = open_pair(s, path, &model, &reference, &err);
    if (st == OCH_OK && path &&
        ochre_tokenize(model, prompt, strlen(prompt), OCHRE_ADD_SPECIAL, ids, OCH_COUNT(ids), &n_ids, &e) != OCHRE_OK)
        st = och_err_set(&err, (och_status)e.status, "%s", e.message);
    if (st == OCH_OK) st = compare_models(model, reference, ids, (int)n_ids, &r, &err);
    const char *bad = err.message;
    if (st == OCH_OK) {
        och_verify_total total = {0};
        och_verify_total_add(&total, &r);
        bad = och_verify_judge(&total, och_verify_bounds_for(false, coarsest_of(och_api_model(model)), OCH_DTYPE_NONE));
        och_strbuf_printf(&s->json, ", \"tokens\": %d, \"equal\": %d, \"near_ties\": %d, \"mean_kl\": ", r.n_tokens,
                          r.n_equal, r.n_near_ties);
        put_number(&s->json, r.mean_kl);
        och_strbuf_puts(&s->json, ", \"worst_delta\": ");
        put_number(&s->json, r.worst_delta);
        och_strbuf_puts(&s->json, ", \"greatest_logit\": ");
        put_number(&s->json, r.max_abs);
    }
    result(s, !bad);
    och_strbuf_printf(&s->json, ", \"ok\": %s", bad ? "false" : "true");
    if (bad) {
        och_strbuf_puts(&s->json, ", ");
        put_string(&s->json, "failed", bad);
    }
    och_strbuf_puts(&s->json, "}");
    if (bad) och_strbuf_printf(&s->text, "  FAILED: model %s: %s\n", name, bad);
    else
        och_strbuf_printf(&s->text,
                          "  model        %s: %d of %d greedy tokens equal, %d near ties; worst |delta logit| %.3g of "
                          "%.3g, mean KL %.2g\n",
                          name, r.n_equal, r.n_tokens, r.n_near_ties, r.worst_delta, r.max_abs, r.mean_kl);
    bench(s, bad ? NULL : model);
    ochre_model_close(model);
    ochre_model_close(reference);
}

static int write_report(const selftest *s, const char *path) {
    FILE *f = fopen(path, "w");
    if (!f) return och_main_error("%s: %s", path, strerror(errno));
    bool bad = fwrite(s->json.data, 1, s->json.size, f) != s->json.size;
    if (fclose(f) || bad) return och_main_error("%s: not everything could be written", path);
    return OCH_EXIT_OK;
}

int och_cmd_selftest(int argc, char **argv) {
    const char *device = NULL, *out = NULL, *model = NULL;
    selftest s = {0};
    const och_opt opts[] = {
        {"device", 'd', OCH_OPT_STR, &device, 0, 0, "D", "see `ochre devices` (default: auto)", NULL},
        {"output", 'o', OCH_OPT_STR, &out, 0, 0, "FILE", "write the report, as JSON", NULL},
        {"model", 'm', OCH_OPT_STR, &model, 0, 0, "MODEL", "a real model (default: a tiny one with generated weights)", NULL},
        {"quiet", 'q', OCH_OPT_FLAG, &s.quiet, 0, 0, NULL, "no progress on standard error", NULL},
    };
    int n_args, rc = och_opts_parse(&usage, opts, OCH_COUNT(opts), argc, argv, NULL, 0, &n_args);
    if (rc >= 0) return rc;
    och_err err = {0};
    och_strbuf path = {0};
    och_main_catch_interrupt();
    och_main_interrupt_exits(true);
    if ((model && och_model_path(model, &path, &err) != OCH_OK) ||
        och_device_open(device ? device : "auto", NULL, &s.device, &err) != OCH_OK ||
        s.device->vtable->queue_create(s.device, &s.queue, &err) != OCH_OK) {
        rc = och_main_fail(&err);
        goto done;
    }
    s.simulated = s.device->info.kind == OCH_DEV_SIMULATED || !strcmp(s.device->info.backend, "sim");
    heading(&s);
    probes(&s);
    conformance(&s);
    model_part(&s, model ? och_strbuf_str(&path) : NULL, model ? model : "tiny (generated weights, Q8_0)");
    bool passed = !s.n_bad;
    och_strbuf_printf(&s.json, ",\n\"passed\": %s}\n", passed ? "true" : "false");
    och_strbuf_printf(&s.text, "%s: %s\n", passed ? "passed" : "FAILED", s.simulated ? "simulated" : "run");
    if (s.json.failed || s.text.failed) {
        rc = och_main_error("out of memory for the report");
        goto done;
    }
    fputs(och_strbuf_str(&s.text), stdout);
    rc = out ? write_report(&s, out) : OCH_EXIT_OK;
    if (rc == OCH_EXIT_OK && !passed) rc = OCH_EXIT_FAILURE;
done:
    if (s.queue) s.device->vtable->queue_destroy(s.queue);
    och_device_release(s.device);
    och_strbuf_deinit(&path);
    och_strbuf_deinit(&s.json);
    och_strbuf_deinit(&s.text);
    return rc;
}
