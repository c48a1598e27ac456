/* Arguments of a launch: checked against the signature, and laid out as the code wants them. */
#include "base/half.h"
#include "kl/kl.h"

#include <stdio.h>
#include <string.h>

#define UNSET INT64_MIN

typedef struct packing {
    const och_kl_signature *s;
    const och_kl_actual *by_arg[OCH_KL_MAX_ARGS];
    int64_t sizes[OCH_KL_MAX_SIZES];
    int size_from[OCH_KL_MAX_SIZES]; /* the argument that set it, for messages */
    uint64_t extent[OCH_KL_MAX_ARGS]; /* bytes from the first to the last that a buffer's rows reach */
    uint64_t stride[OCH_KL_MAX_ARGS][2]; /* bytes from row to row, from plane to plane, dense ones too */
    och_kl_packed *out;
    och_err *err;
} packing;

static och_status match(packing *p, const och_kl_actual *actuals, int n) {
    const och_kl_signature *s = p->s;
    for (int i = 0; i < n; i++) {
        int at = 0;
        while (at < s->n_args && strcmp(s->args[at].name, actuals[i].name)) at++;
        if (at == s->n_args)
            return och_err_set(p->err, OCH_INVALID, "kernel %s: has no argument %s", s->kernel, actuals[i].name);
        if (p->by_arg[at])
            return och_err_set(p->err, OCH_INVALID, "kernel %s: argument %s is given twice", s->kernel,
                               actuals[i].name);
        p->by_arg[at] = &actuals[i];
    }
    for (int i = 0; i < s->n_args; i++)
        if (!p->by_arg[i])
            return och_err_set(p->err, OCH_INVALID, "kernel %s: argument %s is not given", s->kernel, s->args[i].name);
    return OCH_OK;
}

/* Values of the stack machine; false: an overflow or a division by 0. */
static bool run(const packing *p, const och_kl_rule *r, int64_t *out) {
    int64_t stack[OCH_KL_MAX_STEPS + 1];
    int n = 0;
    for (int i = 0; i < r->n_steps; i++) {
        int64_t v = r->steps[i].value, a = 0, b = 0;
        och_kl_step_op op = r->steps[i].op;
        if (op == OCH_KL_R_CONST) a = v;
        else if (op == OCH_KL_R_SIZE) a = p->sizes[v];
        else if (op == OCH_KL_R_SCALAR) a = p->by_arg[v]->integer;
        else if (op == OCH_KL_R_NOT) a = !stack[--n];
        else {
            b = stack[--n];
            a = stack[--n];
            bool divides = op == OCH_KL_R_DIV || op == OCH_KL_R_MOD || op == OCH_KL_R_CEIL_DIV;
            if (divides && (!b || (a == INT64_MIN && b == -1))) return false;
            switch (op) {
            case OCH_KL_R_ADD: if (__builtin_add_overflow(a, b, &a)) return false; break;
            case OCH_KL_R_SUB: if (__builtin_sub_overflow(a, b, &a)) return false; break;
            case OCH_KL_R_MUL: if (__builtin_mul_overflow(a, b, &a)) return false; break;
            case OCH_KL_R_DIV: a /= b; break;
            case OCH_KL_R_MOD: a %= b; break;
            case OCH_KL_R_CEIL_DIV: a = a / b + (a % b != 0 && (a < 0) == (b < 0)); break;
            case OCH_KL_R_MIN: a = a < b ? a : b; break;
            case OCH_KL_R_MAX: a = a > b ? a : b; break;
            case OCH_KL_R_EQ: a = a == b; break;
            case OCH_KL_R_NE: a = a != b; break;
            case OCH_KL_R_LT: a = a < b; break;
            case OCH_KL_R_LE: a = a <= b; break;
            case OCH_KL_R_AND: a = a && b; break;
            default: a = a || b; break;
            }
        }
        stack[n++] = a;
    }
    *out = stack[0];
    return true;
}

