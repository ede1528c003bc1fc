"""Writes internal/benchmarks/testdata: small made-up benchmarks in their published layouts (Parquet by Hugging Face's datasets),
predictions for them, and the numbers from numpy, scipy and scikit-learn. Runs from any folder."""
import json
import math
import pathlib

import numpy as np
from datasets import Dataset, Features, Image, Sequence, Value
from PIL import Image as Pillow
from scipy import stats
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

out = pathlib.Path(__file__).parents[2] / "internal/benchmarks/testdata"
out.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(11)
expected = {}


def lines(name, rows):
    (out / name).write_text("".join(json.dumps(r) + "\n" for r in rows))


def picture(i):
    return Pillow.fromarray(np.full((4, 6, 3), (37 * i) % 256, np.uint8))


def half(n):  # scores with many ties, on 0..10
    return [float(v) for v in rng.integers(0, 21, n) / 2]


def threshold(human, d):
    best = (-1.0, 0.0)
    for eps in sorted({0.0, *np.abs(d).tolist()}):
        acc = float(np.mean(np.where(np.abs(d) <= eps, 0, np.sign(d)) == human))
        best = max(best, (acc, -eps))
    return {"accuracy": best[0], "epsilon": -best[1]}


def adiee(l, r, equal):
    tl, tr = round(l / 5), round(r / 5)  # Python rounds halves to even
    return "left" if tl > tr else "right" if tl < tr else equal(l, r)


# GenAI-Bench: two shards
votes = ["leftvote", "rightvote", "tievote", "bothbad_vote"]
n = 40
vote = [votes[i] for i in rng.choice(4, n, p=[0.27, 0.28, 0.1, 0.35])]
features = Features({"source_image": Image(), "left_output_image": Image(), "right_output_image": Image(),
                     "instruct_prompt": Value("string"), "left_model": Value("string"), "right_model": Value("string"),
                     "vote_type": Value("string")})
rows = {"source_image": [picture(i) for i in range(n)], "left_output_image": [picture(i + 1) for i in range(n)],
        "right_output_image": [picture(i + 2) for i in range(n)], "instruct_prompt": [f"edit {i}" for i in range(n)],
        "left_model": ["a"] * n, "right_model": ["b"] * n, "vote_type": vote}
(out / "genaibench/image_edition").mkdir(parents=True, exist_ok=True)
for k, part in enumerate([slice(0, 25), slice(25, n)]):
    Dataset.from_dict({c: v[part] for c, v in rows.items()}, features=features).to_parquet(
        out / f"genaibench/image_edition/test_v1-0000{k}-of-00002.parquet")
left, right = half(n), half(n)
left[3] = right[3] = 9.5
left[4], right[4] = 7.5, 2.5  # halves: 1.5 and 0.5
lines("genaibench_scores.jsonl", [{"id": i, "left": left[i], "right": right[i]} for i in range(n)])
lines("genaibench_sides.jsonl", [{"id": str(i), "model": s, "score": (left, right)[s == "right"][i]} for i in range(n) for s in ("left", "right")])
side = {"leftvote": 1, "rightvote": -1, "tievote": 0, "bothbad_vote": 0}
names = {"left": "leftvote", "right": "rightvote", "good": "tievote", "bad": "bothbad_vote"}
predicted = [names[adiee(l, r, lambda l, r: "good" if l >= 9 and r >= 9 else "bad")] for l, r in zip(left, right)]
expected["genaibench"] = {"adiee": accuracy_score(vote, predicted), "adiee_confusion": confusion_matrix(vote, predicted, labels=votes).tolist(),
                          "threshold": threshold(np.array([side[v] for v in vote]), np.array(left) - np.array(right))}

