package benchmarks

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/internal/stats"
)

var aimBench = &Benchmark{
	Name:  "aim-bench",
	Title: "AIM-Bench, affective image manipulation: 800 edits, 8 emotions, 5 kinds of edits",
	Needs: []string{
		"--ratings: Instructions.json, [{original_image, edited_image, edit_type, edit_prompt, source_emotion, " +
			"target_emotion: {emotion, VAD}}], or its folder",
		"--components: JSON lines of each sample's components; or --means: a CSV with a method's means in each row",
	},
	Published: "the authors of AIM-Bench (arXiv 2604.10454): announced",
	Predicts: `{"id": 0, "clip_t": 0.22, "sc": [8, 9], "aesthetic": 5.5, "pq": [7, 7], "s_sm": 7, "s_vs": 6, ` +
		`"emotion": "awe", "vad": {"valence": 7, "arousal": 5, "dominance": 5}}, ` +
		`id counting the samples from 0, or being edited_image`,
	Rules: []string{
		"sc, pq: mean of the smallest sub-score; s_gtc: mean of min(s_sm, s_vs); d_vad: mean Euclidean distance to the " +
			"target",
		"acc, f1: percent; f1 is the macro average over the 8 emotions",
		"overall: 100 x the mean of eight values clipped to 0..1 between clip_t [0.20, 0.30], sc, pq, s_gtc [5, 10], " +
			"aesthetic [0, 10], acc, f1 [0, 100], d_vad [3, 2]",
		"positivity_bias: accuracy of positive targets minus that of negative ones; distance of negative targets minus " +
			"that of positive ones",
	},
	Flags: []string{"components", "means"},
	Load:  loadAIM,
	Means: aimMeans,
}

var (
	positiveEmotions = []string{"amusement", "awe", "contentment", "excitement"}
	negativeEmotions = []string{"anger", "disgust", "fear", "sadness"}
	emotions         = slices.Concat(positiveEmotions, negativeEmotions)
)

// aim is AIM-Bench's data.
type aim struct {
	original, edited, kind, emotion []string
	vad                             [][3]float64
}

