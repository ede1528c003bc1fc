package generate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"assay/chat"
	"assay/data"
	"assay/internal/oracle"
	_ "assay/model/families"
)

// reference is a family's fixture: greedy answers by transformers.
type reference struct {
	Backbone     string
	MaxNewTokens int `json:"max_new_tokens"`
	Cases        []answered
	Batches      []struct {
		Cases            []string
		NewIDs           [][]int64 `json:"new_ids"`
		GenerationConfig string    `json:"generation_config"`
	}
	Answers struct {
		Case    string
		Answers []struct {
			Text    string
			IDs     []int64
			LogProb float64 `json:"log_prob"`
		}
	}

	folder string
	expect string
}

// answered is a conversation with its answer.
type answered struct {
	Name             string
	Messages         []turn
	Pictures         []string
	Prompt           string
	InputIDs         []int64 `json:"input_ids"`
	NewIDs           []int64 `json:"new_ids"`
	Text             string
	GenerationConfig string `json:"generation_config"`
}

type turn struct {
	Role    string
	Content []struct{ Type, Text string }
}

// families are the model families of the fixtures.
var families = []string{"llavanext", "qwen2_5_vl", "qwen2_vl", "qwen3_vl"}

// eachFamily runs f on the fixtures of every family.
func eachFamily(t *testing.T, f func(t *testing.T, r *reference)) {
	oracle.Each(t, func(t *testing.T, folder string) {
		for _, family := range families {
			t.Run(family, func(t *testing.T) {
				file := filepath.Join(folder, "generation", family)
				r := oracle.Read[reference](t, file+".json")
				r.folder, r.expect = filepath.Dir(file), file+".safetensors"
				f(t, &r)
			})
		}
	})
}

// open opens the backbone, with another generation_config.json if one is named.
func (r *reference) open(t testing.TB, config string, o Options) *Model {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(r.folder, r.Backbone))
	if err != nil {
		t.Fatal(err)
	}
	if config != "" {
		dir = withConfig(t, dir, filepath.Join(r.folder, config))
	}
	m, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// withConfig links a checkpoint's files into a folder with another generation_config.json.
func withConfig(t testing.TB, dir, config string) string {
	t.Helper()
	to := t.TempDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		from := filepath.Join(dir, e.Name())
		if e.Name() == "generation_config.json" {
			from = config
		}
		raw, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(to, "generation_config.json")); errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("backbone: got error %v, want a generation_config.json", err)
	}
	return to
}

func (r *reference) named(t testing.TB, name string) *answered {
	t.Helper()
	for i := range r.Cases {
		if r.Cases[i].Name == name {
			return &r.Cases[i]
		}
	}
	t.Fatalf("got no case %s, want one", name)
	return nil
}

// messages returns the messages of a case with its pictures.
func (r *reference) messages(t testing.TB, c *answered) []chat.Message {
	t.Helper()
	next := 0
	var out []chat.Message
	for _, m := range c.Messages {
		message := chat.Message{Role: m.Role}
		for _, p := range m.Content {
			part := chat.Part{Text: p.Text}
			if p.Type == "image" {
				picture, err := data.Open(filepath.Join(r.folder, c.Pictures[next]), data.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				part.Image, next = picture, next+1
			}
			message.Content = append(message.Content, part)
		}
		out = append(out, message)
	}
	return out
}

func number[T any](v T) *T { return &v }
