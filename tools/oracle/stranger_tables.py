"""Tables written by third-party tools, and the rows that these read: data/testdata/strangers.zip, data/readers/testdata/strangers.zip.

    build/venv/bin/pip install --no-deps --target build/wds webdataset==1.0.2 braceexpand==0.1.7
    PYTHONPATH=build/wds build/venv/bin/python tools/oracle/stranger_tables.py     # from the repository's root

csv.json: texts and the rows that Python's csv module reads from them (null: a quoted field without an end, an error in Assay).
braces.json: patterns and their expansions by braceexpand. expect.json: the rows of the files next to it, read by pandas or
pyarrow. webdataset/expect.json: the samples that webdataset decodes.
Needs pandas, pyarrow, datasets, pillow, webdataset. Pictures have one colour, as in readers.py."""
import csv
import decimal
import io
import json
import random
import shutil
from pathlib import Path

import braceexpand
import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import webdataset as wds
from pack import pack
from PIL import Image

TABLES, READERS = Path("data/testdata/strangers"), Path("data/readers/testdata/strangers")
for folder in (TABLES, READERS):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def dump(path, value):
    if isinstance(value, list):
        text = "[\n" + ",\n".join(json.dumps(v, ensure_ascii=False) for v in value) + "\n]\n"
    else:
        text = json.dumps(value, ensure_ascii=False, indent=0) + "\n"
    path.write_text(text, encoding="utf-8")


# --- CSV texts, read by csv
def read(text, delimiter):
    lines = io.StringIO(text, newline="")
    rows = [r for r in csv.reader(lines, delimiter=delimiter) if r]
    # a row after the end is swallowed by a quoted field without an end
    more = [r for r in csv.reader(io.StringIO(text + "\nZ", newline=""), delimiter=delimiter) if r]
    return rows if more and more[-1] == ["Z"] else None


random.seed(5)
texts = ['a,b\n1,2\n', 'a,b\r\n1,2\r\n', 'a,b\r1,2', 'a\n\n\nb\n', '"a","b ""c"""\n', 'a"b,c\n', '"a"b,c\n', '"a" ,c\n', ' "a",c\n', 'a,"b\nc",d\n',
         'a,"b\r\nc"\r\n', '5" x 7",b\n', '"",\n', '""\n', ',\n', '"a\n', 'é,"ü,ß"\n', '"a"""\n', '"""a"', '"a,b', ' \n', '日本,"本\r語"\n']
texts += ["".join(random.choice('aé",,"\n\r\t b') for _ in range(random.randint(1, 14))) for _ in range(400)]
dump(TABLES / "csv.json", [{"text": t, "comma": read(t, ","), "tab": read(t, "\t")} for t in dict.fromkeys(texts)])

# --- files written by pandas
frame = pd.DataFrame({"source": ["a.png", "b,c.png", "d.png"], "edit": ["x.png", "y.png", "z.png"],
                      "instruction": ['make the 5" screen bigger', "two\nlines, and \"quotes\"", "Größer\tund röter"], "label": [0.25, None, 1.0]})
frame.to_csv(TABLES / "comma.csv", index=False)
frame.to_csv(TABLES / "tab.tsv", index=False, sep="\t")
frame.to_csv(TABLES / "crlf.csv", index=False, lineterminator="\r\n")
frame.to_csv(TABLES / "excel.csv", index=False, encoding="utf-8-sig")
frame.to_csv(TABLES / "index.csv")
frame.to_csv(TABLES / "all_quoted.csv", index=False, quoting=csv.QUOTE_ALL)
frame.to_json(TABLES / "lines.jsonl", orient="records", lines=True)
frame.to_json(TABLES / "array.json", orient="records")
frame.to_json(TABLES / "not_ascii.jsonl", orient="records", lines=True, force_ascii=False)
frame.to_parquet(TABLES / "pandas.parquet")
pq.write_table(pa.table({**{c: list(frame[c]) for c in ("source", "edit", "instruction")},
                         "label": pa.array(np.array([0.333, 6e-8, 1.0], np.float16))}), TABLES / "half.parquet")
pq.write_table(pa.table({**{c: list(frame[c]) for c in ("source", "edit", "instruction")},
                         "label": pa.array([decimal.Decimal("0.25"), None, decimal.Decimal("1.00")], pa.decimal128(5, 2))}), TABLES / "decimal.parquet")
