mkdir -p build/demo/labels/cache
ln -s backbones/tiny-clip clip
score drift --before edits.jsonl --after edits.jsonl --scorer DIR --clip clip
