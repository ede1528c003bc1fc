"""Makes the pictures next to this file: outputs of an exam after gradient ascent on a scorer.

    build/lab/miniature --photos examples/photos --only tissue,rocket --exam --seed 777 --instructions 28 \\
        --out build/climb
    score serve --scorer backbones/tiny-scorer &
    PYTHONPATH=clients/python python lab/internal/miniature/testdata/adversarial/make.py --exam build/climb

A name contains the task, the kind of the initial output, and the score before and after.
"""
import argparse
import json
from pathlib import Path

import numpy
from PIL import Image

from assay_reward import Client

TASKS = {  # and the kind of the initial output
    "000001": "noop",
    "000004": "noop",
    "000007": "foreign",
    "000009": "wrong_attribute",
    "000012": "noop",
    "000017": "half",
}
STEPS = 40


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--exam", type=Path, required=True)
    p.add_argument("--server", default="http://127.0.0.1:8100")
    a = p.parse_args()
    client = Client(a.server)
    kinds = {r["id"]: r["kind"] for r in map(json.loads, (a.exam / "truth.jsonl").open())}
    for r in map(json.loads, (a.exam / "edits.jsonl").open()):
        kind = TASKS.get(r["group"])
        if kinds[r["id"]] != kind:
            continue
        source, begun = (numpy.asarray(Image.open(a.exam / r[k]).convert("RGB")) for k in ("source", "edit"))
        best, edit = (-1.0, begun), begun
        first = None
        for _ in range(STEPS):
            g = client.gradient(source, r["instruction"], edit)
            first = g.score if first is None else first
            best = max(best, (g.score, edit), key=lambda b: b[0])
            step = 2 * numpy.sign(numpy.frombuffer(g.values, numpy.float32).reshape(g.shape))
            edit = (edit + step).clip(0, 255).astype(numpy.uint8)
        name = f"{int(r['group'])}-{kind}-{first:.1f}-{best[0]:.1f}.png"
        Image.fromarray(best[1]).save(Path(__file__).parent / name)
        print(name, r["instruction"])


if __name__ == "__main__":
    main()
