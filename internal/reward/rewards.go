package reward

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"assay/edit"
	"assay/internal/reward/combine"
)

// Limits on the rewards of a request, and on a weight, so that sums stay finite.
const (
	maxRewards = 64
	maxWeight  = 1e9
)

// lowerBound is the value of combine that is not a rule: the mean of the judges, minus a penalty for their spread.
const lowerBound = "lower_bound"

// onErrorRules are the choices for the reward of an edit that could not be judged.
var onErrorRules = []string{"null", "nan", "mean", "fail"}

// rewardTerm is a number that a request asks for from a judge.
type rewardTerm struct {
	judge     int    // index in judges
	name      string // of the judge
	dimension string // "": the score
	of        edit.Range
	rule      combine.Rule // a lower bound allows only raw and score01
	weight    float64
}

// rewardTerms are all terms that a request asks for about each of its edits.
type rewardTerms struct {
	judges  []*Replicated // without duplicates
	list    []rewardTerm  // in the order of the request
	summed  bool          // a sum or a lower bound is asked for
	penalty *float64      // penalty of the lower bound; nil: the weighted sum
	onError string
}

// needSources reports whether all judges compare with a source.
func (q *rewardTerms) needSources() bool {
	return !slices.ContainsFunc(q.judges, func(v *Replicated) bool { return v.info.Sources == 0 })
}

// rewardTerms parses what a request asks for, and from which judges.
func (s *Server) rewardTerms(p *scoreRequest) (*rewardTerms, error) {
	out := &rewardTerms{summed: p.Combine != "" || p.OnError != "", onError: p.OnError}
	out.onError = cmp.Or(out.onError, "null")
	if !slices.Contains(onErrorRules, out.onError) {
		return nil, badRequest("on_error %q: want one of %s", out.onError, strings.Join(onErrorRules, ", "))
	}
	list, rule := p.Rewards, p.Combine
	err := error(nil)
	if out.penalty, err = p.penalty(out.onError); err != nil {
		return nil, err
	}
	if out.penalty != nil {
		rule = ""
	}
	switch {
	case len(list) > maxRewards:
		return nil, tooMany("%d rewards, at most %d per request", len(list), maxRewards)
	case len(list) > 0 && (p.Scorer != "" || p.Fingerprint != ""):
		return nil, badRequest("rewards name their own scorers: scorer and fingerprint do not go with them")
	case list != nil && len(list) == 0:
		return nil, badRequest("rewards is empty: want at least one")
	case len(list) == 0:
		list = append(list, rewardRequest{Name: p.Scorer, Fingerprint: p.Fingerprint})
	}
	for i, one := range list {
		if one.Name == "" && len(p.Rewards) > 0 {
			return nil, badRequest("rewards/%d: name is missing", i)
		}
		q, err := s.rewardTerm(out, one, rule)
		if err != nil {
			if len(p.Rewards) > 0 {
				err = prefixError(fmt.Sprintf("rewards/%d", i), err)
			}
			return nil, err
		}
		out.summed = out.summed || one.Weight != nil || one.Scale != ""
		out.list = append(out.list, *q)
	}
	return out, out.checkBound()
}

// penalty returns the number of sigmas of combine: lower_bound; nil for another rule.
func (p *scoreRequest) penalty(onError string) (*float64, error) {
	penalty := 1.0
	if p.Penalty != nil {
		penalty = *p.Penalty
	}
	switch {
	case p.Combine != lowerBound && p.Penalty != nil:
		return nil, badRequest("penalty goes with combine: %s", lowerBound)
	case p.Combine != lowerBound:
		return nil, nil
	case onError == "mean":
		return nil, badRequest("on_error mean: the mean of other edits has no sigma for combine: %s", lowerBound)
	case penalty < 0 || penalty > maxWeight:
		return nil, badRequest("penalty %g: want 0 to %g", penalty, float64(maxWeight))
	}
	return &penalty, nil
}

// checkBound rejects rewards without a common lower bound: all judges must have the same scale.
func (q *rewardTerms) checkBound() error {
	if q.penalty == nil {
		return nil
	}
	total := 0.0
	for k, one := range q.list {
		switch first := q.list[0]; {
		case one.weight < 0:
			return badRequest("rewards/%d: weight %g: combine: %s averages scores of which higher is better", k, one.weight,
				lowerBound)
		case one.rule != combine.Raw && one.rule != combine.Score01:
			return badRequest("rewards/%d: scale %s: combine: %s supports only raw and score01", k, one.rule, lowerBound)
		case one.rule != first.rule || one.rule == combine.Raw && one.of != first.of:
			return apiErrorf(http.StatusUnprocessableEntity, "no_range", "%s and %s have different ranges: combine: %s needs "+
				"scale: score01 for all", first.name, one.name, lowerBound)
		}
		total += one.weight
	}
	if total == 0 {
		return badRequest("all weights are 0: combine: %s is a weighted mean", lowerBound)
	}
	return nil
}

