package reward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"assay/chat"
	"assay/edit"
)

// named is a fake with its own identity.
type named struct {
	fake
	info  edit.Info
	print string

	mu2   sync.Mutex
	shown [][]byte // red of the first pixel of the sources of each edit
}

func (n *named) Info() edit.Info {
	if n.info.Range == (edit.Range{}) {
		return n.fake.Info()
	}
	return n.info
}

func (n *named) Fingerprint() (string, error) { return n.print, nil }

func (n *named) Prepare(e *edit.Edit) (edit.Inputs, error) {
	var sources []byte
	for _, p := range e.Sources {
		sources = append(sources, pixels(p).Pix[0])
	}
	n.mu2.Lock()
	n.shown = append(n.shown, sources)
	n.mu2.Unlock()
	return n.fake.Prepare(e)
}

func (n *named) Score(ctx context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	scores, errs, err := n.on(ctx, n.Info().Range, inputs)
	for i := range scores {
		for _, d := range n.Info().Dimensions {
			scores[i].Dimensions = append(scores[i].Dimensions, edit.Dimension{Name: d.Name, Value: 2 * scores[i].Value,
				Sigma: 0.5})
		}
	}
	return scores, errs, err
}

// judged is the answer of /v1/score.
type judged struct {
	ID, Version string
	Judges      []struct {
		Name, Fingerprint string
		Range             *edit.Range `json:"score_range"`
	}
	Results []struct {
		Score   *float64
		Reward  *float64
		Imputed bool
		Error   *struct{ Kind, Message string }
		Rewards []struct {
			Name, Dimension              string
			Score, Score01, Sigma, Value *float64
			Imputed                      bool
			Error                        *struct{ Kind, Message string }
		}
	}
	Error *struct{ Kind, Message string }
}

