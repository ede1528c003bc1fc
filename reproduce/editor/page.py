"""Joins the outputs of all runs, and writes the results: small.md, curves.svg, pictures.png, results.csv.

    page.py join --work DIR --seeds 1 2 3
    page.py gates --work DIR
    page.py write --work DIR --out reproduce/editor
"""
import argparse
import csv
import json
import math
import random
from pathlib import Path

from PIL import Image

from tune import lines, write_lines

ARMS = {
    "base": "pretrained, not tuned",
    "no-words": "more training on the same edits, without scores",
    "words": "trained with the score in words, asked for five",
    "good": "trained on edits of 8 and more only",
    "best": "trained on its own best of four",
    "preferences": "DPO on its own edits",
    "feedback": "loss + 0.001 (10 - score)",
    "feedback-50": "loss + 0.05 (10 - score)",
    "clipped-50": "the same, scores from 5 on without a gradient",
    "kept-50": "feedback-50 + 10 times the squared distance from the base's edit",
    "guarded": "loss + 0.001 (10 - score of the guard)",
    "guarded-50": "loss + 0.05 (10 - score of the guard)",
    "agreed-50": "loss + 0.05 (10 - lower bound of score and guard)",
    "hardened-50": "loss + 0.05 (10 - score of the hardened guard)",
}
REWARDS = {"guarded": "guard", "guarded-50": "guard", "agreed-50": "agreed", "hardened-50": "hardened"}  # the other arms: score
OTHERS = {"score": "guard", "guard": "score", "agreed": "hardened", "hardened": "score"}  # a judge that an arm was not trained on
COLOURS = ["#444444", "#999999", "#0072b2", "#009e73", "#56b4e9", "#cc79a7", "#e69f00", "#d55e00", "#ddaa33"]
COLOURS += ["#aa3377", "#882255", "#117733", "#88ccee", "#332288"]
CELL = "{:+.3f} ({:+.3f} to {:+.3f})"
COLUMNS = {  # file and column
    "score": ("scores", "score"),
    "truth": ("truth", "truth"),
    "guard": ("guard-scores", "score"),
    "hardened": ("hardened-scores", "score"),
    "clip_d": ("similarities", "clip_d"),
}


def join(work, seeds):
    """One table of all outputs in the order of their tasks, and one of each arm's last outputs for `score drift`."""
    tables = {}
    for path in sorted((work / "outputs").glob("*-*-*.jsonl")):
        arm, seed, step = path.stem.rsplit("-", 2)
        if int(seed) in seeds:
            tables[arm, int(seed), int(step)] = lines(path)
    write_lines(work / "outputs/all.jsonl", sorted((r for t in tables.values() for r in t), key=lambda r: r["id"]))
    for arm in {a for a, _, _ in tables}:
        last = max(step for a, _, step in tables if a == arm)
        rows = [r for (a, _, step), t in sorted(tables.items()) if (a, step) == (arm, last) for r in t]
        write_lines(work / f"outputs/{arm}.jsonl", sorted(rows, key=lambda r: r["id"]))


def read(work):
    """{(arm, step): {(group, seed): {column: value}}}"""
    out = {}
    for name, (file, column) in COLUMNS.items():
        for r in lines(work / f"{file}.jsonl"):
            group, arm, seed, step = r["id"].split("/")
            value = math.nan if r.get(column) is None else r[column]
            out.setdefault((arm, int(step)), {}).setdefault((group, int(seed)), {})[name] = value
    for rows in out.values():
        for r in rows.values():  # the lower bound of two judges is the lower score; NaN stays NaN
            r["agreed"] = (r["score"] + r["guard"] - abs(r["score"] - r["guard"])) / 2
    return out


def gates(work):
    """Writes tables of each checkpoint's outputs and of the base's, with the arm's reward, another judge's score and CLIP-D,
    for `score drift`, to gates/."""
    (work / "gates").mkdir(exist_ok=True)
    results, rows = read(work), {r["id"]: r for r in lines(work / "outputs/all.jsonl")}

    def write_table(arm, step, reward, path):
        table = []
        for (group, seed), v in sorted(results[arm, step].items()):
            numbers = {"score01": v[reward] / 10, "other": v[OTHERS[reward]], "clip_d": v["clip_d"]}
            if any(math.isnan(x) for x in numbers.values()):
                continue
            r = rows[f"{group}/{arm}/{seed}/{step}"]
            row = {"source": r["source"], "edit": "../outputs/" + r["edit"], "instruction": r["instruction"]}
            table.append(row | numbers)
        write_lines(path, table)

    for arm, step in results:
        if arm != "base":
            reward = REWARDS.get(arm, "score")
            write_table(arm, step, reward, work / f"gates/{arm}-{step}.jsonl")
            write_table("base", 0, reward, work / f"gates/base-{arm}-{step}.jsonl")


