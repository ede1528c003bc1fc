"""Peak memory of LoRA steps on long sequences, compared with PyTorch; writes the table of docs/decisions/memory.md.

    build/venv/bin/python lab/bench/long.py --python build/venv/bin/python

LLaVA-NeXT with random weights, 2 layers of width 512 with 8 heads: pictures are cut into more and more tiles. Each row
is one step in a separate process. "In one piece" is attention over full sequences, as used for short ones. It is
measured if that stays below a limit; else the value is the plan of --dry-run.
"""

import argparse
from pathlib import Path

from bench import ROOT, child

SIZES = """hidden: 512
intermediate: 1408
layers: 2
heads: 8
kv_heads: 8
vision_hidden: 64
vision_intermediate: 128
vision_layers: 2
vision_heads: 2
image_size: {size}
patch: 14
grid: [{grid}]
vocab: 2000
"""
LENGTHS = {"2k": (322, "[1, 2]"), "6k": (336, "[2, 2]"), "12k": (336, "[3, 3]")}
LIMIT = 4096  # MB


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--python", required=True, help="interpreter that has torch, transformers and PEFT")
    p.add_argument("--out", default="docs/decisions/memory.md")
    p.add_argument("--only", nargs="*", default=list(LENGTHS))
    a = p.parse_args()
    work = ROOT / "build" / "bench" / "long"
    work.mkdir(parents=True, exist_ok=True)
    pictures = ["examples/photos/astronaut.png", "examples/photos/retina.png"]
    lines = []
    for name in a.only:
        size, grid = LENGTHS[name]
        backbone, scorer, sizes = work / f"backbone-{name}", work / f"scorer-{name}", work / f"{name}.yaml"
        if not backbone.exists():
            sizes.write_text(SIZES.format(size=size, grid=grid))
            child(
                [
                    "bin/train",
                    "init",
                    "--out",
                    backbone,
                    "--sizes",
                    sizes,
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
        ours = lambda *more: child(
            ["build/lab/bench", "step", "--backbone", backbone, "--source", pictures[0], "--edit", pictures[1], *more]
        )
        theirs = lambda *more: child([a.python, "lab/bench/torch_side.py", "step", scorer, *pictures, "1", *more])
        for what, go, py in (("", [], []), (", recomputed", ["--recompute"], ["recompute"])):
            x, _, peak = ours("--steps", "1", *go)
            y, _, torch_peak = theirs(*py)
            assert abs(x["loss"] - y["loss"]) < 1e-3 and x["tokens"] == y["tokens"], (
                x,
                y,
                "the two sides compute different things",
            )
            z, _, _ = ours("--steps", "0", "--blocks", "1000000", *go)
            whole = f"{z['planned']:,} MB planned"
            if z["planned"] < LIMIT:
                z, _, whole_peak = ours("--steps", "1", "--blocks", "1000000", *go)
                assert abs(x["loss"] - z["loss"]) < 1e-5, (x, z)
                whole = f"{whole_peak:,.0f} MB"
            lines.append(
                f"| {x['tokens']:,}{what} | {peak:,.0f} MB | {x['planned']:,} MB | {whole} | {torch_peak:,.0f} MB | "
                f"{peak / torch_peak:.2f}x |"
            )
            print(lines[-1], [x["processor_seconds"], z.get("processor_seconds"), y["seconds"]], flush=True)
    path = ROOT / a.out
    text, mark = path.read_text(), "|---|---|---|---|---|---|\n"
    head, rest = text.split(mark, 1)
    while rest.startswith("|"):
        rest = rest.split("\n", 1)[1]
    path.write_text(head + mark + "\n".join(lines) + "\n" + rest)


if __name__ == "__main__":
    main()
