package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"assay/lab/internal/miniature"
)

// figure writes a number with two decimals, "-" if it is undefined.
func figure(v any) string {
	var x float64
	switch v := v.(type) {
	case miniature.Measure:
		x = float64(v)
	case float64:
		x = v
	}
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "not met"
}

const shortNote = "The short form has little data and few steps: the figures mean nothing, but that everything runs."

// text writes the report for a terminal.
func (r *Report) text(w io.Writer) {
	fmt.Fprintf(w, "\n%d outputs for %d instructions, cut from these photographs: %s\n", r.Outputs, r.Tasks,
		strings.Join(r.Photos, ", "))
	if r.Short {
		fmt.Fprintln(w, shortNote)
	}
	fmt.Fprintf(w, "%d of %d goals are met\n", r.Met(), r.All())
	for _, g := range r.Goals {
		fmt.Fprintf(w, "  %-42s %5s   wanted %.2f: %s\n", g.Name, figure(g.Value), g.Want, met(g.Met))
		if g.WantAbove > 0 {
			fmt.Fprintf(w, "  %-42s %5s   wanted %.2f: %s\n", "  above the best of the others, "+g.Best, figure(g.Above),
				g.WantAbove, met(g.MetAbove))
		}
	}
	r.textJudges(w)
	q := r.Labels
	fmt.Fprintf(w,
		"\nlabels by the rules: %d rows; with the truth of %d of them: Spearman %s (outputs %s, chains %s), mean distance "+
			"%s of 1\n",
		q.Rows, q.Known, figure(q.Spearman), figure(q.Edits), figure(q.Chains), figure(q.Distance))
	fmt.Fprintf(w, "%-22s %6s %6s   mean truth\n", "  rule", "label", "rows")
	for _, l := range q.Rules {
		fmt.Fprintf(w, "  %-20s %6s %6d   %s\n", l.Rule, figure(l.Label), l.Rows, figure(l.Truth))
	}
	r.Captions.text(w)
	for _, e := range r.examples[:min(2, len(r.examples))] {
		fmt.Fprintf(w, "\nexample: %s\n  score  truth\n", e.Instruction)
		for _, o := range e.Outputs {
			fmt.Fprintf(w, "  %5.1f  %5.1f  %-16s %s\n", o.Score, o.Truth, o.Kind, o.File)
		}
	}
	fmt.Fprintln(w)
	for _, s := range r.Steps {
		fmt.Fprintf(w, "%5d s  %s\n", s.Seconds, s.Name)
	}
	fmt.Fprintf(w, "%5d s  together\n\n", r.Seconds())
	for _, c := range r.Commands {
		fmt.Fprintf(w, "%-18s %s\n", c.What, c.Line)
	}
}

// textJudges writes what the scorer and the similarities reach, by family and by kind of output.
func (r *Report) textJudges(w io.Writer) {
	fmt.Fprintf(w, "\n%-18s %8s %9s %6s %9s   sees the output and\n", "", "Spearman", "families", "alive", "pairs")
	for _, j := range r.Judges {
		x := j.Result
		fmt.Fprintf(w, "%-18s %8s %9s %6s %9s   %s\n", j.Name, figure(x.Spearman), figure(x.FamilyMean), figure(x.Alive),
			figure(x.PairAccuracy), j.Sees)
	}
	for _, j := range r.Judges {
		if j.Undefined > 0 {
			fmt.Fprintf(w, "%s is undefined for %d outputs, which count as 0\n", j.Name, j.Undefined)
		}
	}
	fmt.Fprintf(w, "\n%-18s", "Spearman")
	for _, j := range r.Judges {
		fmt.Fprintf(w, " %8s", short(j.Name))
	}
	for _, f := range miniature.Families {
		if _, ok := r.Judges[0].Result.Families[f]; !ok {
			continue
		}
		fmt.Fprintf(w, "\n  %-16s", f)
		for _, j := range r.Judges {
			fmt.Fprintf(w, " %8s", figure(j.Result.Families[f]))
		}
	}
	fmt.Fprintf(w, "\n\n%-18s %7s %6s %6s   perfect scores higher\n", "0 to 10", "outputs", "score", "truth")
	for _, k := range r.Kinds {
		fmt.Fprintf(w, "  %-16s %7d %6s %6s   %s\n", k.Kind, k.Outputs, figure(k.Score), figure(k.Truth), figure(k.Below))
	}
}

// text says how written captions compare; nil: none were written.
func (q *CaptionQuality) text(w io.Writer) {
	if q == nil {
		return
	}
	fmt.Fprintf(w, "\ncaptions by a model, of %d instructions: as the world's %s of sources and %s of targets, "+
		"%s of the words; %d failed\n", q.Tasks, figure(q.Source), figure(q.Target), figure(q.Words), q.Failed)

	fmt.Fprintf(w,
		"the rule clip_d fails %d outputs with them (mean truth %s) and %d with the world's (%s): the same for %s of all\n",
		q.Written.Outputs, figure(q.Written.Truth), q.Given.Outputs, figure(q.Given.Truth), figure(q.Agree))
}

// short is a judge's name for a narrow column.
func short(name string) string {
	if s, ok := strings.CutPrefix(name, "- "); ok {
		return "-" + s[:5]
	}
	return name
}
