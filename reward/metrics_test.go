package reward

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"assay/model"
)

// TestDimensionMetrics: scores are counted by scorer, and those of dimensions by dimension, bounded or not.
func TestDimensionMetrics(t *testing.T) {
	nothing := func() float64 { return 0 }
	m := newMetrics(nothing, nothing)
	j := &model.Judgement{
		Score01:    0.5,
		Dimensions: []model.Dimension{{Name: "following", Score01: 0.3}, {Name: "quality"}},
	}
	m.observe("a", j, true)
	m.observe("a", j, true)
	m.observe("b", j, false)
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, want := range []string{
		`assay_score01_count{scorer="a"} 2`,
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

// TestRefusalsByStatus: a request of which no edit could be scored is counted with the status that it was sent.
func TestRefusalsByStatus(t *testing.T) {
	_, h := start(t, Options{}, map[string]Scorer{"a": &fake{}}, "a")
	good := png(t, 1, 5, 5)
	body := object{"source": good, "instruction": "x", "edits": []any{good[:30]}}
	if code, _, raw := post(t, h.URL+"/v1/score", body); code != 422 {
		t.Fatalf("%d %s", code, raw)
	}
	r, err := http.Get(h.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if want := `assay_requests_total{code="422",path="POST /v1/score"} 1`; !strings.Contains(string(text), want) ||
		strings.Contains(string(text), `assay_requests_total{code="200",path="POST /v1/score"}`) {
		t.Errorf("no line %s", want)
	}
}
