/* What the files of this room share. Nothing outside src/tok includes it. */
#ifndef OCH_TOK_INTERNAL_H
#define OCH_TOK_INTERNAL_H

#include "tok/tok.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OCH_TOK_MAX_VOCAB (1u << 24)
#define OCH_TOK_MAX_TEXT_BYTES (UINT64_C(1) << 30)
#define OCH_TOK_MAX_ENTRY 8192 /* bytes of one entry; the longest in use are some hundreds */
#define OCH_TOK_SPACE "\xE2\x96\x81" /* U+2581, SentencePiece's spelling of a space */

/* Values equal those of GGUF's tokenizer.ggml.token_type. */
typedef enum och_tok_type {
    OCH_TOK_UNDEFINED = 0,
    OCH_TOK_NORMAL = 1,
    OCH_TOK_UNKNOWN = 2,
    OCH_TOK_CONTROL = 3,
    OCH_TOK_USER_DEFINED = 4,
    OCH_TOK_UNUSED = 5,
    OCH_TOK_BYTE = 6
} och_tok_type;

typedef struct och_tok_slot {
    uint32_t hash;
    int32_t id; /* -1: free */
} och_tok_slot;

typedef struct och_tok_merge {
    int32_t left, right; /* left -1: free */
    uint32_t rank;
    int32_t id;
} och_tok_merge;

/* A token that is cut out of the text before anything else (an added token). */
typedef struct och_tok_special {
    char *text; /* owned, what the text must spell */
    size_t len;
    int32_t id;
    bool control; /* only with OCH_TOK_PARSE_SPECIAL */
    bool lstrip, rstrip, single_word;
} och_tok_special;

typedef struct och_tok_special_set {
    och_tok_special *v; /* owned, sorted by text */
    size_t n, capacity;
    uint32_t first[256]; /* index of the first entry that starts with the byte; n where none does */
    uint32_t count[256];
} och_tok_special_set;

typedef enum och_tok_norm_kind { OCH_TOK_NORM_NFC, OCH_TOK_NORM_REPLACE, OCH_TOK_NORM_PREPEND } och_tok_norm_kind;
typedef struct och_tok_norm {
    och_tok_norm_kind kind;
    char *from, *to; /* owned; PREPEND uses `to` */
    size_t from_len, to_len;
} och_tok_norm;

typedef enum och_tok_split {
    OCH_TOK_ISOLATED,
    OCH_TOK_REMOVED,
    OCH_TOK_CONTIGUOUS,
    OCH_TOK_MERGED_PREVIOUS,
    OCH_TOK_MERGED_NEXT
} och_tok_split;

typedef struct och_tok_pre_step {
    void *code; /* pcre2_code *, owned */
    och_tok_split split;
    bool invert;
} och_tok_pre_step;

#define OCH_TOK_MAX_STEPS 16

typedef enum och_tok_prefix { OCH_TOK_PREFIX_NEVER, OCH_TOK_PREFIX_FIRST, OCH_TOK_PREFIX_ALWAYS } och_tok_prefix;

struct och_tok {
    /* vocabulary */
    int32_t n;
    char *text;      /* owned, all entries one after another */
    uint32_t *off;   /* owned, [n + 1] */
    uint8_t *type;   /* owned, [n], och_tok_type */
    float *score;    /* owned, [n]; NULL when merges have ranks */
    och_tok_slot *slots; /* owned, [slot_mask + 1] */
    uint32_t slot_mask;
    size_t max_len; /* bytes of the longest entry */
    och_tok_merge *merges; /* owned, [merge_mask + 1] */
    uint32_t merge_mask;
    size_t n_merges;
    int32_t byte_id[256]; /* byte-level: the letter's id; else the "<0xXX>" token; -1: none */

    /* algorithm */
    bool byte_level;
    bool byte_fallback;
    bool fuse_unk;
    bool ignore_merges;  /* a piece that is an entry is that entry */
    bool has_unused;
    bool joins_space[256]; /* an entry holds U+2581 after a character that ends in this byte: a word may go on there */
    int32_t unk_fallback; /* what stands for a symbol without an entry; -1: it is dropped */
    och_tok_norm norm[OCH_TOK_MAX_STEPS];
    size_t n_norm;
    och_tok_pre_step step[OCH_TOK_MAX_STEPS];
    size_t n_step;
    char *pre_name; /* owned */
    bool spaces_alike;       /* U+2581 in the text is a space, before anything else */
    bool space_prefix;       /* ByteLevel add_prefix_space: a space before a segment that has none */
    bool metaspace;          /* Metaspace: space to U+2581, and the prefix below when the segment has none */
    och_tok_prefix metaspace_prefix;
    bool strip_left;         /* decode: one leading space of the text goes */

    och_tok_special_set raw, normalized; /* matched before and after normalising */

    /* ids */
    int32_t bos, eos, unk, pad;
    bool add_bos, add_eos;
    och_tok_ids prefix, suffix; /* with OCH_TOK_ADD_SPECIAL */
    och_tok_ids ends;

    char *chat; /* owned; NULL: no template */
    char *chat_bos, *chat_eos; /* owned; spelled out; "" when there is none */
};

