package trainer

import (
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/records"
	"assay/internal/version"
)

// writeScorer writes the scorer as it is now, with its model card, into an empty folder.
func writeScorer(t *Trainer, dir string) error {
	if err := t.model.SaveScorer(dir); err != nil {
		return fmt.Errorf("writing the scorer: %w", err)
	}
	train, valid := t.data.Train, t.data.Validation
	if train.Made() || valid.Made() { // made by a program, which describes it
		return nil
	}
	describe := scorerCard
	if t.config.Mode == config.ModeText {
		describe = textCard
	}
	card, err := describe(t, train, valid)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, "README.md"), []byte(card))
}

// scorerCard is the model card: what the scorer was made from, and how well it does.
func scorerCard(t *Trainer, train, valid *dataset.Samples) (string, error) {
	c, s := t.config, &t.state
	var b strings.Builder
	front, err := yaml.Marshal(map[string]any{"library_name": "assay", "base_model": filepath.Base(c.Backbone),
		"tags": []string{"reward-model", "image-editing"}})
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "---\n%s---\n\n# Scorer of instruction-guided image edits\n\n", front)
	fmt.Fprintf(
		&b,
		"Given a source picture, an instruction and an edited picture it says how well the edit was done, %g to %g.\n"+
			"One forward pass over `%s` gives the score. Made with assay %s, mode %s.\n\n",
		c.ScoreRange[0],
		c.ScoreRange[1],
		c.ScoredAnswer(),
		version.Version,
		c.Mode,
	)
	fmt.Fprintf(&b, "    score pair --scorer %s --source a.png --edit b.png --instruction \"make it blue\"\n\n",
		config.ScorerDir)

	writeCardData(t, &b, train, valid)
	b.WriteString("## Training\n\n")
	size := fmt.Sprintf("%d samples", c.BatchSize)
	if t.loader.Groups != nil {
		size = fmt.Sprintf("whole groups, at most %d edits", c.BatchSize)
	}
	fmt.Fprintf(&b, "%d of %d steps of %s, %.2f epochs, seed %d, %.0f s.", s.Step, t.loader.Steps, size,
		t.loader.Epochs(s.Samples), c.Seed, t.state.Elapsed())
	if s.Train != nil {
		fmt.Fprintf(&b, " Last step: loss %.4f", float64(s.Train.Loss))
		if !math.IsNaN(float64(s.Train.L1)) {
			fmt.Fprintf(&b, ", |score - label| %.4f (labels 0 to 1)", float64(s.Train.L1))
		}
		b.WriteString(".")
	}
	if endedEarly(t) {
		fmt.Fprintf(&b, " It ended early: %d validations were no better than the best one (validate.patience).", s.Worse)
	}
	b.WriteString("\n\n")
	writeMeasures(&b, s)
	err = writeCardEnd(&b, c)
	return b.String(), err
}

// writeCardData says what the scorer has learned from.
func writeCardData(t *Trainer, b *strings.Builder, train, valid *dataset.Samples) {
	b.WriteString("## Data\n\n| | rows | label 0 | between | label 0.5 | between | label 1 |\n" +
		"|---|---|---|---|---|---|---|\n")
	unlabelled := 0
	for _, part := range []struct {
		name string
		s    *dataset.Samples
	}{{"training", train}, {"validation", valid}} {
		n := part.s.LabelCounts()
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d | %d |\n", part.name, part.s.Len(), n[0], n[1], n[2], n[3], n[4])
		unlabelled += part.s.Len() - (n[0] + n[1] + n[2] + n[3] + n[4])
	}
	why := "have no label"
	if len(t.config.Losses) > 0 {
		why = "say nothing that the losses read"
		if unlabelled > 0 {
			fmt.Fprintf(b, "\nThe labels are those of the score; %d edits have none, but a label or rank of a dimension, or "+
				"are compared.\n", unlabelled)
		}
	}
	if f := t.objective.Summarize(t.data); f != nil {
		b.WriteString("\nThe training rows:\n\n```\n")
		f.Print(b)
		b.WriteString("```\n")
	}
	fmt.Fprintf(b, "\n%d rows of the training tables %s and were not used. Tables: %s.\n\n", t.data.Unlabelled, why,
		strings.Join(bases(t.config.Data.Train), ", "))
}

// writeHeads lists the measures of each head at the last validation.
func writeHeads(b *strings.Builder, m *records.ValidationMetrics) {
	if len(m.Dimensions) == 0 {
		return
	}
	b.WriteString("\n| head | rows | L1 (0 to 1) | Spearman | right class | pair accuracy |\n|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(m.Dimensions)) {
		d := m.Dimensions[name]
		fmt.Fprintf(b, "| %s | %d |", name, d.Rows)
		for _, v := range []*records.Number{d.L1, d.Spearman, d.Accuracy, d.Pairs} {
			if v == nil || math.IsNaN(float64(*v)) {
				b.WriteString(" |")
			} else {
				fmt.Fprintf(b, " %.4f |", float64(*v))
			}
		}
		b.WriteString("\n")
	}
}

