"""Shared by the parts of check.py."""
import json
import os
import shutil
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

BIN, FIXTURES, OUT = (Path(p).resolve() for p in sys.argv[1:4])
OUT.mkdir(parents=True, exist_ok=True)
GPU = os.environ.get("GPU", "cuda:0")
WORK = Path(os.environ.get("TMPDIR", "/tmp")) / "gpu-check"
WORK.mkdir(parents=True, exist_ok=True)
REPORT, LOG = open(OUT / "report.md", "a"), open(OUT / "log", "a")


def say(text):
    print(text, flush=True)
    REPORT.write(text + "\n")
    REPORT.flush()


def run(*command, ok=(0,)):
    begin = time.time()
    p = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    LOG.write(f"$ {' '.join(map(str, command))}\n{p.stdout[-3000:]}{p.stderr[-3000:]}\n= {p.returncode}, {time.time() - begin:.1f} s\n")
    LOG.flush()
    if p.returncode not in ok:
        raise RuntimeError(f"{command[0]} {command[1]}: exit code {p.returncode}: {(p.stderr or p.stdout)[-400:]}")
    return p


def tensor(path):
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    info = head["gradient"]
    a, b = info["data_offsets"]
    return struct.unpack(f"<{(b - a) // 4}f", raw[8 + n + a:8 + n + b])


def table():
    folder = WORK / "table"
    folder.mkdir(parents=True, exist_ok=True)
    cases = json.loads((FIXTURES / "qwen2_5_vl/cases.json").read_text())
    (folder / "train.jsonl").write_text("".join(json.dumps({
        "id": str(c["id"]), "group": str(c["id"]), "source": str(FIXTURES / "qwen2_5_vl" / c["source"]),
        "edit": str(FIXTURES / "qwen2_5_vl" / c["edited"]), "instruction": c["instruction"], "label": c["label"] / 10}) + "\n" for c in cases))
    return folder / "train.jsonl"


def config(name, **more):
    base = {"out": str(WORK / "runs" / name), "data": {"train": str(table())}, "optimizer": {"lr": 1e-3}, "batch_size": 2,
            "steps": 10, "seed": 3}
    path = WORK / f"{name}.yaml"
    path.write_text(json.dumps(base | more))
    shutil.rmtree(WORK / "runs" / name, ignore_errors=True)
    return path


def losses(name):
    rows = [json.loads(line) for line in (WORK / "runs" / name / "metrics.jsonl").read_text().splitlines()]
    return [r for r in rows if "loss" in r]


def furthest(differences):
    """The largest; NaN if one of them is NaN, which max() may miss."""
    return max(map(abs, differences), key=lambda d: (d != d, d))


def pace(rows):
    """Seconds of the fastest step."""
    return min(steps(rows))


def steps(rows):
    """Seconds of the steps, without the first two: sessions are opened, buffers pinned."""
    return [b["seconds"] - a["seconds"] for a, b in zip(rows, rows[1:])][1:]


def watched(path):
    """Runs a training; returns the peak GPU memory seen by nvidia-smi, MB."""
    watch = subprocess.Popen(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "200"], stdout=subprocess.PIPE, text=True)
    try:
        run(BIN / "train", "--config", path)
    finally:
        watch.terminate()
        seen = [int(x) for x in watch.communicate()[0].split()]
    return max(seen) if seen else 0


def gpu_memory():
    """MB on the GPU, of all processes."""
    said = run("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits").stdout
    return int(said.split()[0])


def backbone(name, **shape):
    folder, text = WORK / name, WORK / "text.txt"
    text.write_text("".join(json.loads(line)["instruction"] + "\n" for line in table().read_text().splitlines()) * 50)
    if not folder.exists():
        run(BIN / "train", "init", "--family", "qwen2_5_vl", "--out", folder, "--text", text, "--vocab", "2000", "--max-pixels", "501760",
            "--min-pixels", "501760", "--mrope-section", "16,24,24", *[x for k, v in shape.items() for x in (f"--{k.replace('_', '-')}", v)])
    return folder


def released(part):
    folder = WORK / part
    if not folder.exists():
        (folder.parent / "images").exists() or shutil.copytree(FIXTURES / "images", folder.parent / "images")
        zipfile.ZipFile(FIXTURES / f"{part}.zip").extractall(folder)
        for packed in folder.glob("*/backbone"):
            shutil.copy(folder / "shared.safetensors", packed)
    return folder


def groups():
    """Two edits of each source and instruction."""
    rows = []
    for i, (a, b, c) in enumerate((("chelsea", "chelsea_mirror", "chelsea_mirror_gt"), ("coffee", "coffee_blur", "coffee_blur_gt"),
                                   ("camera", "camera_flip", "camera_flip_gt"), ("coins", "coins_alpha", "coins_alpha_gt"))):
        for j, edit in enumerate((b, c)):
            rows.append({"id": f"{i}-{j}", "group": str(i), "source": str(FIXTURES / f"images/{a}.png"), "edit": str(FIXTURES / f"images/{edit}.png"),
                         "instruction": f"change {a}", "label": j / 2 + i / 10})
    path = WORK / "groups.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return str(path)


def wholes():
    """Eight edits of each of two sources."""
    rows, pictures = [], sorted(p.stem for p in (FIXTURES / "images").glob("*_*.png"))[:8]
    for source in "chelsea", "coffee":
        rows += [{"id": f"{source}-{i}", "group": source, "source": str(FIXTURES / f"images/{source}.png"), "edit": str(FIXTURES / f"images/{p}.png"),
                  "instruction": f"change {source}", "label": i / 8} for i, p in enumerate(pictures)]
    path = WORK / "wholes.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return str(path)


def conversations():
    rows = [{"id": r["id"], "messages": [
        {"role": "user", "content": [{"type": "image", "image": r["edit"]}, {"type": "text", "text": "What is it?"}]},
        {"role": "assistant", "content": f"It is a picture to {r['instruction']}."}]} for r in map(json.loads, Path(groups()).read_text().splitlines())]
    path = WORK / "conversations.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return str(path)


def small(name, *flags, family="qwen2_5_vl"):
    """A small backbone; a picture takes some hundred tokens."""
    folder, text = WORK / name, WORK / "words.txt"
    text.write_text("change chelsea coffee camera coins. It is a picture. How well was it done? What is it?\n" * 50)
    folder.exists() or run(BIN / "train", "init", "--family", family, "--out", folder, "--text", text, "--layers", "2", *flags)
    return str(folder)
