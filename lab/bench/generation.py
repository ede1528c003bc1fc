"""Compares the generation speed of a model of 0.98 B parameters with transformers.

    python lab/bench/generation.py [--out docs/decisions/speed.md]

Makes the checkpoint (Qwen2.5-VL's architecture) and its 4-bit version with `train init` and `train quantize`, runs both
sides of build/lab/bench generate in fresh processes, and writes the section "Generation" of the page.
"""

import argparse
import json
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORK = HERE.parents[1] / "build" / "bench"
HEAD = "## Generation"
SIZES = (
    "--hidden 2048 --heads 16 --kv-heads 2 --layers 22 --intermediate 5632 --vocab 2048 "
    "--vision-layers 4 --max-pixels 200704"
)
ROWS = (
    ("prefill_1", "prompt, 1"),
    ("prefill_8", "prompts, 8 together"),
    ("decode_1", "answer, 1"),
    ("decode_8", "answers, 8 together"),
)


def models():
    whole, packed = WORK / "one-billion", WORK / "one-billion-4"
    if not whole.exists():
        subprocess.run(
            ["bin/train", "init", "--family", "qwen2_5_vl", "--out", whole, "--text", "README.md", *SIZES.split()],
            check=True,
        )
    if not packed.exists():
        subprocess.run(
            ["bin/train", "quantize", "--backbone", whole, "--out", packed, "--bits", "4", "--block", "128"], check=True
        )
    return whole, packed


def run(*command):
    p = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE)
    out = p.stdout.read()
    _, status, used = os.wait4(p.pid, 0)
    assert status == 0, command
    return json.loads(out.splitlines()[-1]) | {"memory": used.ru_maxrss / 1024}


def section(ours, packed, eager, compiled, a):
    lines = [
        HEAD,
        "",
        "Tokens a second of Qwen2.5-VL's shape with 0.98 B random parameters, a prompt of about "
        f"{a.prompt} tokens and {a.new} new ones.",
        "It is the best of two runs, each side in a process of its own, one after the other. PyTorch is transformers'",
        "generate in float32 with its fused attention; compiled is torch.compile of its forward pass. Speed is ours "
        "in float32 beside the better of these.",
        "",
        "| tokens a second | ours, float32 | ours, 4 bits | PyTorch | compiled | speed |",
        "|---|---|---|---|---|---|",
    ]
    for key, name in ROWS:
        best = max(eager[key], compiled.get(key, 0))
        lines.append(
            f"| {name} | {ours[key]:.1f} | {packed[key]:.1f} | {eager[key]:.1f} | "
            f"{f'{compiled[key]:.1f}' if compiled else ''} | **{ours[key] / best:.2f}x** |"
        )
    memory = " | ".join(f"{x['memory']:,.0f} MB" if x else "" for x in (ours, packed, eager, compiled))
    lines += [f"| peak memory | {memory} | |", "", f"Load of the machine when it ended: {os.getloadavg()[0]:.1f}.", ""]
    return "\n".join(lines)


def place(page, text):
    """Replaces the section, or inserts it before the page's section on another machine."""
    old = page.read_text()
    begin = old.find(HEAD)
    if begin < 0:
        begin = end = old.index("## On another machine")
    else:
        end = old.index("\n## ", begin) + 1
    page.write_text(old[:begin] + text + "\n" + old[end:])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--python", default="build/venv/bin/python")
    p.add_argument("--out", default="docs/decisions/speed.md")
    p.add_argument("--prompt", type=int, default=256)
    p.add_argument("--new", type=int, default=32)
    p.add_argument("--models", nargs=2, help="existing checkpoints: float32 and 4-bit")
    p.add_argument("--compiled", action="store_true", help="also measure torch.compile, which takes many minutes")
    a = p.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    whole, packed = a.models or models()
    ours = [run("build/lab/bench", "generate", m, a.prompt, a.new) for m in (whole, packed)]
    torch = (a.python, HERE / "generate_torch.py", whole, a.prompt, a.new)
    eager = run(*torch)
    compiled = run(*torch, "--compile") if a.compiled else {}
    place(Path(a.out), section(*ours, eager, compiled, a))


if __name__ == "__main__":
    main()
