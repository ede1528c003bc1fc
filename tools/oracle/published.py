"""Makes internal/benchmarks/testdata/published.json: numbers for made-up answers, from the benchmark authors' programs.

    python tools/oracle/published.py COPIES internal/benchmarks/testdata/published.json

COPIES holds RISEBench, Bagel, ImgEdit and Edit-Compass-and-EditReward-Compass as cloned from GitHub. Their code runs
here; only the numbers are kept.
"""

import importlib.util
import json
import os
import pickle
import random
import sys
import tempfile
import types

COPIES, OUT = sys.argv[1:]
rng = random.Random(7)


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rise():
    """gpt_eval.py over judges' texts, which it reads from its own pickle."""
    import numpy as np

    np.float_ = np.float64  # its utils use a name that numpy 2 has removed
    sys.path.insert(0, f"{COPIES}/RISEBench")
    sys.modules.setdefault("requests", types.ModuleType("requests"))
    program = load(f"{COPIES}/RISEBench/gpt_eval.py", "gpt_eval")
    data, judges, lines = [], {}, []
    for k in range(40):
        category = ("temporal_reasoning", "causal_reasoning", "spatial_reasoning", "logical_reasoning")[k % 4]
        d = {"index": f"{category}_{k}", "category": category, "subtask": f"s{k % 4}", "instruction": f"do {k}",
             "image": f"{k}.png", "reference": "r", "consistency_free": None}
        if k in (1, 6, 12, 24):
            d["consistency_free"] = True
        if k % 4 == 3:
            del d["consistency_free"]
        data.append(d)
        top = lambda: rng.choice([1, 2, 3, 4, 5, 5, 5, 5])
        one = lambda: rng.choice([0, 1, 1])
        said = lambda n: rng.choice(["So.\n\n**Final Score:** **%d**", "Final Score: %d", "x\n**Final Score**: **%d**\n", "final score %d"]) % n
        line = {"id": d["index"], "model": "M"}
        if category == "logical_reasoning":
            c, r = one(), one()
            judges[d["index"]] = {"judge1": said(c), "judge2": said(r)}
            line.update(consistency=4 * c + 1, reasoning=4 * r + 1)
        else:
            c, r, q = top(), top(), top()
            judges[d["index"]] = {"judge1": said(c), "judge2": said(r), "judge3": said(q)}
            line.update(reasoning=r, plausibility=q)
            if d.get("consistency_free"):
                judges[d["index"]]["judge1"] = None
            else:
                line["consistency"] = c
        lines.append(line)
    with tempfile.TemporaryDirectory() as folder:
        here = os.getcwd()
        os.chdir(folder)
        os.makedirs("out/M")
        json.dump(data, open("data.json", "w"))
        pickle.dump(judges, open("out/M/M.pkl", "wb"))
        dump = program.dump
        program.dump = lambda what, path: None if path.endswith(".xlsx") else dump(what, path)
        sys.argv = ["gpt_eval.py", "--data", "data.json", "--output", "out/M"]
        program.main()
        import pandas as pd

        table = pd.read_csv("out/M/M_judge.csv", index_col=0)
        os.chdir(here)
    expect = {}
    for part in ("Overall", "Temporal", "Causal", "Spatial", "Logical"):
        expect[f"rise as run: {part.lower()}"] = float(table.loc[part, "Score-Percentage"])
        expect[f"accuracy since 2026-04: {part.lower()}"] = 100 * float(table.loc[part, "Accuracy"])
    for column, name in (("Reasoning", "reasoning"), ("ApprConsistency", "consistency"), ("VisualPlausibility_total", "plausibility")):
        expect[f"{name}: overall"] = float(table.loc[f"Overall_{column}", "Score-Origin"])
    return {"data": data, "judges": judges, "lines": lines, "expect": expect}


def kris():
    """summarize.py over results of all categories, some without a number."""
    program = load(f"{COPIES}/Bagel/eval/gen/kris/summarize.py", "summarize")
    annotations, results = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for dimension, categories in program.kris_benchamrk_type.items():
            for category in categories:
                n = rng.randint(2, 4)
                several = category in ("temporal_prediction", "multi-element_composition")
                annotations[category] = {str(k + 1): {
                    "ori_img": [f"{k}-1.jpg", f"{k}-2.jpg"] if several else f"{k}.jpg", "ins_en": f"do {k}", "explain_en": "so"}
                    for k in range(n)}
                results[category] = {}
                for k in annotations[category]:
                    results[category][k] = {"instruction": "x", "explain": "y"}
                    for name in program.kris_benchamrk_metric[dimension]:
                        results[category][k][name] = rng.randint(1, 5)
                os.makedirs(f"{folder}/{category}")
        results["biology"]["1"]["knowledge_score"] = None
        del results["physics"]["2"]["quality_score"]
        for category in results:
            json.dump(results[category], open(f"{folder}/{category}/metrics.json", "w"))
        dimensions, _, knowledge, overall = program.summarize_benchmark_scores_with_normalization(folder)
    expect = {"kris: overall": overall["AVG"]}
    for name, numbers in dimensions.items():
        for short, value in numbers.items():
            expect[f"{'kris' if short == 'AVG' else short}: {name.lower()}"] = value
    for name, numbers in knowledge.items():
        expect[f"kris: {name.lower().removesuffix(' knowledge')}"] = numbers["AVG"]
    return {"annotations": annotations, "results": results, "expect": expect}


def compass():
    """evaluate_dimension() of EditReward-Compass with a model whose scores are known."""
    fake = types.ModuleType("transformers")
    fake.Qwen3VLForConditionalGeneration = fake.AutoProcessor = None
    sys.modules["transformers"] = fake
    program = load(f"{COPIES}/Edit-Compass-and-EditReward-Compass/EditReward-Compass/eval.py", "compass_eval")
    data, scores = [], []
    for k in range(60):
        data.append({"dimension": rng.choice(["IA", "VC", "VQ"]), "source_image": "s.png", "prompt": f"do {k}",
                     "winner": f"{k}w.png", "loser": f"{k}l.png", "label": rng.choice(["preference", "preference", "tie"])})
        a = rng.randint(0, 4)
        scores.append([a, rng.choice([a, a + 5e-6, a - 2e-5, rng.randint(0, 4)])])
    of = {d[side]: scores[k][i] for k, d in enumerate(data) for i, side in enumerate(("winner", "loser"))}

    class Model:
        def inference(self, source, prompt, edit):
            return {"score": of[edit]}

    expect = {d: program.evaluate_dimension(Model(), data, d) for d in ("IA", "VC", "VQ")}
    return {"data": data, "scores": scores, "expect": {d: e["accuracy"] for d, e in expect.items()},
            "correct": sum(e["correct"] for e in expect.values())}


with open(OUT, "w") as f:
    json.dump({"rise": rise(), "kris": kris(), "compass": compass()}, f, indent=0)
