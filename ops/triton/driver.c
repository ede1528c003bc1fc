// A fake CUDA driver: memory is the CPU's, and a launch calls a function of the test.
#include <stdlib.h>
#include <string.h>

typedef struct {
  const void *image;
  const char *name;
} Function;

typedef int (*Launched)(const void *image, const char *name, unsigned x, unsigned y, unsigned threads, unsigned shared,
                        void **arguments);

static Launched launched;
static int major = 9;
static long allocated;  // allocations that were not freed

void fake_driver(int capability, Launched f) { major = capability, launched = f; }

// The size of each allocation is stored before it.
size_t fake_size(const void *p) { return ((const size_t *)p)[-2]; }

long fake_allocated(void) { return allocated; }

int cuCtxGetCurrent(void **context) { return *context = &launched, 0; }
int cuCtxSetCurrent(void *context) { return context != &launched; }
int cuCtxGetDevice(int *device) { return *device = 0; }
int cuDeviceGetAttribute(int *value, int which, int device) {
  (void)device;
  return *value = which == 75 ? major : 0, 0;
}
int cuGetErrorString(int code, const char **text) {
  (void)code;
  return *text = "a launch failed", 0;
}
int cuFuncSetAttribute(void *f, int which, int value) {
  (void)f;
  return which != 8 || value <= 48 << 10;
}
int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
  const Function *function = f;
  if (z != 1 || ty != 1 || tz != 1 || stream != NULL || extra != NULL) return 1;
  return launched(function->image, function->name, x, y, threads, shared, arguments);
}
int cuMemAlloc_v2(unsigned long long *at, size_t bytes) {
  size_t *p = malloc(bytes + 2 * sizeof *p);
  p[0] = bytes, allocated++;
  return *at = (unsigned long long)(p + 2), 0;
}
int cuMemFree_v2(unsigned long long at) { return free((size_t *)at - 2), allocated--, 0; }
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream) {
  (void)stream;
  if (bytes > fake_size((void *)to)) return 1;
  return memcpy((void *)to, from, bytes), 0;
}
int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes, void *stream) {
  (void)stream;
  if (bytes > fake_size((void *)to)) return 1;
  return memset((void *)to, value, bytes), 0;
}
int cuModuleGetFunction(void **f, void *module, const char *name) {
  Function *function = malloc(sizeof *function);
  function->image = module, function->name = name;
  return *f = function, 0;
}
int cuModuleLoadData(void **module, const void *image) { return *module = (void *)image, 0; }
int cuStreamSynchronize(void *stream) { return stream != NULL; }
