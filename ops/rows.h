// Shared by the RopeSplit kernels of all devices: the attributes and tables of a node.
#pragma once

#include "op.h"

namespace assay {

// Heads are the attributes of both directions of RopeSplit.
class Heads : public Kernel {
 public:
  explicit Heads(const Attributes& a) : heads_(a.integer("heads", 0)), kv_heads_(a.integer("kv_heads", heads_)) {
    want(heads_ > 0 && kv_heads_ > 0, "heads and kv_heads must be positive");
  }

 protected:
  // size returns the head size of columns that hold heads heads.
  static int64_t size(int64_t columns, int64_t heads) {
    want(columns > 0 && columns % heads == 0,
         std::to_string(columns) + " columns do not divide into " + std::to_string(heads) + " heads");
    return columns / heads;
  }

  int64_t heads_, kv_heads_;
};

// Rope holds the cosines and sines that rotate heads by their positions: the inputs starting at first, with the given
// number of rows.
struct Rope {
  Tensor<const float> cos, sin;  // [rows, half]

  Rope(const Context& c, size_t first, int64_t rows, int64_t size)
      : cos(c.input<float>(first, 2)), sin(c.input<float>(first + 1, 2)) {
    want(cos.shape == sin.shape && cos.shape[0] == rows && 2 * cos.shape[1] <= size,
         "cos and sin are not of one shape, rows and at most half of a head's " + std::to_string(size));
  }
};

// DropoutSite is a place in a graph where dropout is applied: what both kernels need besides the rows.
class DropoutSite : public Kernel {
 public:
  explicit DropoutSite(const Attributes& a) : site_(static_cast<uint32_t>(a.integer("site", 0))) {
    const float rate = a.number("rate", 0.5f);
    want(rate > 0 && rate < 1, "rate must be between 0 and 1");
    threshold_ = static_cast<uint32_t>(static_cast<double>(rate) * 4294967296.0);
    scale_ = 1 / (1 - rate);
  }

 protected:
  static uint64_t seed(const Context& c) {
    const auto seed = c.input<int64_t>(1, 1);
    want(seed.shape[0] == 1, "the seed is not one number");
    return static_cast<uint64_t>(seed.data[0]);
  }

  uint32_t site_, threshold_;
  float scale_;
};

}  // namespace assay
