#include "op/gpu/tune_file.h"

#include "base/alloc.h"
#include "file/write.h"
#include "jit/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_FILE_BYTES ((uint64_t)16 << 20)
#define MAX_RECORDS 65536
#define MAX_US 1e12
#define TRIAL_BYTES 4096

static och_status folder(och_strbuf *out, och_err *err) {
    och_cache *cache;
    OCH_TRY(och_cache_open(NULL, 1, &cache, err)); /* touches nothing; its limit is not used */
    och_strbuf_puts(out, och_cache_dir(cache));
    och_cache_close(cache);
    return och_strbuf_status(out, err);
}

och_status och_gpu_file_path(const och_gpu_file *f, och_strbuf *out, och_err *err) {
    OCH_TRY(folder(out, err));
    och_strbuf_printf(out, "/%s", f->name);
    return och_strbuf_status(out, err);
}

/* ---- reading ---- */

/* That there is no file was seen before: what is not found is a field. */
static och_status of_a_field(och_status st, och_err *err) {
    if (st != OCH_NOTFOUND) return st;
    if (err) err->status = OCH_CORRUPT;
    return OCH_CORRUPT;
}

static och_status open_document(const och_gpu_file *f, const och_json *j, size_t *out_n, och_err *err) {
    int64_t format = 0;
    json_t *records;
    OCH_TRY(och_json_get_i64(j, "format", true, &format, err));
    if (format != f->format)
        return och_err_set(err, OCH_CORRUPT, "%s: expected format %d, found %lld", j->name, f->format, (long long)format);
    OCH_TRY(och_json_get_array(j, f->list, true, &records, err));
    *out_n = json_array_size(records);
    if (*out_n <= MAX_RECORDS) return OCH_OK;
    return och_err_set(err, OCH_CORRUPT, "%s: expected at most %d %s, found %zu", j->name, MAX_RECORDS, f->list, *out_n);
}

och_status och_gpu_file_read(const och_gpu_file *f, och_json *out_doc, size_t *out_n, och_err *err) {
    och_strbuf path = {0};
    struct stat sb;
    *out_n = 0;
    memset(out_doc, 0, sizeof *out_doc);
    och_status st = och_gpu_file_path(f, &path, err);
    if (st == OCH_OK && (stat(path.data, &sb) == 0 || errno != ENOENT)) {
        st = och_json_load(path.data, MAX_FILE_BYTES, out_doc, err);
        if (st == OCH_OK) st = of_a_field(open_document(f, out_doc, out_n, err), err);
    }
    och_strbuf_deinit(&path);
    return st;
}

bool och_gpu_file_is_size(int64_t size) { return size >= 1 && size <= INT32_MAX; }
bool och_gpu_file_is_us(double us) { return us > 0.0 && us < MAX_US; } /* no NaN is */

#define PATH_BYTES 64
static const char *path_of(const och_gpu_file *f, size_t i, const char *field, char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, "%s.%zu.%s", f->list, i, field);
    return path;
}

och_status och_gpu_file_text(const och_gpu_file *f, const och_json *j, size_t i, const char *field, char *out, size_t n_bytes,
                             och_err *err) {
    char path[PATH_BYTES];
    const char *text = NULL;
    OCH_TRY(of_a_field(och_json_get_str(j, path_of(f, i, field, path), true, &text, err), err));
    if (strlen(text) >= n_bytes)
        return och_err_set(err, OCH_CORRUPT, "%s: %s: expected at most %zu bytes", j->name, path, n_bytes - 1);
    snprintf(out, n_bytes, "%s", text);
    return OCH_OK;
}

och_status och_gpu_file_size(const och_gpu_file *f, const och_json *j, size_t i, const char *field, int64_t *out, och_err *err) {
    char path[PATH_BYTES];
    OCH_TRY(of_a_field(och_json_get_i64(j, path_of(f, i, field, path), true, out, err), err));
    if (!och_gpu_file_is_size(*out))
        return och_err_set(err, OCH_CORRUPT, "%s: %s: expected a size, found %lld", j->name, path, (long long)*out);
    return OCH_OK;
}

och_status och_gpu_file_us(const och_gpu_file *f, const och_json *j, size_t i, const char *field, double *out, och_err *err) {
    char path[PATH_BYTES];
    OCH_TRY(of_a_field(och_json_get_f64(j, path_of(f, i, field, path), true, out, err), err));
    if (!och_gpu_file_is_us(*out))
        return och_err_set(err, OCH_CORRUPT, "%s: %s: expected microseconds, found %g", j->name, path, *out);
    return OCH_OK;
}

/* ---- writing ---- */