// ask posts a request to /v1/score.
func ask(t testing.TB, url string, request object, headers ...string) (int, http.Header, judged, string) {
	t.Helper()
	raw, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/score", strings.NewReader(string(raw)))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	code, header, body := send(t, r)
	var v judged
	if err := json.Unmarshal([]byte(strings.ReplaceAll(body, "NaN", "null")), &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return code, header, v, body
}

// with returns a copy of a request with other fields.
func (o object) with(more object) object {
	out := object{}
	for k, v := range o {
		out[k] = v
	}
	for k, v := range more {
		if out[k] = v; v == nil {
			delete(out, k)
		}
	}
	return out
}

func value(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 || math.IsNaN(a) && math.IsNaN(b) }

// panel serves two judges: "good" on 0 to 10, and "wide", which is unbounded and fails for the picture 255.
func panel(t *testing.T, o Options) (good, wide *named, url string) {
	t.Helper()
	good = &named{print: "g1", info: edit.Info{Range: edit.Range{0, 10}, Sources: 1,
		Dimensions: []edit.DimensionInfo{{Name: "twice"}}}}
	wide = &named{print: "w1", info: edit.Info{Range: edit.NoRange(), Sources: 1}}
	wide.failing = 1
	_, h := start(t, o, map[string]edit.Judge{"good": good, "wide": wide}, "good", "wide")
	return good, wide, h.URL
}

// TestRewards: several judges in one request, combined by every rule; a failure is never a number by itself.
func TestRewards(t *testing.T) {
	_, _, url := panel(t, Options{})
	source := png(t, 9, 8, 6)
	// Reds 51, 102, 204 are score01 0.2, 0.4, 0.8. "wide" fails for 255.
	request := object{"source": source, "instruction": "x",
		"edits":   []any{png(t, 51, 5, 5), png(t, 102, 5, 5), png(t, 204, 5, 5), png(t, 255, 5, 5)},
		"rewards": []any{object{"name": "good", "weight": 0.5}, object{"name": "wide", "weight": 2}}}
	nan := math.NaN()
	z := func(x, mean, std float64) float64 { return (x - mean) / (std + 1e-4) }
	goodStd := math.Sqrt((16.0 + 4 + 4 + 16) / 3) // of 2, 4, 8, 10, whose mean is 6
	wideMean := (0.2 + 0.4 + 0.8) / 3
	wideStd := math.Sqrt((math.Pow(0.2-wideMean, 2) + math.Pow(0.4-wideMean, 2) + math.Pow(0.8-wideMean, 2)) / 2)
	var lowerBounds []float64 // of 2 x (sigma 0.05, weight 1) and of x (no sigma, weight 3): mu = 1.25 x
	for _, x := range []float64{0.2, 0.4, 0.8, 1} {
		variance := (0.05*0.05+math.Pow(2*x-1.25*x, 2))/4 + 3*math.Pow(x-1.25*x, 2)/4
		lowerBounds = append(lowerBounds, 1.25*x-0.5*math.Sqrt(variance))
	}
	for _, c := range []struct {
		name    string
		more    object
		code    int
		want    []float64 // rewards
		imputed []bool
		text    string // in the answer
	}{
		{"the weights alone", object{}, 200, []float64{1 + 0.4, 2 + 0.8, 4 + 1.6, nan}, nil, `"reward":null`},
		{"raw", object{"combine": "raw"}, 200, []float64{1 + 0.4, 2 + 0.8, 4 + 1.6, nan}, nil, `"reward":null`},
		{"a literal NaN", object{"combine": "raw", "on_error": "nan"}, 200, []float64{1.4, 2.8, 5.6, nan}, nil,
			`"reward":NaN`},
		{"the mean of the group", object{"combine": "raw", "on_error": "mean"}, 200,
			[]float64{1.4, 2.8, 5.6, 5 + 2*wideMean}, []bool{false, false, false, true}, `"imputed":true`},
		{"z-scores", object{"combine": "zscore"}, 200, []float64{0.5*z(2, 6, goodStd) + 2*z(0.2, wideMean, wideStd),
			0.5*z(4, 6, goodStd) + 2*z(0.4, wideMean, wideStd), 0.5*z(8, 6, goodStd) + 2*z(0.8, wideMean, wideStd), nan}, nil,
			""},
		{"z-scores, a failure at the mean", object{"combine": "zscore", "on_error": "mean"}, 200, []float64{
			0.5*z(2, 6, goodStd) + 2*z(0.2, wideMean, wideStd), 0.5*z(4, 6, goodStd) + 2*z(0.4, wideMean, wideStd),
			0.5*z(8, 6, goodStd) + 2*z(0.8, wideMean, wideStd), 0.5 * z(10, 6, goodStd)}, []bool{false, false, false, true}, ""},
		{"ranks", object{"combine": "rank"}, 200, []float64{0, 0.5/3 + 1, 1.0/3 + 2, nan}, nil, ""},
		{"a rule for each", object{"rewards": []any{object{"name": "good", "scale": "score01"},
			object{"name": "wide", "weight": 0, "scale": "rank"}}}, 200, []float64{0.2, 0.4, 0.8, 1}, nil, ""},
		{"a dimension", object{"rewards": []any{object{"name": "good", "dimension": "twice", "scale": "score01"}}}, 200,
			[]float64{0.4, 0.8, 1.6, 2}, nil, `"sigma":0.5`},
		{"a lower bound", object{"combine": "lower_bound", "penalty": 0.5, "rewards": []any{
			object{"name": "good", "dimension": "twice", "scale": "score01"},
			object{"name": "good", "scale": "score01", "weight": 3}, object{"name": "good", "scale": "score01", "weight": 0}}},
			200, lowerBounds, nil, ""},
		{"a lower bound where one failed", object{"combine": "lower_bound", "rewards": []any{
			object{"name": "wide"}}}, 200, []float64{0.2, 0.4, 0.8, nan}, nil, `"reward":null`},
		{"all or nothing", object{"on_error": "fail"}, 500, nil, nil, "edit 3, wide: a failing picture"},
		{"scores alone", object{"rewards": []any{object{"name": "good"}, object{"name": "wide"}}}, 200, nil, nil,
			`"rewards":[{"name":"good","score":2,`},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, got, body := ask(t, url, request.with(c.more))
			if code != c.code || !strings.Contains(body, c.text) {
				t.Fatalf("got %d %s, want %d and %q", code, body, c.code, c.text)
			}
			if c.want == nil && strings.Contains(body, `"reward":`) {
				t.Errorf("got a sum that was not requested: %s", body)
			}
			for i, want := range c.want {
				if r := got.Results[i]; !near(value(r.Reward), want) || r.Imputed != (c.imputed != nil && c.imputed[i]) {
					t.Errorf("edit %d: got %v, imputed %v, want %v in %s", i, value(r.Reward), r.Imputed, want, body)
				}
			}
			if code == 200 && len(got.Results[3].Rewards) == 2 && got.Results[3].Rewards[1].Score != nil {
				t.Errorf("a failure has a score: %s", body)
			}
		})
	}
}

