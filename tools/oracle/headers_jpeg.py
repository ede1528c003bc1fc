"""JPEG files for data_headers.py: written by Pillow, and by hand with any sampling factors, components and scans."""
import itertools
import struct

import numpy as np
from PIL import Image

from headers_tiff import drawn, saved


def segment(marker, body):
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


class Bits:
    def __init__(self):
        self.text = ""

    def put(self, value, n):
        if n:
            self.text += f"{value:0{n}b}"

    def out(self):
        bits = self.text + "1" * (-len(self.text) % 8)
        return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8)).replace(b"\xff", b"\xff\x00")


# Eight-bit codes for every symbol in use: DC sizes 0 to 11, and AC symbols of runs 0 to 3 and sizes 1 to 5, EOB, ZRL.
DC = list(range(12))
AC = [0x00, 0xF0] + [r << 4 | s for r in range(4) for s in range(1, 6)]


def table(cls, ident, symbols):
    return segment(0xC4, bytes([cls << 4 | ident] + [0] * 7 + [len(symbols)] + [0] * 8 + symbols))


def value(bits, v):
    """The bits of v after its size category, as in T.81."""
    n = int(abs(v)).bit_length()
    return n, (v if v >= 0 else v + (1 << n) - 1)


def put_block(bits, coefficients, before, first, last):
    if first == 0:
        n, v = value(bits, int(coefficients[0]) - before)
        bits.put(DC.index(n), 8), bits.put(v, n)
        first = 1
    run = 0
    for k in range(first, last + 1):
        c = int(coefficients[k])
        if c == 0:
            run += 1
            continue
        while run > 15:
            bits.put(AC.index(0xF0), 8)
            run -= 16
        if run > 3:  # symbols of longer runs are not in the table
            break
        n, v = value(bits, c)
        bits.put(AC.index(run << 4 | n), 8), bits.put(v, n)
        run = 0
    else:
        if run == 0:
            return
    if first <= last:
        bits.put(AC.index(0), 8)


