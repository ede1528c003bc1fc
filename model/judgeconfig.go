package model

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"assay/edit"
	"assay/model/text"
)

// PassConfig is one forward pass: what is shown and asked, and where the state is read.
type PassConfig struct {
	Name     string   `yaml:"name"`
	Pictures []string `yaml:"pictures,flow"`      // sources or source, and edit; or concat, or frames, of both
	Prompt   Text     `yaml:"prompt"`             // [INSTRUCTION] and [REQUIREMENT] are replaced
	Answer   Text     `yaml:"answer,omitempty"`   // follows the prompt, as if the model had generated it
	Steps    int      `yaml:"steps,omitempty"`    // or: number of tokens to generate, the likeliest each time
	End      []int64  `yaml:"end,omitempty,flow"` // ids that end the generation
	Token    string   `yaml:"token,omitempty"`    // occurs once in prompt or answer, or is generated
	Position string   `yaml:"position"`           // at or before the token; last: the last token of all
	Heads    []string `yaml:"heads,flow"`         // that read there
}

// PixelLimits limit a picture's size. It is resized to multiples of Factor, near its aspect ratio, with at least Least
// and at most Most pixels. Rounding up to Least may exceed Most, as in Qwen's smart_resize.
type PixelLimits struct {
	Least  int `yaml:"least" json:"least"`
	Most   int `yaml:"most" json:"most"`
	Factor int `yaml:"factor" json:"factor"`
}

// Kinds of head outputs.
const (
	OutputValue   = "value"    // one number
	OutputClasses = "classes"  // the expectation of Values over a softmax
	OutputMuSigma = "mu_sigma" // two numbers: a mean, and the logarithm of a standard deviation
	OutputChoices = "choices"  // the expectation of Values over the likelihoods of tokens; no MLP
)

// DimensionConfig is one head and its dimension.
type DimensionConfig struct {
	Hidden     []int     `yaml:"hidden,omitempty,flow"` // widths of the hidden layers
	Activation string    `yaml:"activation,omitempty"`  // between layers: relu, gelu or silu
	Outputs    string    `yaml:"outputs"`
	Values     []float64 `yaml:"values,omitempty,flow"`  // of classes or choices, on 0..1
	Choices    []string  `yaml:"choices,omitempty,flow"` // each one token, unless they are joint
	Joint      bool      `yaml:"joint,omitempty"`        // choices of any number of tokens, by joint likelihood
	Scale      []float64 `yaml:"scale,omitempty,flow"`   // [lo, hi]: outputs that map to 0 and 1; absent: [0, 1]

	// Names are the names of unordered classes, instead of Values. omitempty keeps fingerprints that predate the field.
	Names []string `yaml:"names,omitempty,flow" json:"Names,omitempty"`
}

// FusionConfig defines the reported score.
type FusionConfig struct {
	Fusion  string    `yaml:"fusion"`                 // mean, min, sum, product, sqrt_product, weights
	Of      []string  `yaml:"of,omitempty,flow"`      // heads; absent: all, in the order of the passes
	Weights []float64 `yaml:"weights,omitempty,flow"` // of the fusion weights, one for each of Of

	// LowerBound is the number of standard deviations subtracted from the fused dimensions: an editor trained on this
	// score gains nothing where the judge is unsure. 0: none.
	LowerBound float64 `yaml:"lower_bound,omitempty" json:",omitempty"`
}

// hasSigma reports whether the fused score has a standard deviation.
func (c *ScorerConfig) hasSigma() bool { return c.fused().Outputs == OutputMuSigma }

// Origin records where an imported scorer comes from.
type Origin struct {
	Name      string            `yaml:"name"`
	Licence   string            `yaml:"licence,omitempty"`
	Source    string            `yaml:"source,omitempty"`
	Published bool              `yaml:"published"`         // the prompts are those that were published with the weights
	Prompts   map[string]string `yaml:"prompts,omitempty"` // SHA-256 by name
	Weights   map[string]string `yaml:"weights,omitempty"` // earlier versions' Digests.Weights
	Base      map[string]string `yaml:"base,omitempty"`    // earlier versions' Digests.Backbone
	Passes    map[string]string `yaml:"passes,omitempty"`  // of prompt, a zero byte and answer, by pass; compared
}

