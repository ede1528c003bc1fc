"""TIFF files for data_headers.py: every mode that Pillow opens, by hand; files by Pillow; rare tags."""
import io
import struct
import zlib

import numpy as np
from PIL import Image
from PIL.TiffImagePlugin import OPEN_INFO

BYTE, SHORT, LONG, RATIONAL, FLOAT, DOUBLE = 1, 3, 4, 5, 11, 12
CODES = {1: "B", 2: "B", 3: "H", 4: "I", 5: "I", 6: "b", 7: "B", 8: "h", 9: "i", 10: "i", 11: "f", 12: "d", 13: "I", 16: "Q"}


def tiff(order, tags, blocks, sort=sorted):
    """tags: tag -> (type, values) or an integer; blocks: strips or tiles, whose offsets and lengths are added."""
    big = ">" if order == b"MM" else "<"
    tiled = 322 in tags
    at, places = 8, []
    for b in blocks:
        places.append(at)
        at += len(b) + len(b) % 2
    tags = {324 if tiled else 273: (LONG, places), 325 if tiled else 279: (LONG, [len(b) for b in blocks])} | tags
    entries, after = b"", b""
    start = at + 2 + 12 * len([t for t in tags.values() if t is not None]) + 4
    for tag, value in sort(tags.items()):
        if value is None:  # a tag to omit
            continue
        kind, values = value if isinstance(value, tuple) else (SHORT, [value])
        body = struct.pack(f"{big}{len(values)}{CODES[kind]}", *values)
        count = len(values) // 2 if kind in (5, 10) else len(values)
        entries += struct.pack(big + "HHI", tag, kind, count)
        if len(body) <= 4:
            entries += body.ljust(4, b"\0")
        else:
            entries += struct.pack(big + "I", start + len(after))
            after += body + b"\0" * (len(body) % 2)
    count = len(entries) // 12
    head = order + struct.pack(big + "HI", 42, at)
    data = b"".join(b + b"\0" * (len(b) % 2) for b in blocks)
    return head + data + struct.pack(big + "H", count) + entries + struct.pack(big + "I", 0) + after


def packbits(raw):
    return b"".join(bytes([len(raw[i:i + 128]) - 1]) + raw[i:i + 128] for i in range(0, len(raw), 128))


def lzw(raw):
    """Codes of nine bits: the table is cleared before longer ones are due."""
    codes = []
    for i in range(0, len(raw), 200):
        codes += [256, *raw[i:i + 200]]
    bits = "".join(f"{c:09b}" for c in codes + [257])
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


PACK = {1: bytes, 5: lzw, 8: zlib.compress, 32773: packbits, 32946: zlib.compress}


