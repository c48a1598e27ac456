#include "op/plan.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdio.h>
#include <string.h>

void och_plan_init(och_plan *p) {
    memset(p, 0, sizeof *p);
    p->layer = -1;
}

void och_plan_deinit(och_plan *p) {
    for (int i = 0; i < p->n_layouts; i++) och_free(p->layouts[i].offsets);
    och_free(p->bufs);
    och_free(p->ops);
    och_free(p->memos);
    och_plan_init(p);
}

/* The array with room for one more, or NULL (the old one then stands). */
static void *grow(void *items, int n, int *capacity, size_t item_bytes) {
    if (n < *capacity) return items;
    int bigger = *capacity ? *capacity * 2 : 64;
    void *q = och_realloc_array(items, (size_t)bigger, item_bytes);
    if (q) *capacity = bigger;
    return q;
}

static och_plan_ref add(och_plan *p, och_plan_kind kind, och_plan_rows rows_kind, const och_tensor *tensor,
                        const char *fmt, va_list ap) {
    och_plan_buf *bufs = p->failed ? NULL : grow(p->bufs, p->n_bufs, &p->cap_bufs, sizeof *bufs);
    if (!bufs) {
        p->failed = true;
        return OCH_PLAN_NONE;
    }
    p->bufs = bufs;
    och_plan_buf *b = &p->bufs[p->n_bufs];
    memset(b, 0, sizeof *b);
    b->kind = kind;
    b->rows_kind = rows_kind;
    b->tensor = *tensor;
    vsnprintf(b->name, sizeof b->name, fmt, ap);
    return p->n_bufs++;
}

och_plan_ref och_plan_add_bound(och_plan *p, och_plan_kind kind, och_plan_rows rows_kind, const och_tensor *tensor,
                                const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    och_plan_ref r = add(p, kind, rows_kind, tensor, fmt, ap);
    va_end(ap);
    return r;
}

och_plan_ref och_plan_add_value(och_plan *p, och_plan_rows rows_kind, int64_t cols, const char *fmt, ...) {
    och_tensor t = {.dtype = OCH_DTYPE_F32, .cols = cols, .row_bytes = (uint64_t)cols * 4};
    va_list ap;
    va_start(ap, fmt);
    och_plan_ref r = add(p, OCH_PLAN_ARENA, rows_kind, &t, fmt, ap);
    va_end(ap);
    return r;
}

och_plan_op *och_plan_add_op(och_plan *p, och_op_id op) {
    och_plan_op *ops = p->failed ? NULL : grow(p->ops, p->n_ops, &p->cap_ops, sizeof *ops);
    if (!ops) {
        p->failed = true;
        return NULL;
    }
    p->ops = ops;
    och_plan_op *o = &p->ops[p->n_ops++];
    memset(o, 0, sizeof *o);
    o->op = op;
    o->layer = p->layer;
    for (int i = 0; i < OCH_OP_MAX_IN; i++) o->in[i] = OCH_PLAN_NONE;
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) o->out[i] = OCH_PLAN_NONE;
    return o;
}

void och_plan_remove_op(och_plan *p, int index) {
    memmove(&p->ops[index], &p->ops[index + 1], (size_t)(p->n_ops - index - 1) * sizeof *p->ops);
    p->n_ops--;
}

int och_plan_count_reads(const och_plan *p, och_plan_ref ref, int begin, int end) {
    int n = 0;
    for (int i = begin; i < end; i++)
        for (int j = 0; j < OCH_OP_MAX_IN; j++) n += p->ops[i].in[j] == ref;
    return n;
}

static int64_t rows_of(const och_plan_buf *b, och_plan_extent e) {
    switch (b->rows_kind) {
    case OCH_ROWS_FIXED: return b->tensor.rows;
    case OCH_ROWS_TOKENS: return e.tokens;
    case OCH_ROWS_OUTPUTS: return e.outputs;
    case OCH_ROWS_SEQUENCES: return e.sequences;
    }
    return 0;
}

