"""Shared by the scripts of this folder: rows of labels, the loop with its checkpoints, ADIEE's reward feedback and its guards.

A script's editor has `loss(sources, edits, texts, generator)`, its pretraining loss, and
`edit(sources, texts, steps, generator)`, which returns edits [N, 3, H, W] in 0..1 with a gradient through only the last
denoising step, and the KL of that step to the reference, or None without --beta.
"""
import argparse
import copy
import csv
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image, ImageOps

from assay_reward import Client, reward

SENTENCE = ". The image quality is {} out of five."  # from `score condition`, preset adiee
LEVELS = ["one", "two", "three", "four", "five"]
GOOD = 8  # ADIEE, section 4.5: only good samples
FEEDBACK = 0.001  # weight of 10 - score relative to the pretraining loss: ADIEE, equation 8
STEPS = range(10, 101, 5)  # denoising steps of a scored edit, drawn each time: ADIEE, section 3.4
MODES = {
    "words": "all rows, with their scores in words; ask for five when the editor is used",
    "good": f"rows with scores of {GOOD} or more, without the words",
    "feedback": "all rows without the words; the loss gets 0.001 (10 - score) of the editor's own edits",
    "plain": "all rows unchanged: those that `score aim` selected",
}


def without_words(text):
    for level in LEVELS:
        text = text.removesuffix(SENTENCE.format(level))
    return text


def read_rows(folder, mode):
    """(text, source, edit, weight) of the rows of `score condition` (layout diffsynth) or `score aim` that a mode trains on."""
    path = folder / "metadata.jsonl"
    if path.exists():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    else:
        with open(folder / "metadata.csv", newline="") as f:
            rows = list(csv.DictReader(f))
    if mode == "good":
        rows = [r for r in rows if float(r["score"]) >= GOOD]
    if not rows:
        raise SystemExit(f"{folder}: no row" + (f" with a score of {GOOD} or more" if mode == "good" else ""))
    out = []
    for r in rows:
        text = r["prompt"] if mode in ("words", "plain") else without_words(r["prompt"])
        weight = float(r.get("weight") or 1) if mode == "words" else 1.0
        out.append((text, folder / r["edit_image"], folder / r["image"], weight))  # diffsynth: edit_image is the source
    return out


def picture(path, size):
    """[3, size, size] in 0..1: a centre crop of the picture."""
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    image = ImageOps.fit(image, (size, size), Image.BICUBIC)
    levels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(size, size, 3)
    return levels.permute(2, 0, 1).float() / 255


class Batches:
    """Batch i is determined by seed and i, so that a resumed run has the same batches as an uninterrupted one."""

    def __init__(self, rows, a):
        self.rows, self.a = rows, a
        self.weights = torch.tensor([r[3] for r in rows])

    def generator(self, step):
        return torch.Generator().manual_seed(self.a.seed * 1_000_003 + step)

    def read(self, generator):
        at = torch.multinomial(self.weights, self.a.batch, replacement=True, generator=generator).tolist()
        side = lambda k: torch.stack([picture(self.rows[i][k], self.a.size) for i in at])
        return side(1), side(2), [self.rows[i][0] for i in at]


def trainable(model, a, targets):
    """Freezes a model except for a LoRA on the target layers, in float32; with --rank 0 trains the full model."""
    if a.gradient_checkpointing:
        model.enable_gradient_checkpointing()
    if a.rank == 0:
        model.requires_grad_(True)
        return list(model.parameters())
    from peft import LoraConfig

    torch.manual_seed(a.seed)
    model.requires_grad_(False)
    model.add_adapter(LoraConfig(r=a.rank, lora_alpha=a.rank, target_modules=targets, init_lora_weights="gaussian"))
    parameters = [p for p in model.parameters() if p.requires_grad]
    for p in parameters:
        p.data = p.data.float()
    return parameters


class Reference:
    """The untuned model: the model with its LoRA disabled, which needs no second copy of the weights; a copy with --rank 0."""

    def __init__(self, model, a):
        self.model = model
        self.copy = copy.deepcopy(model).requires_grad_(False) if a.rank == 0 else None

    def __call__(self, *args, **kwargs):
        with torch.no_grad():
            if self.copy is not None:
                return self.copy(*args, **kwargs)
            self.model.disable_adapters()
            try:
                return self.model(*args, **kwargs)
            finally:
                self.model.enable_adapters()


def kl(prediction, reference):
    """KL of two denoisers' Gaussians of equal variance, up to that variance: the mean squared distance of noises or velocities."""
    return F.mse_loss(prediction.float(), reference.float())


def clip_grads(grads, max_norm):
    """Gradients [N, ...], each scaled down to max_norm if its norm is larger, and the norms before that [N]."""
    norms = grads.flatten(1).norm(dim=1)
    scale = (max_norm / norms).clamp(max=1)
    return grads * scale.view(-1, *[1] * (grads.dim() - 1)), norms


def feedback(client, edits, sources, texts, a, line):
    """ADIEE's loss of edits by their scores; scores at or above --reward-clip have no gradient. Records in line the mean score,
    and in the backward pass the largest norm of an edit's gradient before --reward-max-grad-norm."""
    weight = a.feedback_weight / len(edits)

    def clip(grads):  # grads of the weighted loss; norms and limit refer to the score
        clipped, norms = clip_grads(grads / weight, a.reward_max_grad_norm)
        line["reward_grad_norm"] = norms.max().item()
        return clipped * weight

    if weight > 0:
        edits.register_hook(clip)
    scores = reward(client, edits, sources, texts)
    line["score"] = scores.mean().item()
    return weight * F.relu(a.reward_clip - scores).sum()


