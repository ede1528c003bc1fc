"""UniRL's managed reward process: `score serve` on the socket that UniRL opened.

UniRL's ManagedScorerProcessBackend runs `python -m reward_service.direct_server` with the parent folder of this package
on PYTHONPATH. Its recipe has:

    process: {python_executable: /usr/bin/python3, service_root: <folder assay_reward/unirl_service>}
    scorer: {name: adiee, history_kind: image_edit, params: {path: runs/adiee/scorer, device: cuda}}

`params`: path, the scorer's directory; device, cuda (the one of CUDA_VISIBLE_DEVICES), cuda:N or cpu; score, the
command (default: `score` on PATH); args, further arguments of `score serve`.

Scores, identities and the lifecycle are served by score serve itself. This process waits for it, stops it when UniRL
has exited, and takes it off the device at the start if UniRL asks for that (gpu_residency: per_call).
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request


def arguments(argv=None):
    p = argparse.ArgumentParser(description="score serve, as UniRL starts a reward server")
    p.add_argument("--scorer", required=True, help="the reward's name")
    p.add_argument(
        "--params-json", required=True, help='{"path": DIR, "device": "cuda", "score": COMMAND, "args": [..]}'
    )
    p.add_argument("--fd", type=int, required=True, help="the socket that UniRL opened")
    p.add_argument("--history-kind", "--input-kind", default="image", help="ignored: determined by the scorer")
    p.add_argument(
        "--cache-size", type=int, default=1024, help="ignored: score serve bounds bytes (--answer-cache)"
    )
    p.add_argument("--boot-offloaded", action="store_true", help="be off the device when the first state is reported")
    p.add_argument("--log-level", default="info", help="ignored")
    return p.parse_args(argv)


def command(a):
    params = json.loads(a.params_json)
    unknown = sorted(set(params) - {"path", "device", "score", "args"})
    if unknown or not isinstance(params.get("path"), str):
        sys.exit(
            f"params: path (a scorer's directory) is needed; device, score, args are optional; not {', '.join(unknown)}"
        )
    device = params.get("device", "cuda")
    return [
        params.get("score", "score"),
        "serve",
        f"--scorer={a.scorer}={params['path']}",
        f"--addr=fd:{a.fd}",
        f"--device={'cuda:0' if device == 'cuda' else device}",
        "--json",
        *map(str, params.get("args", ())),
    ]


def offload(fd):
    """Takes the weights off the device as soon as the server answers."""
    with socket.socket(fileno=os.dup(fd)) as s:
        port = s.getsockname()[1]
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/lifecycle/offload", b"", {"Content-Type": "application/json"}
    )
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).close()
    except urllib.error.HTTPError as e:
        raise SystemExit(f"offload: {e.read().decode(errors='replace')}") from None


def main():
    a = arguments()
    parent = int(os.environ.get("UNIRL_REWARD_PARENT_PID") or 0) or os.getppid()
    env = {
        k: v for k, v in os.environ.items() if k != "ASSAY_TOKEN"
    }  # UniRL sends no token, and the socket is local
    server = subprocess.Popen(command(a), env=env, pass_fds=(a.fd,))
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    signal.signal(signal.SIGINT, lambda *_: server.terminate())
    try:
        if a.boot_offloaded:
            offload(a.fd)
        os.close(a.fd)
        while server.poll() is None:
            if os.getppid() != parent:
                server.terminate()
            time.sleep(0.5)
    finally:
        server.terminate()
        code = server.wait()
    sys.exit(code)


if __name__ == "__main__":
    main()
