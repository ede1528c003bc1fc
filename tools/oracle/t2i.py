"""Makes t2i/testdata/t2i.zip: tiny random rewards in their released layouts, and the scores and pixel gradients of their authors'
code. Run from the repository root with the packages image-reward, hpsv2, fairscale, timm, ftfy and torchvision (pip install
--no-deps --target DIR, and DIR in PYTHONPATH) in addition to build/venv. The authors' classes are used as they are; names that
they import and transformers 5 has removed are put back."""

import gzip
import io
import json
import sys
import tempfile
import types
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from pack import pack
from PIL import Image
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import BertTokenizer, CLIPConfig, CLIPModel, CLIPTokenizer
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

torch.manual_seed(31)
OUT = Path(tempfile.mkdtemp())
SIDE, PATCH = 32, 8
SIZES = {"wide.png": (61, 40), "tall.png": (38, 83), "square.png": (32, 32), "small.png": (21, 20), "odd.png": (44, 40), "odder.png": (49, 40)}
LONG = "a photograph of a cup of coffee on a wooden table beside a window, " * 9
TEXTS = ["a cup", "A photo of a cup of coffee on a wooden table.", LONG, "don't: 3 cats & 2 dogs?", "", "café  ÉTÉ 日本"]
# Texts that open_clip's tokenizer cleans; the last ones are not mojibake to ftfy.
DIRTY = ["it’s a “cup” &amp; a saucer", "ﬁne ﬂowers　ＬＯＵＤ　１２", "a &lt;b&gt; c", "<i>x &amp; y</i>", "tabs\tand\r\nlines\u2028here ", "e\u0301te",
         "&amp;lt;3", "x\x07y\ufeffz \x1b[31mred\x1b[0m", "naïve café, Ærø", "Сёмга на столе", "5° ± 2 µm ½", "«CAFÉ» — ‘été’", "na\u00a0me", "&hellip;&nbsp;&copy"]
GARBLED = ["cafÃ© au lait", "itâ€™s a cup", "a\x85b", "ðŸ˜€ face"]


def pictures():
    photo = Image.open("testdata/oracle/images/coffee.png").convert("RGB")
    for i, (name, size) in enumerate(SIZES.items()):
        box = (3 * i, 2 * i, min(photo.width, 3 * i + 4 * size[0]), min(photo.height, 2 * i + 4 * size[1]))
        photo.crop(box).resize(size, Image.Resampling.LANCZOS).save(OUT / name)


def randomise(model, scale=0.25):
    for name, p in model.named_parameters():
        p.data = scale * torch.randn_like(p) + (1 if p.ndim == 1 and "bias" not in name else 0)
        p.data = p.data.bfloat16().float()  # half of the bytes are zeros, which compress well
    return model.eval()


