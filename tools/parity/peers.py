"""Trainers' own reward clients, unchanged, against a server: those of which ASSAY_TRAINERS has a checkout.

    ASSAY_TRAINERS=DIR tools/parity/run.sh --only peers

They want `requests` and `omegaconf` (pip install --target DIR, and DIR on PYTHONPATH); other packages that they import and that
are not here are empty stand-ins, as in trainers.py. Each check scores the fixtures' edits,
compares with `score pair`'s numbers, and sends a broken picture among good ones: whatever the trainer's option says must come
of it, and never a 0.
"""
import io
import logging
import math
import os
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent))
from client import fails  # noqa: E402
from PIL import Image  # noqa: E402
from shared import ROOT, SCORE, close, pairs, served  # noqa: E402
from trainers import Absent  # noqa: E402

from assay_reward import Client  # noqa: E402

TINY = ROOT / "backbones/tiny-scorer"
TEXT = "blur the picture"


class Broken(Image.Image):
    """A picture whose file is cut off, whichever format a client writes."""

    def __init__(self, picture):
        super().__init__()
        self._mode, self._size, self.im, self.whole = picture.mode, picture.size, picture.im, picture

    def convert(self, *args, **kwargs):
        return self

    def save(self, to, *args, **kwargs):
        whole = io.BytesIO()
        self.whole.save(whole, *args, **kwargs)
        to.write(whole.getvalue()[:60])


def fixtures(n=3):
    """Sources, edits, and one broken edit, as PIL images."""
    some = pairs()[:n]
    sources, edits = ([Image.open(p[i]).convert("RGB") for p in some] for i in (0, 1))
    return sources, edits, Broken(edits[1])


def same(what, got, want, tolerance=2e-6):
    if len(got) != len(want):
        sys.exit(f"{what}: {len(got)} scores, want {len(want)}")
    for g, w in zip(got, want):
        if math.isnan(w) != math.isnan(float(g)):
            sys.exit(f"{what}: {got}, want {want}")
        if not math.isnan(w):
            close(what, float(g), w, tolerance)


def flow_factory(absent, checkout, url):
    """RemotePointwiseRewardModel and RemoteGroupwiseRewardModel, made of a training configuration."""
    import torch
    import yaml

    sys.path.insert(0, str(checkout / "src"))
    remote = absent.load("flow_factory.rewards.my_reward_remote")
    arguments = absent.load("flow_factory.hparams.reward_args").RewardArguments
    sources, edits, broken = fixtures()
    want = Client(url).scores(list(zip(sources, [TEXT] * 3, edits)))

    def model(base="", kind="Pointwise"):
        config = yaml.safe_load(f"""
            name: assay
            reward_model: flow_factory.rewards.my_reward_remote.Remote{kind}RewardModel
            server_url: {url}{base}
            device: cpu
            batch_size: 16""")
        return getattr(remote, f"Remote{kind}RewardModel")(arguments.from_dict(config), SimpleNamespace(device=torch.device("cpu")))

    def ask(m, edits=edits, conditions=None, texts=(TEXT,) * 3):
        conditions = [[s] for s in sources] if conditions is None else conditions
        return m(prompt=list(texts), image=edits, condition_images=conditions).rewards.tolist()

    for kind in ("Pointwise", "Groupwise"):
        for base in ("", "/flow-factory/ten", "/flow-factory/ten/nan"):
            same(f"Flow-Factory, {kind}, {base}", ask(model(base, kind)), want)
    bad = [edits[0], broken, edits[2]]
    for base in ("", "/flow-factory/ten", "/flow-factory/ten/fail"):
        fails(RuntimeError, "Server error: edit 1, ten: ", lambda: ask(model(base), bad))
    nan = float("nan")
    same("Flow-Factory, nan", ask(model("/flow-factory/ten/nan"), bad), [want[0], nan, want[2]])
    one = Client(url).score(sources[0], TEXT, [edits[0], edits[2]])
    group = [[sources[0]]] * 3
    same("Flow-Factory, mean", ask(model("/flow-factory/ten/mean"), bad, group), [one[0], sum(one) / 2, one[1]])
    fails(RuntimeError, "image 1, which has no other one", lambda: ask(model("/flow-factory/ten/mean"), bad))
    fails(RuntimeError, "2 sources, and ten looks at 1", lambda: ask(model(), conditions=[sources[:2]] * 3))
    fails(RuntimeError, "condition_images is empty", lambda: ask(model(), conditions=[]))
    fails(RuntimeError, "Cannot connect", lambda: model("/flow-factory/absent"))
    return "two models, three treatments of failures"


