package aimbench

import (
	"maps"
	"math"
	"slices"
	"strings"

	"assay/internal/benchmarks/protocol"
	"assay/internal/stats"
)

// aimJSON is the JSON result of AIM-Bench.
type aimJSON struct {
	protocol.Common
	aimMeansJSON
	Positive    aimHalf                   `json:"positive"`
	Negative    aimHalf                   `json:"negative"`
	Bias        aimHalf                   `json:"positivity_bias"`
	PerEmotion  map[string]protocol.Value `json:"per_emotion_acc"`
	PerEditType map[string]aimMeansJSON   `json:"per_edit_type"`
	Confusion   protocol.Confusion        `json:"confusion"`
}

type aimHalf struct {
	N    int            `json:"n,omitempty"`
	Used map[string]int `json:"used,omitempty"` // for numbers that are not based on all samples: on how many
	Acc  protocol.Value `json:"acc"`
	DVAD protocol.Value `json:"d_vad"`
}

type aimMeansJSON struct {
	Samples   int            `json:"samples"`
	ClipT     protocol.Value `json:"clip_t"`
	SC        protocol.Value `json:"sc"`
	Aesthetic protocol.Value `json:"aesthetic"`
	PQ        protocol.Value `json:"pq"`
	SGTC      protocol.Value `json:"s_gtc"`
	Acc       protocol.Value `json:"acc"`
	F1        protocol.Value `json:"f1"`
	DVAD      protocol.Value `json:"d_vad"`
	Overall   protocol.Value `json:"overall"`

	// Used: for numbers that are not based on all samples, on how many; for overall, on how many values (seven per
	// sample).
	Used map[string]int `json:"used,omitempty"`
}

func toAIMMeans(samples int, m map[string]float64, used map[string]int) aimMeansJSON {
	return aimMeansJSON{
		samples,
		protocol.Value(m["clip_t"]),
		protocol.Value(m["sc"]),
		protocol.Value(m["aesthetic"]),
		protocol.Value(m["pq"]),
		protocol.Value(m["s_gtc"]),
		protocol.Value(m["acc"]),
		protocol.Value(m["f1"]),
		protocol.Value(m["d_vad"]),
		protocol.Value(m["overall"]),
		used,
	}
}

// Result implements protocol.Predictions.
func (j *aimPredictions) Result() *protocol.Result {
	r := &protocol.Result{Notes: j.notes}
	all := stats.UpTo(len(j.samples))
	r.Count(len(all), j.complete, func(i int) protocol.Key { return protocol.Key{ID: j.samples[i].edited} })
	var truth, predicted []string
	byKind, byEmotion := map[string][]int{}, map[string][]int{}
	for i := range j.samples {
		byKind[j.samples[i].kind] = append(byKind[j.samples[i].kind], i)
		byEmotion[j.samples[i].emotion] = append(byEmotion[j.samples[i].emotion], i)
		if j.emotion[i] != "" {
			truth, predicted = append(truth, j.samples[i].emotion), append(predicted, j.emotion[i])
		}
	}
	means := j.means(all)
	out := aimJSON{
		aimMeansJSON: toAIMMeans(len(all), means, nil), // the names of its numbers say it
		PerEmotion:   map[string]protocol.Value{},
		PerEditType:  map[string]aimMeansJSON{},
		Confusion:    protocol.NewConfusion("emotions", truth, predicted, emotions, emotions),
	}
	r.Numbers = j.Numbers(stats.UpTo(j.Units()))
	for k := range r.Numbers {
		r.Numbers[k].Coverage = j.covers(r.Numbers[k].Name, all)
	}
	for _, e := range emotions {
		if len(byEmotion[e]) > 0 {
			out.PerEmotion[e] = protocol.Value(j.means(byEmotion[e])["acc"])
		}
	}
	r.Tables = []protocol.Table{j.halves(byEmotion, &out), j.perKind(byKind, means, &out)}
	if other := out.Confusion.Predicted[len(emotions):]; len(other) > 0 {
		r.Notes = append(r.Notes,
			"predicted emotions outside the eight are wrong for acc and left out of f1: "+strings.Join(other, ", "))
	}
	out.Common = r.Common("aim-bench")
	r.Examples = j.disagreements()
	var err error
	if r.Agreement, err = j.agreement(); err != nil {
		r.Failed = append(r.Failed, err.Error())
	}
	r.JSON, r.Confusions = out, []protocol.Confusion{out.Confusion}
	return r
}

