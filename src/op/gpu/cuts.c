#include "op/gpu/cuts.h"

#include "base/size.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

size_t och_gpu_find_row(const och_device *d, const void *rows, size_t n, size_t row_bytes, size_t from) {
    for (size_t i = from; i < n; i++) {
        const char *const *arch = (const void *)((const char *)rows + i * row_bytes);
        if (!strncmp(d->info.arch, *arch, strlen(*arch))) return i;
    }
    return n;
}

int64_t och_gpu_few_rows(const och_device *d, int64_t otherwise) {
#define OCH_FEW(arch, rows) {arch, rows},
    static const struct {
        const char *arch;
        int64_t rows;
    } rows[] = {
#include "op/gpu/few.def"
    };
#undef OCH_FEW
    size_t i = OCH_GPU_FIND_ROW(d, rows, 0);
    return i < OCH_COUNT(rows) ? rows[i].rows : otherwise;
}

const char *och_gpu_row_cut(const och_device *d, och_dtype format, int64_t weight_rows, bool qkv) {
#define OCH_TUNED(arch, format, least, vec, qkv) {arch, format, least, {vec, qkv}},
    static const struct {
        const char *arch;
        och_dtype format;
        int64_t least;
        const char *spec[2];
    } rows[] = {
#include "op/gpu/tuned.def"
    };
#undef OCH_TUNED
    for (size_t i = OCH_GPU_FIND_ROW(d, rows, 0); i < OCH_COUNT(rows); i = OCH_GPU_FIND_ROW(d, rows, i + 1))
        if (rows[i].format == format && weight_rows >= rows[i].least) return rows[i].spec[qkv];
    return "";
}

const char *och_gpu_codes_cut(const och_device *d, och_dtype format, bool one) {
#define OCH_CODES(arch, format, one, more) {arch, format, one, more},
    static const struct {
        const char *arch;
        och_dtype format;
        const char *one, *more;
    } rows[] = {
#include "op/gpu/codes.def"
    };
#undef OCH_CODES
    size_t first = OCH_GPU_FIND_ROW(d, rows, 0);
    for (size_t i = first; i < OCH_COUNT(rows); i = OCH_GPU_FIND_ROW(d, rows, i + 1))
        if (rows[i].format == format) return one ? rows[i].one : rows[i].more;
    return first < OCH_COUNT(rows) ? NULL : "";
}

/* Whether a way that others do without was measured to be faster, and how it is cut. */
typedef struct faster_row {
    const char *arch;
    och_dtype format;
    bool faster;
    const char *spec;
} faster_row;

static const char *if_faster(const och_device *d, const faster_row *rows, size_t n, och_dtype format, bool asked) {
    for (size_t i = 0; (i = och_gpu_find_row(d, rows, n, sizeof *rows, i)) < n; i++)
        if (rows[i].format == format) return asked || rows[i].faster ? rows[i].spec : NULL;
    return asked ? "" : NULL;
}

const char *och_gpu_post_cut(const och_device *d, och_dtype format, bool asked) {
#define OCH_POST(arch, format, faster, spec) {arch, format, faster, spec},
    static const faster_row rows[] = {
#include "op/gpu/post.def"
    };
#undef OCH_POST
    return if_faster(d, rows, OCH_COUNT(rows), format, asked);
}

const char *och_gpu_norm_codes_cut(const och_device *d, och_dtype format, bool asked) {
#define OCH_NORM_CODES(arch, format, faster, spec) {arch, format, faster, spec},
    static const faster_row rows[] = {
#include "op/gpu/norm_codes.def"
    };
#undef OCH_NORM_CODES
    return if_faster(d, rows, OCH_COUNT(rows), format, asked);
}

