"""Generated texts on a GPU, compared with the fixtures and transformers."""
import concurrent.futures
import json
import signal
import subprocess
import sys
import time
import urllib.request

from common import BIN, FIXTURES, GPU, LOG, WORK, backbone, furthest, released, run, say

PEER = r"""
import json, sys, time
import torch
from transformers import AutoModelForImageTextToText, AutoTokenizer
folder, prompt, new = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="sdpa").to("cuda").eval()
tokenizer, out = AutoTokenizer.from_pretrained(folder), {"torch": torch.__version__}

def took(n, tokens):
    message = [{"role": "user", "content": [{"type": "text", "text": "0 0 0 " + " the" * prompt}]}]
    text = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    ids = tokenizer([text] * n, return_tensors="pt").to("cuda")
    torch.cuda.synchronize()
    begin = time.perf_counter()
    with torch.no_grad():
        model.generate(**ids, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)
    torch.cuda.synchronize()
    return time.perf_counter() - begin, ids["input_ids"].numel()

for round in range(3):
    for n in (1, 8):
        first, used = took(n, 1)
        whole, _ = took(n, 1 + new)
        if round:
            for name, rate in ((f"prefill_{n}", used / first), (f"decode_{n}", n * new / (whole - first))):
                out[name] = max(out.get(name, 0), rate)
out["memory"] = torch.cuda.max_memory_allocated() / 2**20
print(json.dumps(out))
"""


def chat_rows(family):
    """The greedy cases of a family's fixture, as rows of score chat, with the tokens from transformers."""
    folder = FIXTURES / "generation"
    f = json.loads((folder / f"{family}.json").read_text())
    rows, want = [], {}
    for c in f["cases"]:
        if c.get("generation_config"):
            continue
        pictures = iter(c["pictures"])
        messages = [{"role": m["role"], "content": [
            {"type": "image", "image": str((folder / next(pictures)).resolve())} if p["type"] == "image" else p for p in m["content"]]}
            for m in c["messages"]]
        rows.append({"id": c["name"], "messages": messages, "max_new_tokens": f["max_new_tokens"], "temperature": 0})
        want[c["name"]] = c["new_ids"]
    return folder / f["backbone"], rows, want


def answered(folder, rows, name, *flags):
    WORK.mkdir(parents=True, exist_ok=True)
    table, out = WORK / f"chat-{name}.jsonl", WORK / f"chat-{name}-out.jsonl"
    table.write_text("".join(json.dumps(r) + "\n" for r in rows))
    out.unlink(missing_ok=True)
    run(BIN / "score", "chat", "--backbone", folder, "--in", table, "--out", out, *flags, ok=(0, 1))
    return {r["id"]: r for r in map(json.loads, out.read_text().splitlines())}


def agreement(got, want):
    """Share of positions with equal tokens, and number of fully equal cases."""
    equal = places = whole = 0
    for name, ids in want.items():
        if "error" in got[name]:
            raise RuntimeError(f"{name}: {got[name]['error']}")
        mine = got[name]["token_ids"]
        same = sum(a == b for a, b in zip(mine, ids))
        equal, places, whole = equal + same, places + max(len(ids), len(mine)), whole + (mine == ids)
    return f"{equal / places:.1%} ({whole} of {len(want)} whole)"


