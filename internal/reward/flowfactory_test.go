package reward

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"

	"assay/edit"
)

// flowAnswerOf sends a request in Flow-Factory's protocol. It accepts NaN, like Python's json.
func flowAnswerOf(t *testing.T, url string, body any) (status int, rewards []float64, problem string) {
	t.Helper()
	status, _, raw := post(t, url, body)
	var a struct {
		Rewards []*float64
		Error   any
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(raw), "NaN", "null")), &a); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	for _, r := range a.Rewards {
		if r == nil {
			rewards = append(rewards, math.NaN())
			continue
		}
		rewards = append(rewards, *r)
	}
	switch e := a.Error.(type) {
	case string:
		problem = e
	case map[string]any:
		problem = e["message"].(string)
	}
	return status, rewards, problem
}

// flowBody returns a request as built by Flow-Factory's client, with null for absent fields.
func flowBody(prompts []string, images, conditions any) object {
	return object{"prompt": prompts, "image": images, "video": nil, "condition_images": conditions,
		"condition_videos": nil}
}

func TestFlowFactory(t *testing.T) {
	source, a, b := png(t, 10, 8, 6), png(t, 51, 8, 6), png(t, 102, 8, 6)
	two := &fake{}
	_, h := start(t, Options{MaxItems: 4}, map[string]edit.Judge{"first": two, "picture": &looking{one: true}},
		"first", "picture")
	x := []string{"x", "x"}
	pair := [][][]byte{{source}, {source}}
	for _, c := range []struct {
		name, path string
		body       object
		want       []float64
		problem    string
	}{
		{"scores on the scorer's range", "/compute", flowBody(x, [][]byte{a, b}, pair), []float64{2, 4}, ""},
		{"by name", "/flow-factory/first/compute", flowBody(x, [][]byte{a, b}, pair), []float64{2, 4}, ""},
		{"a judge of one picture", "/flow-factory/picture/compute", flowBody(x, [][]byte{a, b}, nil), []float64{2, 4}, ""},
		{"which ignores sources", "/flow-factory/picture/compute", flowBody(x, [][]byte{a, b}, pair), []float64{2, 4}, ""},
		{"unknown scorer", "/flow-factory/third/compute", flowBody(x, [][]byte{a, b}, pair), nil, `no scorer "third"`},
		{"null", "/flow-factory/first/null/compute", flowBody(x, [][]byte{a, b}, pair), nil, "cannot read null"},
		{"unknown policy", "/flow-factory/first/zero/compute", flowBody(x, [][]byte{a, b}, pair), nil, `on_error "zero"`},
		{"no condition images", "/compute", flowBody(x, [][]byte{a, b}, nil), nil,
			"image 0: condition_images is empty, and first compares"},
		{"several condition images", "/compute", flowBody(x, [][]byte{a, b}, [][][]byte{{source}, {source, a}}), nil,
			"image 1, condition_images: the edit has 2 sources, and first looks at 1"},
		{"fewer prompts", "/compute", flowBody(x[:1], [][]byte{a, b}, pair), nil, "1 prompts for 2 images"},
		{"fewer condition images", "/compute", flowBody(x, [][]byte{a, b}, pair[:1]), nil, "condition_images of 1 samples"},
		{"a picture that is none", "/compute", flowBody(x, []any{a, nil}, pair), nil, "image 1 is missing"},
		{"video", "/compute", object{"prompt": x, "video": []any{[][]byte{a}}}, nil, "videos are not scored"},
		{"no image", "/compute", object{"prompt": x}, nil, "image is missing"},
		{"no prompt", "/compute", object{"image": [][]byte{a}}, nil, "prompt is missing"},
		{"nothing", "/compute", flowBody([]string{}, [][]byte{}, nil), nil, "images is empty"},
		{"too many", "/compute", flowBody(make([]string, 5), make([][]byte, 5), nil), nil, "at most 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, got, problem := flowAnswerOf(t, h.URL+c.path, c.body)
			if status != http.StatusOK || !strings.Contains(problem, c.problem) || (problem == "") != (c.problem == "") {
				t.Errorf("got status %d, error %q; want 200, %q", status, problem, c.problem)
			}
			if len(got) != len(c.want) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
			for i := range got {
				if !(math.Abs(got[i]-c.want[i]) <= 1e-9) {
					t.Errorf("got %v, want %v", got, c.want)
				}
			}
		})
	}
}

