// Package report turns predictions into reports. A [Report] evaluates systems under one benchmark, determines the basis
// of each number (figures.go), separates printed numbers that must not share a column (apart.go), compares systems by a
// paired bootstrap (compare.go, duel.go), and writes HTML, CSV, Markdown and JSON (page.go, view.go, charts.go). A
// [Contest] ranks editors by comparisons of their outputs.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/runner"
	"assay/internal/stats"
)

// System is a named evaluation.
type System struct {
	Name   string
	Result *protocol.Result

	predictions protocol.Predictions      // nil: numbers of published means
	judge       *protocol.Judge           // what made them; nil: not known
	intervals   map[string]stats.Interval // of the numbers by name; nil: they were not measured
	boards      []*Report                 // leaderboards of predictions of several methods, by part of the benchmark
}

// AddJudged is Add for predictions read from a file, with the judge of the run that wrote it, if any.
func (r *Report) AddJudged(name string, p protocol.Predictions, file string) error {
	judge, err := protocol.JudgeOf(file)
	if err != nil {
		return err
	}
	r.Add(name, p)
	r.Systems[len(r.Systems)-1].judge = judge
	return nil
}

// AddAsked adds the outcomes of the items that a text judge was asked about.
func (r *Report) AddAsked(a *runner.Asked) {
	r.asked = a
	r.Facts = append(r.Facts, a.String())
}

// AddUnmeasured adds items for which a metric could not measure its component.
func (r *Report) AddUnmeasured(component string, failed []runner.Failure) {
	r.unmeasured += len(failed)
	for i, f := range failed {
		if i == 5 {
			r.Facts = append(r.Facts, fmt.Sprintf("%s: %d items could not be measured", component, len(failed)))
			break
		}
		r.Facts = append(r.Facts, fmt.Sprintf("%s of %v could not be measured: %s", component, f.Key, f.Error))
	}
}

// Report holds the results of one system, or of several and their differences. [Report.Write] writes it to files.
type Report struct {
	Benchmark  *protocol.Benchmark
	Systems    []System
	Comparison *Comparison    // may be nil
	Facts      []string       // about the run: scorer, question template, preprocessing, files
	Extra      map[string]any // added to the JSON

	resamples  int // of the intervals
	chance     map[string]protocol.Value
	unmeasured int           // values of components that could not be measured
	asked      *runner.Asked // of the system that is a text judge, if there is one
	of         string        // of a leaderboard: its system's name if there are several
}

// Add evaluates predictions under a name.
func (r *Report) Add(name string, p protocol.Predictions) {
	s := System{Name: name, Result: p.Result(), predictions: p}
	if board, ok := p.(protocol.Board); ok {
		s.boards = r.boardsOf(board.Leaderboard())
	}
	r.Systems = append(r.Systems, s)
}

// boardsOf returns the leaderboards of several methods, one for each part of the benchmark.
func (r *Report) boardsOf(list []protocol.Entry) (boards []*Report) {
	var parts []string
	for _, e := range list {
		if !slices.Contains(parts, e.Subset) {
			parts = append(parts, e.Subset)
		}
	}
	for _, part := range parts {
		sub := &Report{Benchmark: r.Benchmark}
		for _, e := range list {
			if e.Subset == part {
				sub.Add(e.Name, e.Predictions)
			}
		}
		boards = append(boards, sub)
	}
	return boards
}

// Boards returns the leaderboards of the systems that contain several methods.
func (r *Report) Boards() (boards []*Report) {
	for _, s := range r.Systems {
		for _, b := range s.boards {
			if len(r.Systems) > 1 {
				b.of = s.Name
			}
			boards = append(boards, b)
		}
	}
	return boards
}

// Title returns the benchmark's title, with the part that all systems share.
func (r *Report) Title() string {
	title := r.Benchmark.Title
	if part := r.Part(); part != "" {
		title += ": " + part
	}
	if r.of != "" {
		title += ", " + r.of
	}
	return title
}

// Part returns the part of the benchmark that all systems share, "" for the usual one or several.
func (r *Report) Part() string {
	columns := r.columns()
	if len(columns) == 0 || slices.ContainsFunc(columns,
		func(b protocol.Basis) bool { return b.Subset != columns[0].Subset }) {
		return ""
	}
	return columns[0].Subset
}

