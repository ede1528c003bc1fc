"""The client in one process: kinds of pictures, errors, and reward() in PyTorch compared with finite differences."""
import io
import logging
import os
import pickle
import subprocess
import sys
import threading
import time

import numpy
import torch
from PIL import Image
from shared import ROOT, SCORE, SCORER, close, pairs, run, served

from assay_reward import Client, ItemError, ServerError, encode, reward


def fails(kind, text, call):
    """Fails unless the call raises kind with text in its message."""
    try:
        got = call()
    except kind as e:
        if text not in str(e):
            sys.exit(f"{kind.__name__}: {e}, want {text!r} in it")
        return
    sys.exit(f"got {got}, want a {kind.__name__} with {text!r}")


def check_scores(client, url, source, edit, instruction):
    """All kinds of pictures, and the refusals. Returns the score and the edit as an array."""
    ours = run(SCORE, "pair", "--scorer", SCORER, "--source", source, "--edit", edit, "--instruction", instruction, "--json")["score"]
    im = Image.open(edit).convert("RGB")
    array = numpy.asarray(im)
    parquet = {"bytes": edit.read_bytes(), "path": "not there"}, {"bytes": None, "path": str(edit)}
    for picture in (edit, str(edit), edit.read_bytes(), im, array, torch.from_numpy(array.copy()), *parquet):
        close(f"score of a {type(picture).__name__}", client.score(source, instruction, [picture])[0], ours, 2e-6)
    close("score of a source in a dict", client.score({"path": source}, instruction, [edit])[0], ours, 2e-6)
    plain = subprocess.run([sys.executable, "-S", ROOT / "examples/reward/plain.py", url, source, instruction, edit, source], capture_output=True, text=True)
    if plain.returncode:
        sys.exit(plain.stderr)
    for got, want in zip(plain.stdout.split(), client.score(source, instruction, [edit, source]), strict=True):
        close("plain.py", float(got), want, 0)
    close("score01", client.score(source, instruction, [edit], score01=True)[0], ours / 10, 2e-7)
    close("an edit of an array of edits", client.score(source, instruction, numpy.stack([array, array]))[1], ours, 2e-6)
    jpeg = Client(url, jpeg=95)
    if not encode(array, 95).startswith(b"\xff\xd8") or encode(im.convert("RGBA"), 95).startswith(b"\xff\xd8"):
        sys.exit("JPEG must be used for opaque images, and only for them")
    close("score as JPEG", jpeg.score(source, instruction, [array])[0], client.score(source, instruction, [encode(array, 95)])[0], 0)
    fails(ItemError, "edit 1: ", lambda: client.score(source, instruction, [edit, b"no picture"]))
    fails(ServerError, "instruction is missing", lambda: client.score(source, "", [edit]))
    fails(ServerError, 'no scorer "x"', lambda: Client(url, scorer="x").score(source, instruction, [edit]))
    for one in ("b.png", edit.read_bytes(), edit, im, array):
        fails(TypeError, "want a list of pictures", lambda one=one: client.score(source, instruction, one))
    fails(TypeError, '"bytes" or "path"', lambda: client.score({}, instruction, [edit]))
    fails(ServerError, "9: ", lambda: Client("http://127.0.0.1:9").health())
    fails(ValueError, "a URL", lambda: Client("127.0.0.1:8100"))
    for quality in (0, 101, -5, True, 90.0, "90"):
        fails(ValueError, "want a quality of 1 to 100", lambda quality=quality: Client(url, jpeg=quality))
    fails(TypeError, "a picture is a path", lambda: client.score(source, instruction, [io.BytesIO(edit.read_bytes())]))
    fails(TypeError, "want a list of pictures", lambda: client.score(source, instruction, io.BytesIO(edit.read_bytes())))
    return ours, array


