"""Joint likelihoods of choices of several tokens with transformers: python tools/oracle/joint.py ORACLE released/testdata/joint.json

ORACLE holds images/, llavanext/backbone and released/logits/judges.json, whose yes_no cases are asked. For each case and
list of choices: log p of each choice after the prompt, and the expectation of the values over their softmax, with the
norm of its gradient with respect to pixel_values. If one choice begins another, all end with the end of sequence.
"""
import json
import sys
from pathlib import Path

import torch
from transformers import AutoTokenizer, LlavaNextForConditionalGeneration
from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

from pictures import picture

CHOICES = [(["Yes", "No"], [1.0, 0.0]), (["it is so", "it is not", "no cat"], [1.0, 0.0, 0.5]),
           (["it is", "it is so", "no"], [0.0, 1.0, 0.25])]


torch.set_num_threads(1)
root = Path(sys.argv[1])
folder = root / "llavanext" / "backbone"
tok = AutoTokenizer.from_pretrained(folder)
model = LlavaNextForConditionalGeneration.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
images = LlavaNextImageProcessorPil.from_pretrained(folder)
out = []
for case in json.loads((root / "released/logits/judges.json").read_text())["yes_no"]["cases"]:
    inputs = dict(images([picture(root / "images" / Path(case[k]).name) for k in ("source", "edited")], return_tensors="pt"))
    inputs["pixel_values"].requires_grad_(True)
    n = len(case["input_ids"])
    for choices, values in CHOICES:
        logs = []
        said = [tok(choice, add_special_tokens=False)["input_ids"] for choice in choices]
        if any(a is not b and b[:len(a)] == a for a in said for b in said):
            said = [a + [tok.eos_token_id] for a in said]
        for answer in said:
            ids = torch.tensor([case["input_ids"] + answer])
            logp = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **inputs).logits[0].log_softmax(-1)
            logs.append(sum(logp[i - 1, ids[0, i]] for i in range(n, ids.shape[1])))
        logs = torch.stack(logs)
        score = (logs.softmax(0) * torch.tensor(values)).sum()
        grad = torch.autograd.grad(score, inputs["pixel_values"])[0]
        out.append({"case": case["id"], "choices": choices, "values": values, "logs": [round(x.item(), 6) for x in logs],
                    "score": round(score.item(), 6), "gradient_norm": round(float(grad.norm()), 9)})
Path(sys.argv[2]).write_text(json.dumps(out, indent=1) + "\n")
