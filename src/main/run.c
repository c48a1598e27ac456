/* ochre run: a prompt in, text out. */
#include "main/main.h"

#include "base/alloc.h"
#include "base/env.h"
#include "base/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_PROMPT_BYTES ((size_t)64 << 20)

static const och_usage usage = {
    "run", "MODEL (--prompt TEXT | --file PATH | -) [options]",
    "Generates text. The text alone goes to standard output as it is made; progress, statistics and errors go\n"
    "to standard error. MODEL is a GGUF file, a Hugging Face folder, or a name that `ochre pull` knows.\n"
    "Without options generation is greedy: the same prompt gives the same text.\n",
    "  ochre run smollm2-135m --prompt \"Once upon a time\"\n"
    "  ochre run smollm2-135m --chat --system \"Answer briefly.\" --prompt \"Why is the sky blue?\"\n"
    "  ochre run model.gguf --file notes.txt --max-tokens 200 --temperature 0.8 --top-p 0.95 --seed 7\n"
    "  echo \"The three laws are\" | ochre run model.gguf - --stats\n"};

/* Whole input as a NUL-terminated string; a NUL inside is refused, since the text would end there. */
static och_status read_text(FILE *f, const char *name, och_strbuf *out, och_err *err) {
    char buf[65536];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, f)) > 0) {
        if (memchr(buf, 0, n)) return och_err_set(err, OCH_INVALID, "%s holds a NUL byte; expected text", name);
        och_strbuf_append(out, buf, n);
        if (out->size > MAX_PROMPT_BYTES)
            return och_err_set(err, OCH_RANGE, "%s is longer than %zu bytes", name, MAX_PROMPT_BYTES);
    }
    if (ferror(f)) return och_err_set_native(err, OCH_IO, errno, "%s: %s", name, strerror(errno));
    return och_strbuf_status(out, err);
}

static och_status read_prompt(const char *path, och_strbuf *out, och_err *err) {
    if (!strcmp(path, "-")) return read_text(stdin, "standard input", out, err);
    FILE *f = fopen(path, "rb");
    if (!f) return och_err_set_native(err, errno == ENOENT ? OCH_NOTFOUND : OCH_IO, errno, "%s: %s", path, strerror(errno));
    och_status st = read_text(f, path, out, err);
    fclose(f);
    return st;
}

typedef struct sink {
    int32_t n_tokens;
    double first; /* when the first token was there: the prompt is done */
    double last;
    int write_errno;
    bool json;
    och_strbuf text; /* json: kept until the end */
} sink;

static bool on_token(void *user, int32_t token, const char *text, size_t n_bytes) {
    sink *s = user;
    (void)token;
    och_main_interrupt_exits(false); /* from here on there is text to finish */
    s->last = och_now_seconds();
    if (!s->n_tokens++) s->first = s->last;
    if (s->json) och_strbuf_append(&s->text, text, n_bytes);
    else {
        errno = 0;
        if (fwrite(text, 1, n_bytes, stdout) != n_bytes || fflush(stdout) != 0) {
            s->write_errno = errno ? errno : EIO;
            return false;
        }
    }
    return !och_main_interrupted();
}

/* The conversation in the model's own format. */
static int apply_chat(ochre_model *model, const char *system, och_strbuf *prompt) {
    ochre_message m[2];
    ochre_error e = {0};
    size_t n = 0, n_bytes = 0;
    if (system) m[n++] = (ochre_message){"system", system};
    m[n++] = (ochre_message){"user", och_strbuf_str(prompt)};
    ochre_status st = ochre_apply_chat_template(model, m, n, NULL, 0, &n_bytes, &e);
    if (st != OCHRE_OK && st != OCHRE_RANGE) return och_main_fail_public(&e);
    char *text = och_malloc(n_bytes + 1);
    if (!text) return och_main_error("out of memory for a prompt of %zu bytes", n_bytes);
    e = (ochre_error){0};
    if (ochre_apply_chat_template(model, m, n, text, n_bytes, &n_bytes, &e) != OCHRE_OK) {
        och_free(text);
        return och_main_fail_public(&e);
    }
    och_strbuf_clear(prompt);
    och_strbuf_append(prompt, text, n_bytes);
    och_free(text);
    return prompt->failed ? och_main_error("out of memory for a prompt of %zu bytes", n_bytes) : -1;
}

