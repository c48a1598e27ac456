// A launch of any kernel on threads of the host (cuda_host.hh): buffers from a file, of which those that it writes go to another.
#include "cuda_host.hh"

enum { MOST_BUFFERS = 16 };
struct launch {
    i64 threads, grid_x, grid_y, n_buffers;
    i64 bytes[MOST_BUFFERS], out[MOST_BUFFERS];
};
static launch shape;
struct pointer { // of the type that the kernel has there
    u8 *to;
    template <class T> operator T *() const { return (T *)to; }
};
static pointer buffer[MOST_BUFFERS];
static void kernel();

static void *one_thread(void *number) {
    thread_number = (int)(i64)number;
    for (group_number[1] = 0; group_number[1] < shape.grid_y; group_number[1]++)
        for (group_number[0] = 0; group_number[0] < shape.grid_x; group_number[0]++) {
            kernel();
            end_of_group();
        }
    return nullptr;
}

int main(int argc, char **argv) { // FILE of the shape and the buffers, results' FILE, late copies, late products
    FILE *f = argc == 5 ? fopen(argv[1], "rb") : nullptr;
    if (!f || fread(&shape, sizeof shape, 1, f) != 1) return 3;
    late_copies = argv[3][0] == '1';
    late_products = argv[4][0] == '1';
    for (i64 i = 0; i < shape.n_buffers; i++) buffer[i].to = bytes(f, shape.bytes[i]);
    fclose(f);
    on_threads((int)shape.threads, one_thread);
    f = fopen(argv[2], "wb");
    if (!f) return 3;
    for (i64 i = 0; i < shape.n_buffers; i++)
        if (shape.out[i] && fwrite(buffer[i].to, 1, (size_t)shape.bytes[i], f) != (size_t)shape.bytes[i]) return 3;
    return fclose(f) ? 3 : failures ? 1 : 0;
}
