// An operator of the domain "assay" as a class, adapted to ONNX Runtime's C API.
//
// A graph refers to an operator by name. The runtime calls make once for each node, with the node's attributes, and
// run whenever the node is computed. Errors are thrown, and become the status that the runtime returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "onnxruntime_c_api.h"

namespace assay {

// The runtime's functions, set when the library is registered.
extern const OrtApi* api;

// check throws the error of a call.
void check(OrtStatus* status);

// want throws unless a condition holds.
inline void want(bool condition, const std::string& what) {
  if (!condition) throw what;
}

// Attributes of a node; a missing one has the fallback.
class Attributes {
 public:
  explicit Attributes(const OrtKernelInfo* info) : info_(info) {}
  int64_t integer(const char* name, int64_t fallback) const;
  float number(const char* name, float fallback) const;

 private:
  const OrtKernelInfo* info_;
};

template <class T>
struct Tensor {
  T* data = nullptr;  // row-major; null: an omitted optional input
  std::vector<int64_t> shape;

  explicit operator bool() const { return data != nullptr; }
  T* row(int64_t i) const { return data + i * shape.back(); }
};

// Kept is what a node holds until its session is closed. Runs of a session may be at once.
class Kept {
 public:
  void add(const std::shared_ptr<void>& one) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& have : all_) {
      if (have == one) return;
    }
    all_.push_back(one);
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<void>> all_;
};

// Context is one computation of a node.
class Context {
 public:
  Context(OrtKernelContext* c, Kept& kept) : c_(c), kept_(kept) {}

  // input returns input i, which must have the given rank.
  template <class T>
  Tensor<const T> input(size_t i, size_t rank) const {
    Tensor<const T> t;
    t.data = static_cast<const T*>(raw(i, rank, &t.shape));
    return t;
  }

  // rows returns an input of any rank as a matrix, with its last axis as columns.
  template <class T>
  Tensor<const T> rows(size_t i, std::vector<int64_t>* shape = nullptr) const {
    Tensor<const T> t;
    t.data = static_cast<const T*>(raw(i, kAnyRank, &t.shape));
    if (shape != nullptr) *shape = t.shape;
    if (!t) return t;
    want(!t.shape.empty(), "input " + std::to_string(i) + " has no axis");
    int64_t n = 1;
    for (size_t axis = 0; axis + 1 < t.shape.size(); axis++) n *= t.shape[axis];
    t.shape = {n, t.shape.back()};
    return t;
  }

  // output allocates output i.
  template <class T>
  Tensor<T> output(size_t i, std::vector<int64_t> shape) const {
    Tensor<T> t{static_cast<T*>(make(i, shape)), std::move(shape)};
    return t;
  }

  // stream returns the CUDA stream that the node runs on.
  void* stream() const;

  // keep holds an object until the session is closed.
  void keep(const std::shared_ptr<void>& one) const { kept_.add(one); }

  // each calls f(0) to f(n - 1) on the session's threads, in any order.
  void each(int64_t n, const std::function<void(int64_t)>& f) const;

 private:
  static constexpr size_t kAnyRank = SIZE_MAX;

  const void* raw(size_t i, size_t rank, std::vector<int64_t>* shape) const;
  void* make(size_t i, const std::vector<int64_t>& shape) const;

  OrtKernelContext* c_;
  Kept& kept_;
};

// Kernel computes a node.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void run(const Context& c) const = 0;
};

struct Argument {
  ONNXTensorElementDataType type;
  bool optional = false;
  bool host = false;  // in host memory, whatever device the operator runs on
};

constexpr Argument kFloat{ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT};
constexpr Argument kFloatOrNone{ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, true};
constexpr Argument kBFloat16{ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16};
constexpr Argument kBFloat16OrNone{ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, true};
constexpr Argument kInt32{ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32};
constexpr Argument kTable{ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, false, true};
constexpr Argument kSeed{ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, false, true};

// bfloat16 holds the bits of a number in kernels for GPUs.
using bfloat16 = uint16_t;

// Op is an operator: its name, inputs, outputs, kernel and execution provider.
struct Op : OrtCustomOp {
  Op(const char* name, std::vector<Argument> inputs, std::vector<Argument> outputs,
     Kernel* (*make)(const Attributes&), const char* provider = nullptr);

  const char* name;
  std::vector<Argument> inputs, outputs;
  Kernel* (*make)(const Attributes&);
  const char* provider;  // null: the CPU
};

template <class K>
Kernel* make_kernel(const Attributes& a) {
  return new K(a);
}

// The operators of each file.
std::vector<Op>& attention_ops();
std::vector<Op>& row_ops();
std::vector<Op>& cuda_ops();  // none if the library was compiled without their kernels

}  // namespace assay
