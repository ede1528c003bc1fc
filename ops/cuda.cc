// The operators on a GPU: rows in bfloat16, statistics and residual sums in float32. See attention.cc and rows.cc for
// what they compute. A node allocates its outputs and launches the kernels of ops/triton over them.
#include <cstdlib>

#include "device.h"
#include "rows.h"

namespace assay {
namespace {

int32_t small(int64_t v) {
  want(v >= 0 && v <= INT32_MAX, std::to_string(v) + " is too large for a kernel");
  return static_cast<int32_t>(v);
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// sized returns the name of the kernel for a head size.
std::string sized(const char* name, int64_t size) { return std::string(name) + "_" + std::to_string(size); }

// Scratch memory of a stream, used by nodes while they run.
enum Work { kOwn, kUnwanted, kZeros, kPartsOfK, kPartsOfV };

// Outputs gives kernels a place to write omitted outputs: memory for the largest of a node's outputs.
class Outputs {
 public:
  Outputs(Stream& stream, size_t bytes) : stream_(stream), bytes_(bytes) {}

  template <class T>
  void* operator()(const Tensor<T>& output) {
    return output ? output.data : stream_.work(kUnwanted, bytes_);
  }

 private:
  Stream& stream_;
  size_t bytes_;
};

class CUDAFlashAttention : public Attention {
 public:
  using Attention::Attention;

  void run(const Context& c) const override {
    const auto q = c.input<bfloat16>(0, 2), k = c.input<bfloat16>(1, 2), v = c.input<bfloat16>(2, 2);
    const int64_t size = head_size(q.shape, k.shape, v.shape), n = q.shape[0];
    const auto segments = read_segments(c.input<int32_t>(3, 2), n, k.shape[0]);
    const auto o = c.output<bfloat16>(0, q.shape);
    const auto lse = c.output<float>(1, {heads_, n});
    Stream stream = Stream::of(c);
    const Compiled& kernel = stream.find(sized("attention", size));
    const Tiles t = stream.tiles(segments, n, kernel.queries, false);
    Outputs outputs(stream, heads_ * n * sizeof(float));
    Arguments a;
    a.add(q.data).add(k.data).add(v.data).add(o.data).add(outputs(lse));
    stream.launch(kernel, t.count, heads_, tail(a, t, n, size));
  }

 protected:
  // tail appends the last arguments, which all three kernels share.
  Arguments tail(Arguments a, const Tiles& t, int64_t n, int64_t size) const {
    return a.add(t.segments).add(t.list).add(t.tiles).add(small(n)).add(small(heads_)).add(small(heads_ / kv_heads_))
        .add(small(window_)).add(scale(size));
  }
};

class CUDAFlashAttentionGrad : public CUDAFlashAttention {
 public:
  using CUDAFlashAttention::CUDAFlashAttention;

  void run(const Context& c) const override {
    const auto grad = c.input<bfloat16>(0, 2), q = c.input<bfloat16>(1, 2), k = c.input<bfloat16>(2, 2);
    const auto v = c.input<bfloat16>(3, 2), o = c.input<bfloat16>(5, 2);
    const auto lse = c.input<float>(6, 2);
    const int64_t size = head_size(q.shape, k.shape, v.shape), n = q.shape[0], keys = k.shape[0];
    want(grad.shape == q.shape && o.shape == q.shape, "o and its gradient are not of q's shape");
    want(lse.shape[0] == heads_ && lse.shape[1] == n, "lse is not of the shape heads, queries");
    const auto segments = read_segments(c.input<int32_t>(4, 2), n, keys);
    const auto dq = c.output<bfloat16>(0, q.shape), dk = c.output<bfloat16>(1, k.shape);
    const auto dv = c.output<bfloat16>(2, v.shape);
    Stream stream = Stream::of(c);
    void* own = stream.work(kOwn, heads_ * n * sizeof(float));
    const Compiled& first = stream.find(sized("attention_own", size));
    stream.launch(first, ceil_div(n, first.queries), heads_,
                  Arguments().add(grad.data).add(o.data).add(own).add(small(n)).add(small(heads_)));
    const Arguments head = Arguments().add(grad.data).add(q.data).add(k.data).add(v.data).add(lse.data).add(own);
    if (dq) {
      const Compiled& kernel = stream.find(sized("attention_dq", size));
      const Tiles t = stream.tiles(segments, n, kernel.queries, false);
      stream.launch(kernel, t.count, heads_, tail(Arguments(head).add(dq.data), t, n, size));
    }
    if (dk || dv) {
      const Compiled& kernel = stream.find(sized("attention_dkv", size));
      const Tiles t = stream.tiles(segments, keys, kernel.keys, true);
      const int64_t group = heads_ / kv_heads_, cut = parts(t, group);
      const auto launch = [&](const Compiled& of, void* to_k, void* to_v) {
        stream.launch(of, t.count, kv_heads_ * cut,
                      tail(Arguments(head).add(to_k).add(to_v), t, n, size).add(small(keys)).add(small(group / cut)));
      };
      const int64_t numbers = keys * kv_heads_ * size;
      if (cut == 1) {
        Outputs outputs(stream, numbers * sizeof(bfloat16));
        launch(kernel, outputs(dk), outputs(dv));
        return;
      }
      void* of_k = stream.work(kPartsOfK, cut * numbers * sizeof(float));
      void* of_v = stream.work(kPartsOfV, cut * numbers * sizeof(float));
      launch(stream.find(sized("attention_dkv_part", size)), of_k, of_v);
      const Compiled& sum = stream.find("attention_sum");
      for (const auto& [from, to] : {std::pair{of_k, dk.data}, std::pair{of_v, dv.data}}) {
        if (to == nullptr) continue;
        stream.launch(sum, ceil_div(numbers, sum.columns), 1,
                      Arguments().add(from).add(to).add(small(cut)).add(small(numbers)));
      }
    }
  }

 private:
  // parts returns the number of parts that the query heads of a key head are split into. It is more than 1 if few
  // tiles, or one that most queries attend to, would leave most of a GPU idle. It depends only on sizes, so the order
  // of sums is fixed.
  int64_t parts(const Tiles& t, int64_t group) const {
    constexpr int64_t kBlocks = 264;  // concurrent blocks: two per multiprocessor of an H100
    for (int64_t cut = 1; cut < group; cut++) {
      if (group % cut == 0 && t.count * kv_heads_ * cut >= kBlocks &&
          t.longest * (group / cut) * kBlocks <= 2 * t.walked * heads_) {
        return cut;
      }
    }
    return group;
  }
};

class CUDAHeads : public Heads {
 public:
  using Heads::Heads;

 protected:
  // arguments appends the arguments of rope and the outputs to those of the inputs.
  Arguments arguments(const Rope& rope, Arguments a, std::initializer_list<void*> outputs) const {
    a.add(rope.cos.data).add(rope.sin.data);
    for (void* p : outputs) a.add(p);
    return a.add(small(heads_)).add(small(kv_heads_)).add(small(rope.cos.shape[1]));
  }
};

class CUDARopeSplit : public CUDAHeads {
 public:
  using CUDAHeads::CUDAHeads;

  void run(const Context& c) const override {
    const auto qkv = c.input<bfloat16>(0, 2);
    const int64_t n = qkv.shape[0], all = heads_ + 2 * kv_heads_, size = CUDAHeads::size(qkv.shape[1], all);
    const Rope rope(c, 1, n, size);
    const auto q = c.output<bfloat16>(0, {n, heads_ * size});
    const auto k = c.output<bfloat16>(1, {n, kv_heads_ * size}), v = c.output<bfloat16>(2, {n, kv_heads_ * size});
    Stream stream = Stream::of(c);
    const Compiled& kernel = stream.find(sized("rope_split", size));
    stream.launch(kernel, n, ceil_div(all, kernel.columns),
                  arguments(rope, Arguments().add(qkv.data), {q.data, k.data, v.data}));
  }
};

class CUDARopeSplitGrad : public CUDAHeads {
 public:
  using CUDAHeads::CUDAHeads;

  void run(const Context& c) const override {
    const Tensor<const bfloat16> parts[] = {c.input<bfloat16>(0, 2), c.input<bfloat16>(1, 2), c.input<bfloat16>(2, 2)};
    const int64_t heads[] = {heads_, kv_heads_, kv_heads_};
    int64_t n = -1, size = 0;
    for (int p = 0; p < 3; p++) {
      if (!parts[p]) continue;
      const int64_t s = CUDAHeads::size(parts[p].shape[1], heads[p]);
      want(n < 0 || (n == parts[p].shape[0] && size == s), "dq, dk and dv are not of one size");
      n = parts[p].shape[0], size = s;
    }
    want(n >= 0, "one of dq, dk and dv is needed");
    const Rope rope(c, 3, n, size);
    const auto out = c.output<bfloat16>(0, {n, (heads_ + 2 * kv_heads_) * size});
    Stream stream = Stream::of(c);
    const void* zeros = nullptr;
    Arguments a;
    for (int p = 0; p < 3; p++) {
      if (!parts[p] && zeros == nullptr) {
        zeros = stream.work(kZeros, n * std::max(heads_, kv_heads_) * size * sizeof(bfloat16), true);
      }
      a.add(parts[p] ? static_cast<const void*>(parts[p].data) : zeros);
    }
    const Compiled& kernel = stream.find(sized("rope_split_grad", size));
    stream.launch(kernel, n, ceil_div(heads_ + 2 * kv_heads_, kernel.columns),
                  arguments(rope, a, {out.data}));
  }
};

class CUDAAddRMSNorm : public Kernel {
 public:
  explicit CUDAAddRMSNorm(const Attributes& a) : epsilon_(a.number("epsilon", 1e-5f)) {}

  void run(const Context& c) const override {
    std::vector<int64_t> shape;
    const auto x = c.rows<float>(0, &shape);
    const auto y = c.rows<bfloat16>(1);
    const auto w = c.input<float>(2, 1);
    const int64_t n = x.shape[0], size = x.shape[1];
    want(y && y.shape == x.shape && w.shape[0] == size, "x and y are not of one shape with w's size as columns");
    const auto sum = c.output<float>(0, shape);
    const auto normed = c.output<bfloat16>(1, shape);
    const auto rstd = c.output<float>(2, {shape.begin(), shape.end() - 1});
    Stream stream = Stream::of(c);
    Outputs outputs(stream, n * (normed ? sizeof(float) : size * sizeof(bfloat16)));
    stream.launch(stream.find(sum ? "add_rms_norm_sum" : "add_rms_norm"), n, 1,
                  Arguments().add(x.data).add(y.data).add(w.data).add(sum.data).add(outputs(normed))
                      .add(outputs(rstd)).add(small(size)).add(epsilon_));
  }

 private:
  float epsilon_;
};

class CUDARMSNormGrad : public Kernel {
 public:
  explicit CUDARMSNormGrad(const Attributes&) {}

  void run(const Context& c) const override {
    std::vector<int64_t> shape;
    const auto dn = c.rows<bfloat16>(0), normed = c.rows<bfloat16>(2, &shape);
    const auto dsum = c.rows<float>(1), rstd = c.rows<float>(4);
    const auto w = c.input<float>(3, 1);
    const int64_t n = normed.shape[0], size = normed.shape[1];
    want((!dn || dn.shape == normed.shape) && (!dsum || dsum.shape == normed.shape) && w.shape[0] == size &&
             rstd.shape[0] * rstd.shape[1] == n,
         "the gradients are not of the rows' shape");
    const auto dx = c.output<float>(0, shape);
    const auto dy = c.output<bfloat16>(1, shape);
    Stream stream = Stream::of(c);
    Outputs outputs(stream, n * size * sizeof(float));
    const void* rows = dn ? dn.data : stream.work(kZeros, n * size * sizeof(bfloat16), true);
    stream.launch(stream.find(dsum ? "add_rms_norm_grad_dsum" : "add_rms_norm_grad"), n, 1,
                  Arguments().add(rows).add(dsum.data).add(normed.data).add(w.data).add(rstd.data).add(outputs(dx))
                      .add(outputs(dy)).add(small(size)));
  }
};

class CUDADropout : public DropoutSite {
 public:
  using DropoutSite::DropoutSite;

  void run(const Context& c) const override {
    const auto x = c.input<bfloat16>(0, 2);
    const uint64_t key = seed(c);
    const int64_t n = x.shape[0], size = x.shape[1];
    const auto y = c.output<bfloat16>(0, x.shape);
    Stream stream = Stream::of(c);
    const Compiled& kernel = stream.find("dropout");
    stream.launch(kernel, n, ceil_div(ceil_div(size, 4), kernel.columns),
                  Arguments().add(x.data).add(y.data).add(static_cast<uint32_t>(key))
                      .add(static_cast<uint32_t>(key >> 32)).add(site_).add(threshold_).add(scale_).add(small(size)));
  }
};

class CUDASwiGLU : public Kernel {
 public:
  explicit CUDASwiGLU(const Attributes&) {}

  void run(const Context& c) const override {
    const auto x = c.input<bfloat16>(0, 2);
    want(x.shape[1] % 2 == 0, std::to_string(x.shape[1]) + " columns are not two halves");
    const int64_t n = x.shape[0], half = x.shape[1] / 2;
    const auto y = c.output<bfloat16>(0, {n, half});
    Stream stream = Stream::of(c);
    const Compiled& kernel = stream.find("swiglu");
    stream.launch(kernel, n, ceil_div(half, kernel.columns), Arguments().add(x.data).add(y.data).add(small(half)));
  }
};

class CUDASwiGLUGrad : public Kernel {
 public:
  explicit CUDASwiGLUGrad(const Attributes&) {}

  void run(const Context& c) const override {
    const auto dy = c.input<bfloat16>(0, 2), x = c.input<bfloat16>(1, 2);
    const int64_t n = dy.shape[0], half = dy.shape[1];
    want(x.shape[0] == n && x.shape[1] == 2 * half, "the gradient is not of the output's shape");
    const auto dx = c.output<bfloat16>(0, x.shape);
    Stream stream = Stream::of(c);
    const Compiled& kernel = stream.find("swiglu_grad");
    stream.launch(kernel, n, ceil_div(half, kernel.columns),
                  Arguments().add(dy.data).add(x.data).add(dx.data).add(small(half)));
  }
};

}  // namespace

std::vector<Op>& cuda_ops() {
  constexpr Argument f = kFloat, fn = kFloatOrNone, b = kBFloat16, bn = kBFloat16OrNone;
  static const char* on = std::getenv("ASSAY_OPS_DRIVER") != nullptr ? nullptr : "CUDAExecutionProvider";
  static std::vector<Op> ops{
      {"FlashAttention", {b, b, b, kTable}, {b, fn}, make_kernel<CUDAFlashAttention>, on},
      {"FlashAttentionGrad", {b, b, b, b, kTable, b, f}, {bn, bn, bn}, make_kernel<CUDAFlashAttentionGrad>, on},
      {"RopeSplit", {b, f, f}, {b, b, b}, make_kernel<CUDARopeSplit>, on},
      {"RopeSplitGrad", {bn, bn, bn, f, f}, {b}, make_kernel<CUDARopeSplitGrad>, on},
      {"AddRMSNorm", {f, bn, f}, {fn, bn, fn}, make_kernel<CUDAAddRMSNorm>, on},
      {"RMSNormGrad", {bn, fn, b, f, f}, {fn, bn}, make_kernel<CUDARMSNormGrad>, on},
      {"Dropout", {b, kSeed, bn}, {b}, make_kernel<CUDADropout>, on},
      {"SwiGLU", {b}, {b}, make_kernel<CUDASwiGLU>, on},
      {"SwiGLUGrad", {b, b}, {b}, make_kernel<CUDASwiGLUGrad>, on},
  };
  static std::vector<Op> none;
  return kernels_for(8, 0) > 0 ? ops : none;
}

}  // namespace assay
