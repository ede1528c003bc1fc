"""Pretrains the editor, draws its edits, and tunes it with a reward in one of several ways (README.md). run.sh calls it.

    tune.py --work DIR pretrain --steps 1600
    tune.py --work DIR draw base --groups 800 --each 4
    tune.py --work DIR --server http://127.0.0.1:8100 arm words --seed 1 --steps 100
"""
import argparse
import io
import json
import math
import time
from pathlib import Path

import pandas
import torch
import torch.nn.functional as F
from PIL import Image

from assay_reward import Client, lower_bound, reward
from editor import CODE, SIZE, Editor, vocabulary, wrong

SENTENCE = ". The image quality is {} out of five."
LEVELS = ["one", "two", "three", "four", "five"]
# Weight of 10 - score. Guarded and hardened arms use other scorers (guard.py), which are trained on edits of learnt editors.
FEEDBACK = {"feedback": 0.001, "guarded": 0.001}
FEEDBACK |= {k + "-50": 0.05 for k in ("feedback", "clipped", "kept", "guarded", "agreed", "hardened")}
CLIP = {"clipped-50": 5.0}  # scores at or above this have no gradient
BETA = {"kept-50": 10.0}  # weight of the mean squared distance from the base's edit for the same code
JUDGES = {"agreed-50": ["scorer", "guard"]}  # scorers of the server whose lower bound is the reward; other arms have one scorer


def levels(raw):
    """uint8 [3, SIZE, SIZE] of a picture file or its bytes."""
    picture = Image.open(io.BytesIO(raw) if isinstance(raw, bytes) else raw).convert("RGB")
    return torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).view(SIZE, SIZE, 3).permute(2, 0, 1)


def scaled(x):
    return x.float() / 255


class Rows:
    """Edits to train on: texts, and pictures in levels. Rows of one source share its picture."""

    def __init__(self):
        self.texts, self.sources, self.edits, self.weights, self.pictures, self.known = [], [], [], [], [], {}

    def picture(self, key, raw):
        if key not in self.known:
            self.known[key] = len(self.pictures)
            self.pictures.append(levels(raw))
        return self.known[key]

    def add(self, text, source, edit, weight=1.0):
        self.texts.append(text)
        self.sources.append(source)
        self.edits.append(edit)
        self.weights.append(weight)

    def batch(self, n, generator):
        """Sources, edits, texts of n rows."""
        at = torch.multinomial(torch.tensor(self.weights), n, replacement=True, generator=generator).tolist()
        sources, edits = (torch.stack([self.pictures[side[i]] for i in at]) for side in (self.sources, self.edits))
        return scaled(sources), scaled(edits), [self.texts[i] for i in at]


def world(folder):
    """Outputs of the world's editors, from a data set with embedded pictures."""
    rows = Rows()
    for r in pandas.read_parquet(folder / "edits.parquet").itertuples():
        rows.add(r.instruction, rows.picture((r.group, 0), r.source["bytes"]), rows.picture(r.id, r.edit["bytes"]))
    return rows


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def labelled(folder, arm):
    """The rows of `score condition` that an arm trains on, with or without the score in their texts."""
    rows = Rows()
    for r in lines(folder / "metadata.jsonl"):
        if arm == "good" and r["score"] < 8:
            continue
        text = r["prompt"]
        if arm != "words":
            for level in LEVELS:
                text = text.removesuffix(SENTENCE.format(level))
        names = r["edit_image"], r["image"]
        source, edit = (rows.picture(name, folder / name) for name in names)
        rows.add(text, source, edit, r["weight"] if arm == "words" else 1.0)
    return rows


def pairs_of(table):
    """Sources, better edits, worse edits and texts of a table of preferences."""
    out = []
    for r in lines(table):
        source, chosen, rejected = (levels(table.parent / r[k]) for k in ("source", "chosen", "rejected"))
        out.append((source, chosen, rejected, r["prompt"]))
    return out


def optimizer_of(editor, rate, steps, warmup):
    optimizer = torch.optim.AdamW(editor.parameters(), lr=rate, weight_decay=1e-4)

    def scale(i):
        return min(1, (i + 1) / warmup) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * i / steps)))

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, scale)


