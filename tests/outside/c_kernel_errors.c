/* What the kernel API refuses, and what it says. usage: c_kernel_errors sim:gfx1100 sim:gfx942 */
#include <ochre/kernels.h>
#include <stdio.h>
#include <string.h>

static int wrong;
static ochre_error e;

/* The status, and words that the message must have, separated by '|'. */
static void expect(const char *what, ochre_status found, ochre_status want, const char *words) {
    char all[256], *next;
    int good = found == want && e.status == found;
    snprintf(all, sizeof all, "%s", words);
    for (char *w = all; w && *w; w = next) {
        next = strchr(w, '|');
        if (next) *next++ = 0;
        if (!strstr(e.message, w)) good = 0, printf("    \"%s\" is not in it\n", w);
    }
    printf("%-4s %-34s %s: %s\n", good ? "ok" : "FAIL", what, ochre_status_name(found), e.message);
    if (!good) wrong = 1;
    memset(&e, 0, sizeof e);
}
static void is_true(const char *what, int value) {
    printf("%-4s %s\n", value ? "ok" : "FAIL", what);
    if (!value) wrong = 1;
}

static const char text[] = "extern \"C\" __global__ void f(float *y, const float *x, int n) {\n"
                           "  __shared__ float s[256];\n"
                           "  s[threadIdx.x & 255] = x[threadIdx.x];\n"
                           "  __syncthreads();\n"
                           "  if (threadIdx.x < n) y[threadIdx.x] = s[255 - threadIdx.x & 255];\n"
                           "}\n"
                           "extern \"C\" __global__ void __launch_bounds__(128) g(float *y) { y[0] = 1; }\n";
static const char bad_hip[] = "extern \"C\" __global__ void f(float *y) {\n  *y = nothing_of_the_kind;\n}\n";
static const char two_ok[] = "kernel one(x: inout buf<f32>[n])\n  launch grid(n) waves(1)\n{ x[group.id.x] = 1.0; }\n"
                             "kernel two(x: in buf<f32>[n, d], y: out buf<f32>[n, d], s: u32)\n"
                             "  param W: 1..8 = 2\n"
                             "  require d % 4 == 0\n"
                             "  launch grid(n) waves(W)\n"
                             "{ for i in group.lanes(d / 4) { y.row(group.id.x).store4(i, x.row(group.id.x).load4(i)); } }\n";
static const char bad_ok[] = "kernel one(x: inout buf<f32>[n])\n  launch grid(n) waves(1)\n{ x[group.id.x] = nothing; }\n";

static ochre_status compile(ochre_device *d, const char *t, const ochre_program_options *o, ochre_program **p) {
    return ochre_program_compile(d, t, strlen(t), o, p, &e);
}

