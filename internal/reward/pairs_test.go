package reward

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"assay/edit"
)

// TestScorePairs: pairs in one request have the same scores as alone, share runs and the decoding of a source, and an
// error concerns only its pair.
func TestScorePairs(t *testing.T) {
	f := &fake{}
	_, h := start(t, Options{Batch: 4, MaxItems: 6}, map[string]edit.Judge{"a": f}, "a")
	a, b := png(t, 9, 8, 6), png(t, 10, 4, 4)
	pair := func(source, edit any, instruction string) object {
		return object{"source": source, "edit": edit, "instruction": instruction}
	}
	code, _, raw := post(t, h.URL+"/v1/score", object{"pairs": []any{
		pair(a, png(t, 51, 5, 3), "x"), pair(b, png(t, 102, 5, 3), "y"), pair(a, png(t, 153, 5, 3)[:40], "x"),
		pair(nil, b, "x"), pair(a, png(t, 255, 5, 3), "x"), pair(a, b, " "),
	}})
	got := decodeScores(t, raw)
	if code != 200 || got.Scorer != "a" || len(got.Results) != 6 {
		t.Fatalf("%d %s", code, raw)
	}
	for i, want := range map[int]float64{0: 2, 1: 4, 4: 10} {
		if r := got.Results[i]; r.Error != nil || *r.Score != want {
			t.Errorf("pair %d: %s, want a score of %g", i, raw, want)
		}
	}
	for i, why := range map[int]string{2: "truncated", 3: "source is missing", 5: "instruction is missing"} {
		if r := got.Results[i]; r.Score != nil || r.Error == nil || !strings.Contains(r.Error.Message, why) {
			t.Errorf("pair %d: %s, want no score and an error with %q", i, raw, why)
		}
	}
	for _, c := range []struct {
		name string
		body object
		code int
	}{
		{"pairs and a source", object{"source": a, "pairs": []any{pair(a, b, "x")}}, 422},
		{"pairs and edits", object{"edits": []any{b}, "pairs": []any{pair(a, b, "x")}}, 422},
		{"no edit", object{"pairs": []any{object{"source": a, "instruction": "x"}}}, 422},
		{"no pairs", object{"pairs": []any{}}, 422},
		{"many", object{"pairs": make([]object, 7)}, 413},
		{"only damaged ones", object{"pairs": []any{pair(a, b[:30], "x")}}, 422},
	} {
		code, _, raw := post(t, h.URL+"/v1/score", c.body)
		if code != c.code || strings.Contains(string(raw), "score01") {
			t.Errorf("%s: %d %s, want %d and no score", c.name, code, raw, c.code)
		}
	}
}

// TestLimits: a client can query the limits of one request.
func TestLimits(t *testing.T) {
	for want, o := range map[string]Options{
		`{"max_body":67108864,"max_gradients":268435456,"max_items":256,"max_pixels":16777216,"max_rewards":64,` +
			`"max_sources":16}`: {},
		`{"max_body":1000,"max_gradients":268435456,"max_items":2,"max_pixels":3,"max_rewards":64,"max_sources":16}`: {
			MaxBody: 1000, MaxItems: 2, MaxPixels: 3},
	} {
		_, h := start(t, o, map[string]edit.Judge{"a": &fake{}}, "a")
		r, err := http.Get(h.URL + "/v1/limits")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if body, _ := io.ReadAll(r.Body); fmt.Sprintf("%d %s", r.StatusCode, body) != "200 "+want+"\n" {
			t.Errorf("got %d %s, want 200 %s", r.StatusCode, body, want)
		}
	}
}
