"""The scripts of examples/diffusers on tiny pipelines that diffusers' own classes make, with a served scorer: every way trains two steps,
the reward's gradient alone reaches the LoRA, a stopped run resumes to the same bytes, and the pipeline loads what was saved."""
import contextlib
import importlib
import io
import json
import os
import sys

import torch

from shared import ROOT, SCORE, pairs, run, served

SMALL = ["--size", "32", "--batch", "2", "--rank", "4", "--lr", "0.01", "--device", "cpu", "--inference-steps", "2", "3"]
WAYS = {"words": [], "good": [], "feedback": [], "alone": ["--mode", "feedback", "--pretraining-weight", "0"]}
EDITORS = {"pix2pix": "instruct_pix2pix", "kontext": "flux_kontext_lora"}


def script(name, *args):
    """Runs a script in this process; the lines of its steps."""
    argv, said = sys.argv, io.StringIO()
    sys.argv = [name, *map(str, args)]
    try:
        with contextlib.redirect_stdout(said):
            importlib.import_module(name).main()
    finally:
        sys.argv = argv
    return [json.loads(line) for line in said.getvalue().splitlines() if line.startswith("{")]


def labels(work):
    """The rows of `score condition`, good ones among them."""
    edits = work / "edits.jsonl"
    rows = [{"id": str(i), "source": os.path.relpath(s, work), "edit": os.path.relpath(e, work), "instruction": "make it brighter",
             "score01": 0.1 + 0.2 * (i % 5)} for i, (s, e, _) in enumerate(pairs()[:10])]
    edits.write_text("".join(json.dumps(r) + "\n" for r in rows))
    run(SCORE, "condition", "--in", edits, "--out", work / "labels")
    return work / "labels"


def state(out):
    return torch.load(out / "state.pt")["parameters"]


def check(work):
    import diffusers.utils
    import transformers.utils

    for library in diffusers, transformers:
        library.utils.logging.disable_progress_bar()
    sys.path.insert(0, str(ROOT / "examples/diffusers"))
    data = labels(work)
    script("tiny", work)
    ran = 0
    with served("--scorer", ROOT / "backbones/tiny-scorer") as url:
        for kind, name in EDITORS.items():
            common = ["--base", work / kind, "--data", data, "--server", url, *SMALL]
            for way, flags in WAYS.items():
                lines = script(name, *common, *(flags or ["--mode", way]), "--out", work / f"{kind}-{way}", "--steps", 2)
                scored = all("score" in line for line in lines)
                if len(lines) != 2 or not all(line["grad_norm"] > 0 for line in lines) or scored != (way in ("feedback", "alone")):
                    sys.exit(f"{kind}, {way}: {lines}")
                ran += 1
            for steps in 1, 2:  # the second run resumes
                again = script(name, *common, "--mode", "feedback", "--out", work / f"{kind}-resumed", "--steps", steps)
            same = zip(state(work / f"{kind}-resumed"), state(work / f"{kind}-feedback"), strict=True)
            if len(again) != 1 or not all(torch.equal(a, b) for a, b in same):
                sys.exit(f"{kind}: a resumed run differs: {again}")
        lines = script("instruct_pix2pix", "--base", work / "pix2pix", "--data", data, *SMALL, "--mode", "words", "--out", work / "longer",
                       "--steps", 40)
    first, last = (sum(line["loss"] for line in part) / 10 for part in (lines[:10], lines[-10:]))
    if not last < first:
        sys.exit(f"the loss goes from {first} to {last}")
    from diffusers import FluxKontextPipeline, StableDiffusionInstructPix2PixPipeline

    for kind, pipeline in ("pix2pix", StableDiffusionInstructPix2PixPipeline), ("kontext", FluxKontextPipeline):
        loaded = pipeline.from_pretrained(work / kind)
        loaded.load_lora_weights(work / f"{kind}-feedback")
        if not loaded.get_active_adapters():
            sys.exit(f"{kind}: the pipeline loads no adapter of what was saved")
    return f"{ran} ways of 2 editors, 2 steps each; resumed runs are equal; the loss goes from {first:.3f} to {last:.3f}"
