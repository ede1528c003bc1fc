"""The logits that transformers samples from if some are equal: python tools/oracle/sampling_ties.py internal/generate/testdata/sampling_ties.json

Rows of small logits with many equals through temperature, top_k and top_p in generate's order. Writes the logits, the options
and the remaining logits, sorted: which of the equal ones at the edge of top_p stay depends on torch's sort, which is not stable.
"""
import json
import random
import sys

import torch
from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

random.seed(3)
rows = []
for i in range(300):
    n = random.choice([2, 3, 5, 8, 16, 40])
    levels = [random.choice([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0]) for _ in range(random.randint(1, 4))]
    logits = [random.choice(levels) for _ in range(n)]
    t, k, p = random.choice([1.0, 0.5, 2.0]), random.choice([0, 1, 2, n // 2 + 1]), random.choice([0.05, 0.25, 0.5, 0.75, 0.9, 0.95])
    z = torch.tensor([logits])
    if t != 1:
        z = TemperatureLogitsWarper(t)(None, z)
    if k:
        z = TopKLogitsWarper(k)(None, z)
    z = TopPLogitsWarper(p)(None, z)
    left = sorted(x for x in z[0].tolist() if x != -float("inf"))
    rows.append({"logits": logits, "temperature": t, "top_k": k, "top_p": p, "left": left})
lines = ",\n ".join(json.dumps(r) for r in rows)
open(sys.argv[1], "w").write(f"[{lines}]\n")