// TestGroups: each group has its own statistics; a group in which all edits failed has no mean.
func TestGroups(t *testing.T) {
	_, _, url := panel(t, Options{})
	a, b := png(t, 9, 8, 6), png(t, 10, 8, 6)
	pair := func(source []byte, red byte, group string) object {
		return object{"source": source, "instruction": "x", "edit": png(t, red, 5, 5)}.with(object{"group": group})
	}
	for _, c := range []struct {
		name  string
		pairs []any
		more  object
		want  []float64
	}{
		{"by source and instruction", []any{pair(a, 51, ""), pair(b, 102, ""), pair(a, 153, ""), pair(b, 204, "")},
			object{"combine": "rank"}, []float64{0, 0, 1, 1}},
		{"by name", []any{pair(a, 51, "1"), pair(b, 102, "1"), pair(a, 153, "2"), pair(b, 204, "2")},
			object{"combine": "rank"}, []float64{0, 1, 0, 1}},
		{"one of each", []any{pair(a, 51, "1"), pair(b, 102, "2")}, object{"combine": "zscore"}, []float64{0, 0}},
		{"all of a group failed", []any{pair(a, 51, ""), pair(a, 255, ""), pair(b, 255, "")},
			object{"scorer": "wide", "on_error": "mean"}, []float64{0.2, 0.2, math.NaN()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, got, body := ask(t, url, object{"pairs": c.pairs}.with(c.more))
			if code != 200 || len(got.Results) != len(c.want) {
				t.Fatalf("got %d %s", code, body)
			}
			for i, want := range c.want {
				if v := value(got.Results[i].Reward); !near(v, want) {
					t.Errorf("pair %d: got %v, want %v", i, v, want)
				}
			}
		})
	}
}

// TestRewardsRefused: invalid requests are refused with the reason.
func TestRewardsRefused(t *testing.T) {
	_, _, url := panel(t, Options{})
	picture := png(t, 9, 8, 6)
	request := object{"source": picture, "instruction": "x", "edits": []any{picture}}
	reward := func(more object) object { return object{"rewards": []any{object{"name": "good"}.with(more)}} }
	for _, c := range []struct {
		name string
		more object
		code int
		want string
	}{
		{"two ways to name a judge", reward(nil).with(object{"scorer": "good"}), 422, "do not go with them"},
		{"none", object{"rewards": []any{}}, 422, "rewards is empty"},
		{"without a name", reward(object{"name": ""}), 422, "rewards/0: name is missing"},
		{"unknown", reward(object{"name": "nobody"}), 422, "rewards/0: no scorer"},
		{"an unknown rule", object{"combine": "max"}, 422, "want raw, score01, zscore or rank"},
		{"an unknown choice", object{"on_error": "zero"}, 422, "want one of null, nan, mean, fail"},
		{"no range", object{"scorer": "wide", "combine": "score01"}, 422, "are unbounded"},
		{"an unknown dimension", reward(object{"dimension": "style"}), 422, `no dimension \"style\"; available: twice`},
		{"a dimension of none", object{"rewards": []any{object{"name": "wide", "dimension": "style"}}}, 422, "it has none"},
		{"a huge weight", reward(object{"weight": 1e300}), 422, "at most 1e+09"},
		{"a penalty of nothing", object{"combine": "raw", "penalty": 1}, 422, "penalty goes with combine: lower_bound"},
		{"a penalty below 0", object{"combine": "lower_bound", "penalty": -1}, 422, "penalty -1"},
		{"a lower bound of ranks", reward(object{"scale": "rank"}).with(object{"combine": "lower_bound"}), 422,
			"only raw and score01"},
		{"a lower bound of imputed scores", object{"combine": "lower_bound", "on_error": "mean"}, 422, "has no sigma"},
		{"a lower bound of a distance", reward(object{"weight": -1}).with(object{"combine": "lower_bound"}), 422,
			"higher is better"},
		{"a lower bound of nothing", reward(object{"weight": 0}).with(object{"combine": "lower_bound"}), 422,
			"weighted mean"},
		{"a lower bound of two ranges", object{"combine": "lower_bound", "rewards": []any{object{"name": "good"},
			object{"name": "wide"}}}, 422, "good and wide have different ranges"},
		{"source and sources", object{"sources": []any{picture}}, 400, "give only one of them"},
		{"too many sources for the judge", object{"source": nil, "sources": []any{picture, picture}}, 422,
			"the edit has 2 sources, and good looks at 1"},
		{"too many sources", object{"source": nil, "sources": slices.Repeat([]any{picture}, 17)}, 413, "at most 16"},
		{"no sources", object{"source": nil, "sources": []any{}}, 422, "source is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, _, body := ask(t, url, request.with(c.more))
			if code != c.code || !strings.Contains(body, c.want) {
				t.Errorf("got %d %s, want %d with %q", code, body, c.code, c.want)
			}
		})
	}
}

