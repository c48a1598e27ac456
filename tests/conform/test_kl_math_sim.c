/* kernels/math.ok compiled and run on simulated boards, against double precision: the bounds that it states, over special values
 * and sweeps. A workgroup takes one function. OCHRE_TEST_BOARDS names other boards, after commas. */
#include "unit/kl_math.h"

#include "base/alloc.h"
#include "dev/dev.h"
#include "jit/kernel.h"
#include "kl/builtin.h"

#include <stdlib.h>

#define N 6000 /* arguments of each function */

static float x[N_FUNCTIONS][N], y[N_FUNCTIONS][N], got[N_FUNCTIONS][N];

/* y[r, i] = function r of x[r, i] and z[r, i]. */
static void write_kernel(och_strbuf *b) {
    och_strbuf_puts(b, "kernel math(x: in buf<f32>[m, n], z: in buf<f32>[m, n], y: out buf<f32>[m, n])\n"
                       "  launch grid(m) waves(4)\n{\n  let r = group.id.x;\n  for i in group.lanes(n) {\n    let a = x[r, i];\n    let b = z[r, i];\n");
    for (int i = 0; i < N_FUNCTIONS; i++)
        och_strbuf_printf(b, "    if r == %d { y[r, i] = %s(a%s); }\n", i, functions[i].name, functions[i].two ? ", b" : "");
    och_strbuf_puts(b, "  }\n}\n");
}

static void check(och_status st, const och_err *err, const och_strbuf *diag) {
    if (st != OCH_OK) fail_msg("%s\n%s", err->message, och_strbuf_str(diag));
}

static void run_on(const char *board, const char *name) {
    och_err err = {0};
    och_strbuf text = {0}, diag = {0};
    och_kl_unit *unit;
    och_device *d;
    och_kl_profile profile;
    och_jit *jit;
    och_jit_kernel k;
    och_jit_artifact *artifact;
    och_module *module;
    och_function *code;
    och_queue *queue;
    och_buf bufs[3];
    write_kernel(&text);
    check(och_kl_parse("math_test.ok", text.data, text.size, NULL, &unit, &diag, &err), &err, &diag);
    och_strbuf_deinit(&text);
    check(och_device_open(name, &(och_dev_options){0}, &d, &err), &err, &diag);
    check(och_kl_profile_init(&profile, d->info.arch, d->info.wave_size, &err), &err, &diag);
    check(och_jit_kernel_init(&k, unit, "math", NULL, 0, &profile, &diag, &err), &err, &diag);
    check(och_jit_create(&(och_jit_options){.only_these_packs = true}, &jit, &err), &err, &diag);
    och_status st = och_jit_get(jit, &k.request, &artifact, &diag, &err);
    if (st == OCH_UNAVAILABLE) {
        printf("%s: no compiler\n", board);
        skip();
    }
    check(st, &err, &diag);
    check(d->vtable->module_load(d, artifact->code, artifact->code_bytes, &module, &err), &err, &diag);
    check(d->vtable->module_function(module, k.signature.entry, &code, &err), &err, &diag);
    check(d->vtable->queue_create(d, &queue, &err), &err, &diag);
    for (int i = 0; i < 3; i++) check(och_buf_alloc(d, sizeof x, OCH_MEM_DEVICE, &bufs[i], &err), &err, &diag);
    check(d->vtable->copy_to_device(queue, bufs[0].addr, x, sizeof x, &err), &err, &diag);
    check(d->vtable->copy_to_device(queue, bufs[1].addr, y, sizeof y, &err), &err, &diag);
    static const char *const names[] = {"x", "z", "y"};
    och_kl_actual actuals[3];
    for (int i = 0; i < 3; i++) actuals[i] = (och_kl_actual){.name = names[i], .addr = bufs[i].addr.value, .dims = {N_FUNCTIONS, N}};
    och_kl_packed packed;
    check(och_kl_pack(&k.signature, actuals, 3, &packed, &err), &err, &diag);
    och_launch launch = {.lds_bytes = packed.lds_bytes, .args = packed.args, .args_bytes = packed.n_bytes};
    memcpy(launch.grid, packed.grid, sizeof launch.grid);
    memcpy(launch.group, packed.group, sizeof launch.group);
    check(d->vtable->launch(queue, code, &launch, &err), &err, &diag);
    check(d->vtable->copy_to_host(queue, got, bufs[2].addr, sizeof got, &err), &err, &diag);
    check(d->vtable->synchronise(queue, &err), &err, &diag);
    printf("%s\n", board);
    for (int i = 0; i < N_FUNCTIONS; i++) {
        worst w = {0};
        for (int n = 0; n < N; n++) judge(&functions[i], x[i][n], y[i][n], got[i][n], &w);
        report(&functions[i], &w);
    }
    for (int i = 0; i < 3; i++) och_buf_free(&bufs[i]);
    d->vtable->queue_destroy(queue);
    d->vtable->module_unload(module);
    och_jit_artifact_destroy(artifact);
    och_jit_kernel_deinit(&k);
    och_jit_destroy(jit);
    och_kl_unit_destroy(unit);
    och_device_release(d);
    och_strbuf_deinit(&diag);
}

static void boards(void **s) {
    (void)s;
    const char *list = getenv("OCHRE_TEST_BOARDS");
    if (!list) list = "gfx1151,gfx942,gfx906,gfx1201";
    for (int i = 0; i < N_FUNCTIONS; i++)
        for (int n = 0; n < N; n++) arguments_of(&functions[i], n, &x[i][n], &y[i][n]);
    for (const char *p = list; *p;) {
        char board[64], name[80];
        size_t n = strcspn(p, ",");
        snprintf(board, sizeof board, "%.*s", (int)n, p);
        snprintf(name, sizeof name, "sim:%s", board);
        run_on(board, name);
        p += n + (p[n] == ',');
    }
}

int main(void) {
    setenv("OCHRE_SIM_LIBRARY", OCHRE_BUILD_DIR "/sim/libamdhip64.so", 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(boards)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
