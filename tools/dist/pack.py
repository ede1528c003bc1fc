"""Packs the program built by tools/dist/program.sh for a release: wheels, an archive and a Debian package, with manual
pages, completions, licences and a bill of materials. Time stamps are SOURCE_DATE_EPOCH: the result is reproducible.

    pack.py --program FILE --machine x86_64|aarch64 --pages FOLDER --out FOLDER
"""
import argparse
import base64
import gzip
import hashlib
import io
import json
import lzma
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
RUNTIME = "1.31.1"  # ONNX Runtime, as in tools/setup/onnxruntime.txt
PILLOW = "13.0.0"  # source of the archive's libjpeg-turbo and libwebp, as in tools/setup/pictures.txt
NEWER = "3.11"  # the oldest Python with an official wheel
MACHINE = os.uname().machine  # target of the program
FUSED = "libassay_ops.so"  # the fused operators
DEFLATE, DEFLATE_VERSION = "libdeflate.so.0", "1.26.1"  # as in tools/setup/deflate.sh
LIMIT = 40_000_000  # maximum bytes of a wheel
DEMO = {f"assay/demo/{p}": ROOT / "backbones" / p for p in ("tiny", "tiny-scorer")}
PICTURES = ("coffee.png", "coffee_blur.png", "rocket.png", "rocket_grey.png")
NAMES = ("label", "score", "train")  # other names of the program
# Dependencies of the libraries: the program needs only libc, ONNX Runtime also C++ (GLIBCXX_3.4.22, from GCC 6).
DEPENDS = "libc6 (>= {}.{}), libgcc-s1 | libgcc1, libstdc++6 (>= 6)"


def epoch():
    return int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct"))


def run(*args):
    return subprocess.run(args, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def glibc(program):
    """The newest version of the C library that a program requires."""
    found = re.findall(rb"GLIBC_(\d+)\.(\d+)", program.read_bytes())
    return max((int(a), int(b)) for a, b in found)


def parts(program):
    """(kind, name, version, folder with licences) of every module and crate in the program, of the compilers' runtime
    libraries, and of ONNX Runtime. Rust's crates come from its lock file."""
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
    found.append(("golang", "std", run("go", "env", "GOVERSION").strip().removeprefix("go"), run("go", "env", "GOROOT").strip()))
    zig = run("build/zig/ziglang/zig", "version").strip()
    for library in "libunwind", "libcxx", "libcxxabi":  # the last two are in the fused operators
        found.append(("generic", library, f"zig-{zig}", str(ROOT / "build/zig/ziglang/lib" / library)))
    found.append(("pypi", "onnxruntime", RUNTIME, str(ROOT / "build/notices")))
    found.append(("pypi", "pillow", PILLOW, str(ROOT / "build/notices-pillow")))  # libjpeg-turbo and libwebp in the archive
    found.append(("cargo", "libdeflate-sys", DEFLATE_VERSION, str(ROOT / "build/notices-libdeflate")))
    found.append(("generic", "libjpeg-turbo", "2.1.5", str(ROOT / "internal/codecs")))  # headers
    return sorted(found)


def licences(parts):
    """The texts of all licences in one file, each once, and the parts without a text."""
    texts, without = {}, []
    for kind, name, version, folder in parts:
        files = sorted(p for p in Path(folder).glob("*") if p.is_file() and re.match(r"(?i)(un)?licen[cs]e|copying|notice|thirdparty", p.name)) if folder else []
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
    """The bill of materials in CycloneDX format."""
    components = [{"type": "library", "name": name, "version": v, "purl": f"pkg:{kind}/{name}@{v}"} for kind, name, v, _ in parts]
    return json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
                       "metadata": {"component": {"type": "application", "name": "assay", "version": version}}, "components": components}, indent=1) + "\n"


def shared(pages):
    """Files below share/: manual pages, completions, the small scorer of the demonstration and its pictures."""
    files = {str(p.relative_to(pages)): p.read_bytes() for p in sorted(pages.rglob("*")) if p.is_file()}
    for to, folder in DEMO.items():
        files |= {f"{to}/{p.name}": p.read_bytes() for p in sorted(folder.iterdir())}
    files |= {f"assay/demo/{p}": (ROOT / "testdata/oracle/images" / p).read_bytes() for p in PICTURES}
    return files


def script(name):
    """A script that starts the program under another name, because wheels cannot contain links."""
    return f'#!/usr/bin/env bash\nexec -a {name} "$(dirname "$(readlink -f "$0")")/assay" "$@"\n'.encode()


def metadata(project, summary, requires=(), readme=b""):
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}", f"Summary: {summary}",
             "License: Apache-2.0", f"Requires-Python: {project['requires-python']}"]
    lines += [f"Requires-Dist: {r}" for r in requires] + ["Description-Content-Type: text/markdown", "", ""]
    return "\n".join(lines).encode() + readme


