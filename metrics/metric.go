package metrics

import (
	"context"
	"fmt"
	"slices"

	"assay/data"
	"assay/edit"
	"assay/internal/workers"
)

// Options say where metrics run.
type Options struct {
	Device  string // cpu (default), cuda:N, auto
	Threads int    // 0: as the runtime chooses
	Places  *Places
}

// Metric judges edits by one component. Its scores have no bounds. A metric of classes names one (Score.Answer), a
// metric of several numbers has dimensions alone.
type Metric struct {
	name, fingerprint string
	roles, texts      []string // what it looks at
	value             func(ctx context.Context, s *sample) (edit.Score, error)
	close             func() error
}

var _ edit.Judge = (*Metric)(nil)

// Open opens a distance of pixels by its name ([Distances], bg_rmse), or a metric by its YAML file.
func Open(name string, o Options) (*Metric, error) {
	switch {
	case name == "bg_rmse":
		return openBackground(o.Places)
	case slices.Contains(Distances, name):
		return openDistance(name), nil
	}
	return openNetwork(name, o)
}

// Info implements edit.Judge. Its name is the component's.
func (m *Metric) Info() edit.Info {
	info := edit.Info{Name: m.name, Range: edit.NoRange(), Texts: m.texts}
	for _, role := range m.roles {
		if role == "source" {
			info.Sources = 1
		} else if role != "edit" {
			info.Pictures = append(info.Pictures, role)
		}
	}
	return info
}

// Fingerprint implements edit.Judge.
func (m *Metric) Fingerprint() (string, error) { return m.fingerprint, nil }

// Close implements edit.Judge.
func (m *Metric) Close() error {
	if m.close == nil {
		return nil
	}
	return m.close()
}

// sample is an edit with the pictures that a metric looks at, decoded.
type sample struct {
	*edit.Edit
	pictures map[string]*data.Picture
}

// Size implements edit.Inputs: pictures are bytes, four to a float32.
func (s *sample) Size(edit.Inputs) (n int) {
	for _, p := range s.pictures {
		n += len(p.Pix) / 4
	}
	return n
}

// Prepare implements edit.Judge.
func (m *Metric) Prepare(e *edit.Edit) (edit.Inputs, error) {
	s := &sample{e, map[string]*data.Picture{}}
	for _, role := range m.roles {
		p := e.Picture(role)
		if p == nil {
			return nil, fmt.Errorf("there is no picture %q", role)
		}
		var err error
		if s.pictures[role], err = edit.Decode(p); err != nil {
			return nil, fmt.Errorf("%s: %w", role, err)
		}
	}
	return s, nil
}

// Score implements edit.Judge. Edits are measured several at a time.
func (m *Metric) Score(ctx context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	scores, errs := make([]edit.Score, len(inputs)), make([]error, len(inputs))
	workers.Do(len(inputs), func(i int) { scores[i], errs[i] = m.value(ctx, inputs[i].(*sample)) })
	return scores, errs, ctx.Err()
}
