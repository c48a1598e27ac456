/* Byte-pair merging: the best pair first, the leftmost of equals. Short pieces scan; long ones keep a heap, so that the
 * whole is O(n log n) and nothing recurses. */
#include "base/alloc.h"
#include "base/half.h"
#include "base/size.h"
#include "tok/internal.h"
#include "tok/utf8.h"

#include <string.h>

#define SCAN_MAX 24 /* symbols; above, the heap is faster than scanning all pairs for each merge */

void och_tok_bpe_deinit(och_tok_bpe *b) {
    och_free(b->sym);
    och_free(b->heap);
    och_free(b->stack);
    *b = (och_tok_bpe){0};
}

/* Orders like the float, highest first; -0 equals 0. */
static uint32_t score_key(float score) {
    uint32_t u = och_f32_bits(score + 0.0f);
    u = u & 0x80000000u ? ~u : u | 0x80000000u;
    return ~u;
}

/* The merge of two neighbours: false when there is none. */
static bool pair(const och_tok *t, const char *text, const och_tok_symbol *l, const och_tok_symbol *r,
                 uint32_t *out_rank, int32_t *out_id) {
    if (!t->score) {
        if (l->id < 0 || r->id < 0) return false;
        const och_tok_merge *m = och_tok_merge_find(t, l->id, r->id);
        if (!m) return false;
        *out_rank = m->rank;
        *out_id = m->id;
        return true;
    }
    /* by score: whatever together spells an entry that text may become */
    size_t len = (size_t)l->len + r->len;
    if (len > t->max_len) return false;
    int32_t id = och_tok_id(t, text + l->start, len);
    if (id < 0) return false;
    uint8_t type = t->type[id];
    if (type == OCH_TOK_CONTROL || type == OCH_TOK_UNKNOWN || type == OCH_TOK_BYTE) return false;
    *out_rank = score_key(t->score[id]);
    *out_id = id;
    return true;
}

/* -- a binary heap of candidates, least key on top -- */
static void sift_down(och_tok_cand *h, size_t n, size_t i) {
    och_tok_cand c = h[i];
    for (;;) {
        size_t k = 2 * i + 1;
        if (k >= n) break;
        if (k + 1 < n && h[k + 1].key < h[k].key) k++;
        if (h[k].key >= c.key) break;
        h[i] = h[k];
        i = k;
    }
    h[i] = c;
}

static och_status heap_push(och_tok_bpe *b, och_tok_cand c, och_err *err) {
    if (b->n_heap == b->heap_capacity) {
        void *p = b->heap;
        OCH_TRY(och_tok_grow(&p, &b->heap_capacity, b->n_heap + 1, sizeof *b->heap, "merging", err));
        b->heap = p;
    }
    size_t i = b->n_heap++;
    while (i > 0 && b->heap[(i - 1) / 2].key > c.key) {
        b->heap[i] = b->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    b->heap[i] = c;
    return OCH_OK;
}

static och_tok_cand heap_pop(och_tok_bpe *b) {
    och_tok_cand top = b->heap[0];
    b->heap[0] = b->heap[--b->n_heap];
    if (b->n_heap) sift_down(b->heap, b->n_heap, 0);
    return top;
}

static void join(och_tok_symbol *s, int32_t left, int32_t id) {
    int32_t right = s[left].next;
    s[left].len += s[right].len;
    s[left].id = id;
    s[left].next = s[right].next;
    s[right].len = 0;
    if (s[right].next >= 0) s[s[right].next].prev = left;
}

static och_status merge_heap(const och_tok *t, och_tok_bpe *b, const char *text, och_err *err) {
    och_tok_symbol *s = b->sym;
    och_tok_cand c;
    uint32_t rank;
    b->n_heap = 0;
    void *p = b->heap;
    OCH_TRY(och_tok_grow(&p, &b->heap_capacity, b->n_sym, sizeof *b->heap, "merging", err));
    b->heap = p;
    for (size_t i = 0; i + 1 < b->n_sym; i++)
        if (pair(t, text, &s[i], &s[i + 1], &rank, &c.id)) {
            c.key = (uint64_t)rank << 32 | i;
            c.len = s[i].len + s[i + 1].len;
            b->heap[b->n_heap++] = c;
        }
    for (size_t i = b->n_heap / 2; i-- > 0;) sift_down(b->heap, b->n_heap, i);
    while (b->n_heap) {
        c = heap_pop(b);
        int32_t left = (int32_t)(uint32_t)c.key, right = s[left].next;
        /* symbols only grow or vanish, so the length tells whether either side has changed since */
        if (s[left].len == 0 || right < 0 || s[left].len + s[right].len != c.len) continue;
        join(s, left, c.id);
        int32_t ends[2] = {s[left].prev, left};
        for (int k = 0; k < 2; k++) {
            int32_t l = ends[k], r = l < 0 ? -1 : s[l].next;
            if (r < 0 || !pair(t, text, &s[l], &s[r], &rank, &c.id)) continue;
            c.key = (uint64_t)rank << 32 | (uint32_t)l;
            c.len = s[l].len + s[r].len;
            OCH_TRY(heap_push(b, c, err));
        }
    }
    return OCH_OK;
}

/* Few symbols: the best pair of each is kept beside it and the least is found by looking at all. */
static void merge_scan(const och_tok *t, och_tok_bpe *b, const char *text) {
    och_tok_symbol *s = b->sym;
    uint64_t key[SCAN_MAX] = {UINT64_MAX};
    int32_t id[SCAN_MAX];
    size_t n = b->n_sym;
    uint32_t rank;
    for (size_t i = 0; i < n; i++) {
        key[i] = UINT64_MAX;
        if (i + 1 < n && pair(t, text, &s[i], &s[i + 1], &rank, &id[i])) key[i] = rank;
    }
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i < n; i++)
            if (key[i] < key[best]) best = i;
        if (key[best] == UINT64_MAX) return;
        int32_t left = (int32_t)best, gone = s[left].next;
        join(s, left, id[best]);
        key[gone] = UINT64_MAX;
        int32_t ends[2] = {s[left].prev, left};
        for (int k = 0; k < 2; k++) {
            int32_t l = ends[k];
            if (l < 0) continue;
            int32_t r = s[l].next;
            key[l] = r >= 0 && pair(t, text, &s[l], &s[r], &rank, &id[l]) ? rank : UINT64_MAX;
        }
    }
}

