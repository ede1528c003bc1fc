"""HTTP: kept connections, and requests that are sent again."""

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

# The server sends a sign of life every 15 seconds to clients that are named so.
_AGENT = f"Python-urllib/{sys.version_info[0]}.{sys.version_info[1]} assay-reward"


class ServerError(Exception):
    """The server refused a request, or could not be reached.

    `kind` is a word for programs; `status` is 0 without an answer."""

    def __init__(self, message, status=0, kind=""):
        super().__init__(message)
        self.status, self.kind = status, kind


class _Failure(Exception):
    """An attempt that may succeed later: `away` if the server is not there or busy, `pause` in seconds."""

    def __init__(self, error, away, pause=0.0):
        super().__init__(str(error))
        self.error, self.away, self.pause = error, away, pause


class Connections:
    """Requests to one server. Every thread keeps a connection of its own, and so does a process after a fork."""

    def __init__(self, url, token, timeout, retries, pause, wait):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r}: a URL such as http://127.0.0.1:8100 is wanted")
        self.url, self.parts = url, parts
        self.timeout, self.retries, self.pause, self.wait = timeout, retries, pause, wait
        self.headers = {"Content-Type": "application/json", "User-Agent": _AGENT}
        if token:
            self.headers["Authorization"] = "Bearer " + token
        self._own, self._said = threading.local(), float("-inf")

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "_own"}

    def __setstate__(self, state):
        self.__dict__.update(state, _own=threading.local())

    def request(self, path, body=None, read=json.loads, items=False, once=False):
        """What `read` makes of an answer. With `items` also of a refusal that has results, one for each edit."""
        failures, since, attempt = 0, None, 0
        while True:
            try:
                answer = self._attempt(path, body, read, items)
            except _Failure as f:
                now = time.monotonic()
                since = now if since is None else since
                failures += not f.away
                pause = max(f.pause, min(10, self.pause * 2 ** min(attempt, 10)) * random.uniform(0.5, 1))
                late = now + pause > since + self.wait if f.away else failures > self.retries
                if once or late:
                    if attempt:
                        f.error.args = (f"{f} (asked {attempt + 1} times in {now - since:.0f} s)",)
                    raise f.error from None
                self._say(f, now - since)
                time.sleep(pause)
                attempt += 1
            else:
                if since is not None:
                    log.info("%s answers again after %.1f s", self.url, time.monotonic() - since)
                return answer

    def _say(self, failure, waited):
        """Says that it goes on asking: at once where a server is not there, after half a minute where it is busy."""
        now = time.monotonic()
        if now - self._said < 30 or failure.error.status == 429 and waited < 30:
            return
        self._said = now
        bound = f"up to {self.wait:g} s" if failure.away else f"{self.retries} times"
        log.warning("%s; asking again, %s (%.0f s so far)", failure, bound, waited)

    def _attempt(self, path, body, read, items):
        try:
            status, headers, raw = self._exchange(path, body)
        except ssl.SSLCertVerificationError as e:
            raise ServerError(f"{self.url}: {e}") from None
        except (OSError, http.client.HTTPException) as e:
            raise _Failure(ServerError(f"{self.url}: {_reason(e)}"), away=True) from None
        known = _json(raw) if status != 200 else {}
        if status == 200 or items and "results" in known and status not in (429, 503):
            try:
                return read(raw)
            except (ValueError, KeyError, TypeError, IndexError) as e:
                why = f"{self.url}{path}: an answer that cannot be read ({type(e).__name__}: {e})"
                raise _Failure(ServerError(why, status), away=False) from None
        error = _error(known)
        failure = ServerError(error.get("message") or f"{self.url}{path}: HTTP {status}", status, error.get("kind", ""))
        if status not in (408, 429) and status < 500:
            raise failure
        asked = error.get("retry_after_ms", 0) / 1000 or _seconds(headers.get("Retry-After"))
        raise _Failure(failure, status in (429, 502, 503, 504), asked)

    def _exchange(self, path, body):
        """Status, headers and body of the answer to one request. A kept connection may have ended meanwhile: then
        the request goes over a new one."""
        while True:
            c = self._connection()
            kept = c.sock is not None
            try:
                try:
                    c.request("GET" if body is None else "POST", self.parts.path + path, body, self.headers)
                except (BrokenPipeError, ConnectionResetError):
                    if kept or c.sock is None:
                        raise
                    # it may have answered before it had everything
                answer = c.getresponse()
                return answer.status, answer.headers, answer.read()
            except Exception as e:
                c.close()
                if not (kept and isinstance(e, ConnectionError)):
                    raise
            except BaseException:  # Ctrl-C: what is left of the answer must not be the next one's
                c.close()
                raise

    def _connection(self):
        if getattr(self._own, "process", None) != os.getpid():
            kind = http.client.HTTPSConnection if self.parts.scheme == "https" else http.client.HTTPConnection
            self._own.connection = kind(self.parts.hostname, self.parts.port, timeout=self.timeout)
            self._own.process = os.getpid()
        return self._own.connection


def _reason(e):
    if isinstance(e, http.client.IncompleteRead):
        return "the answer was cut off"
    return " ".join(str(e).split()) or type(e).__name__


def _seconds(header):
    try:
        return float(header or 0)
    except ValueError:  # a date
        return 0.0


def _error(answer):
    """What a refusal says, as an object with a message; {} if it says nothing."""
    results = answer.get("results")
    for said in (answer, *(results if isinstance(results, list) else ())):
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