def layout(rng, key, size, compression=1, rows=None, tile=None, predictor=None, planar=1):
    """The tags and blocks of random pixels; key: as in OPEN_INFO."""
    order, photometric, fmt, fill, bits, extra = key
    w, h = size
    tags = {256: w, 257: h, 258: (SHORT, list(bits)), 259: compression, 262: photometric, 277: len(bits)}
    if fmt != (1,):
        tags[339] = (SHORT, list(fmt) * len(bits))
    if fill != 1:
        tags[266] = fill
    if extra:
        tags[338] = (SHORT, list(extra))
    if predictor:
        tags[317] = predictor
    if planar != 1:
        tags[284] = planar
    if photometric == 3:
        tags[320] = (SHORT, [int(v) for v in few(rng, 65536, 3 << bits[0])])
    if photometric == 6 and len(bits) == 3:
        tags[530] = (SHORT, [1, 1])
    bw, bh = tile or (w, rows or h)
    if tile:
        tags |= {322: bw, 323: bh}
    elif rows:
        tags[278] = rows
    across, down = -(-w // bw), -(-h // bh)
    blocks = []
    for plane in ([sum(bits)] if planar == 1 else bits):
        for y in range(down):
            for _ in range(across):
                lines = bh if tile else min(bh, h - y * bh)
                n = lines * (-(-bw * plane // 8))
                raw = (rng.integers(0, 256, n) if n < 200 else few(rng, 256, n)).astype(np.uint8)
                if bits[0] in (16, 32) and rng.random() < 0.3 and len(bits) == 1:
                    raw.reshape(-1, bits[0] // 8)[:, (slice(0, -1) if order == b"MM" else slice(1, None))] = 0  # values that fit in a byte
                elif bits == (16,) and rng.random() < 0.3:
                    raw.reshape(-1, 2)[:, 0 if order == b"MM" else 1] = 255  # dim values if white is zero
                if fmt == (3,):
                    raw = rng.uniform(-20, 300, len(raw) // 4).astype(">f4" if order == b"MM" else "<f4").view(np.uint8)
                block = PACK[compression](raw.tobytes())
                blocks.append(block if fill == 1 or compression == 1 else bytes(int(f"{b:08b}"[::-1], 2) for b in block))
    return tags, blocks


def few(rng, below, size):
    """Random numbers with few distinct values, which compress well."""
    return rng.choice(rng.integers(0, below, 8), size)


def name_of(key):
    order, photometric, fmt, fill, bits, extra = key
    return (f"{order.decode()}_p{photometric}_{'x'.join(map(str, bits))}" + (f"_s{fmt[0]}" if fmt != (1,) else "") +
            ("_fill2" if fill == 2 else "") + ("_e" + "".join(map(str, extra)) if extra else ""))


USUAL = [k for k in OPEN_INFO if k[3] == 1 and k[2] == (1,) and k[1] in (0, 1, 2, 3, 5) and k[4][0] in (1, 8, 16)]


def modes(rng, size):
    for key in OPEN_INFO:
        name = name_of(key)
        w, h = size()
        yield f"raw_{name}", layout(rng, key, (w, h))
        yield f"strips_{name}", layout(rng, key, (w, max(h, 3)), rows=2)
        yield f"wide_{name}", layout(rng, key, (w + 16, h), compression=int(rng.choice([5, 8, 32946, 32773])))
        yield f"packbits_{name}", layout(rng, key, (w, h), 32773)
        yield f"deflate_{name}", layout(rng, key, (w, h), 8, rows=3)
        if key[4][0] in (8, 16, 32) and key[3] == 1:
            yield f"lzw_{name}_predictor", layout(rng, key, (w, h), 5, predictor=2)
        if len(key[4]) > 1:
            yield f"planar_{name}", layout(rng, key, (w, h), planar=2)
    for key in USUAL:
        name = name_of(key)
        w, h = size()
        yield f"tiles_{name}", layout(rng, key, (w + 20, h + 9), int(rng.choice([1, 5, 8])), tile=(16, 16))
        yield f"tile_{name}", layout(rng, key, (w, h), tile=(16, 16), predictor=2 if key[4][0] == 8 else None, compression=8)
        yield f"turned_{name}", with_tags(layout(rng, key, (w, h)), {274: int(rng.integers(2, 9))})


def with_tags(made, more):
    tags, blocks = made
    return tags | more, blocks


GREY, RGB, RGBA, MUL, PAL, BIT = ((b"II", 1, (1,), 1, (8,), ()), (b"MM", 2, (1,), 1, (8, 8, 8), ()), (b"II", 2, (1,), 1, (8,) * 4, (2,)),
                                  (b"II", 2, (1,), 1, (8,) * 4, (1,)), (b"II", 3, (1,), 1, (8,), ()), (b"MM", 0, (1,), 1, (1,), ()))


def rare(rng, size):
    """Tags with other types and counts, or omitted."""
    bases = {"grey": GREY, "rgb": RGB, "rgba": RGBA, "mul": MUL, "pal": PAL, "bit": BIT}
    for n in range(0, 10):
        for base, key in bases.items():
            yield f"orientation{n}_{base}", key, with_tags(layout(rng, key, size()), {274: n})
    for kind in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13):
        for n in (3, 6):
            values = [n, 1] if kind in (5, 10) else [n]
            yield f"orientation{n}_type{kind}", RGB, with_tags(layout(rng, RGB, size()), {274: (kind, values)})
    for count in (2, 3):
        yield f"orientation_twice{count}", RGB, with_tags(layout(rng, RGB, size()), {274: (SHORT, [6, 3, 8][:count])})
        yield f"orientation_longs{count}", RGB, with_tags(layout(rng, RGB, size()), {274: (LONG, [8, 3, 8][:count])})
    for base, key in bases.items():
        made = layout(rng, key, size())
        yield f"no_photometric_{base}", key, with_tags(made, {262: None})
        yield f"no_bits_{base}", key, with_tags(made, {258: None})
        yield f"no_samples_{base}", key, with_tags(made, {277: None})
        yield f"no_compression_{base}", key, with_tags(made, {259: None})
        yield f"no_extra_{base}", key, with_tags(made, {338: None})
        yield f"no_lengths_{base}", key, with_tags(made, {279: None})
        yield f"one_bits_{base}", key, with_tags(made, {258: (SHORT, [key[4][0]])})
        yield f"more_bits_{base}", key, with_tags(made, {258: (SHORT, list(key[4]) + [8])})
        yield f"long_tags_{base}", key, with_tags(made, {256: (LONG, [made[0][256]]), 257: (LONG, [made[0][257]]), 262: (LONG, [key[1]]), 259: (LONG, [1])})
        yield f"byte_tags_{base}", key, with_tags(made, {258: (BYTE, list(key[4])), 262: (BYTE, [key[1]])})
        yield f"predictor1_{base}", key, with_tags(made, {317: 1})
        yield f"predictor2_raw_{base}", key, with_tags(made, {317: 2})
        yield f"predictor3_{base}", key, with_tags(made, {317: 3})
        yield f"planar2_{base}", key, with_tags(made, {284: 2})
        yield f"format_undefined_{base}", key, with_tags(made, {339: (SHORT, [4] * len(key[4]))})
        yield f"subfile_{base}", key, with_tags(made, {254: (LONG, [1])})
        yield f"reference_{base}", key, with_tags(made, {532: (RATIONAL, [16, 1, 235, 1] * 3), 282: (RATIONAL, [72, 1]), 283: (RATIONAL, [144, 1])})
        yield f"icc_{base}", key, with_tags(made, {34675: (7, list(range(40)))})
        yield f"more_strips_{base}", key, (made[0], made[1] + layout(rng, key, (made[0][256], made[0][257]))[1])
        yield f"rows_huge_{base}", key, with_tags(made, {278: (LONG, [0xffffffff])})
        yield f"strips_{base}", key, layout(rng, key, (9, 7), rows=1)
        yield f"lzw_strips_{base}", key, layout(rng, key, (11, 7), 5, rows=4)
        yield f"xmp_{base}", key, with_tags(made, {700: (1, list(b'<x tiff:Orientation="6"/>'))})
    tags, blocks = layout(rng, PAL, (7, 5))
    for used in (3, 255, 256 * 3 - 3):
        yield f"palette_short{used}", PAL, ((tags | {320: (SHORT, tags[320][1][:used])}), blocks)
    small = [int(v) for v in rng.integers(0, 256, 768)]
    yield "palette_of_bytes", PAL, (tags | {320: (SHORT, small)}, blocks)
    yield "palette_as_bytes", PAL, (tags | {320: (BYTE, small)}, blocks)
    yield "palette_as_longs", PAL, (tags | {320: (LONG, small)}, blocks)
    for key, more in ((RGBA, {338: (SHORT, [0])}), (RGBA, {338: (SHORT, [3])}), (RGBA, {338: (SHORT, [999])}), (RGBA, {338: (SHORT, [2, 0])}),
                      (RGBA, {338: (BYTE, [2])}), (RGBA, {338: (LONG, [1])}), (RGB, {338: (SHORT, [2])}), (GREY, {338: (SHORT, [2])})):
        yield f"extra_{len(key[4])}_{more[338][0]}_{'_'.join(map(str, more[338][1]))}", key, with_tags(layout(rng, key, size()), more)
    for value in (0, 3, 4):
        yield f"fill{value}", BIT, with_tags(layout(rng, BIT, size()), {266: value})
    for key, base in ((GREY, "grey"), (RGB, "rgb")):
        for bits in (7, 9, 10, 11, 12, 14, 24, 32, 64):
            yield f"bits{bits}_{base}", key, with_tags(layout(rng, key[:4] + ((bits,) * len(key[4]),) + ((),), size()), {})


def sloppy(rng, size):
    """Files of careless writers."""
    for base, key in (("grey", GREY), ("rgb", RGB), ("rgba", RGBA), ("pal", PAL), ("bit", BIT)):
        w, h = size()
        tags, blocks = layout(rng, key, (w, h))
        lengths = [len(b) for b in blocks]
        yield f"unsorted_{base}", tiff(key[0], tags, blocks, sort=lambda t: sorted(t, reverse=True))
        yield f"lengths_too_large_{base}", tiff(key[0], tags | {279: (LONG, [n + 100000 for n in lengths])}, blocks)
        yield f"lengths_zero_{base}", tiff(key[0], tags | {279: (LONG, [0 for _ in lengths])}, blocks)
        yield f"lengths_short_{base}", tiff(key[0], tags | {279: (LONG, [max(0, n - 1) for n in lengths])}, blocks)
        yield f"lengths_shorts_{base}", tiff(key[0], tags | {279: (SHORT, lengths)}, blocks)
        yield f"more_data_{base}", tiff(key[0], tags, [b + b"12345678" for b in blocks])
        yield f"unknown_tags_{base}", tiff(key[0], tags | {65000: (7, [1, 2, 3]), 65001: (DOUBLE, [1.5]), 270: (2, list(b"a text\0"))}, blocks)
        yield f"rows_zero_{base}", tiff(key[0], tags | {278: 0}, blocks)
        for compression in (5, 8, 32773):
            tags, blocks = layout(rng, key, (w, h), compression)
            yield f"packed_more_{base}_{compression}", tiff(key[0], tags, [b + b"\0\0\0\0" for b in blocks])
            yield f"packed_lengths_{base}_{compression}", tiff(key[0], tags | {279: (LONG, [len(b) + 7 for b in blocks])}, blocks + [b"12345678"])
        for tile in ((8, 8), (32, 16), (16, 48)):
            tags, blocks = layout(rng, key, (w + 9, h + 9), 8, tile=tile)
            yield f"tiles{tile[0]}_{base}", tiff(key[0], tags, blocks)
        tags, blocks = layout(rng, key, (w, h), rows=h)
        yield f"trailing_{base}", tiff(key[0], tags, blocks) + b"after the end"


def alphas(rng, size):
    """Premultiplied pixels like programs write them: no colour above its alpha, and every alpha value."""
    for order in (b"II", b"MM"):
        for deep in (8, 16):
            key = (order, 2, (1,), 1, (deep,) * 4, (1,))
            a = np.arange(256, dtype=np.uint32).repeat(2).reshape(16, 32)
            if deep == 16:
                a = a * 257 - (rng.integers(0, 200, a.shape) * (a > 0)).astype(np.uint32)
            colour = (rng.uniform(0, 1, (16, 32, 3)) * a[..., None]).astype(np.uint32)
            pixels = np.concatenate([colour, a[..., None]], 2)
            raw = pixels.astype({8: "u1", 16: (">" if order == b"MM" else "<") + "u2"}[deep]).tobytes()
            for compression in (1, 5, 8):
                tags, _ = layout(rng, key, (32, 16), compression)
                yield f"premultiplied{deep}_{order.decode()}_{compression}", key, (tags, [PACK[compression](raw)])


def written(rng, size):
    """Files that Pillow writes."""
    compressions = [None, "packbits", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "zstd", "lzma", "jpeg", "webp", "group3", "group4", "tiff_ccitt",
                    "tiff_thunderscan", "tiff_raw_16", "tiff_sgilog"]
    for mode in ("1", "L", "LA", "P", "PA", "I", "I;16", "I;16B", "F", "RGB", "RGBX", "RGBA", "CMYK", "YCbCr", "LAB"):
        for compression in compressions:
            for big in (False, True):
                if big and compression not in (None, "tiff_lzw"):
                    continue
                yield (f"by_pillow_{mode.replace(';', '_')}_{compression}" + ("_big" if big else ""),
                       saved(drawn(rng, mode, size()), "TIFF", compression=compression, big_tiff=big))
    for options in ({"strip_size": 40}, {"tiffinfo": {266: 2}}, {"tiffinfo": {262: 0}}):
        for mode in ("1", "L", "RGB"):
            for compression in (None, "group3", "group4", "tiff_lzw", "tiff_ccitt"):
                yield (f"option_{list(options)[0]}_{list(options.get('tiffinfo', {0: 0}))[0]}_{mode}_{compression}",
                       saved(drawn(rng, mode, size()), "TIFF", compression=compression, **options))


def saved(im, kind, **options):
    """The file that Pillow writes, or None: not every mode supports every compression."""
    b = io.BytesIO()
    try:
        im.save(b, kind, **options)
    except Exception:
        return None
    return b.getvalue()


def drawn(rng, mode, size):
    w, h = size
    if mode == "I":
        return Image.fromarray(rng.integers(0, 400, (h, w), dtype=np.int32))
    if mode == "F":
        return Image.fromarray(rng.uniform(-3, 300, (h, w)).astype(np.float32))
    if mode in ("I;16", "I;16B"):
        return Image.frombytes(mode, size, rng.integers(0, 256, 2 * w * h, dtype=np.uint8).tobytes())
    if mode == "1":
        return Image.fromarray(rng.integers(0, 2, (h, w), dtype=np.uint8) * 255).convert("1")
    bands = {"L": 1, "P": 1, "LA": 2, "PA": 2, "RGB": 3, "LAB": 3, "YCbCr": 3}.get(mode, 4)
    im = Image.frombytes(mode, size, rng.integers(0, 256, bands * w * h, dtype=np.uint8).tobytes())
    if mode in ("P", "PA"):
        im.putpalette(few(rng, 256, 768).astype(np.uint8).tobytes())
    return im


def files(rng):
    def size():
        return int(rng.integers(1, 12)), int(rng.integers(1, 9))

    for name, (tags, blocks) in modes(rng, size):
        yield f"{name}.tif", tiff(b"MM" if "MM_" in name else b"II", tags, blocks)
    for name, key, (tags, blocks) in [*rare(rng, size), *alphas(rng, size)]:
        yield f"rare_{name}.tif", tiff(key[0], tags, blocks)
    for name, raw in [*sloppy(rng, size), *written(rng, size)]:
        yield f"{name}.tif", raw
