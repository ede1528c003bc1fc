"""Adapters with PEFT's variants of LoRA, trained for five steps by PEFT, for internal/modeltest: the start of each (adapter files
saved by PEFT), the losses, and every trained tensor afterwards.

    python peft_ways.py FOLDER_OF_SCORER_PY ../../testdata/oracle ../../internal/modeltest/testdata/peft.zip
"""
import io
import json
import shutil
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

sys.path.insert(0, sys.argv[1])
from scorer import FAMILIES, Preprocessor, Scorer, head_tensors, make_head, pair_images

warnings.simplefilter("ignore")
torch.set_num_threads(1)
fixtures, out = Path(sys.argv[2]), Path(sys.argv[3])
QV = dict(r=4, lora_alpha=8, target_modules=r".*language_model.*\.(q_proj|v_proj)", task_type="CAUSAL_LM")
ALL = dict(QV, r=2, target_modules="all-linear")
WAYS = {
    "llavanext": {
        "dora": dict(QV, use_dora=True),
        "dora_everywhere": dict(ALL, use_dora=True, use_rslora=True, rank_pattern={"o_proj": 3}),
        "pissa": dict(QV, init_lora_weights="pissa"),
        "pissa_rslora": dict(QV, init_lora_weights="pissa", use_rslora=True, alpha_pattern={"v_proj": 5}),
        "olora": dict(QV, init_lora_weights="olora"),
        "projector": dict(QV, modules_to_save=["multi_modal_projector"]),
        "tables": dict(QV, modules_to_save=["lm_head", "layers.1.mlp.down_proj", "language_model.norm"]),
        "bias_all": dict(QV, bias="all"),
    },
    "qwen2_5_vl": {
        "bias_lora_only": dict(QV, bias="lora_only"),
        "dora": dict(QV, use_dora=True, bias="lora_only"),
        "merger": dict(QV, modules_to_save=["merger.ln_q", "merger.mlp.2"]),
        "olora_everywhere": dict(ALL, init_lora_weights="olora", exclude_modules=r".*(visual|lm_head).*"),
    },
}
CASES = {"llavanext": ([0, 1], "scorer"), "qwen2_5_vl": ([0, 1], "scorer")}
LR, BETAS, DECAY = 2e-3, (0.9, 0.95), 0.01


def adapter_files(peft, folder):
    peft.save_pretrained(folder, save_embedding_layers=False)
    return {n: (folder / n).read_bytes() for n in ("adapter_config.json", "adapter_model.safetensors")}


def run(family, name, fields):
    torch.manual_seed(hash_of := sum(map(ord, family + name)))
    source = fixtures / family
    ids, scorer_name = CASES[family]
    base = FAMILIES[family][0].from_pretrained(source / "backbone", dtype=torch.float32, attn_implementation="eager")
    base.name_or_path = base.config._name_or_path = "backbone"
    peft = get_peft_model(base, LoraConfig(**fields))
    if "use_dora" in fields:  # a different start than B = 0, m = |W|
        with torch.no_grad():
            for n, p in peft.named_parameters():
                if "lora_B" in n:
                    p.add_(torch.randn(p.shape) * 0.05)
                if "magnitude" in n:
                    p.mul_(1 + 0.1 * torch.randn(p.shape))
    with tempfile.TemporaryDirectory() as d:
        files = {f"start/{n}": v for n, v in adapter_files(peft, Path(d)).items()}
    t = load_file(source / scorer_name / "head.safetensors")
    hidden = [t[f"layers.{i}.weight"].shape[0] for i in range(sum(n.endswith("weight") for n in t))][:-1]
    head = make_head(base.config.text_config.hidden_size, hidden)
    with torch.no_grad():
        for n, p in head_tensors(head).items():
            p.copy_(t[n])
    trained = {n: p for n, p in peft.named_parameters() if p.requires_grad}
    scorer = Scorer(peft, head, t["score_token.embedding"], t["score_token.lm_head"])
    pre = Preprocessor(family, source / "backbone", "[SCORE]", base.config.text_config.vocab_size)
    cases = {c["id"]: c for c in json.loads((source / "cases.json").read_text())}
    params = list(trained.values()) + list(head.parameters()) + [scorer.embedding_row, scorer.lm_head_row]
    opt = torch.optim.AdamW(params, lr=LR, betas=BETAS, eps=1e-8, weight_decay=DECAY, foreach=False)
    losses = []
    for step in range(5):
        case = cases[ids[step % len(ids)]]
        images = pair_images(case["pair"], source / case["source"], source / case["edited"])
        inputs, facts = pre(images, case["question"], case["answer"], case["pair"])
        answer = scorer(inputs, facts["answer_start"], facts["score_index"])
        loss, _, _ = scorer.loss(answer, inputs["input_ids"], facts["answer_start"], case["label"] / 10)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(float(f"{float(loss):.7g}"))
    final = {f"scorer.{n}": p.detach() for n, p in head_tensors(head).items()}
    final |= {"scorer.score_token.embedding": scorer.embedding_row.detach(), "scorer.score_token.lm_head": scorer.lm_head_row.detach()}
    scorer.model.set_input_embeddings(scorer.model.get_input_embeddings().table if hasattr(scorer.model.get_input_embeddings(), "table") else scorer.model.get_input_embeddings())
    with tempfile.TemporaryDirectory() as d:
        adapter_files(peft, Path(d))
        for n, p in load_file(Path(d) / "adapter_model.safetensors").items():
            final[n if p.numel() <= 4096 else n + "@13"] = p if p.numel() <= 4096 else p.flatten()[::13]  # only some elements of large ones
        files["final/adapter_config.json"] = (Path(d) / "adapter_config.json").read_bytes()
    merged = {}
    if name in ("dora", "projector", "pissa"):  # the weights merged by PEFT
        whole = peft.merge_and_unload().state_dict()
        merged = {n: whole[n].clone() for n in whole if "layers.1.self_attn.v_proj" in n and "language" in n or "multi_modal_projector" in n}
    with tempfile.TemporaryDirectory() as d:
        for what, tensors in (("final/tensors", final), ("final/merged", merged)):
            if tensors:
                save_file({n: p.contiguous().clone() for n, p in tensors.items()}, Path(d) / "x")
                files[f"{what}.safetensors"] = (Path(d) / "x").read_bytes()
    files["run.json"] = json.dumps({"scorer": scorer_name, "cases": ids, "losses": losses, "lr": LR, "betas": BETAS, "weight_decay": DECAY}).encode()
    print(family, name, losses, sum(map(len, files.values())))
    return files


with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
    for family, ways in WAYS.items():
        for name, fields in ways.items():
            for file, content in sorted(run(family, name, fields).items()):
                z.writestr(zipfile.ZipInfo(f"{family}/{name}/{file}"), content, zipfile.ZIP_DEFLATED)