def merges():
    """BPE merges like CLIP's: the last letter of a word ends in </w>."""
    tok = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(" ", "removed"), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    trainer = trainers.BpeTrainer(vocab_size=420, end_of_word_suffix="</w>", min_frequency=1, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator([LONG.lower(), *[t.lower() for t in TEXTS], "cats dogs flowers saucer photo window"] * 3, trainer)
    found = [tuple(m) if not isinstance(m, str) else tuple(m.split(" ")) for m in json.loads(tok.to_str())["model"]["merges"]]
    return [m for m in found if all(m)]


def gradient(picture, pixels, score, resize, margin):
    """d score / d level of the picture: autograd to the model's input pixels, then the transposed resize, which is linear."""
    (by,) = torch.autograd.grad(score, pixels)
    x = torch.zeros(1, 3, picture.height, picture.width, requires_grad=True)
    w, h = picture.size
    size = (SIDE, int(SIDE * w / h)) if h <= w else (int(SIDE * h / w), SIDE)
    y = x if size == (h, w) else resize(x, size)
    top, left = margin(size[0]), margin(size[1])
    std = torch.tensor([0.26862954, 0.26130258, 0.27577711])[:, None, None]
    z = y[:, :, top : top + SIDE, left : left + SIDE] / 255 / std
    z.backward(by.reshape(z.shape))
    return x.grad[0].permute(1, 2, 0).contiguous()


def antialiased(x, size):
    return F.interpolate(x, size, mode="bicubic", antialias=True)


def floor(n):
    return (n - SIDE) // 2


def half_to_even(n):
    return int(round((n - SIDE) / 2))


CASES, EXPECT = {}, {}


def add(kind, picture, text, score, grad):
    cases = CASES.setdefault(kind, [])
    if grad is not None:
        EXPECT[f"{kind}.{len(cases)}"] = grad
    cases.append({"picture": picture, "text": text, "score": float(score.detach()), "gradient": grad is not None})


def every(kind, run, texts=TEXTS):
    """run(picture, text) -> score, gradient. Every picture with one text, and one picture with every text."""
    for name in SIZES:
        add(kind, name, texts[1 % len(texts)], *run(Image.open(OUT / name), texts[1 % len(texts)]))
    for text in texts:
        score, grad = run(Image.open(OUT / "wide.png"), text)
        add(kind, "wide.png", text, score, grad if text == LONG else None)


def clip_model(name, act, end):
    """A CLIP of transformers, like openai/clip-vit-large-patch14 and PickScore_v1."""
    found = merges()
    alphabet = list(bytes_to_unicode().values())
    words = alphabet + [c + "</w>" for c in alphabet] + ["".join(m) for m in found] + ["<|startoftext|>", "<|endoftext|>"]
    tok = CLIPTokenizer(vocab={w: i for i, w in enumerate(words)}, merges=found, model_max_length=77)
    tok.save_pretrained(OUT / name)
    tower = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3, hidden_act=act)
    config = CLIPConfig(
        text_config=dict(tower, vocab_size=len(words), eos_token_id=end or len(words) - 1, max_position_embeddings=77),
        vision_config=dict(tower, image_size=SIDE, patch_size=PATCH), projection_dim=16)
    model = randomise(CLIPModel(config))
    model.logit_scale.data = torch.tensor(4.6052)
    model.save_pretrained(OUT / name)
    processor = CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE})
    processor.save_pretrained(OUT / name)
    return model, tok, processor, found


def pickscore(kind, model, tok, processor):
    """The lines of PickScore's README; CLIP's logits_per_image is the same number."""

    def run(picture, prompt):
        pixels = processor(images=picture, return_tensors="pt")["pixel_values"].requires_grad_()
        text_inputs = tok([prompt], padding=True, truncation=True, max_length=77, return_tensors="pt")
        image_embs = model.get_image_features(pixel_values=pixels).pooler_output
        image_embs = image_embs / torch.norm(image_embs, dim=-1, keepdim=True)
        text_embs = model.get_text_features(**text_inputs).pooler_output
        text_embs = text_embs / torch.norm(text_embs, dim=-1, keepdim=True)
        score = model.logit_scale.exp() * (text_embs @ image_embs.T)[0]
        whole = model(pixel_values=pixels, **text_inputs).logits_per_image[0]
        assert torch.allclose(score, whole, atol=1e-4), (score, whole)
        return score, gradient(picture, pixels, score, antialiased, floor)

    every(kind, run)


def aesthetic(model):
    """improved-aesthetic-predictor on top of a CLIP: its MLP from the package image-reward, with this embedding's width."""
    from ImageReward.models.AestheticScore import MLP
    from ImageReward.ImageReward import _transform  # OpenAI's clip has the same preprocessing

    mlp = MLP(16)
    randomise(mlp, 0.3)
    torch.save(mlp.state_dict(), OUT / "aesthetic.pth", _use_new_zipfile_serialization=False)
    mlp.eval()

    def run(picture, _):
        pixels = _transform(SIDE)(picture).unsqueeze(0).requires_grad_()
        features = F.normalize(model.get_image_features(pixel_values=pixels).pooler_output).float()
        score = mlp(features)[0]
        return score, gradient(picture, pixels, score, antialiased, half_to_even)

    every("aesthetic", run, ["a cup"])


