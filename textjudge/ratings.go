package textjudge

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/stats"
)

// Ratings returns the score, on 0..1, of each pass of a row that [Judge.Table] wrote, and the text of the pass whose
// score is nearest to their mean. A row with an error has no ratings: a failed pass is not a score of 0.
func (j *Judge) Ratings(rec *data.Record) (ratings []float64, why string, err error) {
	answers, err := rowAnswers(rec)
	if err != nil {
		return nil, "", err
	}
	numbers, words := make([]map[string]float64, j.Config.Passes), make([]string, j.Config.Passes)
	for _, a := range answers {
		if a.Error != "" { // the question was asked again
			continue
		}
		i := slices.IndexFunc(j.Config.Questions, func(q Question) bool { return q.Name == a.Question })
		if i < 0 || a.Pass >= len(numbers) {
			return nil, "", fmt.Errorf("the judge has no question %s with a pass %d", a.Question, a.Pass)
		}
		g := &j.Config.Questions[i].Answer
		found, err := g.Read(a.Text)
		if err != nil {
			return nil, "", fmt.Errorf("question %s: %w", a.Question, err)
		}
		if numbers[a.Pass] == nil {
			numbers[a.Pass] = map[string]float64{}
		}
		maps.Copy(numbers[a.Pass], j.Config.scaled(&j.Config.Questions[i], found))
		words[a.Pass] = strings.TrimSpace(words[a.Pass] + " " + g.words(a.Text))
	}
	for pass, n := range numbers {
		if n == nil {
			return nil, "", fmt.Errorf("pass %d has no answer", pass)
		}
		_, score, err := j.Config.Combine([]map[string]float64{n})
		if err != nil {
			return nil, "", err
		}
		ratings = append(ratings, j.Config.onto().To01(score))
	}
	middle, best := stats.Mean(ratings), 0
	for i, r := range ratings {
		if math.Abs(r-middle) < math.Abs(ratings[best]-middle) {
			best = i
		}
	}
	return ratings, words[best], nil
}

// rowAnswers returns a judge's answers from a row of a table that score judge wrote.
func rowAnswers(rec *data.Record) ([]Answer, error) {
	if v, ok := rec.Get("error"); ok {
		if text, err := data.Text(v); err != nil || text != "" {
			return nil, fmt.Errorf("%s", text)
		}
	}
	v, ok := rec.Get("answers")
	if !ok || data.IsNull(v) {
		return nil, fmt.Errorf("the row has no answers from the judge")
	}
	raw, err := json.Marshal(v)
	if text, isText := v.(string); isText {
		raw, err = []byte(text), nil // a Parquet table
	}
	var answers []Answer
	if err == nil {
		err = json.Unmarshal(raw, &answers)
	}
	if err != nil {
		return nil, fmt.Errorf("answers: %w", err)
	}
	return answers, nil
}

// words returns the texts of an answer that its grammar does not read, in the order of their keys.
func (g *Grammar) words(text string) string {
	start, end := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if len(g.Object) == 0 || end < start {
		return ""
	}
	fields, err := g.fields(text[start : end+1])
	if err != nil {
		return ""
	}
	var out []string
	for key, v := range g.Object {
		var said string
		if v.Text && json.Unmarshal(fields[key], &said) == nil {
			out = append(out, key+"\x00"+strings.TrimSpace(said))
		}
	}
	slices.Sort(out)
	for i := range out {
		_, out[i], _ = strings.Cut(out[i], "\x00")
	}
	return strings.Join(out, " ")
}
