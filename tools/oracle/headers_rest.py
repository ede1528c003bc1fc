"""BMP, PNG, GIF and WebP files for data_headers.py."""
import itertools
import struct
import zlib

import numpy as np
from PIL import Image

from headers_jpeg import exif, turned
from headers_tiff import drawn, few, saved


def bmp(rng, size, header, bits, compression=0, masks=(), colours=0, down=False, data=None, gap=0, planes=1, grey=False):
    w, h = size
    stride = (w * bits + 31) // 32 * 4
    data = rng.integers(0, 256, stride * h, dtype=np.uint8).tobytes() if data is None else data
    entries = 0 if bits > 8 else colours or 1 << bits
    if header == 12:
        info = struct.pack("<IHHHH", 12, w, h, planes, bits)
        palette = few(rng, 256, (entries, 3)).astype(np.uint8)
    else:
        info = struct.pack("<IiiHHIIiiII", header, w, -h if down else h, planes, bits, compression, len(data), 2835, 2835, colours, 0)
        m = b"".join(struct.pack("<I", v) for v in masks)
        info = info + m if header == 40 else (info + m).ljust(header, b"\0")[:header]
        palette = few(rng, 256, (entries, 4)).astype(np.uint8)
    if grey:
        palette[:] = (np.arange(entries) * (255 if entries == 2 else 1))[:, None]
    palette = palette.tobytes()
    offset = 14 + len(info) + len(palette) + gap
    return b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) + info + palette + b"\0" * gap + data