// Text is written to YAML in double quotes: every blank and line break of a prompt counts.
type Text string

// MarshalYAML writes the text in double quotes.
func (t Text) MarshalYAML() ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(string(t))
	return []byte(strings.TrimSuffix(b.String(), "\n")), err
}

// RequirementMark is replaced by the requirement that an edit must also fulfil.
const RequirementMark = "[REQUIREMENT]"

// Normalize fills in what a scorer.yaml of passes leaves out, and reports what is wrong.
func (c *ScorerConfig) Normalize() error {
	if c.Calibration != "" && !filepath.IsLocal(filepath.FromSlash(c.Calibration)) {
		return fmt.Errorf("calibration: %q is not a file in the scorer's folder", c.Calibration)
	}
	if err := c.Digests.Check(); err != nil {
		return err
	}
	p := problems{}
	c.checkMembers(&p)
	if c.AddsToken() {
		return errors.Join(p.err(), c.OnePass().check())
	}
	p.wrong(c.Format != 2, "format", "%d is not supported; this program reads formats 1 and 2", c.Format)
	c.Kind, c.Positions = cmp.Or(c.Kind, "heads"), cmp.Or(c.Positions, "own")
	c.Rotary, c.Alpha, c.DType = cmp.Or(c.Rotary, "float32"), cmp.Or(c.Alpha, "white"), cmp.Or(c.DType, "float32")
	c.ScoreRange = cmp.Or(c.ScoreRange, edit.Range{0, 10})
	p.wrong(c.Backbone == "", "backbone", "a checkpoint directory is needed")
	p.pairSize(c.PairSize)
	p.numbers(c.NumberPictures)
	p.wrong(c.ScoreRange[0] == c.ScoreRange[1], "score_range", "both ends are %g", c.ScoreRange[0])
	p.oneOf("kind", c.Kind, "heads", "choices")
	p.oneOf("positions", c.Positions, "own", "plain")
	p.oneOf("rotary", c.Rotary, "float32", "bfloat16")
	p.oneOf("alpha", c.Alpha, "white", "drop")
	p.oneOf("dtype", c.DType, "float32", "bfloat16")
	if l := c.Pixels; l != nil {
		p.wrong(l.Least < 1 || l.Most < l.Least || l.Factor < 1,
			"pixels", "at least %d and at most %d pixels in multiples of %d cannot be satisfied", l.Least, l.Most, l.Factor)
	}
	c.normalizePasses(&p)
	for _, name := range slices.Sorted(maps.Keys(c.Heads)) {
		h := c.Heads[name]
		h.normalize(&p, "heads."+name)
		c.Heads[name] = h
	}
	c.normalizeFusion(&p)
	return p.err()
}

// normalizePasses checks passes, and that every head is read once.
func (c *ScorerConfig) normalizePasses(p *problems) {
	p.wrong(len(c.Passes) == 0, "passes", "at least one is needed")
	read, names, token := map[string]bool{}, map[string]bool{}, ""
	for i := range c.Passes {
		q := &c.Passes[i]
		if q.Name == "" && len(c.Passes) == 1 {
			q.Name = "score"
		}
		at := fmt.Sprintf("passes[%d]", i)
		p.wrong(q.Name == "" || names[q.Name], at+".name", "%q is empty or already used", q.Name)
		names[q.Name] = true
		q.check(p, at)
		if q.Token != "" {
			p.wrong(token != "" && token != q.Token, at+".token", "%q, after %q: all passes share one", q.Token, token)
			token = q.Token
		}
		for _, h := range q.Heads {
			_, known := c.Heads[h]
			p.wrong(!known, at+".heads", "there is no head %q", h)
			p.wrong(c.Heads[h].Joint && (len(q.Heads) > 1 || q.Position != "last" || q.Steps > 0 || q.Answer != ""),
				at, "joint choices need a separate pass, position last and no answer")
			p.wrong(read[h], at+".heads", "%q is read twice", h)
			read[h] = true
		}
	}
	for _, h := range slices.Sorted(maps.Keys(c.Heads)) {
		p.wrong(!read[h], "heads."+h, "no pass reads it")
	}
}

