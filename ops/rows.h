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

}  // namespace assay
