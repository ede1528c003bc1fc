package fedbench

import (
	"math"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
)

// disagreements are the samples on which a scorer and FED-Score disagree most, and least, with their pictures if the
// editors' folders are known.
func (j *fedPredictions) disagreements() []protocol.Example {
	pictures := map[protocol.Key]*edit.Edit{}
	items, err := j.Items()
	if err != nil {
		items = nil // the report has no pictures then
	}
	for _, it := range items {
		pictures[protocol.ItemKey(it)] = it
	}
	p := protocol.Ratings{Truth: "fed_score"}
	var scores []float64
	truth, given := j.column("fed_score"), j.column("score")
	for i, s := range j.samples {
		if math.IsNaN(given[i]) || math.IsNaN(truth[i]) {
			continue
		}
		key := fedPart{s.key.ID, s.key.Model, s.tags["instructions"]}.key()
		p.Keys, p.Human = append(p.Keys, key), append(p.Human, truth[i])
		scores = append(scores, given[i])
	}
	return p.Examples(scores, 4, func(i int) ([]protocol.CaptionedPicture, string) {
		it, ok := pictures[p.Keys[i]]
		if !ok {
			return nil, ""
		}
		return []protocol.CaptionedPicture{protocol.Caption("source", it, "source"), protocol.Caption("edit", it, "edit"),
			protocol.Caption("wanted", it, protocol.Target)}, it.Instruction
	})
}
