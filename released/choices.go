package released

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/edit"
	"assay/internal/exit"
	"assay/model"
)

// choices makes a judge from a stock model: the likelihoods of some answers as the next token after a question, and
// the expectation of their values.
func choices(o *Options) (*judge, error) {
	if o.Base == "" || len(o.Choices) < 2 {
		return nil, exit.Usage(errors.New("--base and --choices are needed: a checkpoint directory, and two answers or more"))
	}
	values, scores, err := choiceValues(o)
	if err != nil {
		return nil, exit.Usage(err)
	}
	names, texts, err := questions(o.Prompts)
	if err != nil {
		return nil, err
	}
	base, weights, err := o.absolute()
	if err != nil {
		return nil, err
	}
	pictures := o.Pictures
	if len(pictures) == 0 {
		pictures = []string{"source", "edit"}
	}
	config := &model.ScorerConfig{
		Format: 2, Backbone: base, ScoreRange: scores,
		Kind:    "choices",
		Weights: weights,
		Alpha:   cmp.Or(o.Alpha, "white"),
		Heads:   map[string]model.DimensionConfig{},
		Score:   &model.FusionConfig{Fusion: cmp.Or(o.Fusion, "mean")},
		Origin:  &model.Origin{Name: "the choices of " + filepath.Base(base), Prompts: map[string]string{}},
	}
	for i, name := range names {
		config.Passes = append(config.Passes, model.PassConfig{
			Name: name, Pictures: pictures, Prompt: model.Text(texts[i]), Position: "last", Heads: []string{name},
		})
		config.Heads[name] = model.DimensionConfig{
			Outputs: model.OutputChoices, Choices: o.Choices, Values: values, Joint: o.Joint,
		}
		config.Origin.Prompts[name] = digest(texts[i])
	}
	state := &model.ScorerState{Config: config}
	return &judge{state: state, card: choicesCard(o, scores)}, nil
}

// choiceValues returns the values of the choices on 0..1, and the range that they are reported on.
func choiceValues(o *Options) (values []float64, r edit.Range, err error) {
	given := o.Values
	if given == nil {
		for _, c := range o.Choices {
			v, err := strconv.ParseFloat(strings.TrimSpace(c), 64)
			if err != nil {
				return nil, r, fmt.Errorf("--choices: %q is not a number: --values are needed, one for each choice", c)
			}
			given = append(given, v)
		}
	}
	if len(given) != len(o.Choices) {
		return nil, r, fmt.Errorf("--values: %d for %d choices", len(given), len(o.Choices))
	}
	r = edit.Range{slices.Min(given), slices.Max(given)}
	if len(o.Range) == 2 {
		r = edit.Range{o.Range[0], o.Range[1]}
	}
	for _, v := range append([]float64{r[0], r[1]}, given...) {
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, r, fmt.Errorf("--values, or numbers of --choices and --range: %g is not finite", v)
		}
	}
	if !(r[1] > r[0]) {
		return nil, r, fmt.Errorf("the values %v are on a range of %g to %g: it must not be empty", given, r[0], r[1])
	}
	for _, v := range given {
		values = append(values, (v-r[0])/(r[1]-r[0]))
	}
	return values, r, nil
}

// questions reads a text, or a folder of texts. It returns the names of the dimensions, from the file names, and the
// texts.
func questions(path string) (names, texts []string, err error) {
	if path == "" {
		return nil, nil, exit.Usage(fmt.Errorf("--prompts is needed: a text file in which %s stands for the instruction, or "+
			"a folder of *.txt, each a dimension", model.InstructionMark))
	}
	files := []string{path}
	if info, err := os.Stat(path); err != nil {
		return nil, nil, fmt.Errorf("--prompts: %w", err)
	} else if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, nil, err
		}
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) != ".txt" })
		if files = nil; len(entries) == 0 {
			return nil, nil, fmt.Errorf("--prompts %s: there is no *.txt in this folder", path)
		}
		for _, e := range entries {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if texts, err = promptFiles(files); err != nil {
		return nil, nil, fmt.Errorf("--prompts: %w", err)
	}
	for i, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), filepath.Ext(f)))
		if !strings.Contains(texts[i], model.InstructionMark) {
			return nil, nil, fmt.Errorf("--prompts %s: there is no %s, which stands for the instruction", f,
				model.InstructionMark)
		}
	}
	return names, texts, nil
}
