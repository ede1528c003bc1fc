package trainer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/internal/exit"
	"assay/internal/long"
	"assay/internal/trainer/mlflow/mlflowtest"
	"assay/internal/trainer/records"
)

// tracked fails unless the server has one run, with the values in metrics.jsonl for every step and validation, each
// once.
func tracked(t *testing.T, server *mlflowtest.Server, path, status string) *mlflowtest.Run {
	t.Helper()
	runs, doubles := server.Runs()
	if len(runs) != 1 || len(doubles) > 0 {
		t.Fatalf("got %d runs, %d values twice (%v), want 1 run, none twice", len(runs), len(doubles), doubles)
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "out", records.MetricsFile))
	if err != nil {
		t.Fatal(err)
	}
	want, got := map[string][]string{}, map[string][]string{}
	for line := range strings.Lines(string(text)) {
		var m struct {
			Kind     string
			Step     int64
			Loss, L1 records.Number
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		key, value := "train/loss", m.Loss
		if m.Kind == "validation" {
			key, value = "validation/l1", m.L1
		}
		want[key] = append(want[key], fmt.Sprintf("%d: %v", m.Step, float32(value)))
	}
	for key := range want {
		for _, v := range runs[0].Metrics[key] {
			var f float32
			if err := json.Unmarshal([]byte(v.Value), &f); err != nil {
				t.Fatal(err)
			}
			got[key] = append(got[key], fmt.Sprintf("%d: %v", v.Step, f))
		}
		if !slices.Equal(got[key], want[key]) {
			t.Errorf("%s: got %v, want %v", key, got[key], want[key])
		}
	}
	if runs[0].Status != status {
		t.Errorf("got status %s, want %s", runs[0].Status, status)
	}
	return runs[0]
}

// TestTracked: MLflow gets a run's curves, parameters and scorer; a resumed run continues the same MLflow run.
func TestTracked(t *testing.T) {
	server := mlflowtest.Start()
	defer server.Close()
	t.Setenv("MLFLOW_TRACKING_URI", server.URL)
	path := writeRun(t, 40, "epochs: 2\nvalidate: {every: 4}\nreport_to: [tensorboard, mlflow]\n")
	train(t, path, newFake())
	r := tracked(t, server, path, "FINISHED")
	if r.Name != "out" || r.Params["optimizer.lr"] != "0.01" || r.Params["schedule.kind"] != "cosine" {
		t.Errorf("got name %s, parameters %v, want out, lr 0.01, cosine", r.Name, r.Params)
	}
	for _, name := range []string{"scorer/weights.txt", "best/weights.txt", "report.html", "config.yaml"} {
		want, err := os.ReadFile(filepath.Join(filepath.Dir(path), "out", name))
		if err != nil || r.Files[name] != string(want) {
			t.Errorf("%s: got %d bytes, %v, want the run's %d", name, len(r.Files[name]), err, len(want))
		}
	}
	train(t, path, newFake()) // nothing left to do
	tracked(t, server, path, "FINISHED")
	c := load(t, path)
	if _, err := Train(t.Context(), Options{Config: c, Factory: newFake().factory, Fresh: true}); err != nil {
		t.Fatal(err)
	}
	if runs, _ := server.Runs(); len(runs) != 2 {
		t.Errorf("--fresh: got %d runs, want a new one", len(runs))
	}
}

