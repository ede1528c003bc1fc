package aimbench

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/internal/benchmarks/protocol"
)

// aimComponents are the names of the components and of what follows from the emotion.
var aimComponents = []string{"clip_t", "sc", "aesthetic", "pq", "s_gtc", "acc", "f1", "d_vad", "score"}

// aimReader collects the components of several files.
type aimReader struct {
	*aim
	editors map[string]*aimPredictions
	order   []string
	set     map[string]string // editor, sample and component: where it was read
	outputs map[string][]int  // samples by the name that an editor's output has, by the authors' rule
	halves  map[aimOutput]map[string]aimHalfScore
}

// aimOutput is an editor's output of a sample.
type aimOutput struct {
	editor string
	i      int
}

// aimHalfScore is s_sm or s_vs, which may come in separate files; s_gtc is the smaller of the two.
type aimHalfScore struct {
	value float64
	where string
}

// Read implements Set.
func (s *aim) Read(path string) (protocol.Predictions, error) { return protocol.ReadOne(s, path) }

// ReadAll implements Mixed.
func (s *aim) ReadAll(paths []string) ([]protocol.Editor, error) {
	m := &aimReader{aim: s, editors: map[string]*aimPredictions{}, set: map[string]string{},
		outputs: map[string][]int{},
		halves:  map[aimOutput]map[string]aimHalfScore{}}
	for i := range s.samples {
		m.outputs[s.output(i)] = append(m.outputs[s.output(i)], i)
	}
	var p protocol.Problems
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case info.IsDir():
			err = m.readEditor(path, &p)
		default:
			err = m.readFile(path, &p)
		}
		if err != nil {
			return nil, err
		}
	}
	m.checkHalves(&p)
	if err := p.Err(); err != nil {
		return nil, err
	}
	var out []protocol.Editor
	for _, name := range m.order {
		m.editors[name].among = len(m.order)
		out = append(out, protocol.Editor{Name: name, Predictions: m.editors[name]})
	}
	return out, nil
}

// base is a sample's name in the authors' layout: original_image without its extension.
func (s *aim) base(i int) string {
	return strings.TrimSuffix(s.samples[i].original, filepath.Ext(s.samples[i].original))
}

// output is the name of an editor's picture of a sample.
func (s *aim) output(i int) string { return s.base(i) + "_edited_" + s.samples[i].emotion + ".png" }

// editor returns the predictions of an editor, new ones for a new name.
func (m *aimReader) editor(name string) *aimPredictions {
	if j, ok := m.editors[name]; ok {
		return j
	}
	n := len(m.samples)
	j := &aimPredictions{
		aim:     m.aim,
		name:    name,
		columns: map[string][]float64{},
		sub:     map[string][][]float64{},
		emotion: make([]string, n),
		point:   slices.Repeat([][3]float64{{math.NaN()}}, n),
		by:      map[string]string{},
	}
	for _, c := range []string{"clip_t", "sc", "aesthetic", "pq", "s_gtc", "d_vad", "score"} {
		j.columns[c] = slices.Repeat([]float64{math.NaN()}, n)
	}
	for _, c := range []string{"sc", "pq", "s_gtc"} {
		j.sub[c] = make([][]float64, n)
	}
	maps.Copy(j.by, m.by)
	m.editors[name], m.order = j, append(m.order, name)
	return j
}

// claim notes where a component of a sample was read; a second place is an error.
func (m *aimReader) claim(j *aimPredictions, i int, component, where string) error {
	key := fmt.Sprintf("%s\n%d\n%s", j.name, i, component)
	if first, ok := m.set[key]; ok {
		return fmt.Errorf("a second value of %s for sample %d (the first is in %s)", component, i, first)
	}
	m.set[key] = where
	return nil
}

func (m *aimReader) readFile(path string, p *protocol.Problems) error {
	rows, err := protocol.ReadLines(path)
	if err != nil {
		return err
	}
	run, err := protocol.RunOf(path)
	if err != nil {
		return err
	}
	inOrder := len(rows) == len(m.samples) && !slices.ContainsFunc(rows,
		func(r *protocol.Line) bool { return r.Has(aimID(r)) })
	if inOrder {
		j := m.editor("")
		j.notes = append(j.notes, "the components name no samples: their lines are taken in the order of the data")
	}
	seen := map[string]string{}
	p.Each(rows, func(r *protocol.Line) (err error) {
		i := r.Index
		if !inOrder {
			if i, err = m.find(r); err != nil {
				return err
			}
		}
		return m.readRow(r, i, run, seen)
	})
	return nil
}

func (m *aimReader) readRow(r *protocol.Line, i int, run string, seen map[string]string) error {
	name := r.Editor()
	if r.Err() != nil {
		return nil
	}
	key := fmt.Sprint(i, "\n", name)
	if first, ok := seen[key]; ok {
		return fmt.Errorf("a second line for sample %d (the first is in %s)", i, first)
	}
	seen[key] = r.Where
	j := m.editor(name)
	if err := protocol.ReadBy(r, j.by, aimComponents); err != nil {
		return err
	}
	if r.Has("score") {
		if err := j.run.Check("score", run); err != nil {
			return err
		}
	}
	return m.readSample(j, i, r)
}

func aimID(r *protocol.Line) string { return r.First("id", "edited_image", "original_image", "image") }

// find returns the sample that a line names. Other picture names in the line must belong to the same sample.
func (s *aim) find(r *protocol.Line) (int, error) {
	id := r.ID(aimID(r))
	if r.Err() != nil {
		return 0, r.Err()
	}
	i, err := s.named(id)
	if err != nil {
		return 0, err
	}
	for field, names := range map[string][]string{"edited_image": {s.samples[i].edited, s.output(i)},
		"original_image": {s.samples[i].original}} {
		if !r.Has(field) {
			continue
		}
		said := r.ID(field)
		is := func(name string) bool { return filepath.Base(said) == filepath.Base(name) }
		if !slices.ContainsFunc(names, is) {
			return 0, fmt.Errorf("%s is %q here, but sample %s has %q (ids count the samples from 0)", field, said, id,
				names[0])
		}
	}
	return i, nil
}