static och_status put_unk(const och_tok *t, och_tok_bpe *b, och_tok_ids *out, och_err *err) {
    if (t->unk_fallback < 0 || (b->last_unk && t->fuse_unk)) return OCH_OK;
    b->last_unk = true;
    return och_tok_ids_push(out, t->unk_fallback, err);
}

static och_status put_id(och_tok_bpe *b, int32_t id, och_tok_ids *out, och_err *err) {
    b->last_unk = false;
    return och_tok_ids_push(out, id, err);
}

/* A symbol that is no entry: its bytes, when all of them are entries, else unk. */
static och_status put_missing(const och_tok *t, och_tok_bpe *b, const unsigned char *p, size_t n, och_tok_ids *out,
                              och_err *err) {
    bool all = t->byte_fallback;
    for (size_t i = 0; all && i < n; i++) all = t->byte_id[p[i]] >= 0;
    if (!all) return put_unk(t, b, out, err);
    for (size_t i = 0; i < n; i++) OCH_TRY(put_id(b, t->byte_id[p[i]], out, err));
    return OCH_OK;
}

/* An UNUSED entry may carry merges but never stands in the result: it is taken apart into the two entries that make it
 * best, again and again. Each halving shortens the text, so the stack stays below the entry's length. */
static och_status put_unused(const och_tok *t, och_tok_bpe *b, const char *text, och_tok_symbol whole, och_tok_ids *out,
                             och_err *err) {
    size_t n = 0;
    och_tok_symbol cur = whole;
    for (;;) {
        size_t best = 0;
        int32_t best_l = -1, best_r = -1;
        if (cur.id >= 0 && t->type[cur.id] == OCH_TOK_UNUSED) {
            float best_score = 0;
            for (size_t k = 1; k < cur.len; k++) {
                int32_t l = och_tok_id(t, text + cur.start, k);
                int32_t r = l < 0 ? -1 : och_tok_id(t, text + cur.start + k, cur.len - k);
                if (r < 0) continue;
                float score = t->score ? OCH_MIN(t->score[l], t->score[r]) : 0;
                if (best && score <= best_score) continue;
                best = k, best_l = l, best_r = r, best_score = score;
            }
        }
        if (best) {
            void *p = b->stack;
            OCH_TRY(och_tok_grow(&p, &b->stack_capacity, n + 1, sizeof *b->stack, "merging", err));
            b->stack = p;
            b->stack[n++] =
                (och_tok_symbol){.start = cur.start + (uint32_t)best, .len = cur.len - (uint32_t)best, .id = best_r};
            cur = (och_tok_symbol){.start = cur.start, .len = (uint32_t)best, .id = best_l};
            continue;
        }
        OCH_TRY(cur.id >= 0 ? put_id(b, cur.id, out, err)
                            : put_missing(t, b, (const unsigned char *)text + cur.start, cur.len, out, err));
        if (n == 0) return OCH_OK;
        cur = b->stack[--n];
    }
}

