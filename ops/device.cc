#include "device.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <mutex>

#if __has_include("kernels.inc")
__asm__(
    ".section .rodata\n.balign 64\nassay_cubins:\n.incbin \"kernels.bin\"\n"
    ".previous\n");
extern "C" const unsigned char assay_cubins[] __attribute__((visibility("hidden")));
#else
static const unsigned char assay_cubins[1] = {};
#endif

namespace assay {
namespace {

const std::vector<Compiled> kCompiled{
#if __has_include("kernels.inc")
#include "kernels.inc"
#endif
};

// arch_of returns the architecture whose kernels run on a GPU; 0 if there is none. Kernels for 8.0 run on all of 8.x;
// the others use instructions that later GPUs lack.
int arch_of(int major, int minor) {
  if (major == 8) return 80;
  if ((major == 9 || major == 10) && minor == 0) return 10 * major;
  return 0;
}

using Pointer = unsigned long long;  // CUdeviceptr

// Driver holds the functions of libcuda, which every machine with a GPU has. For tests, ASSAY_OPS_DRIVER names
// another library: kernels then run on the CPU provider.
struct Driver {
  int (*ctx_get_current)(void**);
  int (*ctx_get_device)(int*);
  int (*ctx_set_current)(void*);
  int (*device_attribute)(int*, int, int);
  int (*error_string)(int, const char**);
  int (*func_set_attribute)(void*, int, int);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  int (*mem_alloc)(Pointer*, size_t);
  int (*mem_free)(Pointer);
  int (*memcpy_to)(Pointer, const void*, size_t, void*);
  int (*memset)(Pointer, unsigned char, size_t, void*);
  int (*module_function)(void**, void*, const char*);
  int (*module_load)(void**, const void*);
  int (*stream_synchronize)(void*);

  static const Driver& get() {
    static const Driver driver;
    return driver;
  }

  void check(int code, const char* what) const {
    if (code == 0) return;
    const char* text = nullptr;
    error_string(code, &text);
    throw std::string(what) + ": " + (text != nullptr ? text : "CUDA error " + std::to_string(code));
  }

 private:
  Driver() {
    const char* named = std::getenv("ASSAY_OPS_DRIVER");
    void* library = dlopen(named != nullptr ? named : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    want(library != nullptr, std::string("the driver of the GPU: ") + (library != nullptr ? "" : dlerror()));
    const auto load = [library](const char* name, auto& f) {
      f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(dlsym(library, name));
      want(f != nullptr, std::string("the driver of the GPU has no ") + name);
    };
    load("cuCtxGetCurrent", ctx_get_current);
    load("cuCtxGetDevice", ctx_get_device);
    load("cuCtxSetCurrent", ctx_set_current);
    load("cuDeviceGetAttribute", device_attribute);
    load("cuGetErrorString", error_string);
    load("cuFuncSetAttribute", func_set_attribute);
    load("cuLaunchKernel", launch);
    load("cuMemAlloc_v2", mem_alloc);
    load("cuMemFree_v2", mem_free);
    load("cuMemcpyHtoDAsync_v2", memcpy_to);
    load("cuMemsetD8Async", memset);
    load("cuModuleGetFunction", module_function);
    load("cuModuleLoadData", module_load);
    load("cuStreamSynchronize", stream_synchronize);
  }
};

constexpr int kMajor = 75, kMinor = 76;      // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
constexpr int kMaxDynamicShared = 8;         // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr unsigned kSharedOfAll = 48 << 10;  // bytes of shared memory that a block may use without opt-in
constexpr size_t kTables = 16;               // tables of a stream that stay on the device

// Memory on the device that grows.
class Memory {
 public:
  // hold returns memory of at least bytes bytes. Before the old memory is freed, it waits for the stream's work on
  // it.
  Pointer hold(const Driver& driver, size_t bytes, void* stream) {
    if (bytes <= size_) return at_;
    if (at_ != 0) {
      driver.check(driver.stream_synchronize(stream), "wait for the GPU");
      driver.check(driver.mem_free(at_), "free memory of the GPU");
      at_ = size_ = 0;
    }
    driver.check(driver.mem_alloc(&at_, bytes), "memory of the GPU");
    size_ = bytes;
    return at_;
  }

  // release frees the memory. An error is that of a process that ends.
  void release(const Driver& driver) {
    if (at_ != 0) driver.mem_free(at_);
    at_ = size_ = 0;
  }

 private:
  Pointer at_ = 0;
  size_t size_ = 0;
};

const void* address(Pointer p) { return reinterpret_cast<const void*>(static_cast<uintptr_t>(p)); }

// HostTiles computes tiles [n, 4] (first row, rows, begin and end of their part of list) and list, indices of
// segments. It cuts rows wherever a segment begins or ends, so all rows of a tile are in the same segments.
struct HostTiles {
  std::vector<int32_t> tiles, list;
  int64_t walked = 0, longest = 0;  // see Tiles

