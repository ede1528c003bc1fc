"""Adapters of vision towers and gradients of full backbones, for internal/modeltest: every linear layer of the tower, the projector
and the language model gets a LoRA; the loss of one case is differentiated with respect to the LoRA and to every parameter of the backbone.

    python vision_lora.py FOLDER_OF_SCORER_PY ../../testdata/oracle ../../internal/modeltest/testdata/vision.zip
"""
import json
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from pack import pack
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

sys.path.insert(0, sys.argv[1])
from scorer import FAMILIES, Preprocessor, Scorer, head_tensors, make_head, pair_images

fixtures, out = Path(sys.argv[2]), Path(tempfile.mkdtemp())
CASES = {"llavanext": 8, "qwen2_5_vl": 3, "qwen2_vl": 1, "qwen3_vl": 3}  # a case with two pictures of different sizes

for family, number in CASES.items():
    torch.manual_seed(7)
    source = fixtures / family
    case = next(c for c in json.loads((source / "cases.json").read_text()) if c["id"] == number)
    base = FAMILIES[family][0].from_pretrained(source / "backbone", dtype=torch.float32, attn_implementation="eager")
    base.name_or_path = base.config._name_or_path = "backbone"
    peft = get_peft_model(base, LoraConfig(r=2, lora_alpha=4, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"))
    for n, p in peft.named_parameters():
        p.requires_grad_(True)
        if "lora_" in n:
            p.data = torch.randn(p.shape) * (p.shape[1] ** -0.5 if "lora_A" in n else 0.04)
    folder = out / family
    peft.save_pretrained(folder, save_embedding_layers=False)
    (folder / "README.md").unlink()

    t = load_file(source / case["scorer"] / "head.safetensors")
    hidden = [t[f"layers.{i}.weight"].shape[0] for i in range(sum(n.endswith("weight") for n in t))][:-1]
    head = make_head(base.config.text_config.hidden_size, hidden)
    with torch.no_grad():
        for n, p in head_tensors(head).items():
            p.copy_(t[n])
    scorer = Scorer(peft, head, t["score_token.embedding"], t["score_token.lm_head"])
    pre = Preprocessor(family, source / "backbone", "[SCORE]", base.config.text_config.vocab_size)
    images = pair_images(case["pair"], source / case["source"], source / case["edited"])
    inputs, facts = pre(images, case["question"], case["answer"], case["pair"])
    answer = scorer(inputs, facts["answer_start"], facts["score_index"])
    loss, _, _ = scorer.loss(answer, inputs["input_ids"], facts["answer_start"], case["label"] / 10)
    loss.backward()
    grads = {}
    for n, p in peft.named_parameters():
        if p.grad is None or "embed_tokens.row" in n or n == "base_model.model.lm_head.weight":
            continue
        n = n.replace(".default", "")
        if "lora_" not in n:  # a parameter of the backbone, by its path in transformers; a few are enough
            n = n.removeprefix("base_model.model.").replace(".base_layer", "").replace("embed_tokens.table", "embed_tokens")
            if p.numel() > 6000 or ".layers.1." in n or ".blocks.1." in n:
                continue
        grads[n] = p.grad.contiguous()
    save_file(grads, folder / "grads.safetensors", {"format": "pt"})
    (folder / "case.json").write_text(json.dumps({"id": number, "loss": round(float(loss), 6)}) + "\n")
    print(family, len(grads), float(loss), sum(g.numel() for g in grads.values()))
pack(out, sys.argv[3])
shutil.rmtree(out)