func loadAIM(o Options) (Set, error) {
	path, err := locate(o.Data, "Instructions.json")
	if err != nil {
		return nil, err
	}
	rows, err := readRows(path)
	if err != nil {
		return nil, err
	}
	s := &aim{}
	var p problems
	for _, r := range rows {
		original, err1 := r.text("original_image")
		edited, err2 := r.text("edited_image")
		kind, err3 := r.text("edit_type")
		var target struct {
			Emotion string
			VAD     json.RawMessage
		}
		err4 := json.Unmarshal(r.fields["target_emotion"], &target)
		if err4 != nil {
			err4 = errors.New("target_emotion: an object with emotion and VAD was expected")
		}
		vad, err5 := parseVAD(target.VAD)
		target.Emotion = strings.ToLower(strings.TrimSpace(target.Emotion))
		var err6 error
		if err4 == nil && !slices.Contains(emotions, target.Emotion) {
			err6 = fmt.Errorf("the target emotion is %q: one of %s was expected", target.Emotion, strings.Join(emotions, ", "))
		}
		if err := errors.Join(err1, err2, err3, err4, err6); err != nil {
			p.add(r.where, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		} else if err5 != nil {
			p.add(r.where, "target_emotion.VAD: %v", err5)
		}
		s.original, s.edited, s.kind = append(s.original, original), append(s.edited, edited), append(s.kind, kind)
		s.emotion, s.vad = append(s.emotion, target.Emotion), append(s.vad, vad)
	}
	return s, p.err()
}

// aimBounds are the scales of the components: a cosine, judges' scales of 0 to 10, the aesthetic predictor's, and that
// of valence, arousal and dominance.
var aimBounds = map[string]bounds{"clip_t": {-1, 1}, "sc": {0, 10}, "pq": {0, 10}, "aesthetic": {0, 10},
	"s_sm": {0, 10}, "s_vs": {0, 10}, "s_gtc": {0, 10}, "valence": {1, 9}, "arousal": {1, 9}, "dominance": {1, 9},
	"acc": {0, 100}, "f1": {0, 100}, "overall": {0, 100}, "d_vad": {0, 8 * math.Sqrt(3)}}

// parseVAD reads {valence, arousal, dominance} or a list of the three.
func parseVAD(raw json.RawMessage) (v [3]float64, err error) {
	names := []string{"valence", "arousal", "dominance"}
	var list []float64
	var m map[string]any
	switch {
	case json.Unmarshal(raw, &list) == nil && len(list) == 3:
	case json.Unmarshal(raw, &m) == nil && m != nil:
		list = nil
		for _, name := range names {
			x, ok := m[name].(float64)
			if !ok {
				return v, fmt.Errorf("there is no number %q", name)
			}
			list = append(list, x)
		}
	default:
		return v, errors.New("the numbers valence, arousal and dominance were expected")
	}
	for i, name := range names {
		if err := aimBounds[name].check(name, list[i]); err != nil {
			return v, err
		}
	}
	return [3]float64(list), nil
}

// aimPredictions holds the components of each sample: the columns of aimColumns but acc and f1, NaN where missing.
type aimPredictions struct {
	*aim
	columns map[string][]float64
	emotion []string // predicted, "" where missing
	notes   []string
}

// Read implements Set.
func (s *aim) Read(path string) (Predictions, error) {
	rows, err := readRows(path)
	if err != nil {
		return nil, err
	}
	j := &aimPredictions{aim: s, columns: map[string][]float64{}, emotion: make([]string, len(s.kind))}
	for _, c := range []string{"clip_t", "sc", "aesthetic", "pq", "s_gtc", "d_vad"} {
		j.columns[c] = slices.Repeat([]float64{math.NaN()}, len(s.kind))
	}
	inOrder := len(rows) == len(s.kind) && !slices.ContainsFunc(rows, func(r row) bool { return r.has(aimID(r)) })
	if inOrder {
		j.notes = append(j.notes, "the components name no samples: their lines are taken in the order of the data")
	}
	var p problems
	seen := map[int]string{}
	for n, r := range rows {
		i, err := n, error(nil)
		if !inOrder {
			i, err = s.find(r)
		}
		if err == nil {
			if first, ok := seen[i]; ok {
				err = fmt.Errorf("a second line for sample %d (the first is in %s)", i, first)
			} else {
				seen[i] = r.where
				err = j.readSample(i, r)
			}
		}
		if err != nil {
			p.add(r.where, "%v", err)
		}
	}
	return j, p.err()
}

func aimID(r row) string { return r.first("id", "edited_image", "original_image", "image") }

func (s *aim) find(r row) (int, error) {
	id, err := r.id(aimID(r))
	if err != nil {
		return 0, err
	}
	if i, err := strconv.Atoi(id); err == nil && i >= 0 && i < len(s.kind) {
		return i, nil
	}
	for _, names := range [][]string{s.edited, s.original} {
		var at []int
		for i, name := range names {
			if name == id || filepath.Base(name) == id {
				at = append(at, i)
			}
		}
		if len(at) == 1 {
			return at[0], nil
		}
	}
	return 0, fmt.Errorf("%q is no sample: a number from 0 to %d, or an edited_image such as %q, was expected", id,
		len(s.kind)-1, s.edited[0])
}

func (j *aimPredictions) readSample(i int, r row) error {
	for _, c := range []struct {
		column string
		fields []string
	}{
		{"clip_t", []string{"clip_t"}},
		{"aesthetic", []string{"aesthetic"}},
		{"sc", []string{"sc"}},
		{"pq", []string{"pq"}},
		{"s_gtc", []string{"s_sm", "s_vs"}},
	} {
		var values []float64
		for _, f := range c.fields {
			if !r.has(f) {
				continue
			}
			v, err := r.numbers(f)
			if err != nil {
				return err
			}
			for _, x := range v {
				if err := aimBounds[f].check(f, x); err != nil {
					return err
				}
			}
			values = append(values, v...)
		}
		if len(values) >= len(c.fields) {
			j.columns[c.column][i] = slices.Min(values)
		}
	}
	if r.has("emotion") {
		e, err := r.text("emotion")
		if err != nil {
			return err
		}
		j.emotion[i] = strings.ToLower(strings.TrimSpace(e))
	}
	if r.has("vad") {
		v, err := parseVAD(r.fields["vad"])
		if err != nil {
			return fmt.Errorf("vad: %w", err)
		}
		t := j.vad[i]
		j.columns["d_vad"][i] = math.Sqrt((v[0]-t[0])*(v[0]-t[0]) + (v[1]-t[1])*(v[1]-t[1]) + (v[2]-t[2])*(v[2]-t[2]))
	}
	return nil
}

func (j *aimPredictions) Units() int { return len(j.kind) }

func (j *aimPredictions) Complete(i int) bool {
	for _, c := range j.columns {
		if math.IsNaN(c[i]) {
			return false
		}
	}
	return j.emotion[i] != ""
}

// means computes all columns and the overall score over samples.
func (j *aimPredictions) means(units []int) map[string]float64 {
	out := map[string]float64{}
	for name, column := range j.columns {
		var list []float64
		for _, i := range units {
			list = append(list, column[i])
		}
		out[name] = stats.Mean(defined(list))
	}
	var truth, predicted []string
	for _, i := range units {
		if j.emotion[i] != "" {
			truth, predicted = append(truth, j.aim.emotion[i]), append(predicted, j.emotion[i])
		}
	}
	out["acc"] = 100 * stats.Accuracy(truth, predicted)
	out["f1"] = 100 * stats.MacroF1(truth, predicted, emotions)
	if len(truth) == 0 {
		out["f1"] = math.NaN()
	}
	out["overall"] = aimOverall(out)
	return out
}

func (j *aimPredictions) Numbers(units []int) []Number { return aimRow(j.means(units)) }

// aimRow orders the columns as the paper does.
func aimRow(means map[string]float64) []Number {
	var out []Number
	for _, c := range aimColumns {
		out = append(out, Number{Name: c.name, Value: means[c.name]})
	}
	return append(out, Number{Name: "overall", Value: means["overall"]})
}

// aimJSON is the JSON result of AIM-Bench.
type aimJSON struct {
	Common
	aimMeansJSON
	Positive    aimHalf                 `json:"positive"`
	Negative    aimHalf                 `json:"negative"`
	Bias        aimHalf                 `json:"positivity_bias"`
	PerEmotion  map[string]Value        `json:"per_emotion_acc"`
	PerEditType map[string]aimMeansJSON `json:"per_edit_type"`
	Confusion   Confusion               `json:"confusion"`
}

type aimHalf struct {
	N    int   `json:"n,omitempty"`
	Acc  Value `json:"acc"`
	DVAD Value `json:"d_vad"`
}

type aimMeansJSON struct {
	Samples   int   `json:"samples"`
	ClipT     Value `json:"clip_t"`
	SC        Value `json:"sc"`
	Aesthetic Value `json:"aesthetic"`
	PQ        Value `json:"pq"`
	SGTC      Value `json:"s_gtc"`
	Acc       Value `json:"acc"`
	F1        Value `json:"f1"`
	DVAD      Value `json:"d_vad"`
	Overall   Value `json:"overall"`
}

func toAIMMeans(samples int, m map[string]float64) aimMeansJSON {
	return aimMeansJSON{
		samples,
		Value(m["clip_t"]),
		Value(m["sc"]),
		Value(m["aesthetic"]),
		Value(m["pq"]),
		Value(m["s_gtc"]),
		Value(m["acc"]),
		Value(m["f1"]),
		Value(m["d_vad"]),
		Value(m["overall"]),
	}
}

func (j *aimPredictions) Result() *Result {
	r := &Result{Notes: j.notes}
	var all []int
	var truth, predicted []string
	kinds, byEmotion := map[string][]int{}, map[string][]int{}
	for i := range j.kind {
		all = append(all, i)
		kinds[j.kind[i]] = append(kinds[j.kind[i]], i)
		byEmotion[j.aim.emotion[i]] = append(byEmotion[j.aim.emotion[i]], i)
		if j.Complete(i) {
			r.N++
		} else {
			r.Missing = append(r.Missing, Key{ID: j.edited[i]})
		}
		if j.emotion[i] != "" {
			truth, predicted = append(truth, j.aim.emotion[i]), append(predicted, j.emotion[i])
		}
	}
	half := func(names []string) aimHalf {
		var units []int
		for _, e := range names {
			units = append(units, byEmotion[e]...)
		}
		m := j.means(units)
		return aimHalf{len(units), Value(m["acc"]), Value(m["d_vad"])}
	}
	means := j.means(all)
	out := aimJSON{
		aimMeansJSON: toAIMMeans(len(all), means),
		Positive:     half(positiveEmotions),
		Negative:     half(negativeEmotions),
		PerEmotion:   map[string]Value{},
		PerEditType:  map[string]aimMeansJSON{},
		Confusion:    newConfusion("emotions", truth, predicted, emotions, emotions),
	}
	out.Bias = aimHalf{Acc: out.Positive.Acc - out.Negative.Acc, DVAD: out.Negative.DVAD - out.Positive.DVAD}
	r.Numbers = aimRow(means)
	halves := Table{Title: "positive and negative targets", Columns: []string{"acc", "d_vad"}, Rows: []TableRow{
		{Name: "positive", Cells: []float64{float64(out.Positive.Acc), float64(out.Positive.DVAD)}},
		{Name: "negative", Cells: []float64{float64(out.Negative.Acc), float64(out.Negative.DVAD)}},
		{Name: "positivity bias", Cells: []float64{float64(out.Bias.Acc), float64(out.Bias.DVAD)}}}}
	for _, e := range emotions {
		if len(byEmotion[e]) > 0 {
			out.PerEmotion[e] = Value(j.means(byEmotion[e])["acc"])
		}
	}
	perKind := Table{Title: "per edit type"}
	for _, n := range r.Numbers {
		perKind.Columns = append(perKind.Columns, n.Name)
	}
	for _, k := range sortedNames(kinds) {
		m := j.means(kinds[k])
		out.PerEditType[k] = toAIMMeans(len(kinds[k]), m)
		line := TableRow{Name: k}
		for _, n := range aimRow(m) {
			line.Cells = append(line.Cells, n.Value)
		}
		perKind.Rows = append(perKind.Rows, line)
	}
	if other := out.Confusion.Predicted[len(emotions):]; len(other) > 0 {
		r.Notes = append(r.Notes,
			fmt.Sprintf("predicted emotions outside the eight count as wrong: %s", strings.Join(other, ", ")))
	}
	out.Common = r.common("aim-bench")
	r.JSON, r.Tables, r.Confusions = out, []Table{halves, perKind}, []Confusion{out.Confusion}
	return r
}
