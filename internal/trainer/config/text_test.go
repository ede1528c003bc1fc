package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTextConfig refuses keys that have no meaning for conversations.
func TestTextConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.yaml")
	text := "mode: text\nbackbone: b\nout: o\ndata: {train: t.jsonl, sampling: group}\npair: concat\n" +
		"number_pictures: '{n}: '\n" +
		"losses: [{kind: l1}]\n" +
		"text: {tune: some, max_tokens: -1}\nvalidate: {by: l1}\n"
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path)
	for _, want := range []string{"data.sampling: is of scorers", "pair: want one of sequence, frames",
		"losses: is of scorers", "number_pictures: is of scorers", "text.tune", "text.max_tokens", "validate.by"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
