"""A client of `score serve` that needs only Python: copy these lines.

python examples/reward/plain.py http://127.0.0.1:8100 a.png "make it brighter" b.png c.png
"""

import base64
import json
import sys
import urllib.request


def scores(url, source, instruction, edits):
    """Scores of the edits of one source, all given as paths. An edit that cannot be judged raises."""
    pictures = [base64.b64encode(open(path, "rb").read()).decode() for path in (source, *edits)]
    body = {"source": pictures[0], "instruction": instruction, "edits": pictures[1:]}
    request = urllib.request.Request(url + "/v1/score", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        results = json.load(answer)["results"]
    for path, result in zip(edits, results):
        if "error" in result:
            raise ValueError(f"{path}: {result['error']['message']}")
    return [result["score"] for result in results]


if __name__ == "__main__":
    print(*scores(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
