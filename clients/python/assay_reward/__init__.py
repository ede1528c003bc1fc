"""Client of `score serve`. Standard library only; `RewardFunction` and `reward` need PyTorch.

    from assay_reward import Client
    scores = Client("http://127.0.0.1:8100").score(source, "make it brighter", [edit_a, edit_b])

Pictures are paths, bytes of picture files, {"bytes", "path"} as `datasets` has them, PIL images, or uint8 arrays and
tensors [H, W, 3]. Scores are floats on the scorer's range, 0 to 10 unless its scorer.yaml says otherwise. A picture that
cannot be scored raises an error: there is no default score.
"""

from .batches import Evaluation, Gradient
from .client import Client
from .connections import ServerError
from .failures import ItemError
from .pictures import encode

__all__ = [
    "AsyncClient",
    "Client",
    "Evaluation",
    "Gradient",
    "ItemError",
    "ServerError",
    "encode",
    "RewardFunction",
    "lower_bound",
    "reward",
]


def __getattr__(name):  # asyncio and PyTorch are imported only if needed
    if name == "AsyncClient":
        from .aio import AsyncClient

        return AsyncClient
    if name in ("RewardFunction", "lower_bound", "reward"):
        try:
            from . import feedback
        except ModuleNotFoundError as e:
            if e.name != "torch":
                raise
            raise ImportError(f"{name} needs PyTorch: pip install torch", name="torch") from None
        return getattr(feedback, name)
    raise AttributeError(name)
