"""Trains byte-level BPE with the tokenizers library, for model/fresh: python bpe.py ../../model/fresh/testdata"""
import json
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, processors, trainers

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<image>", "<pad>"]
PROBES = ["It is [8].", "Make the sky purple, don't you'LL see 12345 of them?\n\n  indented\ttabs \r\n", "<|start_header_id|>user<|end_header_id|>\n\n<image>\nQ<|eot_id|>",
          "把背景换成红色 🌞 Ünïcödé\u00a0nbsp\u2028line e\u0301", "", " ", "aaaaaaaaaa abababab", "  \n \n  x"]

out = Path(sys.argv[1])
corpus = (out / "corpus.txt").read_bytes().decode()
expect = []
for size in (256, 300, 700, 1500):
    tok = Tokenizer(models.BPE(ignore_merges=True))
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.train_from_iterator([corpus], trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    bos = SPECIAL[0]
    tok.post_processor = processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[(bos, tok.token_to_id(bos))])
    model = json.loads(tok.to_str())["model"]
    expect.append({"size": size, "tokens": sorted(model["vocab"], key=model["vocab"].get)[256:], "merges": model["merges"],
                   "encodings": [{"text": p, "ids": tok.encode(p).ids} for p in PROBES]})
(out / "bpe.json").write_text(json.dumps(expect, ensure_ascii=False))
