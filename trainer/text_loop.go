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
	"assay/trainer/config"
	"assay/trainer/dataset"
	"assay/trainer/models"
	"assay/trainer/records"
)

// textMeasurer is a model that learns the answers of conversations.
type textMeasurer interface {
	models.Targeter
	MeasureText(ctx context.Context, batch []dataset.Example) (models.TextMeasure, error)
}

// measureText measures the first n validation rows, with other ranks if there are any.
func (t *Trainer) measureText(ctx context.Context, m textMeasurer, n int) (*records.ValidationMetrics, error) {
	all, err := t.measureRows(ctx, n, func(ctx context.Context, batch []dataset.Example) (out models.Measured, err error) {
		out.Text, err = m.MeasureText(ctx, batch)
		return out, err
	})
	if err != nil {
		return nil, err
	}
	var sum models.TextMeasure
	rows := 0
	for _, s := range all {
		rows, sum.Loss = rows+len(s.Examples), sum.Loss+s.Text.Loss
		sum.Tokens, sum.Right = sum.Tokens+s.Text.Tokens, sum.Right+s.Text.Right
	}
	if rows == 0 {
		return nil, errors.New("every validation row was set aside")
	}
	loss, accuracy := records.Number(sum.Loss/float64(sum.Tokens)), records.Number(float64(sum.Right)/float64(sum.Tokens))
	return &records.ValidationMetrics{
		Kind:          "validation",
		L1:            records.None,
		Spearman:      records.None,
		Accuracy:      records.None,
		Rows:          rows,
		Loss:          &loss,
		TokenAccuracy: &accuracy,
		Tokens:        sum.Tokens,
	}, nil
}

// textCard is the model card of what mode text trained.
func (t *Trainer) textCard(train, valid *dataset.Samples) (string, error) {
	c, s := t.config, &t.state
	var b strings.Builder
	facts := map[string]any{"base_model": filepath.Base(c.Backbone), "pipeline_tag": "image-text-to-text"}
	if c.Adapts() {
		facts["library_name"] = "peft"
	}
	front, err := yaml.Marshal(facts)
	if err != nil {
		return "", err
	}
	what, use := "Model", "score chat --backbone "+config.BackboneDir
	if c.Adapts() {
		what, use = "Adapter", fmt.Sprintf("score chat --backbone %s --adapter %s", filepath.Base(c.Backbone), config.AdapterDir)
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
	fmt.Fprintf(&b, "%d of %d steps of %d conversations, %.2f epochs, seed %d, %.0f s.",
		s.Step, t.loader.Steps, c.BatchSize,
		float64(s.Samples)/float64(t.loader.Order.Len()), c.Seed, t.state.Elapsed())
	if s.Train != nil {
		fmt.Fprintf(&b, " Last step: loss %.4f a token.", float64(s.Train.Loss))
	}
	b.WriteString("\n\n")
	t.textMeasures(&b)
	err = t.endCard(&b)
	return b.String(), err
}

func (t *Trainer) textMeasures(w io.Writer) {
	last, best := t.state.Last, t.state.Best
	if last == nil {
		fmt.Fprint(w, "No validation so far.\n\n")
		return
	}
	fmt.Fprint(w, "| validation at step | rows | tokens | loss | token accuracy |\n|---|---|---|---|---|\n")
	line := func(m *records.ValidationMetrics) {
		fmt.Fprintf(w, "| %d | %d | %d | %.4f | %.4f |\n", m.Step, m.Rows, m.Tokens, float64(*m.Loss),
			float64(*m.TokenAccuracy))
	}
	line(last)
	if best != nil && best.Step != last.Step {
		line(best)
	}
	fmt.Fprintf(w, "\nLoss and accuracy are of the answers' tokens. The best one by %s is in `%s`.\n\n", best.By, config.BestDir)
}
