/* Downloads through libcurl. Owns PATH.part and PATH.part.meta, and an advisory lock on the first while it writes. */
#include "file/fetch.h"

#include "base/alloc.h"
#include "base/sha256.h"
#include "base/strbuf.h"
#include "file/curl.h"
#include "file/mapping.h"
#include "file/write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { ETAG_BYTES = 256, MAX_WAIT_MS = 30000, STALLED_SECONDS = 60, CONNECT_SECONDS = 30, MAX_REDIRECTS = 10 };

/* What the headers of the last response said; reset at every status line, so that a redirect's are not taken for it. */
typedef struct response {
    int status;
    bool has_length, has_range, has_begun;
    uint64_t length;                /* Content-Length */
    uint64_t range_start, range_total; /* Content-Range */
    char etag[ETAG_BYTES];
} response;

typedef struct transfer {
    const och_curl *curl;
    const och_fetch_request *r;
    char *part, *meta; /* owned */
    int fd;
    och_sha256 hash;
    uint64_t offset;       /* bytes of the part, all hashed */
    uint64_t best;         /* the most that offset ever was */
    uint64_t resumed_from; /* offset when the last response began */
    bool has_size;
    uint64_t size;         /* of the whole file */
    char etag[ETAG_BYTES]; /* of the bytes in the part */
    char sha256[65];       /* expected; "" when nobody said */
    uint64_t linked_size;  /* X-Linked-Size; 0: none */
    response now;
    bool is_stale;   /* the part does not fit what the server has: start again */
    bool cancelled;
    och_err *err;    /* filled by a callback that ended the transfer for good */
    bool has_failed;
} transfer;

/* ---- URLs ---- */

static bool is_loopback(const char *host, size_t n) {
    if ((n == 9 && !strncasecmp(host, "localhost", 9)) || (n == 5 && !memcmp(host, "[::1]", 5))) return true;
    if (n < 4 || memcmp(host, "127.", 4)) return false;
    for (size_t i = 0; i < n; i++)
        if (host[i] != '.' && (host[i] < '0' || host[i] > '9')) return false; /* 127.example.com */
    return true;
}

/* The host between "//" and the port or path; false when there are credentials in between or nothing is left. */
static bool find_host(const char *after_scheme, const char **out_host, size_t *out_n) {
    size_t n = strcspn(after_scheme, "/?#");
    *out_host = after_scheme;
    *out_n = 0;
    if (memchr(after_scheme, '@', n)) return false;
    if (after_scheme[0] == '[') {
        const char *close = memchr(after_scheme, ']', n);
        if (!close || (close + 1 < after_scheme + n && close[1] != ':')) return false;
        *out_n = (size_t)(close + 1 - after_scheme);
    } else {
        const char *colon = memchr(after_scheme, ':', n);
        *out_n = colon ? (size_t)(colon - after_scheme) : n;
    }
    return *out_n > 0;
}

och_status och_fetch_check_url(const char *url, och_err *err) {
    const char *host;
    size_t n;
    /* a backslash too: some parsers take it for a slash, so that they and we would see different hosts */
    for (const unsigned char *p = (const unsigned char *)url; *p; p++)
        if (*p <= ' ' || *p == 0x7f || *p == '\\')
            return och_err_set(err, OCH_INVALID,
                               "URL: expected no spaces, backslashes and control characters, found byte 0x%02x", *p);
    if (!strncasecmp(url, "https://", 8)) {
        if (find_host(url + 8, &host, &n)) return OCH_OK;
        return och_err_set(err, OCH_INVALID, "%s: expected a host, and no user or password, after https://", url);
    }
    if (!strncasecmp(url, "http://", 7)) {
        if (find_host(url + 7, &host, &n) && is_loopback(host, n)) return OCH_OK;
        return och_err_set(err, OCH_INVALID,
                           "%s: expected https:// (http:// is taken for loopback hosts only: nothing would protect the file)",
                           url);
    }
    return och_err_set(err, OCH_INVALID, "%s: expected a URL with https://", url);
}

/* ---- the part and what is known of it ---- */

static och_status disk_error(const transfer *t, const char *what, och_err *err) {
    int e = errno;
    return och_err_set_native(err, OCH_IO, e, "%s: %s: %s (%" PRIu64 " bytes are kept; the same command goes on from there)",
                              t->part, what, strerror(e), t->offset);
}

