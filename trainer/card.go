package trainer

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/atomicfile"
	"assay/internal/version"
)

// writeScorer writes the scorer as it is now, with its model card, into an empty folder.
func (r *run) writeScorer(dir string) error {
	if err := r.model.SaveScorer(dir); err != nil {
		return fmt.Errorf("writing the scorer: %w", err)
	}
	train, ok := r.data.Train.(*Samples)
	valid, okValid := r.valid.(*Samples)
	if !ok || !okValid { // made by a program, which describes it
		return nil
	}
	card, err := r.card(train, valid)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, "README.md"), func(w io.Writer) error {
		_, err := io.WriteString(w, card)
		return err
	})
}

// card is the model card: what the scorer was made from, and how well it does.
func (r *run) card(train, valid *Samples) (string, error) {
	c, s := r.config, &r.state
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
		c.Answer[0],
		version.Version,
		c.Mode,
	)
	fmt.Fprintf(&b, "    score pair --scorer %s --source a.png --edit b.png --instruction \"make it blue\"\n\n", ScorerDir)

	b.WriteString("## Data\n\n| | rows | label 0 | between | label 0.5 | between | label 1 |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, part := range []struct {
		name string
		s    *Samples
	}{{"training", train}, {"validation", valid}} {
		n := part.s.labelCounts()
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d |\n", part.name, part.s.Len(), n[0], n[1], n[2], n[3], n[4])
	}
	fmt.Fprintf(&b, "\n%d rows of the training tables have no label and were not used. Tables: %s.\n\n", r.data.Unlabelled,
		strings.Join(bases(c.Data.Train), ", "))

	b.WriteString("## Training\n\n")
	fmt.Fprintf(&b, "%d of %d steps of %d samples, %.2f epochs, seed %d, %.0f s.", s.Step, r.total, c.BatchSize,
		float64(s.Samples)/float64(r.order.Len()), c.Seed, r.seconds())
	if s.Train != nil {
		fmt.Fprintf(&b, " Last step: loss %.4f, |score - label| %.4f (labels 0 to 1).", float64(s.Train.Loss),
			float64(s.Train.L1))
	}
	b.WriteString("\n\n")
	r.measures(&b)

	text, err := withoutFolders(*c).YAML()
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "## Configuration\n\n```yaml\n%s```\n\n## Versions\n\n%s\n", text, versions())
	return b.String(), nil
}

func (r *run) measures(b *strings.Builder) {
	if r.state.Last == nil {
		b.WriteString("No validation so far.\n\n")
		return
	}
	b.WriteString("| validation at step | rows | L1 (0 to 1) | Spearman | accuracy over 0, 0.5, 1 |\n" +
		"|---|---|---|---|---|\n")
	list := []*ValidationMetrics{r.state.Last}
	if best := r.state.Best; best != nil && best.Step != r.state.Last.Step {
		list = append(list, best)
	}
	for _, m := range list {
		fmt.Fprintf(b, "| %d | %d | %.4f | %.4f | %.4f |\n", m.Step, m.Rows, float64(m.L1), float64(m.Spearman),
			float64(m.Accuracy))
	}
	fmt.Fprintf(b, "\nThe lowest L1 was at step %d; that scorer is in `%s`.\n\n", r.state.Best.Step, BestDir)
}

// labelCounts counts labels 0, between, 0.5, between, 1.
func (s *Samples) labelCounts() (n [5]int) {
	for _, r := range s.rows {
		switch {
		case r.bad != "" || !r.labelled():
		case r.label == 0:
			n[0]++
		case r.label < 0.5:
			n[1]++
		case r.label == 0.5:
			n[2]++
		case r.label < 1:
			n[3]++
		default:
			n[4]++
		}
	}
	return n
}

func bases(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = filepath.Base(p)
	}
	return out
}

// withoutFolders keeps only the last part of every path: a card may be published.
func withoutFolders(c Config) *Config {
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
	return strings.Join(out, ", ")
}
