#include "jit/job.h"

#include "base/size.h"

#include <stdio.h>
#include <string.h>

static och_status wave_size(const och_jit_request *r, och_jit_job *job, och_err *err) {
    const och_target *t = job->target.target;
    job->wave_size = r->wave_size ? r->wave_size : t->wave_default;
    uint32_t asked = job->wave_size == 32 ? OCH_WAVE32 : job->wave_size == 64 ? OCH_WAVE64 : 0;
    if (asked & t->waves) return OCH_OK;
    return och_err_set(err, OCH_INVALID, "%s: expected a wave of %s lanes, found %d", job->label,
                       t->waves == OCH_WAVE32   ? "32"
                       : t->waves == OCH_WAVE64 ? "64"
                                                : "32 or 64",
                       r->wave_size);
}

static och_status version(const och_jit_request *r, och_jit_job *job, och_err *err) {
    const och_target *t = job->target.target;
    if (t->vendor != OCH_VENDOR_AMD) return OCH_OK;
    int least = t->code_object_v6 || t->generic ? 6 : 4, v = r->code_object_version;
    int usual = r->newest_code_object_version ? OCH_MIN(r->newest_code_object_version, 5) : 5;
    job->code_object_version = v ? v : OCH_MAX(least, usual);
    if (job->code_object_version >= least && job->code_object_version <= 6) return OCH_OK;
    return och_err_set(err, OCH_INVALID, "%s: expected code object version %s, found %d", job->label,
                       least == 6 ? "6, which this target needs" : "4, 5 or 6", v);
}

och_status och_jit_job_init(const och_jit_request *r, och_jit_job *job, och_err *err) {
    memset(job, 0, sizeof *job);
    job->request = r;
    job->kernel = r->kernel ? r->kernel : r->symbol ? r->symbol : "";
    job->specialisation = r->specialisation ? r->specialisation : "";
    job->source_id = r->source_id ? r->source_id : "";
    job->file_name = r->file_name && *r->file_name ? r->file_name : "kernel";
    if (!r->target)
        return och_err_set(err, OCH_INVALID, "%s: no target was named", *job->kernel ? job->kernel : job->file_name);
    OCH_TRY(och_target_find(r->target, &job->target, err));
    snprintf(job->label, sizeof job->label, "%s%s%s for %s", *job->kernel ? job->kernel : job->file_name,
             *job->specialisation ? " " : "", job->specialisation, job->target.name);
    bool amd = job->target.target->vendor == OCH_VENDOR_AMD;
    if (r->text && amd != (r->dialect == OCH_JIT_HIP))
        return och_err_set(err, OCH_INVALID, "%s: expected a text in the %s dialect", job->label, amd ? "HIP" : "CUDA");
    OCH_TRY(wave_size(r, job, err));
    OCH_TRY(version(r, job, err));
    job->opt_level = r->opt_level ? r->opt_level : 3;
    if (job->opt_level < 1 || job->opt_level > 3)
        return och_err_set(err, OCH_INVALID, "%s: expected an optimisation level of 1 to 3, found %d", job->label,
                           r->opt_level);
    if (r->has_layout && !r->symbol)
        return och_err_set(err, OCH_INVALID, "%s: an argument layout needs the symbol that it is of", job->label);
    return OCH_OK;
}

och_status och_jit_job_text(const och_jit_job *job, bool with_prelude, och_strbuf *out, och_err *err) {
    if (with_prelude && job->request->prelude) och_strbuf_puts(out, och_jit_prelude(job->request->dialect));
    och_strbuf_puts(out, "#line 1 \"");
    for (const char *c = job->file_name; *c; c++) {
        if (*c == '"' || *c == '\\') och_strbuf_puts(out, "\\");
        och_strbuf_append(out, *c == '\n' ? " " : c, 1);
    }
    och_strbuf_puts(out, "\"\n");
    och_strbuf_append(out, job->request->text, job->request->text_bytes);
    return och_strbuf_status(out, err);
}