static och_status discard_part(transfer *t, och_err *err) {
    t->offset = 0;
    t->resumed_from = 0;
    t->has_size = false;
    t->etag[0] = 0;
    och_sha256_init(&t->hash);
    (void)unlink(t->meta);
    if (ftruncate(t->fd, 0) != 0) return disk_error(t, "emptying the file", err);
    return OCH_OK;
}

static och_status save_meta(const transfer *t, och_err *err) {
    och_strbuf b = {0};
    och_strbuf_printf(&b, "url=%s\netag=%s\nsha256=%s\n", t->r->url, t->etag, t->sha256);
    if (t->has_size) och_strbuf_printf(&b, "size=%" PRIu64 "\n", t->size);
    och_status st = och_strbuf_status(&b, err);
    if (st == OCH_OK) st = och_write_file(t->meta, b.data, b.size, err);
    och_strbuf_deinit(&b);
    return st;
}

/* Copies the value of "key=" into out when it is there and fits. */
static bool meta_value(const char *text, size_t n, const char *key, char *out, size_t out_bytes) {
    size_t n_key = strlen(key);
    out[0] = 0;
    for (const char *p = text, *end = text + n; p < end;) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        if (!eol) return false; /* cut short: not trusted */
        size_t len = (size_t)(eol - p);
        if (len > n_key && !memcmp(p, key, n_key) && p[n_key] == '=' && len - n_key - 1 < out_bytes) {
            memcpy(out, p + n_key + 1, len - n_key - 1);
            out[len - n_key - 1] = 0;
            return true;
        }
        p = eol + 1;
    }
    return false;
}

/* A strong validator (RFC 9110, 8.8.1): a quoted ETag without W/. */
static bool is_strong(const char *etag) { return etag[0] == '"'; }

/* Whether bytes of another connection can be gone on with: there is a way to notice that the server's file changed. */
static bool can_resume(const transfer *t) { return t->offset && (is_strong(t->etag) || t->sha256[0]); }

/* Reads the meta file; true when the part belongs to this URL and there is a way to notice that the server's file changed. */
static bool load_meta(transfer *t) {
    och_mapping *m;
    och_err ignored = {0};
    char size[24], sha256[65];
    if (och_mapping_open(t->meta, &m, &ignored) != OCH_OK) return false;
    const char *text = (const char *)m->data;
    size_t n = (size_t)m->size, n_url = strlen(t->r->url);
    bool ours = n > n_url + 5 && !memcmp(text, "url=", 4) && !memcmp(text + 4, t->r->url, n_url) && text[4 + n_url] == '\n';
    if (ours) {
        (void)meta_value(text, n, "etag", t->etag, sizeof t->etag);
        if (meta_value(text, n, "size", size, sizeof size)) {
            t->size = strtoull(size, NULL, 10);
            t->has_size = true;
        }
        if (meta_value(text, n, "sha256", sha256, sizeof sha256) && och_sha256_is_hex(sha256) && !t->sha256[0])
            memcpy(t->sha256, sha256, sizeof sha256);
    }
    och_mapping_close(m);
    return ours && (is_strong(t->etag) || t->sha256[0]);
}

static och_status hash_part(transfer *t, uint64_t n_bytes, och_err *err) {
    size_t n_buf = 1 << 18;
    uint8_t *buf = och_malloc(n_buf);
    if (!buf) return och_err_nomem(err, n_buf, "a read buffer");
    och_status st = OCH_OK;
    for (uint64_t at = 0; at < n_bytes;) {
        ssize_t n = pread(t->fd, buf, n_buf, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            st = disk_error(t, "reading what is there", err);
            break;
        }
        och_sha256_update(&t->hash, buf, (size_t)n);
        at += (uint64_t)n;
    }
    och_free(buf);
    return st;
}

