"""Requests and answers of the bridge: pickles of plain data."""

import base64
import io
import json
import os
import pickle

from .pictures import encode, png

_CLASSES = (
    {("builtins", n) for n in ("dict", "list", "tuple", "set", "frozenset", "str", "int", "float", "bool", "complex")}
    | {("collections", "OrderedDict")}
    | {(m + ".multiarray", "scalar") for m in ("numpy.core", "numpy._core")}
    | {("numpy", "ndarray"), ("numpy", "dtype")}
    | {("numpy._core.numeric", "_frombuffer"), ("numpy.core.numeric", "_frombuffer")}
)


class _Picture:
    """A pickled PIL image: its data, without running code."""

    def __setstate__(self, state):
        self.info, self.mode, self.size, self.palette, self.data = state[:5]

    def file(self):
        """The bytes of a picture file with the same content: see `encode`."""
        told = ("transparency", "exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif")
        info = {k: v for k, v in dict(self.info).items() if k in told and isinstance(v, (int, str, bytes, tuple))}
        width, height = self.size
        if not 0 < width * height <= 8 * len(self.data):  # before memory is allocated
            raise ValueError(f"a PIL image of {width} x {height} pixels with {len(self.data)} bytes")
        try:
            from PIL import Image
        except ImportError:
            if self.mode == "RGB" and not info and len(self.data) == 3 * width * height:
                return png(self.data, width, height)
            raise ValueError("a PIL image that is not plain RGB needs Pillow in the bridge: pip install pillow")
        image = Image.frombytes(self.mode, (width, height), bytes(self.data))
        if self.palette:
            image.putpalette(self.palette)
        image.info = info
        return encode(image)


class _Text(str):
    """A text chunk of a PNG file."""

    def __new__(cls, text="", *_):
        return str.__new__(cls, text)


class _Nothing:
    """Other values of an image's `info`, such as its resolution: ignored."""

    def __new__(cls, *_):
        return object.__new__(cls)

    def __init__(self, *_):
        pass

    def __setstate__(self, _):
        pass


def _bytes(*args):
    """bytes(..), but not bytes(10**12)."""
    if args and not isinstance(args[0], (bytes, bytearray, str, list, tuple)):
        raise pickle.UnpicklingError("bytes of a number are not allowed")
    return bytes(*args)


def _bytearray(*args):
    return bytearray(_bytes(*args))


def _latin1(text, encoding="latin1"):
    """Bytes in pickles of old protocols."""
    return text.encode("latin1")


def _array(kind, shape, code):
    """An empty NumPy array, which is filled afterwards."""
    import numpy

    if tuple(shape) != (0,):
        raise pickle.UnpicklingError(f"an array of shape {shape} without content is not allowed")
    return numpy.ndarray.__new__(numpy.ndarray, shape, code)


_INSTEAD = {
    ("builtins", "bytes"): _bytes,
    ("builtins", "bytearray"): _bytearray,
    ("_codecs", "encode"): _latin1,
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("numpy._core.multiarray", "_reconstruct"): _array,
    ("PIL.PngImagePlugin", "iTXt"): _Text,
    ("PIL.TiffImagePlugin", "IFDRational"): _Nothing,
    ("fractions", "Fraction"): _Nothing,
}


class _Plain(pickle.Unpickler):
    def find_class(self, module, name):
        if module.startswith("PIL.") and (name == "Image" or name.endswith("ImageFile")):
            return _Picture
        if (module, name) in _INSTEAD:
            return _INSTEAD[module, name]
        if (module, name) not in _CLASSES:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return super().find_class(module, name)


def loads(raw):
    """pickle.loads of plain data, NumPy arrays and PIL images only."""
    return _Plain(io.BytesIO(raw)).load()


def pairs(payload, root=None):
    """(source, instruction, edit) of each picture of a request, as bytes of files. Paths are read only below `root`."""
    if "output_image" in payload:
        return _editscore(payload, root)
    files = _Files(root)
    images = [files.of(i) for i in payload["images"]]
    prompts, own = prompts_of(payload.get("prompts", []))
    metadata = payload.get("metadata")
    rows = payload.get("metadatas", payload.get("meta_datas"))
    rows = [] if rows is None else list(rows)
    sources = payload.get("ref_images")
    if sources is None and isinstance(metadata, dict):
        sources = metadata.get("ref_images")
    if sources is None and rows and all(isinstance(r, dict) and "ref_image" in r for r in rows):
        sources = [r["ref_image"] for r in rows]
    if sources is None:
        if not own or any(s is None for s in own):
            raise ValueError(
                "no sources: ref_images, metadata['ref_images'], metadatas[i]['ref_image'], "
                "or prompts as JSON with instruction and source are needed"
            )
        sources = own
    else:
        for i, s in enumerate(own):
            if s is not None:
                raise ValueError(f"prompts[{i}] has its own source, but there are ref_images as well: send one of them")
    sources = [files.source(s) for s in sources]
    if len(images) == len(sources) < len(prompts):
        prompts = _part(prompts, len(images))
    if not len(images) == len(prompts) == len(sources):
        raise ValueError(f"{len(images)} images, {len(prompts)} prompts, {len(sources)} sources")
    return list(zip(sources, prompts, images))


