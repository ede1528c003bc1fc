package edit_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
)

// TestScoreJSON: the JSON of /v1/score and `score pair --json`, and reading it back.
func TestScoreJSON(t *testing.T) {
	raw := 0.25
	for _, c := range []struct {
		name  string
		score edit.Score
		want  string
	}{
		{"plain", edit.Score{Value: 7, Score01: 0.7}, `{"score":7,"score01":0.7}`},
		{"worst", edit.Score{}, `{"score":0,"score01":0}`},
		{"without a range", edit.Score{Value: -1.5, Score01: -1.5, Unbounded: true, Sigma: 0.5},
			`{"score":-1.5,"sigma":0.5}`},
		{"calibrated, of two heads", edit.Score{Value: 3, Score01: 0.3, Raw01: &raw,
			Interval: &edit.Interval{Low: 1, High: 5, Coverage: 0.9},
			Dimensions: []edit.Dimension{{Name: "following", Value: 2, Sigma: 1},
				{Name: "kept", Value: 4, Probabilities: []float64{0.6, 0.4}}}},
			`{"score":3,"score01":0.3,"dimensions":{"following":{"score":2,"sigma":1},` +
				`"kept":{"score":4,"probabilities":[0.6,0.4]}},"raw01":0.25,"interval":{"low":1,"high":5,"coverage":0.9}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := json.Marshal(c.score)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
			var back edit.Score
			if err := json.Unmarshal(got, &back); err != nil || !reflect.DeepEqual(back, c.score) {
				t.Errorf("got back %+v (%v), want %+v", back, err, c.score)
			}
		})
	}
}

func TestRangeScale(t *testing.T) {
	for _, c := range []struct {
		name string
		on   edit.Range
		want edit.Score
	}{
		{"0 to 10", edit.Range{0, 10}, edit.Score{Value: 2.5, Score01: 0.25, Sigma: 1,
			Interval:   &edit.Interval{Low: 0, High: 5, Coverage: 0.8},
			Dimensions: []edit.Dimension{{Name: "a", Value: 5, Sigma: 2}}}},
		{"downwards", edit.Range{1, -1}, edit.Score{Value: 0.5, Score01: 0.25, Sigma: 0.2,
			Interval:   &edit.Interval{Low: 0, High: 1, Coverage: 0.8},
			Dimensions: []edit.Dimension{{Name: "a", Value: 0, Sigma: 0.4}}}},
		{"none", edit.NoRange(), edit.Score{Value: 0.25, Score01: 0.25, Unbounded: true, Sigma: 0.1,
			Interval:   &edit.Interval{Low: 0, High: 0.5, Coverage: 0.8},
			Dimensions: []edit.Dimension{{Name: "a", Value: 0.5, Sigma: 0.2}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := edit.Score{Value: 0.25, Sigma: 0.1, Interval: &edit.Interval{Low: 0, High: 0.5, Coverage: 0.8},
				Dimensions: []edit.Dimension{{Name: "a", Value: 0.5, Sigma: 0.2}}}
			if c.on.Scale(&got); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestEach: inputs of a failing batch are retried one by one, and fail individually.
func TestEach(t *testing.T) {
	broken := errors.New("broken")
	run := func(bad float64) func(context.Context, []float64) ([]float64, error) {
		return func(_ context.Context, in []float64) (out []float64, err error) {
			for _, x := range in {
				if x >= bad {
					return nil, broken
				}
				out = append(out, 2*x)
			}
			return out, nil
		}
	}
	for _, c := range []struct {
		name   string
		in     []float64
		bad    float64 // inputs fail starting at this value
		failed []bool
		err    bool
	}{
		{"all", []float64{1, 2}, 9, []bool{false, false}, false},
		{"none", nil, 9, nil, false},
		{"one of three", []float64{1, 5, 2}, 5, []bool{false, true, false}, false},
		{"a single one", []float64{5}, 5, []bool{true}, false},
		{"every one", []float64{5, 6}, 5, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errs, err := edit.Each(t.Context(), c.in, run(c.bad))
			if (err != nil) != c.err {
				t.Fatalf("got the error %v, want one: %v", err, c.err)
			}
			for i, failed := range c.failed {
				if (errs[i] != nil) != failed || !failed && out[i] != 2*c.in[i] {
					t.Errorf("input %d: got %v (%v), want %v, failed %v", i, out[i], errs[i], 2*c.in[i], failed)
				}
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, _, err := edit.Each(ctx, []float64{5, 1}, run(5)); out != nil || err == nil {
		t.Errorf("after the end of the context: got %v (%v), want no results and an error", out, err)
	}
}

func TestInfoCheck(t *testing.T) {
	p := data.NewPicture(2, 2)
	whole := func(change func(e *edit.Edit)) *edit.Edit {
		e := edit.New(p, p, "blur it")
		change(e)
		return e
	}
	compares := edit.Info{Sources: 1}
	for _, c := range []struct {
		name string
		info edit.Info
		edit *edit.Edit
		want string // in the error; "": none
	}{
		{"whole", compares, whole(func(*edit.Edit) {}), ""},
		{"no edit", compares, nil, "no edit"},
		{"no edit for a judge of outputs", edit.Info{}, nil, "no edit"},
		{"no source", compares, whole(func(e *edit.Edit) { e.Sources = nil }), "no source"},
		{"a source that nobody looks at", edit.Info{}, whole(func(*edit.Edit) {}), ""},
		{"no output", compares, whole(func(e *edit.Edit) { e.Output = nil }), "no output"},
		{"two sources", compares, whole(func(e *edit.Edit) { e.Sources = append(e.Sources, p) }), "2 sources"},
		{"two sources for a judge of many", edit.Info{Sources: edit.Any},
			whole(func(e *edit.Edit) { e.Sources = append(e.Sources, p) }), ""},
		{"two sources that nobody looks at", edit.Info{},
			whole(func(e *edit.Edit) { e.Sources = append(e.Sources, p) }), ""},
		{"a requirement", compares, whole(func(e *edit.Edit) { e.Requirement = "keep the sky" }), "requirement"},
		{"no target", edit.Info{Sources: 1, Pictures: []string{"target"}}, whole(func(*edit.Edit) {}), `"target"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.info.Check(c.edit)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got the error %v, want one with %q", err, c.want)
			}
		})
	}
}

