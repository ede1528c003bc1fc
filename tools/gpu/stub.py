"""Runs a program on a stub of CUDA: python3 tools/gpu/stub.py FOLDER COMMAND...

`make stub` puts ONNX Runtime's CUDA provider into FOLDER (build/stub), with libraries in place of CUDA's (stub.c) whose
kernels do nothing, and programs that do not compare fused operators with the CPU first. So sessions open, run, copy and
allocate as on a GPU, and all numbers are zeros or garbage. It prints what a GPU is not needed for: handles of cuBLAS and
cuDNN, device memory at its peak (without the driver's context and the handles' workspaces), and copies to the host. It
fails if memory was freed twice, or copied beyond its end or to the wrong side.

    python3 tools/gpu/stub.py build/stub build/stub/bin/train --config run.yaml    # device: cuda:0
    python3 tools/gpu/stub.py build/stub --check                                   # what `make stub` ends with
"""
import base64
import collections
import concurrent.futures
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

LIBRARIES = ["cublasLt.so.13", "cublas.so.13", "curand.so.10", "cudart.so.13", "cuda.so.1", "cudnn.so.9", "cufft.so.12", "nvinfer.so.10",
             "nvonnxparser.so.10"]
HERE = Path(__file__).resolve().parent


def build(to, *providers):
    """Compiles the stub libraries into a folder: every function that ONNX Runtime's providers or libassay_ops.so look up."""
    names = {"cudaMemset", "cuCtxSetCurrent", "cuFuncSetAttribute", "cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemsetD8Async",
             "cuStreamSynchronize"}
    for provider in providers:
        listed = subprocess.run(["nm", "-D", "--undefined-only", provider], check=True, capture_output=True, text=True).stdout
        names |= set(re.findall(r" U (\w+)@libcu", listed)) | set(re.findall(r" U (cu\w+|__cuda\w+|create\w+_INTERNAL|get\w+)\n", listed))
        names |= {n.decode() for n in re.findall(rb"\0(cudnn[A-Z]\w+)(?=\0)", Path(provider).read_bytes())}  # found by dlsym
    known = set(re.findall(r"^[\w* ]*?(\w+)\(", (HERE / "stub.c").read_text(), re.M))
    with tempfile.TemporaryDirectory() as tmp:
        source, versions = Path(tmp) / "names.c", Path(tmp) / "versions"
        source.write_text(f'#include "{HERE}/stub.c"\n' + "".join(f"long {n}(void) {{ return 0; }}\n" for n in sorted(names - known)))
        for library in LIBRARIES:
            versions.write_text(f"lib{library} {{ global: *; }};\n")
            subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-w", f"-Wl,-soname,lib{library}", f"-Wl,--version-script={versions}", source, "-o",
                            f"{to}/lib{library}"], check=True)


def environment(folder, log):
    return os.environ | {"LD_LIBRARY_PATH": str(folder / "lib"), "STUB_LOG": log, "ASSAY_OPS": str(folder / "lib/libassay_ops.so"),
                         "ASSAY_ONNXRUNTIME": str(next((folder / "lib").glob("libonnxruntime.so.*")))}


def counts(log):
    """What the stub saw, and the faults."""
    rows = [line.split() for line in Path(log).read_text().splitlines()]
    memory = [int(r[2]) for r in rows if r[0] in "MF"]
    waited = [int(r[1]) for r in rows if r[0] == "U"]
    uploads = collections.Counter(int(r[2]) for r in rows if r[:2] == ["C", "1"])
    return {"handles": sum(r == ["H", "cublas"] for r in rows), "memory": max(memory, default=0), "left": memory[-1] if memory else 0,
            "to_host": sum(r[:2] == ["C", "2"] for r in rows),
            # what steps upload themselves as well: features
            "ahead": sum(n > 1 << 20 and uploads[n] > waited.count(n) for n in waited)}, sorted({" ".join(r[1:]) for r in rows if r[0] == "E"})


def run(folder, *command, fails=None):
    """Runs a command; returns its output and what the stub saw. fails: text of the error with which it must fail."""
    with tempfile.NamedTemporaryFile() as log:
        p = subprocess.run([str(c) for c in command], env=environment(folder, log.name), capture_output=True, text=True)
        seen, faults = counts(log.name)
    if faults or bool(p.returncode) != bool(fails) or fails and fails not in p.stderr:
        sys.exit(f"{' '.join(map(str, command))}: exit code {p.returncode}, {faults}: {p.stderr[-800:]}")
    return p.stdout, seen


