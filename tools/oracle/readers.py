"""Small datasets in the published layouts of the real ones: python tools/oracle/readers.py data/readers/testdata/layouts.zip

Pictures are 8 x 8 and of one colour, by which tests recognise them: colour(n) is (n, 255 - n, n // 2).
Needs datasets, pyarrow, pillow."""
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
import zipfile

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
from pack import pack
from PIL import Image

out = tempfile.mkdtemp()


def png(n, form="PNG"):
    b = io.BytesIO()
    Image.new("RGB", (8, 8), (n, 255 - n, n // 2)).save(b, form, **({"quality": 100} if form == "JPEG" else {}))
    return b.getvalue()


def image(n, path=None):
    return {"bytes": png(n), "path": path}


def put(path, content):
    path = os.path.join(out, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(content if isinstance(content, bytes) else content.encode())


def parquet(path, rows, images):
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = {}
    for name in rows[0]:
        values = [r[name] for r in rows]
        columns[name] = pa.array(values, kind) if name in images else pa.array(values)
    path = os.path.join(out, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pq.write_table(pa.table(columns), path)


# MagicBrush, Parquet: two sessions, of two turns and one turn, in two files
turns = [("100", 1, 10, 11, "add a hat"), ("100", 2, 11, 12, "make it red"), ("200", 1, 20, 21, "remove the dog")]
turns = [{"img_id": i, "turn_index": t, "source_img": image(s), "mask_img": image(99), "instruction": p, "target_img": image(g)} for i, t, s, g, p in turns]
parquet("magicbrush/dev-00000-of-00002.parquet", turns[:1], ["source_img", "mask_img", "target_img"])
parquet("magicbrush/dev-00001-of-00002.parquet", turns[1:], ["source_img", "mask_img", "target_img"])

# MagicBrush, zip layout
edits = {"100": [("input", "mask1", "output1", "add a hat"), ("output1", "mask2", "output2", "make it red")],
         "200": [("input", "mask1", "output1", "remove the dog")]}
sessions = {s: [{"input": f"{s}-{a}.png", "mask": f"{s}-{m}.png", "output": f"{s}-{b}.png", "instruction": p} for a, m, b, p in e] for s, e in edits.items()}
files = {"edit_turns.json": json.dumps([t for s in sessions.values() for t in s]), "edit_sessions.json": json.dumps(sessions),
         "global_descriptions.json": json.dumps({"100": {"100-input.png": "a man", "100-output1.png": "a man with a hat"}})}
for name, n in [("100-input", 10), ("100-output1", 11), ("100-output2", 12), ("200-input", 20), ("200-output1", 21)]:
    files[f"images/{name[:3]}/{name}.png"] = png(n)
for name, content in files.items():
    put("magicbrush_files/" + name, content)
with zipfile.ZipFile(os.path.join(out, "magicbrush.zip"), "w") as z:
    for name, content in files.items():
        z.writestr(zipfile.ZipInfo("dev/" + name), content)

# ADIEE-MagicBrush-Data, saved by datasets; a missing output and a NaN
features = {"instruction": datasets.Value("string"), "source_img": datasets.Image(), "target_img": datasets.Image()}
rows = {"instruction": ["add a hat", "make it red", "remove the dog"], "source_img": [image(10), image(11), image(20)], "target_img": [image(11), image(12), image(21)]}
for k, m in enumerate(["cyclediff", "diffedit", "magicbrush"]):
    features |= {f"{m}_img": datasets.Image()} | {f"{m}_{x}": datasets.Value("float64") for x in ("clipdir", "clipsim", "dinosim", "score")}
    rows |= {f"{m}_img": [image(30 + k), image(40 + k), None if m == "diffedit" else image(50 + k)],
             f"{m}_clipdir": [(1 + 2 * k) / 10, float("nan"), None], f"{m}_clipsim": [0.9, 0.8, 0.7], f"{m}_dinosim": [0.5, 0.4, 0.3], f"{m}_score": [0.0, 0.5, None]}
d = datasets.Dataset.from_dict(rows, features=datasets.Features(features))
datasets.DatasetDict({"train": d}).save_to_disk(os.path.join(out, "adiee"), num_shards={"train": 2})
d.to_parquet(os.path.join(out, "adiee.parquet"))

# Emu-Edit, and its generations
emu = [("add a hat", 10, "add", "a man", "a man with a hat", 61, "mgie"), ("make it a painting", 20, "style", "a dog", "a painting of a dog", 62, "hive")]
emu = [{"instruction": p, "image": image(n), "task": t, "split": "test", "idx": i, "hash": f"h{i}", "input_caption": a, "output_caption": b,
        "edited_image": image(e), "model": m} for i, (p, n, t, a, b, e, m) in enumerate(emu)]
parquet("emu_generations.parquet", emu, ["image", "edited_image"])
parquet("emu.parquet", [{k: v for k, v in r.items() if k not in ("edited_image", "model")} for r in emu], ["image"])

# SEED-Data-Edit part 3 in tar parts, with a corrupt folder and a missing picture; part 2 next to its pictures
def lines(rows):
    return "".join(json.dumps(r) + "\n" for r in rows)


chain = {"source_image": "20240401_1turns/Data/1/0.jpg", "instruction_1": "add a hat", "edit_image_1": "20240401_1turns/Data/1/1.jpg",
         "instruction_2": "make it red", "edit_image_2": "20240401_1turns/Data/1/2.jpg"}
bad = {"source_image": "20240330_315P_1323turns/Data/210/0.jpg", "instruction_1": "x", "edit_image_1": "20240330_315P_1323turns/Data/210/1.jpg"}
gone = {"source_image": "20240401_1turns/Data/2/0.jpg", "instruction_1": "x", "edit_image_1": "20240401_1turns/Data/2/1.jpg"}
put("seed3/multi_turn_editing/annotations/split_0.jsonl", lines([chain, bad]))
put("seed3/multi_turn_editing/annotations/split_1.jsonl", lines([gone]))
b = io.BytesIO()
with tarfile.open(fileobj=b, mode="w:gz", compresslevel=1) as t:
    for name, n in [("1/0", 10), ("1/1", 11), ("1/2", 12), ("2/0", 13), ("9/0", 99)]:
        content = png(n, "JPEG")
        info = tarfile.TarInfo(f"multi_turn/20240401_1turns/Data/{name}.jpg")
        info.size = len(content)
        t.addfile(info, io.BytesIO(content))
raw = b.getvalue()
for i, part in enumerate(("aa", "ab", "ac")):
    third = len(raw) // 3 + 1
    put(f"seed3/multi_turn_editing/multi_turn.tar.gz.part-{part}", raw[i * third:(i + 1) * third])
put("seed2/annotations/part2.jsonl", lines([{"source_image": "1/0.png", "target_image": "1/1.png", "instruction": "add a hat"}]))
put("seed2/images/1/0.png", png(10))
put("seed2/images/1/1.png", png(11))

# InstructPix2Pix
put("instructpix2pix/seeds.json", json.dumps([["0000001", [5, "77"]], ["0000002", [77]]]))
for name, seeds in (("0000001", (5, 77)), ("0000002", (77,))):
    put(f"instructpix2pix/{name}/prompt.json", json.dumps({"input": "a man", "edit": "add a hat " + name, "output": "a man with a hat"}))
    for s in seeds:
        put(f"instructpix2pix/{name}/{s}_0.jpg", png(s, "JPEG"))
        put(f"instructpix2pix/{name}/{s}_1.jpg", png(s + 1, "JPEG"))

# AIM-Bench
mood = {"emotion": "awe", "VAD": {"valence": 0.1, "arousal": 0.2, "dominance": 0.3}}
put("aimbench/Instructions.json", json.dumps([{"original_image": "in/1.png", "edited_image": "out/1.png", "edit_type": "colour", "edit_prompt": "make it sad",
                                               "source_emotion": mood, "target_emotion": mood}]))
put("aimbench/in/1.png", png(10))
put("aimbench/out/1.png", png(11))

# EditReward-Data
pairs = [("k1", 10, 61, 62, 8, 2, "leftvote"), ("k1", 10, 61, 63, 8, 8, "tie"), ("k2", 20, 64, 65, 3, 5, "rightvote")]
pairs = [{"unique_key": k, "instruction": "edit " + k, "source_img": image(s), "left_output_image": image(a), "right_output_image": image(b), "left_model": "A",
          "right_model": "B", "left_overall_score": float(x), "right_overall_score": float(y), "vote_type": v} for k, s, a, b, x, y, v in pairs]
parquet("editreward.parquet", pairs, ["source_img", "left_output_image", "right_output_image"])

# The plain folder, and a CSV table of the same pictures
for name, n in (("hat", 10), ("dog", 20)):
    put(f"folder/{name}/instruction.txt", "edit the " + name + "\n")
    put(f"folder/{name}/source.png", png(n))
    put(f"folder/{name}/edits/magicbrush.png", png(n + 50))
put("folder/hat/target.jpg", png(11, "JPEG"))
put("folder/hat/source_caption.txt", "a man\n")
put("folder/hat/target_caption.txt", "a man with a hat\n")
put("folder/hat/edits/sdedit.png", png(70))
put("folder/hat/edits/notes.txt", "not a picture\n")
put("table.csv", "before,after,text,who,mark\nfolder/hat/source.png,folder/hat/edits/sdedit.png,add a hat,sdedit,4\nfolder/dog/source.png,,remove the dog,,\n")

pack(out, sys.argv[1])
shutil.rmtree(out)
