"""HTTP, retries and errors."""

import base64
import json
import os
import random
import struct
import time
import urllib.error
import urllib.request
from array import array
from dataclasses import dataclass

from .pictures import encode


class ServerError(Exception):
    """The server refused a request, or could not be reached.

    `kind` is a word for programs; `status` is 0 without an answer."""

    def __init__(self, message, status=0, kind=""):
        super().__init__(message)
        self.status, self.kind = status, kind


class ItemError(Exception):
    """Some edits could not be scored. `errors`: index -> message; `scores` has None there."""

    def __init__(self, errors, scores):
        super().__init__("; ".join(f"edit {i}: {m}" for i, m in sorted(errors.items())))
        self.errors, self.scores = errors, scores


@dataclass
class Gradient:
    """A score with its derivative by the edited picture, per 8-bit level.

    `values` is float32, row-major [height, width, 3]."""

    score: float
    score01: float
    shape: tuple
    values: array


class Client:
    """A server at `url`. `retries` more attempts are made after 429, 5xx and lost connections, with growing pauses
    of at least what the server asks for. `token` defaults to the variable ASSAY_TOKEN."""

    def __init__(self, url="http://127.0.0.1:8100", token=None, scorer=None, timeout=120.0, retries=8, pause=0.1):
        self.url, self.scorer, self.timeout, self.retries, self.pause = (
            url.rstrip("/"),
            scorer,
            timeout,
            retries,
            pause,
        )
        self.token = os.environ.get("ASSAY_TOKEN") if token is None else token
        self._open = urllib.request.build_opener(
            urllib.request.ProxyHandler({})
        ).open  # a proxy is not asked for a reward

    def score(self, source, instruction, edits, partial=False):
        """Scores of edits of one source, in order, on the scorer's range. Raises ItemError if any could not be
        scored; with `partial` those are None."""
        answer = json.loads(
            self._post(
                "/v1/score",
                self._body(source=_text(source), instruction=instruction, edits=[_text(e) for e in edits]),
                items=True,
            )
        )
        scores = [r.get("score") for r in answer["results"]]
        errors = {i: r["error"]["message"] for i, r in enumerate(answer["results"]) if "error" in r}
        if errors and not partial:
            raise ItemError(errors, scores)
        return scores

    def gradient(self, source, instruction, edit):
        """d score / d pixel of an edited picture."""
        header, data = _safetensors(
            self._post("/v1/gradient", self._body(source=_text(source), instruction=instruction, edit=_text(edit)))
        )
        facts = header["__metadata__"]
        return _gradient(facts["score"], facts["score01"], header["gradient"], data)

    def gradients(self, pairs):
        """Scores and gradients of many pairs (source, instruction, edit), in order, in one request: they share
        passes. Raises ItemError, with the gradients that there are as `scores`, if there is none for some."""
        body = [{"source": _text(s), "instruction": i, "edit": _text(e)} for s, i, e in pairs]
        header, data = _safetensors(self._post("/v1/gradient", self._body(pairs=body)))
        facts, out, errors = header["__metadata__"], [], {}
        for i in range(len(body)):
            if f"gradient.{i}" in header:
                out.append(_gradient(facts[f"score.{i}"], facts[f"score01.{i}"], header[f"gradient.{i}"], data))
            else:
                errors[i] = facts[f"error.{i}"]
                out.append(None)
        if errors:
            raise ItemError(errors, out)
        return out

    def rewards(self):
        """Names of the scorers that are served."""
        return json.loads(self._request("/rewards"))["rewards"]

    def health(self):
        return json.loads(self._request("/health"))

    def _body(self, **body):
        if self.scorer:
            body["scorer"] = self.scorer
        return json.dumps(body).encode()

    def _post(self, path, body, items=False):
        return self._request(path, body, items)

    def _request(self, path, body=None, items=False):
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        for attempt in range(self.retries + 1):
            wait = 0.0
            try:
                request = urllib.request.Request(self.url + path, data=body, headers=headers)
                with self._open(request, timeout=self.timeout) as answer:
                    return answer.read()
            except urllib.error.HTTPError as e:
                raw = e.read()
                if items and "results" in _json(raw):
                    return raw  # no edit could be scored: each says why
                error = _json(raw).get("error", {})
                failure = ServerError(error.get("message") or f"HTTP {e.code}", e.code, error.get("kind", ""))
                if e.code != 429 and e.code < 500:
                    raise failure from None
                wait = error.get("retry_after_ms", 0) / 1000 or float(e.headers.get("Retry-After") or 0)
            except (urllib.error.URLError, ConnectionError, TimeoutError) as e:
                failure = ServerError(f"{self.url}: {getattr(e, 'reason', e)}")
            if attempt < self.retries:
                time.sleep(max(wait, self.pause * 2**attempt * random.uniform(0.5, 1)))
        raise failure


def _safetensors(raw):
    n = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8 : 8 + n]), memoryview(raw)[8 + n :]


def _gradient(score, score01, tensor, data):
    begin, end = tensor["data_offsets"]
    values = array("f", bytes(data[begin:end]))
    if struct.pack("=H", 1) != struct.pack("<H", 1):
        values.byteswap()
    return Gradient(float(score), float(score01), tuple(tensor["shape"]), values)


def _json(raw):
    try:
        value = json.loads(raw)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _text(picture):
    return base64.b64encode(encode(picture)).decode()
