package reward

import (
	"net/http/httptest"
	"strings"
	"testing"

	"assay/model"
)

// TestDimensionMetrics: scores are counted by scorer, and those of dimensions by dimension, bounded or not.
func TestDimensionMetrics(t *testing.T) {
	m := newMetrics(func() float64 { return 0 })
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
