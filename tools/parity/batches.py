"""Requests of realistic size to score serve, and a server that drops connections, is busy, goes down, and comes back."""
import http.server
import io
import json
import logging
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy
from client import fails
from PIL import Image
from shared import ROOT, SCORE, close, served

from assay_reward import Client, ServerError, reward

SCORER = ROOT / "backbones/tiny-scorer"
SOURCE = ROOT / "testdata/oracle/images/coffee.png"
TEXT = "make the picture grey"


def photos(count, size, seed):
    """Different images of size x size pixels, as arrays."""
    rng = numpy.random.default_rng(seed)
    photo = Image.open(ROOT / "examples/photos/chelsea.png").convert("RGB").resize((size + 64, size + 64), Image.BICUBIC)
    for _ in range(count):
        x, y = rng.integers(0, 64, 2)
        yield numpy.asarray(photo.crop((x, y, x + size, y + size)))


def jpeg(array):
    out = io.BytesIO()
    Image.fromarray(array).save(out, "JPEG", quality=90)
    return out.getvalue()


def check_sizes(work):
    """32 arrays and 256 JPEG files of 1,024 pixels, 300 edits at once, and gradients: all in parts that the server accepts."""
    took = {}
    with served("--scorer", SCORER) as url:
        cases = {"32 arrays of 1,024 px": list(photos(32, 1024, 1)), "256 JPEG of 1,024 px": [jpeg(a) for a in photos(256, 1024, 2)],
                 "300 edits of 64 px": list(photos(300, 64, 3))}
        for name, edits in cases.items():
            client = Client(url)
            begin = time.time()
            scores = client.score(SOURCE, TEXT, edits)
            took[name] = time.time() - begin
            for i in (0, len(edits) // 2, len(edits) - 1):
                close(f"{name}, number {i}", scores[i], client.score(SOURCE, TEXT, [edits[i]])[0], 0)
    with served("--scorer", SCORER, "--max-items", 7, "--max-body", 150_000) as url:
        edits = cases["300 edits of 64 px"][:40]
        client, many = Client(url), [(SOURCE if i % 3 else edits[0], f"{TEXT} {i // 20}", e) for i, e in enumerate(edits)]
        scores, pairs, gradients = client.score(edits[0], TEXT, edits), client.scores(many), client.gradients(many)
        for i in (0, 6, 7, 39):
            close(f"edit {i} of small parts", scores[i], client.score(edits[0], TEXT, [edits[i]])[0], 0)
            close(f"pair {i} of small parts", pairs[i], client.score(many[i][0], many[i][1], [edits[i]])[0], 0)
            close(f"gradient {i} of small parts", gradients[i].score, pairs[i], 1e-6)
        fails(ServerError, "larger than 150000 bytes", lambda: client.score(SOURCE, TEXT, [next(photos(1, 512, 1))]))
    return ", ".join(f"{n} {t:.1f} s" for n, t in took.items())


class Script(http.server.BaseHTTPRequestHandler):
    """Answers each POST with the next function of the server's list; after that like a server whose scores are 1, 2, 3..."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.say(404, {"error": {"kind": "not_found", "message": "not served"}})  # an older server

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((time.time(), len(body.get("edits", ()))))
        if self.server.script:
            return self.server.script.pop(0)(self)
        self.say(200, {"scorer": "x", "score_range": [0, 10], "results": [{"score": i + 1.0, "score01": 0.1} for i in range(len(body["edits"]))]})

    def say(self, status, what, head=(), cut=None, kind="application/json"):
        raw = what.encode() if isinstance(what, str) else json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        for name, value in head:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw[:cut])
        if cut is not None:
            self.drop()

    def drop(self):
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *args):
        pass


def scripted(*script, **options):
    """A client of a server that answers by the script, and the requests that the server received."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Script)
    server.script, server.asked = list(script), []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return Client(f"http://127.0.0.1:{server.server_address[1]}", pause=0.01, **options), server.asked


def check_answers(work):
    """Answers that are cut off or unreadable, and temporary and permanent refusals."""
    edits = [b"a", b"b"]
    whole = {"scorer": "x", "results": [{"score": 1.0}, {"score": 2.0}]}
    passing = {
        "nothing": lambda h: h.drop(),
        "cut in the body": lambda h: h.say(200, whole, cut=20),
        "cut in the head": lambda h: (h.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le"), h.drop()),
        "no HTTP": lambda h: (h.wfile.write(b"hello\r\n\r\n"), h.drop()),
        "JSON cut off": lambda h: h.say(200, json.dumps(whole)[:-9]),
        "a score too few": lambda h: h.say(200, {**whole, "results": whole["results"][:1]}),
        "no scores": lambda h: h.say(200, {**whole, "results": [{}, {}]}),
        "busy": lambda h: h.say(429, {"error": {"kind": "busy", "message": "later", "retry_after_ms": 5}}),
        "a proxy's page": lambda h: h.say(502, "<html>bad gateway", kind="text/html"),
        "unavailable": lambda h: h.say(503, {**whole, "results": [{"error": {"kind": "timeout", "message": "slow"}}] * 2}),
        "a fault": lambda h: h.say(500, {"error": {"kind": "internal", "message": "a fault"}}),
    }
    for name, answer in passing.items():
        client, asked = scripted(answer, answer)
        if client.score(b"s", "x", edits) != [1.0, 2.0] or len(asked) != 3:
            sys.exit(f"{name}: {len(asked)} requests, want 3")
    client, asked = scripted(passing["nothing"], *[lambda h: h.say(500, {"error": {"message": "a fault"}})] * 9, retries=3)
    fails(ServerError, "a fault", lambda: client.score(b"s", "x", edits))
    if len(asked) != 5:
        sys.exit(f"a permanent fault: {len(asked)} requests, want 5")
    client, asked = scripted(lambda h: h.say(200, "<html>", kind="text/html"), lambda h: h.say(200, "[1]"), retries=1)
    fails(ServerError, "unreadable answer", lambda: client.score(b"s", "x", edits))
    for status in (400, 401, 403, 404, 422):
        client, asked = scripted(lambda h, status=status: h.say(status, {"error": {"kind": "k", "message": "no"}}))
        fails(ServerError, "no", lambda client=client: client.score(b"s", "x", edits))
        if len(asked) != 1:
            sys.exit(f"status {status}: {len(asked)} requests")
    client, asked = scripted(lambda h: h.say(429, {"error": {"message": "later"}}, head=[("Retry-After", "1")]))
    client.score(b"s", "x", edits)
    if not 1 <= asked[1][0] - asked[0][0] < 3:
        sys.exit(f"Retry-After of a second: waited {asked[1][0] - asked[0][0]:.2f} s")
    client, asked = scripted(lambda h: h.say(429, {"error": {"message": "later"}}, head=[("Retry-After", "60")]), wait=5)
    fails(ServerError, "later", lambda: client.score(b"s", "x", edits))
    client, asked = scripted(*[lambda h: h.say(413, "<html>too large", kind="text/html")] * 2)  # a proxy in front of an older server
    if client.score(b"s", "x", [b"e"] * 8) != [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 3.0, 4.0] or [n for _, n in asked] != [8, 4, 2, 2, 4]:
        sys.exit(f"requests after a 413: {asked}")
    client, asked = scripted(lambda h: h.say(200, {**whole, "score_range": None}))
    fails(ServerError, "scorer x: its scores have no range", lambda: client.score(b"s", "x", edits, score01=True))


class Records(logging.Handler):
    def __init__(self):
        super().__init__()
        self.said = []

    def emit(self, record):
        self.said.append((time.time(), record.getMessage()))


def check_restart(work):
    """A server that is killed while it answers and comes back some seconds later, and one that does not."""
    records = Records()
    log = logging.getLogger("assay_reward")
    log.addHandler(records)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{s.getsockname()[1]}"

    def start():
        p = subprocess.Popen([SCORE, "serve", "--scorer", SCORER, "--addr", address, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        p.stdout.readline()
        return p

    edits, client = list(photos(48, 512, 5)), Client(f"http://{address}")
    first = start()
    want = client.score(SOURCE, TEXT, edits)
    got = {}

    def ask(n):
        got[n] = client.score(SOURCE, TEXT, edits[n::4])

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    [t.start() for t in threads[:3]]
    time.sleep(0.1)
    first.send_signal(signal.SIGSTOP)  # on a fast machine all of these may be answered; the last one is not
    threads[3].start()
    time.sleep(0.1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    away = time.time()
    time.sleep(30)  # longer than eight retries take (21 s)
    second = start()
    [t.join() for t in threads]
    back = time.time() - away
    second.terminate()
    second.wait()
    if any(got.get(n) != want[n::4] for n in range(4)):
        sys.exit(f"after a restart: got {got}, want {want}")
    if not records.said or records.said[0][0] > away + 6 or not 1 <= len(records.said) <= 4 or not all("retrying" in m for _, m in records.said):  # cut off or refused, either can happen
        sys.exit(f"log of a server that was killed at {away}: {records.said}")
    records.said.clear()
    begin = time.time()
    fails(ServerError, "refused (asked ", lambda: Client(f"http://{address}", wait=3).score(SOURCE, TEXT, edits[:1]))
    if not 2 < time.time() - begin < 6 or len(records.said) != 1 or "up to 3 s" not in records.said[0][1] or records.said[0][0] > begin + 1:
        sys.exit(f"gave up after {time.time() - begin:.1f} s with the log {records.said}")
    begin = time.time()
    fails(ServerError, "refused", lambda: Client(f"http://{address}").health())
    if time.time() - begin > 1:
        sys.exit("health() waited")
    return f"killed while answering, back after 30 s, all answered after {back:.1f} s"


def check(work):
    logging.getLogger("assay_reward").addHandler(logging.NullHandler())
    return "; ".join(filter(None, (check_sizes(work), check_answers(work), check_restart(work))))