// TestSeveralSources: a judge that takes any number of sources gets all of them in order, however they are sent.
func TestSeveralSources(t *testing.T) {
	several := &named{info: edit.Info{Range: edit.Range{0, 1}, Sources: edit.Any}}
	one := &named{info: edit.Info{Range: edit.Range{0, 1}, Sources: 1}}
	_, h := start(t, Options{}, map[string]edit.Judge{"several": several, "one": one}, "several", "one")
	a, b, c, out := png(t, 10, 8, 6), png(t, 20, 4, 4), png(t, 30, 5, 4), png(t, 51, 5, 5)
	want := []byte{10, 20, 30}
	expect := func(how string, ok bool, body string) {
		t.Helper()
		if !ok || len(several.shown) != 1 || !slices.Equal(several.shown[0], want) {
			t.Errorf("%s: got %s, with sources %v, want %v", how, body, several.shown, want)
		}
		several.shown = nil
	}
	code, _, got, body := ask(t, h.URL, object{"sources": []any{a, b, c}, "instruction": "x", "edits": []any{out}})
	expect("JSON", code == 200 && *got.Results[0].Score == 0.2, body)
	code, _, got, body = ask(t, h.URL, object{"pairs": []any{object{"sources": []any{a, b, c}, "instruction": "x",
		"edit": out}}})
	expect("pairs", code == 200 && *got.Results[0].Score == 0.2, body)
	code, body = postForm(t, h.URL+"/v1/score", "sources", a, "sources", b, "sources", c, "edits", out, "instruction",
		[]byte("x"), "rewards", []byte(`[{"name": "several", "weight": 3}]`))
	expect("form", code == 200 && strings.Contains(body, `"reward":0.6`), body)

	turn := func(text string, p []byte) object { return object{"text": text, "image_b64": p} }
	names := []string{"several", "one"}
	r := askPanel(t, h.URL, object{"required_rewards": names,
		"history": []any{turn("x", a), turn("", b), turn("x", c), turn("x", out)}})
	expect("UniRL", r.Results[0]["several"]["score"] == 0.2, fmt.Sprint(r))
	if !strings.Contains(r.Errors[0]["one"], "not of 4") {
		t.Errorf("got %q of a judge of one source, want a reason", r.Errors[0]["one"])
	}
	r = askPanel(t, h.URL, object{"required_rewards": names,
		"history": []any{turn("x", a), turn("y", b), turn("x", out)}})
	if !strings.Contains(r.Errors[0]["several"], "different text") {
		t.Errorf("a chain of edits: got %v, want a reason", r)
	}
}

