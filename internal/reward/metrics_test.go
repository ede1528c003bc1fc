package reward

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/edit"
)

// TestDimensionMetrics: scores are counted by scorer, and scores of dimensions by dimension, bounded or not.
func TestDimensionMetrics(t *testing.T) {
	nothing := func() float64 { return 0 }
	m := newMetrics(nothing, nothing)
	bounded := edit.Score{Value: 0.5, Dimensions: []edit.Dimension{{Name: "following", Value: 0.3}, {Name: "quality"}}}
	unbounded := edit.Score{Value: 0.5, Dimensions: []edit.Dimension{{Name: "following", Value: 0.3}, {Name: "quality"}}}
	ten := edit.Range{0, 10}
	ten.Scale(&bounded)
	edit.NoRange().Scale(&unbounded)
	m.observe("a", &bounded, ten)
	m.observe("a", &bounded, ten)
	m.observe("b", &unbounded, edit.NoRange())
	none := edit.Score{Value: math.NaN(), Score01: math.NaN()} // of a scorer whose heads all have classes without an order
	m.observe("a", &none, ten)
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, want := range []string{
		`assay_score01_count{scorer="a"} 2`,
		`assay_score01_sum{scorer="a"} 1`,
		`assay_dimension_scores_total{dimension="following",scorer="a"} 2`,
		`assay_dimension_scores_total{dimension="quality",scorer="b"} 1`,
		`assay_dimension_score01_bucket{dimension="following",scorer="a",le="0.30000000000000004"} 2`,
		`assay_dimension_score01_count{dimension="quality",scorer="a"} 2`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	if strings.Contains(text, `assay_score01_count{scorer="b"}`) {
		t.Error("a score without a range is counted on 0 to 1")
	}
}

// TestShareOfFailures: scores and failures of gradient requests are counted like those of score requests; edits whose
// source is not an image count as failures; an infinite score is not counted as a score.
func TestShareOfFailures(t *testing.T) {
	s, h := start(t, Options{}, map[string]edit.Judge{"a": &fake{}}, "a")
	request := object{"source": png(t, 9, 5, 5), "instruction": "x", "edits": []any{png(t, 51, 5, 5), "broken"}}
	if code, _, body := post(t, h.URL+"/v1/gradient", request); code != http.StatusOK {
		t.Fatalf("got %d %s", code, body)
	}
	request["source"] = "broken" // both edits fail with it
	for _, path := range []string{"/v1/gradient", "/v1/score"} {
		if code, _, body := post(t, h.URL+path, request); code != http.StatusUnprocessableEntity {
			t.Fatalf("%s: got %d %s", path, code, body)
		}
	}
	s.engine.metrics.observe("a", &edit.Score{Value: math.Inf(1), Unbounded: true}, edit.NoRange())
	w := httptest.NewRecorder()
	s.engine.metrics.handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`assay_score_sum{scorer="a"} 2`,
		`assay_score_count{scorer="a"} 1`,
		`assay_failures_total{kind="bad_picture",scorer="a"} 5`,
		`assay_edits_total{scorer="a"} 6`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("got no line %s, want it", want)
		}
	}
}

// TestFailuresByReward: an edit that a judge cannot judge is one failure and one error of that judge, however many of
// its dimensions are requested; so is an edit without an overall score.
func TestFailuresByReward(t *testing.T) {
	dimensions := []edit.DimensionInfo{{Name: "joy"}, {Name: "grief"}}
	s, h := start(t, Options{}, map[string]edit.Judge{"a": &fake{},
		"d": &dimensionsAlone{named{info: edit.Info{Range: edit.NoRange(), Sources: 1, Dimensions: dimensions}}}}, "a", "d")
	good := png(t, 51, 5, 5)
	rewards := []any{object{"name": "d", "dimension": "joy"}, object{"name": "d", "dimension": "grief"},
		object{"name": "a"}}
	request := object{"source": good, "instruction": "x", "edits": []any{good, "broken"}, "rewards": rewards}
	for _, list := range [][]any{rewards, {object{"name": "d"}}} {
		if code, _, _, body := ask(t, h.URL, request.with(object{"rewards": list})); code != 200 && len(list) > 1 {
			t.Fatalf("got %d %s", code, body)
		}
	}
	w := httptest.NewRecorder()
	s.engine.metrics.handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`assay_edits_total{scorer="a"} 2`,
		`assay_failures_total{kind="bad_picture",scorer="a"} 1`,
		`assay_edits_total{scorer="d"} 4`,
		`assay_failures_total{kind="bad_picture",scorer="d"} 2`,
		`assay_failures_total{kind="no_score",scorer="d"} 1`,
		`assay_errors_total{kind="bad_picture"} 3`,
		`assay_errors_total{kind="no_score"} 1`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("got no line %s, want it", want)
		}
	}
}

// TestRefusalsByStatus: a request of which no edit could be scored, and one to a server that drains, are counted with
// the status of their responses.
func TestRefusalsByStatus(t *testing.T) {
	s, h := start(t, Options{}, map[string]edit.Judge{"a": &fake{}}, "a")
	good := png(t, 1, 5, 5)
	body := object{"source": good, "instruction": "x", "edits": []any{good[:30]}}
	if code, _, raw := post(t, h.URL+"/v1/score", body); code != 422 {
		t.Fatalf("%d %s", code, raw)
	}
	s.front.draining.Store(true)
	get(t, h.URL+"/health")
	r, err := http.Get(h.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`code="422",path="POST /v1/score"} 1`, `code="503",path="GET /health"} 1`} {
		if !strings.Contains(string(text), "assay_requests_total{"+want) {
			t.Errorf("no line %s", want)
		}
	}
	if strings.Contains(string(text), `assay_requests_total{code="200"`) {
		t.Error("a refusal is counted with status 200")
	}
}

// TestForeseenDelay: the gauge for autoscalers rises while edits wait for a device, and is 0 again afterwards.
func TestForeseenDelay(t *testing.T) {
	f := &fake{gate: make(chan struct{})}
	_, h := start(t, Options{Batch: 1}, map[string]edit.Judge{"a": f}, "a")
	request := object{"source": png(t, 1, 8, 8), "instruction": "x", "edits": [][]byte{png(t, 9, 8, 8)}}
	foreseen := func() (seconds float64) {
		_, text := get(t, h.URL+"/metrics")
		_, value, _ := strings.Cut(string(text), "\nassay_queue_foreseen_seconds ")
		value, _, _ = strings.Cut(value, "\n")
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		return seconds
	}
	time.AfterFunc(20*time.Millisecond, func() { f.gate <- struct{}{} })
	if code, _, raw := post(t, h.URL+"/v1/score", request); code != 200 { // the server learns how long a run takes
		t.Fatalf("%d %s", code, raw)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { post(t, h.URL+"/v1/score", request) })
	}
	eventually(t, "a delay", func() bool { return foreseen() > 0.01 })
	close(f.gate)
	all.Wait()
	eventually(t, "no delay", func() bool { return foreseen() == 0 })
}
