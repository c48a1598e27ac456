/* Ochre: language models on AMD GPUs and on the CPU.  Public C API.
 *
 * Handles are opaque. A function that can fail returns ochre_status and fills the caller's ochre_error (NULL is
 * allowed), whose message says what was expected, what was found and where. Options structs start with size_bytes: set
 * it with the OCHRE_*_INIT initialisers, so that a program built against an older header keeps working.
 *
 * Ownership: what *_create or *_open gives is released with *_destroy or *_close; pointers returned by other functions
 * are borrowed from the handle and valid until the call that is named there. A session keeps its model alive.
 *
 * Threads: a model may be used by several threads at once; a session by one thread at a time. */
#ifndef OCHRE_OCHRE_H
#define OCHRE_OCHRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define OCHRE_API __attribute__((visibility("default")))
#else
#define OCHRE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define OCHRE_ABI_VERSION 1

typedef enum ochre_status {
    OCHRE_OK = 0,
    OCHRE_INVALID = 1,     /* an argument or a request that makes no sense */
    OCHRE_RANGE = 2,       /* a size or an index outside what is allowed */
    OCHRE_NOMEM = 3,       /* an allocation failed, or a stated limit would be exceeded */
    OCHRE_NOTFOUND = 4,    /* a file or a tensor does not exist */
    OCHRE_UNSUPPORTED = 5, /* valid, but not something this build or device does */
    OCHRE_UNAVAILABLE = 6, /* a library or a device is absent */
    OCHRE_CORRUPT = 7,     /* a file contradicts its format */
    OCHRE_COMPILE = 8,     /* a kernel did not compile */
    OCHRE_DEVICE = 9,      /* the device reported an error */
    OCHRE_CANCELLED = 10,  /* a callback asked to stop */
    OCHRE_IO = 11,         /* the operating system refused a read, a write or a mapping */
    OCHRE_INTERNAL = 12    /* a defect of Ochre: please report it */
} ochre_status;

typedef struct ochre_error {
    ochre_status status;
    int64_t native_code; /* errno or the device's own code; 0 when there is none */
    char message[768];   /* lower case, no final period, NUL-terminated */
} ochre_error;

typedef struct ochre_model ochre_model;
typedef struct ochre_session ochre_session;

/* "0.1.0" */
OCHRE_API const char *ochre_version(void);
/* The library's OCHRE_ABI_VERSION; a program refuses to run with another one. */
OCHRE_API uint32_t ochre_abi_version(void);
OCHRE_API const char *ochre_status_name(ochre_status s);

/* ---- models ---- */

/* Called while loading; return false to stop with OCHRE_CANCELLED. done and total are bytes. */
typedef bool (*ochre_progress_fn)(void *user, const char *phase, uint64_t done, uint64_t total);

typedef struct ochre_model_options {
    size_t size_bytes;
    const char *device;    /* "auto", "cpu", "hip:0", "cuda:0", "sim:gfx1151": as `ochre devices` says; NULL: "auto" */
    int32_t n_threads;     /* CPU threads; 0: OCHRE_THREADS, else every CPU this process may use */
    const char *provider;  /* run only this provider ("reference", "cpu", "kernel", "blas"); NULL: OCHRE_OP_ONLY, else any */
    ochre_progress_fn progress;
    void *user;
} ochre_model_options;
#define OCHRE_MODEL_OPTIONS_INIT { sizeof(ochre_model_options), NULL, 0, NULL, NULL, NULL }

/* path: a GGUF file, or a Hugging Face folder (config.json, *.safetensors, tokenizer.json). options may be NULL. */
OCHRE_API ochre_status ochre_model_open(const char *path, const ochre_model_options *options, ochre_model **out_model,
                                        ochre_error *error);
OCHRE_API void ochre_model_close(ochre_model *model); /* NULL is allowed */

typedef struct ochre_model_info {
    size_t size_bytes; /* set by the caller */
    const char *architecture; /* borrowed from the model, as the strings below */
    const char *name;
    const char *device;
    uint64_t n_parameters;
    uint64_t weight_bytes; /* as stored in memory */
    int32_t n_layers, d_model, n_vocab, context_length;
    bool has_tokenizer, has_chat_template;
    int32_t bos_id, eos_id; /* -1: none */
} ochre_model_info;
OCHRE_API ochre_status ochre_model_describe(const ochre_model *model, ochre_model_info *info, ochre_error *error);

