"""Writes losses/testdata/torch.json: values and gradients of every loss from torch in float64, ties and scores of +-1,000
included; and losses/normal_table.go: the coefficients of log Phi, fitted with mpmath."""
import json
import math
import pathlib

import mpmath
import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).parents[2]
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
gen = torch.Generator().manual_seed(13)


def scores(n, width, spread):
    z = torch.randn(n, width, generator=gen) * spread
    return z.float().double()  # rounded to float32


def edits(n, labels):
    return [{"edits": [i], "label": float(y), "weight": float(w)}
            for i, (y, w) in enumerate(zip(labels, torch.rand(n, generator=gen).float()))]


def sigma(z):
    return torch.exp(torch.clamp(z[:, 1], -10, 10))


def nearest(values, y):
    return min(range(len(values)), key=lambda i: (abs(values[i] - y), i))


def log_difference(b, a):
    """log(sigmoid(b) - sigmoid(a)), b > a, computed on the side where it does not cancel."""
    flip = a > 0
    hi, lo = torch.where(flip, -a, b), torch.where(flip, -b, a)
    h, l = F.logsigmoid(hi), F.logsigmoid(lo)
    return h + torch.log(-torch.expm1(l - h))


def two_hot(values, y):
    """A y between two values is split between them, which keeps the mean."""
    p = torch.zeros(len(values))
    k = next((i for i, v in enumerate(values) if v >= y), len(values))
    if k in (0, len(values)):
        p[min(k, len(values) - 1)] = 1
    else:
        p[k] = (y - values[k - 1]) / (values[k] - values[k - 1])
        p[k - 1] = 1 - p[k]
    return p


def pointwise(spec, z, it, values, learned=None):
    i, y = it["edits"][0], torch.tensor(it["label"])
    s, kind, scale = z[i, 0], spec["kind"], spec.get("scale", 10)
    if kind == "l1":
        return F.l1_loss(s, y)
    if kind == "mse":
        return F.mse_loss(s, y)
    if kind == "huber":
        return F.huber_loss(s, y, delta=spec.get("delta", 0.1))
    if kind == "bce":
        return F.binary_cross_entropy_with_logits(scale * (s - spec.get("center", 0.5)), y)
    if kind == "classes" and spec.get("votes") == "soft":
        return F.cross_entropy(z[i][None], two_hot(values, it["label"])[None])
    if kind == "classes":
        return F.cross_entropy(z[i][None], torch.tensor([nearest(values, it["label"])]))
    if kind == "gaussian":
        return F.gaussian_nll_loss(s, y, sigma(z)[i] ** 2, eps=1e-30)
    assert kind == "ordinal"
    v = spec.get("values", [0, 0.5, 1])
    k = nearest(v, it["label"])
    cuts = [(a + b) / 2 for a, b in zip(v, v[1:])]
    if learned is not None:  # increasing: the first cut, and the logarithms of the gaps
        cuts = list(torch.cumsum(torch.cat([learned[:1], learned[1:].exp()]), 0))
    if k == 0:
        return -F.logsigmoid(scale * (cuts[0] - s))
    if k == len(v) - 1:
        return -F.logsigmoid(scale * (s - cuts[-1]))
    return -log_difference(scale * (cuts[k] - s), scale * (cuts[k - 1] - s))


