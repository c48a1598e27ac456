/* Pre-tokenizing: regular expressions that cut a segment into pieces, run by PCRE2.
 *
 * Expressions come from the table below (the rules that GGUF files name) or from a tokenizer.json, where they are
 * written for Oniguruma; what differs is translated: \s is White_Space (PCRE2 adds U+180E), \uHHHH is \x{HHHH}, and a
 * class intersection is refused. The engine sees the text with each byte that is not UTF-8 replaced by U+0001, a
 * character that is neither letter, digit nor space, so that offsets stay and no expression meets invalid text. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/alloc.h"
#include "base/size.h"
#include "tok/internal.h"
#include "tok/utf8.h"

#include <pcre2.h>
#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

const char och_tok_gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* The rules by the name that tokenizer.ggml.pre gives; the patterns of a row run one after another, each inside the
 * pieces of those before. */
static const struct {
    const char *names; /* separated by spaces */
    const char *patterns[4];
    bool nfc, ignore_merges, add_bos;
} rules[] = {
    {.names = "gpt-2 phi-2 mpt olmo jina-es jina-de jina-v2-es jina-v2-de gigachat",
     .patterns = {och_tok_gpt2_pattern}},
    {.names = "smollm starcoder refact command-r codeshell exaone minerva-7b",
     .patterns = {"\\p{N}", och_tok_gpt2_pattern}},
    {.names = "qwen2 deepseek-r1-qwen megrez",
     .patterns = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" TAIL},
     .nfc = true},
    {.names = "llama-bpe llama3 llama-v3 falcon3 pixtral",
     .patterns = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" TAIL},
     .ignore_merges = true,
     .add_bos = true},
    {.names = "smaug-bpe dbrx", .patterns = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" TAIL}},
    {.names = "tekken",
     .patterns = {"[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER
                  "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
     .ignore_merges = true,
     .add_bos = true},
    {.names = "gpt-4o llama4",
     .patterns = {"[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER
                  "*" CONTRACTIONS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {.names = "default",
     .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|]+",
                  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)", "\\p{N}+",
                  "[0-9][0-9][0-9]"}},
};

static void *pcre_alloc(PCRE2_SIZE n, void *ctx) {
    (void)ctx;
    return och_malloc(n);
}
static void pcre_free(void *p, void *ctx) {
    (void)ctx;
    och_free(p);
}

#define WHITE "\\x{9}-\\x{d}\\x{20}\\x{85}\\p{Z}"

/* Oniguruma's spelling to PCRE2's. */
static och_status translate(const char *s, size_t n, och_strbuf *out, och_err *err) {
    bool in_class = false;
    for (size_t i = 0; i < n; i++) {
        char c = s[i], d = i + 1 < n ? s[i + 1] : 0;
        if (c == '\\' && d) {
            i++;
            if (d == 's') och_strbuf_puts(out, in_class ? WHITE : "[" WHITE "]");
            else if (d == 'S' && !in_class) och_strbuf_puts(out, "[^" WHITE "]");
            else if (d == 'u' && n - i > 4) {
                och_strbuf_puts(out, "\\x{");
                och_strbuf_append(out, s + i + 1, 4);
                och_strbuf_puts(out, "}");
                i += 4;
            } else if (d == 'h' || d == 'H') {
                return och_err_set(err, OCH_UNSUPPORTED, "the pre-tokenizer's expression uses \\%c at byte %zu", d,
                                   i - 1);
            } else och_strbuf_append(out, s + i - 1, 2);
            continue;
        }
        if (in_class && c == '&' && d == '&')
            return och_err_set(err, OCH_UNSUPPORTED,
                               "the pre-tokenizer's expression intersects classes (&&) at byte %zu", i);
        if (in_class && c == '[' && d != ':')
            return och_err_set(err, OCH_UNSUPPORTED, "the pre-tokenizer's expression nests classes at byte %zu", i);
        if (!in_class && c == '[') {
            in_class = true;
            och_strbuf_append(out, &c, 1);
            /* a ']' that comes first is a member */
            if (d == '^') och_strbuf_append(out, &s[++i], 1);
            if (i + 1 < n && s[i + 1] == ']') och_strbuf_append(out, &s[++i], 1);
            continue;
        }
        if (in_class && c == '[') { /* [:name:] */
            size_t end = i + 1;
            while (end < n && s[end] != ']') end++;
            if (end < n) end++;
            och_strbuf_append(out, s + i, end - i);
            i = end - 1;
            continue;
        }
        if (in_class && c == ']') in_class = false;
        och_strbuf_append(out, &c, 1);
    }
    return och_strbuf_status(out, err);
}

och_status och_tok_pre_add(och_tok *t, const char *pattern, size_t n_bytes, bool literal, och_tok_split split,
                           bool invert, och_err *err) {
    if (t->n_step == OCH_TOK_MAX_STEPS)
        return och_err_set(err, OCH_UNSUPPORTED, "the pre-tokenizer has more than %d steps", OCH_TOK_MAX_STEPS);
    och_strbuf b = {0};
    pcre2_general_context *general = NULL;
    pcre2_compile_context *ctx = NULL;
    pcre2_code *code = NULL;
    och_status st;
    if (!literal) OCH_TRY_GOTO(translate(pattern, n_bytes, &b, err));
    else och_strbuf_append(&b, pattern, n_bytes);
    OCH_TRY_GOTO(och_strbuf_status(&b, err));
    general = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    ctx = general ? pcre2_compile_context_create(general) : NULL;
    if (!ctx) {
        st = och_err_nomem(err, 0, "a pre-tokenizer");
        goto done;
    }
    pcre2_set_newline(ctx, PCRE2_NEWLINE_LF);
    int code_err;
    PCRE2_SIZE where;
    /* Oniguruma's ^ and $ hold at every line */
    uint32_t options = PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE);
    code = pcre2_compile((PCRE2_SPTR)och_strbuf_str(&b), b.size, options, &code_err, &where, ctx);
    if (!code) {
        PCRE2_UCHAR message[160];
        if (code_err == PCRE2_ERROR_HEAP_FAILED) {
            st = och_err_nomem(err, 0, "a pre-tokenizer");
        } else {
            pcre2_get_error_message(code_err, message, sizeof message);
            st = och_err_set(err, OCH_UNSUPPORTED,
                             "the pre-tokenizer's expression does not compile: %s at byte %zu of %s",
                             (const char *)message, (size_t)where, och_strbuf_str(&b));
        }
        goto done;
    }
    /* without the just-in-time compiler the same expression is interpreted */
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    t->step[t->n_step++] = (och_tok_pre_step){.code = code, .split = split, .invert = invert};
    st = OCH_OK;
done:
    pcre2_compile_context_free(ctx);
    pcre2_general_context_free(general);
    och_strbuf_deinit(&b);
    return st;
}

