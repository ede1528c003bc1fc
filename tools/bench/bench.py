"""make bench: this program beside PyTorch, transformers and PEFT, in one run on one machine; writes docs/benchmarks.md.

Every figure is a ratio of medians over rounds that take turns (ours, theirs, ours, ...), so that a machine whose speed drifts
does not favour a side. Each round is a fresh process; peak memory is the largest resident size the kernel saw.
"""
import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TINY = "backbones/tiny-scorer"
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
    """Runs to the end; returns (parsed last line, seconds, peak MB)."""
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
    p.add_argument("--out", default="docs/benchmarks.md")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", help="measure this row anew and leave the others of --out as they are")
    a = p.parse_args()
    work = ROOT / "build" / "bench"
    work.mkdir(parents=True, exist_ok=True)
    backbone, scorer = work / "backbone", work / "scorer"
    if not backbone.exists():
        (work / "sizes.yaml").write_text(SIZES)
        child(["bin/train", "init", "--out", backbone, "--sizes", work / "sizes.yaml", "--text", "README.md", "--text", "docs/training.md", "--seed", "1", "--json"])
    if not scorer.exists():
        child(["build/bin/bench", "step", "--backbone", backbone, "--save", scorer])
    exam = work / "exam"
    if not exam.exists():
        child(["bin/label", "miniature", "--photos", "examples/photos", "--only", "tissue,rocket", "--exam", "--seed", "777", "--instructions", "280", "--out", exam])
    table, scored, many = exam / "edits.jsonl", work / "scored.jsonl", "2,419 pairs, tiny scorer"
    pictures = ["examples/photos/astronaut.png", "examples/photos/retina.png"]
    go = lambda what, *more: ["build/bin/bench", what, "--backbone", backbone, "--source", pictures[0], "--edit", pictures[1], *map(str, more)]
    py = lambda what, *more: [a.python, "tools/bench/torch_side.py", what, scorer, *pictures, *map(str, more)]

    rows, tokens = [], None
    for name, ours, theirs in [
        ("LoRA step", go("step", "--steps", 3), py("step", 3, 1)),
        ("LoRA step, layers recomputed", go("step", "--steps", 2, "--recompute"), py("step", 2, 1, "recompute")),
        ("LoRA step, 4 pairs", go("step", "--steps", 2, "--pairs", 4), py("step", 2, 4)),
        ("LoRA step, 4 pairs, layers recomputed", go("step", "--steps", 2, "--pairs", 4, "--recompute"), py("step", 2, 4, "recompute")),
        ("scoring 1 pair", go("score", "--steps", 5, "--pairs", 1), py("score", 5, 1)),
        ("scoring 64 pairs", go("score", "--steps", 1, "--pairs", 64), py("score", 1, 64)),
        ("start to first score", ["bin/score", "pair", "--scorer", scorer, "--source", pictures[0], "--edit", pictures[1], "--instruction", "make the picture brighter", "--json"],
         py("score", 0, 1)),
        ("start to first score, tiny scorer", ["bin/score", "pair", "--scorer", TINY, "--source", pictures[0], "--edit", pictures[1], "--instruction", "make the picture brighter", "--json"],
         [a.python, "tools/bench/qwen_torch.py", TINY, table, "1", "1"]),
        (many, ["sh", "-c", f"rm -f {scored}*; exec bin/score batch --scorer {TINY} --in {table} --out {scored}"], [a.python, "tools/bench/qwen_torch.py", TINY, table, "100000", "64"]),
    ]:
        if a.only and a.only != name:
            continue
        print("measuring", name, flush=True)
        x, y = duel(ours, theirs, 1 if "64" in name or "4 pairs" in name else a.rounds)
        if name.startswith("LoRA step"):
            tokens = tokens or x.facts["tokens"]
            lx, ly = x.facts["loss"], y.facts["loss"]
            assert abs(lx - ly) < 1e-3 and x.facts["tokens"] == y.facts["tokens"], (lx, ly, "the two sides compute different things")
        if name == many:
            ours = [json.loads(line)["score01"] for line in scored.read_text().splitlines()]
            far = max(abs(p - q) for p, q in zip(ours, y.facts["scores"], strict=True))
            assert far < 1e-4, (far, "the two sides compute different things")
        rows.append((name, x, y))
        print(f"  ours {x.time:.3f} s {x.memory:.0f} MB, PyTorch {y.time:.3f} s {y.memory:.0f} MB: {y.time / x.time:.2f}x", flush=True)
    together = groups(a, work, backbone, scorer, pictures, go)
    if a.only:
        return replace(Path(a.out), [(name, line(name, x, y)) for name, x, y in rows] or together or gradients(a, pictures) or encoders(a, work))
    write(Path(a.out), rows, encoders(a, work), gradients(a, pictures), together, tokens, a)


GROUPS = "Groups of eight edits of one source and instruction"


