"""A differentiable reward for UniRL's trainers: scores, and their gradients for the pixels, from `score serve`.

UniRL's ReFL (train_refl) differentiates the reward with respect to the images of its policy. `AssayReward` declares the
capability (`DifferentiableReward`), and also has UniRL's plain rewards. In a recipe:

    reward:
      _target_: unirl.reward.service.RewardService
      backend:
        _target_: assay_reward.unirl.AssayReward
        base_device: cuda
        config: {_target_: assay_reward.unirl.AssayRewardSpec, base_url: "http://127.0.0.1:8100", scorer: adiee}

Judges that compare with a source find it in the record of each sample, under `source_key`: a path, bytes, or anything
else that `encode` accepts, or a list of several. Judges of a single picture (HPSv3, PickScore) need none. Rewards are
on the scorer's range.
"""

import math
from dataclasses import dataclass
from typing import Optional

from unirl.reward.base import BaseRewardComponentSpec, RewardBackend
from unirl.types.reward import RewardResponse

from assay_reward import Client
from assay_reward.feedback import reward

SERVICE_ROOT = __file__.rpartition("unirl.py")[0] + "unirl_service"  # process.service_root of a managed reward


@dataclass
class AssayRewardSpec(BaseRewardComponentSpec):
    base_url: str = "http://127.0.0.1:8100"
    scorer: Optional[str] = None
    fingerprint: Optional[str] = None
    jpeg: Optional[int] = None
    source_key: str = "source"
    batch_size: int = 8


class AssayReward(RewardBackend):
    def __init__(self, *, config, base_device="cpu"):
        super().__init__(model_name=config.scorer or "assay", batch_size=config.batch_size)
        self.source_key = config.source_key
        self.client = Client(config.base_url, scorer=config.scorer, fingerprint=config.fingerprint, jpeg=config.jpeg)

    def is_available(self):
        try:
            return self.client.health()["status"] == "ok"
        except Exception:
            return False

    def offload(self):
        self.client.sleep()

    def onload(self):
        self.client.wake()

    def compute_rewards_differentiable(self, media_tensor, prompts, records=None):
        """Scores [B] of images [B, 3, H, W] in 0..1, whose backward pass has the gradients of the judge. An edit that
        cannot be judged raises."""
        if media_tensor.dim() != 4:
            raise ValueError(f"want images [B, 3, H, W], not {list(media_tensor.shape)}: videos are not scored")
        records = [None] * len(prompts) if records is None else records
        sources = [(r or {}).get(self.source_key) for r in records]
        return reward(self.client, media_tensor, sources, list(prompts))

    def compute_rewards(self, request):
        """A failed sample has success False and the reward NaN: RewardService raises."""
        conditions = getattr(request, "image_references", None) or [request.primitives.get("image")]
        sources = _rows(conditions, request.batch_size)
        pairs = [(s, p, i) for s, p, i in zip(sources, request.prompts, request.images)]
        if len(pairs) != request.batch_size:
            raise ValueError(f"{request.batch_size} samples, {len(request.prompts)} prompts")
        errors = [None] * len(pairs)
        try:
            rewards = self.client.scores(pairs)
        except Exception as e:
            known = getattr(e, "errors", None)
            if known is None:
                raise
            errors = [known.get(i) for i in range(len(pairs))]
            rewards = [math.nan if s is None else s for s in e.scores]
        return RewardResponse(
            rewards=rewards,
            component_rewards={self.get_model_name(): list(rewards)},
            successes=[e is None for e in errors],
            errors=errors,
        )


def _rows(conditions, count):
    """The sources of each sample: one picture, a list of several, or None."""
    columns = []
    for images in conditions:
        if images is not None:
            pixels = [i.pixels for i in images.to_list()] if hasattr(images, "to_list") else list(images.pixels)
            columns.append([_levels(p[0] if p.dim() == 4 else p) for p in pixels])
    if not columns:
        return [None] * count
    return [row[0] if len(row) == 1 else list(row) for row in zip(*columns)]


def _levels(image):
    """[3, H, W] in 0..1 to uint8 [H, W, 3], as UniRL's own clients convert: clamped and rounded down."""
    return (image.detach().float().clamp(0, 1) * 255).byte().permute(1, 2, 0).cpu().contiguous()
