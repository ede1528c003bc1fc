"""Tries an NVIDIA GPU: python tools/gpu/check.py BIN FIXTURES OUT [part,part...]

BIN has train and score (make cuda, with ONNX Runtime's CUDA provider where they find the runtime), FIXTURES is
testdata/oracle. The commands run on the CPU and on the GPU; scores are compared with the fixtures', losses and gradients with
the CPU's. Writes OUT/report.md, and what the commands said into OUT/log. Standard library only.
"""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import traceback
from pathlib import Path

BIN, FIXTURES, OUT = (Path(p).resolve() for p in sys.argv[1:4])
OUT.mkdir(parents=True, exist_ok=True)
GPU = os.environ.get("GPU", "cuda:0")
WORK = Path(os.environ.get("TMPDIR", "/tmp")) / "gpu-check"
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


def scores():
    say("\n## Scores of the fixtures\n\n| family | scorer | pairs | CPU from transformers | GPU from transformers |\n|---|---|---|---|---|")
    for cases in sorted(FIXTURES.glob("*/cases*.json")):
        by = {}
        for c in json.loads(cases.read_text()):
            by.setdefault(c["scorer"], []).append(c)
        for scorer, rows in by.items():
            far = []
            for device in ("cpu", GPU):
                folder = WORK / "scores" / cases.parent.name / scorer / device.replace(":", "")
                folder.mkdir(parents=True, exist_ok=True)
                table = folder / "in.jsonl"
                table.write_text("".join(json.dumps({
                    "id": str(c["id"]), "source": str(cases.parent / c["source"]), "edit": str(cases.parent / c["edited"]),
                    "instruction": c["instruction"]}) + "\n" for c in rows))
                run(BIN / "score", "batch", "--scorer", cases.parent / scorer, "--in", table, "--out", folder / "out.jsonl", "--device", device)
                got = [json.loads(line)["score"] for line in (folder / "out.jsonl").read_text().splitlines()]
                far.append(max(abs(g - c["score"]) for g, c in zip(got, rows, strict=True)))
            say(f"| {cases.parent.name} | {scorer} | {len(rows)} | {far[0]:.1e} | {far[1]:.1e} |")


def tensor(path):
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    info = head["gradient"]
    a, b = info["data_offsets"]
    return struct.unpack(f"<{(b - a) // 4}f", raw[8 + n + a:8 + n + b])


def gradients():
    say("\n## Pixel gradients\n\n| scorer | GPU from CPU, of the largest |\n|---|---|")
    for family, scorer in ("llavanext", "scorer"), ("qwen2_5_vl", "scorer"), ("qwen3_vl", "scorer_sequence"):
        both = []
        for device in ("cpu", GPU):
            out = WORK / f"{family}-{device[:4]}.safetensors"
            run(BIN / "score", "gradient", "--scorer", FIXTURES / family / scorer, "--source", FIXTURES / "images/chelsea.png",
                "--edit", FIXTURES / "images/chelsea_mirror.png", "--instruction", "mirror it", "--out", out, "--device", device)
            both.append(tensor(out))
        top = max(map(abs, both[0]))
        say(f"| {family}/{scorer} | {max(abs(x - y) for x, y in zip(*both)) / top:.1e} |")


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


def pace(rows):
    """Seconds of the fastest step."""
    return min(b["seconds"] - a["seconds"] for a, b in zip(rows, rows[1:]))


def training():
    say("\n## Ten steps\n\n| scorer | type | losses, GPU from CPU, relative | seconds a step, CPU | GPU |\n|---|---|---|---|---|")
    for family, scorer in ("llavanext", "scorer"), ("qwen2_5_vl", "scorer"), ("qwen3_vl", "scorer"):
        for dtype in "float32", "bfloat16":
            seen = []
            for device in ("cpu", GPU):
                name = f"{family}-{dtype}-{device[:4]}"
                run(BIN / "train", "--config", config(name, init=str(FIXTURES / family / scorer), device=device, dtype=dtype))
                seen.append(losses(name))
            far = max(abs(x["loss"] - y["loss"]) / abs(x["loss"]) for x, y in zip(*seen))
            say(f"| {family} | {dtype} | {far:.1e} | {pace(seen[0]):.3f} | {pace(seen[1]):.3f} |")


