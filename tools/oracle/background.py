"""Makes metrics/testdata/background.zip: pictures, masks and boxes, and the background differences with numpy and Pillow.

    python tools/oracle/background.py metrics/testdata/background.zip

The background difference is the root of the mean, over the pixels outside the region and their channels, of the
squared differences of 8-bit values (arXiv 2603.29697, equation 4), the edit resized to the source's size (bicubic).
"""

import io
import json
import sys
import zipfile

import numpy as np
from PIL import Image

rng = np.random.default_rng(11)
out = zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED)


def add(name, content):
    out.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content)


def png(name, im):
    f = io.BytesIO()
    im.save(f, "PNG")
    add(name, f.getvalue())


expect, lines = {}, []
sizes = {"a": ((37, 29), (37, 29)), "b": ((31, 44), (50, 23)), "c": ((26, 26), (13, 52)), "d": ((40, 30), (40, 30))}
for name, (size, other) in sizes.items():
    source = Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    edit = Image.fromarray(rng.integers(0, 256, (other[1], other[0], 3), dtype=np.uint8))
    png(f"{name}-source.png", source)
    png(f"{name}-edit.png", edit)
    region = np.zeros((size[1], size[0]), bool)
    line = {"id": name, "picture": "source"}
    if name == "d":
        line["box"] = [3.4, 5.6, 21.5, 19.2]
        region[6:19, 3:22] = True
    else:
        y, x = np.mgrid[:size[1], :size[0]]
        region = (y - size[1] / 2) ** 2 + 2 * (x - size[0] / 3) ** 2 < 60
        mask = Image.fromarray((region * 255).astype(np.uint8))
        png(f"masks/{name}.png", mask.convert({"a": "1", "b": "L", "c": "RGB"}[name]))
        line["mask"] = f"masks/{name}.png"
    lines.append(line)
    a = np.asarray(source, np.float64)
    b = np.asarray(edit.resize(source.size, Image.BICUBIC), np.float64)
    expect[name] = float(np.sqrt(((a - b)[~region] ** 2).mean()))
add("places.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
add("expect.json", json.dumps(expect))
out.close()
