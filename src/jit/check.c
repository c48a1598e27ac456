#include "jit/check.h"

#include "base/size.h"
#include "obj/obj.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARGS 256

typedef struct layout {
    och_jit_arg args[MAX_ARGS];
    size_t n; /* may be more than MAX_ARGS: the rest is counted only */
} layout;

static void add(layout *l, uint32_t offset, uint32_t size) {
    if (l->n < MAX_ARGS) l->args[l->n] = (och_jit_arg){offset, size};
    l->n++;
}

static och_status check_layout(const och_jit_job *job, const layout *found, och_err *err) {
    const och_jit_request *q = job->request;
    if (found->n != q->n_args)
        return och_err_set(err, OCH_CORRUPT, "%s: expected %zu arguments, found %zu in the code of %s", job->label, q->n_args,
                           found->n, q->symbol);
    uint64_t end = 0;
    for (size_t i = 0; i < q->n_args && i < MAX_ARGS; i++) {
        const och_jit_arg *a = &found->args[i];
        if (a->offset_bytes != q->args[i].offset_bytes || a->size_bytes != q->args[i].size_bytes)
            return och_err_set(err, OCH_CORRUPT,
                               "%s: argument %zu of %s: expected %u bytes at %u, found %u bytes at %u in the code", job->label,
                               i, q->symbol, q->args[i].size_bytes, q->args[i].offset_bytes, a->size_bytes, a->offset_bytes);
        end = OCH_MAX(end, (uint64_t)a->offset_bytes + a->size_bytes);
    }
    if (end != q->kernarg_bytes)
        return och_err_set(err, OCH_CORRUPT, "%s: expected %u bytes of arguments, found %llu in the code of %s", job->label,
                           q->kernarg_bytes, (unsigned long long)end, q->symbol);
    return OCH_OK;
}

/* ---- code objects ---- */

static och_status check_kernel(const och_obj_kernel *k, const och_jit_job *job, och_err *err) {
    if ((int)k->wave_size != job->wave_size)
        return och_err_set(err, OCH_CORRUPT, "%s: expected waves of %d lanes, found %u in the code of %s", job->label,
                           job->wave_size, k->wave_size, k->name);
    for (size_t i = 0; i < k->n_args; i++)
        if (k->args[i].kind == OCH_ARG_HIDDEN_HOSTCALL_BUFFER)
            return och_err_set(err, OCH_UNSUPPORTED,
                               "%s: the code of %s asks for hidden_hostcall (device-side printf or assert, or no optimisation)",
                               job->label, k->name);
    return OCH_OK;
}

static och_status check_hsaco(const och_obj *o, const och_jit_job *job, const och_target_id *target, int version,
                              och_checked *out, och_err *err) {
    och_target_id found;
    och_status st = och_target_find(o->target, &found, NULL);
    if (st != OCH_OK || strcmp(found.name, target->name))
        return och_err_set(err, OCH_CORRUPT, "%s: expected code for %s, found code for %s", job->label, target->name,
                           o->target);
    if ((int)o->version != version)
        return och_err_set(err, OCH_CORRUPT, "%s: expected code object version %d, found version %u", job->label, version,
                           o->version);
    out->code_object_version = version;
    const och_obj_kernel *kernel = o->n_kernels == 1 ? &o->kernels[0] : NULL;
    for (size_t i = 0; i < o->n_kernels; i++) {
        OCH_TRY(check_kernel(&o->kernels[i], job, err));
        if (job->request->symbol && !strcmp(o->kernels[i].name, job->request->symbol)) kernel = &o->kernels[i];
    }
    if (job->request->symbol && (!kernel || strcmp(kernel->name, job->request->symbol)))
        return och_err_set(err, OCH_CORRUPT, "%s: expected a kernel %s, found %zu others in the code%s%s", job->label,
                           job->request->symbol, o->n_kernels, o->n_kernels ? ", the first of them " : "",
                           o->n_kernels ? o->kernels[0].name : "");
    if (!kernel) return OCH_OK;
    out->resources = (och_jit_resources){
        .known = true,
        .vgprs = kernel->vgprs,
        .agprs = kernel->agprs,
        .sgprs = kernel->sgprs,
        .vgpr_spills = kernel->vgpr_spills,
        .sgpr_spills = kernel->sgpr_spills,
        .lds_bytes = kernel->group_bytes,
        .scratch_bytes = kernel->private_bytes,
        .kernarg_bytes = kernel->kernarg_bytes,
        .max_workgroup = kernel->max_flat_workgroup_size,
        .dynamic_stack = kernel->dynamic_stack,
    };
    if (!job->request->has_layout) return OCH_OK;
    layout args = {.n = 0};
    for (size_t i = 0; i < kernel->n_args; i++) {
        const och_obj_arg *a = &kernel->args[i];
        if (a->kind < OCH_ARG_HIDDEN_FIRST || a->kind == OCH_ARG_UNKNOWN) add(&args, a->offset, a->size);
    }
    return check_layout(job, &args, err);
}

