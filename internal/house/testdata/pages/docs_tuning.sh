mkdir triplets
for emotion in amusement awe contentment excitement anger disgust fear sadness; do
	cp b.png triplets/$emotion.png
	echo '{"input": "../a.png", "target": "'$emotion'.png", "instruction": "make it '$emotion'", "emotion": "'$emotion'", "clip_i": 0.9, "vie": 5, "clip_t": 0.3, "aesthetic": 5}'
done >triplets/metadata.jsonl
