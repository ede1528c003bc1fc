"""Writes internal/stats/testdata/scipy.json: values of scipy and numpy to test the Go statistics against."""
import json
import math
import pathlib

import numpy as np
from scipy import stats

rng = np.random.default_rng(7)


def clean(v):
    return None if v is None or math.isnan(v) else float(v)


cases = []
for name, x, y in [
    ("ties", rng.integers(0, 5, 200) / 2, rng.integers(0, 4, 200)),
    ("few", [1, 2], [5, 3]),
    ("perfect", [1, 2, 3, 4], [10, 20, 30, 45]),
    ("reversed", [1, 2, 3, 4], [4, 3, 2, 1]),
    ("constant", [1, 1, 1], [1, 2, 3]),
    ("normal", rng.normal(size=300), rng.normal(size=300)),
    ("related", (a := rng.normal(size=500)), a + rng.normal(size=500)),
    ("large", 1e9 + rng.integers(0, 9, 50), rng.normal(size=50)),
]:
    x, y = np.asarray(x, float), np.asarray(y, float)
    constant = np.ptp(x) == 0 or np.ptp(y) == 0
    cases.append({
        "name": name, "x": x.tolist(), "y": y.tolist(), "ranks": stats.rankdata(x).tolist(),
        "spearman": None if constant else clean(stats.spearmanr(x, y).statistic),
        "pearson": None if constant else clean(stats.pearsonr(x, y).statistic),
    })

r = rng.uniform(-0.9, 0.9, 8)
values = np.sort(rng.normal(size=37))
truth, predicted = rng.integers(0, 4, 60), rng.integers(0, 5, 60)
classes = range(6)  # the last does not occur, class 4 is only predicted
f1 = []
for c in classes:
    tp = int(((truth == c) & (predicted == c)).sum())
    p, q = int((predicted == c).sum()), int((truth == c).sum())
    f1.append(2 * tp / (p + q) if p + q else 0.0)
boot = stats.bootstrap((values,), np.mean, n_resamples=20000, method="percentile", rng=np.random.default_rng(3))

out = {
    "correlations": cases,
    "fisher": {"r": r.tolist(), "fisher": float(np.tanh(np.arctanh(r).mean())), "tanh": float(np.tanh(r.mean()))},
    "quantiles": {"sorted": values.tolist(), "q": [0, 0.025, 0.31, 0.5, 0.975, 1],
                  "values": np.quantile(values, [0, 0.025, 0.31, 0.5, 0.975, 1]).tolist()},
    "macro_f1": {"truth": truth.tolist(), "predicted": predicted.tolist(), "classes": list(classes),
                 "value": float(np.mean(f1))},
    "bootstrap_mean": {"values": values.tolist(), "low": float(boot.confidence_interval.low),
                       "high": float(boot.confidence_interval.high), "standard_error": float(boot.standard_error)},
}
path = pathlib.Path(__file__).parents[2] / "internal/stats/testdata/scipy.json"
path.write_text(json.dumps(out) + "\n")