static och_status take_sizes(packing *p) {
    const och_kl_signature *s = p->s;
    for (int i = 0; i < s->n_sizes; i++) p->sizes[i] = UNSET;
    for (int i = 0; i < s->n_args; i++) {
        const och_kl_arg *a = &s->args[i];
        const och_kl_actual *x = p->by_arg[i];
        if (a->kind == OCH_KL_A_SCALAR || (!x->addr && a->optional)) continue;
        for (int d = 0; d < a->rank; d++) {
            if (x->dims[d] < 0)
                return och_err_set(p->err, OCH_RANGE,
                                   "kernel %s, argument %s, dimension %d: expected an extent from 0, found %lld",
                                   s->kernel, a->name, d, (long long)x->dims[d]);
            if (a->dims[d].n_steps != 1 || a->dims[d].steps[0].op != OCH_KL_R_SIZE) continue;
            int64_t size = a->dims[d].steps[0].value;
            if (p->sizes[size] == UNSET) {
                p->sizes[size] = x->dims[d];
                p->size_from[size] = i;
            } else if (p->sizes[size] != x->dims[d]) {
                return och_err_set(
                    p->err, OCH_INVALID,
                    "kernel %s, argument %s, dimension %d: expected %s = %lld as argument %s has it, found %lld",
                    s->kernel, a->name, d, s->sizes[size], (long long)p->sizes[size], s->args[p->size_from[size]].name,
                    (long long)x->dims[d]);
            }
        }
    }
    for (int i = 0; i < s->n_sizes; i++)
        if (p->sizes[i] == UNSET) p->sizes[i] = 0; /* only absent buffers have it */
    for (int i = 0; i < s->n_args; i++)
        for (int d = 0; d < s->args[i].rank; d++) {
            int64_t want = 0;
            const och_kl_arg *a = &s->args[i];
            if (!p->by_arg[i]->addr && a->optional) continue;
            bool is_known = run(p, &a->dims[d], &want);
            if (is_known && want == p->by_arg[i]->dims[d]) continue;
            char number[32], value[40] = "";
            snprintf(number, sizeof number, "%lld", (long long)want);
            if (is_known && strcmp(number, a->dims[d].text)) snprintf(value, sizeof value, " = %s", number);
            return och_err_set(p->err, OCH_INVALID, "kernel %s, argument %s, dimension %d: expected %s%s, found %lld",
                               s->kernel, a->name, d, a->dims[d].text, value, (long long)p->by_arg[i]->dims[d]);
        }
    return OCH_OK;
}

static void store(packing *p, uint32_t offset, const void *v, size_t n) { memcpy(p->out->args + offset, v, n); }

/* Bytes of a row: planes one behind the other, each up to a multiple of 16; false: more than 64 bits hold. */
static bool row_of_planes(const och_kl_arg *a, uint64_t k, uint64_t *out_bytes) {
    *out_bytes = 0;
    for (int i = 0; i < a->n_planes; i++) {
        uint64_t n = k / a->planes[i].span + (k % a->planes[i].span != 0), bytes;
        if (__builtin_mul_overflow(n, (uint64_t)a->planes[i].bytes, &bytes) || bytes > UINT64_MAX - 15 ||
            __builtin_add_overflow(*out_bytes, (bytes + 15) & ~(uint64_t)15, out_bytes))
            return false;
    }
    return true;
}

