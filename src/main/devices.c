/* ochre devices: every backend of this build, and what it found. */
#include "main/main.h"

#include "dev/dev.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const och_usage usage = {
    "devices", "[options]",
    "Lists the devices that models can run on. The name in the first column is what --device takes; a GPU also answers to its\n"
    "PCI address (hip:0000:03:00.0) and its target (hip:gfx1100), and sim:BOARD is any simulated board.\n"
    "Facts: integrated: shares the host's memory; managed: managed memory that both may touch at the same time; unified: the\n"
    "host may read and write the device's memory in place.\n",
    "  ochre devices\n  ochre devices --json\n"};

static const char *kind_name(och_dev_kind k) {
    switch (k) {
    case OCH_DEV_CPU: return "cpu";
    case OCH_DEV_INTEGRATED: return "integrated";
    case OCH_DEV_DISCRETE: return "discrete";
    case OCH_DEV_SIMULATED: return "simulated";
    case OCH_DEV_NULL: return "null";
    }
    return "?";
}

/* What the host may do with its memory: "integrated, managed, unified", or "-". */
static void put_facts(const och_dev_info *i, och_strbuf *out) {
    size_t n = out->size;
    if (i->integrated) och_strbuf_puts(out, "integrated");
    if (i->managed) och_strbuf_printf(out, "%smanaged", out->size > n ? "," : "");
    if (i->unified) och_strbuf_printf(out, "%sunified", out->size > n ? "," : "");
    if (out->size == n) och_strbuf_puts(out, "-");
}

void och_main_device_json(const och_device *d, och_strbuf *out) {
    const och_dev_info *i = &d->info;
    bool unified = d->vtable->unified_memory(d);
    och_strbuf_printf(out, "{\"device\": \"%s\", \"kind\": \"%s\", \"vendor\": ", i->label, kind_name(i->kind));
    och_strbuf_json(out, i->vendor, strlen(i->vendor));
    och_strbuf_puts(out, ", \"name\": ");
    och_strbuf_json(out, i->name, strlen(i->name));
    och_strbuf_puts(out, ", \"arch\": ");
    och_strbuf_json(out, i->arch, strlen(i->arch));
    och_strbuf_printf(out, ", \"memory_bytes\": %" PRIu64 ", \"unified_memory\": %s", i->memory_bytes, unified ? "true" : "false");
    och_strbuf_printf(out, ", \"graphs\": %s, \"graphs_default\": %s, \"graphs_reason\": ", i->graphs ? "true" : "false",
                      i->graphs_default ? "true" : "false");
    och_strbuf_json(out, i->graphs_reason, strlen(i->graphs_reason));
    och_strbuf_printf(out, ", \"integrated\": %s, \"managed\": %s, \"unified\": %s, \"compute_units\": %d",
                      i->integrated ? "true" : "false", i->managed ? "true" : "false", unified ? "true" : "false",
                      i->n_compute_units);
    if (i->wave_size)
        och_strbuf_printf(out, ", \"wave_size\": %d, \"multiprocessors\": %d, \"lds_bytes\": %" PRIu32 ", \"max_group\": %" PRIu32
                          ", \"l2_bytes\": %" PRIu64 ", \"bandwidth_gbps\": %.1f, \"code_object_version\": %d, \"pci\": \"%s\"",
                          i->wave_size, i->n_multiprocessors, i->lds_bytes, i->max_group, i->l2_bytes, i->bandwidth_gbps,
                          i->code_object_version, i->pci);
    if (i->runtime[0]) {
        och_strbuf_puts(out, ", \"runtime\": ");
        och_strbuf_json(out, i->runtime, strlen(i->runtime));
    }
    och_strbuf_puts(out, "}");
}

void och_main_device_row(const och_device *d, och_strbuf *out) {
    const och_dev_info *i = &d->info;
    och_strbuf facts = {0};
    put_facts(i, &facts);
    och_strbuf_printf(out, "%-10s %-10s %-24s %8.1f GiB  %-26s %s\n", i->label, kind_name(i->kind), i->arch,
                      (double)i->memory_bytes / (1024.0 * 1024 * 1024), och_strbuf_str(&facts), i->name);
    och_strbuf_deinit(&facts);
}

void och_main_device_heading(och_strbuf *out) {
    och_strbuf_printf(out, "%-10s %-10s %-24s %12s  %-26s %s\n", "device", "kind", "arch", "memory", "facts", "name");
}

int och_cmd_devices(int argc, char **argv) {
    bool json = false;
    const och_opt opts[] = {{"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object", NULL}};
    int n_args, rc = och_opts_parse(&usage, opts, 1, argc, argv, NULL, 0, &n_args);
    if (rc >= 0) return rc;
    och_strbuf out = {0}, absent = {0};
    bool first = true;
    if (json) och_strbuf_puts(&out, "{\"devices\": [");
    else och_main_device_heading(&out);
    const och_dev_options options = {0};
    for (int b = 0; b < och_backend_count(); b++) {
        const och_backend *be = och_backend_at(b);
        och_err err = {0};
        int n = 0;
        if (be->count(&n, &err) != OCH_OK) och_strbuf_printf(&absent, "ochre: %s: %s\n", be->name, err.message);
        for (int i = 0; i < n; i++) {
            och_device *d = NULL;
            char name[32];
            och_err_clear(&err);
            snprintf(name, sizeof name, "%s:%d", be->name, i);
            if (och_device_open(name, &options, &d, &err) != OCH_OK) {
                och_strbuf_printf(&absent, "ochre: %s: %s\n", name, err.message);
                continue;
            }
            if (d->info.kind == OCH_DEV_NULL) { /* computes nothing: no model runs on it */
                och_device_release(d);
                continue;
            }
            if (json) {
                och_strbuf_puts(&out, first ? "" : ", ");
                och_main_device_json(d, &out);
            } else och_main_device_row(d, &out);
            first = false;
            och_device_release(d);
        }
    }
    if (json) och_strbuf_puts(&out, "]}\n");
    if (out.failed || absent.failed) rc = och_main_error("out of memory");
    else {
        fputs(och_strbuf_str(&out), stdout);
        fputs(och_strbuf_str(&absent), stderr);
        rc = OCH_EXIT_OK;
    }
    och_strbuf_deinit(&out);
    och_strbuf_deinit(&absent);
    return rc;
}
