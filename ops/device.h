// Kernels that were compiled for a GPU (ops/triton), launched on the stream of the session that computes a node.
#pragma once

#include <memory>

#include "attention.h"

namespace assay {

// Compiled is a kernel for one kind of GPU, as compile.py lists it.
struct Compiled {
  const char* name;      // with the sizes that it was compiled for
  int arch;              // 80, 90 or 100
  const char* function;  // in the cubin
  size_t at;             // of its cubin in kernels.bin
  unsigned threads, shared;
  int64_t queries, keys, columns;  // tile sizes (columns: heads of rope_split); 0: it has none
};

// Arguments are those of a kernel, in its order. Pointers and numbers take 8 bytes each, of which the driver reads what
// the kernel declares.
class Arguments {
 public:
  template <class T>
  Arguments& add(T v) {
    static_assert(sizeof(T) <= 8, "an argument is a pointer or a number");
    values_.push_back(0);
    __builtin_memcpy(&values_.back(), &v, sizeof v);
    return *this;
  }
  // pointers are what cuLaunchKernel takes. Triton's kernels have two more arguments, of scratch memory that ours do not
  // take.
  std::vector<void*> pointers() {
    add(nullptr).add(nullptr);
    std::vector<void*> p;
    for (uint64_t& v : values_) p.push_back(&v);
    return p;
  }

 private:
  std::vector<uint64_t> values_;
};

// Tiles are the work of an attention kernel on the device: see ops/triton/tables.py.
struct Tiles {
  const void *segments, *list, *tiles;
  int64_t count;
  int64_t walked, longest;  // of keys: queries that all tiles walk, and the tile with most of them
};

// Stream is a stream of a GPU with what stays on the device from node to node: tables, and memory for what a node needs
// while it is computed. Nodes of a stream run one after the other.
class Stream {
 public:
  // of is the stream that a node runs on.
  static Stream of(const Context& c);

  // find is the kernel of that name for this GPU.
  const Compiled& find(const std::string& name) const;
  void launch(const Compiled& kernel, int64_t x, int64_t y, Arguments arguments);

  // tiles cuts rows into tiles of one set of segments each: queries, or keys.
  Tiles tiles(const std::vector<Segment>& segments, int64_t rows, int64_t size, bool of_keys);

  // work is memory until the next call with this number. zero fills it with 0.
  void* work(size_t number, size_t bytes, bool zero = false);

  class State;

 private:
  explicit Stream(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// kernels_for is how many compiled kernels there are for GPUs of a compute capability.
int kernels_for(int major, int minor);

}  // namespace assay
