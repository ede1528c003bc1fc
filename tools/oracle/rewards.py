"""Writes internal/reward/combine/testdata/rewards.json: how TRL combines several rewards (its own lines of
GRPOTrainer's normalize_then_sum, which is GDPO without the last normalisation over the batch), and ranks by pandas.

    pip install torch pandas trl && python tools/oracle/rewards.py"""
import json
import math
import pathlib
import textwrap

import numpy as np
import pandas as pd
import torch
import trl
from trl.trainer.utils import nanstd

ROOT = pathlib.Path(__file__).parents[2]
rng = np.random.default_rng(33)
torch.set_default_dtype(torch.float64)  # also for the correction of the standard deviation

# The lines themselves, so that nothing is copied by hand. Importing the trainer would need vLLM and more.
source = (pathlib.Path(trl.__file__).parent / "trainer" / "grpo_trainer.py").read_text()
block = source.split('self.multi_objective_aggregation == "normalize_then_sum":\n')[-1]
lines = block.split("            rewards[unscorable_mask]")[0]


class Trainer:
    pass


def normalised(scores, weights, size):
    """Per reward and summed, by TRL: scores [edits, rewards], groups of `size` one after the other."""
    trainer = Trainer()
    trainer.reward_funcs, trainer.reward_weights = weights, torch.tensor(weights, dtype=torch.float64)
    scope = {"self": trainer, "torch": torch, "nanstd": nanstd, "num_generations": size, "device": "cpu",
             "rewards_per_func": torch.tensor(scores, dtype=torch.float64)}
    exec(textwrap.dedent(lines), scope)
    return scope["reward_k"].tolist(), scope["rewards"].tolist()


def ranks(scores, groups):
    """pandas' average ranks from 0 to 1, one column at a time."""
    table = pd.DataFrame(scores)
    by = table.groupby(np.array(groups))
    n = by.transform("count")
    out = (by.rank(method="average") - 1) / (n - 1)
    return out.where(n > 1, table.where(table.isna(), 0.5)).values.tolist()


def plain(values):
    return [None if isinstance(v, float) and not math.isfinite(v) else plain(v) if isinstance(v, list) else v
            for v in values]


def case(name, scores, weights, size):
    groups = [i // size for i in range(len(scores))]
    values, sums = normalised(scores, weights, size)
    return {"name": name, "groups": groups, "weights": weights, "scores": plain(np.asarray(scores).tolist()),
            "zscores": plain(values), "sums": plain(sums), "ranks": plain(ranks(scores, groups))}


two = rng.normal(size=(24, 2)) * [10, 0.1] + [5, 0.3]
ties = np.round(rng.uniform(0, 3, size=(12, 3)))
failed = rng.normal(size=(18, 3))
failed[[1, 4, 5], 0] = failed[[7], 1] = failed[12:17, 2] = np.nan  # the last group has one left
cases = [
    case("two rewards of other sizes", two, [1.0, 0.5], 8),
    case("ties", ties, [0.2, 0.3, -0.5], 4),
    case("equal scores", np.full((6, 2), 7.0), [1.0, 2.0], 3),
    case("groups of one", rng.normal(size=(3, 2)), [1.0, 1.0], 1),
    case("groups of two", rng.normal(size=(6, 1)), [1.0], 2),
    case("failures", failed, [1.0, 0.7, 2.0], 6),
]
path = ROOT / "internal/reward/combine/testdata/rewards.json"
path.parent.mkdir(exist_ok=True)
path.write_text(json.dumps({"trl": trl.__version__, "cases": cases}) + "\n")