// TestFlowFactoryFailures: the reward of a broken picture among good ones is as the path says, and never 0.
func TestFlowFactoryFailures(t *testing.T) {
	source, a, b := png(t, 10, 8, 6), png(t, 51, 8, 6), png(t, 102, 8, 6)
	other := png(t, 11, 8, 6)
	_, h := start(t, Options{}, map[string]edit.Judge{"first": &fake{}}, "first")
	broken := a[:40]
	body := flowBody([]string{"x", "x", "x", "y"}, [][]byte{a, broken, b, b},
		[][][]byte{{source}, {source}, {source}, {other}})
	nan := math.NaN()
	for _, c := range []struct {
		name, path string
		body       object
		want       []float64
		problem    string
	}{
		{"default", "/compute", body, nil, "edit 1, first: "},
		{"fail", "/flow-factory/first/fail/compute", body, nil, "edit 1, first: "},
		{"nan", "/flow-factory/first/nan/compute", body, []float64{2, nan, 4, 4}, ""},
		{"mean of the group", "/flow-factory/first/mean/compute", body, []float64{2, 3, 4, 4}, ""},
		{"mean of nothing", "/flow-factory/first/mean/compute",
			flowBody([]string{"x", "y"}, [][]byte{a, broken}, [][][]byte{{source}, {source}}), nil,
			"image 1, in a group"},
		{"nan of all", "/flow-factory/first/nan/compute", flowBody([]string{"x"}, [][]byte{broken}, [][][]byte{{source}}),
			[]float64{nan}, ""},
		{"a broken source", "/compute", flowBody([]string{"x"}, [][]byte{a}, [][][]byte{{broken}}), nil,
			"edit 0, first: source: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, got, problem := flowAnswerOf(t, h.URL+c.path, c.body)
			if status != http.StatusOK || !strings.Contains(problem, c.problem) || (problem == "") != (c.problem == "") {
				t.Errorf("got status %d, error %q; want 200, %q", status, problem, c.problem)
			}
			if len(got) != len(c.want) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
			for i := range got {
				if math.IsNaN(got[i]) != math.IsNaN(c.want[i]) || math.Abs(got[i]-c.want[i]) > 1e-9 {
					t.Errorf("got %v, want %v", got, c.want)
				}
			}
		})
	}
}

// TestFlowFactoryHealth: the client requests /health below the same base path.
func TestFlowFactoryHealth(t *testing.T) {
	_, h := start(t, Options{}, map[string]edit.Judge{"first": &fake{}}, "first")
	for path, want := range map[string]int{"/health": 200, "/flow-factory/first/health": 200,
		"/flow-factory/first/nan/health": 200, "/flow-factory/second/health": 422} {
		t.Run(path, func(t *testing.T) {
			r, err := http.Get(h.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			if r.StatusCode != want {
				t.Errorf("got %d, want %d", r.StatusCode, want)
			}
		})
	}
}

// lastSource is a fake that takes any number of sources and scores the last one.
type lastSource struct{ fake }

func (l *lastSource) Info() edit.Info {
	info := l.fake.Info()
	info.Sources = edit.Any
	return info
}

func (l *lastSource) Prepare(e *edit.Edit) (edit.Inputs, error) {
	return l.fake.Prepare(&edit.Edit{Output: e.Sources[len(e.Sources)-1]})
}

// TestFlowFactorySources: condition images are the sources of an edit, in their order.
func TestFlowFactorySources(t *testing.T) {
	a, b, output := png(t, 51, 8, 6), png(t, 102, 8, 6), png(t, 9, 8, 6)
	_, h := start(t, Options{}, map[string]edit.Judge{"last": &lastSource{}}, "last")
	body := flowBody([]string{"x", "x"}, [][]byte{output, output}, [][][]byte{{a, b}, {b, a}})
	_, got, problem := flowAnswerOf(t, h.URL+"/compute", body)
	if len(got) != 2 || !(math.Abs(got[0]-4) <= 1e-9) || !(math.Abs(got[1]-2) <= 1e-9) {
		t.Errorf("got %v, %q; want 4, 2", got, problem)
	}
}
