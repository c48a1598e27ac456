/* Ochre: kernels of one's own, on any device that Ochre knows.
 *
 *     ochre_device *d;     ochre_device_open("hip:0", &d, &e);            // or "sim:gfx1151", "cuda:0"
 *     ochre_program *p;    ochre_program_compile(d, text, bytes, &options, &p, &e);
 *     ochre_kernel *k;     ochre_program_kernel(p, "scale", &k, &e);
 *     ochre_kernel_launch(k, stream, args, n_args, &e);
 *
 * Text is HIP C++ or CUDA C++ (as the device's runtime has it) or Ochre's kernel language (.ok), which also says what a launch
 * looks like: its grid follows from the shapes. Code is compiled once and kept in Ochre's cache. A kernel of somebody else's
 * program is launched on that program's stream, over its pointers; a program without a runtime of its own uses buffers and
 * the device's own stream (NULL).
 *
 * Handles are opaque, and may be used from any thread; launches on a stream of the caller's come from one thread at a time. One
 * handle is not destroyed while another thread uses it. Errors are as in ochre.h: a status, and a message that names kernel, argument, expected and found. */
#ifndef OCHRE_KERNELS_H
#define OCHRE_KERNELS_H

#include <ochre/ochre.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ochre_device ochre_device;
typedef struct ochre_buffer ochre_buffer;
typedef struct ochre_program ochre_program;
typedef struct ochre_kernel ochre_kernel;

/* ---- devices ---- */

/* "cpu" runs no kernels. "hip:0", "hip:0000:03:00.0", "hip:gfx1100", "cuda:0", "sim:gfx1151"; "auto" or NULL: the GPU with the
 * most bandwidth. OCHRE_UNAVAILABLE where there is none: the message says what was looked for. */
OCHRE_API ochre_status ochre_device_open(const char *name, ochre_device **out_device, ochre_error *error);
/* Programs and buffers of the device keep it alive. */
OCHRE_API void ochre_device_close(ochre_device *device); /* NULL is allowed */

typedef struct ochre_device_info {
    size_t size_bytes;   /* set by the caller */
    const char *name;    /* "hip:0": what ochre_device_open takes; borrowed from the device, as the strings below */
    const char *product; /* as the vendor calls it */
    const char *target;  /* whole, as code is built for it: "gfx942:sramecc+:xnack-", "sm_90" */
    uint64_t memory_bytes;
    int32_t compute_units, wave_size; /* lanes; 0: it runs no kernels */
    uint32_t lds_bytes;  /* that a workgroup may have */
    bool unified;        /* the host may dereference buffers */
    bool simulated;
    const char *runtime_library; /* what dlopen takes to get at the runtime that is in use, with its streams; "" for none */
    int32_t runtime_device;      /* the runtime's number of the device: what hipSetDevice takes */
} ochre_device_info;
OCHRE_API ochre_status ochre_device_describe(const ochre_device *device, ochre_device_info *info, ochre_error *error);

/* Waits for all that was given to the device's own stream. Errors of its work surface here at the latest. */
OCHRE_API ochre_status ochre_device_synchronise(ochre_device *device, ochre_error *error);

/* ---- buffers ---- */

OCHRE_API ochre_status ochre_buffer_create(ochre_device *device, uint64_t size_bytes, ochre_buffer **out_buffer,
                                           ochre_error *error);
OCHRE_API void ochre_buffer_destroy(ochre_buffer *buffer); /* waits for the device's own stream; NULL is allowed */
OCHRE_API uint64_t ochre_buffer_address(const ochre_buffer *buffer); /* on the device */
OCHRE_API void *ochre_buffer_host(const ochre_buffer *buffer);       /* NULL unless the device's memory is unified */
/* On the device's own stream; both return when the bytes are there. */
OCHRE_API ochre_status ochre_buffer_write(ochre_buffer *buffer, uint64_t offset_bytes, const void *src, uint64_t n_bytes,
                                          ochre_error *error);
OCHRE_API ochre_status ochre_buffer_read(const ochre_buffer *buffer, uint64_t offset_bytes, void *dst, uint64_t n_bytes,
                                         ochre_error *error);

/* ---- programs ---- */

typedef enum ochre_language { OCHRE_LANGUAGE_OK, OCHRE_LANGUAGE_HIP, OCHRE_LANGUAGE_CUDA } ochre_language;

typedef struct ochre_param {
    const char *name, *value; /* "WAVES", "4" */
} ochre_param;

typedef struct ochre_program_options {
    size_t size_bytes;
    ochre_language language;
    const char *file_name;        /* for diagnostics; NULL: "program" */
    const char *kernel;           /* OK: the kernel to make; NULL: the only one */
    const ochre_param *params;    /* OK: values of its parameters; those that are left out have their defaults */
    size_t n_params;
    int32_t wave_size;            /* 0: the target's default */
    const char *const *flags;     /* HIP, CUDA: for the compiler, in clang's spelling */
    size_t n_flags;
    int32_t optimisation;         /* 1 to 3; 0: 3 */
    const char *compiler;         /* "hiprtc", "clang", "nvrtc", or a clang's path; NULL: the first that is found */
} ochre_program_options;
#define OCHRE_PROGRAM_OPTIONS_INIT { sizeof(ochre_program_options), OCHRE_LANGUAGE_OK, NULL, NULL, NULL, 0, 0, NULL, 0, 0, NULL }

