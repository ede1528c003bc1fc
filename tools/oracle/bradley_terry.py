"""Makes internal/stats/testdata/bradleyterry.json: strengths by maximum likelihood with torch, tau-b with scipy.

    python tools/oracle/bradley_terry.py internal/stats/testdata
"""

import json
import sys

import numpy as np
import torch
from scipy.stats import kendalltau

rng = np.random.default_rng(7)
torch.set_default_dtype(torch.float64)


def strengths(wins):
    w = torch.tensor(wins)
    s = torch.zeros(len(wins), requires_grad=True)
    optimiser = torch.optim.LBFGS([s], lr=1, max_iter=2000, tolerance_grad=1e-13, tolerance_change=1e-16,
                                  line_search_fn="strong_wolfe")

    def loss():
        optimiser.zero_grad()
        value = -(w * torch.nn.functional.logsigmoid(s[:, None] - s[None, :])).sum() + 1e-9 * s.sum() ** 2
        value.backward()
        return value

    for _ in range(20):
        optimiser.step(loss)
    return (s - s.mean()).detach().tolist()


cases = []
for n, high in ((2, 9), (3, 4), (5, 12), (8, 40), (6, 3)):
    wins = rng.integers(0, high, (n, n)) + rng.integers(0, 2, (n, n)) / 2
    wins += np.triu(np.full((n, n), high / 3.0))
    np.fill_diagonal(wins, 0)
    cases.append({"wins": wins.tolist(), "strengths": strengths(wins)})
taus = []
for n, high in ((5, 100), (12, 4), (30, 8)):
    x, y = rng.integers(0, high, n), rng.integers(0, high, n)
    taus.append({"x": x.tolist(), "y": y.tolist(), "tau": float(kendalltau(x, y).statistic)})
with open(f"{sys.argv[1]}/bradleyterry.json", "w") as f:
    json.dump({"cases": cases, "taus": taus}, f)
