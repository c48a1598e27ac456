#include "target/target.h"

#include "base/size.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define UNK OCH_UNKNOWN
#define NA OCH_NOT_APPLICABLE
#define W32 OCH_WAVE32
#define W64 OCH_WAVE64
#define MT(x) OCH_MT_##x
#define OP(x) OCH_##x

static const och_target targets[] = {
#define OCH_TARGET(name, family, products, vendor, generic, apu, wave, waves, lds_wg, lds_unit, lds_cus, v32, v64,     \
                   vmax, agprs, unified, sgprs, waves_simd, simds, matrix, types, matrix_waves, ops, fp8, xnack,       \
                   sramecc, generic_target, clang_min, clang_removed, v6)                                              \
    {name,                                                                                                             \
     family,                                                                                                           \
     products,                                                                                                         \
     OCH_VENDOR_##vendor,                                                                                              \
     generic,                                                                                                          \
     OCH_##apu,                                                                                                        \
     wave,                                                                                                             \
     waves,                                                                                                            \
     lds_wg,                                                                                                           \
     lds_unit,                                                                                                         \
     lds_cus,                                                                                                          \
     v32,                                                                                                              \
     v64,                                                                                                              \
     vmax,                                                                                                             \
     agprs,                                                                                                            \
     unified,                                                                                                          \
     sgprs,                                                                                                            \
     waves_simd,                                                                                                       \
     simds,                                                                                                            \
     OCH_MATRIX_##matrix,                                                                                              \
     types,                                                                                                            \
     matrix_waves,                                                                                                     \
     ops,                                                                                                              \
     OCH_FP8_##fp8,                                                                                                    \
     xnack,                                                                                                            \
     sramecc,                                                                                                          \
     generic_target,                                                                                                   \
     clang_min,                                                                                                        \
     clang_removed,                                                                                                    \
     v6},
#include "target/targets.def"
#undef OCH_TARGET
};

static const och_board boards[] = {
#define OCH_BOARD(name, arch, vendor, cus, mps, mhz, memory, bus, bytes, gbps, fp32, fp16, bf16, fp8, int8, int4, fp4, \
                  l2, mall, integrated, managed, concurrent, pageable, wave, devices, notes)                           \
    {name,                                                                                                             \
     arch,                                                                                                             \
     OCH_VENDOR_##vendor,                                                                                              \
     cus,                                                                                                              \
     mps,                                                                                                              \
     mhz,                                                                                                              \
     memory,                                                                                                           \
     bus,                                                                                                              \
     bytes,                                                                                                            \
     gbps,                                                                                                             \
     fp32,                                                                                                             \
     fp16,                                                                                                             \
     bf16,                                                                                                             \
     fp8,                                                                                                              \
     int8,                                                                                                             \
     int4,                                                                                                             \
     fp4,                                                                                                              \
     l2,                                                                                                               \
     mall,                                                                                                             \
     OCH_##integrated,                                                                                                 \
     OCH_##managed,                                                                                                    \
     OCH_##concurrent,                                                                                                 \
     OCH_##pageable,                                                                                                   \
     wave,                                                                                                             \
     devices,                                                                                                          \
     notes},
#include "target/boards.def"
#undef OCH_BOARD
};

const och_target *och_target_at(size_t i) { return i < OCH_COUNT(targets) ? &targets[i] : NULL; }
size_t och_target_count(void) { return OCH_COUNT(targets); }

static const och_target *by_name(const char *name, size_t n) {
    for (size_t i = 0; i < OCH_COUNT(targets); i++)
        if (strlen(targets[i].name) == n && !memcmp(targets[i].name, name, n)) return &targets[i];
    return NULL;
}

/* ---- unknown names ---- */

static size_t common_prefix(const char *a, const char *b, size_t n) {
    size_t i = 0;
    while (i < n && a[i] && a[i] == b[i]) i++;
    return i;
}

/* The generic target whose members share the longest beginning with the name, provided that the name has all that those
 * members have in common. NULL for none. */
static const och_target *likely_generic(const char *name, size_t n) {
    const och_target *best = NULL;
    size_t best_len = 0;
    for (size_t g = 0; g < OCH_COUNT(targets); g++) {
        if (!targets[g].generic) continue;
        const char *first = NULL;
        size_t len = 0;
        for (size_t i = 0; i < OCH_COUNT(targets); i++) {
            if (strcmp(targets[i].generic_target, targets[g].name)) continue;
            len = first ? common_prefix(targets[i].name, first, len) : strlen(targets[i].name);
            first = targets[i].name;
        }
        if (first && len > best_len && common_prefix(name, first, n) >= len) best = &targets[g], best_len = len;
    }
    return best;
}

