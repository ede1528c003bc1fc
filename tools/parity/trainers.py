"""Labels of `score condition`, loaded with the trainers' own loaders: `datasets`, as called by diffusers' train_instruct_pix2pix.py,
and, if ASSAY_TRAINERS names a folder with checkouts (diffusers, ai-toolkit, musubi-tuner), these projects' own code.

Their code is not changed: the statements of train_instruct_pix2pix.py between its comments "Get the datasets" and "Scheduler and
math" run as they are. Packages that they import and that are not installed (torchvision, cv2, ...) are stubbed.
"""
import argparse
import ast
import collections
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import tomllib
import types
from pathlib import Path
from types import SimpleNamespace

LAYOUTS = "ai-toolkit,diffsynth,diffusers,instructpix2pix,kohya,magicbrush,parquet"
ROADS = {"diffusers": ("--train_data_dir", "--dataset_name"), "": ("--dataset_name",)}  # folder of the labels: options that accept it


def labels(work, score, layouts, *flags, rows=1200):
    """Labels of a table whose first half has one level and integer scores, written to another folder."""
    from PIL import Image

    pictures = work / "in"
    pictures.mkdir(parents=True, exist_ok=True)
    for i in range(40):
        Image.new("RGB", (48 + i, 40), (6 * i, 90, 255 - 6 * i)).save(pictures / (f"{i}.png" if i % 4 else f"{i}.bmp"))
    name = lambda i: f"{i}.png" if i % 4 else f"{i}.bmp"
    with open(pictures / "scores.jsonl", "w") as f:
        for i in range(rows):
            score01 = 1.0 if i < rows // 2 else i / rows - 0.4
            f.write(json.dumps({"id": str(i), "source": name(i // 3 % 20), "edit": name(20 + i % 20), "score01": score01,
                                "instruction": f"edit {i}, " + "more and more " * 30}) + "\n")
    out = work / "+".join([*layouts.split(","), *flags])
    run([score, "condition", "--in", pictures / "scores.jsonl", "--out", out, "--layouts", layouts, *flags])
    return out


def run(args):
    import subprocess

    done = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, args))}\n{done.stdout}{done.stderr}")


def expected(out):
    """(prompt, content of the edit, content of the source) of every row, from DiffSynth-Studio's layout."""
    return [(r["prompt"], (out / r["image"]).read_bytes(), (out / r["edit_image"]).read_bytes()) for r in json.loads((out / "metadata.json").read_text())]


def pixels(image):
    return image.convert("RGB").tobytes()


