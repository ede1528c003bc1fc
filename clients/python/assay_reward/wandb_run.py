"""Sends the curves of a run to Weights & Biases, with the package wandb:

    python -m assay_reward.wandb_run RUN

Call it as often as you like, also while the run trains: steps that W&B already has are not sent again.
WANDB_MODE=offline writes files for `wandb sync`, every call all steps: sync those of the last one. Project, entity and account come from wandb's variables; the default
project is assay.
"""
import argparse
import json
import os
import secrets
from pathlib import Path


def curves(run):
    """(step, values by name) of the complete steps in metrics.jsonl. Values that are not finite are left out."""
    steps = {}
    for line in (run / "metrics.jsonl").read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break  # it is being written
        m = json.loads(line)
        kind, step = m.pop("kind"), m.pop("step")
        flat = {f"{kind}/{k}": v for k, v in m.items()}
        for name in ("losses", "lrs", "items"):
            flat.update({f"{kind}/{name}/{k}": v for k, v in (m.get(name) or {}).items()})
        values = {k: v for k, v in flat.items() if isinstance(v, (int, float))}
        steps.setdefault(step, {}).update(values)
    page, metrics = run / "report.html", run / "metrics.jsonl"
    if steps and not (page.exists() and page.stat().st_mtime >= metrics.stat().st_mtime):
        del steps[max(steps)]  # its validation may follow
    return sorted(steps.items())


def send(run):
    """Sends the steps of a run directory that W&B does not have; returns their number."""
    import wandb
    import yaml  # wandb also needs it
    state = run / "wandb.json"
    if not state.exists():
        state.write_text(json.dumps({"id": secrets.token_hex(8)}) + "\n")
    sent = 0
    with wandb.init(id=json.loads(state.read_text())["id"], resume="allow", name=run.resolve().name, project=os.environ.get("WANDB_PROJECT", "assay"),
                    config=yaml.safe_load((run / "config.yaml").read_text())) as there:
        first = there.starting_step  # after the last step that W&B has; 0 for a new run
        for step, values in curves(run):
            if step >= first:
                there.log(values, step=step)
                sent += 1
    return sent


def main(arguments=None):
    p = argparse.ArgumentParser(prog="python -m assay_reward.wandb_run", description="Send the curves of a run to Weights & Biases (needs the package wandb).")
    p.add_argument("run", type=Path, help="run directory of train")
    a = p.parse_args(arguments)
    if not (a.run / "metrics.jsonl").exists():
        p.error(f"{a.run} is not a run directory: it has no metrics.jsonl")
    print(f"{send(a.run)} steps")


if __name__ == "__main__":
    main()
