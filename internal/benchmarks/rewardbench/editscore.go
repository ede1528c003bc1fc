package rewardbench

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
	"assay/internal/stats"
)

// editScore is EditScore's EditReward-Bench: pairs of edits, the first preferred, by task and dimension.
type editScore struct {
	protocol.PairSet
	images     string
	places     []protocol.Sample
	keys       [][2]string
	text       []string
	task, dim  []string
	dimensions []string // in the order of first appearance
	byKey      map[string][]protocol.Slot
}

func loadEditScore(table *protocol.Samples, o protocol.Options) (protocol.Set, error) {
	s := &editScore{images: o.Images, byKey: map[string][]protocol.Slot{}}
	err := table.Each([]string{"task_type", "dimension", "instruction"}, func(p protocol.Sample, text []string) error {
		keys, err := p.Texts("key")
		switch {
		case err != nil:
			return err
		case len(keys) != 2 || keys[0] == keys[1]:
			return fmt.Errorf("key is %q: want the keys of two edits", keys)
		case text[0] == "" || text[1] == "":
			return fmt.Errorf("task_type %q and dimension %q: want names", text[0], text[1])
		}
		for side, k := range keys {
			s.byKey[k] = append(s.byKey[k], protocol.Slot{Pair: len(s.keys), Side: side})
		}
		if !slices.Contains(s.dimensions, text[1]) {
			s.dimensions = append(s.dimensions, text[1])
		}
		s.Add(strconv.Itoa(len(s.keys)), protocol.Left)
		task := "" // rows do not name their source: those with the same instruction are on one
		if text[2] != "" {
			task = text[0] + "\n" + text[2]
		}
		s.Together(task)
		s.places, s.keys = append(s.places, p), append(s.keys, [2]string(keys))
		s.task, s.dim, s.text = append(s.task, text[0]), append(s.dim, text[1]), append(s.text, text[2])
		return nil
	})
	return s, err
}

// Items implements Scorable: every edit once, with the partner it is first paired with. As in EditScore's
// evaluation.py, pictures have no transparency, and edits are resized to the source's size, for every judge.
func (s *editScore) Items() ([]*edit.Edit, error) {
	var items []*edit.Edit
	var p protocol.Problems
	seen := map[string]bool{}
	for i, keys := range s.keys {
		if s.text[i] == "" {
			p.Add(s.places[i].String(), "instruction is empty")
		}
		for side, k := range keys {
			if !seen[k] {
				seen[k] = true
				source := protocol.Bare(s.places[i].Picture("input_image", -1, s.images))
				output := protocol.Bare(s.places[i].Picture("output_images", side, s.images))
				output.Like = &source
				it := protocol.NewItem(protocol.Key{ID: k}, s.text[i], source, output)
				it.Group = strconv.Itoa(i)
				items = append(items, it)
			}
		}
	}
	return items, p.Err()
}

// Read reads {id: key, score} with an optional dimension, or a field per dimension. It also reads {key: [two], score:
// [two]} as EditScore's own result files hold, whose dimension is the file's name.
func (s *editScore) Read(path string) (protocol.Predictions, error) {
	j := &editScorePredictions{s, s.Blank()}
	fileDimension := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if !slices.Contains(s.dimensions, fileDimension) {
		fileDimension = ""
	}
	seen := map[protocol.Slot]string{}
	return j, protocol.EachLine(path, func(r *protocol.Line) error { return j.readRow(r, fileDimension, seen) })
}

// Guess implements Guessable.
func (s *editScore) Guess(rng *rand.Rand) protocol.Predictions {
	return &editScorePredictions{s, s.GuessPairs(rng)}
}

type editScorePredictions struct {
	*editScore
	pairs *protocol.PairPredictions
}

func (j *editScorePredictions) readRow(r *protocol.Line, dimension string, seen map[protocol.Slot]string) error {
	if r.Has("dimension") {
		if dimension = r.Text("dimension"); !slices.Contains(j.dimensions, dimension) {
			return fmt.Errorf("the dimension %q is not in the data: want one of %s", dimension,
				strings.Join(j.dimensions, ", "))
		}
	}
	var keys []string
	if json.Unmarshal(r.Fields["key"], &keys) == nil && keys != nil {
		return j.readPair(r, keys, dimension, seen)
	}
	id := r.ID(r.First("id", "key"))
	slots := j.byKey[id]
	if slots == nil {
		return fmt.Errorf("the id %q is not one of the %d edits: want a key such as %q", id, len(j.byKey),
			j.keys[0][0])
	}
	used := false
	for _, d := range j.dimensions {
		field := "score"
		if r.Has(d) {
			field = d
		}
		if _, ok := r.Fields[field]; !ok || dimension != "" && d != dimension {
			continue
		}
		v := r.Number(field)
		used = true
		for _, at := range slots {
			if j.dim[at.Pair] == d {
				if err := j.set(r, at, v, seen); err != nil {
					return err
				}
			}
		}
	}
	if !used {
		return fmt.Errorf("no prediction: want \"score\", or one of %s", strings.Join(j.dimensions, ", "))
	}
	return nil
}

