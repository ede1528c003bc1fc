package train

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/calibration"
	"assay/internal/exit"
	"assay/model"
)

// TestEnsembleCommand: a file is not replaced by an ensemble, and a warning says that the calibrations of members are
// lost.
func TestEnsembleCommand(t *testing.T) {
	const first = "../../../backbones/tiny-scorer"
	state, err := model.LoadScorerState(first)
	if err != nil {
		t.Fatal(err)
	}
	second, out := t.TempDir(), filepath.Join(t.TempDir(), "ensemble")
	state.Tensors["score_token.embedding"].Float32s()[0]++
	if err := state.Save(second); err != nil {
		t.Fatal(err)
	}
	k := &calibration.Calibration{Format: 1, Scorer: state.Digest(), Maps: []calibration.Map{
		{Method: "isotonic", X: []float64{0, 1}, Y: []float64{0, 0.5}}}}
	if err := k.Write(filepath.Join(second, "calibration.json")); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(second, model.ConfigFile)
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, append(text, "calibration: calibration.json\n"...), 0o666); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "edits.jsonl")
	if err := os.WriteFile(file, []byte("rows"), 0o666); err != nil {
		t.Fatal(err)
	}
	members := []string{"ensemble", "--scorer", first, "--scorer", second, "--out"}
	code, _, stderr := call(t, append(members, file)...)
	if code != exit.Wrong || !strings.Contains(stderr, "a file has that name") {
		t.Errorf("over a file: got exit code %d, %s, want %d", code, stderr, exit.Wrong)
	}
	if got, err := os.ReadFile(file); string(got) != "rows" {
		t.Errorf("over a file: got %q (%v), want it as it was", got, err)
	}
	code, stdout, stderr := call(t, append(members, out)...)
	if code != exit.Done || stdout != out+": a scorer with 2 members\n" ||
		stderr != "warning: "+second+" is calibrated, but the ensemble is not: see score calibrate\n" {
		t.Errorf("got exit code %d, %s%s, want a warning", code, stdout, stderr)
	}
}