// writeMeasures lists the measures of the last and the best validation, as far as they are defined.
func writeMeasures(b *strings.Builder, s *checkpoint.State) {
	last, best := s.Last, s.Best
	if last == nil {
		b.WriteString("No validation so far.\n\n")
		return
	}
	list := []*records.ValidationMetrics{last}
	if best != nil && best.Step != last.Step {
		list = append(list, best)
	}
	columns := []struct {
		name  string
		value func(m *records.ValidationMetrics) records.Number
	}{
		{"L1 (0 to 1)", func(m *records.ValidationMetrics) records.Number { return m.L1 }},
		{"Spearman", func(m *records.ValidationMetrics) records.Number { return m.Spearman }},
		{"accuracy over 0, 0.5, 1", func(m *records.ValidationMetrics) records.Number { return m.Accuracy }},
		{"pair accuracy", (*records.ValidationMetrics).PairAccuracy},
	}
	head, rule := "| validation at step | rows |", "|---|---|"
	rows := make([]string, len(list))
	for i, m := range list {
		rows[i] = fmt.Sprintf("| %d | %d |", m.Step, m.Rows)
	}
	for _, c := range columns {
		if math.IsNaN(float64(c.value(list[0]))) && math.IsNaN(float64(c.value(list[len(list)-1]))) {
			continue
		}
		head, rule = head+" "+c.name+" |", rule+"---|"
		for i, m := range list {
			if v := c.value(m); math.IsNaN(float64(v)) {
				rows[i] += " |"
			} else {
				rows[i] += fmt.Sprintf(" %.4f |", float64(v))
			}
		}
	}
	fmt.Fprintf(b, "%s\n%s\n%s\n", head, rule, strings.Join(rows, "\n"))
	writeHeads(b, last)
	if last.PairRows > 0 {
		fmt.Fprintf(b, "\nPair accuracy is over %d pairs of edits of one source and instruction, of which one is better.\n",
			last.PairRows)
	}
	if best != nil {
		what := map[string]string{"": "lowest L1", config.BySpearman: "highest Spearman correlation",
			config.ByPairs: "highest pair accuracy"}[best.By]
		fmt.Fprintf(b, "\nThe %s was at step %d; that scorer is in `%s`.\n\n", what, best.Step, config.BestDir)
	}
}

// textCard is the model card of what mode text trained.
func textCard(t *Trainer, train, valid *dataset.Samples) (string, error) {
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
		what = "Adapter"
		use = fmt.Sprintf("score chat --backbone %s --adapter %s", filepath.Base(c.Backbone), config.AdapterDir)
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
	fmt.Fprintf(&b, "%d of %d steps of %d conversations, %.2f epochs, seed %d, %.0f s.", s.Step, t.loader.Steps,
		c.StepRows(), t.loader.Epochs(s.Samples), c.Seed, t.state.Elapsed())
	if s.Train != nil {
		fmt.Fprintf(&b, " Last step: loss %.4f a token.", float64(s.Train.Loss))
	}
	b.WriteString("\n\n")
	writeTextMeasures(&b, s)
	err = writeCardEnd(&b, c)
	return b.String(), err
}

func writeTextMeasures(w io.Writer, s *checkpoint.State) {
	last, best := s.Last, s.Best
	if last == nil {
		fmt.Fprint(w, "No validation so far.\n\n")
		return
	}
	names, of := "loss | token accuracy", "Loss and accuracy are of the answers' tokens."
	measures := func(m *records.ValidationMetrics) (a, b *records.Number) { return m.Loss, m.TokenAccuracy }
	if last.Reward != nil {
		names, of = "reward | read", "Rewards are of one answer to each prompt; read is the share that they could read."
		measures = func(m *records.ValidationMetrics) (a, b *records.Number) { return m.Reward, m.Read }
	}
	fmt.Fprintf(w, "| validation at step | rows | tokens | %s |\n|---|---|---|---|---|\n", names)
	line := func(m *records.ValidationMetrics) {
		a, b := measures(m)
		fmt.Fprintf(w, "| %d | %d | %d | %.4f | %.4f |\n", m.Step, m.Rows, m.Tokens, float64(*a), float64(*b))
	}
	line(last)
	if best != nil && best.Step != last.Step {
		line(best)
	}
	fmt.Fprintf(w, "\n%s The best one by %s is in `%s`.\n\n", of, best.By, config.BestDir)
}

// writeCardEnd writes the configuration and the versions.
func writeCardEnd(b *strings.Builder, c *config.Config) error {
	text, err := withoutFolders(*c).YAML()
	fmt.Fprintf(b, "## Configuration\n\n```yaml\n%s```\n\n## Versions\n\n%s\n", text, versions())
	return err
}

func bases(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = filepath.Base(p)
	}
	return out
}

// withoutFolders keeps only the last part of every path: a card may be published.
func withoutFolders(c config.Config) *config.Config {
	for _, p := range []*string{&c.Backbone, &c.Init, &c.Out} {
		if *p != "" {
			*p = filepath.Base(*p)
		}
	}
	c.Data.Train, c.Data.Validation.Tables = bases(c.Data.Train), bases(c.Data.Validation.Tables)
	return &c
}

// versions lists the program, Go and the libraries that the numbers depend on.
func versions() string {
	out := []string{"assay " + version.Version}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out[0]
	}
	out = append(out, info.GoVersion)
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/yalue/onnxruntime_go",
			"github.com/daulet/tokenizers",
			"gorgonia.org/gorgonia",
			"gorgonia.org/tensor":
			out = append(out, m.Path+" "+m.Version)
		}
	}
	jpeg, _ := data.JPEGDecoder()
	out = append(out, "JPEG by "+jpeg)
	return strings.Join(out, ", ")
}