def check_gradients(client, source, instruction, ours, array):
    """The gradient compared with finite differences; the same for several images at once as for one."""
    x = (torch.from_numpy(array.copy()).permute(2, 0, 1).float() / 255).requires_grad_()
    score = reward(client, x, source, instruction)
    close("differentiable score", score.item(), ours, 1e-5)
    (10 - score).backward()
    step = torch.sign(-x.grad) * 4 / 255  # four levels uphill and downhill: images have 8 bits, so smaller steps would not work
    up, down = (reward(client, (x + s * step).detach().clamp(0, 1), source, instruction).item() for s in (1, -1))
    moved = ((x + step).clamp(0, 1) - (x - step).clamp(0, 1)).detach()
    predicted = (-x.grad * moved).sum().item()
    if not 0.7 < (up - down) / predicted < 1.3:
        sys.exit(f"four levels along the gradient change the score by {up - down:.4f}; {predicted:.4f} was predicted")
    several = torch.stack([x.detach(), 1 - x.detach()]).bfloat16().requires_grad_()
    scores = reward(client, several, source, [instruction, "make it brighter"])
    (scores * torch.tensor([1.0, 2.0])).sum().backward()
    for i, text in enumerate((instruction, "make it brighter")):
        one = client.gradient(source, text, (several[i].detach().float() * 255).round().byte().permute(1, 2, 0).contiguous())
        level = torch.frombuffer(one.values, dtype=torch.float32).reshape(one.shape).permute(2, 0, 1)
        if scores.dtype != torch.float32 or scores[i].item() != torch.tensor(one.score).item() or not torch.equal(several.grad[i], (level * (255 * (i + 1))).bfloat16()):
            sys.exit(f"image {i} of two: score and gradient differ from those of the image alone")
    return f"along the gradient {up - down:+.4f}, predicted {predicted:+.4f}"


def check_range(client, source, instruction, x):
    """Images of another scale and second derivatives are refused; small overshoot is not."""
    bright = 0.45 + 0.55 * x
    bright[:, :2, :2] = 0  # a light image with some black
    other = {"-1..1": 2 * x - 1, "0..2": 2 * x, "-1..0": x - 1, "0..255": 255 * x, "normalised": (x - 0.45) / 0.225,
             "a light picture in -1..1": 2 * bright - 1, "a twentieth at -1": torch.where(torch.rand(x.shape) < 0.05, -1.0, x)}
    for what, image in other.items():
        fails(ValueError, "scale it to 0..1", lambda image=image, what=what: reward(client, image, source, instruction))
        fails(ValueError, "source: pixels from", lambda image=image, what=what: reward(client, x, image, instruction))
    fails(ValueError, "image 1: pixels from", lambda: reward(client, torch.stack([x, 2 * x - 1]), source, instruction))
    for bad in (float("nan"), float("inf"), -float("inf")):
        holed = x.clone()
        holed[0, 0, 0] = bad
        fails(ValueError, "image 0: a pixel is NaN or infinite", lambda holed=holed: reward(client, holed, source, instruction))
    fails(TypeError, "torch.uint8", lambda: reward(client, (x * 255).byte(), source, instruction))
    plain = reward(client, x, source, instruction).item()
    ringing = x + torch.randn(x.shape, generator=torch.Generator().manual_seed(3)) * 0.03
    for what, image in {"rounding": x * 1.001 - 0.0005, "ringing": ringing, "overshoot": 1.15 * x - 0.075}.items():
        if not image.min() < 0 or not image.max() > 1:
            sys.exit(f"{what} has no values outside 0..1")
        close(f"{what} is clamped", reward(client, image, source, instruction).item(), reward(client, image.clamp(0, 1), source, instruction).item(), 0)

    y = x.clone().requires_grad_()
    other = torch.tensor(2.0, requires_grad=True)
    for factor in (1.0, other):  # torch's own once_differentiable does not catch the first one
        g, = torch.autograd.grad(reward(client, y, source, instruction) * factor, y, create_graph=True)
        fails(RuntimeError, "no second derivatives", lambda g=g: (g.norm() + other * y.sum()).backward())
    check_second(client, source, instruction, x)
    return plain


