"""PyTorch's side of `make bench` for the shipped scorer: pairs of a table in batches, with transformers and PEFT.

    qwen_torch.py SCORER TABLE PAIRS BATCH
    qwen_torch.py SCORER SOURCE EDIT PAIRS BATCH STEPS

Prints one JSON line: seconds from picture files to scores, and the scores. The second form differentiates the scores
of PAIRS pairs with respect to pixel_values; pictures are decoded before, and no two are the same.
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
from transformers import AutoTokenizer, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

warnings.filterwarnings("ignore")


def other(im, i):
    """The picture with one pixel changed."""
    im = im.copy()
    im.putpixel((0, 0), (i % 256, i // 256, im.getpixel((0, 0))[2]))
    return im


def main():
    gradients = len(sys.argv) == 7
    folder, table, count, batch = (
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        int(sys.argv[-3 if gradients else 3]),
        int(sys.argv[-2 if gradients else 4]),
    )
    meta = yaml.safe_load((folder / "scorer.yaml").read_text())
    backbone = (folder / meta["backbone"]).resolve()
    base = Qwen2_5_VLForConditionalGeneration.from_pretrained(backbone, dtype=torch.float32, attn_implementation="sdpa")
    model = PeftModel.from_pretrained(base, folder).merge_and_unload().eval()
    images, tokenizer = (
        Qwen2VLImageProcessorPil.from_pretrained(backbone),
        AutoTokenizer.from_pretrained(backbone, padding_side="left"),
    )
    pad = tokenizer.convert_tokens_to_ids("<|image_pad|>")
    t, size = load_file(folder / "head.safetensors"), tuple(reversed(meta["pair_size"]))
    values = torch.tensor(meta["head"]["values"])
    if gradients:
        opened = {k: Image.open(sys.argv[n]).convert("RGB") for k, n in (("source", 2), ("edit", 3))}
        rows = [
            {"instruction": "make the picture brighter", **{k: other(im, i) for k, im in opened.items()}}
            for i in range(count)
        ]
    else:
        rows = [json.loads(line) for line in table.read_text().splitlines()][:count]
    tokens = (size[0] // 16) * (size[1] // 16)

    def score(part):
        shown = [
            (r[k] if gradients else Image.open(table.parent / r[k]).convert("RGB")).resize(size, Image.BICUBIC)
            for r in part
            for k in ("source", "edit")
        ]
        inputs = images(shown, return_tensors="pt")
        frames = inputs["pixel_values"].unflatten(0, (len(part), 2, -1)).unflatten(-1, (3, 2, -1))
        pixels = (
            torch.stack([frames[:, 0, :, :, 0], frames[:, 1, :, :, 1]], 3)
            .flatten(3)
            .flatten(2)
            .flatten(0, 1)
            .requires_grad_(gradients)
        )
        texts = []
        for r in part:
            turn = [
                {"type": "image"},
                {"type": "text", "text": meta["question"].replace("[INSTRUCTION]", r["instruction"])},
            ]
            prompt = tokenizer.apply_chat_template(
                [{"role": "user", "content": turn}], tokenize=False, add_generation_prompt=True
            )
            texts.append(prompt.replace("<|image_pad|>", "<|image_pad|>" * tokens))
        text = tokenizer(texts, return_tensors="pt", padding=True)
        state = model.model(
            input_ids=text["input_ids"],
            attention_mask=text["attention_mask"],
            pixel_values=pixels,
            image_grid_thw=inputs["image_grid_thw"][::2],
            mm_token_type_ids=(text["input_ids"] == pad).long(),
            use_cache=False,
        ).last_hidden_state[:, -1]
        z = (
            torch.relu(state @ t["layers.0.weight"].T + t["layers.0.bias"]) @ t["layers.1.weight"].T
            + t["layers.1.bias"]
        )
        out = z.softmax(-1) @ values
        if gradients:
            torch.autograd.grad(out.sum(), pixels)
        return out.tolist()

    if gradients:
        for p in model.parameters():
            p.requires_grad_(False)
        seconds = []
        for _ in range(int(sys.argv[-1]) + 1):
            start, scores = time.time(), []
            for i in range(0, len(rows), batch):
                scores += score(rows[i : i + batch])
            seconds.append(time.time() - start)
        return print(json.dumps({"seconds": seconds[1:], "scores": scores}))  # the first one is a warm-up
    start, scores = time.time(), []
    with torch.inference_mode():
        for i in range(0, len(rows), batch):
            scores += score(rows[i : i + batch])
    print(json.dumps({"seconds": [time.time() - start] if count > 1 else [], "scores": scores}))


if __name__ == "__main__":
    main()
