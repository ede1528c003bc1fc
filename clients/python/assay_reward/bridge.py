"""A bridge for trainers that speak pickle over HTTP: Flow-GRPO, verl-omni, Edit-R1 and EditScore's (OmniGen2-RL).

    python -m assay_reward.bridge --server http://127.0.0.1:8100 --port 12341

Each POST is a pickled dict with `images` (picture files, the edits), `prompts` (instructions) and the sources. These
are in `ref_images`, in `metadata["ref_images"]`, as `ref_image` in each entry of `metadatas`, or in prompts that are
JSON objects {"instruction": .., "source": <base64, or a path below --source-root>}; `source_img` is an alias of
`source`. Pictures may be {"bytes", "path"}, as parquet files have them. EditScore's dict has `input_images` (for each
edit a list with one PIL image, the source), `output_image` (PIL images) and `meta_datas` (JSON with `instruction`).
The answer is a pickled dict. All scores are on 0 to 1, whatever range the scorer has; a scorer without a range is
refused.

    path or field   trainer                                     answer
    /mode/...       Edit-R1 (logits_non_cot)                    {"scores": [..]}
    /flow_grpo      Flow-GRPO (deqa, unifiedreward)             {"outputs": [..]}
    output_image    EditScore's RewardClient                    {"scores": [0 or 1], "rewards": [..], ..}
    any other       verl-omni and its scorer services           {"scores": [..]}

Edit-R1 splits more than 64 images into parts, and sends with each part the prompts of all images, but not which part it
is. The bridge answers if the part's size, or repeated prompts, leave one possibility. Otherwise it refuses the request,
since it would have to guess the prompts: call the reward with at most 64 images at a time (see docs/trainers.md).

Unpickling runs code in general. Here only plain containers, numbers, text, bytes, NumPy arrays and PIL images are
allowed. Still, the bridge listens on the loopback interface, and should run on the trainer's machine: it answers only
requests for a loopback name or a name in --host or --allow-host, and no requests from web pages. Failures are
{"error": ..}, never numbers. Their status is 400 if the request is at fault, which no client retries, and 500 if the
server is at fault, which all clients retry. With --on-error nan or mean one bad edit does not fail the others: it gets
NaN, or the mean of the request's other edits with its source and instruction.
"""

import argparse
import io
import ipaddress
import pickle
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .client import Client
from .connections import ServerError
from .failures import check_policy
from .payloads import answer, loads, pairs, score

__all__ = ["answer", "loads", "main", "pairs", "score", "serve"]

# Without null: no trainer can read None.
_POLICIES = ("raise", "nan", "mean")

# A head must arrive within _SECONDS, and a body with at least _RATE bytes per second after that.
_SECONDS, _RATE = 30, 256 << 10


class _Incoming(io.RawIOBase):
    """The input of a connection, until a deadline."""

    def __init__(self, connection):
        self.connection, self.until = connection, 0.0

    def allow(self, seconds):
        self.until = time.monotonic() + seconds

    def readable(self):
        return True

    def readinto(self, b):
        left = self.until - time.monotonic()
        if left <= 0:
            raise socket.timeout("the request came too slowly")
        self.connection.settimeout(left)
        return self.connection.recv_into(b)


class _Refused(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def __init__(self, address, handler, threads):
        super().__init__(address, handler)
        self.slots = threading.BoundedSemaphore(threads)

    def process_request(self, request, client_address):
        self.slots.acquire()  # others wait in the listen queue
        super().process_request(request, client_address)

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.slots.release()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):  # the caller closed the connection
            super().handle_error(request, client_address)


