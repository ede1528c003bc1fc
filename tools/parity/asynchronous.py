"""AsyncClient compared with Client: scores, parts, retries, ids, cancellation, forks; failures handled by on_error."""
import asyncio
import json
import math
import os
import pickle
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from client import fails
from shared import SCORER, pairs, served

from assay_reward import AsyncClient, Client, ItemError, ServerError


class Fake:
    """A server that answers POSTs with a function of (path, headers, body, number): (status, headers, object), or None to drop the connection."""

    def __init__(self, answer, limits=None):
        fake, self.seen, self.now, self.most, self.lock = self, [], 0, 0, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.reply(200, {}, limits or {"max_body": 1 << 20, "max_items": 256})

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with fake.lock:
                    fake.seen.append((self.path, dict(self.headers), json.loads(body)))
                    number = len(fake.seen)
                    fake.now += 1
                    fake.most = max(fake.most, fake.now)
                try:
                    said = answer(self.path, self.headers, json.loads(body), number)
                finally:
                    with fake.lock:
                        fake.now -= 1
                if said is None:
                    self.close_connection = True
                else:
                    self.reply(*said)

            def reply(self, status, headers, what):
                raw = json.dumps(what).encode()
                self.send_response(status)
                for k, v in {**headers, "Content-Length": len(raw)}.items():
                    self.send_header(k, v)
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *a: None
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def scored(body, value=5.0):
    return 200, {}, {"scorer": "a", "results": [{"score": value, "score01": value / 10}] * len(body.get("edits") or body["pairs"])}


def raises(kind, text, awaitable):
    async def run():
        return await awaitable
    fails(kind, text, lambda: asyncio.run(run()))


def check_same(url, source, edit, instruction):
    """The same numbers as Client; forks and pickles use their own connections."""
    table = [(s, t, e) for s, e, t in pairs()[:6]]
    plain = Client(url)
    want, gradients = plain.scores(table), plain.gradients(table[:2])
    shared = AsyncClient(url, in_flight=3)

    async def ask(client):
        async with client:
            scores, many, got, names = await asyncio.gather(
                client.scores(table), asyncio.gather(*(client.score(s, t, [e]) for s, t, e in table)), client.gradients(table[:2]), client.rewards())
            if [s for one in many for s in one] != want or scores != want or names != plain.rewards():
                sys.exit(f"AsyncClient: got {scores} and {many}, want Client's {want}")
            for a, b in zip(got, gradients):
                if (a.score, a.shape, a.values) != (b.score, b.shape, b.values):
                    sys.exit("AsyncClient's gradients differ from Client's")
            health = await client.health()
            if health["status"] != "ok":
                sys.exit(f"health: {health}")

    asyncio.run(ask(shared))
    asyncio.run(ask(shared))  # another event loop
    asyncio.run(ask(pickle.loads(pickle.dumps(shared))))

    async def forked():
        await shared.score(source, instruction, [edit])
        child = os.fork()
        if not child:
            asyncio.events._set_running_loop(None)
            asyncio.set_event_loop(None)
            os._exit(0 if asyncio.run(shared.scores(table)) == want else 1)
        if await shared.scores(table) != want or os.waitpid(child, 0)[1]:
            sys.exit("a forked process and its parent interfere with each other")

    asyncio.run(forked())
    raises(ItemError, "edit 1: ", shared.score(source, instruction, [edit, b"no picture"]))
    raises(ServerError, 'no scorer "x"', AsyncClient(url, scorer="x").score(source, instruction, [edit]))
    raises(ServerError, "9: ", AsyncClient("http://127.0.0.1:9", wait=0).score(source, instruction, [edit]))