static och_tensor resolve(const och_plan *p, const och_plan_layout *layout, och_plan_ref ref, och_plan_extent e,
                          och_dev_addr arena, void *arena_host) {
    if (ref < 0) return (och_tensor){.dtype = OCH_DTYPE_NONE};
    const och_plan_buf *b = &p->bufs[ref];
    och_tensor t = b->tensor;
    t.rows = rows_of(b, e);
    if (b->kind == OCH_PLAN_ARENA && layout && arena.value) {
        t.addr = och_dev_addr_add(arena, layout->offsets[ref]);
        t.host = arena_host ? (char *)arena_host + layout->offsets[ref] : NULL;
    }
    return t;
}

void och_plan_call(const och_plan *p, const och_plan_layout *layout, int op, och_plan_extent extent, och_dev_addr arena,
                   void *arena_host, och_op_call *out_call) {
    const och_plan_op *o = &p->ops[op];
    out_call->op = o->op;
    out_call->attr = o->attr.attr;
    for (int i = 0; i < OCH_OP_MAX_IN; i++) out_call->in[i] = resolve(p, layout, o->in[i], extent, arena, arena_host);
    for (int i = 0; i < OCH_OP_MAX_OUT; i++) out_call->out[i] = resolve(p, layout, o->out[i], extent, arena, arena_host);
}

/* An operand whose rows follow the step, of a step that is none: as if it had no memory, which may hold fewer rows. */
static void forget_memory(const och_plan *p, och_plan_ref ref, och_tensor *t) {
    if (ref < 0 || p->bufs[ref].rows_kind == OCH_ROWS_FIXED) return;
    t->addr.value = 0;
    t->host = NULL;
}

static void forget_rows(const och_plan *p, int op, och_op_call *call) {
    for (int k = 0; k < OCH_OP_MAX_IN; k++) forget_memory(p, p->ops[op].in[k], &call->in[k]);
    for (int k = 0; k < OCH_OP_MAX_OUT; k++) forget_memory(p, p->ops[op].out[k], &call->out[k]);
}

och_status och_plan_select(och_plan *p, const och_device *device, const char *only, och_plan_extent most, och_err *err) {
    bool kernels = false;
    if (p->failed) return och_err_nomem(err, 0, "a plan");
    for (int i = 0; i < p->n_ops; i++) {
        och_op_call call;
        /* Three numbers, so that a record which mixes rows of tokens with rows of outputs is found. */
        och_plan_call(p, NULL, i, (och_plan_extent){3, 2, 1}, (och_dev_addr){0}, NULL, &call);
        forget_rows(p, i, &call);
        och_status st = och_op_check(&call, err);
        och_plan_call(p, NULL, i, most, (och_dev_addr){0}, NULL, &call);
        forget_rows(p, i, &call);
        if (st == OCH_OK) st = och_op_select(device, &call, only, &p->ops[i].provider, err);
        if (st != OCH_OK) {
            och_err_prefix(err, "plan, record %d, layer %d", i, p->ops[i].layer);
            return st;
        }
        kernels |= p->ops[i].provider->has_kernels;
    }
    och_free(p->memos); /* records may have moved */
    p->memos = NULL;
    if (kernels && !(p->memos = och_calloc((size_t)p->n_ops, sizeof *p->memos)))
        return och_err_nomem(err, (uint64_t)p->n_ops * sizeof *p->memos, "what a plan's records launch");
    return OCH_OK;
}

och_status och_plan_run(och_plan *p, int op, const och_op_ctx *ctx, const och_op_call *call, och_err *err) {
    och_op_memo *before = och_op_memo_use(p->memos ? &p->memos[op] : NULL);
    och_status st = och_op_run(ctx, p->ops[op].provider, call, err);
    (void)och_op_memo_use(before);
    return st;
}

typedef struct span {
    int first, last; /* records between which a value is alive; first < 0: unused */
    uint64_t bytes;
} span;

/* Placed values that are alive. */
typedef struct live {
    const span *spans;
    uint64_t *offsets;
    och_plan_ref *refs;
    int n;
} live;

