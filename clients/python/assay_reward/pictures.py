"""Pictures of any kind to bytes of a picture file."""

import os
import struct
import zlib


def encode(picture):
    """PNG (or the file's own format) bytes of a path, bytes, PIL image, or uint8 [H, W, 3] array or tensor."""
    if isinstance(picture, (bytes, bytearray, memoryview)):
        return bytes(picture)
    if isinstance(picture, (str, os.PathLike)):
        with open(picture, "rb") as f:
            return f.read()
    if hasattr(picture, "tobytes") and hasattr(picture, "convert"):  # PIL
        rgb = picture.convert("RGB")
        return png(rgb.tobytes(), *rgb.size)
    if hasattr(picture, "detach"):  # torch
        picture = picture.detach().cpu().contiguous()
    shape, kind = tuple(getattr(picture, "shape", ())), str(getattr(picture, "dtype", "")).rpartition(".")[2]
    if len(shape) != 3 or shape[2] != 3 or kind != "uint8":
        raise TypeError(
            "a picture is a path, bytes, a PIL image or uint8 [H, W, 3], "
            f"not {type(picture).__name__} {kind} {list(shape)}"
        )
    raw = picture.numpy() if hasattr(picture, "numpy") else picture
    return png(raw.tobytes(), shape[1], shape[0])


def png(rgb, width, height):
    """A PNG of 8-bit RGB rows. Lossless: JPEG would change the score."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    stride = 3 * width
    rows = b"".join(b"\0" + rgb[y * stride : (y + 1) * stride] for y in range(height))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows, 1))
        + chunk(b"IEND", b"")
    )
