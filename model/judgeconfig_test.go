package model

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"assay/edit"
	"assay/model/digests"

	"github.com/goccy/go-yaml"
)

// TestPromptsStay writes and reads prompts in which every blank and line break counts.
func TestPromptsStay(t *testing.T) {
	for _, text := range []Text{
		"\n\nline with blanks at its end  \n\n- **list**\n\ttab\n\n", " ", "a: b # no comment", "'quotes' \"and\" \\n",
		"{text} [x]",
		"把天空换成紫色 \u00a0\u2028é", "<|Reward|>\n\nEND\n", "none", "0", "%d --- ...",
		"very long " + Text(strings.Repeat("word ", 400)),
	} {
		c := ScorerConfig{Format: 2, Backbone: "b", ScoreRange: edit.NoRange(),
			Passes: []PassConfig{{Pictures: []string{"edit"}, Prompt: text, Position: "last", Heads: []string{"h"}}},
			Heads: map[string]DimensionConfig{"h": {
				Outputs: OutputChoices,
				Choices: []string{"0", "yes", "null", "1.0", " x"},
				Values:  []float64{0, .25, .5, .75, 1},
			}}}
		if err := c.Normalize(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), ConfigFile)
		if err := WriteConfig(path, &c); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var back ScorerConfig
		if err := yaml.UnmarshalWithOptions(raw, &back, yaml.Strict()); err != nil {
			t.Fatalf("%q: %v\n%s", text, err, raw)
		}
		if !reflect.DeepEqual(c, back) {
			t.Errorf("%q becomes\n%+v, want\n%+v\n%s", text, back, c, raw)
		}
	}
}

// TestFormat1Stays: files of format 1, and their fingerprints, predate format 2 and stay the same.
func TestFormat1Stays(t *testing.T) {
	c := (&OnePassConfig{
		Backbone: "../b", Question: "Is it [INSTRUCTION]?", Answer: "It is [SCORE].", PairSize: []int{8, 9},
	}).Scorer()
	if err := c.Normalize(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), ConfigFile)
	if err := WriteConfig(path, c); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const want = `format: 1
backbone: ../b
pair: sequence
pair_size: [8, 9]
question: Is it [INSTRUCTION]?
answer: It is [SCORE].
text_loss: answer
score_range: [0.0, 10.0]
head:
  hidden: []
  activation: relu
  kind: regression
score_token: "[SCORE]"
score_position: at
dtype: float32
`
	if string(raw) != want {
		t.Errorf("scorer.yaml is\n%s, want\n%s", raw, want)
	}
	const identity = "{Format:1 Backbone: Pair:sequence PairSize:[8 9] Question:Is it [INSTRUCTION]? " +
		"Answer:It is [SCORE]. TextLoss:answer ScoreRange:[0 10] " +
		"Head:{Hidden:[] Activation:relu Kind:regression Values:[]} " +
		"ScoreToken:[SCORE] ScorePosition:at DType:float32 ChatTemplate: EndOfTurn:}"
	if got := c.identity(); got != identity {
		t.Errorf("its identity is\n%s, want\n%s", got, identity)
	}
}

