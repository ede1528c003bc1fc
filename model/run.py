"""Scores an edit with the exported graphs next to this file, as `score pair` does, without Assay.

    pip install numpy pillow onnxruntime tokenizers
    python run.py --source before.png --edit after.png --instruction "make it brighter"

In a program: `from run import score; score("before.png", "make it brighter", "after.png")`. graphs.json
describes the judge. JPEG pictures may score slightly differently from Assay, which has its own decoder.
"""
import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read when onnxruntime is imported

import argparse
import functools
import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image, ImageOps
from tokenizers import Tokenizer

HERE = Path(__file__).resolve().parent
GRAPHS = json.loads((HERE / "graphs.json").read_text(encoding="utf-8"))
JUDGE, PROCESSOR = GRAPHS["judge"], GRAPHS["processor"]
QWEN = PROCESSOR["model_type"] != "llava_next"
PROVIDERS = ["CPUExecutionProvider"]  # for onnxruntime


def score(source, instruction, edit, requirement=""):
    """The score of an edit. Pictures are paths or PIL images; source is None for a judge of one picture."""
    return judge(source, instruction, edit, requirement)["score"]


def judge(source, instruction, edit, requirement=""):
    """What `score pair --json` prints for an edit, except raw01, interval, and probabilities of dimensions."""
    p = only_pass()
    if isinstance(source, (list, tuple)):
        raise NotImplementedError(f"{len(source)} sources: an export takes one, so use `score pair` of Assay")
    pictures = [qwen_patches(x) if QWEN else llava_tiles(x) for x in show(p, source, edit)]
    feeds = qwen_feeds(pictures) if QWEN else llava_feeds(pictures)
    feeds["pixel_values"] = np.concatenate([x["pixels"] for x in pictures])
    ids, starts, at = tokenise(p, instruction, requirement, pictures)
    feeds = sequence(p, ids, starts, pictures, at) | run("vision.onnx", feeds)
    out = run("score.onnx", feeds)
    low, high = JUDGE["score_range"] or (0, 1)
    score01 = float(out["score01"][0])
    if not math.isfinite(score01):
        raise ValueError(f"the score is {score01}")
    said = {"score": low + (high - low) * score01, "score_range": JUDGE["score_range"]}
    if JUDGE["score_range"]:
        said["score01"] = score01
    if "sigma01" in out:
        said["sigma"] = abs(high - low) * float(out["sigma01"][0])
    for h in filter(None, sorted(p["heads"])):
        head = JUDGE["heads"][h]
        if "names" in head:  # unordered classes have no score
            said.setdefault("dimensions", {})[h] = {"class": head["names"][int(out[f"head.{h}"][0].argmax())]}
            continue
        value = float(out.get(f"calibrated.{h}", out[f"score01.{h}"])[0])
        d = said.setdefault("dimensions", {})[h] = {"score": low + (high - low) * value}
        if head["outputs"] == "mu_sigma" and f"calibrated.{h}" not in out:
            scale = head.get("scale", (0, 1))
            d["sigma"] = abs(high - low) * math.exp(out[f"head.{h}"][0, 1]) / abs(scale[1] - scale[0])
    return said


def only_pass():
    """The pass of the judge, unless it is one that this program cannot run."""
    p, lacking = JUDGE["passes"][0], None
    if len(JUDGE["passes"]) > 1:
        lacking = f"{len(JUDGE['passes'])} passes, whose outputs fusion.onnx combines"
    elif p.get("steps"):
        lacking = "steps: the model answers before its state is read"
    elif any(JUDGE["heads"][h].get("joint") for h in p["heads"]):
        lacking = "joint choices of several tokens"
    elif not p.get("text"):
        lacking = "text: the chat template changes the instruction"
    if lacking:
        raise NotImplementedError(f"run.py cannot run this judge: {lacking}. Use Assay, or see docs/graphs.md")
    return p


@functools.cache
def session(file):
    return onnxruntime.InferenceSession(str(HERE / file), providers=PROVIDERS)


