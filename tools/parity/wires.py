"""The bridge: requests of four trainers, scores on 0 to 1 for any range, and what it refuses."""
import base64
import contextlib
import http.client
import io
import json
import os
import pickle
import shutil
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
import zipfile

import numpy
from client import fails
from PIL import Image
from shared import ORACLE, ROOT, SCORE, close, pairs, run, served

from assay_reward import Client, bridge

TINY = ROOT / "backbones/tiny-scorer"


class Bridge:
    """A bridge on a free port, in a thread of this process."""

    def __init__(self, client, **options):
        self.server = bridge.serve(client, port=0, **options)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def post(self, path, payload, **headers):
        """The status and the answer."""
        raw = payload if isinstance(payload, bytes) else pickle.dumps(payload)
        try:
            with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", raw, headers)) as r:
                return r.status, pickle.loads(r.read())
        except urllib.error.HTTPError as e:
            return e.code, pickle.loads(e.read())

    def raw(self, head, body=b""):
        """The answer to a raw request, b"" if there is none."""
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.settimeout(10)
            s.sendall(head.replace("\n", "\r\n").encode() + b"\r\n" + body)
            out = b""
            while more := s.recv(1 << 16):
                out += more
                if b"\r\n\r\n" in out and len(out.partition(b"\r\n\r\n")[2]) >= int(out.lower().partition(b"content-length: ")[2].split(b"\r")[0]):
                    break
            return out


def scorers(work):
    """Flags for scorers by name: one network with four ranges, and one without a range."""
    out = {"ten": TINY}
    for name, span in {"one": "[0.0, 1.0]", "five": "[1.0, 5.0]", "down": "[10.0, 0.0]"}.items():
        out[name] = work / name
        shutil.rmtree(out[name], ignore_errors=True)
        shutil.copytree(TINY, out[name])
        text = (out[name] / "scorer.yaml").read_text()
        text = text.replace("[0.0, 10.0]", span).replace("backbone: ../tiny", f"backbone: {os.path.relpath(ROOT / 'backbones/tiny', out[name])}")
        (out[name] / "scorer.yaml").write_text(text)
    out["open"], released = work / "open", work / "released"
    if not out["open"].exists():
        with zipfile.ZipFile(ORACLE / "released.zip") as z:
            z.extractall(released)
        judge = released / "editreward"
        run(SCORE, "import", "editreward", "--base", judge / "base", "--weights", judge / "weights", "--config", judge / "config/EditReward-tiny.yaml",
            "--prompts", judge / "prompts", "--out", out["open"], "--json")
    return [f"--scorer={n}={d}" for n, d in out.items()]


def payloads(source, edit, text):
    """A request of each trainer, and a function that reads the scores from its answer."""
    before, after = source.read_bytes(), edit.read_bytes()
    texts, asked = numpy.array([text, text]), json.dumps({"instruction": text})
    yield "Edit-R1", "/mode/logits_non_cot", {"images": [after] * 2, "ref_images": [before] * 2, "prompts": texts, "metadatas": [{"requirement": ""}] * 2}, lambda a: a["scores"]
    yield "Flow-GRPO", "/flow_grpo", {"images": [after], "ref_images": [before], "prompts": texts[:1]}, lambda a: a["outputs"]
    told = json.dumps({"instruction": text, "source": base64.b64encode(before).decode()})
    yield "verl-omni", "/", {"images": [after], "prompts": [told], "metadata": {}}, lambda a: a["scores"]
    shown = {"input_images": [[Image.open(source)]] * 2, "output_image": [Image.open(edit).convert("RGB"), Image.open(edit)], "server_type": "vlm"}
    yield "EditScore", "/", {**shown, "meta_datas": [asked] * 2}, lambda a: a["rewards"]
    yield "EditScore's workers", "/", {**shown, "meta_data": [asked] * 2}, lambda a: [r["reward"] for r in a]
    row = {"bytes": before, "path": "x.png"}
    yield "parquet", "/", {"images": [{"bytes": after, "path": None}], "ref_images": numpy.array([row]), "prompts": [text]}, lambda a: a["scores"]


