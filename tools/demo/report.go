package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/stats"
)

// scored is a held-out row with its score.
type scored struct {
	data.Row
	score float64 // 0..1
}

// report prints how scores agree with the true degree of success, and some examples.
func report(path string) error {
	rows, err := readScores(path)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return fmt.Errorf("%s holds no scored row", path)
	}
	labels, scores := make([]float64, len(rows)), make([]float64, len(rows))
	kinds := map[string][]float64{}
	for i, r := range rows {
		labels[i], scores[i] = *r.Label, r.score
		kinds[r.Why] = append(kinds[r.Why], r.score)
	}
	mean, ours, theirs := stats.Mean(labels), 0.0, 0.0
	for i := range rows {
		ours += math.Abs(scores[i]-labels[i]) / float64(len(rows))
		theirs += math.Abs(mean-labels[i]) / float64(len(rows))
	}
	fmt.Printf("%d edits of photographs never trained on\n", len(rows))
	fmt.Printf("Spearman correlation with the true degree of success   %.3f\n", stats.Spearman(scores, labels))
	fmt.Printf("mean distance to it, 0 to 10                           %.2f  (always answering the mean: %.2f)\n", 10*ours, 10*theirs)
	fmt.Println("mean score by kind of output:")
	for _, k := range []string{"right", "half", "too much", "wrong", "none", "damaged"} {
		fmt.Printf("  %-9s %5.2f\n", k, 10*stats.Mean(kinds[k]))
	}
	fmt.Println("examples (score, truth, output):")
	step := max(1, len(rows)/12)
	for step%6 != 1 { // six outputs stand side by side: every kind gets its turn
		step++
	}
	for i := 0; i < len(rows); i += step {
		r := rows[i]
		fmt.Printf("  %5.2f  %4.1f  %-9s %q  %s\n", 10*r.score, 10*(*r.Label), r.Why, r.Instruction, r.Edit.Path)
	}
	return nil
}

func readScores(path string) ([]scored, error) {
	t, err := data.OpenTable(path)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	var rows []scored
	for rec, err := range t.Records() {
		if err != nil {
			return nil, err
		}
		row, err := t.Row(rec)
		if err != nil {
			return nil, err
		}
		v, _ := rec.Get("score01")
		score, err := data.Number(v)
		if err != nil || score == nil || row.Label == nil {
			continue
		}
		rows = append(rows, scored{row, *score})
	}
	slices.SortFunc(rows, func(a, b scored) int { return strings.Compare(a.ID, b.ID) })
	return rows, nil
}