def jpeg(rng, size, factors, ids=None, adobe=None, jfif=True, restart=0, progressive=False, interleaved=True, sof=None, depth=8, quality=4, but=0,
         groups=None):
    """factors: (h, v) of each component; but: number of omitted scans; groups: the components that share a scan."""
    w, h = size
    n = len(factors)
    ids = ids or list(range(1, n + 1))
    hm, vm = max(f[0] for f in factors), max(f[1] for f in factors)
    mx, my = -(-w // (8 * hm)), -(-h // (8 * vm))
    planes = []
    for fh, fv in factors:
        c = np.zeros((my * fv, mx * fh, 64), int)
        c[..., 0] = rng.integers(-90, 90, c.shape[:2])
        for k in range(1, 9):
            c[..., k] = rng.integers(-9, 10, c.shape[:2]) * (rng.random(c.shape[:2]) < 0.5)
        planes.append(c)
    out = b"\xff\xd8"
    if jfif:
        out += segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0")
    if adobe is not None:
        out += segment(0xEE, b"Adobe" + struct.pack(">HHHB", 100, 0, 0, adobe))
    out += segment(0xDB, bytes([0] + [quality] * 64))
    body = struct.pack(">BHHB", depth, h, w, n) + b"".join(bytes([i, fh << 4 | fv, 0]) for i, (fh, fv) in zip(ids, factors))
    out += segment(sof or (0xC2 if progressive else 0xC0), body) + table(0, 0, DC) + table(1, 0, AC)
    if restart:
        out += segment(0xDD, struct.pack(">H", restart))
    whole = list(range(n))
    groups = groups or ([whole] if interleaved else [[i] for i in whole])
    if progressive:
        scans = [(g, 0, 0) for g in groups] + [([i], a, b) for a, b in ((1, 5), (6, 63)) for i in whole]
    else:
        scans = [(g, 0, 63) for g in groups]
    for members, first, last in scans[:len(scans) - but]:
        out += segment(0xDA, bytes([len(members)]) + b"".join(bytes([ids[i], 0]) for i in members) + bytes([first, last, 0]))
        out += scan(planes, factors, members, first, last, restart, size, (mx, my))
    return out + b"\xff\xd9"


def scan(planes, factors, members, first, last, restart, size, mcus):
    hm, vm = max(f[0] for f in factors), max(f[1] for f in factors)
    if len(members) == 1:
        i = members[0]
        columns = -(--(-size[0] * factors[i][0] // hm) // 8)
        rows = -(--(-size[1] * factors[i][1] // vm) // 8)
        units = [[(i, y, x)] for y in range(rows) for x in range(columns)]
    else:
        units = [[(i, y * factors[i][1] + b, x * factors[i][0] + a) for i in members for b in range(factors[i][1]) for a in range(factors[i][0])]
                 for y in range(mcus[1]) for x in range(mcus[0])]
    out, bits, before = b"", Bits(), dict.fromkeys(members, 0)
    for n, unit in enumerate(units):
        if restart and n and n % restart == 0:
            out += bits.out() + bytes([0xFF, 0xD0 + (n // restart - 1) % 8])
            bits, before = Bits(), dict.fromkeys(members, 0)
        for i, y, x in unit:
            put_block(bits, planes[i][y, x], before[i], first, last)
            before[i] = int(planes[i][y, x, 0])
    return out + bits.out()


def rewritten(rng, size):
    """Segments in the way of other writers."""
    def segments(raw):
        """The segments up to the first scan, and the rest."""
        at, out = 2, []
        while raw[at + 1] != 0xDA:
            n = 2 + struct.unpack(">H", raw[at + 2:at + 4])[0]
            out.append(raw[at:at + n])
            at += n
        return out, raw[at:]

    for mode, subsampling, progressive in (("RGB", 0, False), ("RGB", 2, False), ("RGB", 2, True), ("L", 0, False), ("CMYK", 2, False), ("CMYK", 0, True)):
        for restart in (0, 2):
            raw = saved(drawn(rng, mode, size()), "JPEG", subsampling=subsampling, progressive=progressive, quality=80, restart_marker_blocks=restart)
            parts, rest = segments(raw)
            name = f"{mode}_{subsampling}_{progressive}_{restart}"
            kind = lambda p: p[1]
            tables = [p for p in parts if kind(p) == 0xC4]
            if not progressive:
                yield f"one_table_segment_{name}", raw[:2] + b"".join(p for p in parts if kind(p) != 0xC4) + segment(0xC4, b"".join(p[4:] for p in tables)) + rest
            wide = [segment(0xDB, bytes([p[4] | 0x10]) + b"".join(bytes([0, v]) for v in p[5:69])) if kind(p) == 0xDB and len(p) == 69 else p for p in parts]
            yield f"wide_quantizers_{name}", raw[:2] + b"".join(wide) + rest
            yield f"filled_{name}", raw[:2] + b"".join(b"\xff\xff\xff" + p for p in parts) + rest
            yield f"no_app_{name}", raw[:2] + b"".join(p for p in parts if not 0xE0 <= kind(p) <= 0xEF) + rest
            yield f"late_app_{name}", raw[:2] + b"".join(p for p in parts if kind(p) != 0xE0) + segment(0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0") + rest
            yield f"interval_far_{name}", raw[:2] + b"".join(parts) + (segment(0xDD, b"\xff\xff") if not restart else b"") + rest
            yield f"interval_zero_{name}", raw[:2] + segment(0xDD, b"\0\7") + b"".join(parts) + (segment(0xDD, b"\0\0") if not restart else b"") + rest
            yield f"filled_end_{name}", raw[:-2] + b"\xff\xff\xff\xd9"
            yield f"avi1_{name}", raw[:2] + segment(0xE0, b"AVI1\0\0\0\0") + b"".join(p for p in parts if kind(p) != 0xE0) + rest
            yield f"adobe_short_{name}", raw[:2] + segment(0xEE, b"Adobe\0d") + b"".join(parts) + rest
            yield f"thumbnail_{name}", raw[:2] + parts[0] + segment(0xE1, b"Exif\0\0" + exif(b"II", []) + raw) + b"".join(parts[1:]) + rest


def by_pillow(rng, size):
    n = 0
    for mode, subsampling, progressive, restart in itertools.product(
            ("L", "RGB", "CMYK"), (0, 1, 2), (False, True), ({}, {"restart_marker_blocks": 1}, {"restart_marker_blocks": 3}, {"restart_marker_rows": 1})):
        if mode == "L" and subsampling:
            continue
        for smooth in (False, True):
            w, h = size()
            im = drawn(rng, mode, (w, h)) if not smooth else drawn(rng, mode, (5, 4)).resize((w + 5, h + 3), Image.BICUBIC)
            n += 1
            yield (f"pillow{n:03d}_{mode}_{subsampling}{'_progressive' if progressive else ''}{'_restarts' if restart else ''}",
                   saved(im, "JPEG", quality=int(rng.choice([30, 75, 95])), subsampling=subsampling, progressive=progressive,
                         optimize=bool(rng.integers(2)), **restart))
    for progressive in (False, True):
        yield f"keep_rgb_{progressive}", saved(drawn(rng, "RGB", size()), "JPEG", keep_rgb=True, progressive=progressive)


def exif(order, entries, skip=8):
    big = ">" if order == b"MM" else "<"
    body = b"".join(struct.pack(big + "HHI", tag, kind, count) + value for tag, kind, count, value in entries)
    return order + struct.pack(big + "HI", 42, skip) + b"\0" * (skip - 8) + struct.pack(big + "H", len(entries)) + body + struct.pack(big + "I", 0)


def turned(rng, size):
    """Orientations of every type and count; (name, EXIF)."""
    codes = {1: "B", 2: "B", 3: "H", 4: "I", 6: "b", 7: "B", 8: "h", 9: "i", 11: "f", 13: "I", 0: "H", 14: "I", 129: "B"}
    for kind, code in codes.items():
        for order in (b"II", b"MM"):
            n = int(rng.integers(2, 9))
            value = struct.pack((">" if order == b"MM" else "<") + code, n).ljust(4, b"\0")
            yield f"type{kind}_{order.decode()}", exif(order, [(274, kind, 1, value)])
    for n in (0, 9, 300, 65535):
        yield f"short_{n}", exif(b"II", [(274, 3, 1, struct.pack("<HH", n, 0))])
    for n in (0, 9, 65542, 0xFFFFFFFA):
        yield f"long_{n}", exif(b"II", [(274, 4, 1, struct.pack("<I", n))])
    yield "short_negative", exif(b"II", [(274, 8, 1, struct.pack("<hH", -3, 0))])
    yield "float_6.5", exif(b"II", [(274, 11, 1, struct.pack("<f", 6.5))])
    yield "count0", exif(b"II", [(274, 3, 0, struct.pack("<HH", 6, 0))])
    yield "count2", exif(b"II", [(274, 3, 2, struct.pack("<HH", 6, 3))])
    yield "twice", exif(b"II", [(274, 3, 1, struct.pack("<HH", 6, 0)), (274, 3, 1, struct.pack("<HH", 3, 0))])
    yield "twice_types", exif(b"II", [(274, 2, 1, b"6\0\0\0"), (274, 4, 1, struct.pack("<I", 3))])
    yield "text", exif(b"II", [(274, 2, 2, b"6\0\0\0")])
    yield "skipped", exif(b"MM", [(256, 4, 1, struct.pack(">I", 9)), (274, 4, 1, struct.pack(">I", 5))], skip=20)
    for kind, pair in ((5, (6, 1)), (5, (12, 2)), (5, (13, 2)), (10, (8, 1)), (10, (-3, -1)), (5, (6, 0))):
        raw = exif(b"II", [(274, kind, 1, struct.pack("<I", 26))])
        yield f"ratio{kind}_{pair[0]}_{pair[1]}", raw + struct.pack("<ii", *pair)
    yield "double", exif(b"II", [(274, 12, 1, struct.pack("<I", 26))]) + struct.pack("<d", 6)
    yield "outside", exif(b"II", [(274, 12, 1, struct.pack("<I", 2600))])
    yield "big", b"II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0" + struct.pack("<QHHQQQ", 1, 274, 3, 1, 6, 0)
    yield "cut", exif(b"II", [(274, 3, 1, struct.pack("<HH", 6, 0))])[:18]


def files(rng):
    def size():
        return int(rng.integers(1, 28)), int(rng.integers(1, 20))

    for name, raw in [*by_pillow(rng, size), *rewritten(rng, size)]:
        yield f"{name}.jpg", raw
    one = [(h, v) for h in (1, 2, 4) for v in (1, 2, 4)]
    chroma = [(1, 1), (2, 1), (1, 2), (2, 2)]
    n = 0
    frames = [[a] for a in one] + [[a, b, b] for a in one for b in chroma] + [[(2, 2), (1, 1), (2, 1)], [(2, 1), (1, 1), (2, 1)], [(3, 1), (1, 1), (1, 1)]]
    frames += [[a, b, b, c] for a, b, c in (((1, 1), (1, 1), (1, 1)), ((2, 2), (1, 1), (2, 2)), ((2, 1), (1, 1), (2, 1)), ((1, 2), (1, 1), (1, 2)))]
    frames += [[(1, 1), (1, 1)], [(2, 1), (1, 1)]]
    for factors in frames:
        for progressive, interleaved, restart in ((False, True, 0), (False, False, 2), (True, True, 0), (True, True, 3), (True, False, 1)):
            n += 1
            name = "_".join(f"{a}{b}" for a, b in factors) + ("_progressive" if progressive else "") + ("" if interleaved else "_apart") + f"_r{restart}"
            yield f"frame_{name}.jpg", jpeg(rng, size(), factors, progressive=progressive, interleaved=interleaved, restart=restart,
                                           adobe=None if n % 3 or len(factors) != 4 else 2, jfif=len(factors) != 4)
    for comps, ids, adobe, jfif in itertools.product((3, 4), (None, list(b"RGBA"), list(b"CMYK"), [0, 1, 2, 3], [1, 34, 35, 36]), (None, 0, 1, 2), (False, True)):
        text = "".join(map(str, ids or ()))
        yield f"colours_{comps}_{text}_{adobe}_{jfif}.jpg", jpeg(rng, (9, 7), [(1, 1)] * comps, ids=ids and ids[:comps], adobe=adobe, jfif=jfif)
    for comps, adobe in ((3, 0), (4, 0), (4, 2)):
        for restart in (0, 2):
            yield f"halved_{comps}_{adobe}_{restart}.jpg", jpeg(rng, size(), [(2, 2), (1, 1), (1, 1), (2, 2)][:comps], adobe=adobe, jfif=False,
                                                               progressive=True, restart=restart)
    for sof, depth in ((0xC1, 8), (0xC1, 12), (0xC9, 8), (0xCA, 8), (0xC3, 8)):
        yield f"sof{sof - 0xC0}_{depth}.jpg", jpeg(rng, (9, 7), [(1, 1)] * 3, sof=sof, depth=depth)
    base = jpeg(rng, (13, 6), [(1, 1)] * 3)
    for name, raw in turned(rng, size):
        yield f"orientation_{name}.jpg", base[:20] + segment(0xE1, b"Exif\0\0" + raw) + base[20:]
    short = exif(b"II", [(274, 3, 1, struct.pack("<HH", 6, 0))])
    long = exif(b"MM", [(274, 4, 1, struct.pack(">I", 8))])
    app = segment(0xE1, b"Exif\0\0" + short)
    xmp = segment(0xE1, b'http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation="3"/>')
    for name, extra in (("two", app + segment(0xE1, b"Exif\0\0" + long)), ("empty_first", segment(0xE1, b"Exif\0\0") + app), ("halves", segment(0xE1, b"Exif\0\0" + short[:15]) +
                        segment(0xE1, b"Exif\0\0" + short[15:])), ("doubled", segment(0xE1, b"Exif\0\0Exif\0\0" + short)), ("xmp", xmp), ("xmp_first", xmp + app),
                        ("xmp_twice", xmp + xmp.replace(b'"3"', b'"6"')), ("odd_exif_xmp", segment(0xE1, b"Exif\0\0" + exif(b"II", [(274, 2, 2, b"6\0\0\0")])) + xmp),
                        ("zero_exif_xmp", segment(0xE1, b"Exif\0\0" + exif(b"II", [(274, 3, 1, b"\0\0\0\0")])) + xmp), ("bad_exif_xmp", segment(0xE1, b"Exif\0\0XX") + xmp),
                        ("filled", b"\xff\xff" + app), ("comment", segment(0xFE, b"\xff\xd8\xff\xe1") + app), ("icc", segment(0xE2, b"ICC_PROFILE\0\1\1" + b"x" * 50))):
        yield f"segments_{name}.jpg", base[:20] + extra + base[20:]
    for factors in ([(2, 2), (1, 1), (1, 1)], [(2, 1), (1, 1), (1, 1)], [(1, 1)] * 3, [(2, 2), (1, 1), (1, 1), (2, 2)], [(1, 2), (1, 1), (1, 2)]):
        for groups in ([[0], [1, 2]], [[1, 2], [0]], [[2], [0, 1]], [[2], [1], [0]]):
            for progressive, restart in ((False, 0), (False, 1), (False, 3), (True, 0), (True, 2)):
                more = [[3]] if len(factors) == 4 else []
                name = f"{''.join(f'{a}{b}' for a, b in factors)}_{'_'.join(''.join(map(str, g)) for g in groups)}_{progressive}_{restart}"
                yield f"groups_{name}.jpg", jpeg(rng, size(), factors, progressive=progressive, restart=restart, groups=groups + more,
                                                 adobe=2 if more else None, jfif=not more)
    for factors in ([(1, 1)], [(1, 1)] * 3, [(2, 1), (1, 1), (1, 1)]):
        for but in sorted({1, len(factors), 2 * len(factors)}):
            yield f"missing{but}_{len(factors)}_{factors[0][0]}.jpg", jpeg(rng, (30, 21), factors, progressive=True, but=but)
    for i in range(8):  # Pillow reads only some of them, depending on its buffer
        yield f"no_end{i}.jpg", jpeg(rng, (8 * i + 3, 6), [(1, 1)] * 3)[:-2]
    yield "more_behind.jpg", base + b"more bytes \xff\xd8\xff"
    yield "two_pictures.jpg", base + jpeg(rng, (5, 4), [(1, 1)])