def serve(folder, scorer, rows):
    """A server under load: requests at once, asleep between two rounds, and stopped. Asleep it must hold no memory."""
    def picture(path):
        return base64.b64encode(Path(path).read_bytes()).decode()

    def ask(path, body):
        request = urllib.request.Request(f"http://{address}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()

    def round_of(i):
        pair = {"source": picture(rows[i % 4]["source"]), "instruction": "brighter " * (i % 8 + 1)}
        if i % 3 == 0:
            return ask("/v1/gradient", pair | {"edit": picture(rows[i % 4]["edit"]), "format": "npy"})
        return ask("/v1/score", pair | {"edits": [picture(r["edit"]) for r in rows[:i % 4 + 1]]})

    with tempfile.NamedTemporaryFile() as log, socket.create_server(("127.0.0.1", 0)) as listening:
        address = "{}:{}".format(*listening.getsockname())
        p = subprocess.Popen([folder / "bin/score", "serve", "--scorer", f"a={scorer}", "--scorer", f"b={scorer}", "--device", "cuda:0", "--addr",
                              f"fd:{listening.fileno()}"], env=environment(folder, log.name), pass_fds=[listening.fileno()],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            asleep = []
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for _ in range(2):
                    list(pool.map(round_of, range(16)))
                    ask("/v1/sleep", {})
                    asleep.append(counts(log.name)[0]["left"])
                    ask("/v1/wake", {})
            p.terminate()
            code = p.wait(60)
        finally:
            p.kill()
        seen, faults = counts(log.name)
    if code or faults or any(asleep) or seen["left"]:
        sys.exit(f"score serve: exit code {code}, {faults}; bytes on the device: {asleep} asleep, {seen['left']} at the end")
    return seen


def check(folder):
    """Trainings of a small model, scores, and a server."""
    images = HERE.parents[1] / "testdata/oracle/images"
    with tempfile.TemporaryDirectory() as tmp:
        tmp = Path(tmp)
        (tmp / "text.txt").write_text("Make it brighter. How well was it done? It is done.\n" * 50)
        rows = [{"id": str(i), "group": str(i), "source": f"{images}/{a}.png", "edit": f"{images}/{b}.png", "instruction": "Make it brighter.",
                 "label": i / 4} for i, (a, b) in enumerate((("chelsea", "chelsea_mirror"), ("coffee", "coffee_blur"), ("camera", "camera_flip"),
                                                              ("coins", "coins_alpha")))]
        (tmp / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        run(folder, folder / "bin/train", "init", "--family", "qwen2_5_vl", "--out", tmp / "backbone", "--text", tmp / "text.txt", "--hidden", 1024,
            "--intermediate", 2816, "--heads", 8, "--kv-heads", 4, "--layers", 8, "--mrope-section", "16,24,24", "--vision-hidden", 640,
            "--vision-heads", 8, "--min-pixels", 501760, "--max-pixels", 501760)
        (tmp / "talks.jsonl").write_text("".join(json.dumps({"id": r["id"], "messages": [
            {"role": "user", "content": [{"type": "image", "image": r["edit"]}, {"type": "text", "text": "How well was it done?"}]},
            {"role": "assistant", "content": "It is done."}]}) + "\n" for r in rows))
        run(folder, folder / "bin/train", "init", "--family", "llava_next", "--out", tmp / "llava", "--text", tmp / "text.txt", "--hidden", 256,
            "--heads", 4, "--kv-heads", 2, "--layers", 4, "--vision-hidden", 256, "--vision-heads", 4, "--vision-layers", 4)
        run(folder, folder / "bin/train", "quantize", "--backbone", tmp / "backbone", "--out", tmp / "four", "--bits", 4)
        asked = {"question": "How well was [INSTRUCTION] done?", "answer": "It is [SCORE].", "pair": "sequence"}
        lora, plain = {"lora": {"targets": ["q_proj", "v_proj"]}}, {"device_options": {"kernels": "plain"}}
        for name, more in {
            "run": asked | lora,
            "recomputed": asked | lora | {"recompute": "layers"},
            "linear": asked | {"lora": {"targets": [f"{part}_proj" for part in (*"qkvo", "gate", "up", "down")]}},
            "full": asked | {"mode": "full"},
            "packed": {"backbone": str(tmp / "four")} | asked | lora,
            "llava": {"backbone": str(tmp / "llava")} | asked | lora,
            "dropout": asked | {"lora": {"targets": ["q_proj", "v_proj"], "dropout": 0.05}},
            "plain": asked | lora | plain,
            "plain float32": asked | {"lora": {"targets": ["q_proj", "v_proj"], "dropout": 0.05}, "dtype": "float32"} | plain,
            "answers": {"data": {"train": str(tmp / "talks.jsonl")}, "mode": "text", "objective": "grpo", "steps": 2, "grpo": {
                "beta": 0.04, "num_iterations": 2, "num_generations": 2, "max_completion_length": 8, "rewards": [{"kind": "match"}]}} | lora,
        }.items():
            (tmp / f"{name}.yaml").write_text(json.dumps({
                "out": str(tmp / name), "backbone": str(tmp / "backbone"), "data": {"train": str(tmp / "rows.jsonl")}, "device": "cuda:0",
                "dtype": "bfloat16", "device_options": {"kernels": "fused"}, "batch_size": 4, "micro_batch": 4, "steps": 6} | more))
        others = {name: run(folder, folder / "bin/train", "--config", tmp / f"{name}.yaml")[1] for name in ("packed", "llava", "dropout")}
        print(others)
        waits = {}
        for name in "answers", "recomputed", "linear", "full", "plain", "plain float32", "run":
            plan = json.loads(run(folder, folder / "bin/train", "--config", tmp / f"{name}.yaml", "--dry-run", "--json")[0])
            _, trained = run(folder, folder / "bin/train", "--config", tmp / f"{name}.yaml")
            planned = plan["need"] - (1 << 30)  # the stub has no context
            print(f"{name}: {trained}, planned {planned} bytes besides a context")
            waits[name] = trained["to_host"]
            if not trained["memory"] <= planned <= 1.1 * trained["memory"]:
                sys.exit(f"{name}: {trained['memory']} bytes of device memory, {planned} were planned")
        _, scored = run(folder, folder / "bin/score", "batch", "--scorer", tmp / "run/scorer", "--in", tmp / "rows.jsonl", "--out", tmp / "scores.jsonl",
                        "--device", "cuda:0")
        served = serve(folder, tmp / "run/scorer", rows)
        # Families and judges with the fixtures' small heads have plain kernels. The numbers are not the stub's concern.
        run(folder, "env", f"TMPDIR={tmp}", sys.executable, "-B", HERE / "check.py", folder / "bin", images.parent, tmp / "check",
            "scores,gradients,judges")
        report = (tmp / "check/report.md").read_text()
        if "FAILED" in report or "hpsv3" not in report:
            sys.exit(report)
        for limit, why in ("100MB", "more than memory_limit"), ("600MB", "memory_limit of cuda:0"):  # weights; what a step needs
            os.environ["ASSAY_CUDA"] = f"memory_limit={limit}"
            run(folder, folder / "bin/train", "--config", tmp / "run.yaml", "--fresh", fails=why)
    print(f"score: {scored}; serve: {served}")
    # Tower and step, or tower and scores: one handle each from opening and one for the stream of the runs.
    for what, seen in ("train", trained), ("score", scored):
        if seen["handles"] != 4:
            sys.exit(f"{what}: {seen['handles']} cuBLAS handles, want 4 of two sessions")
    # Five outputs and sizes of each of 6 steps, gradients, features: 40. A wait in each of 8 layers would add 48. A plain
    # tower waits after each block of queries: 48.
    for what, seen in ("train", trained), ("score", scored):
        if seen["left"]:
            sys.exit(f"{what}: {seen['left']} bytes of device memory were left after the sessions had been closed")
    if not trained["ahead"]:
        sys.exit("train: no features were uploaded while another step ran")
    waits |= {name: seen["to_host"] for name, seen in others.items()}
    for what in "run", "packed", "llava", "dropout", "plain", "plain float32":
        if waits[what] > (128 if what.startswith("plain") else 80):
            sys.exit(f"{what}: {waits[what]} copies to the host")


if __name__ == "__main__":
    at = Path(sys.argv[1]).resolve()
    if sys.argv[2:] == ["--build"]:
        build(at / "lib", at / "lib/libonnxruntime_providers_cuda.so")
    elif sys.argv[2:] == ["--check"]:
        check(at)
    else:
        text, seen = run(at, *sys.argv[2:])
        print(text, end="")
        print("stub:", json.dumps(seen))