  HostTiles(const std::vector<Segment>& segments, int64_t rows, int64_t size, bool of_keys) {
    const auto first = [of_keys](const Segment& s) { return of_keys ? s.k0 : s.q0; };
    const auto end = [of_keys](const Segment& s) { return of_keys ? s.k0 + s.kn : s.q0 + s.qn; };
    std::vector<int64_t> cuts{0, rows};
    for (const Segment& s : segments) cuts.insert(cuts.end(), {first(s), end(s)});
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    // Segments enter and leave in the order of rows; within a tile they keep the order of the table.
    std::vector<size_t> entering(segments.size());
    for (size_t i = 0; i < entering.size(); i++) entering[i] = i;
    std::stable_sort(entering.begin(), entering.end(),
                     [&](size_t a, size_t b) { return first(segments[a]) < first(segments[b]); });
    std::vector<size_t> here;
    size_t next = 0;
    for (size_t c = 0; c + 1 < cuts.size(); c++) {
      const int64_t from = cuts[c], to = cuts[c + 1];
      here.erase(std::remove_if(here.begin(), here.end(), [&](size_t i) { return end(segments[i]) <= from; }),
                 here.end());
      for (; next < entering.size() && first(segments[entering[next]]) <= from; next++) {
        if (end(segments[entering[next]]) > from) {
          here.insert(std::upper_bound(here.begin(), here.end(), entering[next]), entering[next]);
        }
      }
      const auto begin = static_cast<int32_t>(list.size());
      list.insert(list.end(), here.begin(), here.end());
      for (int64_t row = from; row < to; row += size) {
        tiles.insert(tiles.end(), {static_cast<int32_t>(row), static_cast<int32_t>(std::min(size, to - row)), begin,
                                   static_cast<int32_t>(list.size())});
        int64_t queries = 0;
        for (size_t i : here) {
          const Segment& s = segments[i];
          queries += std::max<int64_t>(0, s.qn - std::max<int64_t>(0, row - s.k0 - s.offset));
        }
        walked += queries;
        longest = std::max(longest, queries);
      }
    }
  }
};

}  // namespace

// function_of returns a kernel's function. It is loaded once for a context, and stays: streams come and go.
static void* function_of(const Driver& driver, void* context, const Compiled& kernel) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::pair<void*, const Compiled*>, void*>;
  std::lock_guard<std::mutex> lock(mutex);
  void*& f = loaded[{context, &kernel}];
  if (f != nullptr) return f;
  void *module, *found;
  driver.check(driver.module_load(&module, assay_cubins + kernel.at), kernel.name);
  driver.check(driver.module_function(&found, module, kernel.function), kernel.name);
  if (kernel.shared > kSharedOfAll) {
    driver.check(driver.func_set_attribute(found, kMaxDynamicShared, static_cast<int>(kernel.shared)), kernel.name);
  }
  return f = found;
}

// State is the state of a stream, guarded by a lock: sessions that share a stream may run at the same time.
class Stream::State {
 public:
  State(void* context, void* stream) : context_(context), stream_(stream) {
    int device, major, minor;
    driver_.check(driver_.ctx_get_device(&device), "the device of the stream");
    driver_.check(driver_.device_attribute(&major, kMajor, device), "the compute capability");
    driver_.check(driver_.device_attribute(&minor, kMinor, device), "the compute capability");
    arch_ = arch_of(major, minor);
    want(kernels_for(major, minor) > 0, "no kernels were compiled for GPUs of compute capability " +
                                            std::to_string(major) + "." + std::to_string(minor));
  }

