package trainer

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/exit"
	"assay/losses"
	"assay/trainer/config"
	"assay/trainer/dataset"
	"assay/trainer/objective"
	"assay/trainer/records"
)

// checkComparable finds before the first step what would end a run later, or leave it without anything to learn from.
// It tells (warn may be nil) what the run does not learn from.
func (t *Trainer) checkComparable(warn func(text string)) error {
	if err := t.checkSchedule(warn); err != nil {
		return err
	}
	if train, ok := t.data.Train.(*dataset.Samples); ok && len(t.config.Losses) > 0 {
		if err := train.CheckContrary("data.train", t.config.Compared()); err != nil {
			return err
		}
		if err := t.checkTerms(train, warn); err != nil {
			return err
		}
	}
	if valid, ok := t.data.Validation.(*dataset.Samples); ok {
		if err := valid.CheckContrary("data.validation", []string{""}); err != nil {
			return err
		}
		return t.checkMeasure(valid)
	}
	return nil
}

// checkSchedule refuses a warm-up and a decay that do not both fit the run, its own and those of groups, and tells of a
// warm-up that the run ends within.
func (t *Trainer) checkSchedule(warn func(text string)) error {
	if err := t.checkCourse("schedule", &t.config.Schedule, warn); err != nil {
		return err
	}
	for _, x := range t.config.Optimizer.Groups.Scheduled() {
		if err := t.checkCourse(strings.TrimSuffix(x.Key, "."), x.Schedule, warn); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trainer) checkCourse(key string, s *config.ScheduleConfig, warn func(text string)) error {
	steps := func(n float64) float64 {
		if n < 1 {
			n *= float64(t.loader.Steps)
		}
		return n
	}
	if s.Kind == "wsd" && steps(s.Warmup)+steps(s.Decay) > float64(t.loader.Steps)+1e-6 {
		return exit.Usagef("%s: warmup %g and decay %g are more than the %d steps of the run", key, s.Warmup, s.Decay,
			t.loader.Steps)
	}
	if warn != nil && steps(s.Warmup) > float64(t.loader.Steps) {
		warn(fmt.Sprintf("%s: the warm-up has %g steps, the run %d: the learning rate stays below its peak", key, s.Warmup,
			t.loader.Steps))
	}
	return nil
}

// checkTerms refuses terms of the objective that have no item in an epoch, and ties where a term knows none.
func (t *Trainer) checkTerms(train *dataset.Samples, warn func(string)) error {
	f := t.objective.Summarize(t.data)
	if warn != nil {
		for _, text := range f.LeftOut() {
			warn("left out: " + text)
		}
	}
	for i := range t.config.Losses {
		s := &t.config.Losses[i]
		if s.Ties == "refuse" {
			if err := objective.CheckTies(train, s); err != nil {
				return err
			}
		}
		sampled := t.loader.Groups != nil && t.loader.Groups.Bound > 1 && f.Sampled > 0 // an epoch may draw others
		if s.Over() == losses.Tokens || f.Items[t.objective.TermName(i)] > 0 || sampled {
			continue
		}
		what, dimension := map[losses.Unit]string{
			losses.Edits:  "no edit has a label",
			losses.Pairs:  "no group has two edits in a step that are compared, or have labels or ranks",
			losses.Orders: "no group has two edits in a step with labels or ranks",
		}[s.Over()], ""
		if s.Dimension != "" {
			dimension = " of " + s.Dimension
		}
		return exit.Usagef("losses[%d]: %s has nothing to learn from: %s%s (%d rows in %d groups of %g to %g edits). "+
			"A group is the edits of one source and instruction", i, s.Kind, what, dimension, train.Len(), f.Groups, f.Sizes[0],
			f.Sizes[2])
	}
	return nil
}

// checkMeasure refuses a way to choose the best scorer that the validation rows do not allow.
func (t *Trainer) checkMeasure(valid *dataset.Samples) error {
	c := &t.config.Validate
	if c.By == config.ByBenchmark { // it has data of its own
		return nil
	}
	if valid.Len() == 0 {
		if len(t.config.Plateaus()) > 0 {
			return exit.Usagef("schedule.kind: %s", config.PlateauWants)
		}
		if c.By != "auto" || c.Patience > 0 {
			return exit.Usagef("validate: by and patience want validation rows: name them with data.validation or " +
				"data.validation_split")
		}
		return nil
	}
	if t.config.Mode == config.ModeText { // every conversation has a loss
		return nil
	}
	n := valid.Len()
	if c.Limit > 0 {
		n = min(n, c.Limit)
	}
	m := &records.ValidationMetrics{L1: records.Number(math.NaN()), Spearman: records.Number(math.NaN())}
	var examples []dataset.Example
	for i := range n {
		row := &valid.Rows[i]
		if row.Bad != "" {
			continue
		}
		e := dataset.Example{Index: i, Label: row.Label, Annotations: row.Annotations}
		if e.Labelled() {
			m.L1 = 0
			if first := slices.IndexFunc(examples, func(o dataset.Example) bool { return o.Labelled() }); first >= 0 &&
				examples[first].Label != e.Label {
				m.Spearman = 0
			}
		}
		examples = append(examples, e)
	}
	if len(examples) == 0 { // told elsewhere
		return nil
	}
	if _, pairs := objective.RightPairs(t.data.Validation, make([]float64, len(examples)), examples); pairs > 0 {
		m.Pairs = new(records.Number)
	}
	best := t.state.Best
	t.state.Best = nil
	_, err := t.better(m)
	if t.state.Best = best; err != nil {
		return exit.Usage(err)
	}
	return nil
}
