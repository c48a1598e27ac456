/* Kernels of tests: HIP text that includes nothing, compiled by clang-22 when the test runs. */
#ifndef TESTS_CONFORM_HIP_TEXT_H
#define TESTS_CONFORM_HIP_TEXT_H

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define KERNEL "extern \"C\" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(1, 1024))) "

/* The bare code object of `text` for a whole target name, to be freed; NULL where there is no clang-22. What does not compile
 * ends the test. */
static inline void *hip_text_compile(const char *text, const char *target, int version, size_t *out_bytes) {
    char in[] = "/tmp/ochre-test-XXXXXX.hip", out[64], arch[96], object[48];
    *out_bytes = 0;
    int fd = mkstemps(in, 4);
    if (fd < 0) return NULL;
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text)) abort();
    close(fd);
    snprintf(out, sizeof out, "%s.co", in);
    snprintf(arch, sizeof arch, "--offload-arch=%s", target);
    snprintf(object, sizeof object, "-mcode-object-version=%d", version);
    char *argv[] = {"clang-22", "-x", "hip", arch, "--offload-device-only", "-nogpuinc", "-nogpulib", "-O2", object,
                    "--no-gpu-bundle-output", "-o", out, in, NULL};
    pid_t pid;
    int status = 0;
    void *image = NULL;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) == 0 && waitpid(pid, &status, 0) == pid) {
        if (status != 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 127)) {
            fprintf(stderr, "clang-22 --offload-arch=%s: status %d for\n%s", target, status, text);
            abort();
        }
        FILE *f = fopen(out, "rb");
        if (f && fseek(f, 0, SEEK_END) == 0) {
            long n = ftell(f);
            rewind(f);
            image = malloc((size_t)n);
            if (!image || fread(image, 1, (size_t)n, f) != (size_t)n) abort();
            *out_bytes = (size_t)n;
        }
        if (f) fclose(f);
    }
    unlink(in);
    unlink(out);
    return image;
}

#endif
