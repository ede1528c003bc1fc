"""Makes what is released of the program that tools/dist/program.sh built: a wheel and an archive, with licences and a
list of parts. Times in them are SOURCE_DATE_EPOCH: the same inputs give the same bytes.

    wheel.py --program FILE --out FOLDER
"""
import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = "1.31.1"  # ONNX Runtime, as tools/setup/onnxruntime.txt has it
LIMIT = 40_000_000  # bytes of a wheel
DEMO = {f"demo/{p}": ROOT / "backbones" / p for p in ("tiny", "tiny-scorer")}
PICTURES = ("coffee.png", "coffee_blur.png")


def epoch():
    return int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct"))


def run(*args):
    return subprocess.run(args, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def glibc(program):
    """The newest version of the C library that a program asks for."""
    found = re.findall(rb"GLIBC_(\d+)\.(\d+)", program.read_bytes())
    return max((int(a), int(b)) for a, b in found)


def parts(program):
    """(kind, name, version, folder) of every module and crate in the program. Rust's crates are those of its lock file."""
    found = []
    for line in run("go", "version", "-m", str(program)).splitlines():
        fields = line.split()
        if fields and fields[0] == "dep":
            found.append(("golang", fields[1], fields[2]))
    folders = json.loads("[" + re.sub(r"\}\s*\{", "},{", run("go", "list", "-m", "-json", *sorted({name for _, name, _ in found}))) + "]")
    folder = {m["Path"]: m.get("Dir", "") for m in folders}
    found = [(kind, name, version, folder[name]) for kind, name, version in found]
    lock = tomllib.loads((Path(folder["github.com/daulet/tokenizers"]) / "Cargo.lock").read_text())
    registries = sorted((Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry/src").glob("*"))
    for crate in lock["package"]:
        places = [r / f"{crate['name']}-{crate['version']}" for r in registries]
        found.append(("cargo", crate["name"], crate["version"], str(next((p for p in places if p.is_dir()), ""))))
    return sorted(found)


def licences(parts):
    """The texts of all licences in one file, each once, and the parts without a text."""
    texts, without = {}, []
    for kind, name, version, folder in parts:
        files = sorted(p for p in Path(folder).glob("*") if p.is_file() and re.match(r"(?i)(un)?licen[cs]e|copying|notice", p.name)) if folder else []
        if not files:
            without.append(f"{name} {version}")
        for file in files:
            texts.setdefault(file.read_text(errors="replace").strip(), []).append(f"{name} {version} ({kind}): {file.name}")
    out = []
    for text, users in sorted(texts.items(), key=lambda item: item[1]):
        out.append("\n".join(users) + "\n\n" + text + "\n")
    if without:
        out.append("Parts that are built only for other systems, or bring no text of their own: " + ", ".join(without) + "\n")
    return ("\n" + "=" * 100 + "\n").join(out)


def bill(version, parts):
    """The list of parts in CycloneDX's form."""
    components = [{"type": "library", "name": name, "version": v, "purl": f"pkg:{kind}/{name}@{v}"} for kind, name, v, _ in parts]
    return json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
                       "metadata": {"component": {"type": "application", "name": "assay", "version": version}}, "components": components}, indent=1) + "\n"


def script(name):
    return f'#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/assay" {name} "$@"\n'.encode()


def metadata(project):
    text = f"""Metadata-Version: 2.1
Name: {project['name']}
Version: {project['version']}
Summary: Reward models for instruction-guided image editing: the commands train, score and label, and a client of `score serve`
License: Apache-2.0
Requires-Python: {project['requires-python']}
Requires-Dist: onnxruntime=={RUNTIME}
Description-Content-Type: text/markdown

"""
    return (text + (ROOT / "clients/python/README.md").read_text()).encode()


def wheel(out, program, project, sbom, texts):
    """The wheel: the program and three short names for it, the client, a small scorer with two pictures."""
    name = project["name"].replace("-", "_")
    major, minor = glibc(program)
    tag = f"py3-none-manylinux_{major}_{minor}_{os.uname().machine}"
    files = {}  # path: content, and whether it is a program
    for file in sorted((ROOT / "clients/python" / name).glob("*.py")):
        files[f"{name}/{file.name}"] = file.read_bytes(), False
    for to, folder in DEMO.items():
        for file in sorted(folder.iterdir()):
            files[f"{name}/{to}/{file.name}"] = file.read_bytes(), False
    for picture in PICTURES:
        files[f"{name}/demo/{picture}"] = (ROOT / "testdata/oracle/images" / picture).read_bytes(), False
    data, info = f"{name}-{project['version']}.data/scripts", f"{name}-{project['version']}.dist-info"
    files[f"{data}/assay"] = program.read_bytes(), True
    for command in ("train", "score", "label"):
        files[f"{data}/{command}"] = script(command), True
    files[f"{info}/METADATA"] = metadata(project), False
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: assay\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), False
    entries = "".join(f"{k} = {v}\n" for k, v in project["scripts"].items())
    files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{entries}".encode(), False
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes(), False
    files[f"{info}/licenses/THIRD_PARTY.txt"] = texts.encode(), False
    files[f"{info}/sboms/assay.cdx.json"] = sbom.encode(), False
    record = ""
    for path, (content, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        record += f"{path},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode(), False
    path = out / f"{name}-{project['version']}-{tag}.whl"
    when = time.gmtime(max(epoch(), 315532800))[:6]  # zip knows nothing before 1980
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for file, (content, runs) in files.items():
            entry = zipfile.ZipInfo(file, when)
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
            z.writestr(entry, content)
    return path


def archive(out, program, project, sbom, texts):
    """The program with ONNX Runtime beside it, as a tar.gz."""
    top = f"assay-{project['version']}-linux-{os.uname().machine}"
    library = ROOT / "build/lib" / f"libonnxruntime.so.{RUNTIME}"
    files = {"bin/assay": (program.read_bytes(), 0o755), "lib/libonnxruntime.so": (library.read_bytes(), 0o644),
             "LICENSE": ((ROOT / "LICENSE").read_bytes(), 0o644), "THIRD_PARTY.txt": (texts.encode(), 0o644), "assay.cdx.json": (sbom.encode(), 0o644)}
    path = out / f"{top}.tar.gz"
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, epoch()) as zipped, tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, (content, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode, entry.mtime = len(content), mode, epoch()
            tar.addfile(entry, io.BytesIO(content))
        for command in ("label", "score", "train"):
            entry = tarfile.TarInfo(f"{top}/bin/{command}")
            entry.type, entry.linkname, entry.mode, entry.mtime = tarfile.SYMTYPE, "assay", 0o777, epoch()
            tar.addfile(entry)
    return path


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--program", required=True, type=Path)
    p.add_argument("--out", required=True, type=Path)
    a = p.parse_args()
    a.out.mkdir(parents=True, exist_ok=True)
    project = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text())["project"]
    all_parts = parts(a.program)
    texts, sbom = licences(all_parts), bill(project["version"], all_parts)
    (a.out / "assay.cdx.json").write_text(sbom)
    made = [wheel(a.out, a.program, project, sbom, texts), archive(a.out, a.program, project, sbom, texts), a.out / "assay.cdx.json"]
    if (size := made[0].stat().st_size) > LIMIT:
        sys.exit(f"error: {made[0]} has {size} bytes, want at most {LIMIT}")
    (a.out / "SHA256SUMS").write_text("".join(f"{hashlib.sha256(m.read_bytes()).hexdigest()}  {m.name}\n" for m in made))
    for m in made:
        print(f"{m.stat().st_size:12,} bytes  {m.relative_to(ROOT) if m.is_relative_to(ROOT) else m}")


if __name__ == "__main__":
    main()