def same(what, got, want):
    """Fails unless got and want have the same (prompt, edit, source) rows, in any order."""
    if collections.Counter(got) != collections.Counter(want):
        sys.exit(f"{what}: {len(got)} rows, want {len(want)}; for example this one is missing: {next(iter(collections.Counter(want) - collections.Counter(got)))[0][:80]!r}")


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stubs packages that are not installed with modules in which every name is an empty class."""

    class Anything(type):
        def __getattr__(cls, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return Absent.empty(name)

    @classmethod
    def empty(cls, name):
        return cls.Anything(name, (), {"__init__": lambda self, *a, **k: None, "__call__": lambda self, *a, **k: a and a[0],
                                       "__class_getitem__": classmethod(lambda c, k: c)})

    class Module(types.ModuleType):
        __path__ = []

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            setattr(self, name, Absent.empty(name))
            return self.__dict__[name]

    def __init__(self):
        self.names = {"transformers"}  # which would take the stubbed torchvision for a real one

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.names else None

    def load(self, name):
        """Imports a module of a checkout; missing packages are stubbed."""
        while True:
            try:
                return importlib.import_module(name)
            except ModuleNotFoundError as e:
                if e.name.split(".")[0] in self.names | {name.split(".")[0]}:
                    raise
                self.names.add(e.name.split(".")[0])

    def create_module(self, spec):
        return self.Module(spec.name)

    def exec_module(self, module):
        pass


def diffusers_rows(script, args):
    """Runs the data part of train_instruct_pix2pix.py, and returns its dataset and its first batch."""
    import numpy
    import torch
    from datasets import load_dataset

    text = script.read_text()
    tree = ast.parse(text)
    main = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "main")
    first = text[:text.index("# Get the datasets")].count("\n") + 1
    last = text[:text.index("# Scheduler and math")].count("\n") + 1
    body = [n for n in main.body if first <= n.lineno and n.end_lineno <= last]
    top = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "convert_to_np"
           or isinstance(n, ast.Assign) and n.targets[0].id == "DATASET_NAME_MAPPING"]
    step = type("step", (), {"__init__": lambda self, *a: None, "__call__": lambda self, x: x})

    class Tokenizer:
        model_max_length = 77

        def __call__(self, texts, **_):
            return SimpleNamespace(input_ids=torch.tensor([[len(t)] * 77 for t in texts]))

    class First:
        def __enter__(self): ...
        def __exit__(self, *_): ...

    space = {"args": args, "np": numpy, "torch": torch, "os": os, "load_dataset": load_dataset, "tokenizer": Tokenizer(),
             "accelerator": SimpleNamespace(main_process_first=First),
             "transforms": SimpleNamespace(Compose=step, CenterCrop=step, RandomCrop=step, RandomHorizontalFlip=step, Lambda=step)}
    exec(compile(ast.Module(top + body, []), str(script), "exec"), space)
    return space["dataset"]["train"], next(iter(space["train_dataloader"])), space["original_image_column"], space["edit_prompt_column"], space["edited_image_column"]


def check_diffusers(script, out, want, cache):
    """Both ways to pass the labels to the training script, with its flags and with its defaults."""
    from datasets import load_dataset

    done = 0
    for folder, roads in ROADS.items():
        for road in roads:
            for named in (True, False):
                flags = dict(zip(("original_image_column", "edit_prompt_column", "edited_image_column"), ("source", "prompt", "edit") if named else (None,) * 3))
                path = str(out / folder) if folder else str(out)
                args = SimpleNamespace(dataset_name=path if road == "--dataset_name" else None, train_data_dir=path if road == "--train_data_dir" else None,
                                       dataset_config_name=None, cache_dir=str(cache), resolution=16, center_crop=True, random_flip=False, max_train_samples=None,
                                       seed=0, train_batch_size=4, dataloader_num_workers=0, **flags)
                if script:
                    rows, batch, source, prompt, edit = diffusers_rows(script, args)
                    if tuple(batch["original_pixel_values"].shape) != (4, 3, 16, 16) or tuple(batch["edited_pixel_values"].shape) != (4, 3, 16, 16):
                        sys.exit(f"{road} {path}: a batch of {batch['original_pixel_values'].shape}")
                else:  # the two calls of the script
                    rows = (load_dataset(path, None, cache_dir=args.cache_dir) if args.dataset_name else
                            load_dataset("imagefolder", data_files={"train": os.path.join(path, "**")}, cache_dir=args.cache_dir))["train"]
                    source, prompt, edit = rows.column_names[:3]
                same(f"{road} {path}", [(r[prompt], pixels(r[edit]), pixels(r[source])) for r in rows], want)
                done += 1
    return done


def check_ai_toolkit(absent, checkout, out, want):
    """ai-toolkit's own dataset, with the configuration in the layout."""
    import yaml
    from PIL import Image

    sys.path.insert(0, str(checkout))
    data_loader = absent.load("toolkit.data_loader")
    DatasetConfig, preprocess_dataset_raw_config = data_loader.DatasetConfig, data_loader.preprocess_dataset_raw_config
    raw = yaml.safe_load((out / "ai-toolkit/dataset.yaml").read_text())["datasets"]
    got = []
    for config in preprocess_dataset_raw_config(raw)[:1]:  # there is one per resolution, with the same files
        config = DatasetConfig(**{**config, "buckets": False, "cache_latents_to_disk": False})
        model = type("model", (SimpleNamespace,), {"__getattr__": lambda self, name: False})
        sd = model(get_bucket_divisibility=lambda: 16, get_frame_count_snapper=lambda: None, is_flux=True, model_config=model(latent_space_version="flux1", arch="flux_kontext"), te_padding_side="right",
                   text_embedding_space_version="flux1", vae=SimpleNamespace(), unet=SimpleNamespace())
        rows = data_loader.AiToolkitDataset(config, batch_size=1, sd=sd)
        for item in rows.file_list:
            item.load_caption(None)
            if not item.has_control_image:
                sys.exit(f"{item.path} has no control image")
            got.append((item.raw_caption, pixels(Image.open(item.path)), pixels(Image.open(item.control_path))))
    same("ai-toolkit", got, want)
    return len(got)