// Compare compares all systems added so far with the first one: see compare. Systems with the same name are numbered.
func (r *Report) Compare(resamples int, seed uint64) (err error) {
	names, all := make([]string, len(r.Systems)), make([]protocol.Predictions, len(r.Systems))
	seen := map[string]int{}
	for i := range r.Systems {
		s := &r.Systems[i]
		seen[s.Name]++
		if n := seen[s.Name]; n > 1 {
			s.Name = fmt.Sprintf("%s (%d)", s.Name, n)
		}
		names[i], all[i] = s.Name, s.predictions
	}
	if r.Comparison, err = compare(names, all, resamples, seed); errors.Is(err, errNothingCommon) {
		r.Comparison, err = &Comparison{AllUnits: all[0].Units(), Resamples: resamples, Seed: seed,
			Differences: []difference{}, Notes: []string{err.Error() + ": there are no differences"}}, nil
	}
	if err == nil {
		r.addDuels(resamples, seed)
	}
	return err
}

// WriteAuthors writes the predictions of all systems into a folder, in the format of the benchmark's authors.
func (r *Report) WriteAuthors(dir string) error {
	for _, s := range r.Systems {
		w, ok := s.predictions.(protocol.Writer)
		if !ok {
			return fmt.Errorf("%s has no file format of its authors to write", r.Benchmark.Name)
		}
		if err := w.WriteAuthors(dir); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// Failed counts the samples that could not be computed.
func (r *Report) Failed() (n int) {
	for _, s := range r.Systems {
		n += len(s.Result.Failed)
	}
	if r.asked != nil {
		n += r.asked.Failed
	}
	return n + r.unmeasured
}

// JSON returns the machine-readable report: the result of a single system with Extra, or all systems and their
// comparison.
func (r *Report) JSON() (any, error) {
	if r.Comparison != nil {
		type system struct {
			Name    string   `json:"name"`
			Result  any      `json:"result"`
			Numbers []figure `json:"numbers"`
		}
		var list []system
		for i, s := range r.Systems {
			result, err := r.named(i)
			if err != nil {
				return nil, err
			}
			list = append(list, system{s.Name, result, r.figures(i)})
		}
		all := map[string]any{"benchmark": r.Benchmark.Name, "systems": list, "comparison": r.Comparison}
		if r.asked != nil {
			all["asked"] = r.asked
		}
		for name, v := range r.Extra {
			if _, known := all[name]; !known {
				all[name] = v
			}
		}
		return all, nil
	}
	if len(r.Systems) == 0 {
		return nil, errors.New("nothing was evaluated")
	}
	result, err := r.named(0)
	if err != nil {
		return nil, err
	}
	if figures := r.figures(0); len(figures) > 0 {
		result = append(result, field{"numbers", figures})
	}
	if r.asked != nil {
		result = append(result, field{"asked", r.asked})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Extra)) {
		result = append(result, field{name, r.Extra[name]})
	}
	return result, nil
}

// named returns a system's JSON, in which a number that does not cover all items has the coverage in its key.
func (r *Report) named(system int) (object, error) {
	renamed := map[string]string{}
	for _, f := range r.figures(system) {
		if !f.Coverage.Whole() {
			renamed[f.Rule] = f.Name
		}
	}
	raw, err := json.Marshal(r.Systems[system].Result.JSON)
	if err != nil {
		return nil, err
	}
	return objectOf(raw, renamed)
}

// object is a JSON object whose fields are in order.
type object []field

type field struct {
	name  string
	value any
}

// objectOf reads an object, and renames fields of it and of its objects of numbers.
func objectOf(raw json.RawMessage, renamed map[string]string) (out object, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("the result is not an object: %.40s (%v)", raw, err)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key := t.(string) // guaranteed by the decoder
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		f := field{cmp.Or(renamed[key], key), value}
		if value[0] == '{' && slices.Contains([]string{"rules", "means", "ablations"}, key) {
			if f.value, err = objectOf(value, renamed); err != nil {
				return nil, err
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	out := []byte("{")
	for i, f := range o {
		name, err1 := json.Marshal(f.name)
		value, err2 := json.Marshal(f.value)
		if err := cmp.Or(err1, err2); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}'), nil
}
