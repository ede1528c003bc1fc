package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/version"
)

// TextMeasure adds up what a model makes of the tokens of answers.
type TextMeasure struct {
	Loss   float64 // sum of -log softmax
	Tokens int
	Right  int // those that were the likeliest
}

// talker is a model that learns the answers of conversations.
type talker interface {
	targeter
	MeasureText(ctx context.Context, batch []Example) (TextMeasure, error)
}

// measureTalks measures the first n validation rows, with other ranks if there are any.
func (r *run) measureTalks(ctx context.Context, m talker, n int) (*ValidationMetrics, error) {
	all, err := r.shareValidation(ctx, n, func(ctx context.Context, batch []Example) (scored, error) {
		t, err := m.MeasureText(ctx, batch)
		if err != nil {
			return scored{}, err
		}
		return scored{Text: t, Examples: measured(batch)}, nil
	})
	if err != nil {
		return nil, err
	}
	var sum TextMeasure
	rows := 0
	for _, s := range all {
		t := s.Text
		rows, sum.Loss, sum.Tokens, sum.Right = rows+len(s.Examples), sum.Loss+t.Loss, sum.Tokens+t.Tokens, sum.Right+t.Right
	}
	if rows == 0 {
		return nil, errors.New("every validation row was set aside")
	}
	loss, accuracy := number(sum.Loss/float64(sum.Tokens)), number(float64(sum.Right)/float64(sum.Tokens))
	return &ValidationMetrics{
		Kind:          "validation",
		L1:            none,
		Spearman:      none,
		Accuracy:      none,
		Rows:          rows,
		Loss:          &loss,
		TokenAccuracy: &accuracy,
		Tokens:        sum.Tokens,
	}, nil
}

// textCard is the model card of what mode text trained.
func (r *run) textCard(train, valid *Samples) (string, error) {
	c, s := r.config, &r.state
	var b strings.Builder
	facts := map[string]any{"base_model": filepath.Base(c.Backbone), "pipeline_tag": "image-text-to-text"}
	if c.adapts() {
		facts["library_name"] = "peft"
	}
	front, err := yaml.Marshal(facts)
	if err != nil {
		return "", err
	}
	what, use := "Model", "score chat --backbone "+BackboneDir
	if c.adapts() {
		what, use = "Adapter", fmt.Sprintf("score chat --backbone %s --adapter %s", filepath.Base(c.Backbone), AdapterDir)
	}
	fmt.Fprintf(
		&b,
		"---\n%s---\n\n# %s that answers in words\n\nTrained on the answers of conversations with pictures, by "+
			"assay %s, mode %s, tune %s.\n\n    %s --image a.png --text \"...\"\n\n",
		front,
		what,
		version.Version,
		c.Mode,
		c.Text.Tune,
		use,
	)
	fmt.Fprintf(&b, "## Data\n\n%d conversations for training, %d for validation. Tables: %s.\n\n## Training\n\n",
		train.Len(), valid.Len(), strings.Join(bases(c.Data.Train), ", "))
	fmt.Fprintf(&b, "%d of %d steps of %d conversations, %.2f epochs, seed %d, %.0f s.", s.Step, r.total, c.BatchSize,
		float64(s.Samples)/float64(r.order.Len()), c.Seed, r.seconds())
	if s.Train != nil {
		fmt.Fprintf(&b, " Last step: loss %.4f a token.", float64(s.Train.Loss))
	}
	b.WriteString("\n\n")
	r.textMeasures(&b)
	err = r.endCard(&b)
	return b.String(), err
}

func (r *run) textMeasures(w io.Writer) {
	last, best := r.state.Last, r.state.Best
	if last == nil {
		fmt.Fprint(w, "No validation so far.\n\n")
		return
	}
	fmt.Fprint(w, "| validation at step | rows | tokens | loss | token accuracy |\n|---|---|---|---|---|\n")
	line := func(m *ValidationMetrics) {
		fmt.Fprintf(w, "| %d | %d | %d | %.4f | %.4f |\n", m.Step, m.Rows, m.Tokens, float64(*m.Loss),
			float64(*m.TokenAccuracy))
	}
	line(last)
	if best != nil && best.Step != last.Step {
		line(best)
	}
	fmt.Fprintf(w, "\nLoss and accuracy are of the answers' tokens. The best one by %s is in `%s`.\n\n", best.By, BestDir)
}
