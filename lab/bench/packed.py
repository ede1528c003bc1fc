"""Compares packed weights with float32: python lab/bench/packed.py FLOAT32 PACKED [--rounds N] [--steps N]

Alternates build/lab/bench runs on both checkpoints (the machine may be busy), each in a separate process. For scoring
and for a (Q)LoRA step it prints CPU seconds, wall-clock seconds and the peak memory of the process. The seconds are the
median over processes of each one's minimum.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

IMAGES = Path(__file__).resolve().parents[2] / "testdata/oracle/images"


def pictures(folder, size):
    for name in ("coffee", "coffee_blur"):
        Image.open(IMAGES / f"{name}.png").convert("RGB").resize((size, size), Image.BICUBIC).save(
            f"{folder}/{name}.png"
        )
    return ["--source", f"{folder}/coffee.png", "--edit", f"{folder}/coffee_blur.png"]


def run(what, backbone, files, steps, extra=()):
    p = subprocess.Popen(
        ["build/lab/bench", what, "--backbone", backbone, *files, "--steps", str(steps), *extra], stdout=subprocess.PIPE
    )
    out = p.stdout.read()
    _, status, used = os.wait4(p.pid, 0)
    assert status == 0, (what, backbone)
    got = json.loads(out.splitlines()[-1])
    return got, min(got["processor_seconds"]), min(got["seconds"]), used.ru_maxrss * 1024


def main():
    a = argparse.ArgumentParser()
    a.add_argument("backbones", nargs=2)
    a.add_argument("--rounds", type=int, default=1)
    a.add_argument("--steps", type=int, default=3)
    a.add_argument("--size", type=int, default=448)
    a = a.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = pictures(folder, a.size)
        for what, extra in (("score", ("--pairs", "1")), ("step", ("--recompute",))):
            got = {b: [] for b in a.backbones}
            for _ in range(a.rounds):
                for b in a.backbones:
                    got[b].append(run(what, b, files, a.steps, extra))
                    print(json.dumps([what, *extra, b, *got[b][-1]]), flush=True)
            cpu, clock, peak = ([statistics.median(x[i] for x in got[b]) for b in a.backbones] for i in (1, 2, 3))
            print(
                what,
                *extra,
                f"processor {cpu[1] / cpu[0]:.3f}, clock {clock[1] / clock[0]:.3f}, "
                f"memory {peak[1] / peak[0]:.3f} of float32",
                flush=True,
            )


if __name__ == "__main__":
    main()
