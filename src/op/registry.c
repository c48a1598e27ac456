/* Names, checks and the choice of a provider. */
#include "op/registry.h"

#include "dev/trace.h"
#include "op/def.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *operands;
    const och_op_def *def;
} ops[OCH_OP_COUNT_] = {
#define OCH_OP(sym, name, operands) {name, operands, &och_op_def_##sym},
#include "op/ops.def"
#undef OCH_OP
};

const char *och_op_name(och_op_id op) { return (unsigned)op < OCH_OP_COUNT_ ? ops[op].name : "?"; }
const char *och_op_operands(och_op_id op) { return (unsigned)op < OCH_OP_COUNT_ ? ops[op].operands : ""; }

int och_op_provider_count(void) {
    int n = OCH_OP_COUNT_;
    for (int t = 0; t < och_op_table_count; t++) n += *och_op_tables[t].count;
    return n;
}

const och_op_provider *och_op_provider_at(int i) {
    if (i < 0) return NULL;
    if (i < OCH_OP_COUNT_) return &ops[i].def->reference;
    i -= OCH_OP_COUNT_;
    for (int t = 0; t < och_op_table_count; t++) {
        if (i < *och_op_tables[t].count) return &och_op_tables[t].rows[i];
        i -= *och_op_tables[t].count;
    }
    return NULL;
}

och_status och_op_check(const och_op_call *call, och_err *err) {
    if ((unsigned)call->op >= OCH_OP_COUNT_)
        return och_err_set(err, OCH_INVALID, "op: expected a number below %d, found %d", OCH_OP_COUNT_, (int)call->op);
    char name[16];
    bool optional;
    for (int i = 0; i < OCH_OP_MAX_IN + OCH_OP_MAX_OUT; i++) {
        och_operand o = i < OCH_OP_MAX_IN ? och_in(i) : och_out(i - OCH_OP_MAX_IN);
        const och_tensor *t = o.out ? &call->out[o.index] : &call->in[o.index];
        bool present = och_tensor_present(t);
        if (!och_op_operand_name(call->op, o, name, &optional)) {
            if (present)
                return och_err_set(err, OCH_INVALID, "op %s: expected operands \"%s\", found %s %d as well", ops[call->op].name,
                                   ops[call->op].operands, o.out ? "output" : "input", o.index);
            continue;
        }
        if (!present && !optional) return och_op_fail(call, o, OCH_INVALID, err, "expected a tensor, found none");
        if (present && (unsigned)t->dtype >= OCH_DTYPE_COUNT_)
            return och_op_fail(call, o, OCH_INVALID, err, "expected a dtype, found number %d", (int)t->dtype);
    }
    return ops[call->op].def->check(call, err);
}

void och_op_cost(const och_op_call *call, uint64_t *out_bytes, uint64_t *out_flops) {
    *out_bytes = *out_flops = 0;
    if ((unsigned)call->op < OCH_OP_COUNT_) ops[call->op].def->cost(call, out_bytes, out_flops);
}

och_status och_op_providers_check(const och_op_provider *const *providers, int n, och_err *err) {
    if (n > OCH_OP_MAX_PROVIDERS)
        return och_err_set(err, OCH_INTERNAL, "op providers: expected at most %d, found %d", OCH_OP_MAX_PROVIDERS, n);
    for (int i = 0; i < n; i++) {
        const och_op_provider *p = providers[i];
        if (!p || !p->name || !p->backend || (unsigned)p->op >= OCH_OP_COUNT_ || !p->supports || !p->run ||
            !p->weight_layout != !p->weight_pack)
            return och_err_set(err, OCH_INTERNAL,
                               "op provider %d (%s): expected name, backend, op, supports, run, and packing beside a layout",
                               i, p && p->name ? p->name : "no name");
        for (int j = 0; j < i; j++)
            if (providers[j]->op == p->op && strcmp(providers[j]->name, p->name) == 0 &&
                strcmp(providers[j]->backend, p->backend) == 0)
                return och_err_set(err, OCH_INTERNAL, "op providers %d and %d: both are %s for op %s on backend %s", j, i,
                                   p->name, ops[p->op].name, p->backend);
    }
    return OCH_OK;
}

/* Why the providers of an op declined, in the order in which they were asked. */
enum { MAX_REASONS = 8 };
typedef struct reasons {
    int n; /* may be more than are kept */
    const char *names[MAX_REASONS];
    char texts[MAX_REASONS][OCH_ERR_MESSAGE_BYTES];
} reasons;

