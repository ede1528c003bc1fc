"""data/testdata/decode.zip: small pictures in every format and colour type, and their pixels in Pillow and transformers.

    python tools/oracle/data_decode.py        # from the repository's root

decode.json: file -> {size, sha256 of the RGB bytes}; JPEGs also have their pixels as <file>.png, because an inverse DCT may
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

from pack import pack

OUT = Path("data/testdata/decode")
PHOTOS = Path("testdata/oracle/images")
ORIENTATION = 0x0112


def photo(name="coffee", size=(45, 34)):
    return Image.open(PHOTOS / f"{name}.png").convert("RGB").resize(size, Image.BICUBIC)


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(a, kind, depth, interlace=False, extra=b""):
    """a: integers [h, w, channels]; kind: PNG's colour type. Written by hand, for files that Pillow does not write."""
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
        raw[6:10] = struct.pack("<HH", 31, 17)  # size of the logical screen
        at = raw.rindex(b"\x2c\0\0\0\0\x14\0\x0b\0")
        raw[at + 1:at + 5] = struct.pack("<HH", 7, 4)
        (OUT / f"{name}.gif").write_bytes(raw)
    save("rgb.bmp", rgb), save("palette.bmp", palette), save("grey.bmp", grey)
    save("rgb.tif", rgb), save("lzw.tif", rgb, compression="tiff_lzw"), save("deflate.tif", grey, compression="tiff_adobe_deflate")
    save("exif.tif", rgb, exif=oriented(3))


def tiff16(a):
    """a: integers [h, w, 3]; a TIFF with 16 bits per channel in one strip, big-endian."""
    h, w, _ = a.shape
    body = a.astype(">u2").tobytes()
    tags = [(256, 3, 1, w << 16), (257, 3, 1, h << 16), (258, 3, 3, 134), (259, 3, 1, 1 << 16), (262, 3, 1, 2 << 16), (273, 4, 1, 140),
            (277, 3, 1, 3 << 16), (278, 3, 1, h << 16), (279, 4, 1, len(body)), (284, 3, 1, 1 << 16)]
    head = b"MM\0*" + struct.pack(">IH", 8, len(tags)) + b"".join(struct.pack(">HHII", *t) for t in tags) + struct.pack(">I", 0)
    assert len(head) == 134
    return head + struct.pack(">3H", 16, 16, 16) + body