def check_failures(url, source, edit, instruction):
    """A broken picture among good ones is handled by on_error, in both clients."""
    edits = [edit, edit.read_bytes()[:40], source]
    good = Client(url).score(source, instruction, [edit, source])
    want = {"null": None, "nan": math.nan, "mean": sum(good) / 2}
    for name, value in want.items():
        for got in (Client(url).score(source, instruction, edits, on_error=name), asyncio.run(AsyncClient(url).score(source, instruction, edits, on_error=name))):
            middle = got[1] is None if value is None else got[1] != got[1] if value != value else abs(got[1] - value) < 1e-9
            if not middle or [got[0], got[2]] != good:
                sys.exit(f"on_error={name}: {got}, want {good} and {value}")
    for name in ("raise", "mean"):  # a group without a good edit has no mean
        fails(ItemError, "edit 0: ", lambda: Client(url).score(source, instruction, edits[1:2], on_error=name))
        raises(ItemError, "edit 0: ", AsyncClient(url).score(source, instruction, edits[1:2], on_error=name))
    for common in ((b"no picture", instruction), (source, " ")):
        for got in (Client(url).score(*common, [edit] * 2, on_error="nan"), asyncio.run(AsyncClient(url).score(*common, [edit] * 2, on_error="nan"))):
            if not all(math.isnan(g) for g in got):
                sys.exit(f"a source that is not an image, or a blank instruction: got scores {got}")
        pairs = [(*common, edit)] * 2
        for got in (Client(url).evaluate(pairs), asyncio.run(AsyncClient(url).evaluate(pairs))):
            if got.rewards != [None, None]:
                sys.exit(f"a source that is not an image, or a blank instruction: got rewards {got.rewards}")
    fails(ServerError, "source: ", lambda: Client(url).score(b"no picture", instruction, [edit] * 2))
    raises(ServerError, "source: ", AsyncClient(url).score(b"no picture", instruction, [edit] * 2))
    fails(ValueError, "on_error='zero'", lambda: Client(url).score(source, instruction, edits, on_error="zero"))
    mixed = Client(url).scores([(source, "a", edit), (source, "b", edits[1]), (source, "b", source), (source, "a", source)], on_error="mean")
    if mixed[1] != mixed[2]:
        sys.exit(f"the mean is over the wrong group: {mixed}")


def check_retries(edit):
    """Retries keep the id, other requests have other ids; Retry-After is respected; dropped connections and 5xx are retried."""
    def answer(path, headers, body, n):
        return ((429, {"Retry-After": "1"}, {"error": {"message": "busy", "kind": "busy"}}), None, (500, {}, {"error": "boom"}), (503, {}, {}), scored(body))[min(n, 5) - 1]

    for make in (lambda url: Client(url, pause=0.01).score(edit, "x", [edit]), lambda url: asyncio.run(AsyncClient(url, pause=0.01).score(edit, "x", [edit]))):
        fake, begin = Fake(answer), time.time()
        if make(fake.url) != [5.0] or len(fake.seen) != 5 or time.time() - begin < 1:
            sys.exit(f"{len(fake.seen)} requests in {time.time() - begin:.2f} s, want 5 and at least the second of Retry-After")
        if len({h["Idempotency-Key"] for _, h, _ in fake.seen}) != 1:
            sys.exit("a retry has a different id")
    fake = Fake(lambda path, headers, body, n: scored(body))
    client = Client(fake.url)
    client.score(edit, "x", [edit]), client.score(edit, "x", [edit]), client.score(edit, "x", [edit], id="mine")
    ids = [h["Idempotency-Key"] for _, h, _ in fake.seen]
    if len(set(ids)) != 3 or ids[2] != "mine":
        sys.exit(f"ids {ids}")


async def whole(client, places):
    """All slots are free again."""
    await asyncio.sleep(0.05)
    pool = client._connections()
    if pool.places._value != places or len(pool.idle) > places:
        sys.exit(f"{pool.places._value} free slots and {len(pool.idle)} idle connections, want {places} slots")


def check_cancel(edit):
    """A cancelled call frees its slots whenever it is cancelled, and the next call gets its own answer."""
    fake = Fake(lambda path, headers, body, n: scored(body, len(body["instruction"])), {"max_body": 1 << 20, "max_items": 1})

    async def many():
        async with AsyncClient(fake.url, in_flight=3) as client:
            await client.score(edit, "x", [edit])
            for i in range(120):
                call = asyncio.ensure_future(client.score(edit, "x" * (1 + i % 7), [edit] * 6))
                for _ in range(i % 40):
                    await asyncio.sleep(0)
                await asyncio.sleep(0.0005 * (i % 9))
                call.cancel()
                if i % 10 == 0 and await client.score(edit, "y" * 9, [edit]) != [9.0]:
                    sys.exit("got the answer of another call")
            await whole(client, 3)

    asyncio.run(many())