def unirl_request(sources, edits, texts=None):
    """What UniRL's backends are asked: pictures as tensors [B, 3, H, W] of one size."""
    import numpy
    import torch
    from unirl.types.primitives import Images

    def images(pictures):
        return Images(pixels=torch.stack([torch.from_numpy(numpy.asarray(p)).permute(2, 0, 1) / 255 for p in pictures]))

    return SimpleNamespace(is_video=False, batch_size=len(edits), images=edits, prompts=texts or [TEXT] * len(edits), metadata=None,
                           primitives={"image": images(sources)}, image_references=[], sample_ids=[f"s{i}" for i in range(len(edits))],
                           group_ids=None)


def unirl(absent, checkout, url):
    """RemoteRewardBackend, the server that UniRL starts itself, and the differentiable reward."""
    import numpy
    import torch

    sys.path.insert(0, str(checkout))
    absent.names.update(("ray", "hydra"))
    remote = absent.load("unirl.reward.remote")
    sources, edits, broken = fixtures()
    sources, edits = ([p.resize((64, 48)) for p in ps] for ps in (sources, edits))
    broken = Broken(edits[1])
    want = Client(url).scores(list(zip(sources, [TEXT] * 3, edits)))

    def check_backend(what, backend):
        got = backend.compute_rewards(unirl_request(sources, edits))
        same(f"UniRL, {what}", got.rewards, want, 1e-4)
        if not all(got.successes):
            sys.exit(f"UniRL, {what}: {got.errors}")
        got = backend.compute_rewards(unirl_request(sources, [edits[0], broken, edits[2]]))
        if got.successes != [True, False, True] or "ten: " not in got.errors[1]:
            sys.exit(f"UniRL, {what}: a broken picture gives {got.successes}, {got.errors}")
        if not backend.is_available():
            sys.exit(f"UniRL, {what}: not available")

    print_ = Client(url).judges()[0]["fingerprint"]
    spec = dict(required_rewards=("ten",), image_format="PNG", max_retries=1)
    check_backend("remote", remote.RemoteRewardBackend(config=remote.RemoteRewardSpec(
        base_url=url, require_identity_echo=True, expected_scorer_version=print_, **spec), base_device="cpu"))
    done = ["remote"]
    if (checkout / "unirl/reward/managed_process.py").exists():
        done.append(managed(absent, spec, print_, check_backend))
    done.append(differentiable(absent, url, sources, edits, broken, want))
    return ", ".join(done)


def managed(absent, spec, fingerprint, check_backend):
    """The child: resident, and loaded for a call alone; it ends with its parent, however that ends."""
    import subprocess
    import tempfile

    from assay_reward import unirl

    m, remote = absent.load("unirl.reward.managed_process"), absent.load("unirl.reward.remote")
    logs = tempfile.mkdtemp()

    def make(residency, version=None, **params):
        params = {"path": str(TINY), "device": "cpu", "score": str(SCORE), "args": ["--threads", 1], **params}
        return m.ManagedScorerProcessBackend(base_device="cpu", config=m.ManagedScorerProcessSpec(
            process=m.ManagedProcessConfig(python_executable=sys.executable, service_root=unirl.SERVICE_ROOT, log_dir=logs, startup_timeout=60),
            scorer=m.ManagedScorerConfig(name="ten", history_kind="image_edit", params=params, version=version),
            client=remote.RemoteRewardSpec(base_url="managed://", **spec), gpu_residency=residency))

    for residency in ("resident", "per_call"):
        backend = make(residency, fingerprint)
        check_backend(f"managed, {residency}", backend)
        child, state = backend._process, backend._session.get(backend.base_url + "/health").json()["state"]
        if state != {"resident": "resident", "per_call": "offloaded"}[residency]:
            sys.exit(f"UniRL's child, {residency}: state {state}")
        backend.offload(), backend.onload()
        check_backend(f"managed, {residency}, after a sleep", backend)
        backend.dispose()
        if child.poll() is None:
            sys.exit("UniRL's child goes on after dispose()")
    fails(RuntimeError, "!= expected", lambda: make("resident", "another"))
    fails(RuntimeError, "exited during startup", lambda: make("resident", path="/nowhere"))
    code = ("import os, sys; sys.path[:0] = %r; sys.argv = ['x']; import peers; absent = peers.Absent(); sys.meta_path.insert(0, absent);"
            "absent.names.update(('ray', 'hydra')); absent.load('unirl.reward.remote');"
            "peers.managed_child(absent, %r); os.kill(os.getpid(), 9)" % (sys.path[:8], {**spec}))
    said = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    url = said.stdout.strip().splitlines()[-1]
    for _ in range(100):
        try:
            Client(url).health()
        except Exception:
            return "managed, two residencies"
        import time
        time.sleep(0.1)
    sys.exit(f"UniRL's child at {url} goes on without its parent")