/* -- vocabulary (vocab.c) -- */
och_status och_tok_alloc(och_tok **out_tok, och_err *err) OCH_WARN_UNUSED;
/* Makes room for n entries of text_bytes in all, all of them empty and NORMAL. */
och_status och_tok_vocab_reserve(och_tok *t, size_t n, uint64_t text_bytes, bool scores, och_err *err) OCH_WARN_UNUSED;
/* Fills the table of texts. CORRUPT: an entry that repeats another. */
och_status och_tok_vocab_index(och_tok *t, och_err *err) OCH_WARN_UNUSED;
och_status och_tok_merges_reserve(och_tok *t, size_t n, och_err *err) OCH_WARN_UNUSED;
/* Spelled parts; CORRUPT: a part or their union is no entry. The first of equal pairs counts. */
och_status och_tok_merge_put(och_tok *t, size_t rank, const char *left, size_t left_len, const char *right,
                             size_t right_len, och_err *err) OCH_WARN_UNUSED;
const och_tok_merge *och_tok_merge_find(const och_tok *t, int32_t left, int32_t right); /* NULL when absent */
/* byte_id, joins_space, has_unused, ends from the entries. */
och_status och_tok_vocab_finish(och_tok *t, och_err *err) OCH_WARN_UNUSED;
och_status och_tok_add_end(och_tok *t, int32_t id, och_err *err) OCH_WARN_UNUSED;
/* The byte that a letter of the byte-level alphabet stands for; -1: none. */
int och_tok_letter_byte(uint32_t cp);
uint32_t och_tok_byte_letter(unsigned char byte);
/* A printable rendering of an entry for messages. */
void och_tok_quote(const char *s, size_t n, char *out, size_t out_size);

static inline const char *och_tok_text(const och_tok *t, int32_t id) { return t->text + t->off[id]; }
static inline size_t och_tok_len(const och_tok *t, int32_t id) { return t->off[id + 1] - t->off[id]; }

/* -- added tokens (special.c) -- */
och_status och_tok_special_add(och_tok_special_set *s, const char *text, size_t len, och_tok_special flags,
                               och_err *err) OCH_WARN_UNUSED;
void och_tok_special_sort(och_tok_special_set *s);
bool och_tok_is_space(uint32_t cp); /* Unicode White_Space */
void och_tok_special_deinit(och_tok_special_set *s);
typedef struct och_tok_hit {
    size_t start, end; /* of the text consumed, blanks included where the token strips them */
    int32_t id;
} och_tok_hit;
/* The leftmost, then longest added token at or after `pos`; `taken` is where the previous one ended. False: none. */
bool och_tok_special_find(const och_tok_special_set *s, const char *text, size_t n, size_t pos, size_t taken,
                          bool control, och_tok_hit *out_hit, size_t *out_next);

/* -- normalising (norm.c): from in to out, which is cleared first; RANGE when it would exceed limit bytes, since a few
 * replacements in a row can make a text as long as they like -- */
#define OCH_TOK_NORM_LIMIT(n) ((uint64_t)(n) * 16 + 65536)
och_status och_tok_norm_apply(const och_tok_norm *op, const char *in, size_t n, uint64_t limit, och_strbuf *out,
                              och_err *err) OCH_WARN_UNUSED;
/* Appends in with each `from`, not empty, replaced. */
void och_tok_replace(const char *in, size_t n, const char *from, size_t from_len, const char *to, size_t to_len,
                     och_strbuf *out);

/* -- pre-tokenizing (pre.c) -- */
typedef struct och_tok_span {
    size_t start, end;
} och_tok_span;
typedef struct och_tok_spans {
    och_tok_span *v; /* owned */
    size_t n, capacity;
} och_tok_spans;
och_status och_tok_pre_add(och_tok *t, const char *pattern, size_t n_bytes, bool literal, och_tok_split split,
                           bool invert, och_err *err) OCH_WARN_UNUSED;
/* The rules that a GGUF names; sets normalisation, ignore_merges and add_bos too. UNSUPPORTED lists the known names. */
och_status och_tok_pre_named(och_tok *t, const char *name, och_err *err) OCH_WARN_UNUSED;
extern const char och_tok_gpt2_pattern[];
void och_tok_pre_deinit(och_tok *t);
/* Splits text[0 .. n) into out (cleared first); tmp is scratch. */
och_status och_tok_pre_split(const och_tok *t, const char *text, size_t n, och_tok_spans *out, och_tok_spans *tmp,
                             och_err *err) OCH_WARN_UNUSED;

/* -- merging (bpe.c) -- */
typedef struct och_tok_symbol {
    uint32_t start, len; /* in the piece; len 0: merged away */
    int32_t id;          /* -1: no entry */
    int32_t prev, next;  /* -1: none */
} och_tok_symbol;
typedef struct och_tok_cand {
    uint64_t key; /* rank, or falling score, above; index of the left symbol below */
    uint32_t len; /* of both together: a candidate is stale when this changed */
    int32_t id;
} och_tok_cand;
typedef struct och_tok_bpe {
    och_tok_symbol *sym; /* owned */
    size_t n_sym, sym_capacity;
    och_tok_cand *heap; /* owned */
    size_t n_heap, heap_capacity;
    och_tok_symbol *stack; /* owned; of resegmenting */
    size_t stack_capacity;
    bool last_unk;
} och_tok_bpe;
void och_tok_bpe_deinit(och_tok_bpe *b);
/* Appends the ids of one piece. */
och_status och_tok_bpe_piece(const och_tok *t, och_tok_bpe *b, const char *text, size_t n, och_tok_ids *out,
                             och_err *err) OCH_WARN_UNUSED;

/* Doubles *inout_p's capacity to hold at least `need` elements. */
och_status och_tok_grow(void **inout_p, size_t *inout_capacity, size_t need, size_t elem_bytes, const char *what,
                        och_err *err) OCH_WARN_UNUSED;

#endif
