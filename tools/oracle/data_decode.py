"""data/testdata/decode/: small pictures in every format and colour type, and what Pillow and transformers make of them.

    python tools/oracle/data_decode.py        # from the repository's root

decode.json: file -> {size, sha256 of the RGB bytes}; JPEGs also get their pixels as <file>.png, for an inverse DCT may
round differently.
"""
import hashlib
import io
import json
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from transformers.image_transforms import convert_to_rgb

OUT = Path("data/testdata/decode")
PHOTOS = Path("testdata/oracle/images")
ORIENTATION = 0x0112


def photo(name="coffee", size=(45, 34)):
    return Image.open(PHOTOS / f"{name}.png").convert("RGB").resize(size, Image.BICUBIC)


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(a, kind, depth, interlace=False, extra=b""):
    """a: integers [h, w, channels]; kind: PNG's colour type. Written by hand for what Pillow does not write."""
    h, w, c = a.shape

    def rows(a):
        out = b""
        for row in a:
            v = row.reshape(-1)
            if depth == 16:
                out += b"\0" + v.astype(">u2").tobytes()
            elif depth == 8:
                out += b"\0" + v.astype(np.uint8).tobytes()
            else:
                bits = ((v[:, None] >> np.arange(depth - 1, -1, -1)) & 1).reshape(-1)
                out += b"\0" + np.packbits(bits.astype(np.uint8)).tobytes()
        return out

    data = rows(a)
    if interlace:
        adam7 = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
        data = b"".join(rows(a[y::dy, x::dx]) for y, x, dy, dx in adam7 if a[y::dy, x::dx].size)
    head = struct.pack(">IIBBBBB", w, h, depth, kind, 0, 0, int(interlace))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def save(name, im, **options):
    buffer = io.BytesIO()
    im.save(buffer, format={"jpg": "JPEG", "tif": "TIFF"}.get(name.split(".")[-1], name.split(".")[-1].upper()), **options)
    (OUT / name).write_bytes(buffer.getvalue())


def oriented(n):
    exif = Image.Exif()
    exif[0x010E] = "a description, so that the tag is not the first"
    exif[ORIENTATION] = n
    return exif