static void add_reason(reasons *r, const char *name, const char *text) {
    if (r->n < MAX_REASONS) {
        r->names[r->n] = name;
        snprintf(r->texts[r->n], sizeof r->texts[0], "%s", text);
    }
    r->n++;
}

/* "NAME: reason; NAME: reason" in at most `size` bytes with the NUL: where they do not all fit, the longest ones are cut, to one
 * length, and end in "...". */
static void join_reasons(const reasons *r, char *out, size_t size) {
    const size_t kept = (size_t)(r->n < MAX_REASONS ? r->n : MAX_REASONS);
    size_t room = size - 1, share = OCH_ERR_MESSAGE_BYTES, at = 0;
    if (r->n > MAX_REASONS) room -= 24;
    for (size_t i = 0; i < kept; i++) room -= strlen(r->names[i]) + 4;
    for (size_t sum = room + 1; sum > room && share > 4; share--) {
        sum = 0;
        for (size_t i = 0; i < kept; i++) {
            size_t n = strlen(r->texts[i]);
            sum += n < share ? n : share;
        }
        if (sum <= room) break;
    }
    out[0] = '\0';
    for (size_t i = 0; i < kept; i++) {
        bool whole = strlen(r->texts[i]) <= share;
        at += (size_t)snprintf(out + at, size - at, "%s%s: %.*s%s", i ? "; " : "", r->names[i], (int)(whole ? share : share - 3),
                               r->texts[i], whole ? "" : "...");
    }
    if (r->n > MAX_REASONS) snprintf(out + at, size - at, "; and %d more", r->n - MAX_REASONS);
}

static och_status refuse(const och_device *device, const och_op_call *call, const char *only, const reasons *why,
                         och_err *err) {
    char help[160], text[OCH_ERR_MESSAGE_BYTES];
    if (only)
        snprintf(help, sizeof help, "lift the restriction to provider %s (OCHRE_OP_ONLY), or use another device", only);
    else if (!device->vtable->unified_memory(device))
        snprintf(help, sizeof help, "a kernel of this op for backend %s would help, or device cpu", device->info.backend);
    else
        snprintf(help, sizeof help, "another weight format or another device would help");
    size_t others = (size_t)snprintf(NULL, 0, "op %s on device %s: no provider (); %s", och_op_name(call->op), device->info.label, help);
    join_reasons(why, text, sizeof text - others);
    return och_err_set(err, OCH_UNSUPPORTED, "op %s on device %s: no provider (%s); %s", och_op_name(call->op), device->info.label,
                       why->n ? text : "none is registered", help);
}

och_status och_op_provider_supports(const och_op_provider *p, const och_device *device, const och_op_call *call,
                                    och_err *err) {
    bool any = strcmp(p->backend, "*") == 0;
    if (!any && strcmp(p->backend, device->info.backend) != 0)
        return och_err_set(err, OCH_UNSUPPORTED, "serves backend %s", p->backend);
    if ((any || p->priority < 0) && !device->vtable->unified_memory(device))
        return och_err_set(err, OCH_UNSUPPORTED, "the host may not dereference this device's memory");
    const och_tensor *codes[] = {och_op_xcodes(call), och_op_ycodes(call), och_op_xnormed(call), och_op_ynormed(call)};
    for (int i = 0; i < 4; i++)
        if (!p->takes_codes && codes[i] && och_tensor_present(codes[i]))
            return och_err_set(err, OCH_UNSUPPORTED, "takes no codes of activations");
    if (!p->takes_halves && call->op == OCH_OP_LINEAR && (call->attr.linear.x_halves || call->attr.linear.y_halves))
        return och_err_set(err, OCH_UNSUPPORTED, "takes no halves of activations");
    if (!p->takes_one_row && och_op_asks_one_row(call))
        return och_err_set(err, OCH_UNSUPPORTED, "leaves what a product makes of one row to a kernel of its own");
    return p->supports(device, call, err);
}

