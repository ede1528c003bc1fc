package language_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/model"
	"assay/model/fresh"
	"assay/model/language"
	"assay/model/text"
)

// TestSpread: padded rows produce the same bits: of prompts that run together, of one or several tokens after them, and
// of a long prompt, run at once or in two parts.
func TestSpread(t *testing.T) {
	sizes, err := fresh.Defaults(fresh.Qwen25VL)
	if err != nil {
		t.Fatal(err)
	}
	sizes.Hidden, sizes.Heads, sizes.KVHeads, sizes.Layers, sizes.Intermediate = 1024, 8, 2, 2, 2048
	dir := filepath.Join(t.TempDir(), "backbone")
	if _, err := fresh.Create(dir, sizes, []string{filepath.Join("..", "..", "README.md")}, 1); err != nil {
		t.Fatal(err)
	}
	var all [2][][]float32
	for i := range all {
		l, err := language.Open(dir, "", model.Options{Device: "cpu", Threads: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if i == 1 {
			err = l.OpenUnspread()
		}
		if err == nil {
			all[i], err = spoken(l)
		}
		if err != nil {
			t.Fatal(err)
		}
		whole, err := inParts(l, 0)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := inParts(l, 128)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(whole, parts); diff != "" {
			t.Errorf("without padding: %v, a prompt at once and in parts: %s", i == 1, diff)
		}
		all[i] = append(all[i], whole)
	}
	if diff := cmp.Diff(all[0], all[1]); diff != "" {
		t.Error(diff)
	}
}

// inParts returns the logits after a long prompt that runs in two parts, the first of first rows; 0: at once.
func inParts(l *language.Model, first int) ([]float32, error) {
	c, err := l.NewCache(1, 512)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	words := text.Content{Text: strings.Repeat("what is there to see? ", 40)}
	p, err := l.Prompt([]text.Message{{Role: "user", Content: []text.Content{words}}}, nil)
	if err != nil {
		return nil, err
	}
	if first > 0 {
		part := language.Stretch{Prompt: p, To: first, Logits: 1}
		if _, err := l.Forward(context.Background(), c, 0, part); err != nil {
			return nil, err
		}
	}
	rest := language.Stretch{Prompt: p, From: first, To: len(p.IDs), Logits: 1}
	logits, err := l.Forward(context.Background(), c, 0, rest)
	if err != nil {
		return nil, err
	}
	return logits[0], nil
}
