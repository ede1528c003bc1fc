"""Trackers: a run on an MLflow server, read by MLflow's own client, and on a stub W&B server, sent by wandb's own uploader."""
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import wandb_server
from shared import ORACLE, ROOT, TRAIN, table

# MLflow's client runs in a separate process: it reads the environment when it is imported.
CLIENT = """
import json, pathlib, sys, tempfile, mlflow
client, out = mlflow.MlflowClient(), []
for r in client.search_runs([client.get_experiment_by_name(sys.argv[1]).experiment_id]):
    folder = pathlib.Path(client.download_artifacts(r.info.run_id, "", tempfile.mkdtemp(dir=sys.argv[2])))
    out.append({"status": r.info.status, "name": r.info.run_name, "tags": r.data.tags, "params": r.data.params,
                "metrics": {k: [(m.step, m.value, m.timestamp) for m in client.get_metric_history(r.info.run_id, k)] for k in r.data.metrics},
                "files": {str(p.relative_to(folder)): p.read_bytes().hex() for p in folder.rglob("*") if p.is_file()}})
print(json.dumps(out))
"""


@contextlib.contextmanager
def server(work, python):
    """mlflow server over SQLite on a free port; yields its URL."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    work.mkdir(parents=True, exist_ok=True)
    with open(work / "server.log", "w") as log:
        p = subprocess.Popen([python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1", "--backend-store-uri",
                              f"sqlite:///{work}/mlflow.db", "--artifacts-destination", str(work / "artifacts")], stdout=log, stderr=log, start_new_session=True,
                             env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"})
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(url + "/health", timeout=5).close()
                break
            if p.poll() is not None:
                sys.exit(f"mlflow server exited: {(work / 'server.log').read_text()[-1500:]}")
            time.sleep(0.2)
        yield url
    finally:
        os.killpg(p.pid, signal.SIGKILL)  # including its worker processes
        p.wait(30)


def flat(prefix, value):
    """Leaves of a configuration, with the names that the run uses."""
    if isinstance(value, dict) and value:
        return {k: v for name, sub in value.items() for k, v in flat(f"{prefix}.{name}" if prefix else name, sub).items()}
    return {prefix: value}


def expected(folder):
    """{name: [(step, value)]} of the TensorBoard file, read by TensorBoard."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(e.step, e.value, round(e.wall_time * 1000)) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def compare(work, python, url, experiment, folder, status="FINISHED", repeats=False):
    """Fails unless the server has one run of the experiment, equal to the folder's. repeats: steps were repeated after a kill.
    MLflow keeps their first values too, which are the same except for times."""
    import yaml
    environment = {**os.environ, "MLFLOW_TRACKING_URI": url}
    done = subprocess.run([python, "-W", "ignore", "-c", CLIENT, experiment, str(work)], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"MLflow's client: {done.stderr[-1500:]}")
    there = json.loads(done.stdout.splitlines()[-1])
    if len(there) != 1 or there[0]["status"] != status or there[0]["name"] != folder.name:
        sys.exit(f"{experiment}: got {[(r['name'], r['status']) for r in there]}, want one run {folder.name}, {status}")
    got, want = there[0], expected(folder)
    if got["metrics"].keys() != want.keys():
        sys.exit(f"{experiment}: got metrics {sorted(got['metrics'])}, want {sorted(want)}")
    for key, values in want.items():
        ours = got["metrics"][key]
        steps = [v[0] for v in values]
        times = [a[2] == b[2] or repeats and a[2] < b[2] for a, b in zip(ours, values)]
        if [v[0] for v in ours] != steps or not all(times):
            sys.exit(f"{experiment}, {key}: got {ours}, want {values}")
        timed = key.rsplit("/", 1)[-1] in ("seconds", "waited")  # measured again when a step is repeated
        if any(struct.pack("f", a[1]) != struct.pack("f", b[1]) for a, b in zip(ours, values) if not timed or a[2] == b[2]):
            sys.exit(f"{experiment}, {key}: got {ours}, want {values}")
    config = flat("", yaml.safe_load((folder / "config.yaml").read_text()))
    if got["params"].keys() != config.keys() or got["params"]["optimizer.lr"] != str(config["optimizer.lr"]):
        sys.exit(f"{experiment}: got parameters {got['params']}, want {config}")
    names = [p for top in ("scorer", "best", "report.html", "config.yaml") for p in ([folder / top] if (folder / top).is_file() else (folder / top).rglob("*")) if p.is_file()]
    files = {str(p.relative_to(folder)): p.read_bytes().hex() for p in names}
    if status == "FINISHED" and (got["files"] != files or not any(n.startswith("scorer/") for n in files)):
        sys.exit(f"{experiment}: got files {sorted(got['files'])}, want {sorted(files)} with the same bytes")
    return sum(map(len, want.values())), len(config), len(files)


def tracked(work, name, steps, to, environment):
    """The command of a run, its folder and its environment."""
    edits, _ = table(work)
    config = work / f"{name}.yaml"
    config.write_text(f"backbone: {os.path.relpath(ORACLE / 'llavanext/backbone', work)}\nout: {name}\npair: sequence\nseed: 3\nsteps: {steps}\nbatch_size: 2\ndevice: cpu\n"
                      f"data: {{train: {edits.name}, validation: 0.3}}\noptimizer: {{lr: 0.01}}\nvalidate: {{every: 4}}\ncheckpoint: {{steps: 3}}\nreport_to: {to}\n")
    return [str(TRAIN), "--config", str(config), "--json"], work / name, {**os.environ, **environment}