/* The call as the provider would see it if it packed the weights that are in the file's layout. */
static och_op_call packed_by(const och_op_provider *p, const och_device *device, const och_op_call *call) {
    och_op_call c = *call;
    uint64_t bytes;
    int first = call->op == OCH_OP_EMBED ? OCH_EMBED_TABLE : OCH_LINEAR_W0;
    int n = call->op == OCH_OP_EMBED ? 1 : call->op == OCH_OP_LINEAR ? call->attr.linear.n_weights : 0;
    for (int i = 0; p->weight_layout && i < n; i++) {
        och_tensor *w = &c.in[first + i];
        if (w->layout == OCH_LAYOUT_NATIVE) w->layout = p->weight_layout(device, w->dtype, w->rows, w->cols, &bytes);
    }
    return c;
}

static och_status choose(const och_op_provider *const *providers, int n, const och_device *device,
                         const och_op_call *call, bool packing, const char *only, const och_op_provider **out_provider,
                         och_err *err) {
    *out_provider = NULL;
    reasons declined = {.n = 0};
    bool tried[OCH_OP_MAX_PROVIDERS] = {false};
    if (n > OCH_OP_MAX_PROVIDERS)
        return och_err_set(err, OCH_INTERNAL, "op providers: expected at most %d, found %d", OCH_OP_MAX_PROVIDERS, n);
    for (int i = 0; i < n; i++)
        tried[i] = providers[i]->op != call->op || (only && strcmp(only, providers[i]->name) != 0);
    for (;;) {
        int best = -1;
        for (int i = 0; i < n; i++)
            if (!tried[i] && (best < 0 || providers[i]->priority > providers[best]->priority)) best = i;
        if (best < 0) break;
        tried[best] = true;
        const och_op_provider *p = providers[best];
        och_err why;
        och_err_clear(&why);
        och_op_call as_packed = packing ? packed_by(p, device, call) : *call;
        och_status st = och_op_provider_supports(p, device, &as_packed, &why);
        if (st == OCH_OK) {
            *out_provider = p;
            return OCH_OK;
        }
        if (st != OCH_UNSUPPORTED)
            return och_err_set(err, st, "op %s, provider %s: %s", och_op_name(call->op), p->name, why.message);
        add_reason(&declined, p->name, why.message[0] ? why.message : "declined");
    }
    return refuse(device, call, only, &declined, err);
}

och_status och_op_select_from(const och_op_provider *const *providers, int n, const och_device *device,
                              const och_op_call *call, const char *only, const och_op_provider **out_provider,
                              och_err *err) {
    return choose(providers, n, device, call, false, only, out_provider, err);
}

static och_status select_among(const och_device *device, const och_op_call *call, bool packing, const char *only,
                         const och_op_provider **out_provider, och_err *err) {
    *out_provider = NULL;
    OCH_TRY(och_op_check(call, err));
    const och_op_provider *list[OCH_OP_MAX_PROVIDERS];
    int n = och_op_provider_count();
    if (n > OCH_OP_MAX_PROVIDERS)
        return och_err_set(err, OCH_INTERNAL, "op providers: expected at most %d, found %d", OCH_OP_MAX_PROVIDERS, n);
    for (int i = 0; i < n; i++) list[i] = och_op_provider_at(i);
    return choose(list, n, device, call, packing, only, out_provider, err);
}

och_status och_op_select(const och_device *device, const och_op_call *call, const char *only,
                         const och_op_provider **out_provider, och_err *err) {
    return select_among(device, call, false, only, out_provider, err);
}

och_status och_op_select_packer(const och_device *device, const och_op_call *call, const char *only,
                                const och_op_provider **out_provider, och_err *err) {
    return select_among(device, call, true, only, out_provider, err);
}

och_status och_op_run(const och_op_ctx *ctx, const och_op_provider *provider, const och_op_call *call, och_err *err) {
    /* A reference that is handed memory it cannot read would crash; a faster provider was built for its device. */
    if (provider->priority < 0) OCH_TRY(och_op_expect_host(call, err));
    double seconds = 0.0, begin = 0.0;
    bool timing = och_op_stats_timing();
    if (timing) begin = och_now_seconds();
    double traced = och_trace_begin();
    OCH_TRY(provider->run(ctx, call, err));
    och_trace_end(traced, "op", "%s [%s]", ops[call->op].name, provider->name);
    if (timing) {
        OCH_TRY(ctx->queue->device->vtable->synchronise(ctx->queue, err));
        seconds = och_now_seconds() - begin;
    }
    och_op_stats_count(ctx, provider, call, seconds);
    return OCH_OK;
}
