"""Writes internal/curate/testdata/confirmation.json: gains that a held-out judge confirms or not, with numpy and scipy.

    python tools/oracle/confirmation.py
"""
import json
import pathlib

import numpy as np
from scipy import stats

rng = np.random.default_rng(5)
N, WANTED, DRAWS = 120, 0.5, 20_000


def gains(s0, s1, h0, h1):
    """Gain of the score, gain of the held-out judge, its expected gain, and its shortfall. Arguments: [..., inputs]."""
    gain, held = (s1 - s0).mean(-1), (h1 - h0).mean(-1)
    x, y = s0 - s0.mean(-1, keepdims=True), h0 - h0.mean(-1, keepdims=True)
    expected = (x * y).sum(-1) / (x * x).sum(-1) * gain
    return gain, held, expected, WANTED * np.maximum(0, expected) - held


def case(name, truth_gain, score_only, noise=0.5, sign=1.0):
    truth = rng.normal(size=N)
    later = truth + truth_gain + 0.2 * rng.normal(size=N)
    s0, s1 = (3 + t + noise * rng.normal(size=N) for t in (truth, later + score_only))
    h0, h1 = (0.2 + 0.1 * sign * t + 0.1 * rng.normal(size=N) for t in (truth, later))
    columns = s0, s1, h0, h1
    at = rng.integers(0, N, (DRAWS, N))
    drawn = gains(*(c[at] for c in columns))
    estimates = [
        {"value": float(v), "low": float(np.quantile(d, 0.025)), "high": float(np.quantile(d, 0.975))}
        for v, d in zip(gains(*columns), drawn)
    ]
    return {
        "name": name,
        "columns": [c.tolist() for c in columns],
        "estimates": estimates,
        "slope": float(stats.linregress(s0, h0).slope),
        "agreement": [float(stats.spearmanr(s0, h0).statistic), float(stats.spearmanr(s1, h1).statistic)],
        "alarm": bool(estimates[0]["low"] > 0 and estimates[3]["low"] > 0),
    }


cases = [
    case("honest", 1.0, 0.0),
    case("hacked", 0.0, 1.0),
    case("half hacked", 0.5, 0.5),
    case("no gain", 0.0, 0.0),
    case("a loss", -1.0, 0.0),
    case("the truth falls", -0.5, 2.0),
    case("judges of opposite signs", 1.0, 0.0, sign=-1.0),
    case("a noisy score, honest", 1.0, 0.0, noise=3.0),
]
path = pathlib.Path(__file__).parents[2] / "internal/curate/testdata/confirmation.json"
path.parent.mkdir(exist_ok=True)
path.write_text(json.dumps({"wanted": WANTED, "cases": cases}) + "\n")
