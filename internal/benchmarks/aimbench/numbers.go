package aimbench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"assay/internal/benchmarks/protocol"
	"assay/internal/stats"
)

// aimPredictions holds the components of each sample of one editor: the columns of aimColumns except acc and f1, and
// a scorer's "score"; NaN if missing.
type aimPredictions struct {
	*aim
	name    string // of the editor, "" if the files name none
	columns map[string][]float64
	sub     map[string][][]float64 // the judges' sub-scores of sc, pq and s_gtc, nil where missing
	emotion []string               // predicted, "" where missing
	point   [][3]float64           // predicted valence, arousal and dominance, NaN where missing
	by      map[string]string      // component: what measured it
	run     protocol.OneRun        // that scored it
	among   int                    // number of editors
	notes   []string
}

// Units implements protocol.Predictions.
func (j *aimPredictions) Units() int { return len(j.sources.Samples) }

// Complete implements protocol.Predictions.
func (j *aimPredictions) Complete(unit int) bool {
	return !slices.ContainsFunc(j.sources.Samples[unit], func(i int) bool { return !j.complete(i) })
}

// complete reports whether a sample has all components.
func (j *aimPredictions) complete(i int) bool {
	for name, c := range j.columns {
		if name != "score" && math.IsNaN(c[i]) {
			return false
		}
	}
	return j.emotion[i] != ""
}

// has reports whether a column covers a sample. An emotion outside the eight does not count in f1.
func (j *aimPredictions) has(column string, i int) bool {
	if column == "f1" {
		return slices.Contains(emotions, j.emotion[i])
	}
	if c, ok := j.columns[strings.TrimSuffix(strings.TrimSuffix(column, "_positive"), "_negative")]; ok {
		return !math.IsNaN(c[i])
	}
	return j.emotion[i] != ""
}

// aimParts are the components that Overall is computed from; acc and f1 both come from the emotions.
var aimParts = []string{"clip_t", "sc", "aesthetic", "pq", "s_gtc", "acc", "d_vad"}

// covers returns how many of the samples a column is based on; for Overall, how many values of its components.
func (j *aimPredictions) covers(column string, samples []int) *protocol.Coverage {
	if column != "overall" {
		return protocol.CoverageBy(len(samples), func(k int) (protocol.Key, bool, bool) {
			return protocol.Key{ID: j.samples[samples[k]].edited}, true, j.has(column, samples[k])
		})
	}
	n := len(aimParts)
	return protocol.CoverageBy(n*len(samples), func(k int) (protocol.Key, bool, bool) {
		i, c := samples[k/n], aimParts[k%n]
		return protocol.Key{ID: j.samples[i].edited, Model: c}, true, j.has(c, i)
	}).OfValues(len(samples))
}

func (j *aimPredictions) used(column string) int {
	return j.covers(column, stats.UpTo(len(j.samples))).Used
}

// usedOf returns, for columns that are not based on all samples, how many samples (Overall: how many values) they are
// based on, and marks for their cells.
func (j *aimPredictions) usedOf(samples []int, columns []string) (used map[string]int, marks []string) {
	for _, c := range columns {
		on := j.covers(c, samples)
		if !on.Whole() {
			if used == nil {
				used = map[string]int{}
			}
			used[c] = on.Used
		}
		mark := protocol.Partial(on.Used, on.Of)
		if on.Values {
			mark = fmt.Sprintf(" (%v)", on)
		}
		marks = append(marks, mark)
	}
	return used, marks
}

// means computes all columns over the samples that have them, and the overall score from the columns, as
// overall_auto.py does.
func (j *aimPredictions) means(samples []int) map[string]float64 {
	out := map[string]float64{}
	for name, column := range j.columns {
		var list []float64
		for _, i := range samples {
			list = append(list, column[i])
		}
		out[name] = stats.Mean(protocol.Defined(list))
	}
	var truth, predicted []string
	var known [2][]string // without emotions outside the eight
	for _, i := range samples {
		if j.emotion[i] == "" {
			continue
		}
		truth, predicted = append(truth, j.samples[i].emotion), append(predicted, j.emotion[i])
		if j.has("f1", i) {
			known[0], known[1] = append(known[0], j.samples[i].emotion), append(known[1], j.emotion[i])
		}
	}
	out["acc"] = 100 * stats.Accuracy(truth, predicted)
	out["f1"] = 100 * stats.MacroF1(known[0], known[1], emotions)
	if len(truth) == 0 {
		out["f1"] = math.NaN()
	}
	out["overall"] = aimOverall(out)
	return out
}

// Numbers implements protocol.Predictions.
func (j *aimPredictions) Numbers(units []int) []protocol.Number {
	samples := j.sources.Of(units)
	out := aimRow(j.means(samples))
	for _, half := range []struct {
		name     string
		emotions []string
	}{{"positive", positiveEmotions}, {"negative", negativeEmotions}} {
		var in []int
		for _, i := range samples {
			if slices.Contains(half.emotions, j.samples[i].emotion) {
				in = append(in, i)
			}
		}
		m := j.means(in)
		out = append(out, protocol.Number{Name: "acc_" + half.name, Value: m["acc"]},
			protocol.Number{Name: "d_vad_" + half.name, Value: m["d_vad"]})
	}
	for k := range out {
		out[k].Judge = j.judge(out[k].Name)
	}
	return out
}

// judge returns what measured a number; for the overall score, everything that measured a component; "" if one is not
// known.
func (j *aimPredictions) judge(number string) string {
	var of []string
	if number == "overall" {
		for _, c := range aimColumns {
			of = append(of, c.Number)
		}
	} else {
		of = []string{strings.TrimSuffix(strings.TrimSuffix(number, "_positive"), "_negative")}
	}
	return protocol.Judges(j.by, of)
}

// aimRow orders the columns as the paper does.
func aimRow(means map[string]float64) []protocol.Number {
	var out []protocol.Number
	for _, c := range aimColumns {
		out = append(out, protocol.Number{Name: c.Number, Value: means[c.Number]})
	}
	return append(out, protocol.Number{Name: "overall", Value: means["overall"]})
}

// Chance implements Expecting: for random guesses of emotions.
func (s *aim) Chance(seed uint64) map[string]protocol.Value {
	rng := stats.NewRand(seed + 1)
	guessed := func(rng *rand.Rand, only []string) (acc, f1 float64) {
		var truth, predicted []string
		for _, sample := range s.samples {
			if only == nil || slices.Contains(only, sample.emotion) {
				truth, predicted = append(truth, sample.emotion), append(predicted, emotions[rng.IntN(len(emotions))])
			}
		}
		return 100 * stats.Accuracy(truth, predicted), 100 * stats.MacroF1(truth, predicted, emotions)
	}
	sum := map[string]protocol.Value{}
	for range protocol.ChanceDraws {
		acc, f1 := guessed(rng, nil)
		positive, _ := guessed(rng, positiveEmotions)
		negative, _ := guessed(rng, negativeEmotions)
		for name, v := range map[string]float64{"acc": acc, "f1": f1, "acc_positive": positive,
			"acc_negative": negative} {
			sum[name] += protocol.Value(v / protocol.ChanceDraws)
		}
	}
	return sum
}
