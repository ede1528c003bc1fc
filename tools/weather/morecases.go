package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
)

// moreCases are commands that make a folder once, and a judge that asks a server, which is this process.
func moreCases(bin, dir, root, table string) ([]command, error) {
	question := filepath.Join(dir, "question.txt")
	err := os.WriteFile(
		question,
		[]byte("Rate the edit \"[INSTRUCTION]\" from 0 to 2. Answer with the digit alone."),
		0o666,
	)
	if err != nil {
		return nil, err
	}
	backbone := filepath.Join(root, "backbones", "tiny")
	judge := httptest.NewServer(http.HandlerFunc(answer)) // until this process ends
	return []command{{
		name: "score judge",
		args: func(out string) []string {
			return []string{filepath.Join(bin, "score"), "judge", "--config", "editscore", "--url", judge.URL, "--model", "m",
				"--store", filepath.Join(out, "answers"), "--in", table, "--out", filepath.Join(out, "judged.jsonl")}
		},
		results: []string{"judged.jsonl"},
		quick:   true,
	}, {
		name: "train quantize",
		args: func(out string) []string {
			return []string{filepath.Join(bin, "train"), "quantize", "--backbone", filepath.Join(root, "testdata", "oracle",
				"qwen2_5_vl", "backbone"), "--out", filepath.Join(out, "packed"), "--bits", "4", "--block", "32"}
		},
		results: []string{"packed"},
		once:    "packed",
	}, {
		name: "score import",
		args: func(out string) []string {
			return []string{filepath.Join(bin, "score"), "import", "choices", "--base", backbone, "--prompts", question,
				"--choices", "0,1,2", "--out", filepath.Join(out, "digits")}
		},
		results: []string{"digits"},
		quick:   true,
		once:    "digits",
	}}, nil
}

// answer is a chat server that says the same of every edit.
func answer(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{
		"model": "m",
		"choices": []any{map[string]any{"finish_reason": "stop",
			"message": map[string]string{"role": "assistant", "content": `{"score": [20, 10], "reasoning": "so"}`}}},
		"usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
	})
}
