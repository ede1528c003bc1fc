// Package benchtest holds what the tests of benchmarks share: files to write, numbers to compare, the authors'
// results.
package benchtest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/benchmarks/protocol"
	"assay/internal/testfile"
)

// Golden is the folder of published ratings and predictions.
const Golden = "../../../testdata/golden/"

// ResultOf evaluates predictions and reads the result back from its JSON.
func ResultOf(t *testing.T, j protocol.Predictions) map[string]any {
	t.Helper()
	b, err := json.Marshal(j.Result().JSON)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// Near fails unless got is a number within tolerance of want.
func Near(t *testing.T, what string, got any, want, tolerance float64) {
	t.Helper()
	if f, ok := got.(float64); !ok || !(math.Abs(f-want) <= tolerance) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// Write writes a temporary file and returns its path.
func Write(t *testing.T, name, content string) string {
	t.Helper()
	return PutFile(t, t.TempDir(), name, []byte(content))
}

// Must returns a value, or fails the test.
func Must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// LoadSet loads a benchmark's data.
func LoadSet(t *testing.T, b *protocol.Benchmark, o protocol.Options) protocol.Set {
	t.Helper()
	if o.Epsilon == 0 {
		o.Epsilon = math.NaN()
	}
	return Must[protocol.Set](t)(b.Load(o))
}

// Expected is testdata/expected.json, the numbers of numpy, scipy and scikit-learn (tools/oracle/benchmarks.py).
func Expected(t *testing.T, name string) map[string]any {
	t.Helper()
	b := Must[[]byte](t)(os.ReadFile("../testdata/expected.json"))
	var all map[string]map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return all[name]
}

// At walks down nested JSON objects.
func At(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

// Same compares numbers of a result with expected ones: each pair is a path in the result and one in expected.
func Same(t *testing.T, got, want map[string]any, paths ...[2]string) {
	t.Helper()
	for _, p := range paths {
		w, ok := At(want, strings.Split(p[1], ".")...).(float64)
		if !ok {
			t.Errorf("nothing is expected at %s", p[1])
		}
		Near(t, p[0], At(got, strings.Split(p[0], ".")...), w, 1e-9)
	}
}

// ReadSet reads predictions and returns their JSON result.
func ReadSet(t *testing.T, s protocol.Set, path string) map[string]any {
	t.Helper()
	return ResultOf(t, Must[protocol.Predictions](t)(s.Read(path)))
}

// PutFile writes a file of JSON, or of bytes.
func PutFile(t *testing.T, dir, name string, what any) string {
	t.Helper()
	raw, ok := what.([]byte)
	if !ok {
		raw = Must[[]byte](t)(json.Marshal(what))
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// NumbersOf returns the numbers of a result by their names in reports, which include the coverage.
func NumbersOf(j protocol.Predictions) map[string]float64 {
	r := j.Result()
	out := map[string]float64{}
	for _, n := range r.Numbers {
		c := protocol.CoverageOf(r)
		if n.Coverage != nil {
			c = *n.Coverage
		}
		if !n.Counted {
			out[protocol.Basis{Rule: n.Name, Coverage: c}.Name()] = n.Value
		}
	}
	return out
}

// ByRule returns numbers by name without the coverage.
func ByRule(named map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for name, v := range named {
		rule, _, _ := strings.Cut(name, " (")
		out[rule] = v
	}
	return out
}

// EqualNumbers fails unless got has every number of want, to within 1e-9.
func EqualNumbers(t *testing.T, what string, got map[string]float64, want map[string]float64) {
	t.Helper()
	for name, w := range want {
		if g, ok := got[name]; !ok || !(math.Abs(g-w) <= 1e-9) {
			t.Errorf("%s: %s = %v, want %v", what, name, g, w)
		}
	}
}

// Authors returns a part of testdata/authors.json: what the benchmark authors' programs compute from random answers,
// some of them missing or malformed (tools/oracle/authors.py).
func Authors[T any](t *testing.T, part string) (v T) {
	t.Helper()
	var all map[string]json.RawMessage
	testfile.ReadJSON(t, "../testdata/authors.json", &all)
	if err := json.Unmarshal(all[part], &v); err != nil {
		t.Fatalf("authors.json, %s: %v", part, err)
	}
	return v
}

// ShownPicture is a picture that a program shows to its judge.
type ShownPicture struct {
	Size   [2]int
	SHA256 string
}

// Shows compares a decoded picture with the one that a program shows.
func Shows(t *testing.T, what string, want ShownPicture, got *data.Picture) {
	t.Helper()
	if sum := fmt.Sprintf("%x", sha256.Sum256(got.Pix)); [2]int{got.Width, got.Height} != want.Size ||
		sum != want.SHA256 {
		t.Errorf("%s: %d x %d pixels, digest %s, want %v, %s", what, got.Width, got.Height, sum, want.Size, want.SHA256)
	}
}

// RunFolder creates a run's folder with predictions by the judge with a fingerprint, and returns their path.
func RunFolder(t *testing.T, fingerprint, lines string) string {
	t.Helper()
	dir := t.TempDir()
	PutFile(t, dir, "run.json", []byte(`{"scorer": "`+fingerprint+`"}`))
	return PutFile(t, dir, "predictions.jsonl", []byte(lines))
}

// FedLines returns lines of samples whose components follow from their ids.
func FedLines(ids []int, more float64) string {
	text := ""
	for _, id := range ids {
		v := float64(id%7)/10 + more
		text += fmt.Sprintf(`{"sample": "s%d", "id": %v, "bg_rmse": 12, "pq": 8, "sc": 7, "gta": 6, "lpips_src_trg": 0.1, `+
			`"lpips_src_gt": 0.1}`+"\n", id, v)
	}
	return text
}

// Equal compares two numbers to twelve digits.
func Equal(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 }

// GradedFolder creates MagicBrush with one session of n turns, whose last is the only "multi-turn" sample.
func GradedFolder(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	for i := 1; i <= n; i++ {
		PutFile(t, dir, fmt.Sprintf("images/7/7-output%d.png", i), []byte{})
	}
	return dir
}