def check_ranges(work, url, source, edit, text):
    """Every wire format has score01, for any range; EditScore's `scores` are 1 at 0.5 or more; without a range it is refused."""
    good = json.loads((ROOT / "testdata/oracle/images/pairs.json").read_text())  # one edit is above 0.5, one below
    found = Client(url).scores([(ORACLE / p["input"], "blur the picture", ORACLE / p["edited"]) for p in good], score01=True)
    best = max(range(len(good)), key=lambda i: found[i])
    cases = [(source, edit, text), (ORACLE / good[best]["input"], ORACLE / good[best]["edited"], "blur the picture")]
    if not found[best] > 0.5:
        sys.exit(f"no edit above 0.5 among {found}")
    for name in ("ten", "one", "five", "down"):
        b = Bridge(Client(url, scorer=name))
        for source, edit, text in cases:
            want = Client(url, scorer="ten").score(source, text, [edit])[0] / 10
            for trainer, path, payload, scores in payloads(source, edit, text):
                status, got = b.post(path, payload)
                if status != 200:
                    sys.exit(f"{trainer}, range {name}: {got}")
                for s in scores(got):
                    close(f"{trainer}, range {name}", s, want, 2e-7)
                if trainer == "EditScore" and got["scores"] != [1.0 if want >= 0.5 else 0.0] * 2:
                    sys.exit(f"EditScore's scores for {want}, range {name}: {got}")
        b.server.shutdown()
    b = Bridge(Client(url, scorer="open"))
    if not Client(url, scorer="open").score(source, text, [edit]):
        sys.exit("the scorer without a range has no score")
    for name, bounded in (("open", False), ("ten", True)):
        g = Client(url, scorer=name).gradient(source, text, edit)
        if (g.score01 is not None) != bounded:
            sys.exit(f"gradient of scorer {name}: score01 {g.score01} for score {g.score}, range: {bounded}")
        if bounded:
            close(f"score01 of a gradient of scorer {name}", g.score01, g.score / 10, 1e-9)
    for trainer, path, payload, _ in payloads(source, edit, text):
        status, got = b.post(path, payload)
        if status != 400 or "scorer open: its scores have no range" not in got.get("error", ""):
            sys.exit(f"{trainer} with a scorer without a range: {status} {got}")
    b.server.shutdown()


def check_parts(b, client, source, edit, text):
    """Edit-R1's parts; nonsense gets an error and no number."""
    before, after = source.read_bytes(), edit.read_bytes()
    for count, part, first in ((65, 33, 0), (65, 32, 33)):  # Edit-R1 sends the prompts of all parts; the size tells which part it is
        numbered = numpy.array([f"{text} {i}" for i in range(count)])
        got = b.post("/mode/logits_non_cot", {"images": [after] * part, "ref_images": [before] * part, "prompts": numbered, "metadatas": []})[1]["scores"]
        close("Edit-R1 in parts", got[0], client.score(source, str(numbered[first]), [edit], score01=True)[0], 1e-6)
    vague = {"images": [after] * 50, "ref_images": [before] * 50, "prompts": [str(i) for i in range(100)], "metadatas": []}
    if "it is unclear which" not in b.post("/mode/logits_non_cot", vague)[1].get("error", ""):
        sys.exit("prompts that may belong to another part were scored")
    huge = b"\x80\x04\x8c\x08builtins\x94\x8c\x09bytearray\x94\x93\x94\x8a\x06\x00\x00\x00\x00\x00\x01\x85R."  # bytearray(2**40)
    for bad in (b"no pickle", pickle.dumps([1]), {"images": [b"x"], "ref_images": [before], "prompts": ["p"]}, pickle.dumps(os.system), huge,
                {"images": [after], "prompts": ["p"], "metadata": {}}, {"images": [10**9], "ref_images": [before], "prompts": ["p"]},
                {"images": [after], "ref_images": [{"bytes": None, "path": None}], "prompts": ["p"]}, {"images": [after], "ref_images": [None], "prompts": ["p"]}):
        status, got = b.post("/", bad)
        if status != 400 or set(got) != {"error"}:
            sys.exit(f"the bridge answered nonsense with {status} {got}")
    check_prompts(b, client, source, edit, text)
    image = Image.new("L", (4, 4))
    image.__class__ = type("Image", (Image.Image,), {"__module__": "PIL.Image", "__reduce__": lambda s: (Image.Image, (), [{}, "RGB", (1 << 20, 1 << 20), None, b"x"])})
    status, got = b.post("/", {"input_images": [[image]], "output_image": [image], "meta_datas": [json.dumps({"instruction": text})]})
    if status != 400 or "1048576 x 1048576 pixels" not in got["error"]:
        sys.exit(f"an image without bytes: {status} {got}")
    small = {"images": numpy.array([after, before, after]), "ref_images": numpy.array([before] * 3), "prompts": [text] * 3}  # short-lived elements
    want = client.score(source, text, [edit, source, edit], score01=True)
    for got, w in zip(b.post("/", small)[1]["scores"], want):
        close("pictures in an array of bytes", got, w, 1e-6)
    if b.post("/", pickle.dumps({"images": [after], "ref_images": [before], "prompts": [text]}, protocol=2))[0] != 200:
        sys.exit("a pickle of protocol 2 is not read")