def run(file, feeds):
    """The outputs of a graph by name; it takes its inputs from feeds."""
    s = session(file)
    return dict(zip([o.name for o in s.get_outputs()], s.run(None, {i.name: feeds[i.name] for i in s.get_inputs()})))


# Pictures.


def picture(file):
    """RGB, upright, as in transformers' convert_to_rgb: over white, or with the alpha channel dropped."""
    im = ImageOps.exif_transpose(file if isinstance(file, Image.Image) else Image.open(file))
    if im.mode[0] in "IF":
        raise ValueError(f"{file}: grey of mode {im.mode}: convert it to 8 bits")
    if JUDGE["alpha"] == "drop" or "A" not in im.getbands() and im.info.get("transparency") is None:
        return im.convert("RGB")
    im = im.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", im.size, "white"), im).convert("RGB")


def resize(im, width, height):
    return im.resize((width, height), Image.Resampling.BICUBIC)


def show(p, source, edit):
    """The pictures of a pass, each a list of frames."""
    way = p["pictures"][0]
    names = ["source", "edit"] if way in ("concat", "frames") else p["pictures"]
    if (source is None) == ("source" in names):
        raise ValueError(f"this judge is shown {' and '.join(names)}")
    shown = []
    for name in names:
        im = picture(source if name == "source" else edit)
        if limits := JUDGE.get("pixels"):
            im = resize(im, *limited(im, limits["factor"], limits["least"], limits["most"], 1))
        if size := JUDGE.get("pair_size"):
            im = resize(im, size[1], size[0])
        shown.append(im)
    if way == "frames":
        return [[shown[0], resize(shown[1], *shown[0].size)]]
    if way == "concat":
        left, right = shown
        if right.height != left.height:
            right = resize(right, max(1, round(right.width * left.height / right.height)), left.height)
        both = Image.new("RGB", (left.width + right.width, left.height))
        both.paste(left, (0, 0))
        both.paste(right, (left.width, 0))
        return [[both]]
    return [[im] for im in shown]


def limited(im, factor, least, most, judges):
    """Width and height in multiples of factor, near the picture's aspect ratio, with a number of pixels in the limits:
    transformers' smart_resize (judges = 0) or EditReward's and HPSv3's (1), which differ for thin pictures."""
    if max(im.size) > 200 * min(im.size):
        raise ValueError(f"a picture of {im.width}x{im.height} pixels: aspect ratios of at most 200:1 are supported")
    size = [max(judges, round(x / factor)) for x in im.size]
    if math.prod(size) * factor**2 > most:
        beta = math.sqrt(im.width * im.height / most)
        size = [max(1 - judges, math.floor(x / beta / factor)) for x in im.size]
    elif math.prod(size) * factor**2 < least:
        beta = math.sqrt(least / (im.width * im.height))
        size = [math.ceil(x * beta / factor) for x in im.size]
    if min(size) < 1:
        raise ValueError(f"a picture of {im.width}x{im.height} pixels has no size in multiples of {factor}")
    return [x * factor for x in size]


def normalise(im):
    """[3, height, width] float32."""
    mean, std = (np.array(PROCESSOR[k], np.float32) for k in ("image_mean", "image_std"))
    return (((np.asarray(im, np.float64) / 255).astype(np.float32) - mean) / std).transpose(2, 0, 1)


# Inputs of the vision tower. A prepared picture has its pixels, its tokens as a grid, and their number.