// rewardTerm parses one reward, and adds its judge.
func (s *Server) rewardTerm(to *rewardTerms, one rewardRequest, rule string) (*rewardTerm, error) {
	v, err := s.engine.scorers.find(one.Name)
	if err != nil {
		return nil, err
	}
	if err := v.demand(one.Fingerprint); err != nil {
		return nil, err
	}
	q := &rewardTerm{name: v.name, dimension: one.Dimension, of: v.info.Range, rule: combine.Raw, weight: 1}
	if q.judge = slices.Index(to.judges, v); q.judge < 0 {
		q.judge, to.judges = len(to.judges), append(to.judges, v)
	}
	if one.Scale != "" {
		rule = one.Scale
	}
	if rule != "" {
		if q.rule, err = combine.ParseRule(rule); err != nil {
			return nil, badRequest("combine or scale %v", err)
		}
	}
	if one.Weight != nil {
		q.weight = *one.Weight
	}
	switch {
	case math.Abs(q.weight) > maxWeight:
		return nil, badRequest("weight %g: its absolute value must be at most %g", q.weight, maxWeight)
	case q.rule == combine.Score01 && !v.info.Range.Bounded():
		return nil, apiErrorf(http.StatusUnprocessableEntity, "no_range", "the scores of %s are unbounded, so there is no "+
			"score01: use raw, zscore or rank", v.name)
	}
	return q, v.hasDimension(one.Dimension)
}

// hasDimension returns an error if the scorer does not have a dimension; "" is its score.
func (v *Replicated) hasDimension(name string) error {
	var names []string
	for _, d := range v.info.Dimensions {
		names = append(names, d.Name)
	}
	switch {
	case name == "" || slices.Contains(names, name):
		return nil
	case len(names) == 0:
		return badRequest("scorer %s has no dimension %q: it has none", v.name, name)
	}
	return badRequest("scorer %s has no dimension %q; available: %s", v.name, name, strings.Join(names, ", "))
}

// cell is the result of one term for one edit.
type cell struct {
	score   *edit.Score
	value   float64 // the result of the rule; NaN: it failed
	imputed bool    // value is the mean of the group
	valued  bool    // the request asks for value
	err     error
}

// answer converts the judge's result for an edit to a cell.
func (q *rewardTerm) answer(it *item) (c cell) {
	c.value = math.NaN()
	if c.err = it.err; c.err != nil {
		return c
	}
	c.score = &it.score
	if q.dimension != "" {
		k := slices.IndexFunc(it.score.Dimensions, func(d edit.Dimension) bool { return d.Name == q.dimension })
		if k < 0 {
			c.err = apiErrorf(http.StatusUnprocessableEntity, "no_score", "%s did not score dimension %q of this edit", q.name,
				q.dimension)
			return c
		}
		d := it.score.Dimensions[k]
		c.score = &edit.Score{Value: d.Value, Score01: q.of.To01(d.Value), Unbounded: !q.of.Bounded(), Sigma: d.Sigma}
	}
	if c.err = checkScore(q.name, c.score); c.err != nil {
		return c
	}
	if c.value = c.score.Value; q.rule == combine.Score01 {
		c.value = c.score.Score01
	}
	return c
}

// checkScore returns an error if a score is not a number: a judge may score only dimensions, or return a class.
func checkScore(name string, s *edit.Score) error {
	switch {
	case math.IsNaN(s.Value):
		return apiErrorf(http.StatusUnprocessableEntity, "no_score", "%s has no overall score: ask for a dimension", name)
	case math.IsInf(s.Value, 0):
		return apiErrorf(http.StatusInternalServerError, "internal", "%s returned the score %v", name, s.Value)
	}
	return nil
}

// answers are the cells of all terms for all edits.
type answers struct {
	cells  [][]cell // by term, then edit
	groups []int    // by edit
}

// answers collects the results of the judges. byEdit has an item of each judge for each edit. With on_error fail, the
// error is the one of the first failed edit.
func (q *rewardTerms) answers(m *metrics, edits []editInput, byEdit [][]*item) (*answers, error) {
	a := &answers{cells: make([][]cell, len(q.list)), groups: groupNumbers(edits)}
	for k, one := range q.list {
		a.cells[k] = make([]cell, len(edits))
		for i := range edits {
			a.cells[k][i] = one.answer(byEdit[i][one.judge])
		}
	}
	for k, one := range q.list {
		for i, c := range a.cells[k] {
			if it := byEdit[i][one.judge]; it.err == nil && c.err != nil { // it was judged, but the requested number is missing
				it.err = c.err
				m.failure(it.scorer, 1, it.err)
			}
		}
	}
	if q.onError != "fail" {
		return a, nil
	}
	for i := range edits {
		for k, one := range q.list {
			if err := a.cells[k][i].err; err != nil && one.weight != 0 {
				return nil, prefixError(fmt.Sprintf("edit %d, %s", i, one.name), err)
			}
		}
	}
	return a, nil
}

