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


PEERS = {"Flow-Factory": flow_factory}


def check(checkouts):
    logging.disable(logging.WARNING)  # their clients say that they ask again
    absent, said = Absent(), []
    sys.meta_path.insert(0, absent)
    with served("--scorer", f"ten={TINY}") as url:
        for name, own in PEERS.items():
            found = (checkouts / name).exists()
            said.append(f"{name}: {own(absent, checkouts / name, url)}" if found else f"{name} left out: no checkout in ASSAY_TRAINERS")
    return "; ".join(said)


if __name__ == "__main__":
    print(check(Path(os.environ.get("ASSAY_TRAINERS", "/nonexistent"))))
