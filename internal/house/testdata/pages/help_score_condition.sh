score batch --scorer DIR --in edits.jsonl --out scores.parquet
score() { rm -rf labels && command score "$@"; } # each example makes the same folder