// groupNumbers numbers the groups of edits: edits with the same group name, or without one, with the same sources and
// instruction.
func groupNumbers(edits []editInput) []int {
	numbers, groups := map[string]int{}, make([]int, len(edits))
	for i, e := range edits {
		key := "named " + e.group
		if e.group == "" {
			digest := digestOf(e.sources)
			key = string(digest[:]) + e.instruction
		}
		if _, ok := numbers[key]; !ok {
			numbers[key] = len(numbers)
		}
		groups[i] = numbers[key]
	}
	return groups
}

// total is the reward of one edit.
type total struct {
	value   float64 // NaN: there is none
	imputed bool    // a part of it is imputed
}

// sums applies the rules and combines the rewards; nil if the request does not ask for it.
func (a *answers) sums(q *rewardTerms) []total {
	if !q.summed {
		return nil
	}
	totals := make([]total, len(a.groups))
	var weights []float64
	var values, sigmas [][]float64
	for k, one := range q.list {
		column := make([]float64, len(a.groups))
		for i, c := range a.cells[k] {
			column[i] = c.value
		}
		column = one.rule.Values(column, a.groups)
		var imputed []bool
		if q.onError == "mean" {
			imputed = combine.Impute(column, a.groups)
		}
		for i := range column {
			c := &a.cells[k][i]
			c.value, c.valued = column[i], true
			if imputed != nil && imputed[i] {
				c.imputed = true
				totals[i].imputed = totals[i].imputed || one.weight != 0
			}
		}
		weights, values = append(weights, one.weight), append(values, column)
		sigmas = append(sigmas, one.sigmas(a.cells[k]))
	}
	rewards := combine.Sum(weights, values, len(totals))
	if q.penalty != nil {
		rewards = combine.LowerBound(weights, values, sigmas, *q.penalty, len(totals))
	}
	for i, v := range rewards {
		totals[i].value = v
	}
	return totals
}

// sigmas returns the standard deviations of values; 0 if there is none.
func (q *rewardTerm) sigmas(cells []cell) []float64 {
	out := make([]float64, len(cells))
	for i, c := range cells {
		if c.score == nil {
			continue
		}
		if out[i] = c.score.Sigma; q.rule == combine.Score01 {
			out[i] /= q.of.Width()
		}
	}
	return out
}

// encode returns the JSON of a cell. With several rewards, cells are named and have values.
func (c *cell) encode(q rewardTerm, named bool) ([]byte, error) {
	var body any = c.score
	if c.err != nil {
		body = map[string]any{"error": toAPIError(c.err)}
	}
	raw, err := encodeJSON(body)
	if err != nil || !named {
		return bytes.TrimSpace(raw), err
	}
	name := map[string]any{"name": q.name}
	if q.dimension != "" {
		name["dimension"] = q.dimension
	}
	head, err := encodeJSON(name)
	if err != nil {
		return nil, err
	}
	raw = joinObjects(bytes.TrimSpace(head), bytes.TrimSpace(raw))
	if c.valued && !math.IsNaN(c.value) {
		value, err := json.Marshal(map[string]any{"value": c.value})
		if err != nil {
			return nil, err
		}
		raw = joinObjects(raw, value)
	}
	if c.imputed {
		raw = joinObjects(raw, []byte(`{"imputed":true}`))
	}
	return raw, nil
}

// encode returns the JSON of the reward of an edit. NaN is a literal, as in Python's json.
func (t total) encode(onError string) []byte {
	text := "null"
	if raw, err := json.Marshal(t.value); err == nil {
		text = string(raw)
	} else if onError == "nan" {
		text = "NaN"
	}
	if t.imputed && text != "null" {
		text += `,"imputed":true`
	}
	return []byte(`{"reward":` + text + `}`)
}

// joinObjects merges two JSON objects; the first must not be empty.
func joinObjects(a, b []byte) []byte {
	return slices.Concat(a[:len(a)-1], []byte(","), b[1:])
}

// encodeList returns a JSON list between two texts.
func encodeList(parts [][]byte, before, after string) []byte {
	return slices.Concat([]byte(before+"["), bytes.Join(parts, []byte(",")), []byte("]"+after))
}
