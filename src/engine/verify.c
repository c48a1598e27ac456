#include "engine/verify.h"

#include "base/alloc.h"
#include "base/size.h"
#include "file/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- goldens ---- */

void och_golden_prompt_deinit(och_golden_prompt *g) {
    void *owned[] = {g->name, g->ids, g->greedy, g->logits, g->top_ids, g->top_logits, g->lse, g->max_abs, g->probe_ids,
                     g->probe_logits};
    for (size_t i = 0; i < OCH_COUNT(owned); i++) och_free(owned[i]);
    *g = (och_golden_prompt){0};
}

void och_golden_deinit(och_golden *g) {
    for (int i = 0; i < g->n_prompts; i++) och_golden_prompt_deinit(&g->prompts[i]);
    och_free(g->prompts);
    och_free(g->model_file);
    *g = (och_golden){0};
}

/* A copy of tensor PREFIX.SUFFIX, aligned; out_pointer points at a pointer to its elements. rows and cols: what is expected, negative: any; a vector has one column. */
static och_status read_array(const och_safetensors *s, const char *prefix, const char *suffix, och_dtype dtype,
                             bool required, int64_t rows, int64_t cols, void *out_pointer, int *out_rows, int *out_cols,
                             och_err *err) {
    char name[256];
    void *data = NULL;
    memcpy(out_pointer, &data, sizeof data);
    snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "." : "", suffix);
    const och_file_tensor *t = och_safetensors_find(s, name);
    if (!t) {
        if (!required) return OCH_OK;
        return och_err_set(err, OCH_NOTFOUND, "%s: no tensor %s", och_safetensors_path(s), name);
    }
    int rank = cols == 1 ? 1 : 2;
    if (t->dtype != dtype || t->rank != rank || t->shape[0] > (1u << 24) || t->shape[1] > (1u << 24))
        return och_err_set(err, OCH_CORRUPT, "%s: tensor %s: expected %s of rank %d, found %s of rank %d",
                           och_safetensors_path(s), name, och_dtype_name(dtype), rank, t->type_name, t->rank);
    int64_t r = (int64_t)t->shape[0], c = rank == 1 ? 1 : (int64_t)t->shape[1];
    if (r < 1 || c < 1 || (rows >= 0 && r != rows) || (cols >= 0 && c != cols))
        return och_err_set(err, OCH_CORRUPT, "%s: tensor %s: expected %lld x %lld (-1: any), found %lld x %lld",
                           och_safetensors_path(s), name, (long long)rows, (long long)cols, (long long)r, (long long)c);
    data = och_malloc((size_t)t->size_bytes);
    if (!data) return och_err_nomem(err, t->size_bytes, name);
    memcpy(data, t->data, (size_t)t->size_bytes);
    memcpy(out_pointer, &data, sizeof data);
    if (out_rows) *out_rows = (int)r;
    if (out_cols) *out_cols = (int)c;
    return OCH_OK;
}

static och_status read_prompt(const och_safetensors *s, const char *name, och_golden_prompt *g, och_err *err) {
    g->name = och_strdup(name);
    if (!g->name) return och_err_nomem(err, strlen(name), "a name");
    OCH_TRY(read_array(s, name, "ids", OCH_DTYPE_I32, true, -1, 1, &g->ids, &g->n_ids, NULL, err));
    OCH_TRY(read_array(s, name, "greedy", OCH_DTYPE_I32, true, -1, 1, &g->greedy, &g->n_greedy, NULL, err));
    OCH_TRY(read_array(s, name, "logits", OCH_DTYPE_F32, false, -1, -1, &g->logits, &g->n_rows, &g->n_vocab, err));
    if (g->logits) {
        if (g->n_rows > g->n_ids + g->n_greedy || g->n_rows < g->n_ids + g->n_greedy - 1)
            return och_err_set(err, OCH_CORRUPT, "%s: tensor %s.logits has %d rows for %d + %d tokens", och_safetensors_path(s),
                               name, g->n_rows, g->n_ids, g->n_greedy);
        return OCH_OK;
    }
    int n = g->n_greedy;
    OCH_TRY(read_array(s, name, "top_ids", OCH_DTYPE_I32, true, n, -1, &g->top_ids, NULL, &g->n_top, err));
    OCH_TRY(read_array(s, name, "top_logits", OCH_DTYPE_F32, true, n, g->n_top, &g->top_logits, NULL, NULL, err));
    OCH_TRY(read_array(s, name, "lse", OCH_DTYPE_F32, true, n, 1, &g->lse, NULL, NULL, err));
    OCH_TRY(read_array(s, name, "max_abs", OCH_DTYPE_F32, true, n, 1, &g->max_abs, NULL, NULL, err));
    OCH_TRY(read_array(s, "", "probe_ids", OCH_DTYPE_I32, false, -1, 1, &g->probe_ids, &g->n_probe, NULL, err));
    if (g->probe_ids)
        OCH_TRY(read_array(s, name, "probe_logits", OCH_DTYPE_F32, true, n, g->n_probe, &g->probe_logits, NULL, NULL,
                           err));
    return OCH_OK;
}