void och_gpu_file_put_text(och_strbuf *b, const char *name, const char *text) {
    och_strbuf_printf(b, "\"%s\": ", name);
    och_strbuf_json(b, text, strlen(text));
    och_strbuf_puts(b, ", ");
}

/* mkdir -p */
static och_status make_folder(och_err *err) {
    och_strbuf path = {0};
    och_status st = folder(&path, err);
    for (char *p = st == OCH_OK ? path.data + 1 : NULL; p && st == OCH_OK;) {
        char *slash = strchr(p, '/');
        if (slash) *slash = 0;
        if (mkdir(path.data, 0777) != 0 && errno != EEXIST)
            st = och_err_set_native(err, OCH_IO, errno, "%s: %s", path.data, strerror(errno));
        if (slash) *slash = '/';
        p = slash ? slash + 1 : NULL;
    }
    och_strbuf_deinit(&path);
    return st;
}

och_status och_gpu_file_try(const och_gpu_file *f, och_err *err) {
    static const char bytes[TRIAL_BYTES];
    och_strbuf path = {0};
    och_writer *w = NULL;
    och_status st = och_gpu_file_path(f, &path, err);
    if (st == OCH_OK) st = make_folder(err);
    if (st == OCH_OK) st = och_writer_create(path.data, &w, err);
    if (st == OCH_OK) st = och_writer_append(w, bytes, sizeof bytes, err);
    och_writer_destroy(w);
    och_strbuf_deinit(&path);
    return st;
}

/* Temporary files of the file's writers, of which there is none but the lock's holder. */
static void sweep(const och_gpu_file *f, int lock) {
    const size_t n = strlen(f->name);
    int fd = openat(lock, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0) close(fd);
    for (struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, f->name, n) && !strncmp(e->d_name + n, ".tmp-", 5)) (void)unlinkat(lock, e->d_name, 0);
    if (d) closedir(d);
}

/* The folder itself is what is locked: no file is left that nobody would take away. */
int och_gpu_file_lock(const och_gpu_file *f, bool make) {
    och_strbuf path = {0};
    const struct timespec wait = {0, 20000000};
    int lock = -1;
    if ((!make || make_folder(NULL) == OCH_OK) && folder(&path, NULL) == OCH_OK) lock = open(path.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    och_strbuf_deinit(&path);
    for (int tries = 0; lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0; tries++) {
        if ((errno == EWOULDBLOCK || errno == EINTR) && tries < 250) {
            nanosleep(&wait, NULL);
            continue;
        }
        close(lock);
        lock = -1;
    }
    if (lock >= 0) sweep(f, lock);
    return lock;
}
void och_gpu_file_unlock(int lock) {
    if (lock >= 0) close(lock);
}

och_status och_gpu_file_write(const och_gpu_file *f, const och_strbuf *records, och_err *err) {
    och_strbuf path = {0}, text = {0};
    OCH_TRY(och_strbuf_status(records, err));
    och_strbuf_printf(&text, "{\"format\": %d, \"%s\": [", f->format, f->list);
    och_strbuf_puts(&text, och_strbuf_str(records));
    och_strbuf_puts(&text, "]}\n");
    och_status st = och_strbuf_status(&text, err);
    if (st == OCH_OK) st = och_gpu_file_path(f, &path, err);
    if (st == OCH_OK) st = make_folder(err);
    if (st == OCH_OK) st = och_write_file(path.data, text.data, text.size, err);
    och_strbuf_deinit(&text);
    och_strbuf_deinit(&path);
    return st;
}

och_status och_gpu_file_remove(const och_gpu_file *f, bool *out_removed, och_err *err) {
    och_strbuf path = {0};
    *out_removed = false;
    int lock = och_gpu_file_lock(f, false); /* else who is about to write would bring it back */
    och_status st = och_gpu_file_path(f, &path, err);
    struct stat sb;
    if (st == OCH_OK && lstat(path.data, &sb) != 0 && errno == ENOENT) st = OCH_OK; /* which unlink need not say where nothing is written */
    else if (st == OCH_OK && unlink(path.data) == 0) *out_removed = true;
    else if (st == OCH_OK && errno != ENOENT) st = och_err_set_native(err, OCH_IO, errno, "%s: %s", path.data, strerror(errno));
    och_gpu_file_unlock(lock);
    och_strbuf_deinit(&path);
    return st;
}

void *och_gpu_file_room(void *at, size_t n, size_t *inout_capacity, size_t element_bytes, och_err *err) {
    if (n < *inout_capacity) return at;
    size_t more = *inout_capacity ? 2 * *inout_capacity : 32;
    void *wider = och_realloc_array(at, more, element_bytes);
    if (wider) *inout_capacity = more;
    else (void)och_err_nomem(err, more * element_bytes, "what was measured");
    return wider;
}