def check_flight(edit):
    """At most N requests at a time; parts in parallel, results in order; halved after a 413; cancelled tasks leave nothing behind."""
    gate = threading.Event()

    def slow(path, headers, body, n):
        gate.wait(10)
        return scored(body, len(body["instruction"]))

    fake = Fake(slow)

    async def many():
        async with AsyncClient(fake.url, in_flight=4) as client:
            asking = [asyncio.ensure_future(client.score(edit, "x" * (i + 1), [edit])) for i in range(20)]
            while fake.now < 4:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            asking[0].cancel(), asking[19].cancel()
            await asyncio.sleep(0.05)
            gate.set()
            got = await asyncio.gather(*asking, return_exceptions=True)
            if [g for g in got[1:19]] != [[float(i + 1)] for i in range(1, 19)] or not all(isinstance(got[i], asyncio.CancelledError) for i in (0, 19)):
                sys.exit(f"twenty tasks, two of them cancelled: got {got}")
            await whole(client, 4)
            await client.score(edit, "y", [edit])
            left = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
            if left:
                sys.exit(f"tasks left over: {left}")

    asyncio.run(many())
    if fake.most > 5:  # the server still sees a cancelled one for a moment
        sys.exit(f"{fake.most} requests at a time, want at most 4")

    def limited(path, headers, body, n):
        pairs = body.get("edits") or body["pairs"]
        return (413, {}, {"error": {"message": "too large", "kind": "too_large"}}) if len(pairs) > 2 else scored(body)

    for make in (lambda url: Client(url).score(edit, "x", [edit] * 20), lambda url: asyncio.run(AsyncClient(url).score(edit, "x", [edit] * 20))):
        fake = Fake(limited, {"max_body": 1 << 20, "max_items": 8})
        if make(fake.url) != [5.0] * 20:
            sys.exit("wrong scores after splitting a request into parts and halves")
        ids = [h["Idempotency-Key"] for _, h, _ in fake.seen]
        if len(set(ids)) != len(ids):
            sys.exit(f"parts share ids: {ids}")
    fake = Fake(lambda path, headers, body, n: (422, {}, {"error": {"message": "no", "kind": "bad_request"}}) if n == 1 else scored(body), {"max_body": 1 << 20, "max_items": 2})
    raises(ServerError, "no", AsyncClient(fake.url, in_flight=2).score(edit, "x", [edit] * 40))
    if len(fake.seen) > 6:
        sys.exit(f"{len(fake.seen)} of 20 parts were sent after the first had failed")


def evaluated(body, judges=("a",)):
    """An answer to a request for rewards: the reward of edit i is i, and the second fails."""
    count = len(body.get("edits") or body["pairs"])
    null = {"null": None, "nan": math.nan, "mean": 0.5}[body["on_error"]]
    results = [{"reward": null if i == 1 else float(i), "rewards": [{"name": "a", "error": {"kind": "bad_picture", "message": "no"}} if i == 1 else {"name": "a", "score": i, "value": i}],
                **({"imputed": True} if i == 1 and body["on_error"] == "mean" else {})} for i in range(count)]
    return 200, {}, {"version": "1", "judges": [{"name": n, "fingerprint": "f", "score_range": None} for n in judges], "results": results}


