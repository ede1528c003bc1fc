"""Client of `score serve`. Standard library only; `RewardFunction` and `reward` want PyTorch when they are used.

    from assay_reward import Client
    scores = Client("http://127.0.0.1:8100").score(source, "make it brighter", [edit_a, edit_b])

Pictures are paths, bytes of picture files, PIL images, or uint8 arrays and tensors [H, W, 3]. Scores are floats on the
scorer's range, 0 to 10 unless its scorer.yaml says otherwise. A picture that cannot be scored raises an error: there is
no default score.
"""

from .client import Client, Gradient, ItemError, ServerError
from .pictures import encode

__all__ = ["Client", "Gradient", "ItemError", "ServerError", "encode", "RewardFunction", "reward"]


def __getattr__(name):  # PyTorch is imported only if it is wanted
    if name in ("RewardFunction", "reward"):
        from . import feedback

        return getattr(feedback, name)
    raise AttributeError(name)
