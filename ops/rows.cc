// The row-wise operations of a transformer between its matrix products, and their gradients, in one pass each.
#include <cmath>

#include "rows.h"

namespace assay {
namespace {

// turn rotates a head of row i like transformers' rotate_half. With x the first and z the second half of the first 2
// half elements of a head: (x cos - z sin, z cos + x sin). The rest is copied. back rotates the other way: the
// gradient.
void turn(const Rope& rope, const float* in, float* out, int64_t i, int64_t size, bool back) {
  const int64_t half = rope.cos.shape[1];
  for (int64_t d = 0; d < half; d++) {
    const float c = rope.cos.row(i)[d], s = back ? -rope.sin.row(i)[d] : rope.sin.row(i)[d];
    const float x = in[d], z = in[half + d];
    out[d] = x * c - z * s;
    out[half + d] = z * c + x * s;
  }
  std::copy(in + 2 * half, in + size, out + 2 * half);
}

// (qkv, cos, sin) -> (q, k, v), with q and k rotated.
class RopeSplit : public Heads {
 public:
  using Heads::Heads;

  void run(const Context& c) const override {
    const auto qkv = c.input<float>(0, 2);
    const int64_t n = qkv.shape[0], size = Heads::size(qkv.shape[1], heads_ + 2 * kv_heads_);
    const Rope rope(c, 1, n, size);
    const auto q = c.output<float>(0, {n, heads_ * size});
    const auto k = c.output<float>(1, {n, kv_heads_ * size}), v = c.output<float>(2, {n, kv_heads_ * size});
    c.each(n, [&](int64_t i) {
      const float* x = qkv.row(i);
      for (int64_t h = 0; h < heads_; h++, x += size) turn(rope, x, q.row(i) + h * size, i, size, false);
      for (int64_t h = 0; h < kv_heads_; h++, x += size) turn(rope, x, k.row(i) + h * size, i, size, false);
      std::copy(x, x + kv_heads_ * size, v.row(i));
    });
  }
};

// (dq, dk, dv, cos, sin) -> dqkv. A missing gradient is 0.
class RopeSplitGrad : public Heads {
 public:
  using Heads::Heads;

  void run(const Context& c) const override {
    const Tensor<const float> parts[] = {c.input<float>(0, 2), c.input<float>(1, 2), c.input<float>(2, 2)};
    const int64_t heads[] = {heads_, kv_heads_, kv_heads_};
    int64_t n = -1, size = 0;
    for (int p = 0; p < 3; p++) {
      if (!parts[p]) continue;
      const int64_t s = Heads::size(parts[p].shape[1], heads[p]);
      want(n < 0 || (n == parts[p].shape[0] && size == s), "dq, dk and dv are not of one size");
      n = parts[p].shape[0], size = s;
    }
    want(n >= 0, "one of dq, dk and dv is needed");
    const Rope rope(c, 3, n, size);
    const auto out = c.output<float>(0, {n, (heads_ + 2 * kv_heads_) * size});
    c.each(n, [&](int64_t i) {
      float* y = out.row(i);
      for (int p = 0; p < 3; p++) {
        for (int64_t h = 0; h < heads[p]; h++, y += size) {
          if (!parts[p]) {
            std::fill(y, y + size, 0.0f);
          } else if (p < 2) {
            turn(rope, parts[p].row(i) + h * size, y, i, size, true);
          } else {
            std::copy(parts[p].row(i) + h * size, parts[p].row(i) + (h + 1) * size, y);
          }
        }
      }
    });
  }
};

// (x, y, w) -> (sum, n, rstd): sum = x + y, rstd = 1 / sqrt(mean sum^2 + epsilon), n = sum rstd w. A missing y is 0.
// Rows are along the last axis; rstd has the other axes.
class AddRMSNorm : public Kernel {
 public:
  explicit AddRMSNorm(const Attributes& a) : epsilon_(a.number("epsilon", 1e-5f)) {}