// halves fills in the numbers of positive and of negative targets, and the bias between them.
func (j *aimPredictions) halves(byEmotion map[string][]int, out *aimJSON) protocol.Table {
	marks := map[string][]string{}
	half := func(name string, names []string) aimHalf {
		var samples []int
		for _, e := range names {
			samples = append(samples, byEmotion[e]...)
		}
		m := j.means(samples)
		used, mark := j.usedOf(samples, []string{"acc", "d_vad"})
		marks[name] = mark
		return aimHalf{len(samples), used, protocol.Value(m["acc"]), protocol.Value(m["d_vad"])}
	}
	out.Positive, out.Negative = half("positive", positiveEmotions), half("negative", negativeEmotions)
	out.Bias = aimHalf{Acc: out.Positive.Acc - out.Negative.Acc, DVAD: out.Negative.DVAD - out.Positive.DVAD}
	t := protocol.Table{Title: "positive and negative targets", Columns: []string{"acc", "d_vad"}}
	for _, h := range []struct {
		name string
		aimHalf
	}{{"positive", out.Positive}, {"negative", out.Negative}, {"positivity bias", out.Bias}} {
		row := protocol.TableRow{Name: h.name, Cells: protocol.Cells(float64(h.Acc), float64(h.DVAD))}
		for i, mark := range marks[h.name] {
			row.Cells[i].Mark = mark
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// perKind fills in the means of every kind of edits; means are those of all.
func (j *aimPredictions) perKind(byKind map[string][]int, means map[string]float64, out *aimJSON) protocol.Table {
	t := protocol.Table{Title: "per edit type"}
	for _, n := range aimRow(means) {
		t.Columns = append(t.Columns, n.Name)
	}
	for _, k := range slices.Sorted(maps.Keys(byKind)) {
		m := j.means(byKind[k])
		used, marks := j.usedOf(byKind[k], t.Columns)
		out.PerEditType[k] = toAIMMeans(len(byKind[k]), m, used)
		line := protocol.TableRow{Name: k}
		for i, n := range aimRow(m) {
			line.Cells = append(line.Cells, protocol.Cell{Value: n.Value, Mark: marks[i]})
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

// agreement returns the tables of a scorer's agreement with the components, and of all of them with human ratings.
func (j *aimPredictions) agreement() ([]protocol.Table, error) {
	var components []protocol.Column
	for _, c := range []string{"clip_t", "sc", "aesthetic", "pq", "s_gtc", "d_vad"} {
		components = append(components, protocol.Column{Name: c, Values: j.columns[c], Lower: c == "d_vad"})
	}
	right := make([]float64, len(j.samples))
	for i, e := range j.emotion {
		switch {
		case e == "":
			right[i] = math.NaN()
		case e == j.samples[i].emotion:
			right[i] = 1
		}
	}
	components = append(components, protocol.Column{Name: "emotion is right", Values: right})
	score := protocol.Column{Name: "score", Values: j.columns["score"]}
	return protocol.Agreements(score, components, j.human, func(r *protocol.Line) int {
		switch name := r.Editor(); {
		case name == "" && j.among > 1:
			r.Fail("there is no \"method\": with %d editors, it must name the one whose sample was rated", j.among)
		case name != "" && name != j.name:
			return -1
		}
		i, err := j.find(r)
		if err != nil {
			r.Fail("%w", err)
		}
		return i
	})
}

// disagreements returns the samples on whose semantic consistency a scorer and the judge disagree most, and least, with
// their pictures if the editor's folder is known.
func (j *aimPredictions) disagreements() []protocol.Example {
	items, err := j.Items()
	if err != nil {
		items = nil // the report has no pictures then
	}
	keys := make([]protocol.Key, len(j.samples))
	for i, sample := range j.samples {
		keys[i] = protocol.Key{ID: sample.edited, Model: j.name}
	}
	return protocol.Disagreements("sc", keys, j.columns["score"], j.columns["sc"], items)
}
