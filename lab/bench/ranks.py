"""Training with 1 and 2 ranks on one machine with one thread each: seconds per step, and the share of communication.

    make build mpi && build/venv/bin/python lab/bench/ranks.py
    build/venv/bin/python lab/bench/ranks.py --count    # bytes per step, as counted by Open MPI
    build/venv/bin/python lab/bench/ranks.py --paper    # what 8 and 64 ranks would send, and how long it would take

Prints tables for docs/decisions/ranks.md. Every run takes the same steps.
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
parser.add_argument("--count", action="store_true")
parser.add_argument("--paper", action="store_true")
options = parser.parse_args()


def table(path):
    pictures = sorted((root / "testdata/oracle/images").glob("*.png"))
    with open(path, "w") as f:
        for i, source in enumerate(pictures):
            edit = pictures[(i + 1) % len(pictures)]
            row = {
                "id": str(i),
                "group": str(i),
                "source": str(source),
                "edit": str(edit),
                "instruction": f"edit {i}",
                "label": i % 2,
            }
            f.write(json.dumps(row) + "\n")


def train(folder, name, mode, ranks, steps, *mca):
    """Trains once, into the folder name."""
    out, config = folder / name, folder / f"{name}.yaml"
    config.write_text(
        f"backbone: {options.backbone}\nout: {out}\nmode: {mode}\nsteps: {steps}\nbatch_size: 8\n"
        "micro_batch: 2\nthreads: 1\nhead: {hidden: [8]}\ndata: {train: table.jsonl}\n"
    )
    command = [str(options.train), "--config", str(config)]
    if ranks > 1:
        command = [
            "mpirun",
            "--oversubscribe",
            "--allow-run-as-root",
            "--bind-to",
            "none",
            *mca,
            "-n",
            str(ranks),
        ] + command
    done = subprocess.run(command, capture_output=True, cwd=folder, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    parameters = re.search(r'"parameters": (\d+)', (out / "plan.json").read_text()).group(1)
    return out, int(parameters)


def run(folder, mode, ranks):
    """Trains once: seconds of each step after the first two, each rank's times by step, and trained parameters."""
    out, count = train(folder, f"{mode}-{ranks}", mode, ranks, options.steps)
    lines = [json.loads(line) for line in open(out / "metrics.jsonl")]
    at = [line["seconds"] for line in lines if line["kind"] == "train"]
    steps = [b - a for a, b in zip(at[1:], at[2:])]
    logs = [[json.loads(line) for line in open(log)] for log in sorted(out.glob("ranks/*.log"))]
    return steps, [[line for line in log if line["msg"] == "step"][2:] for log in logs], count


def times():
    print("| mode | ranks | trained parameters | s a step | model | waiting for others | exchange |")
    print("|---|---|---|---|---|---|---|")
    for mode in options.modes.split(","):
        for ranks in map(int, options.ranks.split(",")):
            steps, logs, count = run(folder, mode, ranks)
            share = ["", "", ""]
            if ranks > 1:
                for i, what in enumerate(["compute", "wait", "exchange"]):
                    mean = statistics.mean(line[what] for log in logs for line in log)
                    share[i] = f"{100 * mean / statistics.mean(steps):.1f} %"
            print(f"| {mode} | {ranks} | {count} | {statistics.median(steps):.3f} | {' | '.join(share)} |", flush=True)


def sent(folder, mode, ranks, steps):
    """Bytes that the ranks send in a run, as counted by Open MPI's monitoring."""
    name = f"count-{mode}-{ranks}-{steps}"
    _, count = train(
        folder,
        name,
        mode,
        ranks,
        steps,
        "--mca",
        "pml_monitoring_enable",
        "1",
        "--mca",
        "pml_monitoring_enable_output",
        "3",
        "--mca",
        "pml_monitoring_filename",
        str(folder / name),
    )
    total = 0
    for path in folder.glob(f"{name}.*.prof"):
        for line in open(path):  # I: messages of the library itself, E: of the program; from, to, bytes
            found = re.match(r"[IE]\s+\d+\s+\d+\s+(\d+) bytes", line)
            total += int(found.group(1)) if found else 0
    return total, count


def count():
    print("| mode | ranks | trained parameters | bytes that a rank sends in a step, counted | (M + 1) B (N-1)/N |")
    print("|---|---|---|---|---|")
    for mode in options.modes.split(","):
        for ranks in map(int, options.ranks.split(",")):
            if ranks == 1:
                continue
            (few, _), (many, parameters) = (sent(folder, mode, ranks, n) for n in (options.steps, 2 * options.steps))
            counted = (many - few) / options.steps / ranks
            formula = (4 / ranks + 1) * 4 * parameters * (ranks - 1) / ranks
            print(f"| {mode} | {ranks} | {parameters:,} | {counted:,.0f} | {formula:,.0f} |", flush=True)


def largest(tensors, ranks):
    """Elements of the rank that owns most: equal parts, cut at block boundaries of a tensor (cut in internal/trainer/distributed/shards.go)."""
    total, block, begin, cuts = sum(tensors), 1 << 16, 0, [0]
    for size in tensors:
        while len(cuts) < ranks and total * len(cuts) // ranks <= begin + size:
            at = total * len(cuts) // ranks - begin
            cuts.append(begin + min(-(-at // block) * block, size))
        begin += size
    return max(b - a for a, b in zip(cuts, cuts[1:] + [total]))


def paper():
    """LLaVA-NeXT-8B with the paper's recipe, one micro-batch per rank, at published network rates. Ranks exchange pieces
    of 4 Mi elements in turn (Exchanged in trainer/optimizer/exchange.go), and every part counts as the largest one."""
    width, keys, layers, rank = 4096, 1024, 32, 8
    lora = layers * [rank * width, width * rank, rank * width, keys * rank]  # q_proj, v_proj: A, B
    head = [n for a, b in [(width, 256), (256, 16), (16, 1)] for n in (a * b, b)]
    full = layers * [width * width, keys * width, keys * width, width * width] + 3 * layers * [width * 14336]
    full += 2 * [128258 * width] + head
    networks = {"NDR": (50e9, 2e-6), "25 Gb/s": (25e9 / 8, 2e-5)}  # bytes per second, seconds per message
    print("| | parameters | ranks | a rank sends | " + " | ".join(networks) + " |")
    print("|---|---|---|---|---|---|")
    for name, tensors in [("LoRA", lora + head + 2 * [width]), ("full", full)]:
        for ranks in (8, 64):
            most = largest(tensors, ranks)
            sends = 2 * 4 * most * (ranks - 1)  # gradients out, parameters together
            messages = 2 * -(-most // ((4 << 20) // ranks)) * (ranks - 1)
            times = [(sends / rate, messages * latency) for rate, latency in networks.values()]
            cells = " | ".join(f"{1000 * a:,.1f} ms + {1000 * b:,.1f} ms" for a, b in times)
            print(f"| {name} | {sum(tensors):,} | {ranks} | {sends / 1e6:,.0f} MB in {messages:,} | {cells} |")


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    table(folder / "table.jsonl")
    (paper if options.paper else count if options.count else times)()