/* ---- PTX and cubins ---- */

/* The arguments of the kernel that was asked for, where the code says them. */
static och_status check_nvidia(const void *code, size_t n_bytes, const och_jit_job *job, och_err *err) {
    och_obj *o;
    const char *symbol = job->request->symbol;
    if (och_obj_parse_nvidia(code, n_bytes, &o, err) != OCH_OK) return och_err_prefix(err, "%s", job->label);
    const och_obj_kernel *kernel = NULL;
    for (size_t i = 0; i < o->n_kernels && symbol; i++)
        if (!strcmp(o->kernels[i].name, symbol)) kernel = &o->kernels[i];
    och_status st = OCH_OK;
    if (symbol && !kernel)
        st = och_err_set(err, OCH_CORRUPT, "%s: expected a kernel %s, found no such entry among the %zu of the code", job->label, symbol, o->n_kernels);
    else if (kernel && job->request->has_layout) {
        layout args = {.n = 0};
        for (size_t i = 0; i < kernel->n_args; i++) add(&args, kernel->args[i].offset, kernel->args[i].size);
        st = check_layout(job, &args, err);
    }
    och_obj_destroy(o);
    return st;
}

/* PTX names its target behind a line's beginning. */
static och_status check_ptx(const char *text, const och_jit_job *job, const och_target_id *target, och_err *err) {
    const char *p = strstr(text, "\n.target");
    p = p ? p + strlen("\n.target") : "";
    p += strspn(p, " \t");
    size_t n = strcspn(p, " \t\r\n,/");
    size_t same = strlen(target->name), own = n == same + 1 && p[same] == 'a'; /* sm_90a: of sm_90 alone */
    if (n == same + own && !memcmp(p, target->name, same)) return OCH_OK;
    return och_err_set(err, OCH_CORRUPT, "%s: expected code for %s, found PTX for \"%.*s\"", job->label, target->name,
                       (int)OCH_MIN(n, 40), p);
}

och_status och_jit_check(const void *code, size_t n_bytes, och_jit_code_kind kind, const och_jit_job *job,
                         const och_target_id *target, int version, och_checked *out, och_err *err) {
    memset(out, 0, sizeof *out);
    bool amd = target->target->vendor == OCH_VENDOR_AMD;
    if (amd != (kind == OCH_JIT_HSACO))
        return och_err_set(err, OCH_CORRUPT, "%s: expected %s, found code of another kind", job->label,
                           amd ? "a code object" : "PTX or a cubin");
    if (kind == OCH_JIT_HSACO) {
        och_obj *o;
        och_status st = och_obj_parse(code, n_bytes, &o, err);
        if (st != OCH_OK) {
            och_err_prefix(err, "%s", job->label);
            return st;
        }
        st = check_hsaco(o, job, target, version, out, err);
        och_obj_destroy(o);
        return st;
    }
    if (kind == OCH_JIT_PTX) OCH_TRY(check_ptx(code, job, target, err));
    else if (n_bytes < 4 || memcmp(code, "\177ELF", 4))
        return och_err_set(err, OCH_CORRUPT, "%s: expected a cubin, found %zu other bytes", job->label, n_bytes);
    return check_nvidia(code, n_bytes, job, err);
}
