"""Writes internal/trainer/objective/testdata/heads.json: a batch of edits with labels of several heads, many of them missing, and
from torch in float64 the loss of each head over its present labels, the weighted sum and its gradient with respect to every head's outputs.

    build/venv/bin/python tools/oracle/heads.py
"""
import json
import pathlib

import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).parents[2]
torch.set_default_dtype(torch.float64)
gen = torch.Generator().manual_seed(35)
N, NAN = 12, float("nan")
NAMES = ["calm", "excited", "sad", "tense"]
HEADS = {"following": ("value", 1), "quality": ("mu_sigma", 2), "emotion": ("classes", 4), "valence": ("value", 1),
         "arousal": ("value", 1), "dominance": ("value", 1), "identity": ("value", 1)}
TERMS = [{"kind": "huber", "dimension": "following", "weight": 2}, {"kind": "gaussian", "dimension": "quality"},
         {"kind": "classes", "dimension": "emotion", "weight": 0.5}, {"kind": "mse", "dimension": "valence", "weight": 3},
         {"kind": "mse", "dimension": "arousal", "weight": 3}, {"kind": "mse", "dimension": "dominance", "weight": 3},
         {"kind": "l1", "dimension": "identity"}]


def loss(term, z, y):
    """The mean over the edits that have a label; y is NaN where one is missing."""
    there = ~torch.isnan(y)
    z, y = z[there], y[there]
    if term["kind"] == "classes":
        return F.cross_entropy(z, (y * (len(NAMES) - 1)).round().long())
    if term["kind"] == "gaussian":
        return F.gaussian_nll_loss(z[:, 0], y, torch.exp(z[:, 1]) ** 2, eps=1e-30)
    return {"huber": lambda s, t: F.huber_loss(s, t, delta=0.1), "mse": F.mse_loss, "l1": F.l1_loss}[term["kind"]](z[:, 0], y)


z = {name: torch.randn(N, width, generator=gen).float().double().requires_grad_() for name, (_, width) in HEADS.items()}
y = {name: torch.rand(N, generator=gen).float().double() for name in HEADS}
y["emotion"] = torch.randint(0, len(NAMES), (N,), generator=gen) / (len(NAMES) - 1)
for i, name in enumerate(HEADS):  # a table has some of the heads, with some labels missing
    y[name][torch.rand(N, generator=gen) < 0.3] = NAN
    if name in ("valence", "arousal", "dominance"):
        y[name][:8] = NAN  # all labels of the first run of the graph, and half of the second
terms = [loss(t, z[t["dimension"]], y[t["dimension"]]) for t in TERMS]
total = sum(t.get("weight", 1) * v for t, v in zip(TERMS, terms))
total.backward()
out = {"terms": TERMS, "heads": {n: {"outputs": o, "z": z[n].tolist(), "grad": z[n].grad.tolist()} for n, (o, _) in HEADS.items()},
       "values": [i / (len(NAMES) - 1) for i in range(len(NAMES))],
       "labels": [{n: y[n][i].item() for n in HEADS if not y[n][i].isnan()} for i in range(N)],
       "losses": [v.item() for v in terms], "loss": total.item()}
path = ROOT / "internal/trainer/objective/testdata/heads.json"
path.parent.mkdir(exist_ok=True)
lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in out.items())
path.write_text("{" + lines + "}\n")
