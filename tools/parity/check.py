"""The checks of `make parity`. Every check prints a line with its measurements; failures are repeated at the end.

    check.py --work FOLDER [--only NAME,...]
"""
import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from shared import LABEL, ORACLE, ROOT, SCORE, SCORER, TRAIN, close, pairs, run, served, table  # noqa: E402


def in_peft(scorer, source, edit):
    """The score of an edit with transformers and PEFT, from the scorer's own files."""
    import torch
    sys.path.insert(0, str(ROOT / "lab/bench"))
    from torch_side import INSTRUCTION, Scorer
    with torch.inference_mode():
        s = Scorer(scorer, False)
        x, _, _, at = s.embeds(s.features(source, edit), f"{INSTRUCTION} 0")
        return 10 * float(s.score(x, at))


def check_adapters(work):
    """A trained adapter loads in PEFT and gives the same score; TensorBoard reads the run's events."""
    edits, _ = table(work)
    config = work / "run.yaml"
    backbone = os.path.relpath(ORACLE / "llavanext/backbone", work)
    config.write_text(f"backbone: {backbone}\nout: run\npair: sequence\nseed: 3\nsteps: 4\nbatch_size: 2\ndevice: cpu\n"
                      f"data: {{train: {edits.name}}}\noptimizer: {{lr: 0.01}}\n")
    run(TRAIN, "--config", config, "--json")
    scorer = work / "run/scorer"
    source, edit, _ = pairs()[0]
    theirs = in_peft(scorer, source, edit)
    ours = run(SCORE, "pair", "--scorer", scorer, "--source", source, "--edit", edit, "--instruction", "make the picture brighter 0", "--json")
    close("score of a trained adapter in PEFT", ours["score"], theirs, 1e-4)

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(str(work / "run"))
    events.Reload()
    tags = events.Tags()["scalars"]
    if not tags or not any(len(events.Scalars(t)) >= 4 for t in tags):
        sys.exit(f"TensorBoard finds the tags {tags} in the run")
    return f"score {ours['score']:.6f}, PEFT {theirs:.6f}; TensorBoard has {len(tags)} scalars"


def check_parts(work):
    """Adapters with every way to name layers load in PEFT, adapt exactly the layers in the files, and give the same score."""
    from peft import PeftModel
    from safetensors import safe_open
    from transformers import AutoModelForImageTextToText

    ways = {"llavanext": ["", "lora: {targets: all-linear}", "lora: {targets: [q_proj, linear_1], parts: [language, projector], exclude: [layers.1.self_attn.q_proj]}",
                          "lora: {parts: [language, vision, projector]}", "lora: {targets: all-linear, parts: [vision]}", "lora: {layers: [1], rank_pattern: {v_proj: 2}}",
                          "lora: {dora: true}", "lora: {dora: true, targets: all-linear, bias: all}", "lora: {start: pissa}", "lora: {start: olora, rslora: true}",
                          "lora: {modules_to_save: [lm_head]}", "train: {projector: full, last: 1}", "train: {vision: full}"],
            "qwen2_5_vl": ["", "lora: {dora: true, bias: lora_only}", "train: {projector: full}", "lora: {targets: all-linear, exclude: '.*v_proj'}", "lora: {targets: [qkv, q_proj], parts: [language, vision]}",
                           "lora: {targets: all-linear, parts: [projector]}"],
            "qwen2_vl": ["lora: {targets: all-linear, parts: [vision, projector]}"], "qwen3_vl": ["", "lora: {targets: all-linear, parts: [vision, projector]}"]}
    counts, worst = [], 0
    edits, _ = table(work)
    source, edit, _ = pairs()[0]
    for family, configurations in ways.items():
        backbone = ORACLE / family / "backbone"
        for i, way in enumerate(configurations):
            config = work / f"{family}{i}.yaml"
            config.write_text(f"backbone: {os.path.relpath(backbone, work)}\nout: {family}{i}\nseed: {i}\nsteps: 3\nbatch_size: 2\ndevice: cpu\n"
                              f"data: {{train: {edits.name}}}\noptimizer: {{lr: 0.01}}\n{way}\n")
            run(TRAIN, "--config", config, "--json")
            scorer = work / f"{family}{i}/scorer"
            peft = PeftModel.from_pretrained(AutoModelForImageTextToText.from_pretrained(backbone), scorer)
            theirs = {n.split("base_model.model.", 1)[1].rsplit(".lora_A", 1)[0] for n, _ in peft.named_parameters() if ".lora_A." in n}
            with safe_open(scorer / "adapter_model.safetensors", "pt") as f:
                ours = {k.removeprefix("base_model.model.").rsplit(".lora_A", 1)[0] for k in f.keys() if ".lora_A." in k}
            if theirs != ours or not ours:
                sys.exit(f"{family}, {way}: PEFT also adapts {sorted(theirs - ours)}, and does not adapt {sorted(ours - theirs)}")
            counts.append(len(ours))
            if family == "llavanext":
                mine = run(SCORE, "pair", "--scorer", scorer, "--source", source, "--edit", edit, "--instruction", "make the picture brighter 0", "--json")["score"]
                score = in_peft(scorer, source, edit)
                close(f"{family}, {way}: score in PEFT", mine, score, 1e-4)
                worst = max(worst, abs(mine - score))
    return f"{len(counts)} adapters on {', '.join(map(str, counts))} layers, as in PEFT; scores at most {worst:.1e} apart"