def prompts_of(prompts):
    """The instructions that prompts are or, as JSON, have; and the source that each of them has, or None."""
    if not isinstance(prompts, (list, tuple)) and not getattr(prompts, "shape", ()):
        raise ValueError(f"prompts: a list of texts is wanted, not {type(prompts).__name__}")
    instructions, sources = [], []
    for i, prompt in enumerate(prompts):
        if not isinstance(prompt, str):
            raise ValueError(f"prompts[{i}]: want a text, not {type(prompt).__name__}")
        try:
            told = json.loads(prompt) if prompt.lstrip().startswith("{") else {}
        except ValueError:  # a text that starts with a brace
            told = {}
        instruction, source = told.get("instruction"), told.get("source", told.get("source_img"))
        if instruction is None and source is None:
            instruction = str(prompt)
        if not isinstance(instruction, str):
            raise ValueError(f"prompts[{i}]: its instruction must be a text, not {type(instruction).__name__}")
        instructions.append(instruction)
        sources.append(source)
    return instructions, sources


def _part(prompts, n, most=64):
    """The prompts of a part of n images. Edit-R1 splits with numpy.array_split into parts of at most 64, and sends all
    prompts with each. If the parts of this size have different prompts, the part is ambiguous."""
    count = -(-len(prompts) // most)
    sizes = [len(prompts) // count + (i < len(prompts) % count) for i in range(count)]
    parts = {tuple(prompts[sum(sizes[:i]) : sum(sizes[: i + 1])]) for i, size in enumerate(sizes) if size == n}
    if len(parts) != 1:
        raise ValueError(
            f"{len(prompts)} prompts came with {n} images, and it is unclear which belong to them: "
            f"call the reward with at most {most} images at a time, or send only the prompts of the part"
        )
    return list(parts.pop())


def _editscore(payload, root):
    """EditScore's format: PIL images, one source for each edit."""
    edits, sources, rows = payload["output_image"], payload["input_images"], _rows(payload)
    if not len(edits) == len(sources) == len(rows):
        raise ValueError(f"{len(edits)} output images, {len(sources)} lists of input images, {len(rows)} meta data")
    out, files = [], _Files(root)
    for i, (source, row, edit) in enumerate(zip(sources, rows, edits)):
        if isinstance(source, (list, tuple)) and not source:
            raise ValueError(f"edit {i} has no input image")
        if not isinstance(row, dict) or not isinstance(row.get("instruction"), str):
            raise ValueError(f"meta data {i} has no instruction")
        out.append((files.source(source), row["instruction"], files.of(edit)))
    return out


def _rows(payload):
    rows = payload["meta_datas"] if "meta_datas" in payload else payload["meta_data"]
    return [json.loads(r) if isinstance(r, str) else r for r in rows]


class _Files:
    """Pictures as bytes of files. A picture that occurs several times is encoded once."""

    def __init__(self, root):
        self.root, self.known = root and os.path.realpath(root), {}

    def of(self, picture):
        if id(picture) not in self.known:
            self.known[id(picture)] = picture, self.read(picture)  # held, so that its id is not reused
        return self.known[id(picture)][1]

    def source(self, picture):
        """One picture, or a list of several."""
        if isinstance(picture, (list, tuple)):
            several = [self.of(p) for p in picture]
            return several[0] if len(several) == 1 else several
        return self.of(picture)

    def read(self, picture):
        if isinstance(picture, _Picture):
            return picture.file()
        if isinstance(picture, dict):
            raw = picture.get("bytes")
            return self.read(picture.get("path") if raw is None else raw)
        if isinstance(picture, str):
            return self.named(picture)
        if isinstance(picture, (bytes, bytearray, memoryview)) or hasattr(picture, "dtype"):
            return encode(picture)
        raise ValueError(f"a picture is the bytes of a file or a PIL image, not {type(picture).__name__}")

    def named(self, text):
        """A file below the root, or base64."""
        if self.root and len(text) < 4096:  # a path; longer base64 would take seconds to look up
            path = os.path.realpath(os.path.join(self.root, text)) if "\0" not in text else ""
            if os.path.commonpath([self.root, path or "/"]) == self.root and os.path.isfile(path):
                return encode(path)
        try:
            return base64.b64decode(text, validate=True)
        except ValueError:
            where = f"below {self.root}" if self.root else "only with --source-root DIR"
            raise ValueError(f"a picture is base64, or the path of a file; files are read {where}") from None


def score(client, payload, root=None, on_error="raise"):
    """Scores of a request on 0 to 1, in order. `on_error`: for edits that could not be judged (see failures)."""
    return client.scores(pairs(payload, root), score01=True, on_error=on_error)


def answer(client, path, payload, root=None, on_error="raise"):
    """The answer to a trainer."""
    if not isinstance(payload, dict):
        raise ValueError(f"want a dict, not {type(payload).__name__}")
    rewards = score(client, payload, root, on_error)
    if "output_image" not in payload:
        return {"outputs" if path.rstrip("/") == "/flow_grpo" else "scores": rewards}
    rows = _rows(payload)
    # As EditScore's own server does; None and NaN stay as they are.
    scores = [r if r is None or r != r else 1.0 if r >= 0.5 else 0.0 for r in rewards]
    if "meta_datas" not in payload:  # its proxy calls its workers with another key, and expects a list
        return [
            {"score": s, "reward": r, "strict_reward": r, "reasoning": "", "meta_data": m}
            for s, r, m in zip(scores, rewards, rows)
        ]
    return {
        "scores": scores,
        "rewards": rewards,
        "strict_rewards": rewards,
        "reasoning": [""] * len(rewards),
        "meta_data": rows,
        "group_rewards": {},
        "group_strict_rewards": {},
    }
