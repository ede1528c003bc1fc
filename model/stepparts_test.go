package model_test

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/data"
	"assay/edit"
	"assay/losses"
	"assay/model"
	"assay/model/batch"
	"assay/onnx"
)

// someGroups are edits of sources of several sizes with instructions of several lengths: one group for each number.
func someGroups(t *testing.T, u *model.Tuner, lengths, sizes, edits []int) (groups [][]*batch.Sample) {
	t.Helper()
	picture, err := data.Open("../testdata/oracle/images/coffee.png", data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range edits {
		source := picture.Resize(sizes[i], 56, data.Bicubic)
		var group []*batch.Sample
		for k := range n {
			output := []*data.Picture{source.FlipHorizontal(), source.FlipVertical(), source}[k%3]
			s, err := u.Sample(edit.New(source, output, strings.Repeat("turn it ", lengths[i])), model.Ask{})
			if err != nil {
				t.Fatal(err)
			}
			group = append(group, s)
		}
		groups = append(groups, group)
	}
	return groups
}

// stepOn learns from items.
func stepOn(items [][]losses.Item) model.StepInput {
	return model.StepInput{Items: items, Weight: 0.125, Seed: 1, Draws: 1}
}

// labelled are the items of two terms on groups: every edit has a label, and is better than the one before it.
func labelled(groups [][]*batch.Sample) (items [][]losses.Item) {
	items = make([][]losses.Item, 2)
	at := 0
	for _, g := range groups {
		for k := range g {
			items[0] = append(items[0], losses.Item{Edits: []int{at}, Label: float64(k) / 4, Weight: 0.1})
			if k > 0 {
				items[1] = append(items[1],
					losses.Item{Edits: []int{at, at - 1}, Outcome: [3]float64{1, 0, 0}, Weight: 0.2 / float64(k)})
			}
			at++
		}
	}
	return items
}

// TestMicroBatchesShareGraphs: a micro-batch of several groups has the same losses and gradients as its groups one by
// one, whatever their lengths are, and the next one opens no new graph.
func TestMicroBatchesShareGraphs(t *testing.T) {
	u, opened := openedTuner(t, "scorer_sequence")
	graphs := 0
	for i, batch := range []struct{ lengths, sizes, edits []int }{
		{[]int{1, 9, 20, 5}, []int{56, 56, 112, 84}, []int{2, 3, 2, 1}},
		{[]int{30, 2, 14, 6, 1}, []int{84, 56, 56, 112, 140}, []int{2, 2, 3, 2, 1}},
		{[]int{3, 17, 40}, []int{140, 84, 56}, []int{1, 3, 2}},
	} {
		groups := someGroups(t, u, batch.lengths, batch.sizes, batch.edits)
		got, err := u.Step(context.Background(), slices.Concat(groups...), stepOn(labelled(groups)))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			graphs = len(*opened)
		}
		// One without a prefix, one after a prefix, and one after a prefix of instructions of two lengths.
		if len(*opened) != graphs || graphs > 3 {
			t.Errorf("micro-batch %d: graphs %q", i, *opened)
		}
		compareGroups(t, u, groups, got)
	}
}

// TestMicroBatchesOfFramesShareGraphs: the same if source and edit are one picture, so that nothing has a prefix: one
// graph for any number of groups.
func TestMicroBatchesOfFramesShareGraphs(t *testing.T) {
	u, opened := openedTuner(t, "scorer_frames")
	for i, batch := range []struct{ lengths, sizes, edits []int }{
		{[]int{1, 9, 20, 5, 5}, []int{56, 56, 112, 84, 84}, []int{2, 3, 2, 1, 2}},
		{[]int{30, 2}, []int{84, 56}, []int{2, 2}},
		{[]int{3, 17, 40}, []int{140, 84, 56}, []int{1, 3, 2}},
	} {
		groups := someGroups(t, u, batch.lengths, batch.sizes, batch.edits)
		got, err := u.Step(context.Background(), slices.Concat(groups...), stepOn(labelled(groups)))
		if err != nil {
			t.Fatal(err)
		}
		if len(*opened) != 1 {
			t.Errorf("micro-batch %d: graphs %q", i, *opened)
		}
		compareGroups(t, u, groups, got)
	}
	// Groups of one: the same run as without groups.
	alone := someGroups(t, u, []int{1, 9, 20}, []int{56, 56, 56}, []int{1, 1, 1})
	if _, err := u.Step(context.Background(), slices.Concat(alone...), stepOn(labelled(alone))); err != nil {
		t.Fatal(err)
	}
	if n := len(*opened); n != 2 || !strings.HasPrefix((*opened)[1], "training step, 3 groups") {
		t.Errorf("three edits by themselves: graphs %q", *opened)
	}
}

