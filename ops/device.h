// Launches kernels compiled for a GPU (ops/triton) on the stream of the session that computes a node.
#pragma once

#include <memory>

#include "attention.h"

namespace assay {

// Compiled is a kernel for one GPU architecture, as listed by compile.py.
struct Compiled {
  const char* name;      // includes the sizes that it was compiled for
  int arch;              // 80, 90 or 100
  const char* function;  // its name in the cubin
  size_t at;             // offset of its cubin in kernels.bin
  unsigned threads, shared;
  int64_t queries, keys, columns;  // tile sizes (columns: heads of rope_split); 0: none
};

// Arguments are the arguments of a kernel, in order. Pointers and numbers take 8 bytes each, of which the driver
// reads as many as the kernel declares.
class Arguments {
 public:
  template <class T>
  Arguments& add(T v) {
    static_assert(sizeof(T) <= 8, "an argument is a pointer or a number");
    values_.push_back(0);
    __builtin_memcpy(&values_.back(), &v, sizeof v);
    return *this;
  }
  // pointers returns the arguments in the form of cuLaunchKernel. Triton's kernels have two more arguments for
  // scratch memory, which ours do not use.
  std::vector<void*> pointers() {
    add(nullptr).add(nullptr);
    std::vector<void*> p;
    for (uint64_t& v : values_) p.push_back(&v);
    return p;
  }

 private:
  std::vector<uint64_t> values_;
};

// Tiles is the work list of an attention kernel on the device: see ops/triton/tables.py.
struct Tiles {
  const void *segments, *list, *tiles;
  int64_t count;
  int64_t walked, longest;  // tiles of keys: queries that all tiles walk, and that the largest tile walks
};

// Stream is a CUDA stream with the device memory that stays from node to node: tables, and scratch memory of nodes.
// Nodes of a stream run one after the other. The memory is freed with the session whose nodes ran on the stream.
class Stream {
 public:
  // of returns the stream that a node runs on.
  static Stream of(const Context& c);

  // find returns the kernel with that name for this GPU.
  const Compiled& find(const std::string& name) const;
  void launch(const Compiled& kernel, int64_t x, int64_t y, Arguments arguments);

  // tiles cuts rows (queries or keys) into tiles of one set of segments each.
  Tiles tiles(const std::vector<Segment>& segments, int64_t rows, int64_t size, bool of_keys);

  // work returns memory that is valid until the next call with this number. zero fills it with 0.
  void* work(size_t number, size_t bytes, bool zero = false);

  class State;

 private:
  explicit Stream(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// kernels_for returns the number of compiled kernels for GPUs of a compute capability.
int kernels_for(int major, int minor);

}  // namespace assay
