"""transformers' side of the encoder benchmark of `make bench`: embeds picture files, including decoding.

    encoders_torch.py MODEL BATCH PICTURES STEPS A.png B.png...
    encoders_torch.py --make FOLDER      a CLIP ViT-B/32 and a DINOv2 ViT-B/14 with random weights

Prints one JSON line: seconds of each repetition (after a warm-up), pictures, the image processor's class.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import torch
from PIL import Image
from transformers import (
    AutoImageProcessor,
    AutoModel,
    CLIPVisionConfig,
    CLIPVisionModelWithProjection,
    Dinov2Config,
    Dinov2Model,
)

warnings.filterwarnings("ignore")


def make(folder):
    from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    torch.manual_seed(0)
    CLIPVisionModelWithProjection(CLIPVisionConfig()).save_pretrained(folder / "clip")
    CLIPImageProcessorPil().save_pretrained(folder / "clip")
    Dinov2Model(Dinov2Config(image_size=518)).save_pretrained(folder / "dinov2")
    BitImageProcessorPil(
        size={"shortest_edge": 256},
        crop_size={"height": 224, "width": 224},
        image_mean=[0.485, 0.456, 0.406],
        image_std=[0.229, 0.224, 0.225],
    ).save_pretrained(folder / "dinov2")


def main():
    if sys.argv[1] == "--make":
        return make(Path(sys.argv[2]))
    path, batch, count, steps, files = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5:]
    processor = AutoImageProcessor.from_pretrained(path)
    clip = json.loads((Path(path) / "config.json").read_text())["model_type"].startswith("clip")
    model = (CLIPVisionModelWithProjection if clip else AutoModel).from_pretrained(path, dtype=torch.float32).eval()
    paths = [files[i % len(files)] for i in range(count)]

    @torch.inference_mode()
    def once():
        out = []
        for i in range(0, count, batch):
            x = processor([Image.open(p) for p in paths[i : i + batch]], return_tensors="pt")
            y = model(**x)
            out.append(y.image_embeds if clip else y.pooler_output)
        return torch.cat(out)

    first = once()[0]
    seconds = []
    for _ in range(steps):
        start = time.time()
        once()
        seconds.append(time.time() - start)
    print(
        json.dumps(
            {
                "seconds": seconds,
                "pictures": count,
                "embedding": first[:4].tolist(),
                "processor": type(processor).__name__,
            }
        )
    )


if __name__ == "__main__":
    main()
