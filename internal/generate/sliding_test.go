package generate

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"assay/chat"
	"assay/internal/oracle"
)

// TestSlidingWindow: the answer matches transformers when the first words are outside the window
// (tools/oracle/make_sliding.py).
func TestSlidingWindow(t *testing.T) {
	want := oracle.Read[struct {
		TextConfig        json.RawMessage `json:"text_config"`
		Question          string
		RepetitionPenalty float64   `json:"repetition_penalty"`
		MaxNewTokens      int       `json:"max_new_tokens"`
		InputIDs          []int64   `json:"input_ids"`
		NewIDs            []int64   `json:"new_ids"`
		LogProbs          []float32 `json:"log_probs"`
	}](t, filepath.Join("testdata", "sliding.json"))
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../testdata/oracle/llavanext/backbone")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "config.json")
	config := oracle.Read[map[string]json.RawMessage](t, path)
	config["text_config"] = want.TextConfig
	raw, err := json.Marshal(config)
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	messages := []chat.Message{{Role: "user", Content: []chat.Part{{Text: want.Question}}}}
	p, err := m.prompt(messages)
	if err != nil || !slices.Equal(p.IDs, want.InputIDs) {
		t.Fatalf("ids %v, want %v (%v)", p.IDs, want.InputIDs, err)
	}
	a, err := m.Chat(context.Background(), messages, chat.Options{MaxNewTokens: want.MaxNewTokens, LogProbs: true,
		RepetitionPenalty: &want.RepetitionPenalty})
	if err != nil || !slices.Equal(a.TokenIDs, want.NewIDs) {
		t.Fatalf("%+v, want %v (%v)", a, want.NewIDs, err)
	}
	got := make([]float32, len(a.LogProbs))
	for i, v := range a.LogProbs {
		got[i] = float32(v)
	}
	oracle.Close(t, "log_probs", got, want.LogProbs, 1e-4, 0)
}