def train(editor, loss, steps, rate, warmup=30, every=0, checkpoint=None):
    """Minimises loss() and calls checkpoint(step) after every `every` steps."""
    optimizer, schedule = optimizer_of(editor, rate, steps, warmup)
    begun, total = time.time(), 0.0
    for i in range(1, steps + 1):
        value = loss()
        optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(editor.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        total += value.item()
        if i % 50 == 0:
            print(f"step {i}: loss {total / 50:.4f}, {time.time() - begun:.0f} s", flush=True)
            total = 0.0
        if every and i % every == 0:
            checkpoint(i)


def load(path):
    saved = torch.load(path)
    editor = Editor(saved["vocabulary"])
    editor.load_state_dict(saved["weights"])
    return editor


def save(editor, path):
    new = path.with_suffix(".new")
    torch.save({"vocabulary": editor.vocabulary, "weights": editor.state_dict()}, new)
    new.rename(path)


def pretrain(a):
    rows = world(a.work / "first")
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    editor = Editor(vocabulary(rows.texts + [SENTENCE.format(level) for level in LEVELS]))
    print(f"{sum(p.numel() for p in editor.parameters())} parameters, {len(rows.texts)} edits")

    def loss():
        source, edit, texts = rows.batch(32, generator)
        return wrong(editor, source, edit, editor.told(texts), codes(32, generator)).mean()

    train(editor, loss, a.steps, 2e-3, 50)
    save(editor, a.work / "base.pt")


def codes(n, generator):
    return torch.randn(n, CODE, generator=generator)


def edits(editor, sources, texts, generator):
    """Drawn edits in levels, [N, 3, SIZE, SIZE]."""
    out = []
    with torch.no_grad():
        for i in range(0, len(texts), 35):
            source, told = scaled(sources[i : i + 35]), editor.told(texts[i : i + 35])
            out.append(editor(source, told, codes(len(source), generator)))
    return (torch.cat(out).clamp(0, 1) * 255).round().to(torch.uint8)


def write_picture(path, picture):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture.permute(1, 2, 0).numpy()).save(path)


def write_lines(path, rows):
    new = path.with_suffix(".new")
    new.write_text("".join(json.dumps(r) + "\n" for r in rows))
    new.rename(path)


def draw_edits(a):
    """Draws several edits of an editor for each instruction of the second set. Best of n and preferences choose from the
    base's edits, and the guard is trained on all."""
    editor = load(a.work / f"{a.name}.pt")
    folder = "drawn" if a.name == "base" else f"drawn-{a.name}"
    tasks = {}
    for r in lines(a.work / "labels/metadata.jsonl"):
        text = r["prompt"][: r["prompt"].rindex(SENTENCE.split("{")[0])]
        tasks.setdefault(r["edit_image"], text)
    tasks = list(tasks.items())[: a.groups]
    sources = torch.stack([levels(a.work / "labels" / name) for name, _ in tasks])
    generator = torch.Generator().manual_seed(7)
    table = []
    for k in range(a.each):
        for i, picture in enumerate(edits(editor, sources, [text for _, text in tasks], generator)):
            name = f"pictures/{i:04d}-{k}.png"
            write_picture(a.work / folder / name, picture)
            source, text = tasks[i]
            table.append({"id": f"{i:04d}-{k}", "source": f"../labels/{source}", "edit": name, "instruction": text})
    write_lines(a.work / folder / "edits.jsonl", sorted(table, key=lambda r: r["id"]))


class Exam:
    """The instructions on held-out photographs, and the editors' outputs for them."""

    def __init__(self, a, name):
        self.work, self.name, self.tasks = a.work, name, {}
        for r in lines(a.work / "exam/edits.jsonl"):
            self.tasks.setdefault(r["group"], r)
        self.sources = torch.stack([levels(a.work / "exam" / r["source"]) for r in self.tasks.values()])

    def answer(self, editor, seed, step, sentence=""):
        """Writes a table of the editor's outputs. The codes only depend on the seed, so runs with the same seed are paired."""
        texts = [r["instruction"] + sentence for r in self.tasks.values()]
        out = edits(editor, self.sources, texts, torch.Generator().manual_seed(1000 + seed))
        table = []
        for picture, (group, r) in zip(out, self.tasks.items()):
            edit = f"pictures/{self.name}-{seed}/{step}/{group}.png"
            write_picture(self.work / "outputs" / edit, picture)
            row = {k: r[k] for k in ("instruction", "source_caption", "target_caption")}
            row |= {k: "../exam/" + r[k] for k in ("source", "target")}
            row |= {"id": f"{group}/{self.name}/{seed}/{step}", "edit": edit}
            table.append(row)
        write_lines(self.work / f"outputs/{self.name}-{seed}-{step}.jsonl", table)


