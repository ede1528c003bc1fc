"""Demonstrates reward hacking: pictures that climb the score's gradient instead of being edited, and what `score drift` reports.

    PYTHONPATH=clients/python python examples/reward/hack.py --server http://127.0.0.1:8100 --out build/hack [--steps 12]
    score drift --before build/hack/before.jsonl --after build/hack/after.jsonl --scorer DIR

before.jsonl: each photograph, a little warmer. after.jsonl: the same after some steps of two levels along the sign of the
gradient at every pixel: noise to people, a success to the scorer.
"""
import argparse
import json
from pathlib import Path

import numpy
from PIL import Image

from assay_reward import Client, encode

ROOT = Path(__file__).resolve().parents[2]
INSTRUCTION = "make the picture warmer"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--server", default="http://127.0.0.1:8100")
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--steps", type=int, default=12)
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    client, rows = Client(a.server), {"before": [], "after": []}
    for photo in sorted((ROOT / "examples/photos").glob("*.png")):
        source = Image.open(photo).convert("RGB")
        source.thumbnail((160, 160))
        source = numpy.asarray(source)
        warm = (source * numpy.array([1.06, 1.0, 0.94])).clip(0, 255).astype(numpy.uint8)
        edit = warm
        for _ in range(a.steps):
            g = client.gradient(source, INSTRUCTION, edit)
            step = 2 * numpy.sign(numpy.frombuffer(g.values, numpy.float32).reshape(g.shape))
            edit = (edit + step).clip(0, 255).astype(numpy.uint8)
        for name, picture in (("source", source), ("before", warm), ("after", edit)):
            (a.out / f"{photo.stem}-{name}.png").write_bytes(encode(picture))
        for name in rows:
            rows[name].append({"source": f"{photo.stem}-source.png", "edit": f"{photo.stem}-{name}.png", "instruction": INSTRUCTION})
    for name, lines in rows.items():
        (a.out / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in lines))


if __name__ == "__main__":
    main()