def guards(work, results):
    """How well the guards judge, and when the gate raises an alarm."""
    scorers = {"score": "tiny-scorer", "guard": "guard", "hardened": "hardened guard"}
    files = {name: work / f"exam/{COLUMNS[name][0]}.json" for name in scorers}
    if not all(f.exists() for f in files.values()):
        return []
    arms = [a for a in ARMS if any(a == b for b, _ in results)]
    text = ["", "Spearman of each scorer and the truth on outputs of the last step, and on the exam's own outputs (all; plausible"]
    text += ["edits; pairs in the right order):", "", "| | " + " | ".join(arms) + " | exam |", "|---" * (len(arms) + 2) + "|"]
    for name, title in scorers.items():
        exam = json.loads(files[name].read_text())
        cells = [f"{spearman(last(results, arm), name):.2f}" for arm in arms]
        own = ", ".join(f"{exam[k]:.2f}" for k in ("spearman", "alive", "pair_accuracy"))
        text.append(f"| {title} | " + " | ".join(cells) + f" | {own} |")
    text += ["", "The gate, `score drift --held-out-column`, at every checkpoint: gain of the truth against the base, and alarms"]
    text += ["(g: by a judge that the arm was not trained on, c: by CLIP-D).", ""]
    steps = sorted({step for a, step in results if a != "base"})
    text += ["| arm | " + " | ".join(f"step {s}" for s in steps) + " |", "|---" * (len(steps) + 1) + "|"]
    for arm in arms[1:]:
        cells = []
        for step in steps:
            if (arm, step) not in results:
                cells.append("")
                continue
            cell = f"{difference(results[arm, step], last(results, 'base'), 'truth')[0]:+.3f}"
            for column, letter in (("other", "g"), ("clip_d", "c")):
                path = work / f"gates/{arm}-{step}-{column}.json"
                if path.exists() and json.loads(path.read_text())["confirmation"]["alarm"]:
                    cell += " " + letter
            cells.append(cell)
        text.append(f"| {arm} | " + " | ".join(cells) + " |")
    return text


def mean(values):
    values = [v for v in values if not math.isnan(v)]
    return sum(values) / len(values) if values else math.nan


def by_group(rows, name):
    """A number for each instruction: the mean over its seeds."""
    groups = {}
    for (group, _), r in rows.items():
        groups.setdefault(group, []).append(r.get(name, math.nan))
    return {g: mean(v) for g, v in groups.items()}


def interval(values, draws=2000):
    """The mean and its 95 % interval over instructions, by the bootstrap."""
    values = [v for v in values if not math.isnan(v)]
    rng = random.Random(1)
    means = sorted(sum(rng.choices(values, k=len(values))) / len(values) for _ in range(draws))
    return sum(values) / len(values), means[int(0.025 * draws)], means[int(0.975 * draws) - 1]


def difference(rows, base, name):
    a, b = by_group(rows, name), by_group(base, name)
    return interval([a[g] - b[g] for g in a])


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    out, i = [0.0] * len(values), 0
    while i < len(order):
        j = i
        while j < len(order) and values[order[j]] == values[order[i]]:
            j += 1
        for k in order[i:j]:
            out[k] = (i + j - 1) / 2
        i = j
    return out


def spearman(rows, name):
    a, b = (ranks([r[c] for r in rows.values()]) for c in (name, "truth"))
    ma, mb = mean(a), mean(b)
    cov = sum((x - ma) * (y - mb) for x, y in zip(a, b))
    var = sum((x - ma) ** 2 for x in a) * sum((y - mb) ** 2 for y in b)
    return cov / math.sqrt(var) if var else math.nan


def last(results, arm):
    return results[arm, max(step for a, step in results if a == arm)]


def report(work, results):
    arms = [a for a in ARMS if any(a == b for b, _ in results)]
    base = last(results, "base")
    control = last(results, "no-words")
    names = [n for n in COLUMNS if n in next(iter(base.values()))]
    seeds = sorted({s for _, s in base})
    groups = {g for g, _ in base}
    text = [
        "# An editor tuned by a scorer, in the miniature world",
        "",
        f"Written by `reproduce/editor/run.sh`: {len(groups)} instructions on photographs that were never used, "
        f"{len(seeds)} seeds of tuning (and of the codes that edits are drawn from: runs of one seed are paired).",
        "Score 0 to 10, truth 0 to 1; intervals of 95 % over instructions.",
        "",
        "| arm | | " + " | ".join(names) + " | Spearman of score and truth |",
        "|---" * (len(names) + 3) + "|",
    ]
    for arm in arms:
        rows = last(results, arm)
        cells = [f"{mean(by_group(rows, n).values()):.3f}" for n in names]
        text.append(f"| {arm} | {ARMS[arm]} | " + " | ".join(cells) + f" | {spearman(rows, 'score'):.2f} |")
    text += ["", "| against base | " + " | ".join(names) + " | truth against no-words |"]
    text.append("|---" * (len(names) + 2) + "|")
    for arm in arms:
        if arm == "base":
            continue
        rows = last(results, arm)
        cells = [CELL.format(*difference(rows, base, n)) for n in names]
        cells.append("" if arm == "no-words" else CELL.format(*difference(rows, control, "truth")))
        text.append(f"| {arm} | " + " | ".join(cells) + " |")
    text += ["", "![score and truth by step of tuning](curves.svg)", ""]
    text += ["![pictures before and after](pictures.png)", ""]
    text += ["`score drift` from base to the last step of each arm:", ""]
    for arm in arms:
        path = work / f"drift-{arm}.json"
        if path.exists():
            warnings = json.loads(path.read_text()).get("warnings") or ["no warning"]
            text.append(f"- {arm}: " + "; ".join(warnings))
    text += guards(work, results)
    return "\n".join(text) + "\n"


