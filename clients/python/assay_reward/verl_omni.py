"""A reward function for verl-omni's visual reward managers, without pickle: it sends the source picture.

    reward.custom_reward_function.path: .../assay_reward/verl_omni.py
    reward.custom_reward_function.name: compute_score

or, as one of several of MultiVisualRewardManager, an entry of reward.reward_functions. It must have `required: true`:
without it verl-omni turns an exception into a score of 0. With `on_error: nan` a failure is NaN in both cases.

`extra_info["source"]`, or `extra_info["source_img"]` as in verl-omni's own data, is the picture before the edit: a
path, bytes of a file, {"bytes", "path"} as a parquet file has it, a PIL image or uint8 [H, W, 3], or a list of several.
Judges of a single picture need none: `source: false`. The instruction is
`extra_info["instruction"]`, else `ground_truth`, as in verl-omni's own reward. The score is on 0 to 1, like the other
rewards of a weighted sum; with `score01: false` it is on the scorer's range, 0 to 10.
"""

import math
from functools import lru_cache

from assay_reward import AsyncClient


@lru_cache(maxsize=8)
def _client(url, scorer, in_flight):
    return AsyncClient(url, scorer=scorer, in_flight=in_flight)


async def compute_score(
    solution_image,
    ground_truth,
    extra_info=None,
    server_url="http://127.0.0.1:8100",
    scorer=None,
    score01=True,
    on_error="raise",
    source=True,
    in_flight=32,
    **kwargs,
):
    """The score of one edit. `on_error`: raise, or nan: any failure is NaN, including an unknown scorer or a missing
    source, since MultiVisualRewardManager would turn an exception into 0."""
    if on_error not in ("raise", "nan"):
        raise ValueError(f"on_error={on_error!r}: want raise or nan; one edit has no group for a mean")
    try:
        score = await _score(
            solution_image, ground_truth, extra_info or {}, server_url, scorer, score01, source, in_flight
        )
    except Exception:
        if on_error == "raise":
            raise
        score = math.nan
    return {"score": score}


async def _score(image, ground_truth, info, url, scorer, score01, source, in_flight):
    before = None
    if source:
        before = info["source"] if info.get("source") is not None else info.get("source_img")
        if before is None:
            raise ValueError('extra_info["source"] or ["source_img"] is missing: the picture before the edit')
    if image.ndim == 4:
        if len(image) != 1:
            raise ValueError(f"want one picture, not {len(image)}: videos are not scored")
        image = image[0]  # uint8 [3, H, W]
    edit = image.permute(1, 2, 0).contiguous()
    client, instruction = _client(url, scorer, in_flight), info.get("instruction") or ground_truth
    return (await client.score(before, instruction, [edit], score01=score01))[0]
