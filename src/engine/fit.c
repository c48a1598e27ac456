#include "engine/fit.h"

#include "base/size.h"

static och_status measure(och_model *m, const och_session_options *options, och_fit *out, och_err *err) {
    och_session *s;
    OCH_TRY(och_session_create(m, options, &s, err));
    och_session_memory mem = och_session_memory_get(s);
    out->weight_bytes = m->weight_bytes;
    out->paged_bytes = s->groups[0].buf.size_bytes;
    out->ring_bytes = s->groups[1].buf.size_bytes;
    out->arena_bytes = mem.arena_bytes;
    out->scratch_bytes = mem.scratch_bytes;
    out->logits_bytes = mem.logits_bytes;
    out->inputs_bytes = mem.inputs_bytes;
    out->total_bytes =
        m->weight_bytes + mem.state_bytes + mem.arena_bytes + mem.scratch_bytes + mem.logits_bytes + mem.inputs_bytes;
    out->kv_dtype = s->options.kv_dtype;
    out->max_context = s->options.max_context;
    out->max_sequences = s->options.max_sequences;
    och_session_destroy(s);
    return OCH_OK;
}

och_status och_fit_measure(och_model *m, const och_session_options *options, och_fit *out_fit, och_err *err) {
    *out_fit = (och_fit){0};
    if (!m->measured) return och_err_set(err, OCH_INVALID, "fit: expected a model opened to be measured, found a loaded one");
    OCH_TRY(measure(m, options, out_fit, err));
    OCH_TRY(m->device->vtable->memory(m->device, &out_fit->free_bytes, &out_fit->limit_bytes, err));
    /* What a session takes never shrinks when its context grows. */
    int fits = 0, beyond = m->config.context_length + 1;
    while (fits + 1 < beyond) {
        och_session_options o = *options;
        och_fit f;
        o.max_context = fits + (beyond - fits) / 2;
        OCH_TRY(measure(m, &o, &f, err));
        if (f.total_bytes <= out_fit->free_bytes) fits = o.max_context;
        else beyond = o.max_context;
    }
    out_fit->greatest_context = fits;
    return OCH_OK;
}
