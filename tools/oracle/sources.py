"""Tables of edits with a column sources, a list of pictures, written by pyarrow and datasets: python sources.py ../../data/testdata/sources

paths: list<string>; bytes: list<binary>; structs: list<{bytes, path}>, like datasets writes a Sequence of Image. Rows: three sources;
one; three, the first two of which are the same.
"""
import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

out = Path(sys.argv[1])


def png(grey):
    b = io.BytesIO()
    Image.new("L", (4, 4), grey).save(b, "PNG")
    return b.getvalue()


LISTS = [[0, 1, 2], [1], [2, 2, 0]]
KINDS = {
    "paths": (pa.list_(pa.string()), lambda k: f"{k}.png"),
    "bytes": (pa.list_(pa.binary()), lambda k: png(60 * k)),
    "structs": (pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())])), lambda k: {"bytes": None if k == 1 else png(60 * k), "path": f"{k}.png"}),
}
for name, (kind, make) in KINDS.items():
    table = pa.table({
        "id": ["a", "b", "c"],
        "sources": pa.array([[make(k) for k in row] for row in LISTS], kind),
        "edit": ["edit.png"] * 3,
        "instruction": ["Put the cup of image 2 on the table of image 1."] * 3,
        "label": [0.0, 0.5, 1.0],
    })
    pq.write_table(table, out / f"{name}.parquet")