/* ---- text ---- */

#define OCHRE_ADD_SPECIAL 1u   /* begin and end tokens as the model wants them */
#define OCHRE_PARSE_SPECIAL 2u /* special tokens written in the text become their ids; another bit is OCHRE_INVALID */

/* Writes at most `capacity` ids and always the number there are; OCHRE_RANGE when there are more than fit. ids may be
 * NULL with capacity 0. */
OCHRE_API ochre_status ochre_tokenize(const ochre_model *model, const char *text, size_t text_bytes, uint32_t flags,
                                      int32_t *ids, size_t capacity, size_t *out_count, ochre_error *error);
/* The text of ids, special tokens left out; the same protocol, in bytes; no NUL is written. */
OCHRE_API ochre_status ochre_detokenize(const ochre_model *model, const int32_t *ids, size_t n_ids, char *text,
                                        size_t capacity, size_t *out_bytes, ochre_error *error);

typedef struct ochre_message {
    const char *role; /* "system", "user", "assistant" */
    const char *content;
} ochre_message;
/* The conversation in the model's own chat format, ready for generation. The same protocol, in bytes. */
OCHRE_API ochre_status ochre_apply_chat_template(const ochre_model *model, const ochre_message *messages,
                                                 size_t n_messages, char *text, size_t capacity, size_t *out_bytes,
                                                 ochre_error *error);

/* ---- sessions: state and steps ---- */

/* How keys and values are kept. FP8: eight-bit floats (OCP E4M3, no scales: numbers beyond 448 are kept as 448, with 3 bits of
 * mantissa), half of what F16 takes, at some loss: `ochre verify --kv-type fp8` measures it. */
typedef enum ochre_kv_type { OCHRE_KV_AUTO, OCHRE_KV_F32, OCHRE_KV_F16, OCHRE_KV_BF16, OCHRE_KV_FP8 } ochre_kv_type;

/* Whether steps of one token a sequence are captured as graphs and replayed: the same bytes, less work for the host. AUTO: as
 * the variable OCHRE_GRAPHS says, else by what was measured on the platform. ON fails where the device cannot. */
typedef enum ochre_graphs { OCHRE_GRAPHS_AUTO, OCHRE_GRAPHS_ON, OCHRE_GRAPHS_OFF } ochre_graphs;

typedef struct ochre_session_options {
    size_t size_bytes;
    int32_t max_sequences;   /* sequences alive at once; 0: 1 */
    int32_t max_context;     /* tokens a sequence may hold; 0: the model's context length, at most 4,096 */
    int32_t max_step_tokens; /* tokens in one step; 0: 512 */
    int32_t max_logits;      /* rows of logits in one step; 0: max_sequences */
    uint64_t kv_tokens;      /* tokens of full-attention state over all sequences; 0: max_sequences * max_context */
    ochre_kv_type kv_type;   /* AUTO: F16, or F32 when only the reference provider runs */
    bool batch_invariant;    /* one kernel variant for every batch: the same bytes alone and in company */
    ochre_graphs graphs;
    bool host_sampling;      /* tokens are chosen on the host even where the device can: they are the same */
} ochre_session_options;
#define OCHRE_SESSION_OPTIONS_INIT { sizeof(ochre_session_options), 0, 0, 0, 0, 0, OCHRE_KV_AUTO, false, OCHRE_GRAPHS_AUTO, false }

OCHRE_API ochre_status ochre_session_create(ochre_model *model, const ochre_session_options *options,
                                            ochre_session **out_session, ochre_error *error);
OCHRE_API void ochre_session_destroy(ochre_session *session); /* NULL is allowed */

/* A sequence is an id in [0, max_sequences). */
OCHRE_API ochre_status ochre_sequence_create(ochre_session *session, int32_t *out_sequence, ochre_error *error);
/* A copy that shares the state so far. */
OCHRE_API ochre_status ochre_sequence_fork(ochre_session *session, int32_t source, int32_t *out_sequence,
                                           ochre_error *error);
OCHRE_API ochre_status ochre_sequence_release(ochre_session *session, int32_t sequence, ochre_error *error);
/* Forgets all tokens from position n_tokens on. */
OCHRE_API ochre_status ochre_sequence_truncate(ochre_session *session, int32_t sequence, int32_t n_tokens,
                                               ochre_error *error);