// TestKeysCount: every key of scorer.yaml that scores depend on changes the fingerprint, and the keys of format 1
// survive a round trip through format 2. A new key gets a value here.
func TestKeysCount(t *testing.T) {
	files := &digests.Digests{}
	one := (&OnePassConfig{Backbone: "b", Question: "Is it [INSTRUCTION]?", Answer: "It is [SCORE]."}).Scorer().OnePass()
	oneOther := OnePassConfig{Format: 1, Backbone: "c", Pair: Concat, PairSize: []int{8, 9}, Layout: InstructionFirst,
		Question: "Why [INSTRUCTION]?", Answer: "So [SCORE].", TextLoss: "all", ScoreRange: edit.Range{1, 5},
		Head:       HeadConfig{Hidden: []int{3}, Activation: "relu", Kind: classification, Values: []float64{0, 1}},
		ScoreToken: "[S]", ScorePosition: "before", DType: "bfloat16", ChatTemplate: "{{ x }}", EndOfTurn: "</s>",
		NumberPictures: "{n}: ", Members: []string{"a", "b"}, Calibration: "c.json", Digests: files}
	for name, set := range otherFields(t, reflect.ValueOf(oneOther), "Format", "Backbone", "Calibration", "Digests") {
		t.Run("format 1 "+name, func(t *testing.T) {
			c := *one
			set(reflect.ValueOf(&c).Elem())
			if got := c.Scorer().OnePass(); !reflect.DeepEqual(*got, c) {
				t.Errorf("through format 2: got %+v, want %+v", *got, c)
			}
			if got := c.Scorer().identity(); got == one.identity() {
				t.Errorf("got the identity %s of a scorer without it, want another", got)
			}
		})
	}
	two := ScorerConfig{Format: 2, Passes: []PassConfig{{Name: "p"}}}
	twoOther := ScorerConfig{Format: 1, Backbone: "c", PairSize: []int{8, 9}, ScoreRange: edit.Range{1, 5},
		DType: "bfloat16", ChatTemplate: "{{ x }}", EndOfTurn: "</s>", NumberPictures: "{n}: ", Calibration: "c.json",
		Kind:    "choices",
		Weights: "w", Positions: "plain", Rotary: "bfloat16", Alpha: "drop", Pixels: &PixelLimits{},
		Passes: []PassConfig{{Name: "q"}}, Heads: map[string]DimensionConfig{"h": {}}, Score: &FusionConfig{Fusion: "min"},
		Origin: &Origin{}, Members: []string{"a", "b"}, Digests: files, Layout: InstructionFirst, TextLoss: "all"}
	for name, set := range otherFields(t, reflect.ValueOf(twoOther), "Format", "Backbone", "Calibration", "Weights",
		"Origin", "Digests", "Layout", "TextLoss") {
		t.Run("format 2 "+name, func(t *testing.T) {
			c := two
			set(reflect.ValueOf(&c).Elem())
			if got := c.identity(); got == two.identity() {
				t.Errorf("got the identity %s of a scorer without it, want another", got)
			}
		})
	}
}

// otherFields returns, for each field of a struct except some, a function that copies its value into another struct.
func otherFields(t *testing.T, from reflect.Value, but ...string) map[string]func(to reflect.Value) {
	t.Helper()
	out := map[string]func(reflect.Value){}
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		if from.Field(i).IsZero() {
			t.Errorf("%s.%s: got no value, want one", from.Type(), name)
		}
		if !slices.Contains(but, name) {
			out[name] = func(to reflect.Value) { to.Field(i).Set(from.Field(i)) }
		}
	}
	return out
}