def rle(rng, size, bits):
    """Runs, literals, jumps and ends of lines."""
    w, h = size
    out = b""
    for y in range(h):
        x = 0
        while x < w:
            n = int(min(rng.integers(1, 6), w - x))
            kind = rng.integers(3)
            if kind == 0 and n >= 3:
                body = rng.integers(0, 256, n if bits == 8 else (n + 1) // 2, dtype=np.uint8).tobytes()
                out += bytes([0, n]) + body + b"\0" * (len(body) % 2)
            elif kind == 1 and y < h - 1:
                out += bytes([0, 2, n, 0])
            else:
                out += bytes([n, int(rng.integers(256))])
            x += n
        out += b"\0\0"
    return out + b"\0\1"


MASKS = {32: [(0xFF0000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0), (0xFF000000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0xFF),
              (0xFF, 0xFF00, 0xFF0000, 0xFF000000), (0xFF0000, 0xFF00, 0xFF, 0xFF000000), (0xFF000000, 0xFF00, 0xFF, 0xFF0000), (0, 0, 0, 0)],
         24: [(0xFF0000, 0xFF00, 0xFF)], 16: [(0xF800, 0x7E0, 0x1F), (0x7C00, 0x3E0, 0x1F)]}


def bmps(rng, size):
    for header, bits in itertools.product((12, 40, 52, 56, 64, 108, 124), (1, 4, 8, 16, 24, 32)):
        for down in (False, True):
            if down and header == 12:
                continue
            yield f"{header}_{bits}_{down}", bmp(rng, size(), header, bits, down=down)
        if header != 12:
            yield f"{header}_{bits}_alpha_mask", bmp(rng, size(), header, bits, masks=(0xFF0000, 0xFF00, 0xFF, 0xFF000000))
            yield f"{header}_{bits}_gap", bmp(rng, size(), header, bits, gap=4)
            for masks in MASKS.get(bits, ()):
                for down in (False, True):
                    yield (f"{header}_{bits}_{'_'.join(f'{m:x}' for m in masks)}_{down}",
                           bmp(rng, size(), header, bits, 3, masks[:3] if header in (40, 52) else masks, down=down))
        if bits <= 8:
            yield f"{header}_{bits}_grey", bmp(rng, (4, 3), header, bits, grey=True)  # narrow: Pillow does not read all wider ones
            if header != 12:
                for colours in sorted({2, 3, 1 << bits, 256}):
                    w, h = size()
                    least = np.packbits(np.zeros((h, (w * bits + 31) // 32 * 32), np.uint8), axis=1)
                    for some in (None, least.tobytes()):
                        yield f"{header}_{bits}_{colours}_colours_{some is None}", bmp(rng, (w, h), header, bits, colours=colours, data=some)
        if bits in (4, 8) and header != 12:
            w, h = size()
            yield f"{header}_{bits}_rle", bmp(rng, (w, h), header, bits, 1 if bits == 8 else 2, data=rle(rng, (w, h), bits))
    for bits in (1, 4, 8, 24, 32):
        whole = bytearray(bmp(rng, (7, 5), 40, bits))
        for name, at, value in (("planes0", 26, b"\0\0"), ("planes3", 26, b"\3\0"), ("no_size", 34, bytes(4)), ("size_wrong", 34, b"\xff\0\0\0"), ("no_offset", 10, bytes(4)),
                                ("file_size", 2, bytes(4)), ("colours2", 46, b"\2\0\0\0"), ("colours300", 46, b"\x2c\1\0\0"), ("important", 50, b"\1\0\0\0")):
            changed = whole.copy()
            changed[at:at + len(value)] = value
            yield f"{name}_{bits}", bytes(changed)
        yield f"tail_{bits}", bytes(whole) + b"tail"
        yield f"short_{bits}", bytes(whole[:-3])
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        for w in (1, 3, 8, 9):
            yield f"pillow_{mode}_{w}", saved(drawn(rng, mode, (w, 3)), "BMP")


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def png(rng, size, kind, depth, interlace=False, before=b"", palette=None, high=None, end=True, after=b"", key=None):
    """Random samples with random filters. high: upper bound of the samples (exclusive)."""
    w, h = size
    palette = 1 << depth if palette is None and kind == 3 else palette
    passes = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)) if interlace else ((0, 0, 1, 1),)
    data = b""
    for y, x, dy, dx in passes:
        rows, columns = len(range(y, h, dy)), len(range(x, w, dx))
        for _ in range(rows if columns else 0):
            v = rng.integers(0, high or 1 << depth, columns * CHANNELS[kind])
            if key is not None:
                v[rng.random(len(v)) < 0.4] = key
            if depth == 16:
                row = v.astype(">u2").tobytes()
            else:
                row = np.packbits((v[:, None] >> np.arange(depth - 1, -1, -1) & 1).astype(np.uint8).reshape(-1)).tobytes()
            step = max(1, depth * CHANNELS[kind] // 8)
            if depth >= 8 and rng.integers(2):  # filter type Sub
                a = np.frombuffer(row, np.uint8).astype(int)
                left = np.concatenate([np.zeros(step, int), a])[:len(a)]
                data += b"\1" + ((a - left) % 256).astype(np.uint8).tobytes()
            else:
                data += b"\0" + row
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, kind, 0, 0, int(interlace)))
    if palette:
        head += chunk(b"PLTE", few(rng, 256, 3 * palette).astype(np.uint8).tobytes())
    return (b"\x89PNG\r\n\x1a\n" + head + before + chunk(b"IDAT", zlib.compress(data)) + after + (chunk(b"IEND", b"") if end else b""))


def pngs(rng, size):
    kinds = [(k, d) for k, ds in {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}.items() for d in ds]
    for (kind, depth), interlace in itertools.product(kinds, (False, True)):
        name = f"{kind}_{depth}" + ("_interlaced" if interlace else "")
        for i in range(2):
            yield f"{name}_{i}", png(rng, size(), kind, depth, interlace)
        if kind in (0, 2):
            for key in sorted({0, 1, (1 << depth) - 1, 1 << (depth - 1)}):
                body = struct.pack(">H", key) * CHANNELS[kind]
                yield f"{name}_key{key}", png(rng, size(), kind, depth, interlace, chunk(b"tRNS", body), key=key)
                if depth < 8:
                    yield f"{name}_key_upper{key}", png(rng, size(), kind, depth, interlace, chunk(b"tRNS", struct.pack(">H", key + 512)), key=key)
            yield f"{name}_key_too_large", png(rng, size(), kind, depth, interlace, chunk(b"tRNS", b"\x7f\xff" * CHANNELS[kind]))
            if depth == 8:
                yield f"{name}_key_low_byte", png(rng, size(), kind, depth, interlace, chunk(b"tRNS", b"\x01\x07" * CHANNELS[kind]), key=7)
            yield f"{name}_palette", png(rng, size(), kind, depth, interlace, palette=4)
        if kind == 3:
            for n in sorted({1, 2, 1 << depth}):
                alpha = rng.integers(0, 256, n, dtype=np.uint8)
                yield f"{name}_alpha{n}", png(rng, size(), kind, depth, interlace, chunk(b"tRNS", alpha.tobytes()))
                alpha[0] = 0
                yield f"{name}_clear{n}", png(rng, size(), kind, depth, interlace, chunk(b"tRNS", b"\xff" * (n - 1) + b"\0"))
            yield f"{name}_short", png(rng, size(), kind, depth, interlace, palette=max(1, (1 << depth) - 1))
            yield f"{name}_short_alpha", png(rng, size(), kind, depth, interlace, chunk(b"tRNS", b"\x80"), palette=max(1, (1 << depth) // 2))
        if kind in (4, 6) and not interlace:
            yield f"{name}_key", png(rng, size(), kind, depth, interlace, chunk(b"tRNS", b"\0\0" * 3))
        if depth == 16 and not interlace:
            yield f"{name}_dim", png(rng, size(), kind, depth, interlace, high=256)
    for kind, depth in ((0, 8), (2, 8), (3, 8), (6, 8), (0, 1)):
        base = f"{kind}_{depth}"
        for label, extra in {
            "gamma": chunk(b"gAMA", struct.pack(">I", 100000)), "srgb": chunk(b"sRGB", b"\0"), "icc": chunk(b"iCCP", b"x\0\0" + zlib.compress(b"y" * 60)),
            "chroma": chunk(b"cHRM", struct.pack(">8I", *range(8))), "background": chunk(b"bKGD", b"\0\1" * (3 if kind in (2, 6) else 1) if kind != 3 else b"\1"),
            "bits": chunk(b"sBIT", b"\4" * {0: 1, 2: 3, 3: 3, 6: 4}[kind]), "dots": chunk(b"pHYs", struct.pack(">IIB", 2835, 1, 1)), "time": chunk(b"tIME", b"\7\xea\1\1\1\1\1"),
            "histogram": chunk(b"hIST", b"\0\1" * 256) if kind == 3 else chunk(b"zzZz", b"1"), "cicp": chunk(b"cICP", b"\x09\x10\0\1"), "text": chunk(b"tEXt", b"a\0b"),
        }.items():
            yield f"{base}_{label}", png(rng, size(), kind, depth, before=extra)
        yield f"{base}_no_end", png(rng, size(), kind, depth, end=False)
        yield f"{base}_tail", png(rng, size(), kind, depth) + b"tail"
        for n in (2, 6):
            yield f"{base}_turned{n}", png(rng, size(), kind, depth, before=chunk(b"eXIf", exif(b"II", [(274, 3, 1, struct.pack("<HH", n, 0))])))
    for name, raw in turned(rng, size):
        yield f"orientation_{name}", png(rng, (5, 3), 2, 8, before=chunk(b"eXIf", raw))
    whole = png(rng, (6, 5), 2, 8)
    at = whole.index(b"IDAT") - 4
    n = struct.unpack(">I", whole[at:at + 4])[0]
    body = whole[at + 8:at + 8 + n]
    yield "parts", whole[:at] + chunk(b"IDAT", body[:7]) + chunk(b"IDAT", b"") + chunk(b"IDAT", body[7:]) + whole[at + 12 + n:]
    yield "empty_part", whole[:at] + chunk(b"IDAT", b"") + chunk(b"IDAT", body) + whole[at + 12 + n:]
    yield "bad_text_sum", whole[:at] + chunk(b"tEXt", b"a\0b")[:-1] + b"!" + whole[at:]
    yield "unknown_chunks", whole[:at] + chunk(b"abCd", b"1") + chunk(b"aBCd", b"") + whole[at:]
    yield "second_palette", whole[:at] + chunk(b"PLTE", bytes(6)) + whole[at:]
    yield "more_pixels", whole[:at] + chunk(b"IDAT", zlib.compress(zlib.decompress(body) + bytes(40))) + whole[at + 12 + n:]
    yield "suggested", whole[:at] + chunk(b"sPLT", b"x\0\x08" + bytes(6)) + chunk(b"sTER", b"\0") + chunk(b"oFFs", bytes(9)) + whole[at:]
    yield "late_key", whole[:at] + chunk(b"IDAT", body) + chunk(b"tRNS", b"\0\1" * 3) + whole[at + 12 + n:]
    for default in (False, True):
        frames = [drawn(rng, "RGBA", (6, 4)) for _ in range(3)]
        for disposal, blend in itertools.product((0, 1, 2), (0, 1)):
            yield (f"animated_{default}_{disposal}_{blend}",
                   saved(frames[0], "PNG", save_all=True, default_image=default, append_images=frames[1:], disposal=disposal, blend=blend))
    for mode in ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA"):
        for i, options in enumerate(({}, {"optimize": True}, {"compress_level": 0}, {"bits": 2} if mode == "P" else {"dpi": (72, 72)})):
            yield f"pillow_{mode.replace(';', '_')}_{i}", saved(drawn(rng, mode, size()), "PNG", **options)


def codes(indices, least):
    """GIF's LZW with codes of least + 1 bits: the table is cleared before longer codes are due."""
    bits, n = 0, 0
    every = (1 << least) - 2
    out = []
    for i in range(0, len(indices), max(every, 1)):
        out += [1 << least, *indices[i:i + max(every, 1)]]
    for c in out + [(1 << least) + 1]:
        bits |= int(c) << n
        n += least + 1
    raw = bits.to_bytes((n + 7) // 8, "little")
    return bytes([least]) + b"".join(bytes([len(raw[i:i + 255])]) + raw[i:i + 255] for i in range(0, len(raw), 255)) + b"\0"


def frame(rng, box, top, key=None, local=0, disposal=0, interlace=False):
    x, y, w, h = box
    least = max(2, (top - 1).bit_length())
    out = b""
    if key is not None or disposal:
        out += b"\x21\xf9\x04" + bytes([disposal << 2 | (key is not None), 5, 0, key or 0]) + b"\0"
    flags = (0x80 | (local - 1) if local else 0) | (0x40 if interlace else 0)
    out += b"\x2c" + struct.pack("<HHHHB", x, y, w, h, flags)
    if local:
        out += few(rng, 256, 3 << local).astype(np.uint8).tobytes()
    return out + codes(rng.integers(0, top, w * h), least)


def gif(rng, screen, frames, table=3, background=0, aspect=0, version=b"GIF89a"):
    w, h = screen
    flags = 0x80 | (table - 1) if table else 0
    out = version + struct.pack("<HHBBB", w, h, flags, background, aspect)
    if table:
        out += few(rng, 256, 3 << table).astype(np.uint8).tobytes()
    return out + b"".join(frames) + b"\x3b"


def gifs(rng, size):
    n = 0
    for table, local, key, interlace, place in itertools.product((0, 1, 3, 8), (0, 2), (None, 0, 3), (False, True), ("whole", "part", "beyond")):
        if not table and not local:
            continue
        n += 1
        w, h = size()
        box = {"whole": (0, 0, w, h), "part": (1, 2, w, h), "beyond": (2, 1, w + 3, h + 2)}[place]
        screen = {"whole": (w, h), "part": (w + 3, h + 4), "beyond": (w, h)}[place]
        top = 1 << (local or table)
        yield (f"{table}_{local}_{key}_{place}" + ("_interlaced" if interlace else ""),
               gif(rng, screen, [frame(rng, box, top, key, local, int(rng.integers(0, 4)), interlace)], table, background=int(rng.integers(0, 4))))
    for background, key, disposal in itertools.product((0, 2, 7, 200), (None, 0, 2, 7, 200), (0, 2)):
        yield f"background{background}_{key}_{disposal}", gif(rng, (9, 8), [frame(rng, (3, 2, 4, 3), 8, key, 0, disposal), frame(rng, (0, 0, 9, 8), 8)], 3, background)
    yield "beyond_palette", gif(rng, (5, 4), [frame(rng, (0, 0, 5, 4), 8)], 2)
    yield "beyond_palette_part", gif(rng, (7, 6), [frame(rng, (1, 1, 5, 4), 8, 1)], 2)
    yield "no_table", gif(rng, (5, 4), [frame(rng, (0, 0, 5, 4), 8)], 0)
    yield "gif87", gif(rng, (5, 4), [frame(rng, (0, 0, 5, 4), 8)], 3, version=b"GIF87a")
    yield "aspect", gif(rng, (5, 4), [frame(rng, (0, 0, 5, 4), 8)], 3, aspect=30)
    yield "no_end", gif(rng, (5, 4), [frame(rng, (0, 0, 5, 4), 8)], 3)[:-1]
    yield "comment", gif(rng, (5, 4), [b"\x21\xfe\x03abc\0", b"\x21\xff\x0bNETSCAPE2.0\x03\1\0\0\0", frame(rng, (0, 0, 5, 4), 8)], 3)
    xmp = b'\x21\xff\x0bXMP DataXMP<x tiff:Orientation="6"/>' + bytes([1]) + bytes(range(255, -1, -1)) + b"\0"
    yield "xmp", gif(rng, (5, 4), [xmp, frame(rng, (0, 0, 5, 4), 8)], 3)
    yield "two_controls", gif(rng, (5, 4), [b"\x21\xf9\x04\1\0\0\2\0", b"\x21\xf9\x04\0\0\0\0\0", frame(rng, (0, 0, 5, 4), 8)], 3)
    for least in range(2, 9):
        yield f"codes{least}", gif(rng, (5, 4), [b"\x2c" + struct.pack("<HHHHB", 0, 0, 5, 4, 0) + codes(rng.integers(0, 4, 20), least)], 2)
    whole = gif(rng, (5, 4), [frame(rng, (0, 0, 5, 4), 8)], 3)
    yield "tail", whole + b"tail"
    yield "zeros_between", gif(rng, (5, 4), [b"\0\0", frame(rng, (0, 0, 5, 4), 8)], 3)
    yield "plain_text", gif(rng, (5, 4), [b"\x21\x01\x0c" + bytes(12) + b"\1a\0", frame(rng, (0, 0, 5, 4), 8)], 3)
    yield "no_screen", gif(rng, (0, 0), [frame(rng, (0, 0, 5, 4), 8)], 3)
    yield "larger_screen", gif(rng, (300, 2), [frame(rng, (0, 0, 5, 2), 8, 2)], 3)
    grey = gif(rng, (5, 4), [frame(rng, (0, 0, 5, 4), 256)], 8)
    yield "grey_table", grey[:13] + bytes(v for i in range(256) for v in (i, i, i)) + grey[13 + 768:]
    keyed = gif(rng, (7, 6), [frame(rng, (1, 1, 5, 4), 256, 9)], 8)
    yield "grey_table_key", keyed[:13] + bytes(v for i in range(256) for v in (i, i, i)) + keyed[13 + 768:]
    for mode, options in itertools.product(("1", "L", "P", "RGB", "RGBA", "LA", "PA"), ({}, {"interlace": False}, {"transparency": 1}, {"optimize": True})):
        yield f"pillow_{mode}_{'_'.join(options)}", saved(drawn(rng, mode, size()), "GIF", **options)
    for disposal in (0, 1, 2, 3):
        yield (f"pillow_animated_{disposal}",
               saved(drawn(rng, "RGBA", (8, 6)), "GIF", save_all=True, append_images=[drawn(rng, "RGB", (8, 6))], disposal=disposal))


def riff(*chunks):
    body = b"".join(k + struct.pack("<I", len(v)) + v + b"\0" * (len(v) % 2) for k, v in chunks)
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


def chunks_of(raw):
    at, out = 12, []
    while at + 8 <= len(raw):
        n = struct.unpack("<I", raw[at + 4:at + 8])[0]
        out.append((raw[at:at + 4], raw[at + 8:at + 8 + n]))
        at += 8 + n + n % 2
    return out


def uint24(v):
    return struct.pack("<I", v)[:3]


def webp_of(rng, mode, size, **options):
    return chunks_of(saved(drawn(rng, mode, size), "WEBP", **options))


def vp8x(flags, size):
    return b"VP8X", bytes([flags, 0, 0, 0]) + uint24(size[0] - 1) + uint24(size[1] - 1)


def anmf(chunks, place, size, flags=0):
    x, y = place
    return b"ANMF", uint24(x // 2) + uint24(y // 2) + uint24(size[0] - 1) + uint24(size[1] - 1) + uint24(40) + bytes([flags]) + riff(*chunks)[12:]


def webps(rng, size):
    kinds = (("lossy", "RGB", {"quality": 60}), ("lossy_alpha", "RGBA", {"quality": 60}), ("lossy_raw_alpha", "RGBA", {"quality": 60, "alpha_quality": 20}),
             ("lossless", "RGB", {"lossless": True}), ("lossless_alpha", "RGBA", {"lossless": True, "exact": True}))
    for name, mode, options in kinds:
        for i in range(6):
            w, h = size()
            inner = webp_of(rng, mode, (w, h), method=int(rng.integers(0, 7)), **options)
            yield f"{name}_{i}", riff(*inner)
            bare = [c for c in inner if c[0] != b"VP8X"]
            yield f"{name}_bare{i}", riff(*bare)
            for flags in (0, 0x10):
                yield f"{name}_flags{flags}_{i}", riff(vp8x(flags, (w, h)), *bare)
            yield f"{name}_icc{i}", riff(vp8x(0x30 if "alpha" in name else 0x20, (w, h)), (b"ICCP", b"x" * 20), *bare)
            yield f"{name}_turned{i}", riff(vp8x(0x18 if "alpha" in name else 8, (w, h)), *bare, (b"EXIF", exif(b"II", [(274, 3 + i % 2, 1, struct.pack("<I", 3 + i))])))
            if i < 4:
                for flags, dispose, background in ((2, 0, 0), (0x12, 0, 0xFFFFFFFF), (2, 3, 0x80FF0000), (0x12, 2, 0x8000FF00)):
                    for place, canvas in (((0, 0), (w, h)), ((2, 4), (w + 5, h + 6))):
                        other = [c for c in webp_of(rng, mode, (w, h), **options) if c[0] != b"VP8X"]
                        yield (f"{name}_animated{i}_{flags}_{dispose}_{place[0]}",
                               riff(vp8x(flags, canvas), (b"ANIM", struct.pack("<IH", background, 0)), anmf(bare, place, (w, h), dispose), anmf(other, (0, 0), (w, h))))
    for name, raw in turned(rng, size):
        bare = [c for c in webp_of(rng, "RGB", (5, 3), lossless=True) if c[0] != b"VP8X"]
        yield f"orientation_{name}", riff(vp8x(8, (5, 3)), *bare, (b"EXIF", raw))
    for bit, flags in itertools.product((0, 1), (None, 0, 0x10, 2, 0x12)):  # with and without the alpha flag of lossless pictures
        body = bytearray(dict(webp_of(rng, "RGBA", (6, 4), lossless=True, exact=True))[b"VP8L"])
        body[4] = body[4] & 0xEF | bit << 4
        inner = [(b"VP8L", bytes(body))]
        if flags in (2, 0x12):
            inner = [(b"ANIM", bytes(6)), anmf(inner, (0, 0), (6, 4)), anmf(inner, (0, 0), (6, 4))]
        yield f"alpha_bit{bit}_{flags}", riff(*([] if flags is None else [vp8x(flags, (6, 4))]), *inner)
    bare = [c for c in webp_of(rng, "RGB", (5, 3), lossless=True) if c[0] != b"VP8X"]
    yield "canvas_larger", riff(vp8x(0, (9, 9)), *bare)
    yield "tail", riff(*bare) + b"tail"
    yield "unknown_chunk", riff(vp8x(0, (5, 3)), (b"ABCD", b"123"), *bare)


def files(rng):
    def size():
        return int(rng.integers(1, 20)), int(rng.integers(1, 12))

    for kind, make in (("bmp", bmps), ("png", pngs), ("gif", gifs), ("webp", webps)):
        for name, raw in make(rng, size):
            yield f"{name}.{kind}", raw
