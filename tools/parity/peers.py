"""Trainers' own reward clients, unchanged, against a server: all that have a checkout in ASSAY_TRAINERS.

    ASSAY_TRAINERS=DIR tools/parity/run.sh --only peers

They need `requests`, `aiohttp` and `omegaconf` (pip install --target DIR, and DIR on PYTHONPATH); other packages that they import
and that are not installed are stubbed, as in trainers.py. Each check scores the fixtures' edits, compares with `score pair`, and
sends a broken picture among good ones: it must be handled by the trainer's option, and never be a 0.
"""
import asyncio
import contextlib
import io
import logging
import math
import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent))
from client import fails  # noqa: E402
from PIL import Image  # noqa: E402
from shared import ORACLE, ROOT, SCORE, close, pairs, run, served  # noqa: E402
from trainers import Absent  # noqa: E402

from assay_reward import Client, ServerError  # noqa: E402

TINY = ROOT / "backbones/tiny-scorer"
TEXT = "blur the picture"


class Broken(Image.Image):
    """An image that is saved as a truncated file, in any format."""

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
    """RemotePointwiseRewardModel and RemoteGroupwiseRewardModel, built from a training configuration."""
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
    fails(RuntimeError, "image 1, in a group", lambda: ask(model("/flow-factory/ten/mean"), bad))
    fails(RuntimeError, "2 sources, and ten looks at 1", lambda: ask(model(), conditions=[sources[:2]] * 3))
    fails(RuntimeError, "condition_images is empty", lambda: ask(model(), conditions=[]))
    fails(RuntimeError, "Cannot connect", lambda: model("/flow-factory/absent"))
    return "two models, three treatments of failures"


def unirl_request(sources, edits, texts=None):
    """A request to UniRL's backends: images as tensors [B, 3, H, W] of one size."""
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
            sys.exit(f"UniRL, {what}: got {got.successes}, {got.errors} for a broken picture")
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
    """The child: resident, and loaded per call; it exits with its parent, however that exits."""
    import subprocess

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
            sys.exit("UniRL's child is still running after dispose()")
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
    sys.exit(f"UniRL's child at {url} is still running without its parent")


def managed_child(absent, spec):
    """Starts a child of a process that is about to be killed, and prints its URL."""
    from assay_reward import unirl

    m, remote = absent.load("unirl.reward.managed_process"), absent.load("unirl.reward.remote")
    backend = m.ManagedScorerProcessBackend(base_device="cpu", config=m.ManagedScorerProcessSpec(
        process=m.ManagedProcessConfig(python_executable=sys.executable, service_root=unirl.SERVICE_ROOT),
        scorer=m.ManagedScorerConfig(name="ten", params={"path": str(TINY), "device": "cpu", "score": str(SCORE), "args": ["--threads", 1]}),
        client=remote.RemoteRewardSpec(base_url="managed://", **spec)))
    print(backend.base_url, flush=True)


def differentiable(absent, url, sources, edits, broken, want):
    """AssayReward through UniRL's own protocol and service: gradients equal the server's."""
    import numpy
    import torch

    from assay_reward import unirl

    base, service = absent.load("unirl.reward.base"), absent.load("unirl.reward.service")
    backend = unirl.AssayReward(config=unirl.AssayRewardSpec(base_url=url))
    if not isinstance(backend, base.DifferentiableReward) or not isinstance(backend, base.RewardBackend):
        sys.exit("AssayReward is not a DifferentiableReward of UniRL")
    images = torch.stack([torch.from_numpy(numpy.asarray(p)).permute(2, 0, 1) / 255 for p in edits]).requires_grad_()
    records = [{"source": s} for s in sources]
    rewards = backend.compute_rewards_differentiable(images, [TEXT] * 3, records=records)
    same("UniRL, differentiable", rewards.tolist(), want, 1e-5)
    (-rewards.mean()).backward()
    for i, g in enumerate(Client(url).gradients(list(zip(sources, [TEXT] * 3, edits)))):
        theirs = torch.frombuffer(g.values, dtype=torch.float32).reshape(g.shape).permute(2, 0, 1) * (-255 / 3)
        if not torch.allclose(images.grad[i], theirs, rtol=1e-5, atol=1e-9) or not theirs.abs().max() > 0:
            sys.exit(f"UniRL, differentiable: gradient {i} differs from the server's")
    fails(Exception, "source", lambda: backend.compute_rewards_differentiable(images, [TEXT] * 3))
    fails(ValueError, "videos", lambda: backend.compute_rewards_differentiable(images.unsqueeze(2), [TEXT] * 3))
    got = backend.compute_rewards(unirl_request(sources, edits))
    same("UniRL, AssayReward", got.rewards, want, 1e-5)
    got = backend.compute_rewards(unirl_request(sources, [edits[0], b"no picture", edits[2]]))
    if got.successes != [True, False, True] or not math.isnan(got.rewards[1]):
        sys.exit(f"UniRL, AssayReward: got {got.rewards}, {got.successes} for a broken picture")
    with one_picture() as url:  # this version of RewardService passes no sources
        from unirl.types.primitives import Images, Texts

        whole = service.RewardService(unirl.AssayReward(config=unirl.AssayRewardSpec(base_url=url)))
        images = torch.stack([torch.from_numpy(numpy.asarray(p)).permute(2, 0, 1) / 255 for p in edits]).requires_grad_()
        rewards = whole.score_differentiable(images=Images(pixels=images), prompts=Texts(texts=[TEXT] * 3))
        same("UniRL's RewardService", rewards.tolist(), Client(url).scores([(None, TEXT, e) for e in edits]), 1e-5)
        rewards.sum().backward()
        if not whole.is_available() or not all(g.abs().max() > 0 for g in images.grad):
            sys.exit("UniRL's RewardService does not return AssayReward's gradients")
    return "differentiable"


