"""Writes what a judge is to say of each edit of the miniature world: conversations that train it to write reasons.

    python3 reproduce/distil/reasons.py EDITS.jsonl TRUTH.jsonl OUT.jsonl

OUT lies beside the folder of EDITS, so that its pictures have that folder before their names.
"""
import json
import os
import sys

edits, truth, out = sys.argv[1:]
PROMPT = open(os.path.join(os.path.dirname(__file__), "writer", "rate.jinja")).read().strip()
WHOLE = {
    "perfect": "all of it",
    "half": "only a half of it",
    "over": "all of it, but more than that",
    "damaged": "all of it, but the picture is damaged",
    "wrong_attribute": "something else of that kind",
    "wrong_family": "something else",
    "noop": "nothing",
    "corrupt": "nothing that can be seen",
    "foreign": "nothing, as it is another picture",
}
folder = os.path.relpath(os.path.dirname(edits), os.path.dirname(out))
known = {}
for line in open(truth):
    row = json.loads(line)
    known[row["id"]] = row
with open(out, "w") as f:
    for line in open(edits):
        row = json.loads(line)
        t = known[row["id"]]
        why = (f"it was asked to {row['instruction']}. there was {row['source_caption']}. "
               f"wanted is {row['target_caption']}. what was done: {t['difference']}. that is {WHOLE[t['kind']]}")
        answer = json.dumps({"reasoning": why, "score": round(10 * t["degree"])})
        images = [{"type": "image", "image": os.path.join(folder, row[k])} for k in ("source", "edit")]
        question = {"type": "text", "text": PROMPT.replace("{{ instruction }}", row["instruction"])}
        f.write(json.dumps({"id": row["id"], "messages": [{"role": "user", "content": images + [question]},
                                                          {"role": "assistant", "content": answer}]}) + "\n")