def write_wheel(out, project, version_of_libc, files, info_files):
    """Writes a wheel of files, path: (content, whether it is a program), and its .dist-info files."""
    name = project["name"].replace("-", "_")
    tag = f"py3-none-manylinux_{version_of_libc[0]}_{version_of_libc[1]}_{MACHINE}"
    info = f"{name}-{project['version']}.dist-info"
    info_files["WHEEL"] = f"Wheel-Version: 1.0\nGenerator: assay\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files = files | {f"{info}/{path}": (content, False) for path, content in info_files.items()}
    record = ""
    for path, (content, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        record += f"{path},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode(), False
    path = out / f"{name}-{project['version']}-{tag}.whl"
    when = time.gmtime(max(epoch(), 315532800))[:6]  # zip has no dates before 1980
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for file, (content, runs) in files.items():
            entry = zipfile.ZipInfo(file, when)
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
            z.writestr(entry, content)
    return path


def wheel(out, program, share, project, sbom, texts):
    """The wheel: the program with three short names, the client, and the files below share/."""
    name, data = project["name"].replace("-", "_"), f"{project['name'].replace('-', '_')}-{project['version']}.data"
    client = ROOT / "clients/python"
    files = {str(p.relative_to(client)): (p.read_bytes(), False) for p in sorted((client / name).rglob("*.py"))}
    for library in FUSED, DEFLATE:
        files[f"{name}/{library}"] = (libraries() / library).read_bytes(), False  # next to the client, where the program looks
    files[f"{data}/scripts/assay"] = program.read_bytes(), True
    files |= {f"{data}/scripts/{command}": (script(command), True) for command in NAMES}
    files |= {f"{data}/data/share/{path}": (content, False) for path, content in share.items()}
    entries = "".join(f"{k} = {v}\n" for k, v in project["scripts"].items())
    requires = [f'onnxruntime=={RUNTIME}; python_version >= "{NEWER}"',
                f'{project["name"]}-runtime=={RUNTIME}; python_version < "{NEWER}"',
                "pillow>=10.1"]  # which includes libjpeg-turbo 3 and libwebp
    summary = "Reward models for instruction-guided image editing: the commands train, score and label, and a client of `score serve`"
    return write_wheel(out, project, glibc(program), files, {
        "METADATA": metadata(project, summary, requires, (ROOT / "clients/python/README.md").read_bytes()),
        "entry_points.txt": f"[console_scripts]\n{entries}".encode(),
        "licenses/LICENSE": (ROOT / "LICENSE").read_bytes(), "licenses/THIRD_PARTY.txt": texts.encode(), "sboms/assay.cdx.json": sbom.encode()})


def runtime_wheel(out, project):
    """A wheel with only ONNX Runtime, for Python versions without official wheels."""
    project = project | {"name": project["name"] + "-runtime", "version": RUNTIME}
    library = runtime()
    return write_wheel(out, project, glibc(library), {f"{project['name'].replace('-', '_')}/libonnxruntime.so": (library.read_bytes(), False)}, {
        "METADATA": metadata(project, "ONNX Runtime's library, for assay-reward where Python is too old for the onnxruntime wheel"),
        **{f"licenses/{p.name}": p.read_bytes() for p in sorted((ROOT / "build/notices").iterdir())}})


def libraries():
    """The folder of ONNX Runtime and of the libraries that decode pictures."""
    return ROOT / f"build/{MACHINE}/lib"


def runtime():
    return libraries() / f"libonnxruntime.so.{RUNTIME}"


def tar(top, files, links):
    """A tar of the folder top with files, path: (content, mode), and links, path: target. Folders come before their files."""
    raw = io.BytesIO()
    folders = {str(parent) for path in [*files, *links] for parent in Path(path).parents}
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as t:
        for path in sorted([*files, *links, *folders]):
            entry = tarfile.TarInfo(top if path == "." else f"{top}/{path}")
            entry.mtime, entry.uname, entry.gname = epoch(), "root", "root"
            if path in folders:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                t.addfile(entry)
            elif path in links:
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, links[path], 0o777
                t.addfile(entry)
            else:
                content, entry.mode = files[path]
                entry.size = len(content)
                t.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


def zipped(content):
    return gzip.compress(content, 9, mtime=epoch())


def archive(out, program, share, project, sbom, texts):
    """The program with ONNX Runtime and the libraries that decode pictures, as a tar.gz."""
    top = f"assay-{project['version']}-linux-{MACHINE}"
    files = {f"share/{path}": (content, 0o644) for path, content in share.items()}
    files |= {"bin/assay": (program.read_bytes(), 0o755), "lib/libonnxruntime.so": (runtime().read_bytes(), 0o644),
              **{f"lib/{library}": ((libraries() / library).read_bytes(), 0o644) for library in (FUSED, DEFLATE)},
              "LICENSE": ((ROOT / "LICENSE").read_bytes(), 0o644), "THIRD_PARTY.txt": (texts.encode(), 0o644), "assay.cdx.json": (sbom.encode(), 0o644)}
    for name in ("jpeg", "webp", "sharpyuv"):
        library, = libraries().glob(f"lib{name}-*.so.*")
        files[f"lib/{library.name}"] = library.read_bytes(), 0o644
    path = out / f"{top}.tar.gz"
    path.write_bytes(zipped(tar(top, files, {f"bin/{name}": "assay" for name in NAMES})))
    return path


def package(out, program, share, project, sbom, texts):
    """The package for Debian and its derivatives: an ar archive with three members (deb(5))."""
    places = {"zsh/site-functions": "zsh/vendor-completions"}  # where Debian's zsh looks
    files = {"usr/lib/assay/assay": (program.read_bytes(), 0o755), "usr/lib/assay/libonnxruntime.so": (runtime().read_bytes(), 0o644),
             f"usr/lib/assay/{FUSED}": ((libraries() / FUSED).read_bytes(), 0o644)}
    for path, content in share.items():
        folder = os.path.dirname(path)
        path = f"usr/share/{places.get(folder, folder)}/{os.path.basename(path)}"
        if folder.startswith("man/"):
            path, content = path + ".gz", zipped(content)
        files[path] = content, 0o644
    doc = "usr/share/doc/assay"
    rights = f"Assay is under the Apache License 2.0 (/usr/share/common-licenses/Apache-2.0). It contains:\n\n{texts}"
    files |= {f"{doc}/copyright": (rights.encode(), 0o644), f"{doc}/assay.cdx.json": (sbom.encode(), 0o644),
              f"{doc}/changelog.gz": (zipped((ROOT / "CHANGELOG.md").read_bytes()), 0o644)}
    links = {f"usr/bin/{name}": "../lib/assay/assay" for name in ("assay", *NAMES)}
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[MACHINE]
    major, minor = max(glibc(program), glibc(runtime()))
    size = sum(len(content) for content, _ in files.values()) // 1024
    control = f"""Package: assay
Version: {project['version']}
Architecture: {machine}
Maintainer: {run("git", "log", "-1", "--format=%an <%ae>").strip()}
Installed-Size: {size}
Depends: {DEPENDS.format(major, minor)}
Recommends: ca-certificates, libjpeg62-turbo | libjpeg-turbo8, libwebp7 | libwebp6, libdeflate0
Section: science
Priority: optional
Description: reward models for instruction-guided image editing
 Given a picture, an instruction and an edited picture, a scorer rates the edit
 from 0 to 10, and gives the gradient of that score for every pixel. This
 package has the commands assay, train, score and label, with ONNX Runtime.
"""
    sums = "".join(f"{hashlib.md5(content).hexdigest()}  {path}\n" for path, (content, _) in sorted(files.items()))
    parts = {"debian-binary": b"2.0\n",
             "control.tar.gz": zipped(tar(".", {"control": (control.encode(), 0o644), "md5sums": (sums.encode(), 0o644)}, {})),
             "data.tar.xz": lzma.compress(tar(".", files, links), preset=2)}
    path = out / f"assay_{project['version']}_{machine}.deb"
    with open(path, "wb") as ar:
        ar.write(b"!<arch>\n")
        for name, content in parts.items():
            ar.write(f"{name:<16}{epoch():<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode() + content + b"\n" * (len(content) % 2))
    return path


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--program", required=True, type=Path)
    p.add_argument("--machine", required=True)
    p.add_argument("--pages", required=True, type=Path)
    p.add_argument("--out", required=True, type=Path)
    a = p.parse_args()
    global MACHINE
    MACHINE = a.machine
    a.out.mkdir(parents=True, exist_ok=True)
    project = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text())["project"]
    all_parts = parts(a.program)
    texts, sbom, share = licences(all_parts), bill(project["version"], all_parts), shared(a.pages)
    parts_file = a.out / f"assay-{project['version']}-linux-{MACHINE}.cdx.json"
    parts_file.write_text(sbom)
    made = [make(a.out, a.program, share, project, sbom, texts) for make in (wheel, archive, package)]
    made += [runtime_wheel(a.out, project), parts_file]
    for m in made:
        print(f"{m.stat().st_size:12,} bytes  {m.relative_to(ROOT) if m.is_relative_to(ROOT) else m}")
    if (size := made[0].stat().st_size) > LIMIT:
        sys.exit(f"error: {made[0]} has {size} bytes, want at most {LIMIT}")


if __name__ == "__main__":
    main()