def managed_child(absent, spec):
    """Starts a child and says where: of a process that is about to be killed."""
    from assay_reward import unirl

    m, remote = absent.load("unirl.reward.managed_process"), absent.load("unirl.reward.remote")
    backend = m.ManagedScorerProcessBackend(base_device="cpu", config=m.ManagedScorerProcessSpec(
        process=m.ManagedProcessConfig(python_executable=sys.executable, service_root=unirl.SERVICE_ROOT),
        scorer=m.ManagedScorerConfig(name="ten", params={"path": str(TINY), "device": "cpu", "score": str(SCORE), "args": ["--threads", 1]}),
        client=remote.RemoteRewardSpec(base_url="managed://", **spec)))
    print(backend.base_url, flush=True)


def differentiable(absent, url, sources, edits, broken, want):
    """AssayReward behind UniRL's own protocol and service: gradients are those of the server."""
    import numpy
    import torch

    from assay_reward import unirl

    base, service = absent.load("unirl.reward.base"), absent.load("unirl.reward.service")
    backend = unirl.AssayReward(config=unirl.AssayRewardSpec(base_url=url))
    if not isinstance(backend, base.DifferentiableReward) or not isinstance(backend, base.RewardBackend):
        sys.exit("AssayReward is no DifferentiableReward of UniRL")
    images = torch.stack([torch.from_numpy(numpy.asarray(p)).permute(2, 0, 1) / 255 for p in edits]).requires_grad_()
    records = [{"source": s} for s in sources]
    rewards = backend.compute_rewards_differentiable(images, [TEXT] * 3, records=records)
    same("UniRL, differentiable", rewards.tolist(), want, 1e-5)
    (-rewards.mean()).backward()
    for i, g in enumerate(Client(url).gradients(list(zip(sources, [TEXT] * 3, edits)))):
        theirs = torch.frombuffer(g.values, dtype=torch.float32).reshape(g.shape).permute(2, 0, 1) * (-255 / 3)
        if not torch.allclose(images.grad[i], theirs, rtol=1e-5, atol=1e-9) or not theirs.abs().max() > 0:
            sys.exit(f"UniRL, differentiable: gradient {i} is another than the server's")
    fails(Exception, "source", lambda: backend.compute_rewards_differentiable(images, [TEXT] * 3))
    fails(ValueError, "videos", lambda: backend.compute_rewards_differentiable(images.unsqueeze(2), [TEXT] * 3))
    got = backend.compute_rewards(unirl_request(sources, edits))
    same("UniRL, AssayReward", got.rewards, want, 1e-5)
    got = backend.compute_rewards(unirl_request(sources, [edits[0], b"no picture", edits[2]]))
    if got.successes != [True, False, True] or not math.isnan(got.rewards[1]):
        sys.exit(f"UniRL, AssayReward: a broken picture gives {got.rewards}, {got.successes}")
    whole = service.RewardService(backend)
    if whole.backend is not backend or not whole.is_available():
        sys.exit("UniRL's RewardService does not take AssayReward")
    return "differentiable"


PEERS = {"Flow-Factory": flow_factory, "UniRL": unirl}


def check(checkouts, only=()):
    logging.disable(logging.WARNING)  # their clients say that they ask again
    absent, said = Absent(), []
    sys.meta_path.insert(0, absent)
    with served("--scorer", f"ten={TINY}") as url:
        for name, own in PEERS.items():
            if only and name not in only:
                continue
            found = (checkouts / name).exists()
            said.append(f"{name}: {own(absent, checkouts / name, url)}" if found else f"{name} left out: no checkout in ASSAY_TRAINERS")
    return "; ".join(said)


if __name__ == "__main__":
    print(check(Path(os.environ.get("ASSAY_TRAINERS", "/nonexistent")), sys.argv[1:]))