def pairwise(spec, z, it, draws):
    a, b = it["edits"]
    w, t, l = it["outcome"]
    p, kind, scale = w + t / 2, spec["kind"], spec.get("scale", 10)
    sa, sb = scale * z[a, 0], scale * z[b, 0]
    d = sa - sb

    def win(x):
        return -p * F.logsigmoid(x) - (1 - p) * F.logsigmoid(-x)

    if kind == "bradley_terry":
        return win(d)
    if kind == "bradley_terry_margin":
        m = spec.get("margin", 1) * it["margin"]
        return -p * F.logsigmoid(d - m) - (1 - p) * F.logsigmoid(-d - m)
    if kind == "rao_kupper":
        theta = spec.get("theta", 1.5)
        pa = sa - torch.logaddexp(sa, sb + math.log(theta))
        pb = sb - torch.logaddexp(sb, sa + math.log(theta))
        return -w * pa - l * pb - t * (math.log(theta ** 2 - 1) + pa + pb)
    if kind == "davidson":
        logp = F.log_softmax(torch.stack([sa, (sa + sb) / 2 + math.log(spec.get("nu", 1)), sb]), 0)
        return -(w * logp[0] + t * logp[1] + l * logp[2])
    if kind == "center":
        c = spec.get("center", 0.5)
        return (scale * (z[a, 0] - c) + scale * (z[b, 0] - c)) ** 2
    s = sigma(z)
    both = torch.sqrt(s[a] ** 2 + s[b] ** 2)
    if kind == "thurstone":
        x = (z[a, 0] - z[b, 0]) / both
        return -p * torch.special.log_ndtr(x) - (1 - p) * torch.special.log_ndtr(-x)
    if kind == "gaussian_logistic":
        return win(d / torch.sqrt(1 + math.pi / 8 * (scale * both) ** 2))
    assert kind == "gaussian_draws"
    x = scale * (torch.tensor(draws) * both + z[a, 0] - z[b, 0])
    return -p * F.logsigmoid(x).mean() - (1 - p) * F.logsigmoid(-x).mean()


def listwise(spec, z, it):
    x = spec.get("scale", 10) * z[:, 0]
    total = 0
    for e, r in zip(it["edits"], it["ranks"]):
        left = [f for f, q in zip(it["edits"], it["ranks"]) if q >= r]
        total = total - F.log_softmax(x[left], 0)[left.index(e)]
    return total


def case(name, spec, z, items, outputs="value", values=(), draws=(), learned=None):
    z = z.clone().requires_grad_()
    if learned is not None:
        learned = torch.tensor(learned).float().double().requires_grad_()
    if spec["kind"] == "plackett_luce":
        each = [listwise(spec, z, it) for it in items]
    elif "label" in items[0]:
        each = [pointwise(spec, z, it, values, learned) for it in items]
    else:
        each = [pairwise(spec, z, it, draws) for it in items]
    loss = spec.get("weight", 1) * sum(e * it["weight"] for e, it in zip(each, items))
    loss.backward()
    grad = torch.zeros_like(z) if z.grad is None else z.grad
    assert all(math.isfinite(e.item()) for e in each) and torch.isfinite(grad).all(), name
    out = {"name": name, "spec": spec, "outputs": outputs, "values": list(values), "z": z.tolist(), "items": items,
           "draws": list(draws), "losses": [e.item() for e in each], "loss": loss.item(), "grad": grad.tolist()}
    if learned is not None:
        out |= {"cuts": learned.tolist(), "grad_cuts": learned.grad.tolist()}
    return out


def tables():
    labels = torch.tensor([0, 1, 0.5, 0.25, 0.75, 1, 0, 0.3, 1, 0]).float().double()
    n = len(labels)
    far = torch.tensor([[1e3], [-1e3], [0.5], [1e3], [-1e3], [1e3], [-1e3], [0.3], [0.25], [0.75]])
    one, two = scores(n, 1, 0.6), torch.cat([scores(n, 1, 0.6), scores(n, 1, 1)], 1)
    spread = torch.cat([far, torch.tensor([[0.0], [3], [-3], [50], [-50], [9], [-9], [0], [1], [2]])], 1)
    far, spread = far.float().double(), spread.float().double()
    out = []
    for spec in [{"kind": "l1", "weight": 10}, {"kind": "mse"}, {"kind": "huber"}, {"kind": "huber", "delta": 0.5}, {"kind": "bce"},
                 {"kind": "bce", "scale": 1, "center": 0.0}, {"kind": "ordinal"},
                 {"kind": "ordinal", "scale": 3, "values": [0, 0.1, 0.4, 1]}]:
        for name, z in [("usual", one), ("far", far)]:
            out.append(case(name, spec, z, edits(n, labels)))
    for name, z in [("usual", two), ("far", spread)]:
        out.append(case(name, {"kind": "gaussian"}, z, edits(n, labels), "mu_sigma"))
    for name, z in [("usual", scores(n, 3, 1)), ("far", scores(n, 3, 1).sign() * 1e3)]:
        out.append(case(name, {"kind": "classes"}, z, edits(n, labels), "classes", [0, 0.5, 1]))
    return out + comparisons(one, two, far, spread) + soft(one, two, far, spread)