static och_status put_buffer(packing *p, int i) {
    const och_kl_arg *a = &p->s->args[i];
    const och_kl_actual *x = p->by_arg[i];
    bool planes = a->kind != OCH_KL_A_BUFFER, empty = false;
    for (int d = 0; d < a->rank; d++) empty |= x->addr && x->dims[d] == 0;
    if (!x->addr && !a->optional && !empty) {
        for (int d = 0; d < a->rank; d++) empty |= x->dims[d] == 0;
        if (!empty)
            return och_err_set(p->err, OCH_INVALID, "kernel %s, argument %s: expected an address, found none",
                               p->s->kernel, a->name);
    }
    if (a->align_bytes > 1 && x->addr & (a->align_bytes - 1))
        return och_err_set(p->err, OCH_INVALID,
                           "kernel %s, argument %s: expected an address that is a multiple of %u, found 0x%llx",
                           p->s->kernel, a->name, a->align_bytes, (unsigned long long)x->addr);
    store(p, a->offset, &x->addr, 8);
    /* Strides from the last dimension outwards: a dense row where none is given. */
    uint64_t dense = (uint64_t)(a->rank ? x->dims[a->rank - 1] : 0);
    uint64_t row = 0;
    if (planes ? !row_of_planes(a, dense, &row) : __builtin_mul_overflow(dense, (uint64_t)a->elem_bytes, &dense))
        return och_err_set(p->err, OCH_RANGE, "kernel %s, argument %s: the size of a row overflows", p->s->kernel, a->name);
    if (planes && x->addr && !empty && x->row_bytes[0] && x->row_bytes[0] < row)
        return och_err_set(
            p->err, OCH_INVALID, "kernel %s, argument %s: expected rows of %s of at least %llu bytes, found %llu",
            p->s->kernel, a->name, a->type, (unsigned long long)row, (unsigned long long)x->row_bytes[0]);
    /* Within a row code counts with 32 bits; where there are no rows, with 64. */
    uint64_t length = planes && a->rank > 1 ? x->row_bytes[a->rank - 2] : dense;
    if (x->addr && a->rank > 1 && length > UINT32_MAX)
        return och_err_set(p->err, OCH_RANGE, "kernel %s, argument %s: expected rows of less than 4 GiB, found %llu bytes",
                           p->s->kernel, a->name, (unsigned long long)length);
    uint64_t reach = !planes ? dense : a->n_planes ? row : x->row_bytes[0]; /* from the first byte to behind the last */
    for (int d = a->rank - 2; d >= 0; d--) {
        uint64_t stride = x->row_bytes[d] ? x->row_bytes[d] : dense;
        if (planes && !x->row_bytes[d] && x->addr)
            return och_err_set(p->err, OCH_INVALID,
                               "kernel %s, argument %s: expected the bytes of a row of planes, found 0", p->s->kernel,
                               a->name);
        if (x->addr && x->dims[d] > 1) {
            if (!planes && stride < dense)
                return och_err_set(p->err, OCH_INVALID,
                                   "kernel %s, argument %s: expected rows at least %llu bytes apart, found %llu",
                                   p->s->kernel, a->name, (unsigned long long)dense, (unsigned long long)stride);
            uint32_t unit = a->align_bytes > a->elem_bytes || planes ? a->align_bytes : a->elem_bytes;
            if (unit > 1 && stride % unit)
                return och_err_set(p->err, OCH_INVALID,
                                   "kernel %s, argument %s: expected rows a multiple of %u bytes apart, found %llu",
                                   p->s->kernel, a->name, unit, (unsigned long long)stride);
        }
        int64_t elements = (int64_t)(planes || !a->elem_bytes ? stride : stride / a->elem_bytes);
        store(p, a->stride_offset[d], &elements, 8);
        p->stride[i][d] = stride;
        uint64_t all, behind = x->dims[d] ? (uint64_t)(x->dims[d] - 1) : 0;
        if (__builtin_mul_overflow(stride, (uint64_t)x->dims[d], &all) ||
            __builtin_add_overflow(reach, behind * stride, &reach))
            return och_err_set(p->err, OCH_RANGE, "kernel %s, argument %s: its size overflows", p->s->kernel, a->name);
        if (all > dense) dense = all; /* the distance of one row may be anything: it is as long as it is */
    }
    p->extent[i] = x->addr && !empty ? reach : 0;
    return OCH_OK;
}

/* Where a buffer's rows begin: at every so many bytes. */
static bool rows_of(const packing *p, int i, uint64_t *out_stride, uint64_t *out_bytes) {
    const och_kl_arg *a = &p->s->args[i];
    const och_kl_actual *x = p->by_arg[i];
    if (a->kind != OCH_KL_A_BUFFER || a->rank < 2) return false;
    *out_stride = p->stride[i][a->rank - 2];
    *out_bytes = (uint64_t)x->dims[a->rank - 1] * a->elem_bytes; /* less than 4 GiB */
    return *out_stride && (a->rank == 2 || p->stride[i][0] % *out_stride == 0);
}

/* Apart as a whole, or row by row: two halves of the same rows. */
static bool are_apart(const packing *p, int i, int j) {
    uint64_t x = p->by_arg[i]->addr, y = p->by_arg[j]->addr, sx, sy, bx, by;
    if (x >= y ? x - y >= p->extent[j] : y - x >= p->extent[i]) return true;
    if (!rows_of(p, i, &sx, &bx) || !rows_of(p, j, &sy, &by) || sx != sy) return false;
    uint64_t from = x >= y ? (x - y) % sx : (sx - (y - x) % sx) % sx; /* of a row of x in one of y's */
    return from >= by && bx <= sx && from <= sx - bx;
}

/* An output over an input: the very memory, so that an element is written where it was read. */
static och_status check_in_place(const packing *p, int i, int j) {
    const och_kl_arg *a = &p->s->args[i], *b = &p->s->args[j];
    const och_kl_actual *x = p->by_arg[i], *y = p->by_arg[j];
    if (x->addr != y->addr)
        return och_err_set(
            p->err, OCH_INVALID,
            "kernel %s: expected argument %s at argument %s's address or apart from it, found 0x%llx (%llu bytes) "
            "and 0x%llx (%llu bytes)",
            p->s->kernel, a->name, b->name, (unsigned long long)x->addr, (unsigned long long)p->extent[i],
            (unsigned long long)y->addr, (unsigned long long)p->extent[j]);
    for (int d = 0; a->rank == b->rank && d + 1 < a->rank; d++)
        if (x->dims[d] > 1 && y->dims[d] > 1 && p->stride[i][d] != p->stride[j][d])
            return och_err_set(p->err, OCH_INVALID,
                               "kernel %s: expected argument %s with argument %s's distance of rows, %llu bytes, or "
                               "apart from it, found %llu",
                               p->s->kernel, a->name, b->name, (unsigned long long)p->stride[j][d],
                               (unsigned long long)p->stride[i][d]);
    return OCH_OK;
}