def check_loops():
    """Event loops of several threads that first use a client at the same time have their own pools."""
    shared, wrong = AsyncClient("http://127.0.0.1:9"), []

    class Slow:
        """An earlier event loop, whose is_closed is slow."""

        def is_closed(self):
            time.sleep(0.01)
            return True

    async def ask():
        pool = shared._connections()
        await asyncio.sleep(0.05)
        if shared._connections() is not pool:
            wrong.append(pool)

    def run():
        try:
            asyncio.run(ask())
        except Exception as e:
            wrong.append(e)

    asyncio.run(ask())
    shared._pools.update({Slow(): None for _ in range(3)})
    threads = [threading.Thread(target=run) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if wrong:
        sys.exit(f"AsyncClient in several event loops: {wrong}")


def check_evaluate(edit):
    """The body for several rewards and sources; full groups in a request; a judge that changes between parts."""
    for run in (lambda client, *a, **k: client(Client).evaluate(*a, **k), lambda client, *a, **k: asyncio.run(client(AsyncClient).evaluate(*a, **k))):
        fake = Fake(lambda path, headers, body, n: evaluated(body))
        new = lambda kind: kind(fake.url)  # noqa: E731
        got = run(new, [([edit, edit], "x", edit)] * 3, ["a", {"name": "b", "weight": 0.5, "dimension": "d", "fingerprint": "f"}], combine="score01", id="one")
        path, headers, body = fake.seen[-1]
        if got.rewards != [0.0, None, 2.0] or got.ids != ["one"] or got.judges[0]["fingerprint"] != "f" or got.version != "1" or "error" not in got.results[1]["rewards"][0]:
            sys.exit(f"evaluate: {got}")
        if headers["Idempotency-Key"] != "one" or len(body["sources"]) != 2 or len(body["edits"]) != 3 or "source" in body or body["combine"] != "score01" or \
                body["rewards"] != [{"name": "a"}, {"name": "b", "weight": 0.5, "dimension": "d", "fingerprint": "f"}] or body["on_error"] != "null":
            sys.exit(f"evaluate sent {body.keys()}, {body['rewards']}")
        if not math.isnan(run(new, [(edit, "x", edit)] * 2, ["a"], on_error="nan").rewards[1]) or run(new, [(edit, "x", edit)] * 2, ["a"], on_error="mean").rewards[1] != 0.5:
            sys.exit("evaluate: wrong NaN or mean")
        run(new, [(None, "x", edit)] * 2, ["a"], combine="rank", groups=["g", "h"])
        if fake.seen[-1][2]["pairs"][0].keys() != {"instruction", "edit", "group"}:
            sys.exit(f"a pair without a source: {fake.seen[-1][2]}")
        run(new, [(edit, "x", edit)], ["a"], combine="lower_bound", penalty=2.5)
        if fake.seen[-1][2]["penalty"] != 2.5 or "penalty" in body:
            sys.exit(f"evaluate with a penalty sent {fake.seen[-1][2].keys()}, without one {body.keys()}")
        noise, at = os.urandom(270_000), len(fake.seen)  # three times in a body of 1 MiB are too many
        for groups, want in ((["g"] * 3, [3]), (None, [3]), ([1, 2, 3], [2, 1])):  # a source is sent once, if its edits are a group
            run(new, [(noise, "x", edit)] * 3, ["a"], combine="rank", groups=groups)
            sent = sorted((len(b.get("edits") or b["pairs"]) for _, _, b in fake.seen[at:]), reverse=True)  # parts are sent at once
            if sent != want or any(len(json.dumps(b)) > 1 << 20 for _, _, b in fake.seen[at:]):
                sys.exit(f"evaluate with groups {groups} sent {sent} edits, want {want}")
            at = len(fake.seen)
        fails(ValueError, "on_error='zero'", lambda: run(new, [(edit, "x", edit)], on_error="zero"))
        fails(ValueError, "rewards name others", lambda: run(lambda kind: kind(fake.url, scorer="s"), [(edit, "x", edit)], ["a"]))
        fake = Fake(lambda path, headers, body, n: evaluated(body), {"max_body": 1 << 20, "max_items": 4})
        new = lambda kind: kind(fake.url)  # noqa: E731
        table = [(edit, "xyz"[i % 3], edit) for i in range(9)]  # three groups of three, one per request
        got = run(new, table, ["a"], combine="zscore")
        if sorted(got.rewards, key=str) != sorted([0.0, None, 2.0] * 3, key=str) or len(fake.seen) != 3 or any(len({p["instruction"] for p in b.get("pairs", [])}) > 1 for _, _, b in fake.seen):
            sys.exit(f"groups in {len(fake.seen)} requests: {got.rewards}")
        if got.rewards[:3] != [0.0] * 3 or got.rewards[6:] != [2.0] * 3:
            sys.exit(f"results of parts are out of order: {got.rewards}")
        fails(ValueError, "a group of 5 edits", lambda: run(new, [(edit, "x", edit)] * 5, ["a"], combine="rank"))
        fake = Fake(lambda path, headers, body, n: evaluated(body, "ab"[n % 2]), {"max_body": 1 << 20, "max_items": 4})
        fails(ServerError, "the judges changed", lambda: run(lambda kind: kind(fake.url), table, ["a"]))
        zero = Fake(lambda path, headers, body, n: (200, {}, {"version": "1", "judges": [], "results": [{"reward": None, "rewards": []}]}))
        fails(ServerError, "unreadable answer", lambda: run(lambda kind: kind(zero.url, retries=0), [(edit, "x", edit)], ["a"]))


def check_server(url, source, edit, instruction):
    """Several rewards, ids, fingerprints and sleep with a server, for both clients."""
    broken = edit.read_bytes()[:40]
    pairs3 = [(source, instruction, edit), (source, instruction, broken), (source, instruction, source)]

    def metric(name):
        import urllib.request
        text = urllib.request.urlopen(url + "/metrics").read().decode()
        return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))

    for kind in (Client, AsyncClient):
        def ask(method, *args, **kwargs):
            got = getattr(kind(url, **kwargs.pop("client", {})), method)(*args, **kwargs)
            return asyncio.run(got) if kind is AsyncClient else got

        one, two = (ask("scores", pairs3, client={"scorer": n}, on_error="null") for n in ("a", "b"))
        rewards = ["a", {"name": "b", "weight": 0.5}]
        got = ask("evaluate", pairs3, rewards)
        want = [x + 0.5 * y for x, y in ((one[0], two[0]), (one[2], two[2]))]
        if got.rewards[1] is not None or not all(abs(got.rewards[2 * i] - v) <= 1e-5 for i, v in enumerate(want)):
            sys.exit(f"{kind.__name__}.evaluate: {got.rewards}, want {want} around None")
        if [j["name"] for j in got.judges] != ["a", "b"] or not got.version or not got.judges[0]["fingerprint"] or "error" not in got.results[1]["rewards"][1]:
            sys.exit(f"{kind.__name__}.evaluate: {got}")
        if not math.isnan(ask("evaluate", pairs3, rewards, on_error="nan").rewards[1]):
            sys.exit("evaluate: no NaN")
        mean = ask("evaluate", pairs3, rewards, on_error="mean")
        if not abs(mean.rewards[1] - sum(want) / 2) <= 1e-5 or not mean.results[1]["imputed"]:
            sys.exit(f"evaluate: mean {mean.rewards}")
        fails(ServerError, "edit 1, a: ", lambda: ask("evaluate", pairs3, rewards, on_error="fail"))
        z = ask("evaluate", [pairs3[0], pairs3[2]], ["a"], combine="zscore").rewards
        half = (one[0] - one[2]) / 2
        if not (abs(z[0] - half / (abs(half) * 2**0.5 + 1e-4)) <= 1e-4 and abs(z[0] + z[1]) <= 1e-4):
            sys.exit(f"evaluate: z-scores {z} of {one}")
        alone = ask("evaluate", [pairs3[0], pairs3[2]], ["a"], combine="rank", groups=[1, 2]).rewards
        if alone != [0.5, 0.5]:
            sys.exit(f"evaluate: ranks of groups of one {alone}")
        two = [(source, instruction, edit), (edit, instruction, source)]
        if sorted(ask("evaluate", two, ["a"], combine="rank", groups=["", ""]).rewards) != [0, 1]:
            sys.exit("evaluate: pairs with the same key are not grouped")
        if ask("evaluate", two, ["a"], combine="rank", groups=[1, "1"]).rewards != [0.5, 0.5]:
            sys.exit("evaluate: pairs with different keys are grouped")
        fails(ValueError, "1 groups for 2 pairs", lambda: ask("evaluate", two, ["a"], groups=["g"]))
        got = ask("evaluate", [(broken, instruction, edit)] * 2, rewards)
        if got.rewards != [None, None] or "error" not in got.results[1]["rewards"][1]:
            sys.exit(f"evaluate: got {got} for a broken source")
        fails(ServerError, "source: ", lambda: ask("evaluate", [(broken, instruction, edit)] * 2, rewards, on_error="fail"))
        for text in ("a\r\nX-Scorer: b", "é", ""):
            fails(ValueError, "id: want printable ASCII", lambda: ask("score", source, instruction, [edit], id=text))
        fails(ValueError, "token: want printable ASCII", lambda: ask("score", source, instruction, [edit], client={"token": "12345678\n"}))
        name, before = f"id-{kind.__name__}", metric("assay_retries_total")
        first = ask("score", source, instruction, [edit], id=name)
        if ask("score", source, instruction, [edit], id=name) != first or metric("assay_retries_total") != before + 1:
            sys.exit("a request with the same id was judged twice")
        fails(ServerError, "used with another body", lambda: ask("score", source, instruction + "!", [edit], id=name))
        judges = ask("judges")
        own = judges[0]["fingerprint"]
        if ask("score", source, instruction, [edit], client={"fingerprint": own}) != first:
            sys.exit("a required fingerprint is not enforced")
        fails(ServerError, "the required", lambda: ask("score", source, instruction, [edit], client={"fingerprint": "other"}))
        fails(ServerError, "the required", lambda: ask("evaluate", pairs3, [{"name": "b", "fingerprint": "other"}]))
        fails(ServerError, "2 sources", lambda: ask("evaluate", [([source, edit], instruction, edit)], ["a"], on_error="fail"))
        fails(ItemError, "2 sources", lambda: ask("score", [source, edit], instruction, [edit]))
        if ask("sleep")["state"] != "asleep" or ask("wake")["state"] != "awake" or ask("score", source, instruction, [edit]) != first:
            sys.exit("sleep or wake failed, or the score differs afterwards")


def check(work):
    source, edit, instruction = pairs()[2]
    check_retries(edit)
    check_cancel(edit)
    check_flight(edit)
    check_evaluate(edit)
    check_loops()
    with served("--scorer", SCORER) as url:
        check_same(url, source, edit, instruction)
        check_failures(url, source, edit, instruction)
    with served("--scorer", f"a={SCORER}", "--scorer", f"b={SCORER}_sequence") as url:
        check_server(url, source, edit, instruction)
    return "same numbers as the plain client; retries, cancellation, forks, failures"


if __name__ == "__main__":
    print(check(None))