  void run(const Context& c) const override {
    std::vector<int64_t> shape;
    const auto x = c.rows<float>(0, &shape), y = c.rows<float>(1), w = c.input<float>(2, 1);
    const int64_t n = x.shape[0], size = x.shape[1];
    want((!y || y.shape == x.shape) && w.shape[0] == size, "x and y are not of one shape with w's size as columns");
    const auto sum = c.output<float>(0, shape), normed = c.output<float>(1, shape);
    const auto rstd = c.output<float>(2, {shape.begin(), shape.end() - 1});
    c.each(n, [&](int64_t i) {
      const auto at = [&](int64_t d) { return y ? x.row(i)[d] + y.row(i)[d] : x.row(i)[d]; };
      double squares = 0;
      for (int64_t d = 0; d < size; d++) {
        const float s = at(d);
        squares += static_cast<double>(s) * s;
      }
      const float r = static_cast<float>(1 / std::sqrt(squares / size + epsilon_));
      for (int64_t d = 0; d < size; d++) {
        const float s = at(d);
        if (normed) normed.row(i)[d] = s * r * w.data[d];
        if (sum) sum.row(i)[d] = s;
      }
      if (rstd) rstd.data[i] = r;
    });
  }

 private:
  float epsilon_;
};

// (dn, dsum, n, w, rstd) -> (dx, dy), which are equal: dsum + rstd (dn w - n / w mean(dn n)). dn or dsum may be missing.
// n is half as large as the float32 sum where it is bfloat16, and products have to keep it anyway. w must not be 0.
// AddRMSNormGrad was the same of the sum: the name differs so that no library takes one for the other.
class RMSNormGrad : public Kernel {
 public:
  explicit RMSNormGrad(const Attributes&) {}

  void run(const Context& c) const override {
    std::vector<int64_t> shape;
    const auto dn = c.rows<float>(0), dsum = c.rows<float>(1), normed = c.rows<float>(2, &shape);
    const auto w = c.input<float>(3, 1), rstd = c.rows<float>(4);
    const int64_t n = normed.shape[0], size = normed.shape[1];
    want((!dn || dn.shape == normed.shape) && (!dsum || dsum.shape == normed.shape) && w.shape[0] == size &&
             rstd.shape[0] * rstd.shape[1] == n,
         "the gradients are not of the rows' shape");
    for (int64_t d = 0; d < size && dn; d++) want(w.data[d] != 0, "weight " + std::to_string(d) + " is 0");
    const auto dx = c.output<float>(0, shape), dy = c.output<float>(1, shape);
    c.each(n, [&](int64_t i) {
      const float *y = normed.row(i), r = rstd.data[i];
      double along = 0;
      for (int64_t d = 0; d < size && dn; d++) along += static_cast<double>(dn.row(i)[d]) * y[d];
      const float k = static_cast<float>(along / size);
      for (int64_t d = 0; d < size; d++) {
        float g = dsum ? dsum.row(i)[d] : 0;
        if (dn) g += r * (dn.row(i)[d] * w.data[d] - y[d] / w.data[d] * k);
        if (dx) dx.row(i)[d] = g;
        if (dy) dy.row(i)[d] = g;
      }
    });
  }
};

// philox is Philox4x32-10 (Salmon et al., 2011), as triton.language.philox computes it: 4 random numbers.
void philox(uint32_t c[4], uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; round++) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    c[0] = static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0;
    c[2] = static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1;
    c[1] = static_cast<uint32_t>(b);
    c[3] = static_cast<uint32_t>(a);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}

// (x, seed, after) -> y: each element is 0 with probability rate, otherwise x / (1 - rate). It depends on seed, site and
// position alone, so that the gradient, which is the same operator, drops the same elements. The four quarters of a row
// take the four numbers of a call of philox. after is not read: it orders a node that drops the same rows again behind
// the value, and makes it differ from the first one, or the runtime would merge them.
class Dropout : public DropoutSite {
 public:
  using DropoutSite::DropoutSite;

