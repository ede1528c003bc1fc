"""Makes internal/optim/testdata/others.json: Adafactor from torch, Lion from lion-pytorch (pip install lion-pytorch), schedules
from transformers. Run from the repository root."""

import json

import torch
from lion_pytorch import Lion
from transformers import get_cosine_with_hard_restarts_schedule_with_warmup, get_wsd_schedule

torch.manual_seed(5)
torch.set_num_threads(1)


def flat(t):
    return [float(f"{x:.9g}") for x in t.detach().flatten()]


def run(name, make, lrs, scale, decay, shapes):
    params = [torch.nn.Parameter(torch.randn(s) * scale) for s in shapes]
    start = [flat(p) for p in params]
    opt = make(params)
    steps = []
    for t, lr in enumerate(lrs):
        for i, p in enumerate(params):
            p.grad = torch.randn(p.shape) * 10.0 ** (i - t % 3)
            if t == 2:
                p.grad.flatten()[0] = 0
        for g in opt.param_groups:
            g["lr"] = lr
        grads = [flat(p.grad) for p in params]
        opt.step()
        steps.append({"lr": lr, "grads": grads, "params": [flat(p) for p in params]})
    return {"name": name, "weight_decay": decay, "shapes": shapes, "start": start, "steps": steps}


shapes = [[3, 4], [5], [1], [2, 3, 4], [6, 1]]
runs = []
for decay, lrs in [(0.0, [1e-2] * 7), (0.1, [0.05 / (t + 1) for t in range(7)])]:
    runs.append(run("adafactor", lambda p: torch.optim.Adafactor(p, lr=1.0, weight_decay=decay, foreach=False), lrs, 0.5, decay, shapes))
    runs.append(run("lion", lambda p: Lion(p, lr=1.0, betas=(0.9, 0.99), weight_decay=decay), lrs, 1.0, decay, shapes))
clip = 1.5  # with rates above 1 / sqrt(t)
larger = run("adafactor", lambda p: torch.optim.Adafactor(p, lr=1.0, d=clip, foreach=False), [0.9] * 7, 0.5, 0.0, shapes)
runs.append(larger | {"d": clip})

schedules = []
for name, make in [("restarts", lambda o: get_cosine_with_hard_restarts_schedule_with_warmup(o, 0, 30, num_cycles=3)),
                   ("wsd", lambda o: get_wsd_schedule(o, 0, 8, num_training_steps=30, min_lr_ratio=0.1, decay_type="linear"))]:
    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    s = make(opt)
    lrs = []
    for _ in range(30):
        lrs.append(opt.param_groups[0]["lr"])
        opt.step()
        s.step()
    schedules.append({"kind": name, "lrs": lrs})
json.dump({"runs": runs, "schedules": schedules}, open("internal/optim/testdata/others.json", "w"))