def check_tables(work):
    """Tables, labels and preferences load in `datasets`."""
    from datasets import Image, disable_progress_bars, load_dataset

    disable_progress_bars()
    edits, rows = table(work)
    scores, preferences, labels = work / "scores.parquet", work / "preferences.parquet", work / "labels"
    run(SCORE, "batch", "--scorer", SCORER, "--in", edits, "--out", scores, "--pairs", preferences, "--json")
    run(SCORE, "condition", "--in", edits, "--scorer", SCORER, "--out", labels, "--layouts", "diffsynth,parquet", "--json")
    cache = str(work / "cache")
    d = load_dataset("parquet", data_files=str(scores), cache_dir=cache, split="train")
    if len(d) != len(rows) or [r["id"] for r in d] != [r["id"] for r in rows] or any(r["error"] for r in d):
        sys.exit(f"scores: {d}")
    p = load_dataset("parquet", data_files=str(preferences), cache_dir=cache, split="train")
    if not {"prompt", "chosen", "rejected"} <= set(p.column_names) or not isinstance(p.features["chosen"], Image):
        sys.exit(f"preferences: {p.features}")
    if not all(r["score_chosen"] > r["score_rejected"] for r in p):
        sys.exit("a rejected edit scores higher than the chosen one")
    c = load_dataset("parquet", data_files=str(labels / "data.parquet"), cache_dir=cache, split="train")
    m = load_dataset("json", data_files=str(labels / "metadata.jsonl"), cache_dir=cache, split="train")
    if c[0]["source"].size != p[0]["source"].size or c["prompt"][:] != m["prompt"][:] or not (labels / m[0]["edit_image"]).exists():
        sys.exit(f"labels: {c} {m}")
    return f"{len(d)} scores, {len(p)} preferences, {len(c)} labels"


def check_trainers(work):
    """Labels load in the trainers' own loaders: diffusers' script, ai-toolkit, musubi-tuner."""
    # In a separate process: it stubs modules, including transformers, which must not affect the other checks.
    return run(sys.executable, ROOT / "tools/parity/trainers.py", "--work", work, "--score", SCORE).strip()


def check_peers(work):
    """Trainers' own reward clients, if there are checkouts: Flow-Factory and others."""
    return run(sys.executable, "-W", "ignore", ROOT / "tools/parity/peers.py").strip()


def check_client(work):
    """The client: scores, errors, and the gradient in PyTorch compared with finite differences."""
    import client
    return client.check(work)


def check_asynchronous(work):
    """AsyncClient: the same numbers as Client, retries with ids, cancellation, forks; several rewards; on_error."""
    import asynchronous
    return asynchronous.check(work)


def check_pictures(work):
    """PIL images of every mode score the same as their files, through the client and through the bridge."""
    import pillow
    return pillow.check(work)


def check_batches(work):
    """Requests of realistic size; a server that drops connections, goes down, and comes back."""
    import batches
    return batches.check(work)


def check_bridge(work):
    """The wire formats of four trainers, score ranges, and what the bridge refuses."""
    import wires
    return wires.check(work)


