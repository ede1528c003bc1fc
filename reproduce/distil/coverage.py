"""Prints the share of truths within one and within 1.96 sigma of an ensemble's scores.

    python3 reproduce/distil/coverage.py SCORES.jsonl TRUTH.jsonl NAME
"""
import json
import sys

scores, truth, name = sys.argv[1:]
degree = {}
for line in open(truth):
    row = json.loads(line)
    degree[row["id"]] = row["degree"]
off = []
for line in open(scores):
    row = json.loads(line)
    if row["id"] in degree:
        off.append((abs(row["score01"] - degree[row["id"]]), row.get("sigma", 0) / 10))
mean = [sum(x[i] for x in off) / len(off) for i in (0, 1)]
within = [sum(d <= k * s for d, s in off) / len(off) for k in (1, 1.96)]
print(f"| {name} | {len(off)} | {mean[0]:.3f} | {mean[1]:.3f} | {within[0]:.3f} | {within[1]:.3f} |")