def stub(name, path=None, **values):
    module = types.ModuleType(name)
    module.__dict__.update(values)
    if path:
        module.__path__ = [path]
    sys.modules[name] = module


def hpsv2(found):
    """HPSv2's copy of open_clip: its model, its preprocessing of tensors, its tokenizer with our merges."""
    base = next(Path(p) / "hpsv2" for p in sys.path if (Path(p) / "hpsv2").is_dir())
    stub("hpsv2", str(base))  # whose __init__ imports many other modules
    stub("hpsv2.src", str(base / "src"))
    stub("hpsv2.src.open_clip", str(base / "src/open_clip"))
    text = ("#version\n" + "\n".join(" ".join(m) for m in found)).encode()
    real, gzip.open = gzip.open, lambda *_: io.BytesIO(text)  # instead of the file with all merges
    from hpsv2.src.open_clip import model as open_clip
    from hpsv2.src.open_clip import tokenizer, transform

    gzip.open = real
    config = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": SIDE, "layers": 2, "width": 40, "head_width": 8, "patch_size": PATCH},
        "text_cfg": {"context_length": 77, "vocab_size": tokenizer._tokenizer.vocab_size, "width": 24, "heads": 3, "layers": 2},
    }
    (OUT / "hpsv2.json").write_text(json.dumps(config))
    model = randomise(open_clip.CLIP(output_dict=True, **config))
    state = {k: v.half() for k, v in model.state_dict().items()}  # like the compressed checkpoints
    model.load_state_dict({k: v.float() for k, v in state.items()})
    torch.save({"state_dict": state}, OUT / "HPS_v2_compressed.pt")
    save_file({k: v.contiguous() for k, v in state.items()}, OUT / "HPS_v2.1.safetensors")
    preprocess = transform.image_transform(SIDE, is_train=False)

    def run(preprocess):
        def once(picture, prompt):
            x = torch.tensor([0.0], requires_grad=True)
            steps = list(preprocess.transforms)
            x = steps[1](steps[0](picture)).requires_grad_()  # ToTensor
            y = x
            for step in steps[2:]:
                y = step(y)
            assert torch.equal(y, preprocess(picture))
            outputs = model(y.unsqueeze(0), tokenizer.tokenize([prompt]))
            score = torch.diagonal(outputs["image_features"] @ outputs["text_features"].T)
            (by,) = torch.autograd.grad(score, x)
            return score, (by / 255).permute(1, 2, 0).contiguous()

        return once

    every("hpsv2", run(preprocess), TEXTS + DIRTY)
    from torchvision.transforms import Resize
    for t in preprocess.transforms:
        if isinstance(t, Resize):
            t.antialias = False  # the default before torchvision 0.17
    every("hpsv2-tensor_no_alias", run(preprocess), ["a cup"])
    clean = {t: tokenizer.whitespace_clean(tokenizer.basic_clean(t)) for t in DIRTY + TEXTS}
    ids = {t: [i for i in tokenizer.tokenize([t])[0].tolist() if i] for t in TEXTS + DIRTY}
    return clean, ids


def names_of_old():
    """Puts back the names that ImageReward's copy of BLIP imports."""
    from transformers import modeling_utils, pytorch_utils

    def none(*_):
        raise NotImplementedError

    stub("transformers.file_utils", ModelOutput=transformers.utils.ModelOutput)
    for name in ["apply_chunking_to_forward", "find_pruneable_heads_and_indices", "prune_linear_layer"]:
        setattr(modeling_utils, name, getattr(pytorch_utils, name, none))
    import timm.models
    for old, new in {"hub": "timm.models._hub", "registry": "timm.models._registry", "layers": "timm.layers", "helpers": "timm.models._manipulate"}.items():
        __import__(new)
        sys.modules.setdefault(f"timm.models.{old}", sys.modules[new])
    sys.modules["timm.models.helpers"] = types.SimpleNamespace(named_apply=none, adapt_input_conv=none)
    if not hasattr(sys.modules["timm.models.hub"], "download_cached_file"):
        sys.modules["timm.models.hub"].download_cached_file = none


