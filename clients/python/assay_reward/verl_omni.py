"""A reward function for verl-omni's visual reward managers, without the pickle wire: it carries the source picture.

    reward.custom_reward_function.path: .../assay_reward/verl_omni.py
    reward.custom_reward_function.name: compute_score

or, as one of several of MultiVisualRewardManager, an entry of reward.reward_functions. It must have `required: true`:
without it verl-omni takes a failure for a score of 0 (see docs/reward.md).

`extra_info["source"]`, or `extra_info["source_img"]` as in verl-omni's own data, is the picture before the edit: a
path, bytes of a file, {"bytes", "path"} as a parquet file has it, a PIL image or uint8 [H, W, 3]. The instruction is
`extra_info["instruction"]`, else `ground_truth`, as verl-omni's own reward has it. The score is on 0 to 1, as those of
the other rewards of a weighted sum are; `score01: false` gives it on the scorer's range, 0 to 10.
"""

import asyncio
from functools import lru_cache

from assay_reward import Client


@lru_cache(maxsize=8)
def _client(url, scorer):
    return Client(url, scorer=scorer)


async def compute_score(
    solution_image,
    ground_truth,
    extra_info=None,
    server_url="http://127.0.0.1:8100",
    scorer=None,
    score01=True,
    **kwargs,
):
    info = extra_info or {}
    source = info["source"] if info.get("source") is not None else info.get("source_img")
    if source is None:
        raise ValueError('extra_info["source"] or ["source_img"] is missing: the picture before the edit')
    image = solution_image[0] if solution_image.ndim == 4 else solution_image  # uint8 [3, H, W]
    edit = image.permute(1, 2, 0).contiguous()
    client, instruction = _client(server_url, scorer), info.get("instruction") or ground_truth
    scores = await asyncio.get_running_loop().run_in_executor(
        None, lambda: client.score(source, instruction, [edit], score01=score01)
    )
    return {"score": scores[0]}
