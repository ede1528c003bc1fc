"""A toy editor in PyTorch, tuned with both methods of ADIEE: reward feedback (the score's gradient goes through the server into
the editor) and reward conditioning (edits of every quality, with their rewards in words; the best is asked for at the end).

    score serve --scorer DIR &
    PYTHONPATH=clients/python python examples/reward/toy.py --server http://127.0.0.1:8100 --score bin/score --scorer DIR

The editor changes colours: three channels in, three out, through a small network at each pixel. Prints one JSON line with the
mean scores on held-out pictures before and after, and exits with 1 unless both methods raised it.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from PIL import Image
from torch import nn

from assay_reward import Client, encode, reward

ROOT = Path(__file__).resolve().parents[2]
INSTRUCTION = "make the picture warmer"
SIZE = 64
WORDS = ["one", "two", "three", "four", "five"]


def crops(names, n):
    """Crops of photographs, [n, 3, SIZE, SIZE] in 0..1."""
    out = []
    for k in range(n):
        im = Image.open(ROOT / "examples/photos" / names[k % len(names)]).convert("RGB")
        im.thumbnail((256, 256))
        g = torch.Generator().manual_seed(k)
        x, y = (int(torch.randint(0, side - SIZE + 1, (1,), generator=g)) for side in im.size)
        raw = bytearray(im.crop((x, y, x + SIZE, y + SIZE)).tobytes())
        out.append(torch.frombuffer(raw, dtype=torch.uint8).reshape(SIZE, SIZE, 3).permute(2, 0, 1).float() / 255)
    return torch.stack(out)


class Editor(nn.Module):
    """x plus a bounded change; a conditional editor also gets a level."""

    def __init__(self, conditions=0):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3 + conditions, 24, 3, padding=1), nn.Tanh(), nn.Conv2d(24, 3, 3, padding=1))
        nn.init.zeros_(self.net[2].weight)
        nn.init.zeros_(self.net[2].bias)
        self.conditions = conditions

    def forward(self, x, level=None):
        y = x
        if self.conditions:
            hot = nn.functional.one_hot(level, self.conditions).float()[:, :, None, None].expand(-1, -1, *x.shape[2:])
            y = torch.cat([x, hot], 1)
        return (x + 0.35 * torch.tanh(self.net(y))).clamp(0, 1)


def u8(x):
    return (x.detach() * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous()


def mean_score(client, editor, sources):
    with torch.no_grad():
        edits = editor(sources)
    return sum(client.score(u8(s), INSTRUCTION, [u8(e)])[0] for s, e in zip(sources, edits)) / len(sources)


def feedback(client, train, held):
    """loss = 10 - reward."""
    torch.manual_seed(0)
    editor = Editor()
    before = mean_score(client, editor, held)
    optimizer = torch.optim.Adam(editor.parameters(), lr=1e-2)
    for step in range(25):
        at = torch.randint(0, len(train), (4,))
        sources = train[at]
        loss = (10 - reward(client, editor(sources), sources, INSTRUCTION)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return before, mean_score(client, editor, held)


def conditioning(client, score, scorer, train, held):
    """Random edits, labelled by `score condition`; then a conditional editor, asked for five out of five."""
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as tmp:
        tmp, rows, pairs = Path(tmp), [], []
        for i, x in enumerate(train):
            (tmp / f"{i}.png").write_bytes(encode(u8(x)))
            for k in range(8):
                gain, shift = 1 + 0.5 * torch.randn(3, 1, 1), 0.25 * torch.randn(3, 1, 1)
                y = ((x - 0.5) * gain + 0.5 + shift).clamp(0, 1)
                (tmp / f"{i}-{k}.png").write_bytes(encode(u8(y)))
                rows.append({"id": f"{i}-{k}", "source": f"{i}.png", "edit": f"{i}-{k}.png", "instruction": INSTRUCTION})
                pairs.append((x, y))
        (tmp / "edits.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        subprocess.run([score, "condition", "--in", tmp / "edits.jsonl", "--scorer", scorer, "--range", "auto", "--out", tmp / "labels", "--json"],
                       check=True, stdout=subprocess.DEVNULL)
        labels = [json.loads(line) for line in (tmp / "labels/metadata.jsonl").read_text().splitlines()]
    level = torch.tensor([WORDS.index(l["prompt"].rsplit(" out of five.", 1)[0].rsplit(" ", 1)[1]) for l in labels])
    weight = torch.tensor([l["weight"] for l in labels])
    x, y = (torch.stack([p[i] for p in pairs]) for i in range(2))
    editor = Editor(conditions=5)
    optimizer = torch.optim.Adam(editor.parameters(), lr=1e-2)
    for step in range(200):
        at = torch.multinomial(weight, 16, replacement=True)
        loss = (editor(x[at], level[at]) - y[at]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    asked = [mean_score(client, lambda s: editor(s, torch.full((len(s),), l)), held) for l in (int(level.min()), 4)]
    return mean_score(client, lambda s: s, held), asked[0], asked[1]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--server", default="http://127.0.0.1:8100")
    p.add_argument("--score", default="bin/score", help="the command score")
    p.add_argument("--scorer", required=True, help="directory of the served scorer, for score condition")
    a = p.parse_args()
    client = Client(a.server)
    train, held = crops(["astronaut.png", "coffee.png", "retina.png", "tissue.png"], 12), crops(["chelsea.png", "rocket.png", "hubble.png"], 9)
    before, after = feedback(client, train, held)
    plain, worst, best = conditioning(client, a.score, a.scorer, train, held)
    print(json.dumps({"feedback": {"before": before, "after": after}, "conditioning": {"unedited": plain, "asked for the worst": worst, "asked for five": best}}))
    if not (after > before and best > plain and best > worst):
        sys.exit("the mean score on held-out pictures did not rise")


if __name__ == "__main__":
    main()