@contextlib.contextmanager
def one_picture():
    """A server of HPSv3 with tiny random weights, which does not use a source."""
    import zipfile

    with tempfile.TemporaryDirectory() as work, zipfile.ZipFile(ORACLE / "released.zip") as z:
        z.extractall(work)
        judge = Path(work) / "hpsv3"
        run(SCORE, "import", "hpsv3", "--base", judge / "base", "--weights", judge / "HPSv3.safetensors", "--prompts", judge / "prompts",
            "--out", Path(work) / "out", "--json")
        with served("--scorer", f"hpsv3={work}/out") as url:
            yield url


def stand_ins():
    """The few names of verl that verl-omni's reward managers use, defined as in verl."""
    import importlib.util
    import types

    def module(name, **names):
        m = types.ModuleType(name)
        m.__path__ = []
        m.__dict__.update(names)
        sys.modules[name] = m

    def load_extern_object(path, name):
        spec = importlib.util.spec_from_file_location("extern", path)
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return getattr(found, name)

    class RewardManagerBase:
        def __init__(self, config, tokenizer, compute_score):
            self.config, self.tokenizer, self.compute_score = config, tokenizer, compute_score

    for name in ("verl", "verl.utils", "verl.experimental", "verl.experimental.reward_loop", "verl.experimental.reward_loop.reward_manager"):
        module(name, DataProto=object)
    module("verl.utils.import_utils", load_extern_object=load_extern_object)
    module("verl.utils.reward_score", default_compute_score=None)
    module("verl.experimental.reward_loop.reward_manager.base", RewardManagerBase=RewardManagerBase)


def verl_omni(absent, checkout, url):
    """VisualRewardManager and MultiVisualRewardManager with verl_omni.py; http_scorer_client through the bridge."""
    import types

    import numpy
    import torch

    stand_ins()
    for name in ("verl_omni", "verl_omni.reward_loop", "verl_omni.utils"):  # their __init__ need vLLM, and patch it on disk
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(checkout / name.replace(".", "/"))]
    multi = absent.load("verl_omni.reward_loop.reward_manager.multi")
    visual = absent.load("verl_omni.reward_loop.reward_manager.visual")
    sources, edits, broken = fixtures()
    want = Client(url).scores(list(zip(sources, [TEXT] * 3, edits)), score01=True)
    own = str(ROOT / "clients/python/assay_reward/verl_omni.py")
    shape = SimpleNamespace(rollout=SimpleNamespace(pipeline={}, val_kwargs=SimpleNamespace(pipeline={})))

    def item(source, edit):
        pixels = torch.from_numpy(numpy.asarray(edit).copy()).permute(2, 0, 1)
        one = SimpleNamespace(batch={"responses": pixels}, meta_info={}, non_tensor_batch={
            "data_source": "x", "reward_model": {"ground_truth": TEXT}, "extra_info": {"source": source}})

        class Data(list):
            pass

        return Data([one])

    def manager(**entry):
        entry = {"path": own, "name": "compute_score", "weight": 0.5, "server_url": url, **entry}
        config = SimpleNamespace(reward=SimpleNamespace(reward_functions={"assay": entry}, reward_model=None), actor_rollout_ref=shape)
        return multi.MultiVisualRewardManager(config, None, None)

    def rewards(m, rows):
        async def all_of():
            m.loop = asyncio.get_running_loop()
            return [r["reward_score"] for r in await asyncio.gather(*(m.run_single(item(s, e)) for s, e in rows))]
        return asyncio.run(all_of())

    rows = list(zip(sources, edits))
    bad = [rows[0], (b"no picture", edits[1]), rows[2]]
    same("verl-omni, several rewards", rewards(manager(required=True), rows), [w / 2 for w in want], 2e-7)
    fails(RuntimeError, "Required sub-reward 'assay' failed", lambda: rewards(manager(required=True), bad))
    nan = float("nan")
    for required in (True, False):
        same("verl-omni, NaN", rewards(manager(on_error="nan", required=required), bad), [want[0] / 2, nan, want[2] / 2], 2e-7)
        same("verl-omni, unknown scorer", rewards(manager(on_error="nan", scorer="absent", required=required), rows), [nan] * 3)
    from assay_reward.verl_omni import compute_score

    async def ours(**kwargs):
        return await compute_score(**{"server_url": url, **kwargs})

    single = visual.VisualRewardManager(SimpleNamespace(actor_rollout_ref=shape, reward=None), None, ours)
    same("verl-omni, one reward", rewards(single, rows), want, 2e-7)
    fails(ServerError, "source: not a PNG", lambda: rewards(single, bad))
    return "two managers, " + verl_bridge(absent, url, sources, edits)