OCHRE_API ochre_status ochre_sequence_length(const ochre_session *session, int32_t sequence, int32_t *out_n_tokens,
                                             ochre_error *error);

typedef enum ochre_logits { OCHRE_LOGITS_NONE, OCHRE_LOGITS_LAST, OCHRE_LOGITS_ALL } ochre_logits;

/* Tokens to append to one sequence. A step may mix prefill spans and single tokens; each sequence at most once. */
typedef struct ochre_span {
    int32_t sequence;
    const int32_t *tokens;
    int32_t n_tokens;
    ochre_logits logits; /* of which of these tokens */
} ochre_span;
/* All or nothing: on failure no sequence has changed. OCHRE_NOMEM: kv_tokens are used up. */
OCHRE_API ochre_status ochre_step(ochre_session *session, const ochre_span *spans, size_t n_spans, ochre_error *error);
/* Logits of the last step, float32 [out_rows, n_vocab], rows in the order of the spans and their tokens; none after
 * ochre_step_sample. Borrowed, valid until the next step. */
OCHRE_API const float *ochre_step_logits(const ochre_session *session, size_t *out_rows);

/* ---- generation ---- */

typedef struct ochre_sampling {
    size_t size_bytes;
    float temperature; /* 0: greedy */
    int32_t top_k;     /* 0: off */
    float top_p;       /* 1: off */
    float min_p;       /* 0: off */
    float repetition_penalty; /* 1: off */
    float frequency_penalty, presence_penalty; /* 0: off */
    int32_t penalty_last_n; /* tokens that penalties look back on; 0: all */
    uint64_t seed; /* the same seed, model and text give the same tokens */
} ochre_sampling;
#define OCHRE_SAMPLING_INIT { sizeof(ochre_sampling), 0.0f, 0, 1.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0, 0 }

/* Samples one token from row `row` of the last step's logits; `history` (may be NULL) feeds the penalties; `position` is
 * that of the token to come. */
OCHRE_API ochre_status ochre_sample(ochre_session *session, size_t row, const ochre_sampling *sampling,
                                    const int32_t *history, size_t n_history, uint64_t position, int32_t *out_token,
                                    ochre_error *error);

typedef struct ochre_choice {
    const ochre_sampling *sampling; /* NULL: greedy */
    const int32_t *history;         /* feeds the penalties; NULL with 0 */
    size_t n_history;
} ochre_choice;
/* A step and what comes next: out_tokens[i] is the token that ochre_sample would choose after span i, at the position that follows it,
 * or -1 where the span asks for no logits (none may ask for all). choices: one a span; NULL: all greedy. A device that can chooses
 * itself and gives back tokens alone, unless a penalty looks back on a history; the tokens are the same. There are no logits to be
 * read after it. On failure no sequence has changed. */
OCHRE_API ochre_status ochre_step_sample(ochre_session *session, const ochre_span *spans, size_t n_spans, const ochre_choice *choices,
                                         int32_t *out_tokens, ochre_error *error);

typedef enum ochre_stop { OCHRE_STOP_END, OCHRE_STOP_LENGTH, OCHRE_STOP_CALLBACK } ochre_stop;
/* Called for each token with the text it completes (whole characters; may be empty); at the end once more with token -1
 * if an unfinished character is left. Return false to stop. */
typedef bool (*ochre_token_fn)(void *user, int32_t token, const char *text, size_t text_bytes);

/* Appends `text` (flags as for ochre_tokenize) to the sequence and generates at most max_tokens tokens, or until an end
 * token (OCHRE_STOP_END) or a full context (OCHRE_STOP_LENGTH, as for max_tokens). An empty text starts an empty sequence
 * with the begin token; else text must have a token. Every token that on_token was called for is then part of the sequence,
 * but for one for which a full context has no room; the end token is neither reported nor appended. Penalties look back on
 * this call's text and tokens. On failure the sequence holds what was appended so far. on_token must not use the session.
 * out_stop and out_n_tokens may be NULL; sampling NULL: greedy. */
OCHRE_API ochre_status ochre_generate(ochre_session *session, int32_t sequence, const char *text, size_t text_bytes,
                                      uint32_t flags, int32_t max_tokens, const ochre_sampling *sampling,
                                      ochre_token_fn on_token, void *user, ochre_stop *out_stop,
                                      int32_t *out_n_tokens, ochre_error *error);

#ifdef __cplusplus
}
#endif
#endif