def check_musubi(absent, checkout, out, want):
    """musubi-tuner's own data source, with the configuration in the layout."""
    sys.path.insert(0, str(checkout / "src"))
    sources = absent.load("musubi_tuner.dataset.datasources")
    config = tomllib.loads((out / "kohya/dataset.toml").read_text())
    if importlib.util.find_spec("voluptuous") and importlib.util.find_spec("toml"):  # its own validation of the configuration
        utils = absent.load("musubi_tuner.dataset.config_utils")
        blueprint = utils.BlueprintGenerator(utils.ConfigSanitizer()).generate(utils.load_user_config(str(out / "kohya/dataset.toml")), argparse.Namespace())
        params = blueprint.dataset_group.datasets[0].params
        if params.control_directory != config["datasets"][0]["control_directory"] or params.caption_extension != ".txt":
            sys.exit(f"musubi-tuner reads dataset.toml as {params}")
    dataset = config["datasets"][0]
    source = sources.ImageDirectoryDatasource(dataset["image_directory"], config["general"]["caption_extension"], dataset["control_directory"])
    got = []
    for i in range(len(source)):
        _, images, caption, controls = source.get_image_data(i)
        if len(images) != 1 or len(controls) != 1:
            sys.exit(f"musubi-tuner: {len(images)} images and {len(controls)} controls in row {i}")
        got.append((caption, pixels(images[0]), pixels(controls[0])))
    same("musubi-tuner", got, want)
    return len(got)


def check(work, score):
    import io

    from datasets import disable_progress_bars
    from PIL import Image

    disable_progress_bars()
    checkouts = Path(os.environ.get("ASSAY_TRAINERS", "/nonexistent"))
    script = checkouts / "diffusers/examples/instruct_pix2pix/train_instruct_pix2pix.py"
    script = script if script.exists() else None
    out = labels(work, score, LAYOUTS)
    want = [(p, *(pixels(Image.open(io.BytesIO(b))) for b in rest)) for p, *rest in expected(out)]
    done = check_diffusers(script, out, want, work / "cache")
    level = lambda prompt: prompt.split()[-4]  # ... is LEVEL out of five.
    balanced = labels(work, score, "diffsynth,diffusers", "--balance")
    repeated = [(p, *(pixels(Image.open(io.BytesIO(b))) for b in rest)) for p, *rest in expected(balanced)]
    counts = collections.Counter(level(r[0]) for r in repeated)
    if set(repeated) != set(want) or len(set(counts.values())) != 1 or len(counts) != len({level(r[0]) for r in want}):
        sys.exit(f"--balance: counts by level: {dict(counts)}")
    done += check_diffusers(script, balanced, repeated, work / "cache")
    alone = labels(work, score, "parquet")
    ROADS.pop("diffusers")
    done += check_diffusers(script, alone, want, work / "cache")
    said = [f"{len(want)} labels by {done} ways of {'diffusers own script' if script else 'datasets'}"]
    absent = Absent()
    sys.meta_path.insert(0, absent)
    for name, own in (("ai-toolkit", check_ai_toolkit), ("musubi-tuner", check_musubi)):
        found = (checkouts / name).exists()
        said.append(f"{name}: {own(absent, checkouts / name, out, want)} rows" if found else f"{name} skipped: no checkout in ASSAY_TRAINERS")
    return "; ".join(said)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--work", required=True, type=Path)
    p.add_argument("--score", required=True)
    a = p.parse_args()
    print(check(a.work.resolve(), a.score))