  void run(const Context& c) const override {
    const auto x = c.input<float>(0, 2);
    const uint64_t key = seed(c);
    const int64_t size = x.shape[1], quarter = (size + 3) / 4;
    const auto y = c.output<float>(0, x.shape);
    c.each(x.shape[0], [&](int64_t i) {
      for (int64_t d = 0; d < quarter; d++) {
        uint32_t r[4] = {static_cast<uint32_t>(d), static_cast<uint32_t>(i), site_, 0};
        philox(r, static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32));
        for (int64_t p = 0, at = d; p < 4 && at < size; p++, at += quarter) {
          y.row(i)[at] = r[p] < threshold_ ? 0 : x.row(i)[at] * scale_;
        }
      }
    });
  }
};

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// (gate_up) -> gate sigmoid(gate) up, gate the first half of the columns.
class SwiGLU : public Kernel {
 public:
  explicit SwiGLU(const Attributes&) {}

  void run(const Context& c) const override {
    const auto x = c.input<float>(0, 2);
    want(x.shape[1] % 2 == 0, std::to_string(x.shape[1]) + " columns are not two halves");
    const int64_t half = x.shape[1] / 2;
    const auto y = c.output<float>(0, {x.shape[0], half});
    c.each(x.shape[0], [&](int64_t i) {
      for (int64_t d = 0; d < half; d++) {
        const float gate = x.row(i)[d];
        y.row(i)[d] = gate * sigmoid(gate) * x.row(i)[half + d];
      }
    });
  }
};

// (dy, gate_up) -> dgate_up. With s = sigmoid(gate): dgate = dy up s (1 + gate (1 - s)), dup = dy gate s.
class SwiGLUGrad : public Kernel {
 public:
  explicit SwiGLUGrad(const Attributes&) {}

  void run(const Context& c) const override {
    const auto dy = c.input<float>(0, 2), x = c.input<float>(1, 2);
    const int64_t half = dy.shape[1];
    want(x.shape[0] == dy.shape[0] && x.shape[1] == 2 * half, "the gradient is not of the output's shape");
    const auto dx = c.output<float>(0, x.shape);
    c.each(x.shape[0], [&](int64_t i) {
      for (int64_t d = 0; d < half; d++) {
        const float gate = x.row(i)[d], s = sigmoid(gate), g = dy.row(i)[d];
        dx.row(i)[d] = g * x.row(i)[half + d] * s * (1 + gate * (1 - s));
        dx.row(i)[half + d] = g * gate * s;
      }
    });
  }
};

}  // namespace

std::vector<Op>& row_ops() {
  static std::vector<Op> ops{
      {"RopeSplit", {kFloat, kFloat, kFloat}, {kFloat, kFloat, kFloat}, make_kernel<RopeSplit>},
      {"RopeSplitGrad",
       {kFloatOrNone, kFloatOrNone, kFloatOrNone, kFloat, kFloat},
       {kFloat},
       make_kernel<RopeSplitGrad>},
      {"AddRMSNorm",
       {kFloat, kFloatOrNone, kFloat},
       {kFloatOrNone, kFloatOrNone, kFloatOrNone},
       make_kernel<AddRMSNorm>},
      {"RMSNormGrad",
       {kFloatOrNone, kFloatOrNone, kFloat, kFloat, kFloat},
       {kFloatOrNone, kFloatOrNone},
       make_kernel<RMSNormGrad>},
      {"Dropout", {kFloat, kSeed, kFloatOrNone}, {kFloat}, make_kernel<Dropout>},
      {"SwiGLU", {kFloat}, {kFloat}, make_kernel<SwiGLU>},
      {"SwiGLUGrad", {kFloat, kFloat}, {kFloat}, make_kernel<SwiGLUGrad>},
  };
  return ops;
}

}  // namespace assay