func (q *PassConfig) check(p *problems, at string) {
	joined := len(q.Pictures) == 1 && (q.Pictures[0] == Concat || q.Pictures[0] == Frames)
	for _, name := range q.Pictures {
		if !joined {
			p.oneOf(at+".pictures", name, "source", "sources", "edit")
		}
	}
	p.wrong(len(q.Pictures) == 0, at+".pictures", "must be [source, edit], [sources, edit], [edit], [concat] or [frames]")
	p.wrong(q.Prompt == "", at+".prompt", "is empty")
	p.oneOf(at+".position", q.Position, "at", "before", "last")
	p.wrong((q.Position == "last") != (q.Token == ""), at, "position %q and token %q do not go together", q.Position,
		q.Token)
	stands := strings.Count(string(q.Prompt), q.Token) + strings.Count(string(q.Answer), q.Token)
	if q.Steps > 0 {
		p.wrong(q.Answer != "", at, "set either answer or steps, not both")
		p.wrong(q.Token == "" || stands != 0 || q.Position != "before",
			at, "with steps, the token %q must be set, not in the prompt, and position must be before", q.Token)
	} else if q.Token != "" {
		p.wrong(stands != 1, at, "prompt and answer contain the token %s %d times, must be once", q.Token, stands)
	}
	p.wrong(q.Steps < 0, at+".steps", "%d", q.Steps)
	p.wrong(len(q.Heads) == 0, at+".heads", "at least one is needed")
}

func (h *DimensionConfig) normalize(p *problems, at string) {
	if h.Activation == "" && h.Outputs != OutputChoices {
		h.Activation = "relu"
	}
	p.oneOf(at+".outputs", h.Outputs, OutputValue, OutputClasses, OutputMuSigma, OutputChoices)
	for _, w := range h.Hidden {
		p.wrong(w < 1, at+".hidden", "width %d", w)
	}
	switch h.Outputs {
	case OutputChoices:
		p.wrong(len(h.Choices) < 2, at+".choices", "at least two are needed")
		p.wrong(len(h.Values) != len(h.Choices), at, "%d values for %d choices", len(h.Values), len(h.Choices))
		p.wrong(len(h.Hidden) > 0 || h.Activation != "", at, "choices have no layers of their own")
	case OutputClasses:
		h.spaceNames(p, at)
		p.wrong(len(h.Values) < 2, at+".values", "a head of classes needs at least two")
	default:
		p.wrong(len(h.Values) > 0, at+".values", "only classes and choices have values")
	}
	p.wrong(h.Outputs != OutputClasses && len(h.Names) > 0, at+".names", "only classes have names")
	p.wrong(h.Joint && (h.Outputs != OutputChoices || len(h.Scale) > 0), at+".joint", "only for choices without a scale")
	p.wrong(h.Outputs != OutputChoices && len(h.Choices) > 0, at+".choices", "need outputs: choices")
	if h.Outputs != OutputChoices {
		p.oneOf(at+".activation", h.Activation, "relu", "gelu", "silu")
	}
	p.wrong(len(h.Scale) != 0 && (len(h.Scale) != 2 || h.Scale[0] == h.Scale[1]), at+".scale", "must be [lo, hi], not %v",
		h.Scale)
}

// spaceNames sets evenly spaced values for named classes; labels are matched to classes by them.
func (h *DimensionConfig) spaceNames(p *problems, at string) {
	n := len(h.Names)
	if n == 0 {
		return
	}
	p.wrong(n < 2, at+".names", "a head of classes needs at least two")
	sorted := slices.Sorted(slices.Values(h.Names))
	p.wrong(sorted[0] == "" || len(slices.Compact(sorted)) < n, at+".names", "%q: one is empty or repeated", h.Names)
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(i) / float64(max(1, n-1))
	}
	p.wrong(len(h.Values) > 0 && !slices.Equal(h.Values, values), at, "set either names or values, not both")
	h.Values = values
}

