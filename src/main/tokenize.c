/* ochre tokenize: text to ids, ids to text. */
#include "base/alloc.h"
#include "file/gguf.h"
#include "main/main.h"
#include "tok/tok.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A GGUF, a tokenizer.json, or a folder that holds one. */
static och_status open_tok(const char *path, och_tok **out_tok, och_err *err) {
    struct stat sb;
    size_t n = strlen(path);
    *out_tok = NULL;
    if (stat(path, &sb) == 0 && S_ISDIR(sb.st_mode)) {
        och_strbuf json = {0}, config = {0};
        och_strbuf_printf(&json, "%s/tokenizer.json", path);
        och_strbuf_printf(&config, "%s/tokenizer_config.json", path);
        och_status st = och_strbuf_status(&json, err);
        if (st == OCH_OK) st = och_strbuf_status(&config, err);
        if (st == OCH_OK)
            st = och_tok_open_json(och_strbuf_str(&json),
                                   stat(och_strbuf_str(&config), &sb) == 0 ? och_strbuf_str(&config) : NULL, out_tok,
                                   err);
        och_strbuf_deinit(&json);
        och_strbuf_deinit(&config);
        return st;
    }
    if (n > 5 && strcmp(path + n - 5, ".json") == 0) return och_tok_open_json(path, NULL, out_tok, err);
    och_gguf *g;
    OCH_TRY(och_gguf_open(path, &g, err));
    och_status st = och_tok_open_gguf(g, out_tok, err);
    och_gguf_close(g);
    return st;
}

static och_status read_all(const char *path, och_strbuf *out, och_err *err) {
    if (path && !strcmp(path, "-")) path = NULL;
    FILE *f = path ? fopen(path, "rb") : stdin;
    if (!f)
        return och_err_set_native(err, OCH_IO, errno, "%s: expected a file that can be read, found: %s", path,
                                  strerror(errno));
    char buf[65536];
    size_t n;
    while ((n = fread(buf, 1, sizeof buf, f)) > 0) och_strbuf_append(out, buf, n);
    int e = ferror(f) ? errno : 0;
    if (path) fclose(f);
    if (e) return och_err_set_native(err, OCH_IO, e, "%s: %s", path ? path : "standard input", strerror(e));
    return och_strbuf_status(out, err);
}

static och_status parse_ids(const char *text, size_t n, och_tok_ids *out, och_err *err) {
    if (memchr(text, 0, n)) return och_err_set(err, OCH_INVALID, "expected token ids, found a NUL byte");
    for (const char *p = text; *p;) {
        if (strchr(" \t\r\n,[]", *p)) {
            p++;
            continue;
        }
        char *end;
        errno = 0;
        long v = strtol(p, &end, 10);
        if (end == p || errno || v < 0 || v > INT32_MAX)
            return och_err_set(err, OCH_INVALID, "expected token ids, found \"%.40s\"", p);
        OCH_TRY(och_tok_ids_push(out, (int32_t)v, err));
        p = end;
    }
    return OCH_OK;
}

static void print_ids(const och_tok *tok, const och_tok_ids *ids, bool json, bool pieces) {
    och_strbuf b = {0};
    if (json) printf("{\"n\": %zu, \"ids\": [", ids->n);
    for (size_t i = 0; i < ids->n; i++) {
        if (json || !pieces) {
            printf("%s%d", i ? (json ? ", " : " ") : "", ids->ids[i]);
            continue;
        }
        const char *s;
        size_t n;
        och_tok_piece(tok, ids->ids[i], &s, &n);
        och_strbuf_clear(&b);
        och_strbuf_json(&b, s, n);
        printf("%8d  %s\n", ids->ids[i], och_strbuf_str(&b));
    }
    if (json) {
        printf("], \"pieces\": [");
        for (size_t i = 0; i < ids->n; i++) {
            const char *s;
            size_t n;
            och_tok_piece(tok, ids->ids[i], &s, &n);
            och_strbuf_clear(&b);
            och_strbuf_json(&b, s, n);
            printf("%s%s", i ? ", " : "", och_strbuf_str(&b));
        }
        printf("]}");
    }
    if (json || !pieces) printf("\n");
    och_strbuf_deinit(&b);
}

