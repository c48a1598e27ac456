/* Tokenizers: text to ids, ids to text, chat turns to text.
 *
 * Two algorithms: byte-level BPE (a pre-tokenizer splits the text, then merges by rank) and SentencePiece BPE with byte
 * fallback (no split, merges by score or by rank). Both come from a GGUF's metadata or from a tokenizer.json. What is
 * known to exist and not built here (WordPiece, Unigram, unknown pre-tokenizers) is refused by name.
 *
 * An och_tok is immutable after open: any number of threads may encode and decode with one. */
#ifndef OCH_TOK_TOK_H
#define OCH_TOK_TOK_H

#include "base/status.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct och_gguf och_gguf; /* file/gguf.h */
typedef struct och_tok och_tok;

/* A growable array of ids. Zero-initialise or och_tok_ids_init; release with och_tok_ids_deinit. */
typedef struct och_tok_ids {
    int32_t *ids; /* owned, [n] */
    size_t n;
    size_t capacity;
} och_tok_ids;

void och_tok_ids_init(och_tok_ids *a);
void och_tok_ids_deinit(och_tok_ids *a);
void och_tok_ids_clear(och_tok_ids *a); /* keeps the memory */
och_status och_tok_ids_push(och_tok_ids *a, int32_t id, och_err *err) OCH_WARN_UNUSED;

/* Open. The tokenizer copies what it needs: g may be closed afterwards. CORRUPT: the vocabulary contradicts itself;
 * UNSUPPORTED: a model, pre-tokenizer or feature that is not built, named in the message; NOTFOUND: no vocabulary.
 * The configuration path (tokenizer_config.json: chat template, bos, eos) may be NULL; generation_config.json beside it
 * is not read. */
och_status och_tok_open_gguf(const och_gguf *g, och_tok **out_tok, och_err *err) OCH_WARN_UNUSED;
och_status och_tok_open_json(const char *tokenizer_json_path, const char *tokenizer_config_path, och_tok **out_tok,
                             och_err *err) OCH_WARN_UNUSED;
/* The same from memory; config may be NULL. */
och_status och_tok_open_json_text(const char *json, size_t n_bytes, const char *config, size_t n_config_bytes,
                                  och_tok **out_tok, och_err *err) OCH_WARN_UNUSED;
void och_tok_destroy(och_tok *tok); /* NULL is allowed */

enum {
    OCH_TOK_ADD_SPECIAL = 1u,  /* add bos and eos as the model says */
    OCH_TOK_PARSE_SPECIAL = 2u /* control tokens spelled in the text become their ids (user-defined ones always do) */
};

/* Appends the ids of text[0 .. n_bytes) to out; text needs no NUL and may hold any bytes. On failure out keeps what it
 * held on entry. NOMEM, or RANGE where the text exceeds 1 GiB, or where an expression or a
 * replacement of a tokenizer.json runs away with it. Time is O(n log n).
 * Bytes that are not UTF-8: byte-level BPE maps each such byte to its own byte token (and a pre-tokenizer sees it as
 * one character that is neither letter, digit nor space); SentencePiece falls back to the byte's token, or unk. */
och_status och_tok_encode(const och_tok *tok, const char *text, size_t n_bytes, unsigned flags, och_tok_ids *out,
                          och_err *err) OCH_WARN_UNUSED;

/* Ids. -1: the model has none. */
int32_t och_tok_vocab_size(const och_tok *tok);
int32_t och_tok_bos(const och_tok *tok);
int32_t och_tok_eos(const och_tok *tok);
int32_t och_tok_unk(const och_tok *tok);
int32_t och_tok_pad(const och_tok *tok);
bool och_tok_adds_bos(const och_tok *tok); /* whether OCH_TOK_ADD_SPECIAL puts bos first */
bool och_tok_adds_eos(const och_tok *tok);
/* True for every id that ends a generation: eos, eot, <end_of_turn>, <|im_end|>, <|eot_id|>, ... */
bool och_tok_is_end(const och_tok *tok, int32_t id);
bool och_tok_is_special(const och_tok *tok, int32_t id); /* a control token: skipped when special tokens are skipped */
/* All end ids; *out_ids is borrowed. */
size_t och_tok_end_ids(const och_tok *tok, const int32_t **out_ids);

/* The token's entry as the vocabulary spells it (byte-level letters, "\xE2\x96\x81" for a space, "<0x0A>"), borrowed,
 * not NUL-terminated. False, and an empty text, when id is outside the vocabulary. */
bool och_tok_piece(const och_tok *tok, int32_t id, const char **out_ptr, size_t *out_len);
/* The id of an entry spelled like that; -1 when there is none. */
int32_t och_tok_id(const och_tok *tok, const char *text, size_t n_bytes);
/* "byte-level BPE", "SentencePiece BPE"; and the pre-tokenizer's name ("" where there is none). */
const char *och_tok_kind(const och_tok *tok);
const char *och_tok_pre(const och_tok *tok);

/* Streaming detokeniser: appends whole characters only. Up to 3 bytes of an unfinished character wait inside. Bytes
 * that are not UTF-8 become U+FFFD, one for each maximal subpart (Unicode 3.9, table 3-8), so that any way of cutting
 * the ids gives the text of decoding all at once. Plain struct, nothing owned: tok must outlive it. */
typedef struct och_detok {
    const och_tok *tok;
    bool skip_special;
    bool started;           /* a token has been seen: the dummy prefix is stripped from the first only */
    unsigned char tail[4];
    uint32_t n_tail;
} och_detok;

void och_detok_init(och_detok *d, const och_tok *tok, bool skip_special);
/* INVALID for an id outside the vocabulary; NOMEM. */
och_status och_detok_push(och_detok *d, int32_t id, och_strbuf *out, och_err *err) OCH_WARN_UNUSED;
/* Ends the text: an unfinished character becomes U+FFFD. The detokeniser may then start anew. */
och_status och_detok_flush(och_detok *d, och_strbuf *out, och_err *err) OCH_WARN_UNUSED;
/* All at once. */
och_status och_tok_decode(const och_tok *tok, const int32_t *ids, size_t n, bool skip_special, och_strbuf *out,
                          och_err *err) OCH_WARN_UNUSED;

/* Chat. Renders as the model's own template would, for the families known: ChatML, Llama-2, Llama-3, Gemma, Mistral.
 * The text holds the special tokens spelled out, bos included where the template writes it: encode it with
 * OCH_TOK_PARSE_SPECIAL alone. Roles are "system", "user", "assistant".
 * NOTFOUND: the model has no template; UNSUPPORTED: a template of no known family (its first line is in the message);
 * INVALID: a conversation which the template refuses (a role out of order, a system turn where none is allowed). */
typedef struct och_tok_turn {
    const char *role;    /* NUL-terminated */
    const char *content; /* NUL-terminated, UTF-8 */
} och_tok_turn;

bool och_tok_has_chat(const och_tok *tok); /* a template is there, of whatever family */
const char *och_tok_chat_family(const och_tok *tok); /* "chatml", ...; "" when none is known */
const char *och_tok_chat_template(const och_tok *tok); /* the Jinja text, "" when there is none */
och_status och_tok_chat(const och_tok *tok, const och_tok_turn *turns, size_t n_turns, bool add_generation_prompt,
                        och_strbuf *out, och_err *err) OCH_WARN_UNUSED;

#endif