def serve(
    client,
    host="127.0.0.1",
    port=12341,
    source_root=None,
    allow_hosts=(),
    max_body=1 << 30,
    threads=64,
    on_error="raise",
):
    """The bridge as an HTTP server; serve_forever() runs it. Pictures named by a path are read only below
    `source_root`. Requests are answered if their Host is a loopback name, `host`, or one of `allow_hosts`. A body has
    at most `max_body` bytes, and at most `threads` connections are served at a time. `on_error` is the result for an
    edit that could not be judged: raise (the request is refused), nan, or mean (of the other edits of its group)."""
    check_policy(on_error, _POLICIES)
    hosts = {host.lower(), *(h.lower() for h in allow_hosts)}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self):
            super().setup()
            self.rfile.close()
            self.incoming = _Incoming(self.connection)
            self.rfile = io.BufferedReader(self.incoming, 1 << 16)

        def handle_one_request(self):
            self.incoming.allow(_SECONDS)
            super().handle_one_request()

        def do_GET(self):
            try:
                self.check()
            except _Refused as e:
                return self.reply(e.status, {"error": str(e)}, close=True)
            if self.path == "/ping":
                return self.reply(200, {"ping": "pong"})
            self.reply(404, {"error": f"{self.path} is not served"})

        def do_POST(self):
            try:
                self.check()
                raw = self.body()
            except _Refused as e:
                return self.reply(e.status, {"error": str(e)}, close=True)
            except socket.timeout as e:
                return self.reply(408, {"error": str(e)}, close=True)
            try:
                self.reply(200, answer(client, self.path, loads(raw), source_root, on_error))
            except ServerError as e:
                theirs = e.status in (0, 408, 429) or e.status >= 500
                self.reply(500 if theirs else 400, {"error": f"{type(e).__name__}: {e}"})
            except Exception as e:  # in any case the trainer must see an error, not a number
                self.reply(400, {"error": f"{type(e).__name__}: {e}"})

        def check(self):
            """Refuses requests that a web page may send: to another name for this host, or across origins."""
            if "Origin" in self.headers:
                raise _Refused(403, "web pages must not call the bridge")
            if not _allowed(self.headers.get("Host", ""), hosts):
                raise _Refused(403, f"Host {self.headers.get('Host')!r} is not allowed: see --allow-host")

        def body(self):
            length = self.headers.get("Content-Length", "")
            if "Transfer-Encoding" in self.headers or not length:
                raise _Refused(411, "Content-Length is required")
            if not (length.isascii() and length.isdigit()):
                raise _Refused(400, f"Content-Length {length!r}: want a number of bytes")
            if int(length) > max_body:
                raise _Refused(413, f"{length} bytes are more than {max_body}: see --max-body")
            self.incoming.allow(_SECONDS + int(length) / _RATE)
            raw = bytearray()
            while len(raw) < int(length):
                more = self.rfile.read1(min(1 << 20, int(length) - len(raw)))
                if not more:
                    raise _Refused(400, f"the body ended after {len(raw)} of {length} bytes")
                raw += more
            return raw

        def reply(self, status, what, close=False):
            body = pickle.dumps(what)
            self.connection.settimeout(_SECONDS + len(body) / _RATE)
            self.send_response(status)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            if close:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
            if close:
                self.drain()

        def drain(self):
            """Reads on for a moment: a client that sends everything before reading would otherwise miss the answer."""
            self.incoming.allow(2)
            try:
                while self.rfile.read1(1 << 20):
                    pass
            except OSError:
                pass

        def log_message(self, *args):
            pass

    return _Server((host, port), Handler, threads)


def _allowed(host, hosts):
    """Whether a Host header names this machine's loopback interface, or one of hosts."""
    name = host.lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    else:
        name = name.partition(":")[0]
    try:
        return name in hosts or name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def main():
    p = argparse.ArgumentParser(description="Speak pickle to a trainer and HTTP to score serve.")
    p.add_argument("--server", default="http://127.0.0.1:8100", help="score serve")
    p.add_argument("--scorer", help="name of the scorer (default: the first one)")
    p.add_argument("--host", default="127.0.0.1", help="keep the default: pickle does not belong on open networks")
    p.add_argument("--port", type=int, default=12341)
    p.add_argument("--allow-host", action="append", default=[], metavar="NAME", help="another name of this machine")
    p.add_argument("--source-root", metavar="DIR", help="read pictures named by a path below DIR (default: none)")
    p.add_argument("--max-body", type=int, default=1 << 30, metavar="BYTES", help="maximum size of a request")
    p.add_argument("--threads", type=int, default=64, metavar="N", help="maximum number of connections")
    p.add_argument(
        "--on-error",
        choices=_POLICIES,
        default="raise",
        help="result for an edit that could not be judged: the whole request "
        "is refused, NaN, or the mean of the request's other edits with its source and instruction",
    )
    p.add_argument("--wait", type=float, default=60, metavar="SECONDS", help="how long to retry a busy or absent server")
    a = p.parse_args()
    client = Client(a.server, scorer=a.scorer, wait=a.wait)
    with serve(client, a.host, a.port, a.source_root, a.allow_host, a.max_body, a.threads, a.on_error) as server:
        print(f"bridge to {a.server} on {a.host}:{a.port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
