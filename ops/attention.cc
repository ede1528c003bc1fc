// Attention without S x S matrices in memory, and its gradient (Dao et al., FlashAttention-2, 2023: the forward pass
// keeps the log-sum-exp of each row, the backward pass recomputes the probabilities from it).
//
// The rows of queries and keys of all sequences of a batch are concatenated without padding. A table lists which
// queries attend to which keys. Packing, shared prefixes, windows and encoders without a causal mask are data, and
// one graph serves them all.
#include <cmath>
#include <limits>

#include "attention.h"

namespace assay {
namespace {

// Range is the keys first to last of a segment, counted from its first key, that a query attends to; or the queries
// that attend to a key.
struct Range {
  int64_t first, last;
};

// Segments is the table of a call, with the segments of each query and of each key.
class Segments {
 public:
  Segments(const Tensor<const int32_t>& table, int64_t queries, int64_t keys, int64_t window)
      : window_(window), of_query_(queries), of_key_(keys) {
    for (const Segment& g : read_segments(table, queries, keys)) {
      for (int64_t i = 0; i < g.qn; i++) of_query_[g.q0 + i].push_back(g);
      for (int64_t j = 0; j < g.kn; j++) of_key_[g.k0 + j].push_back(g);
    }
  }

  const std::vector<Segment>& of_query(int64_t q) const { return of_query_[q]; }
  const std::vector<Segment>& of_key(int64_t k) const { return of_key_[k]; }

  // keys returns the keys that a query attends to: j with 0 <= offset + i - j < window (0: any).
  Range keys(const Segment& g, int64_t q) const {
    const int64_t at = g.offset + q - g.q0;
    return {window_ > 0 ? std::max<int64_t>(0, at - window_ + 1) : 0, std::min(g.kn - 1, at)};
  }

  // queries returns the queries that attend to a key.
  Range queries(const Segment& g, int64_t k) const {
    const int64_t at = k - g.k0 - g.offset;
    return {std::max<int64_t>(0, at), window_ > 0 ? std::min(g.qn - 1, at + window_ - 1) : g.qn - 1};
  }

 private:
  int64_t window_;
  std::vector<std::vector<Segment>> of_query_, of_key_;
};

// dot sums in eight lanes, which compilers vectorize.
float dot(const float* a, const float* b, int64_t n) {
  float lanes[8] = {}, rest = 0;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int k = 0; k < 8; k++) lanes[k] += a[i + k] * b[i + k];
  }
  for (; i < n; i++) rest += a[i] * b[i];
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7])) + rest;
}

void add_scaled(float* y, float f, const float* x, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] += f * x[i];
}

// Inputs are the inputs of both directions.
struct Inputs {
  Tensor<const float> q, k, v;
  Segments segments;
  int64_t heads, group, size;  // query heads, query heads per key head, elements of a head
  float scale;

  const float* query(int64_t h, int64_t i) const { return q.row(i) + h * size; }
  const float* key(int64_t h, int64_t j) const { return k.row(j) + h / group * size; }
  const float* value(int64_t h, int64_t j) const { return v.row(j) + h / group * size; }
  float score(int64_t h, int64_t i, int64_t j) const { return scale * dot(query(h, i), key(h, j), size); }
};

// Loops is attention over CPU tensors.
class Loops : public Attention {
 public:
  using Attention::Attention;

 protected:
  // inputs reads q, k, v and segments, which are the inputs starting at first.
  Inputs inputs(const Context& c, size_t first) const {
    const auto q = c.input<float>(first, 2), k = c.input<float>(first + 1, 2), v = c.input<float>(first + 2, 2);
    const int64_t size = head_size(q.shape, k.shape, v.shape);
    const auto table = c.input<int32_t>(first + 3, 2);
    const Segments segments(table, q.shape[0], k.shape[0], window_);
    return {q, k, v, segments, heads_, heads_ / kv_heads_, size, scale(size)};
  }
};

// (q, k, v, segments) -> (o, lse): o = softmax(scale q k') v, lse [heads, queries] the logarithm of the softmax's
// sum. A query that attends to nothing has output 0 and an lse of minus infinity.
class FlashAttention : public Loops {
 public:
  using Loops::Loops;

  void run(const Context& c) const override {
    const Inputs in = inputs(c, 0);
    const int64_t n = in.q.shape[0];
    const auto o = c.output<float>(0, in.q.shape), lse = c.output<float>(1, {heads_, n});
    c.each(heads_ * n, [&](int64_t at) {
      const int64_t h = at / n, i = at % n;
      float most = -std::numeric_limits<float>::infinity(), sum = 0;
      std::vector<float> p;
      for (const Segment& g : in.segments.of_query(i)) {
        const Range r = in.segments.keys(g, i);
        for (int64_t j = r.first; j <= r.last; j++) {
          p.push_back(in.score(h, i, g.k0 + j));
          most = std::max(most, p.back());
        }
      }
      float* y = o.row(i) + h * in.size;
      std::fill(y, y + in.size, 0.0f);
      size_t next = 0;
      for (const Segment& g : in.segments.of_query(i)) {
        const Range r = in.segments.keys(g, i);
        for (int64_t j = r.first; j <= r.last; j++) {
          const float e = std::exp(p[next++] - most);
          sum += e;
          add_scaled(y, e, in.value(h, g.k0 + j), in.size);
        }
      }
      for (int64_t d = 0; d < in.size && !p.empty(); d++) y[d] /= sum;
      if (lse) lse.row(h)[i] = most + std::log(sum);
    });
  }
};

