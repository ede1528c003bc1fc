"""Makes internal/trainer/testdata/sft/: ten steps of supervised fine-tuning with transformers and PEFT on conversations with pictures,
for the trainer's text mode. Run from the repository root:

    python tools/oracle/sft.py

In runs.zip a family's folder holds init/ (the adapter that training starts from), final.safetensors (its tensors after ten steps) and
run.json (losses, gradient norms, losses and right tokens of the validation part at the end; or, for the full backbone,
some tensors after the steps). All conversations are in every step: the order of the rows does not matter.

Loss: the mean over all tokens of all answers of -log softmax. The tokens of an answer are those after the prompt that
apply_chat_template renders from the messages before it, up to and including the end of the turn. One conversation is run at a time,
without padding; dropout 0; torch.optim.AdamW.
"""

import json
import shutil
import tempfile
from pathlib import Path

import torch
from pack import pack
from peft import LoraConfig, get_peft_model
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import AutoModelForImageTextToText, AutoTokenizer, LlavaNextProcessor
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

torch.set_num_threads(1)
ORACLE, OUT = Path("testdata/oracle"), Path("internal/trainer/testdata/sft")
PICTURES = "../../../../testdata/oracle/images/"  # from OUT


def said(role, *parts):
    content = [{"type": "image", "image": PICTURES + p} if p.endswith(".png") else {"type": "text", "text": p} for p in parts]
    return {"role": role, "content": content}


TRAIN = [
    [said("user", "coffee.png", "What is this?"), said("assistant", "A cup of coffee on a table.")],
    [said("system", "Answer in few words."), said("user", "camera.png", "camera_flip.png", "What was changed?"),
     said("assistant", "The picture was flipped."), said("user", "And the colours?"), said("assistant", "As before, isn't it?")],
    [said("user", "How many legs has a cat?"), said("assistant", "Four.")],
    [said("user", "chelsea.png", "Who is she?"), said("assistant", "A cat: Chelsea."),
     said("user", "rocket.png", "And here?"), said("assistant", "A rocket\n\nat night"), said("user", "Really?"), said("assistant", "Yes")],
]
VALID = [
    [said("user", "rocket_grey.png", "What is this?"), said("assistant", "A rocket in grey.")],
    [said("user", "coins.png", "Coins?"), said("assistant", "Coins, old ones."), said("user", "Of gold?"), said("assistant", "No.")],
]

# family: (targets, r, alpha, optimizer)
RUNS = {
    "llavanext": dict(targets=r".*language_model.*\.(q_proj|v_proj)", r=8, alpha=16, lr=2e-3, betas=(0.9, 0.999), decay=0.0, clip=1.0),
    "qwen2_5_vl": dict(targets=r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)", r=4, alpha=8, lr=2e-3,
                       betas=(0.9, 0.95), decay=0.01, clip=0.5),
    "qwen2_vl": dict(targets="all-linear", r=2, alpha=4, lr=1e-3, betas=(0.9, 0.999), decay=0.0, clip=1.0),
    "qwen3_vl": dict(full=True, lr=5e-4, betas=(0.9, 0.999), decay=0.0, clip=1.0),
}
STEPS = 10


class Processor:
    """Tokenizer and image processor (transformers' processors of Qwen-VL need torchvision, for videos)."""

    def __init__(self, family, backbone):
        image_class, self.placeholder, end = {
            "llavanext": (LlavaNextImageProcessorPil, "<image>", "<|eot_id|>")}.get(
                family, (Qwen2VLImageProcessorPil, "<|image_pad|>", "<|im_end|>"))
        self.family, self.images, self.tokenizer = family, image_class.from_pretrained(backbone), AutoTokenizer.from_pretrained(backbone)
        self.end, self.pad = (self.tokenizer.convert_tokens_to_ids(t) for t in (end, self.placeholder))
        if family == "llavanext":
            meta = json.loads((backbone / "processor_config.json").read_text())
            self.counter = LlavaNextProcessor(self.images, self.tokenizer, **{k: meta[k] for k in (
                "patch_size", "vision_feature_select_strategy", "num_additional_image_tokens")})

    def inputs(self, messages, prompted):
        images = [Image.open(OUT / c["image"]).convert("RGB") for m in messages for c in m["content"] if c["type"] == "image"]
        out = dict(self.images(images, return_tensors="pt")) if images else {}
        if not images:
            counts = []
        elif self.family == "llavanext":
            counts = self.counter._get_num_multimodal_tokens([[i.height, i.width] for i in images])["num_image_tokens"]
        else:
            counts = [int(t * h * w) // self.images.merge_size**2 for t, h, w in out["image_grid_thw"]]
        pieces = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompted).split(self.placeholder)
        text = pieces[0] + "".join(self.placeholder * n + p for n, p in zip(counts, pieces[1:], strict=True))
        out["input_ids"] = torch.tensor([self.tokenizer(text)["input_ids"]])
        out["attention_mask"] = torch.ones_like(out["input_ids"])
        if self.family != "llavanext":
            out["mm_token_type_ids"] = (out["input_ids"] == self.pad).long()
        return out

    def __call__(self, messages):
        """Inputs of a conversation, and the positions of its answers' tokens."""
        whole = self.inputs(messages, False)
        ids = whole["input_ids"][0].tolist()
        places = []
        for i, m in enumerate(messages):
            if m["role"] == "assistant":
                head = self.inputs(messages[:i], True)["input_ids"][0].tolist()
                assert ids[: len(head)] == head, "the prompt is not a prefix of the conversation"
                places += range(len(head), ids.index(self.end, len(head)) + 1)
        return whole, torch.tensor(places)