/* Opens and locks the part, and decides whether it can be gone on with. */
static och_status open_part(transfer *t, och_err *err) {
    struct stat sb;
    t->fd = open(t->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (t->fd < 0) return disk_error(t, "opening the file", err);
    if (flock(t->fd, LOCK_EX | LOCK_NB) != 0) {
        int e = errno;
        close(t->fd);
        t->fd = -1;
        return och_err_set_native(err, OCH_UNAVAILABLE, e, "%s: another download is writing to it", t->part);
    }
    if (fstat(t->fd, &sb) != 0) return disk_error(t, "fstat", err);
    bool goes_on = sb.st_size > 0 && load_meta(t) && (!t->has_size || (uint64_t)sb.st_size <= t->size);
    if (!goes_on) return discard_part(t, err);
    och_sha256_init(&t->hash);
    OCH_TRY(hash_part(t, (uint64_t)sb.st_size, err));
    t->offset = t->best = t->resumed_from = (uint64_t)sb.st_size;
    return OCH_OK;
}

/* ---- callbacks of libcurl ---- */

static void fail_for_good(transfer *t, och_status st, const char *fmt, ...) OCH_PRINTF(3, 4);
static void fail_for_good(transfer *t, och_status st, const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    (void)och_err_set(t->err, st, "%s", text);
    t->has_failed = true;
}

/* "name: value" with the name in any case; the value without space around it, or NULL. */
static const char *header_value(const char *line, size_t n, const char *name, char *out, size_t out_bytes) {
    size_t n_name = strlen(name);
    if (n <= n_name || line[n_name] != ':' || strncasecmp(line, name, n_name)) return NULL;
    line += n_name + 1;
    n -= n_name + 1;
    while (n && (*line == ' ' || *line == '\t')) line++, n--;
    while (n && (line[n - 1] == '\r' || line[n - 1] == '\n' || line[n - 1] == ' ')) n--;
    if (n >= out_bytes) return NULL;
    memcpy(out, line, n);
    out[n] = 0;
    return out;
}

static bool parse_u64(const char *s, const char **out_end, uint64_t *out_v) {
    char *end;
    *out_v = 0;
    *out_end = s;
    if (*s < '0' || *s > '9') return false;
    errno = 0;
    *out_v = strtoull(s, &end, 10);
    *out_end = end;
    return errno == 0;
}

static size_t on_header(char *line, size_t one, size_t n, void *user) {
    transfer *t = user;
    char value[2048];
    const char *end;
    uint64_t first, last, total;
    n *= one;
    if (n >= 5 && !memcmp(line, "HTTP/", 5)) {
        /* "HTTP/1.1 200 OK"; the line has no NUL of its own */
        const char *space = memchr(line, ' ', n);
        t->now = (response){0};
        for (const char *p = space; p && ++p < line + n && *p >= '0' && *p <= '9' && t->now.status < 1000;)
            t->now.status = t->now.status * 10 + (*p - '0');
    } else if (header_value(line, n, "content-length", value, sizeof value)) {
        t->now.has_length = parse_u64(value, &end, &t->now.length) && !*end;
    } else if (header_value(line, n, "content-range", value, sizeof value)) {
        /* "bytes FIRST-LAST/TOTAL" (RFC 9110, 14.4); a total of "*" is no help and counts as none */
        if (!strncasecmp(value, "bytes ", 6) && parse_u64(value + 6, &end, &first) && *end == '-' &&
            parse_u64(end + 1, &end, &last) && *end == '/' && parse_u64(end + 1, &end, &total) && !*end) {
            t->now.has_range = first <= last && last < total;
            t->now.range_start = first;
            t->now.range_total = total;
        }
    } else if (header_value(line, n, "etag", value, ETAG_BYTES)) {
        memcpy(t->now.etag, value, strlen(value) + 1);
    } else if (header_value(line, n, "x-linked-etag", value, sizeof value)) {
        /* a store of large files names their SHA-256 here, in quotes, on the answer that redirects to them */
        char *digest = value;
        size_t len = strlen(digest);
        if (len == 66 && digest[0] == '"' && digest[65] == '"') digest[65] = 0, digest++;
        if (och_sha256_is_hex(digest) && !t->r->sha256) memcpy(t->sha256, digest, sizeof t->sha256);
    } else if (header_value(line, n, "x-linked-size", value, sizeof value)) {
        if (!parse_u64(value, &end, &t->linked_size) || *end) t->linked_size = 0;
    } else if (header_value(line, n, "location", value, sizeof value) && !strncasecmp(value, "http://", 7)) {
        if (och_fetch_check_url(value, NULL) != OCH_OK) {
            fail_for_good(t, OCH_IO, "%.200s: redirected to %.200s: expected https://", t->r->url, value);
            return 0;
        }
    }
    return n;
}

/* Before the first byte of a body: is it the beginning, or what follows the part? False ends this transfer. */
static bool begin_body(transfer *t) {
    response *now = &t->now;
    struct statvfs vfs;
    now->has_begun = true;
    if (now->status != 200 && now->status != 206) return true; /* an error's page: dropped */
    uint64_t total = now->status == 200 ? now->length : now->range_total;
    bool has_total = now->status == 200 ? now->has_length : now->has_range;
    if (now->status == 206 && (!now->has_range || now->range_start != t->offset || (t->has_size && total != t->size) ||
                               (is_strong(t->etag) && now->etag[0] && strcmp(now->etag, t->etag)))) {
        t->is_stale = true;
        return false;
    }
    if (has_total && t->linked_size && total != t->linked_size) {
        fail_for_good(t, OCH_CORRUPT, "%.200s: length: expected %" PRIu64 " bytes (X-Linked-Size), found %" PRIu64, t->r->url,
                      t->linked_size, total);
        return false;
    }
    if (now->status == 200 && t->offset) {
        if (t->r->note) t->r->note(t->r->user, "the server sends the file from its beginning, so what was there is dropped");
        if (discard_part(t, t->err) != OCH_OK) {
            t->has_failed = true;
            return false;
        }
    }
    t->resumed_from = t->offset;
    t->has_size = has_total;
    t->size = total;
    if (now->etag[0] || now->status == 200) memcpy(t->etag, now->etag, sizeof t->etag);
    if (has_total && fstatvfs(t->fd, &vfs) == 0 && (uint64_t)vfs.f_bavail < (total - t->offset) / vfs.f_frsize) {
        fail_for_good(t, OCH_IO, "%.200s: disk: expected room for %" PRIu64 " bytes more, found %" PRIu64, t->part,
                      total - t->offset, (uint64_t)vfs.f_bavail * vfs.f_frsize);
        return false;
    }
    if (save_meta(t, t->err) != OCH_OK) t->has_failed = true;
    return !t->has_failed;
}

static size_t on_body(char *bytes, size_t one, size_t n, void *user) {
    transfer *t = user;
    n *= one;
    if (!t->now.has_begun && !begin_body(t)) return 0;
    if (t->now.status != 200 && t->now.status != 206) return n;
    if (t->has_size && n > t->size - t->offset) {
        t->is_stale = true; /* more than was announced */
        return 0;
    }
    for (size_t at = 0; at < n;) {
        ssize_t k = pwrite(t->fd, bytes + at, n - at, (off_t)t->offset);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) {
            (void)disk_error(t, "writing", t->err);
            t->has_failed = true;
            return 0;
        }
        och_sha256_update(&t->hash, bytes + at, (size_t)k);
        t->offset += (uint64_t)k;
        at += (size_t)k;
    }
    return n;
}

