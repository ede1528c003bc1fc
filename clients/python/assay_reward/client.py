"""Scores and gradients from a server."""

import base64
import io
import json
import math
import os
import struct
from array import array
from dataclasses import dataclass
from typing import Optional

from .connections import Connections, ServerError
from .pictures import encode


class ItemError(Exception):
    """Some edits could not be scored. `errors`: index -> message; `scores` has None there."""

    def __init__(self, errors, scores):
        super().__init__("; ".join(f"edit {i}: {m}" for i, m in sorted(errors.items())))
        self.errors, self.scores = errors, scores


@dataclass
class Gradient:
    """A score with its derivative by the edited picture, per 8-bit level.

    `values` is float32, row-major [height, width, 3]; `score01` is None if the scorer has no range."""

    score: float
    score01: Optional[float]
    shape: tuple
    values: array


class Client:
    """A server at `url`. `token` defaults to the variable ASSAY_TOKEN.

    While the server cannot be reached, breaks off or is busy (429, 502, 503, 504), a request is sent again for `wait`
    seconds, with growing pauses of at least what the server asks for. The logger `assay_reward` says so. After
    another 5xx, or an answer that cannot be read, it is sent again `retries` times. A request of more than the server
    takes is sent in parts. Connections are kept, one for each thread. `timeout` is that of one read or write.

    `jpeg` is the quality (1 to 100) of JPEG in which opaque arrays and PIL images are sent. Without it they are sent as
    PNG: JPEG is smaller and faster, and changes the score a little."""

    def __init__(
        self,
        url="http://127.0.0.1:8100",
        token=None,
        scorer=None,
        timeout=120.0,
        retries=8,
        pause=0.1,
        wait=600.0,
        jpeg=None,
    ):
        if jpeg is not None and (type(jpeg) is not int or not 1 <= jpeg <= 100):
            raise ValueError(f"jpeg={jpeg!r}: a quality of 1 to 100 is wanted, or None for PNG")
        self.url, self.scorer, self.jpeg = url.rstrip("/"), scorer, jpeg
        token = os.environ.get("ASSAY_TOKEN") if token is None else token
        self._http = Connections(self.url, token, timeout, retries, pause, wait)
        self._most = None

    def score(self, source, instruction, edits, partial=False, score01=False):
        """Scores of a list of edits of one source, in order, on the scorer's range. Raises ItemError if any could not
        be scored; with `partial` those are None. With `score01` scores are on 0 to 1, and a scorer without a range
        is refused."""
        return self.scores([(source, instruction, e) for e in _list(edits)], partial, score01)

    def scores(self, pairs, partial=False, score01=False):
        """The same of pairs (source, instruction, edit), in one request where the server takes as many."""
        results = self._parts("/v1/score", pairs, _results, items=True)
        name = "score01" if score01 else "score"
        scores = [r.get(name) for r in results]
        errors = {i: r["error"]["message"] for i, r in enumerate(results) if "error" in r}
        unbounded = [r["scorer"] for i, r in enumerate(results) if scores[i] is None and i not in errors]
        if unbounded:
            why = f"scorer {unbounded[0]}: its scores have no range, so there are none on 0 to 1: calibrate it"
            raise ServerError(why, 422, "no_range")
        if errors and not partial:
            raise ItemError(errors, scores)
        return scores

    def gradient(self, source, instruction, edit):
        """d score / d pixel of an edited picture."""
        return self.gradients([(source, instruction, edit)])[0]

    def gradients(self, pairs):
        """Scores and gradients of many pairs (source, instruction, edit), in order, in one request where the server
        takes as many: they share passes. Raises ItemError, with the gradients that there are as `scores`, if there
        is none for some."""
        out = self._parts("/v1/gradient", pairs, _gradients)
        errors = {i: g for i, g in enumerate(out) if isinstance(g, str)}
        if errors:
            raise ItemError(errors, [None if i in errors else g for i, g in enumerate(out)])
        return out

    def rewards(self):
        """Names of the scorers that are served."""
        return self._http.request("/rewards")["rewards"]

    def health(self):
        """What the server says of itself. It is asked once: ServerError if it does not answer or shuts down."""
        return self._http.request("/health", once=True)

    def _limits(self):
        """What one request may have: bytes, and edits or pairs."""
        if self._most is None:
            try:
                said = self._http.request("/v1/limits")
            except ServerError as e:
                if e.status not in (404, 405):
                    raise
                said = {}
            self._most = said.get("max_body", 64 << 20), said.get("max_items", 256)
        return self._most

    def _parts(self, path, pairs, read, items=False):
        """What `read` makes of the answers to pairs, asked for in as few requests as the server takes."""
        texts = {}  # of sources in base64, by identity: the pairs hold them

        def text(picture):
            return base64.b64encode(encode(picture, self.jpeg)).decode()

        def texts_of(pairs):
            for source, instruction, edit in pairs:
                if id(source) not in texts:
                    texts[id(source)] = text(source)
                yield texts[id(source)], instruction, text(edit)

        pairs = list(pairs)
        parts = _split(texts_of(pairs), *self._limits()) if pairs else ()
        return [r for part in parts for r in self._ask(path, part, read, items)]

    def _ask(self, path, part, read, items):
        """What `read` makes of the answer to a part, or to its halves if that is too much for the server after all."""
        source, instruction, _ = part[0]
        if all(p[:2] == part[0][:2] for p in part) and (path == "/v1/score" or len(part) > 1):
            body = {"source": source, "instruction": instruction, "edits": [p[2] for p in part]}
        else:
            body = {"pairs": [dict(zip(("source", "instruction", "edit"), p)) for p in part]}
        if self.scorer:
            body["scorer"] = self.scorer
        try:
            return self._http.request(path, json.dumps(body).encode(), lambda raw: read(raw, len(part)), items)
        except ServerError as e:
            if e.status != 413 or len(part) == 1:
                raise
        half = len(part) // 2
        return self._ask(path, part[:half], read, items) + self._ask(path, part[half:], read, items)