def check_prompts(b, client, source, edit, text):
    """Prompts are a list of texts, which may be JSON with an instruction; a source is in the JSON or in ref_images, not both."""
    before, after = source.read_bytes(), edit.read_bytes()
    whole = {"images": [after], "ref_images": [before]}
    own = json.dumps({"instruction": text, "source_img": base64.b64encode(before).decode()})
    for prompts, why in (("m", "not str"), (b"m", "not bytes"), ({"m": 1}, "not dict"), ({"m"}, "not set"), (None, "not NoneType"), ([None], "prompts[0]: want a text, not NoneType"),
                         ([b"make"], "not bytes"), ([text, 5], "prompts[1]: want a text, not int"), ([["make"]], "not list"), (numpy.array([5]), "prompts[0]"),
                         (numpy.array([[text]]), "prompts[0]"), (numpy.array(text), "not ndarray"), ([own], "prompts[0] has its own source"),
                         ([json.dumps({"source": "x"})], "instruction must be a text"), ([json.dumps({"instruction": 5})], "instruction must be a text, not int")):
        status, got = b.post("/", {**whole, "prompts": prompts})
        if status != 400 or why not in got["error"]:
            sys.exit(f"prompts {prompts!r}: {status} {got}, want 400 and {why!r}")
    for prompt, means in ((json.dumps({"instruction": text}), text), (numpy.array([text], dtype=object)[0], text), ("{x} is not JSON", "{x} is not JSON"), ('{"a": 1}', '{"a": 1}')):
        want = client.score(source, means, [edit], score01=True)[0]
        status, got = b.post("/", {**whole, "prompts": (prompt,)})
        if status != 200 or not abs(got["scores"][0] - want) <= 1e-6:
            sys.exit(f"prompt {prompt!r}: {status} {got}, want {want}")


def check_paths(work, client, source, edit, text):
    """Files are read only below --source-root; errors reveal nothing about others."""
    root, secret = work / "root", work / "secret.png"
    shutil.rmtree(root, ignore_errors=True)
    (root / "abcd").mkdir(parents=True)
    for to in (root / "abcd/efgh", secret):  # a name that is also valid base64
        to.write_bytes(source.read_bytes())
    (root / "link.png").symlink_to(secret)
    want = client.score(source, text, [edit], score01=True)[0]
    asked = [{"source": s} for s in ("abcd/efgh", str(root / "abcd/efgh"), "./abcd/../abcd/efgh")]
    outside = [str(secret), "../secret.png", "link.png", "/etc/passwd", "/dev/zero", "nowhere.png", ".", "", "a\0b"]
    with_root, without = Bridge(client, source_root=str(root)), Bridge(client)

    def post(b, source):
        return b.post("/", {"images": [edit.read_bytes()], "prompts": [json.dumps({"instruction": text, **source})], "metadata": {}})

    for s in asked + [{"source_img": "abcd/efgh"}]:
        status, got = post(with_root, s)
        if status != 200:
            sys.exit(f"{s}: {got}")
        close(f"a source by path, {s}", got["scores"][0], want, 1e-6)
    rows = {"images": [edit.read_bytes()], "prompts": [text], "ref_images": [{"bytes": None, "path": "abcd/efgh"}]}
    close("a row's path", with_root.post("/", rows)[1]["scores"][0], want, 1e-6)
    begin = time.time()  # long base64 is not looked up as a path
    status, got = with_root.post("/", {"images": [base64.b64encode(os.urandom(3 << 20)).decode()], "ref_images": [source.read_bytes()], "prompts": [text]})
    if status != 400 or time.time() - begin > 5:
        sys.exit(f"4 MB of base64 took {time.time() - begin:.1f} s: {status} {got}")
    said = set()
    for b, names in ((with_root, outside), (without, outside + [s["source"] for s in asked[1:]])):
        for name in names:
            status, got = post(b, {"source": name})
            if status != 400 or "root:" in got["error"]:
                sys.exit(f"source {name!r}: {status} {got}")
            with contextlib.suppress(ValueError):
                base64.b64decode(name, validate=True)  # a path that is valid base64 is decoded, even if the file exists
                continue
            said.add(got["error"].replace(str(root), "ROOT"))
    if len(said) > 2:
        sys.exit(f"refusals reveal which files exist: {said}")
    with_root.server.shutdown(), without.server.shutdown()