static och_status unknown(const char *name, size_t n, och_err *err) {
    char list[512];
    size_t at = 0;
    for (size_t i = 0; i < OCH_COUNT(targets) && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i ? " " : "", targets[i].name);
    const och_target *g = likely_generic(name, n);
    return och_err_set(err, OCH_NOTFOUND, "unknown target \"%.*s\"%s%s%s; known are: %s", (int)OCH_MIN(n, 40), name,
                       g ? " (code for " : "", g ? g->name : "", g ? " may serve it)" : "", list);
}

/* ---- whole names ---- */

static void print_id(och_target_id *id) {
    static const char *const sign[] = {"", "+", "-"};
    snprintf(id->name, sizeof id->name, "%s%s%s%s%s", id->target->name, id->sramecc ? ":sramecc" : "",
             sign[id->sramecc], id->xnack ? ":xnack" : "", sign[id->xnack]);
}

och_status och_target_find(const char *name, och_target_id *out_id, och_err *err) {
    memset(out_id, 0, sizeof *out_id);
    size_t n = strcspn(name, ":");
    och_target_id id = {.target = by_name(name, n)};
    if (!id.target) return unknown(name, n, err);
    for (const char *at = name + n; *at; at += n) {
        at++; /* the colon */
        n = strcspn(at, ":");
        och_feature *f = NULL;
        bool has = false;
        if (n == 8 && !memcmp(at, "sramecc", 7)) f = &id.sramecc, has = id.target->sramecc;
        if (n == 6 && !memcmp(at, "xnack", 5)) f = &id.xnack, has = id.target->xnack;
        if (!f || (at[n - 1] != '+' && at[n - 1] != '-'))
            return och_err_set(err, OCH_INVALID,
                               "target \"%.60s\": expected sramecc+, sramecc-, xnack+ or xnack-, found "
                               "\"%.*s\"",
                               name, (int)OCH_MIN(n, 40), at);
        if (!has)
            return och_err_set(err, OCH_INVALID, "target \"%.60s\": %s has no feature %.*s", name, id.target->name,
                               (int)n - 1, at);
        if (*f)
            return och_err_set(err, OCH_INVALID, "target \"%.60s\": feature %.*s is given twice", name, (int)n - 1, at);
        *f = at[n - 1] == '+' ? OCH_FEATURE_ON : OCH_FEATURE_OFF;
    }
    print_id(&id);
    *out_id = id;
    return OCH_OK;
}

bool och_target_serves(const och_target_id *code, const och_target_id *device) {
    if (code->target != device->target &&
        !(code->target->generic && !strcmp(device->target->generic_target, code->target->name)))
        return false;
    return (code->sramecc == OCH_FEATURE_ANY || code->sramecc == device->sramecc) &&
           (code->xnack == OCH_FEATURE_ANY || code->xnack == device->xnack);
}

/* ---- boards ---- */

const och_board *och_board_at(size_t i) { return i < OCH_COUNT(boards) ? &boards[i] : NULL; }
size_t och_board_count(void) { return OCH_COUNT(boards); }

const och_board *och_board_find(const char *name) {
    const och_board *part = NULL;
    for (size_t i = 0; i < OCH_COUNT(boards); i++)
        if (!strcasecmp(boards[i].name, name) || !strcmp(boards[i].arch, name)) return &boards[i];
    if (!name[0]) return NULL;
    for (size_t i = 0; i < OCH_COUNT(boards); i++) {
        if (!strcasestr(boards[i].name, name)) continue;
        if (part) return NULL;
        part = &boards[i];
    }
    return part;
}

/* ---- words ---- */

const char *och_target_print_num(double value, char *buf, size_t n) {
    if (value == OCH_UNKNOWN) snprintf(buf, n, "?");
    else if (value == OCH_NOT_APPLICABLE) snprintf(buf, n, "-");
    else snprintf(buf, n, "%.15g", value);
    return buf;
}

const char *och_tri_name(och_tri t) {
    switch (t) {
    case OCH_NO: return "no";
    case OCH_YES: return "yes";
    case OCH_IF_XNACK: return "with xnack";
    case OCH_MAYBE: break;
    }
    return "?";
}

const char *och_matrix_isa_name(och_matrix_isa m) {
    switch (m) {
    case OCH_MATRIX_NONE: return "none";
    case OCH_MATRIX_MFMA: return "MFMA";
    case OCH_MATRIX_WMMA_GFX11: return "WMMA (gfx11)";
    case OCH_MATRIX_WMMA_GFX12: return "WMMA (gfx12)";
    case OCH_MATRIX_WMMA_GFX125: return "WMMA (gfx12.5)";
    case OCH_MATRIX_MMA_SYNC: return "mma.sync";
    }
    return "?";
}

const char *och_fp8_encoding_name(och_fp8_encoding e) {
    switch (e) {
    case OCH_FP8_NONE: return "none";
    case OCH_FP8_FNUZ: return "FNUZ";
    case OCH_FP8_OCP: return "OCP";
    }
    return "?";
}