def preferred(editor, base, pairs, generator):
    """DPO's loss, with the pretraining loss (a bound) as the negative log likelihood, as Diffusion-DPO does."""
    at = torch.randint(0, len(pairs), (16,), generator=generator).tolist()
    source, chosen, rejected = (scaled(torch.stack([pairs[i][k] for i in at])) for k in range(3))
    texts = [pairs[i][3] for i in at]
    source, noise, edit = source.repeat(2, 1, 1, 1), codes(16, generator).repeat(2, 1), torch.cat([chosen, rejected])
    now = wrong(editor, source, edit, editor.told(texts).repeat(2, 1), noise)
    with torch.no_grad():
        before = wrong(base, source, edit, base.told(texts).repeat(2, 1), noise)
    better, worse = (now - before).chunk(2)
    return -F.logsigmoid(-100 * (better - worse)).mean()


def arm(a):
    torch.manual_seed(a.seed)
    generator = torch.Generator().manual_seed(a.seed)
    editor, base = load(a.work / "base.pt"), load(a.work / "base.pt")
    exam = Exam(a, a.name)
    if a.name == "base":
        exam.answer(editor, a.seed, 0)
        return
    rate = 5e-4
    if a.name == "best":
        rows = Rows()
        for r in lines(a.work / "drawn/best.jsonl"):
            names = r["source"], r["edit"]
            rows.add(r["instruction"], *(rows.picture(n, a.work / "drawn" / n) for n in names))
    elif a.name == "preferences":
        rate, pairs = 1e-4, pairs_of(a.work / "drawn/preferences.jsonl")
    else:
        rows = labelled(a.work / "labels", a.name)
    clients = [Client(a.server, scorer=name) for name in JUDGES.get(a.name, [None])]

    def loss():
        if a.name == "preferences":
            return preferred(editor, base, pairs, generator)
        source, edit, texts = rows.batch(32, generator)
        value = wrong(editor, source, edit, editor.told(texts), codes(32, generator)).mean()
        if a.name in FEEDBACK:
            source, texts, noise = source[:8], texts[:8], codes(8, generator)
            out = editor(source, editor.told(texts), noise)
            scores = lower_bound([reward(c, out.clamp(-0.1, 1.1), source, texts) for c in clients])
            if a.name in CLIP:
                scores = scores.clamp(max=CLIP[a.name])
            value = value + FEEDBACK[a.name] * (10 - scores).mean()
            if a.name in BETA:
                with torch.no_grad():
                    before = base(source, base.told(texts), noise)
                value = value + BETA[a.name] * F.mse_loss(out, before)
        return value

    sentence = SENTENCE.format("five") if a.name == "words" else ""
    train(editor, loss, a.steps, rate, every=a.every, checkpoint=lambda i: exam.answer(editor, a.seed, i, sentence))
    save(editor, a.work / f"{a.name}-{a.seed}.pt")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--work", type=Path, required=True)
    p.add_argument("--server", default="http://127.0.0.1:8100", help="a reward server, for feedback")
    sub = p.add_subparsers(required=True)
    c = sub.add_parser("pretrain")
    c.add_argument("--steps", type=int, default=1600)
    c.set_defaults(run=pretrain)
    c = sub.add_parser("draw")
    c.add_argument("name", help="a checkpoint: base, or ARM-SEED")
    c.add_argument("--groups", type=int, default=800)
    c.add_argument("--each", type=int, default=4)
    c.set_defaults(run=draw_edits)
    c = sub.add_parser("arm")
    c.add_argument("name", choices=["base", "words", "no-words", "good", "best", "preferences", *FEEDBACK])
    c.add_argument("--seed", type=int, default=1)
    c.add_argument("--steps", type=int, default=100)
    c.add_argument("--every", type=int, default=50)
    c.set_defaults(run=arm)
    a = p.parse_args()
    torch.set_num_threads(1)
    a.run(a)


if __name__ == "__main__":
    main()