static void devices(const char *name) {
    ochre_device *d = (ochre_device *)&e, *cpu;
    ochre_device_info info = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    ochre_program *p;
    ochre_buffer *b;
    char bytes[8] = "1234567";
    expect("device: no place", ochre_device_open(name, NULL, &e), OCHRE_INVALID, "device_open|out_device");
    expect("device: no such backend", ochre_device_open("toaster", &d, &e), OCHRE_NOTFOUND, "toaster|cpu:0|sim:");
    is_true("the handle is cleared", d == NULL);
    expect("device: no such board", ochre_device_open("sim:gfx0", &d, &e), OCHRE_NOTFOUND, "gfx0");
    if (ochre_device_open("cpu", &cpu, &e) != OCHRE_OK) { wrong = 1; return; }
    expect("the CPU compiles nothing", compile(cpu, text, NULL, &p), OCHRE_UNSUPPORTED, "cpu:0|runs no kernels");
    expect("the CPU loads nothing", ochre_program_load(cpu, "ELF", 3, &p, &e), OCHRE_UNSUPPORTED, "cpu");
    expect("describe: a struct without a size", ochre_device_describe(cpu, &info, &e), OCHRE_INVALID, "size_bytes|found 0");
    expect("describe: nothing", ochre_device_describe(NULL, &info, &e), OCHRE_INVALID, "device_describe: device");
    expect("buffer: 0 bytes", ochre_buffer_create(cpu, 0, &b, &e), OCHRE_RANGE, "size_bytes|found 0");
    expect("buffer: too much", ochre_buffer_create(cpu, (uint64_t)1 << 60, &b, &e), OCHRE_NOMEM, "1152921504606846976");
    is_true("no buffer came", b == NULL);
    if (ochre_buffer_create(cpu, 8, &b, &e) != OCHRE_OK) { wrong = 1; return; }
    expect("write: beyond the end", ochre_buffer_write(b, 4, bytes, 5, &e), OCHRE_RANGE, "8 bytes|5 bytes at 4");
    expect("read: an end that wraps", ochre_buffer_read(b, UINT64_MAX, bytes, 8, &e), OCHRE_RANGE, "buffer_read");
    expect("write: from nowhere", ochre_buffer_write(b, 0, NULL, 8, &e), OCHRE_INVALID, "buffer_write|NULL");
    expect("read: no buffer", ochre_buffer_read(NULL, 0, bytes, 8, &e), OCHRE_INVALID, "buffer_read: buffer");
    is_true("nothing of 0 bytes is fine", ochre_buffer_write(b, 8, NULL, 0, &e) == OCHRE_OK);
    ochre_buffer_destroy(b);
    ochre_device_close(cpu);
    ochre_device_close(NULL);
    ochre_buffer_destroy(NULL);
    ochre_program_destroy(NULL);
}

static void programs(ochre_device *d) {
    ochre_program *p = (ochre_program *)&e;
    ochre_program_options o = OCHRE_PROGRAM_OPTIONS_INIT;
    expect("compile: no text", ochre_program_compile(d, NULL, 0, &o, &p, &e), OCHRE_INVALID, "program_compile: text");
    is_true("the handle is cleared", p == NULL);
    expect("compile: no device", compile(NULL, text, &o, &p), OCHRE_INVALID, "program_compile: device");
    o.size_bytes = 0;
    expect("options: no size", compile(d, text, &o, &p), OCHRE_INVALID, "size_bytes");
    o.size_bytes = sizeof o;
    o.language = (ochre_language)7;
    expect("options: language", compile(d, text, &o, &p), OCHRE_INVALID, "language|7");
    o.language = OCHRE_LANGUAGE_HIP;
    o.optimisation = 4;
    expect("options: optimisation", compile(d, text, &o, &p), OCHRE_RANGE, "optimisation|0 to 3|4");
    o.optimisation = 0, o.wave_size = 48;
    expect("options: wave size", compile(d, text, &o, &p), OCHRE_RANGE, "wave_size|48");
    o.wave_size = 0, o.kernel = "f";
    expect("options: kernel of a HIP text", compile(d, text, &o, &p), OCHRE_INVALID, "kernel|language alone");
    o.kernel = NULL, o.n_flags = 1;
    expect("options: flags from nowhere", compile(d, text, &o, &p), OCHRE_INVALID, "flags|NULL");
    const char *no_flag[] = {NULL};
    o.flags = no_flag;
    expect("options: a flag that is none", compile(d, text, &o, &p), OCHRE_INVALID, "flags[0]");
    o.flags = NULL, o.n_flags = 0, o.compiler = "/nowhere/clang";
    expect("options: a compiler that is not", compile(d, bad_hip, &o, &p), OCHRE_UNAVAILABLE, "/nowhere/clang");
    o.compiler = NULL, o.language = OCHRE_LANGUAGE_CUDA;
    expect("CUDA text on this board", compile(d, text, &o, &p), OCHRE_INVALID, "gfx");
    o.language = OCHRE_LANGUAGE_HIP;
    expect("a NUL in the text", ochre_program_compile(d, "int a;\0int b;", 13, &o, &p, &e), OCHRE_INVALID, "NUL at 6");
    o.file_name = "mine.hip";
    expect("HIP text that is wrong", compile(d, bad_hip, &o, &p), OCHRE_COMPILE, "mine.hip:2|nothing_of_the_kind");
    is_true("its log has the line", strstr(ochre_program_log(NULL), "*y = nothing_of_the_kind") != NULL);
    is_true("no program came", p == NULL);
    o.language = OCHRE_LANGUAGE_OK, o.file_name = "mine.ok";
    expect("language text that is wrong", compile(d, bad_ok, &o, &p), OCHRE_COMPILE, "mine.ok:3|nothing");
    is_true("its log has line and caret", strstr(ochre_program_log(NULL), "x[group.id.x] = nothing;") && strchr(ochre_program_log(NULL), '^'));
    expect("which kernel", compile(d, two_ok, &o, &p), OCHRE_INVALID, "one, two");
    is_true("the log is gone", !*ochre_program_log(NULL));
    o.kernel = "three";
    expect("a kernel that is not", compile(d, two_ok, &o, &p), OCHRE_NOTFOUND, "three|one|two");
    o.kernel = "two";
    ochre_param params[2] = {{"W", "9"}, {"W", NULL}};
    o.params = params, o.n_params = 1;
    expect("a parameter out of its range", compile(d, two_ok, &o, &p), OCHRE_INVALID, "W|9");
    params[0].name = "V";
    expect("a parameter that is not", compile(d, two_ok, &o, &p), OCHRE_INVALID, "V");
    o.n_params = 2;
    expect("a parameter without a value", compile(d, two_ok, &o, &p), OCHRE_INVALID, "params[1]");
    expect("no kernel at all", compile(d, "const N = 1;\n", NULL, &p), OCHRE_INVALID, "no kernel");
}

