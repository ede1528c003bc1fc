"""Sizes to which transformers resizes images for Qwen2.5-VL, for model/qwen25vl: python smart_resize.py > ../../model/qwen25vl/testdata/sizes.json"""
import json
import random

from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

random.seed(3)
rows = []
for factor, least, most in ((28, 3136, 12845056), (28, 3136, 1003520), (16, 1024, 7680), (28, 200704, 401408), (32, 4 * 1024, 16384)):
    sizes = [(random.randint(1, 40), random.randint(1, 200)) for _ in range(40)] + [(random.randint(30, 3000), random.randint(30, 3000)) for _ in range(60)]
    sizes += [(int((k + 0.5) * factor), factor * k) for k in range(1, 20)] + [(1, 200), (1, 201), (4000, 20), (factor, factor)]
    for h, w in sizes:
        try:
            rows.append([factor, least, most, h, w, *smart_resize(h, w, factor, least, most)])
        except ValueError:
            rows.append([factor, least, most, h, w, 0, 0])  # refused
print(json.dumps(rows, separators=(",", ":")))