  // No run is in progress. The thread that closes a session may have another context, or none.
  ~State() {
    void* before = nullptr;
    driver_.ctx_get_current(&before);
    if (before != context_ && driver_.ctx_set_current(context_) != 0) return;
    for (Table& t : tables_) t.memory.release(driver_);
    for (Memory& m : work_) m.release(driver_);
    if (before != context_) driver_.ctx_set_current(before);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const Compiled& find(const std::string& name) const {
    for (const Compiled& k : kCompiled) {
      if (k.arch == arch_ && name == k.name) return k;
    }
    throw "no kernel " + name + " was compiled";
  }

  void launch(const Compiled& kernel, int64_t x, int64_t y, Arguments arguments) {
    if (x == 0 || y == 0) return;
    void* f = function_of(driver_, context_, kernel);
    std::lock_guard<std::mutex> lock(mutex_);
    driver_.check(driver_.launch(f, static_cast<unsigned>(x), static_cast<unsigned>(y), 1, kernel.threads, 1, 1,
                                 kernel.shared, stream_, arguments.pointers().data(), nullptr),
                  kernel.name);
  }

  Tiles tiles(const std::vector<Segment>& segments, int64_t rows, int64_t size, bool of_keys) {
    std::vector<int32_t> key{static_cast<int32_t>(rows), static_cast<int32_t>(size), of_keys};
    for (const Segment& s : segments) {
      for (int64_t v : {s.q0, s.qn, s.k0, s.kn, s.offset}) key.push_back(static_cast<int32_t>(v));
    }
    std::lock_guard<std::mutex> lock(mutex_);
    const auto known = std::find_if(tables_.begin(), tables_.end(), [&](const Table& t) { return t.key == key; });
    if (known != tables_.end()) {
      tables_.splice(tables_.begin(), tables_, known);
      return tables_.front().tiles;
    }
    if (tables_.size() < kTables) {
      tables_.emplace_front();
    } else {
      tables_.splice(tables_.begin(), tables_, std::prev(tables_.end()));
    }
    Table& t = tables_.front();
    t.key.clear();  // invalid until the copy succeeds
    const HostTiles host(segments, rows, size, of_keys);
    std::vector<int32_t> all(host.tiles);
    all.insert(all.end(), key.begin() + 3, key.end());
    all.insert(all.end(), host.list.begin(), host.list.end());
    const Pointer at = t.memory.hold(driver_, std::max<size_t>(1, all.size()) * sizeof(int32_t), stream_);
    // The copy is from pageable memory: the driver has read it when it returns. It is ordered on the stream, so
    // kernels that still read the memory finish first.
    driver_.check(driver_.memcpy_to(at, all.data(), all.size() * sizeof(int32_t), stream_), "copy a table to the GPU");
    const Pointer table = at + host.tiles.size() * sizeof(int32_t);
    t.tiles = {address(table), address(table + (key.size() - 3) * sizeof(int32_t)), address(at),
               static_cast<int64_t>(host.tiles.size() / 4), host.walked, host.longest};
    t.key = std::move(key);
    return t.tiles;
  }

  void* work(size_t number, size_t bytes, bool zero) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (work_.size() <= number) work_.resize(number + 1);
    const Pointer at = work_[number].hold(driver_, std::max<size_t>(1, bytes), stream_);
    if (zero) driver_.check(driver_.memset(at, 0, bytes, stream_), "clear memory of the GPU");
    return const_cast<void*>(address(at));
  }

 private:
  struct Table {
    std::vector<int32_t> key;  // rows, tile size, of_keys; then segments
    Memory memory;
    Tiles tiles;
  };

  const Driver& driver_ = Driver::get();
  void *context_, *stream_;
  int arch_;
  std::mutex mutex_;
  std::list<Table> tables_;  // most recently used first
  std::vector<Memory> work_;
};

Stream Stream::of(const Context& c) {
  const Driver& driver = Driver::get();
  void *context, *stream = std::getenv("ASSAY_OPS_DRIVER") != nullptr ? nullptr : c.stream();
  driver.check(driver.ctx_get_current(&context), "the context of the GPU");
  static std::mutex mutex;
  static auto& known = *new std::map<std::pair<void*, void*>, std::weak_ptr<State>>;
  std::lock_guard<std::mutex> lock(mutex);
  const auto at = known.find({context, stream});
  std::shared_ptr<State> state = at != known.end() ? at->second.lock() : nullptr;
  if (state == nullptr) {
    for (auto i = known.begin(); i != known.end();) i = i->second.expired() ? known.erase(i) : std::next(i);
    known[{context, stream}] = state = std::make_shared<State>(context, stream);
  }
  c.keep(state);
  return Stream(state);
}

const Compiled& Stream::find(const std::string& name) const { return state_->find(name); }

void Stream::launch(const Compiled& kernel, int64_t x, int64_t y, Arguments arguments) {
  state_->launch(kernel, x, y, std::move(arguments));
}

Tiles Stream::tiles(const std::vector<Segment>& segments, int64_t rows, int64_t size, bool of_keys) {
  return state_->tiles(segments, rows, size, of_keys);
}

void* Stream::work(size_t number, size_t bytes, bool zero) { return state_->work(number, bytes, zero); }

int kernels_for(int major, int minor) {
  const int arch = arch_of(major, minor);
  return static_cast<int>(
      std::count_if(kCompiled.begin(), kCompiled.end(), [arch](const Compiled& k) { return k.arch == arch; }));
}

}  // namespace assay

// assay_ops_kernels returns the number of kernels that the library has for GPUs of a compute capability.
extern "C" __attribute__((visibility("default"))) int assay_ops_kernels(int major, int minor) {
  return assay::kernels_for(major, minor);
}