def verl_bridge(absent, url, sources, edits):
    import base64
    import json

    import numpy
    import torch
    from wires import Bridge

    client = absent.load("verl_omni.utils.reward_score.http_scorer_client")

    def asked(source):
        raw = io.BytesIO()
        source.save(raw, "PNG")
        return json.dumps({"instruction": TEXT, "source": base64.b64encode(raw.getvalue()).decode()})

    def ask(bridge, source, edit):
        async def one():
            try:
                return (await client.compute_score(torch.from_numpy(numpy.asarray(edit).copy()).permute(2, 0, 1), source, f"http://127.0.0.1:{bridge.port}"))["score"]
            finally:
                await client.compute_score._session.close()
        return asyncio.run(one())

    jpeg = io.BytesIO()
    edits[0].save(jpeg, "JPEG")
    b = Bridge(Client(url))
    same("verl-omni, http", [ask(b, asked(sources[0]), edits[0])], Client(url).score(sources[0], TEXT, [jpeg.getvalue()], score01=True), 2e-7)
    bad = json.dumps({"instruction": TEXT, "source": base64.b64encode(b"no picture").decode()})
    fails(RuntimeError, "HTTP 400", lambda: ask(b, bad, edits[0]))
    if not math.isnan(ask(Bridge(Client(url), on_error="nan"), bad, edits[0])):
        sys.exit("verl-omni, http: no NaN")
    fails(RuntimeError, "HTTP 400", lambda: ask(Bridge(Client(url), on_error="mean"), bad, edits[0]))  # a group of one
    return "http client"


