"""Hidden states of a fresh Qwen-VL checkpoint in transformers: model/fresh/testdata/FAMILY_states.json.

    train init --family FAMILY --seed 3 --text model/fresh/testdata/corpus.txt --out BACKBONE
    python tools/oracle/fresh_qwen.py BACKBONE testdata/oracle/images > model/fresh/testdata/FAMILY_states.json

The checkpoint must load without missing or unexpected keys. A score token's row is the mean of the embedding table.
"""
import json
import sys

import torch
from PIL import Image
from tokenizers import AddedToken
from transformers import AutoModelForImageTextToText, AutoTokenizer
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

QUESTION, ANSWER, FIRST = "How well was this done: make it purple?", "[SCORE]", 8


def pictures(folder, pair):
    source, edit = (Image.open(f"{folder}/{n}.png").convert("RGB").resize((112, 84), Image.BICUBIC) for n in ("astronaut", "astronaut_purple"))
    if pair != "concat":
        return [source, edit]
    both = Image.new("RGB", (224, 84))
    both.paste(source, (0, 0))
    both.paste(edit, (112, 0))
    return [both]


@torch.no_grad()
def states(backbone, folder):
    model, info = AutoModelForImageTextToText.from_pretrained(backbone, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    assert not any(info.values()), info
    model.eval()
    images, tokenizer = Qwen2VLImageProcessorPil.from_pretrained(backbone), AutoTokenizer.from_pretrained(backbone)
    tokenizer.add_tokens([AddedToken("[SCORE]", special=True, normalized=False)])
    score, pad = tokenizer.convert_tokens_to_ids(["[SCORE]", "<|image_pad|>"])
    table = model.get_input_embeddings().weight
    rows = table.shape[0]
    model.set_input_embeddings(torch.nn.Embedding.from_pretrained(torch.cat([table, table.mean(0, keepdim=True)])))
    out = {}
    for pair in ("frames", "sequence", "concat"):
        shown = pictures(folder, pair)
        inputs = dict(images(shown, return_tensors="pt"))
        if pair == "frames":
            first, second = (x.unflatten(1, (3, 2, -1)) for x in inputs["pixel_values"].chunk(2))
            inputs = {"pixel_values": torch.stack([first[:, :, 0], second[:, :, 1]], 2).flatten(1), "image_grid_thw": inputs["image_grid_thw"][:1]}
        counts = [int(n.prod()) // images.merge_size**2 for n in inputs["image_grid_thw"]]
        turn = [{"type": "image"} for _ in counts] + [{"type": "text", "text": QUESTION}]
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": turn}], tokenize=False, add_generation_prompt=True)
        pieces = prompt.split("<|image_pad|>")
        text = pieces[0] + "".join("<|image_pad|>" * n + p for n, p in zip(counts, pieces[1:])) + ANSWER + "<|im_end|>"
        ids = [rows if i == score else i for i in tokenizer(text)["input_ids"]]
        inputs["input_ids"] = torch.tensor([ids])
        inputs["mm_token_type_ids"] = (inputs["input_ids"] == pad).long()
        hidden = model.model(**inputs, attention_mask=torch.ones_like(inputs["input_ids"]), use_cache=False).last_hidden_state
        out[pair] = {"tokens": len(ids), "state": hidden[0, ids.index(rows), :FIRST].tolist()}
    return out


if __name__ == "__main__":
    torch.manual_seed(0)
    json.dump(states(*sys.argv[1:3]), sys.stdout, indent=1)
    print()
