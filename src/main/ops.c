/* ochre ops: which provider covers which op on which device, and the capability table that dispatch reads. */
#include "main/main.h"

#include "op/registry.h"
#include "quant/capability.h"
#include "quant/format.h"

#include <stdio.h>
#include <string.h>

static const och_usage usage = {
    "ops", "[options]",
    "Lists every op with its providers, highest priority first, and whether each serves each device of this machine, or\n"
    "the device that --device names. For ops that read weights the formats are named that the provider reads; then the\n"
    "table by which formats are taken, decoded, converted or rejected. Providers of other kinds of device than those that\n"
    "are looked at are in the JSON alone.\n",
    "  ochre ops\n  ochre ops --device sim:gfx1151\n  ochre ops --json\n"};

#define MAX_DEVICES 32

typedef struct listing {
    och_device *devices[MAX_DEVICES]; /* owned */
    int n_devices;
    bool json;
    och_strbuf out, absent;
} listing;

/* Those of this machine; the null device, on which nothing runs, is there to be told of in JSON. */
static void open_devices(listing *l) {
    const och_dev_options options = {.n_threads = 1};
    for (int b = 0; b < och_backend_count(); b++) {
        const och_backend *be = och_backend_at(b);
        och_err err;
        och_err_clear(&err);
        int n = 0;
        if (be->count(&n, &err) != OCH_OK) och_strbuf_printf(&l->absent, "ochre: %s: %s\n", be->name, err.message);
        for (int i = 0; i < n && l->n_devices < MAX_DEVICES; i++) {
            och_err_clear(&err);
            char name[32];
            snprintf(name, sizeof name, "%.15s:%d", be->name, i);
            if (och_device_open(name, &options, &l->devices[l->n_devices], &err) == OCH_OK) l->n_devices++;
            else och_strbuf_printf(&l->absent, "ochre: %s:%d: %s\n", be->name, i, err.message);
        }
    }
}

/* Providers of one op, highest priority first, in the registry's order among equals. */
static int providers_of(och_op_id op, const och_op_provider *out[OCH_OP_MAX_PROVIDERS]) {
    int n = 0;
    for (int i = 0; i < och_op_provider_count() && n < OCH_OP_MAX_PROVIDERS; i++) {
        const och_op_provider *p = och_op_provider_at(i);
        if (p->op != op) continue;
        int at = n++;
        while (at > 0 && out[at - 1]->priority < p->priority) {
            out[at] = out[at - 1];
            at--;
        }
        out[at] = p;
    }
    return n;
}

/* Whether the provider serves the device at all: with any format, for an op that reads weights. `reason` is that of the
 * first refusal; formats are appended as words or as JSON strings. */
static bool covers(const och_op_provider *p, const och_device *d, bool json, och_strbuf *formats, och_err *reason) {
    och_op_call call;
    och_err why;
    bool any = false;
    och_err_clear(reason);
    for (size_t i = 0; i < OCH_DTYPE_COUNT_; i++) {
        bool weight = och_op_has_weight(p->op);
        const och_format *f = weight ? och_format_at(i) : NULL;
        if (weight && !f) break;
        if (!och_op_probe(p, d, p->op, f ? f->dtype : OCH_DTYPE_NONE, &call)) continue;
        och_err_clear(&why);
        if (och_op_provider_supports(p, d, &call, &why) != OCH_OK) {
            if (reason->status == OCH_OK) *reason = why;
        } else {
            if (f) och_strbuf_printf(formats, "%s%s%s%s", any ? (json ? ", " : " ") : "", json ? "\"" : "", f->name, json ? "\"" : "");
            any = true;
        }
        if (!weight) break;
    }
    return any;
}

