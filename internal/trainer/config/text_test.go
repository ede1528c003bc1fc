package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTextConfig: keys without a meaning for conversations are refused.
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
	for _, want := range []string{"data.sampling: only applies to scorers", "pair: want one of sequence, frames",
		"losses: only applies to scorers", "number_pictures: only applies", "text.tune", "text.max_tokens", "validate.by"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
