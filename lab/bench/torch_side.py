"""PyTorch's side of `make bench`: the same scorer from the same files, with transformers and PEFT.

    torch_side.py step  SCORER SOURCE EDIT STEPS PAIRS [recompute]
    torch_side.py score SCORER SOURCE EDIT STEPS PAIRS
    torch_side.py group-step  SCORER SOURCE EDIT STEPS EDITS
    torch_side.py group-score SCORER SOURCE EDIT STEPS EDITS

Prints one JSON line: seconds of each repetition, tokens, score, loss.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import torch
import yaml
from peft import PeftModel
from PIL import Image
from safetensors.torch import load_file
from tokenizers import AddedToken
from torch import nn
from transformers import AutoTokenizer, LlavaNextForConditionalGeneration
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

warnings.filterwarnings("ignore")
INSTRUCTION = "make the picture brighter"


class Scorer:
    def __init__(self, folder, trainable):
        folder = Path(folder)
        self.meta = yaml.safe_load((folder / "scorer.yaml").read_text())
        backbone = (folder / self.meta["backbone"]).resolve()
        base = LlavaNextForConditionalGeneration.from_pretrained(
            backbone, dtype=torch.float32, attn_implementation="sdpa"
        )
        self.peft = PeftModel.from_pretrained(base, folder, is_trainable=trainable)
        self.model = self.peft.base_model.model
        self.model.train(False)
        self.vocab = base.config.text_config.vocab_size
        self.images = LlavaNextImageProcessorPil.from_pretrained(backbone)
        self.tokenizer = AutoTokenizer.from_pretrained(backbone)
        self.tokenizer.add_tokens([AddedToken("[SCORE]", special=True, normalized=False)])
        t = load_file(folder / "head.safetensors")
        self.row, self.out_row = nn.Parameter(t["score_token.embedding"]), nn.Parameter(t["score_token.lm_head"])
        layers, n = [], 0
        while f"layers.{n}.weight" in t:
            layers.append(nn.Linear(*reversed(t[f"layers.{n}.weight"].shape)))
            layers[-1].weight.data, layers[-1].bias.data = t[f"layers.{n}.weight"], t[f"layers.{n}.bias"]
            n += 1
        self.head = nn.Sequential(*[m for l in layers for m in (l, nn.ReLU())][:-1])
        self.params = [p for p in self.peft.parameters() if p.requires_grad] + [
            self.row,
            self.out_row,
            *self.head.parameters(),
        ]

    def prepared(self, *pictures):
        return self.images(
            [p if isinstance(p, Image.Image) else Image.open(p).convert("RGB") for p in pictures], return_tensors="pt"
        )

    def features(self, *pictures):
        """pixels -> one tensor of image features; the vision tower is frozen."""
        inputs = self.prepared(*pictures)
        with torch.no_grad():
            out = self.model.model.get_image_features(inputs["pixel_values"], inputs["image_sizes"]).pooler_output
        return [f for f in out]

    def embeds(self, features, instruction):
        turn = [{"type": "image"}] * len(features) + [
            {"type": "text", "text": self.meta["question"].replace("[INSTRUCTION]", instruction)}
        ]
        if self.meta.get("layout") == "instruction_first":
            turn.insert(1, turn.pop())
        prompt = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": turn}],
            chat_template=self.meta.get("chat_template"),
            tokenize=False,
            add_generation_prompt=True,
        )
        pieces = prompt.split("<image>")
        text = pieces[0] + "".join("<image>" * len(f) + p for f, p in zip(features, pieces[1:]))
        start = len(self.tokenizer(text)["input_ids"])
        ids = torch.tensor(self.tokenizer(text + self.meta["answer"] + "<|eot_id|>")["input_ids"])
        score, image = self.tokenizer.convert_tokens_to_ids("[SCORE]"), self.tokenizer.convert_tokens_to_ids("<image>")
        table = self.model.get_input_embeddings()
        x = table(ids.clamp(max=self.vocab - 1))
        x = torch.where((ids == score)[:, None], self.row, x)
        x = x.masked_scatter((ids == image)[:, None], torch.cat(features))
        ids = torch.where(ids == score, self.vocab, ids)
        return x[None], ids, start, int((ids == self.vocab).nonzero()[0])

    def hidden(self, x):
        return self.model.model.language_model(inputs_embeds=x, use_cache=False).last_hidden_state[0]

    def score(self, x, at):
        """The head's value for the row at position at."""
        return self.head(self.hidden(x)[at])[0]


