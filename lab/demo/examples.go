package main

import (
	"cmp"
	"html/template"
	"math"
	"os"
	"slices"

	"assay/internal/page"
	"assay/internal/stats"
	"assay/lab/internal/miniature"
)

// shownTasks is the number of tasks in the report, each of a different family.
const shownTasks = 8

// example is a task with all its outputs, best score first.
type example struct {
	Family      miniature.Family
	Instruction string
	Source      template.URL
	File        string
	Outputs     []shownOutput
}

// shownOutput is an output with its picture; score and truth from 0 to 10.
type shownOutput struct {
	Kind         miniature.Kind
	Score, Truth float64
	Picture      template.URL
	Heatmap      template.URL // for outputs of the story, else ""
	File         string
}

// Far reports a score that is wrong by more than three of ten.
func (o shownOutput) Far() bool { return math.Abs(o.Score-o.Truth) > 3 }

// tasks returns the outputs of each task, in the order of the exam.
func (x *exam) tasks() [][]output {
	var all [][]output
	at := map[string]int{}
	for _, o := range x.outputs {
		g := o.truth.Group()
		i, ok := at[g]
		if !ok {
			i = len(all)
			at[g], all = i, append(all, nil)
		}
		all[i] = append(all[i], o)
	}
	return all
}

// choose draws the tasks to show, at most one of each family.
func choose(tasks [][]output, scores map[string]float64, seed uint64) ([]example, error) {
	rng := stats.NewRand(seed)
	var all []example
	seen := map[miniature.Family]bool{}
	for _, i := range rng.Perm(len(tasks)) {
		first := tasks[i][0]
		if seen[first.truth.Family] {
			continue
		}
		if seen[first.truth.Family] = true; len(all) == shownTasks {
			break
		}
		source, err := inline(first.source)
		if err != nil {
			return nil, err
		}
		e := example{Family: first.truth.Family, Instruction: first.instruction, Source: source,
			File: first.source}
		for _, o := range tasks[i] {
			picture, err := inline(o.edit)
			if err != nil {
				return nil, err
			}
			e.Outputs = append(e.Outputs,
				shownOutput{Kind: o.truth.Kind, Score: 10 * scores[o.truth.ID], Truth: 10 * o.truth.Degree,
					Picture: picture, File: o.edit})
		}
		slices.SortStableFunc(e.Outputs, func(a, b shownOutput) int { return cmp.Compare(b.Score, a.Score) })
		all = append(all, e)
	}
	return all, nil
}

// inline returns a PNG file as a data URI.
func inline(path string) (template.URL, error) {
	raw, err := os.ReadFile(path)
	return page.DataURL("image/png", raw), err
}
