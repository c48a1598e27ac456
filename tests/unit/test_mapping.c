/* Mappings and atomic writing, on a scratch folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "file/mapping.h"
#include "file/write.h"
#include "unit/temp_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

static int n_entries(void) {
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void a_file_is_written_and_mapped(void **s) {
    (void)s;
    och_err e = {0};
    och_mapping *m;
    size_t n = 5 * 4096 + 17;
    char *bytes = malloc(n);
    for (size_t i = 0; i < n; i++) bytes[i] = (char)(i * 7);
    assert_int_equal(och_write_file(in_dir("f"), bytes, n, &e), OCH_OK);
    assert_int_equal(och_mapping_open(in_dir("f"), &m, &e), OCH_OK);
    assert_int_equal(m->size, n);
    assert_memory_equal(m->data, bytes, n);
    assert_string_equal(m->path, in_dir("f"));
    /* what was discarded reads the same again; nonsense ranges are ignored */
    och_mapping_advise_willneed(m, 1, n);
    och_mapping_discard(m, 1, n - 1);
    och_mapping_discard(m, n, 5);
    och_mapping_discard(m, UINT64_MAX, UINT64_MAX);
    och_mapping_discard(m, 4000, UINT64_MAX);
    assert_memory_equal(m->data, bytes, n);
    och_mapping_close(m);
    free(bytes);
}

static void discarded_pages_leave_memory(void **s) {
    (void)s;
    och_err e = {0};
    och_mapping *m;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 64 * page;
    char *bytes = calloc(1, n);
    bytes[0] = 1;
    assert_int_equal(och_write_file(in_dir("big"), bytes, n, &e), OCH_OK);
    free(bytes);
    assert_int_equal(och_mapping_open(in_dir("big"), &m, &e), OCH_OK);
    unsigned sum = 0;
    for (size_t i = 0; i < n; i += page) sum += m->data[i];
    assert_int_equal(sum, 1);
    struct rusage before, after;
    och_mapping_discard(m, 0, n);
    getrusage(RUSAGE_SELF, &before);
    for (size_t i = 0; i < n; i += page) sum += m->data[i];
    getrusage(RUSAGE_SELF, &after);
    assert_int_equal(sum, 2);
    /* pages that had stayed mapped would fault no more */
    assert_true(after.ru_minflt + after.ru_majflt > before.ru_minflt + before.ru_majflt);
    och_mapping_close(m);
}

static void an_empty_file_has_no_bytes(void **s) {
    (void)s;
    och_err e = {0};
    och_mapping *m;
    assert_int_equal(och_write_file(in_dir("empty"), "", 0, &e), OCH_OK);
    assert_int_equal(och_mapping_open(in_dir("empty"), &m, &e), OCH_OK);
    assert_int_equal(m->size, 0);
    assert_non_null(m->data);
    och_mapping_discard(m, 0, 10);
    och_mapping_close(m);
}

static void what_is_no_file_is_refused(void **s) {
    (void)s;
    och_err e = {0};
    och_mapping *m;
    char want[640];
    assert_int_equal(och_mapping_open(in_dir("absent"), &m, &e), OCH_NOTFOUND);
    assert_null(m);
    snprintf(want, sizeof want, "%s: expected a file that can be read, found: No such file or directory", in_dir("absent"));
    assert_string_equal(e.message, want);

    och_err_clear(&e);
    assert_int_equal(och_mapping_open(dir, &m, &e), OCH_INVALID);
    snprintf(want, sizeof want, "%s: expected a regular file, found a directory", dir);
    assert_string_equal(e.message, want);

    och_err_clear(&e);
    assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
    assert_int_equal(och_mapping_open(in_dir("fifo"), &m, &e), OCH_INVALID);
    snprintf(want, sizeof want, "%s: expected a regular file, found a FIFO", in_dir("fifo"));
    assert_string_equal(e.message, want);

    och_err_clear(&e);
    assert_int_equal(och_mapping_open("/dev/null", &m, &e), OCH_INVALID);
    assert_string_equal(e.message, "/dev/null: expected a regular file, found a device");
}

static void a_view_of_memory_is_borrowed(void **s) {
    (void)s;
    och_err e = {0};
    och_mapping *m;
    const uint8_t bytes[3] = {1, 2, 3};
    assert_int_equal(och_mapping_open_memory("seed", bytes, 3, &m, &e), OCH_OK);
    assert_ptr_equal(m->data, bytes);
    assert_string_equal(m->path, "seed");
    och_mapping_discard(m, 0, 3);
    och_mapping_close(m);
    assert_int_equal(bytes[2], 3);
}

static void writing_replaces_whole_or_not_at_all(void **s) {
    (void)s;
    och_err e = {0};
    och_mapping *m;
    och_writer *w;
    assert_int_equal(och_write_file(in_dir("r"), "old", 3, &e), OCH_OK);
    int before = n_entries();

    /* given up half way: the old file stands and nothing else is left */
    assert_int_equal(och_writer_create(in_dir("r"), &w, &e), OCH_OK);
    assert_int_equal(och_writer_append(w, "half", 4, &e), OCH_OK);
    assert_int_equal(n_entries(), before + 1);
    och_writer_destroy(w);
    assert_int_equal(n_entries(), before);

    /* a disk that is full: here a limit on the size of files, which write() reports in the same way */
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 1000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    char big[4000] = {0};
    och_status st = och_write_file(in_dir("r"), big, sizeof big, &e);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(st, OCH_IO);
    assert_int_equal(e.native_code, EFBIG);
    assert_non_null(strstr(e.message, in_dir("r")));
    assert_non_null(strstr(e.message, "writing: File too large"));
    assert_int_equal(n_entries(), before);
    assert_int_equal(och_mapping_open(in_dir("r"), &m, &e), OCH_OK);
    assert_memory_equal(m->data, "old", 3);

    /* done: the new file is there, and who had the old one open still reads the old */
    och_err_clear(&e);
    assert_int_equal(och_write_file(in_dir("r"), "new!", 4, &e), OCH_OK);
    assert_memory_equal(m->data, "old", 3);
    och_mapping_close(m);
    assert_int_equal(och_mapping_open(in_dir("r"), &m, &e), OCH_OK);
    assert_int_equal(m->size, 4);
    assert_memory_equal(m->data, "new!", 4);
    och_mapping_close(m);
    assert_int_equal(n_entries(), before);
}

static void a_real_full_disk_is_reported(void **s) {
    (void)s;
    och_err e = {0};
    och_writer *w;
    /* /dev/full is no regular file, so it is refused as a target to replace */
    assert_int_equal(och_writer_create("/dev/full", &w, &e), OCH_INVALID);
    assert_null(w);
    och_err_clear(&e);
    assert_int_equal(och_writer_create(in_dir("no/such/folder"), &w, &e), OCH_IO);
    assert_int_equal(e.native_code, ENOENT);
    assert_non_null(strstr(e.message, "creating the file: No such file or directory"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_written_and_mapped),  cmocka_unit_test(discarded_pages_leave_memory),
        cmocka_unit_test(an_empty_file_has_no_bytes),    cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(a_view_of_memory_is_borrowed),  cmocka_unit_test(writing_replaces_whole_or_not_at_all),
        cmocka_unit_test(a_real_full_disk_is_reported),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