def make():
    rgb = photo()
    grey, a = rgb.convert("L"), np.asarray(rgb)
    ramp = Image.fromarray(np.tile(np.arange(45, dtype=np.uint8) * 5, (34, 1)))
    ramp.putpixel((3, 3), 0), ramp.putpixel((4, 4), 255)
    rgba = rgb.copy()
    rgba.putalpha(ramp)
    palette = rgb.quantize(256)
    save("rgb.png", rgb), save("grey.png", grey), save("bit.png", grey.convert("1")), save("palette.png", palette)
    save("rgba.png", rgba), save("grey_alpha.png", Image.merge("LA", (grey, ramp)))
    save("rgb_key.png", rgb, transparency=rgb.getpixel((5, 5))), save("grey_key.png", grey, transparency=grey.getpixel((5, 5)))
    save("palette_index.png", palette, transparency=palette.getpixel((5, 5)))
    save("palette_alpha.png", palette, transparency=bytes(range(0, 256)))
    for n in (4, 16):
        save(f"palette_{n}.png", rgb.quantize(n), bits={4: 2, 16: 4}[n])
    for depth in (2, 4):
        (OUT / f"grey_{depth}.png").write_bytes(png((np.asarray(grey) >> (8 - depth)).astype(int)[..., None], 0, depth))
    deep = a.astype(np.int64) * 257 + np.arange(45)[None, :, None] - 20
    deep = deep.clip(0, 65535)
    deep_alpha = (np.asarray(ramp).astype(np.int64) * 257)[..., None]
    (OUT / "rgb_16.png").write_bytes(png(deep, 2, 16))
    (OUT / "rgba_16.png").write_bytes(png(np.concatenate([deep, deep_alpha], 2), 6, 16))
    (OUT / "grey_16.png").write_bytes(png(deep[..., :1], 0, 16))
    (OUT / "grey_alpha_16.png").write_bytes(png(np.concatenate([deep[..., :1], deep_alpha], 2), 4, 16))
    (OUT / "rgb_interlaced.png").write_bytes(png(a, 2, 8, True))
    (OUT / "grey_interlaced.png").write_bytes(png(np.asarray(grey)[:5, :3, None], 0, 8, True))
    save("exif.png", rgb, exif=oriented(6))

    for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
        save(f"{name}.jpg", rgb, quality=90, subsampling=subsampling)
        save(f"{name}_narrow.jpg", photo(size=(3, 19)), quality=90, subsampling=subsampling)
        save(f"{name}_odd.jpg", photo("chelsea", (33, 17)), quality=75, subsampling=subsampling)
    save("progressive.jpg", rgb, quality=90, progressive=True)
    save("grey.jpg", grey, quality=90), save("cmyk.jpg", rgb.convert("CMYK"), quality=95)
    save("adobe_rgb.jpg", rgb, quality=95, keep_rgb=True), save("restarts.jpg", rgb, quality=80, restart_marker_blocks=2)
    for n in range(1, 9):
        save(f"exif_{n}.jpg", photo(size=(24, 16)), quality=95, subsampling=0, exif=oriented(n))
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="8"/></x:xmpmeta>'
    save("xmp.jpg", photo(size=(24, 16)), quality=95, subsampling=0, xmp=xmp)

    save("lossy.webp", rgb, quality=80), save("lossy_odd.webp", photo("chelsea", (33, 17)), quality=40)
    save("lossy_alpha.webp", rgba, quality=80), save("lossless.webp", rgb, lossless=True)
    save("lossless_alpha.webp", rgba, lossless=True, exact=True), save("exif.webp", rgb, quality=80, exif=oriented(5))
    save("tiny.webp", photo(size=(1, 1)), quality=80)
    save("animated.webp", rgba, save_all=True, append_images=[rgba.rotate(90), rgba.rotate(180)], quality=70)
    save("animated_opaque.webp", rgb, save_all=True, append_images=[rgb.rotate(90)], quality=70)

    save("frames.gif", rgb.quantize(64), save_all=True, append_images=[photo("chelsea").quantize(64)])
    save("key.gif", palette, transparency=palette.getpixel((5, 5))), save("interlaced.gif", palette, interlace=1)
    for name, key in (("partial", None), ("partial_key", 3)):
        small = photo(size=(20, 11)).quantize(16)
        save(f"{name}.gif", small, **({} if key is None else {"transparency": key}))
        raw = bytearray((OUT / f"{name}.gif").read_bytes())
        raw[6:10] = struct.pack("<HH", 31, 17)  # the screen
        at = raw.rindex(b"\x2c\0\0\0\0\x14\0\x0b\0")
        raw[at + 1:at + 5] = struct.pack("<HH", 7, 4)
        (OUT / f"{name}.gif").write_bytes(raw)
    save("rgb.bmp", rgb), save("palette.bmp", palette), save("grey.bmp", grey)
    save("rgb.tif", rgb), save("lzw.tif", rgb, compression="tiff_lzw"), save("deflate.tif", grey, compression="tiff_adobe_deflate")
    save("exif.tif", rgb, exif=oriented(3))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.iterdir():
        old.unlink()
    make()
    expect = {}
    for path in sorted(OUT.iterdir()):
        im = Image.open(path)
        if im.mode == "I;16":  # its conversion to RGB clips: what is wanted is the upper byte, as for the other modes
            got = np.repeat((np.asarray(im) >> 8).astype(np.uint8)[..., None], 3, 2)
        else:
            got = convert_to_rgb(ImageOps.exif_transpose(im), return_numpy=True)
        expect[path.name] = {"size": [got.shape[1], got.shape[0]], "sha256": hashlib.sha256(got.tobytes()).hexdigest()}
        if path.suffix == ".jpg":
            Image.fromarray(got).save(f"{path}.png")
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in expect.items())
    Path("data/testdata/decode.json").write_text("{\n" + lines + "\n}\n")


main()