def imagereward():
    """ImageReward's own class with small sizes."""
    from ImageReward import ImageReward as module
    from ImageReward.models.BLIP import blip, blip_pretrain, med

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cup", "of", "coffee", "on", "photo", "##graph", "table", "wood", "##en", "the", "beside", "window",
             "cats", "dogs", "&", ",", ".", "?", ":", "'", "t", "don", "2", "3", "cafe"]
    words += [p + c for p in ("", "##") for c in "abcdefghijklmnopqrstuvwxyz" if p + c not in words]
    base = OUT / "bert"
    BertTokenizer(vocab={w: i for i, w in enumerate(words)}, do_lower_case=True).save_pretrained(base)
    config = {"architectures": ["BertModel"], "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 48,
              "initializer_range": 0.02, "intermediate_size": 80, "layer_norm_eps": 1e-12, "max_position_embeddings": 64, "model_type": "bert",
              "num_attention_heads": 3, "num_hidden_layers": 2, "pad_token_id": 0, "type_vocab_size": 2, "vocab_size": len(words) + 2, "encoder_width": 64,
              "add_cross_attention": True}
    (OUT / "med_config.json").write_text(json.dumps(config))

    def tokens():
        tok = BertTokenizer.from_pretrained(base)
        tok.add_special_tokens({"bos_token": "[DEC]"})
        tok.add_special_tokens({"additional_special_tokens": ["[ENC]"]})
        return tok

    def vit(_, image_size, *args):
        return blip.VisionTransformer(img_size=SIDE, patch_size=PATCH, embed_dim=64, depth=2, num_heads=1), 64

    class Config(med.BertConfig):
        chunk_size_feed_forward, is_decoder, add_cross_attention, use_cache = 0, False, True, False
        output_attentions = output_hidden_states = False
        use_return_dict = True

    blip_pretrain.init_tokenizer, blip_pretrain.create_vit, blip_pretrain.BertConfig = tokens, vit, Config
    med.BertModel.init_weights = lambda self: None
    med.BertModel.get_head_mask = lambda self, mask, n, *_: [None] * n
    med.BertModel.invert_attention_mask = lambda self, m: (1.0 - m[:, None, None, :].float()) * torch.finfo(torch.float32).min
    rm = module.ImageReward(med_config=str(OUT / "med_config.json"))
    rm.preprocess, rm.mlp = module._transform(SIDE), module.MLP(48)
    randomise(rm, 0.2)
    state = rm.state_dict()
    torch.save(state, OUT / "ImageReward.pt")

    def run(picture, prompt):
        text = rm.blip.tokenizer(prompt, padding="max_length", truncation=True, max_length=35, return_tensors="pt")
        pixels = rm.preprocess(picture).unsqueeze(0).requires_grad_()
        score = rm.score_gard(text.input_ids, text.attention_mask, pixels)[0]
        path = OUT / "one.png"
        picture.save(path)
        assert abs(rm.score(prompt, str(path)) - score.item()) < 1e-5
        path.unlink()
        return score, gradient(picture, pixels, score, antialiased, half_to_even)

    every("imagereward", run)


def bytes_to_unicode():
    from ImageReward import __file__ as _  # noqa: F401  (the packages are there)
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    rest = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def main():
    stub("ImageReward", str(next(Path(p) / "ImageReward" for p in sys.path if (Path(p) / "ImageReward").is_dir())), __file__="")
    stub("clip")
    names_of_old()
    pictures()
    model, tok, processor, found = clip_model("clip", "quick_gelu", 2)
    model.logit_scale.data = torch.tensor(4.6052)
    pickscore("clip", model, tok, processor)
    aesthetic(model)
    pickscore("pickscore", *clip_model("pickscore", "gelu", None)[:3])
    imagereward()
    clean, ids = hpsv2(found)
    save_file(EXPECT, OUT / "gradients.safetensors")
    (OUT / "cases.json").write_text(json.dumps({"cases": CASES, "clean": clean, "ids": ids, "garbled": GARBLED}, indent=1))
    pack(OUT, Path("t2i/testdata/t2i.zip"))


if __name__ == "__main__":
    main()