# AURORA-Bench
n = 60
models = ["ip2p", "magicbrush", "aurora"]
point = [{"input": f"in/{i}.png", "gen": f"out/{i}.png", "prompt": "p", "score": float(rng.integers(0, 5) / 2), "model": models[i % 3]} for i in range(n)]
scores = [p["score"] * 3 + float(rng.normal() * 3) for p in point]
(out / "human_ratings_updated_prompt.json").write_text(json.dumps(point))
lines("aurora_point.jsonl", [{"id": i, "score": s} for i, s in enumerate(scores)])
human = np.array([p["score"] for p in point])
per = {m: stats.spearmanr(np.array(scores)[k::3], human[k::3]).statistic for k, m in enumerate(models)}
expected["aurora_point"] = {"global": stats.spearmanr(scores, human).statistic, "per_model": per, "per_model_mean": float(np.mean(list(per.values())))}
pair = [{"input": "in.png", "gens": [f"a{i}.png", f"b{i}.png"], "prompt": "p", "models": ["x", "y"], "winner": ["x", "y", "tie"][rng.integers(3)]} for i in range(n)]
(out / "human_ratings_pairwise.json").write_text(json.dumps(pair))
left, right = half(n), half(n)
lines("aurora_pair.jsonl", [{"id": i, "left": left[i], "right": right[i]} for i in range(n)])
truth = [{"x": "left", "y": "right", "tie": "tie"}[p["winner"]] for p in pair]
predicted = [adiee(l, r, lambda l, r: "tie") for l, r in zip(left, right)]
expected["aurora_pair"] = {"adiee": accuracy_score(truth, predicted),
                           "threshold": threshold(np.array([{"left": 1, "right": -1, "tie": 0}[t] for t in truth]), np.array(left) - np.array(right))}

