package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"assay/internal/benchmarks/protocol"
)

// ReadScores reads lines of {id, model, NUMBER} of files, as runs write them, and compares all editors of a sample by
// the number. lower: less is better.
func ReadScores(paths []string, number string, lower bool) (*Contest, error) {
	c := &Contest{of: number}
	if lower {
		c.notes = append(c.notes, "less of "+number+" is better")
	}
	samples, order, seen := map[string]map[int]float64{}, []string{}, map[string]bool{}
	var p protocol.Problems
	var judge protocol.OneRun
	for _, path := range paths {
		rows, err := protocol.ReadLines(path)
		if err != nil {
			return nil, err
		}
		run, err := protocol.RunOf(path)
		if err != nil {
			return nil, err
		}
		p.Each(rows, func(r *protocol.Line) error {
			if err := judge.Check(number, measuredBy(r, number, run)); err != nil {
				return err
			}
			id, name, v := r.ID(r.First("sample", "id")), r.Text(r.First("model", "method", "editor")), r.Number(number)
			if r.Err() != nil {
				return nil
			}
			if samples[id] == nil {
				samples[id], order = map[int]float64{}, append(order, id)
			}
			i := c.editor(name)
			key := fmt.Sprintf("%d %s", i, id)
			twice := seen[key] // also if one of the two is null
			if seen[key] = true; twice {
				return fmt.Errorf("a second value of %s for %s", id, name)
			}
			if lower {
				v = -v
			}
			if !math.IsNaN(v) {
				samples[id][i] = v
			}
			return nil
		})
	}
	c.compare(order, samples)
	if lacking := len(order) - len(c.units); lacking > 0 {
		c.notes = append(c.notes, fmt.Sprintf("%d of %d samples have only one editor and are not compared", lacking,
			len(order)))
	}
	c.noteParts(samples)
	return c, p.Err()
}

// compare turns each sample into a unit: all pairs of editors that have a value for it.
func (c *Contest) compare(order []string, samples map[string]map[int]float64) {
	for _, id := range order {
		var unit []comparisonOf
		for i := range c.editors {
			for j := range i {
				a, okA := samples[id][i]
				b, okB := samples[id][j]
				if okA && okB {
					unit = append(unit, comparisonOf{i, j, protocol.Sign(a - b)})
				}
			}
		}
		if len(unit) > 0 {
			c.units = append(c.units, unit)
		}
	}
}

// noteParts notes which editors have a number for only a part of the samples.
func (c *Contest) noteParts(samples map[string]map[int]float64) {
	for i, name := range c.editors {
		n := 0
		for _, s := range samples {
			if _, ok := s[i]; ok {
				n++
			}
		}
		if n < len(samples) {
			c.notes = append(c.notes, fmt.Sprintf("%s has %s for %d of %d samples, and is compared only on these",
				name, c.of,
				n, len(samples)))
		}
	}
}

// measuredBy returns what measured a number of a line: the line's "by", or the run that wrote its file.
func measuredBy(r *protocol.Line, number, run string) string {
	if !r.Has("by") {
		return run
	}
	return cmp.Or(r.Object("by")[number], run)
}

// voteWords are the words in votes for the first, the second and neither.
var voteWords = [3][]string{{"left", "a", "model_a", "leftvote"}, {"right", "b", "model_b", "rightvote"},
	{"tie", "tievote", "bothbad_vote", "tie (bothbad)"}}

// ReadVotes reads lines of {left, right, winner}, names of editors, winner being one of them, left, right or tie.
func ReadVotes(path string) (*Contest, error) {
	c := &Contest{of: "votes"}
	return c, protocol.EachLine(path, func(r *protocol.Line) error {
		a, b := r.Text(r.First("left", "a", "model_a", "left_model")), r.Text(r.First("right", "b", "model_b", "right_model"))
		winner := r.Text(r.First("winner", "vote_type"))
		if a == b {
			r.Fail("%q is compared with itself", a)
		}
		outcome, err := protocol.SideOf(winner, a, b, voteWords)
		if err != nil {
			return fmt.Errorf("winner is %w", err)
		}
		c.units = append(c.units, []comparisonOf{{c.editor(a), c.editor(b), outcome}})
		return nil
	})
}

// ReadGiven reads a human ranking of editors: lines of {model, score}, more being better, or {model, rank}, 1 being the
// best.
func ReadGiven(path string) (map[string]float64, error) {
	rows, err := protocol.ReadLines(path)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	by, sign := "score", 1.0
	if slices.ContainsFunc(rows, func(r *protocol.Line) bool { return r.Has("rank") }) {
		by, sign = "rank", -1
	}
	var p protocol.Problems
	p.Each(rows, func(r *protocol.Line) error {
		name := r.Text(r.First("model", "method", "editor"))
		if by == "rank" && r.Has("score") {
			return errors.New("it has a score, but the file has ranks: use one of them in all lines")
		}
		v := r.Number(by)
		if _, twice := out[name]; twice || math.IsNaN(v) {
			return fmt.Errorf("want one number for %s", name)
		}
		out[name] = sign * v
		return nil
	})
	return out, p.Err()
}
