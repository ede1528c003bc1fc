"""Scores, losses and gradients of edits with several sources, with transformers and the sequence scorers of testdata/oracle: writes
cases_several.json next to cases.json, and expect_several.safetensors into expect.zip.

    python several.py FOLDER_OF_SCORER_PY ../../testdata/oracle

The pictures of a case are in the prompt in this order: its sources, then the edit, each an image part of the user's turn, followed by
the question. The tensors are d score01 / d pixel_values of each family's first case.
"""
import json
import sys
import zipfile
from pathlib import Path

import torch
from safetensors.torch import save

sys.path.insert(0, sys.argv[1])
from common import round6, seed_all, write_json
from scorer import Scorer, load_rgb

ASKED = ["Put the second picture's subject into the first one.", "Give picture 1 the colours of picture 2 and the light of picture 3.",
         "Combine all pictures.", "Make it look like the last reference, but keep the sky."]
ROWS = [([0, 1], 0, 6.0), ([2, 0, 1], 2, 3.5), ([1, 1], 1, 9.0)]  # sources and edit, as offsets in pairs.json from the case; label

fixtures = Path(sys.argv[2])
pairs = json.loads((fixtures / "images" / "pairs.json").read_text())
for family in ("llavanext", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"):
    folder = fixtures / family
    known = json.loads((folder / "cases.json").read_text())
    one = next(c for c in known if c["pair"] == "sequence")
    seed_all(1234)
    scorer, pre, meta = Scorer.load(family, folder / one["scorer"])
    low, high = meta.get("score_range", [0, 10])
    cases, tensors = [], {}
    for i, (sources, edit, label) in enumerate(ROWS):
        at = len(known) + i
        names = [pairs[(at + k) % len(pairs)]["input"] for k in sources]
        edited = pairs[(at + edit) % len(pairs)]["edited"]
        question = one["question"].replace(one["instruction"], ASKED[i])
        inputs, facts = pre([load_rgb(fixtures / n) for n in (*names, edited)], question, one["answer"])
        inputs["pixel_values"].requires_grad_(i == 0)
        out = scorer(inputs, facts["answer_start"], facts["score_index"])
        loss, ce, _ = scorer.loss(out, inputs["input_ids"], facts["answer_start"], label / 10)
        if i == 0:
            (g,) = torch.autograd.grad(out["score01"], inputs["pixel_values"])
            tensors[f"case{i}.d_pixel_values"] = g.contiguous()
        cases.append({"id": i, "scorer": one["scorer"], "sources": [f"../{n}" for n in names], "edited": f"../{edited}",
                      "instruction": ASKED[i], "question": question, "answer": one["answer"], "label": label,
                      "score": round6(low + (high - low) * out["score01"].item()), "loss": round6(loss.item()), "ce": round6(ce.item()), **facts})
    write_json(folder / "cases_several.json", cases)
    with zipfile.ZipFile(folder / "expect.zip") as z:
        kept = {n: z.read(n) for n in z.namelist() if n != "expect_several.safetensors"}
    with zipfile.ZipFile(folder / "expect.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for name, raw in (kept | {"expect_several.safetensors": save(tensors)}).items():
            z.writestr(zipfile.ZipInfo(name), raw, zipfile.ZIP_DEFLATED, 9)
