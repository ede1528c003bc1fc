"""LoRA steps with PyTorch and PEFT: python tools/gpu/peer.py BACKBONE [plain|liger] [8,1] [text|tower]

Forward, backward and AdamW over batches of pairs with two pictures of 625 tokens, 1,465 tokens in total, with the squared
error of a head at the last token; fused attention, and with liger its kernels. The tower runs in every step, or its
features are precomputed (text), like Assay's cached ones. A row is: framework, type, batch, tokens per second, seconds of
the fastest step, memory seen by nvidia-smi.
"""
import subprocess
import sys
import time

import torch
from peft import LoraConfig, get_peft_model

folder, kernels, batches, what = (sys.argv[1:] + [None, "plain", "8,1", "text"][len(sys.argv[1:]):])[:4]
TOKENS, PICTURE, GRID = 1465, 625, (1, 50, 50)
if kernels == "liger":
    from liger_kernel.transformers import apply_liger_kernel_to_qwen2_5_vl

    apply_liger_kernel_to_qwen2_5_vl()
from transformers import AutoModelForImageTextToText  # noqa: E402

model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="sdpa").to("cuda")
config = model.config
model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=r".*language_model.*\.(q_proj|v_proj)"))
base, hidden = model.base_model.model.model, config.text_config.hidden_size
head = torch.nn.Sequential(torch.nn.Linear(hidden, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1)).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW([p for p in [*model.parameters(), *head.parameters()] if p.requires_grad], lr=1e-4, fused=True)


def memory():
    p = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True)
    return int(p.stdout.split()[0])


def batch(n):
    """Ids, token types, grids and patches of n pairs."""
    ids, kinds = torch.randint(10, 200, (n, TOKENS)), torch.zeros((n, TOKENS), dtype=torch.int32)
    for at in (20, 20 + PICTURE + 10):
        ids[:, at - 1], ids[:, at + PICTURE] = config.vision_start_token_id, config.vision_end_token_id
        ids[:, at:at + PICTURE], kinds[:, at:at + PICTURE] = config.image_token_id, 1
    patches = torch.randn(2 * n * GRID[1] * GRID[2], 3 * 2 * 14 * 14, dtype=torch.bfloat16)
    return [x.cuda() for x in (ids, kinds, torch.tensor([GRID] * (2 * n)), patches)]


for n in map(int, batches.split(",")):
    ids, kinds, grid, patches = batch(n)
    wanted, times = torch.rand(n, device="cuda"), []
    more = {"mm_token_type_ids": kinds} if "mm_token_type_ids" in base.forward.__code__.co_varnames else {}
    torch.cuda.empty_cache()
    with torch.no_grad():
        features = base.get_image_features(patches, grid)
        features = getattr(features, "pooler_output", features)
        features = features if torch.is_tensor(features) else torch.cat(list(features))
        positions = base.get_rope_index(ids, **more, image_grid_thw=grid, attention_mask=torch.ones_like(ids))[0]
    for _ in range(8):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        if what == "tower":
            out = base(input_ids=ids, pixel_values=patches, image_grid_thw=grid, attention_mask=torch.ones_like(ids), **more)
        else:
            x = base.get_input_embeddings()(ids)
            x = x.masked_scatter((ids == config.image_token_id)[..., None].expand_as(x), features.to(x.dtype))
            out = base.language_model(input_ids=None, inputs_embeds=x, position_ids=positions, use_cache=False)
        (head(out[0][:, -1])[:, 0].float() - wanted).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    best = min(times[2:])
    print(f"| PyTorch {torch.__version__}, {kernels}, {what} | bfloat16 | {n} | {n * TOKENS / best:.0f} | {best:.3f} | {memory()} | | |", flush=True)