def soft(one, two, far, spread):
    """Several ratings of an edit, each an item, checked against torch's own loss for a full distribution."""
    ratings = [[0.25, 0.125, 0.875], [1, 1, 1], [0, 0.5, 1, 0.3125], [0.75], [], [0, 0.0625], [0.5, 0.5625], [0.25, 1], [0, 1],
               [0.4375]]
    items = [{"edits": [i], "label": float(y), "weight": torch.tensor(0.5 / len(r)).float().item()}
             for i, r in enumerate(ratings) for y in r]
    ten, five = scores(10, 5, 1), [0, 0.25, 0.5, 0.75, 1]
    out = [case(name, {"kind": kind, "votes": "soft"}, z, items) for kind in ["l1", "mse", "huber", "bce", "ordinal"]
           for name, z in [("ratings", one), ("ratings, far", far)]]
    out += [case(name, {"kind": "gaussian", "votes": "soft"}, z, items, "mu_sigma")
            for name, z in [("ratings", two), ("ratings, far", spread)]]
    for name, z in [("ratings", ten), ("ratings, far", ten.sign() * 1e3)]:
        c = case(name, {"kind": "classes", "votes": "soft"}, z, items, "classes", five)
        asked = [i for i, r in enumerate(ratings) if r]
        target = torch.stack([torch.stack([two_hot(five, y) for y in ratings[i]]).mean(0) for i in asked])
        whole = 0.5 * F.cross_entropy(z[asked], target, reduction="sum")
        assert abs(whole.item() - c["loss"]) <= 1e-6 * max(1, abs(c["loss"])), (whole, c["loss"])
        out.append(c)
    return out