def _list(edits):
    if hasattr(edits, "__iter__") and not isinstance(edits, (str, bytes, bytearray, memoryview, dict, io.IOBase)):
        if len(getattr(edits, "shape", ())) != 3:
            return list(edits)
    raise TypeError(f"edits: a list of pictures is wanted, not one {type(edits).__name__}: [edit]")


def _split(pairs, size, count):
    """Parts of at most `count` pairs and about `size` bytes. Those that share source and instruction have them once."""
    size -= 1024  # for what is around the pairs
    part, same, once, each = [], True, 0, 0
    for pair in pairs:
        shared, edit = len(pair[0]) + len(json.dumps(pair[1])) + 64, len(pair[2]) + 4
        same = not part or same and pair[:2] == part[0][:2]
        once, each = (once or shared) + edit, each + shared + edit
        if part and (len(part) == count or (once if same else each) > size):
            yield part
            part, same, once, each = [], True, shared + edit, shared + edit
        part.append(pair)
    if part:
        yield part


def _results(raw, count):
    answer = json.loads(raw)
    results = answer["results"]
    if len(results) != count or not all(map(_readable, results)):
        raise ValueError(f"{len(results)} results for {count} edits, or one without a score or an error's message")
    return [{**r, "scorer": answer["scorer"]} for r in results]


def _readable(result):
    """Whether a result is an error with a message, or finite scores."""
    if "error" in result:
        return isinstance(result["error"]["message"], str)
    scores = result["score"], result.get("score01", 0)
    return all(type(v) in (int, float) and -math.inf < v < math.inf for v in scores)


def _gradients(raw, count):
    """A Gradient of each pair, or its error as a text."""
    if len(raw) < 8:
        raise ValueError("no safetensors")
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
