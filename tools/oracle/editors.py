"""Makes internal/benchmarks/testdata/editors.json and magicbrush.zip: results of the published rules of GEdit-Bench, ImgEdit-Bench
and MagicBrush on made-up data, with numpy, Python's round, torch, Pillow and transformers.

    python tools/oracle/editors.py internal/benchmarks/testdata testdata/oracle/clip/model

Needs torchvision for its ToTensor.
"""

import io
import json
import math
import sys
import zipfile

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import transforms

OUT, CLIP = sys.argv[1:3]
torch.set_num_threads(1)
rng = np.random.default_rng(16)
TASKS = ["background_change", "color_alter", "material_alter", "motion_change", "ps_human", "style_change", "subject-add",
         "subject-remove", "subject-replace", "text_change", "tone_transfer"]


def gedit():
    rows = []
    for task in TASKS:
        for lang in ("en", "cn"):
            for k in range(int(rng.integers(2, 6))):
                rows.append({"key": f"{task}-{lang}-{k}", "task": task, "lang": lang, "intersection": k == 0 or bool(rng.integers(0, 2)),
                             "sc": float(rng.integers(0, 11)), "pq": float(rng.integers(0, 21)) / 2})
    expect = {}
    for lang in ("en", "cn"):
        for only in (False, True):
            part = lang + (", intersection" if only else "")
            for name, of in (("G_SC", lambda r: r["sc"]), ("G_PQ", lambda r: r["pq"]),
                             ("G_O", lambda r: math.sqrt(r["sc"] * r["pq"]))):
                means = [np.mean([of(r) for r in rows if r["task"] == t and r["lang"] == lang and (r["intersection"] or not only)])
                         for t in TASKS]
                expect[f"{name}: {part}"] = float(np.mean(means))
    return {"rows": rows, "expect": expect}


def imgedit():
    data, texts, single = {}, {}, {}
    kinds = ["adjust", "style", "remove"]
    for i in range(24):
        key, kind = str(1000 + i), kinds[i % 3]
        data[key] = {"id": f"animal/{key}.jpg", "prompt": f"do {i}", "edit_type": kind}
        n = [int(x) for x in rng.integers(1, 6, 3)]
        texts[key] = f"Brief reasoning: it was so.\nPrompt Compliance: {n[0]}\n  Visual Seamlessness: {n[1]}\r\nDetail Fidelity: {n[2]}"
        if i == 5:
            texts[key] = "I cannot judge this: sorry"
            continue
        if i == 7:  # only two numbers, and one in another notation
            texts[key] = f"A: {n[0]}\nB: {n[1]}\nC: {n[2]}/5"
            n = n[:2]
        single[key] = round(sum(n) / len(n), 2)
    kind_means = [np.mean([single[k] for k in single if data[k]["edit_type"] == t]) for t in kinds]
    return {"data": data, "texts": texts, "single": single,
            "expect": {"published: all": float(np.mean(list(single.values()))), "published: mean of kinds": float(np.mean(kind_means))}}


def rise():
    """RISE-Bench with pandas like the authors' program, in which missing values (NaN) are true."""
    import pandas as pd

    data, lines = [], []
    for k, category in enumerate(["temporal_reasoning", "causal_reasoning", "spatial_reasoning", "logical_reasoning"] * 8):
        d = {"index": f"{category}_{k}", "category": category, "instruction": f"do {k}", "image": f"{category}/{k}.png"}
        if k in (1, 6, 12):
            d["consistency_free"] = True
        data.append(d)
        top = lambda: int(rng.choice([1, 2, 3, 4, 5, 5, 5]))
        line = {"id": d["index"], "model": "M", "reasoning": top(), "consistency": top(), "plausibility": top()}
        if category == "logical_reasoning":
            line.update(reasoning=int(rng.choice([1, 5])), consistency=int(rng.choice([1, 5])), plausibility=None)
        if "consistency_free" in d:
            line["consistency"] = None
        lines.append(line)
    frame = pd.DataFrame(data)
    for name in ("reasoning", "consistency", "plausibility"):
        frame[name] = [line[name] for line in lines]

    def score(row, free):
        if row["category"] == "logical_reasoning":
            s = 0.3 * row["consistency"] + 0.7 * row["reasoning"]
        elif free(row):
            s = 0.2 * row["plausibility"] + 0.8 * row["reasoning"]
        else:
            s = 0.3 * row["consistency"] + 0.5 * row["reasoning"] + 0.2 * row["plausibility"]
        return max(1, s * 0.5) if row["reasoning"] == 1 else s

    def complete(row):
        return row["consistency"] == 5 and row["reasoning"] == 5 and (row["category"] == "logical_reasoning" or row["plausibility"] == 5)

    frame["rise"] = 25 * (frame.apply(lambda r: score(r, lambda r: r["consistency_free"] is True), axis=1) - 1)
    frame["rise as run"] = 25 * (frame.apply(lambda r: score(r, lambda r: bool(r["consistency_free"])), axis=1) - 1)
    frame["accuracy"] = 100.0 * frame.apply(complete, axis=1)
    expect = {}
    for part in ("overall", "temporal", "causal", "spatial", "logical"):
        rows = frame if part == "overall" else frame[frame["category"] == part + "_reasoning"]
        for name in ("rise", "rise as run", "accuracy"):
            expect[f"{name}: {part}"] = float(rows[name].mean())
    return {"data": data, "lines": lines, "expect": expect}