// TestFingerprints: responses identify the judges, and a request may require fingerprints.
func TestFingerprints(t *testing.T) {
	_, _, url := panel(t, Options{})
	picture := png(t, 9, 8, 6)
	request := object{"source": picture, "instruction": "x", "edits": []any{picture}}
	both := request.with(object{"rewards": []any{object{"name": "wide"}, object{"name": "good"}}})
	code, header, got, body := ask(t, url, both)
	if code != 200 || len(got.Judges) != 2 || got.Judges[0].Fingerprint != "w1" || got.Judges[1].Fingerprint != "g1" ||
		got.Version != serverVersion || header.Get(fingerprintHeader) != "wide=w1, good=g1" ||
		header.Get(versionHeader) != serverVersion || got.Judges[0].Range != nil {
		t.Errorf("got %d %s with %v, want the identity of both", code, body, header)
	}
	for _, c := range []struct {
		name    string
		request object
		headers []string
		code    int
		want    string
	}{
		{"the right one", request.with(object{"fingerprint": "g1"}), nil, 200, ""},
		{"another one", request.with(object{"fingerprint": "g0"}), nil, 412, "good has fingerprint g1, not the required g0"},
		{"another reward", request.with(object{"rewards": []any{object{"name": "wide", "fingerprint": "g1"}}}), nil, 412,
			"rewards/0: scorer wide has fingerprint w1"},
		{"by header", request, []string{fingerprintHeader, "good=g1, wide=w1"}, 200, ""},
		{"another one by header", request, []string{fingerprintHeader, "good=g1, wide=w0"}, 412, "the required w0"},
		{"no header", request, []string{fingerprintHeader, "g1"}, 400, "NAME=FINGERPRINT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, _, _, body := ask(t, url, c.request, c.headers...)
			if code != c.code || !strings.Contains(body, c.want) {
				t.Errorf("got %d %s, want %d with %q", code, body, c.code, c.want)
			}
		})
	}
	code, listed := get(t, url+"/v1/judges")
	if code != 200 || !strings.Contains(listed, `{"name":"good","fingerprint":"g1","score_range":[0,10],`+
		`"dimensions":["twice"],"sources":1,"gradients":true,"words":false}`) {
		t.Errorf("/v1/judges: got %d %s", code, listed)
	}
	if _, metrics := get(t, url+"/metrics"); !strings.Contains(metrics,
		`assay_scorer_info{fingerprint="g1",scorer="good",version="`+serverVersion+`"} 1`) {
		t.Errorf("the metrics do not name the judge: %s", metrics)
	}
	for _, path := range []string{"/v1/gradient", "/score"} {
		v := request.with(object{"edits": nil, "edit": picture, "fingerprint": "g1"})
		if path == "/score" {
			v = object{"requests": []any{object{"required_rewards": []any{"good"}, "history": []any{
				object{"text": "x", "image_b64": picture}, object{"text": "x", "image_b64": picture}}}}}
		}
		code, header, raw := post(t, url+path, v)
		if code != 200 || header.Get(fingerprintHeader) != "good=g1" || header.Get(versionHeader) != serverVersion {
			t.Errorf("%s: got %d %.200q with %v, want the judge's identity", path, code, raw, header)
		}
	}
}

// TestNoSources: null or empty sources are treated as absent.
func TestNoSources(t *testing.T) {
	_, _, url := panel(t, Options{})
	picture := png(t, 51, 8, 6)
	for name, sources := range map[string]any{"null": nil, "empty": []any{}} {
		pair := object{"source": picture, "sources": sources, "instruction": "x"}
		for where, request := range map[string]object{"the request": pair.with(object{"edits": []any{picture}}),
			"a pair": {"pairs": []any{pair.with(object{"edit": picture})}}} {
			t.Run(name+" in "+where, func(t *testing.T) {
				code, _, got, body := ask(t, url, request)
				if code != 200 || value(got.Results[0].Score) != 2 {
					t.Errorf("got %d %s, want the score 2", code, body)
				}
			})
		}
	}
}

// dimensionsAlone is a judge that scores only dimensions.
type dimensionsAlone struct{ named }

func (d *dimensionsAlone) Score(ctx context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	scores, errs, err := d.named.Score(ctx, inputs)
	for i := range scores {
		scores[i].Value, scores[i].Score01, scores[i].Unbounded = math.NaN(), math.NaN(), true
	}
	return scores, errs, err
}

// TestDimensionsAlone: a judge without an overall score returns an error, and its dimensions can be rewards.
func TestDimensionsAlone(t *testing.T) {
	d := &dimensionsAlone{named{info: edit.Info{Range: edit.NoRange(), Sources: 1,
		Dimensions: []edit.DimensionInfo{{Name: "joy"}}}}}
	_, h := start(t, Options{}, map[string]edit.Judge{"d": d}, "d")
	picture := png(t, 51, 8, 6)
	request := object{"source": picture, "instruction": "x", "edits": []any{picture}}
	if code, _, _, body := ask(t, h.URL, request); code != 422 || !strings.Contains(body, "no_score") {
		t.Errorf("got %d %s, want an error", code, body)
	}
	code, _, got, body := ask(t, h.URL, request.with(object{"rewards": []any{object{"name": "d", "dimension": "joy"}}}))
	if code != 200 || value(got.Results[0].Rewards[0].Score) != 0.4 {
		t.Errorf("got %d %s, want 0.4", code, body)
	}
}

