#include "file/mapping.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint8_t nothing[1];

static const char *kind_name(mode_t mode) {
    if (S_ISDIR(mode)) return "a directory";
    if (S_ISFIFO(mode)) return "a FIFO";
    if (S_ISSOCK(mode)) return "a socket";
    if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
    return "something else";
}

static och_status create(const char *path, och_mapping **out_m, och_err *err) {
    och_mapping *m = och_calloc(1, sizeof *m);
    if (!m) return och_err_nomem(err, sizeof *m, "a file mapping");
    m->data = nothing;
    m->path = och_strdup(path);
    if (!m->path) {
        och_free(m);
        return och_err_nomem(err, strlen(path) + 1, "a path");
    }
    *out_m = m;
    return OCH_OK;
}

och_status och_mapping_open(const char *path, och_mapping **out_m, och_err *err) {
    *out_m = NULL;
    och_mapping *m = NULL;
    och_status st = OCH_OK;
    /* O_NONBLOCK: opening a FIFO that nobody writes must not hang before fstat can refuse it. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        int e = errno;
        return och_err_set_native(err, e == ENOENT || e == ENOTDIR ? OCH_NOTFOUND : OCH_IO, e,
                                  "%s: expected a file that can be read, found: %s", path, strerror(e));
    }
    struct stat sb;
    if (fstat(fd, &sb) != 0) {
        st = och_err_set_native(err, OCH_IO, errno, "%s: fstat: %s", path, strerror(errno));
        goto done;
    }
    if (!S_ISREG(sb.st_mode)) {
        st = och_err_set(err, OCH_INVALID, "%s: expected a regular file, found %s", path, kind_name(sb.st_mode));
        goto done;
    }
    OCH_TRY_GOTO(create(path, &m, err));
    if (sb.st_size > 0) {
        void *p = (uint64_t)sb.st_size > SIZE_MAX ? MAP_FAILED
                                                  : mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            st = och_err_set_native(err, OCH_IO, errno, "%s: mapping %llu bytes: %s", path,
                                    (unsigned long long)sb.st_size, strerror(errno));
            goto done;
        }
        m->data = p;
        m->size = (uint64_t)sb.st_size;
        m->is_mapped = true;
    }
    *out_m = m;
    m = NULL;
done:
    close(fd);
    och_mapping_close(m);
    return st;
}

och_status och_mapping_open_memory(const char *name, const void *data, uint64_t size, och_mapping **out_m, och_err *err) {
    *out_m = NULL;
    OCH_TRY(create(name, out_m, err));
    if (size) (*out_m)->data = data;
    (*out_m)->size = size;
    return OCH_OK;
}

void och_mapping_close(och_mapping *m) {
    if (!m) return;
    if (m->is_mapped) munmap((void *)(uintptr_t)m->data, (size_t)m->size);
    och_free(m->path);
    och_free(m);
}

/* The pages that [offset, offset + n) covers: wholly (inward) or at all. False when there are none. */
static bool pages(const och_mapping *m, uint64_t offset, uint64_t n, bool inward, void **out_p, size_t *out_n) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (!m->is_mapped || offset >= m->size) return false;
    if (n > m->size - offset) n = m->size - offset;
    uint64_t first = offset, last = offset + n;
    if (inward) {
        first = (first + page - 1) / page * page;
        /* the file's last page ends where the file does */
        if (last != m->size) last = last / page * page;
    } else {
        first = first / page * page;
    }
    if (first >= last) return false;
    *out_p = (void *)(uintptr_t)(m->data + first);
    *out_n = (size_t)(last - first);
    return true;
}

void och_mapping_discard(const och_mapping *m, uint64_t offset, uint64_t n) {
    void *p;
    size_t size;
    if (pages(m, offset, n, true, &p, &size)) (void)madvise(p, size, MADV_DONTNEED);
}

void och_mapping_advise_willneed(const och_mapping *m, uint64_t offset, uint64_t n) {
    void *p;
    size_t size;
    if (pages(m, offset, n, false, &p, &size)) (void)madvise(p, size, MADV_WILLNEED);
}
