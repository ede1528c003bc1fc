"""Packs the fixtures of packed weights: python tools/oracle/quantized_pack.py FIXTURES/quantized testdata/oracle/quantized.zip

Tensors that the backbones share are stored once, in shared.safetensors, which the index of each names; the tests copy it into
place. Left out are gptq (its layout is that of gptq_act_order with sorted columns, and the output of train quantize), awq's
gradients, the logits, and all but one of the dequantised layers of each.
The same files give the same bytes.
"""
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from pack import pack
from safetensors.numpy import load_file, save_file


def main(source, archive):
    with tempfile.TemporaryDirectory() as tmp:
        root = Path(tmp) / "quantized"
        shutil.copytree(source, root, ignore=shutil.ignore_patterns("gptq"))
        backbones = sorted(p.parent for p in root.glob("*/backbone/model.safetensors"))
        weights = [load_file(b / "model.safetensors") for b in backbones]
        first, *others = weights
        shared = {k: v for k, v in first.items() if all(k in o and np.array_equal(o[k], v) for o in others)}
        save_file(shared, root / "shared.safetensors", {"format": "pt"})
        for b, w in zip(backbones, weights):
            (b / "model.safetensors").unlink()
            own = {k: v for k, v in w.items() if k not in shared}
            save_file(own, b / "packed.safetensors", {"format": "pt"})
            names = {k: "shared.safetensors" if k in shared else "packed.safetensors" for k in sorted(w)}
            (b / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}, indent=1))
        for file in root.glob("*/dequantized.safetensors"):  # the smallest layer of each
            layers = load_file(file)
            least = min(layers, key=lambda k: layers[k].size)
            save_file({least: layers[least]}, file)
        for file in root.glob("*/expect.safetensors"):
            save_file({k: v for k, v in load_file(file).items() if not k.endswith(".answer_logits")}, file)
        awq = root / "awq"
        expect = load_file(awq / "expect.safetensors")
        save_file({k: v for k, v in expect.items() if ".grad." not in k}, awq / "expect.safetensors")
        cases = json.loads((awq / "cases.json").read_text())
        for c in cases:
            c["gradients"] = False
        (awq / "cases.json").write_text(json.dumps(cases, indent=1))
        pack(root, archive)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