och_status och_golden_read(const char *path, och_golden *out_golden, och_err *err) {
    och_safetensors *s = NULL;
    och_status st;
    *out_golden = (och_golden){0};
    OCH_TRY_GOTO(och_safetensors_open(path, &s, err));
    uint64_t n = och_safetensors_n_tensors(s);
    int count = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t i = 0; i < n; i++) {
            const char *name = och_safetensors_tensor(s, i)->name;
            size_t len = strlen(name);
            if (len < 5 || len > 200 || strcmp(name + len - 4, ".ids") != 0) continue;
            if (pass == 0) {
                count++;
                continue;
            }
            char prompt[200];
            memcpy(prompt, name, len - 4);
            prompt[len - 4] = '\0';
            OCH_TRY_GOTO(read_prompt(s, prompt, &out_golden->prompts[out_golden->n_prompts++], err));
        }
        if (pass == 0) {
            if (!count) {
                st = och_err_set(err, OCH_CORRUPT, "%s is no golden file: no tensor is named NAME.ids", path);
                goto done;
            }
            out_golden->prompts = och_calloc((size_t)count, sizeof *out_golden->prompts);
            if (!out_golden->prompts) {
                st = och_err_nomem(err, (uint64_t)count * sizeof *out_golden->prompts, "golden prompts");
                goto done;
            }
        }
    }
    const char *file = och_safetensors_metadata(s, "model_file");
    if (file && !(out_golden->model_file = och_strdup(file))) st = och_err_nomem(err, strlen(file), "a name");
done:
    if (st != OCH_OK) och_golden_deinit(out_golden);
    och_safetensors_close(s);
    return st;
}

/* ---- comparing ---- */

static och_status from_public(och_err *err, const ochre_error *e) {
    return och_err_set(err, (och_status)e->status, "%s", e->message);
}

static double log_sum_exp(const float *x, int n) {
    float m = x[0];
    for (int i = 1; i < n; i++)
        if (x[i] > m) m = x[i];
    double sum = 0;
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - m);
    return m + log(sum);
}

