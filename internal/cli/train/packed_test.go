package train

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/data"
	"assay/edit"
	"assay/internal/exit"
	"assay/internal/long"
	"assay/internal/modeltest"
	"assay/internal/oracle"
	"assay/model"
)

// packedBackbones are a backbone made by train quantize, and one in AWQ's published layout.
func packedBackbones(t *testing.T) map[string]string {
	t.Helper()
	made := filepath.Join(t.TempDir(), "made")
	code, _, stderr := call(t, "quantize", "--backbone", filepath.Join(oracle.Folders(t)[0], "qwen2_5_vl", "backbone"),
		"--out", made, "--json")
	if code != exit.Done {
		t.Fatal(stderr)
	}
	out := map[string]string{"quantize": made}
	for name, dir := range modeltest.PackedFolders(t) {
		if path.Base(name) == "awq" {
			out["awq"] = filepath.Join(dir, "backbone")
		}
	}
	return out
}

// TestPackedBackbone trains an adapter over four bits (QLoRA), with and without a kill: the scorer is the same byte
// for byte, scores, and can be exported; merging is refused.
func TestPackedBackbone(t *testing.T) {
	long.Test(t)
	for name, backbone := range packedBackbones(t) {
		t.Run(name, func(t *testing.T) {
			config, out := writeRun(t, "steps: 6\ncheckpoint: {steps: 2, keep: 2}\nthreads: 1\noptimizer: {lr: 1.0e-3}\n")
			onBackbone(t, config, backbone)
			if msg, err := train(config).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, msg)
			}
			scorer := filepath.Join(out, "scorer")
			want := sums(t, scorer)
			if err := os.RemoveAll(out); err != nil {
				t.Fatal(err)
			}
			killAfterCheckpoint(t, config, out)
			if code, stdout, stderr := call(t, "--config", config); code != exit.Done || !strings.Contains(stdout, "resumed") {
				t.Fatalf("%d %q %q", code, stdout, stderr)
			}
			got := sums(t, scorer)
			for file, sum := range want {
				if got[file] != sum {
					t.Errorf("after a kill %s differs", file)
				}
			}
			packedScorer(t, scorer)
		})
	}
}

// killAfterCheckpoint kills a run as soon as it has saved a step.
func killAfterCheckpoint(t *testing.T, config, out string) {
	t.Helper()
	c := train(config)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		select {
		case err := <-ended:
			t.Fatalf("the run ended before it was killed: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
		saved, _ := filepath.Glob(filepath.Join(out, "checkpoints", "step-*"))
		if len(saved) == 0 {
			continue
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-ended
		return
	}
}

// packedScorer uses a scorer over four bits.
func packedScorer(t *testing.T, dir string) {
	t.Helper()
	s, err := model.OpenScorer(dir, model.Options{Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	images := filepath.Join(oracle.Folders(t)[0], "images")
	picture := func(name string) data.File { return data.File{Image: data.Image{Path: name}, Folder: images} }
	e := edit.New(picture("coffee.png"), picture("coffee_blur.png"), "blur it")
	scores, errs, err := edit.ScoreAll(t.Context(), s, e)
	if err != nil || errs[0] != nil || math.IsNaN(scores[0].Value) || math.IsInf(scores[0].Value, 0) {
		t.Errorf("score %v: %v, %v", scores, errs, err)
	}
	exported, merged := filepath.Join(t.TempDir(), "exported"), filepath.Join(t.TempDir(), "merged")
	if code, _, stderr := call(t, "export", "--scorer", dir, "--out", exported); code != exit.Done {
		t.Errorf("export: %d %s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(exported, "packed.bin")); err != nil {
		t.Error(err)
	}
	code, _, stderr := call(t, "merge", "--scorer", dir, "--out", merged)
	if code == exit.Done || !strings.Contains(stderr, "is packed") {
		t.Errorf("merge: %d %s", code, stderr)
	}
	if _, err := os.Stat(merged); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused merge left %s: %v", merged, err)
	}
}
