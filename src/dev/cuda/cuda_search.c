/* Where libcuda may be. It comes with the driver and must be of the driver's release, so what the loader finds is the best
 * guess: folders of its own are for machines whose loader was not told. Why there is no device. */
#include "dev/cuda/cuda_lib.h"

#include "base/env.h"

#include <glob.h>
#include <stdio.h>
#include <sys/stat.h>

static const char *const names[] = {"libcuda.so.1", "libcuda.so"};
static const och_library_names library = {names, sizeof names / sizeof *names, "libcuda"};

#ifdef __aarch64__
#define DEBIAN "/usr/lib/aarch64-linux-gnu"
#else
#define DEBIAN "/usr/lib/x86_64-linux-gnu"
#endif

void och_cuda_search(och_attempts *out) {
    /* Debian, others; containers, WSL, NixOS */
    static const char *const folders[] = {DEBIAN, "/usr/lib64", "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib",
                                          "/run/opengl-driver/lib"};
    const char *v = och_env_get(OCH_ENV_OCHRE_CUDA_LIBRARY);
    char path[512];
    struct stat sb;
    if (v) {
        och_attempts_add_named(out, &library, "OCHRE_CUDA_LIBRARY", v);
        return;
    }
    if ((v = och_env_foreign("LD_LIBRARY_PATH"))) och_attempts_add_files(out, &library, "LD_LIBRARY_PATH", v);
    if (!och_env_get(OCH_ENV_OCHRE_SYSTEM_ROOT)) /* the loader knows of no other root */
        for (size_t i = 0; i < library.n; i++) (void)och_attempt_add(out, "the loader's search", names[i]);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        och_system_path(folders[i], path, sizeof path);
        if (i < 2 || stat(path, &sb) == 0) och_attempts_add_folder(out, &library, "distribution", path);
    }
}

void och_cuda_hiding_variables(och_strbuf *out) {
    static const char *const variables[] = {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"};
    size_t n = 0;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *v = och_env_foreign(variables[i]);
        /* images of containers say "all", which hides none; the first hides all when it is empty */
        if (i == 1 && (!v || (v[0] == 'a' && v[1] == 'l' && v[2] == 'l'))) continue;
        if (v || och_env_is_set(variables[i])) och_strbuf_printf(out, "%s%s=%s", n++ ? " and " : "", variables[i], v ? v : "");
    }
}

/* What an error says of itself is the same for all causes; what it means here. */
static const char *meaning(CUresult e) {
    switch (e) {
    case CUDA_ERROR_STUB_LIBRARY:
        return "it is a stub to link programs with: name the driver's own library in OCHRE_CUDA_LIBRARY, or "
               "take the folder of stubs out of LD_LIBRARY_PATH";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        return "the library is of another release than the driver that runs: restart the machine after an update, or "
               "take CUDA's "
               "folder compat out of LD_LIBRARY_PATH";
    case CUDA_ERROR_SYSTEM_NOT_READY:
        return "the driver waits for a service that joins several GPUs (nvidia-fabricmanager)";
    default:
        return NULL;
    }
}

void och_cuda_explain_no_device(const cuda_lib *lib, och_strbuf *out) {
    char path[512];
    struct stat sb;
    const char *means = meaning(lib->count_error);
    if (means) {
        och_strbuf_puts(out, means);
        return;
    }
    och_strbuf hiding = {0};
    och_cuda_hiding_variables(&hiding);
    if (hiding.size) {
        och_strbuf_printf(out, "%s hides devices", och_strbuf_str(&hiding));
        och_strbuf_deinit(&hiding);
        return;
    }
    och_system_path("/dev/dxg", path, sizeof path);
    if (stat(path, &sb) == 0) return; /* WSL has none of the others */
    och_system_path("/dev/nvidiactl", path, sizeof path);
    if (stat(path, &sb) != 0) {
        och_strbuf_printf(
            out,
            "there is no %s: no NVIDIA GPU with a loaded driver, or a container that was not given it (docker run "
            "--gpus all)",
            path);
        return;
    }
    if (!och_node_usable(path)) {
        och_node_explain(path, out);
        return;
    }
    glob_t g;
    och_system_path("/dev/nvidia[0-9]*", path, sizeof path);
    if (glob(path, 0, NULL, &g) != 0) {
        och_strbuf_printf(out, "there is no %s: no GPU, or a container that was not given one (docker run --gpus all)", path);
        return;
    }
    size_t usable = g.gl_pathc;
    for (size_t i = 0; i < g.gl_pathc; i++)
        if (och_node_usable(g.gl_pathv[i])) usable = i;
    if (usable == g.gl_pathc) och_node_explain(g.gl_pathv[0], out);
    globfree(&g);
    if (out->size) return;
    och_system_path("/dev/nvidia-uvm", path, sizeof path);
    if (stat(path, &sb) != 0)
        och_strbuf_printf(out, "there is no %s: load the module nvidia_uvm (nvidia-modprobe -u -c 0), or give the node to the "
                          "container", path);
    else if (!och_node_usable(path)) och_node_explain(path, out);
    else och_strbuf_puts(out, "the device nodes are there and may be used: this release of the driver may not know the GPU");
}
