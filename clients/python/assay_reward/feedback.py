"""The score as a differentiable function in PyTorch: `loss = 10 - reward(client, image, source, instruction)`."""

import torch

# Gradients per request: 64 MiB of float32, 12 bytes per pixel.
_PIXELS = 64 * 2**20 // 12


def _pixels(image, what="image"):
    """[3, H, W] in 0..1 to uint8 [H, W, 3]."""
    if not image.is_floating_point():
        raise TypeError(f"{what}: {image.dtype}, want floating point in 0..1 (divide levels by 255)")
    image = image.detach().float()
    if not torch.isfinite(image).all():
        raise ValueError(f"{what}: a pixel is NaN or infinite")
    _check_range(image, what)
    return (image.clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).cpu().contiguous()


def _check_range(image, what):
    """An editor's overshoot is clamped: any values up to 0.1 outside 0..1, and one in a hundred up to 0.5. More than
    that is another scale."""
    if not image.numel():
        return
    far = ((image < -0.1) | (image > 1.1)).float().mean()
    low, high, share = torch.stack((image.min(), image.max(), far)).tolist()
    if low < -0.5 or high > 1.5 or share > 0.01:
        outside = ((image < 0) | (image > 1)).float().mean().item()
        raise ValueError(
            f"{what}: pixels from {low:.3g} to {high:.3g}, {outside:.0%} of them outside 0..1: scale it to 0..1, "
            "(x + 1) / 2 from -1..1 as a VAE decodes, x / 255 from levels; or clamp(0, 1) it, if 0..1 is its scale"
        )


class RewardFunction(torch.autograd.Function):
    """Scores [N], float32, of edited images [N, 3, H, W] in 0..1. If a gradient is needed, one request returns scores
    and d score / d pixel of all images, which the backward pass multiplies in float32, whatever the images' dtype.
    Images are rounded to 8 bits in between, which counts as the identity; values outside 0..1 keep their gradient.
    There are no second derivatives: computing them raises."""

    @classmethod
    def apply(cls, images, *args):
        """A derivative of the gradients is detected by an empty slice of the images: the images themselves may be
        modified in place before the backward pass."""
        return super().apply(images, images[:0].clone(), *args)

    @staticmethod
    def forward(ctx, images, anchor, client, sources, instructions):
        pairs = [(s, t, _pixels(x, f"image {i}")) for i, (x, s, t) in enumerate(zip(images, sources, instructions))]
        if not ctx.needs_input_grad[0]:
            return images.new_tensor(client.scores(pairs), dtype=torch.float32)
        each = max(1, _PIXELS // max(1, images.shape[-2] * images.shape[-1]))
        got = [g for i in range(0, len(pairs), each) for g in client.gradients(pairs[i : i + each])]
        levels = [torch.frombuffer(g.values, dtype=torch.float32).reshape(g.shape).permute(2, 0, 1) for g in got]
        levels = torch.stack(levels) if levels else torch.zeros(images.shape)
        ctx.save_for_backward(levels, anchor)
        ctx.images = images.device, images.dtype
        return images.new_tensor([g.score for g in got], dtype=torch.float32)

    @staticmethod
    def backward(ctx, upstream):
        levels, anchor = ctx.saved_tensors
        device, dtype = ctx.images
        grads = levels.to(device) * (255 * upstream.float()).reshape(-1, 1, 1, 1)  # a level is 1/255
        grads = grads.to(dtype)
        if (
            torch.is_grad_enabled()
        ):  # create_graph=True: torch's once_differentiable does not raise if upstream is constant
            grads = _Once.apply(grads.detach(), anchor, upstream)
        return grads, None, None, None, None


class _Once(torch.autograd.Function):
    """The identity, whose derivative with respect to the inputs of anchor and upstream raises."""

    @staticmethod
    def forward(ctx, grads, anchor, upstream):
        return grads.view_as(grads)

    @staticmethod
    def backward(ctx, upstream):
        raise RuntimeError(
            "reward() has no second derivatives: exclude it from gradient penalties (create_graph=True)"
        )


def reward(client, images, sources, instructions):
    """Differentiable scores, float32, on the scorer's range. `images`: [N, 3, H, W] or [3, H, W] in 0..1;
    `sources`: a picture of any kind that `encode` accepts (or an image [3, H, W] in 0..1) for each, or one for all;
    None for judges of a single picture; a list of pictures for each, for judges of several sources;
    `instructions`: a text for each, or one for all. Images of another scale, or of integers, raise, and so do pixels
    that are NaN or infinite. Small overshoot is clamped. Images without a gradient are scored in one request. Without
    images the scores are empty, [0]."""
    if not torch.is_tensor(images):
        raise TypeError(f"images: want a tensor [3, H, W] or [N, 3, H, W], not {type(images).__name__}")
    if images.dim() not in (3, 4) or images.shape[-3] != 3:
        raise ValueError(f"images: want [3, H, W] or [N, 3, H, W], not {list(images.shape)}")
    single = images.dim() == 3
    batch = images.unsqueeze(0) if single else images

    def each(v, one):
        return [v] * len(batch) if one else list(v)

    one_source = not isinstance(sources, (list, tuple)) and not (torch.is_tensor(sources) and sources.dim() == 4)
    if one_source:
        sources = _source(sources, "source")
    sources = each(sources, one_source)
    instructions = each(instructions, isinstance(instructions, str))
    if len(sources) != len(batch) or len(instructions) != len(batch):
        raise ValueError(f"{len(batch)} images, {len(sources)} sources, {len(instructions)} instructions")
    sources = [_source(s, f"source {i}") for i, s in enumerate(sources)]
    scores = RewardFunction.apply(batch if torch.is_grad_enabled() else batch.detach(), client, sources, instructions)
    return scores[0] if single else scores


def lower_bound(scores, penalty=1.0):
    """A differentiable lower bound over several judges: the mean minus `penalty` times the standard deviation (over the
    judges, dividing by their number) of the scores [N] of each, on one range. It equals the server's
    `combine: lower_bound` for judges without sigma. Where all agree, the spread has no gradient."""
    scores = torch.stack(list(scores))
    variance = scores.var(0, correction=0)
    spread = torch.where(variance > 0, variance, torch.ones_like(variance)).sqrt()
    return scores.mean(0) - penalty * torch.where(variance > 0, spread, torch.zeros_like(spread))


def _source(picture, what):
    if isinstance(picture, (list, tuple)):
        return [_source(p, what) for p in picture]
    return _pixels(picture, what) if torch.is_tensor(picture) and picture.is_floating_point() else picture
