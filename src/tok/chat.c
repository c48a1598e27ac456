/* Chat templates without a template engine: the family is told from the literals that the text holds, and what varies
 * inside a family (a default system text, blanks around [INST], trimming) is read from them too. A template that holds
 * something of which no rule here knows the meaning is refused, never guessed. */
#include "base/alloc.h"
#include "tok/internal.h"
#include "tok/utf8.h"

#include <string.h>

typedef struct view {
    const char *s;
    size_t n;
} view;

typedef struct chat {
    const och_tok *t;
    const char *raw;  /* the template */
    const char *tight; /* without blanks outside literals, every literal in single quotes, .content as ['content'] */
    const och_tok_turn *turns;
    size_t n;
    bool prompt; /* add_generation_prompt */
    och_strbuf *out;
    och_err *err;
} chat;

static bool has(const char *text, const char *what) { return strstr(text, what) != NULL; }

static void put(chat *c, const char *s) { och_strbuf_puts(c->out, s); }
static void put_view(chat *c, view v) { och_strbuf_append(c->out, v.s, v.n); }

static view whole(const char *s) { return (view){s, strlen(s)}; }

/* Python's str.strip: White_Space and the four separators U+001C to U+001F. */
static bool blank(const unsigned char *p, size_t len) {
    uint32_t cp = och_utf8_cp(p, len);
    return och_tok_is_space(cp) || (cp >= 0x1C && cp <= 0x1F);
}

static view trim(const char *s) {
    const unsigned char *p = (const unsigned char *)s;
    size_t n = strlen(s), start = 0, len;
    while (start < n && (len = och_utf8_len(p + start, n - start)) > 0 && blank(p + start, len)) start += len;
    while (n > start) {
        len = 1;
        while (len < 4 && len < n - start && (p[n - len] & 0xC0) == 0x80) len++;
        if (och_utf8_len(p + n - len, len) != len || !blank(p + n - len, len)) break;
        n -= len;
    }
    return (view){s + start, n - start};
}

static bool is_role(const och_tok_turn *t, const char *role) { return strcmp(t->role, role) == 0; }

/* user, assistant, user, ... from `first` on. */
static och_status alternate(const chat *c, size_t first) {
    for (size_t i = first; i < c->n; i++)
        if (is_role(&c->turns[i], "user") != ((i - first) % 2 == 0) ||
            (!is_role(&c->turns[i], "user") && !is_role(&c->turns[i], "assistant")))
            return och_err_set(
                c->err, OCH_INVALID,
                "turn %zu is '%.32s': this model's template wants user and assistant in turn, from user on", i,
                c->turns[i].role);
    return OCH_OK;
}

/* -- ChatML: SmolLM, Qwen and many more -- */

/* The text of a system turn that the template writes when the conversation has none: a literal from the header straight
 * to <|im_end|>. */
static bool default_system(const char *tight, och_strbuf *out) {
    static const char head[] = "<|im_start|>system\\n";
    for (const char *p = tight; (p = strstr(p, head)) != NULL; p++) {
        const char *from = p + sizeof head - 1, *end = strstr(from, "<|im_end|>"), *quote = strchr(from, '\'');
        if (!end || end == from || (quote && quote < end)) continue;
        och_tok_replace(from, (size_t)(end - from), "\\n", 2, "\n", 1, out);
        return true;
    }
    return false;
}

static view strip_newlines(view v, bool left, bool right) {
    while (left && v.n && v.s[0] == '\n') v.s++, v.n--;
    while (right && v.n && v.s[v.n - 1] == '\n') v.n--;
    return v;
}

/* Qwen3: thoughts of earlier answers are dropped, the last answer's are kept in a block of their own. */
static void qwen3_answer(chat *c, size_t i, size_t last_query) {
    view content = whole(c->turns[i].content), thought = {"", 0};
    const char *first = strstr(content.s, "</think>"), *last = first;
    if (first) {
        for (const char *p = first; (p = strstr(p, "</think>")) != NULL; p++) last = p;
        thought = strip_newlines((view){content.s, (size_t)(first - content.s)}, false, true);
        for (size_t k = 0; k + 7 <= thought.n;)
            if (memcmp(thought.s + k, "<think>", 7) == 0) {
                thought = (view){thought.s + k + 7, thought.n - k - 7};
                k = 0;
            } else k++;
        thought = strip_newlines(thought, true, false);
        content = strip_newlines(whole(last + 8), true, false);
    }
    put(c, "<|im_start|>assistant\n");
    if (i > last_query && (i + 1 == c->n || thought.n)) {
        put(c, "<think>\n");
        put_view(c, strip_newlines(thought, true, true));
        put(c, "\n</think>\n\n");
        content = strip_newlines(content, true, false);
    }
    put_view(c, content);
    put(c, "<|im_end|>\n");
}

