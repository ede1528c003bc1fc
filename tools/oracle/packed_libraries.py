"""Layers stored by bitsandbytes and compressed-tensors, with their dequantised weights: python tools/oracle/packed_libraries.py OUT

OUT/CASE/{config.json,model.safetensors,dequantized.safetensors}, which pack.py packs into internal/quant/testdata/libraries.zip. Besides
torch it needs `pip install --no-deps bitsandbytes compressed-tensors loguru`.
"""
import json
import sys
from pathlib import Path

import bitsandbytes.functional as bnb
import torch
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute as generic
from compressed_tensors.compressors.naive_quantized.base import FloatQuantizationCompressor
from compressed_tensors.compressors.pack_quantized.base import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme, QuantizationStatus
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import save_file
from transformers import BitsAndBytesConfig


def save(folder, config, tensors, dense):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "none", "quantization_config": config}, indent=1, default=str))
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    save_file({"layer.weight": dense.to(torch.float32).contiguous()}, folder / "dequantized.safetensors", {"format": "pt"})


def bits_and_bytes(out, name, kind, double, n, k, block=64):
    w = torch.randn(n, k) * torch.rand(n, 1)
    packed, state = bnb.quantize_4bit(w, blocksize=block, compress_statistics=double, quant_type=kind)
    tensors = {"layer.weight": packed, "layer.bias": torch.randn(n)}
    tensors |= {f"layer.weight.{key}": v for key, v in state.as_dict(packed=True).items()}
    config = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type=kind, bnb_4bit_use_double_quant=double,
                                bnb_4bit_compute_dtype=torch.bfloat16).to_dict()
    most = bnb.dequantize_blockwise(state.absmax, state.state2) + state.offset if double else state.absmax
    dense = generic(packed.reshape(-1), most, state.code, block, (n, k), torch.float32)
    if k % block == 0:  # the CPU kernel (0.50.2) is wrong for other rows
        assert torch.equal(dense, bnb.dequantize_4bit(packed, state))
    save(out / name, config, tensors, dense)


def compressed(out, name, compressor, form, n, k, dtype=torch.float32, **args):
    w = (torch.randn(n, k) * torch.rand(n, 1)).to(dtype)
    a = QuantizationArgs(**args)
    scheme = QuantizationScheme(targets=["Linear"], weights=a, format=form)
    if a.strategy == "tensor":
        low, high = w.min().reshape(1), w.max().reshape(1)
    else:
        size = a.group_size if a.strategy == "group" else k
        index = torch.arange(k) // size
        parts = [w[:, index == g] for g in range(int(index.max()) + 1)]
        low, high = (torch.stack([f(p, 1).values for p in parts], 1) for f in (torch.min, torch.max))
    scale, zero = calculate_qparams(low, high, a)
    state = {"weight": w, "weight_scale": scale.to(dtype), "weight_zero_point": zero}
    stored = compressor.compress(state, scheme)
    dense = compressor.decompress(dict(stored), scheme)["weight"]
    config = QuantizationConfig(config_groups={"group_0": scheme}, format=form, ignore=["lm_head", "re:visual.*"],
                                quantization_status=QuantizationStatus.COMPRESSED)
    config = json.loads(config.model_dump_json()) | {"quant_method": "compressed-tensors"}
    save(out / name, config, {f"layer.{key}": v for key, v in stored.items()}, dense)


def main(out):
    torch.manual_seed(14)
    bits_and_bytes(out, "nf4", "nf4", False, 24, 64)
    bits_and_bytes(out, "nf4_double", "nf4", True, 96, 192)
    bits_and_bytes(out, "fp4", "fp4", False, 16, 128)
    group = dict(num_bits=4, type="int", strategy="group", group_size=32)
    pack = (PackedQuantizationCompressor, "pack-quantized")
    compressed(out, "int4_group", *pack, 24, 64, symmetric=True, **group)
    compressed(out, "int4_bfloat16", *pack, 16, 64, dtype=torch.bfloat16, symmetric=True, **group)
    compressed(out, "int4_zeros", *pack, 20, 96, symmetric=False, **group)
    compressed(out, "int4_channel", *pack, 16, 72, num_bits=4, type="int", strategy="channel", symmetric=True)
    compressed(out, "int8_channel", *pack, 16, 40, num_bits=8, type="int", strategy="channel", symmetric=True)
    compressed(out, "int8_zeros", *pack, 12, 64, num_bits=8, type="int", strategy="group", group_size=16, symmetric=False)
    fp8 = (FloatQuantizationCompressor, "float-quantized")
    compressed(out, "fp8_tensor", *fp8, 16, 40, num_bits=8, type="float", strategy="tensor", symmetric=True)
    compressed(out, "fp8_channel", *fp8, 16, 40, num_bits=8, type="float", strategy="channel", symmetric=True)
    bits_and_bytes(out, "nf4_rows", "nf4", True, 16, 96)  # rows of one and a half blocks
    bits_and_bytes(out, "fp4_rows", "fp4", False, 8, 40)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
