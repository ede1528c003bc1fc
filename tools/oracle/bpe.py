"""Trains byte-level BPE with the tokenizers library, for model/fresh: python bpe.py ../../model/fresh/testdata"""
import json
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}|", r"\p{N}|")
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<image>", "<pad>"]
QWEN_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>",
                "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"]
DECOMPOSED = "cafe\u0301 cafe\u0301 " * 20  # after the corpus: to be normalised
PROBES = ["It is [8].", "Make the sky purple, don't you'LL see 12345 of them?\n\n  indented\ttabs \r\n", "<|start_header_id|>user<|end_header_id|>\n\n<image>\nQ<|eot_id|>",
          "把背景换成红色 🌞 Ünïcödé\u00a0nbsp\u2028line e\u0301", "", " ", "aaaaaaaaaa abababab", "  \n \n  x"]

out = Path(sys.argv[1])
corpus = (out / "corpus.txt").read_bytes().decode() + DECOMPOSED
expect = []
for family, size in [("llava_next", n) for n in (256, 300, 700, 1500)] + [("qwen2_5_vl", n) for n in (256, 700)]:
    qwen = family == "qwen2_5_vl"
    tok = Tokenizer(models.BPE(ignore_merges=not qwen))
    if qwen:
        tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN2 if qwen else LLAMA3), behavior="isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.train_from_iterator([corpus], trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in (QWEN_SPECIAL if qwen else SPECIAL)])
    if qwen:
        tok.post_processor = processors.ByteLevel(trim_offsets=False)
    else:
        bos = SPECIAL[0]
        tok.post_processor = processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[(bos, tok.token_to_id(bos))])
    model = json.loads(tok.to_str())["model"]
    expect.append({"family": family, "size": size, "tokens": sorted(model["vocab"], key=model["vocab"].get)[256:], "merges": model["merges"],
                   "encodings": [{"text": p, "ids": tok.encode(p).ids} for p in PROBES]})
(out / "bpe.json").write_text(json.dumps(expect, ensure_ascii=False))
