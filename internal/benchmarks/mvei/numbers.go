package mvei

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"assay/internal/benchmarks/protocol"
	"assay/internal/stats"
)

// statementsPredictions are answers by statement; an absent one is missing, an empty one abstains.
type statementsPredictions struct {
	*statements
	answers map[int]string
}

// Units implements protocol.Predictions: pictures, since answers about one picture are not independent.
func (j *statementsPredictions) Units() int { return len(j.pictures) }

// Complete implements protocol.Predictions.
func (j *statementsPredictions) Complete(unit int) bool {
	return !slices.ContainsFunc(j.pictures[unit], func(i int) bool { return !j.answered(i) })
}

// answered reports whether a statement has an answer.
func (j *statementsPredictions) answered(i int) bool {
	_, ok := j.answers[i]
	return ok
}

// mveiStats are the figures of one class, or of all.
type mveiStats struct {
	N             int            `json:"n"`
	Accuracy      protocol.Value `json:"accuracy"`
	PositiveRatio protocol.Value `json:"positive_ratio"`
	GiveUpRatio   protocol.Value `json:"give_up_ratio"`
}

// stats counts statements; one without an answer is an abstention, as in the authors' code, and so wrong.
func (j *statementsPredictions) stats(statements []int, class string, parse func(string) string) mveiStats {
	var n, right, yes, none int
	for _, i := range statements {
		if class != "" && j.class[i] != class {
			continue
		}
		n++
		read := parse(j.answers[i])
		if read == j.label[i] {
			right++
		}
		switch read {
		case positive:
			yes++
		case abstain:
			none++
		}
	}
	ratio := func(k int) protocol.Value { return protocol.Value(float64(k) / float64(n)) }
	return mveiStats{n, ratio(right), ratio(yes), ratio(none)}
}

// Numbers implements protocol.Predictions.
func (j *statementsPredictions) Numbers(units []int) []protocol.Number {
	var statements []int
	for _, u := range units {
		statements = append(statements, j.pictures[u]...)
	}
	keyword := j.stats(statements, "", parseKeyword)
	out := []protocol.Number{{Name: "keyword", Value: float64(keyword.Accuracy)},
		{Name: "answer_tag", Value: float64(j.stats(statements, "", parseTagged).Accuracy)},
		{Name: "positive_ratio", Value: float64(keyword.PositiveRatio)},
		{Name: "give_up_ratio", Value: float64(keyword.GiveUpRatio)}}
	for _, c := range j.classes {
		out = append(out, protocol.Number{Name: "keyword: " +
			c, Value: float64(j.stats(statements, c, parseKeyword).Accuracy)})
	}
	for i := range out {
		out[i].Counted = true
	}
	return out
}

// Guess implements Guessable: coin flips, or always "Correct".
func (s *statements) Guess(rng *rand.Rand) protocol.Predictions {
	j := &statementsPredictions{s, map[int]string{}}
	for i := range s.keys {
		j.answers[i] = "Correct"
		if rng != nil && rng.IntN(2) == 0 {
			j.answers[i] = "Incorrect"
		}
	}
	return j
}

type mveiRule struct {
	mveiStats
	PerClass  map[string]mveiStats `json:"per_class"`
	Confusion protocol.Confusion   `json:"confusion"`
}

// mveiJSON is the JSON result of MVEI: the figures of the rule keyword, and of both rules by name.
type mveiJSON struct {
	protocol.Common
	Accuracy      protocol.Value       `json:"accuracy"`
	PositiveRatio protocol.Value       `json:"positive_ratio"`
	GiveUpRatio   protocol.Value       `json:"give_up_ratio"`
	PerClass      map[string]mveiStats `json:"per_class"`
	Rules         map[string]mveiRule  `json:"rules"`
}

// Result implements protocol.Predictions.
func (j *statementsPredictions) Result() *protocol.Result {
	r := &protocol.Result{}
	statements := stats.UpTo(len(j.keys))
	r.Count(len(statements), j.answered, func(i int) protocol.Key { return j.keys[i] })
	r.Numbers = j.Numbers(stats.UpTo(j.Units()))
	if n := len(r.Missing); n > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d of %d statements have no answer, which counts as an abstention and so as "+
			"wrong", n, len(statements)))
	}
	rules := map[string]mveiRule{}
	for _, rule := range []struct {
		name  string
		parse func(string) string
	}{{"keyword", parseKeyword}, {"answer_tag", parseTagged}} {
		out := mveiRule{mveiStats: j.stats(statements, "", rule.parse), PerClass: map[string]mveiStats{}}
		t := protocol.Table{Title: rule.name, Columns: []string{"n", "accuracy", "positive ratio", "give-up ratio"}}
		line := func(name string, s mveiStats) {
			t.Rows = append(t.Rows, protocol.TableRow{Name: name, Cells: append([]protocol.Cell{protocol.Count(s.N)},
				protocol.Cells(float64(s.Accuracy), float64(s.PositiveRatio), float64(s.GiveUpRatio))...)})
		}
		for _, c := range j.classes {
			out.PerClass[c] = j.stats(statements, c, rule.parse)
			line(c, out.PerClass[c])
		}
		line("overall", out.mveiStats)
		var truth, predicted []string
		for _, i := range statements {
			truth, predicted = append(truth, j.label[i]), append(predicted, rule.parse(j.answers[i]))
		}
		out.Confusion = protocol.NewConfusion(rule.name, truth, predicted, []string{positive, negative},
			[]string{positive, negative, abstain})
		rules[rule.name] = out
		r.Tables, r.Confusions = append(r.Tables, t), append(r.Confusions, out.Confusion)
	}
	k := rules["keyword"]
	r.JSON = mveiJSON{r.Common("mvei"), k.Accuracy, k.PositiveRatio, k.GiveUpRatio, k.PerClass, rules}
	return r
}