// TestDemandedWithAnID: a retry that requires another fingerprint does not get the answer to the first request.
func TestDemandedWithAnID(t *testing.T) {
	_, h := start(t, Options{}, map[string]edit.Judge{"good": &named{print: "g1"}}, "good")
	request := object{"source": png(t, 9, 5, 5), "instruction": "x", "edits": []any{png(t, 51, 5, 5)}, "id": "one"}
	for _, c := range []struct {
		name   string
		header []string
		code   int
	}{
		{"none is demanded", nil, http.StatusOK},
		{"again", nil, http.StatusOK},
		{"another one", []string{fingerprintHeader, "good=g0"}, http.StatusConflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			if code, _, _, body := ask(t, h.URL, request, c.header...); code != c.code {
				t.Errorf("got %d %s, want %d", code, body, c.code)
			}
		})
	}
}

// TestDemandedOfFlowFactory: its paths also check the header X-Fingerprint.
func TestDemandedOfFlowFactory(t *testing.T) {
	_, h := start(t, Options{}, map[string]edit.Judge{"good": &named{print: "g1"}}, "good")
	raw, err := json.Marshal(flowBody([]string{"x"}, [][]byte{png(t, 51, 5, 5)}, [][][]byte{{png(t, 9, 5, 5)}}))
	if err != nil {
		t.Fatal(err)
	}
	for print, want := range map[string]string{"g1": `"rewards":[2]`, "g0": "required g0"} {
		t.Run(print, func(t *testing.T) {
			r, _ := http.NewRequestWithContext(t.Context(), "POST", h.URL+"/compute", strings.NewReader(string(raw)))
			r.Header.Set(fingerprintHeader, "good="+print)
			if _, _, body := send(t, r); !strings.Contains(body, want) {
				t.Errorf("got %s, want %s", body, want)
			}
		})
	}
}

// silent is a VLM judge whose model does not answer.
type silent struct{ fake }

func (s *silent) Score(_ context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	err := fmt.Errorf("question SC: %w", &chat.ServerError{Err: errors.New("connection refused")})
	return make([]edit.Score, len(inputs)), slices.Repeat([]error{err}, len(inputs)), nil
}

// TestSilentModel: clients wait for the model of a VLM judge as for this server, also if they ask other judges with it,
// whose scores are in the answer. A judge that fails on one edit of several, or cannot be helped, is not waited for.
func TestSilentModel(t *testing.T) {
	_, h := start(t, Options{}, map[string]edit.Judge{"vlm": &silent{}, "a": &fake{}}, "vlm", "a")
	picture := png(t, 51, 8, 6)
	request := object{"source": picture, "instruction": "x", "edits": []any{picture}}
	const want = `"error":{"kind":"unavailable","message":"question SC: connection refused"}`
	if code, header, _, body := ask(t, h.URL, request); code != http.StatusServiceUnavailable ||
		header.Get("Retry-After") != "1" || !strings.Contains(body, want) {
		t.Errorf("got %d %v %s, want 503, Retry-After and %s", code, header, body, want)
	}
	both := []any{object{"name": "vlm"}, object{"name": "a"}}
	code, header, got, body := ask(t, h.URL, request.with(object{"rewards": both}))
	if code != http.StatusServiceUnavailable || header.Get("Retry-After") != "1" || !strings.Contains(body, want) ||
		value(got.Results[0].Rewards[1].Score) != 2 {
		t.Errorf("got %d %v %s, want 503, Retry-After, %s and a score of 2", code, header, body, want)
	}
	turn := object{"text": "x", "image_b64": picture}
	unirl := func(names ...string) (int, string, string) {
		code, header, body := post(t, h.URL+"/score", object{"requests": []any{object{"history": []any{turn, turn},
			"required_rewards": names}}})
		return code, header.Get("Retry-After"), string(body)
	}
	const kept = `"results":[{"a":{"score":2}}]`
	if code, again, body := unirl("vlm", "a"); code != http.StatusServiceUnavailable || again != "1" ||
		!strings.Contains(body, kept) {
		t.Errorf("UniRL: got %d, Retry-After %q, %s, want 503, 1 and %s", code, again, body, kept)
	}
	if code, _, body := unirl("unknown", "a"); code != http.StatusOK || !strings.Contains(body, kept) {
		t.Errorf("UniRL, an unknown judge: got %d %s, want 200 and %s", code, body, kept)
	}
}