/* OK text may `use` the built-in files. OCHRE_COMPILE: the message is the first diagnostic; the rest is what ochre_program_log
 * gives, of the last ochre_program_compile of this thread when program is NULL. */
OCHRE_API ochre_status ochre_program_compile(ochre_device *device, const char *text, size_t text_bytes,
                                             const ochre_program_options *options, ochre_program **out_program,
                                             ochre_error *error);
/* Loads code that was compiled before, a code object or a bundle of several, for this device's target: its kernels are launched
 * with ochre_kernel_launch_raw. OCHRE_UNSUPPORTED, naming both, where it is for another target. */
OCHRE_API ochre_status ochre_program_load(ochre_device *device, const void *code, size_t code_bytes,
                                          ochre_program **out_program, ochre_error *error);
OCHRE_API void ochre_program_destroy(ochre_program *program); /* waits for the device's own stream; NULL is allowed */
/* What the compiler said; "" for nothing. Of a failed one (NULL) the first 8 KiB, until this thread's next compilation. */
OCHRE_API const char *ochre_program_log(const ochre_program *program);
/* The code itself: borrowed. */
OCHRE_API const void *ochre_program_code(const ochre_program *program, size_t *out_bytes);

OCHRE_API size_t ochre_program_kernel_count(const ochre_program *program);
OCHRE_API const char *ochre_program_kernel_name(const ochre_program *program, size_t i); /* NULL past the last */
/* Borrowed from the program. OCHRE_NOTFOUND lists the kernels that are there. */
OCHRE_API ochre_status ochre_program_kernel(ochre_program *program, const char *name, ochre_kernel **out_kernel,
                                            ochre_error *error);

/* ---- kernels ---- */

typedef struct ochre_argument_info {
    const char *name;   /* OK; "" where the code does not tell */
    const char *type;   /* OK: "f32", "Q4_K"; else what the metadata say */
    uint32_t size_bytes, offset_bytes; /* in the arguments */
    int32_t rank;       /* OK: dimensions of a buffer, 0 for a scalar */
    bool is_buffer, is_input, is_output;
    bool in_place;      /* an output that may be, or is declared to be, the memory of an input */
} ochre_argument_info;
OCHRE_API size_t ochre_kernel_argument_count(const ochre_kernel *kernel);
OCHRE_API ochre_status ochre_kernel_argument(const ochre_kernel *kernel, size_t i, ochre_argument_info *out_info,
                                             ochre_error *error);
/* HIP and CUDA text do not say which buffers a kernel writes: arguments (numbers from 0) that it does, in place or not. Kept
 * with the kernel, and what ochre_kernel_argument then tells (a binding needs it to declare what an op mutates). */
OCHRE_API ochre_status ochre_kernel_declare_outputs(ochre_kernel *kernel, const uint32_t *arguments, size_t n_arguments,
                                                    ochre_error *error);

typedef struct ochre_kernel_info {
    size_t size_bytes;  /* set by the caller */
    const char *name, *target; /* borrowed from the kernel */
    int32_t wave_size;
    uint32_t threads;   /* work-items a workgroup: fixed for OK, the most there may be for others */
    uint32_t lds_bytes, registers, spills, scratch_bytes; /* 0 where the code does not tell */
} ochre_kernel_info;
OCHRE_API ochre_status ochre_kernel_describe(const ochre_kernel *kernel, ochre_kernel_info *info, ochre_error *error);

/* One argument of a kernel in the language, by name. Unused fields are 0. */
typedef struct ochre_argument {
    const char *name;
    uint64_t address;      /* buffers; 0: absent, where the kernel allows it */
    int64_t dims[3];       /* buffers: extents */
    uint64_t row_bytes[2]; /* distance of rows, of planes; 0: dense */
    int64_t integer;       /* integer and bool scalars */
    double real;           /* float scalars */
} ochre_argument;

/* Launches a kernel of the language. Shapes, alignment and the kernel's own conditions are checked; the grid follows from them.
 * stream: the runtime's own handle (hipStream_t, CUstream), or NULL for the device's. */
OCHRE_API ochre_status ochre_kernel_launch(ochre_kernel *kernel, void *stream, const ochre_argument *arguments,
                                           size_t n_arguments, ochre_error *error);

/* Launches any other kernel: workgroups, work-items a workgroup, LDS beyond what the kernel has, and pointers to the arguments'
 * values in order, each of the size that ochre_kernel_argument tells. */
OCHRE_API ochre_status ochre_kernel_launch_raw(ochre_kernel *kernel, void *stream, const uint32_t grid[3],
                                               const uint32_t group[3], uint32_t lds_bytes, const void *const *arguments,
                                               size_t n_arguments, ochre_error *error);

#ifdef __cplusplus
}
#endif
#endif
