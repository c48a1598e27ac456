/* A libamdhip64 that does next to nothing, for what the simulator is too good for: its source, built when the test runs. What
 * it claims is chosen by macros:
 *   VERSION   as hipRuntimeGetVersion        NO_xxx      without this call
 *   DEVICES   how many                       END         what its finalizer does
 *   FREE, TOTAL, OWN   what hipMemGetInfo and hipDeviceTotalMem say
 *   ATTRIBUTE(id)      an attribute's value; -1: the question fails */
static const char fake_text[] =
    "typedef int E; typedef unsigned long Z;\n"
    "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
    "#ifndef VERSION\n#define VERSION 60300000\n#endif\n"
    "#ifndef DEVICES\n#define DEVICES 1\n#endif\n"
    "#ifndef OWN\n#define OWN (8ul << 30)\n#endif\n"
    "#ifndef TOTAL\n#define TOTAL OWN\n#endif\n"
    "#ifndef FREE\n#define FREE TOTAL\n#endif\n"
    "#ifndef ATTRIBUTE\n#define ATTRIBUTE(id) (id == 87 ? 32 : id == 59 ? 128 : id == 60 ? 1000000 : id == 63 ? 8 : 0)\n#endif\n"
    "#define F(name, params, body) E name params { body; return 0; }\n"
    "F(hipInit, (unsigned f), ) F(hipRuntimeGetVersion, (int *v), *v = VERSION)\n"
    "E hipGetDeviceCount(int *n) { *n = DEVICES; return DEVICES ? 0 : 100; }\n"
    "F(hipSetDevice, (int d), ) F(hipDeviceGetName, (char *s, int n, int d), strcpy(s, \"Board of no row\"))\n"
    "F(hipDeviceTotalMem, (Z *n, int d), *n = OWN) F(hipMemGetInfo, (Z *f, Z *t), *f = FREE; *t = TOTAL)\n"
    "E hipDeviceGetAttribute(int *v, int id, int d) { *v = 1; int a = ATTRIBUTE(id); if (a < 0) return 1; *v = a; return 0; }\n"
    "F(hipDeviceGetPCIBusId, (char *s, int n, int d), strcpy(s, \"0000:0a:00.0\"))\n"
    "F(hipGetDeviceProperties, (char *p, int d), memset(p, 0, 792); strcpy(p + 396, \"gfx1030\"))\n"
    "#ifndef NO_R0600\nF(hipGetDevicePropertiesR0600, (char *p, int d), memset(p, 0, 1472); strcpy(p + 1160, \"gfx1031\"))\n#endif\n"
    "const char *hipGetErrorName(E e) { return \"hipErrorFake\"; } const char *hipGetErrorString(E e) { return \"it is a fake\"; }\n"
    "F(hipGetLastError, (void), )\n"
    "static E take(void **p, Z n) { *p = aligned_alloc(4096, (n + 4095) & -4096ul); return *p ? 0 : 2; }\n"
    "#ifndef NO_MALLOC\nE hipMalloc(void **p, Z n) { return take(p, n); }\n#endif\n"
    "#ifndef NO_MANAGED\nE hipMallocManaged(void **p, Z n, unsigned f) { return f == 1 ? take(p, n) : 1; }\n#endif\n"
    "F(hipFree, (void *p), free(p))\n"
    "E hipHostMalloc(void **p, Z n, unsigned f) { return take(p, n); } F(hipHostFree, (void *p), free(p))\n"
    "F(hipHostGetDevicePointer, (void **d, void *h, unsigned f), *d = h)\n"
    "F(hipMemcpyAsync, (void *d, const void *s, Z n, int k, void *q), memcpy(d, s, n))\n"
    "F(hipMemsetAsync, (void *d, int v, Z n, void *q), memset(d, v, n))\n"
    "F(hipStreamCreateWithFlags, (void **q, unsigned f), *q = (void *)8) F(hipStreamDestroy, (void *q), )\n"
    "F(hipStreamSynchronize, (void *q), ) F(hipStreamWaitEvent, (void *q, void *e, unsigned f), )\n"
    "F(hipEventCreateWithFlags, (void **e, unsigned f), *e = (void *)8) F(hipEventDestroy, (void *e), )\n"
    "F(hipEventRecord, (void *e, void *q), ) F(hipEventQuery, (void *e), ) F(hipEventSynchronize, (void *e), )\n"
    "E hipModuleLoadData(void **m, const void *i) { return 200; } F(hipModuleUnload, (void *m), )\n"
    "E hipModuleGetFunction(void **f, void *m, const char *n) { return 500; } E hipModuleLaunchKernel(void) { return 1; }\n"
    "#ifdef END\n__attribute__((destructor)) static void end(void) { END; }\n#endif\n";
