"""Other engines on the eight sequences of `make bench`'s groups: PyTorch compiled, and its ONNX export in two engines.

    peers.py group-score|group-step ENGINE SCORER SOURCE EDIT STEPS EDITS

ENGINE is eager, compiled, onnxruntime or openvino (a step: eager or compiled). Every engine does the same work as
PyTorch in torch_side.py, edit by edit. `make bench` does not install OpenVINO: pip install openvino. Prints one JSON
line.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from torch_side import INSTRUCTION, Scorer, group

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime reads it when it is loaded


class Tower(nn.Module):
    """Prepared pixels of one picture -> its features."""

    def __init__(self, scorer, sizes):
        super().__init__()
        self.model, self.sizes = scorer.model.model, sizes.tolist()

    def forward(self, pixels):
        return self.model.get_image_features(pixels, self.sizes).pooler_output[0]


class Text(nn.Module):
    """Embedded rows [1, L, H] -> the score at a fixed position."""

    def __init__(self, scorer, at):
        super().__init__()
        self.model, self.head, self.at = scorer.model.model.language_model, scorer.head, at

    def forward(self, x):
        return self.head(self.model(inputs_embeds=x, use_cache=False).last_hidden_state[0, self.at])


def exported(engine, module, example, folder):
    """A function of one array that runs the module's ONNX export."""
    path = Path(folder) / f"{type(module).__name__}.onnx"
    torch.onnx.export(module, (example,), path, dynamo=True, external_data=True, verbose=False)
    if engine == "onnxruntime":
        import onnxruntime

        session = onnxruntime.InferenceSession(path)
        name = session.get_inputs()[0].name
        return lambda x: torch.from_numpy(session.run(None, {name: x.numpy()})[0])
    import openvino

    core = openvino.Core()
    # float32 throughout, as on the other sides; OpenVINO would use bfloat16 on some CPUs.
    model = core.compile_model(
        core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    )
    return lambda x: torch.from_numpy(np.array(model([x.numpy()])[0]))


class Exported(Scorer):
    """The scorer with towers and language model exported to another engine, with merged adapters."""

    def __init__(self, folder, engine, source, edit, keep):
        super().__init__(folder, False)
        self.model = self.peft.merge_and_unload()
        with torch.inference_mode():
            inputs = self.prepared(edit)
            x, _, _, self.at = self.embeds(super().features(source, edit), INSTRUCTION)
            self.text = exported(engine, Text(self, self.at), x, keep)
            self.tower = exported(engine, Tower(self, inputs["image_sizes"]), inputs["pixel_values"], keep)

    def features(self, *pictures):
        return [self.tower(self.prepared(p)["pixel_values"]) for p in pictures]

    def score(self, x, at):
        assert at == self.at, "it was exported for another place of the score token"
        return self.text(x)[0]


def main():
    what, engine, folder, source, edit = sys.argv[1:6]
    steps, edits, facts = int(sys.argv[6]), int(sys.argv[7]), {}
    with tempfile.TemporaryDirectory() as keep:
        if engine in ("onnxruntime", "openvino"):
            s = Exported(folder, engine, source, edit, keep)
        else:
            s = Scorer(folder, what == "group-step")
        if engine == "compiled":
            language = s.model.model.language_model
            language.forward = torch.compile(language.forward)
        once = group(s, what, source, edit, edits, facts)
        once()
        seconds = []
        for _ in range(steps):
            t = time.time()
            once()
            seconds.append(time.time() - t)
    print(json.dumps({"engine": engine, "seconds": seconds, **facts}))


if __name__ == "__main__":
    main()
