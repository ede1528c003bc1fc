echo '{"id": 1, "max_new_tokens": 4, "messages": [{"role": "user", "content": [{"type": "image", "image": "a.png"}, {"type": "text", "text": "What?"}]}]}' >questions.jsonl
