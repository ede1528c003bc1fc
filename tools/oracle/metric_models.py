"""Makes metrics/testdata/models.zip and models.json: models with random weights for the metrics, and the results of their Python
originals with their own preprocessing.

    pip install --no-deps opencv-python-headless scikit-image
    python tools/oracle/metric_models.py testdata/oracle metrics/testdata

The original of ArcFace is insightface's: a similarity transform by scikit-image, cv2.warpAffine and cv2.dnn.blobFromImages;
for emotions and for valence, arousal and dominance, transformers' classes and image processors; for LongCLIP,
transformers' CLIP with 248 positions.
"""

import io
import json
import os
import shutil
import sys
import tempfile
import zipfile

import cv2
import numpy as np
import torch
from PIL import Image
from skimage.transform import SimilarityTransform, warp
from transformers import (AutoTokenizer, BeitConfig, BeitForImageClassification, BeitImageProcessorPil, CLIPConfig, CLIPImageProcessorPil,
                          CLIPModel, ViTConfig, ViTForImageClassification, ViTImageProcessorPil)

ORACLE, OUT = sys.argv[1:]
torch.set_num_threads(1)
torch.manual_seed(3)
NAMES = ["astronaut.png", "astronaut_purple.png", "coffee.png"]
PICTURES = {n: Image.open(f"{ORACLE}/images/{n}").convert("RGB") for n in NAMES}
FILES = {}


def export(model, size, output, name):
    """Exports the model to ONNX with one output."""
    class Bare(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, pixels):
            out = self.model(pixels)
            return out if torch.is_tensor(out) else out.logits

    buffer = io.BytesIO()
    torch.onnx.export(Bare().eval(), (torch.zeros(1, 3, *size),), buffer, input_names=["pixels"], output_names=[output], dynamo=False)
    FILES[name] = buffer.getvalue()


def arcface():
    n = torch.nn
    net = n.Sequential(n.Conv2d(3, 8, 7, 4, 3), n.BatchNorm2d(8), n.PReLU(8), n.Conv2d(8, 16, 5, 4, 2), n.PReLU(16), n.Flatten(),
                       n.Linear(16 * 49, 24), n.BatchNorm1d(24)).eval()
    for p in net.parameters():
        p.data = torch.randn_like(p) * (0.3 if p.dim() < 2 else 1.5 / p[0].numel() ** 0.5)
    export(net, (112, 112), "embedding", "arcface.onnx")
    target = np.array([[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]],
                      dtype=np.float32)
    rng, points = np.random.default_rng(2), {}
    for name, p in PICTURES.items():
        angle, scale = rng.uniform(-0.5, 0.5), rng.uniform(0.5, 1.2) * min(p.size) / 112
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        points[name] = ((target - 56) @ turn.T * scale + np.array(p.size) / 2 + rng.normal(0, 2, (5, 2))).round(2)

    def embedding(name, exact):
        rgb = np.asarray(PICTURES[name])
        matrix = SimilarityTransform.from_estimate(points[name], target)
        if exact:  # bilinear in floating point
            face = warp(rgb.astype(float), matrix.inverse, output_shape=(112, 112), order=1, preserve_range=True, mode="constant")
            blob = ((np.round(face) - 127.5) / 127.5).transpose(2, 0, 1)[None].astype(np.float32)
        else:
            face = cv2.warpAffine(rgb[:, :, ::-1], matrix.params[:2], (112, 112), borderValue=0.0)
            blob = cv2.dnn.blobFromImages([face], 1.0 / 127.5, (112, 112), (127.5, 127.5, 127.5), swapRB=True)
        with torch.no_grad():
            return net(torch.from_numpy(blob))[0].numpy()

    cases = []
    for a, b in ((0, 1), (0, 2), (1, 2)):
        case = {"source": NAMES[a], "edit": NAMES[b], "points": [points[NAMES[k]].tolist() for k in (a, b)]}
        for key, exact in (("floating", True), ("opencv", False)):
            x, y = embedding(NAMES[a], exact), embedding(NAMES[b], exact)
            case[key] = float(np.dot(x, y) / (np.linalg.norm(x) * np.linalg.norm(y)))
        cases.append(case)
    return cases


EMOTIONS = ["angry", "disgust", "fear", "happy", "neutral", "sad", "surprise"]


def spread(model):
    """Random weights, large enough that answers differ between pictures."""
    for name, p in model.named_parameters():
        if p.dim() > 1:
            p.data = torch.randn_like(p) * (1.2 / p[0].numel() ** 0.5)
    return model.eval()


