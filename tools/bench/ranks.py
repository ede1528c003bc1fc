"""Training by 1 and 2 ranks on one machine with one thread each: seconds a step, and the share of communication.

    make build mpi && build/venv/bin/python tools/bench/ranks.py

Prints a table for docs/scale.md. The backbone is made by train init; every run takes the same steps.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser()
parser.add_argument("--train", default=root / "build/mpi/bin/train")
parser.add_argument("--backbone", default=root / "backbones/tiny")
parser.add_argument("--ranks", default="1,2")
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--modes", default="lora,full")
options = parser.parse_args()


def table(path):
    pictures = sorted((root / "testdata/oracle/images").glob("*.png"))
    with open(path, "w") as f:
        for i, source in enumerate(pictures):
            edit = pictures[(i + 1) % len(pictures)]
            row = {"id": str(i), "group": str(i), "source": str(source), "edit": str(edit), "instruction": f"edit {i}",
                   "label": i % 2}
            f.write(json.dumps(row) + "\n")


def run(folder, mode, ranks):
    """Trains once: seconds of each step but the first two, and each rank's times by step."""
    out = folder / f"{mode}-{ranks}"
    config = folder / f"{mode}-{ranks}.yaml"
    config.write_text(f"backbone: {options.backbone}\nout: {out}\nmode: {mode}\nsteps: {options.steps}\nbatch_size: 8\n"
                      "micro_batch: 2\nthreads: 1\nhead: {hidden: [8]}\ndata: {train: table.jsonl}\n")
    command = [str(options.train), "--config", str(config)]
    if ranks > 1:
        command = ["mpirun", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none", "-n", str(ranks)] + command
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    lines = [json.loads(line) for line in open(out / "metrics.jsonl")]
    at = [line["seconds"] for line in lines if line["kind"] == "train"]
    steps = [b - a for a, b in zip(at[1:], at[2:])]
    logs = [[json.loads(line) for line in open(log)] for log in sorted(out.glob("ranks/*.log"))]
    return steps, [[line for line in log if line["msg"] == "step"][2:] for log in logs], (out / "plan.json").read_text()


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    table(folder / "table.jsonl")
    print("| mode | ranks | trained parameters | s a step | model | waiting for others | exchange |")
    print("|---|---|---|---|---|---|---|")
    for mode in options.modes.split(","):
        for ranks in map(int, options.ranks.split(",")):
            steps, logs, plan = run(folder, mode, ranks)
            count = re.search(r'"parameters": (\d+)', plan).group(1)
            whole = statistics.median(steps)
            share = ["", "", ""]
            if ranks > 1:
                total = sum(statistics.mean(s) for s in [steps])
                for i, what in enumerate(["compute", "wait", "exchange"]):
                    mean = statistics.mean(line[what] for log in logs for line in log)
                    share[i] = f"{100 * mean / total:.1f} %"
            print(f"| {mode} | {ranks} | {count} | {whole:.3f} | {' | '.join(share)} |", flush=True)