def check_second(client, source, instruction, x):
    """Every way to a second derivative raises; first derivatives stay the same, also if images changed afterwards."""
    w = torch.tensor(0.9, requires_grad=True)
    made = w * x
    first, = torch.autograd.grad(reward(client, made, source, instruction), w, retain_graph=True)
    g, = torch.autograd.grad(reward(client, made, source, instruction), made, create_graph=True)
    loss = g.norm() + w ** 2
    score = lambda z: reward(client, z, source, instruction)  # noqa: E731
    small = x[:, :8, :8].contiguous()
    for what, ask in {"grad by w": lambda: torch.autograd.grad(loss, w, retain_graph=True),
                      "grad by the images": lambda: torch.autograd.grad(g.norm(), made, retain_graph=True),
                      "backward to w": lambda: loss.backward(inputs=[w], retain_graph=True),
                      "hvp": lambda: torch.autograd.functional.hvp(score, small, small),
                      "hessian": lambda: torch.autograd.functional.hessian(score, small)}.items():
        fails(RuntimeError, "no second derivatives", ask)
        if w.grad is not None:
            sys.exit(f"{what} left a gradient")
    for kind in (torch.float32, torch.float64, torch.bfloat16):
        y = x.detach().clone().to(kind).requires_grad_()
        s = reward(client, y, source, instruction)
        want, = torch.autograd.grad(s, y, retain_graph=True)
        graphed, = torch.autograd.grad(s, y, create_graph=True)  # the graph is not used
        with torch.no_grad():
            y.clamp_(0.1, 0.9)
        s.backward()
        if not torch.equal(y.grad, want) or not torch.equal(graphed, want) or want.dtype != kind or not want.any():
            sys.exit(f"gradients of {kind} images differ with create_graph, or after the images changed")
    made = w * x
    again = torch.autograd.grad(reward(client, made, source, instruction), w)[0]
    if again.item() != first.item():
        sys.exit(f"gradient with respect to w: {again}, was {first} before")


def check_shapes(client, source, instruction, x):
    """Images of other shapes are refused; an empty batch has no scores."""
    for bad in (x[0], x[:1], x[None, None], x.permute(1, 2, 0)):
        fails(ValueError, "want [3, H, W] or [N, 3, H, W]", lambda bad=bad: reward(client, bad, source, instruction))
    fails(TypeError, "want a tensor [3, H, W] or [N, 3, H, W]", lambda: reward(client, [x], source, instruction))
    for wanted in (False, True):
        none = x[None][:0].clone().requires_grad_(wanted)
        scores = reward(client, none, source, instruction)
        if scores.shape != (0,) or scores.dtype != torch.float32 or scores.requires_grad != wanted:
            sys.exit(f"no images: {scores}, want float32 [0]")
        if wanted:
            scores.sum().backward()
            if none.grad.shape != none.shape:
                sys.exit(f"gradient of no images: {list(none.grad.shape)}")


def check_answers(source, instruction, edit):
    """Invalid scores and errors that are not objects are unreadable answers; the message of a refusal is passed on."""
    client, asked = Client("http://127.0.0.1:9", retries=1, pause=0.001), []
    client._most = 1 << 20, 9

    def told(status, raw):
        def exchange(path, body, headers):
            asked.append(path)
            return status, {}, raw.encode()
        client._http._exchange = exchange
        asked.clear()

    for item in ('{"score": NaN}', '{"score": Infinity}', '{"score": -Infinity}', '{"score": 1e999}', '{"score": true}', '{"score": "1"}', '{"score": null}',
                 '{"score": 1, "score01": NaN}', '{"error": "bad"}', '{"error": null}', '{"error": ["bad"]}', '{"error": {}}', "5", "[]"):
        for status in (200, 422):
            told(status, '{"scorer": "a", "results": [%s]}' % item)
            fails(ServerError, "unreadable answer", lambda: client.score(source, instruction, [edit], partial=True))
            if len(asked) != 2:
                sys.exit(f"{item}: {len(asked)} requests, want 2")
    told(200, '{"scorer": "a", "results": [{"score": 3}]}')
    close("a whole number", client.score(source, instruction, [edit])[0], 3, 0)
    told(502, '{"error": "no upstream"}')
    client._http.wait = 0.01
    fails(ServerError, "no upstream", lambda: client.score(source, instruction, [edit]))
    told(503, '{"results": [{"rewards": [{"name": "a", "score": 1}, {"name": "b", "error": {"message": "no model"}}]}]}')
    fails(ServerError, "no model", lambda: client.evaluate([(source, instruction, edit)], rewards=["a", "b"]))
    if len(asked) < 2:
        sys.exit("a judge that is away was not asked again")