def awkward():
    """Files that few programs write: depths, interlacing and transparency that Pillow reads but does not write, and rare options."""
    rgb = photo(size=(21, 13))
    a = np.asarray(rgb).astype(int)
    grey = rgb.convert("L")
    g = np.asarray(grey).astype(int)
    ramp = Image.fromarray(np.tile(np.arange(21, dtype=np.uint8) * 12, (13, 1)))
    put = lambda name, raw: (OUT / name).write_bytes(raw)
    key = lambda *v: chunk(b"tRNS", struct.pack(f">{len(v)}H", *v))
    palette = rgb.quantize(7)
    plte = chunk(b"PLTE", bytes(palette.getpalette()[:21]))
    index = np.asarray(palette).astype(int)[..., None]

    for depth in (1, 2, 4):
        few = (g >> (8 - depth))[..., None]
        put(f"grey_{depth}_interlaced.png", png(few, 0, depth, True))
        put(f"grey_{depth}_key.png", png(few, 0, depth, extra=key(few[5, 5, 0])))
    put("palette_4_interlaced.png", png(index, 3, 4, True, plte))
    put("palette_4_alpha.png", png(index, 3, 4, False, plte + chunk(b"tRNS", bytes([0, 80, 160]))))
    put("palette_8_interlaced_alpha.png", png(index, 3, 8, True, plte + chunk(b"tRNS", bytes([255, 0, 90]))))
    four = np.concatenate([a, np.asarray(ramp)[..., None].astype(int)], 2)
    put("rgba_interlaced.png", png(four, 6, 8, True))
    put("grey_alpha_interlaced.png", png(four[..., 2:], 4, 8, True))
    put("rgba_16_interlaced.png", png(four * 257, 6, 16, True))
    put("rgb_16_key.png", png(a * 257, 2, 16, extra=key(*(a[5, 5] * 257))))
    put("rgb_16_key_low.png", png(a * 256 + 3, 2, 16, extra=key(*(a[5, 5] * 256 + 4))))
    put("rgb_background.png", png(a, 2, 8, extra=chunk(b"bKGD", struct.pack(">3H", 0, 255, 0)) + chunk(b"gAMA", struct.pack(">I", 100000))))
    put("rgb_pixels_not_square.png", png(a, 2, 8, extra=chunk(b"pHYs", struct.pack(">IIB", 2000, 1000, 1))))
    put("one_pixel.png", png(a[:1, :1], 2, 8)), put("one_row.png", png(a[:1], 2, 8)), put("one_column.png", png(a[:, :1], 2, 8, True))
    from PIL import ImageCms
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    save("profile.png", rgb, icc_profile=profile)
    save("animated.png", rgb, save_all=True, append_images=[rgb.transpose(Image.FLIP_TOP_BOTTOM)])
    save("animated_default.png", rgb, save_all=True, default_image=True, append_images=[rgb.transpose(Image.FLIP_TOP_BOTTOM)])
    save("exif_2.png", rgb, exif=oriented(2)), save("exif_7.webp", rgb, lossless=True, exif=oriented(7))
    save("exif_8.tif", rgb, exif=oriented(8)), save("exif_0.jpg", rgb, exif=oriented(0))

    save("progressive_420.jpg", rgb, quality=60, progressive=True, subsampling=2), save("optimised.jpg", rgb, optimize=True)
    save("progressive_grey.jpg", grey, progressive=True), save("quality_1.jpg", rgb, quality=1)
    save("quality_100.jpg", rgb, quality=100, subsampling=0), save("profile.jpg", rgb, icc_profile=profile)
    save("cmyk_subsampled.jpg", rgb.convert("CMYK"), quality=80, subsampling=2), save("cmyk_progressive.jpg", rgb.convert("CMYK"), progressive=True)
    save("one_pixel.jpg", photo(size=(1, 1))), save("411.jpg", rgb, subsampling="4:1:1", quality=90), save("rows.jpg", photo(size=(8, 1)))
    save("comment.jpg", rgb, comment=b"a comment \xff\xd8 with a marker in it")

    for name, options in (("lossless_palette.webp", {"lossless": True}), ("low.webp", {"quality": 1}), ("high.webp", {"quality": 100})):
        save(name, palette.convert("RGB") if "palette" in name else rgb, **options)
    rgba = rgb.copy()
    rgba.putalpha(ramp)
    save("alpha_quality.webp", rgba, quality=50, alpha_quality=10), save("one_pixel_alpha.webp", rgba.crop((3, 3, 4, 4)), lossless=True)
    save("hidden_colours.webp", rgba, lossless=True, exact=False)

    save("grey.gif", grey), save("two_colours.gif", rgb.quantize(2)), save("loop.gif", palette, loop=0, duration=20)
    save("disposal.gif", palette, save_all=True, disposal=2, append_images=[rgb.quantize(5)])
    save("bit.bmp", grey.convert("1")), save("rgba.bmp", rgba), save("palette_4.bmp", rgb.quantize(16))
    save("bit.tif", grey.convert("1")), save("grey.tif", grey), save("palette.tif", palette), save("rgba.tif", rgba)
    save("grey_alpha.tif", Image.merge("LA", (grey, ramp))), save("cmyk.tif", rgb.convert("CMYK")), save("packbits.tif", rgb, compression="packbits")
    save("group4.tif", grey.convert("1"), compression="group4"), save("group3.tif", grey.convert("1"), compression="group3")
    save("group4_white.tif", grey.convert("1"), compression="group4", tiffinfo={262: 0}), save("bit_white.tif", grey.convert("1"), tiffinfo={262: 0})
    put("rgb_16.tif", tiff16(a * 257 + 5))
    save("lzw_grey.tif", grey, compression="tiff_lzw"), save("deflate_rgba.tif", rgba, compression="tiff_adobe_deflate")
    save("jpeg.tif", rgb, compression="jpeg"), save("pages.tif", rgb, save_all=True, append_images=[rgb.rotate(180)])
    save("premultiplied.tif", rgba, tiffinfo={338: 1})
    deep16 = Image.fromarray((g * 257).astype(np.uint16))
    save("grey_16.tif", deep16), save("dim_16.png", Image.fromarray(g.astype(np.uint16))), save("dim_16.tif", Image.fromarray(g.astype(np.uint16)))
    put("grey_16_key.png", png(g[..., None] * 257, 0, 16, extra=key(g[5, 5] * 257)))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.iterdir():
        old.unlink()
    make()
    awkward()
    expect = {}
    for path in sorted(OUT.iterdir()):
        im = Image.open(path)
        if im.mode == "I;16" and np.asarray(im).max() > 255:  # its conversion to RGB clips at 255: such pictures are refused
            expect[path.name] = {"size": im.size, "sha256": "clipped"}
            continue
        got = convert_to_rgb(ImageOps.exif_transpose(im), return_numpy=True)
        expect[path.name] = {"size": [got.shape[1], got.shape[0]], "sha256": hashlib.sha256(got.tobytes()).hexdigest()}
        if path.suffix == ".jpg":
            Image.fromarray(got).save(f"{path}.png")
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in expect.items())
    Path("data/testdata/decode.json").write_text("{\n" + lines + "\n}\n")
    beside = {n: (OUT / n).read_bytes() for n in ("grey.png", "rgb.png", "420.jpg")}  # data_tables.py's tables name these by path
    pack(OUT, "data/testdata/decode.zip")
    OUT.mkdir(exist_ok=True)
    for name, raw in beside.items():
        (OUT / name).write_bytes(raw)


main()
