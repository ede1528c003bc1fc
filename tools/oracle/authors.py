"""Makes internal/benchmarks/testdata/authors.json: results of the benchmark authors' programs for random answers, some of
them missing or malformed, and the pictures that they show.

    python tools/oracle/authors.py COPIES internal/benchmarks/testdata/authors.json [SEED ...]

COPIES holds copies of the authors' repositories: EditReward and GenAI-Bench (TIGER-AI-Lab), EditScore (VectorSpaceLab), AIM-bench
(chenshi221), Bagel (ByteDance-Seed), MagicBrush (OSU-NLP-Group), Step1X-Edit (with GEdit-Bench/run_gedit_score.py). Their
code runs here; only the numbers are kept. It needs torch, torchvision, scipy, pandas, Pillow and tqdm;
other modules that the programs import are replaced by empty ones. COMMITS lists the commits of the stored file.
"""

import base64
import contextlib
import hashlib
import importlib.util
import io
import json
import os
import random
import sys
import tempfile
import types

import numpy as np
import torch
from PIL import Image

COPIES, OUT = sys.argv[1:3]
SEEDS = [int(s) for s in sys.argv[3:]] or [1, 2, 3, 4, 5]
COMMITS = {"EditReward": "edb027edde6080b8a9521ef8e87049b3797f8374", "EditScore": "6e0f1b9a73b40f227d82d9cb32bd9cfb7189739b",
           "GenAI-Bench": "32fff1f02a7ba652f392095a9b19f288579e8674",
           "AIM-bench": "ca5fe930434cc746702573253beb06767a374fbe", "Bagel": "056b5fd51a88c1eb4547318609e25d40080fcf87",
           "MagicBrush": "fcfc8921396b5e2b047c388028b7c995f5e0ee19",
           "Step1X-Edit": "e78b8113659ec659655e0240093c9777f030f57a; run_gedit_score.py: 62d66f5cb48c1027530da8b85fb0d9dc4c13e763 "
                          "of the fork yuriYanZeXuan/Step1X-Edit"}
VAD = ("valence", "arousal", "dominance")