def check_door(client):
    """Other hosts and origins are refused, like bodies without a length, too large or too slow ones; threads are bounded."""
    bridge._SECONDS = 6  # instead of 30
    b = Bridge(client, allow_hosts=["trainer.example"], max_body=1000, threads=2)
    body = pickle.dumps({"images": []})
    post = "POST / HTTP/1.1\nHost: {}\nContent-Length: {}\n{}"
    for host, extra, length, want in (("localhost", "", len(body), 400), ("127.0.0.1:1", "", len(body), 400), ("[::1]:80", "", len(body), 400),
                                      ("trainer.example:80", "", len(body), 400), ("evil.example", "", len(body), 403), ("127.0.0.1.evil.example", "", len(body), 403),
                                      ("localhost", "Origin: http://evil.example\n", len(body), 403), ("localhost", "Origin: null\n", len(body), 403),
                                      ("localhost", "", -1, 400), ("localhost", "", "1_0", 400), ("localhost", "", "", 411), ("localhost", "", 1001, 413), ("localhost", "", 10**30, 413),
                                      ("localhost", "Transfer-Encoding: chunked\n", 5, 411)):
        got = b.raw(post.format(host, length, extra), body)
        if not got.startswith(b"HTTP/1.1 %d " % want):
            sys.exit(f"Host {host}, {extra!r}, Content-Length {length}: {got[:300]}, want {want}")
        if want == 400 and length == len(body) and b"no sources" not in got:
            sys.exit(f"Host {host}: {got}")
    if not b.raw("GET /ping HTTP/1.1\nHost: evil.example\n").startswith(b"HTTP/1.1 403 ") or b"pong" not in b.raw("GET /ping HTTP/1.1\nHost: localhost\n"):
        sys.exit("/ping: wrong answer, or Host is not checked")
    silent = [socket.create_connection(("127.0.0.1", b.port)) for _ in range(2)]  # both threads
    time.sleep(0.3)
    begin, waiting = time.time(), http.client.HTTPConnection("127.0.0.1", b.port, timeout=60)
    waiting.request("GET", "/ping")
    waiting.sock.settimeout(2)
    fails(TimeoutError, "", waiting.getresponse)
    silent[0].close()
    waiting.sock.settimeout(60)
    if waiting.getresponse().status != 200:
        sys.exit("a request that waited was not served")
    silent[1].sendall(post.format("localhost", 900, "").replace("\n", "\r\n").encode() + b"\r\nx")  # the rest is never sent
    silent[1].settimeout(60)
    got = silent[1].recv(1 << 16)
    if not got.startswith(b"HTTP/1.1 408 ") or not 4 < time.time() - begin < 25:
        sys.exit(f"a body that is never sent: got {got[:200]} after {time.time() - begin:.0f} s")
    b.server.shutdown()


