package benchmarks

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/stats"
)

var aimBench = &Benchmark{
	Name:  "aim-bench",
	Title: "AIM-Bench, affective image manipulation: 800 edits, 8 emotions, 5 kinds of edits",
	Needs: []string{
		"--ratings: Instructions.json, [{original_image, edited_image, edit_type, edit_prompt, source_emotion, " +
			"target_emotion: {emotion, VAD}}], or its folder",
		"--editors: folders MODEL in the authors' layout: MODEL/edited_output/BASE_edited_EMOTION.png, and MODEL/eval/ " +
			"with their result files (longclip_scores, evaluation_scores, aesthetic, evaluation_results, " +
			"evaluation_vad_results_JUDGE)",
		"--components: files of each sample's components; or --means: a CSV with a method's means in each row",
	},
	Published: "chenshi221: the repository AIM-bench (200 of the 800 samples of arXiv 2604.10454)",
	Predicts: `{"id": 0, "clip_t": 0.22, "sc": [8, 9], "aesthetic": 5.5, "pq": [7, 7], "s_sm": 7, "s_vs": 6, ` +
		`"emotion": "awe", "vad": {"valence": 7, "arousal": 5, "dominance": 5}}, ` +
		`id counting the samples from 0, or being edited_image; optionally "method" (the editor) and "score"`,
	Rules: []string{
		"sc, pq: mean of the smallest sub-score; s_gtc: mean of min(s_sm, s_vs); d_vad: mean Euclidean distance to the " +
			"target",
		"acc, f1: percent; f1 is the macro average over the 8 emotions",
		"overall: 100 x the mean of eight values clipped to 0..1 between clip_t [0.20, 0.30], sc, pq, s_gtc [5, 10], " +
			"aesthetic [0, 10], acc, f1 [0, 100], d_vad [3, 2]",
		"positivity_bias: accuracy of positive targets minus that of negative ones; distance of negative targets minus " +
			"that of positive ones",
	},
	Flags:    []string{"components", "component", "means", "editors", "by", "human", "write-authors"},
	Load:     loadAIM,
	Means:    aimMeans,
	Size:     800,
	Lower:    []string{"d_vad"},
	Headline: "overall",
	Axes: []Axis{{"clip_t", 0.20, 0.30}, {"sc", 5, 10}, {"aesthetic", 0, 10}, {"pq", 5, 10}, {"s_gtc", 5, 10},
		{"acc", 0, 100}, {"f1", 0, 100}, {"d_vad", 3, 2}},
}

var (
	positiveEmotions = []string{"amusement", "awe", "contentment", "excitement"}
	negativeEmotions = []string{"anger", "disgust", "fear", "sadness"}
	emotions         = slices.Concat(positiveEmotions, negativeEmotions)
)

