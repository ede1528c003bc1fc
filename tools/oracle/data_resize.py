"""data/testdata/resize.json: SHA-256 of pictures resized by Pillow 13, for every oracle picture and for noise in odd sizes.
data/testdata/normalize.json: SHA-256 of the float32 values of one, normalised with numpy.

    python tools/oracle/data_resize.py        # from the repository's root
"""
import hashlib
import json
from pathlib import Path

import numpy as np
import PIL
from PIL import Image
from transformers.image_transforms import convert_to_rgb

FILTERS = {"nearest": Image.NEAREST, "box": Image.BOX, "bilinear": Image.BILINEAR, "hamming": Image.HAMMING,
           "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}
NOISE = [  # (w, h, new w, new h): up, down, mixed, sides of one pixel, both orders of passes
    (37, 23, 74, 46), (37, 23, 19, 11), (37, 23, 61, 9), (37, 23, 9, 61), (1, 1, 7, 5), (1, 40, 1, 3), (40, 1, 3, 1), (64, 64, 1, 1),
    (5, 7, 1, 300), (100, 33, 100, 32), (33, 100, 32, 100), (200, 301, 198, 17), (301, 200, 17, 198), (97, 31, 97, 97),
    (640, 480, 333, 251), (480, 640, 1021, 77), (129, 257, 128, 254), (129, 257, 128, 255), (3, 3, 8, 8), (1023, 767, 336, 336),
]


def noise(w, h):
    x, out = 1, bytearray()
    for _ in range(3 * w * h):
        x = (x * 1664525 + 1013904223) % (1 << 32)
        out.append(x >> 24)
    return Image.frombytes("RGB", (w, h), bytes(out))


def sha(im):
    return hashlib.sha256(im.tobytes()).hexdigest()


def main():
    assert PIL.__version__.startswith("13."), PIL.__version__
    cases = []
    for w, h, nw, nh in NOISE:
        im = noise(w, h)
        for name, f in FILTERS.items():
            cases.append({"noise": [w, h], "size": [nw, nh], "filter": name, "sha256": sha(im.resize((nw, nh), f))})
    for path in sorted(Path("testdata/oracle/images").glob("*.png")):
        im = Image.fromarray(convert_to_rgb(Image.open(path), return_numpy=True))
        cases.append({"file": path.name, "size": list(im.size), "filter": "bicubic", "sha256": sha(im)})
        for nw, nh in ((512, 512), (56, 84), (29, im.height), (im.width, 31), (45, 20)):
            cases.append({"file": path.name, "size": [nw, nh], "filter": "bicubic", "sha256": sha(im.resize((nw, nh), Image.BICUBIC))})
    mean, std = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
    a = (np.asarray(noise(57, 41)) / 255).astype(np.float32)  # rescale, then normalize of transformers' PIL processors
    a = ((a - np.float32(mean)) / np.float32(std)).transpose(2, 0, 1)
    cases.append({"noise": [57, 41], "mean": mean, "std": std, "sha256": hashlib.sha256(a.astype("<f4").tobytes()).hexdigest()})
    Path("data/testdata/normalize.json").write_text(json.dumps(cases.pop(), indent=1) + "\n")
    Path("data/testdata/resize.json").write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


main()
