package fedbench

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/benchmarks/protocol"
	"assay/internal/stats"
)

// recognition holds several models' answers on the expression of each picture, and the true expression.
type recognition struct {
	ids, truth []string
	models     []string
	answers    map[string][]string // by model, for each picture; "": no answer
}

// maxEnsembles bounds the search: the maximum number of sets of models of one size.
const maxEnsembles = 1_000_000

// ReadRecognition reads lines of {id, truth, model, answer}. Every model must have answered each picture, and at least
// once with one of the seven expressions. Any other answer cannot be parsed: it is wrong and does not vote.
func ReadRecognition(path string) (*recognition, error) {
	rows, err := protocol.ReadLines(path)
	if err != nil {
		return nil, err
	}
	r := &recognition{answers: map[string][]string{}}
	index, given := map[string]int{}, map[string]map[int]string{}
	var p protocol.Problems
	p.Each(rows, func(row *protocol.Line) error {
		id, truth, model, answer := row.ID("id"), word(row.Text("truth")), row.Filled("model"), word(row.Text("answer"))
		if row.Err() != nil {
			return nil
		}
		i, known := index[id]
		if !known {
			i = len(r.ids)
			index[id] = i
			r.ids, r.truth = append(r.ids, id), append(r.truth, truth)
		}
		if given[model] == nil {
			given[model], r.models = map[int]string{}, append(r.models, model)
		}
		_, twice := given[model][i]
		given[model][i] = answer
		switch {
		case polarity(truth) == "":
			return fmt.Errorf("truth is %q: want one of the seven expressions", truth)
		case r.truth[i] != truth:
			return fmt.Errorf("the truth of %s is %s here, %s before", id, truth, r.truth[i])
		case twice:
			return fmt.Errorf("a second answer of %s for %s", model, id)
		}
		return nil
	})
	for _, model := range r.models {
		list := make([]string, len(r.ids))
		for i, id := range r.ids {
			answer, ok := given[model][i]
			if !ok {
				p.Add(model, "there is no answer for %s: want one for every picture", id)
			}
			list[i] = answer
		}
		r.answers[model] = list
		if n, example := r.unreadable(model); n == len(list) {
			p.Add(model, "none of its %d answers is one of the seven expressions (%s); one is %q", n,
				strings.Join(fedExpressions, ", "), example)
		}
	}
	return r, p.Err()
}

// unreadable returns how many answers of a model are none of the expressions, and the first of them.
func (r *recognition) unreadable(model string) (n int, example string) {
	for _, answer := range r.answers[model] {
		if polarity(answer) != "" {
			continue
		}
		if n++; n == 1 {
			example = answer
		}
	}
	return n, example
}

