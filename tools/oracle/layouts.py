"""Makes internal/benchmarks/testdata/layouts.zip: small data in the published layouts of editor benchmarks, the outputs of an
editor, and the results of the published rules for known scores.

    python tools/oracle/layouts.py internal/benchmarks/testdata/layouts.zip

An instruction ends with [sN]: the numbers are those of a judge that answers N for its semantic consistency and 9 for its
quality. expect.json has these numbers for each benchmark, and the groups of samples of each number, which is the mean of
the groups' means (for the scores of any judge).
"""

import io
import json
import math
import random
import statistics
import sys
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

rng = random.Random(16)
out = zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED)
expect = {}


def add(name, content):
    out.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content)


def picture(ending="png"):
    """A gradient of a unique size."""
    w, h = rng.randint(24, 60), rng.randint(24, 60)
    a, b, c = (rng.randint(0, 255) for _ in range(3))
    im = Image.new("RGB", (w, h))
    im.putdata([((a + 3 * x) % 256, (b + 2 * y) % 256, (c + x + y) % 256) for y in range(h) for x in range(w)])
    f = io.BytesIO()
    im.save(f, "PNG" if ending == "png" else "JPEG")
    return f.getvalue()


def mean(values):
    return statistics.fmean(values)


def score():
    return rng.randint(0, 10)


def overall(s):
    return math.sqrt(s * 9)


def table(name, rows, files):
    """Parquet in shards, with pictures in the form of the datasets library."""
    size = math.ceil(len(rows) / files)
    for k in range(files):
        t = pa.Table.from_pylist(rows[k * size:(k + 1) * size])
        f = io.BytesIO()
        pq.write_table(t, f)
        add(f"{name}-{k:05d}-of-{files:05d}.parquet", f.getvalue())


def gedit():
    """Mean over the tasks of the means over their samples, by language; VIEScore's O of a sample is sqrt(SC x PQ)."""
    tasks = ["background_change", "color_alter", "material_alter", "motion_change", "ps_human", "style_change", "subject-add",
             "subject-remove", "subject-replace", "text_change", "tone_transfer"]
    rows, parts, said = [], {}, {}
    for t, task in enumerate(tasks):
        for n in range(2 + t % 3):
            for lang in ("en", "cn"):
                key, s = f"{task[:3]}{t}{n}{lang}", score()
                said[key] = s
                inside = n < 2
                rows.append({"key": key, "task_type": task, "instruction": f"do it [s{s}]", "instruction_language": lang,
                             "input_image": {"bytes": picture(), "path": None},
                             "input_image_raw": {"bytes": picture(), "path": f"{key}.png"}, "Intersection_exist": inside})
                add(f"gedit/M/fullset/{task}/{lang}/{key}.png", picture())
                for part in [lang] + ([f"{lang}, intersection"] if inside else []):
                    parts.setdefault(part, {}).setdefault(task, []).append(key)
    rng.shuffle(rows)
    table("gedit/data/train", rows, 3)
    numbers, groups = {}, {}
    for part, by in parts.items():
        groups[f"score: {part}"] = list(by.values())
        for name, f in {"G_SC": lambda s: s, "G_PQ": lambda s: 9, "G_O": overall, "score": overall}.items():
            numbers[f"{name}: {part}"] = mean(mean(f(said[k]) for k in keys) for keys in by.values())
    expect["gedit-bench"] = {"numbers": numbers, "groups": groups}


def imgedit():
    """Means over all samples, and over the means of the kinds."""
    entries, kinds, said = {}, {}, {}
    for k, kind in enumerate(["add", "adjust", "background", "action", "compose", "extract", "remove", "replace", "style"]):
        for n in range(1 + k % 3):
            key, s = f"{100 + 10 * k + n}", score()
            said[key] = s
            entries[key] = {"id": f"{kind}/{n}.png", "prompt": f"do it [s{s}]", "edit_type": kind}
            add(f"imgedit/original_images/{kind}/{n}.png", picture())
            add(f"imgedit/M/{key}.png", picture())
            kinds.setdefault(kind, []).append(key)
    add("imgedit/basic_edit.json", json.dumps(entries))
    expect["imgedit-bench"] = {
        "numbers": {"score: all": mean(overall(s) for s in said.values()),
                    "score: mean of kinds": mean(mean(overall(said[k]) for k in keys) for keys in kinds.values())},
        "groups": {"score: all": [list(said)], "score: mean of kinds": list(kinds.values())}}


def rise():
    """Means over samples, by category."""
    entries, parts = [], {}
    for c, category in enumerate(["temporal", "causal", "spatial", "logical"]):
        for n in range(3 + c):
            index, s = f"{category}_reasoning_{n + 1}", score()
            entries.append({"index": index, "category": f"{category}_reasoning", "subtask": "x", "instruction": f"do it [s{s}]",
                            "image": f"{category}_reasoning_images/{n}.png", "reference": "r"})
            add(f"rise/{category}_reasoning_images/{n}.png", picture())
            add(f"rise/M/images/{category}_reasoning/{index}.png", picture())
            for part in ("overall", category):
                parts.setdefault(part, []).append((index, s))
    add("rise/datav2_total_w_subtask.json", json.dumps(entries))
    expect["rise-bench"] = {"numbers": {f"score: {p}": mean(overall(s) for _, s in v) for p, v in parts.items()},
                            "groups": {f"score: {p}": [[i for i, _ in v]] for p, v in parts.items()}}