// aim is AIM-Bench's data.
type aim struct {
	original, edited, kind, emotion []string
	prompt                          []string
	vad                             [][3]float64
	root                            string            // folder of Instructions.json and benchmark/
	editors                         []string          // folders of editors in the authors' layout
	by                              map[string]string // what measured a component, where files do not say it
	human                           string            // file of human ratings
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
	s := &aim{root: filepath.Dir(path), editors: o.Editors, by: o.By, human: o.Human}
	err = errors.Join(differentEditors(o.Editors), checkNames("--by", sortedNames(o.By), aimComponents))
	if err != nil {
		return nil, err
	}
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
		prompt, _ := r.text("edit_prompt") // what a scorer needs; Items misses it
		s.prompt = append(s.prompt, prompt)
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

// aimPredictions holds the components of each sample of one editor: the columns of aimColumns but acc and f1, and
// "score", a scorer's; NaN where missing.
type aimPredictions struct {
	*aim
	name    string // of the editor, "" if the files name none
	columns map[string][]float64
	sub     map[string][][]float64 // the judges' sub-scores of sc, pq and s_gtc, nil where missing
	emotion []string               // predicted, "" where missing
	point   [][3]float64           // predicted valence, arousal and dominance, NaN where missing
	by      map[string]string      // component: what measured it
	run     oneRun                 // that scored it
	notes   []string
}

func (j *aimPredictions) Units() int { return len(j.kind) }

func (j *aimPredictions) Complete(i int) bool {
	for name, c := range j.columns {
		if name != "score" && math.IsNaN(c[i]) {
			return false
		}
	}
	return j.emotion[i] != ""
}

// lacking lists the samples that a column does not stand on.
func (j *aimPredictions) lacking(column string) (out []Key) {
	for i := range j.kind {
		if !j.has(column, i) {
			out = append(out, Key{ID: j.edited[i]})
		}
	}
	return out
}

// has reports whether a column stands on a sample.
func (j *aimPredictions) has(column string, i int) bool {
	if column == "overall" {
		return j.Complete(i)
	}
	if c, ok := j.columns[strings.TrimSuffix(strings.TrimSuffix(column, "_positive"), "_negative")]; ok {
		return !math.IsNaN(c[i])
	}
	return j.emotion[i] != ""
}

func (j *aimPredictions) used(column string) int { return len(j.kind) - len(j.lacking(column)) }

// usedOf says on how many of the units columns stand that do not stand on all, and marks for their cells.
func (j *aimPredictions) usedOf(units []int, columns []string) (used map[string]int, marks []string) {
	for _, c := range columns {
		n := 0
		for _, i := range units {
			if j.has(c, i) {
				n++
			}
		}
		if n < len(units) {
			if used == nil {
				used = map[string]int{}
			}
			used[c] = n
		}
		marks = append(marks, partial(n, len(units)))
	}
	return used, marks
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
	switch whole := slices.DeleteFunc(slices.Clone(units), func(i int) bool { return !j.Complete(i) }); {
	case len(whole) == len(units):
		out["overall"] = aimOverall(out)
	case len(whole) == 0: // no two components need be of the same samples
		out["overall"] = math.NaN()
	default:
		out["overall"] = j.means(whole)["overall"]
	}
	return out
}

func (j *aimPredictions) Numbers(units []int) []Number {
	out := aimRow(j.means(units))
	for _, half := range []struct {
		name     string
		emotions []string
	}{{"positive", positiveEmotions}, {"negative", negativeEmotions}} {
		var in []int
		for _, i := range units {
			if slices.Contains(half.emotions, j.aim.emotion[i]) {
				in = append(in, i)
			}
		}
		m := j.means(in)
		out = append(out, Number{Name: "acc_" + half.name, Value: m["acc"]},
			Number{Name: "d_vad_" + half.name, Value: m["d_vad"]})
	}
	for k := range out {
		out[k].Judge = j.judge(out[k].Name)
	}
	return out
}

// judge is what measured a number: of the overall score, everything that measured a component; "" if one is not known.
func (j *aimPredictions) judge(number string) string {
	var of []string
	if number == "overall" {
		for _, c := range aimColumns {
			of = append(of, c.name)
		}
	} else {
		of = []string{strings.TrimSuffix(strings.TrimSuffix(number, "_positive"), "_negative")}
	}
	return judges(j.by, of)
}

// judges joins what measured components; "" if that is not known of one of them.
func judges(by map[string]string, components []string) string {
	var names []string
	for _, c := range components {
		name := strings.ToLower(by[c])
		if name == "" {
			return ""
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, "; ")
}

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
	N    int            `json:"n,omitempty"`
	Used map[string]int `json:"used,omitempty"` // of numbers that do not stand on all of them: on how many
	Acc  Value          `json:"acc"`
	DVAD Value          `json:"d_vad"`
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

	Used map[string]int `json:"used,omitempty"` // of numbers that do not stand on all samples: on how many
}

func toAIMMeans(samples int, m map[string]float64, used map[string]int) aimMeansJSON {
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
		used,
	}
}

