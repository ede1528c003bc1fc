package generate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/chat"
	"assay/internal/grammar"
	"assay/internal/long"
	"assay/internal/oracle"
)

// constrained is a case of tools/oracle/constrained.py: random walks through a grammar over a family's vocabulary, with
// the tokens that a regular expression over bytes allows at each step.
type constrained struct {
	Family, Name string
	Schema       json.RawMessage
	Ordered      bool
	Walks        [][]struct {
		Allowed string // SHA-256 of the ids
		Count   int
		Ended   bool
		ID      *int64
	}
	Answer *struct { // greedy, by transformers with prefix_allowed_tokens_fn
		IDs  []int64
		Text string
	}
	Sampled []int // steps of the first walk whose distributions are stored
}

func eachConstrained(t *testing.T, f func(t *testing.T, m *Model, c *constrained, g *grammar.Grammar)) {
	all := oracle.Read[struct{ Cases []constrained }](t, filepath.Join("testdata", "constrained.json"))
	models := map[string]*Model{}
	for i := range all.Cases {
		c := &all.Cases[i]
		if models[c.Family] == nil {
			m, err := Open(filepath.Join("..", "..", "testdata", "oracle", c.Family, "backbone"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			models[c.Family] = m
		}
		t.Run(c.Family+"/"+c.Name, func(t *testing.T) {
			g, err := grammar.FromSchema(c.Schema, c.Ordered)
			if err != nil {
				t.Fatal(err)
			}
			f(t, models[c.Family], c, g)
		})
	}
}

// TestAllowedTokens: on random walks exactly the tokens that the regular expression allows are allowed, and an answer
// may end where it matches.
func TestAllowedTokens(t *testing.T) {
	eachConstrained(t, func(t *testing.T, m *Model, c *constrained, g *grammar.Grammar) {
		masks, err := m.grammars.masks(g)
		if err != nil {
			t.Fatal(err)
		}
		for n, walk := range c.Walks {
			w := masks.Begin()
			for i, step := range walk {
				mask, err := w.Mask(1 << 20)
				if err != nil {
					t.Fatal(err)
				}
				var ids []string
				for id := range m.lm.Vocab() {
					if mask.Has(id) {
						ids = append(ids, fmt.Sprint(id))
					}
				}
				digest := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(ids, ","))))
				if digest != step.Allowed || w.Ends(m.config.End[0]) != step.Ended {
					t.Fatalf("walk %d, step %d: %d tokens, want %d; ends: %t, want %t", n, i, len(ids), step.Count,
						w.Ends(m.config.End[0]), step.Ended)
				}
				if step.ID == nil {
					break
				}
				if err := w.Take(*step.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestConstrainedGreedy: tokens and text match transformers' generate with only allowed tokens.
func TestConstrainedGreedy(t *testing.T) {
	compared := 0
	eachConstrained(t, func(t *testing.T, m *Model, c *constrained, g *grammar.Grammar) {
		if c.Answer == nil {
			return
		}
		compared++
		a, err := m.Chat(context.Background(), question("How good is it?"), chat.Options{MaxNewTokens: 220,
			Temperature: number(0.0), Grammar: g})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.Answer.IDs, a.TokenIDs); diff != "" || a.Text != c.Answer.Text || a.Finish != chat.FinishStop {
			t.Errorf("%q, want %q: %s", a.Text, c.Answer.Text, diff)
		}
	})
	if compared == 0 {
		t.Errorf("got %d answers compared, want some", compared)
	}
}

func question(text string) []chat.Message {
	return []chat.Message{{Role: "user", Content: []chat.Part{{Text: text}}}}
}

// TestConstrainedDistribution: the distribution that is sampled from matches transformers' processors applied to the
// allowed tokens.
func TestConstrainedDistribution(t *testing.T) {
	expect := oracle.Tensors(t, filepath.Join("testdata", "constrained.safetensors"))
	compared := 0
	eachConstrained(t, func(t *testing.T, m *Model, c *constrained, g *grammar.Grammar) {
		if len(c.Sampled) == 0 {
			return
		}
		r, err := m.request(context.Background(), question("a"), chat.Options{MaxNewTokens: 4000, Temperature: number(0.7),
			TopK: number(40), TopP: number(0.9), RepetitionPenalty: number(1.3), Grammar: g})
		if err != nil {
			t.Fatal(err)
		}
		ids, wanted := []int64{5, 9}, map[int]bool{}
		for _, n := range c.Sampled {
			wanted[n] = true
		}
		for i, step := range c.Walks[0] {
			if wanted[i] {
				compared++
				at := fmt.Sprintf("%s.%d.", c.Name, i)
				z := oracle.Floats(t, expect, at+"logits")
				if err := r.sampler.process(z, ids); err != nil {
					t.Fatal(err)
				}
				top, sum := float64(z[argmax(z)]), 0.0
				for _, v := range z {
					sum += math.Exp(float64(v) - top)
				}
				for k, v := range z {
					z[k] = float32(math.Exp(float64(v)-top) / sum)
				}
				oracle.Close(t, at+"probs", z, oracle.Floats(t, expect, at+"probs"), 1e-6, 0)
			}
			if step.ID == nil {
				break
			}
			if err := r.walk.Take(*step.ID); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, *step.ID)
		}
	})
	if compared == 0 {
		t.Errorf("got %d distributions compared, want some", compared)
	}
}

// TestConstrainedBatch: answers at high temperature follow their grammar within their limit, in every family, and are
// the same alone and in a batch.
func TestConstrainedBatch(t *testing.T) {
	long.Test(t)
	g, err := grammar.FromSchema(json.RawMessage(`{"type": "object", "properties": {"score": {"type": "integer",
		"minimum": 0, "maximum": 10}, "why": {"type": "string"}}, "required": ["score", "why"]}`), false)
	if err != nil {
		t.Fatal(err)
	}
	within, err := grammar.Within("first", "second")
	if err != nil {
		t.Fatal(err)
	}
	eachFamily(t, func(t *testing.T, r *reference) {
		m := r.open(t, "", Options{})
		ask := func(i int) *chat.Answer {
			o := chat.Options{MaxNewTokens: g.Least() + 1 + 3*i, Temperature: number(1.4), TopK: number(0), Seed: uint64(i),
				LogProbs: true, Grammar: g}
			if i%3 == 2 {
				o.Grammar = within
			}
			a, err := m.Chat(context.Background(), question("Which one? "+fmt.Sprint(i%4)), o)
			if err != nil {
				t.Error(err)
				return &chat.Answer{}
			}
			a.Usage.Cached = 0
			if a.Finish != chat.FinishStop || !o.Grammar.Has(a.Text) {
				t.Errorf("answer %d: got %q, ended with %s, want a text of the grammar, ended with %s", i, a.Text, a.Finish,
					chat.FinishStop)
			}
			return a
		}
		sameTogether(t, 12, ask)
		for want, o := range map[string]chat.Options{
			"too short":      {MaxNewTokens: 5, Grammar: g},
			"leave stop out": {MaxNewTokens: 50, Grammar: g, Stop: []string{"x"}},
		} {
			t.Run(want, func(t *testing.T) {
				if _, err := m.Chat(context.Background(), question("a"), o); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			})
		}
	})
}

// TestTokenBytes: the concatenated bytes of tokens equal the text that the decoder returns for them.
func TestTokenBytes(t *testing.T) {
	eachFamily(t, func(t *testing.T, r *reference) {
		m := r.open(t, "", Options{})
		tokens, trims, err := m.lm.TokenBytes()
		if err != nil {
			t.Fatal(err)
		}
		for i := range m.lm.Vocab() * 3 {
			ids := []int64{int64(i % m.lm.Vocab()), int64(i * 31 % m.lm.Vocab()), int64(i * 7 % m.lm.Vocab())}
			want, err := m.Decode(ids)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, id := range ids {
				got += string(tokens[id])
			}
			if trims {
				got = strings.TrimPrefix(got, " ")
			}
			if strings.ToValidUTF8(got, "") == got && got != want {
				t.Fatalf("%v: %q, the decoder has %q", ids, got, want)
			}
		}
	})
}
