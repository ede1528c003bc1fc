"""A data set with times and decimals, as datasets saves it to disk and as Parquet, and the numbers that pyarrow stores for them:
data/readers/testdata/times.zip. Run it from the repository root."""

import datetime
import decimal
import json
import shutil
from pathlib import Path

import datasets
import pyarrow as pa
from datasets import Dataset, Features, Value
from pack import pack

OUT = Path("data/readers/testdata/times")
shutil.rmtree(OUT, ignore_errors=True)
OUT.mkdir(parents=True)
datasets.disable_progress_bars()
day = datetime.date
features = Features({
    "source": Value("string"), "edit": Value("string"), "instruction": Value("string"), "made": Value("timestamp[us]"),
    "zoned": Value("timestamp[ms, tz=UTC]"), "day": Value("date32"), "day64": Value("date64"), "took": Value("duration[s]"),
    "clock": Value("time32[s]"), "clock64": Value("time64[us]"), "price": Value("decimal128(10, 2)"), "large": Value("decimal256(50, 3)")})
made = datetime.datetime(2024, 2, 29, 23, 59, 59, 123456)
rows = [{"source": "a.png", "edit": "b.png", "instruction": text, "made": made, "zoned": made.replace(tzinfo=datetime.timezone.utc),
         "day": day(1969, 12, 31), "day64": day(2024, 1, 2), "took": datetime.timedelta(hours=-1), "clock": datetime.time(1, 2, 3),
         "clock64": datetime.time(1, 2, 3, 4), "price": decimal.Decimal("-1.05"), "large": decimal.Decimal("12345678901234567890.125")}
        for text in ("one", "two", "three")]
rows[2] = dict.fromkeys(rows[2]) | {"source": "a.png", "edit": "b.png"}  # no instruction: an error of its row
table = pa.Table.from_pylist(rows, schema=features.arrow_schema)
Dataset(table).save_to_disk(str(OUT / "disk"), num_shards=2)  # two rows and one
Dataset(table).to_parquet(str(OUT / "rows.parquet"))
numbers = {"made": pa.int64(), "zoned": pa.int64(), "day": pa.int32(), "day64": pa.int64(), "took": pa.int64(), "clock": pa.int32(),
           "clock64": pa.int64()}
expect = {name: table[name].cast(kind).to_pylist() for name, kind in numbers.items()}
expect |= {name: [None if x is None else float(x) for x in table[name].to_pylist()] for name in ("price", "large")}
(OUT / "expect.json").write_text(json.dumps(expect))
pack(OUT, f"{OUT}.zip")
shutil.rmtree(OUT)
