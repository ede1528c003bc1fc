ln -s backbones/tiny-clip clip-vit-large-patch14
head -1 edits.jsonl >step-0.jsonl
tail -1 edits.jsonl | sed 's/"c"/"b"/' >step-500.jsonl