void och_tok_pre_deinit(och_tok *t) {
    for (size_t i = 0; i < t->n_step; i++) pcre2_code_free(t->step[i].code);
    t->n_step = 0;
}

static bool names_hold(const char *names, const char *name) {
    size_t n = strlen(name);
    for (const char *p = names; n && (p = strstr(p, name)) != NULL; p += n)
        if ((p == names || p[-1] == ' ') && (p[n] == 0 || p[n] == ' ')) return true;
    return false;
}

och_status och_tok_pre_named(och_tok *t, const char *name, och_err *err) {
    for (size_t i = 0; i < OCH_COUNT(rules); i++) {
        if (!names_hold(rules[i].names, name)) continue;
        for (size_t k = 0; k < OCH_COUNT(rules[i].patterns) && rules[i].patterns[k]; k++)
            OCH_TRY(och_tok_pre_add(t, rules[i].patterns[k], strlen(rules[i].patterns[k]), false, OCH_TOK_ISOLATED,
                                    false, err));
        if (rules[i].nfc) t->norm[t->n_norm++] = (och_tok_norm){.kind = OCH_TOK_NORM_NFC};
        t->ignore_merges = rules[i].ignore_merges;
        t->add_bos = rules[i].add_bos;
        t->pre_name = och_strdup(name);
        return t->pre_name ? OCH_OK : och_err_nomem(err, strlen(name), "a pre-tokenizer's name");
    }
    och_strbuf known = {0};
    for (size_t i = 0; i < OCH_COUNT(rules); i++) och_strbuf_printf(&known, "%s%s", i ? " " : "", rules[i].names);
    och_status st = och_err_set(err, OCH_UNSUPPORTED, "pre-tokenizer '%.64s' is not known; known are: %s", name,
                                och_strbuf_str(&known));
    och_strbuf_deinit(&known);
    return st;
}

static och_status span_put(och_tok_spans *a, size_t start, size_t end, och_err *err) {
    if (start == end) return OCH_OK;
    if (a->n == a->capacity) {
        void *p = a->v;
        OCH_TRY(och_tok_grow(&p, &a->capacity, a->n + 1, sizeof *a->v, "the pieces of a text", err));
        a->v = p;
    }
    a->v[a->n++] = (och_tok_span){start, end};
    return OCH_OK;
}

/* One part of a piece, a match or what lies between matches, in order. `held` is a match that MERGED_NEXT still holds.
 */
typedef struct parts {
    och_tok_split split;
    bool was_match;
    bool any;
    size_t first; /* index in out of this piece's first part */
    bool holding;
    och_tok_span held;
} parts;