static int on_progress(void *user, int64_t dl_total, int64_t dl_now, int64_t ul_total, int64_t ul_now) {
    transfer *t = user;
    (void)dl_total, (void)dl_now, (void)ul_total, (void)ul_now;
    if (t->r->progress && !t->r->progress(t->r->user, t->offset, t->has_size ? t->size : 0)) t->cancelled = true;
    return t->cancelled;
}

/* ---- one connection ---- */

static och_status perform(transfer *t, int *out_rc, char text[OCH_CURL_ERROR_SIZE], och_err *err) {
    const och_curl *c = t->curl;
    och_curl_slist *headers = NULL;
    char line[ETAG_BYTES + 16], range[32];
    och_status st = OCH_OK;
    bool is_https = !strncasecmp(t->r->url, "https://", 8), ok = true;
    void *h = c->easy_init();
    *out_rc = OCH_CURLE_OUT_OF_MEMORY;
    text[0] = 0;
    if (!h) return och_err_nomem(err, 0, "a libcurl handle");
    t->now = (response){0};
    t->is_stale = false;
#define SET(option, value) ok = ok && c->easy_setopt(h, OCH_CURLOPT_##option, value) == OCH_CURLE_OK
    SET(URL, t->r->url);
    SET(ERRORBUFFER, text);
    SET(USERAGENT, "ochre/" OCHRE_VERSION);
    SET(WRITEFUNCTION, on_body);
    SET(WRITEDATA, t);
    SET(HEADERFUNCTION, on_header);
    SET(HEADERDATA, t);
    SET(XFERINFOFUNCTION, on_progress);
    SET(XFERINFODATA, t);
    SET(NOPROGRESS, 0L);
    SET(NOSIGNAL, 1L);
    SET(FOLLOWLOCATION, 1L);
    SET(MAXREDIRS, (long)MAX_REDIRECTS);
    SET(CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    SET(LOW_SPEED_LIMIT, 1L);
    SET(LOW_SPEED_TIME, (long)STALLED_SECONDS);
    /* of redirections too, so that https never turns into http */
    SET(PROTOCOLS, (long)(is_https ? OCH_CURLPROTO_HTTPS : OCH_CURLPROTO_HTTP));
    if (!is_https) SET(NOPROXY, "*"); /* a loopback host */
    if (t->offset) {
        snprintf(range, sizeof range, "%" PRIu64 "-", t->offset);
        SET(RANGE, range);
        if (is_strong(t->etag)) {
            snprintf(line, sizeof line, "If-Range: %s", t->etag);
            headers = c->slist_append(NULL, line);
            ok = ok && headers;
            SET(HTTPHEADER, headers);
        }
    }
#undef SET
    if (!ok) {
        st = och_err_set(err, OCH_UNAVAILABLE, "%s: it does not take the options that downloads need (%s)", c->file,
                         c->version());
    } else {
        *out_rc = c->easy_perform(h);
        if (!text[0]) snprintf(text, OCH_CURL_ERROR_SIZE, "%s", c->easy_strerror(*out_rc));
        /* an answer without a body never reached on_body */
        if (*out_rc == OCH_CURLE_OK && !t->now.has_begun && (t->now.status == 200 || t->now.status == 206)) (void)begin_body(t);
    }
    c->slist_free_all(headers);
    c->easy_cleanup(h);
    return st;
}

static bool can_retry_code(int rc) {
    static const int codes[] = {OCH_CURLE_COULDNT_RESOLVE_HOST, OCH_CURLE_COULDNT_CONNECT, OCH_CURLE_PARTIAL_FILE,
                                OCH_CURLE_OPERATION_TIMEDOUT,   OCH_CURLE_SSL_CONNECT_ERROR, OCH_CURLE_GOT_NOTHING,
                                OCH_CURLE_SEND_ERROR,           OCH_CURLE_RECV_ERROR,        OCH_CURLE_HTTP2_STREAM};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i] == rc) return true;
    return false;
}

