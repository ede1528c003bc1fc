"""Greedy answers of transformers about two pictures passed as two frames: internal/generate/testdata/frames.json.

    python tools/oracle/frames.py backbones/tiny testdata/oracle/images > internal/generate/testdata/frames.json

Each patch takes its first frame from one picture and its second from the other, which Pillow resizes to the first one's size.
log_probs are by token of the answer, including its end token: the training loss is minus their sum.
"""
import json
import sys

import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoTokenizer
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

CASES = [
    ("astronaut", "astronaut_purple", "what was done?"),
    ("camera", "camera_flip", "is it done? mirror it"),
    ("chelsea", "rocket_grey", "what was there?"),
    ("hubble", "hubble_bright_small", "is a part of it done? make it brighter"),
    ("coffee", "coffee_blur", "what was done?"),
]


@torch.no_grad()
def main(backbone, folder):
    model = AutoModelForImageTextToText.from_pretrained(backbone, dtype=torch.float32, attn_implementation="eager").eval()
    images, tokenizer = Qwen2VLImageProcessorPil.from_pretrained(backbone), AutoTokenizer.from_pretrained(backbone)
    pad = tokenizer.convert_tokens_to_ids("<|image_pad|>")
    cases = []
    for source, edit, question in CASES:
        a, b = (Image.open(f"{folder}/{n}.png").convert("RGB") for n in (source, edit))
        shown = dict(images([a, b.resize(a.size, Image.BICUBIC)], return_tensors="pt"))
        first, second = (x.unflatten(1, (3, 2, -1)) for x in shown["pixel_values"].chunk(2))
        grid = shown["image_grid_thw"][:1]
        pixels = torch.stack([first[:, :, 0], second[:, :, 1]], 2).flatten(1)
        turn = [{"type": "image"}, {"type": "text", "text": question}]
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": turn}], tokenize=False, add_generation_prompt=True)
        prompt = prompt.replace("<|image_pad|>", "<|image_pad|>" * (int(grid.prod()) // images.merge_size**2))
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        inputs = {"pixel_values": pixels, "image_grid_thw": grid}
        new = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), mm_token_type_ids=(ids == pad).long(), do_sample=False,
                             max_new_tokens=24, **inputs)[0, ids.shape[1]:]
        whole = torch.cat([ids[0], new])[None]
        logits = model(input_ids=whole, attention_mask=torch.ones_like(whole), mm_token_type_ids=(whole == pad).long(), **inputs).logits
        log_probs = logits[0, ids.shape[1] - 1 : -1].log_softmax(-1)[torch.arange(len(new)), new]
        cases.append({"pictures": [source, edit], "question": question, "new_ids": new.tolist(),
                      "text": tokenizer.decode(new, skip_special_tokens=True), "log_probs": [round(v, 6) for v in log_probs.tolist()]})
    print(json.dumps({"cases": cases}, indent=1))


if __name__ == "__main__":
    torch.manual_seed(0)
    main(*sys.argv[1:3])
