"""Rewards for trainers that compute them in their own process: DanceGRPO and MixGRPO.

DanceGRPO's `--use_hpsv3` imports `hpsv3`. With the folder assay_reward/dancegrpo on PYTHONPATH it imports the module
there, which asks `score serve`; nothing else changes:

    PYTHONPATH=.../assay_reward/dancegrpo ASSAY_SERVER=http://127.0.0.1:8100 torchrun ... --use_hpsv3

MixGRPO selects rewards by class name. One line of fastvideo/train_grpo_flux.py is replaced, and
`--reward_model unified_reward` asks `--unified_reward_url`:

    from assay_reward.inprocess import UnifiedRewardModel

A prompt is the instruction, or JSON {"instruction": .., "source": path} for judges that compare with a source.
Variables: ASSAY_SERVER, ASSAY_SCORER (default: the server's first), ASSAY_ON_ERROR: raise (default), nan or mean. With
raise the process ends (SystemExit), since MixGRPO turns any exception into 0.
"""

import os

from .client import Client
from .failures import ItemError, check_policy
from .payloads import prompts_of


class _Judge:
    def __init__(self, url=None):
        url = url or os.environ.get("ASSAY_SERVER") or "http://127.0.0.1:8100"
        self.client = Client(url, scorer=os.environ.get("ASSAY_SCORER") or None)
        self.on_error = check_policy(os.environ.get("ASSAY_ON_ERROR") or "raise", ("raise", "nan", "mean"))

    def scores(self, images, prompts):
        """Scores on the scorer's range, of paths or PIL images."""
        try:
            instructions, sources = prompts_of(prompts)
            if len(images) != len(prompts):
                raise ValueError(f"{len(images)} images, {len(prompts)} prompts")
            return self.client.scores(list(zip(sources, instructions, images)), on_error=self.on_error)
        except ItemError as e:
            raise SystemExit(f"an edit could not be judged, and ASSAY_ON_ERROR is {self.on_error}: {e}") from e
        except Exception as e:
            raise SystemExit(f"no rewards: {type(e).__name__}: {e}") from e


class HPSv3RewardInferencer(_Judge):
    """Replaces the class of hpsv3, for DanceGRPO."""

    def __init__(self, device="cpu", **kwargs):
        super().__init__()
        self.device = device

    def reward(self, image_paths, prompts):
        import torch

        return torch.tensor(self.scores(image_paths, prompts), dtype=torch.float32, device=self.device)


class UnifiedRewardModel(_Judge):
    """Replaces MixGRPO's. An edit that could not be judged counts as judged, with NaN: MixGRPO would turn it into 0."""

    def __init__(self, api_url=None, default_question_type=None, num_workers=None):
        super().__init__(api_url)

    def __call__(self, images, prompts):
        scores = self.scores(images, prompts)
        return scores, [True] * len(scores)