static och_status chatml(chat *c) {
    bool thinks = has(c->raw, "last_query_index"),
         trims = has(c->tight, "['content']|trim") || has(c->tight, "['content'].strip()");
    size_t last_query = c->n ? c->n - 1 : 0;
    if (thinks)
        for (size_t i = c->n; i-- > 0;) {
            const char *s = c->turns[i].content;
            size_t n = strlen(s);
            bool response =
                strncmp(s, "<tool_response>", 15) == 0 && n >= 16 && strcmp(s + n - 16, "</tool_response>") == 0;
            if (is_role(&c->turns[i], "user") && !response) {
                last_query = i;
                break;
            }
        }
    if (c->n && !is_role(&c->turns[0], "system")) {
        och_strbuf text = {0};
        if (default_system(c->tight, &text)) {
            put(c, "<|im_start|>system\n");
            och_strbuf_append(c->out, text.data, text.size);
            put(c, "<|im_end|>\n");
        }
        och_status st = och_strbuf_status(&text, c->err);
        och_strbuf_deinit(&text);
        OCH_TRY(st);
    }
    for (size_t i = 0; i < c->n; i++) {
        if (thinks && is_role(&c->turns[i], "assistant")) {
            qwen3_answer(c, i, last_query);
            continue;
        }
        put(c, "<|im_start|>");
        put(c, c->turns[i].role);
        put(c, "\n");
        put_view(c, trims ? trim(c->turns[i].content) : whole(c->turns[i].content));
        put(c, "<|im_end|>\n");
    }
    if (c->prompt)
        put(c, has(c->tight, "<|im_start|>assistant\\n<think>\\n'}}") ? "<|im_start|>assistant\n<think>\n"
                                                                      : "<|im_start|>assistant\n");
    return OCH_OK;
}

/* -- Llama 3: a header a turn; from 3.1 on a system turn with dates comes always -- */
static och_status llama3(chat *c) {
    bool dated = has(c->raw, "Cutting Knowledge Date");
    size_t i = 0;
    if (dated) {
        /* a template that asks for today's date gets the one it falls back to: the same text every day */
        put(c, c->t->chat_bos);
        put(c, "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: 26 "
               "Jul 2024\n\n");
        if (c->n && is_role(&c->turns[0], "system")) put_view(c, trim(c->turns[i++].content));
        put(c, "<|eot_id|>");
    }
    for (; i < c->n; i++) {
        if (i == 0 && !dated) put(c, c->t->chat_bos);
        put(c, "<|start_header_id|>");
        put(c, c->turns[i].role);
        put(c, "<|end_header_id|>\n\n");
        put_view(c, trim(c->turns[i].content));
        put(c, "<|eot_id|>");
    }
    /* the first release's template asks for an answer whether told to or not */
    if (c->prompt || !has(c->raw, "add_generation_prompt")) put(c, "<|start_header_id|>assistant<|end_header_id|>\n\n");
    return OCH_OK;
}

/* -- Gemma: no system turn; Gemma 3 puts its text before the first question -- */
static och_status gemma(chat *c) {
    size_t first = c->n && is_role(&c->turns[0], "system") ? 1 : 0;
    if (first && !has(c->raw, "first_user_prefix"))
        return och_err_set(c->err, OCH_INVALID, "turn 0 is 'system': this model's template allows no system turn");
    OCH_TRY(alternate(c, first));
    put(c, c->t->chat_bos);
    for (size_t i = first; i < c->n; i++) {
        put(c, is_role(&c->turns[i], "assistant") ? "<start_of_turn>model\n" : "<start_of_turn>user\n");
        if (first && i == 1) {
            put(c, c->turns[0].content);
            put(c, "\n\n");
        }
        put_view(c, trim(c->turns[i].content));
        put(c, "<end_of_turn>\n");
    }
    if (c->prompt) put(c, "<start_of_turn>model\n");
    return OCH_OK;
}

