"""A small conditional editor: a variational autoencoder of edits of 64 x 64 pixels, given source and instruction.

A latent code of eight numbers selects one of the possible edits: done, half done, something else. In training, an encoder
infers the code from the source and the edit. An edit is drawn from a random code. The decoder mixes views of the source
(unchanged, blurred, in blocks, mirrored, turned) and a constant, for each channel of each pixel, with weights that it
computes from source, instruction and code; one part of the weights is the same for all pixels.
"""
import re

import torch
import torch.nn.functional as F
from torch import nn

SIZE = 64
CODE = 8
VIEWS = 28  # nine views of the source with three channels each, and a constant
KL = 0.03  # weight of the code's divergence; with a tenth of it the code determines everything, and the text is ignored


def words_of(text):
    return re.findall(r"[a-z]+|\d+", text.lower())


def vocabulary(texts):
    """Numbers of all words, starting at 1; 0 is none."""
    return {w: i + 1 for i, w in enumerate(sorted({w for t in texts for w in words_of(t)}))}


class Editor(nn.Module):
    def __init__(self, vocabulary, width=96, blocks=5, hidden=256):
        super().__init__()
        self.vocabulary, self.blocks = vocabulary, blocks
        self.words = nn.Embedding(len(vocabulary) + 1, 64, padding_idx=0)
        self.read = nn.GRU(64, 160, batch_first=True, bidirectional=True)
        self.condition = nn.Sequential(
            nn.Linear(2 * 320 + CODE, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU()
        )
        self.inward = nn.Conv2d(48 + 2, width, 1)
        self.across = nn.ModuleList(
            nn.Conv2d(width, width, 3, padding=d, dilation=d, groups=width) for d in (1, 2, 4, 1, 2)[:blocks]
        )
        self.mix = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(blocks))
        self.modulate = nn.Linear(hidden, blocks * 2 * width)
        self.outward = nn.Conv2d(width, 3 * VIEWS * 4, 1)
        self.everywhere = nn.Linear(hidden, 3 * VIEWS)
        for layer in (self.modulate, self.outward, self.everywhere):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.seen = nn.Sequential(
            nn.Conv2d(96, 64, 1),
            nn.SiLU(),
            nn.Conv2d(64, 64, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(64, 96, 3, stride=2, padding=1),
            nn.SiLU(),
        )
        self.encode = nn.Sequential(nn.Linear(2 * 96 + 640, 192), nn.SiLU(), nn.Linear(192, 2 * CODE))
        axis = torch.linspace(-1, 1, SIZE // 4)
        self.register_buffer("places", torch.stack(torch.meshgrid(axis, axis, indexing="ij"))[None])
        kernel = torch.tensor([1.0, 4, 6, 4, 1])
        kernel = kernel[:, None] * kernel
        self.register_buffer("kernel", (kernel / kernel.sum()).expand(3, 1, 5, 5).contiguous())

    def numbers(self, texts):
        """[N, words] of texts; unknown words are left out."""
        rows = [[self.vocabulary[w] for w in words_of(t) if w in self.vocabulary] or [0] for t in texts]
        out = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
        for i, r in enumerate(rows):
            out[i, : len(r)] = torch.tensor(r)
        return out

    def told(self, texts):
        """The text features of each text, [N, 640]."""
        numbers = self.numbers(texts)
        states, _ = self.read(self.words(numbers))
        there = (numbers > 0).unsqueeze(-1)
        mean = (states * there).sum(1) / there.sum(1).clamp(min=1)
        return torch.cat([mean, states.masked_fill(~there, -9).amax(1)], 1)

    def views(self, x):
        soft = [x]
        for _ in range(4):
            soft.append(F.conv2d(F.pad(soft[-1], (2, 2, 2, 2), mode="replicate"), self.kernel, groups=3))
        blocks = F.interpolate(F.avg_pool2d(x, 8), scale_factor=8)
        turned = [x.flip(3), x.flip(2)] + [x.rot90(k, (2, 3)) for k in (1, 2, 3)]
        return torch.cat([x, soft[1], soft[4], blocks, *turned, torch.ones_like(x[:, :1])], 1)

    def code(self, source, edit, told):
        """Mean and logarithm of the variance of an edit's code, [N, CODE] each."""
        h = self.seen(F.pixel_unshuffle(torch.cat([source, edit], 1), 4))
        mean, variance = self.encode(torch.cat([h.mean((2, 3)), h.amax((2, 3)), told], 1)).chunk(2, 1)
        return mean, variance.clamp(-8, 4)

    def forward(self, source, told, code):
        """The edit, [N, 3, SIZE, SIZE] around 0..1, of a source in 0..1."""
        c = self.condition(torch.cat([told, code], 1))
        places = self.places.expand(len(source), -1, -1, -1)
        h = self.inward(torch.cat([F.pixel_unshuffle(source - 0.5, 4), places], 1))
        changes = self.modulate(c).view(len(source), self.blocks, 2, -1, 1, 1)
        for i in range(self.blocks):
            scale, shift = changes[:, i].unbind(1)
            h = h + self.mix[i](F.silu(self.across[i](F.silu(h)) * (1 + scale) + shift))
        half = SIZE // 2
        weights = F.pixel_shuffle(self.outward(F.silu(h)), 2) + self.everywhere(c)[:, :, None, None]
        weights = weights.view(-1, 3, VIEWS, half, half)
        views = self.views(source).view(-1, VIEWS, half, 2, half, 2)
        return torch.einsum("bcvhw,bvhiwj->bchiwj", weights, views).reshape(-1, 3, SIZE, SIZE) + source


def wrong(editor, source, edit, told, noise):
    """The pretraining loss of each edit, [N]: the distance from the decoded code, and the code's divergence."""
    mean, variance = editor.code(source, edit, told)
    off = editor(source, told, mean + noise * (variance / 2).exp()) - edit
    divergence = 0.5 * (mean.square() + variance.exp() - 1 - variance).sum(1)
    return off.abs().mean((1, 2, 3)) + off.square().mean((1, 2, 3)) + KL * divergence
