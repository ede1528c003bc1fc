"""The section "Pictures" of make bench: decoding and preparing compared with Pillow, and scoring pairs of them.

    python lab/bench/pictures.py [--decoding]      # --decoding: keeps the rows of scoring

Decoding is measured in seconds of CPU time, the fastest of several alternating turns of both sides, so that the figures
also hold on a shared machine. Pixels are compared as well.
"""

import argparse
import hashlib
import io
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, __version__

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build/bench/pictures"
PAGE = ROOT / "docs/decisions/speed.md"
SIZES = (512, 1024, 2048)
HEAD = "## Pictures"


def make():
    """Pictures of each size in each format; creates missing ones."""
    WORK.mkdir(parents=True, exist_ok=True)
    photo = Image.open(ROOT / "examples/photos/astronaut.png").convert("RGB")
    files = []
    for n in SIZES:
        a = np.asarray(photo.resize((n, n), Image.BICUBIC)).astype(int) + np.random.default_rng(n).integers(
            -2, 3, (n, n, 3)
        )
        im = Image.fromarray(a.clip(0, 255).astype(np.uint8))
        rgba = im.copy()
        rgba.putalpha(Image.fromarray(np.tile(np.linspace(0, 255, n).astype(np.uint8), (n, 1))))
        palette = im.quantize(256)
        for name, m, options in (
            ("opaque.png", im, {}),
            ("alpha.png", rgba, {}),
            ("palette.png", palette, {}),
            ("420.jpg", im, {"quality": 90}),
            ("444.jpg", im, {"quality": 90, "subsampling": 0}),
            ("progressive.jpg", im, {"quality": 90, "progressive": True}),
            ("cmyk.jpg", im.convert("CMYK"), {"quality": 90}),
            ("lossy.webp", im, {"quality": 85, "method": 0}),
            ("lossless.webp", im, {"lossless": True, "method": 0}),
            ("palette.gif", palette, {}),
            ("opaque.bmp", im, {}),
            ("lzw.tif", im, {"compression": "tiff_lzw"}),
            ("deflate.tif", im, {"compression": "tiff_adobe_deflate"}),
        ):
            path = WORK / f"{n}-{name}"
            if not path.exists():
                m.save(path, **options)
            files.append(path)
    return files


def decode(raw):
    """Like transformers' convert_to_rgb after exif_transpose: transparency over white."""
    im = ImageOps.exif_transpose(Image.open(io.BytesIO(raw)))
    if im.mode == "RGBA" or "transparency" in im.info:
        im = im.convert("RGBA")
        im = Image.alpha_composite(Image.new("RGBA", im.size, (255, 255, 255)), im)
    im = im.convert("RGB")
    im.load()
    return im


def prepare(im):
    x = np.asarray(im.resize((336, 336), Image.BICUBIC))
    return np.ascontiguousarray(
        (((x / 255).astype(np.float32) - np.float32(0.5)) / np.float32(0.25)).transpose(2, 0, 1)
    )


def timed(f):
    start = time.process_time()
    out = f()
    return time.process_time() - start, out


def decoding(turns=7):
    """Rows of the table. Each turn times every file on both sides, one right after the other."""
    files = make()
    ours = subprocess.Popen([ROOT / "build/lab/bench", "pictures"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    best = {}
    for turn in range(turns):
        for path in files:
            raw = path.read_bytes()
            print(path, file=ours.stdin, flush=True)
            t = json.loads(ours.stdout.readline())
            decoded, im = timed(lambda: decode(raw))
            if hashlib.sha256(im.tobytes()).hexdigest() != t.pop("SHA256"):
                raise SystemExit(f"{path}: the pixels differ from Pillow's")
            t |= {"pillow": decoded}
            if path.name.endswith("opaque.png"):
                t |= {"pillow prepares": timed(lambda: prepare(im))[0]}
            old = best.setdefault(path, t)
            best[path] = {k: min(v, old[k]) for k, v in t.items()}
    ours.stdin.close()
    ours.wait()
    lines = ["| picture | ours | Go's packages alone | Pillow | Pillow / ours |", "|---|---|---|---|---|"]
    rows = []
    for path, t in best.items():
        n, name = path.name.split("-", 1)
        lines.append(
            f"| {n} x {n}, {name} | {1e3 * t['Decode']:.1f} ms | {1e3 * t['Plain']:.1f} ms | {1e3 * t['pillow']:.1f} ms "
            f"| {t['pillow'] / t['Decode']:.2f}x |"
        )
        if name == "opaque.png":
            p = t["pillow prepares"]
            rows.append(
                f"| prepare {n} x {n} to 336 x 336 | {1e3 * t['Prepare']:.1f} ms | | {1e3 * p:.1f} ms | "
                f"{p / t['Prepare']:.2f}x |"
            )
    return lines + rows


def scoring():
    """Seconds to score a pair of pictures of each size with the other sections' checkpoint, both sides in turn."""
    work = ROOT / "build/bench"
    lines = ["| scoring 1 pair of opaque PNGs | ours | PyTorch | speed |", "|---|---|---|---|"]
    for n in SIZES:
        picture = WORK / f"{n}-opaque.png"
        go = [
            "build/lab/bench",
            "score",
            "--backbone",
            work / "backbone",
            "--source",
            picture,
            "--edit",
            picture,
            "--steps",
            "3",
            "--pairs",
            "1",
        ]
        py = [sys.executable, "lab/bench/torch_side.py", "score", work / "scorer", picture, picture, "3", "1"]
        x, y = (
            statistics.median(
                json.loads(
                    subprocess.run(
                        list(map(str, c)), check=True, capture_output=True, text=True, cwd=ROOT
                    ).stdout.splitlines()[-1]
                )["seconds"]
            )
            for c in (go, py)
        )
        lines.append(f"| {n} x {n} | {x:.2f} s | {y:.2f} s | **{y / x:.2f}x** |")
    return lines


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--decoding", action="store_true")
    a = p.parse_args()
    text = PAGE.read_text()
    before, _, old = text.partition(HEAD + "\n")
    old, _, after = old.partition("\n## ")
    kept = [line for line in old.splitlines() if line.startswith("|")]
    at = next((i for i, line in enumerate(kept) if "scoring 1 pair" in line), len(kept))
    lines = [
        HEAD,
        "",
        f"Decoding and preparing beside Pillow {__version__}, the same pixels: milliseconds of processor time on one core, the",
        "fastest of seven turns that both sides took one after the other (load of the machine at the end: LOAD). Pictures with",
        "alpha are put over white. Cost is linear in pixels. JPEG and WebP are decoded by libjpeg-turbo and libwebp, PNG",
        "and TIFF inflated by libdeflate.",
        "",
        *decoding(),
    ]
    rows = kept[at:] if a.decoding else scoring()
    if rows:
        lines += ["", "From decoded pictures of such sizes to scores, as in the table at the top:", "", *rows]
    page = "\n".join(lines).replace("LOAD", f"{os.getloadavg()[0]:.1f}") + "\n"
    PAGE.write_text(before.rstrip() + "\n\n" + page + ("\n## " + after if after else ""))


if __name__ == "__main__":
    main()
