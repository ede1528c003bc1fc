package main

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/stats"
	"assay/lab/internal/miniature"
)

// LabelQuality compares the labels from the rules with the truth, which neither the rules nor the scorer ever saw.
type LabelQuality struct {
	Rows     int               `json:"rows"`     // of the label table
	Known    int               `json:"known"`    // labelled rows with a known truth
	Spearman miniature.Measure `json:"spearman"` // of labels and truth over these
	Edits    miniature.Measure `json:"edits"`    // only over editors' outputs
	Chains   miniature.Measure `json:"chains"`   // only over pictures of chains
	Distance miniature.Measure `json:"distance"` // mean |label - truth|
	Rules    []RuleQuality     `json:"rules"`
}

// RuleQuality describes the rows with one label from one rule.
type RuleQuality struct {
	Rule  string            `json:"rule"`
	Label miniature.Measure `json:"label"` // undefined: none
	Rows  int               `json:"rows"`
	Truth miniature.Measure `json:"truth"` // mean, where it is known
}

// readLabels reads a label table and the truth of its data. The ids are those of the data set, prefixed by the name
// of the source.
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
	tally := labelTally{count: map[ruleLabel]int{}, truths: map[ruleLabel][]float64{}}
	for row, err := range t.All() {
		if err != nil {
			return nil, err
		}
		_, id, _ := strings.Cut(row.ID, "/")
		var known *miniature.Truth
		if k, ok := truth[id]; ok { // else it is a source or target shown as the result
			known = &k
		}
		tally.add(&row, known)
	}
	return tally.quality(), nil
}

// ruleLabel is a rule with one of its labels.
type ruleLabel struct {
	rule  string
	label float64 // -1: none
}

// labelPairs are labels and the corresponding truths.
type labelPairs struct{ labels, truths []float64 }

func (p *labelPairs) add(label, truth float64) {
	p.labels, p.truths = append(p.labels, label), append(p.truths, truth)
}

func (p *labelPairs) spearman() miniature.Measure {
	return miniature.Measure(stats.Spearman(p.labels, p.truths))
}

// labelTally counts the rows of a label table.
type labelTally struct {
	rows               int
	all, edits, chains labelPairs // rows with label and truth
	count              map[ruleLabel]int
	truths             map[ruleLabel][]float64
}

func (t *labelTally) add(row *data.Row, truth *miniature.Truth) {
	t.rows++
	c := ruleLabel{row.Why, -1}
	if row.Label != nil {
		c.label = *row.Label
	}
	t.count[c]++
	if truth == nil {
		return
	}
	t.truths[c] = append(t.truths[c], truth.Degree)
	if row.Label == nil {
		return
	}
	t.all.add(*row.Label, truth.Degree)
	if truth.Kind == miniature.Chained {
		t.chains.add(*row.Label, truth.Degree)
	} else {
		t.edits.add(*row.Label, truth.Degree)
	}
}

func (t *labelTally) quality() *LabelQuality {
	far := 0.0
	for i := range t.all.labels {
		far += math.Abs(t.all.labels[i] - t.all.truths[i])
	}
	q := &LabelQuality{Rows: t.rows, Known: len(t.all.labels)}
	q.Distance = miniature.Measure(far / float64(q.Known))
	q.Spearman, q.Edits, q.Chains = t.all.spearman(), t.edits.spearman(), t.chains.spearman()
	for c, n := range t.count {
		r := RuleQuality{c.rule, miniature.Measure(c.label), n, miniature.Measure(stats.Mean(t.truths[c]))}
		if c.label < 0 {
			r.Rule, r.Label = "none", miniature.Measure(math.NaN())
		}
		q.Rules = append(q.Rules, r)
	}
	slices.SortFunc(q.Rules, func(a, b RuleQuality) int {
		return cmp.Or(strings.Compare(a.Rule, b.Rule), cmp.Compare(a.Label, b.Label))
	})
	return q
}
