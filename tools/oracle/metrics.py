"""Makes metrics/testdata: LPIPS, the aesthetic head and face alignment with their Python originals.

    pip install --no-deps lpips torchvision scikit-image
    python tools/oracle/metrics.py metrics/testdata

Weights are a function of their names, so that the fixtures only hold numbers: see value().
"""

import json
import sys
import zlib

import numpy
import torch
import torchvision
from skimage.transform import SimilarityTransform

OUT = sys.argv[1]
torch.set_num_threads(1)


def value(name, shape, scale, shift=0.0):
    """Numbers that the Go tests compute as well: 24 bits of a product with the crc32 of the name."""
    n = int(numpy.prod(shape))
    u = (numpy.arange(1, n + 1, dtype=numpy.uint64) * 2654435761 + zlib.crc32(name.encode()) * 40503) % (1 << 32)
    x = (u >> 8).astype(numpy.float64) / (1 << 24) - 0.5
    return torch.from_numpy((x * scale + shift).astype(numpy.float32).reshape(shape))


def scale_of(shape):
    fan = int(numpy.prod(shape[1:])) if len(shape) > 1 else 1
    return 4.0 / fan ** 0.5 if len(shape) > 1 else 0.2


def lpips_cases():
    originals = {n: getattr(torchvision.models, n) for n in ("alexnet", "vgg16")}
    for name, make in originals.items():
        setattr(torchvision.models, name, lambda pretrained=False, make=make: make(weights=None))
    import lpips

    out = {}
    for net in ("alex", "vgg"):
        model = lpips.LPIPS(net=net, pretrained=False, pnet_rand=True, verbose=False)
        index = 0
        trunk = [m for s in (model.net.slice1, model.net.slice2, model.net.slice3, model.net.slice4, model.net.slice5)
                 for m in s.named_children()]
        for index, layer in trunk:
            if isinstance(layer, torch.nn.Conv2d):
                for part in ("weight", "bias"):
                    p = getattr(layer, part)
                    p.data = value(f"{net}.features.{index}.{part}", tuple(p.shape), scale_of(tuple(p.shape)))
        state = {}
        for k, lin in enumerate(model.lins):
            p = lin.model[1].weight
            p.data = value(f"{net}.lin{k}", tuple(p.shape), 1.0, 0.5)
            state[f"lin{k}.model.1.weight"] = p.data
        torch.save(state, f"{OUT}/lin-{net}.pth")
        torch.save(state, f"{OUT}/lin-{net}-legacy.pth", _use_new_zipfile_serialization=False)
        cases = []
        for h, w in ((64, 64), (67, 90)):
            a = ((value(f"first.{h}", (3, h, w), 1.0) + 0.5) * 255).round()
            b = ((value(f"second.{h}", (3, h, w), 1.0) + 0.5) * 255).round()
            b = torch.where(value(f"mask.{h}", (3, h, w), 1.0) > 0.2, b, a)
            with torch.no_grad():
                x, y = (2 * v[None].double().div(255).float() - 1 for v in (a, b))
                cases.append({"height": h, "width": w, "distance": model(x, y).item(), "same": model(x, x).item()})
        out[net] = cases
    return out


def aesthetic_cases():
    class Head(torch.nn.Module):  # the published head's layers, with the names of its state dict
        def __init__(self):
            super().__init__()
            n = torch.nn
            self.layers = n.Sequential(n.Linear(24, 64), n.Dropout(0.2), n.Linear(64, 32), n.Dropout(0.2), n.Linear(32, 16),
                                       n.Dropout(0.1), n.Linear(16, 8), n.Linear(8, 1))

    head = Head().eval()
    for name, p in head.named_parameters():
        p.data = value(f"head.{name}", tuple(p.shape), scale_of(tuple(p.shape)))
    torch.save(head.state_dict(), f"{OUT}/aesthetic.pth")
    cases = []
    for k in range(3):
        e = value(f"embedding.{k}", (1, 24), 6.0)
        with torch.no_grad():
            cases.append({"embedding": e[0].tolist(), "score": head.layers(e / e.norm(dim=-1, keepdim=True)).item()})
    return cases


def alignment_cases():
    target = numpy.array([[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655],
                          [70.7299, 92.2041]], dtype=numpy.float32)
    rng = numpy.random.default_rng(5)
    cases = []
    for angle, scale in ((0.0, 1.0), (0.4, 2.5), (-1.2, 0.6), (3.0, 4.0)):
        turn = numpy.array([[numpy.cos(angle), -numpy.sin(angle)], [numpy.sin(angle), numpy.cos(angle)]])
        points = (target @ turn.T * scale + rng.normal(0, 3, 2) + rng.normal(0, 2, (5, 2)) + 40).astype(numpy.float64)
        t = SimilarityTransform.from_estimate(points, target)
        cases.append({"points": points.tolist(), "matrix": t.params[:2].tolist()})
    return cases


with open(f"{OUT}/metrics.json", "w") as f:
    json.dump({"lpips": lpips_cases(), "aesthetic": aesthetic_cases(), "alignment": alignment_cases()}, f, indent=1)