/* -- Llama 2 -- */
static och_status llama2(chat *c) {
    size_t first = c->n && is_role(&c->turns[0], "system") ? 1 : 0;
    OCH_TRY(alternate(c, first));
    for (size_t i = first; i < c->n; i++) {
        if (is_role(&c->turns[i], "assistant")) {
            put(c, " ");
            put_view(c, trim(c->turns[i].content));
            put(c, " ");
            put(c, c->t->chat_eos);
            continue;
        }
        put(c, c->t->chat_bos);
        put(c, "[INST] ");
        if (first && i == 1) {
            och_strbuf b = {0};
            och_strbuf_printf(&b, "<<SYS>>\n%s\n<</SYS>>\n\n%s", c->turns[0].content, c->turns[1].content);
            put_view(c, trim(och_strbuf_str(&b)));
            och_status st = och_strbuf_status(&b, c->err);
            och_strbuf_deinit(&b);
            OCH_TRY(st);
        } else {
            put_view(c, trim(c->turns[i].content));
        }
        put(c, " [/INST]");
    }
    return OCH_OK;
}

/* -- Mistral: its versions differ in the blanks around the marks, which are taken from the literals -- */

/* The literal of `tight` that holds `what`, if its other characters are blanks. */
static bool literal_with(const char *tight, const char *what, view *out) {
    for (const char *p = tight; (p = strstr(p, what)) != NULL; p++) {
        const char *a = p, *z = p + strlen(what);
        while (a > tight && a[-1] == ' ') a--;
        while (*z == ' ') z++;
        if (a > tight && a[-1] == '\'' && *z == '\'') {
            *out = (view){a, (size_t)(z - a)};
            return true;
        }
    }
    return false;
}

static och_status mistral(chat *c) {
    static const struct {
        const char *spelled, *before, *after;
        bool trims;
    } answers[] = {
        {"{{message['content']+eos_token+' '}}", "", " ", false},
        {"{{message['content']+eos_token}}", "", "", false},
        {"{{' '+message['content']+eos_token}}", " ", "", false},
        {"{{message['content']|trim+eos_token}}", "", "", true},
        {"{{' '+message['content']|trim+eos_token}}", " ", "", true},
        {"{{' '+message['content']|trim+' '+eos_token}}", " ", " ", true},
    };
    view open, close;
    size_t a = 0, n_answers = sizeof answers / sizeof *answers;
    while (a < n_answers && !has(c->tight, answers[a].spelled)) a++;
    bool system_last = has(c->tight, "loop.lastandsystem_message"),
         system_first = has(c->tight, "loop.firstandsystem_message");
    if (a == n_answers || !literal_with(c->tight, "[INST]", &open) || !literal_with(c->tight, "[/INST]", &close))
        return och_err_set(c->err, OCH_UNSUPPORTED,
                           "the chat template looks like Mistral's, but spells its turns in a way not known");
    size_t first = c->n && is_role(&c->turns[0], "system") ? 1 : 0;
    if (first && !system_first && !system_last)
        return och_err_set(c->err, OCH_INVALID, "turn 0 is 'system': this model's template allows no system turn");
    OCH_TRY(alternate(c, first));
    put(c, c->t->chat_bos);
    for (size_t i = first; i < c->n; i++) {
        if (is_role(&c->turns[i], "assistant")) {
            put(c, answers[a].before);
            put_view(c, answers[a].trims ? trim(c->turns[i].content) : whole(c->turns[i].content));
            put(c, c->t->chat_eos);
            put(c, answers[a].after);
            continue;
        }
        put_view(c, open);
        if (first && (system_last ? i + 1 == c->n : i == 1)) {
            put(c, c->turns[0].content);
            put(c, "\n\n");
        }
        put(c, c->turns[i].content);
        put_view(c, close);
    }
    return OCH_OK;
}

/* -- Zephyr, TinyLlama -- */
static och_status zephyr(chat *c) {
    for (size_t i = 0; i < c->n; i++) {
        och_strbuf_printf(c->out, "<|%s|>\n", c->turns[i].role);
        put(c, c->turns[i].content);
        put(c, c->t->chat_eos);
        put(c, "\n");
    }
    if (c->prompt && c->n) put(c, "<|assistant|>\n");
    return OCH_OK;
}

/* A row is the family when the template holds all of `with` and none of `without`. */
static const struct {
    const char *name;
    const char *with[3], *without[4];
    och_status (*render)(chat *c);
} families[] = {
    {"chatml", {"<|im_start|>", "<|im_end|>"}, {"reasoning_mode", "strftime_now", "<|im_sep|>"}, chatml},
    {"llama3", {"<|start_header_id|>", "<|eot_id|>"}, {NULL}, llama3},
    {"gemma", {"<start_of_turn>", "<end_of_turn>"}, {NULL}, gemma},
    {"llama2", {"[INST]", "<<SYS>>"}, {NULL}, llama2},
    {"mistral", {"[INST]", "[/INST]", "bos_token"}, {"<<SYS>>", "[SYSTEM_PROMPT]"}, mistral},
    {"zephyr", {"'<|user|>\\n'+message['content']+eos_token", "<|assistant|>"}, {"<|end|>"}, zephyr},
};