// TestFusions compares the gradient of every fusion with finite differences, and sigma with its formula.
func TestFusions(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for name, f := range fusions {
		d, w := []float64{rng.Float64() + .1, rng.Float64() + .1, rng.Float64() + .1}, []float64{.2, .5, -.3}
		gradient := f.gradient(d, w)
		for i := range d {
			const h = 1e-6
			moved := func(by float64) float64 {
				e := append([]float64{}, d...)
				e[i] += by
				return f.score(e, w)
			}
			if got := (moved(h) - moved(-h)) / (2 * h); !(math.Abs(got-gradient[i]) <= 1e-6) {
				t.Errorf("%s: derivative %g by dimension %d, finite differences give %g", name, gradient[i], i, got)
			}
		}
	}
	s := []float64{2, 8}
	for name, want := range map[string]float64{"mean": 4, "min": 2, "sum": math.Sqrt(68)} {
		if got := fusions[name].sigma(s, nil); !(math.Abs(got-want) <= 1e-12) {
			t.Errorf("%s: sigma %g, want %g", name, got, want)
		}
	}
	for name, f := range fusions {
		if f.sigma == nil {
			continue
		}
		t.Run(name+", lower bound", func(t *testing.T) {
			of := []string{"a", "b"}
			c := ScorerConfig{Score: &FusionConfig{Fusion: name, Of: of, LowerBound: 0.7}}
			d, s := map[string]float64{"a": 0.4, "b": 0.6}, map[string]float64{"a": 0.3, "b": 0.2}
			v, err := c.fuse(d, s)
			if want := f.score([]float64{0.4, 0.6}, nil) - 0.7*f.sigma([]float64{0.3, 0.2}, nil); err != nil || v.score != want {
				t.Errorf("got %g, %v, want %g", v.score, err, want)
			}
			for _, side := range []struct {
				at, gradient map[string]float64
			}{{d, v.gradient}, {s, v.sigmas}} {
				for _, head := range of {
					const h = 1e-6
					moved := func(by float64) float64 {
						side.at[head] += by
						defer func() { side.at[head] -= by }()
						m, _ := c.fuse(d, s)
						return m.score
					}
					want := (moved(h) - moved(-h)) / (2 * h)
					if got := side.gradient[head]; !(math.Abs(got-want) <= 1e-6) {
						t.Errorf("derivative by %s: got %g, want %g", head, got, want)
					}
				}
			}
		})
	}
	c := ScorerConfig{Score: &FusionConfig{Fusion: "sqrt_product", Of: []string{"a", "b"}}}
	if _, err := c.fuse(map[string]float64{"a": 1, "b": -1}, nil); err == nil {
		t.Error("the root of a negative product is a score")
	}
}

// TestClassNames: named classes get evenly spaced values, and are not part of the score.
func TestClassNames(t *testing.T) {
	config := func(emotion DimensionConfig, of ...string) *ScorerConfig {
		return &ScorerConfig{Format: 2, Backbone: "b",
			Passes: []PassConfig{{Pictures: []string{"edit"}, Prompt: "x", Position: "last",
				Heads: []string{"emotion", "quality"}}},
			Heads: map[string]DimensionConfig{"emotion": emotion, "quality": {Outputs: OutputValue}},
			Score: &FusionConfig{Fusion: "mean", Of: of}}
	}
	names := []string{"awe", "fear", "rage"}
	c := config(DimensionConfig{Outputs: OutputClasses, Names: names})
	if err := c.Normalize(); err != nil {
		t.Fatal(err)
	}
	if got := c.Heads["emotion"].Values; !reflect.DeepEqual(got, []float64{0, 0.5, 1}) {
		t.Errorf("got values %v, want equal steps", got)
	}
	if !reflect.DeepEqual(c.Score.Of, []string{"quality"}) {
		t.Errorf("got a score of %v, want only quality", c.Score.Of)
	}
	if err := c.Normalize(); err != nil { // as it is written and read again
		t.Errorf("read again: %v", err)
	}
	if err := c.CheckDimension("emotion"); err == nil || !strings.Contains(err.Error(), "no order") {
		t.Errorf("the dimension emotion as the score: got %v, want a refusal", err)
	}
	for want, c := range map[string]*ScorerConfig{
		"is empty or repeated": config(DimensionConfig{Outputs: OutputClasses, Names: []string{"awe", "awe"}}),
		"names or values": config(DimensionConfig{
			Outputs: OutputClasses, Names: names, Values: []float64{0, 1, 1}}),
		"only classes have names": config(DimensionConfig{Outputs: OutputValue, Names: names}),
		"have no order":           config(DimensionConfig{Outputs: OutputClasses, Names: names}, "emotion", "quality"),
		"at least two":            config(DimensionConfig{Outputs: OutputClasses, Names: names[:1]}),
	} {
		t.Run(want, func(t *testing.T) {
			if err := c.Normalize(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}