def paced(folder, dtype, prompt, new):
    """Prompt and answer tokens per second of score serve, one and eight at a time; and memory seen by nvidia-smi."""
    port, out = 8141, {}
    p = subprocess.Popen([str(BIN / "score"), "serve", "--chat-backbone", f"m={folder}", "--device", GPU, "--dtype", dtype, "--addr",
                          f"127.0.0.1:{port}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(300):
            try:
                urllib.request.urlopen(url + "/readyz", timeout=1)
                break
            except OSError:
                if p.poll() is not None:
                    raise RuntimeError(f"score serve: {p.stdout.read()[-400:]}")
                time.sleep(0.1)

        def ask(words, most):
            body = {"model": "m", "messages": [{"role": "user", "content": words}], "max_tokens": most, "temperature": 0}
            q = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
            return json.load(urllib.request.urlopen(q, timeout=300))["usage"]

        def took(n, most, round):
            begin = time.perf_counter()
            with concurrent.futures.ThreadPoolExecutor(n) as pool:  # questions differ from the first word
                used = list(pool.map(lambda i: ask(f"{i} {round} {most} " + " the" * prompt, most), range(n)))
            return time.perf_counter() - begin, sum(u["prompt_tokens"] for u in used), sum(u["completion_tokens"] for u in used)

        for round in range(3):
            for n in (1, 8):
                first, prompts, _ = took(n, 1, round)
                whole, _, made = took(n, 1 + new, round)
                if round:
                    for name, rate in ((f"prefill_{n}", prompts / first), (f"decode_{n}", (made - n) / (whole - first))):
                        out[name] = max(out.get(name, 0), rate)
        out["memory"] = int(subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                                           capture_output=True, text=True).stdout.split()[0])
    finally:
        p.send_signal(signal.SIGTERM)
        LOG.write(p.communicate(timeout=60)[0][-3000:])
    return out


def generation():
    begin = time.time()
    say("\n## Answers: greedy tokens of the fixtures\n\n| family | CPU | GPU, float32 | largest change of a log-probability | GPU, bfloat16 |\n|---|---|---|---|---|")
    for family in "llavanext", "qwen2_vl", "qwen2_5_vl", "qwen3_vl":
        try:
            folder, rows, want = chat_rows(family)
            cpu = answered(folder, rows, f"{family}-cpu", "--device", "cpu")
            gpu = answered(folder, rows, f"{family}-f32", "--device", GPU, "--dtype", "float32", "--cache", str(1 << 30))
            half = answered(folder, rows, f"{family}-bf16", "--device", GPU, "--dtype", "bfloat16", "--cache", str(1 << 30))
            far = furthest(a - b for n in want for a, b in zip(cpu[n]["token_logprobs"], gpu[n]["token_logprobs"]))
            say(f"| {family} | {agreement(cpu, want)} | {agreement(gpu, want)} | {far:.1e} | {agreement(half, want)} |")
        except Exception as e:
            say(f"| {family} | FAILED: {str(e)[-300:]} |")
    try:
        packed = released("quantized")
        _, rows, _ = chat_rows("qwen2_5_vl")
        for kind in "awq", "gptq_act_order":
            cpu = answered(packed / kind / "backbone", rows, f"{kind}-cpu", "--device", "cpu")
            want = {n: r["token_ids"] for n, r in cpu.items() if "error" not in r}
            for dtype in "float32", "bfloat16":
                gpu = answered(packed / kind / "backbone", rows, f"{kind}-{dtype}", "--device", GPU, "--dtype", dtype, "--cache", str(1 << 30))
                say(f"{kind}, 4 bits, {dtype}: {agreement({n: gpu[n] for n in want}, want)} of the CPU's tokens, {len(want)} of {len(rows)} rows.")
    except Exception as e:
        say(f"4 bits: FAILED: {str(e)[-300:]}")
    tight = run(BIN / "score", "chat", "--backbone", FIXTURES / "qwen2_5_vl/backbone", "--text", "a", "--device", GPU, "--cache", str(1 << 50), ok=(1, 2))
    say(f"A cache of 1 PiB: exit code {tight.returncode}: {tight.stderr.strip()[-200:]}")

    say("\n## Answers: tokens a second, 1.1 B, a prompt of about 1,000 tokens and 128 new ones\n\n| | prompt, 1 | prompts, 8 | answer, 1 | answers, 8 | MB on the GPU |\n|---|---|---|---|---|---|")
    one, prompt, new = backbone("one", hidden=2048, intermediate=5632, layers=24, heads=16, kv_heads=8), 1000, 128
    row = lambda name, r: say(f"| {name} | " + " | ".join(f"{r[k]:.0f}" for k in ("prefill_1", "prefill_8", "decode_1", "decode_8", "memory")) + " |")
    for dtype in "bfloat16", "float32":
        try:
            row(f"ours, {dtype}", paced(one, dtype, prompt, new))
        except Exception as e:
            say(f"| ours, {dtype} | FAILED: {str(e)[-300:]} |")
    try:
        peer = json.loads(run(sys.executable, "-c", PEER, one, prompt, new).stdout.splitlines()[-1])
        row(f"transformers, bfloat16, sdpa, torch {peer['torch']}", peer)
    except Exception as e:
        say(f"| transformers | FAILED: {str(e)[-300:]} |")
    four = WORK / "one-four"
    if four.exists() or time.time() - begin < 110:
        try:
            four.exists() or run(BIN / "train", "quantize", "--backbone", one, "--out", four, "--bits", "4", "--block", "128")
            row("ours, 4 bits, bfloat16", paced(four, "bfloat16", prompt, new))
        except Exception as e:
            say(f"| ours, 4 bits | FAILED: {str(e)[-300:]} |")