def check_toy(work):
    """The toy editor of examples/reward: its mean held-out score rises in both ways of training."""
    with served("--scorer", SCORER) as url:
        done = subprocess.run([sys.executable, ROOT / "examples/reward/toy.py", "--server", url, "--score", SCORE, "--scorer", SCORER],
                              capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "clients/python")})
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout.strip()


def check_editors(work):
    """The scripts of examples/diffusers on tiny pipelines of diffusers' own classes."""
    import editors
    return editors.check(work)


def check_page(work):
    """The page in headless Chromium, at phone and desktop size."""
    import page
    browser = page.chromium()
    if not browser:
        return "skipped: Chromium is not installed"
    source, edit, instruction = pairs()[2]
    with served("--scorer", f"a={SCORER}", "--scorer", f"b={SCORER}_sequence") as url:
        return page.check(browser, url, source, edit, instruction, [e for _, e, _ in pairs()[3:5]] + [source], work)


def check_report(work):
    """The reports of score bench in headless Chromium: on a desktop, dark, on a phone, and printed."""
    import page
    import report
    browser = page.chromium()
    if not browser:
        return "skipped: Chromium is not installed"
    return report.check(browser, SCORE, work)


def check_encoders(work):
    """CLIP-D, CLIP-I, CLIP-T and DINO-I of the small encoders in backbones/, compared with the similarities of their embeddings in transformers."""
    import torch
    from PIL import Image
    from torch.nn.functional import cosine_similarity, normalize
    from transformers import AutoImageProcessor, CLIPModel, CLIPProcessor, Dinov2Model

    clip, dino = ROOT / "backbones/tiny-clip", ROOT / "backbones/tiny-dino"
    rows = json.loads((ORACLE / "clip/pairs.json").read_text())
    edits, measured = work / "edits.jsonl", work / "measured.jsonl"
    edits.write_text("".join(json.dumps({"id": str(r["id"]), "source_caption": r["caption_before"], "target_caption": r["caption_after"],
                                         **{k: os.path.relpath(ORACLE / "clip" / r[p], work) for k, p in (("source", "input"), ("edit", "edited"), ("target", "gt"))}}) + "\n" for r in rows))
    run(LABEL, "similarities", "--clip", clip, "--dino", dino, "--in", edits, "--out", measured, "--cache", work / "cache", "--json")
    ours = [json.loads(line) for line in measured.read_text().splitlines()]

    def flat(path):  # transparency over white
        im = Image.open(ORACLE / "clip" / path).convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", im.size, "white"), im).convert("RGB")

    model, processor = CLIPModel.from_pretrained(clip).eval(), CLIPProcessor.from_pretrained(clip)
    other, pixels = Dinov2Model.from_pretrained(dino).eval(), AutoImageProcessor.from_pretrained(dino, backend="pil")
    worst = 0
    for row, mine in zip(rows, ours, strict=True):
        images = [flat(row[k]) for k in ("input", "edited", "gt")]
        with torch.no_grad():
            out = model(**processor(text=[row["caption_before"], row["caption_after"]], images=images, return_tensors="pt", padding=True, truncation=True))
            x, t = normalize(out.image_embeds), normalize(out.text_embeds)
            z = other(**pixels(images, return_tensors="pt")).pooler_output
        for name, want in (("clip_d", cosine_similarity(x[1] - x[0], t[1] - t[0], dim=0)), ("clip_i", x[1] @ x[2]), ("clip_t", x[1] @ t[1]),
                           ("dino_i", cosine_similarity(z[1], z[2], dim=0))):
            close(f"{name} of {row['edited']}", mine[name], want.item(), 2e-5)
            worst = max(worst, abs(mine[name] - want.item()))
    return f"{len(rows)} edits, four similarities each, at most {worst:.1e} apart"


