"""Makes internal/optim/testdata/groups.json: torch.optim.AdamW with parameter groups, LoRA+ groups of PEFT, ReduceLROnPlateau, and AdamW8bit of
bitsandbytes 0.50 on the CPU (pip install bitsandbytes), with the nearest codes: its kernel for float32 looks them up in a table of
bins, its other path and its CUDA kernel do not. Run from the repository root."""

import json

import bitsandbytes as bnb
import torch

from bitsandbytes.backends.cpu import ops


def nearest(values, code, absmax, out, blocksize):
    codes, scales = torch.ops.bitsandbytes.quantize_blockwise(values.double(), code, blocksize)
    out.copy_(codes)
    absmax.copy_(scales)


ops._quant_blockwise_fp32_direct = nearest
torch.manual_seed(11)
torch.set_num_threads(1)


def flat(t):
    return [float(f"{x:.9g}") for x in t.detach().flatten()]


def groups(lrs, decays, steps):
    """lrs: for each group its learning rate at every step."""
    shapes = [[3, 4], [5], [4, 3], [2, 2], [1]]
    members = [[0, 3], [1, 4], [2]]
    params = [torch.nn.Parameter(torch.randn(s)) for s in shapes]
    start = [flat(p) for p in params]
    opt = torch.optim.AdamW([{"params": [params[i] for i in m], "weight_decay": d} for m, d in zip(members, decays)],
                            lr=1.0, betas=(0.9, 0.95), eps=1e-8, foreach=False, fused=False)
    out = []
    for t in range(steps):
        for p in params:
            p.grad = torch.randn(p.shape)
        for g, lr in zip(opt.param_groups, lrs):
            g["lr"] = lr[t]
        grads = [flat(p.grad) for p in params]
        opt.step()
        out.append({"lrs": [lr[t] for lr in lrs], "grads": grads, "params": [flat(p) for p in params]})
    return {"members": members, "decays": decays, "shapes": shapes, "start": start, "steps": out}


def plateau(mode, patience, factor, threshold, floor, measures):
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
    s = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode=mode, factor=factor, patience=patience, threshold=threshold, min_lr=floor, eps=0)
    lrs = []
    for m in measures:
        s.step(m)
        lrs.append(opt.param_groups[0]["lr"])
    return {"rising": mode == "max", "patience": patience, "factor": factor, "threshold": threshold, "end": floor, "measures": measures, "lrs": lrs}


def eight(decay, lrs, scale, shapes):
    """Readers of the file recompute the gradients: the numbers i * 2654435761 mod 2^32, with i counting over steps and tensors."""
    params, count = [], 0

    def draw(n):
        nonlocal count
        i = torch.arange(count, count + n, dtype=torch.int64)
        count += n
        return ((i * 2654435761) % 2**32).double().div(2**31).sub(1).float()

    for s in shapes:
        params.append(torch.nn.Parameter(draw(torch.Size(s).numel()).reshape(s)))
    opt = bnb.optim.AdamW8bit(params, lr=1.0, betas=(0.9, 0.999), eps=1e-8, weight_decay=decay)
    checks = []
    for t, lr in enumerate(lrs):
        for k, p in enumerate(params):
            g = draw(p.numel()) ** 3 * scale * 10.0 ** (k - t % 3)
            p.grad = g.reshape(p.shape)
        for g in opt.param_groups:
            g["lr"] = lr
        opt.step()
        checks.append([{"at": (at := list(range(t % 7, p.numel(), 37))), "param": flat(p.flatten()[at]),
                        "codes": [opt.state[p]["state1"].flatten()[at].tolist(), opt.state[p]["state2"].flatten()[at].tolist()] if p.numel() >= 4096 else []}
                       for p in params])
    return {"weight_decay": decay, "shapes": shapes, "scale": scale, "lrs": lrs, "steps": checks}


wave = [0.9, 0.8, 0.8, 0.79995, 0.81, 0.79, 0.8, 0.8, 0.8, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.98, 0.97, 1.2, 1.1, 1.0]
json.dump({
    "groups": [groups([[1e-2 * (t + 1) for t in range(7)], [3e-3] * 7, [0.1 / (t + 1) for t in range(7)]], [0.1, 0.0, 0.5], 7)],
    "plateaus": [plateau("min", 1, 0.5, 1e-4, 0.0, wave), plateau("max", 2, 0.1, 0.01, 1e-3, wave), plateau("min", 0, 0.3, 0.0, 0.01, wave)],
    "maps": [flat(bnb.functional.create_dynamic_map(signed=s)) for s in (True, False)],
    "eight": [eight(0.0, [1e-2] * 5, 1.0, [[64, 70], [4096], [5, 3]]), eight(0.1, [0.05 / (t + 1) for t in range(4)], 30.0, [[16, 300]])],
}, open("internal/optim/testdata/groups.json", "w"))
