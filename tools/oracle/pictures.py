"""Pictures like transformers' models see them."""
from PIL import Image


def picture(path):
    """A picture in RGB, transparency over white."""
    im = Image.open(path)
    if im.mode != "RGBA":
        return im.convert("RGB")
    white = Image.new("RGBA", im.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, im).convert("RGB")
