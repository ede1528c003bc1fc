"""Writes small.md from the runs of run.sh (README.md).

    page.py --work DIR --out DIR --seeds 1 2 3
"""
import argparse
import json
from pathlib import Path

HEADS = ["overall", "following", "quality", "identity", "emotion", "valence", "arousal", "dominance"]
MEASURES = {"spearman": "Spearman", "pair_accuracy": "pairs in the right order", "accuracy": "right class"}


def last(folder):
    """The measures of each head at the end of a run."""
    lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    return [m for m in lines if m["kind"] == "validation"][-1]


def shown(values, sign=""):
    text = f"{sum(values) / len(values):{sign}.3f}"
    return text + (f" ({min(values):{sign}.3f} to {max(values):{sign}.3f})" if len(values) > 1 else "")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--work", type=Path, required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--seeds", nargs="+", required=True)
    a = p.parse_args()
    shared = {s: last(a.work / s / "all") for s in a.seeds}
    alone = {s: {h: last(a.work / s / h) for h in HEADS} for s in a.seeds}
    n = shared[a.seeds[0]]["rows"]
    text = [f"# One scorer of eight heads, and eight of one: {n} edits of photographs never used, seeds {', '.join(a.seeds)}", "",
            "Means over the seeds, with the least and the most.", "",
            "| head | measure | one scorer of all heads | a scorer of this head alone | difference |", "|---|---|---|---|---|"]
    for head in HEADS:
        for key, name in MEASURES.items():
            one = [shared[s]["dimensions"][head].get(key) for s in a.seeds]
            other = [alone[s][head]["dimensions"][head].get(key) for s in a.seeds]
            if None in one + other:
                continue
            difference = [x - y for x, y in zip(one, other)]
            text.append(f"| {head} | {name} | {shown(one)} | {shown(other)} | {shown(difference, '+')} |")
    table = [line for line in (a.work / "report/results.md").read_text().splitlines() if line.startswith("| ")]
    text += ["", "`score bench all` on the same edits in the benchmarks' layouts, by scorers of all heads and of the head overall alone,",
             "with the seed:", "", table[0], "|---" * len(a.seeds + a.seeds) + "|---|", *table[1:]]
    (a.out / "small.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main()