/* The template with what does not matter taken away, so that one spelling stands for many. */
static och_status tighten(const char *s, och_strbuf *out, och_err *err) {
    char quote = 0;
    och_strbuf b = {0};
    for (; *s; s++) {
        if (quote) {
            if (*s == '\\' && s[1]) {
                och_strbuf_append(&b, s++, 2);
            } else if (*s == quote) {
                quote = 0;
                och_strbuf_append(&b, "'", 1);
            } else if (*s == '\n') {
                och_strbuf_puts(&b, "\\n");
            } else och_strbuf_append(&b, s, 1);
        } else if (*s == '\'' || *s == '"') {
            quote = *s;
            och_strbuf_append(&b, "'", 1);
        } else if (*s == '-' && (s[1] == '}' || s[1] == '%')) {
            continue; /* -%} and -}} */
        } else if (*s == '{' && (s[1] == '{' || s[1] == '%') && s[2] == '-') {
            och_strbuf_append(&b, s, 2);
            s += 2;
        } else if (*s != ' ' && *s != '\n' && *s != '\t' && *s != '\r') {
            och_strbuf_append(&b, s, 1);
        }
    }
    och_tok_replace(och_strbuf_str(&b), b.size, ".content", 8, "['content']", 11, out);
    och_status st = och_strbuf_status(&b, err);
    och_strbuf_deinit(&b);
    return st == OCH_OK ? och_strbuf_status(out, err) : st;
}

/* The index in families; their number when there is none. */
static size_t family_of(const char *raw, const char *tight) {
    size_t n = sizeof families / sizeof *families;
    for (size_t i = 0; i < n; i++) {
        bool is = true;
        for (size_t k = 0; k < 3 && families[i].with[k]; k++)
            is = is && (has(tight, families[i].with[k]) || has(raw, families[i].with[k]));
        for (size_t k = 0; k < 4 && families[i].without[k]; k++) is = is && !has(raw, families[i].without[k]);
        if (is) return i;
    }
    return n;
}

bool och_tok_has_chat(const och_tok *t) { return t->chat && *t->chat; }
const char *och_tok_chat_template(const och_tok *t) { return t->chat ? t->chat : ""; }

const char *och_tok_chat_family(const och_tok *t) {
    och_strbuf tight = {0};
    const char *name = "";
    if (och_tok_has_chat(t) && tighten(t->chat, &tight, NULL) == OCH_OK) {
        size_t i = family_of(t->chat, och_strbuf_str(&tight));
        if (i < sizeof families / sizeof *families) name = families[i].name;
    }
    och_strbuf_deinit(&tight);
    return name;
}

och_status och_tok_chat(const och_tok *t, const och_tok_turn *turns, size_t n_turns, bool add_generation_prompt,
                        och_strbuf *out, och_err *err) {
    if (!och_tok_has_chat(t)) return och_err_set(err, OCH_NOTFOUND, "the model has no chat template");
    och_strbuf tight = {0};
    size_t n_families = sizeof families / sizeof *families, before = out->size;
    och_status st = tighten(t->chat, &tight, err);
    if (st == OCH_OK) {
        size_t i = family_of(t->chat, och_strbuf_str(&tight));
        if (i == n_families) {
            size_t start = strspn(t->chat, " \t\r\n"), len = strcspn(t->chat + start, "\r\n");
            st = och_err_set(err, OCH_UNSUPPORTED,
                             "the chat template is of no known family (chatml, llama3, gemma, llama2, mistral, "
                             "zephyr); it begins: %.*s",
                             (int)(len > 160 ? 160 : len), t->chat + start);
        } else {
            chat c = {.t = t, .raw = t->chat, .tight = och_strbuf_str(&tight), .turns = turns, .n = n_turns,
                      .prompt = add_generation_prompt, .out = out, .err = err};
            st = families[i].render(&c);
        }
    }
    if (st == OCH_OK) st = och_strbuf_status(out, err);
    else if (out->data && before <= out->size) out->data[out->size = before] = 0;
    och_strbuf_deinit(&tight);
    return st;
}
