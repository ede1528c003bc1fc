"""Gradients of a head of choices with torch: python tools/oracle/choices_train.py ORACLE released/testdata

ORACLE as for joint.py. The answers' rows are separate parameters, as in a scorer; the loss is the cross-entropy of the class
nearest to a label plus half the distance between expectation and label. Writes the loss, and its gradients with respect to the
rows and to some of the backbone's parameters: choices_train.json and choices_train.safetensors.
"""
import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import AutoTokenizer, LlavaNextForConditionalGeneration
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

from pictures import picture

torch.set_num_threads(1)
root, out = Path(sys.argv[1]), Path(sys.argv[2])
folder = root / "llavanext" / "backbone"
tok = AutoTokenizer.from_pretrained(folder)
model = LlavaNextForConditionalGeneration.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
images = LlavaNextImageProcessorPil.from_pretrained(folder)
judge = json.loads((root / "released/logits/judges.json").read_text())["yes_no"]
ids = [tok(a, add_special_tokens=False)["input_ids"] for a in judge["answers"]]
assert all(len(i) == 1 for i in ids)
rows = model.lm_head.weight.detach()[[i[0] for i in ids]].clone().requires_grad_()
values = torch.tensor(judge["values"])
cases, loss = [], 0.0
for case, label in zip(judge["cases"], [1.0, 0.25]):
    inputs = dict(images([picture(root / "images" / Path(case[k]).name) for k in ("source", "edited")], return_tensors="pt"))
    tokens = torch.tensor([case["input_ids"]])
    h = model.model(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False, **inputs).last_hidden_state[0, -1]
    z = rows @ h
    k = min(range(len(values)), key=lambda i: abs(values[i].item() - label))
    one = F.cross_entropy(z[None], torch.tensor([k])) + 0.5 * F.l1_loss((z.softmax(0) * values).sum(), torch.tensor(label))
    loss = loss + one / 2
    cases.append({"case": case["id"], "label": label})
loss.backward()
grads = {"rows": rows.grad}
for n, p in model.named_parameters():
    if p.grad is not None and p.numel() <= 6000 and (".layers.0." in n or "norm.weight" in n or "projector" in n):
        grads[n] = p.grad.contiguous()
save_file(grads, out / "choices_train.safetensors", {"format": "pt"})
(out / "choices_train.json").write_text(json.dumps({"cases": cases, "loss": round(float(loss), 7)}) + "\n")
print(len(grads), float(loss), sum(g.numel() for g in grads.values()))
