// A stub of CUDA 13's libraries: device memory is only address space, which reads as zeros, and kernels do nothing.
// stub.py adds the functions that nothing needs to be known of, and compiles this once per library. Everything is logged
// to $STUB_LOG, a line each: memory (M taken, F freed: bytes, bytes in use), copies (C kind bytes, after it U bytes if
// the host waits for one to the device), handles (H name), faults (E what) that a GPU would report or that would corrupt
// its memory.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TOTAL (80ul << 30)

typedef struct {
  uintptr_t at;
  size_t bytes;
  int device;
} Block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Block blocks[1 << 16];
static int count;
static size_t used;
static long handle;

static FILE *log_file;
static void log_open(void) {
  const char *name = getenv("STUB_LOG");
  if (!name || !(log_file = fopen(name, "a"))) fputs("the stub of CUDA: cannot write to $STUB_LOG\n", stderr), abort();
  setvbuf(log_file, NULL, _IOLBF, 0);
}
static FILE *out(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, log_open);
  return log_file;
}

// The runtime's library owns the memory and the log; the others find its functions.
static void *runtime(const char *name) {
  void *library = dlopen("libcudart.so.13", RTLD_NOW), *f = library ? dlsym(library, name) : NULL;
  if (!f) abort();
  return f;
}

void stub_note(const char *what) { fprintf(out(), "H %s\n", what); }
static int made(void **to, const char *what) {
  ((void (*)(const char *))runtime("stub_note"))(what);
  return *to = &handle, 0;
}

static int take(void **to, size_t bytes, int device) {
  int access = device ? PROT_NONE : PROT_READ | PROT_WRITE;
  bytes += !bytes;
  void *p = mmap(NULL, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return 2;
  pthread_mutex_lock(&lock);
  if (count == sizeof blocks / sizeof *blocks) fputs("the stub of CUDA: too many blocks\n", stderr), abort();
  blocks[count++] = (Block){(uintptr_t)p, bytes, device};
  if (device) fprintf(out(), "M %zu %zu\n", bytes, used += bytes);
  pthread_mutex_unlock(&lock);
  return *to = p, 0;
}

// find returns the index of the block that an address is in; -1: none. The lock is held.
static int find(const void *p) {
  for (int i = count - 1; i >= 0; i--)
    if ((uintptr_t)p >= blocks[i].at && (uintptr_t)p < blocks[i].at + blocks[i].bytes) return i;
  return -1;
}

static int give(void *p) {
  if (!p) return 0;
  pthread_mutex_lock(&lock);
  int i = find(p), known = i >= 0 && blocks[i].at == (uintptr_t)p;
  if (known) {
    Block b = blocks[i];
    if (b.device) fprintf(out(), "F %zu %zu\n", b.bytes, used -= b.bytes);
    munmap(p, b.bytes);
    memmove(blocks + i, blocks + i + 1, (--count - i) * sizeof *blocks);
  } else {
    fprintf(out(), "E freed what is not allocated\n");
  }
  pthread_mutex_unlock(&lock);
  return known ? 0 : 1;
}

static int on_device(const void *p) {
  pthread_mutex_lock(&lock);
  int i = find(p), is = i >= 0 && blocks[i].device;
  pthread_mutex_unlock(&lock);
  return is;
}

// within reports whether a range is not partly in a block.
static int within(const void *p, size_t bytes) {
  pthread_mutex_lock(&lock);
  int i = find(p), is = i < 0 || (uintptr_t)p + bytes <= blocks[i].at + blocks[i].bytes;
  pthread_mutex_unlock(&lock);
  return is;
}

// Kinds are 0 host to host, 1 host to device, 2 device to host, 3 device to device, 4 by address.
static int copy(void *to, const void *from, size_t bytes, int kind) {
  int to_device = on_device(to), from_device = on_device(from);
  fprintf(out(), "C %d %zu\n", kind, bytes);
  if (!within(to, bytes) || !within(from, bytes)) return fprintf(out(), "E copied beyond the end of a block\n"), 1;
  if (bytes && kind < 4 && (to_device != (kind & 1) || from_device != kind >> 1))
    return fprintf(out(), "E copied to or from a wrong kind of memory: %d\n", kind), 1;
  if (to_device) return 0;
  return from_device ? memset(to, 0, bytes) : memmove(to, from, bytes), 0;
}

int cudaMalloc(void **p, size_t n) { return take(p, n, 1); }
int cudaMallocFromPoolAsync(void **p, size_t n) { return take(p, n, 1); }
int cudaFree(void *p) { return give(p); }
int cudaFreeAsync(void *p) { return give(p); }
int cudaHostAlloc(void **p, size_t n) { return take(p, n, 0); }
int cudaMallocHost(void **p, size_t n) { return take(p, n, 0); }
int cudaFreeHost(void *p) { return give(p); }
int cudaMemcpy(void *to, const void *from, size_t n, int kind) {
  int e = copy(to, from, n, kind);
  if (kind == 1) fprintf(out(), "U %zu\n", n);
  return e;
}
int cudaMemcpyAsync(void *to, const void *from, size_t n, int kind) { return copy(to, from, n, kind); }
int cudaMemcpyFromSymbol(void *to, const void *from, size_t n) { return memset(to, 0, n), 0; }
int cudaMemcpy2D(void *to, size_t ts, const void *from, size_t fs, size_t n, size_t rows, int kind) {
  for (size_t i = 0; i < rows; i++) copy((char *)to + i * ts, (const char *)from + i * fs, n, kind);
  return 0;
}
int cudaMemcpy2DAsync(void *to, size_t ts, const void *from, size_t fs, size_t n, size_t rows, int kind) {
  return cudaMemcpy2D(to, ts, from, fs, n, rows, kind);
}
int cudaMemset(void *p, int v, size_t n) { return on_device(p) ? 0 : (memset(p, v, n), 0); }
int cudaMemsetAsync(void *p, int v, size_t n) { return cudaMemset(p, v, n); }
int cudaMemGetInfo(size_t *free, size_t *total) { return *free = TOTAL - used, *total = TOTAL, 0; }
int cudaGetDevice(int *d) { return *d = 0; }
int cudaGetDeviceCount(int *n) { return *n = 1, 0; }
int cudaDriverGetVersion(int *v) { return *v = 13000, 0; }
int cudaRuntimeGetVersion(int *v) { return *v = 13000, 0; }
int cudaStreamCreate(void **s) { return *s = malloc(1), 0; }
int cudaStreamCreateWithFlags(void **s) { return *s = malloc(1), 0; }
int cudaStreamDestroy(void *s) { return free(s), 0; }
int cudaStreamIsCapturing(void *s, int *is) { return *is = 0; }
int cudaEventCreate(void **e) { return *e = &handle, 0; }
int cudaEventCreateWithFlags(void **e) { return *e = &handle, 0; }
int cudaEventElapsedTime(float *ms) { return *ms = 1, 0; }
int cudaLaunchHostFunc(void *s, void (*f)(void *), void *x) { return f(x), 0; }
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n) { return *n = 1, 0; }
void **__cudaRegisterFatBinary(void *f) { static void *h; return &h; }
const char *cudaGetErrorString(int e) { return "an error of the stub"; }
const char *cudaGetErrorName(int e) { return "stub"; }
const char *cublasGetStatusString(int e) { return "stub"; }
const char *cudnnGetErrorString(int e) { return "stub"; }
size_t cudnnGetVersion(void) { return 91000; }
size_t cudnnGetCudartVersion(void) { return 13000; }
int cublasCreate_v2(void **h) { return made(h, "cublas"); }
int cublasLtCreate(void **h) { return made(h, "cublaslt"); }
int cudnnCreate(void **h) { return made(h, "cudnn"); }

