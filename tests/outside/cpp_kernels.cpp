// The same from C++: buffers and the device's own stream, handles that release themselves. usage: cpp_kernels DEVICE...
#include <iostream>
#include <memory>
#include <ochre/kernels.h>
#include <stdexcept>
#include <string>
#include <vector>

template <class T, void (*destroy)(T *)> struct Release {
    void operator()(T *p) const { destroy(p); }
};
using Device = std::unique_ptr<ochre_device, Release<ochre_device, ochre_device_close>>;
using Buffer = std::unique_ptr<ochre_buffer, Release<ochre_buffer, ochre_buffer_destroy>>;
using Program = std::unique_ptr<ochre_program, Release<ochre_program, ochre_program_destroy>>;

static void check(ochre_status st, const ochre_error &e) {
    if (st != OCHRE_OK)
        throw std::runtime_error(std::string(ochre_status_name(st)) + ": " + e.message + "\n" + ochre_program_log(nullptr));
}

static Program compile(ochre_device *d, ochre_language language, const std::string &text) {
    ochre_error e{};
    ochre_program_options o = OCHRE_PROGRAM_OPTIONS_INIT;
    ochre_program *p = nullptr;
    const ochre_param params[] = {{"WAVES", "2"}};
    o.language = language;
    if (language == OCHRE_LANGUAGE_OK) o.params = params, o.n_params = 1;
    check(ochre_program_compile(d, text.data(), text.size(), &o, &p, &e), e);
    return Program(p);
}

static const char squares[] = R"(
template <class T> __device__ T square(T v) { return v * v; }
extern "C" __global__ void squares(float *out, const float *in, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = square(in[i]);
})";

static const char row_sums[] = R"(
kernel row_sums(x: in buf<f32>[n, d], y: out buf<f32>[n])
  param WAVES: int = 4
  launch grid(n) waves(WAVES)
{
  let r = group.id.x;
  var s = 0.0;
  for i in group.lanes(d) { s += x[r, i]; }
  let all = group.sum(s);
  if thread.id == 0 { y[r] = all; }
})";

static void run(const char *name) {
    const unsigned rows = 5, row = 300, n = rows * row;
    ochre_error e{};
    ochre_device *d = nullptr;
    check(ochre_device_open(name, &d, &e), e);
    Device device(d);
    Program hip = compile(d, OCHRE_LANGUAGE_HIP, squares), ok = compile(d, OCHRE_LANGUAGE_OK, row_sums);
    ochre_kernel *square = nullptr, *sums = nullptr;
    check(ochre_program_kernel(hip.get(), ochre_program_kernel_name(hip.get(), 0), &square, &e), e);
    check(ochre_program_kernel(ok.get(), "row_sums", &sums, &e), e);
    ochre_buffer *b[3] = {};
    const uint64_t bytes[] = {n * 4, n * 4, rows * 4};
    for (int i = 0; i < 3; i++) check(ochre_buffer_create(d, bytes[i], &b[i], &e), e);
    Buffer in(b[0]), out(b[1]), result(b[2]);
    std::vector<float> values(n), found(rows);
    for (unsigned i = 0; i < n; i++) values[i] = float(i % 7);
    check(ochre_buffer_write(in.get(), 0, values.data(), n * 4, &e), e);
    const uint64_t from = ochre_buffer_address(in.get()), to = ochre_buffer_address(out.get());
    const void *args[] = {&to, &from, &n};
    const uint32_t grid[] = {(n + 255) / 256, 1, 1}, group[] = {256, 1, 1};
    check(ochre_kernel_launch_raw(square, nullptr, grid, group, 0, args, 3, &e), e);
    ochre_argument a[2] = {};
    a[0].name = "x", a[0].address = to, a[0].dims[0] = rows, a[0].dims[1] = row;
    a[1].name = "y", a[1].address = ochre_buffer_address(result.get()), a[1].dims[0] = rows;
    check(ochre_kernel_launch(sums, nullptr, a, 2, &e), e);
    check(ochre_buffer_read(result.get(), 0, found.data(), rows * 4, &e), e);
    for (unsigned r = 0; r < rows; r++) {
        float want = 0;
        for (unsigned i = 0; i < row; i++) want += values[r * row + i] * values[r * row + i];
        if (found[r] != want) throw std::runtime_error("row " + std::to_string(r) + ": " + std::to_string(found[r]));
    }
    std::cout << name << ": squares and row_sums are right\n";
}

int main(int argc, char **argv) {
    try {
        for (int i = 1; i < argc; i++) run(argv[i]);
    } catch (const std::exception &why) {
        std::cerr << why.what() << "\n";
        return 1;
    }
    return argc < 2;
}
