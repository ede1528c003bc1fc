"""Pictures of any kind to bytes of a picture file."""

import io
import os
import struct
import sys
import zlib
from array import array

# The operation that turns a picture upright, by EXIF orientation: names of PIL.Image.Transpose.
_TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


def encode(picture, jpeg=None):
    """The bytes of a picture file, from a path, bytes, {"bytes", "path"} as in `datasets`, a PIL image, or a uint8
    [H, W, 3] array or tensor.

    Files are sent unchanged. Other pictures become PNG, which is lossless, or JPEG of quality `jpeg` if they are
    opaque. A PIL image scores as its file does, except for JPEG, which Assay and Pillow decode up to three levels
    apart: it keeps its transparency, and is turned upright by its EXIF orientation. Modes I and F are refused."""
    if isinstance(picture, (bytes, bytearray, memoryview)):
        return bytes(picture)
    if isinstance(picture, dict):
        if picture.get("bytes") is None and picture.get("path") is None:
            raise TypeError('a picture as a dict has "bytes" or "path"')
        picture = picture["path"] if picture.get("bytes") is None else picture["bytes"]
        return encode(picture, jpeg)
    if isinstance(picture, (str, os.PathLike)):
        with open(picture, "rb") as f:
            return f.read()
    pil = sys.modules.get("PIL.Image")
    if pil and isinstance(picture, pil.Image):
        return _file(_plain(picture), jpeg)
    if hasattr(picture, "detach") and hasattr(picture, "cpu"):  # torch; files also have detach
        picture = picture.detach().cpu().contiguous()
    shape, kind = tuple(getattr(picture, "shape", ())), str(getattr(picture, "dtype", "")).rpartition(".")[2]
    if len(shape) != 3 or shape[2] != 3 or kind != "uint8":
        raise TypeError(
            "a picture is a path, bytes, a PIL image or uint8 [H, W, 3], "
            f"not {type(picture).__name__}" + (f" {kind} {list(shape)}" if shape else "")
        )
    raw = (picture.numpy() if hasattr(picture, "numpy") else picture).tobytes()
    try:
        from PIL import Image
    except ImportError:
        if jpeg:
            raise ImportError("JPEG is written by Pillow: pip install pillow") from None
        return png(raw, shape[1], shape[0])
    return _file(Image.frombytes("RGB", (shape[1], shape[0]), raw), jpeg)


def _plain(picture):
    """A PIL image as one of mode L, RGB, RGBA or I;16, upright."""
    picture.load()  # reads what follows the pixels, and rotates a TIFF
    mode, info, turn = picture.mode, picture.info, _TURNS.get(_orientation(picture))
    if mode in ("I", "F"):
        raise ValueError(
            f"a PIL image of mode {mode} has no 8-bit levels, and is refused, as its file would be: "
            "scale it to 0..255 and convert it to L"
        )
    palette = picture.palette.mode if mode == "P" and picture.palette else ""
    keyed = mode in ("1", "L", "P", "RGB") and info.get("transparency") is not None
    if mode.startswith("I;16"):  # as 16-bit PNG, which the server treats like such a file
        plain = _sixteen(picture)
    elif keyed or palette.endswith("A") or mode in ("LA", "La", "PA", "RGBA", "RGBa"):
        plain = (picture.convert("LA") if mode == "La" else picture).convert("RGBA")
    else:
        plain = picture.convert("L" if mode in ("1", "L") else "RGB")
    plain.info = {"transparency": info["transparency"]} if mode.startswith("I;16") and "transparency" in info else {}
    if turn:
        from PIL import Image

        plain = plain.transpose(getattr(getattr(Image, "Transpose", Image), turn))
    return plain


def _orientation(picture):
    try:
        return int(picture.getexif().get(0x0112, 1))
    except Exception:  # damaged EXIF raises many kinds of errors in Pillow: upright, as in the file
        return 1


def _sixteen(picture):
    """A PIL image of mode I;16 (little endian), from any I;16 mode."""
    from PIL import Image

    levels = array("H", picture.tobytes())
    if (picture.mode[4:] or "L") not in ("N", sys.byteorder[0].upper()):
        levels.byteswap()
    if sys.byteorder == "big":
        levels.byteswap()
    return Image.frombytes("I;16", picture.size, levels.tobytes())


def _file(image, jpeg):
    out = io.BytesIO()
    if jpeg and image.mode in ("L", "RGB"):
        image.save(out, "JPEG", quality=jpeg, subsampling=0)
    else:  # run-length matches only: half the bytes of level 1 without a filter, in less time
        image.save(out, "PNG", compress_level=1, compress_type=zlib.Z_RLE)
    return out.getvalue()


def png(rgb, width, height):
    """A PNG of 8-bit RGB rows, where there is no Pillow."""

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
