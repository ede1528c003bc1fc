"""Random CLIP and DINOv2 checkpoints compared with transformers: the similarities of an edit equal those of its embeddings, or are refused.

    encoderconfigs.py --work FOLDER [--draws N] [--seed S]
"""
import argparse
import json
import random
import shutil
import subprocess
import time
from pathlib import Path

from configs import ACTIVATIONS, LEGACY, ORACLE, ROOT, repeat

LABEL = ROOT / "bin/label"
TINY = ROOT / "backbones/tiny-clip"
TOLERANCE = 1e-4  # for cosines


class Draw:
    def __init__(self, rng):
        self.rng, self.refused = rng, []
        maybe, pick = self.maybe, self.pick
        rows = json.loads((TINY / "config.json").read_text())["text_config"]["vocab_size"]
        patch, grid = pick(4, 7, 8), pick(2, 3, 4)
        side = patch * grid

        def tower(**more):
            heads = pick(1, 2, 4)
            return {"hidden_size": heads * pick(8, 12), "num_attention_heads": heads, "num_hidden_layers": pick(1, 2, 3),
                    "hidden_act": pick("quick_gelu", "gelu", *ACTIVATIONS), "layer_norm_eps": pick(1e-5, 1e-3), **more}

        text = tower(intermediate_size=pick(16, 40), vocab_size=rows, max_position_embeddings=77, bos_token_id=rows - 2,
                     eos_token_id=pick(2, rows - 1), pad_token_id=rows - 1)
        vision = tower(intermediate_size=pick(16, 40), image_size=side, patch_size=patch)
        self.clip = {"model_type": "clip", "projection_dim": pick(12, 16, 24), "text_config": text, "vision_config": vision, "logit_scale_init_value": 2.0}
        if maybe(0.2):  # like files of 2022
            self.clip |= {"text_config": {**text, "hidden_size": 999}, "text_config_dict": text, "vision_config_dict": vision}
        registers = maybe(0.4)
        patch2 = pick(4, 7)
        self.dino = tower(model_type="dinov2_with_registers" if registers else "dinov2", mlp_ratio=pick(2, 3, 4), image_size=patch2 * pick(3, 5),
                          patch_size=pick(patch2, [patch2, patch2]), qkv_bias=maybe(0.7), use_swiglu_ffn=maybe(0.4), layerscale_value=pick(1.0, 0.3),
                          num_channels=3)
        if registers:
            self.dino["num_register_tokens"] = pick(1, 3)
        for c in (self.clip, text, vision, self.dino):
            if maybe(0.3):
                c |= {k: v for k, v in LEGACY.items() if k not in c}
        crop = patch2 * pick(3, 4, 5)
        self.pictures = {"clip": self.processor(pick("CLIPImageProcessor", "CLIPFeatureExtractor"), side), "dino": self.processor("BitImageProcessor", crop)}
        if maybe(0.35):
            where, key, value, words = pick((vision, "num_channels", 1, "num_channels"), (text, "rope_theta", 1e4, "rope_theta"), (self.clip, "quantization_config", {}, "quantization_config"),
                                            (self.dino, "hidden_act", "prelu", "prelu"), (self.dino, "num_hidden_layers", None, "num_hidden_layers"),
                                            (self.dino, "hidden_dropout_prob", 0.1, None), (vision, "attention_dropout", 0.1, None),
                                            (self.pictures["dino"], "resample", 2, "resample"), (self.pictures["clip"], "do_flip", True, "do_flip"))
            where[key] = value
            if words and not ("text_config_dict" in self.clip and where is text):
                self.refused.append(words)
            elif words:
                self.clip["text_config_dict"].pop(key)

    def maybe(self, p):
        return self.rng.random() < p

    def pick(self, *options):
        return self.rng.choice(options)

    def processor(self, kind, side):
        p = {"image_processor_type": kind, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.25], "resample": 3, "do_center_crop": True}
        if kind == "CLIPFeatureExtractor":
            p["feature_extractor_type"] = p.pop("image_processor_type")
        return p | self.pick({"size": {"shortest_edge": side + self.pick(0, 5)}, "crop_size": {"height": side, "width": side}},
                             {"size": {"height": side, "width": side + self.pick(0, 6)}, "crop_size": side}, {"size": side, "crop_size": side})