def of_file(path, name):
    """Loads a module from a file, without its packages."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class cut:
    """Within this context the second JPEG that is written is truncated."""

    def __enter__(self):
        self.plain, self.count = Image.Image.save, 0

        def save(image, to, *args, **kwargs):
            self.count += 1
            if self.count != 2:
                return self.plain(image, to, *args, **kwargs)
            whole = io.BytesIO()
            self.plain(image, whole, *args, **kwargs)
            to.write(whole.getvalue()[:60])

        Image.Image.save = save

    def __exit__(self, *_):
        Image.Image.save = self.plain


def jpegs(pictures):
    out = []
    for p in pictures:
        raw = io.BytesIO()
        p.save(raw, "JPEG")
        out.append(raw.getvalue())
    return out


def edit_r1(absent, checkout, url):
    """mllm_score_continue of flow_grpo/rewards.py, through the bridge."""
    import numpy
    import torch
    from wires import Bridge

    sources, edits, _ = fixtures()
    sources, edits = ([p.resize((64, 48)) for p in ps] for ps in (sources, edits))
    rewards = of_file(checkout / "flow_grpo/rewards.py", "edit_r1_rewards")
    images = torch.stack([torch.from_numpy(numpy.asarray(p).copy()).permute(2, 0, 1) / 255 for p in edits])
    shown = jpegs(edits)
    refs = [sources[0]] * 3

    def ask(bridge):
        os.environ["REWARD_SERVER"] = f"127.0.0.1:{bridge.port}"
        return rewards.mllm_score_continue("cpu")(refs, images, [TEXT] * 3, [{}] * 3)[0]

    want = Client(url).score(jpegs(refs)[0], TEXT, shown, score01=True)
    same("Edit-R1", ask(Bridge(Client(url))), want, 2e-7)
    with cut():
        fails(KeyError, "scores", lambda: ask(Bridge(Client(url))))
    nan = float("nan")
    for name, value in (("nan", nan), ("mean", (want[0] + want[2]) / 2)):
        with cut():
            same(f"Edit-R1, {name}", ask(Bridge(Client(url), on_error=name)), [want[0], value, want[2]], 2e-7)
    return "mllm_score_continue"


def flow_grpo(absent, checkout, url):
    """unifiedreward_score_remote, whose address is hard-coded: the requests are redirected to the bridge."""
    import base64
    import json

    import numpy
    import requests
    from wires import Bridge

    sources, edits, _ = fixtures()
    edits = [p.resize((64, 48)) for p in edits]
    rewards = of_file(checkout / "flow_grpo/rewards.py", "flow_grpo_rewards")
    images = numpy.stack([numpy.asarray(p) for p in edits])
    source = jpegs(sources[:1])[0]
    asked = [json.dumps({"instruction": TEXT, "source": base64.b64encode(source).decode()})] * 3

    def ask(bridge):
        plain = requests.Session.post
        requests.Session.post = lambda self, url, **kwargs: plain(self, f"http://127.0.0.1:{bridge.port}/flow_grpo", **kwargs)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                return rewards.unifiedreward_score_remote("cpu")(images, asked, [{}] * 3)[0]
        finally:
            requests.Session.post = plain

    want = Client(url).score(source, TEXT, jpegs(edits), score01=True)
    same("Flow-GRPO", ask(Bridge(Client(url))), want, 2e-7)
    with cut():
        fails(KeyError, "outputs", lambda: ask(Bridge(Client(url))))
    nan = float("nan")
    for name, value in (("nan", nan), ("mean", (want[0] + want[2]) / 2)):
        with cut():
            same(f"Flow-GRPO, {name}", ask(Bridge(Client(url), on_error=name)), [want[0], value, want[2]], 2e-7)
    return "unifiedreward_score_remote"


def editscore(absent, checkout, url):
    """RewardClient of OmniGen2-RL."""
    import json

    from wires import Bridge

    client = of_file(checkout / "examples/OmniGen2-RL/omnigen2/grpo/reward_client_edit.py", "reward_client_edit")
    sources, edits, _ = fixtures()
    want = Client(url).score(sources[0], TEXT, edits, score01=True)
    rows = [json.dumps({"instruction": TEXT})] * 3

    def ask(bridge, edits=edits, sources=1):
        c = client.RewardClient("127.0.0.1", bridge.port, max_retries=1)
        if not c.ping():
            sys.exit("EditScore: no ping")
        return c.evaluate([[fixtures()[0][0]] * sources] * 3, edits, rows, "vlm")

    scores, rewards, reasoning, meta = ask(Bridge(Client(url)))
    same("EditScore", rewards, want, 2e-7)
    if scores != [1.0 if w >= 0.5 else 0.0 for w in want] or len(reasoning) != 3 or len(meta) != 3:
        sys.exit(f"EditScore: {scores}, {reasoning}, {meta}")
    bad = [edits[0], Image.new("F", (8, 8)), edits[2]]
    if ask(Bridge(Client(url)), bad) is not None or ask(Bridge(Client(url)), sources=2) is not None:
        sys.exit("EditScore: an image without pixel values, or two sources, get a score")
    return "evaluate, ping"


def dance_grpo(absent, checkout, url):
    """The statements of train_grpo_qwenimage_edit.py that load and call the reward of --use_hpsv3."""
    import ast
    import json

    import torch

    sources, edits, _ = fixtures()
    folder = Path(tempfile.mkdtemp())
    tree = ast.parse((checkout / "fastvideo/train_grpo_qwenimage_edit.py").read_text())
    parts = [n for n in ast.walk(tree) if isinstance(n, ast.If) and ast.unparse(n.test) == "args.use_hpsv3"]
    asks = next(n for n in parts if "reward_model.reward(" in ast.unparse(n))
    loads = next(n for n in parts if "HPSv3RewardInferencer" in ast.unparse(n))
    absent.names.discard("hpsv3")
    sys.path.insert(0, str(ROOT / "clients/python/assay_reward/dancegrpo"))
    sys.modules.pop("hpsv3", None)
    (folder / "images").mkdir()
    for i, (s, e) in enumerate(zip(sources, edits)):
        s.save(folder / f"s{i}.png"), e.save(folder / f"images/qwenimage_0_{i}.png")
    (folder / "images/qwenimage_0_3.png").write_bytes((folder / "images/qwenimage_0_0.png").read_bytes()[:60])
    os.environ["ASSAY_SERVER"] = url
    back = os.getcwd()

    def ask(indices, on_error="raise"):
        os.environ["ASSAY_ON_ERROR"] = on_error
        names = {"args": SimpleNamespace(use_hpsv3=True), "device": "cpu", "torch": torch, "rank": 0, "all_rewards": []}
        exec(compile(ast.Module([loads], []), "train_grpo_qwenimage_edit.py", "exec"), names)
        for index in indices:
            names.update(index=index, batch_caption=[json.dumps({"instruction": TEXT, "source": str(folder / f"s{index % 3}.png")})])
            exec(compile(ast.Module([asks], []), "train_grpo_qwenimage_edit.py", "exec"), names)
        return torch.cat(names["all_rewards"]).tolist()

    want = Client(url).scores(list(zip(sources, [TEXT] * 3, edits)))
    os.chdir(folder)
    try:
        same("DanceGRPO", ask(range(3)), want)
        fails(SystemExit, "could not be judged", lambda: ask([0, 3]))
        same("DanceGRPO, NaN", ask([0, 3], "nan"), [want[0], float("nan")])
        fails(SystemExit, "could not be judged", lambda: ask([0, 3], "mean"))  # it sends one at a time
    finally:
        os.chdir(back)
    return "--use_hpsv3"


def mix_grpo(absent, checkout, url):
    """compute_reward of fastvideo/models/reward_model/utils.py."""
    import json

    from assay_reward.inprocess import UnifiedRewardModel

    utils = of_file(checkout / "fastvideo/models/reward_model/utils.py", "mixgrpo_utils")
    sources, edits, broken = fixtures()
    folder = Path(tempfile.mkdtemp())
    sources[0].save(folder / "s.png")
    asked = [json.dumps({"instruction": TEXT, "source": str(folder / "s.png")})] * 3

    def ask(edits, on_error="raise", prompts=asked):
        os.environ["ASSAY_ON_ERROR"] = on_error
        model = UnifiedRewardModel(api_url=url, default_question_type="semantic", num_workers=1)
        with contextlib.redirect_stdout(io.StringIO()):
            merged, successes, rewards, _ = utils.compute_reward(edits, prompts, [model], {"UnifiedRewardModel": 2.0})
        if rewards["UnifiedRewardModel"] != merged and not any(map(math.isnan, merged)):
            same("MixGRPO, weights", merged, [2 * r for r in rewards["UnifiedRewardModel"]])
        return [m / 2 for m in merged]

    bad = [edits[0], b"no picture", edits[2]]
    want = Client(url).score(folder / "s.png", TEXT, edits)
    same("MixGRPO", ask(edits), want)
    fails(SystemExit, "could not be judged", lambda: ask(bad))
    same("MixGRPO, NaN", ask(bad, "nan"), [want[0], float("nan"), want[2]])
    same("MixGRPO, mean", ask(bad, "mean"), [want[0], (want[0] + want[2]) / 2, want[2]])
    fails(SystemExit, "no rewards", lambda: ask(edits, prompts=[TEXT] * 3))  # no source
    return "compute_reward"


PEERS = {"Flow-Factory": flow_factory, "UniRL": unirl, "verl-omni": verl_omni, "Edit-R1": edit_r1, "flow_grpo": flow_grpo,
         "EditScore": editscore, "DanceGRPO": dance_grpo, "MixGRPO": mix_grpo}


def check(checkouts, only=()):
    logging.disable(logging.ERROR)  # their clients log retries
    absent, said = Absent(), []
    sys.meta_path.insert(0, absent)
    with served("--scorer", f"ten={TINY}") as url:
        for name, own in PEERS.items():
            if only and name not in only:
                continue
            found = (checkouts / name).exists()
            said.append(f"{name}: {own(absent, checkouts / name, url)}" if found else f"{name} skipped: no checkout in ASSAY_TRAINERS")
    return "; ".join(said)


if __name__ == "__main__":
    print(check(Path(os.environ.get("ASSAY_TRAINERS", "/nonexistent")), sys.argv[1:]))
