"""HTTP: reused connections, and requests with retries."""

import http.client
import json
import logging
import os
import random
import ssl
import sys
import threading
import time
import urllib.parse

log = logging.getLogger("assay_reward")

# To clients with this name the server sends an interim response every 15 seconds.
_AGENT = f"Python-urllib/{sys.version_info[0]}.{sys.version_info[1]} assay-reward"


class ServerError(Exception):
    """The server refused a request, or could not be reached.

    `kind` is a machine-readable word; `status` is 0 without an answer."""

    def __init__(self, message, status=0, kind=""):
        super().__init__(message)
        self.status, self.kind = status, kind


class Failure(Exception):
    """An attempt that may succeed later: `away` if the server is unreachable or busy, `pause` in seconds."""

    def __init__(self, error, away, pause=0.0):
        super().__init__(str(error))
        self.error, self.away, self.pause = error, away, pause


class Attempts:
    """The retries of a request: for `wait` seconds while the server is away or busy, `retries` times after other
    failures. `of` has these, and url, pause and said."""

    def __init__(self, of, once=False):
        self.of, self.once = of, once
        self.failures, self.attempt, self.since = 0, 0, None

    def pause(self, f):
        """The pause after a failure, in seconds. Raises its error if the request is not retried."""
        now = time.monotonic()
        self.since = now if self.since is None else self.since
        self.failures += not f.away
        own = min(10, self.of.pause * 2 ** min(self.attempt, 10)) * random.uniform(0.5, 1)
        late = self.failures > self.of.retries
        if f.away:  # the last attempt is at the end of the wait
            left = self.since + self.of.wait - now
            own, late = min(own, left), left <= 0 or f.pause > left
        pause = max(f.pause, own)
        if self.once or late:
            if self.attempt:
                f.error.args = (f"{f} (asked {self.attempt + 1} times in {now - self.since:.0f} s)",)
            raise f.error from None
        self._say(f, now)
        self.attempt += 1
        return pause

    def done(self):
        if self.since is not None:
            log.info("%s answers again after %.1f s", self.of.url, time.monotonic() - self.since)

    def _say(self, failure, now):
        """Logs a retry: at once if the server is unreachable, after half a minute if it is busy."""
        waited = now - self.since
        if now - self.of.said < 30 or failure.error.status == 429 and waited < 30:
            return
        self.of.said = now
        bound = f"up to {self.of.wait:g} s" if failure.away else f"{self.of.retries} times"
        log.warning("%s; retrying, %s (%.0f s so far)", failure, bound, waited)


def answer_to(url, status, retry_after, raw, read, items):
    """The result of `read` for an answer. Raises Failure if a retry may help, otherwise ServerError."""
    known = _json(raw) if status != 200 else {}
    if status == 200 or items and "results" in known and status not in (429, 503):
        try:
            return read(raw)
        except (ValueError, KeyError, TypeError, IndexError) as e:
            why = f"{url}: unreadable answer ({type(e).__name__}: {e})"
            raise Failure(ServerError(why, status), away=False) from None
    error = _error(known)
    failure = ServerError(error.get("message") or f"{url}: HTTP {status}", status, error.get("kind", ""))
    if status not in (408, 429) and status < 500:
        raise failure
    asked = error.get("retry_after_ms", 0) / 1000 or _seconds(retry_after)
    raise Failure(failure, status in (429, 502, 503, 504), asked)


def headers_of(token):
    """Headers of every request."""
    headers = {"Content-Type": "application/json", "User-Agent": _AGENT}
    return {**headers, "Authorization": "Bearer " + header_text("token", token)} if token else headers


def header_text(what, text):
    """The text, if it is valid as a header's value."""
    if not (text and text.isascii() and text.isprintable()):
        raise ValueError(f"{what}: want printable ASCII characters, without line breaks")
    return text


def parts_of(url):
    """A server's URL in parts."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r}: want a URL such as http://127.0.0.1:8100")
    return parts


class Connections:
    """Requests to one server. Every thread has its own connection, and so has a process after a fork."""

    def __init__(self, url, token, timeout, retries, pause, wait):
        self.url, self.parts, self.headers = url, parts_of(url), headers_of(token)
        self.timeout, self.retries, self.pause, self.wait = timeout, retries, pause, wait
        self._own, self.said = threading.local(), float("-inf")

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "_own"}

    def __setstate__(self, state):
        self.__dict__.update(state, _own=threading.local())

    def request(self, path, body=None, read=json.loads, items=False, once=False, id=None):
        """The result of `read` for an answer. With `items` `read` also gets a refusal that has results, one for each
        edit. `id` stays the same in retries."""
        attempts = Attempts(self, once)
        while True:
            try:
                answer = self._attempt(path, body, read, items, id)
            except Failure as f:
                time.sleep(attempts.pause(f))
            else:
                attempts.done()
                return answer

    def _attempt(self, path, body, read, items, id):
        try:
            status, headers, raw = self._exchange(
                path, body, {**self.headers, "Idempotency-Key": id} if id else self.headers
            )
        except ssl.SSLCertVerificationError as e:
            raise ServerError(f"{self.url}: {e}") from None
        except (OSError, http.client.HTTPException) as e:
            raise Failure(ServerError(f"{self.url}: {reason(e)}"), away=True) from None
        return answer_to(self.url + path, status, headers.get("Retry-After"), raw, read, items)

    def _exchange(self, path, body, headers):
        """Status, headers and body of the answer to one request. If a reused connection was closed in the meantime,
        the request is sent over a new one."""
        while True:
            c = self._connection()
            kept = c.sock is not None
            try:
                try:
                    c.request("GET" if body is None else "POST", self.parts.path + path, body, headers)
                except (BrokenPipeError, ConnectionResetError):
                    if kept or c.sock is None:
                        raise
                    # the server may have answered before it read everything
                answer = c.getresponse()
                return answer.status, answer.headers, answer.read()
            except Exception as e:
                c.close()
                if not (kept and isinstance(e, ConnectionError)):
                    raise
            except BaseException:  # Ctrl-C: the rest of the answer must not be read as the next one
                c.close()
                raise

    def _connection(self):
        if getattr(self._own, "process", None) != os.getpid():
            kind = http.client.HTTPSConnection if self.parts.scheme == "https" else http.client.HTTPConnection
            self._own.connection = kind(self.parts.hostname, self.parts.port, timeout=self.timeout)
            self._own.process = os.getpid()
        return self._own.connection


def reason(e):
    if isinstance(e, http.client.IncompleteRead):
        return "the answer was cut off"
    return " ".join(str(e).split()) or type(e).__name__


def _seconds(header):
    try:
        return float(header or 0)
    except ValueError:  # a date
        return 0.0


def _error(answer):
    """The error in a refusal, as an object with a message; {} if there is none."""
    results = answer.get("results")
    parts = [answer, *(results if isinstance(results, list) else ())]
    for one in parts[1:]:  # of several rewards
        parts += one["rewards"] if isinstance(one, dict) and isinstance(one.get("rewards"), list) else ()
    for said in parts:
        error = said.get("error") if isinstance(said, dict) else None
        if error:
            return error if isinstance(error, dict) else {"message": str(error)}
    return {}


def _json(raw):
    try:
        value = json.loads(raw)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
