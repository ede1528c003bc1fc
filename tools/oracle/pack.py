"""Packs a folder of fixtures into a zip, which internal/packed opens: python tools/oracle/pack.py FOLDER ZIP [but,these,names]

Names inside are relative to the folder; the same files give the same bytes. Packed files are removed from the folder.
"""
import sys
import zipfile
from pathlib import Path


def pack(folder, archive, but=()):
    folder = Path(folder)
    paths = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.relative_to(folder).parts[0] not in but]
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for p in paths:
            z.writestr(zipfile.ZipInfo(p.relative_to(folder).as_posix()), p.read_bytes(), zipfile.ZIP_DEFLATED, 9)
    for p in paths:
        p.unlink()
    for p in sorted(folder.rglob("*"), reverse=True):
        if p.is_dir() and not any(p.iterdir()):
            p.rmdir()


if __name__ == "__main__":
    pack(sys.argv[1], sys.argv[2], sys.argv[3].split(",") if len(sys.argv) > 3 else ())
