package train

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"assay/internal/exit"
	"assay/internal/long"
	"assay/internal/ptrace"
	"assay/model/fresh"
	"assay/ort"
)

// childEnv makes the test binary a plain `train`, so that it can be killed.
const childEnv = "ASSAY_TEST_TRAIN"

func TestMain(m *testing.M) {
	ptrace.Become()
	if os.Getenv(childEnv) != "" {
		App.Main()
	}
	os.Exit(m.Run())
}

func train(config string) *exec.Cmd {
	c := exec.Command(os.Args[0], "--config", config)
	c.Env = append(os.Environ(), childEnv+"=1")
	return c
}

// TestNoRuntime: without ONNX Runtime a run says so before it reads a row.
func TestNoRuntime(t *testing.T) {
	config, out := writeRun(t, "steps: 1\n")
	c := train(config)
	c.Env = append(c.Env, ort.LibraryEnv+"=/nowhere/libonnxruntime.so")
	text, err := c.CombinedOutput()
	if want := "/nowhere/libonnxruntime.so"; err == nil || !strings.Contains(string(text), want) {
		t.Errorf("got %v: %s, want an error with %q", err, text, want)
	}
	if strings.Contains(string(text), "checking rows") || strings.Contains(string(text), "step 1") {
		t.Errorf("got %s, want no rows read", text)
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("got %v, want no run directory", err)
	}
}

// TestKilledRunsEndTheSame kills a run with SIGKILL repeatedly, at times that drift over its steps and saves. It
// compares the scorer byte for byte with the scorer of an undisturbed run. Every start opens new sessions, so the
// backbone has one layer.
func TestKilledRunsEndTheSame(t *testing.T) {
	long.Test(t)
	backbone := oneLayer(t)
	for mode, keys := range map[string]string{"lora": "lora: {dropout: 0.1}\n", "full": ""} {
		t.Run(mode, func(t *testing.T) {
			config, out := writeRun(
				t,
				"mode: "+mode+"\nsteps: 12\naugment: adiee\n"+keys+"optimizer: {lr: 1.0e-3}\ncheckpoint: {steps: "+
					"2, keep: 2}\nthreads: 1\n",
			)
			onBackbone(t, config, backbone)
			start := time.Now()
			if msg, err := train(config).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, msg)
			}
			whole := time.Since(start)
			want := sums(t, filepath.Join(out, "scorer"))
			if err := os.RemoveAll(out); err != nil {
				t.Fatal(err)
			}
			kills, done := 0, false
			for try := 1; !done; try++ {
				if try > 60 {
					t.Fatal("the run does not come to its end")
				}
				c := train(config)
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				life := whole/3 + time.Duration(try)*whole/15 // later tries live longer: the run ends
				timer := time.AfterFunc(life, func() { c.Process.Kill() })
				err := c.Wait()
				timer.Stop()
				if err == nil {
					done = true
				} else if c.ProcessState.ExitCode() == -1 {
					kills++
				} else {
					t.Fatalf("try %d: %v", try, err)
				}
			}
			if kills == 0 {
				t.Error("the run was never killed: nothing was tested")
			}
			t.Logf("%d kills of a run of %.1f s", kills, whole.Seconds())
			got := sums(t, filepath.Join(out, "scorer"))
			for name, sum := range want {
				if got[name] != sum {
					t.Errorf("after %d kills %s differs", kills, name)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d files, want %d", len(got), len(want))
			}
		})
	}
}

// oneLayer makes a backbone that opens quickly.
func oneLayer(t *testing.T) (dir string) {
	t.Helper()
	dir, text := filepath.Join(t.TempDir(), "backbone"), filepath.Join(t.TempDir(), "text")
	sizes, err := fresh.Defaults(fresh.LlavaNext)
	if err == nil {
		err = os.WriteFile(text, []byte("Rate how well the edit was done."), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	sizes.Hidden, sizes.Intermediate, sizes.Layers, sizes.Heads, sizes.KVHeads = 64, 128, 1, 4, 2
	sizes.VisionHidden, sizes.VisionIntermediate, sizes.VisionLayers, sizes.VisionHeads = 32, 64, 2, 2
	sizes.ImageSize, sizes.Patch, sizes.Grid = 28, 7, [][]int{{1, 1}}
	if _, err := fresh.Create(dir, sizes, []string{text}, 1); err != nil {
		t.Fatal(err)
	}
	return dir
}

// onBackbone makes a run's configuration name another backbone.
func onBackbone(t *testing.T, config, backbone string) {
	t.Helper()
	text, err := os.ReadFile(config)
	if err == nil {
		text = regexp.MustCompile(`(?m)^backbone: .*`).ReplaceAllLiteral(text, []byte("backbone: "+backbone))
		err = os.WriteFile(config, text, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sums hashes a scorer's files, except its card, which has times.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(path, ".md") {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		h := sha256.Sum256(raw)
		name, err := filepath.Rel(dir, path)
		out[name] = hex.EncodeToString(h[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestInterrupt sends Ctrl-C: the state is saved, the exit code is 3, and the run resumes afterwards.
func TestInterrupt(t *testing.T) {
	config, out := writeRun(t, "steps: 400\n")
	c := train(config)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	metrics := filepath.Join(out, "metrics.jsonl")
	for range 600 { // until it trains
		if info, err := os.Stat(metrics); err == nil && info.Size() > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	c.Wait()
	if code := c.ProcessState.ExitCode(); code != exit.Interrupted {
		t.Fatalf("exit code %d, want %d", code, exit.Interrupted)
	}
	saved, err := filepath.Glob(filepath.Join(out, "checkpoints", "step-*"))
	if err != nil || len(saved) == 0 {
		t.Errorf("no checkpoint (%v)", err)
	}
}
