package heuristics

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"assay/internal/testfile"
)

// CLIP-D by both definitions, compared with torch.
func TestDirections(t *testing.T) {
	var cases []struct {
		Embeddings [4][]float32
		Raw, Unit  float64
	}
	testfile.ReadJSON(t, "testdata/directions.json", &cases)
	flipped := 0
	for i, c := range cases {
		e := c.Embeddings
		for d, want := range map[Direction]float64{DirectionRaw: c.Raw, DirectionUnit: c.Unit} {
			if got := d.Of(e[0], e[1], e[2], e[3]); !(math.Abs(got-want) < 1e-9) {
				t.Errorf("%d, %s: %v, want %v", i, d, got, want)
			}
		}
		if (c.Raw > 0) != (c.Unit > 0) {
			flipped++
		}
	}
	if len(cases) == 0 || flipped == 0 {
		t.Errorf("got %d cases, of which the sign tells the definitions apart in %d, want some of both", len(cases), flipped)
	}
	e := cases[0].Embeddings
	for _, d := range []Direction{DirectionRaw, DirectionUnit} {
		t.Run(string(d), func(t *testing.T) {
			if x := d.Of(e[0], e[0], e[2], e[3]); x != 0 {
				t.Errorf("%s of equal pictures: got %v, want 0", d, x)
			}
			if x := d.Of(e[0], e[1], e[2], e[2]); !math.IsNaN(x) {
				t.Errorf("%s of equal captions: got %v, want NaN", d, x)
			}
		})
	}
	if x := Direction("other").Of(e[0], e[1], e[2], e[3]); !math.IsNaN(x) {
		t.Errorf("an unknown definition: got %v, want NaN", x)
	}
}

func TestSimilarityStates(t *testing.T) {
	for _, c := range []struct {
		s    Similarity
		json string
	}{{Similarity{}, "null"}, {Measured(math.NaN()), `"undefined"`}, {Measured(0), "0"}, {Measured(-0.25), "-0.25"}} {
		t.Run(c.json, func(t *testing.T) {
			raw, err := json.Marshal(c.s)
			if err != nil || string(raw) != c.json {
				t.Errorf("%v is %s, want %s (%v)", c.s, raw, c.json, err)
			}
			var back Similarity
			if err := json.Unmarshal(raw, &back); err != nil || back != c.s {
				t.Errorf("%s read back: got %v, %v, want %v", raw, back, err, c.s)
			}
			if again := SimilarityOf(c.s.Cell()); again != c.s {
				t.Errorf("from a cell: got %v, want %v", again, c.s)
			}
		})
	}
}

func TestParseProfile(t *testing.T) {
	for text, want := range map[string]string{"adiee-paper": "adiee-paper/1", "adiee-released/1": "adiee-released/1",
		"assay/1 + rules.weak": "assay/1", "assay/7": "version 1 here", "adiee": "no profile"} {
		t.Run(text, func(t *testing.T) {
			p, err := ParseProfile(text)
			fails := !strings.Contains(want, "/")
			if fails != (err != nil) || fails && !strings.Contains(err.Error(), want) || !fails && p.ID() != want {
				t.Errorf("%s: %s %v, want %s", text, p.ID(), err, want)
			}
		})
	}
	p := Profiles[ProfileReleased]
	if got := p.Describe(p.ClipD, p.Rules, p.Chains); got != "adiee-released/1" {
		t.Errorf("Describe of the profile's own rules: got %q, want %q", got, "adiee-released/1")
	}
	r, c := p.Rules, p.Chains
	r.Weak, r.ClipI, c.Joint = nil, Threshold{Value: 0.5}, " and "
	if got := p.Describe(DirectionUnit, r, c); got != "adiee-released/1 + clip_d, rules.clip_i, rules.weak, chains.joint" {
		t.Errorf("Describe: got %q, want %q", got, "adiee-released/1 + clip_d, rules.clip_i, rules.weak, chains.joint")
	}
}
