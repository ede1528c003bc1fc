"""Perceptual hashes with Pillow and numpy: internal/labeling/nearcopy/testdata/phash.json. Run: python phash.py PICTURES OUT
Pictures are first put over white and converted to RGB, as the program does. For each: the digest of the grey 24 x 24 thumbnail
inside uniform borders, and the hash of its lowest frequencies, whose integrals are computed as sums over a fine grid."""
import hashlib
import json
import os
import sys

import numpy as np
import PIL
from PIL import Image

SIDE, LOW, FINE = 24, 8, 500

t = (np.arange(SIDE * FINE) + 0.5) / (SIDE * FINE)
waves = np.cos(np.pi * np.outer(np.arange(LOW), t)).reshape(LOW, SIDE, FINE).sum(axis=2)
order = sorted(((v, u) for v in range(LOW) for u in range(LOW)), key=lambda at: at[0] ** 2 + at[1] ** 2)[1:]



def above(grey):
    """The number of uniform lines at the start."""
    n, total = grey.shape[1], int(grey[0].sum())
    like = np.abs(grey.astype(int) - (total + n // 2) // n) <= 4
    other = np.flatnonzero(like.sum(axis=1) < 0.98 * n)
    return other[0] if len(other) else len(grey)


def inside(grey):
    """The part inside uniform borders, rows first, twice."""
    full = grey
    for _ in range(2):
        for _ in range(2):
            if grey.size:
                grey = grey[above(grey):]
            if grey.size:
                grey = grey[:len(grey) - above(grey[::-1])]
            grey = grey.T
    if min(g / f if f else 0 for g, f in zip(grey.shape, full.shape)) < 0.2:
        return full
    return grey


looks = {}
for name in sorted(os.listdir(sys.argv[1])):
    if not name.endswith(".png"):
        continue
    p = Image.open(os.path.join(sys.argv[1], name)).convert("RGBA")
    white = Image.new("RGBA", p.size, "white")
    white.alpha_composite(p)
    grey = inside(np.asarray(white.convert("RGB").convert("L")))
    thumb = np.asarray(Image.fromarray(np.ascontiguousarray(grey)).resize((SIDE, SIDE), Image.Resampling.BILINEAR))
    spectrum = waves @ thumb.astype(np.float64) @ waves.T
    bits = sum(1 << i for i, at in enumerate(order) if spectrum[at] > 0)
    looks[name] = {"thumbnail": hashlib.sha256(thumb.tobytes()).hexdigest(), "hash": f"{bits:016x}"}
with open(sys.argv[2], "w") as f:
    json.dump({"pillow": PIL.__version__, "looks": looks}, f, indent=1)
    f.write("\n")