def load(path, **missing):
    """Imports a program; missing: modules that need not be installed, with the names that the program imports from them."""
    for name, names in missing.items():
        module = types.ModuleType(name.replace("__", "."))
        module.__dict__.update(names)
        sys.modules[module.__name__] = module
    spec = importlib.util.spec_from_file_location("program", f"{COPIES}/{path}")
    module = importlib.util.module_from_spec(spec)
    with contextlib.redirect_stdout(io.StringIO()):
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def folder():
    """Changes to a temporary folder and discards output of programs."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as path, contextlib.redirect_stdout(io.StringIO()), \
            contextlib.redirect_stderr(io.StringIO()):
        os.chdir(path)
        try:
            yield path
        finally:
            os.chdir(here)


def write(path, what):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    json.dump(what, open(path, "w"))


def score(rng):
    """One of a few values, so that differences repeat, and sometimes any value."""
    return rng.choice([rng.randint(0, 8) / 2, rng.randint(0, 8) / 2, rng.randint(3, 5), round(rng.uniform(0, 4), 3)])


eval_bench = load("EditReward/EditReward/evaluate/eval_bench.py", EditReward={"EditRewardInferencer": None})


def tiger(rng):
    """evaluate_edit_reward_bench() of EditReward. A sample without pictures is not counted: its scores are null."""
    samples = []
    for k, n in ((2, rng.randint(1, 40)), (3, rng.randint(1, 20)), (4, rng.randint(1, 12))):
        for _ in range(n):
            letters = list("ABCD"[:k])
            rng.shuffle(letters)
            ranking = ">".join(letters)
            if k == 2:
                ranking = rng.choice(["A>B", "A>B", "B>A", "A<B", "A=B=Good", "A=B=Bad"])
            place = {letter: float(k - letters.index(letter)) for letter in letters}  # so that many rankings are right
            scores = [place[c] if rng.random() < 0.8 and k > 2 else score(rng) for c in "ABCD"[:k]]
            samples.append({"k": k, "ranking": ranking, "scores": scores if rng.random() < 0.9 else None})
    values = {f"{i}/{j}": v for i, s in enumerate(samples) for j, v in enumerate(s["scores"] or [])}
    inferencer = types.SimpleNamespace(
        reward=lambda prompts, image_src, image_paths: torch.tensor([[values[p]] for p in image_paths], dtype=torch.float64))
    with folder():
        for k in (2, 3, 4):
            write(f"data/EditReward_Bench_{k}pair.json", [
                {"prompt": "p", "path_src": "s.png" if s["scores"] else "", "paths_generated": [f"{i}/{j}" for j in range(k)],
                 "human_vote": {"ranking": s["ranking"]}} for i, s in enumerate(samples) if s["k"] == k])
        eval_bench.evaluate_edit_reward_bench(inferencer, io.StringIO(), "x_accuracy.json", "data")
        return {"samples": samples, "expect": json.load(open("x_accuracy.json"))}


def thresholds(rng):
    """calc_accuracy_with_ties() of EditReward, which scores GenAI-Bench and AURORA-Bench. It ignores pairs without both scores."""
    n = rng.choice([1, 2, 3, 8, 60])
    pairs = [{"human": rng.choice([1, -1, 0]), "scores": [score(rng), score(rng)] if rng.random() < 0.9 else [score(rng), None]}
             for _ in range(n)]
    if not any(p["scores"][1] is not None for p in pairs):
        pairs[0]["scores"] = [1, 2]
    whole = [p for p in pairs if p["scores"][1] is not None]
    accuracy = eval_bench.calc_accuracy_with_ties([p["human"] for p in whole], [p["scores"][0] - p["scores"][1] for p in whole])
    return {"pairs": pairs, "expect": accuracy}


def votes(rng):
    """parse_response() of GenAI-Bench's inference.py: answers of models, and whether they are right."""
    empty = {name: {} for name in ("fire", "av", "requests", "datasets", "genaibench")}
    program = load("GenAI-Bench/inference.py", **empty, genaibench__mllm_tools={"MLLM_Models": None},
                   genaibench__utils={"load_template": None, "process_video_into_frames": None})
    out = []
    for _ in range(40):
        vote = rng.choice(["A>B", "A>>B", "B>A", "B>>A", "A=B", "A=B=Good", "A=B=Bad", "A > B", "a>b", "A=B=good", "B<A", ""])
        said = rng.choice(["[[%s]]", "[[%s]]", "[[%s]]", "The better one:\n[[%s]]", "[[%s]] since the cat is red.", "[%s]", " [[%s]]\n",
                           "[[%s]] or [[A>B]]", "[[\n%s]]", "[[[%s]]]", "**[[%s]]**", "I would say\n[[%s]]\nor\n[[B>A]]"]) % vote
        human = rng.choice(["leftvote", "rightvote", "tievote", "bothbad_vote"])
        out.append({"vote_type": human, "answer": said, "correct": program.parse_response(said, human)[1]})
    return out


