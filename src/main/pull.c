/* ochre pull: brings a model into the folder of models, whole and verified or not at all. */
#include "main/main.h"

#include "base/env.h"
#include "base/sha256.h"
#include "base/thread.h"
#include "file/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- short names: the installed script that takes models from the Python package index ---- */

static bool is_known(const char *name) {
    for (size_t i = 0; och_known_model_at(i); i++)
        if (!strcmp(och_known_model_at(i)->name, name)) return true;
    return false;
}

/* Where the script is, seen from the program: installed, or in the source tree. False with what was tried. */
static bool find_script(och_strbuf *out_path, och_strbuf *out_tried) {
    static const char *const places[] = {"../share/ochre/fetch-model", "../../tools/fetch-model", "fetch-model"};
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) n = 0;
    self[n] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        och_strbuf_clear(out_path);
        och_strbuf_printf(out_path, "%s/%s", slash ? self : ".", places[i]);
        if (access(och_strbuf_str(out_path), R_OK) == 0) return true;
        och_strbuf_printf(out_tried, "%s%s", i ? ", " : "", och_strbuf_str(out_path));
    }
    return false;
}

static int pull_known(const char *name, const char *dir, bool force) {
    och_strbuf script = {0}, tried = {0};
    int rc, status;
    pid_t pid;
    if (!find_script(&script, &tried)) {
        rc = och_main_error("%s comes from the Python package index through the script fetch-model, which is not there (tried "
                            "%s); install Ochre whole, or pull a URL instead",
                            name, och_strbuf_str(&tried));
        goto done;
    }
    static char python[] = "python3", dir_option[] = "--dir", force_option[] = "--force";
    char *argv[8] = {python, script.data, (char *)(uintptr_t)name, dir_option, (char *)(uintptr_t)dir};
    if (force) argv[5] = force_option;
    fflush(stdout);
    int e = posix_spawnp(&pid, "python3", NULL, NULL, argv, environ);
    if (e) {
        rc = och_main_error("python3, which brings %s from the Python package index, could not be started: %s; install it "
                            "(apt-get install python3), or pull a URL instead",
                            name, strerror(e));
        goto done;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    /* the script has said what is wrong */
    rc = WIFEXITED(status) ? (WEXITSTATUS(status) == 130 ? OCH_EXIT_INTERRUPTED : WEXITSTATUS(status) ? OCH_EXIT_FAILURE : 0)
                           : OCH_EXIT_INTERRUPTED;
done:
    och_strbuf_deinit(&script);
    och_strbuf_deinit(&tried);
    return rc;
}

/* ---- hf:owner/repo/file and URLs ---- */

/* Appends a path with all but unreserved characters (RFC 3986, 2.3) and "/" percent-encoded. */
static void put_encoded(och_strbuf *b, const char *s) {
    for (; *s; s++) {
        if (strchr("-._~/", *s) || (*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z'))
            och_strbuf_append(b, s, 1);
        else och_strbuf_printf(b, "%%%02X", (unsigned char)*s);
    }
}

/* hf:OWNER/REPO/FILE, FILE may lie in folders of the repository; each part is a plain name. */
static och_status hf_url(const char *name, och_strbuf *out_url, och_err *err) {
    const char *p = name;
    int n_parts = 0;
    for (;;) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return och_err_set(err, OCH_INVALID, "hf:%s: expected hf:OWNER/REPO/FILE, found an empty or dotted part", name);
        n_parts++;
        if (!p[n]) break;
        p += n + 1;
    }
    if (n_parts < 3)
        return och_err_set(err, OCH_INVALID, "hf:%s: expected hf:OWNER/REPO/FILE (three parts or more), found %d", name, n_parts);
    const char *owner_end = strchr(name, '/'), *repo_end = strchr(owner_end + 1, '/');
    const char *host = och_env_get(OCH_ENV_OCHRE_HF_ENDPOINT);
    char repo[512];
    if ((size_t)(repo_end - name) >= sizeof repo) return och_err_set(err, OCH_INVALID, "hf:%.60s...: the name is too long", name);
    memcpy(repo, name, (size_t)(repo_end - name));
    repo[repo_end - name] = 0;
    och_strbuf_printf(out_url, "%s/", host ? host : "https://huggingface.co");
    put_encoded(out_url, repo);
    och_strbuf_puts(out_url, "/resolve/main/");
    put_encoded(out_url, repo_end + 1);
    return och_strbuf_status(out_url, err);
}

/* The last part of a URL's path, decoded: the name of the file when none was given. */
static och_status name_of_url(const char *url, och_strbuf *out_name, och_err *err) {
    const char *path = strstr(url, "://"), *last, *end;
    path = path ? path + 3 : url;
    path += strcspn(path, "/?#");
    end = path + strcspn(path, "?#");
    last = path;
    for (const char *p = path; p < end; p++)
        if (*p == '/') last = p + 1;
    while (last < end) {
        char c = *last++, hex[3] = {0};
        if (c == '%' && end - last >= 2) {
            memcpy(hex, last, 2);
            if (strspn(hex, "0123456789abcdefABCDEF") == 2) {
                c = (char)strtol(hex, NULL, 16);
                last += 2;
            }
        }
        if ((unsigned char)c < ' ' || c == '/' || c == 0x7f)
            return och_err_set(err, OCH_INVALID, "%s: its file name has a slash or control character; give one with -o", url);
        och_strbuf_append(out_name, &c, 1);
    }
    if (!out_name->size || out_name->data[0] == '.')
        return och_err_set(err, OCH_INVALID, "%s: it names no file; give a name with -o", url);
    return och_strbuf_status(out_name, err);
}

typedef struct progress {
    bool tty, quiet, shown;
    int step;
    uint64_t first;
    double t0, t_shown;
} progress;

static bool on_progress(void *user, uint64_t done, uint64_t total) {
    progress *p = user;
    double now = och_now_seconds();
    if (och_main_interrupted()) return false;
    if (p->quiet || !done) return true;
    if (!p->t0) {
        p->t0 = now;
        p->first = done;
    }
    double rate = now > p->t0 && done > p->first ? (double)(done - p->first) / (now - p->t0) : 0;
    if (p->tty) {
        char bar[31];
        if (now - p->t_shown < 0.1 && done != total) return true;
        p->t_shown = now;
        p->shown = true;
        int n = total ? (int)(30.0 * (double)done / (double)total) : 0;
        for (int i = 0; i < 30; i++) bar[i] = i < n ? '#' : '.';
        bar[30] = 0;
        if (total)
            fprintf(stderr, "\rochre: [%s] %3d%%  %.1f of %.1f MB  %.1f MB/s ", bar, (int)(100.0 * (double)done / (double)total),
                    (double)done / 1e6, (double)total / 1e6, rate / 1e6);
        else fprintf(stderr, "\rochre: %.1f MB  %.1f MB/s ", (double)done / 1e6, rate / 1e6);
    } else if (total) {
        int step = (int)(4.0 * (double)done / (double)total); /* a line a quarter */
        if (step == p->step) return true;
        p->step = step;
        fprintf(stderr, "ochre: %3d%%  %.1f of %.1f MB\n", step * 25, (double)done / 1e6, (double)total / 1e6);
    }
    return true;
}

static void on_note(void *user, const char *text) {
    progress *p = user;
    if (p->quiet) return;
    fprintf(stderr, "%sochre: %s\n", p->shown ? "\n" : "", text);
    p->shown = false;
}

static och_status sha256_of(const char *path, char out_hex[65], och_err *err) {
    static char buf[1 << 18];
    och_sha256 h;
    FILE *f = fopen(path, "rb");
    if (!f) return och_err_set_native(err, OCH_IO, errno, "%s: %s", path, strerror(errno));
    och_sha256_init(&h);
    for (size_t n; (n = fread(buf, 1, sizeof buf, f)) > 0;) och_sha256_update(&h, buf, n);
    och_status st = ferror(f) ? och_err_set_native(err, OCH_IO, errno, "%s: %s", path, strerror(errno)) : OCH_OK;
    fclose(f);
    och_sha256_hex(&h, out_hex);
    return st;
}

/* A file of that name is there: is it what is asked for? Returns an exit code. */
static int already_there(const char *path, const char *sha256) {
    struct stat sb;
    char hex[65];
    och_err err = {0};
    if (stat(path, &sb) != 0 || !S_ISREG(sb.st_mode)) return och_main_error("%s exists and is not a file", path);
    if (!sha256) {
        fprintf(stderr, "ochre: %s is already there (not compared: no --sha256); --force fetches it again\n", path);
        printf("%s\n", path);
        return OCH_EXIT_OK;
    }
    if (sha256_of(path, hex, &err) != OCH_OK) return och_main_fail(&err);
    if (strcasecmp(hex, sha256) != 0)
        return och_main_error("%s is already there and is another file: sha256: expected %s, found %s; --force replaces it", path,
                              sha256, hex);
    fprintf(stderr, "ochre: %s is already there and is the right file\n", path);
    printf("%s\n", path);
    return OCH_EXIT_OK;
}

static och_status make_dirs(const char *dir, och_err *err) {
    char path[4096];
    size_t n = strlen(dir);
    if (n >= sizeof path) return och_err_set(err, OCH_INVALID, "--dir: the name is too long");
    memcpy(path, dir, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] && path[i] != '/') continue;
        char kept = path[i];
        path[i] = 0;
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return och_err_set_native(err, OCH_IO, errno, "%s: making the folder: %s", path, strerror(errno));
        path[i] = kept;
    }
    return OCH_OK;
}

