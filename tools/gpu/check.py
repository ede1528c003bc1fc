"""Tests an NVIDIA GPU: python tools/gpu/check.py BIN FIXTURES OUT [part,part...]

BIN has train and score (make cuda, with a runtime that has ONNX Runtime's CUDA provider), FIXTURES is testdata/oracle. The
commands run on the CPU and on the GPU; scores are compared with the fixtures, losses and gradients with the CPU. Writes
OUT/report.md, and the output of the commands to OUT/log. Needs only the standard library; PyTorch and transformers for
comparison figures. WAYS: regular expression of the ways of training to test; SCORERS: of the runs whose scorers are timed.
"""
import base64
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
import urllib.request
from pathlib import Path

from common import (BIN, FIXTURES, GPU, LOG, OUT, WORK, backbone, config, conversations, furthest, gpu_memory, groups, losses, pace, released, run, say, small,
                    steps, table, tensor, watched, wholes)
from generation import generation


def scores():
    say("\n## Scores of the fixtures\n\n| family | scorer | pairs | CPU from transformers | GPU from transformers |\n|---|---|---|---|---|")
    for cases in sorted(FIXTURES.glob("*/cases*.json")):
        by = {}
        for c in json.loads(cases.read_text()):
            by.setdefault(c["scorer"], []).append(c)
        for scorer, rows in by.items():
            far = []
            for device in ("cpu", GPU):
                folder = WORK / "scores" / cases.parent.name / scorer / device.replace(":", "")
                folder.mkdir(parents=True, exist_ok=True)
                table = folder / "in.jsonl"
                table.write_text("".join(json.dumps({
                    "id": str(c["id"]), "sources": [str(cases.parent / s) for s in c.get("sources") or [c["source"]]],
                    "edit": str(cases.parent / c["edited"]), "instruction": c["instruction"]}) + "\n" for c in rows))
                run(BIN / "score", "batch", "--scorer", cases.parent / scorer, "--in", table, "--out", folder / "out.jsonl", "--device", device)
                got = [json.loads(line)["score"] for line in (folder / "out.jsonl").read_text().splitlines()]
                far.append(furthest(g - c["score"] for g, c in zip(got, rows, strict=True)))
            say(f"| {cases.parent.name} | {scorer} | {len(rows)} | {far[0]:.1e} | {far[1]:.1e} |")


def gradients():
    say("\n## Pixel gradients\n\n| scorer | GPU from CPU, of the largest |\n|---|---|")
    for family, scorer in ("llavanext", "scorer"), ("qwen2_5_vl", "scorer"), ("qwen3_vl", "scorer_sequence"):
        both = []
        for device in ("cpu", GPU):
            out = WORK / f"{family}-{device[:4]}.safetensors"
            run(BIN / "score", "gradient", "--scorer", FIXTURES / family / scorer, "--source", FIXTURES / "images/chelsea.png",
                "--edit", FIXTURES / "images/chelsea_mirror.png", "--instruction", "mirror it", "--out", out, "--device", device)
            both.append(tensor(out))
        top = max(map(abs, both[0]))
        say(f"| {family}/{scorer} | {furthest(x - y for x, y in zip(*both)) / top:.1e} |")


def training():
    say("\n## Ten steps\n\n| scorer | type | losses, GPU from CPU, relative | seconds a step, CPU | GPU |\n|---|---|---|---|---|")
    for family, scorer in ("llavanext", "scorer"), ("qwen2_5_vl", "scorer"), ("qwen3_vl", "scorer"):
        for dtype in "float32", "bfloat16":
            seen = []
            for device in ("cpu", GPU):
                name = f"{family}-{dtype}-{device[:4]}"
                run(BIN / "train", "--config", config(name, init=str(FIXTURES / family / scorer), device=device, dtype=dtype))
                seen.append(losses(name))
            far = furthest((x["loss"] - y["loss"]) / x["loss"] for x, y in zip(*seen))
            say(f"| {family} | {dtype} | {far:.1e} | {pace(seen[0]):.3f} | {pace(seen[1]):.3f} |")


