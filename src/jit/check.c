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

/* ---- PTX ---- */

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c == '%';
}

/* Skips blanks and comments. */
static const char *skip(const char *p) {
    for (;;) {
        p += strspn(p, " \t\r\n");
        if (p[0] == '/' && p[1] == '/') p += strcspn(p, "\n");
        else if (p[0] == '/' && p[1] == '*') {
            const char *end = strstr(p + 2, "*/");
            if (!end) return p + strlen(p);
            p = end + 2;
        } else return p;
    }
}

/* One ".param" declaration up to its comma or ')': PTX ISA, "Kernel Function Parameters". False: not understood. */
static bool parse_param(const char **at, uint32_t *end, layout *out) {
    static const struct {
        const char *name;
        uint32_t bytes;
    } types[] = {{"b8", 1},  {"u8", 1},  {"s8", 1},  {"b16", 2}, {"u16", 2}, {"s16", 2}, {"f16", 2}, {"b32", 4}, {"u32", 4},
                 {"s32", 4}, {"f32", 4}, {"b64", 8}, {"u64", 8}, {"s64", 8}, {"f64", 8}, {"b128", 16}};
    const char *p = skip(*at);
    uint64_t bytes = 0, align = 0, count = 1;
    bool pointer = false;
    if (strncmp(p, ".param", 6)) return false;
    for (p = skip(p + 6); *p == '.'; p = skip(p)) {
        const char *word = ++p;
        while (is_word(*p)) p++;
        size_t n = (size_t)(p - word);
        if (n == 5 && !memcmp(word, "align", 5)) {
            char *after;
            uint64_t value = strtoull(skip(p), &after, 10);
            if (!pointer) align = value; /* behind .ptr it is what the pointer points to */
            p = after;
            continue;
        }
        pointer |= n == 3 && !memcmp(word, "ptr", 3);
        for (size_t i = 0; i < OCH_COUNT(types); i++)
            if (strlen(types[i].name) == n && !memcmp(word, types[i].name, n)) bytes = types[i].bytes;
    }
    while (is_word(*p)) p++;
    p = skip(p);
    if (*p == '[') {
        char *after;
        count = strtoull(p + 1, &after, 10);
        p = skip(after);
        if (*p++ != ']') return false;
        p = skip(p);
    }
    if (!align) align = bytes;
    if (!bytes || !count || count > 65536 || align & (align - 1) || align > 128) return false;
    uint64_t offset = (*end + align - 1) & ~(align - 1);
    if (offset > UINT32_MAX - bytes * count) return false;
    add(out, (uint32_t)offset, (uint32_t)(bytes * count));
    *end = (uint32_t)(offset + bytes * count);
    *at = p;
    return true;
}

static och_status check_ptx(const char *text, const och_jit_job *job, const och_target_id *target, och_err *err) {
    const char *p = strstr(text, "\n.target"), *symbol = job->request->symbol;
    p = p ? skip(p + strlen("\n.target")) : "";
    size_t n = 0;
    while (is_word(p[n])) n++;
    if (n != strlen(target->name) || memcmp(p, target->name, n))
        return och_err_set(err, OCH_CORRUPT, "%s: expected code for %s, found PTX for \"%.*s\"", job->label, target->name,
                           (int)OCH_MIN(n, 40), p);
    if (!symbol) return OCH_OK;
    const char *entry = NULL;
    for (const char *at = text; !entry && (at = strstr(at, ".entry")) != NULL; at += 6) {
        const char *name = skip(at + 6);
        size_t len = strlen(symbol);
        if (!strncmp(name, symbol, len) && !is_word(name[len])) entry = skip(name + len);
    }
    if (!entry)
        return och_err_set(err, OCH_CORRUPT, "%s: expected a kernel %s, found no such entry in the PTX", job->label, symbol);
    if (!job->request->has_layout) return OCH_OK;
    layout args = {.n = 0};
    uint32_t end = 0;
    bool ok = true;
    if (*entry == '(') {
        entry = skip(entry + 1);
        while (ok && *entry != ')') {
            ok = parse_param(&entry, &end, &args) && (*entry == ',' || *entry == ')');
            if (ok && *entry == ',') entry = skip(entry + 1);
        }
    }
    if (!ok) return och_err_set(err, OCH_CORRUPT, "%s: the parameters of %s in the PTX are not understood", job->label, symbol);
    return check_layout(job, &args, err);
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
    if (kind == OCH_JIT_PTX) return check_ptx(code, job, target, err);
    const uint8_t *b = code; /* e_machine 190 is EM_CUDA */
    if (n_bytes < 64 || memcmp(b, "\177ELF", 4) || b[18] != 190 || b[19] != 0)
        return och_err_set(err, OCH_CORRUPT, "%s: expected a cubin, found %zu other bytes", job->label, n_bytes);
    return OCH_OK;
}