def start(command, environment, fails=False):
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if bool(done.returncode) != fails:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr


def written(folder):
    """The number of steps in a run's metrics."""
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def check_mlflow(work, python):
    """A run with the server up; one whose server starts after its end; and one that is killed."""
    with server(work / "server", python) as url:
        command, folder, environment = tracked(work, "quiet", 12, "[tensorboard, mlflow]", {"MLFLOW_TRACKING_URI": url, "MLFLOW_EXPERIMENT_NAME": "quiet run"})
        if said := start(command, environment):
            if "MLflow" in said:
                sys.exit(f"a run with its server up warns: {said}")
        counts = compare(work, python, url, "quiet run", folder)

        away = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9", "MLFLOW_EXPERIMENT_NAME": "late"}
        command, folder, environment = tracked(work, "late", 8, "mlflow", away)
        said = start(command, environment)
        if said.count("training continues") != 1 or said.count("rerun the same command to send it") != 1:
            sys.exit(f"output of a run without its server: {said}")
        start(command, {**environment, "MLFLOW_TRACKING_URI": url})
        compare(work, python, url, "late", folder)

        command, folder, environment = tracked(work, "killed", 150, "mlflow", {"MLFLOW_TRACKING_URI": url, "MLFLOW_EXPERIMENT_NAME": "killed"})
        kills = (20, 60, 100)  # at these steps, whatever the machine's speed
        for step in kills:
            p = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while p.poll() is None and written(folder) < step:
                time.sleep(0.01)
            if p.poll() is not None:
                sys.exit(f"the run ended with {p.returncode} before it was killed at step {step}")
            p.kill()
            p.wait()
        start(command, environment)
        compare(work, python, url, "killed", folder, repeats=True)
    return f"MLflow has {counts[0]} values, {counts[1]} parameters, {counts[2]} files as the run; a late server, and {len(kills)} kills, cause no gaps and no duplicates"


def check_wandb(work, python):
    """wandb_run, and `wandb sync` of its offline files, with wandb's own uploader and a stub server: every step of metrics.jsonl once."""
    command, folder, environment = tracked(work, "curves", 8, "[tensorboard, wandb]", {})
    said = start([c for c in command if c != "--json"], environment)
    if f"python -m assay_reward.wandb_run {folder}" not in said:
        sys.exit(f"report_to: wandb does not print the command: {said}")
    sys.path.insert(0, str(ROOT / "clients/python"))
    from assay_reward import wandb_run
    want = dict(wandb_run.curves(folder))
    if len(want) != 8:
        sys.exit(f"the run has steps {sorted(want)}, want 8")
    lines = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    early = work / "early"  # the run when half of it had been written
    early.mkdir()
    (early / "config.yaml").write_bytes((folder / "config.yaml").read_bytes())
    (early / "metrics.jsonl").write_bytes(b"".join(lines[:len(lines) // 2]))
    with wandb_server.server() as (url, runs):
        environment = {**environment, "PYTHONPATH": str(ROOT / "clients/python"), "WANDB_BASE_URL": url, "WANDB_API_KEY": "0" * 40, "WANDB_DIR": str(work),
                       "WANDB_SILENT": "true", "NO_PROXY": "127.0.0.1"}

        def send(run):
            return int(subprocess.run([python, "-m", "assay_reward.wandb_run", str(run)], env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-2])

        counts = [send(early)]
        os.rename(early / "wandb.json", folder / "wandb.json")
        counts += [send(folder), send(folder)]
        if counts[0] == 0 or counts[2] != 0 or sum(counts) != 8:
            sys.exit(f"wandb_run sends {counts} steps, want 8 in the first two calls and none in the third")
        os.remove(folder / "wandb.json")
        start([python, "-m", "assay_reward.wandb_run", str(folder)], {**environment, "WANDB_MODE": "offline"})
        files = list(work.glob("wandb/offline-run-*"))
        if len(files) != 1:
            sys.exit(f"wandb wrote {files}, want one folder")
        start([python, "-m", "wandb", "sync", str(files[0])], environment)
        for run, rows in runs.items():
            got = [(row["_step"], {k: v for k, v in row.items() if not k.startswith("_")}) for row in rows]
            if got != sorted(want.items()):
                sys.exit(f"W&B has {got} for {run}, want {want}")
        if len(runs) != 2:
            sys.exit(f"W&B has runs {sorted(runs)}, want two")
    return f"wandb sends {sum(len(v) for v in want.values())} values of {len(want)} steps, in {counts[0]} + {counts[1]} and by wandb sync: equal, each once"


def check(work):
    """Runs in a separate environment (ASSAY_TRACKERS, a Python with mlflow, wandb and tensorboard), which is created if needed."""
    python = os.environ.get("ASSAY_TRACKERS")
    if not python:
        python = ROOT / "build/trackers/bin/python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir", "mlflow==3.17.2", "wandb==0.31.0", "tensorboard"], check=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW_", "WANDB_"))}
    done = subprocess.run([python, "-W", "ignore", Path(__file__), work], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr[-3000:])
    return done.stdout.strip()


if __name__ == "__main__":
    here = Path(sys.argv[1]).resolve()
    here.mkdir(parents=True, exist_ok=True)
    print(check_mlflow(here, sys.executable) + "; " + check_wandb(here, sys.executable))
