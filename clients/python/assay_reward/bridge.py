"""A bridge for trainers that speak pickle over HTTP: Flow-GRPO, verl-omni, Edit-R1 and EditScore's (OmniGen2-RL).

    python -m assay_reward.bridge --server http://127.0.0.1:8100 --port 12341

Each POST is a pickled dict with `images` (picture files, the edits), `prompts` (instructions) and the sources. These
are in `ref_images`, in `metadata["ref_images"]`, as `ref_image` in each entry of `metadatas`, or in prompts that are
JSON objects {"instruction": .., "source": <path or base64>}. EditScore's dict has `input_images` (for each edit a
list with one PIL image, the source), `output_image` (PIL images) and `meta_datas` (JSON with `instruction`). The
answer is a pickled dict:

    path or field   trainer                                     answer
    /mode/...       Edit-R1 (logits_non_cot)                    {"scores": [0..1]}
    /flow_grpo      Flow-GRPO (deqa, unifiedreward)             {"outputs": [..]}
    output_image    EditScore's RewardClient                    {"scores": [0 or 1], "rewards": [0..1], ..}
    any other       verl-omni and its scorer services           {"scores": [..]}

Edit-R1 cuts more than 64 images into parts, and sends with each part the prompts of all images, but not which part it
is. The bridge answers if the part's size, or prompts that repeat, leave one possibility. Else it refuses the request,
since the prompts would be guesses: call the reward with at most 64 images at a time (see docs/reward.md).

Unpickling runs code in general. Here only plain containers, numbers, text, bytes, NumPy arrays and PIL images are
allowed. Still, the bridge listens on the loopback interface, and belongs on the trainer's machine. Failures are
{"error": ..}, never numbers. Their status is 400 if the request is to blame, which no client sends again, and 500 if
the server is to blame, which all clients send again.
"""

import argparse
import base64
import io
import json
import pickle
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .client import Client, ServerError
from .pictures import png

_ALLOWED = (
    {
        ("builtins", n)
        for n in (
            "dict",
            "list",
            "tuple",
            "set",
            "frozenset",
            "str",
            "bytes",
            "bytearray",
            "int",
            "float",
            "bool",
            "complex",
        )
    }
    | {("collections", "OrderedDict"), ("_codecs", "encode")}
    | {(m + ".multiarray", n) for m in ("numpy.core", "numpy._core") for n in ("_reconstruct", "scalar")}
    | {("numpy", "ndarray"), ("numpy", "dtype")}
    | {("numpy._core.numeric", "_frombuffer"), ("numpy.core.numeric", "_frombuffer")}
)


class _Picture:
    """A pickled PIL image: what it was made of, and nothing that runs."""

    def __setstate__(self, state):
        self.mode, self.size, self.palette, self.data = state[1:5]

    def file(self):
        if self.mode == "RGB" and len(self.data) == 3 * self.size[0] * self.size[1]:
            return png(self.data, *self.size)
        from PIL import Image

        im = Image.frombytes(self.mode, tuple(self.size), bytes(self.data))
        if self.palette:
            im.putpalette(self.palette)
        im = im.convert("RGB")
        return png(im.tobytes(), *im.size)


class _Plain(pickle.Unpickler):
    def find_class(self, module, name):
        if module.startswith("PIL.") and name in ("Image", "PngImageFile", "JpegImageFile", "WebPImageFile"):
            return _Picture
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not let in")
        return super().find_class(module, name)


def loads(raw):
    """pickle.loads of plain data and NumPy arrays only."""
    return _Plain(io.BytesIO(raw)).load()


def pairs(payload):
    """(source, instruction, edit) of each picture of a request."""
    if "output_image" in payload:
        return _editscore(payload)
    images = [bytes(i) for i in payload["images"]]
    prompts = [str(p) for p in payload.get("prompts", [])]
    metadata = payload.get("metadata")
    rows = payload.get("metadatas", payload.get("meta_datas"))
    rows = [] if rows is None else list(rows)
    sources = payload.get("ref_images")
    if sources is None and isinstance(metadata, dict):
        sources = metadata.get("ref_images")
    if sources is None and rows and all(isinstance(r, dict) and "ref_image" in r for r in rows):
        sources = [r["ref_image"] for r in rows]
    if sources is None:
        parsed = [json.loads(p) if p.lstrip().startswith("{") else {} for p in prompts]
        if not parsed or any("source" not in p for p in parsed):
            raise ValueError(
                "no sources: ref_images, metadata['ref_images'], metadatas[i]['ref_image'], "
                "or prompts as JSON with a source are wanted"
            )
        sources, prompts = [_picture(p["source"]) for p in parsed], [p["instruction"] for p in parsed]
    sources = list(sources)
    if len(images) == len(sources) < len(prompts):
        prompts = _part(prompts, len(images))
    if not len(images) == len(prompts) == len(sources):
        raise ValueError(f"{len(images)} images, {len(prompts)} prompts, {len(sources)} sources")
    return list(zip(sources, prompts, images))