/* The compiler takes buffers for separate memory, but for those that were said to lie over one another. */
static och_status check_overlaps(const packing *p) {
    const och_kl_signature *s = p->s;
    for (int i = 0; i < s->n_args; i++)
        for (int j = 0; j < s->n_args; j++) {
            const och_kl_arg *a = &s->args[i], *b = &s->args[j];
            if (i == j || !a->out || !p->extent[i] || !p->extent[j]) continue;
            if (are_apart(p, i, j)) continue;
            if (a->over >> j & 1) {
                OCH_TRY(check_in_place(p, i, j));
                continue;
            }
            return och_err_set(p->err, OCH_INVALID,
                               "kernel %s: expected argument %s, which is written, apart from %s, found both at 0x%llx "
                               "(%llu bytes) and "
                               "0x%llx (%llu bytes)",
                               s->kernel, a->name, b->name, (unsigned long long)p->by_arg[i]->addr,
                               (unsigned long long)p->extent[i], (unsigned long long)p->by_arg[j]->addr,
                               (unsigned long long)p->extent[j]);
        }
    return OCH_OK;
}

static och_status put_scalar(packing *p, int i) {
    const och_kl_arg *a = &p->s->args[i];
    const och_kl_actual *x = p->by_arg[i];
    if (!strcmp(a->type, "f32")) {
        float f = (float)x->real;
        store(p, a->offset, &f, 4);
    } else if (!strcmp(a->type, "f16")) {
        uint16_t h = och_f32_to_f16((float)x->real);
        store(p, a->offset, &h, 2);
    } else {
        bool wide = a->bytes == 8, is_unsigned = a->type[0] == 'u' || a->type[0] == 'b';
        int64_t lo = wide          ? INT64_MIN
                     : is_unsigned ? 0
                                   : INT32_MIN,
                hi = wide                ? INT64_MAX
                     : a->type[0] == 'b' ? 1
                     : is_unsigned       ? UINT32_MAX
                                         : INT32_MAX;
        if (x->integer < lo || x->integer > hi)
            return och_err_set(p->err, OCH_RANGE, "kernel %s, argument %s: expected a value of type %s, found %lld",
                               p->s->kernel, a->name, a->type, (long long)x->integer);
        uint64_t v = (uint64_t)x->integer;
        store(p, a->offset, &v, a->bytes); /* hosts are little-endian, as devices are */
    }
    return OCH_OK;
}

och_status och_kl_pack(const och_kl_signature *s, const och_kl_actual *actuals, int n_actuals, och_kl_packed *out,
                       och_err *err) {
    packing p = {.s = s, .out = out, .err = err};
    memset(out, 0, sizeof *out);
    OCH_TRY(match(&p, actuals, n_actuals));
    OCH_TRY(take_sizes(&p));
    for (int i = 0; i < s->n_rules; i++) {
        int64_t v;
        if (run(&p, &s->rules[i], &v) && v) continue;
        char sizes[256] = "";
        size_t n = 0;
        for (int k = 0; k < s->n_sizes && n < sizeof sizes; k++)
            n += (size_t)snprintf(sizes + n, sizeof sizes - n, "%s%s = %lld", k ? ", " : "", s->sizes[k],
                                  (long long)p.sizes[k]);
        return och_err_set(err, OCH_INVALID, "kernel %s (%s): expected %s, found %s", s->kernel, s->spec,
                           s->rules[i].text, sizes);
    }
    for (int i = 0; i < s->n_args; i++) OCH_TRY(s->args[i].kind == OCH_KL_A_SCALAR ? put_scalar(&p, i) : put_buffer(&p, i));
    OCH_TRY(check_overlaps(&p));
    for (int i = 0; i < s->n_sizes; i++) store(&p, s->size_offset[i], &p.sizes[i], 8);
    for (int i = 0; i < 3; i++) {
        int64_t v;
        if (!run(&p, &s->grid[i], &v) || v < 0 || v > INT32_MAX)
            return och_err_set(err, OCH_RANGE, "kernel %s: expected a grid of at most %d workgroups a side, found %s",
                               s->kernel, INT32_MAX, s->grid[i].text);
        out->grid[i] = (uint32_t)v;
    }
    out->group[0] = (uint32_t)s->threads;
    out->group[1] = out->group[2] = 1;
    out->lds_bytes = s->lds_launch_bytes;
    out->n_bytes = s->args_bytes;
    return OCH_OK;
}
