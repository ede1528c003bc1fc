"""PyTorch and PEFT beside a LoRA step: python tools/gpu/peer.py BACKBONE TOKENS. The language model alone, forward and backward."""
import sys
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForImageTextToText

folder, length = sys.argv[1], int(sys.argv[2])
torch.backends.cuda.matmul.allow_tf32 = False
for dtype in torch.bfloat16, torch.float32:
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=dtype).to("cuda")
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=r".*language_model.*\.(q_proj|v_proj)"))
    for batch in 1, 8:
        ids, best = torch.randint(10, 200, (batch, length), device="cuda"), float("inf")
        torch.cuda.reset_peak_memory_stats()
        for _ in range(6):
            torch.cuda.synchronize()
            begin = time.time()
            model.model.model(input_ids=ids)[0].float().pow(2).mean().backward()
            model.zero_grad()
            torch.cuda.synchronize()
            best = min(best, time.time() - begin)
        print(f"| PyTorch {torch.__version__} | {str(dtype)[6:]} | {batch} | {batch * length / best:.0f} | {best:.3f} | "
              f"{torch.cuda.max_memory_allocated() / 2**20:.0f} | | |", flush=True)
    del model
    torch.cuda.empty_cache()