func (j *aimPredictions) Result() *Result {
	r := &Result{Notes: j.notes}
	var all []int
	var truth, predicted []string
	byKind, byEmotion := map[string][]int{}, map[string][]int{}
	for i := range j.kind {
		all = append(all, i)
		byKind[j.kind[i]] = append(byKind[j.kind[i]], i)
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
	means := j.means(all)
	out := aimJSON{
		aimMeansJSON: toAIMMeans(len(all), means, nil), // the names of its numbers say it
		PerEmotion:   map[string]Value{},
		PerEditType:  map[string]aimMeansJSON{},
		Confusion:    newConfusion("emotions", truth, predicted, emotions, emotions),
	}
	r.Numbers = j.Numbers(all)
	for k := range r.Numbers {
		c := coverage(len(j.kind), j.lacking(r.Numbers[k].Name))
		r.Numbers[k].Coverage = &c
	}
	for _, e := range emotions {
		if len(byEmotion[e]) > 0 {
			out.PerEmotion[e] = Value(j.means(byEmotion[e])["acc"])
		}
	}
	r.Tables = []Table{j.halves(byEmotion, &out), j.perKind(byKind, means, &out)}
	if other := out.Confusion.Predicted[len(emotions):]; len(other) > 0 {
		r.Notes = append(r.Notes,
			fmt.Sprintf("predicted emotions outside the eight count as wrong: %s", strings.Join(other, ", ")))
	}
	out.Common = r.common("aim-bench")
	r.Examples = j.disagreements()
	var err error
	if r.Agreement, err = j.agreement(); err != nil {
		r.Failed = append(r.Failed, err.Error())
	}
	r.JSON, r.Confusions = out, []Confusion{out.Confusion}
	return r
}

// halves fills in the numbers of positive and of negative targets, and the bias between them.
func (j *aimPredictions) halves(byEmotion map[string][]int, out *aimJSON) Table {
	marks := map[string][]string{}
	half := func(name string, names []string) aimHalf {
		var units []int
		for _, e := range names {
			units = append(units, byEmotion[e]...)
		}
		m := j.means(units)
		used, mark := j.usedOf(units, []string{"acc", "d_vad"})
		marks[name] = mark
		return aimHalf{len(units), used, Value(m["acc"]), Value(m["d_vad"])}
	}
	out.Positive, out.Negative = half("positive", positiveEmotions), half("negative", negativeEmotions)
	out.Bias = aimHalf{Acc: out.Positive.Acc - out.Negative.Acc, DVAD: out.Negative.DVAD - out.Positive.DVAD}
	t := Table{Title: "positive and negative targets", Columns: []string{"acc", "d_vad"}}
	for _, h := range []struct {
		name string
		aimHalf
	}{{"positive", out.Positive}, {"negative", out.Negative}, {"positivity bias", out.Bias}} {
		t.Rows = append(t.Rows, TableRow{Name: h.name, Cells: []float64{float64(h.Acc), float64(h.DVAD)},
			Marks: marks[h.name]})
	}
	return t
}

// perKind fills in the means of every kind of edits; means are those of all.
func (j *aimPredictions) perKind(byKind map[string][]int, means map[string]float64, out *aimJSON) Table {
	t := Table{Title: "per edit type"}
	for _, n := range aimRow(means) {
		t.Columns = append(t.Columns, n.Name)
	}
	for _, k := range sortedNames(byKind) {
		m := j.means(byKind[k])
		used, marks := j.usedOf(byKind[k], t.Columns)
		out.PerEditType[k] = toAIMMeans(len(byKind[k]), m, used)
		line := TableRow{Name: k, Marks: marks}
		for _, n := range aimRow(m) {
			line.Cells = append(line.Cells, n.Value)
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

// Chance implements Expecting: of emotions that are guessed.
func (s *aim) Chance(seed uint64) map[string]Value {
	rng := stats.NewRand(seed + 1)
	guessed := func(rng *rand.Rand, only []string) (acc, f1 float64) {
		var truth, predicted []string
		for _, e := range s.emotion {
			if only == nil || slices.Contains(only, e) {
				truth, predicted = append(truth, e), append(predicted, emotions[rng.IntN(len(emotions))])
			}
		}
		return 100 * stats.Accuracy(truth, predicted), 100 * stats.MacroF1(truth, predicted, emotions)
	}
	sum := map[string]Value{}
	for range chanceDraws {
		acc, f1 := guessed(rng, nil)
		positive, _ := guessed(rng, positiveEmotions)
		negative, _ := guessed(rng, negativeEmotions)
		for name, v := range map[string]float64{"acc": acc, "f1": f1, "acc_positive": positive, "acc_negative": negative} {
			sum[name] += Value(v / chanceDraws)
		}
	}
	return sum
}
