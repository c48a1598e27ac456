#include "file/write.h"

#include "base/alloc.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct och_writer {
    char *path, *temp; /* owned */
    int fd;
};

static och_status fail(const char *path, const char *what, och_err *err) {
    int e = errno;
    return och_err_set_native(err, OCH_IO, e, "%s: %s: %s", path, what, strerror(e));
}

och_status och_writer_create(const char *path, och_writer **out_w, och_err *err) {
    static _Atomic unsigned serial;
    *out_w = NULL;
    och_writer *w = och_calloc(1, sizeof *w);
    if (!w) return och_err_nomem(err, sizeof *w, "a file writer");
    w->fd = -1;
    w->path = och_strdup(path);
    /* the name is new for every writer of every process; O_EXCL says so again */
    och_strbuf temp = {0};
    och_strbuf_printf(&temp, "%s.tmp-%ld-%u", path, (long)getpid(), atomic_fetch_add(&serial, 1));
    w->temp = temp.data; /* the buffer's memory becomes the writer's */
    och_status st = OCH_OK;
    if (!w->path || temp.failed || !w->temp) {
        st = och_err_nomem(err, strlen(path) + 32, "a path");
        goto done;
    }
    struct stat sb;
    if (stat(path, &sb) == 0 && !S_ISREG(sb.st_mode)) {
        st = och_err_set(err, OCH_INVALID, "%s: expected a regular file to replace, found something else", path);
        goto done;
    }
    w->fd = open(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        st = fail(w->temp, "creating the file", err);
        goto done;
    }
    *out_w = w;
    return OCH_OK;
done:
    och_writer_destroy(w);
    return st;
}

och_status och_writer_append(och_writer *w, const void *bytes, size_t n_bytes, och_err *err) {
    const char *p = bytes;
    while (n_bytes) {
        ssize_t n = write(w->fd, p, n_bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(w->path, "writing", err);
        p += n;
        n_bytes -= (size_t)n;
    }
    return OCH_OK;
}

och_status och_writer_commit_take(och_writer *w, och_err *err) {
    och_status st = OCH_OK;
    if (fsync(w->fd) != 0) {
        st = fail(w->path, "flushing to disk", err);
        goto done;
    }
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0) {
        st = fail(w->path, "closing", err);
        (void)unlink(w->temp);
        goto done;
    }
    if (rename(w->temp, w->path) != 0) {
        st = fail(w->path, "renaming the finished file", err);
        (void)unlink(w->temp);
        goto done;
    }
    och_fsync_parent(w->path);
done:
    och_writer_destroy(w);
    return st;
}

void och_writer_destroy(och_writer *w) {
    if (!w) return;
    if (w->fd >= 0) {
        close(w->fd);
        (void)unlink(w->temp);
    }
    och_free(w->path);
    och_free(w->temp);
    och_free(w);
}

och_status och_write_file(const char *path, const void *bytes, size_t n_bytes, och_err *err) {
    och_writer *w;
    OCH_TRY(och_writer_create(path, &w, err));
    och_status st = och_writer_append(w, bytes, n_bytes, err);
    if (st != OCH_OK) {
        och_writer_destroy(w);
        return st;
    }
    return och_writer_commit_take(w, err);
}

void och_fsync_parent(const char *path) {
    char dir[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    size_t n = !slash ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (n >= sizeof dir) return;
    if (slash) memcpy(dir, path, n);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}