static void provider_row(listing *l, const och_op_provider *p, bool first) {
    och_strbuf *b = &l->out;
    if (l->json)
        och_strbuf_printf(b, "%s{\"op\": \"%s\", \"operands\": \"%s\", \"provider\": \"%s\", \"backend\": \"%s\", \"priority\": %d, "
                             "\"reference_tier\": %s, \"devices\": [", first ? "" : ", ", och_op_name(p->op),
                          och_op_operands(p->op), p->name, p->backend, p->priority, p->priority < 0 ? "true" : "false");
    for (int i = 0; i < l->n_devices; i++) {
        const och_device *d = l->devices[i];
        const char *name = d->info.label;
        if (!l->json && (d->info.kind == OCH_DEV_NULL || (strcmp(p->backend, "*") != 0 && strcmp(p->backend, d->info.backend) != 0)))
            continue;
        och_strbuf formats = {0};
        och_err reason;
        bool yes = covers(p, d, l->json, &formats, &reason);
        if (formats.failed) b->failed = true;
        if (l->json) {
            och_strbuf_printf(b, "%s{\"device\": \"%s\", \"supported\": %s, \"formats\": [%s], \"reason\": ", i ? ", " : "",
                              name, yes ? "true" : "false", och_strbuf_str(&formats));
            const char *why = yes ? "" : reason.message;
            och_strbuf_json(b, why, strlen(why));
            och_strbuf_puts(b, "}");
        } else
            och_strbuf_printf(b, "%-10s %-10s %-8s %8d  %-11s %-4s %s\n", och_op_name(p->op), p->name, p->backend, p->priority,
                              name, yes ? "yes" : "no", yes ? och_strbuf_str(&formats) : reason.message);
        och_strbuf_deinit(&formats);
    }
    if (l->json) och_strbuf_puts(b, "]}");
}

static void coverage(listing *l) {
    if (l->json) och_strbuf_puts(&l->out, "{\"ops\": [");
    else
        och_strbuf_printf(&l->out, "%-10s %-10s %-8s %8s  %-11s %-4s %s\n", "op", "provider", "backend", "priority", "device",
                          "runs", "formats, or why not");
    bool first = true;
    for (int op = 0; op < OCH_OP_COUNT_; op++) {
        const och_op_provider *list[OCH_OP_MAX_PROVIDERS];
        int n = providers_of((och_op_id)op, list);
        for (int i = 0; i < n; i++, first = false) provider_row(l, list[i], first);
    }
}

static void capabilities(listing *l) {
    och_strbuf *b = &l->out;
    if (l->json) och_strbuf_puts(b, "], \"capabilities\": [");
    else
        och_strbuf_printf(b, "\n%-10s %-8s %-8s %-8s %-16s %s\n", "backend", "target", "op", "format", "verdict",
                          "converted to, or what would help");
    const och_capability_row *r;
    for (size_t i = 0; (r = och_capability_at(i)); i++) {
        const char *dtype = r->dtype == OCH_DTYPE_NONE ? "*" : och_dtype_name(r->dtype);
        const char *to = r->convert_to == OCH_DTYPE_NONE ? "" : och_dtype_name(r->convert_to);
        if (!l->json) {
            och_strbuf_printf(b, "%-10s %-8s %-8s %-8s %-16s %s%s\n", r->backend, r->target, r->op, dtype,
                              och_verdict_name(r->verdict), to, r->message);
            continue;
        }
        och_strbuf_printf(b, "%s{\"backend\": \"%s\", \"target\": \"%s\", \"op\": \"%s\", \"format\": \"%s\", \"verdict\": \"%s\", "
                             "\"convert_to\": ", i ? ", " : "", r->backend, r->target, r->op, dtype, och_verdict_name(r->verdict));
        if (to[0]) och_strbuf_printf(b, "\"%s\"", to);
        else och_strbuf_puts(b, "null");
        och_strbuf_puts(b, ", \"message\": ");
        och_strbuf_json(b, r->message, strlen(r->message));
        och_strbuf_puts(b, "}");
    }
    if (l->json) och_strbuf_puts(b, "]}\n");
}

int och_cmd_ops(int argc, char **argv) {
    listing l = {0};
    const char *device = NULL;
    const och_opt opts[] = {{"device", 'd', OCH_OPT_STR, &device, 0, 0, "D", "look at this one alone, see `ochre devices`", NULL},
                            {"json", 0, OCH_OPT_FLAG, &l.json, 0, 0, NULL, "one JSON object", NULL}};
    int n_args, rc = och_opts_parse(&usage, opts, sizeof opts / sizeof *opts, argc, argv, NULL, 0, &n_args);
    if (rc >= 0) return rc;
    if (device) {
        const och_dev_options options = {.n_threads = 1};
        och_err err = {0};
        if (och_device_open(device, &options, &l.devices[0], &err) != OCH_OK) return och_main_fail(&err);
        l.n_devices = 1;
    } else open_devices(&l);
    coverage(&l);
    capabilities(&l);
    if (l.out.failed || l.absent.failed) rc = och_main_error("out of memory");
    else {
        fputs(och_strbuf_str(&l.out), stdout);
        fputs(och_strbuf_str(&l.absent), stderr);
        rc = OCH_EXIT_OK;
    }
    och_strbuf_deinit(&l.out);
    och_strbuf_deinit(&l.absent);
    for (int i = 0; i < l.n_devices; i++) och_device_release(l.devices[i]);
    return rc;
}
