"""data/testdata/tables/: the same three rows written by pandas, pyarrow and Hugging Face datasets, nested columns, and
columns of every type without dictionaries.

    pip install datasets pandas pyarrow pillow && python tools/oracle/data_tables.py     # from the repository's root

nested.json is the content of nested.parquet, read by pyarrow.
"""
import json
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, Features, Image, Value

OUT = Path("data/testdata/tables")
NAMES = ["grey.png", "rgb.png", "420.jpg"]


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    raw = [(Path("data/testdata/decode") / n).read_bytes() for n in NAMES]
    paths = [f"../decode/{n}" for n in NAMES]
    plain = {"id": ["a", "b", "c"], "instruction": ["Make it grey.", "", "Größer, „bitte“"], "label": [0.0, 0.5, None],
             "clip_d": [0.25, float("nan"), -0.125], "split": ["train", "train", "validation"], "extra": [[1, 2], [], [3]]}
    pd.DataFrame({**plain, "source": paths, "edit": paths[::-1]}).to_parquet(OUT / "pandas.parquet")
    binary = pa.table({**plain, "id": pa.array([1, 2, 3]), "label": pa.array([0, 1, None], pa.int8()), "source": pa.array(raw, pa.binary()),
                       "edit": pa.array(paths, pa.large_string())})
    pq.write_table(binary, OUT / "binary.parquet", row_group_size=2, compression="gzip", data_page_version="2.0")
    image = [{"bytes": b, "path": n} for b, n in zip(raw, NAMES)]
    features = Features({"id": Value("string"), "source": Image(), "edit": Image(), "instruction": Value("string"), "label": Value("float32")})
    Dataset.from_dict({"id": plain["id"], "source": image, "edit": image,
                       "instruction": plain["instruction"], "label": plain["label"]}, features=features).to_parquet(OUT / "datasets.parquet")
    nested = [
        {"a": 1, "list": [1, 2, 3], "lists": [["x"], [], None, ["y", None]], "struct": {"u": 1.5, "v": [{"w": True}]}, "last": "q"},
        {"a": None, "list": [], "lists": None, "struct": None, "last": None},
        {"a": 3, "list": None, "lists": [], "struct": {"u": None, "v": []}, "last": "r"},
        {"a": 4, "list": [None], "lists": [[]], "struct": {"u": 2.0, "v": [{"w": None}, {"w": False}]}, "last": ""},
    ]
    pq.write_table(pa.Table.from_pylist(nested), OUT / "nested.parquet", compression="zstd")
    (OUT / "nested.json").write_text(json.dumps(nested, indent=1) + "\n")
    encoded = {"delta": ("DELTA_BINARY_PACKED", pa.array([1, None, -3])), "split": ("BYTE_STREAM_SPLIT", pa.array([0.5, -1.5, None])),
               "lengths": ("DELTA_LENGTH_BYTE_ARRAY", pa.array(["a", None, "bc"])), "prefixes": ("DELTA_BYTE_ARRAY", pa.array(["ab", "ac", None])),
               "runs": ("RLE", pa.array([True, None, False]))}
    simple = {"source": pa.array(raw, pa.binary()), "edit": pa.array(paths), "instruction": pa.array(["", "Größer", None]),
              "bool": pa.array([True, False, None]), "int8": pa.array([-1, 0, None], pa.int8()), "int32": pa.array([1 << 30, 0, None], pa.int32()),
              "int64": pa.array([1 << 40, -7, None]), "float": pa.array([0.25, -2, None], pa.float32()), "double": pa.array([0.1, -2, None]),
              "fixed": pa.array([b"abcd", b"\0\1\2\3", None], pa.binary(4)), "list": pa.array([[1, None], [], None], pa.list_(pa.int32())),
              "struct": pa.array([{"bytes": b"x", "n": 1}, {"bytes": None, "n": None}, None], pa.struct([("bytes", pa.binary()), ("n", pa.int32())]))}
    pq.write_table(pa.table({**simple, **{k: v for k, (_, v) in encoded.items()}}), OUT / "plain.parquet", use_dictionary=False,
                   column_encoding={k: e for k, (e, _) in encoded.items()})


main()
