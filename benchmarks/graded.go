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
	item    Item
	group   string
	parts   []string
	scored  bool // a scorer has all that it needs
	several bool // it has several sources, which judges in words are shown that ask about them
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
	where   map[string]string  // of what was read, by column and sample
	runs    map[string]*oneRun // by column

	ofSeveral bool // samples of several sources have scores
}

// OfEditor returns the columns, also of what embeds them.
func (j *gradedPredictions) OfEditor() *gradedPredictions { return j }

func (s *graded) blank(editor string) *gradedPredictions {
	by := map[string]string{}
	maps.Copy(by, s.by)
	return &gradedPredictions{
		graded: s,
		editor: editor,
		values: map[string][]float64{},
		by:     by,
		where:  map[string]string{},
		runs:   map[string]*oneRun{},
	}
}

// set sets a value that a run measured ("": no known one); a second one is an error, and so is one of another run.
func (j *gradedPredictions) set(column, run string, i int, v float64, where string) error {
	if j.runs[column] == nil {
		j.runs[column] = &oneRun{}
	}
	if err := j.runs[column].check(column, run); err != nil {
		return err
	}
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
func (j *gradedPredictions) finish() error {
	for _, column := range slices.Sorted(maps.Keys(j.derive)) {
		list, any := slices.Repeat([]float64{math.NaN()}, len(j.samples)), false
		for i := range list {
			one := map[string]float64{}
			for name, v := range j.values {
				one[name] = v[i]
			}
			list[i] = j.derive[column](i, one)
			any = any || !math.IsNaN(list[i])
		}
		if stated := j.values[column]; stated != nil {
			if err := j.contradicted(column, stated, list); err != nil {
				return err
			}
		} else if any {
			j.values[column] = list
		}
	}
	for _, column := range j.counted { // what is absent is wrong, of an editor that has any
		for i, v := range j.values[column] {
			if math.IsNaN(v) {
				j.values[column][i] = 0
			}
		}
	}
	if scores := j.values["score"]; scores != nil {
		for i, sample := range j.samples {
			j.ofSeveral = j.ofSeveral || sample.several && !math.IsNaN(scores[i])
		}
	}
	for _, column := range append(slices.Clone(j.graded.columns), slices.Sorted(maps.Keys(j.values))...) {
		if j.values[column] != nil && !slices.Contains(j.columns, column) {
			j.columns = append(j.columns, column)
		}
	}
	return nil
}

// contradicted refuses numbers of a file that are not what follows from others, but for rounding.
func (j *gradedPredictions) contradicted(column string, stated, derived []float64) error {
	b := j.bounds[column]
	for i, v := range stated {
		if d := derived[i]; math.Abs(v-d) > 0.005*(b.high-b.low) {
			return fmt.Errorf("%s: %s is %v for %s, but its other numbers make %.4g of it",
				j.where[fmt.Sprint(column, "\n", i)], column, v, j.samples[i].item.ID, d)
		}
	}
	return nil
}

// Items implements Scorable: the outputs of all editors that a scorer has everything for.
func (s *graded) Items() ([]Item, error) {
	return s.items(func(sample gradedSample) bool { return sample.scored })
}

// ItemsOfSeveral implements SeveralSources.
func (s *graded) ItemsOfSeveral() ([]Item, error) {
	return s.items(func(sample gradedSample) bool { return sample.scored || sample.several })
}

// Outputs implements Measurable.
func (s *graded) Outputs() ([]Item, error) { return s.items(func(gradedSample) bool { return true }) }

func (s *graded) items(which func(gradedSample) bool) ([]Item, error) {
	if len(s.editors)+len(s.held) == 0 {
		return nil, fmt.Errorf("the pictures are not named: give --editors, folders of the editors' pictures")
	}
	var p problems
	var items []Item
	for i, sample := range s.samples {
		if !which(sample) {
			continue
		}
		for _, role := range slices.Sorted(maps.Keys(sample.item.Shown)) {
			if picture := sample.item.Shown[role]; sample.several && picture.Read == nil {
				filePicture(picture.Path, true, &p)
			}
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
		for _, editor := range slices.Sorted(maps.Keys(s.held)) {
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

// wants reports whether a sample has a column's number, if nothing is missing. Samples of several sources have a score
// if any of them has: a judge was asked about them.
func (j *gradedPredictions) wants(i int, column string) bool {
	if column == "score" {
		return j.samples[i].scored || j.samples[i].several && j.ofSeveral
	}
	return j.lacks == nil || !j.lacks(i, column)
}
