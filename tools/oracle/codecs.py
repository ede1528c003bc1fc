"""internal/codecs/selftest: small JPEG and WebP pictures, and a picture's bytes compressed with zlib; a library must decode
them to Pillow's bytes before it is used.

    build/venv/bin/python tools/oracle/codecs.py     # from the repository's root

Names are NAME-WIDTHxHEIGHTxCHANNELS-DIGEST.ENDING: the channels of the JPEG file or of the WebP file's pixels, and 16 digits of
the SHA-256 of Pillow's pixels: RGB, or RGBA for WebP with alpha.
"""
import hashlib
import io
import shutil
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

import headers_jpeg

OUT = Path("internal/codecs/selftest")


def saved(im, kind, **options):
    buffer = io.BytesIO()
    im.save(buffer, kind, **options)
    return buffer.getvalue()


def files():
    photo = Image.open("testdata/oracle/images/coffee.png").convert("RGB").resize((37, 29), Image.BICUBIC)
    for name, mode, options in (
        ("420", "RGB", {"quality": 80}), ("422", "RGB", {"quality": 60, "subsampling": 1}), ("grey", "L", {"quality": 80}),
        ("444progressive", "RGB", {"quality": 90, "subsampling": 0, "progressive": True}),
        ("420progressive", "RGB", {"quality": 85, "progressive": True, "restart_marker_blocks": 3}), ("cmyk", "CMYK", {"quality": 80}),
    ):
        yield f"{name}.jpg", saved(photo.convert(mode), "JPEG", **options)
    rng = np.random.default_rng(7)
    for name, first in (("440", (1, 2)), ("411", (4, 1))):
        yield f"{name}.jpg", headers_jpeg.jpeg(rng, (51, 43), [first, (1, 1), (1, 1)])
    yield "lossy.webp", saved(photo, "WEBP", quality=80)
    yield "lossless.webp", saved(photo, "WEBP", lossless=True)
    flat = (np.asarray(photo) // 32 * 32).tobytes()
    blocks = (("stored", 0, zlib.Z_DEFAULT_STRATEGY), ("fixed", 9, zlib.Z_FIXED), ("dynamic", 9, zlib.Z_DEFAULT_STRATEGY))
    for kind, (name, level, strategy) in enumerate(blocks):
        packer = zlib.compressobj(level, strategy=strategy)
        raw = packer.compress(flat) + packer.flush()
        assert raw[2] >> 1 & 3 == kind, f"another kind of block: {name}"
        yield f"{name}.zlib", raw
    photo.putalpha(Image.fromarray(np.add.outer(np.arange(29) * 4, np.arange(37) * 3).astype(np.uint8)))
    yield "alpha.webp", saved(photo, "WEBP", quality=70)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    for name, raw in files():
        im = Image.frombytes("RGB", (37, 29), zlib.decompress(raw)) if name.endswith(".zlib") else Image.open(io.BytesIO(raw))
        channels = len(im.getbands())
        if name.endswith(".jpg"):
            im = im.convert("RGB")
        stem, ending = name.split(".")
        digest = hashlib.sha256(np.asarray(im).tobytes()).hexdigest()[:16]
        (OUT / f"{stem}-{im.width}x{im.height}x{channels}-{digest}.{ending}").write_bytes(raw)


if __name__ == "__main__":
    main()
