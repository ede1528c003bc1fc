"""A bridge for trainers that speak pickle over HTTP: Flow-GRPO, verl-omni and Edit-R1.

    python -m assay_reward.bridge --server http://127.0.0.1:8100 --port 12341

Each POST is a pickled dict with `images` (picture files, the edits), `prompts` (instructions) and, for the sources, one of
`ref_images`, `metadata["ref_images"]`, a `ref_image` in each entry of `metadatas`, or prompts that are JSON objects
{"instruction": .., "source": <path or base64>} for wires that carry nothing else. The answer is a pickled dict:

    path            trainer                                     answer
    /mode/...       Edit-R1 (logits_non_cot)                    {"scores": [0..1]}
    /flow_grpo      Flow-GRPO (deqa, unifiedreward)             {"outputs": [..]}
    any other       verl-omni and its scorer services           {"scores": [..]}

Unpickling runs code in general. Here only plain containers, numbers, text, bytes and NumPy arrays are let in; still, the
bridge listens on the loopback interface and belongs on the trainer's machine. Failures are answers of status 500 with
{"error": ..}, never numbers.
"""
import argparse
import base64
import io
import json
import pickle
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .client import Client

_ALLOWED = {
    ("builtins", n) for n in ("dict", "list", "tuple", "set", "frozenset", "str", "bytes", "bytearray", "int", "float", "bool", "complex")
} | {("collections", "OrderedDict"), ("_codecs", "encode")} | {
    (m + ".multiarray", n) for m in ("numpy.core", "numpy._core") for n in ("_reconstruct", "scalar")
} | {("numpy", "ndarray"), ("numpy", "dtype")} | {("numpy._core.numeric", "_frombuffer"), ("numpy.core.numeric", "_frombuffer")}


class _Plain(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not let in")
        return super().find_class(module, name)


def loads(raw):
    """pickle.loads of plain data and NumPy arrays only."""
    return _Plain(io.BytesIO(raw)).load()


def pairs(payload):
    """(source, instruction, edit) of each picture of a request."""
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
            raise ValueError("no sources: ref_images, metadata['ref_images'], metadatas[i]['ref_image'], or prompts as JSON with a source are wanted")
        sources, prompts = [_picture(p["source"]) for p in parsed], [p["instruction"] for p in parsed]
    sources = list(sources)
    if not len(images) == len(prompts) == len(sources):
        raise ValueError(f"{len(images)} images, {len(prompts)} prompts, {len(sources)} sources")
    return list(zip(sources, prompts, images))


def _picture(text):
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        with open(text, "rb") as f:
            return f.read()


def score(client, payload, unit=False):
    """Scores of a request, in order; `unit`: divided by 10."""
    groups, out = {}, {}
    for i, (source, instruction, edit) in enumerate(pairs(payload)):
        groups.setdefault((bytes(source), instruction), []).append((i, edit))
    for (source, instruction), edits in groups.items():
        for (i, _), s in zip(edits, client.score(source, instruction, [e for _, e in edits])):
            out[i] = s / 10 if unit else s
    return [out[i] for i in range(len(out))]


def serve(client, host="127.0.0.1", port=12341):
    """The bridge as an HTTP server; serve_forever() runs it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            try:
                payload = loads(self.rfile.read(int(self.headers["Content-Length"])))
                edit_r1, flow = self.path.startswith("/mode/"), self.path.rstrip("/") == "/flow_grpo"
                answer = {"outputs" if flow else "scores": score(client, payload, unit=edit_r1)}
                status = 200
            except Exception as e:  # whatever it was, the trainer must see an error and no number
                answer, status = {"error": f"{type(e).__name__}: {e}"}, 500
            body = pickle.dumps(answer)
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