def check_failures(client, source, edit, text):
    """A broken picture among good ones is handled by --on-error, in every wire format, and is never 0."""
    before, after = source.read_bytes(), edit.read_bytes()
    broken, asked = after[:60], json.dumps({"instruction": text})
    told = json.dumps({"instruction": text, "source": base64.b64encode(before).decode()})
    shown = {"output_image": [Image.open(edit), broken, Image.open(source)], "input_images": [[Image.open(source)]] * 3, "server_type": "vlm"}
    wires = {
        "Edit-R1": ("/mode/logits_non_cot", {"images": [after, broken, before], "ref_images": [before] * 3, "prompts": numpy.array([text] * 3), "metadatas": [{}] * 3}, lambda a: a["scores"]),
        "Flow-GRPO": ("/flow_grpo", {"images": [after, broken, before], "prompts": numpy.array([told] * 3)}, lambda a: a["outputs"]),
        "verl-omni": ("/", {"images": [after, broken, before], "prompts": [told] * 3, "metadata": {}}, lambda a: a["scores"]),
        "EditScore": ("/", {**shown, "meta_datas": [asked] * 3}, lambda a: a["rewards"]),
        "EditScore's workers": ("/", {**shown, "meta_data": [asked] * 3}, lambda a: [r["reward"] for r in a]),
    }
    good = client.score(source, text, [edit, source], score01=True)
    want = {"nan": float("nan"), "mean": sum(good) / 2}
    for on_error in ("raise", "nan", "mean"):
        b = Bridge(client, on_error=on_error)
        for name, (path, payload, scores) in wires.items():
            status, got = b.post(path, payload)
            if on_error == "raise":
                if status != 400 or set(got) != {"error"} or "edit 1: " not in got["error"]:
                    sys.exit(f"{name}, raise: {status} {got}")
                continue
            if status != 200:
                sys.exit(f"{name}, {on_error}: {status} {got}")
            found = scores(got)
            for g, w in zip(found, [good[0], want[on_error], good[1]], strict=True):
                if (g != g) != (w != w) or w == w and abs(g - w) > 1e-6:
                    sys.exit(f"{name}, {on_error}: got {found}, want {good} around {want[on_error]}")
            if name == "EditScore" and on_error == "nan" and got["scores"][1] == got["scores"][1]:
                sys.exit(f"EditScore's scores for a NaN: {got['scores']}")
        b.server.shutdown()
    fails(ValueError, "on_error='zero'", lambda: Bridge(client, on_error="zero"))
    several = {"images": [after], "prompts": [text], "ref_images": [[before, after]]}
    b = Bridge(client)
    status, got = b.post("/", several)
    if status != 400 or "2 sources" not in got["error"]:
        sys.exit(f"two sources for a scorer with one: {status} {got}")
    b.server.shutdown()


def check_verl_omni(url, source, edit, text):
    """The reward function that verl-omni loads, with its own data and both scales."""
    import asyncio

    import torch

    from assay_reward import verl_omni
    image = torch.from_numpy(numpy.asarray(Image.open(edit).convert("RGB")).copy()).permute(2, 0, 1)
    want = Client(url).score(source, text, [edit])[0]

    def ask(info, **kwargs):
        return asyncio.run(verl_omni.compute_score(image, kwargs.pop("ground_truth", text), info, server_url=url, data_source="x", **kwargs))["score"]

    raw = source.read_bytes()
    for info in ({"source": str(source)}, {"source": raw}, {"source_img": {"bytes": raw, "path": None}}, {"source_img": {"bytes": None, "path": str(source)}},
                 {"source": None, "source_img": Image.open(io.BytesIO(raw))}):
        close(f"verl-omni, {list(info)}", ask(info), want / 10, 2e-7)
    close("verl-omni's instruction", ask({"source": raw, "instruction": text}, ground_truth="another"), want / 10, 2e-7)
    close("verl-omni on the scorer's range", ask({"source": raw}, score01=False), want, 2e-6)
    close("verl-omni of five", ask({"source": raw}, scorer="five"), want / 10, 2e-7)
    fails(ValueError, "source_img", lambda: ask({}))
    for info, kwargs in (({}, {}), ({"source": b"no picture"}, {}), ({"source": raw}, {"scorer": "absent"})):
        got = ask(info, on_error="nan", **kwargs)
        if got == got:
            sys.exit(f"verl-omni, {info.keys()}, {kwargs}: {got}, want NaN")
    got = asyncio.run(verl_omni.compute_score([1], text, {"source": raw}, server_url=url, on_error="nan"))["score"]
    if got == got:
        sys.exit(f"verl-omni, not an image: {got}, want NaN")
    fails(ValueError, "not 2", lambda: asyncio.run(verl_omni.compute_score(torch.stack([image, image]), text, {"source": raw}, server_url=url)))
    fails(ValueError, "on_error='mean'", lambda: ask({"source": raw}, on_error="mean"))
    fails(Exception, "2 sources", lambda: ask({"source": [raw, raw]}))
    fails(Exception, "no range", lambda: ask({"source": raw}, scorer="open"))