// (g, q, k, v, segments, o, lse) -> (dq, dk, dv), g the gradient of o. With p = e^(s - lse) and ds = p (g v' - g o'):
// dq = scale ds k, dk = scale ds' q, dv = p' g. Each element is one sum in a fixed order, so results are
// reproducible.
class FlashAttentionGrad : public Loops {
 public:
  using Loops::Loops;

  void run(const Context& c) const override {
    const auto grad = c.input<float>(0, 2), o = c.input<float>(5, 2), lse = c.input<float>(6, 2);
    const Inputs in = inputs(c, 1);
    const int64_t n = in.q.shape[0], keys = in.k.shape[0], size = in.size;
    want(grad.shape == in.q.shape && o.shape == in.q.shape, "o and its gradient are not of q's shape");
    want(lse.shape[0] == heads_ && lse.shape[1] == n, "lse is not of the shape heads, queries");
    const auto dq = c.output<float>(0, in.q.shape);
    const auto dk = c.output<float>(1, in.k.shape), dv = c.output<float>(2, in.v.shape);
    std::vector<float> own(heads_ * n);  // g o'
    c.each(heads_ * n, [&](int64_t at) {
      const int64_t h = at / n, i = at % n;
      const float* g = grad.row(i) + h * size;
      own[at] = dot(g, o.row(i) + h * size, size);
      if (!dq) return;
      float* y = dq.row(i) + h * size;
      std::fill(y, y + size, 0.0f);
      for (const Segment& s : in.segments.of_query(i)) {
        const Range r = in.segments.keys(s, i);
        for (int64_t j = s.k0 + r.first; j <= s.k0 + r.last; j++) {
          const float p = std::exp(in.score(h, i, j) - lse.row(h)[i]);
          add_scaled(y, in.scale * p * (dot(g, in.value(h, j), size) - own[at]), in.key(h, j), size);
        }
      }
    });
    c.each(kv_heads_ * keys, [&](int64_t at) {
      const int64_t kv = at / keys, j = at % keys;
      std::vector<float> k(size), v(size);
      for (int64_t h = kv * in.group; h < (kv + 1) * in.group; h++) {
        for (const Segment& s : in.segments.of_key(j)) {
          const Range r = in.segments.queries(s, j);
          for (int64_t i = s.q0 + r.first; i <= s.q0 + r.last; i++) {
            const float* g = grad.row(i) + h * size;
            const float p = std::exp(in.score(h, i, j) - lse.row(h)[i]);
            add_scaled(v.data(), p, g, size);
            const float ds = p * (dot(g, in.value(h, j), size) - own[h * n + i]);
            add_scaled(k.data(), in.scale * ds, in.query(h, i), size);
          }
        }
      }
      if (dk) std::copy(k.begin(), k.end(), dk.row(j) + kv * size);
      if (dv) std::copy(v.begin(), v.end(), dv.row(j) + kv * size);
    });
  }
};

}  // namespace

Attention::Attention(const Attributes& a)
    : heads_(a.integer("heads", 0)),
      kv_heads_(a.integer("kv_heads", heads_)),
      window_(a.integer("window", 0)),
      scale_(a.number("scale", 0)) {
  want(heads_ > 0 && kv_heads_ > 0 && heads_ % kv_heads_ == 0,
       "heads " + std::to_string(heads_) + " is not a multiple of kv_heads " + std::to_string(kv_heads_));
  want(window_ >= 0, "window " + std::to_string(window_) + " is negative");
}

int64_t Attention::head_size(const std::vector<int64_t>& q, const std::vector<int64_t>& k,
                             const std::vector<int64_t>& v) const {
  const int64_t size = q[1] / heads_;
  want(size > 0 && q[1] == size * heads_,
       "q has " + std::to_string(q[1]) + " columns for " + std::to_string(heads_) + " heads");
  want(k == v && k[1] == size * kv_heads_,
       "k and v have " + std::to_string(k[1]) + " and " + std::to_string(v[1]) + " columns, want " +
           std::to_string(size * kv_heads_) + ", and as many rows as each other");
  return size;
}

float Attention::scale(int64_t size) const {
  return scale_ != 0 ? scale_ : 1 / std::sqrt(static_cast<float>(size));
}

std::vector<Segment> read_segments(const Tensor<const int32_t>& table, int64_t queries, int64_t keys) {
  want(table.shape[1] == 5, "segments have " + std::to_string(table.shape[1]) + " columns, want 5");
  std::vector<Segment> segments;
  for (int64_t s = 0; s < table.shape[0]; s++) {
    const int32_t* t = table.row(s);
    const Segment g{t[0], t[1], t[2], t[3], t[4]};
    want(g.q0 >= 0 && g.qn >= 0 && g.q0 + g.qn <= queries && g.k0 >= 0 && g.kn >= 0 && g.k0 + g.kn <= keys,
         "segment " + std::to_string(s) + " is outside of " + std::to_string(queries) + " queries and " +
             std::to_string(keys) + " keys");
    segments.push_back(g);
  }
  return segments;
}

std::vector<Op>& attention_ops() {
  static std::vector<Op> ops{
      {"FlashAttention", {kFloat, kFloat, kFloat, kInt32}, {kFloat, kFloatOrNone}, make_kernel<FlashAttention>},
      {"FlashAttentionGrad",
       {kFloat, kFloat, kFloat, kFloat, kInt32, kFloat, kFloat},
       {kFloatOrNone, kFloatOrNone, kFloatOrNone},
       make_kernel<FlashAttentionGrad>},
  };
  return ops;
}

}  // namespace assay
