// What RopeSplit's kernels of all devices read: the attributes of a node.
#pragma once

#include "op.h"

namespace assay {

// Heads are the attributes of both directions of RopeSplit.
class Heads : public Kernel {
 public:
  explicit Heads(const Attributes& a) : heads_(a.integer("heads", 0)), kv_heads_(a.integer("kv_heads", heads_)) {
    want(heads_ > 0 && kv_heads_ > 0, "heads and kv_heads are wanted");
  }

 protected:
  // size is that of a head of so many columns.
  static int64_t size(int64_t columns, int64_t heads) {
    want(columns > 0 && columns % heads == 0,
         std::to_string(columns) + " columns are not " + std::to_string(heads) + " heads");
    return columns / heads;
  }

  int64_t heads_, kv_heads_;
};

}  // namespace assay
