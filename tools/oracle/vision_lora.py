"""Adapters of vision towers and gradients of whole backbones, for internal/modeltest: every linear layer of the tower, the projector
and the language model gets a LoRA; one case's loss is differentiated with respect to it and to every parameter of the backbone.

    python vision_lora.py FOLDER_OF_SCORER_PY ../../testdata/oracle ../../model [FAMILY...]
"""
import json
import shutil
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file

sys.path.insert(0, sys.argv[1])
from scorer import FAMILIES, Preprocessor, Scorer, head_tensors, make_head, pair_images

fixtures, out = Path(sys.argv[2]), Path(sys.argv[3])
# the package, a case with two pictures of different sizes, its scorer
CASES = {"llavanext": ("llavanext", 8, "scorer_sequence"), "qwen2_5_vl": ("qwen25vl", 3, "scorer_sequence"),
         "qwen2_vl": ("qwen2vl", 1, "scorer_sequence"), "qwen3_vl": ("qwen3vl", 3, "scorer_sequence")}

for family in sys.argv[4:] or CASES:
    package, number, scorer_name = CASES[family]
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
    folder = out / package / "testdata" / "vision"
    shutil.rmtree(folder, ignore_errors=True)
    peft.save_pretrained(folder, save_embedding_layers=False)
    (folder / "README.md").unlink()
    backbone = "../../../../testdata/oracle/%s/backbone" % family
    (folder / "scorer.yaml").write_text((source / scorer_name / "scorer.yaml").read_text().replace('"../backbone"', json.dumps(backbone)))
    shutil.copy(source / scorer_name / "head.safetensors", folder / "head.safetensors")

    t = load_file(folder / "head.safetensors")
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
    shutil.copymode(source / "cases.json", folder / "case.json")
    print(family, len(grads), float(loss), sum(g.numel() for g in grads.values()))