# EditReward-Bench of TIGER-Lab: ids as "group_comparison", score of a candidate per group
comparisons, candidates = [], {}
for k, count in [(2, 20), (3, 12), (4, 10)]:
    for g in range(count):
        group = f"{k}pair{g:03d}"
        letters = "ABCD"[:k]
        order = rng.permutation(k)
        quality = {c: float(order[i]) for i, c in enumerate(letters)}
        for i, c in enumerate(letters):
            candidates[group, c] = quality[c] + float(rng.normal() * 0.7)
        for i in range(k):
            for j in range(i + 1, k):
                a, b = letters[i], letters[j]
                ranking = f"{a}>{b}" if quality[a] > quality[b] else f"{b}>{a}"
                if k == 2 and g % 4 == 0:
                    ranking = ["A=B", "A=B=Good", "A=B=Bad"][g // 4 % 3]
                comparisons.append({"id": f"{group}_{a}vs{b}", "group": group, "dataset": f"{k}pair", "instruction": f"do {group}", "ranking": ranking,
                                    "comparison_type": f"{a}vs{b}", "a": a, "b": b, "source_image": picture(g), "candidate_1": picture(i), "candidate_2": picture(j)})
features = Features({"id": Value("string"), "dataset": Value("string"), "instruction": Value("string"), "source_image": Image(),
                     "candidate_1": Image(), "candidate_2": Image(), "ranking": Value("string"), "comparison_type": Value("string")})
Dataset.from_dict({c: [r[c] for r in comparisons] for c in features}, features=features).to_parquet(out / "tiger.parquet")
lines("tiger_rows.jsonl", [{"id": r["id"], "left": candidates[r["group"], r["a"]], "right": candidates[r["group"], r["b"]]} for r in comparisons])
lines("tiger_candidates.jsonl", [{"id": r["group"] + "_AvsB" if r["dataset"] == "2pair" else r["group"], "model": c, "score": candidates[r["group"], c]}
                                 for r in comparisons if r["comparison_type"] == "AvsB" for c in "ABCD"[:int(r["dataset"][0])]])
two = [r for r in comparisons if r["dataset"] == "2pair"]
k2 = threshold(np.array([1 if r["ranking"] == "A>B" else -1 if r["ranking"] == "B>A" else 0 for r in two]),
               np.array([candidates[r["group"], "A"] - candidates[r["group"], "B"] for r in two]))
hits, totals = {2: round(k2["accuracy"] * len(two))}, {2: len(two)}
for k in (3, 4):
    groups = {}
    for r in comparisons:
        if r["dataset"] == f"{k}pair":
            winner = r["a"] if candidates[r["group"], r["a"]] > candidates[r["group"], r["b"]] else r["b"]
            groups.setdefault(r["group"], []).append(r["ranking"][0] == winner)
    hits[k], totals[k] = sum(map(all, groups.values())), len(groups)
expected["tiger"] = {"k2": k2, "k3": hits[3] / totals[3], "k4": hits[4] / totals[4], "overall": sum(hits.values()) / sum(totals.values())}

# EditReward-Bench of EditScore
rows, scores = [], {}
for i in range(60):
    keys = [f"k{i % 20}_a", f"k{i % 20}_b"]
    rows.append({"key": keys, "task_type": ["subject-add", "text_change", "compose"][i % 3 if i % 5 else 0], "dimension": ["prompt_following", "consistency", "overall"][i // 20],
                 "instruction": f"do {i % 20}", "input_image": picture(i), "output_images": [picture(i + 1), picture(i + 2)]})
    for k in keys:
        scores.setdefault(k, float(rng.integers(0, 9)))
features = Features({"key": Sequence(Value("string")), "task_type": Value("string"), "dimension": Value("string"), "instruction": Value("string"),
                     "input_image": Image(), "output_images": Sequence(Image())})
Dataset.from_dict({c: [r[c] for r in rows] for c in features}, features=features).to_parquet(out / "editscore.parquet")
lines("editscore.jsonl", [{"id": k, "score": v} for k, v in scores.items()])
lines("editscore_pairs.jsonl", [{"key": r["key"], "dimension": r["dimension"], "score": [scores[k] for k in r["key"]]} for r in rows])
expected["editscore"] = {}
for d in ("prompt_following", "consistency", "overall"):
    tasks = {}
    for r in rows:
        if r["dimension"] == d:
            tasks.setdefault(r["task_type"], []).append(scores[r["key"][0]] > scores[r["key"][1]])
    expected["editscore"][d] = float(np.mean([np.mean(v) for v in tasks.values()]))

# AIM-Bench
emotions = ["amusement", "awe", "contentment", "excitement", "anger", "disgust", "fear", "sadness"]
vad = lambda: {k: float(v) for k, v in zip(("valence", "arousal", "dominance"), np.round(rng.uniform(1, 9, 3), 2))}
data, components = [], []
for i in range(80):
    target = {"emotion": emotions[i % 8], "VAD": vad()}
    data.append({"original_image": f"o{i}.jpg", "edited_image": f"e{i}.jpg", "edit_type": ["Add Object", "Replace Object"][i % 2], "edit_prompt": "x",
                 "source_emotion": {"emotion": emotions[(i + 1) % 8], "VAD": vad()}, "target_emotion": target})
    guess = target["emotion"] if rng.random() < (0.8 if i % 8 < 4 else 0.5) else emotions[rng.integers(7)]
    v = vad()
    components.append({"id": i, "clip_t": float(rng.uniform(0.15, 0.33)), "sc": rng.integers(3, 11, 2).tolist(), "aesthetic": float(rng.uniform(3, 8)),
                       "pq": rng.integers(3, 11, 2).tolist(), "s_sm": int(rng.integers(3, 11)), "s_vs": int(rng.integers(3, 11)), "emotion": guess.title(),
                       "vad": v if i % 2 else list(v.values())})
(out / "Instructions.json").write_text(json.dumps(data))
lines("aim.jsonl", components)
truth, guess = [d["target_emotion"]["emotion"] for d in data], [c["emotion"].lower() for c in components]
three = lambda v: np.array(list(v.values()) if isinstance(v, dict) else v)
distance = np.array([np.linalg.norm(three(c["vad"]) - three(d["target_emotion"]["VAD"])) for c, d in zip(components, data)])
means = {"clip_t": np.mean([c["clip_t"] for c in components]), "sc": np.mean([min(c["sc"]) for c in components]), "aesthetic": np.mean([c["aesthetic"] for c in components]),
         "pq": np.mean([min(c["pq"]) for c in components]), "s_gtc": np.mean([min(c["s_sm"], c["s_vs"]) for c in components]),
         "acc": 100 * accuracy_score(truth, guess), "f1": 100 * f1_score(truth, guess, labels=emotions, average="macro", zero_division=0), "d_vad": distance.mean()}
positive = np.array([t in emotions[:4] for t in truth])
hit = np.array(truth) == np.array(guess)
expected["aim"] = {k: float(v) for k, v in means.items()} | {
    "positive": {"acc": 100 * hit[positive].mean(), "d_vad": distance[positive].mean()}, "negative": {"acc": 100 * hit[~positive].mean(), "d_vad": distance[~positive].mean()},
    "confusion": confusion_matrix(truth, guess, labels=emotions).tolist()}

# FED-Bench
rows = []
for i in range(30):
    rows.append({"sample": f"s{i // 2}", "method": "mn"[i % 2], "expression": ["happy", "sad", "fear"][i // 2 % 3], "instructions": ["dense", "simple"][i // 2 % 2],
                 "id": float(rng.uniform(-0.1, 0.9)), "bg_rmse": float(rng.uniform(3, 60)), "pq": float(rng.integers(0, 11)), "sc": float(rng.integers(0, 11)),
                 "gta": float(rng.integers(0, 11)), "lpips_src_trg": float(rng.uniform(0.02, 0.3)), "lpips_src_gt": float(rng.uniform(0.05, 0.2)), "clip_i": float(rng.uniform(0.5, 1))})
votes = [{"sample": f"s{i}", "a": "m", "b": "n", "votes": rng.choice(["a", "b"], 3).tolist()} for i in range(15)]
lines("fed.jsonl", rows)
lines("fed_votes.jsonl", votes)
get = lambda k: np.array([r[k] for r in rows])
bg = 1 - get("bg_rmse") / 255
fid, align = (get("id") + bg + get("pq") / 10) / 3, (get("sc") + get("gta")) / 20
reg = get("lpips_src_trg") / get("lpips_src_gt")
s_reg = np.exp(-((reg - 1) ** 2) / (2 * 0.5**2))
values = {"s_fid": fid, "s_align": align, "reg": reg, "s_reg": s_reg, "fed_score": fid * align * s_reg, "without_reg": fid * align, "without_fidelity": align * s_reg,
          "without_alignment": fid * s_reg, "without_rule": get("pq") / 10 * align, "without_model": (get("id") + bg) / 2 * s_reg}
majority = np.array([1 if v["votes"].count("a") > 1 else -1 for v in votes])
agree = lambda x, lower=False: float(np.mean(np.sign((x[0::2] - x[1::2]) * (-1 if lower else 1)) == majority))
expected["fed"] = {"means": {k: float(v.mean()) for k, v in values.items()}, "happy": float(values["fed_score"][[r["expression"] == "happy" for r in rows]].mean()),
                   "dense": float(values["fed_score"][[r["instructions"] == "dense" for r in rows]].mean()), "first": float(values["fed_score"][0]),
                   "two_afc": {"fed_score": agree(values["fed_score"]), "clip_i": agree(get("clip_i")), "lpips_src_trg": agree(get("lpips_src_trg"), True)},
                   "exp20": float(((get("id") + np.exp(-get("bg_rmse") / 20) + get("pq") / 10) / 3 * align * s_reg).mean())}

clean = json.loads(json.dumps(expected, default=float), parse_constant=lambda c: None)
(out / "expected.json").write_text(json.dumps(clean, indent=1) + "\n")