const och_gpu_ring *och_gpu_ring_of(const och_device *d, och_dtype format, bool asked) {
    static const och_gpu_ring own = {.whole = true, .gate = "", .three = "", .brief = "", .lengthy = ""};
#define OCH_RING(arch, format, whole, gate, three, brief, lengthy) {arch, format, whole, gate, three, brief, lengthy},
    static const och_gpu_ring rows[] = {
#include "op/gpu/ring.def"
    };
#undef OCH_RING
    for (size_t i = OCH_GPU_FIND_ROW(d, rows, 0); i < OCH_COUNT(rows); i = OCH_GPU_FIND_ROW(d, rows, i + 1))
        if (rows[i].format == format) return &rows[i];
    return asked ? &own : NULL;
}

const char *och_gpu_alone_cut(const och_device *d, och_dtype format, int64_t cols, int64_t rows, bool asked) {
    static const struct {
        const char *arch;
        och_dtype format;
        int64_t most_cols, least_rows;
        const char *spec;
    } cuts[] = {
#define OCH_ALONE(arch, format, cols, rows, spec) {arch, format, cols, rows, spec},
#include "op/gpu/alone.def"
#undef OCH_ALONE
    };
    for (size_t i = OCH_GPU_FIND_ROW(d, cuts, 0); i < OCH_COUNT(cuts); i = OCH_GPU_FIND_ROW(d, cuts, i + 1))
        if (cuts[i].format == format && cols <= cuts[i].most_cols) return asked || rows >= cuts[i].least_rows ? cuts[i].spec : NULL;
    return asked && cols <= OCH_GPU_ALONE_COLS ? "" : NULL;
}

/* "NAME=8" of a specialisation; NAME as kernels' parameters have it, none of which ends with another's. */
static uint64_t said(const char *spec, const char *name, uint64_t otherwise) {
    const char *p = strstr(spec, name);
    return p ? strtoull(p + strlen(name), NULL, 10) : otherwise;
}

static uint64_t quads(uint64_t n_bytes) { return (n_bytes + 15) / 16 * 16; }

uint64_t och_gpu_ring_lds(och_gpu_ring_kind kind, const char *cut, uint64_t row_bytes, int64_t cols) {
    uint64_t waves = said(cut, "WAVES=", 8), stages = said(cut, "STAGES=", 3), parts = said(cut, "PARTS=", 1), blocks = strstr(cut, "HELD=true") ? 4 : (uint64_t)cols / 32;
    bool two = kind == OCH_GPU_RING_GATE || kind == OCH_GPU_RING_THREE;
    uint64_t step = said(cut, "STEP=", waves / (two ? 2 : parts)), ahead = (two ? 2 : 1) * stages * step * row_bytes,
             per = said(cut, "PER=", kind == OCH_GPU_RING_GATE ? 64 : 4 * waves);
    uint64_t codes = ahead + parts * 32 * 4 + blocks * 32 + 2 * quads(blocks * 4), least = said(cut, "LEAST=", 0);
    switch (kind) { /* rows on their way; sums; codes of x: two times 16 bytes a block, its scale, its sum */
    case OCH_GPU_RING_GATE: return ahead + 2 * per * 4;
    case OCH_GPU_RING_THREE: return ahead + per * 4;
    case OCH_GPU_RING_CODES: return least > codes ? codes + (least - codes) / 128 * 128 : codes;
    case OCH_GPU_RING_ALONE: return ahead + quads(parts * step * 4);
    }
    return UINT64_MAX;
}

int och_gpu_ring_groups(const och_device *d, const char *cut) { return d->info.n_compute_units * (int)said(cut, "OCC=", 1); }

const och_gpu_own_cut *och_gpu_own_cut_of(const och_device *d) {
#define OCH_OWN(arch, most, early) {arch, most, early},
    static const och_gpu_own_cut rows[] = {
#include "op/gpu/own.def"
    };
#undef OCH_OWN
    size_t i = OCH_GPU_FIND_ROW(d, rows, 0);
    return i < OCH_COUNT(rows) ? &rows[i] : NULL;
}