def stop():
    say("\n## Ctrl-C\n")
    path = config("stop", init=str(FIXTURES / "qwen2_5_vl/scorer"), device=GPU, steps=100000)
    p = subprocess.Popen([str(BIN / "train"), "--config", str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(15)
    begin = time.time()
    p.send_signal(signal.SIGINT)
    out = p.communicate(timeout=120)[0]
    LOG.write(out[-2000:])
    done = len(losses("stop"))
    say(f"Exit code {p.returncode} (3: state saved) {time.time() - begin:.1f} s after SIGINT, at step {done}.")
    cfg = json.loads(path.read_text())
    path.write_text(json.dumps(cfg | {"steps": done + 5}))
    run(BIN / "train", "--config", path, "--force-resume")
    say(f"Called again: {len(losses('stop'))} steps, want {done + 5}.")


def size(label, folder, dtype, **more):
    name = "size-" + "".join(c if c.isalnum() else "-" for c in label) + dtype
    path = config(name, **({"backbone": str(folder), "device": GPU, "dtype": dtype, "steps": 20, "batch_size": 8, "pair": "sequence",
                            "question": "How well was [INSTRUCTION] done?", "answer": "It is [SCORE].", "lora": {"targets": ["q_proj", "v_proj"]}} | more))
    try:
        dry = json.loads(run(BIN / "train", "--config", path, "--dry-run", "--json").stdout)
        LOG.write(json.dumps(dry) + "\n")
        used, rows = watched(path), losses(name)
        waited = max(r.get("waited") or 0 for r in rows[2:])
        tokens, median = rows[-1]["tokens"], sorted(steps(rows))[len(steps(rows)) // 2]
        say(f"| {label} | {dtype} | {dry['micro_batch']} | {tokens / pace(rows):.0f} | {tokens / median:.0f} | {pace(rows):.3f} | {used} | {dry['need'] / 2**20:.0f} | {waited:.2f} |")
    except Exception as e:
        say(f"| {label} | {dtype} | FAILED: {str(e)[-300:]} |")


def speeds(title):
    say(f"\n## {title}\n\n| model | type | micro-batch | tokens/s, fastest | median | seconds a step | memory, MB | planned | waited |" + "\n" + "|---" * 9 + "|")


def tower():
    """The 1.1 B model with a tower of 8 layers."""
    return backbone("one-tower", hidden=2048, intermediate=5632, layers=24, heads=16, kv_heads=8, vision_hidden=1280, vision_heads=16,
                    vision_layers=8, vision_intermediate=3424)


def peer(folder, *args):
    """A row of PyTorch; liger needs the package liger-kernel."""
    p = run(sys.executable, Path(__file__).with_name("peer.py"), folder, *args, ok=(0, 1))
    say(p.stdout.strip() or f"PyTorch, {args}: FAILED: {p.stderr.strip().splitlines()[-1]}")


def sizes():
    speeds("Larger")
    one = backbone("one", hidden=2048, intermediate=5632, layers=24, heads=16, kv_heads=8)
    for dtype in "float32", "bfloat16":
        for micro in 1, "auto":
            size(f"1.1 B, {micro}", one, dtype, micro_batch=micro)
    for kernels in "plain", "liger":
        peer(one, kernels)
    size("1.1 B, auto, recomputed", one, "bfloat16", micro_batch="auto", recompute="layers")
    size("1.1 B, auto, every weight", one, "bfloat16", micro_batch="auto", mode="full", lora=None)
    size("1.1 B, whole groups", one, "bfloat16", data={"train": groups()}, losses=[{"kind": "bradley_terry"}])
    four = WORK / "one-four"
    four.exists() or run(BIN / "train", "quantize", "--backbone", one, "--out", four, "--bits", "4", "--block", "128")
    for dtype in "float32", "bfloat16":
        size("1.1 B, 4 bits, auto", four, dtype, micro_batch="auto")


def fused():
    """Steps with fused operators compared with plain ones: losses of runs like the fixtures', then speed and memory."""
    one = tower()
    speeds("Fused operators")
    for micro in 1, 8:
        for kernels in "plain", "fused":
            size(f"1.1 B, {micro}, {kernels}", one, "bfloat16", micro_batch=micro, device_options={"kernels": kernels})
    size("1.1 B, whole groups, fused", one, "bfloat16", data={"train": groups()}, losses=[{"kind": "bradley_terry"}], device_options={"kernels": "fused"})
    seen = {k: losses("size-" + "".join(c if c.isalnum() else "-" for c in f"1.1 B, 8, {k}") + "bfloat16") for k in ("plain", "fused")}
    far = furthest((x["loss"] - y["loss"]) / x["loss"] for x, y in zip(*seen.values(), strict=True))
    say(f"\nLosses of {len(seen['plain'])} steps, fused from plain: at most {far:.1e} apart.")
    if not far <= 0.05:
        raise SystemExit("fused operators have different losses")


def seven():
    speeds("6.5 B")
    begin = time.time()
    big = backbone("seven", hidden=3584, intermediate=18944, layers=28, heads=28, kv_heads=4)
    print(f"(made in {time.time() - begin:.0f} s)", flush=True)
    size("6.5 B, auto", big, "bfloat16", micro_batch="auto")
    size("6.5 B, auto, recomputed", big, "bfloat16", micro_batch="auto", recompute="layers")


NEW = {"cache": {"vision": "1MiB"}}  # the tower runs in every step, as over pictures that are new


def ours():
    """Fused steps: known and new pictures, pairs and a group of eight edits, other options of LoRA. Beside Liger: peers."""
    one = tower()
    speeds("Fused, beside Liger")
    whole = {"data": {"train": wholes()}, "losses": [{"kind": "bradley_terry"}]}
    dropout = {"lora": {"targets": ["q_proj", "v_proj"], "dropout": 0.05}}
    linear = {"lora": {"targets": "all-linear"}}
    for label, more in (("8", {"micro_batch": 8}), ("1", {"micro_batch": 1}), ("8, new pictures", {"micro_batch": 8} | NEW), ("group of 8, new pictures", whole | NEW),
                        ("group of 8", whole), ("1, new pictures", {"micro_batch": 1} | NEW), ("8, dropout", {"micro_batch": 8} | dropout),
                        ("8, all matrices", {"micro_batch": 8} | linear), ("8, recomputed", {"micro_batch": 8, "recompute": "layers"}),
                        ("8, every weight", {"micro_batch": 8, "mode": "full", "lora": None}), ("8, validation", {"micro_batch": 8, "validate": {"every": 5},
                         "data": {"train": str(table()), "validation": str(table())}})):
        size(f"1.1 B, {label}", one, "bfloat16", **more)


def peers():
    speeds("PyTorch, fastest steps")
    for what, batches in (("text", "8,1"), ("tower", "8,1")):
        peer(tower(), "liger", batches, what)


def answers():
    """Training by rewards of answers."""
    say("\n## Answers\n\n| steps | loss of the first and last | seconds a step | memory, MB | planned |\n|---|---|---|---|---|")
    grpo = {"beta": 0.04, "num_iterations": 2, "num_generations": 8, "max_completion_length": 64, "rewards": [{"kind": "match"}]}
    path = config("answers", backbone=str(tower()), device=GPU, dtype="bfloat16", mode="text", objective="grpo", grpo=grpo, steps=6, batch_size=8,
                  micro_batch=8, data={"train": conversations()}, lora={"targets": ["q_proj", "v_proj"]})
    dry = json.loads(run(BIN / "train", "--config", path, "--dry-run", "--json").stdout)
    used, rows = watched(path), losses("answers")
    if furthest(r["loss"] for r in rows) != furthest(r["loss"] for r in rows):
        raise RuntimeError(f"losses {[r['loss'] for r in rows]}")
    say(f"| {len(rows)} | {rows[0]['loss']:.4f}, {rows[-1]['loss']:.4f} | {pace(rows):.2f} | {used} | {dry['need'] / 2**20:.0f} |")


def pairs():
    """Pairs per second scored by a large model."""
    say("\n## Scoring\n\n| model | type | pairs a second |\n|---|---|---|")
    rows = [json.loads(line) for line in Path(groups()).read_text().splitlines()]
    source = WORK / "many.jsonl"
    source.write_text("".join(json.dumps(r | {"id": f"{i}-{r['id']}", "instruction": f"{r['instruction']} {i}"}) + "\n" for i in range(32) for r in rows))
    for name in sorted((WORK / "runs").glob(os.environ.get("SCORERS", "size-*") + "/scorer")):
        out = WORK / "many-out.jsonl"
        out.unlink(missing_ok=True)
        seconds = []
        for table in (source.with_name("few.jsonl"), source):
            if table.name == "few.jsonl":
                table.write_text("".join(source.read_text().splitlines(True)[:16]))
            out.unlink(missing_ok=True)
            begin = time.time()
            run(BIN / "score", "batch", "--scorer", name, "--in", table, "--out", out, "--device", GPU)
            seconds.append(time.time() - begin)
        say(f"| {name.parent.name} | | {(256 - 16) / (seconds[1] - seconds[0]):.1f} |")


def judges():
    say("\n## Judges with heads, choices and packed weights\n\n| scorer | pairs | GPU from CPU, on 0 to 10 or the judge's scale |\n|---|---|---|")
    er, hps, packed = released("released") / "editreward", released("released") / "hpsv3", released("quantized")
    text = WORK / "question.txt"
    text.write_text("Was this done? [INSTRUCTION] Answer with a digit from 0 to 5.")
    scorers = {}
    for cfg in sorted(er.glob("config/*.yaml")):
        scorers[f"editreward {cfg.stem}"] = ["editreward", "--base", er / "base", "--weights", er / "weights", "--config", cfg, "--prompts", er / "prompts"]
    scorers["hpsv3"] = ["hpsv3", "--base", hps / "base", "--weights", hps / "HPSv3.safetensors", "--prompts", hps / "prompts/picture.txt"]
    for kind in "classifier", "regressor":
        scorers[f"adiee {kind}"] = ["adiee", "--weights", released("released") / "adiee" / kind, "--prompts", text, "--pair-size", "28,28"]
    scorers["choices"] = ["choices", "--base", er / "base", "--prompts", text, "--choices", "0,1,2,3,4,5"]
    made = {name: packed / name / "scorer" for name in ("awq", "gptq_act_order")}
    for name, args in scorers.items():
        made[name] = WORK / "judges" / name.replace(" ", "-")
        try:
            made[name].exists() or run(BIN / "score", "import", *args, "--out", made[name])
        except RuntimeError as e:
            say(f"| {name} | FAILED: {e} | |")
            del made[name]
    for name, scorer in made.items():
        got = []
        for device in ("cpu", GPU):
            out = WORK / "judged" / name.replace(" ", "-") / device.replace(":", "")
            out.mkdir(parents=True, exist_ok=True)
            (out / "in.jsonl").write_text("".join(json.dumps({
                "id": a, "source": str(FIXTURES / f"images/{a}.png"), "edit": str(FIXTURES / f"images/{b}.png"), "instruction": "change it"}) + "\n"
                for a, b in (("chelsea", "chelsea_mirror"), ("coffee", "coffee_blur"), ("camera", "camera_flip"), ("hubble", "hubble_bright_small"))))
            run(BIN / "score", "batch", "--scorer", scorer, "--in", out / "in.jsonl", "--out", out / "out.jsonl", "--device", device)
            got.append([json.loads(line)["score"] for line in (out / "out.jsonl").read_text().splitlines()])
        say(f"| {name} | {len(got[0])} | {furthest(a - b for a, b in zip(*got, strict=True)):.1e} |")


def kerneled(family):
    """A small backbone whose heads have a size that fused attention has kernels for, as the fixtures' do not."""
    head = ["--head-dim", "64"] if family == "qwen3_vl" else []
    return small(f"fused-{family}", "--hidden", "256", "--heads", "4", "--kv-heads", "2", "--vision-hidden", "256", *head, family=family)


def options(name, backbone):
    """Ways of training over backbones of families."""
    heads = WORK / f"heads-{name}.yaml"
    heads.write_text(json.dumps({
        "format": 2, "backbone": backbone("qwen2_5_vl"), "score": {"fusion": "mean"},
        "passes": [{"pictures": ["source", "edit"], "prompt": "How well is it done? [INSTRUCTION]", "position": "last", "heads": ["following", "quality"]}],
        "heads": {"following": {"hidden": [32], "outputs": "mu_sigma"}, "quality": {"hidden": [], "outputs": "mu_sigma"}}}))
    packed = WORK / f"four-bits-{name}"
    packed.exists() or run(BIN / "train", "quantize", "--backbone", backbone("qwen2_5_vl"), "--out", packed, "--bits", "4")
    rows = [json.loads(line) for line in Path(groups()).read_text().splitlines()]
    dimensions = WORK / "dimensions.jsonl"
    dimensions.write_text("".join(json.dumps(r | {"label_following": r["label"], "label_quality": 1 - r["label"]}) + "\n" for r in rows))
    compare = [{"kind": "bradley_terry"}, {"kind": "l1", "weight": 10}]
    asked = {"question": "How well was [INSTRUCTION] done?", "answer": "It is [SCORE].", "pair": "sequence", "data": {"train": groups()}}
    qwen = asked | {"backbone": backbone("qwen2_5_vl")}
    return {
        "labels": qwen,
        "whole groups, shared prefix": qwen | {"losses": compare},
        "instruction first": qwen | {"losses": compare, "layout": "instruction_first"},
        "layers recomputed": qwen | {"recompute": "layers"},
        "every weight": qwen | {"mode": "full"},
        "DoRA": qwen | {"lora": {"dora": True, "targets": ["q_proj", "v_proj", "down_proj"]}},
        "tower and projector": qwen | {"lora": {"targets": "all-linear", "parts": ["language", "vision", "projector"]}},
        "four bits": qwen | {"backbone": str(packed)},
        "format 2": {"scorer": str(heads), "data": {"train": str(dimensions)},
                     "losses": [{"kind": "thurstone", "dimension": "following"}, {"kind": "thurstone", "dimension": "quality"}]},
        "LLaVA-NeXT": asked | {"backbone": backbone("llavanext")},
        "Qwen2-VL": asked | {"backbone": backbone("qwen2_vl")},
        "Qwen3-VL, deep stack": asked | {"backbone": backbone("qwen3_vl"), "losses": compare},
        "conversations": {"backbone": backbone("qwen2_5_vl"), "data": {"train": conversations()}, "mode": "text"},
    }


def ways():
    say("\n## Ways of training\n\n| way | type | losses, GPU from CPU, relative | scores after, GPU from CPU |\n|---|---|---|---|")
    made = options("plain", lambda family: str(FIXTURES / family / "backbone"))
    long = made["labels"] | {"backbone": small("long", "--max-pixels", "802816", "--min-pixels", "802816"), "steps": 3, "batch_size": 2}
    made |= {"AWQ": made["labels"] | {"backbone": str(released("quantized") / "awq/backbone")}, "blocks (2,048 tokens)": long,
             "groups in blocks": long | {"losses": made["instruction first"]["losses"]}}
    for name, cfg in made.items():
        for dtype in "float32", "bfloat16":
            way(name, dtype, cfg)
    kernels = {"device_options": {"kernels": "fused"}}
    made = options("fused", lambda family: kerneled(family.replace("llavanext", "llava_next")))
    for name, cfg in made.items():
        way(name, "bfloat16", cfg, "fused", gpu=kernels)
    # Masks have the same bits everywhere if fused operators draw them.
    way("dropout", "bfloat16", made["labels"] | {"lora": {"targets": ["q_proj", "v_proj"], "dropout": 0.3}} | kernels, "fused")


def way(name, dtype, cfg, kernels="", gpu={}):
    """A row: six steps on the CPU and on the GPU, and scores of the CPU's scorer on both."""
    if not re.search(os.environ.get("WAYS", ""), f"{name} {dtype} {kernels}"):
        return
    try:
        seen, after, scorer = [], [], None
        for on, device in ("cpu", "cpu"), ("gpu", GPU):
            run_name = re.sub(r"\W+", "-", f"{name} {dtype} {kernels} {on}")
            more = {"device": device, "dtype": dtype} | (gpu if on == "gpu" else {})
            run(BIN / "train", "--config", config(run_name, **({"steps": 6, "batch_size": 4} | cfg | more)))
            seen.append(losses(run_name))
            scorer = scorer or WORK / "runs" / run_name / "scorer"
            if scorer.exists():
                out = WORK / "runs" / f"{run_name}.jsonl"
                out.unlink(missing_ok=True)
                run(BIN / "score", "batch", "--scorer", scorer, "--in", groups(), "--out", out, "--device", device)
                after.append([json.loads(line)["score"] for line in out.read_text().splitlines()])
        far = furthest((x["loss"] - y["loss"]) / max(abs(x["loss"]), 1e-3) for x, y in zip(*seen, strict=True))
        scored = f"{furthest(a - b for a, b in zip(*after, strict=True)):.1e}" if after else ""
        say(f"| {name} | {dtype} {kernels} | {far:.1e} | {scored} |")
    except Exception as e:
        say(f"| {name} | {dtype} {kernels} | FAILED: {str(e)[-300:]} | |")


def serving():
    say("\n## score serve\n")
    port = 8137
    url = f"http://127.0.0.1:{port}"
    p = subprocess.Popen([str(BIN / "score"), "serve", "--scorer", str(FIXTURES / "qwen2_5_vl/scorer"), "--device", GPU, "--replicas", "2",
                          "--addr", f"127.0.0.1:{port}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(url + "/readyz", timeout=1)
                break
            except OSError:
                time.sleep(0.2)
        rows = [json.loads(line) for line in Path(groups()).read_text().splitlines()]
        body = lambda r: json.dumps({"source": base64.b64encode(Path(r["source"]).read_bytes()).decode(), "instruction": r["instruction"],
                                     "edits": [base64.b64encode(Path(r["edit"]).read_bytes()).decode()]}).encode()

        def ask(r):
            q = urllib.request.Request(url + "/v1/score", body(r), {"Content-Type": "application/json"})
            return json.load(urllib.request.urlopen(q, timeout=120))["results"][0]["score"]

        alone = [ask(r) for r in rows]
        begin = time.time()
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            crowd = list(pool.map(ask, rows * 40))
        seconds = time.time() - begin
        table = WORK / "served.jsonl"
        table.unlink(missing_ok=True)
        run(BIN / "score", "batch", "--scorer", FIXTURES / "qwen2_5_vl/scorer", "--in", groups(), "--out", table, "--device", "cpu")
        cpu = [json.loads(line)["score"] for line in table.read_text().splitlines()]
        say(f"{len(crowd)} requests of 32 callers: {len(crowd) / seconds:.0f} a second; from the CPU's scores {furthest(a - b for a, b in zip(alone, cpu)):.1e}; "
            f"in a batch from alone {furthest(a - b for a, b in zip(alone * 40, crowd)):.1e}.")
        order = lambda what: urllib.request.urlopen(urllib.request.Request(f"{url}/v1/{what}", b"{}", {"Content-Type": "application/json"}), timeout=120).read()
        used = [gpu_memory()]
        for what in "sleep", "wake", "sleep", "wake":
            order(what)
            again = [ask(r) for r in rows] if what == "wake" else alone
            used.append(gpu_memory())
            if again != alone:
                raise RuntimeError(f"after waking, scores are {again}, want {alone}")
        say(f"MB on the GPU awake, asleep, awake, asleep, awake: {used}; equal scores.")
    finally:
        p.send_signal(signal.SIGTERM)
        out = p.communicate(timeout=60)[0]
        LOG.write(out[-3000:])
    say(f"SIGTERM: exit code {p.returncode}.")


def doctor():
    say("\n## train doctor, lab/device\n")
    for command, report in (((BIN / "train", "doctor"), "doctor.json"), (("build/lab/device",), "device.json")):
        if not os.path.exists(command[0]):  # make lab
            continue
        p = run(*command, "--device", GPU, "--out", OUT / report, ok=(0, 1))
        say("\n".join("    " + line for line in (p.stdout + p.stderr).splitlines()))
        say(f"Exit code {p.returncode}.")


def devices():
    say("\n## What the commands say of the device\n")
    path = config("auto", init=str(FIXTURES / "qwen2_5_vl/scorer"), device="auto", micro_batch="auto")
    for line in run(BIN / "train", "--config", path, "--dry-run").stdout.splitlines():
        if any(w in line.lower() for w in ("device", "gpu", "cuda", "memory", "micro")):
            say("    " + line)


PARTS = {"devices": devices, "scores": scores, "gradients": gradients, "training": training, "stop": stop, "judges": judges, "ways": ways,
         "serving": serving, "generation": generation, "doctor": doctor, "sizes": sizes, "fused": fused, "ours": ours, "peers": peers, "answers": answers, "pairs": pairs, "seven": seven}
for part in sys.argv[4].split(",") if len(sys.argv) > 4 else PARTS:
    begin = time.time()
    try:
        PARTS[part]()
    except Exception as e:  # the other parts continue
        say(f"\n{part}: FAILED: {e}")
        LOG.write(traceback.format_exc())
    print(f"({part}: {time.time() - begin:.0f} s)", flush=True)
