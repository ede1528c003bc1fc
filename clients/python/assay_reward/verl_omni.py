"""A reward function for verl-omni's visual reward manager, without the pickle wire: it carries the source picture.

    reward.custom_reward_function.path: .../assay_reward/verl_omni.py
    reward.custom_reward_function.name: compute_score

`extra_info["source"]` is the picture before the edit: a path, bytes of a file, a PIL image or uint8 [H, W, 3];
`ground_truth` the instruction. The score is 0 to 10.
"""

import asyncio
from functools import lru_cache

from assay_reward import Client


@lru_cache(maxsize=8)
def _client(url, scorer):
    return Client(url, scorer=scorer)


async def compute_score(
    solution_image, ground_truth, extra_info=None, server_url="http://127.0.0.1:8100", scorer=None, **kwargs
):
    source = (extra_info or {}).get("source")
    if source is None:
        raise ValueError('extra_info["source"] is missing: the picture before the edit')
    image = solution_image[0] if solution_image.ndim == 4 else solution_image  # uint8 [3, H, W]
    edit = image.permute(1, 2, 0).contiguous()
    scores = await asyncio.get_running_loop().run_in_executor(
        None, _client(server_url, scorer).score, source, ground_truth, [edit]
    )
    return {"score": scores[0]}
