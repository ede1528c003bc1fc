"""Requests for many edits: pictures as text, parts that the server accepts, bodies, and the parsing of answers."""

import base64
import io
import json
import math
import struct
from array import array
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Optional

from .connections import ServerError
from .failures import settle
from .pictures import encode


@dataclass
class Gradient:
    """A score with its gradient for the edited picture, per 8-bit level.

    `values` is float32, row-major [height, width, 3]; `score01` is None if the scorer has no range."""

    score: float
    score01: Optional[float]
    shape: tuple
    values: array


@dataclass
class Evaluation:
    """The results of several judges for a list of edits, in order.

    `rewards` are the weighted sums: numbers; None or NaN according to `on_error`. `results` are the server's results
    for each edit: "rewards" has each judge's score, value and error. `judges` have name, fingerprint and range."""

    rewards: list
    results: list
    judges: list
    version: str
    ids: list = field(default_factory=list)


# An edit as text: its source in base64 (a tuple of several), the instruction, the edit in base64.
Pair = namedtuple("Pair", "source instruction edit")


class Texts:
    """Pairs of pictures as text. A source that occurs several times is encoded once."""

    def __init__(self, jpeg):
        self.jpeg, self.known = jpeg, {}  # by identity: the pairs hold the pictures

    def one(self, picture):
        return base64.b64encode(encode(picture, self.jpeg)).decode()

    def source(self, picture):
        if isinstance(picture, (list, tuple)):
            if not picture:
                raise ValueError("an empty list of sources")
            return tuple(self.source(p) for p in picture)
        if id(picture) not in self.known:
            self.known[id(picture)] = self.one(picture)
        return self.known[id(picture)]

    def pair(self, pair):
        source, instruction, edit = pair
        source = None if source is None else self.source(source)  # None for judges of a single picture
        return Pair(source, instruction, self.one(edit))

    def stream(self, pairs, keys):
        """Pairs one at a time, to bound memory; their sources and instructions are appended to keys."""
        for pair in pairs:
            text = self.pair(pair)
            keys.append(text[:2])
            yield text


def edits_of(edits):
    """A list of pictures; one picture raises."""
    if hasattr(edits, "__iter__") and not isinstance(edits, (str, bytes, bytearray, memoryview, dict, io.IOBase)):
        if len(getattr(edits, "shape", ())) != 3:
            return list(edits)
    raise TypeError(f"edits: want a list of pictures, [edit], not one {type(edits).__name__}")


def _size(source):
    return sum(map(len, source)) if isinstance(source, tuple) else len(source or "")


def split(pairs, size, count, apart=False):
    """Parts of at most `count` pairs and about `size` bytes. Pairs that share source and instruction send them once,
    unless each is sent `apart`, with its own."""
    size -= 1024  # for the rest of the body
    part, same, once, each = [], not apart, 0, 0
    for pair in pairs:
        shared, edit = _size(pair.source) + len(json.dumps(pair.instruction)) + 64, len(pair.edit) + 4
        same = same and (not part or pair[:2] == part[0][:2])
        once, each = (once or shared) + edit, each + shared + edit
        if part and (len(part) == count or (once if same else each) > size):
            yield part
            part, same, once, each = [], not apart, shared + edit, shared + edit
        part.append(pair)
    if part:
        yield part


def split_groups(pairs, groups, size, count):
    """The same with complete groups in each part, a list of indices. A group that is too large for a part raises."""
    members = {}
    for i, group in enumerate(groups):
        members.setdefault(group, []).append(i)

    def fits(indices):
        part = [pairs[i] for i in indices]
        return len(list(split(part, size, count, bool(names_of(part, [groups[i] for i in indices]))))) == 1

    part = []
    for indices in members.values():
        if not fits(indices):
            raise ValueError(
                f"a group of {len(indices)} edits is more than the server accepts in a request ({count} edits, "
                f"{size} bytes): its mean, z-scores or ranks need one request; send JPEG, or raise --max-body "
                "and --max-items"
            )
        if part and not fits(part + indices):
            yield part
            part = []
        part = part + indices
    if part:
        yield part


def body_of(part, options, one=True, groups=None):
    """The JSON of a part. Without `one` a single edit is sent as a pair."""

    def source(s):
        return {} if s is None else {"sources": list(s)} if isinstance(s, tuple) else {"source": s}

    first = part[0]
    if groups is None and all(p[:2] == first[:2] for p in part) and (one or len(part) > 1):
        body = {**source(first.source), "instruction": first.instruction, "edits": [p.edit for p in part]}
    else:
        body = {"pairs": [{**source(p.source), "instruction": p.instruction, "edit": p.edit} for p in part]}
        if groups is not None:
            for pair, group in zip(body["pairs"], groups):
                pair["group"] = group
    return json.dumps({**body, **options}).encode()