static int arg_max(const float *x, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static void add_delta(och_verify_result *r, double expected, double found) {
    double d = fabs(expected - found);
    if (!(d <= r->worst_delta)) r->worst_delta = isnan(d) ? INFINITY : d; /* NaN fails every bound */
}

/* KL of one position over all logits. */
static double kl_full(const float *p, const float *q, int n) {
    double zp = log_sum_exp(p, n), zq = log_sum_exp(q, n), kl = 0;
    for (int i = 0; i < n; i++) {
        double lp = p[i] - zp;
        kl += exp(lp) * (lp - (q[i] - zq));
    }
    return kl;
}

/* KL with the logits that are not stored as one bucket. */
static double kl_short(const och_golden_prompt *g, int row, const float *q, int n_vocab) {
    const int32_t *ids = g->top_ids + (size_t)row * (size_t)g->n_top;
    const float *top = g->top_logits + (size_t)row * (size_t)g->n_top;
    double zq = log_sum_exp(q, n_vocab), kl = 0, rest_p = 1, rest_q = 1;
    for (int i = 0; i < g->n_top; i++) {
        double lp = top[i] - g->lse[row], lq = q[ids[i]] - zq, p = exp(lp);
        kl += p * (lp - lq);
        rest_p -= p;
        rest_q -= exp(lq);
    }
    /* Below rounding of the stored float32 values the rest says nothing. */
    if (rest_p > 1e-6 && rest_q > 1e-12) kl += rest_p * (log(rest_p) - log(rest_q));
    return kl;
}

/* The oracle's logit of `id` at greedy position `row`; false when the golden does not hold it. */
static bool golden_logit(const och_golden_prompt *g, int row, int32_t id, double *out) {
    if (g->logits) {
        int r = g->n_ids - 1 + row;
        *out = g->logits[(size_t)r * (size_t)g->n_vocab + (size_t)id];
        return true;
    }
    for (int i = 0; i < g->n_top; i++)
        if (g->top_ids[(size_t)row * (size_t)g->n_top + (size_t)i] == id) {
            *out = g->top_logits[(size_t)row * (size_t)g->n_top + (size_t)i];
            return true;
        }
    return false;
}

static void compare_row(const och_golden_prompt *g, int position, const float *q, int n_vocab, och_verify_result *r,
                        double *kl_sum, och_verify_difference *diffs, int *n_diffs) {
    int row = position - (g->n_ids - 1); /* the greedy token that this position predicts */
    double kl;
    if (g->logits) {
        const float *p = g->logits + (size_t)position * (size_t)n_vocab;
        for (int i = 0; i < n_vocab; i++) {
            add_delta(r, p[i], q[i]);
            r->max_abs = fmax(r->max_abs, fabs((double)p[i]));
        }
        kl = kl_full(p, q, n_vocab);
    } else {
        for (int i = 0; i < g->n_top; i++) {
            size_t at = (size_t)row * (size_t)g->n_top + (size_t)i;
            add_delta(r, g->top_logits[at], q[g->top_ids[at]]);
        }
        for (int i = 0; i < g->n_probe; i++)
            add_delta(r, g->probe_logits[(size_t)row * (size_t)g->n_probe + (size_t)i], q[g->probe_ids[i]]);
        r->max_abs = fmax(r->max_abs, (double)g->max_abs[row]);
        kl = kl_short(g, row, q, n_vocab);
    }
    r->n_positions++;
    *kl_sum += kl;
    if (!(kl <= r->worst_kl)) r->worst_kl = isnan(kl) ? INFINITY : kl;
    if (row < 0 || row >= g->n_greedy) return;
    r->n_tokens++;
    int32_t found = arg_max(q, n_vocab), expected = g->greedy[row];
    if (found == expected) {
        r->n_equal++;
        return;
    }
    double a = 0, b = 0, gap = INFINITY;
    if (golden_logit(g, row, expected, &a) && golden_logit(g, row, found, &b)) gap = fabs(a - b);
    diffs[(*n_diffs)++] = (och_verify_difference){row, expected, found, gap, false};
}

static och_status check_ids(const och_golden_prompt *g, int n_vocab, och_err *err) {
    const struct {
        const int32_t *ids;
        size_t n;
    } lists[] = {{g->ids, (size_t)g->n_ids},
                 {g->greedy, (size_t)g->n_greedy},
                 {g->top_ids, g->top_ids ? (size_t)g->n_greedy * (size_t)g->n_top : 0},
                 {g->probe_ids, (size_t)g->n_probe}};
    for (size_t k = 0; k < OCH_COUNT(lists); k++)
        for (size_t i = 0; i < lists[k].n; i++)
            if (lists[k].ids[i] < 0 || lists[k].ids[i] >= n_vocab)
                return och_err_set(err, OCH_RANGE, "prompt %s: token %d is outside the model's vocabulary of %d: is this the golden "
                                                   "of another model?", g->name, lists[k].ids[i], n_vocab);
    if (g->logits && g->n_vocab != n_vocab)
        return och_err_set(err, OCH_RANGE, "prompt %s: the golden has %d logits a position, the model %d: is this the golden of "
                                           "another model?", g->name, g->n_vocab, n_vocab);
    return OCH_OK;
}

static och_status step(ochre_session *s, int32_t seq, const int32_t *tokens, int n, bool logits, och_err *err) {
    ochre_error e = {0};
    ochre_span span = {seq, tokens, n, logits ? OCHRE_LOGITS_ALL : OCHRE_LOGITS_NONE};
    return ochre_step(s, &span, 1, &e) == OCHRE_OK ? OCH_OK : from_public(err, &e);
}

och_status och_verify_prompt(ochre_session *session, const och_golden_prompt *g, int n_vocab, int step_tokens,
                             och_verify_result *out_result, och_err *err) {
    och_verify_result *r = out_result;
    och_verify_difference *diffs = NULL;
    int32_t *tokens = NULL, seq = -1;
    ochre_error e = {0};
    int n_diffs = 0;
    double kl_sum = 0;
    och_status st = OCH_OK;
    *r = (och_verify_result){0};
    OCH_TRY(check_ids(g, n_vocab, err));
    int n_input = g->logits ? g->n_rows : g->n_ids + g->n_greedy - 1, first = g->logits ? 0 : g->n_ids - 1;
    tokens = och_malloc_array((size_t)(g->n_ids + g->n_greedy), sizeof *tokens);
    diffs = och_malloc_array((size_t)g->n_greedy, sizeof *diffs);
    if (!tokens || !diffs) {
        st = och_err_nomem(err, (uint64_t)(g->n_ids + g->n_greedy) * sizeof *tokens, "tokens");
        goto done;
    }
    memcpy(tokens, g->ids, (size_t)g->n_ids * sizeof *tokens);
    memcpy(tokens + g->n_ids, g->greedy, (size_t)g->n_greedy * sizeof *tokens);
    if (ochre_sequence_create(session, &seq, &e) != OCHRE_OK) {
        seq = -1;
        st = from_public(err, &e);
        goto done;
    }
    for (int at = 0; at < n_input;) {
        /* A prompt goes in by large steps; where logits are compared, by the caller's. */
        bool compared = at >= first;
        int limit = at < g->n_ids - 1 ? 64 : step_tokens, end = compared ? n_input : first;
        if (at < g->n_ids - 1) end = OCH_MIN(end, g->n_ids - 1);
        int n = OCH_MIN(end - at, limit);
        OCH_TRY_GOTO(step(session, seq, tokens + at, n, compared, err));
        if (compared) {
            size_t rows;
            const float *q = ochre_step_logits(session, &rows);
            if (!q || rows != (size_t)n) {
                st = och_err_set(err, OCH_INTERNAL, "a step of %d tokens gave %zu rows of logits", n, q ? rows : 0);
                goto done;
            }
            for (int i = 0; i < n; i++)
                compare_row(g, at + i, q + (size_t)i * (size_t)n_vocab, n_vocab, r, &kl_sum, diffs, &n_diffs);
        }
        at += n;
    }
    r->mean_kl = r->n_positions ? kl_sum / r->n_positions : 0;
    for (int i = 0; i < n_diffs; i++) {
        diffs[i].near_tie = diffs[i].gap < 2 * r->worst_delta && isfinite(r->worst_delta);
        r->n_near_ties += diffs[i].near_tie;
        if (r->n_listed < OCH_VERIFY_MAX_LISTED) r->differences[r->n_listed++] = diffs[i];
    }
done:
    if (seq >= 0 && ochre_sequence_release(session, seq, &e) != OCHRE_OK && st == OCH_OK) st = from_public(err, &e);
    och_free(tokens);
    och_free(diffs);
    return st;
}

och_status och_golden_generate(ochre_session *session, int n_vocab, const char *name, const int32_t *ids, int n_ids,
                               int n_greedy, och_golden_prompt *out_prompt, och_err *err) {
    och_golden_prompt *g = out_prompt;
    int32_t seq = -1;
    ochre_error e = {0};
    och_status st = OCH_OK;
    *g = (och_golden_prompt){.n_ids = n_ids, .n_greedy = n_greedy, .n_vocab = n_vocab, .n_rows = n_ids + n_greedy - 1};
    g->name = och_strdup(name);
    g->ids = och_malloc_array((size_t)n_ids, sizeof *g->ids);
    g->greedy = och_malloc_array((size_t)n_greedy, sizeof *g->greedy);
    g->logits = och_malloc_array((size_t)g->n_rows, (size_t)n_vocab * sizeof *g->logits);
    if (!g->name || !g->ids || !g->greedy || !g->logits) {
        st = och_err_nomem(err, (uint64_t)g->n_rows * (uint64_t)n_vocab * sizeof *g->logits, "reference logits");
        goto done;
    }
    memcpy(g->ids, ids, (size_t)n_ids * sizeof *ids);
    if (ochre_sequence_create(session, &seq, &e) != OCHRE_OK) {
        seq = -1;
        st = from_public(err, &e);
        goto done;
    }
    for (int at = 0; at < g->n_rows;) {
        const int32_t *tokens = at < n_ids ? ids + at : &g->greedy[at - n_ids];
        int n = at < n_ids ? OCH_MIN(n_ids - at, 64) : 1;
        OCH_TRY_GOTO(step(session, seq, tokens, n, true, err));
        size_t rows;
        const float *q = ochre_step_logits(session, &rows);
        if (!q || rows != (size_t)n) {
            st = och_err_set(err, OCH_INTERNAL, "a step of %d tokens gave %zu rows of logits", n, q ? rows : 0);
            goto done;
        }
        memcpy(g->logits + (size_t)at * (size_t)n_vocab, q, rows * (size_t)n_vocab * sizeof *q);
        at += n;
        if (at >= n_ids) g->greedy[at - n_ids] = arg_max(q + (rows - 1) * (size_t)n_vocab, n_vocab);
    }
done:
    if (seq >= 0 && ochre_sequence_release(session, seq, &e) != OCHRE_OK && st == OCH_OK) st = from_public(err, &e);
    if (st != OCH_OK) och_golden_prompt_deinit(g);
    return st;
}

/* ---- bounds ---- */

/* |delta| is held relative to the greatest |logit|: models differ tenfold in the size of their logits. A state of eight-bit floats is as
 * far off as weights below 8 bits beside products of integers, and has both: seen of Gemma in Q4_K_M 0.07 by the reference, 0.04 by
 * such products with a state of halves, 0.12 by both (a CPU without AMX). */
static const och_verify_bounds bounds[] = {
    {"the float32 reference", 1e-4, INFINITY, 0.05},
    {"weights of 8 bits and more", 0.03, 1e-3, 0.05},
    {"weights below 8 bits", 0.1, 5e-3, 0.05},
    {"a state of eight-bit floats", 0.14, 1e-2, 0.05},
};

const och_verify_bounds *och_verify_bounds_for(bool strict, och_dtype coarsest, och_dtype state) {
    if (state == OCH_DTYPE_F8_E4M3) return &bounds[3];
    if (strict) return &bounds[0];
    const och_dtype_info *t = och_dtype_get(coarsest);
    return t && t->block_bytes >= t->block_elems ? &bounds[1] : &bounds[2];
}

void och_verify_total_add(och_verify_total *t, const och_verify_result *r) {
    double relative = r->max_abs > 0 ? r->worst_delta / r->max_abs : r->worst_delta > 0 ? INFINITY : 0;
    t->mean_kl = (t->mean_kl * t->n_positions + r->mean_kl * r->n_positions) / OCH_MAX(t->n_positions + r->n_positions, 1);
    t->n_prompts++;
    t->n_positions += r->n_positions;
    t->n_tokens += r->n_tokens;
    t->n_equal += r->n_equal;
    t->n_near_ties += r->n_near_ties;
    t->worst_delta = fmax(t->worst_delta, r->worst_delta);
    t->worst_relative = fmax(t->worst_relative, relative);
}

/* Comparisons are written so that NaN fails. */
const char *och_verify_judge(const och_verify_total *t, const och_verify_bounds *b) {
    if (!(t->worst_relative <= b->max_relative)) return "worst |delta| / max |logit|";
    if (!(t->mean_kl <= b->max_kl)) return "mean KL";
    if (t->n_equal + t->n_near_ties != t->n_tokens) return "a token that is no near tie";
    if (t->n_near_ties > b->max_share * t->n_tokens) return "share of near ties";
    return NULL;
}
