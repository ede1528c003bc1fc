package generate

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gorgonia.org/tensor"

	"assay/chat"
	"assay/internal/oracle"
	"assay/model/language"
)

// greedy returns the options of the fixtures' cases.
func (r *reference) greedy() chat.Options {
	return chat.Options{MaxNewTokens: r.MaxNewTokens, Temperature: number(0.0), LogProbs: true}
}

// TestGreedy: tokens, text and log-probabilities match transformers' generate.
func TestGreedy(t *testing.T) {
	eachFamily(t, func(t *testing.T, r *reference) {
		expect := oracle.Tensors(t, r.expect)
		for _, c := range r.Cases {
			t.Run(c.Name, func(t *testing.T) {
				m := r.open(t, c.GenerationConfig, Options{})
				messages := r.messages(t, &c)
				var told strings.Builder
				a, err := m.Stream(context.Background(), messages, r.greedy(), func(piece string) error {
					told.WriteString(piece)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				check(t, &c, a, expect)
				if told.String() != c.Text {
					t.Errorf("pieces: got %q, want %q", told.String(), c.Text)
				}
				r.checkLogits(t, m, messages, &c, expect)
			})
		}
	})
}

func check(t *testing.T, c *answered, a *chat.Answer, expect map[string]*tensor.Dense) {
	t.Helper()
	if !slices.Equal(a.TokenIDs, c.NewIDs) {
		t.Fatalf("tokens %v, want %v", a.TokenIDs, c.NewIDs)
	}
	if a.Text != c.Text {
		t.Errorf("text %q, want %q", a.Text, c.Text)
	}
	want := oracle.Floats(t, expect, c.Name+".log_probs")
	got := make([]float32, len(a.LogProbs))
	for i, v := range a.LogProbs {
		got[i] = float32(v)
	}
	oracle.Close(t, "log_probs", got, want, 1e-4, 0)
	if a.Usage.Prompt != len(c.InputIDs) || a.Usage.Completion != len(c.NewIDs) {
		t.Errorf("got usage %+v, want %d and %d tokens", a.Usage, len(c.InputIDs), len(c.NewIDs))
	}
	finish := chat.FinishStop
	if len(c.NewIDs) == 24 {
		finish = chat.FinishLength
	}
	if a.Finish != finish {
		t.Errorf("the answer ended by %s, want %s", a.Finish, finish)
	}
}

// checkLogits runs the graph over prompt and answer by hand. It compares the ids and the logits that predict the
// first and the last token; those of the last token also after processing.
func (r *reference) checkLogits(
	t *testing.T,
	m *Model,
	messages []chat.Message,
	c *answered,
	expect map[string]*tensor.Dense,
) {
	p, err := m.prompt(messages)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.IDs, c.InputIDs) {
		t.Fatalf("ids %v, want %v", p.IDs, c.InputIDs)
	}
	first := forward(t, m, p)
	oracle.Close(t, "first logits", first, oracle.Floats(t, expect, c.Name+".first_logits"), 1e-4, 0)
	p, _ = m.prompt(messages)
	for _, id := range c.NewIDs[:len(c.NewIDs)-1] {
		p.Append(id)
	}
	last := forward(t, m, p)
	oracle.Close(t, "last logits", last, oracle.Floats(t, expect, c.Name+".last_logits"), 1e-4, 0)
	if expect[c.Name+".last_scores"] != nil {
		s := newSampler(m.config, 0)
		s.Config = &Config{RepetitionPenalty: m.config.RepetitionPenalty}
		if err := s.process(last, p.IDs); err != nil {
			t.Fatal(err)
		}
		oracle.Close(t, "last scores", last, oracle.Floats(t, expect, c.Name+".last_scores"), 1e-4, 0)
	}
}

// forward runs a full prompt in its own cache.
func forward(t *testing.T, m *Model, p *language.Prompt) []float32 {
	t.Helper()
	ctx := context.Background()
	if err := m.lm.ImageFeatures(ctx, p); err != nil {
		t.Fatal(err)
	}
	cache, err := m.lm.NewCache(1, len(p.IDs)+3)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	out, err := m.lm.Forward(ctx, cache, 0, language.Stretch{Prompt: p, To: len(p.IDs), Logits: 1})
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// TestBatches: rows of a batch are the same as alone.
func TestBatches(t *testing.T) {
	eachFamily(t, func(t *testing.T, r *reference) {
		for i, b := range r.Batches {
			m := r.open(t, b.GenerationConfig, Options{})
			answers := make([]*chat.Answer, len(b.Cases))
			var all sync.WaitGroup
			for k, name := range b.Cases {
				messages := r.messages(t, r.named(t, name))
				all.Go(func() {
					var err error
					if answers[k], err = m.Chat(context.Background(), messages, r.greedy()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			for k, a := range answers {
				want := b.NewIDs[k]
				if a == nil || len(a.TokenIDs) > len(want) || !slices.Equal(a.TokenIDs, want[:len(a.TokenIDs)]) {
					t.Fatalf("batch %d, %s: %+v, want %v", i, b.Cases[k], a, want)
				}
				for _, id := range want[len(a.TokenIDs):] { // transformers' padding
					if id != want[len(want)-1] {
						t.Errorf("batch %d, %s: the answer ends after %d tokens: %v", i, b.Cases[k], len(a.TokenIDs), want)
					}
				}
			}
		}
	})
}

// TestLikelihoods: log P of given texts, per token.
func TestLikelihoods(t *testing.T) {
	eachFamily(t, func(t *testing.T, r *reference) {
		expect := oracle.Tensors(t, r.expect)
		m := r.open(t, "", Options{})
		var texts []string
		for _, a := range r.Answers.Answers {
			texts = append(texts, a.Text)
		}
		got, err := m.Likelihoods(context.Background(), r.messages(t, r.named(t, r.Answers.Case)), texts...)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range r.Answers.Answers {
			if !slices.Equal(got[i].TokenIDs, a.IDs) {
				t.Errorf("%q: ids %v, want %v", a.Text, got[i].TokenIDs, a.IDs)
			}
			if !(math.Abs(got[i].LogProb()-a.LogProb) <= 1e-4) {
				t.Errorf("%q: log P %g, want %g", a.Text, got[i].LogProb(), a.LogProb)
			}
			parts := make([]float32, len(got[i].LogProbs))
			for k, v := range got[i].LogProbs {
				parts[k] = float32(v)
			}
			oracle.Close(t, a.Text, parts, oracle.Floats(t, expect, "answers."+a.Text), 1e-4, 0)
		}
	})
}

// TestSamplingDistribution: logits are processed to the distribution that is sampled from.
func TestSamplingDistribution(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		type fixture struct {
			InputIDs []int64 `json:"input_ids"`
			Cases    []struct {
				ID                int
				Temperature       *float64
				TopK              *int     `json:"top_k"`
				TopP              *float64 `json:"top_p"`
				RepetitionPenalty *float64 `json:"repetition_penalty"`
				Kept              int
			}
		}
		f := oracle.Read[fixture](t, filepath.Join(folder, "generation", "sampling.json"))
		expect := oracle.Tensors(t, filepath.Join(folder, "generation", "sampling.safetensors"))
		for _, c := range f.Cases {
			base := Config{Sample: true, Temperature: 1, TopP: 1, RepetitionPenalty: 1}
			o := chat.Options{Temperature: c.Temperature, TopK: c.TopK, TopP: c.TopP, RepetitionPenalty: c.RepetitionPenalty}
			config, err := base.with(o)
			if err != nil {
				t.Fatal(err)
			}
			z := slices.Clone(oracle.Floats(t, expect, "logits"))
			if err := newSampler(config, 0).process(z, f.InputIDs); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("case%d", c.ID)
			want, probs := oracle.Floats(t, expect, name+".scores"), make([]float32, len(z))
			kept := 0
			for i := range z {
				if math.IsInf(float64(z[i]), -1) != math.IsInf(float64(want[i]), -1) {
					t.Fatalf("%s: score %d is %g, want %g", name, i, z[i], want[i])
				}
				if z[i] > never {
					kept++
					if !(math.Abs(float64(z[i]-want[i])) <= 1e-6*math.Max(1, math.Abs(float64(want[i])))) {
						t.Errorf("%s: score %d is %g, want %g", name, i, z[i], want[i])
					}
					probs[i] = float32(math.Exp(logProb(z, int64(i))))
				}
			}
			if kept != c.Kept {
				t.Errorf("%s: %d are left, want %d", name, kept, c.Kept)
			}
			oracle.Close(t, name, probs, oracle.Floats(t, expect, name+".probs"), 1e-6, 0)
		}
	})
}
