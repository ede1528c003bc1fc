package language_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/data"
	"assay/model"
	"assay/model/language"
	"assay/model/text"
)

// TestPromptInParts: a prompt that runs in parts, cut within a picture, produces the same bits as in one run.
func TestPromptInParts(t *testing.T) {
	picture, err := data.Open("../../testdata/oracle/images/coffee.png", data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	message := []text.Message{{Role: "user", Content: []text.Content{{Image: true}, {Text: "What is there to see?"}}}}
	for _, family := range []string{"llavanext", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"} {
		l, err := language.Open(filepath.Join("../../testdata/oracle", family, "backbone"), "",
			model.Options{Device: "cpu", Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		p, err := l.Prompt(message, []*data.Picture{picture})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.ImageFeatures(context.Background(), p); err != nil {
			t.Fatal(err)
		}
		c, err := l.NewCache(1, (len(p.IDs)/64+1)*64)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		within := p.Tokens.Pictures[0] + p.Pictures[0].Tokens/2
		var whole []float32
		for _, cuts := range [][]int{{len(p.IDs)}, {within / 2 * 2, len(p.IDs)}, {within, within + 1, len(p.IDs)}} {
			from, logits := 0, [][]float32(nil)
			for _, to := range cuts {
				if logits, err = l.Forward(context.Background(), c, 0,
					language.Stretch{Prompt: p, From: from, To: to, Logits: 1}); err != nil {
					t.Fatal(err)
				}
				from = to
			}
			if whole == nil {
				whole = logits[0]
			} else if diff := cmp.Diff(whole, logits[0]); diff != "" {
				t.Errorf("%s, %d rows cut at %v: %s", family, len(p.IDs), cuts, diff)
			}
		}
	}
}