static bool fits(const live *l, uint64_t bytes, uint64_t at) {
    for (int i = 0; i < l->n; i++) {
        och_plan_ref r = l->refs[i];
        if (at < l->offsets[r] + l->spans[r].bytes && l->offsets[r] < at + bytes) return false;
    }
    return true;
}

/* The lowest offset beside every value that is alive: 0 or the end of one of them. */
static void place(live *l, och_plan_ref r) {
    uint64_t bytes = l->spans[r].bytes, best = fits(l, bytes, 0) ? 0 : UINT64_MAX;
    for (int i = 0; i < l->n; i++) {
        uint64_t at = l->offsets[l->refs[i]] + l->spans[l->refs[i]].bytes;
        if (at < best && fits(l, bytes, at)) best = at;
    }
    l->offsets[r] = best;
    l->refs[l->n++] = r;
}

static void drop_dead(live *l, int record) {
    int kept = 0;
    for (int i = 0; i < l->n; i++)
        if (l->spans[l->refs[i]].last >= record) l->refs[kept++] = l->refs[i];
    l->n = kept;
}

och_status och_plan_add_layout(och_plan *p, const och_device *device, int64_t max_tokens, int64_t max_outputs,
                               int64_t max_sequences, och_err *err) {
    if (p->n_layouts == OCH_PLAN_MAX_LAYOUTS) return och_err_set(err, OCH_INTERNAL, "a plan holds too many layouts");
    och_plan_layout l = {.max_tokens = max_tokens, .max_outputs = max_outputs};
    och_status st = OCH_OK;
    span *spans = och_calloc((size_t)p->n_bufs, sizeof *spans);
    och_plan_ref *refs = och_malloc_array((size_t)p->n_bufs, sizeof *refs);
    l.offsets = och_malloc_array((size_t)p->n_bufs, sizeof *l.offsets);
    if (!spans || !refs || !l.offsets) {
        st = och_err_nomem(err, (uint64_t)p->n_bufs * sizeof *spans, "a plan's layout");
        goto done;
    }
    och_plan_extent extent = {max_tokens, max_outputs, max_sequences};
    for (int b = 0; b < p->n_bufs; b++) {
        uint64_t bytes;
        l.offsets[b] = UINT64_MAX;
        spans[b].first = -1;
        if (p->bufs[b].kind != OCH_PLAN_ARENA) continue;
        if (!och_u64_mul((uint64_t)rows_of(&p->bufs[b], extent), p->bufs[b].tensor.row_bytes, &bytes) ||
            !och_u64_align(OCH_MAX(bytes, 1), 64, &spans[b].bytes)) {
            st = och_err_set(err, OCH_RANGE, "plan value %s: %lld rows of %llu bytes overflow", p->bufs[b].name,
                             (long long)rows_of(&p->bufs[b], extent), (unsigned long long)p->bufs[b].tensor.row_bytes);
            goto done;
        }
    }
    for (int i = 0; i < p->n_ops; i++) {
        const och_plan_op *o = &p->ops[i];
        for (int j = 0; j < OCH_OP_MAX_IN + OCH_OP_MAX_OUT; j++) {
            och_plan_ref r = j < OCH_OP_MAX_IN ? o->in[j] : o->out[j - OCH_OP_MAX_IN];
            if (r < 0) continue;
            if (spans[r].first < 0) spans[r].first = i;
            spans[r].last = i;
        }
        och_op_call call;
        och_plan_call(p, NULL, i, extent, (och_dev_addr){0}, NULL, &call);
        uint64_t scratch = o->provider && o->provider->scratch_bytes ? o->provider->scratch_bytes(device, &call) : 0;
        l.scratch_bytes = OCH_MAX(l.scratch_bytes, scratch);
    }
    live alive = {spans, l.offsets, refs, 0};
    for (int i = 0; i < p->n_ops; i++) { /* in order of first use */
        const och_plan_op *o = &p->ops[i];
        drop_dead(&alive, i);
        for (int j = 0; j < OCH_OP_MAX_IN + OCH_OP_MAX_OUT; j++) {
            och_plan_ref r = j < OCH_OP_MAX_IN ? o->in[j] : o->out[j - OCH_OP_MAX_IN];
            if (r < 0 || p->bufs[r].kind != OCH_PLAN_ARENA || l.offsets[r] != UINT64_MAX) continue;
            place(&alive, r);
            l.arena_bytes = OCH_MAX(l.arena_bytes, l.offsets[r] + spans[r].bytes);
        }
    }
    p->layouts[p->n_layouts++] = l;
    l.offsets = NULL;
done:
    och_free(l.offsets);
    och_free(refs);
    och_free(spans);
    return st;
}