def aim(rng):
    """overall_auto.py over an editor's result files. The first sample is complete: the program turns a column without values into 0."""
    emotions = ["amusement", "anger", "awe", "contentment", "disgust", "excitement", "fear", "sadness"]
    rate = lambda: {k: round(rng.uniform(1, 9), 1) for k in VAD}
    ten = lambda: rng.choice([rng.randint(4, 10), round(rng.uniform(6, 10), 1)])
    near = lambda vad: {k: round(min(9, max(1, v + rng.uniform(-2.5, 2.5))), 1) for k, v in vad.items()}
    often = lambda: len(data) < 2 or rng.random() < 0.85
    data, files = [], {name: [] for name in ("longclip_scores", "aesthetic", "evaluation_scores", "evaluation_results",
                                             "evaluation_vad_results_gpt-4o")}
    for i in range(rng.randint(3, 24)):
        target = rng.choice(emotions)
        base, out = f"p{i}", f"p{i}_edited_{target}.png"
        data.append({"original_image": base + ".jpg", "edited_image": f"{base}_{target}_instruction_1.png",
                     "edit_type": rng.choice(["color", "object"]), "edit_prompt": f"do {i}", "source_emotion": {"emotion": "fear"},
                     "target_emotion": {"emotion": target, "VAD": rate()}})
        if often():
            files["longclip_scores"].append({"edited_filename": out,
                                             "longclip_similarity_score": rng.uniform(0.15, 0.33) if often() else None})
        if often():
            files["aesthetic"].append({"name": out, "score": rng.uniform(3, 8) if often() else None})
        if often():
            row = {"edited_filename": out}
            for name in ("sc_scores", "pq_scores", "gtc_scores"):
                row[name] = [ten(), ten()] if often() else rng.choice([[], None])
            files["evaluation_scores"].append(row)
        if often():
            row = {"image_name": out, "target_emotion": target, "is_correct": False, "details": {}}
            said = target if i == 0 else rng.choice([target, target, rng.choice(emotions), rng.choice(["joy", "neutral", "Awe", "error", "exception", None])])
            if said is not None:
                row["predicted_emotion"], row["is_correct"] = said, said == target
            files["evaluation_results"].append(row)
        if often():
            row = {"edited_image": out, "target_emotion": target, "ground_truth_vad": data[-1]["target_emotion"]["VAD"],
                   "predicted_vad": near(data[-1]["target_emotion"]["VAD"])}
            kind = rng.randint(0, 9) if i else 9
            if kind == 0:
                row["predicted_vad"] = {"error": "no answer"}
            elif kind == 1:
                row = {"edited_image": out, "predicted_vad": {"error": "Executor exception"}}
            elif kind == 2:
                del row["predicted_vad"]["arousal"]
            elif kind == 3:
                del row["ground_truth_vad"]
            files["evaluation_vad_results_gpt-4o"].append(row)
    program = load("AIM-bench/overall_auto.py")
    with folder():
        for name, rows in files.items():
            write(f"M/eval/{name}.json", rows)
        table = program.build_leaderboard(program.extract_raw_data(["M"], "none.json", "raw.csv"), "board.csv")
        row = table.iloc[0]
    names = {"CLIP-T": "clip_t", "SC": "sc", "A": "aesthetic", "PQ": "pq", "S_GTC": "s_gtc", "ACC": "acc", "F1": "f1",
             "D_VAD": "d_vad", "Overall": "overall"}
    return {"data": data, "files": files, "expect": {ours: float(row[theirs]) for theirs, ours in names.items()}}


