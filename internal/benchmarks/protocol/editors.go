package protocol

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"assay/edit"
)

// EditorSet is a benchmark that ranks editors by numbers measured on their outputs: means over samples, or over the
// means of groups, for each of its parts.
type EditorSet struct {
	Name    string
	Samples []EditorSample
	Index   map[string]int // of the samples by id
	Editors []string       // folders
	By      map[string]string

	Parts    []string            // in the order of tables
	Groups   []string            // kinds of edits; empty: no groups
	Macro    bool                // a number is the mean over the groups' means, not over the samples
	OfGroups string              // name of that mean for the first part, in addition to the mean over samples; "": none
	Columns  []string            // in the order of tables; others follow
	Fields   map[string][]string // column: its names in files
	Derive   map[string]func(sample int, values map[string]float64) float64
	Counted  []string          // columns for which absent values count as wrong
	Bounds   map[string]Bounds // of columns; of scores in other programs' files: a scorer's own are on its range

	Lacks  func(sample int, column string) bool // a sample has no such number, so none is missing; nil: none
	Strict bool                                 // a number that a sample must lack is an error if present
	Scale  map[string]func(float64) float64     // by column: converts a number from a file
	Pooled map[string][]string                  // by column: its mean is over all numbers of these columns

	Held   map[string]map[string]Picture     // by editor and sample: pictures in the data
	Output func(editor string, i int) string // file of an editor's picture of a sample
	// reads the authors' result files; nil: there are none
	Own   func(editor string, j *EditorPredictions) error
	Table func(path string) (editor string, rows []*Line, err error) // reads a file other than JSON; nil: there is none

	sources Sources // of the samples, see EditorSample.Source
}

// EditorSample is one sample. Its item lacks the editor's picture.
type EditorSample struct {
	Output  Picture // how editors' pictures are read, without their path
	Item    *edit.Edit
	Group   string
	Parts   []string
	Source  string // samples with the same name are not independent; "": the path of the source's picture, if it has one
	Scored  bool   // a scorer has everything it needs
	Several bool   // it has several sources, shown to text judges that ask about them
}

// NewEditorSet returns a set without samples, for the editors in the options.
func NewEditorSet(name string, o Options) (*EditorSet, error) {
	return &EditorSet{Name: name, Editors: o.Editors, By: o.By}, DifferentEditors(o.Editors)
}

// Add adds a sample.
func (s *EditorSet) Add(sample EditorSample) error {
	id := sample.Item.ID
	if _, twice := s.Index[id]; twice {
		return fmt.Errorf("a second sample %q", id)
	}
	if s.Index == nil {
		s.Index = map[string]int{}
	}
	s.Index[id] = len(s.Samples)
	sample.Source = cmp.Or(sample.Source, PictureOf(sample.Item, "source").Path)
	s.sources.Add(sample.Source, len(s.Samples))
	s.Samples = append(s.Samples, sample)
	for _, part := range sample.Parts {
		if !slices.Contains(s.Parts, part) {
			s.Parts = append(s.Parts, part)
		}
	}
	if sample.Group != "" && !slices.Contains(s.Groups, sample.Group) {
		s.Groups = append(s.Groups, sample.Group)
	}
	return nil
}

// EditorPredictions are the columns of one editor, NaN where missing.
type EditorPredictions struct {
	*EditorSet
	editor  string
	Columns []string
	Values  map[string][]float64
	by      map[string]string
	Notes   []string
	where   map[string]string  // where each value was read, by column and sample
	runs    map[string]*OneRun // by column

	ofSeveral bool // samples of several sources have scores
}

// blank returns empty predictions of an editor.
func (s *EditorSet) blank(editor string) *EditorPredictions {
	by := map[string]string{}
	maps.Copy(by, s.By)
	return &EditorPredictions{
		EditorSet: s,
		editor:    editor,
		Values:    map[string][]float64{},
		by:        by,
		where:     map[string]string{},
		runs:      map[string]*OneRun{},
	}
}

// Set sets a value measured by a run ("": unknown). A second value is an error, and so is a value from another run.
func (j *EditorPredictions) Set(column, run string, i int, v float64, where string) error {
	if j.runs[column] == nil {
		j.runs[column] = &OneRun{}
	}
	if err := j.runs[column].Check(column, run); err != nil {
		return err
	}
	key := fmt.Sprint(column, "\n", i)
	if first, ok := j.where[key]; ok {
		return fmt.Errorf("a second value of %s for %s (the first is in %s)", column, j.Samples[i].Item.ID, first)
	}
	j.where[key] = where
	if j.Values[column] == nil {
		j.Values[column] = slices.Repeat([]float64{math.NaN()}, len(j.Samples))
	}
	j.Values[column][i] = v
	return nil
}