def check_requests(client, source, instruction, x):
    """Many images are scored in one request, and the source is sent once."""
    client.score(source, instruction, [source])  # learns the limits
    sent, plain = [], client._http._exchange

    def exchange(path, body, headers):
        sent.append((path, len(body or b"")))
        return plain(path, body, headers)

    client._http._exchange = exchange
    batch = x.unsqueeze(0) * torch.linspace(0.5, 1, 32).reshape(-1, 1, 1, 1)
    begin = time.time()
    one = reward(client, batch, source, instruction)
    took = time.time() - begin
    texts, sources = [f"{instruction} {i % 3}" for i in range(32)], [source, x] * 16
    many = reward(client, batch, sources, texts)
    with torch.no_grad():
        reward(client, batch.requires_grad_(), source, instruction)
    if [p for p, _ in sent] != ["/v1/score"] * 3 or sent[0][1] > 32 * len(encode((x * 255).byte().permute(1, 2, 0).contiguous())) * 2:
        sys.exit(f"three calls of reward() without gradients sent {sent}")
    del client._http._exchange
    for i in (0, 17, 31):
        close("an image of many", one[i].item(), reward(client, batch[i].detach(), source, instruction).item(), 0)
        close("a pair of many", many[i].item(), reward(client, batch[i].detach(), sources[i], texts[i]).item(), 0)
    return took


def check_connections(client, source, instruction, edit):
    """Connections are reused, one per thread; forks and pickles open their own."""
    want = client.score(source, instruction, [edit])
    kept = client._http._connection().sock
    if client.score(source, instruction, [edit]) != want or client._http._connection().sock is not kept or kept is None:
        sys.exit("the connection was not reused")
    found = []

    def ask():
        for _ in range(3):
            found.append((client.score(source, instruction, [edit]), id(client._http._connection())))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    if len(found) != 24 or any(s != want for s, _ in found) or id(client._http._connection()) in {c for _, c in found}:
        sys.exit(f"eight threads got {found}, want {want} on separate connections")
    child = os.fork()
    if not child:
        os._exit(0 if client.score(source, instruction, [edit]) == want and client._http._connection().sock is not kept else 1)
    mine = client.score(source, instruction, [edit])  # at the same time as the child, over the connection that it inherited
    if os.waitpid(child, 0)[1] or mine != want:
        sys.exit("a forked process and its parent interfere with each other")
    if pickle.loads(pickle.dumps(client)).score(source, instruction, [edit]) != want:
        sys.exit("a pickled client gives a different score")


def check_without(edit):
    """Without Pillow arrays are encoded by our own PNG writer; without PyTorch the error names the missing package."""
    code = ("import sys; sys.modules['PIL'] = sys.modules['torch'] = None\n"
            "import assay_reward\n"
            "class Array: shape, dtype, tobytes = (5, 4, 3), 'x.uint8', lambda self: bytes(range(60))\n"
            "sys.stdout.buffer.write(assay_reward.encode(Array()))\n"
            "try: from assay_reward import reward\n"
            "except ImportError as e: print(e, file=sys.stderr)\n"
            "try: assay_reward.encode(Array(), 90)\n"
            "except ImportError as e: print(e, file=sys.stderr)\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT / "clients/python")})
    said = done.stderr.decode()
    if Image.open(io.BytesIO(done.stdout)).tobytes() != bytes(range(60)) or "pip install torch" not in said or "pip install pillow" not in said:
        sys.exit(f"without Pillow and PyTorch: {said}")


def check(work):
    logging.getLogger("assay_reward").addHandler(logging.NullHandler())
    source, edit, instruction = pairs()[2]
    with served("--scorer", SCORER) as url:
        client = Client(url)
        ours, array = check_scores(client, url, source, edit, instruction)
        said = check_gradients(client, source, instruction, ours, array)
        x = torch.from_numpy(array.copy()).permute(2, 0, 1).float() / 255
        x = (x - x.min()) / (x.max() - x.min())
        check_range(client, source, instruction, x)
        check_shapes(client, source, instruction, x)
        took = check_requests(client, source, instruction, x[:, :64, :64])
        check_connections(client, source, instruction, edit)
    check_answers(source, instruction, edit)
    check_without(edit)
    return f"score {ours:.6f}; {said}; two at once same as alone; 32 rewards of 64 pixels in one request ({took:.2f} s)"
