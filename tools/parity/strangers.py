"""Shared by the suites of third-party models: train grad as a function, the list of refusals, the counts."""
import collections
import json
import multiprocessing
import re
import shutil
import struct
import subprocess
import sys
import time
import traceback
from pathlib import Path

import numpy
import onnx

ROOT = Path(__file__).resolve().parents[2]
TRAIN = ROOT / "bin/train"
NAMES = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16",
         "int8": "I8", "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "bool": "BOOL"}


class Refusal:
    """The error of train grad."""

    def __init__(self, reason, crashed=False):
        self.reason, self.crashed = reason, crashed


def write_tensors(path, arrays):
    header, at, blobs = {}, 0, []
    for k, a in arrays.items():
        blob = numpy.ascontiguousarray(a).tobytes()
        header[k] = {"dtype": NAMES[a.dtype.name], "shape": list(a.shape), "data_offsets": [at, at + len(blob)]}
        at += len(blob)
        blobs.append(blob)
    head = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(blobs))


def read_tensors(path):
    import ml_dtypes

    kinds = {v: numpy.dtype(getattr(ml_dtypes, k) if k == "bfloat16" else k) for k, v in NAMES.items()}
    data = path.read_bytes()
    size, = struct.unpack_from("<Q", data)
    body = data[8 + size:]
    return {k: numpy.frombuffer(body[slice(*v["data_offsets"])], kinds[v["dtype"]]).reshape(v["shape"])
            for k, v in json.loads(data[8:8 + size]).items() if k != "__metadata__"}


def train_grad(folder, model, feeds, cotangents, wrt):
    """The gradients of bin/train grad by name, or a Refusal."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    odd = [a.dtype.name for a in feeds.values() if a.dtype.name not in NAMES]
    if odd:
        return Refusal(f"an input is {odd[0]}")
    onnx.save(model, folder / "model.onnx")
    write_tensors(folder / "inputs.safetensors", feeds)
    write_tensors(folder / "cotangents.safetensors", cotangents)
    done = subprocess.run([TRAIN, "grad", "--model", "model.onnx", "--inputs", "inputs.safetensors", "--cotangents", "cotangents.safetensors",
                           "--wrt", ",".join(wrt), "--out", "grads.safetensors"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        return Refusal(plain(done.stderr), crashed=done.returncode != 1 or "panic" in done.stderr)
    return read_tensors(folder / "grads.safetensors")


CAUSES = ((r"([\w.]+) lies between", r"there is no gradient rule for \1"),
          (r"(?:Could not find an implementation|Failed to find kernel) for (\w+)\(", r"ONNX Runtime has no kernel for \1 of this type"),
          (r"Error running network: .* while running (\w+) node", r"ONNX Runtime fails in \1"))


def plain(message):
    """An error without the parts that differ between cases with the same cause: the model's file, names in quotes, opsets, shapes."""
    text = " ".join(message.split()).removeprefix("error: ").removeprefix("model.onnx: ")
    text = re.sub(r'(the )?node (of output )?"[^"]*" \((ai\.onnx\.)?([\w.]+), opset \d+\)', r"\4", text)
    for pattern, words in CAUSES:
        if found := re.search(pattern, text):
            return found.expand(words)
    text = re.sub(r"\[[\d ,]*\]", "[]", re.sub(r'"[^"]*"', '""', text))
    return re.sub(r"(axis|run|open) \w+", r"\1", text)[:200]


def non_differentiable_inputs():
    """A function from a graph of one node to the inputs that have no gradient according to docs/ops.md."""
    table = {}
    for line in (ROOT / "docs/ops.md").read_text().splitlines():
        cells = [c.strip() for c in line.split("|")]
        if len(cells) == 6 and cells[3].replace(",", "").replace(" ", "").isdigit():
            for name in cells[1].split(", "):
                table[name] = [int(i) for i in cells[3].split(",")]
    if "Resize" not in table:
        sys.exit("docs/ops.md: the table of inputs without gradient was not found")
    return NonDifferentiable(table)


class NonDifferentiable:
    def __init__(self, table):
        self.table = table

    def __call__(self, graph):
        if len(graph.node) != 1:
            return set()
        n = graph.node[0]
        at = self.table.get(n.op_type if n.domain in ("", "ai.onnx") else f"{n.domain}.{n.op_type}", [])
        return {x for i, x in enumerate(n.input) if i in at}


JOBS = {}


def one(name):
    f, *args = JOBS[name]
    try:
        return name, f(*args)
    except Exception:  # noqa: BLE001 a case that cannot be checked counts as wrong
        return name, ("wrong", "the check itself failed: " + traceback.format_exc(limit=-2))


def run_all(jobs, chunk=8):
    """Maps {name: (function, arguments...)} to {name: (verdict, why)}, on all cores."""
    JOBS.update(jobs)
    begin = time.time()
    with multiprocessing.get_context("fork").Pool() as pool:
        report = dict(pool.imap_unordered(one, jobs, chunksize=chunk))
    print(f"{len(jobs)} cases in {time.time() - begin:.0f} s")
    return {n: report[n] for n in jobs}


def judge(report, path, update, whole):
    """Prints the counts and the problems; compares the refusals with the list. Returns 0 if there are no problems."""
    counts = collections.Counter(v for v, _ in report.values())
    print(", ".join(f"{counts[k]} {k}" for k in ("right", "refused", "unchecked", "wrong")))
    problems = [f"wrong: {n}: {why}" for n, (v, why) in report.items() if v == "wrong"]
    now = {n: f"{v}: {why}" for n, (v, why) in report.items() if v in ("refused", "unchecked")}
    if update and whole:
        write_list(path, now)
    before = read_list(path)
    for n, why in now.items():
        if before.get(n) != why:
            problems.append(f"{'changed' if n in before else 'new'} refusal, {n}: {why}")
    problems += [f"no longer refused: {n}" for n in before if n not in now and (whole or n in report)]
    print("\n".join(problems))
    return 1 if problems else 0


def write_list(path, refusals):
    by = collections.defaultdict(list)
    for n, why in refusals.items():
        by[why].append(n)
    lines = ["# Cases whose gradient is refused, or could not be checked, by reason. Written by --update; read what changed.\n"]
    for why in sorted(by):
        lines += ["\n", why + "\n"] + [f"    {n}\n" for n in sorted(by[why])]
    path.write_text("".join(lines))


def read_list(path):
    found, why = {}, ""
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.startswith("    "):
            found[line.strip()] = why
        elif line and not line.startswith("#"):
            why = line
    return found