func (j *editScorePredictions) readPair(r *protocol.Line, keys []string, dimension string,
	seen map[protocol.Slot]string) error {
	values := r.Numbers("score")
	if len(keys) != 2 || len(values) != 2 {
		return fmt.Errorf("%d keys and %d scores: want two each", len(keys), len(values))
	}
	found := false
	for i, k := range j.keys {
		if k != [2]string(keys) || dimension != "" && j.dim[i] != dimension {
			continue
		}
		found = true
		for side, v := range values {
			if err := j.set(r, protocol.Slot{Pair: i, Side: side}, v, seen); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("the pair %q is not in the data: want a pair such as %q", keys, j.keys[0])
	}
	return nil
}

func (j *editScorePredictions) set(r *protocol.Line, at protocol.Slot, v float64, seen map[protocol.Slot]string) error {
	if first, ok := seen[at]; ok {
		return fmt.Errorf("a second score for %q in the dimension %s (the first is in %s): want one",
			j.keys[at.Pair][at.Side], j.dim[at.Pair], first)
	}
	seen[at] = r.Where
	j.pairs.Scores[at.Side][at.Pair] = v
	return nil
}

func (j *editScorePredictions) Complete(unit int) bool {
	return !slices.ContainsFunc(j.PairsOf(unit), func(i int) bool { return !j.pairs.HasScores(i) })
}

// perTask returns the accuracy of each task in a dimension: the first edit scores strictly higher.
func (j *editScorePredictions) perTask(pairs []int, dimension string) map[string]float64 {
	right, n := map[string]int{}, map[string]int{}
	for _, i := range pairs {
		if j.dim[i] == dimension && j.pairs.HasScores(i) {
			n[j.task[i]]++
			if j.pairs.Scores[0][i] > j.pairs.Scores[1][i] {
				right[j.task[i]]++
			}
		}
	}
	out := make(map[string]float64, len(n))
	for task, count := range n {
		out[task] = float64(right[task]) / float64(count)
	}
	return out
}

func (j *editScorePredictions) Numbers(units []int) []protocol.Number {
	pairs := j.PairsOf(units...)
	var out []protocol.Number
	for _, d := range j.dimensions {
		out = append(out, protocol.Number{Name: d, Value: meanOver(j.perTask(pairs, d))})
	}
	return out
}

// meanOver returns the mean of the values, added in the order of their names, so that it is deterministic.
func meanOver(m map[string]float64) float64 {
	var list []float64
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, m[name])
	}
	return stats.Mean(list)
}

type editScoreDimension struct {
	N        int                       `json:"n"`
	Accuracy protocol.Value            `json:"accuracy"` // mean over tasks
	PerTask  map[string]protocol.Value `json:"per_task"`
}

// editScoreJSON is the JSON result of EditScore's EditReward-Bench.
type editScoreJSON struct {
	protocol.Common
	Variant string                        `json:"variant"`
	Rules   map[string]editScoreDimension `json:"rules"`
}

func (j *editScorePredictions) Result() *protocol.Result {
	pairs := stats.UpTo(len(j.keys))
	r := &protocol.Result{Subset: "EditScore", Numbers: j.Numbers(stats.UpTo(j.Units()))}
	missing := map[string]bool{}
	n := map[string]int{}
	for i := range pairs {
		if j.pairs.HasScores(i) {
			r.N++
			n[j.dim[i]]++
		}
		for side, k := range j.keys[i] {
			if math.IsNaN(j.pairs.Scores[side][i]) && !missing[k] {
				missing[k] = true
				r.Missing = append(r.Missing, protocol.Key{ID: k})
			}
		}
	}
	for k, d := range j.dimensions {
		r.Numbers[k].Coverage = protocol.CoverageBy(len(j.keys), func(i int) (protocol.Key, bool, bool) {
			return protocol.Key{ID: j.keys[i][0], Model: j.keys[i][1]}, j.dim[i] == d, j.pairs.HasScores(i)
		})
	}
	rules := map[string]editScoreDimension{}
	table := protocol.Table{Title: "accuracy per task", Columns: j.dimensions}
	cells := map[string][]float64{}
	for k, d := range j.dimensions {
		per := j.perTask(pairs, d)
		rules[d] = editScoreDimension{n[d], protocol.Value(meanOver(per)), protocol.Values(per)}
		for task, v := range per {
			if cells[task] == nil {
				cells[task] = slices.Repeat([]float64{math.NaN()}, len(j.dimensions))
			}
			cells[task][k] = v
		}
	}
	for _, task := range slices.Sorted(maps.Keys(cells)) {
		table.Rows = append(table.Rows, protocol.TableRow{Name: task, Cells: protocol.Cells(cells[task]...)})
	}
	r.Tables = []protocol.Table{table}
	r.Notes = append(r.Notes, "this is EditScore's EditReward-Bench (the columns key, task_type and dimension were found)")
	r.JSON = editScoreJSON{r.Common("editreward-bench"), "EditScore", rules}
	return r
}
