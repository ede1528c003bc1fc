"""data/testdata/metadata.zip: pictures with the orientation in rare places, and how Pillow rotates them.

    python tools/oracle/data_metadata.py        # from the repository's root

metadata.json: file -> {size, sha256 of the RGB bytes}. All files are lossless.
"""
import hashlib
import io
import json
import struct
import zlib
from pathlib import Path

from PIL import Image, ImageOps

from pack import pack

OUT = Path("data/testdata/metadata")
PICTURE = Image.open("testdata/oracle/images/coffee.png").convert("RGB").resize((9, 6), Image.BICUBIC)


def exif(n, order="<"):
    """A TIFF header and a directory with an unrelated tag, the width, and the orientation."""
    head = b"II*\0" if order == "<" else b"MM\0*"
    tags = [(0x0100, 4, 1, 9), (0x0112, 3, 1, n)]
    body = b"".join(struct.pack(order + "HHI", *t[:3]) + (struct.pack(order + "I", t[3]) if t[1] == 4 else
                    struct.pack(order + "HH", t[3], 0)) for t in tags)
    return head + struct.pack(order + "IH", 8, len(tags)) + body + struct.pack(order + "I", 0)


def xmp(n):
    return f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="{n}"/></x:xmpmeta>'.encode()


def profile(raw, name="exif"):
    digits = raw.hex()
    lines = "\n".join(digits[i:i + 72] for i in range(0, len(digits), 72))
    return f"\n{name}\n{len(raw):8}\n{lines}\n".encode()


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def text(key, value):
    return chunk(b"tEXt", key + b"\0" + value)


def packed(key, value):
    return chunk(b"zTXt", key + b"\0\0" + zlib.compress(value))


def international(key, value, compress=False):
    return chunk(b"iTXt", key + b"\0" + bytes([compress, 0]) + b"en\0" + b"a key\0" + (zlib.compress(value) if compress else value))


def png(before=b"", after=b""):
    buffer = io.BytesIO()
    PICTURE.save(buffer, format="PNG")
    raw = buffer.getvalue()
    pixels, end = raw.index(b"IDAT") - 4, raw.index(b"IEND") - 4
    return raw[:pixels] + before + raw[pixels:end] + after + raw[end:]


def webp(*chunks, flags=None):
    """Lossless; flags is the byte of the header's VP8X, None for a file without one."""
    buffer = io.BytesIO()
    PICTURE.save(buffer, format="WEBP", lossless=True)
    image = buffer.getvalue()[12:]
    head = b"" if flags is None else b"VP8X" + struct.pack("<IB3x", 10, flags) + struct.pack("<I", 8)[:3] + struct.pack("<I", 5)[:3]
    body = head + image + b"".join(k + struct.pack("<I", len(v)) + v + b"\0" * (len(v) % 2) for k, v in chunks)
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


RAW, XMP = b"Raw profile type exif", b"XML:com.adobe.xmp"
JFIF = b"Exif\0\0"
FILES = {
    "profile.png": png(text(RAW, profile(JFIF + exif(6)))),
    "profile_bare.png": png(text(RAW, profile(exif(8, ">")))),
    "profile_packed.png": png(packed(RAW, profile(JFIF + exif(5)))),
    "profile_international.png": png(international(RAW, profile(JFIF + exif(7)))),
    "profile_international_packed.png": png(international(RAW, profile(JFIF + exif(3)), True)),
    "profile_behind.png": png(after=text(RAW, profile(JFIF + exif(2)))),
    "profile_twice.png": png(text(RAW, profile(JFIF + exif(2))) + packed(RAW, profile(JFIF + exif(4)))),
    "profile_and_chunk.png": png(text(RAW, profile(JFIF + exif(6))) + chunk(b"eXIf", exif(3))),
    "profile_and_xmp.png": png(text(RAW, profile(JFIF + exif(6))) + international(XMP, xmp(3))),
    "profile_of_another.png": png(text(b"Raw profile type iptc", profile(JFIF + exif(6), "iptc"))),
    "profile_doubled.png": png(chunk(b"eXIf", JFIF + exif(6))),
    "profile_app1.png": png(text(b"Raw profile type APP1", profile(JFIF + exif(6), "APP1"))),
    "xmp_packed.png": png(international(XMP, xmp(6), True)),
    "xmp_text.png": png(text(XMP, xmp(8))),
    "chunk_behind.png": png(after=chunk(b"eXIf", exif(6))),
    "chunk_twice.png": png(chunk(b"eXIf", exif(6)), chunk(b"eXIf", exif(3))),
    "announced.webp": webp((b"EXIF", exif(6)), flags=8),
    "unannounced.webp": webp((b"EXIF", exif(6)), flags=0),
    "simple.webp": webp((b"EXIF", exif(6))),
    "xmp.webp": webp((b"XMP ", xmp(6)), flags=4),
    "xmp_unannounced.webp": webp((b"XMP ", xmp(6)), flags=8),
    "xmp_beside_unannounced.webp": webp((b"EXIF", exif(6)), (b"XMP ", xmp(8)), flags=4),
    "twice.webp": webp((b"EXIF", exif(6)), (b"EXIF", exif(3)), flags=8),
    "prefixed.webp": webp((b"EXIF", JFIF + exif(5)), flags=8),
}


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    expect = {}
    for name, raw in sorted(FILES.items()):
        (OUT / name).write_bytes(raw)
        im = ImageOps.exif_transpose(Image.open(OUT / name)).convert("RGB")
        expect[name] = {"size": list(im.size), "sha256": hashlib.sha256(im.tobytes()).hexdigest()}
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in expect.items())
    Path("data/testdata/metadata.json").write_text("{\n" + lines + "\n}\n")
    pack(OUT, "data/testdata/metadata.zip")


main()
