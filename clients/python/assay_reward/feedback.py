"""The score as a differentiable function in PyTorch: `loss = 10 - reward(client, image, source, instruction)`."""
import torch


def _pixels(image):
    """[3, H, W] in 0..1 to uint8 [H, W, 3]."""
    return (image.detach().float().clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).cpu().contiguous()


class RewardFunction(torch.autograd.Function):
    """Scores [N] of edited images [N, 3, H, W] in 0..1. The backward pass asks the server for d score / d pixel. Images are
    rounded to 8 bits on the way, which counts as the identity; where a value lies outside 0..1 the gradient is kept."""

    @staticmethod
    def forward(ctx, images, client, sources, instructions):
        ctx.client, ctx.sources, ctx.instructions = client, sources, instructions
        ctx.save_for_backward(images)
        scores = [client.score(s, i, [_pixels(x)])[0] for x, s, i in zip(images, sources, instructions)]
        return images.new_tensor(scores)

    @staticmethod
    def backward(ctx, upstream):
        images, = ctx.saved_tensors
        grads = []
        for image, source, instruction, up in zip(images, ctx.sources, ctx.instructions, upstream):
            g = ctx.client.gradient(source, instruction, _pixels(image))
            level = torch.frombuffer(g.values, dtype=torch.float32).reshape(g.shape)
            grads.append(level.permute(2, 0, 1).to(image) * (255 * up))  # a level is 1/255
        return torch.stack(grads), None, None, None


def reward(client, images, sources, instructions):
    """Differentiable scores on the scorer's range. `images`: [N, 3, H, W] or [3, H, W] in 0..1; `sources`: a picture of any
    kind that `encode` takes (or an image [3, H, W] in 0..1) for each, or one; `instructions`: a text for each, or one."""
    single = images.dim() == 3
    batch = images.unsqueeze(0) if single else images
    def each(v, one):
        return [v] * len(batch) if one else list(v)

    one_source = not isinstance(sources, (list, tuple)) and not (torch.is_tensor(sources) and sources.dim() == 4)
    sources = each(sources, one_source)
    instructions = each(instructions, isinstance(instructions, str))
    if len(sources) != len(batch) or len(instructions) != len(batch):
        raise ValueError(f"{len(batch)} images, {len(sources)} sources, {len(instructions)} instructions")
    sources = [_pixels(s) if torch.is_tensor(s) and s.is_floating_point() else s for s in sources]
    scores = RewardFunction.apply(batch, client, sources, instructions)
    return scores[0] if single else scores
