/* The devices there are: cuda:N, cuda:PCI-ADDRESS, cuda:TARGET of the machine's libcuda. */
#include "dev/cuda/cuda.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static och_status no_device(const cuda_lib *lib, och_err *err) {
    och_strbuf why = {0};
    char version[80], text[256];
    och_cuda_explain_no_device(lib, &why);
    och_cuda_lib_text(lib, version, sizeof version);
    och_cuda_error_text(lib, lib->count_error, text, sizeof text);
    och_status st = och_err_set_native(err, OCH_UNAVAILABLE, (int64_t)lib->count_error,
                                       "device cuda: %s (%.200s) shows no device: %s%s%.360s", version, lib->path, text,
                                       why.size ? "; " : "", och_strbuf_str(&why));
    och_strbuf_deinit(&why);
    return st;
}

static och_status cuda_count(int *out_n, och_err *err) {
    cuda_lib *lib;
    *out_n = 0;
    OCH_TRY(och_cuda_lib(&lib, err));
    *out_n = lib->n_devices;
    return lib->n_devices ? OCH_OK : no_device(lib, err);
}

static och_status cuda_open(int index, const och_dev_options *options, och_device **out_device, och_err *err) {
    (void)options;
    cuda_lib *lib;
    char label[64];
    *out_device = NULL;
    OCH_TRY(och_cuda_lib(&lib, err));
    if (!lib->n_devices) return no_device(lib, err);
    snprintf(label, sizeof label, "cuda:%d", index);
    if (index >= 0 && index < lib->n_devices) return och_cuda_open(lib, index, label, out_device, err);
    och_strbuf hiding = {0};
    och_cuda_hiding_variables(&hiding);
    och_status st = och_err_set(err, OCH_RANGE, "device %s: there are %d devices, counted from 0%s%s", label, lib->n_devices,
                                hiding.size ? "; some may be hidden by " : "", och_strbuf_str(&hiding));
    och_strbuf_deinit(&hiding);
    return st;
}

static och_status cuda_open_named(const char *which, const och_dev_options *options, och_device **out_device, och_err *err) {
    cuda_lib *lib;
    och_strbuf have = {0}, hiding = {0};
    *out_device = NULL;
    OCH_TRY(och_cuda_lib(&lib, err));
    if (!lib->n_devices) return no_device(lib, err);
    for (int i = 0; i < lib->n_devices; i++) {
        och_dev_info info = {0};
        char label[64];
        och_err why;
        och_err_clear(&why);
        snprintf(label, sizeof label, "cuda:%d", i);
        bool known = och_cuda_describe(lib, i, label, &info, NULL, &why) == OCH_OK;
        if (known && (och_pci_same(which, info.pci) || !strcasecmp(which, info.arch))) {
            och_strbuf_deinit(&have);
            return cuda_open(i, options, out_device, err);
        }
        if (known) och_strbuf_printf(&have, "%s%s (%s, %s)", i ? ", " : "", label, info.pci, info.arch);
        else och_strbuf_printf(&have, "%s%s (%s)", i ? ", " : "", label, why.message);
    }
    och_cuda_hiding_variables(&hiding);
    och_status st = och_err_set(
        err, OCH_NOTFOUND, "device cuda:%.80s: expected an index, a PCI address or a target name of one of %s%s%s",
        which, och_strbuf_str(&have), hiding.size ? "; some may be hidden by " : "", och_strbuf_str(&hiding));
    och_strbuf_deinit(&hiding);
    och_strbuf_deinit(&have);
    return st;
}

const och_backend och_backend_cuda = {"cuda", cuda_count, cuda_open, cuda_open_named};
