"""Colours under transparent pixels, from Pillow's convert("RGB"), which drops alpha: python tools/oracle/bare.py

Writes data/testdata/bare.json: for each picture of data/testdata/decode.zip that has transparency the SHA-256 of width
and height (uint64, little-endian) and the RGB bytes.
"""
import hashlib
import io
import json
import struct
import zipfile

from PIL import Image, ImageOps

out = {}
with zipfile.ZipFile("data/testdata/decode.zip") as z:
    for name in sorted(z.namelist()):
        try:
            im = Image.open(io.BytesIO(z.read(name)))
            im.load()
            if im.mode not in ("RGBA", "LA", "PA", "RGBa", "La") and "transparency" not in im.info:
                continue
            im = ImageOps.exif_transpose(im).convert("RGB")
        except Exception:  # Pillow cannot read it
            continue
        out[name] = hashlib.sha256(struct.pack("<QQ", *im.size) + im.tobytes()).hexdigest()
with open("data/testdata/bare.json", "w") as f:
    f.write(json.dumps(out, indent=1) + "\n")
