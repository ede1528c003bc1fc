"""Makes encoders/testdata/encoders.zip, small encoders with the names and types found in checkpoints and exported graphs of them,
and expect.json, their embeddings from transformers. Run from the repository root."""

import json
import shutil
import tempfile
import warnings
from pathlib import Path

import torch
from pack import pack
from PIL import Image
from safetensors.torch import save_file
from transformers import CLIPConfig, CLIPModel, CLIPTokenizer, Dinov2Config, Dinov2Model, Dinov2WithRegistersConfig, Dinov2WithRegistersModel
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

warnings.filterwarnings("ignore")
torch.manual_seed(11)
TO, OUT = Path("encoders/testdata"), Path(tempfile.mkdtemp())
PICTURES = ["coffee.png", "hubble.png"]
TEXTS = ["a cup", "a photo of a cup of coffee on a wooden table, seen from above", "stars"]


def randomise(model):
    for p in model.parameters():
        p.data = 0.3 * torch.randn_like(p) + (1 if p.ndim == 1 else 0)
    return model.eval()


def pixels(processor):
    return torch.cat([processor(Image.open(f"testdata/oracle/images/{p}"), return_tensors="pt")["pixel_values"] for p in PICTURES])


def rows(t):
    return [[float(f"{x:.9g}") for x in r] for r in t.tolist()]


def dino(name, cls, config, crop, dtype, modern):
    """modern: the names of transformers 5's modules, in shards; else the published names, which save_pretrained writes."""
    out = OUT / name
    processor = BitImageProcessorPil(size={"shortest_edge": 20}, crop_size={"height": crop[0], "width": crop[1]})
    processor.save_pretrained(out)
    model = randomise(cls(config)).to(dtype)
    model.save_pretrained(out)
    if modern:
        (out / "model.safetensors").unlink()
        state = {k: v.contiguous() for k, v in model.state_dict().items()}
        names, index = sorted(state), {}
        for i, part in enumerate([names[::2], names[1::2]]):
            file = f"model-0000{i + 1}-of-00002.safetensors"
            save_file({k: state[k] for k in part}, out / file)
            index.update({k: file for k in part})
        (out / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    x = pixels(processor)
    return {"images": rows(model.float()(x).pooler_output)}, model, x


def clip():
    out = OUT / "clip_half"
    CLIPTokenizer.from_pretrained("testdata/oracle/clip/model").save_pretrained(out)
    config = CLIPConfig(
        text_config=dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, vocab_size=514, eos_token_id=513, max_position_embeddings=20),
        vision_config=dict(hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=3, image_size=12, patch_size=4), projection_dim=8)
    model = randomise(CLIPModel(config)).half()
    model.save_pretrained(out)
    processor = CLIPImageProcessorPil(size={"shortest_edge": 12}, crop_size={"height": 12, "width": 12})
    file = out / "preprocessor_config.json"
    processor.save_pretrained(out)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"size": 12, "crop_size": 12}))  # like in OpenAI's files
    config = json.loads((out / "config.json").read_text())
    config["text_config_dict"] = config["text_config"]  # like in OpenAI's large model: this one takes precedence
    config["text_config"] = dict(config["text_config"], num_attention_heads=4)
    (out / "config.json").write_text(json.dumps(config, indent=1))
    model, tok = model.float(), CLIPTokenizer.from_pretrained(out)
    x = pixels(processor)
    texts = [model.get_text_features(**tok(t, return_tensors="pt", truncation=True, max_length=20)).pooler_output[0] for t in TEXTS]
    return {"images": rows(model.get_image_features(x).pooler_output), "texts": rows(torch.stack(texts))}, model, x


class Both(torch.nn.Module):
    """CLIP exported like by Optimum: both towers in one graph, embeddings normalised."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, pixel_values, attention_mask):
        y = self.model(input_ids=input_ids, pixel_values=pixel_values, attention_mask=attention_mask)
        return y.logits_per_image, y.text_embeds, y.image_embeds


class Hidden(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values):
        return self.model(pixel_values).last_hidden_state


@torch.no_grad()
def main():
    small = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, image_size=20, patch_size=4)
    expect = {}
    expect["dino_giant"], giant, x = dino("dino_giant", Dinov2Model, Dinov2Config(**small, use_swiglu_ffn=True), (12, 16), torch.float32, False)
    registers = Dinov2WithRegistersConfig(**small, use_swiglu_ffn=True, num_register_tokens=3)
    expect["dino_registers"] = dino("dino_registers", Dinov2WithRegistersModel, registers, (12, 12), torch.bfloat16, True)[0]
    expect["clip_half"], both, pair = clip()
    (TO / "expect.json").write_text(json.dumps({"pictures": PICTURES, "texts": TEXTS, "expect": expect}, indent=1))

    ids = torch.tensor([[512, 320, 513], [512, 321, 513]])
    torch.onnx.export(Both(both), (ids, pair, torch.ones_like(ids)), OUT / "clip_half/both.onnx", dynamo=False, opset_version=18,
                      input_names=["input_ids", "pixel_values", "attention_mask"], output_names=["logits_per_image", "text_embeds", "image_embeds"],
                      dynamic_axes={"input_ids": {0: "t", 1: "l"}, "attention_mask": {0: "t", 1: "l"}, "pixel_values": {0: "n"}})
    (OUT / "dino_giant/onnx").mkdir()
    torch.onnx.export(Hidden(giant), (x[:1],), OUT / "dino_giant/onnx/model.onnx", dynamo=False, opset_version=18,
                      input_names=["pixel_values"], output_names=["last_hidden_state"])  # one picture per run
    pack(OUT, TO / "encoders.zip")
    shutil.rmtree(OUT)


if __name__ == "__main__":
    main()