def check_backbone(work):
    """The probability of yes from backbones/tiny, compared with transformers' Qwen2.5-VL: source and edit as two frames."""
    import torch
    from PIL import Image
    from transformers import AutoTokenizer, Qwen2_5_VLForConditionalGeneration
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    backbone = ROOT / "backbones/tiny"
    edits, judged = work / "edits.jsonl", work / "judged.jsonl"
    rows = [{"id": str(i), "source": os.path.relpath(s, work), "edit": os.path.relpath(e, work), "instruction": text}
            for i, ((s, e, _), text) in enumerate(zip(pairs(), ["blur the picture", "make it grey", "flip it horizontally", "make it brighter"] * 9))]
    edits.write_text("".join(json.dumps(r) + "\n" for r in rows))
    done = subprocess.run(["build/lab/pretrain", "judge", "--backbone", backbone, "--in", edits, "--out", judged], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    ours = [json.loads(line)["score01"] for line in judged.read_text().splitlines()]

    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(backbone, dtype=torch.float32).eval()
    images, tokenizer = Qwen2VLImageProcessorPil.from_pretrained(backbone), AutoTokenizer.from_pretrained(backbone)
    pad, yes, no = tokenizer.convert_tokens_to_ids(["<|image_pad|>", "yes", "no"])
    worst = 0
    for row, mine in zip(rows, ours, strict=True):
        shown = [Image.open(work / row[k]).convert("RGB").resize((64, 64), Image.BICUBIC) for k in ("source", "edit")]
        inputs = dict(images(shown, return_tensors="pt"))
        first, second = (x.unflatten(1, (3, 2, -1)) for x in inputs["pixel_values"].chunk(2))
        inputs = {"pixel_values": torch.stack([first[:, :, 0], second[:, :, 1]], 2).flatten(1), "image_grid_thw": inputs["image_grid_thw"][:1]}
        turn = [{"type": "image"}, {"type": "text", "text": "is it done? " + row["instruction"]}]
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": turn}], tokenize=False, add_generation_prompt=True)
        ids = tokenizer(prompt.replace("<|image_pad|>", "<|image_pad|>" * 16), return_tensors="pt")["input_ids"]
        with torch.no_grad():
            logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=(ids == pad).long(), **inputs).logits[0, -1]
        want = torch.sigmoid(logits[yes] - logits[no]).item()
        close(f"probability of yes for {row['instruction']} of {row['source']}", mine, want, 2e-5)
        worst = max(worst, abs(mine - want))
    return f"{len(rows)} edits, at most {worst:.1e} apart"


def check_configs(work):
    """Random configurations of both families and of encoders, read like transformers or refused by name."""
    import configs
    import encoderconfigs
    return configs.run(work / "backbones", draws=40, seed=11) + "; " + encoderconfigs.run(work / "encoders", draws=12, seed=11)


def check_chat(work):
    """score judge asks transformers serve like OpenAI's own client, and gets the same answers."""
    import chat
    return chat.run(work, SCORE, pairs())


def check_headers(work):
    """Another draw of pictures with every kind of header: equal to Pillow's, or refused for a listed reason."""
    archive = work / "headers.zip"
    said = run(sys.executable, "-W", "ignore", ROOT / "tools/oracle/data_headers.py", 31, archive)
    run("go", "test", "-count=1", "-vet=off", "-run", "^TestHeaders$", "./data", "-args", f"-headers={archive}")
    return said.strip()


def check_hub(work):
    """huggingface_hub finds files fetched by score fetch and vice versa; neither fetches a byte twice."""
    import hub
    return hub.check(work)


def check_exports(work):
    """run.py of an export, with only onnxruntime and Pillow, gives the same score as score pair."""
    import exports
    return exports.check(work)


def check_trackers(work):
    """A run on an MLflow server, read by MLflow's own client, and on a stub W&B server, sent by wandb."""
    import tracking
    return tracking.check(work)


CHECKS = {f.__name__.removeprefix("check_"): f for f in (check_adapters, check_parts, check_tables, check_trainers, check_encoders,
    check_backbone, check_configs, check_client, check_asynchronous, check_pictures, check_batches, check_bridge, check_peers, check_toy, check_editors, check_page, check_report,
    check_chat, check_headers, check_hub, check_exports, check_trackers)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--work", required=True, type=Path)
    p.add_argument("--only", default=",".join(CHECKS))
    a = p.parse_args()
    failed = []
    for name in a.only.split(","):
        work = (a.work / name).resolve()
        work.mkdir(parents=True, exist_ok=True)
        begin = time.time()
        try:
            said = CHECKS[name](work)
        except (Exception, SystemExit) as e:
            if not isinstance(e, SystemExit):
                traceback.print_exc()
            said = f"FAILED: {e}"
            failed.append(f"{name}: {said}")
        print(f"{name}: {said} ({time.time() - begin:.0f} s)", flush=True)
    if failed:
        sys.exit("\n".join(failed))


if __name__ == "__main__":
    main()