int och_cmd_pull(int argc, char **argv) {
    static const och_usage usage = {
        .command = "pull",
        .synopsis = "MODEL [options]",
        .about = "Downloads a model into the folder of models. MODEL is a name that is known (smollm2-135m, gemma3-270m),\n"
                 "hf:OWNER/REPO/FILE, or an https URL. A download that was interrupted goes on where it stopped; the file gets\n"
                 "its name only when it is whole and, where a digest is known, right. The path goes to standard output.\n",
        .examples = "  ochre pull smollm2-135m\n"
                    "  ochre pull hf:HuggingFaceTB/SmolLM2-135M-Instruct/model.safetensors --dir models/smollm2\n"
                    "  ochre pull https://example.org/m.gguf --sha256 DIGEST\n",
    };
    const char *sha256 = NULL, *dir = NULL, *name = NULL, *args[1];
    int32_t retries = 5;
    bool force = false, quiet = false;
    const och_opt opts[] = {
        {.name = "sha256", .kind = OCH_OPT_STR, .out = &sha256, .arg = "HEX", .doc = "digest that the file must have"},
        {.name = "dir", .letter = 'd', .kind = OCH_OPT_STR, .out = &dir, .arg = "D",
         .doc = "folder to put it in (default: OCHRE_MODELS, or models)"},
        {.name = "output", .letter = 'o', .kind = OCH_OPT_STR, .out = &name, .arg = "NAME",
         .doc = "name of the file (default: the last part of the URL)"},
        {.name = "retries", .kind = OCH_OPT_I32, .out = &retries, .max = 100, .arg = "N",
         .doc = "attempts after a failure that brought nothing new (default: 5)"},
        {.name = "force", .kind = OCH_OPT_FLAG, .out = &force, .doc = "fetch and replace a file that is there"},
        {.name = "quiet", .letter = 'q', .kind = OCH_OPT_FLAG, .out = &quiet, .doc = "no progress"},
    };
    int n_args;
    int rc = och_opts_parse(&usage, opts, sizeof opts / sizeof *opts, argc, argv, args, 1, &n_args);
    if (rc >= 0) return rc;
    if (n_args != 1) return och_main_usage("pull", "which model? expected a name, hf:OWNER/REPO/FILE or a URL");
    if (sha256 && !och_sha256_is_hex(sha256))
        return och_main_usage("pull", "--sha256: expected 64 hexadecimal digits, found \"%.80s\"", sha256);
    if (name && (!*name || strchr(name, '/'))) return och_main_usage("pull", "-o: expected a name without folders (see --dir)");
    if (dir && !*dir) return och_main_usage("pull", "--dir: expected a folder, found an empty name");
    if (!dir) dir = och_models_dir();

    if (is_known(args[0])) {
        if (sha256 || name) return och_main_usage("pull", "%s has its name and digest already: leave out --sha256 and -o", args[0]);
        return pull_known(args[0], dir, force);
    }
    och_strbuf url = {0}, path = {0}, file = {0};
    och_err err = {0};
    och_status st = OCH_OK;
    progress p = {.tty = isatty(STDERR_FILENO) != 0, .quiet = quiet};
    och_fetch_result got;
    if (!strncmp(args[0], "hf:", 3)) {
        OCH_TRY_GOTO(hf_url(args[0] + 3, &url, &err));
    } else if (strstr(args[0], "://")) {
        och_strbuf_puts(&url, args[0]);
        OCH_TRY_GOTO(och_strbuf_status(&url, &err));
    } else {
        const char *names[8];
        size_t n = 0;
        for (; n < 8 && och_known_model_at(n); n++) names[n] = och_known_model_at(n)->name;
        const char *near = och_main_nearest(args[0], names, n);
        rc = near ? och_main_usage("pull", "no model is called %.100s; did you mean %s?", args[0], near)
                  : och_main_usage("pull", "%.100s: expected smollm2-135m, gemma3-270m, hf:OWNER/REPO/FILE or a URL", args[0]);
        goto out;
    }
    OCH_TRY_GOTO(och_fetch_check_url(url.data, &err));
    if (!name) {
        OCH_TRY_GOTO(name_of_url(url.data, &file, &err));
        name = file.data;
    }
    och_strbuf_printf(&path, "%s/%s", dir, name);
    OCH_TRY_GOTO(och_strbuf_status(&path, &err));
    struct stat sb;
    if (stat(path.data, &sb) == 0 && (!force || !S_ISREG(sb.st_mode))) {
        rc = already_there(path.data, sha256);
        goto out;
    }
    OCH_TRY_GOTO(make_dirs(dir, &err));
    och_main_catch_interrupt();
    const och_fetch_request request = {.url = url.data, .path = path.data, .sha256 = sha256, .max_retries = retries,
                                       .first_wait_ms = 500, .progress = on_progress, .note = on_note, .user = &p};
    st = och_fetch(&request, &got, &err);
    if (p.shown) fputc('\n', stderr);
    if (st == OCH_OK) {
        fprintf(stderr, "ochre: %s is ready: %.1f MB, sha256 %s%s\n", path.data, (double)got.size_bytes / 1e6, got.sha256,
                got.is_verified ? " (as expected)" : " (nobody stated one to compare with)");
        printf("%s\n", path.data);
    }
done:
    rc = st == OCH_OK ? OCH_EXIT_OK : st == OCH_INVALID ? och_main_usage("pull", "%s", err.message) : och_main_fail(&err);
out:
    och_strbuf_deinit(&url);
    och_strbuf_deinit(&path);
    och_strbuf_deinit(&file);
    return rc;
}
