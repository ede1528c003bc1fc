"""Makes checkpoints/testdata/pickles.zip: files of torch.save, in its current format and the one before 1.6, with the same
tensors as safetensors. Run from the repository root."""

import tempfile
from collections import OrderedDict
from pathlib import Path

import torch
from pack import pack
from safetensors.torch import save_file

torch.manual_seed(5)
OUT = Path(tempfile.mkdtemp())

base = torch.randn(6, 8)
module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
STATES = {
    "types": OrderedDict(
        f32=base, f16=base.half(), bf16=base.bfloat16(), f64=base.double(), i64=torch.arange(-3, 4), i32=torch.arange(5, dtype=torch.int32),
        i16=torch.tensor([-7], dtype=torch.int16), i8=torch.tensor([[-8, 8]], dtype=torch.int8), u8=torch.tensor([0, 255], dtype=torch.uint8),
        flag=torch.tensor([True, False]), scalar=torch.tensor(2.5)),
    "views": {"t": base.t(), "row": base[2], "column": base[:, 3], "part": base[1:5, 2:7], "permuted": torch.randn(2, 3, 4).permute(2, 0, 1)},
    "module": module.state_dict(),
    "parameters": OrderedDict(w=torch.nn.Parameter(base)),
    "nested": {"epoch": 3, "loss": 0.25, "name": "a", "best": None, "steps": [1, 2**40, -(2**70)], "done": (True, False), "state_dict": module.state_dict()},
}

for name, state in STATES.items():
    torch.save(state, OUT / f"{name}.pt")
    torch.save(state, OUT / f"{name}-legacy.pth", _use_new_zipfile_serialization=False)
    torch.save(state, OUT / f"{name}-protocol4.bin", pickle_protocol=4)
    tensors = state.get("state_dict", state)
    save_file({k: v.detach().contiguous().clone() for k, v in tensors.items()}, OUT / f"{name}.safetensors")
pack(OUT, Path("checkpoints/testdata/pickles.zip"))