def group_names(groups, count):
    """Names of the groups of pairs: equal keys have the same name. None: there are no keys."""
    if groups is None:
        return None
    keys = [g.item() if hasattr(g, "item") else g for g in groups]
    if len(keys) != count:
        raise ValueError(f"{len(keys)} groups for {count} pairs")
    numbers = {}
    return [str(numbers.setdefault(k, len(numbers))) for k in keys]


def names_of(part, groups):
    """The names of a part's groups; None if the server forms the same groups, by source and instruction."""
    if not groups:
        return None
    keys = [p[:2] for p in part]
    return None if len(set(keys)) == len(set(groups)) == len(set(zip(keys, groups))) else groups


def reward_list(rewards):
    """Rewards of a request: names, or dicts with name, weight, dimension, scale and fingerprint."""
    return [{"name": r} if isinstance(r, str) else dict(r) for r in rewards]


def results_of(raw, count):
    """The results of an answer, each a score or an error, with the scorer's name."""
    answer = json.loads(raw)
    results = answer["results"]
    if len(results) != count or not all(map(_readable, results)):
        raise ValueError(f"{len(results)} results for {count} edits, or one without a score or an error's message")
    return [{**r, "scorer": answer["scorer"]} for r in results]


def of_edits(error, part):
    """Whether an error applies to each edit of a part: their common source is not a picture, or the instruction is
    blank. A server refuses such a part as a whole, while pairs have an error each."""
    return error.kind == "bad_picture" or error.kind == "bad_request" and not part[0].instruction.strip()


def failed(error, part):
    """Results of edits with a common error."""
    return [{"error": {"kind": error.kind, "message": str(error)}}] * len(part)


def _readable(result):
    """Whether a result is an error with a message, or finite scores."""
    if "error" in result:
        return isinstance(result["error"]["message"], str)
    return all(map(_finite, (result["score"], result.get("score01", 0))))


def _finite(v):
    return type(v) in (int, float) and -math.inf < v < math.inf


def answer_of(raw, count, nulls):
    """A full answer with rewards. `nulls`: allowed rewards of edits that could not be judged."""
    answer = json.loads(raw)
    results = answer["results"]
    if len(results) != count:
        raise ValueError(f"{len(results)} results for {count} edits")
    for i, result in enumerate(results):
        reward = result["reward"]
        failed = "error" in result or any("error" in r for r in result.get("rewards", ()))
        if not _finite(reward) and not (failed and any(reward is n or n != n and reward != reward for n in nulls)):
            raise ValueError(f"result {i} has the reward {reward!r}")
    return answer


def same_judges(answers):
    """The judges of the answers to the parts of one call, which must be the same."""
    judges = answers[0]["judges"] if answers else []
    for answer in answers[1:]:
        if answer["judges"] != judges:
            raise ServerError(
                f"the judges changed between parts of a call: {judges}, {answer['judges']}", 412, "fingerprint"
            )
    return judges


def scores_of(results, on_error, score01, groups=None):
    """Scores of results; failed ones are replaced according to `on_error`."""
    name = "score01" if score01 else "score"
    scores = [r.get(name) for r in results]
    errors = {i: r["error"]["message"] for i, r in enumerate(results) if "error" in r}
    unbounded = [r["scorer"] for i, r in enumerate(results) if scores[i] is None and i not in errors]
    if unbounded:
        why = f"scorer {unbounded[0]}: its scores have no range, so there are none on 0 to 1: calibrate it"
        raise ServerError(why, 422, "no_range")
    return settle(scores, errors, on_error, groups)


def gradients_of(raw, count):
    """A Gradient of each pair, or its error as a text."""
    if len(raw) < 8:
        raise ValueError("not safetensors")
    n = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8 : 8 + n]), memoryview(raw)[8 + n :]
    facts = header["__metadata__"]
    out = []
    for i in range(count):
        if f"gradient.{i}" not in header:
            out.append(str(facts[f"error.{i}"]))
            continue
        tensor = header[f"gradient.{i}"]
        begin, end = tensor["data_offsets"]
        values = array("f", bytes(data[begin:end]))
        if struct.pack("=H", 1) != struct.pack("<H", 1):
            values.byteswap()
        height, width, channels = shape = tuple(tensor["shape"])
        if len(values) != height * width * channels:
            raise ValueError(f"gradient {i} is cut off")
        score01 = facts.get(f"score01.{i}")
        score01 = None if score01 is None else float(score01)
        out.append(Gradient(float(facts[f"score.{i}"]), score01, shape, values))
    return out
