"""data/testdata/resize_adjoint.json: <u, A x> for Pillow's resize A in floating point (mode F: no rounding between the passes
or after), x and u pictures of noise. The transposed map must result in the same number, <A' u, x>.

    python tools/oracle/data_resize_adjoint.py        # from the repository's root
"""
import json
from pathlib import Path

import numpy as np
from PIL import Image

FILTERS = {"nearest": Image.NEAREST, "box": Image.BOX, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}
SIZES = [(37, 23, 74, 46), (37, 23, 19, 11), (37, 23, 61, 9), (37, 23, 9, 61), (1, 1, 7, 5), (1, 40, 1, 3), (40, 1, 3, 1), (64, 64, 1, 1),
         (5, 7, 1, 30), (100, 33, 100, 32), (33, 100, 32, 100), (97, 31, 97, 97), (120, 85, 56, 56), (56, 84, 84, 56)]


def noise(w, h):
    x, out = 1, []
    for _ in range(3 * w * h):
        x = (x * 1664525 + 1013904223) % (1 << 32)
        out.append(x >> 24)
    return np.array(out, np.float64).reshape(h, w, 3)


cases = []
for w, h, nw, nh in SIZES:
    x, u = noise(w, h), noise(nw, nh)[::-1, ::-1]  # rotated by 180 degrees, so that the two are not correlated
    for name, f in FILTERS.items():
        y = np.stack([np.asarray(Image.fromarray(x[..., c].astype(np.float32)).resize((nw, nh), f), np.float64) for c in range(3)], -1)
        cases.append({"size": [w, h], "resized": [nw, nh], "filter": name, "dots": [float((u * y)[..., c].sum()) for c in range(3)]})
Path("data/testdata/resize_adjoint.json").write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
