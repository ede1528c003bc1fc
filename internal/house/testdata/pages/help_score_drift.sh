ln -s backbones/tiny-clip clip-vit-large-patch14
ln -s backbones/tiny-scorer editreward
for i in 1 2 3 4 5 6 7 8; do
	head -1 edits.jsonl | sed 's/"blur the/"'$i': blur the/' >>step-0.jsonl
	tail -1 edits.jsonl | sed 's/"c"/"b"/; s/"blur the/"'$i': blur the/' >>step-500.jsonl
done
