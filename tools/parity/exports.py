"""run.py of an export gives the same score as `score pair`: for every scorer of the fixtures, a calibrated one, scorers with
other layouts, and imported judges with one pass, over pictures of many sizes, shapes and kinds. Judges that it cannot run it
refuses by name."""
import importlib.util
import json
import random
import re
import shutil
import subprocess
import sys
import zipfile

from PIL import Image
from pillow import LIBJPEG, files
from shared import ORACLE, ROOT, SCORE, TRAIN, close, run

SAME = 1e-4  # on 0 to 10
SIZES = [(64, 64), (61, 64), (200, 31), (23, 160), (448, 300), (18, 20), (97, 211), (333, 333)]


def load(export):
    """Loads run.py of an export as a module."""
    spec = importlib.util.spec_from_file_location("run_" + export.name, export / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(work):
    """(source, edit, instruction) of other sizes and shapes; some pictures are transparent, and one is rotated by its EXIF."""
    out = []
    words = ["blur the picture", "make it  grey. ", "  flip «it» – 左右\n", "Make the LEFT cat's fur 20% brighter!", "x"]
    for i, size in enumerate(SIZES):
        pair = []
        for name, photo, (w, h) in (("source", "coffee", size), ("edit", "chelsea", SIZES[i - 3] if i % 3 else size)):
            im = Image.open(ROOT / f"examples/photos/{photo}.png").convert("RGB").resize((w, h), Image.Resampling.BICUBIC)
            how = {}
            if i % 2:
                im.putalpha(Image.linear_gradient("L").resize((w, h)))
            elif i == 4:
                how["exif"] = Image.Exif()
                how["exif"][0x0112] = 6
            pair.append(work / f"{i}-{name}.png")
            im.save(pair[-1], **how)
        out.append((*pair, words[i % len(words)]))
    return out


def scorer(work, name, of, **changes):
    """A copy of a scorer of format 1 with other values in its scorer.yaml."""
    to = work / "scorers" / name
    shutil.copytree(of, to)
    text = (to / "scorer.yaml").read_text()
    text = re.sub(r"(?ms)^digests:.*", "", text)
    text = re.sub(r"(?m)^backbone:.*", f"backbone: {json.dumps(str((of / re.search(r'(?m)^backbone: (.*)', text)[1].strip(chr(34))).resolve()))}", text)
    for key, value in changes.items():
        text = re.sub(rf"(?m)^{key}:.*\n", "", text) + f"{key}: {json.dumps(value)}\n"
    (to / "scorer.yaml").write_text(text)
    return to


def calibrated(work, name, of, edits):
    """A copy of a scorer, calibrated on random labels."""
    to, table = scorer(work, name, of), work / f"{name}.jsonl"
    rng = random.Random(5)
    photos = sorted((ROOT / "examples/photos").glob("*.png"))
    rows = []
    for i in range(60):
        im = Image.open(photos[i % len(photos)]).convert("RGB").resize((40 + i, 64), Image.Resampling.BICUBIC)
        im.save(work / f"{name}-{i}.png")
        rows.append({"id": str(i), "source": f"{name}-{i}.png", "edit": str(edits[i % len(edits)][1]), "instruction": "blur the picture", "label": rng.random()})
    table.write_text("".join(json.dumps(r) + "\n" for r in rows))
    run(SCORE, "calibrate", "--scorer", to, "--in", table, "--out", work / f"{name}-report")
    return to


def imported(work):
    """Judges of format 2, imported from the released layouts: those that run.py supports, and those that it refuses, with the reason."""
    dir = work / "released"
    with zipfile.ZipFile(ORACLE / "released.zip") as z:
        z.extractall(dir)
    (work / "hpsv3.yaml").write_text(f"max_pixels: {json.loads((dir / 'hpsv3/cases.json').read_text())['max_pixels']}\n")
    (work / "question.txt").write_text('The first picture was edited: "[INSTRUCTION]". [REQUIREMENT]\nRate the edit from 0 to 5. Answer with the digit alone.')
    (work / "adiee.txt").write_text(json.loads((dir / "adiee/classifier/cases.json").read_text())["questions"][0])
    prompts = ("choices", "--prompts", work / "question.txt")
    digits = (*prompts, "--base", dir / "editreward/base", "--choices", "0,1,2,3,4,5")
    made = {
        "hpsv3": ("hpsv3", "--base", dir / "hpsv3/base", "--weights", dir / "hpsv3/HPSv3.safetensors", "--config", work / "hpsv3.yaml", "--prompts", dir / "hpsv3/prompts"),
        "choices": digits,
        "choices-drop": (*digits, "--alpha", "drop"),
        "choices-llava": (*prompts, "--base", ORACLE / "llavanext/backbone", "--choices", "Y,N", "--values", "1,0"),
        "adiee-fixed": ("adiee", "--weights", dir / "adiee/regressor", "--prompts", work / "adiee.txt", "--pair-size", "56,56", "--answer", " It is [SCORE]."),
        "adiee": ("adiee", "--weights", dir / "adiee/classifier", "--prompts", work / "adiee.txt", "--pair-size", "56,56"),
        "editreward": ("editreward", "--base", dir / "editreward/base", "--weights", dir / "editreward/weights", "--prompts", dir / "editreward/prompts",
                       "--config", dir / "editreward/config/EditReward-tiny.yaml"),
        "joint": (*digits, "--joint"),
    }
    for name, args in made.items():
        run(SCORE, "import", *args, "--out", work / "scorers" / name)
    refused = {"adiee": "steps", "editreward": "2 passes", "joint": "joint choices"}
    return {name: work / "scorers" / name for name in made if name not in refused}, {work / "scorers" / name: why for name, why in refused.items()}


def compare(name, export, scorer, edits):
    """The largest difference from `score pair` over edits."""
    module, worst = load(export), 0
    for source, edit, instruction in edits:
        shown = ["--source", source] if "edit" != module.JUDGE["passes"][0]["pictures"][0] else []
        more = ["--requirement", "Keep the rest."] if "[REQUIREMENT]" in module.JUDGE["passes"][0]["prompt"] else []
        want = run(SCORE, "pair", "--scorer", scorer, *shown, "--edit", edit, "--instruction", instruction, *more, "--json")
        got = module.judge(source if shown else None, instruction, edit, *more[1:])
        what = f"run.py of {name}: {{}} of {edit.name} ({instruction!r})"
        close(what.format("score"), got["score"], want["score"], SAME)
        close(what.format("sigma"), got.get("sigma", 0), want.get("sigma", 0), SAME)
        for d, v in want.get("dimensions", {}).items():
            for number in ("score", "sigma"):
                close(what.format(f"{number} of {d}"), got["dimensions"][d].get(number, 0), v.get(number, 0), SAME)
        worst = max(worst, abs(got["score"] - want["score"]))
    return worst


def printed(export, scorer, edit):
    """Both command lines print the same."""
    args = ["--edit", edit[1], "--instruction", edit[2]] + (["--source", edit[0]] if scorer.name != "hpsv3" else [])
    want = subprocess.run([SCORE, "pair", "--scorer", scorer, *args], capture_output=True, text=True, check=True).stdout
    got = subprocess.run([sys.executable, export / "run.py", *args], capture_output=True, text=True, check=True).stdout
    if got != want:
        sys.exit(f"run.py prints {got!r}, want score pair's {want!r}")


def kinds(work, export, scorer):
    """Pictures of every mode and kind of transparency, as edits of one source; 16-bit grey is left out."""
    source = ROOT / "examples/photos/coffee.png"
    paths = {str(i): p for i, p in enumerate(files(work, 34))}
    table, out = work / "kinds.jsonl", work / "kinds.scores.jsonl"
    table.write_text("".join(json.dumps({"id": i, "source": str(source), "edit": str(p), "instruction": "make it grey"}) + "\n" for i, p in paths.items()))
    subprocess.run([SCORE, "batch", "--scorer", scorer, "--in", table, "--out", out], capture_output=True)  # exit code 1: some are refused
    module, compared, jpeg = load(export), 0, 0
    for row in map(json.loads, out.read_text().splitlines()):
        path = paths[row["id"]]
        if path.name[0] in "IF":  # 16-bit grey, or 32-bit values: refused by one of the two
            continue
        compared += 1
        got = module.score(source, "make it grey", path)
        close(f"run.py: score of {path.name}", got, row["score"], LIBJPEG if path.suffix == ".jpg" else SAME)
        jpeg = max(jpeg, abs(got - row["score"]))
    return f"{compared} kinds of pictures, JPEG at most {jpeg:.1e} apart"


def refuses(export, why, edit):
    try:
        load(export).score(*edit[:1], edit[2], edit[1])
    except NotImplementedError as e:
        if why in str(e):
            return
        sys.exit(f"run.py of {export.name} refuses: {e}, want {why!r} in it")
    sys.exit(f"run.py of {export.name} runs, want a refusal with {why!r}")


def export(work, scorer):
    to = work / "exports" / "-".join(scorer.parts[-2:])
    run(TRAIN, "export", "--scorer", scorer, "--out", to)
    return to


def check(work):
    edits = drawn(work)
    tiny = ROOT / "backbones/tiny-scorer"
    scorers = {f"{s.parent.name}/{s.name}": s for s in sorted(ORACLE.glob("*/scorer*"))} | {"tiny-scorer": tiny}
    for family in ("llavanext", "qwen3_vl"):
        of = ORACLE / family / "scorer_sequence"
        scorers[f"{family} before"] = scorer(work, f"{family}-before", of, score_position="before", pair_size=[70, 90], score_range=[5, -5])
    scorers["question first"] = scorer(work, "first", ORACLE / "qwen2_5_vl/scorer_sequence", layout="instruction_first")
    trim = "{{ messages[0]['content'][-1]['text'] | trim }} <|image_pad|> or <|image_pad|>?"
    for name, question in (("both", "[INSTRUCTION]"), ("left", "[INSTRUCTION]: done?"), ("right", "Is it done: [INSTRUCTION]")):
        scorers["stripped " + name] = scorer(work, "stripped-" + name, ORACLE / "qwen2_vl/scorer_sequence", question=question, chat_template=trim, end_of_turn="<|endoftext|>")
    scorers["calibrated"] = calibrated(work, "calibrated", tiny, edits)
    more, refused = imported(work)
    scorers |= more
    worst = 0
    for name, s in scorers.items():
        to = export(work, s)
        worst = max(worst, compare(name, to, s, edits))
        if name in ("tiny-scorer", "calibrated", "hpsv3"):
            printed(to, s, edits[0])
        if name == "tiny-scorer":
            seen = kinds(work, to, s)
    for s, why in refused.items():
        refuses(export(work, s), why, edits[0])
    return f"{len(scorers)} scorers, {len(edits)} edits each, at most {worst:.1e} apart; {seen}; {len(refused)} judges refused"
