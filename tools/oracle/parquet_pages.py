"""Parquet files of pyarrow with pages that the Parquet library decodes wrongly, and their values as pyarrow reads them:
data/parquet/testdata/pages.zip. Run it from the repository root."""

import json
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pack import pack

OUT = Path("data/parquet/testdata/pages")
shutil.rmtree(OUT, ignore_errors=True)
OUT.mkdir(parents=True)
random.seed(7)


def flags(n, true, null):
    return [None if random.random() < null else random.random() < true for _ in range(n)]


def runs(n):
    """Runs of any length: the writer encodes those of eight and more as such, the others bit by bit."""
    out = []
    while len(out) < n:
        out += [len(out) % 2 == 0] * random.randint(1, 40)
    return out[:n]


files = {}
for version in ("1.0", "2.0"):  # pyarrow writes booleans in runs by itself in pages of version 2
    encoding = {"column_encoding": {c: "RLE" for c in ("all", "runs", "some", "null", "lists.list.element")}}
    lists = [random.choice([None, [], flags(random.randint(1, 30), 0.9, 0.1)]) for _ in range(150)]
    table = pa.table({"all": [True] * 150, "runs": runs(150), "some": flags(150, 0.95, 0.2), "null": pa.array([None] * 150, pa.bool_()),
                      "lists": lists})
    for size in (20, 1 << 20):
        files[f"booleans-{version}-{size}.parquet"] = (table, dict(data_page_version=version, use_dictionary=False, data_page_size=size,
                                                                  write_batch_size=8, compression="snappy" if size == 20 else "zstd", **encoding))
    # a column chunk whose last page has no values
    lists = pa.table({"lists": [list(range(i % 4)) for i in range(300)]})
    files[f"lists-{version}.parquet"] = (lists, dict(data_page_version=version, row_group_size=100, data_page_size=100, write_batch_size=1,
                                                     compression="zstd"))
expect = {}
for name, (table, how) in files.items():
    pq.write_table(table, OUT / name, **how)
    expect[name] = pq.read_table(OUT / name).to_pydict()
    assert expect[name] == table.to_pydict(), name
(OUT / "expect.json").write_text(json.dumps(expect))
pack(OUT, f"{OUT}.zip")
shutil.rmtree(OUT)