// judge scores the brightness of an output; it cannot prepare an edit without output, or score black.
type judge struct{ edit.Judge }

type brightness float64

func (brightness) Size(edit.Inputs) int { return 1 }

func (judge) Prepare(e *edit.Edit) (edit.Inputs, error) {
	p, err := edit.Decode(e.Output)
	if err != nil {
		return nil, err
	}
	return brightness(p.Pix[0]), nil
}

func (judge) Score(ctx context.Context, in []edit.Inputs) ([]edit.Score, []error, error) {
	return edit.Each(ctx, in, func(_ context.Context, in []edit.Inputs) (out []edit.Score, err error) {
		for _, x := range in {
			if x.(brightness) == 0 {
				return nil, errors.New("black")
			}
			out = append(out, edit.Score{Value: float64(x.(brightness))})
		}
		return out, nil
	})
}

func TestScoreAll(t *testing.T) {
	grey, black := data.NewPicture(1, 1), data.NewPicture(1, 1)
	grey.Pix[0] = 7
	scores, errs, err := edit.ScoreAll(t.Context(), judge{}, edit.New(nil, grey, ""), edit.New(nil, nil, ""),
		edit.New(nil, black, ""), edit.New(nil, &data.Picture{Width: 1}, ""), edit.New(nil, grey, ""))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "no picture", "black", "must be positive", ""} {
		switch {
		case (errs[i] == nil) != (want == ""), want != "" && !strings.Contains(errs[i].Error(), want):
			t.Errorf("edit %d: got the error %v, want one with %q", i, errs[i], want)
		case want == "" && scores[i].Value != 7:
			t.Errorf("edit %d: got %g, want 7", i, scores[i].Value)
		}
	}
}

func TestRangeWithoutBounds(t *testing.T) {
	if r := edit.NoRange(); r.Bounded() || r.Of(-3) != -3 || r.Width() != 1 {
		t.Errorf("got %v: bounded %v, -3 -> %g, width %g; want no bounds, -3, 1", r, r.Bounded(), r.Of(-3), r.Width())
	}
	if r := (edit.Range{1, 5}); r.Of(0.5) != 3 || math.Abs(r.Width()) != 4 {
		t.Errorf("got %g and width %g, want 3 and 4", r.Of(0.5), r.Width())
	}
}

// TestNamedClass: a dimension with unordered classes has no score, nor in JSON.
func TestNamedClass(t *testing.T) {
	s := edit.Score{Value: math.NaN(), Score01: math.NaN(), Dimensions: []edit.Dimension{
		{Name: "emotion", Value: math.NaN(), Class: "awe", Probabilities: []float64{0.25, 0.75}},
		{Name: "valence", Value: 7.5},
	}}
	const want = `{"dimensions":{"emotion":{"class":"awe","probabilities":[0.25,0.75]},"valence":{"score":7.5}}}`
	raw, err := json.Marshal(s)
	if err != nil || string(raw) != want {
		t.Fatalf("got %s, %v, want %s", raw, err, want)
	}
	var back edit.Score
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if d := back.Dimensions[0]; !math.IsNaN(back.Value) || !math.IsNaN(d.Value) || d.Class != "awe" ||
		back.Dimensions[1].Value != 7.5 {
		t.Errorf("read again: got %+v", back)
	}
}
