// A libcuda.so.1 for tests: one card made of host memory. Launches run a kernel that was compiled for the CPU.
//
//   FAKE_CUDA_VERSION     what cuDriverGetVersion says (default 13000)
//   FAKE_CUDA_CAPABILITY  70, 90, ... (default 70)
//   FAKE_CUDA_DEVICES     number of cards (default 1)
//   FAKE_CUDA_INIT        status of cuInit (default 0)
//   FAKE_CUDA_REFUSE      set: cuModuleLoadData fails with 209, no kernel image
//   FAKE_CUDA_KERNEL      shared library of the host shim that cuLaunchKernel runs; unset: launches do nothing
//   FAKE_CUDA_LOG         file that gets a line for every module loaded: its size and first four bytes
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*HostRun)(const void *arguments, int, int, int, int threads, size_t shared, unsigned seed);

static int number(const char *name, int fallback) {
  const char *text = getenv(name);
  return text ? atoi(text) : fallback;
}

int cuInit(unsigned flags) { return (void)flags, number("FAKE_CUDA_INIT", 0); }
int cuDriverGetVersion(int *version) { return *version = number("FAKE_CUDA_VERSION", 13000), 0; }
int cuDeviceGetCount(int *count) { return *count = number("FAKE_CUDA_DEVICES", 1), 0; }
int cuDeviceGet(int *device, int index) { return *device = index, 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return (void)device, *bytes = 34089730048u, 0; }

int cuDeviceGetName(char *name, int size, int device) {
  snprintf(name, size, "Fake card %d", device);
  return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  int capability = number("FAKE_CUDA_CAPABILITY", 70);
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 80;
  return 0;
}

int cuGetErrorName(int status, const char **name) {
  *name = status == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "CUDA_ERROR_FAKE";
  return 0;
}

int cuGetErrorString(int status, const char **text) {
  *text = status == 209 ? "no kernel image is available" : "a fake error";
  return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) { return (void)device, *context = (void *)1, 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, 0; }
int cuCtxPushCurrent_v2(void *context) { return (void)context, 0; }
int cuCtxPopCurrent_v2(void **context) { return *context = (void *)1, 0; }
int cuCtxSynchronize(void) { return 0; }

int cuModuleLoadData(void **module, const void *image) {
  if (getenv("FAKE_CUDA_REFUSE")) return 209;
  const char *path = getenv("FAKE_CUDA_LOG");
  FILE *log = path ? fopen(path, "a") : NULL;
  if (log) {
    fprintf(log, "%02x%02x%02x%02x\n", ((const uint8_t *)image)[0], ((const uint8_t *)image)[1],
            ((const uint8_t *)image)[2], ((const uint8_t *)image)[3]);
    fclose(log);
  }
  return *module = (void *)2, 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name) {
  return (void)module, (void)name, *function = (void *)3, 0;
}

int cuFuncSetAttribute(void *function, int attribute, int value) { return (void)function, (void)attribute, (void)value, 0; }

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
  (void)function, (void)by, (void)bz, (void)stream, (void)extra;
  const char *path = getenv("FAKE_CUDA_KERNEL");
  if (!path) return 0;
  void *library = dlopen(path, RTLD_NOW);
  HostRun run = library ? (HostRun)dlsym(library, "run") : NULL;
  return run ? run(arguments[0], gx, gy, gz, bx, shared, 1) : 999;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  return *address = (uint64_t)aligned_alloc(256, (bytes + 255) / 256 * 256), 0;
}
int cuMemFree_v2(uint64_t address) { return free((void *)address), 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) { return memcpy((void *)to, from, bytes), 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) { return memcpy(to, (void *)from, bytes), 0; }
