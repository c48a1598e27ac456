/* The vocabulary: entries, the table from text to id, merges, accessors. */
#include "base/alloc.h"
#include "base/size.h"
#include "tok/internal.h"
#include "tok/utf8.h"

#include <stdio.h>
#include <string.h>

och_status och_tok_grow(void **inout_p, size_t *inout_capacity, size_t need, size_t elem_bytes, const char *what,
                        och_err *err) {
    if (need <= *inout_capacity) return OCH_OK;
    size_t capacity = *inout_capacity > SIZE_MAX / 2 ? need : OCH_MAX(*inout_capacity * 2, (size_t)16);
    if (capacity < need) capacity = need;
    void *p = och_realloc_array(*inout_p, capacity, elem_bytes);
    if (!p) return och_err_nomem(err, capacity > SIZE_MAX / elem_bytes ? SIZE_MAX : capacity * elem_bytes, what);
    *inout_p = p;
    *inout_capacity = capacity;
    return OCH_OK;
}

void och_tok_ids_init(och_tok_ids *a) { *a = (och_tok_ids){0}; }
void och_tok_ids_clear(och_tok_ids *a) { a->n = 0; }
void och_tok_ids_deinit(och_tok_ids *a) {
    if (!a) return;
    och_free(a->ids);
    *a = (och_tok_ids){0};
}
och_status och_tok_ids_push(och_tok_ids *a, int32_t id, och_err *err) {
    if (a->n == a->capacity) {
        void *p = a->ids;
        OCH_TRY(och_tok_grow(&p, &a->capacity, a->n + 1, sizeof *a->ids, "token ids", err));
        a->ids = p;
    }
    a->ids[a->n++] = id;
    return OCH_OK;
}

void och_tok_quote(const char *s, size_t n, char *out, size_t out_size) {
    size_t o = 0;
    for (size_t i = 0; i < n && o + 8 < out_size;) {
        const unsigned char *p = (const unsigned char *)s + i;
        size_t len = och_utf8_len(p, n - i);
        if (len == 0 || (len == 1 && (*p < 0x20 || *p == 0x7F))) {
            o += (size_t)snprintf(out + o, out_size - o, "\\x%02X", *p);
            i++;
        } else {
            memcpy(out + o, p, len);
            o += len;
            i += len;
        }
        if (o > 60 && i < n) {
            if (o + 4 < out_size) o += (size_t)snprintf(out + o, out_size - o, "...");
            break;
        }
    }
    out[o] = 0;
}

och_status och_tok_alloc(och_tok **out_tok, och_err *err) {
    och_tok *t = och_calloc(1, sizeof *t);
    *out_tok = t;
    if (!t) return och_err_nomem(err, sizeof *t, "a tokenizer");
    t->bos = t->eos = t->unk = t->pad = t->unk_fallback = -1;
    for (int i = 0; i < 256; i++) t->byte_id[i] = -1;
    return OCH_OK;
}

void och_tok_destroy(och_tok *t) {
    if (!t) return;
    och_tok_pre_deinit(t);
    och_tok_special_deinit(&t->raw);
    och_tok_special_deinit(&t->normalized);
    for (size_t i = 0; i < t->n_norm; i++) {
        och_free(t->norm[i].from);
        och_free(t->norm[i].to);
    }
    och_free(t->text);
    och_free(t->off);
    och_free(t->type);
    och_free(t->score);
    och_free(t->slots);
    och_free(t->merges);
    och_free(t->pre_name);
    och_free(t->chat);
    och_free(t->chat_bos);
    och_free(t->chat_eos);
    och_tok_ids_deinit(&t->prefix);
    och_tok_ids_deinit(&t->suffix);
    och_tok_ids_deinit(&t->ends);
    och_free(t);
}

