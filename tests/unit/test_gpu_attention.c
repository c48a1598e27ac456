/* Tables of attention's kernels (src/op/gpu/attention_*.def): each row is a way to make its kernel, for all targets that take
 * it, in what LDS and registers these have; and which row a device's name finds. */
#include "unit/kl_host.h"

#include "base/size.h"
#include "op/gpu/cuts.h"
#include "target/target.h"

static const struct {
    const char *arch;
    int most;
    const char *spec;
} cuts[] = {
#define OCH_ATTENTION_ROWS(arch, most, spec) {arch, most, spec},
#include "op/gpu/attention_rows.def"
#undef OCH_ATTENTION_ROWS
};

static const struct {
    const char *arch, *spec;
} many[] = {
#define OCH_ATTENTION_MANY(arch, spec) {arch, spec},
#include "op/gpu/attention_many.def"
#undef OCH_ATTENTION_MANY
};

static void can_be_made(const char *file, const char *kernel, const char *target, const char *spec) {
    made m;
    specialise(file, NULL, kernel, target, spec, &m);
    free(m.text);
}

static och_device device_of(const char *arch) {
    och_device d = {0};
    snprintf(d.info.arch, sizeof d.info.arch, "%s", arch);
    return d;
}

static void rows_can_be_made(void **state) {
    (void)state;
    int n = 0;
    for (size_t t = 0; t < och_target_count(); t++) {
        const och_device d = device_of(och_target_at(t)->name);
        int least = 0; /* heads above it are this row's */
        for (size_t i = OCH_GPU_FIND_ROW(&d, cuts, 0); i < OCH_COUNT(cuts); i = OCH_GPU_FIND_ROW(&d, cuts, i + 1)) {
            if (cuts[i].most <= least) continue;
            for (int group = 1; group <= 8; group *= 2) {
                char spec[160];
                snprintf(spec, sizeof spec, "T=%s,%sHD=%d,GG=%d,BT=32,CAP=%d", group % 4 ? "f16" : "bf16", cuts[i].spec,
                         cuts[i].most, group, group == 1);
                can_be_made("attention_rows.ok", "attention_rows", d.info.arch, spec);
            }
            least = cuts[i].most;
            n++;
        }
    }
    assert_true(n > 0);
}

static void many_can_be_made(void **state) {
    (void)state;
    int n = 0;
    for (size_t t = 0; t < och_target_count(); t++) {
        const och_device d = device_of(och_target_at(t)->name);
        size_t i = OCH_GPU_FIND_ROW(&d, many, 0);
        if (i == OCH_COUNT(many)) continue;
        char spec[160];
        snprintf(spec, sizeof spec, "T=f16,HD=128,GG=4,BT=32,CHUNK=256,WAVES=4%s", many[i].spec);
        can_be_made("attention.ok", "attention_part", d.info.arch, spec);
        n++;
    }
    assert_true(n > 0);
}

/* By the first letters, whatever is behind them; the next one from where it is said; none. */
static void a_name_finds_its_rows(void **state) {
    (void)state;
    static const struct {
        const char *arch;
        int value;
    } rows[] = {{"ab1", 0}, {"ab", 1}, {"c", 2}, {"ab12", 3}};
    const och_device d = device_of("ab12"), plain = device_of("ab"), none = device_of("xab1");
    assert_int_equal(OCH_GPU_FIND_ROW(&d, rows, 0), 0);
    assert_int_equal(OCH_GPU_FIND_ROW(&d, rows, 1), 1);
    assert_int_equal(OCH_GPU_FIND_ROW(&d, rows, 2), 3);
    assert_int_equal(OCH_GPU_FIND_ROW(&d, rows, 4), 4);
    assert_int_equal(OCH_GPU_FIND_ROW(&plain, rows, 0), 1);
    assert_int_equal(OCH_GPU_FIND_ROW(&plain, rows, 2), 4);
    assert_int_equal(OCH_GPU_FIND_ROW(&none, rows, 0), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_name_finds_its_rows), cmocka_unit_test(rows_can_be_made),
                                       cmocka_unit_test(many_can_be_made)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