def make(folder, config, cls, pictures, seed):
    import torch
    torch.manual_seed(seed)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps(pictures))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TINY / name, folder)
    model = cls(cls.config_class.from_pretrained(folder))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                p.copy_(torch.randn(p.shape) * (0.5 if "embed" in name or "token" in name else 1.4 * p[0].numel() ** -0.5))
            elif p.dim() == 1:
                p.copy_(torch.randn(p.shape) * 0.2 + (1.0 if "norm" in name or "scale" in name else 0.0))
    text = (folder / "config.json").read_text()
    model.save_pretrained(folder)
    (folder / "config.json").write_text(text)


def theirs(work, paths, captions):
    import torch
    from PIL import Image
    from torch.nn.functional import cosine_similarity, normalize
    from transformers import AutoModel, AutoTokenizer, CLIPModel
    from transformers.image_transforms import convert_to_rgb
    from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    images = [Image.fromarray(convert_to_rgb(Image.open(p), return_numpy=True)) for p in paths]
    clip, dino = CLIPModel.from_pretrained(work / "clip").eval(), AutoModel.from_pretrained(work / "dino").eval()
    tokens = AutoTokenizer.from_pretrained(TINY)(captions, return_tensors="pt", padding=True, truncation=True, max_length=77)
    with torch.no_grad():
        out = clip(pixel_values=CLIPImageProcessorPil.from_pretrained(work / "clip")(images, return_tensors="pt")["pixel_values"], **tokens)
        x, t = normalize(out.image_embeds), normalize(out.text_embeds)
        z = [dino(pixel_values=BitImageProcessorPil.from_pretrained(work / "dino")([im], return_tensors="pt")["pixel_values"]).pooler_output for im in images]
    return {"clip_i": (x[1] @ x[2]).item(), "clip_t": (x[1] @ t[1]).item(), "dino_i": cosine_similarity(z[1], z[2]).item()}


def ours(work, paths, captions):
    row = {"id": "0", "source_caption": captions[0], "target_caption": captions[1], **dict(zip(("source", "edit", "target"), map(str, paths)))}
    (work / "edits.jsonl").write_text(json.dumps(row) + "\n")
    done = subprocess.run([LABEL, "similarities", "--clip", work / "clip", "--dino", work / "dino", "--in", work / "edits.jsonl", "--out", work / "out.jsonl",
                           "--cache", work / "cache", "--json"], capture_output=True, text=True)
    if done.returncode:
        return None, done.stdout + done.stderr
    return json.loads((work / "out.jsonl").read_text()), None


def one(work, seed, i):
    from transformers import CLIPModel, Dinov2Model, Dinov2WithRegistersModel
    rng = random.Random(f"{seed} {i}")
    draw, work = Draw(rng), work / str(i)
    shutil.rmtree(work, ignore_errors=True)
    row = rng.choice(json.loads((ORACLE / "clip/pairs.json").read_text()))
    paths, captions = [(ORACLE / "clip" / row[k]).resolve() for k in ("input", "edited", "gt")], [row["caption_before"], row["caption_after"]]
    want = broken = None
    try:
        make(work / "clip", draw.clip, CLIPModel, draw.pictures["clip"], i)
        make(work / "dino", draw.dino, Dinov2WithRegistersModel if "num_register_tokens" in draw.dino else Dinov2Model, draw.pictures["dino"], i)
        want = theirs(work, paths, captions)
    except Exception as e:  # any error of transformers
        broken = f"{type(e).__name__}: {e}".splitlines()[0][:200]
    if not (work / "dino/model.safetensors").exists():
        return "not built by transformers", None
    got, message = ours(work, paths, captions)
    about = f"draw {i}: "
    if got is not None and want is not None:
        far = {k: (got[k], v) for k, v in want.items() if not abs(got[k] - v) <= TOLERANCE}
        if far or draw.refused:
            return "different", about + f"{far or 'measured'}, though {draw.refused} should be refused"
        shutil.rmtree(work)
        return "measured", None
    if got is not None:
        return "different", about + f"measured, but transformers refuses: {broken}"
    word = next((w for w in draw.refused if w in message), None)
    if word is None:
        return "different", about + f"refused, transformers: {want if broken is None else broken}: {message.strip()[:500]}"
    shutil.rmtree(work)
    return f"refused: {word}", None


def run(work, draws, seed):
    return repeat(lambda i: one(work, seed, i), range(draws), seed, "pairs of encoders")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--work", required=True, type=Path)
    p.add_argument("--draws", type=int, default=15)
    p.add_argument("--seed", type=int, default=11)
    a = p.parse_args()
    begin = time.time()
    print(run(a.work.resolve(), a.draws, a.seed), f"({time.time() - begin:.0f} s)")


if __name__ == "__main__":
    main()
