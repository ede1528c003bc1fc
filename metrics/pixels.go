package metrics

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/data"
)

// Measurer measures one component of samples. [Metric] and [Distance] are measurers, safe for concurrent use.
type Measurer interface {
	Name() string // of the component
	Fingerprint() string
	Roles() []string // pictures that a sample must have
	Value(ctx context.Context, s *Sample) (any, error)
	Close() error
}

// Distances are the names of the distances of pixels.
var Distances = []string{"l1", "l2", "l1_source", "l2_source"}

// Distance compares the edit with the wanted result pixel by pixel, as MagicBrush does: values on 0..1, the edit
// resized to the wanted result's size (bicubic). l1 is mean |a - b|, l2 mean (a - b)^2. l1_source and l2_source are
// those from the source.
type Distance string

// OpenMeasurer opens a distance of pixels by its name (bg_rmse is one, too), or a metric by its file.
func OpenMeasurer(name string, o Options) (Measurer, error) {
	if name == "bg_rmse" {
		b, err := openBackground(o.Places)
		if err != nil {
			return nil, err
		}
		return b, nil
	}
	if slices.Contains(Distances, name) {
		return Distance(name), nil
	}
	m, err := Open(name, o)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Name implements Measurer.
func (d Distance) Name() string { return string(d) }

// Fingerprint implements Measurer.
func (d Distance) Fingerprint() string { return string(d) + "-pixels-1" }

// Roles implements Measurer.
func (d Distance) Roles() []string { return []string{"edit", d.from()} }

// from is the picture that the edit is compared with.
func (d Distance) from() string {
	if strings.HasSuffix(string(d), "_source") {
		return "source"
	}
	return "target"
}

// Close implements Measurer.
func (d Distance) Close() error { return nil }

// Value implements Measurer.
func (d Distance) Value(_ context.Context, s *Sample) (any, error) {
	edit, target := s.Pictures["edit"], s.Pictures[d.from()]
	if edit == nil || target == nil {
		return nil, fmt.Errorf("there is no picture to compare")
	}
	edit = edit.Resize(target.Width, target.Height, data.Bicubic)
	sum := 0.0
	for i, v := range edit.Pix {
		difference := math.Abs(float64(v)-float64(target.Pix[i])) / 255
		if strings.HasPrefix(string(d), "l2") {
			difference *= difference
		}
		sum += difference
	}
	return sum / float64(len(edit.Pix)), nil
}