func (c *ScorerConfig) normalizeFusion(p *problems) {
	if c.Score == nil {
		c.Score = &FusionConfig{Fusion: "mean"}
	}
	f := c.Score
	p.oneOf("score.fusion", f.Fusion, slices.Sorted(maps.Keys(fusions))...)
	if len(f.Of) == 0 {
		for _, q := range c.Passes {
			f.Of = append(f.Of, q.Heads...)
		}
		f.Of = slices.DeleteFunc(f.Of, func(name string) bool { return len(c.Heads[name].Names) > 0 })
	}
	for _, name := range f.Of {
		p.wrong(len(c.Heads[name].Names) > 0, "score.of", "the classes of heads.%s have no order, and so no score", name)
	}
	seen := map[string]bool{}
	for _, name := range f.Of {
		_, known := c.Heads[name]
		p.wrong(!known || seen[name], "score.of", "%q is not a head, or is repeated", name)
		seen[name] = true
	}
	p.wrong(f.Fusion == "weights" && len(f.Weights) != len(f.Of), "score.weights", "%d for %d heads", len(f.Weights),
		len(f.Of))
	p.wrong(f.Fusion != "weights" && len(f.Weights) > 0, "score.weights", "only for fusion: weights")
	p.wrong(!(f.LowerBound >= 0) || math.IsInf(f.LowerBound, 0), "score.lower_bound",
		"%g standard deviations", f.LowerBound)
	p.wrong(f.LowerBound > 0 && !c.hasSigma(), "score.lower_bound",
		"the score has no sigma: heads with outputs: mu_sigma and fusion mean, min or sum are needed")
}

// CheckDimension refuses a dimension that the scorer does not have; "" is the score.
func (c *ScorerConfig) CheckDimension(dimension string) error {
	_, err := c.of(dimension)
	return err
}

// of is the configuration whose score is one dimension: the passes that it needs, and no fusion. "": unchanged.
func (c *ScorerConfig) of(dimension string) (*ScorerConfig, error) {
	if dimension == "" {
		return c, nil
	}
	if !slices.Contains(c.Dimensions(), dimension) {
		return nil, fmt.Errorf("the scorer has no dimension %q; it has %s", dimension, c.dimensionNames())
	}
	if len(c.Heads[dimension].Names) > 0 {
		return nil, fmt.Errorf("the classes of %q have no order, and so no score", dimension)
	}
	one := *c
	one.Heads = map[string]DimensionConfig{dimension: c.Heads[dimension]}
	one.Score = &FusionConfig{Fusion: "mean", Of: []string{dimension}}
	one.Passes = nil
	for _, q := range c.Passes {
		if slices.Contains(q.Heads, dimension) {
			q.Heads = []string{dimension}
			one.Passes = append(one.Passes, q)
		}
	}
	return &one, nil
}

// Dimensions are the names of the named heads, sorted.
func (c *ScorerConfig) Dimensions() []string {
	names := slices.Sorted(maps.Keys(c.Heads))
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// dimensionNames lists the dimensions for an error message.
func (c *ScorerConfig) dimensionNames() string {
	if names := c.Dimensions(); len(names) > 0 {
		return strings.Join(names, ", ")
	}
	return "none with a name: it reports only a score"
}

// Problem is what is wrong with one key of a scorer.yaml.
type Problem struct{ Key, Text string }

type problems []Problem

func (p *problems) wrong(bad bool, key, format string, args ...any) {
	if bad {
		*p = append(*p, Problem{key, fmt.Sprintf(format, args...)})
	}
}

// err returns an error with a line per problem; nil without problems.
func (p problems) err() error {
	var list []error
	for _, x := range p {
		list = append(list, fmt.Errorf("%s: %s", x.Key, x.Text))
	}
	return errors.Join(list...)
}

func (p *problems) pairSize(size []int) {
	p.wrong(len(size) != 0 && (len(size) != 2 || size[0] < 1 || size[1] < 1),
		"pair_size", "must be [height, width] in pixels, not %v", size)
}

// NumberMark is the placeholder for a picture's number in number_pictures.
const NumberMark = text.NumberMark

func (p *problems) numbers(v string) {
	p.wrong(v != "" && !strings.Contains(v, NumberMark), "number_pictures", "%q has no %s, the picture's number", v,
		NumberMark)
}

func (p *problems) oneOf(key, v string, allowed ...string) {
	p.wrong(!slices.Contains(allowed, v), key, "%q is not one of %s", v, strings.Join(allowed, ", "))
}