def groups(a, work, backbone, scorer, pictures, go):
    """Our shared prefix, our edits one by one, and PyTorch's: the same eight sequences in fresh processes that take turns.

    Three steps each: a process's first one also waits for the system to give it gigabytes of memory."""
    rows, first = [], work / "scorer-first"
    if not first.exists():
        child(["build/bin/bench", "step", "--backbone", backbone, "--first", "--save", first])
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
            for side, command in zip(sides, (go(what, "--steps", steps, *more), go(what, "--steps", steps, "--apart", *more),
                                             [a.python, "tools/bench/torch_side.py", what, folder, *pictures, str(steps), "8"])):
                side.add(*child(command))
        if what == "group-step":
            far = max(abs(side.facts["loss"] - ours.facts["loss"]) for side in (apart, theirs))
        else:
            assert ours.facts["scores"] == apart.facts["scores"], "a score differs in a batch"
            far = max(abs(p - q) for p, q in zip(ours.facts["scores"], theirs.facts["scores"], strict=True))
        assert far < 1e-3, (far, "the sides compute different things")
        rows.append((name, f"| {name} | {ours.time:.2f} s | {apart.time:.2f} s | **{apart.time / ours.time:.2f}x** | {theirs.time:.2f} s | **{theirs.time / ours.time:.2f}x** "
                           f"| {ours.memory:,.0f} MB | {theirs.memory:,.0f} MB | {ours.memory / theirs.memory:.2f}x |"))
        print(f"  together {ours.time:.3f} s, one by one {apart.time:.3f} s: {apart.time / ours.time:.2f}x, PyTorch {theirs.time:.3f} s: {theirs.time / ours.time:.2f}x;"
              f" {ours.memory:.0f}, {apart.memory:.0f} and {theirs.memory:.0f} MB; {ours.facts['rows']} and {apart.facts['rows']} tokens", flush=True)
    return rows


GRADIENTS = "Scores with their gradients (reward feedback)"


def gradients(a, pictures):
    """Pairs a second of score + gradient of the tiny scorer: ours down to the pictures, PyTorch's to pixel_values."""
    rows, count, steps = [], 64, 3
    for batch in (1, 8, 32):
        name = f"batches of {batch}"
        if a.only and a.only != "gradients":
            continue
        print("measuring scores and gradients in", name, flush=True)
        x, y = duel(["build/bin/bench", "gradient", "--scorer", TINY, "--source", pictures[0], "--edit", pictures[1], "--pairs", str(count), "--batch", str(batch), "--steps", str(steps)],
                    [a.python, "tools/bench/qwen_torch.py", TINY, *pictures, str(count), str(batch), str(steps)], a.rounds)
        far = max(abs(p - q) for p, q in zip(x.facts["scores"], y.facts["scores"], strict=True))
        assert far < 1e-4, (far, "the two sides compute different things")
        rows.append((name, f"| {name} | {count / x.time:.0f} pairs/s | {count / y.time:.0f} pairs/s | **{y.time / x.time:.2f}x** | {x.memory:,.0f} MB | {y.memory:,.0f} MB |"))
        print(f"  ours {count / x.time:.0f}/s, PyTorch {count / y.time:.0f}/s: {y.time / x.time:.2f}x", flush=True)
    return rows


def encoders(a, work):
    """Pictures a second of CLIP ViT-B/32 and DINOv2 ViT-B/14 (random weights), decoding and preprocessing included."""
    folder, rows = work / "encoders", []
    if a.only and a.only != "encoders":
        return []
    if not folder.exists():
        child([a.python, "tools/bench/encoders_torch.py", "--make", folder])
    photos = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "examples/photos").glob("*.png"))
    for name, label in (("clip", "CLIP ViT-B/32"), ("dinov2", "DINOv2 ViT-B/14")):
        print("measuring", label, flush=True)
        batch, pictures, steps = 16, 32, 2
        x, y = duel(["build/bin/bench-encoders", "--model", folder / name, "--batch", str(batch), "--repeat", str(pictures), "--steps", str(steps), *photos],
                    [a.python, "tools/bench/encoders_torch.py", folder / name, str(batch), str(pictures), str(steps), *photos], 2)
        far = max(abs(p - q) for p, q in zip(x.facts["embedding"], y.facts["embedding"]))
        assert far < 1e-3, (x.facts, y.facts, "the two sides compute different things")
        rows.append((label, f"| {label} | {pictures / x.time:.1f} pictures/s | {pictures / y.time:.1f} pictures/s | **{y.time / x.time:.2f}x** | {x.memory:,.0f} MB | {y.memory:,.0f} MB |"))
        print(f"  ours {pictures / x.time:.1f}/s, transformers {pictures / y.time:.1f}/s: {y.time / x.time:.2f}x", flush=True)
    return rows


def line(name, x, y):
    return f"| {name} | {x.time:.2f} s | {y.time:.2f} s | **{y.time / x.time:.2f}x** | {x.memory:,.0f} MB | {y.memory:,.0f} MB | {x.memory / y.memory:.2f}x |"


