"""Writes lab/internal/miniature/testdata/evaluate.json: candidates with true degrees and scores, and the results of numpy and scipy
for them. Run: python tools/oracle/miniature.py"""
import json
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

FAMILIES = ["grey", "add", "flip"]
KINDS = {"perfect": 1, "half": 0.5, "over": 0.6, "wrong_attribute": 0.25, "wrong_family": 0, "noop": 0, "corrupt": 0, "foreign": 0}


def rho(rows):
    return float(spearmanr([r["score"] for r in rows], [r["truth"] for r in rows])[0])


rng = np.random.default_rng(7)
rows = []
for task in range(15):
    for kind, truth in KINDS.items():
        if kind == "half" and task % 3 == 2:
            continue  # there is no half flip
        score = np.round(0.6 * truth + 0.5 * rng.random(), 1)  # rounded: ties
        rows.append(dict(group=f"{task:06d}", family=FAMILIES[task % 3], kind=kind, parts=1 + task % 2, truth=truth, score=float(score)))
alive = [r for r in rows if r["kind"] not in ("noop", "corrupt", "foreign")]
want = dict(outputs=len(rows), spearman=rho(rows), alive=rho(alive))
want["families"] = {f: rho([r for r in rows if r["family"] == f]) for f in FAMILIES}
want["alive_families"] = {f: rho([r for r in alive if r["family"] == f]) for f in FAMILIES}
want["family_mean"] = float(np.mean(list(want["families"].values())))
want["alive_family_mean"] = float(np.mean(list(want["alive_families"].values())))
want["one_part"] = rho([r for r in rows if r["parts"] == 1])
want["two_parts"] = rho([r for r in rows if r["parts"] == 2])
pairs = [(a, b) for a in rows for b in rows if a["group"] == b["group"] and a["truth"] > b["truth"] + 0.15]
want["pairs"] = len(pairs)
want["pair_accuracy"] = float(np.mean([a["score"] > b["score"] for a, b in pairs]))
want["perfect_over"] = {k: float(np.mean([a["score"] > b["score"] for a, b in pairs if a["kind"] == "perfect" and b["kind"] == k]))
                        for k in KINDS if k != "perfect"}
path = Path(__file__).parents[2] / "lab/internal/miniature/testdata/evaluate.json"
path.write_text(json.dumps(dict(rows=rows, want=want), separators=(",", ":")))