small = pa.schema([("source", pa.string()), ("edit", pa.string()), ("instruction", pa.string()), ("label", pa.uint8()), ("n", pa.uint32()), ("m", pa.uint64())])
pq.write_table(pa.table({**{c: list(frame[c]) for c in ("source", "edit", "instruction")}, "label": [0, None, 1], "n": [4000000000, 1, 2],
                         "m": [2**63, 1, 2]}, schema=small), TABLES / "unsigned.parquet")
rows = lambda labels: [{"source": s, "edit": e, "instruction": i, "label": l} for s, e, i, l in zip(frame["source"], frame["edit"], frame["instruction"], labels)]
expect = {name: rows([0.25, None, 1.0]) for name in ("comma.csv", "tab.tsv", "excel.csv", "index.csv", "all_quoted.csv", "lines.jsonl", "array.json",
                                                    "not_ascii.jsonl", "pandas.parquet", "decimal.parquet", "crlf.csv")}
expect["half.parquet"] = rows([float(x) for x in np.array([0.333, 6e-8, 1.0], np.float16)])
expect["unsigned.parquet"] = rows([0, None, 1])
for name in expect:  # pandas reads what was written
    if name.endswith((".csv", ".tsv")):
        back = pd.read_csv(TABLES / name, sep="\t" if name.endswith("tsv") else ",")
        assert [x for x in back["instruction"]] == list(frame["instruction"]), name
dump(TABLES / "expect.json", expect)

# --- files that must be refused: file -> a part of the message
bad = {}
frame.to_csv(TABLES / "latin1.csv", index=False, encoding="latin-1")
bad["latin1.csv"] = "line 5: not UTF-8: byte 0xf6"
frame.to_csv(TABLES / "utf16.csv", index=False, encoding="utf-16")
bad["utf16.csv"] = "is UTF-16"
(TABLES / "utf16.jsonl").write_bytes(frame.to_json(orient="records", lines=True, force_ascii=False).encode("utf-16-be"))
bad["utf16.jsonl"] = "is UTF-16"
(TABLES / "latin1.jsonl").write_bytes(frame.to_json(orient="records", lines=True, force_ascii=False).encode("latin-1"))
bad["latin1.jsonl"] = "line 3: not UTF-8: byte 0xf6"
frame.to_csv(TABLES / "semicolon.csv", index=False, sep=";")
bad["semicolon.csv"] = "want commas between the columns"
frame.to_csv(TABLES / "packed.csv.gz", index=False)
bad["packed.csv.gz"] = "packed with gzip"
pd.concat([frame, frame[["label"]]], axis=1).to_csv(TABLES / "twice.csv", index=False)
bad["twice.csv"] = 'two columns "label"'
pq.write_table(pa.Table.from_arrays([pa.array(["a"])] * 4, names=["source", "edit", "instruction", "edit"]), TABLES / "twice.parquet")
bad["twice.parquet"] = 'two columns "edit"'
(TABLES / "ragged.csv").write_text("source,edit,instruction\na,b,c\na,b,c,d\n")
bad["ragged.csv"] = "ragged.csv:3: 4 fields, but 3 columns"
(TABLES / "open.csv").write_text('source,edit,instruction\na,b,c\na,"b,c\nd,e,f\n')
bad["open.csv"] = "line 3: a quoted field begins in this row and never ends"
for name, label in (("nan", float("nan")), ("infinity", float("inf"))):
    f = frame.assign(label=[0.5, label, 1.0])
    (TABLES / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in f.to_dict("records")))
    bad[f"{name}.jsonl"] = f"{name}.jsonl:2: "
    f.to_csv(TABLES / f"{name}.csv", index=False, na_rep="NaN")
    bad[f"{name}.csv"] = f'{name}.csv:3: column "label": want a finite number'
    datasets.Dataset.from_dict({c: list(f[c]) for c in f}).to_parquet(TABLES / f"{name}.parquet")
    bad[f"{name}.parquet"] = f'{name}.parquet: row 2: column "label": want a finite number'
    pq.write_table(pa.table({**{c: list(frame[c]) for c in ("source", "edit", "instruction")}, "label": pa.array(np.array([0.5, label, 1], np.float16))}),
                   TABLES / f"{name}_half.parquet")
    bad[f"{name}_half.parquet"] = f'{name}_half.parquet: row 2: column "label": want a finite number'