static const och_usage usage = {
    .command = "tokenize",
    .synopsis = "MODEL [TEXT] [options]",
    .about = "Prints the ids of TEXT, of a file, or of standard input. MODEL is a GGUF file, a folder with a "
             "tokenizer.json, that\n"
             "file itself, or a known model's name.\n",
    .examples = "  ochre tokenize smollm2-135m \"Hello, world\"\n"
                "  ochre tokenize smollm2-135m --file notes.txt --json\n"
                "  ochre tokenize smollm2-135m --decode \"19556 28 905\"\n",
};

int och_cmd_tokenize(int argc, char **argv) {
    const char *file = NULL;
    bool json = false, pieces = false, no_special = false, no_parse = false, decode = false, count = false;
    const och_opt opts[] = {
        {.name = "file",
         .letter = 'f',
         .kind = OCH_OPT_STR,
         .out = &file,
         .arg = "PATH",
         .doc = "read the text from a file; - is standard input"},
        {.name = "json", .kind = OCH_OPT_FLAG, .out = &json, .doc = "print an object with ids and pieces"},
        {.name = "pieces", .kind = OCH_OPT_FLAG, .out = &pieces, .doc = "print a line a token, with its text"},
        {.name = "count", .kind = OCH_OPT_FLAG, .out = &count, .doc = "print the number of tokens alone"},
        {.name = "no-special", .kind = OCH_OPT_FLAG, .out = &no_special, .doc = "add neither a begin nor an end token"},
        {.name = "no-parse-special",
         .kind = OCH_OPT_FLAG,
         .out = &no_parse,
         .doc = "take special tokens in the text as plain text"},
        {.name = "decode",
         .kind = OCH_OPT_FLAG,
         .out = &decode,
         .doc = "take the text as ids and print what they spell"},
    };
    const char *args[2] = {NULL, NULL};
    int n_args = 0;
    int rc = och_opts_parse(&usage, opts, sizeof opts / sizeof *opts, argc, argv, args, 2, &n_args);
    if (rc >= 0) return rc;
    if (n_args == 0) return och_main_usage("tokenize", "expected a model");
    if (file && n_args == 2) return och_main_usage("tokenize", "expected a text or --file, found both");
    if (json + pieces + count + decode > 1)
        return och_main_usage("tokenize", "expected at most one of --json, --pieces, --count and --decode, found %d",
                              json + pieces + count + decode);

    och_err err = {0};
    och_strbuf path = {0}, text = {0}, out = {0};
    och_tok_ids ids = {0};
    och_tok *tok = NULL;
    och_status st = och_model_path(args[0], &path, &err);
    if (st == OCH_OK) st = open_tok(och_strbuf_str(&path), &tok, &err);
    if (st == OCH_OK && n_args == 2) och_strbuf_puts(&text, args[1]);
    else if (st == OCH_OK) st = read_all(file, &text, &err);
    if (st == OCH_OK) st = och_strbuf_status(&text, &err);
    if (st == OCH_OK && decode) {
        st = parse_ids(och_strbuf_str(&text), text.size, &ids, &err);
        if (st == OCH_OK) st = och_tok_decode(tok, ids.ids, ids.n, no_special, &out, &err);
        if (st == OCH_OK) {
            fwrite(och_strbuf_str(&out), 1, out.size, stdout);
            printf("\n");
        }
    } else if (st == OCH_OK) {
        unsigned flags = (no_special ? 0 : OCH_TOK_ADD_SPECIAL) | (no_parse ? 0 : OCH_TOK_PARSE_SPECIAL);
        st = och_tok_encode(tok, och_strbuf_str(&text), text.size, flags, &ids, &err);
        if (st == OCH_OK && count) printf("%zu\n", ids.n);
        else if (st == OCH_OK) print_ids(tok, &ids, json, pieces);
    }
    rc = st == OCH_OK ? OCH_EXIT_OK : och_main_fail(&err);
    och_tok_destroy(tok);
    och_tok_ids_deinit(&ids);
    och_strbuf_deinit(&path);
    och_strbuf_deinit(&text);
    och_strbuf_deinit(&out);
    return rc;
}