def comparisons(one, two, far, spread):
    outcomes = [[1, 0, 0], [0, 0, 1], [0, 1, 0], [0.5, 0.25, 0.25], [0.75, 0, 0.25]]
    sides = [(0, 1), (1, 0), (2, 3), (0, 3), (4, 6), (5, 7), (8, 9), (7, 2), (3, 5), (6, 4)]
    items = [{"edits": list(e), "outcome": outcomes[i % 5], "margin": 0.25 * (i % 4), "weight": 0.5 + i / 8}
             for i, e in enumerate(sides)]
    out = []
    for spec in [{"kind": "bradley_terry"}, {"kind": "bradley_terry", "scale": 1, "weight": 2.5}, {"kind": "bradley_terry_margin"},
                 {"kind": "bradley_terry_margin", "scale": 1, "margin": 2}, {"kind": "rao_kupper"},
                 {"kind": "rao_kupper", "theta": 3, "scale": 1}, {"kind": "davidson"}, {"kind": "davidson", "nu": 0.3, "scale": 1},
                 {"kind": "center", "weight": 0.01}, {"kind": "center", "scale": 1, "center": 0.0}]:
        for name, z in [("usual", one), ("far", far)]:
            out.append(case(name, spec, z, items))
    equal = torch.full((10, 1), 0.25)
    for kind in ["bradley_terry", "rao_kupper", "davidson"]:
        out.append(case("equal scores", {"kind": kind}, equal, items))
    draws = torch.randn(1000, generator=gen).float().double().tolist()
    for spec in [{"kind": "thurstone"}, {"kind": "gaussian_logistic"}, {"kind": "gaussian_logistic", "scale": 1},
                 {"kind": "gaussian_draws", "scale": 1}, {"kind": "gaussian_draws", "draws": 40}]:
        for name, z in [("usual", two), ("far", spread)]:
            d = draws[:spec.get("draws", 1000)] if spec["kind"] == "gaussian_draws" else []
            out.append(case(name, spec, z, items, "mu_sigma", draws=d))
    orders = [{"edits": [3, 1, 0], "ranks": [0, 1, 2], "weight": 0.5}, {"edits": [2, 4, 5, 6], "ranks": [1, 0, 1, 2], "weight": 1.0},
              {"edits": [7, 8, 9], "ranks": [0, 0, 0], "weight": 2.0}]
    for spec in [{"kind": "plackett_luce"}, {"kind": "plackett_luce", "scale": 1}]:
        for name, z in [("usual", one), ("far", far), ("equal scores", equal)]:
            out.append(case(name, spec, z, orders))
    labels = [0, 1, 0.5, 0.25, 0.75, 1, 0, 0.3, 1, 0]
    for values, cuts in [([0, 0.5, 1], [0.25, math.log(0.5)]), ([0, 0.25, 0.5, 1], [-0.3, -4, 1.5]), ([0, 1], [0.4]),
                         ([0, 0.5, 1], [0.5, -9])]:
        for name, z in [("usual", one), ("far", far)][:1 if cuts[-1] == -9 else 2]:  # torch's differences cancel there
            for scale in (10, 1):
                spec = {"kind": "ordinal", "cuts": "learned", "values": values, "scale": scale}
                out.append(case(f"learned cuts, {name}", spec, z, edits(10, labels), learned=cuts))
    return out


def normal_table():
    """erfcx(u) (1 + sqrt(pi) u) for u >= 0 as a Chebyshev series in v = (u - 2)/(u + 2), -1 to 1. The function is 1 at both ends."""
    mpmath.mp.dps = 40

    def f(v):
        if v >= 1:
            return mpmath.mpf(1)
        u = 2 * (1 + v) / (1 - v)
        if u > 200:  # asymptotic series
            x = sum((-1) ** k * mpmath.fac2(2 * k - 1) / (2 * u * u) ** k for k in range(1, 12))
            return (1 + x) / (u * mpmath.sqrt(mpmath.pi)) * (1 + mpmath.sqrt(mpmath.pi) * u)
        return mpmath.exp(u * u) * mpmath.erfc(u) * (1 + mpmath.sqrt(mpmath.pi) * u)

    n = 96
    nodes = [mpmath.cos(mpmath.pi * (k + mpmath.mpf(1) / 2) / n) for k in range(n)]
    values = [f(v) for v in nodes]
    c = [2 / mpmath.mpf(n) * sum(values[k] * mpmath.cos(mpmath.pi * j * (k + mpmath.mpf(1) / 2) / n) for k in range(n))
         for j in range(n)]
    c[0] /= 2
    keep = max(j for j in range(n) if abs(c[j]) > 1e-16) + 1
    lines = ["// Code generated by tools/oracle/losses.py; DO NOT EDIT.", "", "package losses", "",
             "// normalSeries are the Chebyshev coefficients of erfcx(u) (1 + sqrt(pi) u) in (u - 2)/(u + 2).",
             "var normalSeries = []float64{"]
    lines += [f"\t{float(x)!r}," for x in c[:keep]] + ["}", ""]
    (ROOT / "losses/normal_table.go").write_text("\n".join(lines))


if __name__ == "__main__":
    normal_table()
    path = ROOT / "losses/testdata/torch.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text("[\n" + ",\n".join(json.dumps(c) for c in tables()) + "\n]\n")
