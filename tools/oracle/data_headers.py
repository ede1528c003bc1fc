"""data/testdata/headers.zip: some 2,000 tiny pictures of every combination of depth, type, compression, orientation and
extra channels that Pillow reads, and their pixels in Pillow and transformers.

    build/venv/bin/python tools/oracle/data_headers.py [SEED [ZIP]]     # from the repository's root

headers.json, in the zip: file -> {size, sha256 of the RGB bytes; bare: the same with transparency dropped, if it
differs}, half of each digest. JPEGs have their pixels as <file>.rgb instead, because an inverse DCT may round differently.
Files that Pillow refuses are left out. The combinations are in headers_*.py; sizes, pixels and palettes are random.
"""
import hashlib
import io
import json
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from transformers.image_transforms import convert_to_rgb

import headers_jpeg
import headers_rest
import headers_tiff
from pack import pack



def pillow(raw):
    """The pixels that a model in transformers sees, [h, w, 3], and those from Pillow's convert."""
    im = ImageOps.exif_transpose(Image.open(io.BytesIO(raw)))
    return convert_to_rgb(im, return_numpy=True), np.asarray(im.convert("RGB"))


def digest(a):
    return hashlib.sha256(a.tobytes()).hexdigest()[:32]


def main():
    warnings.simplefilter("ignore")
    seed, archive = sys.argv[1:] + ["30", "data/testdata/headers.zip"][len(sys.argv) - 1:]
    rng, out = np.random.default_rng(int(seed)), Path(archive).with_suffix("")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    expect, refused = {}, 0
    for module in (headers_tiff, headers_jpeg, headers_rest):
        for name, raw in module.files(rng):
            if raw is None:
                continue
            try:
                got, bare = pillow(raw)
            except Exception:  # Pillow raises all kinds of errors
                refused += 1
                continue
            assert name not in expect, name
            (out / name).write_bytes(raw)
            expect[name] = {"size": [got.shape[1], got.shape[0]]}
            if name.endswith(".jpg"):
                (out / f"{name}.rgb").write_bytes(got.tobytes())
                continue
            expect[name]["sha256"] = digest(got)
            if (bare != got).any():
                expect[name]["bare"] = digest(bare)
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(expect.items()))
    (out / "headers.json").write_text("{\n" + lines + "\n}\n")
    pack(out, archive)
    out.rmdir()
    print(f"{len(expect)} pictures, {refused} more that Pillow refuses")


if __name__ == "__main__":
    main()