static void launches(ochre_device *d) {
    ochre_program *p, *ok;
    ochre_kernel *f, *g, *two, *none = (ochre_kernel *)&e;
    ochre_buffer *b;
    ochre_argument_info info;
    ochre_program_options o = OCHRE_PROGRAM_OPTIONS_INIT;
    o.kernel = "two";
    if (compile(d, two_ok, &o, &ok) != OCHRE_OK) { printf("%s\n", e.message); wrong = 1; return; }
    o.kernel = NULL, o.language = OCHRE_LANGUAGE_HIP;
    if (compile(d, text, &o, &p) != OCHRE_OK) { printf("%s\n", e.message); wrong = 1; return; }
    expect("kernel: not there", ochre_program_kernel(p, "h", &none, &e), OCHRE_NOTFOUND, "h|f, g");
    is_true("the handle is cleared", none == NULL);
    is_true("names in any order", ochre_program_kernel_count(p) == 2 && !ochre_program_kernel_name(p, 2));
    if (ochre_program_kernel(p, "f", &f, &e) || ochre_program_kernel(p, "g", &g, &e) || ochre_program_kernel(ok, "two", &two, &e) ||
        ochre_buffer_create(d, 65536, &b, &e)) { printf("%s\n", e.message); wrong = 1; return; }
    uint64_t at = ochre_buffer_address(b);
    int n = 4;
    const uint32_t one[3] = {1, 1, 1}, zero[3] = {1, 0, 1}, wide[3] = {2048, 1, 1}, wide_g[3] = {256, 1, 1};
    const void *args[] = {&at, &at, &n}, *holes[] = {&at, NULL, &n};
    uint32_t outputs[] = {0, 2};
    expect("outputs: a scalar", ochre_kernel_declare_outputs(f, outputs, 2, &e), OCHRE_INVALID, "kernel f, argument 2|buffer");
    is_true("nothing was declared", ochre_kernel_argument(f, 0, &info, &e) == OCHRE_OK && !info.is_output && info.is_buffer);
    outputs[0] = 3;
    expect("outputs: past the last", ochre_kernel_declare_outputs(f, outputs, 1, &e), OCHRE_RANGE, "kernel f|below 3|3");
    expect("outputs: of the language", ochre_kernel_declare_outputs(two, outputs, 1, &e), OCHRE_INVALID, "kernel two|its text says");
    expect("argument: past the last", ochre_kernel_argument(f, 3, &info, &e), OCHRE_RANGE, "kernel f|below 3");
    expect("raw: too few", ochre_kernel_launch_raw(f, NULL, one, one, 0, args, 2, &e), OCHRE_INVALID, "kernel f|3 arguments|found 2");
    expect("raw: a hole", ochre_kernel_launch_raw(f, NULL, one, one, 0, holes, 3, &e), OCHRE_INVALID, "kernel f, argument 1|NULL");
    expect("raw: no arguments", ochre_kernel_launch_raw(f, NULL, one, one, 0, NULL, 3, &e), OCHRE_INVALID, "arguments");
    expect("raw: no grid", ochre_kernel_launch_raw(f, NULL, NULL, one, 0, args, 3, &e), OCHRE_INVALID, "grid");
    expect("raw: an empty grid", ochre_kernel_launch_raw(f, NULL, zero, one, 0, args, 3, &e), OCHRE_INVALID, "kernel f|1 x 0 x 1");
    expect("raw: a group too large", ochre_kernel_launch_raw(f, NULL, one, wide, 0, args, 3, &e), OCHRE_RANGE, "kernel f|1024|2048");
    expect("raw: more than its bounds", ochre_kernel_launch_raw(g, NULL, one, wide_g, 0, args, 1, &e), OCHRE_RANGE, "kernel g|128|256");
    expect("raw: too much LDS", ochre_kernel_launch_raw(f, NULL, one, one, 65000, args, 3, &e), OCHRE_RANGE, "kernel f|1024 of its own|65000");
    expect("raw: of the language", ochre_kernel_launch_raw(two, NULL, one, one, 0, args, 3, &e), OCHRE_INVALID, "kernel two|ochre_kernel_launch");
    ochre_argument a[4];
    memset(a, 0, sizeof a);
    a[0].name = "x", a[0].address = at, a[0].dims[0] = 2, a[0].dims[1] = 8;
    a[1].name = "y", a[1].address = at + 1024, a[1].dims[0] = 2, a[1].dims[1] = 8;
    a[2].name = "s";
    is_true("as it should be", ochre_kernel_launch(two, NULL, a, 3, &e) == OCHRE_OK);
    expect("by name: of a HIP text", ochre_kernel_launch(f, NULL, a, 3, &e), OCHRE_INVALID, "kernel f|ochre_kernel_launch_raw");
    expect("by name: one is missing", ochre_kernel_launch(two, NULL, a, 2, &e), OCHRE_INVALID, "kernel two|s is not given");
    a[3] = a[2];
    expect("by name: one is there twice", ochre_kernel_launch(two, NULL, a, 4, &e), OCHRE_INVALID, "kernel two|s is given twice");
    a[3].name = "q";
    expect("by name: one is unknown", ochre_kernel_launch(two, NULL, a, 4, &e), OCHRE_INVALID, "kernel two|no argument q");
    a[3].name = NULL;
    expect("by name: no name", ochre_kernel_launch(two, NULL, a, 4, &e), OCHRE_INVALID, "kernel two|arguments[3]");
    expect("by name: very many", ochre_kernel_launch(two, NULL, a, 4000, &e), OCHRE_RANGE, "kernel two|expected 3|found 4000");
    a[2].integer = -1;
    expect("a scalar out of its range", ochre_kernel_launch(two, NULL, a, 3, &e), OCHRE_RANGE, "argument s|u32|-1");
    a[2].integer = 0, a[1].dims[1] = 12;
    expect("extents that disagree", ochre_kernel_launch(two, NULL, a, 3, &e), OCHRE_INVALID, "argument y, dimension 1|d = 8|found 12");
    a[0].dims[1] = a[1].dims[1] = 6;
    expect("a require", ochre_kernel_launch(two, NULL, a, 3, &e), OCHRE_INVALID, "kernel two|d % 4|d = 6");
    a[0].dims[1] = a[1].dims[1] = 8, a[0].address = at + 4;
    expect("an address between", ochre_kernel_launch(two, NULL, a, 3, &e), OCHRE_INVALID, "argument x|multiple of 16");
    a[0].address = 0;
    expect("no address", ochre_kernel_launch(two, NULL, a, 3, &e), OCHRE_INVALID, "argument x|expected an address");
    a[0].address = at + 1024;
    expect("in place though not declared", ochre_kernel_launch(two, NULL, a, 3, &e), OCHRE_INVALID, "argument y|apart from x");
    a[0].address = at, a[0].row_bytes[0] = 16;
    expect("rows that overlap", ochre_kernel_launch(two, NULL, a, 3, &e), OCHRE_INVALID, "argument x|32 bytes apart|16");
    a[0].row_bytes[0] = 0, a[0].dims[0] = a[1].dims[0] = 0;
    is_true("no rows, nothing to launch", ochre_kernel_launch(two, NULL, a, 3, &e) == OCHRE_OK);
    is_true("the device is well", ochre_device_synchronise(d, &e) == OCHRE_OK);
    ochre_buffer_destroy(b);
    ochre_program_destroy(p);
    ochre_program_destroy(ok);
}

