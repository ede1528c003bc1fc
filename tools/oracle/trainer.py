"""Makes internal/optim/testdata/adamw.json (AdamW with clipping from torch) and internal/trainer/head/testdata/heads.json (heads and their gradients).
Run from the repository root."""

import json

import torch

torch.manual_seed(3)
torch.set_num_threads(1)


def flat(t):
    return [float(f"{x:.9g}") for x in t.detach().flatten()]  # nine digits identify every float32


def adamw(betas, eps, decay, clip, lrs, scale):
    shapes = [[3, 4], [5], [1]]
    params = [torch.nn.Parameter(torch.randn(s)) for s in shapes]
    start = [flat(p) for p in params]
    opt = torch.optim.AdamW(params, lr=1.0, betas=betas, eps=eps, weight_decay=decay, foreach=False, fused=False)
    steps = []
    for lr in lrs:
        for p in params:
            p.grad = torch.randn(p.shape) * scale
        grads = [flat(p.grad) for p in params]
        norm = torch.nn.utils.clip_grad_norm_(params, clip if clip else float("inf"))
        for g in opt.param_groups:
            g["lr"] = lr
        opt.step()
        steps.append({"lr": lr, "grads": grads, "norm": float(norm), "params": [flat(p) for p in params]})
    return {"betas": betas, "eps": eps, "weight_decay": decay, "clip": clip, "shapes": shapes, "start": start, "steps": steps}


runs = [
    adamw([0.9, 0.999], 1e-8, 0.01, 0, [2e-3] * 12, 1.0),
    adamw([0.9, 0.95], 1e-8, 0.0, 1.0, [0.1 * (t + 1) / 4 for t in range(8)], 3.0),
    adamw([0.5, 0.7], 1e-3, 0.5, 0.25, [0.3] * 8, 0.05),
]
json.dump(runs, open("internal/optim/testdata/adamw.json", "w"))


def head(kind, sizes, values, n, weight):
    layers = [torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]
    modules = [m for l in layers for m in (l, torch.nn.ReLU())][:-1]
    x = torch.randn(n, sizes[0])
    labels = [[0.0, 0.25, 0.5, 0.7, 1.0, 0.75, 0.1][i % 7] for i in range(n)]
    z = torch.nn.Sequential(*modules)(x)
    y = torch.tensor(labels)
    if kind == "regression":
        score = z[:, 0]
        loss = (score - y).abs()
    else:
        v = torch.tensor(values, dtype=torch.float32)
        score = torch.softmax(z, -1) @ v
        cls = torch.tensor([min(range(len(values)), key=lambda k: (abs(values[k] - l), k)) for l in labels])
        loss = torch.nn.functional.cross_entropy(z, cls, reduction="none")
    (10 * weight * loss.sum()).backward()
    params = {}
    for i, l in enumerate(layers):
        for k in ("weight", "bias"):
            p = getattr(l, k)
            params[f"layers.{i}.{k}"] = {"shape": list(p.shape), "value": flat(p), "grad": flat(p.grad)}
    return {"kind": kind, "hidden": sizes[1:-1], "in": sizes[0], "values": values, "weight": weight, "x": [flat(r) for r in x],
            "labels": labels, "score": flat(score), "score_loss": flat(loss), "params": params}


heads = [
    head("regression", [12, 8, 4, 1], [], 5, 0.2),
    head("classification", [12, 8, 4, 3], [0, 0.5, 1], 7, 1 / 7),
    head("regression", [6, 1], [], 1, 1.0),
    head("classification", [6, 5, 2], [0, 1], 1, 0.5),
    head("regression", [24, 32, 16, 1], [], 3, 1 / 3),
]
json.dump(heads, open("internal/trainer/head/testdata/heads.json", "w"))
