/* ochre devices: every backend of this build, and what it found. */
#include "main/main.h"

#include "dev/dev.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const och_usage usage = {
    "devices", "[options]",
    "Lists the devices that models can run on. The name in the first column is what --device takes.\n",
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

static void row(const och_device *d, bool unified, bool json, bool first, och_strbuf *out) {
    const och_dev_info *i = &d->info;
    char name[32];
    snprintf(name, sizeof name, "%s:%d", i->backend, i->index);
    if (!json) {
        och_strbuf_printf(out, "%-10s %-10s %-16s %8.1f GiB  %s\n", name, kind_name(i->kind), i->arch,
                          (double)i->memory_bytes / (1024.0 * 1024 * 1024), i->name);
        return;
    }
    och_strbuf_printf(out, "%s{\"device\": \"%s\", \"kind\": \"%s\", \"vendor\": ", first ? "" : ", ", name, kind_name(i->kind));
    och_strbuf_json(out, i->vendor, strlen(i->vendor));
    och_strbuf_puts(out, ", \"name\": ");
    och_strbuf_json(out, i->name, strlen(i->name));
    och_strbuf_puts(out, ", \"arch\": ");
    och_strbuf_json(out, i->arch, strlen(i->arch));
    och_strbuf_printf(out, ", \"memory_bytes\": %" PRIu64 ", \"unified_memory\": %s}", i->memory_bytes,
                      unified ? "true" : "false");
}

int och_cmd_devices(int argc, char **argv) {
    bool json = false;
    const och_opt opts[] = {{"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object", NULL}};
    int n_args, rc = och_opts_parse(&usage, opts, 1, argc, argv, NULL, 0, &n_args);
    if (rc >= 0) return rc;
    och_strbuf out = {0}, absent = {0};
    bool first = true;
    if (json) och_strbuf_puts(&out, "{\"devices\": [");
    else och_strbuf_printf(&out, "%-10s %-10s %-16s %12s  %s\n", "device", "kind", "arch", "memory", "name");
    const och_dev_options options = {0};
    for (int b = 0; b < och_backend_count(); b++) {
        const och_backend *be = och_backend_at(b);
        och_err err = {0};
        int n = 0;
        if (be->count(&n, &err) != OCH_OK) och_strbuf_printf(&absent, "ochre: %s: %s\n", be->name, err.message);
        for (int i = 0; i < n; i++) {
            och_device *d = NULL;
            och_err_clear(&err);
            if (be->open(i, &options, &d, &err) != OCH_OK) {
                och_strbuf_printf(&absent, "ochre: %s:%d: %s\n", be->name, i, err.message);
                continue;
            }
            row(d, d->vtable->unified_memory(d), json, first, &out);
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