def check_inprocess(url, source, edit, text):
    """The rewards of DanceGRPO and MixGRPO: numbers, and a process that exits if an edit cannot be judged."""
    from assay_reward.inprocess import HPSv3RewardInferencer, UnifiedRewardModel
    want = Client(url).score(source, text, [edit, source])
    told = json.dumps({"instruction": text, "source": str(source)})
    os.environ.update(ASSAY_SERVER=url, ASSAY_ON_ERROR="raise")
    for g, w in zip(HPSv3RewardInferencer(device="cpu").reward([str(edit), str(source)], [told] * 2).tolist(), want, strict=True):
        close("hpsv3's stand-in", g, w, 2e-6)
    scores, good = UnifiedRewardModel(api_url=url)([Image.open(edit), Image.open(source)], [told] * 2)
    if good != [True, True] or not all(abs(g - w) <= 2e-6 for g, w in zip(scores, want)):
        sys.exit(f"MixGRPO's stand-in: {scores}, {good}, want {want}")
    bad = [str(edit), b"no picture"]
    fails(SystemExit, "could not be judged", lambda: UnifiedRewardModel(url)(bad, [told] * 2))
    fails(SystemExit, "no rewards", lambda: UnifiedRewardModel(url)([str(edit)], [text]))
    fails(SystemExit, "2 images, 1 prompts", lambda: UnifiedRewardModel(url)(bad, [told]))
    for name, value in (("nan", float("nan")), ("mean", want[0])):
        os.environ["ASSAY_ON_ERROR"] = name
        (first, second), good = UnifiedRewardModel(url)(bad, [told] * 2)
        if abs(first - want[0]) > 2e-6 or (second != second) != (value != value) or value == value and abs(second - value) > 2e-6 or good != [True, True]:
            sys.exit(f"MixGRPO's stand-in, {name}: {first}, {second}, {good}")
    os.environ["ASSAY_ON_ERROR"] = "zero"
    fails(ValueError, "on_error='zero'", lambda: UnifiedRewardModel(url))
    os.environ["ASSAY_ON_ERROR"] = "raise"


def check_child(source, edit, text):
    """The child that UniRL starts: on a socket of its parent, resident or offloaded at the start, and stopped by SIGTERM."""
    import signal
    import subprocess

    import assay_reward
    root = os.path.join(assay_reward.__path__[0], "unirl_service")
    for flags, state in (((), "resident"), (("--boot-offloaded",), "offloaded")):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(16)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            params = json.dumps({"path": str(TINY), "device": "cpu", "score": str(SCORE), "args": ["--threads", 1]})
            child = subprocess.Popen([sys.executable, "-S", "-m", "reward_service.direct_server", "--fd", str(listener.fileno()), "--scorer", "ten", "--history-kind", "image_edit",
                                      "--params-json", params, *flags], pass_fds=[listener.fileno()], stdout=subprocess.DEVNULL,
                                     env={**os.environ, "PYTHONPATH": root, "UNIRL_REWARD_PARENT_PID": str(os.getpid()), "ASSAY_TOKEN": "not for UniRL"})
        client = Client(url, token="", timeout=10)
        for _ in range(600):
            health = client._http.request("/health")
            if health["state"] == state:
                break
            time.sleep(0.1)
        else:
            sys.exit(f"UniRL's child, {flags}: {health}")
        if not health["scorer"]["supports_offload"] or health["rewards"] != {"ten": [True]}:
            sys.exit(f"UniRL's child: {health}")
        client._http.request("/lifecycle/onload", b"")
        if not client.score(source, text, [edit]):
            sys.exit("UniRL's child has no score")
        child.send_signal(signal.SIGTERM)
        if child.wait(30):
            sys.exit(f"UniRL's child exited with {child.returncode}")
    wrong = subprocess.run([sys.executable, "-m", "reward_service.direct_server", "--fd", "0", "--scorer", "ten", "--params-json", '{"model": 1}'],
                           env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True)
    if not wrong.returncode or "path (a scorer's directory)" not in wrong.stderr:
        sys.exit(f"UniRL's child without a path: {wrong}")


def check(work):
    source, edit, text = pairs()[2]
    check_child(source, edit, text)
    with served(*scorers(work)) as url:
        client = Client(url)
        check_ranges(work, url, source, edit, text)
        b = Bridge(client)
        check_parts(b, client, source, edit, text)
        b.server.shutdown()
        check_failures(client, source, edit, text)
        check_paths(work, client, source, edit, text)
        check_verl_omni(url, source, edit, text)
        check_inprocess(url, source, edit, text)
        check_door(client)
    return "six wire formats, four ranges, one scorer without a range; three ways to handle failures; two in-process trainers, UniRL's child"