func word(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// ensembles is the search over sets of models that vote.
type ensembles struct {
	Pictures int                `json:"pictures"`
	Fine     *ensemblesByLabels `json:"fine"`   // seven expressions
	Coarse   *ensemblesByLabels `json:"coarse"` // positive (happy), neutral, negative (the other five)
}

// ensemblesByLabels is the search for one set of labels.
type ensemblesByLabels struct {
	Models []modelAccuracy `json:"models"` // the best first
	Sizes  []ensembleSize  `json:"sizes"`
}

// modelAccuracy is the accuracy of a single model.
type modelAccuracy struct {
	Name     string         `json:"name"`
	Accuracy float64        `json:"accuracy"`
	Low      protocol.Value `json:"low"` // 95 % percentile interval over pictures
	High     protocol.Value `json:"high"`
	// Unreadable is how many of its answers are none of the expressions: each is wrong and does not vote.
	Unreadable int    `json:"unreadable"`
	example    string // the first of them
}

// ensembleSize is the result of all sets of models of one size.
type ensembleSize struct {
	Size    int      `json:"size"`
	Sets    int      `json:"sets"`
	Best    float64  `json:"best"`
	Average float64  `json:"average"`
	Members []string `json:"members"` // of the best; of several, the first in the order of the file
	Equal   int      `json:"equal"`   // how many are as good
}

// Search votes with all sets of the models of the given sizes. An ensemble's label is that of most of its members; if
// several labels tie, or no member votes, it has no label, which is wrong. An answer that is none of the expressions
// does not vote. Coarse labels are voted on separately.
func (r *recognition) Search(sizes []int) (*ensembles, error) {
	for i, k := range sizes {
		if slices.Contains(sizes[:i], k) {
			return nil, fmt.Errorf("ensembles of %d are requested twice: name each size once", k)
		}
		if k < 1 || k > len(r.models) {
			return nil, fmt.Errorf("ensembles of %d: there are %d models", k, len(r.models))
		}
		if n := choose(len(r.models), k); n > maxEnsembles {
			return nil, fmt.Errorf("there are %.3g ensembles of %d of %d models: at most %d are tried", n, k,
				len(r.models),
				maxEnsembles)
		}
	}
	if len(r.ids) == 0 || len(sizes) == 0 {
		return nil, errors.New("answers and sizes of ensembles are needed")
	}
	same := func(s string) string {
		if polarity(s) == "" {
			return ""
		}
		return s
	}
	return &ensembles{Pictures: len(r.ids), Fine: r.search(sizes, same), Coarse: r.search(sizes, polarity)}, nil
}

// choose returns the number of sets of k of n.
func choose(n, k int) float64 {
	c := 1.0
	for i := range k {
		c = c * float64(n-i) / float64(i+1)
	}
	return c
}

// noVote is an answer without a label.
const noVote = -1

// search runs the search for one set of labels.
func (r *recognition) search(sizes []int, label func(string) string) *ensemblesByLabels {
	numbers := map[string]int{}
	number := func(s string) int {
		if s = label(s); s == "" {
			return noVote
		}
		if _, ok := numbers[s]; !ok {
			numbers[s] = len(numbers)
		}
		return numbers[s]
	}
	truth := make([]int, len(r.ids))
	for i, t := range r.truth {
		truth[i] = number(t)
	}
	votes := make([][]int, len(r.models))
	for m, name := range r.models {
		votes[m] = make([]int, len(r.ids))
		for i, a := range r.answers[name] {
			votes[m][i] = number(a)
		}
	}
	out := &ensemblesByLabels{}
	for k, name := range r.models {
		hits := make([]float64, len(truth))
		for i, t := range truth {
			if votes[k][i] == t {
				hits[i] = 1
			}
		}
		m := modelAccuracy{Name: name, Accuracy: stats.Mean(hits), Low: protocol.Value(math.NaN()),
			High: protocol.Value(math.NaN())}
		if in := protocol.MeanInterval(hits, nil, protocol.AgreementResamples, protocol.AgreementSeed); in != nil {
			m.Low, m.High = protocol.Value(in.Low), protocol.Value(in.High)
		}
		m.Unreadable, m.example = r.unreadable(name)
		out.Models = append(out.Models, m)
	}
	slices.SortStableFunc(out.Models, func(a, b modelAccuracy) int { return cmp.Compare(b.Accuracy, a.Accuracy) })
	for _, k := range sizes {
		out.Sizes = append(out.Sizes, r.size(k, truth, votes, len(numbers)))
	}
	return out
}

// size tries all sets of k models.
func (r *recognition) size(k int, truth []int, votes [][]int, labels int) ensembleSize {
	out := ensembleSize{Size: k, Best: math.Inf(-1)}
	sum := 0.0
	var best []int
	count := make([]int, labels)
	for set := range setsOf(len(votes), k) {
		right := 0
		for i, t := range truth {
			clear(count)
			for _, m := range set {
				if v := votes[m][i]; v != noVote {
					count[v]++
				}
			}
			most := count[t] > 0
			for l, c := range count {
				most = most && (l == t || c < count[t])
			}
			if most {
				right++
			}
		}
		accuracy := float64(right) / float64(len(truth))
		sum += accuracy
		out.Sets++
		switch {
		case accuracy > out.Best:
			out.Best, best, out.Equal = accuracy, slices.Clone(set), 1
		case accuracy == out.Best:
			out.Equal++
		}
	}
	out.Average = sum / float64(out.Sets)
	for _, m := range best {
		out.Members = append(out.Members, r.models[m])
	}
	return out
}

// setsOf yields all sets of k of 0 to n-1, each sorted, in lexicographic order.
func setsOf(n, k int) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		set := make([]int, k)
		for i := range set {
			set[i] = i
		}
		for yield(set) {
			i := k - 1
			for i >= 0 && set[i] == n-k+i {
				i--
			}
			if i < 0 {
				return
			}
			set[i]++
			for j := i + 1; j < k; j++ {
				set[j] = set[j-1] + 1
			}
		}
	}
}

// Tables returns the search results as tables.
func (e *ensembles) Tables() (out []protocol.Table) {
	for _, by := range []struct {
		name string
		*ensemblesByLabels
	}{{"seven expressions", e.Fine}, {"three polarities", e.Coarse}} {
		models := protocol.Table{Title: fmt.Sprintf("models, %s, %d pictures", by.name, e.Pictures),
			Columns: []string{"accuracy"},
			Better:  []int{1}}
		for _, m := range by.Models {
			models.Rows = append(models.Rows, protocol.TableRow{Name: m.Name, Cells: []protocol.Cell{{Value: m.Accuracy,
				Bounds: &stats.Interval{Low: float64(m.Low), High: float64(m.High)}}}})
			if m.Unreadable > 0 && by.ensemblesByLabels == e.Fine {
				models.Notes = append(models.Notes,
					fmt.Sprintf("%s: %d of %d answers are none of the seven expressions, such "+
						"as %q: they are wrong and do not vote", m.Name, m.Unreadable, e.Pictures, m.example))
			}
		}
		sizes := protocol.Table{Title: "ensembles, " +
			by.name, Columns: []string{"sets", "best", "average"}, Better: []int{0, 1, 1},
			Notes: []string{"the best set is chosen on these same pictures, which makes its accuracy optimistic"}}
		for _, s := range by.Sizes {
			sizes.Rows = append(sizes.Rows, protocol.TableRow{Name: fmt.Sprintf("%d models", s.Size),
				Cells: []protocol.Cell{protocol.Count(s.Sets), {Value: s.Best}, {Value: s.Average}}})
			note := fmt.Sprintf("best of %d: %s", s.Size, strings.Join(s.Members, ", "))
			if s.Equal > 1 {
				note += fmt.Sprintf(" (and %d others as good)", s.Equal-1)
			}
			sizes.Notes = append(sizes.Notes, note)
		}
		out = append(out, models, sizes)
	}
	return out
}