// openedTuner is a tuner of whole groups, and the graphs of steps that it opened.
func openedTuner(t *testing.T, scorer string) (u *model.Tuner, opened *[]string) {
	t.Helper()
	state, err := model.LoadScorerState(filepath.Join("../testdata/oracle/qwen2_5_vl", scorer))
	if err != nil {
		t.Fatal(err)
	}
	opened = new([]string)
	u, err = model.NewTuner(state, model.TuneOptions{
		Options: model.Options{Device: "cpu", Threads: 1, OnGraph: func(graph string, _ *onnx.Model) {
			if strings.HasPrefix(graph, "training step") {
				*opened = append(*opened, graph)
			}
		}},
		TextLoss: 0.5,
		Terms:    []losses.Spec{{Kind: "l1"}, {Kind: "bradley_terry"}},
		Share:    true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	return u, opened
}

// compareGroups compares a step over groups with steps over each of them.
func compareGroups(t *testing.T, u *model.Tuner, groups [][]*batch.Sample, got *model.StepResult) {
	t.Helper()
	close := func(a, b float64) bool { return math.Abs(a-b) <= 1e-5*max(1, math.Abs(b)) }
	grads, at, tokens := map[string]*tensor.Dense{}, 0, 0
	var terms [2][]float64
	for _, g := range groups {
		one, err := u.Step(context.Background(), g, stepOn(labelled([][]*batch.Sample{g})))
		if err != nil {
			t.Fatal(err)
		}
		for k := range g {
			if !close(got.Loss[at], one.Loss[k]) || !close(got.Score[at], one.Score[k]) || !close(got.CE[at], one.CE[k]) {
				t.Errorf("edit %d: loss %g, score %g; by itself %g and %g", at, got.Loss[at], got.Score[at], one.Loss[k],
					one.Score[k])
			}
			at++
		}
		for k := range terms {
			terms[k] = append(terms[k], one.Terms[k]...)
		}
		tokens += one.Tokens
		for name, v := range one.Grads {
			if grads[name] == nil {
				grads[name] = v
				continue
			}
			for i, x := range v.Float32s() {
				grads[name].Float32s()[i] += x
			}
		}
	}
	for k, want := range terms {
		if !slices.EqualFunc(got.Terms[k], want, close) {
			t.Errorf("term %d: losses %v, group by group %v", k, got.Terms[k], want)
		}
	}
	if got.Tokens > tokens+8*at { // a small model pads some rows
		t.Errorf("%d rows, group by group %d", got.Tokens, tokens)
	}
	for name, want := range grads {
		var d, n float64
		for i, x := range want.Float32s() {
			y := float64(got.Grads[name].Float32s()[i]) - float64(x)
			d, n = d+y*y, n+float64(x)*float64(x)
		}
		if !(math.Sqrt(d) <= 1e-5*max(math.Sqrt(n), 1e-6)) {
			t.Errorf("%s: gradient differs by %g of its norm %g", name, math.Sqrt(d/n), math.Sqrt(n))
		}
	}
}

// TestPlansCountEveryPrefix: a micro-batch of two groups is planned with two prefixes, and a group larger than the
// known ones with all its edits.
func TestPlansCountEveryPrefix(t *testing.T) {
	state, err := model.LoadScorerState("../testdata/oracle/qwen2_5_vl/scorer_sequence")
	if err != nil {
		t.Fatal(err)
	}
	u, err := model.NewTuner(state, model.TuneOptions{TextLoss: 1, ScoreLoss: 1, Share: true})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	picture, err := data.Open("../testdata/oracle/images/coffee.png", data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var samples []*batch.Sample
	var longest *batch.Sample
	for _, source := range []*data.Picture{picture, picture.FlipVertical()} {
		for range 4 {
			s, err := u.Sample(edit.New(source, picture.FlipHorizontal(), "turn it"), model.Ask{})
			if err != nil {
				t.Fatal(err)
			}
			longest, samples = s, append(samples, u.Planned(s))
		}
	}
	planned := func(micro, largest int, groups ...[]*batch.Sample) int64 {
		u.PlanGroups(groups, largest)
		usage, err := u.Usage(longest, micro, 2, false)
		if err != nil {
			t.Fatal(err)
		}
		return usage.Bytes["training step"]
	}
	one, two := planned(8, 4, slices.Repeat(samples[:1], 8)), planned(8, 4, samples[:4], samples[4:])
	larger := planned(8, 16, samples[:4], samples[4:])
	if alone := planned(4, 4, samples[:4], samples[4:]); !(alone < one && one < two && two < larger) {
		t.Errorf("a group of four %d bytes, of eight %d, two of four %d, one of sixteen %d", alone, one, two, larger)
	}
}
