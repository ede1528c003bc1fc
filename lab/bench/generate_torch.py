"""transformers' side of bench generate: tokens per second of prompts and answers, one and eight at a time.

generate_torch.py DIR PROMPT_TOKENS NEW_TOKENS [--compile]
"""

import json
import sys
import time

import torch
from transformers import AutoModelForImageTextToText, AutoTokenizer

SHORT = 16
folder, prompt, new = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").eval()
if "--compile" in sys.argv:
    model.model.language_model.forward = torch.compile(model.model.language_model.forward, dynamic=True)
tokenizer = AutoTokenizer.from_pretrained(folder)
results = {}


def took(n, prompt, tokens):
    message = [{"role": "user", "content": [{"type": "text", "text": "0 0 0 " + " the" * prompt}]}]
    text = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    ids = tokenizer([text] * n, return_tensors="pt")
    begin = time.perf_counter()
    with torch.no_grad():
        model.generate(**ids, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)
    return time.perf_counter() - begin, ids["input_ids"].numel()


for round in range(3):
    for n in (1, 8):
        long, used = took(n, prompt, 1)
        first, whole = took(n, SHORT, 1)[0], took(n, SHORT, 1 + new)[0]  # see generate/main.go
        if round:
            for name, rate in ((f"prefill_{n}", used / long), (f"decode_{n}", n * new / (whole - first))):
                results[name] = max(results.get(name, 0), rate)
print(json.dumps(results))