def classes():
    config = BeitConfig(image_size=48, patch_size=16, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                        num_labels=7, id2label=dict(enumerate(EMOTIONS)), label2id={e: k for k, e in enumerate(EMOTIONS)})
    model = spread(BeitForImageClassification(config))
    processor = BeitImageProcessorPil(size={"height": 56, "width": 56}, crop_size={"height": 48, "width": 48}, do_center_crop=False,
                                      do_resize=True, resample=Image.BICUBIC, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    processor.size = {"height": 48, "width": 48}
    export(model, (48, 48), "logits", "emotion.onnx")
    out = []
    for name, p in PICTURES.items():
        with torch.no_grad():
            logits = model(**processor(images=p, return_tensors="pt")).logits[0]
        out.append({"edit": name, "emotion": config.id2label[int(logits.argmax())], "logits": logits.tolist()})
    return {"mean": [0.5] * 3, "std": [0.5] * 3, "size": [48, 48], "filter": "bicubic", "classes": EMOTIONS, "cases": out}


def vad():
    config = ViTConfig(image_size=40, patch_size=8, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
                       num_labels=3, problem_type="regression")
    model = spread(ViTForImageClassification(config))
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    processor = ViTImageProcessorPil(size={"height": 40, "width": 40}, resample=Image.BILINEAR, image_mean=mean, image_std=std)
    export(model, (40, 40), "vad", "vad.onnx")
    out = []
    for name, p in PICTURES.items():
        with torch.no_grad():
            logits = model(**processor(images=p, return_tensors="pt")).logits[0]
        out.append({"edit": name, "vad": [5 + 4 * x for x in logits.double().tolist()]})
    return {"mean": mean, "std": std, "size": [40, 40], "filter": "bilinear", "cases": out}


def longclip():
    source = f"{ORACLE}/clip/model"
    config = CLIPConfig.from_pretrained(source)
    config.text_config.max_position_embeddings = 248
    config.text_config.hidden_size, config.text_config.intermediate_size, config.text_config.num_hidden_layers = 24, 40, 2
    config.vision_config.hidden_size, config.vision_config.intermediate_size = 24, 40
    model = spread(CLIPModel(config))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        for f in ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json", "processor_config.json"):
            shutil.copy(f"{source}/{f}", folder)
        settings = json.load(open(f"{folder}/tokenizer_config.json"))
        settings["model_max_length"] = 248
        json.dump(settings, open(f"{folder}/tokenizer_config.json", "w"))
        for f in sorted(os.listdir(folder)):
            FILES[f"longclip/{f}"] = open(f"{folder}/{f}", "rb").read()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        processor = CLIPImageProcessorPil.from_pretrained(folder)
    cosine = lambda a, b: float(a @ b / (a.norm() * b.norm()))
    features = lambda v: (v if torch.is_tensor(v) else v.pooler_output)[0].double()
    texts = {"long": "change the man's expression: raise his brows, open his eyes, lift the corners of his mouth " * 2 + "a little",
             "short": "make it purple", "before": "an astronaut", "after": "a purple astronaut"}
    out = {"texts": texts, "tokens": {}, "cases": []}
    with torch.no_grad():
        t = {}
        for name, text in texts.items():
            ids = tokenizer([text], return_tensors="pt", truncation=True, max_length=248)
            out["tokens"][name] = ids["input_ids"].shape[1]
            t[name] = features(model.get_text_features(**ids))
        seen = lambda p: features(model.get_image_features(**processor(images=p, return_tensors="pt")))
        v = {n: seen(p) for n, p in PICTURES.items()}
        boxes = [(10, 8, 70, 60), (12, 10, 76, 66)]  # for example of faces
        cut = [seen(PICTURES[n].crop(box)) for n, box in zip(NAMES, boxes)]
    unit = lambda x: x / x.norm()
    for n in NAMES:
        out["cases"].append({"edit": n, "long": cosine(v[n], t["long"]), "short": cosine(v[n], t["short"])})
    a, b = v[NAMES[0]], v[NAMES[1]]
    out["direction"] = {"source": NAMES[0], "edit": NAMES[1], "raw": cosine(b - a, t["after"] - t["before"]),
                        "unit": cosine(unit(b) - unit(a), unit(t["after"]) - unit(t["before"])), "image": cosine(a, b),
                        "boxes": boxes, "boxed": cosine(cut[1] - cut[0], t["after"] - t["before"])}
    return out


result = {"arcface": arcface(), "emotion": classes(), "vad": vad(), "longclip": longclip()}
with zipfile.ZipFile(f"{OUT}/models.zip", "w", zipfile.ZIP_DEFLATED) as z:
    for name, raw in FILES.items():
        z.writestr(zipfile.ZipInfo(name), raw, zipfile.ZIP_DEFLATED)
with open(f"{OUT}/models.json", "w") as f:
    json.dump(result, f, indent=1)
