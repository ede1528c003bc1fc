"""Makes label tables of several dimensions from data sets of the miniature world, with some labels missing (README.md). run.sh calls it.

    labels.py --train DIR --exam DIR --out DIR
"""
import argparse
import json
import os
from pathlib import Path

import numpy
from PIL import Image

TABLES = {
    "ratings": ["following", "quality", "identity"],
    "overall": ["overall"],
    "emotions": ["emotion"],
    "affect": ["valence", "arousal", "dominance"],
}
DIMENSIONS = [d for table in TABLES.values() for d in table]
QUALITY = {"corrupt": 0, "damaged": 0.3}  # 1 otherwise
IDENTITY = {"corrupt": 0, "foreign": 0, "over": 0.5, "wrong_family": 0.5, "damaged": 0.75}
MISSING = 0.3  # share of the ratings that are left out, independently


def affect(picture):
    """Pleasure, arousal and dominance of a picture's mean brightness b and saturation s, each mapped to 0..1 (Valdez and
    Mehrabian, Effects of Color on Emotions, 1994: .69 b + .22 s, -.31 b + .60 s, -.76 b + .32 s)."""
    hsv = numpy.asarray(picture.convert("RGB").convert("HSV"), float) / 255
    s, b = hsv[..., 1].mean(), hsv[..., 2].mean()
    return {
        "valence": (0.69 * b + 0.22 * s) / 0.91,
        "arousal": (-0.31 * b + 0.60 * s + 0.31) / 0.91,
        "dominance": (-0.76 * b + 0.32 * s + 0.76) / 1.08,
    }


def labels(truth, picture):
    degree, kind = truth["degree"], truth["kind"]
    out = {"overall": degree, "following": degree / 0.6 if kind in ("over", "damaged") else degree}
    out |= {"quality": QUALITY.get(kind, 1), "identity": IDENTITY.get(kind, 1)}
    return out | affect(picture)


def rows(folder, out):
    """The edits of a data set with all labels except emotion. Pictures are not moved."""
    truth = {t["id"]: t for t in map(json.loads, (folder / "truth.jsonl").read_text().splitlines())}
    table = []
    for r in map(json.loads, (folder / "edits.jsonl").read_text().splitlines()):
        row = {k: r[k] for k in ("id", "group", "instruction")}
        row |= {k: os.path.relpath(folder / r[k], out) for k in ("source", "edit")}
        row |= {"label_" + k: round(float(v), 4) for k, v in labels(truth[r["id"]], Image.open(folder / r["edit"])).items()}
        table.append(row)
    return table


def name_emotions(table, middle):
    """Russell's four quadrants, around the middle of the training pictures."""
    names = {(True, True): "excited", (True, False): "calm", (False, True): "tense", (False, False): "sad"}
    for r in table:
        r["label_emotion"] = names[tuple(bool(r["label_" + d] > middle[d]) for d in middle)]


def keep(row, dimensions):
    return {k: v for k, v in row.items() if not k.startswith("label_") or k[6:] in dimensions}


def write(path, table):
    path.write_text("".join(json.dumps(r) + "\n" for r in table))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--train", type=Path, required=True)
    p.add_argument("--exam", type=Path, required=True)
    p.add_argument("--out", type=Path, required=True)
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    train, exam = rows(a.train, a.out), rows(a.exam, a.out)
    middle = {d: float(numpy.median([r["label_" + d] for r in train])) for d in ("valence", "arousal")}
    for table in train, exam:
        name_emotions(table, middle)
    write(a.out / "exam.jsonl", exam)
    groups = sorted({r["group"] for r in train})
    rng = numpy.random.default_rng(1)
    part = dict(zip(groups, rng.permutation(len(groups)) % len(TABLES)))
    for i, (name, dimensions) in enumerate(TABLES.items()):
        table = [keep(r, dimensions) for r in train if part[r["group"]] == i]
        if name == "ratings":
            for r in table:
                for d in dimensions:
                    if rng.random() < MISSING:
                        r["label_" + d] = None
            table = [r for r in table if any(r["label_" + d] is not None for d in dimensions)]
        write(a.out / f"{name}.jsonl", table)


if __name__ == "__main__":
    main()