const och_gpu_tiles *och_gpu_tiles_of(const och_device *d, och_dtype format, int64_t weight_rows, int64_t n) {
#define OCH_TILES(arch, format, most, bm, bn, spec, three, pair) {arch, format, most, bm, bn, spec, three, pair},
    static const och_gpu_tiles rows[] = {
#include "op/gpu/tiles.def"
    }, plain = {.spec = "", .three = "", .pair = ""};
#undef OCH_TILES
    uint64_t units = (uint64_t)d->info.n_compute_units, enough = units - units / 16;
    for (size_t i = OCH_GPU_FIND_ROW(d, rows, 0); i < OCH_COUNT(rows); i = OCH_GPU_FIND_ROW(d, rows, i + 1)) {
        const och_gpu_tiles *r = &rows[i];
        if (r->format != OCH_DTYPE_NONE && r->format != format) continue;
        if (r->most && n > r->most) continue;
        if (!r->bm || och_u64_ceil_div((uint64_t)n, r->bm) * och_u64_ceil_div((uint64_t)weight_rows, r->bn) >= enough) return r;
    }
    return &plain;
}

const char *och_gpu_together_of(const och_device *d, och_dtype format, const int64_t *weight_rows, int n_weights, int64_t n) {
#define OCH_TOGETHER(arch, format, n_weights, bm, bn, cost, spec) {arch, format, n_weights, bm, bn, cost, spec},
    static const struct {
        const char *arch;
        och_dtype format;
        int n_weights;
        uint64_t bm, bn, cost;
        const char *spec;
    } rows[] = {
#include "op/gpu/together.def"
    };
#undef OCH_TOGETHER
    uint64_t units = (uint64_t)d->info.n_compute_units, least = UINT64_MAX;
    const char *spec = "";
    for (size_t i = OCH_GPU_FIND_ROW(d, rows, 0); i < OCH_COUNT(rows); i = OCH_GPU_FIND_ROW(d, rows, i + 1)) {
        if (rows[i].format != format || rows[i].n_weights != n_weights) continue;
        /* A gate's weights lie beside one another in a tile; of others each tile has one. */
        uint64_t cols = 0, down = och_u64_ceil_div((uint64_t)n, rows[i].bm);
        for (int j = 0; j < (n_weights == 2 ? 1 : n_weights); j++) cols += och_u64_ceil_div((uint64_t)weight_rows[j], rows[i].bn);
        if (down * cols < units - units / 4) continue;
        uint64_t takes = och_u64_ceil_div(down * cols, units) * rows[i].cost;
        if (takes >= least) continue;
        least = takes;
        spec = rows[i].spec;
    }
    return spec;
}

const och_gpu_split *och_gpu_split_of(const och_device *d, och_dtype format, int64_t weight_rows, int64_t weight_cols, int64_t n) {
#define OCH_SPLIT(arch, format, parts, least, bm, bn, spec) {arch, format, parts, least, bm, bn, spec},
    static const och_gpu_split rows[] = {
#include "op/gpu/split.def"
    };
#undef OCH_SPLIT
    uint64_t units = (uint64_t)d->info.n_compute_units;
    for (size_t i = OCH_GPU_FIND_ROW(d, rows, 0); i < OCH_COUNT(rows); i = OCH_GPU_FIND_ROW(d, rows, i + 1)) {
        const och_gpu_split *r = &rows[i];
        if (r->format != format || weight_cols < r->least) continue;
        uint64_t tiles = och_u64_ceil_div((uint64_t)n, r->bm) * och_u64_ceil_div((uint64_t)weight_rows, r->bn);
        if (tiles <= units / r->parts && tiles * r->parts >= units - units / 4) return r;
    }
    return NULL;
}

/* The tables' limits of rows are 16, 32 and 64, and their tiles have 16, 32 or a multiple of 64 of them. */
int64_t och_gpu_tiles_next(int64_t n, int64_t most) {
    if (n >= most) return 0;
    int64_t next = n < 16 ? 16 : n < 64 ? 2 * n : n + 64;
    return OCH_MIN(next, most);
}