int och_cmd_run(int argc, char **argv) {
    const char *prompt_text = NULL, *file = NULL, *system = NULL, *args[2], *kv = "auto", *graphs = "auto", *trace = NULL;
    och_open_args open = {0};
    bool chat = false, stats = false, json = false, invariant = false, quiet = false;
    int32_t max_tokens = 256, context = 0;
    ochre_sampling sampling = OCHRE_SAMPLING_INIT;
    const och_opt opts[] = {
        {"prompt", 'p', OCH_OPT_STR, &prompt_text, 0, 0, "TEXT", "the prompt", NULL},
        {"file", 'f', OCH_OPT_STR, &file, 0, 0, "PATH", "read the prompt from a file; - is standard input", NULL},
        {"max-tokens", 'n', OCH_OPT_I32, &max_tokens, 0, 1 << 30, "N", "at most this many tokens (default: 256)", NULL},
        {"temperature", 0, OCH_OPT_F32, &sampling.temperature, 0, 100, "T", "0 takes the likeliest token (default)", NULL},
        {"top-k", 0, OCH_OPT_I32, &sampling.top_k, 0, 1 << 30, "K", "keep the K likeliest tokens; 0 keeps all", NULL},
        {"top-p", 0, OCH_OPT_F32, &sampling.top_p, 1e-9, 1, "P", "keep the likeliest tokens that sum to P; 1 keeps all", NULL},
        {"min-p", 0, OCH_OPT_F32, &sampling.min_p, 0, 1, "P", "drop tokens below P times the likeliest", NULL},
        {"repetition-penalty", 0, OCH_OPT_F32, &sampling.repetition_penalty, 1e-6, 1e6, "R", "1 is off", NULL},
        {"frequency-penalty", 0, OCH_OPT_F32, &sampling.frequency_penalty, -100, 100, "F", "0 is off", NULL},
        {"presence-penalty", 0, OCH_OPT_F32, &sampling.presence_penalty, -100, 100, "F", "0 is off", NULL},
        {"seed", 's', OCH_OPT_U64, &sampling.seed, 0, 0, "S", "the same seed gives the same text (default: 0)", NULL},
        {"chat", 'c', OCH_OPT_FLAG, &chat, 0, 0, NULL, "put the prompt into the model's own chat format", NULL},
        {"system", 0, OCH_OPT_STR, &system, 0, 0, "TEXT", "system message (implies --chat)", NULL},
        {"context", 0, OCH_OPT_I32, &context, 1, 1 << 30, "N", "tokens the sequence may hold (default: as needed)", NULL},
        {"graphs", 0, OCH_OPT_STR, &graphs, 0, 0, "WHEN", "replay decode steps as graphs: auto, on, off (default: auto)", NULL},
        {"kv-type", 0, OCH_OPT_STR, &kv, 0, 0, "TYPE", "type of the state: auto, f32, f16, bf16, fp8", NULL},
        {"batch-invariant", 0, OCH_OPT_FLAG, &invariant, 0, 0, NULL, "one kernel variant for every batch size", NULL},
        {"device", 'd', OCH_OPT_STR, &open.device, 0, 0, "D", "see `ochre devices` (default: auto)", NULL},
        {"provider", 0, OCH_OPT_STR, &open.provider, 0, 0, "NAME", "use only these kernels: reference, cpu, kernel, blas", NULL},
        {"threads", 't', OCH_OPT_I32, &open.threads, 1, OCH_POOL_MAX_THREADS, "N", "CPU threads (default: all this process may use)", NULL},
        {"trace", 0, OCH_OPT_STR, &trace, 0, 0, "FILE", "write a timeline of launches and host work (Chrome trace format); slower", NULL},
        {"stats", 0, OCH_OPT_FLAG, &stats, 0, 0, NULL, "print speed and times to standard error", NULL},
        {"json", 0, OCH_OPT_FLAG, &json, 0, 0, NULL, "one JSON object with text and statistics instead of text", NULL},
        {"quiet", 'q', OCH_OPT_FLAG, &quiet, 0, 0, NULL, "nothing but errors on standard error", NULL},
    };
    int n_args, rc = och_opts_parse(&usage, opts, sizeof opts / sizeof *opts, argc, argv, args, 2, &n_args);
    if (rc >= 0) return rc;
    if (n_args < 1) return och_main_usage("run", "which model?");
    if (n_args == 2) {
        if (strcmp(args[1], "-") != 0)
            return och_main_usage("run", "unexpected argument \"%.200s\"; a prompt is given with --prompt", args[1]);
        if (file) return och_main_usage("run", "both - and --file: expected one source of the prompt");
        file = "-";
    }
    if (stats && quiet) return och_main_usage("run", "both --stats and --quiet: expected one");
    if (prompt_text && file) return och_main_usage("run", "both --prompt and a file: expected one source of the prompt");
    if (!prompt_text && !file) return och_main_usage("run", "no prompt: give --prompt TEXT, --file PATH or - for standard input");
    ochre_session_options so = OCHRE_SESSION_OPTIONS_INIT;
    so.graphs = !strcmp(graphs, "on") ? OCHRE_GRAPHS_ON : !strcmp(graphs, "off") ? OCHRE_GRAPHS_OFF : OCHRE_GRAPHS_AUTO;
    if (so.graphs == OCHRE_GRAPHS_AUTO && strcmp(graphs, "auto") != 0)
        return och_main_usage("run", "--graphs: expected auto, on or off, found \"%.100s\"", graphs);
    if (och_main_kv_type(kv, &so.kv_type) != OCH_EXIT_OK)
        return och_main_usage("run", "--kv-type: expected auto, f32, f16, bf16 or fp8, found \"%.100s\"", kv);
    rc = och_main_check_provider("run", open.provider);
    if (rc >= 0) return rc;
    so.batch_invariant = invariant;
    if (system) chat = true;

    och_strbuf prompt = {0};
    och_err err = {0};
    ochre_error e = {0};
    ochre_model *model = NULL;
    ochre_session *session = NULL;
    sink out = {.json = json};
    double load_seconds = 0;
    if (prompt_text) och_strbuf_puts(&prompt, prompt_text);
    else if (read_prompt(file, &prompt, &err) != OCH_OK) {
        rc = och_main_fail(&err);
        goto done;
    }
    rc = och_main_trace_start(trace);
    if (rc >= 0) goto done;
    och_main_catch_interrupt();
    open.model = args[0];
    open.quiet = quiet;
    open.out_seconds = &load_seconds;
    rc = och_main_open(&open, &model);
    if (rc >= 0) goto done;
    ochre_model_info info = {.size_bytes = sizeof info};
    if (ochre_model_describe(model, &info, &e) != OCHRE_OK) {
        rc = och_main_fail_public(&e);
        goto done;
    }
    if (chat && !info.has_chat_template) {
        rc = och_main_error("the model has no chat template: it was not made for conversations; without --chat and --system it goes on "
                            "with the prompt as it stands");
        goto done;
    }
    if (chat) {
        rc = apply_chat(model, system, &prompt);
        if (rc >= 0) goto done;
    }
    /* A chat's text spells its special tokens, bos included; a plain prompt gets what the model wants and may spell
     * special tokens too. */
    uint32_t flags = chat ? OCHRE_PARSE_SPECIAL : OCHRE_ADD_SPECIAL | OCHRE_PARSE_SPECIAL;
    size_t n_prompt = 0;
    ochre_status st = ochre_tokenize(model, och_strbuf_str(&prompt), prompt.size, flags, NULL, 0, &n_prompt, &e);
    if (st != OCHRE_OK && st != OCHRE_RANGE) {
        rc = och_main_fail_public(&e);
        goto done;
    }
    e = (ochre_error){0};
    uint64_t need = (uint64_t)n_prompt + (uint64_t)max_tokens;
    if (!context) context = (int32_t)(need < (uint64_t)info.context_length ? need : (uint64_t)info.context_length);
    if (context < 1) context = 1;
    if (n_prompt > (size_t)context) {
        rc = och_main_error("the prompt has %zu tokens, but the sequence holds %d (%s)", n_prompt, context,
                            context == info.context_length ? "the model's context length" : "--context");
        goto done;
    }
    so.max_context = context;
    if (ochre_session_create(model, &so, &session, &e) != OCHRE_OK) {
        rc = och_main_fail_public(&e);
        goto done;
    }
    int32_t sequence;
    if (ochre_sequence_create(session, &sequence, &e) != OCHRE_OK) {
        rc = och_main_fail_public(&e);
        goto done;
    }
    ochre_stop stop = OCHRE_STOP_LENGTH;
    int32_t n_generated = 0;
    double t0 = och_now_seconds();
    och_main_interrupt_exits(true); /* reading a long prompt takes a while */
    st = ochre_generate(session, sequence, och_strbuf_str(&prompt), prompt.size, flags, max_tokens, &sampling, on_token, &out,
                        &stop, &n_generated, &e);
    double t1 = och_now_seconds();
    och_main_interrupt_exits(false);
    if (out.write_errno) {
        /* stdio keeps what it could not write; the message is said once, here. */
        rc = och_main_error("standard output: %s", strerror(out.write_errno));
        goto done;
    }
    if (st != OCHRE_OK) {
        rc = och_main_fail_public(&e);
        goto done;
    }
    rc = OCH_EXIT_OK;
    if (!json && n_generated > 0) putchar('\n');
    double prefill = out.n_tokens ? out.first - t0 : t1 - t0, decode = out.last - out.first;
    double prefill_speed = prefill > 0 ? (double)n_prompt / prefill : 0;
    double decode_speed = out.n_tokens > 1 && decode > 0 ? (out.n_tokens - 1) / decode : 0;
    const char *why = stop == OCHRE_STOP_END ? "end" : stop == OCHRE_STOP_LENGTH ? "length" : "interrupted";
    if (json) {
        och_strbuf j = {0};
        och_strbuf_puts(&j, "{\"text\": ");
        och_strbuf_json(&j, och_strbuf_str(&out.text), out.text.size);
        och_strbuf_printf(&j, ", \"stop\": \"%s\", \"prompt_tokens\": %zu, \"generated_tokens\": %d, "
                              "\"load_seconds\": %.4f, \"prefill_seconds\": %.4f, \"decode_seconds\": %.4f, "
                              "\"prefill_tokens_per_second\": %.2f, \"decode_tokens_per_second\": %.2f}\n",
                          why, n_prompt, n_generated, load_seconds, prefill, decode, prefill_speed, decode_speed);
        if (out.text.failed || j.failed) rc = och_main_error("out of memory for the text");
        else fputs(och_strbuf_str(&j), stdout);
        och_strbuf_deinit(&j);
    }
    if (stats) {
        fflush(stdout); /* the text ends before the table begins */
        fprintf(stderr, "ochre: load    %8.2f s\n", load_seconds);
        fprintf(stderr, "ochre: prefill %8.2f s  %6zu tokens  %9.1f tokens/s\n", prefill, n_prompt, prefill_speed);
        fprintf(stderr, "ochre: decode  %8.2f s  %6d tokens  %9.1f tokens/s\n", decode, n_generated, decode_speed);
        fprintf(stderr, "ochre: stopped by %s\n", why);
    }
    if (och_main_interrupted()) {
        fflush(stdout);
        fputs("ochre: interrupted\n", stderr);
        rc = OCH_EXIT_INTERRUPTED;
    } else if (stop == OCHRE_STOP_LENGTH && !quiet && n_generated < max_tokens) {
        fflush(stdout); /* the text's line ends before this one begins */
        fprintf(stderr, "ochre: the context of %d tokens is full\n", context);
    }
done:
    ochre_session_destroy(session);
    ochre_model_close(model);
    rc = och_main_trace_stop(rc);
    och_strbuf_deinit(&prompt);
    och_strbuf_deinit(&out.text);
    return rc;
}
