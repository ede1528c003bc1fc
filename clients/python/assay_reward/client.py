"""Scores and gradients from a server."""

import itertools
import math
import os
import uuid

from . import batches
from .batches import Evaluation, Texts, body_of, edits_of
from .connections import Connections, ServerError, header_text
from .failures import ItemError, check_policy

# Values of on_error if the server combines rewards, and what then may replace a reward.
_NULLS = {"null": (None,), "nan": (math.nan,), "mean": (None,), "fail": ()}


class Settings:
    """What Client and AsyncClient share: options, and how requests and results are built from them."""

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
        fingerprint=None,
    ):
        if jpeg is not None and (type(jpeg) is not int or not 1 <= jpeg <= 100):
            raise ValueError(f"jpeg={jpeg!r}: want a quality of 1 to 100, or None for PNG")
        self.url, self.scorer, self.fingerprint, self.jpeg = url.rstrip("/"), scorer, fingerprint, jpeg
        self.token = os.environ.get("ASSAY_TOKEN") if token is None else token
        self.timeout, self.retries, self.pause, self.wait = timeout, retries, pause, wait
        self._most = None
        self._connect()

    def _options(self):
        """Fields of every request."""
        return {k: v for k, v in (("scorer", self.scorer), ("fingerprint", self.fingerprint)) if v}

    def _reward_options(self, rewards, combine, on_error, penalty):
        check_policy(on_error, tuple(_NULLS))
        if self.scorer and rewards:
            raise ValueError(f"this client uses scorer {self.scorer!r}, but rewards name others")
        named = {"rewards": batches.reward_list(rewards)} if rewards else self._options()
        return {**named, "combine": combine, "on_error": on_error, **({} if penalty is None else {"penalty": penalty})}

    def _limits_of(self, said):
        self._most = said.get("max_body", 64 << 20), said.get("max_items", 256)
        return self._most

    def _eval_parts(self, pairs, limits, whole, groups):
        """(indices, texts) of each request. If `whole`, a group is not split."""
        keys = []
        texts = Texts(self.jpeg).stream(pairs, keys)
        if not whole:
            at = 0
            for part in batches.split(texts, *limits):
                yield range(at, at + len(part)), part
                at += len(part)
            return
        texts = list(texts)
        for part in batches.split_groups(texts, keys if groups is None else groups, *limits):
            yield part, [texts[i] for i in part]

    @staticmethod
    def _evaluation(count, parts, answers, ids):
        results = [None] * count
        for part, answer in zip(parts, answers):
            for i, result in zip(part, answer["results"]):
                results[i] = result
        rewards = [r["reward"] for r in results]
        version = answers[0].get("version", "") if answers else ""
        return Evaluation(rewards, results, batches.same_judges(answers), version, ids)


def request_ids(id):
    """An id for each request of a call: the caller's or a unique one, with a number appended after the first."""
    base = header_text("id", str(id)) if id is not None else uuid.uuid4().hex
    yield base
    for i in itertools.count(1):
        yield f"{base}.{i}"


def whole_groups(combine, on_error):
    """Whether a rule needs a full group in one request."""
    return on_error == "mean" or combine in ("zscore", "rank")


