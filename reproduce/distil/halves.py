"""Splits a table by source picture: every other source goes into the first half, the others into the second.

    python3 reproduce/distil/halves.py IN.jsonl FIRST.jsonl SECOND.jsonl
"""
import json
import sys

halves, seen = ([], []), {}
for line in open(sys.argv[1]):
    source = json.loads(line)["source"]
    halves[seen.setdefault(source, len(seen)) % 2].append(line)
for path, half in zip(sys.argv[2:], halves):
    open(path, "w").writelines(half)
