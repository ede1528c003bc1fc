"""Models exported from PyTorch, by both exporters: the gradients of `train grad` compared with autograd. Right or refused; each
refusal is in torch_refusals.txt with its reason.

    torch_exports.py --work FOLDER [--only PATTERN] [--update]
"""
import argparse
import contextlib
import fnmatch
import io
import logging
import sys
import warnings
from pathlib import Path

import numpy
import onnx
import torch
from torch import nn
from torch.nn import functional as F

import strangers
from differences import Runtime

RTOL, ATOL = 1e-4, 1e-5  # relative to the element, and to the largest of its tensor


class Of(nn.Module):
    """A module from a function with parameters of the given shapes."""

    def __init__(self, f, *shapes):
        super().__init__()
        self.f = f
        self.w = nn.ParameterList(nn.Parameter(0.5 * torch.randn(s)) for s in shapes)

    def forward(self, *xs):
        return self.f(*xs, *self.w)


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.cell = kind(5, 4, **options)

    def forward(self, x):
        y, last = self.cell(x)
        return y, last[0] if isinstance(last, tuple) else last


class Block(nn.Module):
    """A transformer block with scaled dot-product attention."""

    def __init__(self, causal):
        super().__init__()
        self.norm, self.qkv, self.out, self.causal = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16), causal
        self.mlp = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).view(x.shape[0], x.shape[1], 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(a.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(x)


class Fork(nn.Module):
    """An if and a loop, which scripting keeps."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x, flag):
        if bool(flag.sum() > 0):
            return torch.tanh(self.a(x)) * x
        return self.b(x) + torch.sigmoid(x)


class Repeat(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x, n):
        for _ in range(int(n)):
            x = torch.tanh(self.a(x))
        return x


def models():
    """{name: (module, inputs)}"""
    r, ids = torch.randn, torch.tensor([[3, 1, 4], [1, 5, 2]])
    block = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, stride=2, groups=2), nn.SiLU(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
    return {
        "lstm": (Recurrent(nn.LSTM), (r(6, 2, 5),)),
        "lstm_stacked_bidirectional_batch_first": (Recurrent(nn.LSTM, num_layers=2, bidirectional=True, batch_first=True), (r(2, 6, 5),)),
        "gru": (Recurrent(nn.GRU), (r(6, 2, 5),)),
        "gru_bidirectional_no_bias": (Recurrent(nn.GRU, bidirectional=True, bias=False), (r(6, 2, 5),)),
        "rnn_tanh": (Recurrent(nn.RNN), (r(6, 2, 5),)),
        "rnn_relu_bidirectional": (Recurrent(nn.RNN, nonlinearity="relu", bidirectional=True), (r(6, 2, 5),)),
        "lstm_1000_steps": (Recurrent(nn.LSTM), (r(1000, 1, 5),)),
        "convolutions": (block, (r(2, 3, 16, 16),)),
        "transposed_convolution": (nn.Sequential(nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1), nn.GroupNorm(2, 6), nn.Hardswish()), (r(2, 4, 5, 5),)),
        "convolution_1d_3d": (Of(lambda x, v, w: F.conv1d(x, v, padding="same").sum() + F.avg_pool3d(F.conv3d(x[None, :, None], w.float()), (1, 1, 2)),
                                 (4, 4, 3), (2, 2, 1, 2, 2)), (r(2, 4, 8),)),
        "attention_block": (Block(False), (r(2, 5, 16),)),
        "causal_attention_block": (Block(True), (r(2, 5, 16),)),
        "multi_head_attention": (nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, norm_first=True), (r(2, 5, 16),)),
        "embeddings": (nn.Sequential(nn.Embedding(8, 6), nn.LayerNorm(6), nn.Linear(6, 4), nn.LogSoftmax(-1)), (ids,)),
        "instance_norm_prelu": (nn.Sequential(nn.InstanceNorm2d(4, affine=True), nn.PReLU(4), nn.ELU()), (r(2, 4, 5, 5),)),
        "interpolate_bilinear": (Of(lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear") ** 2), (r(1, 2, 5, 6),)),
        "interpolate_bicubic_antialias": (Of(lambda x: F.interpolate(x, size=(4, 9), mode="bicubic", align_corners=True)), (r(1, 2, 7, 6),)),
        "interpolate_nearest": (Of(lambda x: F.interpolate(x, scale_factor=2, mode="nearest").tanh()), (r(1, 2, 5, 6),)),
        "grid_sample": (Of(lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False)), (r(1, 2, 5, 6), r(1, 4, 3, 2))),
        "einsum": (Of(lambda x, w: torch.einsum("bij,bkj,kl->bil", x, x, w), (3, 4)), (r(2, 3, 5),)),
        "indexing": (Of(lambda x, i, w: x[:, 1::2].gather(1, i) + x[:, [2, 0]].sum() * w[i[0]] + x.index_select(1, i[0])[:, :2], (4,)), (r(2, 4), ids[:, :2] % 2)),
        "scatter": (Of(lambda x, i: torch.zeros(2, 6).scatter_add(1, i, x.exp()).cumsum(1).masked_fill(x.new_ones(6).cumsum(0) > 4, 0.5)), (r(2, 3), ids)),
        "top_and_sort": (Of(lambda x: x.topk(3, -1).values.prod(-1) + x.sort(-1, descending=True).values[:, 0] + x.amax(-1)), (r(4, 6),)),
        "reductions": (Of(lambda x: x.std(1) + x.var(1, unbiased=False) + x.norm(dim=1) + x.logsumexp(1) + x.abs().mean(1)), (r(3, 5, 2),)),
        "padding_roll_flip": (Of(lambda x: F.pad(x, (1, 2), mode="reflect").roll(2, -1).flip(-1) * torch.tril(torch.ones(3, 8))), (r(2, 3, 5),)),
        "losses": (Of(lambda x, t: F.cross_entropy(x, t) + F.smooth_l1_loss(x, x.detach() * 0.3) + F.kl_div(x.log_softmax(-1), x.detach().softmax(-1))), (r(4, 5), torch.tensor([0, 3, 2, 4]))),
        "pixel_shuffle_unfold": (Of(lambda x: F.pixel_shuffle(x, 2) + F.pixel_unshuffle(x.repeat(1, 1, 4, 4), 2).mean((1, 2, 3), keepdim=True)), (r(1, 8, 3, 3),)),
        "complex_rotation": (Of(lambda x, w: torch.cat([x[..., ::2] * w.cos() - x[..., 1::2] * w.sin(), x[..., 1::2].atan2(w)], -1), (3,)), (r(2, 4, 6),)),
        "scripted_if": (Fork(), (r(3, 4), torch.tensor([1.0]))),
        "scripted_else": (Fork(), (r(3, 4), torch.tensor([-1.0]))),
        "scripted_loop": (Repeat(), (r(3, 4), torch.tensor(3))),
    }


def export(module, inputs, dynamo, path):
    logging.disable(logging.CRITICAL)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        names = [f"in{i}" for i in range(len(inputs))]
        torch.onnx.export(module, inputs, str(path), input_names=names, dynamo=dynamo, **({"external_data": False, "optimize": False} if dynamo else {"opset_version": 18, "do_constant_folding": False}))
    return onnx.load(path)


def check(name, dynamo, work):
    torch.manual_seed(7)
    torch.set_num_threads(1)
    module, inputs = models()[name]
    module.eval()
    warnings.simplefilter("ignore")
    if name.startswith("scripted"):
        module = torch.jit.script(module)
    with torch.no_grad():  # exporters merge weights that are equal
        for w in module.parameters():
            w += 0.1 * torch.randn_like(w)
    folder = work / f"torch_{name}_{'dynamo' if dynamo else 'script'}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        m = export(module, inputs, dynamo, folder / "exported.onnx")
    except Exception as e:  # noqa: BLE001 exporters raise many kinds of errors
        return "unchecked", f"PyTorch does not export it: {type(e).__name__}"
    leaves = {f"in{i}": x.clone().requires_grad_() for i, x in enumerate(inputs) if x.is_floating_point()}
    ys = module(*[leaves.get(f"in{i}", x) for i, x in enumerate(inputs)])
    ys = ys if isinstance(ys, tuple) else (ys,)
    try:
        forward = Runtime(m)({f"in{i}": x.numpy() for i, x in enumerate(inputs) if f"in{i}" in {v.name for v in m.graph.input}})
    except Exception:  # noqa: BLE001 ONNX Runtime's errors have no common base class
        return "unchecked", "ONNX Runtime does not run what PyTorch exports"
    apart = [numpy.allclose(y.detach().numpy(), got, rtol=1e-4, atol=1e-5) for y, got in zip(ys, forward, strict=True)]
    if not all(apart):
        return "unchecked", "PyTorch exports a different function"
    # Weights are compared if the exporter kept their names (constant folding is off, as it would precompute with them).
    parameters = dict(module.named_parameters())
    kept = {t.name for t in m.graph.initializer}
    fed = {v.name for v in m.graph.input}
    leaves = {k: v for k, v in leaves.items() if k in fed} | {k: p for k, p in parameters.items() if k in kept and p.requires_grad}
    feeds = {f"in{i}": x.detach().numpy() for i, x in enumerate(inputs) if f"in{i}" in fed}
    if not leaves:
        return "unchecked", "the exporter kept no weight or input to differentiate with respect to"
    cts = [torch.randn_like(y) for y in ys]
    wants = torch.autograd.grad(ys, list(leaves.values()), cts, allow_unused=True)
    answer = strangers.train_grad(folder, m, feeds, {v.name: c.numpy() for v, c in zip(m.graph.output, cts)}, list(leaves))
    if isinstance(answer, strangers.Refusal):
        return ("wrong" if answer.crashed else "refused"), answer.reason
    for k, want in zip(leaves, wants):
        want = numpy.zeros_like(answer[k]) if want is None else want.numpy()
        got = answer[k]
        if got.shape != want.shape:
            return "wrong", f"the gradient of {k} has shape {got.shape}, want {want.shape}"
        off = numpy.abs(got - want) / (RTOL * numpy.abs(want) + ATOL * (numpy.abs(want).max(initial=0) + 1e-2))
        if got.size and not off.max() <= 1:
            at = off.argmax()
            return "wrong", f"the gradient of {k} is {got.flat[at]:.6g}, autograd gives {want.flat[at]:.6g} ({off.flat[at]:.2g} times the tolerance)"
    return "right", f"{len(leaves)} gradients"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--work", required=True, type=Path)
    p.add_argument("--only", default="*", help="names of models, with * and ?")
    p.add_argument("--update", action="store_true", help="rewrite the list of refusals")
    a = p.parse_args()
    jobs = {f"{n} ({'dynamo' if d else 'torchscript'})": (check, n, d, a.work.resolve()) for n in models() for d in (False, True)
            if fnmatch.fnmatch(n, a.only)}
    report = strangers.run_all(jobs, chunk=1)
    sys.exit(strangers.judge(report, Path(__file__).with_name("torch_refusals.txt"), a.update, whole=a.only == "*"))


if __name__ == "__main__":
    main()