def kris(rng):
    """summarize.py of Bagel's evaluation. Scores that a category does not have are ignored."""
    program = load("Bagel/eval/gen/kris/summarize.py")
    every = ["consistency_score", "quality_score", "instruction_score", "knowledge_score"]
    annotations, results = {}, {}
    for dimension, categories in program.kris_benchamrk_type.items():
        for category in categories:
            n = rng.randint(1, 4)
            annotations[category] = {str(k + 1): {"ori_img": f"{k}.jpg", "ins_en": f"do {k}", "explain_en": "so"} for k in range(n)}
            results[category] = {}
            for k in annotations[category]:
                sample = {"instruction": "x", "explain": "y"}
                for name in every:
                    if rng.random() < 0.85:
                        sample[name] = rng.randint(1, 5) if rng.random() < 0.9 else None
                    elif name == "knowledge_score" and rng.random() < 0.5:
                        sample["knowledge_reasoning"] = "none"
                results[category][k] = sample
            if rng.random() < 0.15:
                del results[category]
    with folder() as path:
        for category in results:
            write(f"{category}/metrics.json", results[category])
        dimensions, _, knowledge, overall = program.summarize_benchmark_scores_with_normalization(path)
    wanted = {c: every[:4 if "knowledge_score" in program.kris_benchamrk_metric[d] else 3]
              for d, categories in program.kris_benchamrk_type.items() for c in categories}
    expect = {"kris: overall": overall["AVG"]}
    for name, numbers in dimensions.items():
        for short, value in numbers.items():
            expect[f"{'kris' if short == 'AVG' else short}: {name.lower()}"] = value
    for name, numbers in knowledge.items():
        expect[f"kris: {name.lower().removesuffix(' knowledge')}"] = numbers["AVG"]
    pooled = [r.get(m) for c in annotations for r in [results.get(c, {}).get(k, {}) for k in annotations[c]] for m in wanted[c]]
    return {"annotations": annotations, "results": results, "expect": expect, "of": len(pooled),
            "used": sum(v is not None for v in pooled)}


def picture(rng, mode, width=0, height=0):
    """A picture with different colours under its transparent and opaque pixels."""
    width, height = width or rng.randint(3, 24), height or rng.randint(3, 24)
    noise = np.random.default_rng(rng.randint(0, 1 << 30))
    smooth = Image.fromarray(noise.integers(0, 256, (4, 5, 4), np.uint8)).resize((width, height))
    out = {"RGB": smooth.convert("RGB"), "RGBA": smooth, "LA": smooth.convert("LA"), "L": smooth.convert("L")}.get(mode)
    data = io.BytesIO()
    if mode == "P":
        out = smooth.convert("RGB").quantize(16)
        out.save(data, "PNG", transparency=bytes(noise.integers(0, 256, 16, np.uint8)))
    elif mode == "key":  # one colour is transparent
        out = smooth.convert("RGB")
        out.save(data, "PNG", transparency=out.getpixel((0, 0)))
    elif mode == "grey key":
        out = smooth.convert("L")
        out.save(data, "PNG", transparency=out.getpixel((0, 0)))
    else:
        out.save(data, "PNG")
    return data.getvalue()


MODES = ["RGB", "RGBA", "LA", "L", "P", "key", "grey key"]
text = lambda raw: base64.b64encode(raw).decode()
digest = lambda image: {"size": image.size, "sha256": hashlib.sha256(image.tobytes()).hexdigest()}


def magicbrush(rng):
    """eval_distance() of image_eval.py."""
    empty = {"clip": {}, "pyiqa": {}, "pyiqa__utils": {}, "pyiqa__utils__img_util": {"is_image_file": None}}
    program = load("MagicBrush/evaluation/image_eval.py", **empty)
    pairs = []
    for mode in MODES:
        raw = [picture(rng, mode), picture(rng, rng.choice(MODES))]
        with folder():
            for i, name in enumerate("ab"):
                open(name, "wb").write(raw[i])
            pairs.append({"edit": text(raw[0]), "target": text(raw[1]),
                          "expect": {m: program.eval_distance([("a", "b")], m) for m in ("l1", "l2")}})
    return pairs


class Judge:
    """Records the pictures that it is shown."""

    def evaluate(self, pictures, _, **more):
        self.shown = pictures
        return 1, 1, 1


def editscore(rng):
    """process_single_item() of EditScore's evaluation.py."""
    program = load("EditScore/evaluation.py", dotenv={"load_dotenv": lambda **_: None}, editscore={"EditScore": None},
                   datasets={"Dataset": None, "load_dataset": None})
    shown = []
    for mode in MODES:
        source, first, second = picture(rng, rng.choice(MODES)), picture(rng, mode), picture(rng, rng.choice(MODES))
        opened = [Image.open(io.BytesIO(raw)) for raw in (source, first, second)]
        row = {"key": ["a", "b"], "instruction": "do", "input_image": opened[0], "output_images": opened[1:]}
        made = []
        for key, item in program._load_item(row):
            judge = Judge()
            program.process_single_item(key, item, judge)
            made.append([digest(p) for p in judge.shown])
        shown.append({"source": text(source), "edits": [text(first), text(second)], "expect": made})
    return shown


