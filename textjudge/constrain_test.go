package textjudge

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"assay/chat"
	"assay/internal/generate"
	"assay/internal/grammar"
	"assay/internal/oracle"
	"assay/internal/table"
	_ "assay/model/families"
)

// follower is a scripted model whose answers can follow any grammar.
type follower struct{ scripted }

func (follower) Follows(*grammar.Grammar) error { return nil }

// TestLanguages: the grammars of the shipped judges and of others read every text of their languages.
func TestLanguages(t *testing.T) {
	grammars := map[string]*Grammar{
		"number": {Value: &Value{Number: "x", Range: []float64{-2, 2.5}}},
		"list":   {Value: &Value{List: []string{"x", "y"}, Range: []float64{0, 1}}},
		"choice": {Value: &Value{Choice: map[string]float64{"yes": 1, "no.": 0, " odd": 2}, As: "x"}},
		"choices": {
			Object: map[string]Value{"a": {Choice: map[string]float64{"1": 1, "true": 2, "null": 3, "b \"": 4}, As: "x"}},
		},
	}
	for _, name := range Shipped() {
		folder, file, err := find(name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := readConfig(folder, file, name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.Questions {
			grammars[fmt.Sprint(name, " ", c.Questions[i].Name)] = &c.Questions[i].Answer
		}
	}
	m, err := generate.Open(filepath.Join(oracle.Folders(t)[0], "qwen2_5_vl", "backbone"), generate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for name, g := range grammars {
		language, err := g.language()
		if g.After != "" || g.Lines != nil || g.Tag != "" {
			if err == nil {
				t.Errorf("%s: what stands before the numbers is not understood, and not refused", name)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		hot, all := 1.8, 0
		for seed := range uint64(2) { // a random model says anything that the language allows
			a, err := m.Chat(context.Background(), []chat.Message{{Role: "user", Content: []chat.Part{{Text: "go on"}}}},
				chat.Options{MaxNewTokens: 90, Temperature: &hot, TopK: &all, Seed: seed, Grammar: language})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			numbers, err := g.Read(a.Text)
			if err != nil || a.Finish != chat.FinishStop || len(numbers) == 0 {
				t.Errorf("%s: %q: %v, %v", name, a.Text, numbers, err)
			}
		}
	}
	for text, want := range map[string]bool{`{"a":1}`: true, `{"a": "1"}`: true, `{"a":true}`: true, `{"a":null}`: false,
		`{"a":"null"}`: true, `{"a":"b \""}`: true, `{"a":"2"}`: false} {
		language, err := grammars["choices"].language()
		if err != nil || language.Has(text) != want {
			t.Errorf("%s: %v, %v", text, !want, err)
		}
	}
}

// TestConstrained: a constrained judge says so in all its results, has its own fingerprint, and passes the grammar to
// the model; models that cannot follow one are refused.
func TestConstrained(t *testing.T) {
	var asked []*grammar.Grammar
	m := follower{func(_ []chat.Message, o chat.Options) (chat.Answer, error) {
		asked = append(asked, o.Grammar)
		return chat.Answer{Text: `{"score": [4, 9], "reasoning": ""}`}, nil
	}}
	free, bound := open(t, "viescore", m, Settings{}), open(t, "viescore", m, Settings{Constrained: true})
	if free.fingerprint == bound.fingerprint {
		t.Error("a constrained judge has the same fingerprint")
	}
	dir := t.TempDir()
	for _, j := range []*Judge{free, bound} {
		asked = nil
		is := j == bound
		out := filepath.Join(dir, fmt.Sprint(is, ".jsonl"))
		r, err := j.Table(t.Context(), table.Options{In: makeTable(t, dir, 1), Out: out})
		if err != nil || r.Constrained != is || strings.Contains(r.String(), "constrained") != is ||
			strings.Contains(j.Words(), "constrained") != is || len(asked) != 2 || (asked[0] != nil) != is {
			t.Errorf("constrained %t: %+v, %v, %d asked", is, r, err, len(asked))
		}
		if answers := fmt.Sprint(records(t, out)[0]["answers"]); strings.Contains(answers, "constrained:true") != is {
			t.Errorf("constrained %t: %s", is, answers)
		}
	}
	at := chat.DefaultServer()
	at.URL, at.Model = "http://localhost:1", "m"
	for _, c := range []struct {
		judge    string
		response bool
		want     string
	}{
		{"viescore", false, "response_format: true"}, {"viescore", true, ""},
		{"unifiedreward-edit/pair", true, "not a JSON object"},
	} {
		at.ResponseFormat = c.response
		remote, err := chat.OpenRemote(at)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Open(c.judge, remote, Settings{Constrained: true})
		if (err == nil) != (c.want == "") ||
			err != nil && (!strings.Contains(err.Error(), c.want) || !errors.Is(err, chat.ErrRequest)) {
			t.Errorf("%s: %v, want %q", c.judge, err, c.want)
		}
	}
	if _, err := Open("viescore", always(""), Settings{Constrained: true}); err == nil {
		t.Error("a model that follows no grammar is taken")
	}
}