def picture(w, h):
    small = Image.fromarray(rng.integers(0, 256, (4, 5, 3), dtype=np.uint8))
    noise = rng.integers(-20, 21, (h, w, 3))
    return Image.fromarray(np.clip(np.asarray(small.resize((w, h), Image.BICUBIC)).astype(int) + noise, 0, 255).astype(np.uint8))


def distance(pairs, criterion):
    """The mean over pairs of a torch loss between ToTensor of the edit, resized, and of the expected result."""
    total = 0
    for edit, wanted in pairs:
        edit = edit.resize(wanted.size)
        total += criterion(transforms.ToTensor()(edit), transforms.ToTensor()(wanted)).item()
    return total / len(pairs)


def magicbrush():
    from transformers import AutoTokenizer, CLIPImageProcessorPil, CLIPModel

    model = CLIPModel.from_pretrained(CLIP).eval()
    processor, tokenizer = CLIPImageProcessorPil.from_pretrained(CLIP), AutoTokenizer.from_pretrained(CLIP)

    def image(p):
        with torch.no_grad():
            v = model.get_image_features(**processor(images=p, return_tensors="pt"))
        return (v if torch.is_tensor(v) else v.pooler_output)[0].double()

    def text(t):
        with torch.no_grad():
            v = model.get_text_features(**tokenizer([t], return_tensors="pt"))
        return (v if torch.is_tensor(v) else v.pooler_output)[0].double()

    cosine = lambda a, b: float(a @ b / (a.norm() * b.norm()))
    files, turns, captions, single, final = {}, [], {}, [], []
    words = json.load(open(f"{CLIP}/../pairs.json"))
    for k, (session, count) in enumerate((("30", 1), ("139", 3), ("149", 2))):
        captions[session] = {}
        pictures = [picture(40, 32) for _ in range(count + 1)]
        names = [f"{session}-input.png"] + [f"{session}-output{n}.png" for n in range(1, count + 1)]
        for name, p in zip(names, pictures):
            files[f"test/images/{session}/{name}"] = p
        files[f"test/images/{session}/{session}-mask1.png"] = picture(8, 8)
        for n in range(1, count + 1):
            caption = words[(k + n) % len(words)]["caption_after"]
            captions[session][names[n]] = caption
            turns.append({"input": names[n - 1], "mask": f"{session}-mask{n}.png", "output": names[n], "instruction": f"turn {n}"})
            edit = picture(36 if n == 2 else 40, 32)
            files[f"M/{session}/{session}_{'1' if n == 1 else f'inde_{n}'}.png"] = edit
            single.append((edit, pictures[n], caption))
            if n > 1:
                edit = picture(40, 30)
                files[f"M/{session}/{session}_iter_{n}.png"] = edit
        final.append((edit, pictures[count], captions[session][names[count]]))
    expect = {}
    for part, pairs in (("single turn", single), ("multi-turn", final)):
        both = [(a, b) for a, b, _ in pairs]
        expect[f"l1: {part}"] = distance(both, torch.nn.L1Loss())
        expect[f"l2: {part}"] = distance(both, torch.nn.MSELoss())
        expect[f"clip_i: {part}"] = float(np.mean([cosine(image(a), image(b)) for a, b in both]))
        expect[f"clip_t: {part}"] = float(np.mean([cosine(image(a), text(c)) for a, _, c in pairs]))
    with zipfile.ZipFile(f"{OUT}/magicbrush.zip", "w", zipfile.ZIP_DEFLATED) as z:
        for name, p in files.items():
            b = io.BytesIO()
            p.save(b, "PNG")
            z.writestr(name, b.getvalue())
        z.writestr("test/edit_turns.json", json.dumps(turns))
        z.writestr("test/local_captions.json", json.dumps(captions))
    return {"expect": expect}


with open(f"{OUT}/editors.json", "w") as f:
    json.dump({"gedit": gedit(), "imgedit": imgedit(), "magicbrush": magicbrush(), "rise": rise()}, f, indent=0)