och_status och_tok_vocab_reserve(och_tok *t, size_t n, uint64_t text_bytes, bool scores, och_err *err) {
    if (n == 0) return och_err_set(err, OCH_CORRUPT, "the vocabulary is empty");
    if (n > OCH_TOK_MAX_VOCAB)
        return och_err_set(err, OCH_RANGE, "the vocabulary has %zu entries, at most %u are allowed", n,
                           OCH_TOK_MAX_VOCAB);
    if (text_bytes > INT32_MAX)
        return och_err_set(err, OCH_RANGE, "the vocabulary's text is %llu bytes, at most %d are allowed",
                           (unsigned long long)text_bytes, INT32_MAX);
    t->text = och_malloc((size_t)text_bytes + 1);
    t->off = och_calloc(n + 1, sizeof *t->off);
    t->type = och_malloc(n);
    if (scores) t->score = och_calloc(n, sizeof *t->score);
    if (!t->text || !t->off || !t->type || (scores && !t->score))
        return och_err_nomem(err, text_bytes + n * 9, "the vocabulary");
    memset(t->type, OCH_TOK_NORMAL, n);
    t->n = (int32_t)n;
    return OCH_OK;
}

/* Eight bytes a step; quality matters only for the spread over a table. */
static uint32_t hash_text(const char *s, size_t n) {
    uint64_t h = 0x9E3779B97F4A7C15u ^ n, w;
    for (; n >= 8; n -= 8, s += 8) {
        memcpy(&w, s, 8);
        h = (h ^ w) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    w = 0;
    memcpy(&w, s, n);
    h = (h ^ w) * 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    return (uint32_t)(h >> 32);
}

static bool table_size(size_t n, uint32_t *out_mask) {
    uint32_t size = 16;
    while (size < n * 2) {
        if (size > UINT32_MAX / 2) return false;
        size *= 2;
    }
    *out_mask = size - 1;
    return true;
}

och_status och_tok_vocab_index(och_tok *t, och_err *err) {
    if (!table_size((size_t)t->n, &t->slot_mask)) return och_err_set(err, OCH_RANGE, "the vocabulary is too large");
    t->slots = och_malloc_array((size_t)t->slot_mask + 1, sizeof *t->slots);
    if (!t->slots) return och_err_nomem(err, ((uint64_t)t->slot_mask + 1) * sizeof *t->slots, "the vocabulary's table");
    memset(t->slots, 0xFF, ((size_t)t->slot_mask + 1) * sizeof *t->slots);
    for (int32_t id = 0; id < t->n; id++) {
        const char *s = och_tok_text(t, id);
        size_t len = och_tok_len(t, id);
        if (len > t->max_len) t->max_len = len;
        if (len == 0) continue; /* a hole: it can be decoded, never looked up */
        uint32_t h = hash_text(s, len), i = h & t->slot_mask;
        for (; t->slots[i].id >= 0; i = (i + 1) & t->slot_mask) {
            int32_t other = t->slots[i].id;
            if (t->slots[i].hash == h && och_tok_len(t, other) == len && memcmp(och_tok_text(t, other), s, len) == 0) {
                char q[96];
                och_tok_quote(s, len, q, sizeof q);
                return och_err_set(err, OCH_CORRUPT, "token %d repeats token %d: '%s'", id, other, q);
            }
        }
        t->slots[i] = (och_tok_slot){.hash = h, .id = id};
    }
    return OCH_OK;
}

int32_t och_tok_id(const och_tok *t, const char *text, size_t n_bytes) {
    if (n_bytes == 0 || n_bytes > t->max_len) return -1;
    uint32_t h = hash_text(text, n_bytes);
    for (uint32_t i = h & t->slot_mask; t->slots[i].id >= 0; i = (i + 1) & t->slot_mask) {
        int32_t id = t->slots[i].id;
        if (t->slots[i].hash == h && och_tok_len(t, id) == n_bytes && memcmp(och_tok_text(t, id), text, n_bytes) == 0)
            return id;
    }
    return -1;
}

och_status och_tok_merges_reserve(och_tok *t, size_t n, och_err *err) {
    if (n > UINT32_MAX / 4 || !table_size(n, &t->merge_mask))
        return och_err_set(err, OCH_RANGE, "the vocabulary has %zu merges, at most %u are allowed", n, UINT32_MAX / 4);
    t->merges = och_malloc_array((size_t)t->merge_mask + 1, sizeof *t->merges);
    if (!t->merges) return och_err_nomem(err, ((uint64_t)t->merge_mask + 1) * sizeof *t->merges, "the merges");
    memset(t->merges, 0xFF, ((size_t)t->merge_mask + 1) * sizeof *t->merges);
    return OCH_OK;
}

static inline uint32_t hash_pair(int32_t left, int32_t right) {
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    h ^= h >> 32;
    return (uint32_t)(h * 0xD6E8FEB86659FD93u >> 32);
}

const och_tok_merge *och_tok_merge_find(const och_tok *t, int32_t left, int32_t right) {
    for (uint32_t i = hash_pair(left, right) & t->merge_mask;; i = (i + 1) & t->merge_mask) {
        const och_tok_merge *m = &t->merges[i];
        if (m->left == left && m->right == right) return m;
        if (m->left < 0) return NULL;
    }
}

och_status och_tok_merge_put(och_tok *t, size_t rank, const char *left, size_t left_len, const char *right,
                             size_t right_len, och_err *err) {
    char q[96];
    int32_t l = och_tok_id(t, left, left_len), r = och_tok_id(t, right, right_len), id = -1;
    if (l < 0 || r < 0) {
        och_tok_quote(l < 0 ? left : right, l < 0 ? left_len : right_len, q, sizeof q);
        return och_err_set(err, OCH_CORRUPT, "merge %zu names '%s', which is no token", rank, q);
    }
    if (left_len + right_len <= t->max_len) {
        char stack[512], *both = stack;
        if (left_len + right_len > sizeof stack) {
            both = och_malloc(left_len + right_len);
            if (!both) return och_err_nomem(err, left_len + right_len, "a merge");
        }
        memcpy(both, left, left_len);
        memcpy(both + left_len, right, right_len);
        id = och_tok_id(t, both, left_len + right_len);
        if (both != stack) och_free(both);
    }
    if (id < 0) {
        char q2[96];
        och_tok_quote(left, left_len, q, sizeof q);
        och_tok_quote(right, right_len, q2, sizeof q2);
        return och_err_set(err, OCH_CORRUPT, "merge %zu makes '%s' + '%s', which together are no token", rank, q, q2);
    }
    uint32_t i = hash_pair(l, r) & t->merge_mask;
    for (; t->merges[i].left >= 0; i = (i + 1) & t->merge_mask)
        if (t->merges[i].left == l && t->merges[i].right == r) return OCH_OK;
    t->merges[i] = (och_tok_merge){.left = l, .right = r, .rank = (uint32_t)rank, .id = id};
    t->n_merges++;
    return OCH_OK;
}

/* The byte-level alphabet (GPT-2): a printable Latin-1 byte is its own letter, the 68 others are U+0100 and up in
 * order. */
static bool is_own_letter(uint32_t b) { return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE; }

uint32_t och_tok_byte_letter(unsigned char byte) {
    if (is_own_letter(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    if (byte <= 0xA0) return 0x100u + 33 + (byte - 0x7Fu);
    return 0x143;
}

int och_tok_letter_byte(uint32_t cp) {
    if (cp < 0x100) return is_own_letter(cp) ? (int)cp : -1;
    if (cp <= 0x120) return (int)(cp - 0x100);
    if (cp <= 0x142) return (int)(cp - 0x121 + 0x7F);
    return cp == 0x143 ? 0xAD : -1;
}

static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

och_status och_tok_add_end(och_tok *t, int32_t id, och_err *err) {
    if (id < 0 || id >= t->n) return OCH_OK;
    for (size_t i = 0; i < t->ends.n; i++)
        if (t->ends.ids[i] == id) return OCH_OK;
    return och_tok_ids_push(&t->ends, id, err);
}

/* Names that models in use give to the token that ends a turn or a text. */
static const char *const end_names[] = {
    "<|im_end|>",     "<|eot_id|>",   "<|eom_id|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
    "<|end|>",        "<|return|>",   "<|call|>",   "<EOT>",         "<|END_OF_TURN_TOKEN|>",
    "<|end_of_turn|>", "<eos>",       "</s>",       "<turn|>",
    ("<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"),
};

och_status och_tok_vocab_finish(och_tok *t, och_err *err) {
    if (t->byte_level) {
        for (int b = 0; b < 256; b++) {
            unsigned char u[4];
            size_t len = och_utf8_put(och_tok_byte_letter((unsigned char)b), u);
            t->byte_id[b] = och_tok_id(t, (const char *)u, len);
        }
    }
    for (int32_t id = 0; id < t->n; id++) {
        const char *s = och_tok_text(t, id);
        size_t len = och_tok_len(t, id);
        if (t->type[id] == OCH_TOK_UNUSED) t->has_unused = true;
        if (t->type[id] == OCH_TOK_BYTE) {
            int hi = len == 6 ? hex(s[3]) : -1, lo = len == 6 ? hex(s[4]) : -1;
            if (hi < 0 || lo < 0 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') {
                char q[96];
                och_tok_quote(s, len, q, sizeof q);
                return och_err_set(err, OCH_CORRUPT, "token %d is marked as a byte, expected <0xNN>, found '%s'", id,
                                   q);
            }
            if (!t->byte_level) t->byte_id[hi * 16 + lo] = id;
        }
        if (!t->byte_level && t->type[id] != OCH_TOK_CONTROL && t->type[id] != OCH_TOK_UNKNOWN &&
            t->type[id] != OCH_TOK_BYTE) {
            bool was_space = true;
            for (size_t i = 0; i < len; i++) {
                bool space = len - i >= 3 && memcmp(s + i, OCH_TOK_SPACE, 3) == 0;
                if (space && !was_space) t->joins_space[(unsigned char)s[i - 1]] = true;
                if (space) i += 2;
                was_space = space;
            }
        }
    }
    OCH_TRY(och_tok_add_end(t, t->eos, err));
    for (size_t i = 0; i < OCH_COUNT(end_names); i++) {
        int32_t id = och_tok_id(t, end_names[i], strlen(end_names[i]));
        if (id < 0) continue;
        /* "</s>" may be markup, in a vocabulary trained on it or among its user-defined entries; "<|" never is */
        if (t->type[id] == OCH_TOK_CONTROL || memcmp(end_names[i], "<|", 2) == 0)
            OCH_TRY(och_tok_add_end(t, id, err));
    }
    return OCH_OK;
}

int32_t och_tok_vocab_size(const och_tok *t) { return t->n; }
int32_t och_tok_bos(const och_tok *t) { return t->bos; }
int32_t och_tok_eos(const och_tok *t) { return t->eos; }
int32_t och_tok_unk(const och_tok *t) { return t->unk; }
int32_t och_tok_pad(const och_tok *t) { return t->pad; }
bool och_tok_adds_bos(const och_tok *t) { return t->add_bos; }
bool och_tok_adds_eos(const och_tok *t) { return t->add_eos; }
const char *och_tok_kind(const och_tok *t) { return t->byte_level ? "byte-level BPE" : "SentencePiece BPE"; }
const char *och_tok_pre(const och_tok *t) { return t->pre_name ? t->pre_name : ""; }

bool och_tok_is_end(const och_tok *t, int32_t id) {
    for (size_t i = 0; i < t->ends.n; i++)
        if (t->ends.ids[i] == id) return true;
    return false;
}

size_t och_tok_end_ids(const och_tok *t, const int32_t **out_ids) {
    *out_ids = t->ends.ids;
    return t->ends.n;
}

bool och_tok_is_special(const och_tok *t, int32_t id) {
    return id >= 0 && id < t->n && (t->type[id] == OCH_TOK_CONTROL || t->type[id] == OCH_TOK_UNKNOWN);
}

bool och_tok_piece(const och_tok *t, int32_t id, const char **out_ptr, size_t *out_len) {
    *out_ptr = "";
    *out_len = 0;
    if (id < 0 || id >= t->n) return false;
    *out_ptr = och_tok_text(t, id);
    *out_len = och_tok_len(t, id);
    return true;
}
