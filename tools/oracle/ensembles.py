"""Makes internal/benchmarks/testdata/ensembles.json: votes of made-up models on expressions, counted with Python's statistics.

    python tools/oracle/ensembles.py internal/benchmarks/testdata/ensembles.json
"""

import json
import random
import statistics
import sys
from itertools import combinations

rng = random.Random(11)
LABELS = ["angry", "disgust", "fear", "happy", "neutral", "sad", "surprise"]
COARSE = {"happy": "positive", "neutral": "neutral"}
coarse = lambda label: COARSE.get(label, "negative" if label in LABELS else "")
truth = [rng.choice(LABELS) for _ in range(83)]
models = {f"m{k}": [t if rng.random() < 0.35 + 0.05 * k else rng.choice(LABELS + ["no face"]) for t in truth] for k in range(7)}
lines = [{"id": i, "truth": t, "model": m, "answer": answers[i]} for m, answers in models.items() for i, t in enumerate(truth)]


def search(label):
    out = {}
    wanted = [label(t) for t in truth]
    for size in (1, 3, 4, 5):
        scores = []
        for names in combinations(models, size):
            right = 0
            for i, t in enumerate(wanted):
                votes = [label(models[n][i]) for n in names if models[n][i] in LABELS]  # other answers are not votes
                right += statistics.multimode(votes) == [t]
            scores.append((right / len(truth), names))
        best = max(s for s, _ in scores)
        out[size] = {"sets": len(scores), "best": best, "average": sum(s for s, _ in scores) / len(scores),
                     "members": next(list(n) for s, n in scores if s == best), "equal": sum(s == best for s, _ in scores)}
    return out


json.dump({"lines": lines, "fine": search(lambda x: x), "coarse": search(coarse)}, open(sys.argv[1], "w"))
