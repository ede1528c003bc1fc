// Package oracle finds and reads the reference fixtures that tests compare with, and compares tensors with them. The
// fixtures are in testdata/oracle of the repository, or in the folders of the same layout in ASSAY_ORACLE (a list
// like PATH).
package oracle

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/packed"
)

// Case is one entry of a family's cases*.json; see the fixtures' README for the fields.
type Case struct {
	ID           int      `json:"id"`
	Scorer       string   `json:"scorer"`
	Pair         string   `json:"pair"`
	Source       string   `json:"source"`
	Sources      []string `json:"sources"` // instead of Source, if there are several
	Edited       string   `json:"edited"`
	Instruction  string   `json:"instruction"`
	Prompt       string   `json:"prompt"`
	Answer       string   `json:"answer"`
	Label        float64  `json:"label"`
	Class        *int     `json:"class"`
	Score        float64  `json:"score"`
	Loss         float64  `json:"loss"`
	CE           float64  `json:"ce"`
	Gradients    bool     `json:"gradients"`
	ScoreTokenID int64    `json:"score_token_id"`
	ImageSizes   [][]int  `json:"image_sizes"`
	ImageTokens  []int    `json:"image_tokens"`
	InputIDs     []int64  `json:"input_ids"`
	AnswerStart  int      `json:"answer_start"`
	ScoreIndex   int      `json:"score_index"`
}

// Folders returns the fixture folders, absolute.
func Folders(t testing.TB) []string {
	t.Helper()
	if env := os.Getenv("ASSAY_ORACLE"); env != "" {
		return filepath.SplitList(env)
	}
	dir, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return []string{filepath.Join(dir, "testdata", "oracle")}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	t.Fatalf("no go.mod above the working directory: run tests inside the repository (%v)", err)
	return nil
}

// Each runs f as a subtest on every fixture folder.
func Each(t *testing.T, f func(t *testing.T, folder string)) {
	for _, dir := range Folders(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) { f(t, dir) })
	}
}

// Read parses a JSON fixture.
func Read[T any](t testing.TB, path string) T {
	t.Helper()
	var v T
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Tensors reads a safetensors file. In the repository a folder's references are packed in expect.zip: a file that
// does not exist is read from there.
func Tensors(t testing.TB, path string) map[string]*tensor.Dense {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		raw := packed.File(t, filepath.Join(filepath.Dir(path), "expect.zip"), filepath.Base(path))
		path = filepath.Join(t.TempDir(), "tensors")
		if err := os.WriteFile(path, raw, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	m, _, err := checkpoints.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Floats returns the values of a float32 tensor.
func Floats(t testing.TB, m map[string]*tensor.Dense, name string) []float32 {
	t.Helper()
	d := m[name]
	if d == nil {
		t.Fatalf("the fixture has no tensor %q", name)
	}
	return d.Data().([]float32)
}

// Far returns the largest |got - want|, relative to the largest |want|.
func Far[A, B float32 | float64](got []A, want []B) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	worst, scale := 0.0, 1e-12
	for i := range got {
		worst = max(worst, math.Abs(float64(got[i])-float64(want[i])))
		scale = max(scale, math.Abs(float64(want[i])))
	}
	return worst / scale
}

// Close fails unless every |got - want| <= atol + rtol * max |want|: relative to the tensor, since single entries may
// be near 0.
func Close(t testing.TB, what string, got, want []float32, atol, rtol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", what, len(got), len(want))
		return
	}
	scale, worst, at := 0.0, 0.0, 0
	for i := range want {
		scale = max(scale, math.Abs(float64(want[i])))
		if d := math.Abs(float64(got[i]) - float64(want[i])); d > worst || math.IsNaN(d) {
			worst, at = d, i
			if math.IsNaN(d) {
				break
			}
		}
	}
	if !(worst <= atol+rtol*scale) {
		t.Errorf("%s: value %d is %g, want %g; allowed %g + %g * %g", what, at, got[at], want[at], atol, rtol, scale)
	}
}

// Released returns the folder with the fixtures of released judges, unpacked if the repository has them as a zip.
func Released(t testing.TB, folder string) string {
	t.Helper()
	dir := filepath.Join(folder, "released")
	if _, err := os.Stat(dir); err != nil {
		return packed.Unpack(t, dir+".zip")
	}
	return dir
}