class Client(Settings):
    """A server at `url`. `token` defaults to the variable ASSAY_TOKEN.

    While the server is unreachable, drops the connection or is busy (429, 502, 503, 504), a request is retried for
    `wait` seconds, with exponential backoff and at least the pause that the server asks for. The logger `assay_reward`
    reports it. After another 5xx, or an unreadable answer, it is retried `retries` times. A request that is larger than
    the server accepts is sent in parts. Connections are reused, one per thread. `timeout` is that of one read or write.

    Each request for scores has an id, which stays the same in retries: the server answers without judging twice. With
    `fingerprint` the server must have exactly this judge, and refuses (412) after the judge has changed.

    `jpeg` is the quality (1 to 100) of JPEG in which opaque arrays and PIL images are sent. Without it they are sent as
    PNG. JPEG is smaller and faster, and changes the score a little."""

    def _connect(self):
        self._http = Connections(self.url, self.token, self.timeout, self.retries, self.pause, self.wait)

    def score(self, source, instruction, edits, partial=False, score01=False, on_error="raise", id=None):
        """Scores of a list of edits of one source, in order, on the scorer's range. `source` may be a list of several
        pictures, in the order in which the instruction numbers them. Raises ItemError if any could not be scored; with
        `partial`, or on_error="null", those are None; with "nan" NaN; with "mean" the mean of the others. With
        `score01` scores are on 0 to 1, and a scorer without a range is refused. `id` names the request: another call
        with the same id, even from another process, gets the same answer."""
        return self.scores([(source, instruction, e) for e in edits_of(edits)], partial, score01, on_error, id)

    def scores(self, pairs, partial=False, score01=False, on_error="raise", id=None):
        """The same for pairs (source, instruction, edit), in one request if the server accepts as many. The group of
        "mean" is the edits with equal source and instruction."""
        on_error = check_policy("null" if partial else on_error)
        keys = []
        results = self._parts("/v1/score", pairs, batches.results_of, request_ids(id), keys, on_error != "raise")
        return batches.scores_of(results, on_error, score01, keys)

    def evaluate(self, pairs, rewards=(), combine="raw", on_error="null", groups=None, id=None, penalty=None):
        """The results of several judges for pairs (source, instruction, edit): an Evaluation.

        `rewards` are names, or dicts with name, weight, dimension, scale and fingerprint; by default the client's
        scorer. `combine` is the rule of the weighted sum: raw, score01, zscore or rank; or lower_bound, with `penalty`
        (1 by default). `on_error` is the reward of an edit on which a judge failed: null: None; nan: NaN; mean: the
        mean of the group; fail: the call raises. `groups` has a key for each pair, equal within a group; by default a
        group is all edits with equal source and instruction. A group is sent in one request if a rule needs it."""
        pairs = list(pairs)
        options, whole = self._reward_options(rewards, combine, on_error, penalty), whole_groups(combine, on_error)
        groups = batches.group_names(groups, len(pairs))
        parts, answers, ids = [], [], []
        planned = self._eval_parts(pairs, self._limits(), whole, groups) if pairs else ()
        for (indices, part), name in zip(planned, request_ids(id)):
            named = batches.names_of(part, groups and whole and [groups[i] for i in indices])
            answers.append(self._evaluate(part, options, named, _NULLS[on_error], name))
            parts.append(indices)
            ids.append(name)
        return self._evaluation(len(pairs), parts, answers, ids)

    def _evaluate(self, part, options, groups, nulls, name):
        """The answer to a part. An error of source or instruction is an error of each edit, unless on_error is fail."""
        read = lambda raw: batches.answer_of(raw, len(part), nulls)  # noqa: E731
        try:
            body = body_of(part, options, groups=groups)
            return self._http.request("/v1/score", body, read, items=bool(nulls), id=name)
        except ServerError as e:
            if groups or not nulls or not batches.of_edits(e, part):
                raise
        return self._evaluate(part, options, ["0"] * len(part), nulls, f"{name}/pairs")

    def gradient(self, source, instruction, edit):
        """d score / d pixel of an edited picture."""
        return self.gradients([(source, instruction, edit)])[0]

    def gradients(self, pairs):
        """Scores and gradients of many pairs (source, instruction, edit), in order, in one request if the server
        accepts as many: they share passes. Raises ItemError, with the available gradients as `scores`, if some are
        missing."""
        out = self._parts("/v1/gradient", pairs, batches.gradients_of)
        errors = {i: g for i, g in enumerate(out) if isinstance(g, str)}
        if errors:
            raise ItemError(errors, [None if i in errors else g for i, g in enumerate(out)])
        return out

    def rewards(self):
        """Names of the served scorers."""
        return self._http.request("/rewards")["rewards"]

    def judges(self):
        """The served judges: name, fingerprint, score_range, dimensions and sources of each."""
        return self._http.request("/v1/judges")["judges"]

    def sleep(self):
        """Takes the weights off the device, until wake(). Requests in between wait."""
        return self._http.request("/v1/sleep", b"{}")

    def wake(self):
        """Loads the weights again. Scores are the same as before."""
        return self._http.request("/v1/wake", b"{}")

    def health(self):
        """The server's status, without retries: ServerError if it does not answer or is shutting down."""
        return self._http.request("/health", once=True)

    def _limits(self):
        """The limits of one request: bytes, and edits or pairs."""
        if self._most is None:
            try:
                said = self._http.request("/v1/limits")
            except ServerError as e:
                if e.status not in (404, 405):
                    raise
                said = {}
            self._limits_of(said)
        return self._most

    def _parts(self, path, pairs, read, ids=None, keys=(), soft=False):
        """The results of `read` for the answers to pairs, in as few requests as the server accepts. With `ids` `read`
        also gets a refusal that has a result for each edit. `soft`: an error of source or instruction is an error of
        each edit."""
        pairs = list(pairs)
        if not pairs:
            return []
        texts = Texts(self.jpeg).stream(pairs, [] if ids is None else keys)
        ids = itertools.repeat(None) if ids is None else ids
        parts = batches.split(texts, *self._limits())
        return [r for part, id in zip(parts, ids) for r in self._ask(path, part, read, id, soft)]

    def _ask(self, path, part, read, id, soft):
        """The results of `read` for the answer to a part, or to its halves if the part is too large for the server."""
        body = body_of(part, self._options(), one=path == "/v1/score")
        try:
            return self._http.request(path, body, lambda raw: read(raw, len(part)), items=id is not None, id=id)
        except ServerError as e:
            if soft and batches.of_edits(e, part):
                return batches.failed(e, part)
            if e.status != 413 or len(part) == 1:
                raise
        half = len(part) // 2
        names = [id and f"{id}/{i}" for i in range(2)]
        return [r for p, n in zip((part[:half], part[half:]), names) for r in self._ask(path, p, read, n, soft)]
