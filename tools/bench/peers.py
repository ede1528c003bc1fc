"""Other engines on the eight sequences of `make bench`'s groups: PyTorch compiled, and what it exports to ONNX in ONNX Runtime and OpenVINO.

    peers.py group-score|group-step ENGINE SCORER SOURCE EDIT STEPS EDITS

ENGINE is eager, compiled, onnxruntime or openvino (a step: eager or compiled). Every engine runs what PyTorch does in torch_side.py, edit by edit.
OpenVINO is not among what `make bench` installs: pip install openvino. Prints one JSON line.
"""
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from torch_side import INSTRUCTION, Scorer, others


class Tower(nn.Module):
    """Prepared pixels of one picture -> its features."""

    def __init__(self, scorer, sizes):
        super().__init__()
        self.model, self.sizes = scorer.model.model, sizes.tolist()

    def forward(self, pixels):
        return self.model.get_image_features(pixels, self.sizes).pooler_output[0]


class Text(nn.Module):
    """Embedded rows [1, L, H] -> the score of the row at a fixed place."""

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
    # As on the other sides: float32 throughout, where OpenVINO would take bfloat16 on some processors.
    model = core.compile_model(core.read_model(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"})
    return lambda x: torch.from_numpy(np.array(model([x.numpy()])[0]))


def main():
    what, engine, folder, source, edit = sys.argv[1:6]
    steps, edits = int(sys.argv[6]), int(sys.argv[7])
    s = Scorer(folder, what == "group-step")
    pictures = others(edit, edits)
    language, facts = s.model.model.language_model, {}
    if engine == "compiled":
        language.forward = torch.compile(language.forward)
    if what == "group-step":
        first, features = s.features(source), [s.features(p) for p in pictures]

        def once():
            facts["loss"] = 0.0
            total = None
            for one in features:
                x, ids, start, at = s.embeds(first + one, INSTRUCTION)
                h = s.hidden(x)
                before = h[start - 1 : -1]
                logits = torch.cat([s.model.lm_head(before), (before @ s.out_row)[:, None]], -1)
                loss = (nn.functional.cross_entropy(logits, ids[start:]) + 10 * (s.head(h[at])[0] - 0.5).abs()) / edits
                grads = torch.autograd.grad(loss, s.params)
                total = grads if total is None else [a + b for a, b in zip(total, grads)]
                facts["loss"] += float(loss.detach())
    else:
        with torch.inference_mode():
            pixels = lambda p: s.images([p if not isinstance(p, str) else others(p, 1)[0]], return_tensors="pt")
            tower, text = None, None
            if engine in ("onnxruntime", "openvino"):
                keep = tempfile.TemporaryDirectory()
                s.model = s.peft.merge_and_unload()  # as an export for serving is
                inputs = pixels(edit)
                x, _, _, at = s.embeds(s.features(source) + s.features(edit), INSTRUCTION)
                tower = exported(engine, Tower(s, inputs["image_sizes"]), inputs["pixel_values"], keep.name)
                text = exported(engine, Text(s, at), x, keep.name)

        def once():
            with torch.inference_mode():
                see = (lambda p: [tower(pixels(p)["pixel_values"])]) if tower else s.features
                first, scores = see(source if not tower else others_of(source)), []
                for one in others(edit, edits):
                    x, _, _, at = s.embeds(first + see(one), INSTRUCTION)
                    scores.append(float(text(x)[0] if text else s.head(s.hidden(x)[at])[0]))
                facts["scores"] = scores

        def others_of(path):
            from PIL import Image

            return Image.open(path).convert("RGB")

    once()
    seconds = []
    for _ in range(steps):
        t = time.time()
        once()
        seconds.append(time.time() - t)
    print(json.dumps({"engine": engine, "seconds": seconds, **facts}))


if __name__ == "__main__":
    main()