def kris():
    """Means over samples with one source, by kind of knowledge; samples with several need a judge that is shown all of them."""
    parts = {}
    for category, kind in {"color_change": "factual", "viewpoint_change": "factual", "biology": "conceptual",
                           "rule-based_reasoning": "procedural", "multi-instruction_execution": "procedural"}.items():
        entries = {}
        for n in range(1, rng.randint(3, 5)):
            s = score()
            entries[str(n)] = {"ori_img": f"{n}.jpg", "gt_img": f"{n}.jpg", "ins_en": f"do it [s{s}]", "explain_en": "so"}
            add(f"kris/KRIS_Bench/{category}/{n}.jpg", picture("jpg"))
            add(f"kris/M/{category}/{n}.jpg", picture("jpg"))
            for part in ("overall", kind):
                parts.setdefault(part, []).append((f"{category}/{n}", s))
        add(f"kris/KRIS_Bench/{category}/annotation.json", json.dumps(entries))
    several = {"multi-element_composition": {"1": ["1-1.jpg", "1-2.jpg"], "2": ["2-1.jpg", "2-2.jpg", "2-3.jpg"]},
               "temporal_prediction": {"1": ["1-2.jpg", "1-3.jpg", "1-4.jpg"], "2": ["2-1.jpg", "2-4.jpg", "2-2.jpg"]}}
    for category, samples in several.items():
        entries = {}
        for n, names in samples.items():
            entries[n] = {"ori_img": names, "gt_img": "", "ins_en": f"{category} {n}", "explain_en": ""}
            for name in names:
                add(f"kris/KRIS_Bench/{category}/{name}", picture("jpg"))
            add(f"kris/M/{category}/{n}.jpg", picture("jpg"))
        add(f"kris/KRIS_Bench/{category}/annotation.json", json.dumps(entries))
    expect["kris-bench"] = {"numbers": {f"score: {p}": mean(overall(s) for _, s in v) for p, v in parts.items()},
                            "groups": {f"score: {p}": [[i for i, _ in v]] for p, v in parts.items()}}


def compass():
    """A preference is right if the winner's score is strictly higher, a tie if the scores differ by less than 0.00001. The
    judge here scores both sides the same."""
    data, numbers = [], {}
    for n in range(14):
        s, dimension, label = score(), ("IA", "VC", "VQ")[n % 3], "tie" if n % 4 == 3 else "preference"
        row = {"dimension": dimension, "prompt": f"do it [s{s}]", "label": label}
        for field in ("source_image", "winner", "loser"):
            row[field] = f"images/{n}/{field}.png"
            add(f"compass/{row[field]}", picture())
        data.append(row)
        for part in ("all", dimension):
            numbers.setdefault(part, []).append(label == "tie")
    add("compass/reward_eval.json", json.dumps(data))
    expect["editreward-compass"] = {"numbers": {p: mean(v) for p, v in numbers.items()}, "data": data}


def magicbrush():
    """Means over all turns, each edited from the ground truth of the turn before it."""
    turns, said = [], {}
    for session, count in {"242679": 3, "360871": 1, "7": 2}.items():
        add(f"magicbrush/test/images/{session}/{session}-input.png", picture())
        before = f"{session}-input.png"
        for n in range(1, count + 1):
            s, after = score(), f"{session}-output{n}.png"
            add(f"magicbrush/test/images/{session}/{after}", picture())
            add(f"magicbrush/test/images/{session}/{session}-mask{n}.png", picture())
            turns.append({"input": before, "mask": f"{session}-mask{n}.png", "output": after, "instruction": f"do it [s{s}]"})
            said[f"{session}/{n}"], before = s, after
            names = [f"{session}_1.png"] if n == 1 else [f"{session}_inde_{n}.png", f"{session}_iter_{n}.png"]
            for name in names:
                add(f"magicbrush/M/{session}/{name}", picture())
    add("magicbrush/test/edit_turns.json", json.dumps(turns))
    expect["magicbrush"] = {"numbers": {"score: single turn": mean(overall(s) for s in said.values())},
                            "groups": {"score: single turn": [list(said)]}}


def emu():
    """Means over the samples of a split."""
    rows, parts = [], {}
    tasks = ["global", "add", "background", "color", "local", "remove", "style"]
    for n in range(16):
        s, split = score(), "validation" if n % 3 else "test"
        rows.append({"instruction": f"do it [s{s}]", "image": {"bytes": picture(), "path": f"{n}.png"}, "task": tasks[n % 7],
                     "split": split, "idx": 10 * n, "hash": "x", "input_caption": "a", "output_caption": "b"})
        add(f"emu/M/{split}/{10 * n}.png", picture())
        parts.setdefault(split, []).append((f"{split}/{10 * n}", s))
    table("emu/data/train", rows, 2)
    expect["emu-edit"] = {"numbers": {f"score: {p}": mean(overall(s) for _, s in v) for p, v in parts.items()},
                          "groups": {f"score: {p}": [[i for i, _ in v]] for p, v in parts.items()}}


for make in (gedit, imgedit, rise, kris, compass, magicbrush, emu):
    make()
add("expect.json", json.dumps(expect))
out.close()