/* Code of one target on a board of another; and on its own, whatever it was compiled from. */
static void loading(ochre_device *mine, ochre_device *other) {
    ochre_program *p, *again = (ochre_program *)&e;
    ochre_program_options o = OCHRE_PROGRAM_OPTIONS_INIT;
    ochre_kernel *k;
    ochre_kernel_info info = {sizeof info, 0, 0, 0, 0, 0, 0, 0, 0};
    size_t n;
    o.language = OCHRE_LANGUAGE_HIP;
    if (compile(mine, text, &o, &p) != OCHRE_OK) { printf("%s\n", e.message); wrong = 1; return; }
    const void *code = ochre_program_code(p, &n);
    expect("load: another target's", ochre_program_load(other, code, n, &again, &e), OCHRE_UNSUPPORTED, "gfx1100|gfx942");
    is_true("no program came", again == NULL);
    expect("load: a part", ochre_program_load(mine, code, n / 2, &again, &e), OCHRE_CORRUPT, "");
    expect("load: no code", ochre_program_load(mine, text, sizeof text, &again, &e), OCHRE_CORRUPT, "");
    expect("load: nothing", ochre_program_load(mine, code, 0, &again, &e), OCHRE_INVALID, "0 bytes");
    is_true("load: its own", ochre_program_load(mine, code, n, &again, &e) == OCHRE_OK);
    ochre_program_destroy(p);
    is_true("its kernels are there", ochre_program_kernel(again, "g", &k, &e) == OCHRE_OK && ochre_kernel_argument_count(k) == 1);
    is_true("and described", ochre_kernel_describe(k, &info, &e) == OCHRE_OK && info.threads == 128 && !strcmp(info.target, "gfx1100") &&
                                 !strcmp(info.name, "g") && info.wave_size == 32 && info.registers > 0);
    ochre_program_destroy(again);
}

int main(int argc, char **argv) {
    ochre_device *mine, *other;
    if (argc != 3) return 2;
    devices(argv[1]);
    if (ochre_device_open(argv[1], &mine, &e) != OCHRE_OK || ochre_device_open(argv[2], &other, &e) != OCHRE_OK)
        return fprintf(stderr, "%s\n", e.message), 1;
    programs(mine);
    launches(mine);
    loading(mine, other);
    ochre_device_close(mine);
    ochre_device_close(other);
    return wrong;
}
