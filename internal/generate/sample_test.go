package generate

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/chat"
	"assay/internal/oracle"
)

// TestDivisors: divisors that are too small or too large for float32 are refused, and so are logits that are not
// finite.
func TestDivisors(t *testing.T) {
	c := &Config{Temperature: 1, TopP: 1, RepetitionPenalty: 1}
	for _, v := range []float64{1e-40, 5e-324, 1e-31, -1, 1e39, math.Inf(1), math.NaN()} {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			if _, err := c.with(chat.Options{Temperature: &v}); err == nil || !strings.Contains(err.Error(), "temperature") {
				t.Errorf("temperature %g: got error %v, want one with %q", v, err, "temperature")
			}
			if _, err := c.with(chat.Options{RepetitionPenalty: &v}); err == nil || !strings.Contains(err.Error(), "penalty") {
				t.Errorf("repetition_penalty %g: got error %v, want one with %q", v, err, "penalty")
			}
		})
	}
	small := 1e-30
	r, err := c.with(chat.Options{Temperature: &small})
	if err != nil {
		t.Fatal(err)
	}
	if id, err := newSampler(r, 1).next([]float32{-3, 20, 19.9}, nil); err != nil || id != 1 {
		t.Errorf("token %d, %v: want the likeliest", id, err)
	}
	for _, z := range [][]float32{{1, 1e10}, {1, float32(math.NaN())}, {1, float32(math.Inf(-1))}} {
		t.Run(fmt.Sprint(z), func(t *testing.T) {
			if _, err := newSampler(r, 1).next(z, nil); err == nil || !strings.Contains(err.Error(), "token 1") {
				t.Errorf("%v: got error %v, want one with %q", z, err, "token 1")
			}
		})
	}
}

// TestTies: of logits with many ties, the same tokens stay as in transformers (tools/oracle/sampling_ties.py). Which
// of the ties at the edge of top_p stay is not compared.
func TestTies(t *testing.T) {
	for i, c := range oracle.Read[[]struct {
		Logits      []float32
		Temperature float64
		TopK        int     `json:"top_k"`
		TopP        float64 `json:"top_p"`
		Left        []float32
	}](t, filepath.Join("testdata", "sampling_ties.json")) {
		s := newSampler(&Config{Sample: true, Temperature: c.Temperature, TopK: c.TopK, TopP: c.TopP,
			RepetitionPenalty: 1}, 0)
		z := slices.Clone(c.Logits)
		if err := s.process(z, nil); err != nil {
			t.Fatal(err)
		}
		z = slices.DeleteFunc(z, func(v float32) bool { return v == never })
		if slices.Sort(z); !slices.Equal(z, c.Left) {
			t.Errorf("case %d, %v, temperature %g, top_k %d, top_p %g: %v is left, want %v", i, c.Logits,
				c.Temperature, c.TopK, c.TopP, z, c.Left)
		}
	}
}