def save_state(path, state):
    new = path.with_suffix(".new")
    torch.save(state, new)
    new.rename(path)


def train(editor, parameters, a):
    """Trains, and resumes from the state in --out. Prints a line of JSON per step; returns them."""
    batches = Batches(read_rows(a.data, a.mode), a)
    steps = a.steps or -(-a.epochs * len(batches.rows) // a.batch)
    optimizer = torch.optim.AdamW(parameters, lr=a.lr, weight_decay=a.weight_decay)
    client = Client(a.server) if a.mode == "feedback" else None
    state_file, begin, lines = a.out / "state.pt", 0, []
    a.out.mkdir(parents=True, exist_ok=True)
    if state_file.exists():
        state = torch.load(state_file, map_location=a.device)
        optimizer.load_state_dict(state["optimizer"])
        for p, saved in zip(parameters, state["parameters"], strict=True):
            p.data.copy_(saved)
        begin = state["step"]
    for step in range(begin, steps):
        generator = batches.generator(step)
        sources, edits, texts = batches.read(generator)
        with torch.autocast(a.device.split(":")[0], a.dtype, enabled=a.dtype != torch.float32):
            loss = pretraining = editor.loss(sources.to(a.device), edits.to(a.device), texts, generator)
            line = {"step": step + 1, "pretraining": pretraining.item()}
            if client:
                k = a.inference_steps[torch.randint(0, len(a.inference_steps), (1,), generator=generator).item()]
                out, distance = editor.edit(sources.to(a.device), texts, k, generator)
                line["inference_steps"] = k
                loss = a.pretraining_weight * pretraining + feedback(client, out.float().clamp(-0.1, 1.1), sources, texts, a, line)
                if a.beta:
                    line["kl"] = distance.item()
                    loss = loss + a.beta * distance
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, a.max_grad_norm).item()
        if not norm < float("inf") or norm == 0 < loss.item():  # a loss of 0: all scores are at --reward-clip
            raise SystemExit(f"step {step + 1}: the gradient's norm is {norm}: nothing would be learnt")
        optimizer.step()
        lines.append(line | {"loss": loss.item(), "grad_norm": norm})
        print(json.dumps(lines[-1]), flush=True)
        if (step + 1) % a.save_every == 0 or step + 1 == steps:
            save_state(state_file, {"step": step + 1, "optimizer": optimizer.state_dict(), "parameters": [p.data for p in parameters]})
    return lines


def arguments(doc, **defaults):
    """The flags of a script, with the defaults of its recipe."""
    p = argparse.ArgumentParser(description=doc.splitlines()[0])
    p.add_argument("--base", required=True, help="the editor: a pipeline's folder, or its name on the Hugging Face Hub")
    p.add_argument("--data", type=Path, required=True, help="folder of `score condition --layouts diffsynth`, or of `score aim`")
    p.add_argument("--out", type=Path, required=True, help="folder to write; the same one resumes")
    p.add_argument("--mode", choices=MODES, default="words", help="; ".join(f"{k}: {v}" for k, v in MODES.items()))
    p.add_argument("--server", default="http://127.0.0.1:8100", help="`score serve`, for mode feedback; its scores are on 0 to 10")
    p.add_argument("--feedback-weight", type=float, default=FEEDBACK)
    p.add_argument("--pretraining-weight", type=float, default=1.0, help="weight of the pretraining loss relative to the feedback")
    p.add_argument("--reward-clip", type=float, default=10.0, help="scores at or above it have no gradient; 10: the best, as in ADIEE")
    p.add_argument("--reward-max-grad-norm", type=float, default=float("inf"),
                   help="limit of the norm of a score's gradient at the pixels of its edit; default: none")
    p.add_argument("--beta", type=float, default=0.0, help="weight of the KL to the untuned editor, for mode feedback; 0: none")
    p.add_argument("--inference-steps", type=int, nargs="+", default=list(STEPS), help="numbers of denoising steps to draw from")
    p.add_argument("--rank", type=int, help="rank of the LoRA; 0: train the full model")
    p.add_argument("--size", type=int, help="side of the pictures")
    p.add_argument("--batch", type=int)
    p.add_argument("--steps", type=int, help="0: determined by --epochs")
    p.add_argument("--epochs", type=int, default=1)
    p.add_argument("--lr", type=float)
    p.add_argument("--weight-decay", type=float, default=0.01)
    p.add_argument("--max-grad-norm", type=float, default=1.0)
    p.add_argument("--save-every", type=int, default=500, help="steps between checkpoints")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--dtype", type=lambda name: getattr(torch, name), help="type of the frozen weights: float32, bfloat16")
    p.add_argument("--gradient-checkpointing", action="store_true")
    p.set_defaults(**{"dtype": torch.float32} | defaults)
    a = p.parse_args()
    if a.beta and a.mode != "feedback":
        p.error("--beta requires --mode feedback: the KL is that of the scored edits")
    if a.beta < 0 or not a.reward_max_grad_norm > 0:
        p.error("--beta must be at least 0, and --reward-max-grad-norm above 0")
    return a