static och_status sym_put(och_tok_bpe *b, size_t start, size_t len, int32_t id, och_err *err) {
    if (b->n_sym == b->sym_capacity) {
        void *p = b->sym;
        OCH_TRY(och_tok_grow(&p, &b->sym_capacity, b->n_sym + 1, sizeof *b->sym, "merging", err));
        b->sym = p;
    }
    int32_t i = (int32_t)b->n_sym++;
    b->sym[i] =
        (och_tok_symbol){.start = (uint32_t)start, .len = (uint32_t)len, .id = id, .prev = i - 1, .next = i + 1};
    return OCH_OK;
}

/* Merges what b->sym holds, and writes it out. */
static och_status run(const och_tok *t, och_tok_bpe *b, const char *text, och_tok_ids *out, och_err *err) {
    if (b->n_sym == 0) return OCH_OK;
    b->sym[b->n_sym - 1].next = -1;
    if (b->n_sym > SCAN_MAX) OCH_TRY(merge_heap(t, b, text, err));
    else if (b->n_sym > 1) merge_scan(t, b, text);
    for (int32_t i = 0; i >= 0; i = b->sym[i].next) {
        och_tok_symbol s = b->sym[i];
        if (s.id >= 0 && t->has_unused && t->type[s.id] == OCH_TOK_UNUSED) OCH_TRY(put_unused(t, b, text, s, out, err));
        else if (s.id >= 0)
            OCH_TRY(s.id == t->unk_fallback && !t->score ? put_unk(t, b, out, err) : put_id(b, s.id, out, err));
        else OCH_TRY(put_missing(t, b, (const unsigned char *)text + s.start, s.len, out, err));
    }
    b->n_sym = 0;
    return OCH_OK;
}

static och_status piece_bytes(const och_tok *t, och_tok_bpe *b, const char *text, size_t n, och_tok_ids *out,
                              och_err *err) {
    const unsigned char *p = (const unsigned char *)text;
    if (t->ignore_merges && n <= t->max_len) {
        char letters[512];
        size_t len = 0;
        unsigned char u[4];
        for (size_t i = 0; i < n && len + 2 <= sizeof letters; i++) {
            size_t l = och_utf8_put(och_tok_byte_letter(p[i]), u);
            memcpy(letters + len, u, l);
            len += l;
            if (i + 1 == n) {
                int32_t id = och_tok_id(t, letters, len);
                if (id >= 0) return put_id(b, id, out, err);
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        int32_t id = t->byte_id[p[i]];
        if (id < 0) id = t->unk_fallback;
        if (id >= 0) OCH_TRY(sym_put(b, i, 1, id, err)); /* else the byte is dropped, as the reference does */
    }
    return run(t, b, text, out, err);
}

static och_status piece_chars(const och_tok *t, och_tok_bpe *b, const char *text, size_t n, och_tok_ids *out,
                              och_err *err) {
    const unsigned char *p = (const unsigned char *)text;
    if (t->ignore_merges) {
        int32_t id = och_tok_id(t, text, n);
        if (id >= 0) return put_id(b, id, out, err);
    }
    bool was_space = true;
    for (size_t i = 0; i < n;) {
        size_t len = och_utf8_len(p + i, n - i);
        if (len == 0) len = 1; /* a byte that is not UTF-8 is a symbol of its own */
        bool space = len == 3 && memcmp(p + i, OCH_TOK_SPACE, 3) == 0;
        /* where no merge crosses the start of a word, what is gathered can be finished while it is small */
        if (space && !was_space && !t->joins_space[p[i - 1]]) OCH_TRY(run(t, b, text, out, err));
        was_space = space;
        int32_t id = och_tok_id(t, text + i, len);
        if (id >= 0 && t->score && (t->type[id] == OCH_TOK_CONTROL || t->type[id] == OCH_TOK_UNKNOWN)) id = -1;
        if (id < 0 && !t->score && t->byte_fallback) {
            /* merges by rank see the bytes, as entries */
            bool all = true;
            for (size_t k = 0; all && k < len; k++) all = t->byte_id[p[i + k]] >= 0;
            for (size_t k = 0; all && k < len; k++) OCH_TRY(sym_put(b, i + k, 1, t->byte_id[p[i + k]], err));
            if (all) {
                i += len;
                continue;
            }
        }
        OCH_TRY(sym_put(b, i, len, id, err));
        i += len;
    }
    return run(t, b, text, out, err);
}

och_status och_tok_bpe_piece(const och_tok *t, och_tok_bpe *b, const char *text, size_t n, och_tok_ids *out,
                             och_err *err) {
    b->n_sym = 0;
    b->last_unk = false;
    if (n == 0) return OCH_OK;
    if (n > INT32_MAX)
        return och_err_set(err, OCH_RANGE, "a piece of text is %zu bytes, at most %d are allowed", n, INT32_MAX);
    return t->byte_level ? piece_bytes(t, b, text, n, out, err) : piece_chars(t, b, text, n, out, err);
}