// TestTrackedInterrupt: MLflow gets the status of an interrupted run, and the resumed run is the same MLflow run.
func TestTrackedInterrupt(t *testing.T) {
	server := mlflowtest.Start()
	defer server.Close()
	t.Setenv("MLFLOW_TRACKING_URI", server.URL)
	path := writeRun(t, 40, "epochs: 2\nreport_to: mlflow\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := newFake()
	f.steps = func(n int) {
		if n == 9 { // the first half of step 5
			cancel()
		}
	}
	_, err := Train(ctx, Options{Config: load(t, path), Factory: f.factory})
	if exit.Code(err) != exit.Interrupted {
		t.Fatal(err)
	}
	if r := tracked(t, server, path, "KILLED"); len(r.Metrics["train/loss"]) != 5 || len(r.Files) > 0 {
		t.Errorf("got %d steps, %d files, want 5 steps, no file yet", len(r.Metrics["train/loss"]), len(r.Files))
	}
	train(t, path, newFake())
	tracked(t, server, path, "FINISHED")
}

// TestTrackedKills repeatedly kills a run with SIGKILL, with a server that fails, hangs and loses responses. In the
// end the server has each value once.
func TestTrackedKills(t *testing.T) {
	long.Test(t)
	server := mlflowtest.Start()
	defer server.Close()
	var n atomic.Int64
	server.Fault(func(w http.ResponseWriter, q *http.Request) bool {
		switch n.Add(1) % 7 {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			body, _ := io.ReadAll(q.Body)
			q.Body = io.NopCloser(strings.NewReader(string(body)))
			server.Answer(&lostAnswer{}, q)
			panic(http.ErrAbortHandler)
		case 4:
			_, _ = io.Copy(io.Discard, q.Body)
			select {
			case <-q.Context().Done():
			case <-time.After(50 * time.Millisecond):
			}
			panic(http.ErrAbortHandler)
		default:
			return false
		}
		return true
	})
	t.Setenv("MLFLOW_TRACKING_URI", server.URL)
	path := writeRun(t, 60, "epochs: 4\nvalidate: {every: 5}\ncheckpoint: {steps: 3, keep: 2}\nreport_to: mlflow\n")
	kills := killedUntilTheEnd(t, path, 5, func(before time.Duration, _ int) time.Duration {
		return max(90*time.Millisecond, before*9/8) // the first process survives until a checkpoint
	})
	t.Logf("%d kills, %d requests", kills, n.Load())
	server.Fault(nil)
	train(t, path, newFake()) // sends what the previous process could not
	tracked(t, server, path, "FINISHED")
}

// lostAnswer is a response that gets lost.
type lostAnswer struct{}

func (lostAnswer) Header() http.Header { return http.Header{} }

func (lostAnswer) Write(p []byte) (int, error) { return len(p), nil }

func (lostAnswer) WriteHeader(int) {}

// TestUntracked: an unreachable server only causes a warning, and report_to: none writes no event file.
func TestUntracked(t *testing.T) {
	gone := mlflowtest.Start()
	gone.Close()
	quiet := writeRun(t, 40, "epochs: 2\nreport_to: none\n")
	train(t, quiet, newFake())
	files, err := filepath.Glob(filepath.Join(filepath.Dir(quiet), "out", "events*"))
	if err != nil || len(files) > 0 {
		t.Errorf("report_to: none: got %v, %v, want no event file", files, err)
	}
	t.Setenv("MLFLOW_TRACKING_URI", gone.URL)
	path := writeRun(t, 40, "epochs: 2\nreport_to: [mlflow]\n")
	var warnings []string
	_, err = Train(t.Context(), Options{Config: load(t, path), Factory: newFake().factory,
		Warn: func(text string) {
			if strings.Contains(text, "MLflow") {
				warnings = append(warnings, text)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 2 || !strings.Contains(warnings[0], "training continues") ||
		!strings.Contains(warnings[1], "rerun the same command to send it") {
		t.Errorf("got warnings %q, want one at the beginning and one at the end", warnings)
	}
	if got, want := weights(t, path), weights(t, quiet); got != want {
		t.Errorf("got other weights, want the same ones")
	}
	t.Setenv("MLFLOW_TRACKING_URI", "file:///runs")
	_, err = Train(t.Context(), Options{Config: load(t, path), Factory: newFake().factory})
	if exit.Code(err) != exit.Wrong {
		t.Errorf("no server: got error %v, exit code %d, want %d", err, exit.Code(err), exit.Wrong)
	}
}

func weights(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(path), "out/scorer/weights.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestTrackedRanks: with several processes, the first one reports.
func TestTrackedRanks(t *testing.T) {
	server := mlflowtest.Start()
	defer server.Close()
	t.Setenv("MLFLOW_TRACKING_URI", server.URL)
	path := withMicro(t, writeRun(t, 40, "epochs: 1\nreport_to: mlflow\n"), 1)
	results, errs, _ := together(t, 3, func(_ int, o *Options, _ *fake) { o.Config = load(t, path) })
	firstOf(t, results, errs)
	tracked(t, server, path, "FINISHED")
}
