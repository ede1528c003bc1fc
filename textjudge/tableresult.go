package textjudge

import (
	"fmt"
	"strings"

	"assay/internal/table"
)

// TableResult counts what Table did.
type TableResult struct {
	Out     string `json:"out"`
	Judge   string `json:"judge"`
	Rule    string `json:"rule"`
	Average string `json:"average"`
	Passes  int    `json:"passes"`
	Repeats int    `json:"repeats"`
	Prompts string `json:"prompts"` // own, published or altered

	Constrained bool `json:"constrained"` // the grammars decided which tokens could be chosen

	Rows            int     `json:"rows"`
	Judged          int     `json:"judged"`
	Failed          int     `json:"failed"`           // rows without a score
	Unreadable      int     `json:"unreadable"`       // of them, those whose answers could not be read
	UnreadableShare float64 `json:"unreadable_share"` // of all rows that were answered
	Pairs           *Pairs  `json:"pairs,omitempty"`

	Answers    int      `json:"answers"` // of all rows, kept ones too
	Again      int      `json:"again"`   // of them, those that were asked again
	Prompt     int64    `json:"prompt_tokens"`
	Completion int64    `json:"completion_tokens"`
	Warnings   []string `json:"warnings,omitempty"`
}

// result begins the count of a table's rows.
func (j *Judge) result(out string, rows int) *TableResult {
	c := &j.Config
	r := &TableResult{Out: out, Judge: c.Name, Rule: c.Rule, Average: c.Average, Passes: c.Passes, Repeats: c.Repeats,
		Prompts: j.Asks, Constrained: c.Constrained, Rows: rows, Warnings: j.Warnings}
	if c.Pair {
		r.Pairs = &Pairs{}
	}
	return r
}

// Pairs says how far the two orders of pairs agree.
type Pairs struct {
	Agree         int     `json:"agree"`
	Disagree      int     `json:"disagree"`
	DisagreeShare float64 `json:"disagree_share"`
	FirstShown    int     `json:"first_shown"`  // disagreements in which the one shown first is preferred both times
	SecondShown   int     `json:"second_shown"` // ... the one shown second
}

// count adds a row.
func (t *TableResult) count(l *table.Line[Result]) {
	d := &l.Value
	for _, a := range d.Answers {
		t.Answers++
		if a.Try > 0 {
			t.Again++
		}
		t.Prompt += int64(a.Prompt)
		t.Completion += int64(a.Completion)
	}
	switch {
	case l.Unreadable:
		t.Failed++
		t.Unreadable++
		return
	case l.Error != "":
		t.Failed++
		return
	}
	t.Judged++
	if d.Agree == nil {
		return
	}
	t.Pairs.Count(d.Dimensions[shownFirst], d.Dimensions[shownSecond])
}

// Count adds a pair by what was said of its first edit when that was shown first, and second (1: it is better).
func (p *Pairs) Count(shownFirst, shownSecond float64) {
	first, second := side(shownFirst), side(shownSecond)
	switch {
	case first == second:
		p.Agree++
	case first > second:
		p.Disagree++
		p.FirstShown++
	default:
		p.Disagree++
		p.SecondShown++
	}
	p.DisagreeShare = float64(p.Disagree) / float64(p.Agree+p.Disagree)
}

// String is the rule in words: its name, and how passes are averaged.
func (t *TableResult) String() string {
	words := []string{t.Judge, "rule " + t.Rule}
	if t.Passes > 1 {
		words = append(words, fmt.Sprintf("%d passes, average %s", t.Passes, t.Average))
	}
	if t.Constrained {
		words = append(words, "constrained")
	}
	return strings.Join(words, ", ")
}
