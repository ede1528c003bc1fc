package metrics

import (
	"context"
	"slices"

	"assay/edit"
	"assay/internal/workers"
)

// Options configure how metrics run.
type Options struct {
	Device  string // cpu (default), cuda:N, auto
	Threads int    // 0: the runtime's default
	Places  *Places
}

// Metric judges edits by one component. Its scores are unbounded. A metric with classes sets Score.Answer, a metric
// with several numbers only has dimensions.
type Metric struct {
	name, fingerprint string
	roles, texts      []string // the pictures and texts that it looks at
	dimensions        []string // of several numbers
	value             func(ctx context.Context, s *edit.Views) (edit.Score, error)
	close             func() error
}

var _ edit.Judge = (*Metric)(nil)

// Open opens a pixel distance by name ([Distances], bg_rmse), or a metric by its YAML file.
func Open(name string, o Options) (*Metric, error) {
	switch {
	case name == "bg_rmse":
		return openBackground(o.Places)
	case slices.Contains(Distances, name):
		return openDistance(name), nil
	}
	return openNetwork(name, o)
}

// Info implements edit.Judge. Its name is the name of the component.
func (m *Metric) Info() edit.Info {
	info := edit.Info{Name: m.name, Range: edit.NoRange(), Texts: m.texts}
	for _, role := range m.roles {
		if role == "source" {
			info.Sources = 1
		} else if role != "edit" {
			info.Pictures = append(info.Pictures, role)
		}
	}
	for _, name := range slices.Sorted(slices.Values(m.dimensions)) {
		info.Dimensions = append(info.Dimensions, edit.DimensionInfo{Name: name})
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

// Prepare implements edit.Judge.
func (m *Metric) Prepare(e *edit.Edit) (edit.Inputs, error) { return edit.View(e, m.roles...) }

// Score implements edit.Judge. Edits are measured in parallel.
func (m *Metric) Score(ctx context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	scores, errs := make([]edit.Score, len(inputs)), make([]error, len(inputs))
	workers.Do(len(inputs), func(i int) { scores[i], errs[i] = m.value(ctx, inputs[i].(*edit.Views)) })
	return scores, errs, ctx.Err()
}