static const char *const rows_names[] = {"", "tokens", "outputs", "sequences"};

static void shape_text(const och_plan_buf *b, char *out, size_t n) {
    if (b->rows_kind == OCH_ROWS_FIXED)
        snprintf(out, n, "%s[%lld,%lld]", och_dtype_name(b->tensor.dtype), (long long)b->tensor.rows, (long long)b->tensor.cols);
    else
        snprintf(out, n, "%s[%s,%lld]", och_dtype_name(b->tensor.dtype), rows_names[b->rows_kind], (long long)b->tensor.cols);
}

static void print_refs(const och_plan *p, const och_plan_ref *refs, int n, och_strbuf *out) {
    bool first = true;
    for (int i = 0; i < n; i++) {
        if (refs[i] < 0) continue;
        char shape[64];
        shape_text(&p->bufs[refs[i]], shape, sizeof shape);
        och_strbuf_printf(out, "%s%s %s", first ? "" : ", ", p->bufs[refs[i]].name, shape);
        first = false;
    }
}

void och_plan_print(const och_plan *p, och_strbuf *out) {
    for (int i = 0; i < p->n_ops; i++) {
        const och_plan_op *o = &p->ops[i];
        if (o->layer >= 0) och_strbuf_printf(out, "%4d  L%-3d %-10s ", i, o->layer, och_op_name(o->op));
        else och_strbuf_printf(out, "%4d  -    %-10s ", i, och_op_name(o->op));
        print_refs(p, o->out, OCH_OP_MAX_OUT, out);
        och_strbuf_puts(out, " <- ");
        print_refs(p, o->in, OCH_OP_MAX_IN, out);
        och_strbuf_printf(out, "  [%s]\n", o->provider ? o->provider->name : "no provider chosen");
    }
}

static void print_refs_json(const och_plan *p, const och_plan_ref *refs, int n, och_strbuf *out) {
    bool first = true;
    och_strbuf_puts(out, "[");
    for (int i = 0; i < n; i++) {
        if (refs[i] < 0) continue;
        const och_plan_buf *b = &p->bufs[refs[i]];
        och_strbuf_puts(out, first ? "{\"name\": " : ", {\"name\": ");
        och_strbuf_json(out, b->name, strlen(b->name));
        och_strbuf_printf(out, ", \"dtype\": \"%s\", \"rows\": ", och_dtype_name(b->tensor.dtype));
        if (b->rows_kind == OCH_ROWS_FIXED) och_strbuf_printf(out, "%lld", (long long)b->tensor.rows);
        else och_strbuf_printf(out, "\"%s\"", rows_names[b->rows_kind]);
        och_strbuf_printf(out, ", \"cols\": %lld}", (long long)b->tensor.cols);
        first = false;
    }
    och_strbuf_puts(out, "]");
}

void och_plan_print_json(const och_plan *p, och_strbuf *out) {
    och_strbuf_puts(out, "[");
    for (int i = 0; i < p->n_ops; i++) {
        const och_plan_op *o = &p->ops[i];
        och_strbuf_printf(out, "%s\n{\"layer\": %d, \"op\": \"%s\", \"provider\": \"%s\", \"in\": ", i ? "," : "", o->layer,
                          och_op_name(o->op), o->provider ? o->provider->name : "");
        print_refs_json(p, o->in, OCH_OP_MAX_IN, out);
        och_strbuf_puts(out, ", \"out\": ");
        print_refs_json(p, o->out, OCH_OP_MAX_OUT, out);
        och_strbuf_puts(out, "}");
    }
    och_strbuf_puts(out, "]");
}
