package benchmarks

import "math"

// disagreements are the samples on which a scorer and FED-Score disagree most, and least, with their pictures if the
// editors' folders are known.
func (j *fedPredictions) disagreements() []Example {
	pictures := map[Key]Item{}
	items, err := j.Items()
	if err != nil {
		items = nil // the report has no pictures then
	}
	for _, it := range items {
		pictures[it.Key] = it
	}
	p := points{truth: "fed_score"}
	var scores []float64
	truth, given := j.column("fed_score"), j.column("score")
	for i, s := range j.samples {
		if math.IsNaN(given[i]) || math.IsNaN(truth[i]) {
			continue
		}
		key := fedPart{s.key.ID, s.key.Model, s.tags["instructions"]}.key()
		p.keys, p.human = append(p.keys, key), append(p.human, truth[i])
		scores = append(scores, given[i])
	}
	return p.examples(scores, 4, func(i int) ([]CaptionedPicture, string) {
		it, ok := pictures[p.keys[i]]
		if !ok {
			return nil, ""
		}
		return []CaptionedPicture{{"source", it.Source}, {"edit", it.Edit}, {"wanted", it.Target}}, it.Instruction
	})
}