static bool can_retry_status(int status) {
    return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

static och_status status_error(const transfer *t, och_err *err) {
    int s = t->now.status;
    const char *hint = s == 404 || s == 410   ? ": there is no such file"
                       : s == 401 || s == 403 ? ": it may need an account, or its licence accepted on the web page"
                       : s == 429             ? ": too many requests, try again later"
                                              : "";
    return och_err_set_native(err, s == 404 || s == 410 ? OCH_NOTFOUND : OCH_IO, s,
                              "%s: expected HTTP status 200, found %d%s", t->r->url, s, hint);
}

/* Waits before a retry; false when the caller wants to stop. */
static bool wait_ms(transfer *t, uint64_t ms) {
    while (ms) {
        uint64_t slice = ms < 100 ? ms : 100;
        struct timespec ts = {.tv_nsec = (long)(slice * 1000000)};
        nanosleep(&ts, NULL);
        ms -= slice;
        if (on_progress(t, 0, 0, 0, 0)) return false;
    }
    return true;
}

static bool is_complete(const transfer *t) { return t->has_size && t->offset == t->size; }

/* Connects until the part is complete. `why` ends up in the message when it never is. */
static och_status transfer_all(transfer *t, och_err *err) {
    int failures = 0;
    char text[OCH_CURL_ERROR_SIZE], why[OCH_CURL_ERROR_SIZE + 64];
    uint64_t wait = t->r->first_wait_ms;
    while (!is_complete(t)) {
        int rc;
        OCH_TRY(perform(t, &rc, text, err));
        if (t->has_failed) return err ? err->status : OCH_IO;
        if (t->cancelled)
            return och_err_set(err, OCH_CANCELLED, "%s: stopped; %" PRIu64 " bytes are kept in %s", t->r->url, t->offset,
                               t->part);
        int s = t->now.status;
        if (t->is_stale || (rc == OCH_CURLE_OK && s == 416)) {
            OCH_TRY(discard_part(t, err));
            snprintf(why, sizeof why, "the server's answer does not fit what it said before");
        } else if (rc == OCH_CURLE_OK && (s == 200 || s == 206)) {
            if (!t->has_size || is_complete(t)) return OCH_OK;
            snprintf(why, sizeof why, "the connection ended early");
        } else if (rc == OCH_CURLE_OK) {
            if (!can_retry_status(s)) return status_error(t, err);
            snprintf(why, sizeof why, "HTTP status %d", s);
        } else {
            bool is_trust = rc == OCH_CURLE_PEER_FAILED_VERIFICATION || rc == OCH_CURLE_SSL_CACERT_BADFILE;
            if (!can_retry_code(rc))
                return och_err_set_native(err, OCH_IO, rc, "%s: %s%s", t->r->url, text,
                                          is_trust ? " (the system's root certificates: apt-get install ca-certificates)" : "");
            snprintf(why, sizeof why, "%s", text);
        }
        if (t->offset > t->best) {
            t->best = t->offset;
            failures = 0;
            wait = t->r->first_wait_ms;
        }
        if (t->offset && !can_resume(t)) OCH_TRY(discard_part(t, err));
        if (failures++ >= t->r->max_retries) {
            char kept[128] = "nothing is kept";
            if (can_resume(t))
                snprintf(kept, sizeof kept, "%" PRIu64 " bytes are kept, the same command goes on from there", t->offset);
            return och_err_set_native(err, OCH_IO, rc ? rc : s, "%s: %s (gave up after %d attempts in a row; %s)", t->r->url,
                                      why, failures, kept);
        }
        if (t->r->note) {
            char note[sizeof why + 96];
            snprintf(note, sizeof note, "%s; trying again in %.1f s from byte %" PRIu64, why, (double)wait / 1e3, t->offset);
            t->r->note(t->r->user, note);
        }
        if (!wait_ms(t, wait)) continue; /* perform's first callback stops at once */
        wait = wait * 2 < MAX_WAIT_MS ? wait * 2 : MAX_WAIT_MS;
    }
    return OCH_OK;
}

static bool digest_fits(transfer *t, char out_hex[65]) {
    och_sha256 copy = t->hash;
    och_sha256_hex(&copy, out_hex);
    return !t->sha256[0] || !strcasecmp(out_hex, t->sha256);
}

static och_status finish(transfer *t, och_fetch_result *out_result, och_err *err) {
    char hex[65];
    bool fits = digest_fits(t, hex);
    if (!fits && t->resumed_from) {
        /* bytes of an earlier run are in it: once more, without them */
        if (t->r->note) t->r->note(t->r->user, "the digest does not fit; starting again from the beginning");
        OCH_TRY(discard_part(t, err));
        t->best = 0;
        OCH_TRY(transfer_all(t, err));
        fits = digest_fits(t, hex);
    }
    if (!fits) {
        (void)discard_part(t, NULL); /* a file with the wrong bytes is worth nothing */
        return och_err_set(err, OCH_CORRUPT, "%s: sha256: expected %s, found %s; the download was removed", t->r->url,
                           t->sha256, hex);
    }
    if (fsync(t->fd) != 0) return disk_error(t, "flushing to disk", err);
    if (rename(t->part, t->r->path) != 0) return disk_error(t, "renaming the finished file", err);
    (void)unlink(t->meta);
    och_fsync_parent(t->r->path);
    out_result->size_bytes = t->offset;
    out_result->resumed_from = t->resumed_from;
    out_result->is_verified = t->sha256[0] != 0;
    memcpy(out_result->sha256, hex, sizeof hex);
    return OCH_OK;
}

och_status och_fetch(const och_fetch_request *r, och_fetch_result *out_result, och_err *err) {
    och_err local = {0};
    transfer t = {.r = r, .fd = -1, .err = err ? err : &local};
    och_strbuf part = {0}, meta = {0};
    och_status st;
    *out_result = (och_fetch_result){0};
    OCH_TRY(och_fetch_check_url(r->url, err));
    if (r->sha256 && !och_sha256_is_hex(r->sha256))
        return och_err_set(err, OCH_INVALID, "sha256: expected 64 hexadecimal digits, found \"%.80s\"", r->sha256);
    OCH_TRY(och_curl_open(&t.curl, err));
    if (r->sha256) memcpy(t.sha256, r->sha256, 65);
    och_strbuf_printf(&part, "%s.part", r->path);
    och_strbuf_printf(&meta, "%s.part.meta", r->path);
    OCH_TRY_GOTO(och_strbuf_status(&part, err));
    OCH_TRY_GOTO(och_strbuf_status(&meta, err));
    t.part = part.data;
    t.meta = meta.data;
    OCH_TRY_GOTO(open_part(&t, err));
    st = transfer_all(&t, t.err);
    if (st == OCH_OK) st = finish(&t, out_result, t.err);
    /* what cannot be gone on with is not left lying about */
    if (st != OCH_OK && !can_resume(&t)) {
        (void)unlink(t.part);
        (void)unlink(t.meta);
    }
done:
    if (t.fd >= 0) close(t.fd);
    och_strbuf_deinit(&part);
    och_strbuf_deinit(&meta);
    return st;
}