def replace(path, rows):
    """The same page with the lines that were measured anew. Rows are (name, line)."""
    text, more = path.read_text().split("\n## ", 1)  # other parts are of other machines and days
    text = text.splitlines()
    for name, new in rows:
        if name.startswith("eight edits") and not any(t.startswith(f"| {name} |") for t in text):
            if not any(t.startswith(GROUPS) for t in text):
                at = max(i for i, t in enumerate(text) if t.startswith("| batches of"))
                text[at + 1:at + 1] = groups_heading()
            at = max(i for i, t in enumerate(text) if t.startswith(("| eight edits", "| what | together")))
            text.insert(at + (1 if text[at].startswith("| eight") else 2), f"| {name} |")
        elif not any(t.startswith(f"| {name} |") for t in text):  # a row that the page lacks goes below the last of its table
            if name.startswith("batches of") and not any(t.startswith(GRADIENTS) for t in text):
                at = max(i for i, t in enumerate(text) if t.startswith("| DINOv2"))
                text[at + 1:at + 1] = heading()
            last = "| batches of" if any(t.startswith("| batches of") for t in text) and name.startswith("batches") else "| start to first score"
            if name.startswith("batches"):
                last = last if last == "| batches of" else "| batch |"
            at = max(i for i, t in enumerate(text) if t.startswith(last))
            text.insert(at + (2 if last == "| batch |" else 1), f"| {name} |")
        text = [new if t.startswith(f"| {name} |") else t for t in text]
    path.write_text("\n".join(text) + "\n\n## " + more)


def heading():
    return ["", f"{GRADIENTS} of backbones/tiny-scorer, 64 pairs of 512 x 512 pixels that were decoded before: ours down to the",
            "pictures, PyTorch's to `pixel_values`:", "", "| batch | ours | PyTorch | speed | our peak memory | PyTorch's |", "|---|---|---|---|---|---|"]


def groups_heading():
    return ["", f"{GROUPS}, the same eight sequences on all sides: what they begin with runs once (together), our own edits one by one, PyTorch's one by one:", "",
            "| what | together | one by one | gain | PyTorch | speed | our peak memory | PyTorch's | memory |", "|---|---|---|---|---|---|---|---|---|"]


def write(path, rows, encoders, gradients, together, tokens, a):
    versions, _, _ = child([a.python, "-c", "import json,torch,transformers,peft;print(json.dumps({'torch':torch.__version__,'transformers':transformers.__version__,'peft':peft.__version__}))"])
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "")
    flags = next((l.split() for l in open("/proc/cpuinfo") if l.startswith("flags")), [])
    sets = ", ".join(f for f in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile") if f in flags)
    lines = [
        "# Measured beside PyTorch", "",
        "Made by `make bench` on the machine named below: ratios in one run, each side in fresh processes that take turns. Speed above",
        "1x means that this program is faster, memory below 1x that it needs less.", "",
        f"LLaVA-NeXT architecture, 8 layers of width 1024 with random weights, two pictures in sequence, {tokens} tokens, float32, batch 1 or 4,",
        "LoRA r 8 on q_proj and v_proj. The step is forward, loss and backward over given image features; scoring starts from decoded",
        "pictures (resizing, tiling, vision tower, language model). PyTorch runs eagerly with its fused attention; its logits are computed",
        "for the answer's tokens only, as ours are. Before our steps of 4 pairs these are scored, as in validation. The tiny scorer is backbones/tiny-scorer (Qwen2.5-VL's architecture, pairs as frames of",
        "64 x 64 pixels). Its 2,419 pairs are PNG files. PyTorch takes batches of 64, without the start of the process; ours is timed with it.", "",
        "| what | ours | PyTorch | speed | our peak memory | PyTorch's | memory |", "|---|---|---|---|---|---|---|",
    ]
    for name, x, y in rows:
        lines.append(line(name, x, y))
    lines += ["", "Encoders of `label`, float32, batches of 16, from picture files to embeddings:", "",
              "| encoder | ours | transformers | speed | our peak memory | transformers' |", "|---|---|---|---|---|---|"]
    lines += [new for _, new in encoders] + heading() + [new for _, new in gradients]
    lines += groups_heading() + [new for _, new in together]
    facts = ", ".join(f"{k} {v}" for k, v in versions.items())
    lines += ["", f"{cpu} ({sets}), {os.cpu_count()} cores, {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB, Linux {platform.release()}; {facts}; ONNX Runtime 1.31.1.",
              f"Medians over {a.rounds} rounds (64 pairs: one). Load of the machine when it ended: {os.getloadavg()[0]:.1f}.", ""]
    text = "\n".join(lines)
    old = path.read_text() if path.exists() else ""
    keep = old[old.index("\n## "):] if "\n## " in old else ""
    path.write_text(text + keep)
    print(f"written to {path}")


if __name__ == "__main__":
    main()
