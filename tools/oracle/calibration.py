"""Writes internal/calibration/testdata/sklearn.json: scikit-learn's results for scores and labels: IsotonicRegression with and
without weights and ties, the sigmoid calibration of CalibratedClassifierCV, calibration_curve, and numpy's quantile for
split conformal prediction.

    pip install scikit-learn && python tools/oracle/calibration.py"""
import json
import pathlib

import numpy as np
from sklearn.calibration import _SigmoidCalibration, calibration_curve
from sklearn.isotonic import IsotonicRegression

ROOT = pathlib.Path(__file__).parents[2]
rng = np.random.default_rng(20)


def isotonic(name, x, y, w=None):
    fitted = IsotonicRegression().fit(x, y, sample_weight=w).predict(x)
    return {"name": name, "x": x.tolist(), "y": y.tolist(), "weights": None if w is None else w.tolist(),
            "fitted": fitted.tolist()}


def centred(x, y):
    """Centred isotonic regression, from scikit-learn's isotonic one: each block of equal values at its mean x (Oron and Flournoy, 2017)."""
    order = np.argsort(x, kind="stable")
    xs, fitted = x[order], IsotonicRegression().fit(x, y).predict(x[order])
    values, at = [], []
    for v in np.unique(fitted.round(12)):
        block = np.abs(fitted - v) < 1e-9
        values.append(float(fitted[block].mean()))
        at.append(float(xs[block].mean()))
    points = np.linspace(at[0], at[-1], 57)
    return {"x": x.tolist(), "y": y.tolist(), "knots_x": at, "knots_y": values, "points": points.tolist(),
            "values": np.interp(points, at, values).tolist()}


def sigmoid(name, x, y):
    c = _SigmoidCalibration().fit(x, y)
    return {"name": name, "x": x.tolist(), "y": y.tolist(), "a": float(c.a_), "b": float(c.b_),
            "predicted": c.predict(x).tolist()}


def curve(n, bins):
    p = rng.uniform(0, 1, n)
    y = (rng.uniform(0, 1, n) < p ** 2).astype(float)
    label, score = calibration_curve(y, p, n_bins=bins, strategy="uniform")
    return {"scores": p.tolist(), "labels": y.tolist(), "bins": bins, "score": score.tolist(), "label": label.tolist()}


def conformal(n, coverage):
    d = rng.normal(0, 0.2, n)
    level = np.ceil((n + 1) * coverage) / n
    return {"distances": d.tolist(), "coverage": coverage,
            "half_width": float(np.quantile(np.abs(d), level, method="inverted_cdf"))}


def noisy(n, levels=None):
    x = rng.uniform(-0.2, 1.1, n)
    y = np.clip(x + rng.normal(0, 0.3, n), 0, 1)
    if levels:
        y = np.round(y * (levels - 1)) / (levels - 1)
    return x, y


out = {"isotonic": [], "sigmoid": [], "curve": [curve(200, 10), curve(37, 5)],
       "conformal": [conformal(50, 0.9), conformal(99, 0.9), conformal(40, 0.5), conformal(19, 0.95)]}
x, y = noisy(60)
out["isotonic"].append(isotonic("labels between", x, y))
x, y = noisy(80, 2)
out["isotonic"].append(isotonic("labels 0 and 1", x, y, rng.uniform(0.1, 3, 80)))
x = rng.integers(0, 12, 70) / 10
out["isotonic"].append(isotonic("scores that are equal", x, rng.uniform(0, 1, 70), rng.integers(1, 5, 70).astype(float)))
out["isotonic"].append(isotonic("falls", np.linspace(0, 1, 9), np.linspace(1, 0, 9)))
out["isotonic"].append(isotonic("two", np.array([0.7, 0.2]), np.array([1.0, 0.0])))
out["centred"] = [centred(*noisy(120, 5)), centred(*noisy(40, 2))]
for name, n, shift in [("few", 12, 0), ("many", 300, 0), ("far from 0", 90, 500)]:
    x, y = noisy(n, 2)
    out["sigmoid"].append(sigmoid(name, 3 * x + shift if shift == 0 else x + shift - 500, y))
x = np.linspace(0, 1, 20)
out["sigmoid"].append(sigmoid("separable", x, (x > 0.5).astype(float)))
file = ROOT / "internal" / "calibration" / "testdata" / "sklearn.json"
file.parent.mkdir(exist_ok=True)
file.write_text(json.dumps(out, separators=(",", ":")) + "\n")
print(file, file.stat().st_size)