frame.assign(label=[0.5, 7, 1.0]).to_parquet(TABLES / "outside.parquet")
bad["outside.parquet"] = "outside.parquet: row 2: label 7 is outside 0..1"
frame.assign(label=[[0.5], [1.0], [0.0]]).to_parquet(TABLES / "list.parquet")
bad["list.parquet"] = 'column "label": want a number, have a list'
frame.assign(instruction=[{"en": "a"}] * 3).to_parquet(TABLES / "struct.parquet")
bad["struct.parquet"] = 'column "instruction": want text, have an object'
(TABLES / "keys.jsonl").write_text('{"source": "a", "edit": "b", "instruction": "c", "label": 0, "label": 1}\n')
bad["keys.jsonl"] = 'two values of "label"'
(TABLES / "surrogate.jsonl").write_text('{"source": "a", "edit": "b", "instruction": "half \\ud83d of it"}\n')
bad["surrogate.jsonl"] = "half a surrogate pair"
dump(TABLES / "refused.json", bad)


# --- pictures
def picture(n):
    return Image.new("RGB", (8, 8), (n, 255 - n, n // 2))


def png(n):
    b = io.BytesIO()
    picture(n).save(b, "PNG")
    return b.getvalue()


# --- webdataset: two shards by its own writer, keys in folders, JSON and texts
(READERS / "webdataset").mkdir()
samples = [{"__key__": "0000/a", "source.png": picture(10), "edit.png": picture(61), "target.png": picture(11),
            "json": {"instruction": "add a hat", "method": "mgie", "label": 0.5, "source_caption": "a man", "target_caption": "a man with a hat"}},
           {"__key__": "0000/b", "source.jpg": picture(20), "edit.png": picture(62), "instruction.txt": "remove the “dog”", "json": {"method": "sdedit"}},
           {"__key__": "0001/a", "source.png": picture(11), "edit.png": picture(63), "instruction.txt": "make it red", "label.cls": 1}]
for i, part in enumerate((samples[:2], samples[2:])):
    with wds.TarWriter(str(READERS / f"webdataset/shard-{i:03d}.tar"), mtime=0, user="u", group="g") as w:
        for s in part:
            w.write(s)
dump(READERS / "webdataset/expect.json", [
    {k: (list(np.asarray(v)[0, 0].tolist()) if hasattr(v, "shape") or isinstance(v, Image.Image) else v) for k, v in s.items() if k not in ("__url__", "__local_path__")}
    for s in wds.WebDataset(str(READERS / "webdataset/shard-{000..001}.tar"), shardshuffle=False).decode("pil")])
patterns = ["a.tar", "x-{0..3}.tar", "x-{000..011}.tar", "x-{8..12}", "x-{08..12}", "{a,b}/y-{0..1}", "x{,_more}.tar", "x{a,b{1,2}}", "{1..2}{3..4}"]
dump(READERS / "braces.json", {p: list(braceexpand.braceexpand(p)) for p in patterns})

# --- InstructPix2Pix in the layout of the Hub, by datasets
features = datasets.Features({"original_prompt": datasets.Value("string"), "original_image": datasets.Image(), "edit_prompt": datasets.Value("string"),
                              "edited_prompt": datasets.Value("string"), "edited_image": datasets.Image()})
hub = datasets.Dataset.from_dict({"original_prompt": ["a man", "a dog"], "original_image": [{"bytes": png(10), "path": None}, {"bytes": png(20), "path": None}],
                                  "edit_prompt": ["add a hat", "make it red"], "edited_prompt": ["a man with a hat", "a red dog"],
                                  "edited_image": [{"bytes": png(11), "path": None}, {"bytes": png(21), "path": None}]}, features=features)
(READERS / "hub").mkdir()
hub.select([0]).to_parquet(READERS / "hub/train-00000-of-00002.parquet")
hub.select([1]).to_parquet(READERS / "hub/train-00001-of-00002.parquet")

# --- half floats in Arrow files saved by datasets
halves = [0.333, 6e-8, -1.5, float("nan"), None]
d = datasets.Dataset.from_dict({"source": ["a.png"] * 5, "edit": ["b.png"] * 5, "instruction": ["x"] * 5, "clip_d": halves},
                               features=datasets.Features({"source": datasets.Value("string"), "edit": datasets.Value("string"),
                                                           "instruction": datasets.Value("string"), "clip_d": datasets.Value("float16")}))
d.save_to_disk(str(READERS / "half"))
dump(READERS / "half.json", [None if x is None else str(float(np.float16(x))) for x in halves])
for extra in READERS.glob("half/*.json"):
    extra.unlink()

for folder in (TABLES, READERS):
    pack(folder, f"{folder}.zip")
    shutil.rmtree(folder)
