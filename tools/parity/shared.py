"""Shared by the checks of `make parity`: commands, a server, the fixtures' pictures, comparisons."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "clients/python"))
ORACLE = ROOT / "testdata/oracle"
SCORER = ORACLE / "llavanext/scorer"
TRAIN, SCORE, LABEL = ROOT / "bin/train", ROOT / "bin/score", ROOT / "bin/label"


def run(*args):
    """Runs a command; returns its JSON output."""
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, args))}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout) if "--json" in args else done.stdout


def close(what, got, want, tolerance):
    if not abs(got - want) <= tolerance:
        sys.exit(f"{what}: {got!r}, want {want!r} within {tolerance}")


@contextlib.contextmanager
def served(*args, stop=signal.SIGTERM):
    """score serve on a free port; yields its URL. It must exit with code 0 when it is stopped."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    p = subprocess.Popen([SCORE, "serve", "--addr", f"127.0.0.1:{port}", "--json", *map(str, args)], stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(p.stdout.readline())["address"]
    finally:
        p.send_signal(stop)
        if p.wait(60):
            sys.exit(f"score serve exited with code {p.returncode}")


def pairs():
    """(source, edit, instruction) of the fixtures' pictures."""
    table = json.loads((ORACLE / "images/pairs.json").read_text())
    return [(ORACLE / p["input"], ORACLE / p["edited"], f"edit {i}") for i, p in enumerate(table)]


def table(work, name="edits.jsonl"):
    rows = []
    for i, (source, edit, instruction) in enumerate(pairs()):
        for picture, label in ((edit, 0.9), (source, 0.0)):
            rows.append({"id": f"{i}-{label}", "source": os.path.relpath(source, work), "edit": os.path.relpath(picture, work),
                         "instruction": instruction, "label": label, "group": str(i)})
    (work / name).write_text("".join(json.dumps(r) + "\n" for r in rows))
    return work / name, rows
