"""Percentiles computed with NumPy: heuristics/testdata/percentiles.json. Run: python percentiles.py OUT"""
import json
import sys

import numpy

rng = numpy.random.default_rng(4)
tables = [[0.7], [0.9, 0.1], [0.83, 0.91, 0.77, 0.95, 0.88, 0.6], [0.5] * 7, rng.random(19).tolist(), rng.random(21).tolist(),
          rng.normal(size=100).tolist(), rng.random(333).tolist()]
cases = [{"values": t, "p": p, "want": float(numpy.percentile(t, p))} for t in tables for p in (0, 5, 12.5, 50, 73, 95, 100)]
with open(sys.argv[1], "w") as f:
    json.dump({"numpy": numpy.__version__, "cases": cases}, f)
    f.write("\n")
