"""Makes internal/trainer/testdata/grpo/: three steps of GRPO with TRL's loss on given answers, for the trainer's objective grpo. Run
from the repository root, with trl 1.16.0 installed in addition to transformers and PEFT:

    python tools/oracle/grpo.py

The prompts are those of prompts.jsonl, with pictures. In runs.zip a run's folder holds init/ (the adapter that training starts from),
final.safetensors (its tensors after three steps) and run.json: options, the answers of each step (tokens, rewards, whether they were cut
off), and for each step TRL's loss, divergence, share of clipped tokens, and the gradient's norm.

The loss is GRPOTrainer._compute_loss; the advantages are those of GRPOTrainer._generate_and_score_completions (its lines are repeated
here, because answers are given). Each prompt with its answers is a micro-batch of TRL's gradient accumulation. float32, torch.optim.AdamW.
"""

import json
import shutil
import tempfile
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import torch
from pack import pack
from peft import LoraConfig, get_peft_model
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import AutoModelForImageTextToText, AutoTokenizer, LlavaNextProcessor
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from trl import GRPOTrainer
from trl.trainer.utils import add_fused_lm_head

torch.set_num_threads(1)
ORACLE, OUT = Path("testdata/oracle"), Path("internal/trainer/testdata/grpo")
PICTURES = "../../../../testdata/oracle/images/"  # from OUT
PROMPTS = [("coffee.png", "Is this a cup? Say yes or no, and why you think so."), ("chelsea.png", "Who is she?"),
           (None, "How many legs has a cat?")]
STEPS, N, LONGEST = 3, 4, 8

# run: family, adapter, options
RUNS = {
    "dapo": dict(family="qwen2_vl", targets="all-linear", r=2, alpha=4, lr=2e-3, decay=0.01, beta=0.04, loss_type="dapo"),
    "clipped": dict(family="qwen2_5_vl", targets=r".*language_model.*\.(q_proj|v_proj|down_proj)", r=4, alpha=8, lr=1e-2, decay=0.0,
                    beta=0.1, loss_type="grpo", num_iterations=3, temperature=0.7, epsilon=0.05, epsilon_high=0.1),
    "dr": dict(family="llavanext", targets=r".*language_model.*\.(q_proj|v_proj)", r=8, alpha=16, lr=2e-3, decay=0.0, beta=0.0,
               loss_type="dr_grpo", scale_rewards="none", mask_truncated_completions=True),
}
DEFAULTS = dict(num_iterations=1, temperature=1.0, epsilon=0.2, scale_rewards="group", mask_truncated_completions=False)


