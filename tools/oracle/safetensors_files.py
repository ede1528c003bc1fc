"""Writes checkpoints/testdata: small safetensors files of every element type, written by the Python library."""
import sys

import torch
from safetensors.torch import save_file

out = sys.argv[1] if len(sys.argv) > 1 else "checkpoints/testdata"
types = {"u64": torch.uint64, "i64": torch.int64, "f64": torch.float64, "f32": torch.float32, "u32": torch.uint32,
         "i32": torch.int32, "u16": torch.uint16, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8,
         "bool": torch.bool}
tensors = {f"t.{n}": torch.arange(6).reshape(2, 3).to(t) for n, t in types.items()}
tensors["t.f32"] = torch.tensor([[0.0, -1.5, 1e-45], [float("inf"), 3.4e38, -0.1]])
tensors["t.f64"] = torch.tensor([[0.1, -1e300, 5e-324], [1.0, 2.0, 3.0]], dtype=torch.float64)
tensors["scalar"] = torch.tensor(2.5)
tensors['odd "name"\n\\\u2028\x7f<&\x01\b\f\u00e9'] = torch.tensor([7], dtype=torch.int64)
save_file(tensors, f"{out}/types.safetensors", metadata={"format": "pt"})
save_file({"b": torch.ones(1), "a": torch.zeros(2, 2)}, f"{out}/plain.safetensors")
half = torch.tensor([0.0, -0.0, 1.0, -2.5, 1 / 3, 65504.0, 6e-8, 6.1e-5, float("inf"), -float("inf")])
save_file({"f16": half.half(), "f16.wide": half.half().float(), "bf16": half.bfloat16(),
           "bf16.wide": half.bfloat16().float(), "half": half}, f"{out}/half.safetensors", metadata={"format": "pt"})