static och_status part_put(parts *p, och_tok_spans *out, size_t start, size_t end, bool is_match, och_err *err) {
    if (start == end) return OCH_OK;
    bool extend = false;
    switch (p->split) {
    case OCH_TOK_ISOLATED: break;
    case OCH_TOK_REMOVED:
        if (is_match) return OCH_OK;
        break;
    case OCH_TOK_CONTIGUOUS: extend = p->any && is_match == p->was_match; break;
    case OCH_TOK_MERGED_PREVIOUS: extend = p->any && is_match && !p->was_match; break;
    case OCH_TOK_MERGED_NEXT:
        /* seen from the right, the last match of a row of matches joins what follows it */
        if (is_match) {
            if (p->holding) OCH_TRY(span_put(out, p->held.start, p->held.end, err));
            p->held = (och_tok_span){start, end};
            p->holding = true;
            return OCH_OK;
        }
        if (p->holding) {
            start = p->held.start;
            p->holding = false;
        }
        break;
    }
    p->was_match = is_match;
    p->any = true;
    if (extend && out->n > p->first) {
        out->v[out->n - 1].end = end;
        return OCH_OK;
    }
    return span_put(out, start, end, err);
}

static och_status step_piece(const och_tok_pre_step *s, const unsigned char *text, och_tok_span piece,
                             pcre2_match_data *data, pcre2_match_context *ctx, och_tok_spans *out, och_err *err) {
    parts p = {.split = s->split, .first = out->n};
    const unsigned char *subject = text + piece.start;
    size_t n = piece.end - piece.start, done = 0, pos = 0;
    while (pos < n) {
        uint32_t options = PCRE2_NO_UTF_CHECK;
        int rc = pcre2_match(s->code, subject, n, pos, options, data, ctx);
        /* long repeats can outgrow the just-in-time code's small stack: the interpreter's is on the heap */
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
            rc = pcre2_match(s->code, subject, n, pos, options | PCRE2_NO_JIT, data, ctx);
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc == PCRE2_ERROR_NOMEMORY) return och_err_nomem(err, 0, "a pre-tokenizer's match");
        if (rc < 0) {
            PCRE2_UCHAR message[160];
            pcre2_get_error_message(rc, message, sizeof message);
            return och_err_set_native(err, OCH_RANGE, rc, "the pre-tokenizer gave up at byte %zu of %zu: %s",
                                      piece.start + pos, piece.end, (const char *)message);
        }
        const PCRE2_SIZE *ov = pcre2_get_ovector_pointer(data);
        size_t a = ov[0], z = ov[1];
        if (z <= a) { /* an empty match cuts nothing */
            pos = OCH_MAX(pos, z);
            pos += pos < n ? och_utf8_len(subject + pos, n - pos) : 1;
            continue;
        }
        OCH_TRY(part_put(&p, out, piece.start + done, piece.start + a, s->invert, err));
        OCH_TRY(part_put(&p, out, piece.start + a, piece.start + z, !s->invert, err));
        done = pos = z;
    }
    OCH_TRY(part_put(&p, out, piece.start + done, piece.end, s->invert, err));
    return p.holding ? span_put(out, p.held.start, p.held.end, err) : OCH_OK;
}

och_status och_tok_pre_split(const och_tok *t, const char *text, size_t n, och_tok_spans *out, och_tok_spans *tmp,
                             och_err *err) {
    out->n = 0;
    OCH_TRY(span_put(out, 0, n, err));
    if (t->n_step == 0 || n == 0) return OCH_OK;

    pcre2_general_context *general = NULL;
    pcre2_match_context *ctx = NULL;
    pcre2_match_data *data = NULL;
    unsigned char *shadow = NULL;
    och_status st = OCH_OK;
    const unsigned char *subject = (const unsigned char *)text;
    for (size_t i = 0; i < n;) {
        size_t len;
        if (och_utf8_step(subject + i, n - i, &len) != OCH_UTF8_OK) {
            if (!shadow) {
                shadow = och_malloc(n);
                if (!shadow) {
                    st = och_err_nomem(err, n, "a text with bytes that are not UTF-8");
                    goto done;
                }
                memcpy(shadow, text, n);
                subject = shadow;
            }
            memset(shadow + i, 1, len);
        }
        i += len;
    }
    general = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    ctx = general ? pcre2_match_context_create(general) : NULL;
    data = general ? pcre2_match_data_create(1, general) : NULL;
    if (!ctx || !data) {
        st = och_err_nomem(err, 0, "a pre-tokenizer's match");
        goto done;
    }
    /* The table's expressions need at most a few steps for each byte of one run; the limit stops an expression of a
     * file that explodes. The heap limit is in KiB. */
    uint64_t limit = 1000000 + (uint64_t)n * 16;
    pcre2_set_match_limit(ctx, (uint32_t)OCH_MIN(limit, UINT32_MAX));
    pcre2_set_heap_limit(ctx, 256 * 1024);
    for (size_t i = 0; i < t->n_step; i++) {
        tmp->n = 0;
        for (size_t k = 0; k < out->n; k++)
            OCH_TRY_GOTO(step_piece(&t->step[i], subject, out->v[k], data, ctx, tmp, err));
        och_tok_spans swap = *out;
        *out = *tmp;
        *tmp = swap;
    }
done:
    pcre2_match_data_free(data);
    pcre2_match_context_free(ctx);
    pcre2_general_context_free(general);
    och_free(shadow);
    return st;
}
