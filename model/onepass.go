package model

// asPasses is the configuration with passes, heads and fusion, whichever format it is written in: format 1 is one pass
// with one head that has no name. All but reading, writing and identifying a scorer.yaml looks at this form alone.
func (c *ScorerConfig) asPasses() *ScorerConfig {
	if c.Format == 2 {
		return c
	}
	p := *c
	pictures := []string{c.Pair}
	if c.Pair == Sequence {
		pictures = []string{"source", "edit"}
	}
	p.Passes = []PassConfig{{
		Name: "score", Pictures: pictures, Prompt: Text(c.Question), Answer: Text(c.Answer),
		Token: c.ScoreToken, Position: c.ScorePosition, Heads: []string{""},
	}}
	h := DimensionConfig{Hidden: c.Head.Hidden, Activation: c.Head.Activation, Outputs: OutputValue}
	if c.Head.Classes() {
		h.Outputs, h.Values = OutputClasses, c.Head.Values
	}
	p.Heads = map[string]DimensionConfig{"": h}
	p.Score = &FusionConfig{Fusion: "mean", Of: []string{""}}
	return &p
}

// ownToken reports whether the score token is no row of the backbone's vocabulary: the scorer has an embedding and an
// output row for it, and a text loss teaches it to the model.
func (c *ScorerConfig) ownToken() bool { return c.ScoreToken != "" }