def others(edit, n):
    """Edits that differ in one pixel, as in main.go."""
    out = []
    for i in range(n):
        picture = Image.open(edit).convert("RGB")
        r, g, b = picture.getpixel((0, 0))
        picture.putpixel((0, 0), (i & 255, i >> 8, b))
        out.append(picture)
    return out


def group(s, what, source, edit, n, facts):
    """A function that takes a step over a group, or scores it, edit by edit. It writes its results to facts."""
    if what == "group-score":

        def once():
            with torch.inference_mode():
                first, scores = s.features(source), []
                for one in others(edit, n):
                    x, ids, _, at = s.embeds(first + s.features(one), INSTRUCTION)
                    scores.append(float(s.score(x, at)))
                facts.update(scores=scores, tokens=len(ids))

        return once
    first, features = s.features(source), [s.features(e) for e in others(edit, n)]

    def once():
        total, facts["loss"] = None, 0.0
        for one in features:
            x, ids, start, at = s.embeds(first + one, INSTRUCTION)
            h = s.hidden(x)
            before = h[start - 1 : -1]
            logits = torch.cat([s.model.lm_head(before), (before @ s.out_row)[:, None]], -1)
            loss = (nn.functional.cross_entropy(logits, ids[start:]) + 10 * (s.head(h[at])[0] - 0.5).abs()) / n
            grads = torch.autograd.grad(loss, s.params)
            total = grads if total is None else [a + b for a, b in zip(total, grads)]
            facts["loss"] += float(loss.detach())
        facts.update(tokens=len(ids), grads=len(total))

    return once


def main():
    what, folder, source, edit, steps = sys.argv[1:5] + [int(sys.argv[5])]
    more = sys.argv[6:]
    s = Scorer(folder, what in ("step", "group-step"))
    facts = {}
    if what == "step":
        if "recompute" in more:
            s.model.train(True)  # transformers checkpoints in training mode only; the adapter has no dropout
            s.model.gradient_checkpointing_enable({"use_reentrant": False})
        first, edits = s.features(source), others(edit, int(more[0]))
        features = [s.features(e) for e in edits]

        def once():
            batch = [s.embeds(first + one, INSTRUCTION) for one in features]  # all have the same length: no padding
            _, ids, start, at = batch[0]
            h = s.model.model.language_model(
                inputs_embeds=torch.cat([b[0] for b in batch]), use_cache=False
            ).last_hidden_state
            before = h[:, start - 1 : -1]
            logits = torch.cat([s.model.lm_head(before), (before @ s.out_row)[..., None]], -1)
            text = nn.functional.cross_entropy(logits.flatten(0, 1), torch.cat([b[1][start:] for b in batch]))
            loss = text + 10 * (s.head(h[:, at])[:, 0] - 0.5).abs().mean()
            grads = torch.autograd.grad(loss, s.params)
            facts.update(loss=float(loss), tokens=len(ids), grads=len(grads))
    elif what in ("group-step", "group-score"):
        once = group(s, what, source, edit, int(more[0]), facts)
    else:

        def once():
            with torch.inference_mode():
                for i in range(int(more[0])):
                    x, ids, _, at = s.embeds(s.features(source, edit), f"{INSTRUCTION} {i}")
                    facts.update(score=10 * float(s.score(x, at)), tokens=len(ids))

    if steps != 1:  # warm-up, unless a run is long
        once()
    if steps == 0:
        return print(json.dumps(facts))
    seconds = []
    for _ in range(steps):
        t = time.time()
        once()
        seconds.append(time.time() - t)
    print(json.dumps({"seconds": seconds, **facts}))


if __name__ == "__main__":
    main()
