"""The client for asyncio: concurrent requests over reused connections, with only the standard library."""

import asyncio
import email
import http.client
import itertools
import json
import os
import ssl
import time

from . import batches
from .batches import Texts, body_of, edits_of
from .client import _NULLS, Settings, request_ids, whole_groups
from .connections import Attempts, Failure, ServerError, answer_to, headers_of, parts_of, reason
from .failures import ItemError, check_policy

# Maximum size of an answer's head. Gradients of a request have up to 256 MiB, announced by Content-Length.
_HEAD = 64 << 10


class AsyncClient(Settings):
    """Client for asyncio: at most `in_flight` requests at a time, over as many reused connections. The other options
    are those of Client.

    A call with more edits than a request accepts sends its parts concurrently. Pictures are encoded in threads, and
    only for requests that are about to be sent. A cancelled task closes its connection, releases its slot, and leaves
    nothing running here; the server may finish what it started. Connections belong to one event loop of one process: a
    client may be created before a fork, or before the loop, and used afterwards.

        async with AsyncClient(url) as client:
            scores = await asyncio.gather(*(client.score(s, text, edits) for s, text, edits in groups))
    """

    def __init__(self, *options, in_flight=16, **named):
        if in_flight < 1:
            raise ValueError(f"in_flight={in_flight}: want at least 1")
        self.in_flight = in_flight
        super().__init__(*options, **named)

    def _connect(self):
        self.parts, self.headers = parts_of(self.url), headers_of(self.token)
        self.said, self._pools, self._process = float("-inf"), {}, None

    def __getstate__(self):
        return {**self.__dict__, "_pools": {}, "_process": None}

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()

    async def close(self):
        """Closes this event loop's connections that are not in use."""
        idle = self._connections().idle
        while idle:
            idle.pop().close()

    async def score(self, source, instruction, edits, partial=False, score01=False, on_error="raise", id=None):
        """As Client.score."""
        return await self.scores([(source, instruction, e) for e in edits_of(edits)], partial, score01, on_error, id)

    async def scores(self, pairs, partial=False, score01=False, on_error="raise", id=None):
        """As Client.scores."""
        on_error = check_policy("null" if partial else on_error)
        keys = []
        results = await self._parts("/v1/score", pairs, batches.results_of, request_ids(id), keys, on_error != "raise")
        return batches.scores_of(results, on_error, score01, keys)

    async def evaluate(self, pairs, rewards=(), combine="raw", on_error="null", groups=None, id=None, penalty=None):
        """As Client.evaluate."""
        pairs = list(pairs)
        options, whole = self._reward_options(rewards, combine, on_error, penalty), whole_groups(combine, on_error)
        groups = batches.group_names(groups, len(pairs))
        limits = await self._limits()
        planned = self._eval_parts(pairs, limits, whole, groups) if pairs else iter(())
        parts, ids = [], []

        async def ask(part, name):
            indices, part = part
            parts.append(indices)
            ids.append(name)
            return await encoded(part, batches.names_of(part, groups and whole and [groups[i] for i in indices]), name)

        async def encoded(part, named, name):
            body, nulls = await asyncio.to_thread(body_of, part, options, True, named), _NULLS[on_error]
            again = lambda: encoded(part, ["0"] * len(part), f"{name}/pairs")  # noqa: E731
            pairs = None if named or not nulls else (part, again)
            return "/v1/score", body, lambda raw: batches.answer_of(raw, len(part), nulls), bool(nulls), name, None, pairs

        answers = await self._side_by_side(planned, request_ids(id), ask)
        return self._evaluation(len(pairs), parts, answers, ids)

    async def gradient(self, source, instruction, edit):
        """As Client.gradient."""
        return (await self.gradients([(source, instruction, edit)]))[0]

    async def gradients(self, pairs):
        """As Client.gradients."""
        out = await self._parts("/v1/gradient", pairs, batches.gradients_of)
        errors = {i: g for i, g in enumerate(out) if isinstance(g, str)}
        if errors:
            raise ItemError(errors, [None if i in errors else g for i, g in enumerate(out)])
        return out

    async def rewards(self):
        """Names of the served scorers."""
        return (await self._request("/rewards"))["rewards"]

    async def judges(self):
        """As Client.judges."""
        return (await self._request("/v1/judges"))["judges"]

    async def sleep(self):
        """As Client.sleep."""
        return await self._request("/v1/sleep", b"{}")

    async def wake(self):
        """As Client.wake."""
        return await self._request("/v1/wake", b"{}")

    async def health(self):
        """As Client.health."""
        return await self._request("/health", once=True)

    async def _limits(self):
        if self._most is None:
            try:
                said = await self._request("/v1/limits")
            except ServerError as e:
                if e.status not in (404, 405):
                    raise
                said = {}
            self._limits_of(said)
        return self._most

    async def _parts(self, path, pairs, read, ids=None, keys=(), soft=False):
        """As Client._parts, with concurrent requests."""
        pairs = list(pairs)
        if not pairs:
            return []
        limits = await self._limits()
        texts = Texts(self.jpeg).stream(pairs, [] if ids is None else keys)

        async def ask(part, name):
            body = await asyncio.to_thread(body_of, part, self._options(), path == "/v1/score")
            return path, body, lambda raw: read(raw, len(part)), name is not None, name, part, None

        parts, ids = batches.split(texts, *limits), ids or itertools.repeat(None)
        answers = await self._side_by_side(parts, ids, ask, read, soft)
        return [r for answer in answers for r in answer]

    async def _side_by_side(self, parts, ids, ask, read=None, soft=False):
        """Answers to the parts, in order. A part is encoded when there is a free slot for its request. The first error
        cancels the rest."""
        pool, tasks, names = self._connections(), [], iter(ids)
        try:
            while True:
                await pool.places.acquire()
                try:
                    part = await asyncio.to_thread(next, parts, None)
                    request = None if part is None else await ask(part, next(names))
                except BaseException:
                    pool.places.release()
                    raise
                if request is None:
                    pool.places.release()
                    break
                task = asyncio.create_task(self._send(request, read, soft))
                task.add_done_callback(lambda _: pool.places.release())  # also for a task that never started
                tasks.append(task)
                failed = next((t for t in tasks if t.done() and t.exception()), None)
                if failed:
                    break
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, request, read, soft):
        """The answer to a request. A part that is too large for the server is sent in halves. Edits whose source or
        instruction is invalid are sent as `pairs`, (part, function that makes the request), so each has its error."""
        path, body, reader, items, name, part, pairs = request
        try:
            return await self._retry(path, body, reader, items, id=name)
        except ServerError as e:
            if pairs and batches.of_edits(e, pairs[0]):
                return await self._send(await pairs[1](), read, soft)
            if soft and batches.of_edits(e, part):
                return batches.failed(e, part)
            if e.status != 413 or not part or len(part) == 1:
                raise
        half, out = len(part) // 2, []
        for i, some in enumerate((part[:half], part[half:])):
            own = name and f"{name}/{i}"
            body = await asyncio.to_thread(body_of, some, self._options(), path == "/v1/score")
            request = path, body, lambda raw, n=len(some): read(raw, n), items, own, some, None
            out += await self._send(request, read, soft)
        return out

    async def _request(self, path, body=None, read=json.loads, items=False, once=False, id=None):
        pool = self._connections()
        async with pool.places:
            return await self._retry(path, body, read, items, once, id)

    async def _retry(self, path, body, read, items=False, once=False, id=None):
        attempts = Attempts(self, once)
        while True:
            try:
                answer = await self._attempt(path, body, read, items, id)
            except Failure as f:
                await asyncio.sleep(attempts.pause(f))
            else:
                attempts.done()
                return answer

    async def _attempt(self, path, body, read, items, id):
        headers = {**self.headers, "Idempotency-Key": id} if id else self.headers
        try:
            status, fields, raw = await self._exchange(path, body, headers)
        except ssl.SSLCertVerificationError as e:
            raise ServerError(f"{self.url}: {e}") from None
        except asyncio.TimeoutError:
            raise Failure(ServerError(f"{self.url}: nothing received for {self.timeout:g} s"), away=True) from None
        except (OSError, EOFError, ValueError, http.client.HTTPException) as e:
            raise Failure(ServerError(f"{self.url}: {reason(e)}"), away=True) from None
        return answer_to(self.url + path, status, fields.get("Retry-After"), raw, read, items)

    async def _exchange(self, path, body, headers):
        """As Connections._exchange: over a reused connection, or a new one if that was closed."""
        pool = self._connections()
        while True:
            kept = bool(pool.idle)
            c = pool.idle.pop() if kept else _Connection(self.parts, self.timeout)
            try:
                status, fields, raw, again = await c.exchange(self.parts.path + path, body, headers)
            except ConnectionError:
                c.close()
                if kept:
                    continue
                raise
            except BaseException:  # cancelled: the rest of the answer must not be read as the next one
                c.close()
                raise
            if again:
                pool.idle.append(c)
            else:
                c.close()
            return status, fields, raw

    def _connections(self):
        """The connections of the running loop."""
        if self._process != os.getpid():
            _parents.append(self._pools)
            self._pools, self._process = {}, os.getpid()
        pools, loop = self._pools, asyncio.get_running_loop()
        if loop not in pools:  # each step is atomic: other threads have other loops
            for k in list(pools):
                if k.is_closed():
                    pools.pop(k, None)
            pools[loop] = _Pool(self.in_flight)
        return pools[loop]