def losses(model, sample):
    """-log softmax of every token of the answers, and how many are the most likely token."""
    inputs, places = sample
    logits = model(**inputs).logits[0, places - 1].float()
    ids = inputs["input_ids"][0, places]
    nll = torch.nn.functional.cross_entropy(logits, ids, reduction="none")
    return nll, (logits.argmax(-1) == ids).sum().item()


def table(name, conversations):
    lines = [json.dumps({"id": f"{name}{i}", "messages": m}) for i, m in enumerate(conversations)]
    (OUT / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


OUT.mkdir(parents=True, exist_ok=True)
table("train", TRAIN)
table("valid", VALID)
made = Path(tempfile.mkdtemp())
for family in RUNS:
    run, backbone, folder = RUNS[family], ORACLE / family / "backbone", made / family
    folder.mkdir()
    torch.manual_seed(11)
    model = AutoModelForImageTextToText.from_pretrained(backbone, dtype=torch.float32, attn_implementation="eager")
    processor = Processor(family, backbone)
    full = run.get("full", False)
    if not full:
        model.name_or_path = model.config._name_or_path = "backbone"
        model = get_peft_model(model, LoraConfig(r=run["r"], lora_alpha=run["alpha"], lora_dropout=0.0, target_modules=run["targets"],
                                                 task_type="CAUSAL_LM"))
        with torch.no_grad():
            for n, p in model.named_parameters():
                if "lora_B" in n:
                    p.copy_(torch.randn(p.shape) * 0.02)
        model.save_pretrained(folder / "init", save_embedding_layers=False)
        (folder / "init" / "README.md").unlink()
    model.train()
    train, valid = ([processor(m) for m in part] for part in (TRAIN, VALID))
    params = [p for p in model.parameters() if p.requires_grad]
    total = sum(len(places) for _, places in train)
    optimizer = torch.optim.AdamW(params, lr=run["lr"], betas=run["betas"], eps=1e-8, weight_decay=run["decay"], foreach=False)
    trace = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = 0.0
        for sample in train:
            part = losses(model, sample)[0].sum() / total
            part.backward()
            loss += part.item()
        norm = torch.nn.utils.clip_grad_norm_(params, run["clip"])
        trace.append({"loss": loss, "grad_norm": norm.item()})
        optimizer.step()
    model.eval()
    with torch.no_grad():
        ends = [losses(model, s) for s in valid]
    tokens = sum(len(n) for n, _ in ends)
    facts = {k: v for k, v in run.items() if k not in ("targets",)} | {
        "steps": trace, "tokens": total, "validation": {"loss": sum(n.sum().item() for n, _ in ends) / tokens,
                                                        "right": sum(r for _, r in ends), "tokens": tokens}}
    if full:
        chosen = {n: p for n, p in model.state_dict().items()
                  if p.numel() <= 3000 and any(w in n for w in ("norm", "q_proj.weight", "qkv.bias", "merger", "deepstack"))}
        save_file({n: p.contiguous().clone() for n, p in chosen.items()}, folder / "final.safetensors")
    else:
        shutil.rmtree(folder / "last", ignore_errors=True)
        model.save_pretrained(folder / "last", save_embedding_layers=False)
        save_file(load_file(folder / "last" / "adapter_model.safetensors"), folder / "final.safetensors")
        shutil.rmtree(folder / "last")
    (folder / "run.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(family, trace[0], trace[-1], facts["validation"], sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()))
pack(made, OUT / "runs.zip")
shutil.rmtree(made)
