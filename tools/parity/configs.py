"""Random checkpoints compared with transformers: whatever config.json says, the score equals transformers' or is refused.

    configs.py --work FOLDER [--draws N] [--seed S] [--only I]

Draws options of transformers' configuration classes, for all families and in both spellings (transformers 5's and that of published
files), makes a tiny random checkpoint, and compares `score pair` with a forward pass of transformers that reads the same files. A
draw lists which of its options are refused, and the words in the error; everything else must be scored, with equal scores.
"""
import argparse
import collections
import json
import random
import shutil
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ORACLE = ROOT / "testdata/oracle"
SCORE = ROOT / "bin/score"
TOLERANCE = 1e-4
HIDDEN = 8  # of the head
FAMILIES = ["llavanext", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"]

ACTIVATIONS = ["silu", "gelu", "gelu_10", "gelu_fast", "gelu_new", "gelu_python", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate", "hardswish",
               "laplace", "leaky_relu", "linear", "mish", "quick_gelu", "relu", "relu2", "relu6", "sigmoid", "sqrtsoftplus", "swish", "tanh"]
# written into every file by PretrainedConfig of 4.x
LEGACY = {"return_dict": True, "output_hidden_states": False, "torchscript": False, "pruned_heads": {}, "is_decoder": False, "add_cross_attention": False,
          "max_length": 20, "min_length": 0, "do_sample": False, "num_beams": 1, "top_k": 50, "top_p": 1.0, "typical_p": 1.0, "temperature": 1.0,
          "bad_words_ids": None, "id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}, "use_bfloat16": False,
          "_name_or_path": "somebody/something", "transformers_version": "4.30.1", "finetuning_task": None, "problem_type": None}


class Draw:
    """One random checkpoint: config (as config.json), pictures (as preprocessor_config.json), and which of its options are refused."""

    def __init__(self, rng, family):
        self.rng, self.family, self.refused = rng, family, []
        self.tokenizer = ORACLE / family / "backbone"
        known = json.loads((self.tokenizer / "config.json").read_text())
        self.rows = known["text_config"]["vocab_size"] + rng.randrange(5)
        self.image = known["image_token_index" if family == "llavanext" else "image_token_id"]
        self.old = self.maybe(0.4)
        self.stored = self.pick("float32", "float32", "float16", "bfloat16")
        self.shards, self.outer = self.maybe(0.3), {}
        self.position = self.pick("at", "at", "before")
        (self.llava if family == "llavanext" else self.qwen)()
        self.odd()

    def maybe(self, p):
        return self.rng.random() < p

    def pick(self, *options):
        return self.rng.choice(options)

    def activation(self, usual):
        return usual if self.maybe(0.5) else self.pick(*ACTIVATIONS)

    def rope(self, t, dim, sections=None):
        """Adds the rotary settings to a text_config, in one of the spellings."""
        kind = self.pick("default", "default", "linear", "dynamic", "llama3", "yarn", "proportional", "longrope")
        theta = self.pick(100.0, 10000.0, 500000.0, 1000000.0)
        factor = self.pick(1.0, 1.5, 2.0, 8.0)
        r = {}
        if kind != "default":
            r["factor"] = factor
        if kind == "llama3":
            r |= {"low_freq_factor": self.pick(1.0, 0.5), "high_freq_factor": self.pick(2.0, 4.0), "original_max_position_embeddings": self.pick(16, 64, 512)}
        if kind == "yarn":
            r["original_max_position_embeddings"] = self.pick(64, 512, 1024)
            for key, value in (("beta_fast", self.pick(8, 32.0)), ("beta_slow", self.pick(1, 2.0)), ("attention_factor", 0.9), ("truncate", False),
                               ("mscale", 0.7), ("mscale_all_dim", 1.3)):
                if self.maybe(0.3):
                    r[key] = value
        if kind == "longrope":
            r |= {"short_factor": [1.0] * (dim // 2), "long_factor": [2.0] * (dim // 2), "original_max_position_embeddings": 64}
            self.refused.append("longrope")
        if kind == "proportional":
            r["partial_rotary_factor"] = self.pick(1.0, 0.5, 0.25)
        elif kind == "default" and self.maybe(0.2):
            r["partial_rotary_factor"] = 0.5  # ignored by transformers, which rotates the full head
        elif kind in ("linear", "llama3") and self.maybe(0.3):
            r["attention_factor"] = 0.5  # transformers warns and ignores it
        if sections and self.maybe(0.9):
            r["mrope_section"] = sections
        elif sections and self.family != "qwen3_vl":
            self.refused.append("mrope_section")  # the default is for a head_dim of 128
        if self.family == "qwen3_vl" and self.maybe(0.7):
            r["mrope_interleaved"] = self.maybe(0.95)  # ignored by transformers
            if not r["mrope_interleaved"]:
                self.refused.append("mrope_interleaved")
        if kind == "dynamic" and self.maybe(0.3):
            t["max_position_embeddings"] = 24
            self.refused += ["dynamic rope", "max_position_embeddings"]
        if self.old:
            t["rope_theta"] = theta
            name = self.pick("type", "rope_type")
            if kind != "default" or r:
                t["rope_scaling"] = {name: "mrope" if kind == "default" and sections and self.family != "qwen3_vl" else kind, **r}
            elif self.maybe(0.5):
                t["rope_scaling"] = None
        else:
            t["rope_parameters"] = {"rope_type": kind, "rope_theta": theta, **r}

    def text(self, kinds, divide):
        """A text_config of one of the kinds; divide: hidden_size is heads times head_dim."""
        rng, kind = self.rng, self.pick(*kinds)
        heads = self.pick(1, 2, 3, 4, 6)
        kv = self.pick(*[n for n in range(1, heads + 1) if heads % n == 0])
        dim = self.pick(8, 12, 16, 20)
        t = {"model_type": kind, "hidden_size": heads * dim, "intermediate_size": self.pick(40, 56, 72), "num_hidden_layers": self.pick(1, 2, 3),
             "num_attention_heads": heads, "num_key_value_heads": kv, "vocab_size": self.rows, "rms_norm_eps": self.pick(1e-6, 1e-5, 1e-2),
             "hidden_act": self.activation("silu"), "max_position_embeddings": 4096}
        if kind == "qwen3_vl_text":
            t |= {"head_dim": dim, "hidden_size": self.pick(32, 44, 60)}
        elif not divide and self.maybe(0.3):
            dim = self.pick(8, 24, 32)
            t["head_dim"] = dim
            if kind == "mistral":
                t["hidden_size"] += 2
        elif divide and self.maybe(0.2):
            t["head_dim"] = dim
        if kv == heads and self.maybe(0.3) and (kind != "mistral" or heads == 8):
            t["num_key_value_heads"] = None
        layers, window, types = t["num_hidden_layers"], self.pick(4, 9, 40, 200), ["full_attention"] * t["num_hidden_layers"]
        if kind == "llama":
            t |= {"attention_bias": self.maybe(0.4), "mlp_bias": self.maybe(0.4)}
            if self.maybe(0.3):
                t["pretraining_tp"] = 1
        elif kind == "mistral":
            t["sliding_window"] = self.pick(None, window)
            if t["sliding_window"]:
                types = ["sliding_attention"] * layers
        elif kind == "qwen3_vl_text":
            t["attention_bias"] = self.maybe(0.4)
        else:
            t |= {"use_sliding_window": self.maybe(0.6), "sliding_window": self.pick(None, window, window), "max_window_layers": rng.randrange(layers + 1)}
            if t["use_sliding_window"] and t["sliding_window"]:
                types = ["sliding_attention" if self.maybe(0.5) else "full_attention" for _ in range(layers)]
        if self.maybe(0.4):
            t["layer_types"] = types
        return t, kind, dim

    def common(self, c, t):
        """Options with the same spelling in both families."""
        name = "torch_dtype" if self.old else "dtype"
        c[name] = self.stored
        c["tie_word_embeddings"] = self.maybe(0.4)
        if self.maybe(0.2):
            t["tie_word_embeddings"] = self.maybe(0.5)
        for where in (c, t, c.get("vision_config", {})):
            if self.maybe(0.15):
                where |= {k: v for k, v in LEGACY.items() if k not in where}

    def llava(self):
        t, _, dim = self.text(["llama", "mistral", "qwen2"], False)
        self.rope(t, dim)
        patch, grid = self.pick(7, 8, 14), self.pick(2, 3, 4)
        side, heads, layers = patch * grid + self.pick(0, 0, 1, 5), self.pick(1, 2, 4), self.pick(2, 3, 4)  # the rest is left out
        arrangements = self.rng.sample([(1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1), (3, 2)], self.pick(1, 3, 5))
        # (a plain 0 fails in transformers 5.23, which takes it for no layer)
        features = self.pick(-2, -2, -1, 1, layers, [-1, 0], [-2, layers], [1])
        v = {"model_type": "clip_vision_model", "hidden_size": heads * self.pick(8, 12), "intermediate_size": self.pick(24, 40), "num_hidden_layers": layers,
             "num_attention_heads": heads, "image_size": side, "patch_size": patch, "hidden_act": self.activation("quick_gelu"),
             "layer_norm_eps": self.pick(1e-5, 1e-3)}
        c = {"model_type": "llava_next", "image_token_index": self.image, "image_grid_pinpoints": [[h * side, w * side] for h, w in arrangements],
             "vision_feature_layer": features, "projector_hidden_act": self.activation("gelu"), "text_config": t, "vision_config": v,
             "multimodal_projector_bias": self.maybe(0.7), "image_seq_length": self.pick(576, grid * grid)}
        if self.maybe(0.5):
            c["vision_feature_select_strategy"] = self.pick("default", "default", "default", "full")
            if c["vision_feature_select_strategy"] == "full":
                self.refused.append("vision_feature_select_strategy")
        if self.maybe(0.3):
            c |= {"ignore_index": -100, "use_image_newline_parameter": True, "vocab_size": self.rows}
            v |= {"vocab_size": 32000, "projection_dim": 768}
        self.common(c, t)
        self.config, self.pair = c, self.pick("concat", "sequence")
        self.pictures = {"image_processor_type": self.pick("LlavaNextImageProcessor", "LlavaNextImageProcessorFast"), "size": {"shortest_edge": side},
                         "crop_size": {"height": side, "width": side}, "image_grid_pinpoints": c["image_grid_pinpoints"],
                         "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.25], "resample": 3}
        self.outer = {"patch_size": patch, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1, "image_token": "<image>",
                      "processor_class": "LlavaNextProcessor"}

    def qwen(self):
        family = self.family
        t, _, dim = self.text([family + "_text"], family != "qwen3_vl")
        half = dim // 2
        first = self.rng.randrange(half - 1)
        second = self.rng.randrange(half - first)
        sections = [first, second, half - first - second]
        if family == "qwen3_vl" and self.maybe(0.3):  # the sum may be more or less than there are
            sections = [self.rng.randrange(half) for _ in range(3)]
        self.rope(t, dim, sections)
        patch, merge, heads, depth = self.pick(7, 8), self.pick(1, 2, 3), self.pick(1, 2, 3), self.pick(1, 2, 3, 4)
        width = heads * self.pick(8, 12, 16)
        v = {"model_type": self.pick(family, family + "_vision"), "depth": depth, "num_heads": heads, "patch_size": patch,
             "temporal_patch_size": self.pick(1, 2, 2, 2), "spatial_merge_size": merge}
        if family == "qwen2_vl":
            v |= {"embed_dim": width, "hidden_size": t["hidden_size"], "mlp_ratio": self.pick(1, 2, 4), "hidden_act": self.activation("quick_gelu")}
        elif family == "qwen2_5_vl":
            v |= {"hidden_size": width, "intermediate_size": self.pick(24, 40), "hidden_act": self.activation("silu"), "out_hidden_size": t["hidden_size"],
                  "window_size": patch * merge * self.pick(1, 2, 3) + self.pick(0, 0, 3), "tokens_per_second": self.pick(2, 4),
                  "fullatt_block_indexes": self.rng.sample(range(depth + 1), self.rng.randrange(depth + 1))}
        else:  # taps in any order, repeated, or of a layer that does not exist
            v |= {"hidden_size": width, "intermediate_size": self.pick(24, 40), "hidden_act": self.activation("gelu_pytorch_tanh"),
                  "out_hidden_size": t["hidden_size"], "num_position_embeddings": self.pick(1, 9, 16, 25, 30),
                  "deepstack_visual_indexes": [self.rng.randrange(depth + 1) for _ in range(self.rng.randrange(4))]}
        if self.old and family != "qwen3_vl":
            v |= {"in_chans": 3, "spatial_patch_size": patch}
        elif not self.old and self.maybe(0.5):
            v |= {"in_channels": 3, "rope_parameters": {"rope_type": self.pick("default", "axial"), "rope_theta": self.pick(100.0, 10000.0)}}
        c = {"model_type": family, "image_token_id": self.image, "video_token_id": self.image + 1, "vision_config": v}
        self.common(c, t)
        if self.old and family != "qwen3_vl" and self.maybe(0.7):  # flat, like published files
            t.pop("model_type")
            t.pop("layer_types", None)
            t.pop("head_dim", None)
            c = {**t, **c}
        else:
            c["text_config"] = t
        self.config = c
        self.pair = self.pick("concat", "sequence", "frames") if v["temporal_patch_size"] == 2 else self.pick("concat", "sequence")
        unit = (patch * merge) ** 2
        least, most = self.pick(1, 4) * unit, self.pick(9, 20) * unit
        self.pictures = {"image_processor_type": "Qwen2VLImageProcessor", "patch_size": patch, "merge_size": merge, "temporal_patch_size": v["temporal_patch_size"],
                         "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.25], "resample": 3}
        self.pictures |= {"min_pixels": least, "max_pixels": most} if self.old else {"size": {"shortest_edge": least, "longest_edge": most}}

    def odd(self):
        """Sometimes one option that is unusual, wrong, or unknown, and words of the error (none: it is harmless)."""
        if self.maybe(0.6):
            return
        c = self.config
        t, v = c.get("text_config", c), c["vision_config"]
        layers = "depth" if "depth" in v else "num_hidden_layers"
        where, key, value, words = self.pick(
            (c, "quantization_config", {"quant_method": "bitsandbytes", "load_in_8bit": True}, "quantization_config"),
            (t, "residual_multiplier", 0.5, "residual_multiplier"), (v, "num_registers", 4, "num_registers"),
            (t, "attention_dropout", 0.1, None), (t, "initializer_range", 0.5, None), (t, "use_cache", False, None),
            (t, "num_hidden_layers", "2", "num_hidden_layers"), (v, layers, None, layers), (t, "rms_norm_eps", None, "rms_norm_eps"),
            (v, "in_channels" if "depth" in v else "num_channels", 4, "in_channels" if "depth" in v else "num_channels"),
            (t, "hidden_act", "prelu", "activation"),
            (t, "intermediate_size", 64.5, "intermediate_size"), (c, "per_layer_config", {"0": {"hidden_act": "relu"}}, "per_layer_config"),
            (c, "architectures", ["Something"], None), (t, "chunk_size_feed_forward", 2, None), (t, "is_decoder", True, "is_decoder"),
            (self.pictures, "do_pad", True, None), (self.pictures, "do_convert_rgb", False, None), (self.pictures, "resample", 2, "resample"),
            (self.pictures, "do_normalize", False, "do_normalize"), (self.pictures, "rescale_factor", 0.01, "rescale_factor"),
            (self.pictures, "crop_pct", 0.9, "crop_pct"), (self.pictures, "image_mean", [0.5, 0.5], "image_mean"),
            (v, "model_type", "siglip_vision_model", "model_type"), (c, "image_token_id", self.image + 2, "image token"))
        where[key] = value
        if words:
            self.refused.append(words)

    def write(self, folder):
        """Writes everything but the weights."""
        folder.mkdir(parents=True)
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(self.tokenizer / name, folder)
        (folder / "config.json").write_text(json.dumps(self.config))
        if not self.old and self.maybe(0.5):  # like transformers 5 saves it
            (folder / "processor_config.json").write_text(json.dumps({**self.outer, "image_processor": self.pictures}))
            return
        (folder / "preprocessor_config.json").write_text(json.dumps(self.pictures))
        if self.outer:
            (folder / "processor_config.json").write_text(json.dumps(self.outer))


def classes(family):
    from transformers import (LlavaNextForConditionalGeneration, Qwen2_5_VLForConditionalGeneration, Qwen2VLForConditionalGeneration,
                              Qwen3VLForConditionalGeneration)
    from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
    if family == "llavanext":
        return LlavaNextForConditionalGeneration, LlavaNextImageProcessorPil, "<image>", "<|eot_id|>"
    model = {"qwen2_vl": Qwen2VLForConditionalGeneration, "qwen2_5_vl": Qwen2_5_VLForConditionalGeneration, "qwen3_vl": Qwen3VLForConditionalGeneration}
    return model[family], Qwen2VLImageProcessorPil, "<|image_pad|>", "<|im_end|>"


def make(draw, folder, seed):
    """Writes the checkpoint and a scorer next to it; raises if transformers cannot build a model from the options."""
    import torch
    from safetensors.torch import save_file
    torch.manual_seed(seed)
    draw.write(folder)
    cls = classes(draw.family)[0]
    model = cls(cls.config_class.from_pretrained(folder))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                p.copy_(torch.randn(p.shape) * (0.5 if "embed" in name else 1.4 * p[0].numel() ** -0.5))
            else:
                p.copy_(torch.randn(p.shape) * 0.2 + (1.0 if "norm" in name or "ln_q" in name else 0.0))
    config = (folder / "config.json").read_text()
    model.to(getattr(torch, draw.stored)).save_pretrained(folder, max_shard_size="40KB" if draw.shards else "1GB")
    (folder / "config.json").write_text(config)
    width = model.get_input_embeddings().weight.shape[1]
    head = {"layers.0.weight": torch.randn(HIDDEN, width) * 1.4 * width**-0.5, "layers.0.bias": torch.randn(HIDDEN) * 0.1,
            "layers.1.weight": torch.randn(1, HIDDEN) * 0.2, "layers.1.bias": torch.full((1,), 0.5),
            "score_token.embedding": torch.randn(width) * 0.5, "score_token.lm_head": torch.randn(width)}
    scorer = folder.parent / "scorer"
    scorer.mkdir()
    save_file(head, scorer / "head.safetensors")
    meta = {"format": 1, "backbone": "../backbone", "pair": draw.pair, "question": "[INSTRUCTION]\nHow well?", "answer": "It is [SCORE].",
            "score_range": [0, 10], "head": {"hidden": [HIDDEN], "activation": "relu"}, "score_token": "[SCORE]", "score_position": draw.position, "dtype": "float32"}
    (scorer / "scorer.yaml").write_text("".join(f"{k}: {json.dumps(x)}\n" for k, x in meta.items()))
    return head


def theirs(draw, folder, head, source, edit, instruction):
    """The score with transformers, from the files."""
    import torch
    from PIL import Image
    from tokenizers import AddedToken
    from transformers import AutoTokenizer, LlavaNextProcessor
    from transformers.image_transforms import convert_to_rgb
    cls, images_class, placeholder, end = classes(draw.family)
    model = cls.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    processor, tokenizer = images_class.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([AddedToken("[SCORE]", special=True, normalized=False)])
    a, b = (Image.fromarray(convert_to_rgb(Image.open(p), return_numpy=True)) for p in (source, edit))  # transparency over white
    if draw.pair == "concat":
        if a.height != b.height:
            b = b.resize((max(1, round(b.width * a.height / b.height)), a.height), Image.BICUBIC)
        both = Image.new("RGB", (a.width + b.width, a.height))
        both.paste(a, (0, 0))
        both.paste(b, (a.width, 0))
        shown = [both]
    else:
        shown = [a, b.resize(a.size, Image.BICUBIC) if draw.pair == "frames" else b]
    inputs = dict(processor(shown, return_tensors="pt"))
    if draw.pair == "frames":
        first, second = (x.unflatten(1, (3, 2, -1)) for x in inputs["pixel_values"].chunk(2))
        inputs = {"pixel_values": torch.stack([first[:, :, 0], second[:, :, 1]], 2).flatten(1), "image_grid_thw": inputs["image_grid_thw"][:1]}
        shown = shown[:1]
    if draw.family == "llavanext":
        counter = LlavaNextProcessor(processor, tokenizer, patch_size=draw.outer["patch_size"], vision_feature_select_strategy="default", num_additional_image_tokens=1)
        counts = counter._get_num_multimodal_tokens([[im.height, im.width] for im in shown])["num_image_tokens"]
    else:
        counts = [int(t * h * w) // processor.merge_size**2 for t, h, w in inputs["image_grid_thw"]]
    turn = [{"type": "image"} for _ in shown] + [{"type": "text", "text": f"{instruction}\nHow well?"}]
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": turn}], tokenize=False, add_generation_prompt=True)
    pieces = prompt.split(placeholder)
    text = pieces[0] + "".join(placeholder * n + p for n, p in zip(counts, pieces[1:], strict=True))
    ids = tokenizer(text + "It is [SCORE]." + end, return_tensors="pt")["input_ids"]
    at = ids[0].tolist().index(tokenizer.convert_tokens_to_ids("[SCORE]"))
    embeddings = model.get_input_embeddings()
    rows = embeddings.weight.shape[0]

    class WithScore(torch.nn.Module):
        weight = embeddings.weight

        def forward(self, ids):
            return torch.where((ids == rows)[..., None], head["score_token.embedding"], embeddings(ids.clamp(max=rows - 1)))

    ids[0, at] = rows
    model.set_input_embeddings(WithScore())
    if draw.family != "llavanext":
        inputs["mm_token_type_ids"] = (ids == tokenizer.convert_tokens_to_ids(placeholder)).long()
    with torch.no_grad():
        h = model.model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **inputs).last_hidden_state[0, at - (draw.position == "before")]
        h = torch.relu(head["layers.0.weight"] @ h + head["layers.0.bias"])
        return 10 * (head["layers.1.weight"] @ h + head["layers.1.bias"]).item()


def ours(scorer, source, edit, instruction):
    """(score, None) or (None, message)."""
    done = subprocess.run([SCORE, "pair", "--scorer", scorer, "--source", source, "--edit", edit, "--instruction", instruction, "--json"],
                          capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout)["score"], None
    return None, done.stdout + done.stderr


def one(work, seed, i, only=False):
    """The result of draw i: a word for the counts, and a line if something is wrong."""
    rng = random.Random(f"{seed} {i}")
    family = rng.choice(FAMILIES)
    draw, folder = Draw(rng, family), work / str(i) / "backbone"
    shutil.rmtree(folder.parent, ignore_errors=True)
    pairs = json.loads((ORACLE / "images/pairs.json").read_text())
    p = rng.choice(pairs)
    source, edit, instruction = ORACLE / p["input"], ORACLE / p["edited"], rng.choice(["make it grey", "Entferne das Fahrrad", "add 3 cats, please!"])
    want = broken = None
    try:
        head = make(draw, folder, i)
        want = theirs(draw, folder, head, source, edit, instruction)
    except Exception as e:  # any error of transformers
        broken = f"{type(e).__name__}: {e}".splitlines()[0][:200]
        if only:
            traceback.print_exc()
    if not (folder.parent / "scorer").exists():  # transformers could not build a model: there are no weights to read
        return "not built by transformers", None
    score, message = ours(folder.parent / "scorer", source, edit, instruction)
    about = f"draw {i} ({family}, {draw.pair}): "
    if score is not None and want is not None:
        if abs(score - want) <= TOLERANCE and not draw.refused:
            shutil.rmtree(folder.parent)
            return "scored", None
        if abs(score - want) <= TOLERANCE:
            return "scored", about + f"scored, though {draw.refused} should be refused"
        return "different", about + f"score {score:.6f}, transformers {want:.6f}"
    if score is not None:
        return "different", about + f"score {score:.6f}, but transformers refuses: {broken}"
    word = next((w for w in draw.refused if w in message), None)
    if word is None:
        return "different", about + f"refused, transformers: {want if broken is None else broken}: {message.strip()[:600]}"
    shutil.rmtree(folder.parent)
    return f"refused: {word}", None


def repeat(one, indices, seed, what):
    """Raises SystemExit if something is wrong in one draw; returns the counts."""
    import torch
    import transformers
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    counts, wrong = collections.Counter(), 0
    for i in indices:
        word, line = one(i)
        counts[word] += 1
        if line:
            wrong += 1
            print(line, file=sys.stderr, flush=True)
    if wrong:
        sys.exit(f"seed {seed}: {wrong} of {len(indices)} {what} differ from transformers")
    return f"seed {seed}, {len(indices)} {what}: " + ", ".join(f"{n} {word}" for word, n in sorted(counts.items(), key=lambda x: (-x[1], x[0])))


def run(work, draws, seed, only=None):
    return repeat(lambda i: one(work, seed, i, only is not None), range(draws) if only is None else [only], seed, "checkpoints")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--work", required=True, type=Path)
    p.add_argument("--draws", type=int, default=40)
    p.add_argument("--seed", type=int, default=11)
    p.add_argument("--only", type=int)
    a = p.parse_args()
    begin = time.time()
    print(run(a.work.resolve(), a.draws, a.seed, a.only), f"({time.time() - begin:.0f} s)")


if __name__ == "__main__":
    main()
