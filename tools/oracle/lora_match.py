"""Writes lora/testdata: the layers that PEFT adapts for many adapter configurations on small models of both families, merged
weights, and the files that PEFT writes for an adapter with most options. Usage: lora_match.py OUT LLAVANEXT_BACKBONE QWEN2_5_VL_BACKBONE"""
import copy
import gzip
import json
import random
import sys
import warnings

import torch
from peft import LoraConfig, PeftModel, get_peft_model, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForImageTextToText

warnings.simplefilter("ignore")
out, backbones = sys.argv[1], {"llavanext": sys.argv[2], "qwen2_5_vl": sys.argv[3]}
rng = random.Random(7)


def kind(m):
    return "linear" if isinstance(m, torch.nn.Linear) else type(m).__name__ if not list(m.children()) else "container"


def result(model, fields):
    """{module: [r, alpha, scaling]}, or the kind of error."""
    try:
        m = inject_adapter_in_model(LoraConfig(**fields), copy.deepcopy(model))
    except ValueError as e:
        text = str(e)
        if "not supported" in text:
            return "unsupported"
        if "not found in the base model" in text or "were excluded" in text or "No modules were targeted" in text:
            return "none"
        raise
    # sub-modules of a Conv or Embedding adapter are also LoRA layers: their type shows that they are not linear
    got = {n: [l.r["default"], l.lora_alpha["default"], l.scaling["default"]]
           for n, l in m.named_modules() if isinstance(l, LoraLayer)}
    return got


def suffix(name):
    parts = name.split(".")
    return ".".join(parts[-rng.choice([1, 1, 1, 2, 3, len(parts)]):])


def expression(names):
    n = rng.choice(names).split(".")
    layer = next((p for p in n if p.isdigit()), "0")
    last = n[-1]
    return rng.choice([
        rf".*\.{last}", rf".*language_model.*\.(q_proj|{last})", rf"(?!.*language_model).*\.{last}", rf".*\.{last[:2]}\w+",
        rf"model\.\w+\.(?:encoder\.layers|layers|blocks)\.[0-{layer}]\..*(?:proj|qkv|fc\d)", rf"(?i).*{last.upper()}",
        rf".*\.(?P<p>{layer})\..*(?<=self_attn\.){last}", rf"^.*\.\d+\.(?:self_attn|attn|mlp)\.{last}$", rf".*{last}\Z",
        rf".*\.(?P<a>[a-z])(?:_proj|kv)|.*\.(?P<b>{last})", r".*\.(?P<x>\w)\w*_(?!(?P=x))\w+", last, rf"lm_head|.*{layer}.*{last}",
    ])


def overrides(names):
    keys = [suffix(rng.choice(names)), rng.choice(names).split(".")[-1], rf".*\.{rng.randint(0, 3)}\..*", r"^model\..*q_proj",
            r"(q|k)_proj", r"layers\.\d+\.self_attn\.v_proj", "roj"]
    return {k: rng.choice([1, 2, 3, 4, 16, 32]) for k in rng.sample(keys, rng.randint(1, 3))}


cases, modules = [], {}
for family, path in backbones.items():
    model = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(path))
    named = {n: m for n, m in model.named_modules() if n}
    modules[family] = {n: kind(m) for n, m in named.items()}
    with safe_open(f"{path}/model.safetensors", "pt") as f:
        keys = {k: list(f.get_slice(k).get_shape()) for k in f.keys()}
    modules[family + ".keys"] = keys
    names = [n for n, m in named.items() if kind(m) == "linear"]
    for i in range(150):
        c = {"r": rng.choice([1, 2, 4, 8]), "lora_alpha": rng.choice([1, 8, 16, 12]), "use_rslora": rng.random() < 0.3}
        pick = rng.random()
        if pick < 0.5:
            c["target_modules"] = sorted({suffix(rng.choice(names)) for _ in range(rng.randint(1, 6))})
            if i % 29 == 0:
                c["target_modules"].append(rng.choice(["embed_tokens", "self_attn", "mlp", "norm", "nothing"]))
            if rng.random() < 0.5:
                c["layers_to_transform"] = rng.choice([0, 1, [0, 2], [1], [], [7]])
                if rng.random() < 0.6:
                    c["layers_pattern"] = rng.choice(["layers", "blocks", ["layers"], ["blocks", "layers"], r"l\w+s"])
        elif pick < 0.85:
            c["target_modules"] = expression(names)
        else:
            c["target_modules"] = rng.choice(["all-linear", "ALL-Linear"])
        if rng.random() < 0.3:
            c["exclude_modules"] = expression(names) if rng.random() < 0.5 else [suffix(rng.choice(names))]
        if rng.random() < 0.4:
            c["rank_pattern"] = overrides(names)
        if rng.random() < 0.4:
            c["alpha_pattern"] = overrides(names)
        if not isinstance(c["target_modules"], str) and c.get("layers_pattern") and c.get("layers_to_transform") == []:
            continue
        got = result(model, c)
        cases.append({"family": family, "config": c, "result": got})

with gzip.GzipFile(f"{out}/match.json.gz", "w", mtime=0) as f:
    f.write(json.dumps({"modules": modules, "cases": cases}, separators=(",", ":")).encode())
print(len(cases), "cases;", {k: sum(c["result"] == k for c in cases) for k in ("none", "unsupported")})

# Merged weights of the oracle's adapters, as 61 evenly spaced values of every changed weight.
expect = {}
for scorer, dtype in [("scorer", torch.float32), ("scorer_adiee", torch.float32), ("scorer", torch.bfloat16), ("scorer", torch.float16)]:
    path = backbones["llavanext"]
    base = AutoModelForImageTextToText.from_pretrained(path, dtype=dtype)
    before = {k: v.clone() for k, v in base.state_dict().items()}
    merged = PeftModel.from_pretrained(base, f"{path}/../{scorer}").merge_and_unload()
    for k, v in merged.state_dict().items():
        if not torch.equal(v, before[k]):
            i = torch.arange(61) * (v.numel() - 1) // 60
            expect[f"{scorer}.{str(dtype)[6:]}.{k}"] = v.flatten()[i].clone()
save_file(expect, f"{out}/merged.safetensors")

# An adapter with most options, saved by PEFT.
base = AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(backbones["llavanext"]))
torch.manual_seed(3)
model = get_peft_model(base, LoraConfig(
    r=2, lora_alpha=3, lora_dropout=0.00001, use_rslora=True, target_modules=["layers.0.self_attn.q_proj"], exclude_modules=["k_proj"],
    rank_pattern={"vision_tower.*q_proj": 1}, alpha_pattern={r"model\.vision.*\.q_proj": 5}, layers_to_transform=[0, 1],
    layers_pattern="layers", task_type="CAUSAL_LM", init_lora_weights=False, revision="caf\u00e9"))
model.save_pretrained(f"{out}/adapter")