# Pools of the parent process, kept alive after a fork: freeing their streams would remove the sockets from the selector
# of the parent's loop, which both processes share.
_parents = []


class _Pool:
    """Slots for requests, and idle connections."""

    def __init__(self, size):
        self.places, self.idle = asyncio.Semaphore(size), []


class _Connection:
    """HTTP/1.1 over one stream. `timeout` applies to connecting, to each read, and to a stalled write."""

    def __init__(self, parts, timeout):
        self.parts, self.timeout, self.reader, self.writer, self.moved = parts, timeout, None, None, 0.0

    def close(self):
        if self.writer is not None:
            self.writer.close()

    async def exchange(self, path, body, headers):
        """Status, headers and body of an answer, and whether the connection may be used again."""
        if self.writer is None:
            secure = self.parts.scheme == "https"
            opened = asyncio.open_connection(
                self.parts.hostname,
                self.parts.port or (443 if secure else 80),
                ssl=ssl.create_default_context() if secure else None,
                limit=_HEAD,
            )
            self.reader, self.writer = await asyncio.wait_for(opened, self.timeout)
        head = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", f"Host: {self.parts.netloc.rpartition('@')[2]}"]
        head += [f"{k}: {v}" for k, v in headers.items()]
        if body is not None:
            head.append(f"Content-Length: {len(body)}")
        sending = asyncio.ensure_future(self._send("\r\n".join(head).encode("latin-1") + b"\r\n\r\n", body or b""))
        try:
            status, fields = 100, None
            while 100 <= status < 200:  # interim responses
                status, fields = await self._head(await self._first(sending))
            raw, whole = await self._body(status, fields)
        finally:
            sent = sending.done() and not sending.cancelled() and sending.exception() is None
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        again = sent and whole and fields.get("Connection", "").lower() != "close"
        return status, fields, raw, again

    async def _send(self, head, body):
        """Writes as the server reads; the server may answer before it has read everything."""
        self.writer.write(head)
        for at in range(0, len(body), 1 << 20):
            self.writer.write(body[at : at + (1 << 20)])
            await self.writer.drain()
            self.moved = time.monotonic()

    async def _first(self, sending):
        """The first line of a head. The timeout does not apply while the request is being sent."""
        while True:
            try:
                return await self._line(ConnectionResetError)
            except asyncio.TimeoutError:
                if sending.done() or time.monotonic() - self.moved > self.timeout:
                    raise

    async def _line(self, closed=EOFError):
        line = await asyncio.wait_for(self.reader.readline(), self.timeout)
        if not line.endswith(b"\n"):
            raise EOFError("the answer was cut off") if line else closed("the connection was closed")
        return line.rstrip(b"\r\n")

    async def _head(self, first):
        version, _, rest = first.partition(b" ")
        if not version.startswith(b"HTTP/1."):
            raise ValueError(f"not HTTP: {first[:80]!r}")
        lines, size = [], 0
        while line := await self._line():
            size += len(line)
            if size > _HEAD:
                raise ValueError("the answer's head is too large")
            lines.append(line.decode("latin-1"))
        return int(rest.split()[0]), email.message_from_string("\n".join(lines))

    async def _body(self, status, fields):
        """The body, and whether it has a known end."""
        if status in (204, 304):
            return b"", True
        if "chunked" in fields.get("Transfer-Encoding", "").lower():
            parts = []
            while size := int((await self._line()).split(b";")[0], 16):
                parts.append(await self._exactly(size))
                await self._line()
            while await self._line():  # trailers
                pass
            return b"".join(parts), True
        if "Content-Length" in fields:
            return await self._exactly(int(fields["Content-Length"])), True
        parts = []
        while part := await asyncio.wait_for(self.reader.read(1 << 20), self.timeout):
            parts.append(part)
        return b"".join(parts), False

    async def _exactly(self, size):
        out = bytearray()
        while len(out) < size:
            part = await asyncio.wait_for(self.reader.read(min(1 << 20, size - len(out))), self.timeout)
            if not part:
                raise EOFError(f"the answer was cut off after {len(out)} of {size} bytes")
            out += part
        return bytes(out)
