"""Makes encoders/testdata/contrast.json: InfoNCE of the fixtures' CLIP and NT-Xent of their DINOv2, with gradients, in PyTorch.
Run from the repository root."""

import json
from pathlib import Path

import torch
from PIL import Image
from torch.nn.functional import cross_entropy, normalize
from transformers import CLIPModel, CLIPProcessor, Dinov2Model
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil

ORACLE = Path("testdata/oracle")
TEMPERATURE = 0.1


def read(names):
    return [Image.open(ORACLE / "images" / n).convert("RGB") for n in names]


def result(model, losses, weights, names):
    (losses * torch.tensor(weights)).sum().backward()
    grads = dict(model.named_parameters())
    return {"weights": weights, "loss": [float(f"{v:.9g}") for v in losses.tolist()],
            "grads": {n: [float(f"{v:.9g}") for v in grads[n].grad.flatten().tolist()] for n in names}}


def clip():
    folder = ORACLE / "clip/model"
    model = CLIPModel.from_pretrained(folder).eval()
    pictures = ["astronaut.png", "astronaut_purple.png", "coffee.png", "coffee_blur.png", "chelsea.png"]
    captions = ["an astronaut", "an astronaut under a purple sky", "a cup of coffee", "a blurry cup of coffee on a table", "an astronaut"]
    batch = CLIPProcessor.from_pretrained(folder)(text=captions, images=read(pictures), return_tensors="pt", padding=True)
    logits = model(**batch).logits_per_image  # exp(logit_scale) times cosines
    for i, a in enumerate(captions):
        for j, b in enumerate(captions):
            if i != j and a == b:
                logits = logits.masked_fill(torch.zeros_like(logits, dtype=torch.bool).index_put((torch.tensor(i), torch.tensor(j)), torch.tensor(True)), -torch.inf)
    target = torch.arange(len(captions))
    losses = (cross_entropy(logits, target, reduction="none") + cross_entropy(logits.T, target, reduction="none")) / 2
    names = ["logit_scale", "vision_model.embeddings.class_embedding", "vision_model.encoder.layers.0.self_attn.q_proj.bias", "vision_model.post_layernorm.weight",
             "text_model.encoder.layers.1.mlp.fc2.bias", "text_model.final_layer_norm.weight"]
    return {"pictures": pictures, "captions": captions, **result(model, losses, [0.5, 1, 0.25, 2, 0.1], names)}


def views():
    folder = ORACLE / "dinov2/model"
    model = Dinov2Model.from_pretrained(folder).eval()
    pictures = ["astronaut.png", "astronaut_purple.png", "coffee.png", "coffee_blur.png", "chelsea.png", "chelsea_mirror.png"]
    z = normalize(model(**BitImageProcessorPil.from_pretrained(folder)(read(pictures), return_tensors="pt")).pooler_output)
    logits = (z @ z.T / TEMPERATURE).masked_fill(torch.eye(len(pictures), dtype=torch.bool), -torch.inf)
    losses = cross_entropy(logits, torch.arange(len(pictures)) ^ 1, reduction="none")
    names = ["embeddings.cls_token", "layernorm.weight", "layernorm.bias"]
    return {"pictures": pictures, **result(model, losses, [0.5, 1, 0.25, 2, 0.1, 0.7], names)}


Path("encoders/testdata/contrast.json").write_text(json.dumps({"clip": clip(), "views": views()}, indent=1) + "\n")