// An H100's attributes, by number.
static int attribute(int which) {
  static const int values[128] = {[1] = 1024, [2] = 1024, [3] = 1024, [4] = 64, [5] = 2147483647, [6] = 65535, [7] = 65535,
    [8] = 49152, [10] = 32, [12] = 65536, [16] = 132, [39] = 2048, [75] = 9, [76] = 0, [81] = 233472, [82] = 65536,
    [97] = 232448, [106] = 32};
  return which >= 0 && which < 128 ? values[which] : 0;
}
int cudaDeviceGetAttribute(int *v, int which) { return *v = attribute(which), 0; }
int cuDeviceGetAttribute(int *v, int which) { return *v = attribute(which), 0; }

// Fields of CUDA 13's structures that are read, by offset.
int cudaGetDeviceProperties(char *p) {
  memset(p, 0, 1008);
  strcpy(p, "stub");
  *(size_t *)(p + 288) = TOTAL;   // totalGlobalMem
  *(size_t *)(p + 296) = 49152;   // sharedMemPerBlock
  *(int *)(p + 304) = 65536;      // regsPerBlock
  *(int *)(p + 308) = 32;         // warpSize
  *(int *)(p + 320) = 1024;       // maxThreadsPerBlock
  *(int *)(p + 336) = 2147483647; // maxGridSize
  *(int *)(p + 340) = *(int *)(p + 344) = 65535;
  *(int *)(p + 360) = 9;          // major
  *(int *)(p + 384) = 132;        // multiProcessorCount
  *(int *)(p + 604) = 2048;       // maxThreadsPerMultiProcessor
  *(size_t *)(p + 624) = 233472;  // sharedMemPerMultiprocessor
  *(size_t *)(p + 672) = 232448;  // sharedMemPerBlockOptin
  return 0;
}
int cudaPointerGetAttributes(char *a, const void *p) { return memset(a, 0, 88), *(int *)a = on_device(p) ? 2 : 1, 0; }
int cudaFuncGetAttributes(char *a) {
  memset(a, 0, 144);
  *(int *)(a + 24) = 1024;                  // maxThreadsPerBlock
  *(int *)(a + 36) = *(int *)(a + 32) = 90; // binaryVersion, ptxVersion
  return 0;
}

// The driver's functions that libassay_ops.so needs.
int cuCtxGetCurrent(void **c) { return *c = &handle, 0; }
int cuCtxGetDevice(int *d) { return *d = 0; }
int cuGetErrorString(int e, const char **text) { return *text = "an error of the stub", 0; }
int cuModuleLoadData(void **m) { return *m = &handle, 0; }
int cuModuleGetFunction(void **f) { return *f = &handle, 0; }
int cuMemAlloc_v2(void **p, size_t n) { return ((int (*)(void **, size_t))runtime("cudaMalloc"))(p, n); }
int cuMemFree_v2(void *p) { return ((int (*)(void *))runtime("cudaFree"))(p); }