// named returns the sample with a number, or with a picture's name.
func (s *aim) named(id string) (int, error) {
	if i, err := strconv.Atoi(id); err == nil && i >= 0 && i < len(s.samples) {
		return i, nil
	}
	for _, nameOf := range []func(aimSample) string{
		func(sample aimSample) string { return sample.edited }, func(sample aimSample) string { return sample.original },
	} {
		var at []int
		for i, sample := range s.samples {
			if name := nameOf(sample); name == id || filepath.Base(name) == id {
				at = append(at, i)
			}
		}
		if len(at) == 1 {
			return at[0], nil
		}
	}
	return 0, fmt.Errorf("%q is not a sample: want a number from 0 to %d, or an edited_image such as %q", id,
		len(s.samples)-1, s.samples[0].edited)
}

// aimFields are the fields of a line that hold components of a sample.
var aimFields = []string{"clip_t", "aesthetic", "sc", "pq", "s_gtc", "s_sm", "s_vs", "emotion", "vad", "score"}

func (m *aimReader) readSample(j *aimPredictions, i int, r *protocol.Line) error {
	if !slices.ContainsFunc(aimFields, func(f string) bool { _, ok := r.Fields[f]; return ok }) {
		return fmt.Errorf("it has no component: want one of %s", strings.Join(aimFields, ", "))
	}
	for _, component := range []string{"clip_t", "aesthetic", "sc", "pq", "s_gtc", "score"} {
		if !r.Has(component) {
			continue
		}
		values := aimValues(r, component)
		if r.Err() != nil {
			return nil
		}
		if err := m.setValues(j, i, component, values, r.Where); err != nil {
			return err
		}
	}
	if err := m.readHalves(j, i, r); err != nil {
		return err
	}
	if r.Has("emotion") {
		emotion := strings.ToLower(strings.TrimSpace(r.Text("emotion")))
		if err := m.setEmotion(j, i, emotion, r.Where); err != nil {
			return err
		}
	}
	if r.Has("vad") {
		v, err := parseVAD(r.Fields["vad"])
		if err != nil {
			return fmt.Errorf("vad: %w", err)
		}
		return m.setVAD(j, i, v, r.Where)
	}
	return nil
}

// aimValues reads a component: a number, or a list of a judge's sub-scores.
func aimValues(r *protocol.Line, component string) (values []float64) {
	if slices.Contains([]string{"sc", "pq", "s_gtc"}, component) {
		values = r.Numbers(component)
	} else {
		values = []float64{r.Number(component)}
	}
	if b, ok := aimBounds[component]; ok {
		for _, v := range values {
			if err := b.Check(component, v); err != nil {
				r.Fail("%w", err)
			}
		}
	}
	return values
}

// readHalves reads s_sm and s_vs; null means the sample has none.
func (m *aimReader) readHalves(j *aimPredictions, i int, r *protocol.Line) error {
	key := aimOutput{j.name, i}
	for _, f := range []string{"s_sm", "s_vs"} {
		if _, ok := r.Fields[f]; !ok {
			continue
		}
		v := aimValues(r, f)
		if err := m.claim(j, i, f, r.Where); err != nil || r.Err() != nil {
			return err
		}
		if m.halves[key] == nil {
			m.halves[key] = map[string]aimHalfScore{}
		}
		m.halves[key][f] = aimHalfScore{v[0], r.Where}
		sm, vs := m.halves[key]["s_sm"], m.halves[key]["s_vs"]
		if len(m.halves[key]) < 2 || math.IsNaN(sm.value+vs.value) {
			continue
		}
		if err := m.setValues(j, i, "s_gtc", []float64{sm.value, vs.value}, r.Where); err != nil {
			return err
		}
	}
	return nil
}

// checkHalves reports the samples that have only one of s_sm and s_vs.
func (m *aimReader) checkHalves(p *protocol.Problems) {
	for _, name := range m.order {
		for i := range m.samples {
			half := m.halves[aimOutput{name, i}]
			for f, other := range map[string]string{"s_sm": "s_vs", "s_vs": "s_sm"} {
				if h, ok := half[f]; ok && len(half) < 2 {
					p.Add(h.where, "sample %d has %s, but no file has its %s: s_gtc is the smaller of the two", i, f, other)
				}
			}
		}
	}
}

// setValues sets a component to the smallest of a judge's sub-scores.
func (m *aimReader) setValues(j *aimPredictions, i int, column string, values []float64, where string) error {
	if err := m.claim(j, i, column, where); err != nil {
		return err
	}
	j.columns[column][i] = slices.Min(values)
	if sub, ok := j.sub[column]; ok {
		sub[i] = values
	}
	return nil
}

func (m *aimReader) setEmotion(j *aimPredictions, i int, emotion, where string) error {
	j.emotion[i] = emotion
	return m.claim(j, i, "emotion", where)
}

// setVAD sets the predicted point and its distance from the target.
func (m *aimReader) setVAD(j *aimPredictions, i int, v [3]float64, where string) error {
	t := j.samples[i].vad
	j.point[i] = v
	j.columns["d_vad"][i] = math.Sqrt((v[0]-t[0])*(v[0]-t[0]) + (v[1]-t[1])*(v[1]-t[1]) + (v[2]-t[2])*(v[2]-t[2]))
	return m.claim(j, i, "vad", where)
}
