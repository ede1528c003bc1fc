"""Makes the training table of a scorer of learnt editors' outputs: the guard (README.md). run.sh calls it.

    guard.py --work DIR mix --groups 800
    guard.py --work DIR table --name guard drawn mixed
"""
import argparse
import io
import random
from pathlib import Path

import pandas
from PIL import Image, ImageFilter

from tune import lines, write_lines


def mix(a):
    """Imitates typical outputs of learnt editors: blends of two outcomes of an instruction or of one and the source, some
    of them blurred, in mixed/."""
    rng = random.Random(5)
    table = pandas.read_parquet(a.work / "second/edits.parquet")
    out = []
    (a.work / "mixed/pictures").mkdir(parents=True, exist_ok=True)
    for group, rows in list(table.groupby("group"))[: a.groups]:
        source = Image.open(io.BytesIO(rows.iloc[0].source["bytes"])).convert("RGB")
        source.save(a.work / f"mixed/pictures/{group}-source.png")
        made = [Image.open(io.BytesIO(r["bytes"])).convert("RGB") for r in rows.edit]
        for k in range(2):
            one, other = rng.sample(made + [source], 2)
            picture = Image.blend(one, other, rng.uniform(0.1, 0.9))
            if rng.random() < 0.5:
                picture = picture.filter(ImageFilter.GaussianBlur(rng.uniform(0.3, 1.5)))
            name = f"pictures/{group}-{k}.png"
            picture.save(a.work / "mixed" / name)
            text = rows.iloc[0].instruction
            row = {"id": f"{group}-{k}", "source": f"pictures/{group}-source.png", "edit": name, "instruction": text}
            out.append(row)
    write_lines(a.work / "mixed/edits.jsonl", out)


def table(a):
    """NAME/table.parquet: the world's outputs with their degrees, and edits with their measured truth, as labels."""
    out = []
    for name in ("first", "second"):
        degrees = {r["id"]: r["degree"] for r in lines(a.work / name / "truth.jsonl")}
        world = pandas.read_parquet(a.work / name / "edits.parquet")
        world = world.assign(label=world.id.map(degrees), id=name + "/" + world.id)
        out.append(world[["id", "source", "edit", "instruction", "label"]])
    known = {}

    def picture(path):
        if path not in known:
            known[path] = {"bytes": path.read_bytes(), "path": None}
        return known[path]

    for name in a.folders:
        folder = a.work / name
        truth = {r["id"]: r["truth"] for r in lines(folder / "truth.jsonl")}
        rows = []
        for r in lines(folder / "edits.jsonl"):
            row = {k: picture((folder / r[k]).resolve()) for k in ("source", "edit")}
            rows.append(row | {"id": f"{name}/{r['id']}", "instruction": r["instruction"], "label": truth[r["id"]]})
        out.append(pandas.DataFrame(rows)[["id", "source", "edit", "instruction", "label"]])
        print(f"{name}: {len(rows)} edits, mean truth {out[-1].label.mean():.3f}")
    (a.work / a.name).mkdir(exist_ok=True)
    new = a.work / a.name / "table.new"
    pandas.concat(out, ignore_index=True).to_parquet(new)
    new.rename(a.work / a.name / "table.parquet")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--work", type=Path, required=True)
    sub = p.add_subparsers(required=True)
    c = sub.add_parser("mix")
    c.add_argument("--groups", type=int, default=800)
    c.set_defaults(run=mix)
    c = sub.add_parser("table")
    c.add_argument("--name", default="guard", help="folder to write to")
    c.add_argument("folders", nargs="+", help="folders with edits.jsonl and truth.jsonl")
    c.set_defaults(run=table)
    a = p.parse_args()
    a.run(a)


if __name__ == "__main__":
    main()
