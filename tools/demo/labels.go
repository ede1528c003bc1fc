package main

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/miniature"
	"assay/internal/stats"
)

// LabelQuality compares the labels that the rules gave with the truth, which neither they nor the scorer ever saw.
type LabelQuality struct {
	Rows     int               `json:"rows"`     // of the label table
	Known    int               `json:"known"`    // labelled rows whose truth is written down
	Spearman miniature.Measure `json:"spearman"` // of labels and truth over these
	Edits    miniature.Measure `json:"edits"`    // over the editors' outputs alone
	Chains   miniature.Measure `json:"chains"`   // over pictures of chains alone
	Distance miniature.Measure `json:"distance"` // mean |label - truth|
	Rules    []RuleQuality     `json:"rules"`
}

// RuleQuality is what one rule gave as one label.
type RuleQuality struct {
	Rule  string            `json:"rule"`
	Label miniature.Measure `json:"label"` // undefined: none
	Rows  int               `json:"rows"`
	Truth miniature.Measure `json:"truth"` // mean, where it is written down
}

// readLabels reads a label table and the truth of its data. Ids are the data set's, after the name of the source.
func readLabels(table, dir string) (*LabelQuality, error) {
	known, err := miniature.ReadTruth(filepath.Join(dir, miniature.TruthFile))
	if err != nil {
		return nil, err
	}
	truth := map[string]miniature.Truth{}
	for _, k := range known {
		truth[k.ID] = k
	}
	t, err := data.OpenTable(table, data.WithRequired("id"), data.WithOnly("id", "label", "why"))
	if err != nil {
		return nil, err
	}
	defer t.Close()
	type pairs struct{ labels, truths []float64 }
	var all, edits, chains pairs
	type cell struct {
		rule  string
		label float64 // -1: none
	}
	rows, truths := map[cell]int{}, map[cell][]float64{}
	q := &LabelQuality{}
	for row, err := range t.All() {
		if err != nil {
			return nil, err
		}
		q.Rows++
		c := cell{row.Why, -1}
		if row.Label != nil {
			c.label = *row.Label
		}
		rows[c]++
		_, id, _ := strings.Cut(row.ID, "/")
		k, ok := truth[id]
		if !ok { // a source, or a target, shown as the result
			continue
		}
		truths[c] = append(truths[c], k.Degree)
		if row.Label == nil {
			continue
		}
		some := &edits
		if k.Kind == miniature.Chained {
			some = &chains
		}
		for _, p := range []*pairs{&all, some} {
			p.labels, p.truths = append(p.labels, *row.Label), append(p.truths, k.Degree)
		}
	}
	q.Known = len(all.labels)
	far := 0.0
	for i := range all.labels {
		far += math.Abs(all.labels[i] - all.truths[i])
	}
	q.Distance = miniature.Measure(far / float64(q.Known))
	for _, p := range []struct {
		to *miniature.Measure
		of pairs
	}{{&q.Spearman, all}, {&q.Edits, edits}, {&q.Chains, chains}} {
		*p.to = miniature.Measure(stats.Spearman(p.of.labels, p.of.truths))
	}
	for c, n := range rows {
		r := RuleQuality{c.rule, miniature.Measure(c.label), n, miniature.Measure(stats.Mean(truths[c]))}
		if c.label < 0 {
			r.Rule, r.Label = "none", miniature.Measure(math.NaN())
		}
		q.Rules = append(q.Rules, r)
	}
	slices.SortFunc(q.Rules, func(a, b RuleQuality) int {
		return cmp.Or(strings.Compare(a.Rule, b.Rule), cmp.Compare(a.Label, b.Label))
	})
	return q, nil
}