// finish derives columns from others, and orders them.
func (j *EditorPredictions) finish() error {
	for _, column := range slices.Sorted(maps.Keys(j.Derive)) {
		list, any := slices.Repeat([]float64{math.NaN()}, len(j.Samples)), false
		for i := range list {
			one := map[string]float64{}
			for name, v := range j.Values {
				one[name] = v[i]
			}
			list[i] = j.Derive[column](i, one)
			any = any || !math.IsNaN(list[i])
		}
		if stated := j.Values[column]; stated != nil {
			if err := j.contradicted(column, stated, list); err != nil {
				return err
			}
		} else if any {
			j.Values[column] = list
		}
	}
	for _, column := range j.Counted { // absent values count as wrong, if the editor has any
		for i, v := range j.Values[column] {
			if math.IsNaN(v) {
				j.Values[column][i] = 0
			}
		}
	}
	if scores := j.Values["score"]; scores != nil {
		for i, sample := range j.Samples {
			j.ofSeveral = j.ofSeveral || sample.Several && !math.IsNaN(scores[i])
		}
	}
	for _, column := range append(slices.Clone(j.EditorSet.Columns), slices.Sorted(maps.Keys(j.Values))...) {
		if j.Values[column] != nil && !slices.Contains(j.Columns, column) {
			j.Columns = append(j.Columns, column)
		}
	}
	return nil
}

// contradicted refuses numbers of a file that differ from those derived from other columns by more than rounding.
func (j *EditorPredictions) contradicted(column string, stated, derived []float64) error {
	b := j.Bounds[column]
	for i, v := range stated {
		if d := derived[i]; math.Abs(v-d) > 0.005*(b.High-b.Low) {
			return fmt.Errorf("%s: %s is %v for %s, but its other numbers imply %.4g",
				j.where[fmt.Sprint(column, "\n", i)], column, v, j.Samples[i].Item.ID, d)
		}
	}
	return nil
}

// Items implements Scorable: the outputs of all editors for samples where a scorer has everything it needs.
func (s *EditorSet) Items() ([]*edit.Edit, error) {
	return s.items(func(sample EditorSample) bool { return sample.Scored })
}

// ItemsOfSeveral implements SeveralSources.
func (s *EditorSet) ItemsOfSeveral() ([]*edit.Edit, error) {
	return s.items(func(sample EditorSample) bool { return sample.Scored || sample.Several })
}

// Outputs implements Measurable.
func (s *EditorSet) Outputs() ([]*edit.Edit, error) {
	return s.items(func(EditorSample) bool { return true })
}

func (s *EditorSet) items(which func(EditorSample) bool) ([]*edit.Edit, error) {
	if len(s.Editors)+len(s.Held) == 0 {
		return nil, fmt.Errorf("there are no pictures: give --editors, folders of the editors' pictures")
	}
	var p Problems
	var items []*edit.Edit
	for i, sample := range s.Samples {
		if !which(sample) {
			continue
		}
		for n, source := range sample.Item.Sources {
			if source := source.(Picture); source.Read == nil && (n == 0 || sample.Several) {
				FilePicture(source.Path, true, &p)
			}
		}
		add := func(editor string, output Picture) {
			it := *sample.Item
			it.Editor, it.Group, it.Output = editor, it.ID, output
			items = append(items, &it)
		}
		for _, editor := range s.Editors {
			output := sample.Output
			output.Path = s.Output(editor, i)
			FilePicture(output.Path, true, &p)
			add(EditorName(editor), output)
		}
		for _, editor := range slices.Sorted(maps.Keys(s.Held)) {
			if picture, ok := s.Held[editor][sample.Item.ID]; ok {
				add(editor, picture)
			}
		}
	}
	return items, p.Err()
}

// Hold records an editor's picture of a sample that is part of the data.
func (s *EditorSet) Hold(editor, sample string, p Picture) {
	if s.Held == nil {
		s.Held = map[string]map[string]Picture{}
	}
	if s.Held[editor] == nil {
		s.Held[editor] = map[string]Picture{}
	}
	s.Held[editor][sample] = p
}

// Line implements Measurable.
func (s *EditorSet) Line(k Key, values map[string]any, by string) map[string]any {
	numbers := map[string][]string{}
	for component := range values {
		numbers[component] = []string{component}
	}
	return ComponentLine("id", k, values, by, numbers)
}

// wants reports whether a sample should have a column's number. Samples with several sources should have a score if
// any of them has: then a judge was asked about them.
func (j *EditorPredictions) wants(i int, column string) bool {
	if column == "score" {
		return j.Samples[i].Scored || j.Samples[i].Several && j.ofSeveral
	}
	return j.Lacks == nil || !j.Lacks(i, column)
}
