// A launch of kernels/matmul.ok on threads of the host (cuda_host.hh): tests/unit/test_kl_group.c.
#include "cuda_host.hh"

struct launch {
    i64 n, m, k, a_row, w_row, threads, grid_x, grid_y;
};
static launch shape;
static u8 *a_data, *w_data;
static f32 *scale_data, *bias_data, *residual_data, *y_data;
static void kernel();
// The type of a kernel's third argument.
template <class A, class S, class W, class... R> W weights_of(void (*)(A, S, W, R...));

static void *one_thread(void *number) {
    thread_number = (int)(i64)number;
    for (group_number[1] = 0; group_number[1] < shape.grid_y; group_number[1]++)
        for (group_number[0] = 0; group_number[0] < shape.grid_x; group_number[0]++) {
            kernel();
            end_of_group();
        }
    return nullptr;
}

int main(int argc, char **argv) { // FILE of the shape and the operands, results' FILE, late copies, late products
    FILE *f = argc == 5 ? fopen(argv[1], "rb") : nullptr;
    if (!f || fread(&shape, sizeof shape, 1, f) != 1) return 3;
    late_copies = argv[3][0] == '1';
    late_products = argv[4][0] == '1';
    a_data = bytes(f, shape.n * shape.a_row * 2);
    w_data = bytes(f, shape.m * shape.w_row);
    scale_data = (f32 *)bytes(f, shape.n * 4);
    bias_data = (f32 *)bytes(f, shape.m * 4);
    residual_data = (f32 *)bytes(f, shape.n * shape.m * 4);
    fclose(f);
    y_data = (f32 *)calloc((size_t)(shape.n * shape.m), 4);
    on_threads((int)shape.threads, one_thread);
    f = fopen(argv[2], "wb");
    if (!f || fwrite(y_data, 4, (size_t)(shape.n * shape.m), f) != (size_t)(shape.n * shape.m) || fclose(f)) return 3;
    return failures ? 1 : 0;
}
