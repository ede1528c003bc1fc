package trainer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/exit"
	"assay/losses"
)

// checkComparable finds before the first step what would end a run later, or leave it without anything to learn from.
// It tells (warn may be nil) what the run does not learn from.
func (r *run) checkComparable(warn func(text string)) error {
	if err := r.checkSchedule(warn); err != nil {
		return err
	}
	if train, ok := r.data.Train.(*Samples); ok && len(r.config.Losses) > 0 {
		if err := train.checkContrary("data.train", r.config.compared()); err != nil {
			return err
		}
		if err := r.checkTerms(train, warn); err != nil {
			return err
		}
	}
	if valid, ok := r.valid.(*Samples); ok {
		if err := valid.checkContrary("data.validation", []string{""}); err != nil {
			return err
		}
		return r.checkMeasure(valid)
	}
	return nil
}

// checkSchedule refuses a warm-up and a decay that do not both fit the run, its own and those of groups, and tells of a
// warm-up that the run ends within.
func (r *run) checkSchedule(warn func(text string)) error {
	if err := r.checkCourse("schedule", &r.config.Schedule, warn); err != nil {
		return err
	}
	for _, x := range r.config.Optimizer.Groups.scheduled() {
		if err := r.checkCourse(strings.TrimSuffix(x.key, "."), x.Schedule, warn); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) checkCourse(key string, s *ScheduleConfig, warn func(text string)) error {
	steps := func(n float64) float64 {
		if n < 1 {
			n *= float64(r.total)
		}
		return n
	}
	if s.Kind == "wsd" && steps(s.Warmup)+steps(s.Decay) > float64(r.total)+1e-6 {
		return exit.Usagef("%s: warmup %g and decay %g are more than the %d steps of the run", key, s.Warmup, s.Decay,
			r.total)
	}
	if warn != nil && steps(s.Warmup) > float64(r.total) {
		warn(fmt.Sprintf("%s: the warm-up has %g steps, the run %d: the learning rate stays below its peak", key, s.Warmup,
			r.total))
	}
	return nil
}

// checkTerms refuses terms of the objective that have no item in an epoch, and ties where a term knows none.
func (r *run) checkTerms(train *Samples, warn func(string)) error {
	f := r.found()
	if warn != nil {
		for _, text := range f.leftOut() {
			warn("left out: " + text)
		}
	}
	for t := range r.config.Losses {
		s := &r.config.Losses[t]
		if s.Ties == "refuse" {
			if err := r.checkTies(train, s); err != nil {
				return err
			}
		}
		sampled := r.groups != nil && r.groups.bound > 1 && f.Sampled > 0 // an epoch may draw others
		if s.Over() == losses.Tokens || f.Items[r.config.termName(t)] > 0 || sampled {
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
			"A group is the edits of one source and instruction", t, s.Kind, what, dimension, train.Len(), f.Groups, f.Sizes[0],
			f.Sizes[2])
	}
	return nil
}

// checkTies refuses edits of a group that are equal to a term which wants none.
func (r *run) checkTies(train *Samples, s *losses.Spec) error {
	for _, rows := range newOrder(0, train.units(), WholeGroups).Units {
		part := make([]Example, len(rows))
		for k, i := range rows {
			part[k] = Example{Index: i, Said: train.rows[i].Said}
		}
		for _, it := range orderItems(s, part, 0, len(part)) {
			for a := range it.Ranks {
				if b := slices.Index(it.Ranks, it.Ranks[a]); b < a {
					return exit.Usagef("losses: %s has ties: refuse, but two edits of a group are equal: %s and %s", s.Kind,
						train.name(rows[it.Edits[b]]), train.name(rows[it.Edits[a]]))
				}
			}
		}
	}
	return nil
}

// name says where a row stands, for people.
func (s *Samples) name(i int) string {
	r := &s.rows[i]
	if r.table == nil && r.talks == nil {
		return r.id
	}
	return cmp.Or(placeOf(r.table, r.index), r.place().String())
}

// checkMeasure refuses a way to choose the best scorer that the validation rows do not allow.
func (r *run) checkMeasure(valid *Samples) error {
	c := &r.config.Validate
	if c.By == byBenchmark { // it has data of its own
		return nil
	}
	if valid.Len() == 0 {
		if len(r.config.plateaus()) > 0 {
			return exit.Usagef("schedule.kind: %s", plateauWants)
		}
		if c.By != "auto" || c.Patience > 0 {
			return exit.Usagef("validate: by and patience want validation rows: name them with data.validation or " +
				"data.validation_split")
		}
		return nil
	}
	if r.config.Mode == ModeText { // every conversation has a loss
		return nil
	}
	n := valid.Len()
	if c.Limit > 0 {
		n = min(n, c.Limit)
	}
	m := &ValidationMetrics{L1: number(math.NaN()), Spearman: number(math.NaN())}
	var examples []Example
	for i := range n {
		row := &valid.rows[i]
		if row.bad != "" {
			continue
		}
		e := Example{Index: i, Label: row.label, Said: row.Said}
		if e.labelled() {
			m.L1 = 0
			if first := slices.IndexFunc(examples, func(o Example) bool { return o.labelled() }); first >= 0 &&
				examples[first].Label != e.Label {
				m.Spearman = 0
			}
		}
		examples = append(examples, e)
	}
	if len(examples) == 0 { // told elsewhere
		return nil
	}
	if _, pairs := r.rightPairs(make([]float64, len(examples)), examples); pairs > 0 {
		m.Pairs = new(number)
	}
	best := r.state.Best
	r.state.Best = nil
	_, err := r.better(m)
	if r.state.Best = best; err != nil {
		return exit.Usage(err)
	}
	return nil
}
