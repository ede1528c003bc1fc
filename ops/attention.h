// Shared by the attention kernels of all devices: the attributes of a node, the sizes of its inputs, and the table of
// which queries attend to which keys.
#pragma once

#include "op.h"

namespace assay {

// Segment: query q0 + i (i < qn) attends to key k0 + j (j < kn) if j <= offset + i. An offset of kn - 1 or more means
// no causal mask. A query in several segments attends to the keys of all of them, as one softmax.
struct Segment {
  int64_t q0, qn, k0, kn, offset;
};

// read_segments reads a table [segments, 5] and checks it against the numbers of queries and keys.
std::vector<Segment> read_segments(const Tensor<const int32_t>& table, int64_t queries, int64_t keys);

class Attention : public Kernel {
 public:
  explicit Attention(const Attributes& a);

 protected:
  // head_size checks the shapes of q [queries, heads size], k and v [keys, kv_heads size] and returns size.
  int64_t head_size(const std::vector<int64_t>& q, const std::vector<int64_t>& k, const std::vector<int64_t>& v) const;
  float scale(int64_t size) const;

  int64_t heads_, kv_heads_, window_;
  float scale_;
};

}  // namespace assay
