"""make bench: compares Assay with PyTorch, transformers and PEFT, in one run on one machine; writes docs/decisions/benchmarks.md.

Every figure is a ratio of medians over alternating rounds (ours, theirs, ours, ...), so that drifts in the machine's
speed do not favour a side. Each round is a fresh process; peak memory is its maximum resident set size.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchpage import line, replace, write

ROOT = Path(__file__).resolve().parents[2]
TINY = "backbones/tiny-scorer"
VERSIONS = """import json, peft, torch, transformers
print(json.dumps({m.__name__: m.__version__ for m in (torch, transformers, peft)}))"""
SIZES = """hidden: 1024
intermediate: 2816
layers: 8
heads: 16
kv_heads: 16
vision_hidden: 256
vision_intermediate: 1024
vision_layers: 4
vision_heads: 4
image_size: 224
patch: 14
grid: [[1, 1]]
vocab: 2000
"""


def child(command, **more):
    """Runs a command; returns (parsed last line, seconds, peak MB)."""
    start = time.time()
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, **more)
    out, err = p.stdout.read(), p.stderr.read()
    _, status, usage = os.wait4(p.pid, 0)
    if status:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{out}{err}")
    lines = [line for line in out.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}, time.time() - start, usage.ru_maxrss / 1024


class Side:
    def __init__(self):
        self.seconds, self.peak, self.wall, self.facts = [], [], [], {}

    def add(self, facts, wall, peak):
        self.seconds += facts.get("seconds", [])
        self.peak.append(peak)
        self.wall.append(wall)
        self.facts = facts

    time = property(lambda self: statistics.median(self.seconds or self.wall))
    memory = property(lambda self: statistics.median(self.peak))


def duel(ours, theirs, rounds):
    sides = Side(), Side()
    for _ in range(rounds):
        for side, command in zip(sides, (ours, theirs)):
            side.add(*child(command))
    return sides


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--python", required=True, help="interpreter that has torch, transformers and PEFT")
    p.add_argument("--out", default="docs/decisions/benchmarks.md")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", help="measure only this row again and keep the other rows of --out")
    a = p.parse_args()
    work = ROOT / "build" / "bench"
    work.mkdir(parents=True, exist_ok=True)
    backbone, scorer = work / "backbone", work / "scorer"
    if not backbone.exists():
        (work / "sizes.yaml").write_text(SIZES)
        child(
            [
                "bin/train",
                "init",
                "--out",
                backbone,
                "--sizes",
                work / "sizes.yaml",
                "--text",
                "README.md",
                "--text",
                "docs/training.md",
                "--seed",
                "1",
                "--json",
            ]
        )
    if not scorer.exists():
        child(["build/lab/bench", "step", "--backbone", backbone, "--save", scorer])
    exam = work / "exam"
    if not exam.exists():
        child(
            [
                "build/lab/miniature",
                "--photos",
                "examples/photos",
                "--only",
                "tissue,rocket",
                "--exam",
                "--seed",
                "777",
                "--instructions",
                "280",
                "--out",
                exam,
            ]
        )
    table, scored, many = exam / "edits.jsonl", work / "scored.jsonl", "2,419 pairs, tiny scorer"
    pictures = ["examples/photos/astronaut.png", "examples/photos/retina.png"]
    go = lambda what, *more: [
        "build/lab/bench",
        what,
        "--backbone",
        backbone,
        "--source",
        pictures[0],
        "--edit",
        pictures[1],
        *map(str, more),
    ]
    py = lambda what, *more: [a.python, "lab/bench/torch_side.py", what, scorer, *pictures, *map(str, more)]

    asked = ["--source", pictures[0], "--edit", pictures[1], "--instruction", "make the picture brighter", "--json"]
    pair = lambda scorer: ["bin/score", "pair", "--scorer", scorer, *asked]

    rows, tokens = [], None
    for name, ours, theirs in [
        ("LoRA step", go("step", "--steps", 3), py("step", 3, 1)),
        ("LoRA step, layers recomputed", go("step", "--steps", 2, "--recompute"), py("step", 2, 1, "recompute")),
        ("LoRA step, 4 pairs", go("step", "--steps", 2, "--pairs", 4), py("step", 2, 4)),
        (
            "LoRA step, 4 pairs, layers recomputed",
            go("step", "--steps", 2, "--pairs", 4, "--recompute"),
            py("step", 2, 4, "recompute"),
        ),
        ("scoring 1 pair", go("score", "--steps", 5, "--pairs", 1), py("score", 5, 1)),
        ("scoring 64 pairs", go("score", "--steps", 1, "--pairs", 64), py("score", 1, 64)),
        (
            "start to first score",
            pair(scorer),
            py("score", 0, 1),
        ),
        (
            "start to first score, tiny scorer",
            pair(TINY),
            [a.python, "lab/bench/qwen_torch.py", TINY, table, "1", "1"],
        ),
        (
            many,
            ["sh", "-c", f"rm -f {scored}*; exec bin/score batch --scorer {TINY} --in {table} --out {scored}"],
            [a.python, "lab/bench/qwen_torch.py", TINY, table, "100000", "64"],
        ),
    ]:
        if a.only and a.only != name:
            continue
        print("measuring", name, flush=True)
        x, y = duel(ours, theirs, 1 if "64" in name or "4 pairs" in name else a.rounds)
        if name.startswith("LoRA step"):
            tokens = tokens or x.facts["tokens"]
            lx, ly = x.facts["loss"], y.facts["loss"]
            assert abs(lx - ly) < 1e-3 and x.facts["tokens"] == y.facts["tokens"], (
                lx,
                ly,
                "the two sides compute different things",
            )
        if name == many:
            ours = [json.loads(line)["score01"] for line in scored.read_text().splitlines()]
            far = max(abs(p - q) for p, q in zip(ours, y.facts["scores"], strict=True))
            assert far < 1e-4, (far, "the two sides compute different things")
        rows.append((name, x, y))
        print(
            f"  ours {x.time:.3f} s {x.memory:.0f} MB, PyTorch {y.time:.3f} s {y.memory:.0f} MB: "
            f"{y.time / x.time:.2f}x",
            flush=True,
        )
    together = groups(a, work, backbone, scorer, pictures, go)
    if a.only:
        return replace(
            Path(a.out),
            [(name, line(name, x, y)) for name, x, y in rows]
            or together
            or gradients(a, pictures)
            or encoders(a, work),
        )
    versions, _, _ = child([a.python, "-c", VERSIONS])
    write(Path(a.out), versions, rows, encoders(a, work), gradients(a, pictures), together, tokens, a.rounds)


def groups(a, work, backbone, scorer, pictures, go):
    """The same eight sequences with our shared prefix, with our edits one by one, and with PyTorch.

    The sides alternate, each in a fresh process, with three steps each: the first step of a process also waits for the
    system to allocate gigabytes of memory.
    """
    rows, first = [], work / "scorer-first"
    if not first.exists():
        child(["build/lab/bench", "step", "--backbone", backbone, "--first", "--save", first])
    for name, what, folder, steps, more in [
        ("eight edits: LoRA step", "group-step", scorer, 3, []),
        ("eight edits: scoring", "group-score", scorer, 1, []),
        ("eight edits, instruction first: LoRA step", "group-step", first, 3, ["--first"]),
        ("eight edits, instruction first: scoring", "group-score", first, 1, ["--first"]),
    ]:
        if a.only and a.only not in (name, "groups"):
            continue
        print("measuring", name, flush=True)
        ours, apart, theirs = sides = Side(), Side(), Side()
        for _ in range(a.rounds):
            for side, command in zip(
                sides,
                (
                    go(what, "--steps", steps, *more),
                    go(what, "--steps", steps, "--apart", *more),
                    [a.python, "lab/bench/torch_side.py", what, folder, *pictures, str(steps), "8"],
                ),
            ):
                side.add(*child(command))
        if what == "group-step":
            far = max(abs(side.facts["loss"] - ours.facts["loss"]) for side in (apart, theirs))
        else:
            assert ours.facts["scores"] == apart.facts["scores"], "a score differs in a batch"
            far = max(abs(p - q) for p, q in zip(ours.facts["scores"], theirs.facts["scores"], strict=True))
        assert far < 1e-3, (far, "the sides compute different things")
        rows.append(
            (
                name,
                f"| {name} | {ours.time:.2f} s | {apart.time:.2f} s | **{apart.time / ours.time:.2f}x** | "
                f"{theirs.time:.2f} s | **{theirs.time / ours.time:.2f}x** "
                f"| {ours.memory:,.0f} MB | {theirs.memory:,.0f} MB | {ours.memory / theirs.memory:.2f}x |",
            )
        )
        print(
            f"  together {ours.time:.3f} s, one by one {apart.time:.3f} s: {apart.time / ours.time:.2f}x, PyTorch "
            f"{theirs.time:.3f} s: {theirs.time / ours.time:.2f}x;"
            f" {ours.memory:.0f}, {apart.memory:.0f} and {theirs.memory:.0f} MB; {ours.facts['rows']} and "
            f"{apart.facts['rows']} tokens",
            flush=True,
        )
    return rows


def gradients(a, pictures):
    """Pairs per second of score and gradient of the tiny scorer: with respect to pictures (PyTorch: pixel_values)."""
    rows, count, steps = [], 64, 3
    for batch in (1, 8, 32):
        name = f"batches of {batch}"
        if a.only and a.only != "gradients":
            continue
        print("measuring scores and gradients in", name, flush=True)
        x, y = duel(
            [
                "build/lab/bench",
                "gradient",
                "--scorer",
                TINY,
                "--source",
                pictures[0],
                "--edit",
                pictures[1],
                "--pairs",
                str(count),
                "--batch",
                str(batch),
                "--steps",
                str(steps),
            ],
            [a.python, "lab/bench/qwen_torch.py", TINY, *pictures, str(count), str(batch), str(steps)],
            a.rounds,
        )
        far = max(abs(p - q) for p, q in zip(x.facts["scores"], y.facts["scores"], strict=True))
        assert far < 1e-4, (far, "the two sides compute different things")
        rows.append(
            (
                name,
                f"| {name} | {count / x.time:.0f} pairs/s | {count / y.time:.0f} pairs/s | "
                f"**{y.time / x.time:.2f}x** | {x.memory:,.0f} MB | {y.memory:,.0f} MB |",
            )
        )
        print(f"  ours {count / x.time:.0f}/s, PyTorch {count / y.time:.0f}/s: {y.time / x.time:.2f}x", flush=True)
    return rows


def encoders(a, work):
    """Pictures per second of CLIP ViT-B/32 and DINOv2 ViT-B/14 (random weights), with decoding and preprocessing."""
    folder, rows = work / "encoders", []
    if a.only and a.only != "encoders":
        return []
    if not folder.exists():
        child([a.python, "lab/bench/encoders_torch.py", "--make", folder])
    photos = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "examples/photos").glob("*.png"))
    for name, label in (("clip", "CLIP ViT-B/32"), ("dinov2", "DINOv2 ViT-B/14")):
        print("measuring", label, flush=True)
        batch, pictures, steps = 16, 32, 2
        x, y = duel(
            [
                "build/lab/bench",
                "encoders",
                "--model",
                folder / name,
                "--batch",
                str(batch),
                "--repeat",
                str(pictures),
                "--steps",
                str(steps),
                *photos,
            ],
            [a.python, "lab/bench/encoders_torch.py", folder / name, str(batch), str(pictures), str(steps), *photos],
            2,
        )
        far = max(abs(p - q) for p, q in zip(x.facts["embedding"], y.facts["embedding"]))
        assert far < 1e-3, (x.facts, y.facts, "the two sides compute different things")
        rows.append(
            (
                label,
                f"| {label} | {pictures / x.time:.1f} pictures/s | {pictures / y.time:.1f} pictures/s | "
                f"**{y.time / x.time:.2f}x** | {x.memory:,.0f} MB | {y.memory:,.0f} MB |",
            )
        )
        print(
            f"  ours {pictures / x.time:.1f}/s, transformers {pictures / y.time:.1f}/s: {y.time / x.time:.2f}x",
            flush=True,
        )
    return rows


if __name__ == "__main__":
    main()
