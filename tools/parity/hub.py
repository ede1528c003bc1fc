"""A cache shared with huggingface_hub, with a Hub on this machine: each finds what the other one fetched."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from shared import ORACLE, ROOT, SCORE, pairs

HUB = ROOT / "build/lab/hub"

# The library runs in separate processes: it reads the environment when it is imported.
LIBRARY = """
import json, sys, huggingface_hub as hub
from huggingface_hub.utils import scan_cache_dir
what, name, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
if what == "snapshot": print(hub.snapshot_download(name, **options))
if what == "file": print(hub.hf_hub_download(name, **options))
if what == "upload":
    api = hub.HfApi()
    api.create_repo(name)
    print(api.upload_folder(repo_id=name, folder_path=options["folder"]).oid)
if what == "scan":
    info = scan_cache_dir()
    if info.warnings: sys.exit(f"scan_cache_dir warns: {info.warnings}")
    print(json.dumps({r.repo_id: [sorted(f.file_name for f in v.files) for v in r.revisions] for r in info.repos}))
"""


def library(environment, what, name="", **options):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", LIBRARY, what, name, json.dumps(options)], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"huggingface_hub, {what} {name} {options}: {done.stdout}{done.stderr[-1500:]}")
    return done.stdout.strip()


def ours(environment, *args, fails=False):
    done = subprocess.run([str(a) for a in args], env=environment, capture_output=True, text=True)
    if bool(done.returncode) != fails:
        sys.exit(f"{' '.join(map(str, args))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr if fails else done.stdout


@contextlib.contextmanager
def served(*args):
    p = subprocess.Popen([str(HUB), *map(str, args)], stdout=subprocess.PIPE, text=True)
    try:
        yield p.stdout.readline().strip()
    finally:
        p.send_signal(signal.SIGTERM)
        p.wait(20)


def sent(url):
    with urllib.request.urlopen(url + "/sent") as f:
        return int(f.read())


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


def pushed(work, base, backbone):
    """score push uploads the same files as the library's upload_folder, and each finds what the other one uploaded."""
    scorer = work / "pushed-scorer"
    shutil.copytree(ORACLE / "llavanext/scorer", scorer)
    text = (scorer / "scorer.yaml").read_text().replace('"../backbone"', "hf://org/tiny-backbone")
    (scorer / "scorer.yaml").write_text(text)
    adapter = json.loads((scorer / "adapter_config.json").read_text())
    (scorer / "adapter_config.json").write_text(json.dumps({**adapter, "base_model_name_or_path": "org/tiny-backbone"}, indent=2))
    with served("--repo", f"model:org/tiny-backbone={backbone}") as url:
        environment = {**base, "HF_ENDPOINT": url, "HF_TOKEN": "hf_any", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
        ours({**environment, "HF_HOME": str(work / "push")}, SCORE, "push", scorer, "org/ours")
        library({**environment, "HF_HOME": str(work / "push")}, "upload", "org/theirs", folder=str(scorer))
        sent(url)
        for first, second in (("org/ours", "org/theirs"), ("org/theirs", "org/ours")):
            again = json.loads(ours({**environment, "HF_HOME": str(work / "push")}, SCORE, "push", scorer, first, "--json"))
            if again["files"] or sent(url):
                sys.exit(f"{first}: {again} was uploaded again")
        dirs = [library({**environment, "HF_HOME": str(work / "pushed")}, "snapshot", name) for name in ("org/ours", "org/theirs")]
        if files(dirs[0]) != files(dirs[1]) or {k: v for k, v in files(dirs[0]).items() if k != ".gitattributes"} != files(scorer):
            sys.exit(f"{dirs}: files differ from {scorer}")
    return f"{len(files(scorer))} files of a scorer pushed like upload_folder"


def check(work):
    name, backbone = "org/tiny-backbone", ORACLE / "llavanext/backbone"
    dataset, pictures = "org/pictures", ORACLE / "images"
    size = sum(len(content) for content in files(backbone).values())
    base = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "TRANSFORMERS_"))}
    with served("--repo", f"model:{name}={backbone}", "--repo", f"dataset:{dataset}={pictures}", "--page", 3) as url:
        for way in ("ours first", "theirs first"):
            environment = {**base, "HF_ENDPOINT": url, "HF_HOME": str(work / way.replace(" ", "-")), "HF_HUB_DISABLE_TELEMETRY": "1"}
            if way == "ours first":
                dir = json.loads(ours(environment, SCORE, "fetch", name, "--json"))["fetched"][0]["path"]
                data = json.loads(ours(environment, SCORE, "fetch", f"hf://datasets/{dataset}", "--json"))["fetched"][0]["path"]
                if files(dir) != files(backbone) or files(data) != files(pictures):
                    sys.exit(f"{dir}, {data}: files differ from the repositories")
                if sent(url) < size:
                    sys.exit("the files were not fetched from the server")
                for options in ({"local_files_only": True}, {}, {"revision": Path(dir).name}):
                    found = library(environment, "snapshot", name, **options)
                    if found != dir:
                        sys.exit(f"huggingface_hub finds {found}, want {dir}")
                for options in ({"filename": "config.json", "local_files_only": True}, {"filename": "model.safetensors.index.json"} if
                                (backbone / "model.safetensors.index.json").exists() else {"filename": "config.json"}):
                    library(environment, "file", name, **options)
                library(environment, "snapshot", dataset, repo_type="dataset")
            else:
                dir = library(environment, "snapshot", name)
                data = library(environment, "snapshot", dataset, repo_type="dataset")
                sent(url)
                for revision in ("", "@main", "@" + Path(dir).name):
                    found = json.loads(ours(environment, SCORE, "fetch", name + revision, "--json"))["fetched"][0]["path"]
                    if found != dir:
                        sys.exit(f"score fetch finds {found}, want {dir}")
                offline = {**environment, "HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
                found = json.loads(ours(offline, SCORE, "fetch", name, f"hf://datasets/{dataset}", "--json"))["fetched"]
                if [f["path"] for f in found] != [dir, data]:
                    sys.exit(f"score fetch offline finds {found}, want {dir} and {data}")
            if again := sent(url):
                sys.exit(f"{way}: {again} bytes were fetched twice")
            known = json.loads(library(environment, "scan"))
            if sorted(known) != sorted((name, dataset)) or known[name] != [sorted(Path(f).name for f in files(backbone))]:
                sys.exit(f"{way}: scan_cache_dir finds {known}")
            # a checkpoint by name gives the same score as its folder
            source, edit, instruction = pairs()[0]
            score = [json.loads(ours(environment, SCORE, "pair", "--scorer", ORACLE / "llavanext/scorer", "--backbone", b, "--source", source, "--edit",
                                     edit, "--instruction", instruction, "--json"))["score"] for b in (backbone, name, f"hf://{name}@{Path(dir).name}")]
            if len(set(score)) != 1:
                sys.exit(f"{way}: different scores for one checkpoint: {score}")
        # both at the same time into an empty cache: each file is fetched by only one of them
        environment = {**base, "HF_ENDPOINT": url, "HF_HOME": str(work / "together"), "HF_HUB_DISABLE_TELEMETRY": "1"}
        sent(url)
        both = [subprocess.Popen(args, env=environment, stdout=subprocess.PIPE, text=True) for args in (
            [sys.executable, "-W", "ignore", "-c", LIBRARY, "snapshot", name, "{}"], [SCORE, "fetch", name])]
        dirs = {p.communicate()[0].strip() for p in both}
        if len(dirs) != 1 or any(p.returncode for p in both) or (fetched := sent(url)) != size or files(dirs.pop()) != files(backbone):
            sys.exit(f"at the same time: {dirs}, {fetched} bytes of {size}")
    with served("--repo", f"model:{name}={backbone}", "--gated", "hf_right") as url:
        environment = {**base, "HF_ENDPOINT": url, "HF_HOME": str(work / "gated"), "HF_HUB_DISABLE_TELEMETRY": "1"}
        said = ours(environment, SCORE, "fetch", name, fails=True)
        if "accept its terms" not in said:
            sys.exit(f"a gated repository: {said}")
        ours({**environment, "HF_TOKEN": "hf_right"}, SCORE, "fetch", name)
        library(environment, "snapshot", name, local_files_only=True)
    return pushed(work, base, backbone) + f"; {size} bytes fetched once by one, found by both; score {score[0]:.6f} by folder, name and commit"
