package reward

import (
	"strings"
	"testing"

	"assay/edit"
)

// TestPicturesAreDecodedOnce: a picture is decoded once for many requests, for several judges, as source and as edit.
func TestPicturesAreDecodedOnce(t *testing.T) {
	_, h := start(t, Options{}, map[string]edit.Judge{"a": &fake{}, "b": &fake{}}, "a", "b")
	source, dark := png(t, 9, 8, 6), png(t, 51, 5, 5)
	request := object{"source": source, "instruction": "x", "edits": []any{dark, source},
		"rewards": []any{object{"name": "a"}, object{"name": "b"}}}
	for range 3 {
		if code, _, _, body := ask(t, h.URL, request); code != 200 {
			t.Fatalf("got %d %s", code, body)
		}
	}
	_, metrics := get(t, h.URL+"/metrics")
	for _, want := range []string{`assay_pictures_total{from="decoder"} 2`,
		`assay_stage_seconds_count{scorer="",stage="decode"} 2`,
		`assay_stage_seconds_count{scorer="a",stage="prepare"} 6`, `assay_stage_seconds_count{scorer="b",stage="model"} 3`,
		`assay_stage_seconds_count{scorer="b",stage="wait"} 3`, `assay_score_count{scorer="a"} 6`} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("/metrics has no %s", want)
		}
	}
}