def prompt_inputs(family, backbone, picture, text):
    """Inputs of a prompt, without padding."""
    image_class, placeholder = (LlavaNextImageProcessorPil, "<image>") if family == "llavanext" else (Qwen2VLImageProcessorPil,
                                                                                                    "<|image_pad|>")
    images, tokenizer = image_class.from_pretrained(backbone), AutoTokenizer.from_pretrained(backbone)
    content = [{"type": "text", "text": text}]
    out, counts = {}, []
    if picture:
        content.insert(0, {"type": "image"})
        shown = Image.open(OUT / (PICTURES + picture)).convert("RGB")
        out = dict(images([shown], return_tensors="pt"))
        if family == "llavanext":
            meta = json.loads((backbone / "processor_config.json").read_text())
            counter = LlavaNextProcessor(images, tokenizer, **{k: meta[k] for k in (
                "patch_size", "vision_feature_select_strategy", "num_additional_image_tokens")})
            counts = counter._get_num_multimodal_tokens([[shown.height, shown.width]])["num_image_tokens"]
        else:
            counts = [int(out["image_grid_thw"].prod()) // images.merge_size**2]
    pieces = tokenizer.apply_chat_template([{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True).split(
        placeholder)
    text = pieces[0] + "".join(placeholder * n + p for n, p in zip(counts, pieces[1:], strict=True))
    out["input_ids"] = torch.tensor([tokenizer(text)["input_ids"]])
    out["pad"] = tokenizer.convert_tokens_to_ids(placeholder)
    return out, len(tokenizer)


def group_inputs(family, prompt, answers):
    """TRL's inputs for a prompt with its answers, which are padded on the right."""
    n, longest = len(answers), max(len(a["ids"]) for a in answers)
    ids = torch.tensor([a["ids"] + [0] * (longest - len(a["ids"])) for a in answers])
    mask = torch.tensor([[1] * len(a["ids"]) + [0] * (longest - len(a["ids"])) for a in answers])
    prompt_ids = prompt["input_ids"].repeat(n, 1)
    out = dict(prompt_ids=prompt_ids, prompt_mask=torch.ones_like(prompt_ids), completion_ids=ids, completion_mask=mask)
    if "pixel_values" in prompt:
        pixels = prompt["pixel_values"]
        out["pixel_values"] = pixels.repeat(n, *[1] * (pixels.dim() - 1))
        out["num_images"] = [1] * n
        for name in ("image_grid_thw", "image_sizes"):
            if name in prompt:
                out[name] = prompt[name].repeat(n, 1)
    if family != "llavanext":
        whole = torch.cat([prompt_ids, torch.zeros_like(ids)], dim=1)
        out["mm_token_type_ids"] = (whole == prompt["pad"]).long()
    return out


def trainer(model, run, groups):
    """A GRPOTrainer with only the fields that its loss reads, without data."""
    t = GRPOTrainer.__new__(GRPOTrainer)
    t.model, t.args = model, SimpleNamespace(delta=None, use_bias_correction_kl=False, steps_per_generation=groups)
    t.accelerator = SimpleNamespace(num_processes=1, is_main_process=False, autocast=nullcontext, gather=lambda x: x, reduce=lambda x, reduction: x,
                                    unwrap_model=lambda m: m)
    t.aux_loss_enabled = t.use_vllm = t._entropy_bonus_enabled = False
    t.top_entropy_quantile, t.off_policy_mask_threshold, t.importance_sampling_level = 1.0, None, "token"
    t.beta, t.loss_type, t.temperature = run["beta"], run["loss_type"], run["temperature"]
    t.epsilon_low, t.epsilon_high = run["epsilon"], run.get("epsilon_high", run["epsilon"])
    t.max_completion_length, t.current_gradient_accumulation_steps = LONGEST, groups
    t._metrics = {"train": defaultdict(list), "eval": defaultdict(list)}
    return t


def log_probs(t, model, inputs):
    """Log probabilities like GRPOTrainer computes them before a step."""
    with torch.no_grad():
        return t._get_per_token_logps_and_entropies(
            model, torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1),
            torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1), inputs["completion_ids"].size(1),
            **{k: inputs[k] for k in ("pixel_values", "image_grid_thw", "image_sizes", "mm_token_type_ids", "num_images") if k in inputs})[0]


OUT.mkdir(parents=True, exist_ok=True)
lines = []
for i, (picture, text) in enumerate(PROMPTS):
    content = [{"type": "image", "image": PICTURES + picture}] if picture else []
    lines.append(json.dumps({"id": f"p{i}", "truth": "Yes", "messages": [
        {"role": "user", "content": [*content, {"type": "text", "text": text}]}]}))
(OUT / "prompts.jsonl").write_text("\n".join(lines) + "\n")
made = Path(tempfile.mkdtemp())
for name, run in RUNS.items():
    run = DEFAULTS | run
    family, folder = run["family"], made / name
    backbone = ORACLE / family / "backbone"
    folder.mkdir()
    torch.manual_seed(5)
    model = AutoModelForImageTextToText.from_pretrained(backbone, dtype=torch.float32, attn_implementation="eager")
    model.name_or_path = model.config._name_or_path = "backbone"
    add_fused_lm_head(model, temperature=run["temperature"], outputs=("log_probs", "entropy"))
    model = get_peft_model(model, LoraConfig(r=run["r"], lora_alpha=run["alpha"], lora_dropout=0.0, target_modules=run["targets"],
                                             task_type="CAUSAL_LM"))
    with torch.no_grad():
        for n, p in model.named_parameters():
            if "lora_B" in n:
                p.copy_(torch.randn(p.shape) * 0.02)
    model.save_pretrained(folder / "init", save_embedding_layers=False)
    (folder / "init" / "README.md").unlink()
    model.train()
    prompts, vocab = [], 0
    for picture, text in PROMPTS:
        inputs, vocab = prompt_inputs(family, backbone, picture, text)
        prompts.append(inputs)
    words = min(vocab, 200)

    def answers():
        """Random tokens and rewards for each prompt; all rewards of the last prompt are equal."""
        out = []
        for i in range(len(PROMPTS)):
            group = []
            for k in range(N):
                length = int(torch.randint(1, LONGEST + 1, ()))
                group.append({"ids": torch.randint(3, words, (length,)).tolist(), "cut": length == LONGEST,
                              "reward": 0.5 if i == len(PROMPTS) - 1 else round(float(torch.rand(())), 3)})
            out.append(group)
        return out

    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=run["lr"], betas=(0.9, 0.999), eps=1e-8, weight_decay=run["decay"], foreach=False)
    trace, given, kept = [], None, None
    for step in range(STEPS):
        t = trainer(model, run, len(PROMPTS))
        if step % run["num_iterations"] == 0:
            given, kept = answers(), []
            total = sum(len(a["ids"]) for g in given for a in g if not (run["mask_truncated_completions"] and a["cut"]))
            for prompt, group in zip(prompts, given, strict=True):
                inputs = group_inputs(family, prompt, group)
                if run["num_iterations"] > 1:
                    inputs["old_per_token_logps"] = log_probs(t, model, inputs)
                if run["beta"] != 0:
                    with model.disable_adapter():
                        inputs["ref_per_token_logps"] = log_probs(t, model, inputs)
                rewards = torch.tensor([a["reward"] for a in group])
                inputs["advantages"] = rewards - rewards.mean()
                if run["scale_rewards"] == "group":
                    inputs["advantages"] = inputs["advantages"] / (rewards.std() + 1e-4)
                if run["mask_truncated_completions"]:
                    keep = torch.tensor([[0 if a["cut"] else 1] for a in group])
                    inputs["completion_mask"] = inputs["completion_mask"] * keep
                inputs["num_items_in_batch"] = torch.tensor(float(total))
                kept.append(inputs)
        optimizer.zero_grad()
        loss, tokens = 0.0, []
        for inputs in kept:
            part = t._compute_loss(model, inputs)
            part.backward()
            loss += part.item()
            tokens.append(inputs["completion_mask"].sum().item())
        norm = torch.nn.utils.clip_grad_norm_(params, 1.0)
        mean = lambda key: sum(v * n for v, n in zip(t._metrics["train"][key], tokens, strict=True)) / sum(tokens)  # noqa: E731
        trace.append({"answers": given, "loss": loss, "grad_norm": norm.item(), "kl": mean("kl") if run["beta"] else None,
                      "clip_ratio": mean("clip_ratio/region_mean")})
        optimizer.step()
    model.save_pretrained(folder / "last", save_embedding_layers=False)
    save_file(load_file(folder / "last" / "adapter_model.safetensors"), folder / "final.safetensors")
    shutil.rmtree(folder / "last")
    facts = {k: v for k, v in run.items() if k != "targets"} | {"longest": LONGEST, "steps": trace}
    (folder / "run.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(name, [{k: v for k, v in s.items() if k != "answers"} for s in trace])
pack(made, OUT / "runs.zip")
shutil.rmtree(made)
