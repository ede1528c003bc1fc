"""The scripts of examples/diffusers on tiny pipelines of diffusers' own classes, with a served scorer: every mode trains two steps,
the reward's gradient reaches the LoRA even without another loss, a stopped run resumes to the same bytes, the KL keeps the editor
close to its start, the reward and its gradient are clipped, and the pipeline loads the saved adapter."""
import contextlib
import importlib
import io
import json
import os
import sys

import torch

from shared import ROOT, SCORE, close, pairs, run, served

SMALL = ["--size", "32", "--batch", "2", "--rank", "4", "--lr", "0.01", "--device", "cpu", "--inference-steps", "2", "3"]
WAYS = {"words": [], "good": [], "feedback": [], "alone": ["--mode", "feedback", "--pretraining-weight", "0"]}
EDITORS = {"pix2pix": "instruct_pix2pix", "kontext": "flux_kontext_lora"}


def script(name, *args):
    """Runs a script in this process; returns the lines of its steps."""
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


def check_guards(kind, feedback):
    """--beta, --reward-clip and --reward-max-grad-norm. feedback(name, *flags) trains on the reward only."""
    apart = []
    for beta in 1e-9, 1e4:
        lines, _ = feedback(f"beta-{beta}", "--beta", beta, "--feedback-weight", 1, "--steps", 6)
        if lines[0]["kl"] != 0 or not lines[1]["kl"] > 0:
            sys.exit(f"{kind}: the KL is {[line['kl'] for line in lines]}: want 0 before the first step and more after it")
        apart.append(lines[-1]["kl"])
    if not apart[1] < apart[0] / 20:
        sys.exit(f"{kind}: a KL of {apart[1]} with a large weight, {apart[0]} with a tiny one")
    one = "--batch", 1, "--steps", 1
    (free,), before = feedback("free", *one)
    (held,), _ = feedback("held", *one, "--reward-max-grad-norm", free["reward_grad_norm"] / 2)
    close(f"{kind}: the gradient's norm with half the limit", held["grad_norm"] / free["grad_norm"], 0.5, 1e-3)
    (clipped,), after = feedback("clipped", *one, "--reward-clip", free["score"] - 0.01)
    if clipped["loss"] or clipped["grad_norm"] or all(torch.equal(a, b) for a, b in zip(before, after, strict=True)):
        sys.exit(f"{kind}: a score above --reward-clip still trains: {clipped}")


def check_clipped_gradients():
    from tuning import clip_grads

    grads = torch.arange(24.0).view(2, 3, 2, 2) / torch.tensor([100, 1])[:, None, None, None]
    clipped, norms = clip_grads(grads, 2.0)
    if not torch.equal(clipped[0], grads[0]):
        sys.exit(f"a gradient with a norm of {norms[0]} was changed")
    close("the norm of a clipped gradient", clipped[1].norm().item(), 2, 1e-6)
    close("its cosine to the gradient", torch.cosine_similarity(clipped[1].flatten(), grads[1].flatten(), 0).item(), 1, 1e-6)


def check(work):
    import diffusers.utils
    import transformers.utils

    for library in diffusers, transformers:
        library.utils.logging.disable_progress_bar()
    sys.path.insert(0, str(ROOT / "examples/diffusers"))
    data = labels(work)
    check_clipped_gradients()
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

            def feedback(name, *flags):
                out = work / f"{kind}-{name}"
                return script(EDITORS[kind], *common, *WAYS["alone"], "--out", out, *flags), state(out)

            check_guards(kind, feedback)
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
            sys.exit(f"{kind}: the pipeline does not load the saved adapter")
    return f"{ran} modes of 2 editors, 2 steps each; resumed runs are equal; the loss goes from {first:.3f} to {last:.3f}"