def qwen_patches(frames):
    """pixels [patches, 3 * frames * p * p]: the patches of a token are consecutive, tokens row by row."""
    patch, merge, depth = (PROCESSOR[k] for k in ("patch_size", "merge_size", "temporal_patch_size"))
    size = limited(frames[0], patch * merge, PROCESSOR["min_pixels"], PROCESSOR["max_pixels"], 0)
    x = np.stack([normalise(resize(f, *size)) for f in frames])
    if len(frames) == 1:
        x = x.repeat(depth, 0)  # one picture fills all frames
    cols, rows = (n // patch // merge for n in size)  # in tokens
    x = x.reshape(depth, 3, rows, merge, patch, cols, merge, patch).transpose(2, 5, 3, 6, 1, 0, 4, 7)
    grid = np.arange(rows * cols).reshape(rows, cols)
    return {"pixels": x.reshape(rows * cols * merge**2, -1), "grid": grid, "tokens": grid.size}


def qwen_feeds(pictures):
    merge, unit = PROCESSOR["merge_size"], PROCESSOR["merge_size"]**2
    window = PROCESSOR.get("window_size", 0) // merge // PROCESSOR["patch_size"]  # edge in tokens
    side = math.isqrt(PROCESSOR.get("num_position_embeddings", 0))  # of Qwen3-VL's position table
    places, windows, table_rows, weights, first = [], [], [], [], 0
    for p in pictures:
        rows, cols = p["grid"].shape
        at = np.indices((rows * merge, cols * merge)).reshape(2, rows, merge, cols, merge).transpose(0, 1, 3, 2, 4)
        places.append(at.reshape(2, -1))  # row and column of each patch
        if side:  # the four rows of the table around each patch
            (y, v), (x, u) = (near(at, n * merge, side) for at, n in zip(places[-1], (rows, cols)))
            table_rows.append((y[:, :, None] * side + x[:, None]).reshape(-1, 4))
            weights.append((v[:, :, None] * u[:, None]).reshape(-1, 4, 1))
        if window:
            windows += [first + p["grid"][y:y + window, x:x + window].ravel()
                        for y in range(0, rows, window) for x in range(0, cols, window)]
        first += p["tokens"]
    places = np.concatenate(places, 1)
    feeds = segments("picture", [p["tokens"] * unit for p in pictures]) | {"patch_positions": places}
    if window:  # Qwen2.5-VL: in the tower patches are ordered window by window
        order = np.concatenate(windows)
        patches = (order[:, None] * unit + np.arange(unit)).ravel()
        feeds |= segments("window", [w.size * unit for w in windows])
        feeds |= {"patch_order": patches, "feature_order": np.argsort(order), "patch_positions": places[:, patches]}
    if side:
        feeds |= {"table_rows": np.concatenate(table_rows), "table_weights": np.concatenate(weights)}
    return feeds


def near(at, n, side):
    """Maps places, of n, to an axis of a position table: two neighbours and their weights, [places, 2]."""
    x = at.astype(np.float32) * np.float32(side - 1) / np.float32(max(n - 1, 1))
    low = x.astype(np.int64)
    first = 1 - (x - low.astype(np.float32))
    return np.minimum(np.stack([low, low + 1], 1), side - 1), np.stack([first, 1 - first], 1)


def segments(name, lengths):
    """Places of each segment, padded to the longest with unused numbers, and the index of each place in them."""
    real = np.arange(max(lengths)) < np.array(lengths)[:, None]
    rows = np.empty(real.shape, np.int64)
    rows[real] = np.arange(real.sum())
    rows[~real] = real.sum() + np.arange((~real).sum())
    return {f"{name}_rows": rows, f"{name}_back": np.flatnonzero(real)}


def llava_tiles(frames):
    """pixels [tiles, 3, S, S]: the whole picture, then the grid's tiles row by row, black around the picture."""
    im, s, side = frames[0], PROCESSOR["image_size"], PROCESSOR["image_size"] // PROCESSOR["patch_size"]
    w, h = im.size

    def kept(grid):  # most pixels of the picture kept by a grid, then fewest pixels wasted
        scale = min(grid[1] / w, grid[0] / h)
        shown = min(int(w * scale) * int(h * scale), w * h)
        return shown, shown - grid[0] * grid[1]

    gh, gw = max(PROCESSOR["image_grid_pinpoints"], key=kept)
    size = (gw, min(math.ceil(h * (gw / w)), gh)) if gw / w < gh / h else (min(math.ceil(w * (gh / h)), gw), gh)
    canvas = Image.new("RGB", (gw, gh))
    canvas.paste(resize(im, *size), ((gw - size[0]) // 2, (gh - size[1]) // 2))
    tiles = [resize(im, s, s)] + [canvas.crop((x, y, x + s, y + s)) for y in range(0, gh, s) for x in range(0, gw, s)]
    grid = np.arange(gh // s * side * gw // s * side).reshape(gh // s, gw // s, side, side).transpose(0, 2, 1, 3)
    grid = grid.reshape(gh // s * side, gw // s * side)  # of features, without those of the first tile
    rows, cols = grid.shape
    if w / h > cols / rows:  # features on padding are cut off (transformers' unpad_image)
        cut = (rows - int(round(h * (cols / w) * 1e7) / 1e7)) // 2
        grid = grid[cut:rows - cut]
    else:
        cut = (cols - int(round(w * (rows / h) * 1e7) / 1e7)) // 2
        grid = grid[:, cut:cols - cut]
    return {"pixels": np.stack([normalise(t) for t in tiles]), "grid": grid, "tokens": side**2 + grid.size + len(grid)}


def llava_feeds(pictures):
    """Rows of concat(features of all tiles, newline rows) at each image token."""
    tile = (PROCESSOR["image_size"] // PROCESSOR["patch_size"])**2
    order, first = [], 0
    newline = features = tile * sum(len(p["pixels"]) for p in pictures)
    for p in pictures:
        ends = newline + np.arange(len(p["grid"]))[:, None]  # a newline after each row
        order += [first + np.arange(tile), np.hstack([first + tile + p["grid"], ends]).ravel()]
        first, newline = first + tile * len(p["pixels"]), newline + len(p["grid"])
    return {"feature_order": np.concatenate(order)}


# Tokens.


@functools.cache
def tokenizer():
    """The checkpoint's tokenizer with the score token, and the texts of its special tokens by id."""
    file = json.loads((HERE / "tokenizer.json").read_text(encoding="utf-8"))
    added, token = file.get("added_tokens") or [], JUDGE["passes"][0].get("token")
    known = [a for a in added if a["content"] == token]
    if token and (JUDGE["adds_token"] or not known):
        added = [a for a in added if a["content"] != token]
        new = known[0]["id"] if known else max((a["id"] + 1 for a in added), default=0)
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        added.append({"id": new, "content": token, "special": True} | flags)
    t = Tokenizer.from_str(json.dumps(file | {"added_tokens": added, "truncation": None, "padding": None}))
    return t, {t.token_to_id(a["content"]): a["content"] for a in added if a["special"] or a["content"] == token}


def encode(p, instruction, requirement):
    """Token ids of the prompt and the answer about an edit."""
    strip = {"left": str.lstrip, "right": str.rstrip, "both": str.strip}.get(p.get("strip"), str)
    marks = {"[INSTRUCTION]": strip(instruction), "[REQUIREMENT]": strip(requirement)}
    text = re.sub(r"\[INSTRUCTION\]|\[REQUIREMENT\]", lambda m: marks[m[0]], p["text"])
    return tokenizer()[0].encode(text, add_special_tokens=p["special_tokens"]).ids


def tokenise(p, instruction, requirement, pictures):
    """The ids with each picture's placeholder repeated, where each picture begins, and the row whose state is read."""
    special = tokenizer()[1]
    if JUDGE["adds_token"] and not instruction.strip():
        raise ValueError("the instruction is empty")
    if requirement and "[REQUIREMENT]" not in p["prompt"]:
        raise ValueError("this judge does not ask for a requirement")
    ids, usual = encode(p, instruction, requirement), encode(p, "x", "x")
    for i, token in special.items():
        if token in instruction + "\n" + requirement or ids.count(i) != usual.count(i):
            raise ValueError(f"the instruction contains or forms {token!r}, a special token of this model")
    out, starts = [], []
    for i in ids:
        if i == PROCESSOR["image_token_id"]:
            starts.append(len(out))
            out += [i] * pictures[len(starts) - 1]["tokens"]
        else:
            out.append(i)
    if len(ids) - len(pictures) > PROCESSOR["max_position_embeddings"]:
        raise ValueError("the text is longer than the model's max_position_embeddings: shorten the instruction")
    if p["position"] == "last":
        return out, starts, len(out) - 1
    return out, starts, out.index(tokenizer()[0].token_to_id(p["token"])) - (p["position"] == "before")


def sequence(p, ids, starts, pictures, at):
    """The inputs of score.onnx for one sequence, which ends with the row that is read."""
    positions = rotary(len(ids), starts, pictures)
    if positions.max() > PROCESSOR.get("max_position", math.inf):
        raise ValueError("the sequence is too long: its positions exceed the limit of the model's dynamic rope")
    shown, own = np.zeros((2, len(ids)), bool)  # rows of pictures, and of a token without a row in the table
    for start, x in zip(starts, pictures):
        shown[start:start + x["tokens"]] = True
    own[at] = JUDGE["adds_token"] and p["position"] == "at"
    ids, shown, own = np.array(ids)[:at + 1], shown[:at + 1], own[:at + 1]
    text = ~shown & ~own
    order = np.empty(at + 1, np.int64)
    order[text] = np.arange(text.sum())
    order[own] = text.sum()
    order[shown] = text.sum() + JUDGE["adds_token"] + np.arange(shown.sum())
    length, two, read = np.array([at + 1]), np.array([2]), np.array([at - 1, at])  # two rows, as Assay reads them
    return {"text_ids": ids[text], "order": order, "position_ids": positions[:, :at + 1], "score_rows": np.array([1]),
            "group_rows": length, "group_lengths": length, "select": read, "select_place": read,
            "group_select_rows": two, "group_select_each": two}


def rotary(length, starts, pictures):
    """[axes, tokens]: 0, 1, 2..., or for Qwen-VLs with rows and columns of the pictures (get_rope_index)."""
    axes, parts, at, begin = PROCESSOR["position_axes"], [], 0, 0
    if not QWEN or JUDGE["positions"] == "plain":
        return np.tile(np.arange(length), (axes, 1))
    for start, p in zip(starts, pictures):
        parts.append(np.tile(begin + np.arange(start - at), (axes, 1)))
        begin += start - at
        rows, cols = np.indices(p["grid"].shape).reshape(2, -1)
        parts.append(begin + np.stack([0 * rows, rows, cols]))
        begin, at = begin + max(p["grid"].shape), start + p["tokens"]
    return np.hstack(parts + [np.tile(begin + np.arange(length - at), (axes, 1))])


def main():
    a = argparse.ArgumentParser(description="Score an edit with the exported graphs next to this file.")
    a.add_argument("--source", action="append", help="picture before the edit")
    a.add_argument("--edit", required=True, help="picture after the edit")
    a.add_argument("--instruction", required=True, help="what was asked for")
    a.add_argument("--requirement", default="", help="what the edit must also fulfil, for judges that ask for it")
    a.add_argument("--json", action="store_true", help="print JSON")
    a = a.parse_args()
    try:
        said = judge(a.source[0] if len(a.source or ()) == 1 else a.source, a.instruction, a.edit, a.requirement)
    except (NotImplementedError, ValueError, OSError) as e:
        sys.exit(f"error: {e}")
    span = said["score_range"]
    lines = [f"{said['score']:.4f} (" + (f"on {span[0]:g} to {span[1]:g})" if span else "without bounds)")]
    for name, d in said.get("dimensions", {}).items():
        if "class" in d:
            lines.append(f"  {name} {d['class']}")
            continue
        lines.append(f"  {name} {d['score']:.4f}" + (f", sigma {d['sigma']:.4f}" if "sigma" in d else ""))
    print(json.dumps(said) if a.json else "\n".join(lines))


if __name__ == "__main__":
    main()