def gedit(rng):
    """process_single_item() of GEdit-Bench's run_gedit_score.py."""
    program = load("Step1X-Edit/GEdit-Bench/run_gedit_score.py", viescore={"VIEScore": None}, megfile={"smart_open": open},
                   datasets={"load_dataset": None, "load_from_disk": None})
    shown = []
    for mode in MODES:
        source, edit, judge = picture(rng, rng.choice(MODES)), picture(rng, mode), Judge()
        with folder():
            open("edit", "wb").write(edit)
            program.process_single_item({"instruction": "do", "key": "k", "instruction_language": "en", "Intersection_exist": True,
                                         "edited_image_path": "edit", "input_image_raw": Image.open(io.BytesIO(source))}, judge, 1)
        shown.append({"source": text(source), "edit": text(edit), "expect": [digest(p) for p in judge.shown]})
    return shown


def gedit_means(rng):
    """analyze_scores() of GEdit-Bench's calculate_statistics.py over result files in which some rows are missing."""
    import csv

    program = load("Step1X-Edit/GEdit-Bench/calculate_statistics.py", megfile={"smart_open": open})
    data, rows = [], {}
    for task in program.GROUPS:
        rows[task] = []
        for k in range(rng.randint(3, 8)):
            language = "en" if k == 0 else "cn" if k == 1 else rng.choice(["en", "cn"])
            key, meets = f"{task}-{k}", rng.random() < 0.8
            data.append({"task_type": task, "key": key, "instruction": "do", "instruction_language": language, "Intersection_exist": meets})
            if k < 2 or rng.random() < 0.8:
                rows[task].append({
                    "source_image": f"M/fullset/{task}/{language}/{key}_SRCIMG.png", "edited_image": f"M/fullset/{task}/{language}/{key}.png",
                    "instruction": "do", "sementics_score": rng.randint(0, 10), "quality_score": rng.choice([rng.randint(0, 10), 7.5]),
                    "intersection_exist": meets, "instruction_language": language})
    files, expect = {}, {}
    with folder():
        for task, list_ in rows.items():
            with open(f"M_{task}_gpt_score.csv", "w", newline="") as f:
                writer = csv.DictWriter(f, list(list_[0]))
                writer.writeheader()
                writer.writerows(list_)
            files[f"M_{task}_gpt_score.csv"] = open(f"M_{task}_gpt_score.csv").read()
        for language in ("en", "cn"):
            made = program.analyze_scores(".", ["M"], language)
            for k, (column, of) in enumerate([("G_SC", "avg_semantics"), ("G_PQ", "avg_quality"), ("G_O", "avg_overall")] * 2):
                v = float(made[k]["M"][of])
                expect[f"{column}: {language}" + ", intersection" * (k > 2)] = None if v != v else v
    return {"data": data, "files": files, "expect": expect}


parts = {"tiger": tiger, "thresholds": thresholds, "votes": votes, "aim": aim, "kris": kris, "magicbrush": magicbrush, "editscore": editscore,
         "gedit": gedit, "gedit_means": gedit_means}
out = {"commits": COMMITS, "seeds": SEEDS}
for name, make in parts.items():
    more = 6 if name == "thresholds" else 1  # these are short
    out[name] = [make(random.Random(f"{name} {seed} {k}")) for seed in (SEEDS[:2] if name in ("magicbrush", "editscore", "gedit", "gedit_means") else SEEDS)
                 for k in range(more)]
with open(OUT, "w") as f:
    json.dump(out, f, separators=(",", ":"))
    f.write("\n")
