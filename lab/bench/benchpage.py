"""The page that bench.py writes: its tables, and updates of single rows of an earlier page."""

import os
import platform

GROUPS = "Groups of eight edits of one source and instruction"
GRADIENTS = "Scores with their gradients (reward feedback)"


def line(name, x, y):
    return (
        f"| {name} | {x.time:.2f} s | {y.time:.2f} s | **{y.time / x.time:.2f}x** | {x.memory:,.0f} MB | "
        f"{y.memory:,.0f} MB | {x.memory / y.memory:.2f}x |"
    )


def replace(path, rows):
    """Replaces the rows of the page that were measured again. Rows are (name, line)."""
    text, more = path.read_text().split("\n## ", 1)  # other parts are from other machines and days
    text = text.splitlines()
    for name, new in rows:
        if name.startswith("eight edits") and not any(t.startswith(f"| {name} |") for t in text):
            if not any(t.startswith(GROUPS) for t in text):
                at = max(i for i, t in enumerate(text) if t.startswith("| batches of"))
                text[at + 1 : at + 1] = groups_heading()
            at = max(i for i, t in enumerate(text) if t.startswith(("| eight edits", "| what | together")))
            text.insert(at + (1 if text[at].startswith("| eight") else 2), f"| {name} |")
        elif not any(
            t.startswith(f"| {name} |") for t in text
        ):  # a new row goes below the last one of its table
            if name.startswith("batches of") and not any(t.startswith(GRADIENTS) for t in text):
                at = max(i for i, t in enumerate(text) if t.startswith("| DINOv2"))
                text[at + 1 : at + 1] = heading()
            last = (
                "| batches of"
                if any(t.startswith("| batches of") for t in text) and name.startswith("batches")
                else "| start to first score"
            )
            if name.startswith("batches"):
                last = last if last == "| batches of" else "| batch |"
            at = max(i for i, t in enumerate(text) if t.startswith(last))
            text.insert(at + (2 if last == "| batch |" else 1), f"| {name} |")
        text = [new if t.startswith(f"| {name} |") else t for t in text]
    path.write_text("\n".join(text) + "\n\n## " + more)


def heading():
    return [
        "",
        f"{GRADIENTS} of backbones/tiny-scorer, 64 pairs of 512 x 512 pixels that were decoded before: ours down to "
        f"the",
        "pictures, PyTorch's to `pixel_values`:",
        "",
        "| batch | ours | PyTorch | speed | our peak memory | PyTorch's |",
        "|---|---|---|---|---|---|",
    ]


def groups_heading():
    return [
        "",
        f"{GROUPS}, the same eight sequences on all sides. \"Together\" runs what they",
        "begin with once; beside it stand our own edits one by one, and PyTorch's one by one:",
        "",
        "| what | together | one by one | gain | PyTorch | speed | our peak memory | PyTorch's | memory |",
        "|---|---|---|---|---|---|---|---|---|",
    ]


def write(path, versions, rows, encoders, gradients, together, tokens, rounds):
    """Writes a page with all rows; versions are those of the compared packages. Later sections are kept."""
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "")
    flags = next((l.split() for l in open("/proc/cpuinfo") if l.startswith("flags")), [])
    sets = ", ".join(f for f in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile") if f in flags)
    lines = [
        "# Measured beside PyTorch",
        "",
        "Written by `make bench` on the machine named below: ratios within one run, each side in fresh processes that "
        "alternate.",
        "Speed above 1x means that Assay is faster, memory below 1x that it needs less.",
        "",
        f"LLaVA-NeXT architecture, 8 layers of width 1024 with random weights, two pictures in sequence, {tokens} tokens, "
        "float32,",
        "batch 1 or 4, LoRA r 8 on q_proj and v_proj. A step is forward, loss and backward over precomputed image features.",
        "Scoring starts from decoded pictures (resizing, tiling, vision tower, language model). PyTorch runs eagerly with "
        "its",
        "fused attention; both sides compute logits for the answer's tokens only. The tiny scorer is backbones/tiny-scorer",
        "(Qwen2.5-VL's architecture, frames of 64 x 64 pixels). Before our steps of 4 pairs the same pairs are scored, as "
        "in a",
        "run's validation. The tiny scorer's 2,419 pairs are PNG files. PyTorch uses batches of 64 and is timed without "
        "process",
        "start-up, ours with it.",
        "",
        "| what | ours | PyTorch | speed | our peak memory | PyTorch's | memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, x, y in rows:
        lines.append(line(name, x, y))
    lines += [
        "",
        "Encoders of `label`, float32, batches of 16, from picture files to embeddings:",
        "",
        "| encoder | ours | transformers | speed | our peak memory | transformers' |",
        "|---|---|---|---|---|---|",
    ]
    lines += [new for _, new in encoders] + heading() + [new for _, new in gradients]
    lines += groups_heading() + [new for _, new in together]
    facts = ", ".join(f"{k} {v}" for k, v in versions.items())
    lines += [
        "",
        f"{cpu} ({sets}), {os.cpu_count()} cores, "
        f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB, Linux {platform.release()}; "
        f"{facts}; ONNX Runtime 1.31.1.",
        f"Medians over {rounds} rounds (64 pairs: one). Load of the machine when it ended: {os.getloadavg()[0]:.1f}.",
        "",
    ]
    text = "\n".join(lines)
    old = path.read_text() if path.exists() else ""
    keep = old[old.index("\n## ") :] if "\n## " in old else ""
    path.write_text(text + keep)
    print(f"written to {path}")
