"""heuristics/testdata/directions.json: CLIP-D computed with torch, from embeddings as they are and normalised to length 1.

    build/venv/bin/python tools/oracle/directions.py     # from the repository's root

Embeddings have lengths like CLIP's (images about 10, texts about 8, within a tenth), so that the two definitions
differ like in practice, in some cases even in sign."""
import json
from pathlib import Path

import torch
from torch.nn.functional import cosine_similarity, normalize

torch.manual_seed(11)
cases, flips = [], 0
for _ in range(400):
    source = torch.randn(6, dtype=torch.float32)
    edit = source + 0.2 * torch.randn(6)
    before = torch.randn(6)
    after = before + 0.3 * torch.randn(6)
    scale = lambda x, to: normalize(x, dim=0) * to * (1 + 0.1 * torch.randn(()))
    e = [scale(source, 10), scale(edit, 10), scale(before, 8), scale(after, 8)]
    raw = cosine_similarity(e[1].double() - e[0].double(), e[3].double() - e[2].double(), dim=0)
    u = [normalize(x.double(), dim=0) for x in e]
    unit = cosine_similarity(u[1] - u[0], u[3] - u[2], dim=0)
    flips += bool((raw > 0) != (unit > 0))
    cases.append({"embeddings": [x.tolist() for x in e], "raw": raw.item(), "unit": unit.item()})
out = Path("heuristics/testdata/directions.json")
out.parent.mkdir(exist_ok=True)
out.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases[:60]) + "\n]\n")
print(flips, "of", len(cases), "change sides")
