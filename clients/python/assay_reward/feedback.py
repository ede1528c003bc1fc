"""The score as a differentiable function in PyTorch: `loss = 10 - reward(client, image, source, instruction)`."""

import torch

# Gradients of one request: 64 MiB of float32, 12 bytes a pixel, and at most as many pairs as a server takes by default.
_PIXELS, _PAIRS = 64 * 2**20 // 12, 256


def _pixels(image, what="image"):
    """[3, H, W] in 0..1 to uint8 [H, W, 3]."""
    if not image.is_floating_point():
        raise TypeError(f"{what}: {image.dtype}, but floating point in 0..1 is wanted (divide levels by 255)")
    image = image.detach().float()
    if not torch.isfinite(image).all():
        raise ValueError(f"{what}: a pixel is NaN or infinite")
    # An editor's overshoot is clamped, another scale is refused.
    if image.numel() and (image.min() < -1.01 or image.max() > 2):
        raise ValueError(f"{what}: pixels from {image.min():.3g} to {image.max():.3g}, but 0..1 is wanted")
    return (image.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).cpu().contiguous()


class RewardFunction(torch.autograd.Function):
    """Scores [N], float32, of edited images [N, 3, H, W] in 0..1. Where a gradient is wanted one request gives
    scores and d score / d pixel of all images, which the backward pass multiplies in float32, whatever the images'
    type. Images are rounded to 8 bits on the way, which counts as the identity; where a value lies outside 0..1 the
    gradient is kept."""

    @staticmethod
    def forward(ctx, images, client, sources, instructions):
        pairs = [(s, t, _pixels(x, f"image {i}")) for i, (x, s, t) in enumerate(zip(images, sources, instructions))]
        if not ctx.needs_input_grad[0]:
            return images.new_tensor([client.score(s, t, [x])[0] for s, t, x in pairs], dtype=torch.float32)
        each = max(1, min(_PAIRS, _PIXELS // max(1, images.shape[-2] * images.shape[-1])))
        got = [g for i in range(0, len(pairs), each) for g in client.gradients(pairs[i : i + each])]
        levels = [torch.frombuffer(g.values, dtype=torch.float32).reshape(g.shape).permute(2, 0, 1) for g in got]
        ctx.save_for_backward(torch.stack(levels))
        ctx.images = images.device, images.dtype
        return images.new_tensor([g.score for g in got], dtype=torch.float32)

    @staticmethod
    def backward(ctx, upstream):
        (levels,) = ctx.saved_tensors
        device, dtype = ctx.images
        grads = levels.to(device) * (255 * upstream.float()).reshape(-1, 1, 1, 1)  # a level is 1/255
        return grads.to(dtype), None, None, None


def reward(client, images, sources, instructions):
    """Differentiable scores, float32, on the scorer's range. `images`: [N, 3, H, W] or [3, H, W] in 0..1;
    `sources`: a picture of any kind that `encode` takes (or an image [3, H, W] in 0..1) for each, or one;
    `instructions`: a text for each, or one. A pixel that is NaN or infinite, or images of integers, raise."""
    single = images.dim() == 3
    batch = images.unsqueeze(0) if single else images

    def each(v, one):
        return [v] * len(batch) if one else list(v)

    one_source = not isinstance(sources, (list, tuple)) and not (torch.is_tensor(sources) and sources.dim() == 4)
    sources = each(sources, one_source)
    instructions = each(instructions, isinstance(instructions, str))
    if len(sources) != len(batch) or len(instructions) != len(batch):
        raise ValueError(f"{len(batch)} images, {len(sources)} sources, {len(instructions)} instructions")
    sources = [
        _pixels(s, f"source {i}") if torch.is_tensor(s) and s.is_floating_point() else s
        for i, s in enumerate(sources)
    ]
    scores = RewardFunction.apply(batch, client, sources, instructions)
    return scores[0] if single else scores
