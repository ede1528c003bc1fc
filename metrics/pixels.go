package metrics

import (
	"context"
	"math"
	"strings"

	"assay/data"
	"assay/edit"
)

// Distances are the names of the distances of pixels.
var Distances = []string{"l1", "l2", "l1_source", "l2_source"}

// distance compares the edit with the wanted result pixel by pixel, as MagicBrush does: values on 0..1, the edit
// resized to the wanted result's size (bicubic). l1 is mean |a - b|, l2 mean (a - b)^2. l1_source and l2_source are
// those from the source.
type distance string

func openDistance(name string) *Metric {
	d := distance(name)
	return &Metric{name: name, fingerprint: name + "-pixels-1", roles: []string{"edit", d.from()}, value: d.value}
}

// from is the picture that the edit is compared with.
func (d distance) from() string {
	if strings.HasSuffix(string(d), "_source") {
		return "source"
	}
	return "target"
}

func (d distance) value(_ context.Context, s *edit.Views) (edit.Score, error) {
	target := s.ByRole[d.from()]
	output := s.ByRole["edit"].Resize(target.Width, target.Height, data.Bicubic)
	sum := 0.0
	for i, v := range output.Pix {
		difference := math.Abs(float64(v)-float64(target.Pix[i])) / 255
		if strings.HasPrefix(string(d), "l2") {
			difference *= difference
		}
		sum += difference
	}
	v := sum / float64(len(output.Pix))
	return edit.Score{Value: v, Score01: v, Unbounded: true}, nil
}