def _part(prompts, n, most=64):
    """The prompts of a part of n images. Edit-R1 cuts by numpy.array_split into parts of at most 64, and sends all
    prompts with each. If the parts of this size have different prompts, it cannot be told which one is meant."""
    count = -(-len(prompts) // most)
    sizes = [len(prompts) // count + (i < len(prompts) % count) for i in range(count)]
    parts = {tuple(prompts[sum(sizes[:i]) : sum(sizes[: i + 1])]) for i, size in enumerate(sizes) if size == n}
    if len(parts) != 1:
        raise ValueError(
            f"{len(prompts)} prompts came with {n} images, and not which of them are meant: "
            f"call the reward with at most {most} images at a time, or send the prompts of the part alone"
        )
    return list(parts.pop())


def _editscore(payload):
    """EditScore's wire: PIL images, one source for each edit."""
    edits, sources = payload["output_image"], payload["input_images"]
    rows = payload["meta_datas"] if "meta_datas" in payload else payload["meta_data"]
    rows = [json.loads(r) if isinstance(r, str) else r for r in rows]
    if not len(edits) == len(sources) == len(rows):
        raise ValueError(f"{len(edits)} output images, {len(sources)} lists of input images, {len(rows)} meta data")
    out, files = [], {}

    def file(picture):
        if id(picture) not in files:
            files[id(picture)] = picture.file() if isinstance(picture, _Picture) else bytes(picture)
        return files[id(picture)]

    for i, (source, row, edit) in enumerate(zip(sources, rows, edits)):
        source = source if isinstance(source, (list, tuple)) else [source]
        if len(source) != 1:
            raise ValueError(f"edit {i} has {len(source)} input images: a scorer looks at one")
        if not isinstance(row, dict) or not isinstance(row.get("instruction"), str):
            raise ValueError(f"meta data {i} has no instruction")
        out.append((file(source[0]), row["instruction"], file(edit)))
    return out


def _picture(text):
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        with open(text, "rb") as f:
            return f.read()


def score(client, payload, unit=False, most=128):
    """Scores of a request, in order, at most so many edits of one source at a time; `unit`: divided by 10."""
    groups, out = {}, {}
    for i, (source, instruction, edit) in enumerate(pairs(payload)):
        groups.setdefault((bytes(source), instruction), []).append((i, edit))
    for (source, instruction), all in groups.items():
        for first in range(0, len(all), most):
            edits = all[first : first + most]
            for (i, _), s in zip(edits, client.score(source, instruction, [e for _, e in edits])):
                out[i] = s / 10 if unit else s
    return [out[i] for i in range(len(out))]


def answer(client, path, payload):
    """What a trainer gets."""
    if not isinstance(payload, dict):
        raise ValueError(f"a dict is wanted, not {type(payload).__name__}")
    if "output_image" not in payload:
        edit_r1, flow = path.startswith("/mode/"), path.rstrip("/") == "/flow_grpo"
        return {"outputs" if flow else "scores": score(client, payload, unit=edit_r1)}
    rewards = score(client, payload, unit=True)
    rows = payload["meta_datas"] if "meta_datas" in payload else payload["meta_data"]
    rows = [json.loads(r) if isinstance(r, str) else r for r in rows]
    scores = [1.0 if r >= 0.5 else 0.0 for r in rewards]  # as EditScore's own server has it
    if "meta_datas" not in payload:  # its proxy asks its workers with another name, and wants a list
        return [
            {"score": s, "reward": r, "strict_reward": r, "reasoning": "", "meta_data": m}
            for s, r, m in zip(scores, rewards, rows)
        ]
    return {
        "scores": scores,
        "rewards": rewards,
        "strict_rewards": rewards,
        "reasoning": [""] * len(rewards),
        "meta_data": rows,
        "group_rewards": {},
        "group_strict_rewards": {},
    }


def serve(client, host="127.0.0.1", port=12341):
    """The bridge as an HTTP server; serve_forever() runs it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.reply(
                200 if self.path == "/ping" else 404,
                {"ping": "pong"} if self.path == "/ping" else {"error": f"{self.path} is not served"},
            )

        def do_POST(self):
            try:
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    self.reply(200, answer(client, self.path, loads(raw)))
                except (ServerError, OSError) as e:
                    self.reply(
                        500 if getattr(e, "status", 0) in (0, 429) or getattr(e, "status", 0) >= 500 else 400,
                        {"error": f"{type(e).__name__}: {e}"},
                    )
            except Exception as e:  # whatever it was, the trainer must see an error and no number
                self.reply(400, {"error": f"{type(e).__name__}: {e}"})

        def reply(self, status, what):
            body = pickle.dumps(what)
            self.send_response(status)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    return ThreadingHTTPServer((host, port), Handler)


def main():
    p = argparse.ArgumentParser(description="Speak pickle to a trainer and HTTP to score serve.")
    p.add_argument("--server", default="http://127.0.0.1:8100", help="score serve")
    p.add_argument("--scorer", help="name of the scorer (default: the first one)")
    p.add_argument("--host", default="127.0.0.1", help="leave it: pickle does not belong on open networks")
    p.add_argument("--port", type=int, default=12341)
    a = p.parse_args()
    with serve(Client(a.server, scorer=a.scorer), a.host, a.port) as server:
        print(f"bridge to {a.server} on {a.host}:{a.port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