def stop():
    say("\n## Ctrl-C\n")
    path = config("stop", init=str(FIXTURES / "qwen2_5_vl/scorer"), device=GPU, steps=100000)
    p = subprocess.Popen([str(BIN / "train"), "--config", str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(15)
    begin = time.time()
    p.send_signal(signal.SIGINT)
    out = p.communicate(timeout=120)[0]
    LOG.write(out[-2000:])
    done = len(losses("stop"))
    say(f"Exit code {p.returncode} (3: state saved) {time.time() - begin:.1f} s after SIGINT, at step {done}.")
    cfg = json.loads(path.read_text())
    path.write_text(json.dumps(cfg | {"steps": done + 5}))
    again = run(BIN / "train", "--config", path, ok=(0, 2))
    say(f"Called again: exit code {again.returncode}, {len(losses('stop'))} steps.")


def sizes():
    say("\n## Larger\n\n| model | type | tokens a second | seconds a step | memory on the GPU, MB |\n|---|---|---|---|---|")
    text = WORK / "text.txt"
    text.write_text("".join(json.loads(line)["instruction"] + "\n" for line in table().read_text().splitlines()) * 50)
    shapes = {
        "1.1 B": {"hidden": 2048, "intermediate": 5632, "layers": 24, "heads": 16, "kv_heads": 8},
    }
    for name, shape in shapes.items():
        backbone = WORK / "backbone"
        if not backbone.exists():
            run(BIN / "train", "init", "--family", "qwen2_5_vl", "--out", backbone, "--text", text, "--vocab", "2000", "--max-pixels", "501760",
                "--min-pixels", "501760", "--mrope-section", "16,24,24", *[x for k, v in shape.items() for x in (f"--{k.replace('_', '-')}", v)])
        for dtype in "float32", "bfloat16":
            run_name = f"size-{dtype}"
            path = config(run_name, backbone=str(backbone), device=GPU, dtype=dtype, steps=6, batch_size=4, pair="sequence",
                          question="How well was [INSTRUCTION] done?", answer="It is [SCORE].", lora={"targets": ["q_proj", "v_proj"]})
            dry = run(BIN / "train", "--config", path, "--dry-run").stdout
            LOG.write(dry)
            watch = subprocess.Popen(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-lms", "200"], stdout=subprocess.PIPE, text=True)
            run(BIN / "train", "--config", path)
            watch.terminate()
            used = max(int(x) for x in watch.communicate()[0].split())
            last = losses(run_name)
            say(f"| {name} | {dtype} | {last[-1]['tokens'] / pace(last):.0f} | {pace(last):.3f} | {used} |")
            say("\n".join("    " + line for line in dry.splitlines() if "GB" in line or "MB" in line))


def devices():
    say("\n## What the commands say of the device\n")
    path = config("auto", init=str(FIXTURES / "qwen2_5_vl/scorer"), device="auto", micro_batch="auto")
    for line in run(BIN / "train", "--config", path, "--dry-run").stdout.splitlines():
        if any(w in line.lower() for w in ("device", "gpu", "cuda", "memory", "micro")):
            say("    " + line)


PARTS = {"devices": devices, "scores": scores, "gradients": gradients, "training": training, "stop": stop, "sizes": sizes}
for part in sys.argv[4].split(",") if len(sys.argv) > 4 else PARTS:
    begin = time.time()
    try:
        PARTS[part]()
    except Exception as e:  # the other parts go on
        say(f"\n{part}: FAILED: {e}")
        LOG.write(traceback.format_exc())
    print(f"({part}: {time.time() - begin:.0f} s)", flush=True)
