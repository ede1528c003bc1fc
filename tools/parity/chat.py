"""score judge against a third-party server, `transformers serve`, compared with OpenAI's own Python client: the same questions
about the same pictures give the same texts and token counts, and so does the checkpoint on this machine."""
import base64
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODELS = (ROOT / "backbones/tiny", ROOT / "testdata/oracle/qwen2_5_vl/backbone")  # a trained one; random weights, with varied answers
QUESTION = "{}"
TEXTS = ["What does the second picture show?", "The first picture shows", "Was the picture made red?", "Can you rate the edit from 0 to 10?",
         "Describe both pictures in one sentence.", "a a a a", "turn the cup blue", "no no yes"]

# transformers serve needs torchvision, whose resizing differs from Pillow's in some pixels; pictures are prepared with Pillow, like in training.
SERVE = """
from transformers import AutoImageProcessor
from transformers.cli.transformers import main
plain = AutoImageProcessor.from_pretrained.__func__
AutoImageProcessor.from_pretrained = classmethod(lambda cls, *a, **k: plain(cls, *a, **{**k, "backend": "pil"}))
main()
"""

CLIENT = """
import json, sys
from openai import OpenAI
url, model, questions = json.load(sys.stdin)
client = OpenAI(base_url=url, api_key="none")
said = []
for content in questions:
    r = client.chat.completions.create(model=model, messages=[{"role": "user", "content": content}], temperature=0, max_tokens=12)
    said.append([r.choices[0].message.content, r.choices[0].finish_reason, r.usage.prompt_tokens, r.usage.completion_tokens, r.model])
print(json.dumps(said))
"""


@contextlib.contextmanager
def serving(model, log):
    """transformers serve on a free port, with one thread; yields the base URL."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    args = ["-c", SERVE, "serve", str(model), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    with open(log, "w") as out:
        p = subprocess.Popen([ROOT / "build/serving/bin/python", *args], env=env, stdout=out, stderr=out)
    try:
        for _ in range(600):
            if p.poll() is not None:
                sys.exit(f"transformers serve exited with {p.returncode}: see {log}")
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                break
            except OSError:
                time.sleep(0.5)
        else:
            sys.exit(f"transformers serve does not answer: see {log}")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        p.send_signal(signal.SIGINT)
        try:
            p.wait(20)
        except subprocess.TimeoutExpired:
            p.kill()


def run(work, score, pairs):
    subprocess.run([ROOT / "tools/setup/serving.sh"], check=True)
    return "; ".join(beside_client(work / str(i), model, score, pairs) for i, model in enumerate(MODELS))


def beside_client(work, model, score, pairs):
    """Asks one model the same questions twice, with score judge and with OpenAI's client."""
    judge = work / "judge"
    judge.mkdir(parents=True, exist_ok=True)
    (judge / "question.jinja").write_text(QUESTION.format("{{ instruction }}"))
    (judge / "judge.yaml").write_text(json.dumps({
        "format": 1, "kind": "text", "name": "parity", "rule": "none", "score": {"by": "mean", "of": ["x"]}, "score_range": [0, 10],
        "questions": [{"name": "q", "pictures": ["source", "edit"], "prompt": "question.jinja", "answer": {"value": {"number": "x", "range": [0, 10]}}}],
        "options": {"max_new_tokens": 12, "temperature": 0}}))
    rows = [{"source": str(s), "edit": str(e), "instruction": TEXTS[i % len(TEXTS)]} for i, (s, e, _) in enumerate(pairs * 2)
            if "alpha" not in f"{s}{e}"]
    (work / "in.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    with serving(model, work / "serve.log") as url:
        def content(row):
            pictures = [base64.b64encode(Path(row[k]).read_bytes()).decode() for k in ("source", "edit")]
            return [*({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{p}"}} for p in pictures),
                    {"type": "text", "text": QUESTION.format(row["instruction"])}]

        done = subprocess.run([ROOT / "build/serving/bin/python", "-c", CLIENT], text=True, capture_output=True,
                              input=json.dumps([url, str(model), [content(r) for r in rows]]))
        if done.returncode:
            sys.exit(done.stderr)
        want = json.loads(done.stdout)
        (work / "server.yaml").write_text(json.dumps({"url": url, "model": str(model), "answers_as": [want[0][4]], "concurrency": 2}))
        command = [score, "judge", "--config", judge, "--server", work / "server.yaml", "--store", work / "answers", "--in", work / "in.jsonl",
                   "--out", work / "out.jsonl", "--json"]
        for repeat in range(2):
            done = subprocess.run(command, text=True, capture_output=True)
            if done.returncode not in (0, 1):  # 1: a tiny model does not answer with numbers
                sys.exit(done.stdout + done.stderr)
            said = json.loads(done.stdout)
            if said["asked"]["spent"]["requests"] != (0 if repeat else len({json.dumps(r) for r in rows})):
                sys.exit(f"run {repeat}: {said}")
    for row, (text, finish, prompt, completion, _) in zip(map(json.loads, open(work / "out.jsonl")), want, strict=True):
        a = row["answers"][0]
        if [a["text"], a["finish"], a["prompt_tokens"], a["completion_tokens"]] != [text, finish, prompt, completion]:
            sys.exit(f"{row['instruction']}: score judge {a}, OpenAI's client {text!r}, {finish}, {prompt} + {completion} tokens")
    command = [score, "judge", "--config", judge, "--backbone", model, "--store", work / "local", "--in", work / "in.jsonl", "--out", work / "local.jsonl", "--json"]
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode not in (0, 1):
        sys.exit(done.stdout + done.stderr)
    local = [json.loads(line)["answers"][0]["text"] for line in open(work / "local.jsonl")]
    for row, here, (there, *_) in zip(rows, local, want, strict=True):
        # the server parses Qwen's answers with a response template, which strips blanks and keeps special tokens
        if here.strip() != re.sub(r"<\|\w+\|>", "", there).strip():
            sys.exit(f"{row}: {here!r} on this machine, {there!r} from transformers serve")
    return f"{model.parent.name}/{model.name}: {len(rows)} answers of transformers serve equal to OpenAI's client and to --backbone, {len(set(local))} distinct"