def curves(results):
    """Score and truth by step, two panels in one SVG."""
    width, height, left, top = 300, 200, 50, 30
    arms = [a for a in ARMS if any(a == b for b, _ in results)]
    most = max(step for _, step in results)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="860" height="{max(top + height + 50, 20 * len(arms) + 40)}" ']
    out.append('font-family="sans-serif" font-size="12">')
    out.append('<rect width="100%" height="100%" fill="white"/>')
    for panel, name in enumerate(("score", "truth")):
        x0 = left + panel * (width + 60)
        values = {k: mean(by_group(rows, name).values()) for k, rows in results.items()}
        high, low = max(values.values()), min(values.values())
        pad = 0.05 * (high - low) or 1
        high, low = high + pad, low - pad

        def at(step, v):
            return f"{x0 + width * step / most:.1f},{top + height * (high - v) / (high - low):.1f}"

        out.append(f'<rect x="{x0}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#bbb"/>')
        out.append(f'<text x="{x0}" y="{top - 8}">{name}</text>')
        for v in (low, (low + high) / 2, high):
            y = top + height * (high - v) / (high - low)
            out.append(f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{v:.2f}</text>')
        for step in sorted({s for _, s in results}):
            x = x0 + width * step / most
            out.append(f'<text x="{x:.1f}" y="{top + height + 16}" text-anchor="middle">{step}</text>')
        for arm, colour in zip(ARMS, COLOURS):
            steps = sorted(s for a, s in results if a == arm)
            if arm == "base" or not steps:
                continue
            points = [at(0, values["base", 0])] + [at(s, values[arm, s]) for s in steps]
            out.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
    x = left + 2 * (width + 60) - 30
    for i, arm in enumerate(a for a in arms if a != "base"):
        colour, y = COLOURS[list(ARMS).index(arm)], top + 10 + 20 * i
        out.append(f'<path d="M{x} {y}h20" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{x + 26}" y="{y + 4}">{arm}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def pictures(work, results, count=10):
    """Rows of instructions: the source, what was asked for, and each arm's first seed in the order of the table."""
    arms = [a for a in ARMS if any(a == b for b, _ in results)]
    tables = {}
    for arm in arms:
        rows = [(r["id"].split("/"), r) for r in lines(work / f"outputs/{arm}.jsonl")]
        tables[arm] = {group: r for (group, _, seed, _), r in rows if seed == "1"}
    groups = sorted(tables["base"])
    groups = groups[:: max(1, len(groups) // count)][:count]
    sheet = Image.new("RGB", ((2 + len(arms)) * 68, len(groups) * 68), "white")
    told = []
    for y, g in enumerate(groups):
        row = tables["base"][g]
        files = [row["source"], row["target"]] + [tables[a][g]["edit"] for a in arms]
        for x, name in enumerate(files):
            sheet.paste(Image.open(work / "outputs" / name).convert("RGB"), (x * 68, y * 68))
        told.append(row["instruction"])
    return sheet, told, arms


def write(work, out):
    results = read(work)
    out.mkdir(parents=True, exist_ok=True)
    sheet, told, arms = pictures(work, results)
    sheet.save(out / "pictures.png")
    text = report(work, results)
    text += "\nPictures, from left to right: source, what was asked for, " + ", ".join(arms) + ". From top to bottom: "
    text += "; ".join(told) + ".\n"
    (out / "small.md").write_text(text)
    (out / "curves.svg").write_text(curves(results))
    with open(out / "results.csv", "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(["arm", "step", "seed", *COLUMNS])
        for (arm, step), rows in sorted(results.items()):
            for seed in sorted({s for _, s in rows}):
                own = [r for (_, s), r in rows.items() if s == seed]
                w.writerow([arm, step, seed] + [f"{mean([r.get(c, math.nan) for r in own]):.4f}" for c in COLUMNS])
    print(text)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("what", choices=["join", "gates", "write"])
    p.add_argument("--work", type=Path, required=True)
    p.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="the seeds to join")
    p.add_argument("--out", type=Path)
    a = p.parse_args()
    if a.what == "join":
        join(a.work, a.seeds)
    elif a.what == "gates":
        gates(a.work)
    else:
        write(a.work, a.out)


if __name__ == "__main__":
    main()
