package benchmarks

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// graded is a benchmark that ranks editors by numbers of each of their outputs: means over samples, or over the means
// of its groups, for each of its parts.
type graded struct {
	name    string
	samples []gradedSample
	index   map[string]int // of the samples by id
	editors []string       // folders
	by      map[string]string

	parts   []string            // in the order of tables
	groups  []string            // kinds of edits; none: they have no groups
	macro   bool                // a number is the mean over the groups' means, not over the samples
	columns []string            // in the order of tables; others follow
	fields  map[string][]string // column: its names in files
	derive  map[string]func(sample int, values map[string]float64) float64
	counted []string          // columns for which what is absent counts as wrong
	bounds  map[string]bounds // of columns; of a score that a file states: a scorer's own is on the scorer's range

	lacks  func(sample int, column string) bool // a sample has no such number, which is not missing then; nil: none
	strict bool                                 // a number that a sample lacks is an error, if it is there all the same
	scale  map[string]func(float64) float64     // of columns: what becomes of a number of a file
	pooled map[string][]string                  // of columns: their mean is that over all numbers of these columns

	held   map[string]map[string]Picture                            // by editor and sample: pictures in the data
	output func(editor string, i int) string                        // file of an editor's picture of a sample
	own    func(editor string, j *gradedPredictions) error          // reads the authors' result files; nil: there are none
	table  func(path string) (editor string, rows []row, err error) // reads a file that is no JSON; nil: there is none
}

// gradedSample is one sample. Its item lacks the editor's picture.
type gradedSample struct {
	item   Item
	group  string
	parts  []string
	scored bool // a scorer has all that it needs
}

// add adds a sample.
func (s *graded) add(sample gradedSample) error {
	id := sample.item.ID
	if _, twice := s.index[id]; twice {
		return fmt.Errorf("a second sample %q", id)
	}
	if s.index == nil {
		s.index = map[string]int{}
	}
	s.index[id] = len(s.samples)
	s.samples = append(s.samples, sample)
	for _, part := range sample.parts {
		if !slices.Contains(s.parts, part) {
			s.parts = append(s.parts, part)
		}
	}
	if sample.group != "" && !slices.Contains(s.groups, sample.group) {
		s.groups = append(s.groups, sample.group)
	}
	return nil
}

// gradedPredictions are the columns of one editor, NaN where missing.
type gradedPredictions struct {
	*graded
	editor  string
	columns []string
	values  map[string][]float64
	by      map[string]string
	notes   []string
	where   map[string]string // of what was read, by column and sample
}

func (s *graded) blank(editor string) *gradedPredictions {
	by := map[string]string{}
	maps.Copy(by, s.by)
	return &gradedPredictions{graded: s, editor: editor, values: map[string][]float64{}, by: by,
		where: map[string]string{}}
}

// set sets a value; a second one is an error.
func (j *gradedPredictions) set(column string, i int, v float64, where string) error {
	key := fmt.Sprint(column, "\n", i)
	if first, ok := j.where[key]; ok {
		return fmt.Errorf("a second value of %s for %s (the first is in %s)", column, j.samples[i].item.ID, first)
	}
	j.where[key] = where
	if j.values[column] == nil {
		j.values[column] = slices.Repeat([]float64{math.NaN()}, len(j.samples))
	}
	j.values[column][i] = v
	return nil
}

// finish derives columns from others, and orders them.
func (j *gradedPredictions) finish() {
	for _, column := range sortedNames(j.derive) {
		if j.values[column] != nil {
			continue
		}
		list, any := slices.Repeat([]float64{math.NaN()}, len(j.samples)), false
		for i := range list {
			one := map[string]float64{}
			for name, v := range j.values {
				one[name] = v[i]
			}
			list[i] = j.derive[column](i, one)
			any = any || !math.IsNaN(list[i])
		}
		if any {
			j.values[column] = list
		}
	}
	for _, column := range append(slices.Clone(j.graded.columns), sortedNames(j.values)...) {
		if j.values[column] != nil && !slices.Contains(j.columns, column) {
			j.columns = append(j.columns, column)
		}
	}
}

// Items implements Scorable: the outputs of all editors that a scorer has everything for.
func (s *graded) Items() ([]Item, error) { return s.items(true) }

// Outputs implements Measurable.
func (s *graded) Outputs() ([]Item, error) { return s.items(false) }

func (s *graded) items(scored bool) ([]Item, error) {
	if len(s.editors)+len(s.held) == 0 {
		return nil, fmt.Errorf("the pictures are not named: give --editors, folders of the editors' pictures")
	}
	var p problems
	var items []Item
	for i, sample := range s.samples {
		if scored && !sample.scored {
			continue
		}
		if sample.item.Source.Read == nil && sample.item.Source.Path != "" {
			filePicture(sample.item.Source.Path, true, &p)
		}
		for _, editor := range s.editors {
			it := sample.item
			it.Model, it.Group = editorName(editor), it.ID
			it.Edit.Path = s.output(editor, i)
			filePicture(it.Edit.Path, true, &p)
			items = append(items, it)
		}
		for _, editor := range sortedNames(s.held) {
			if picture, ok := s.held[editor][sample.item.ID]; ok {
				it := sample.item
				it.Model, it.Group, it.Edit = editor, it.ID, picture
				items = append(items, it)
			}
		}
	}
	return items, p.err()
}

// hold keeps an editor's picture of a sample that the data have.
func (s *graded) hold(editor, sample string, p Picture) {
	if s.held == nil {
		s.held = map[string]map[string]Picture{}
	}
	if s.held[editor] == nil {
		s.held[editor] = map[string]Picture{}
	}
	s.held[editor][sample] = p
}

// Line implements Measurable.
func (s *graded) Line(k Key, component string, value any, by string) map[string]any {
	return componentLine("id", k, component, value, by, []string{component})
}

// wants reports whether a sample has a column's number, if nothing is missing.
func (s *graded) wants(i int, column string) bool {
	if column == "score" {
		return s.samples[i].scored
	}
	return s.lacks == nil || !s.lacks(i, column)
}
