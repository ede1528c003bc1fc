package mlflow

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/internal/trainer/events"
	"assay/internal/trainer/mlflow/mlflowtest"
)

// newRun starts a server, and returns settings with short waits and a run with an event file.
func newRun(t *testing.T) (*mlflowtest.Server, *Settings, *trial) {
	t.Helper()
	server := mlflowtest.Start()
	t.Cleanup(server.Close)
	for _, name := range os.Environ() {
		if name, _, _ := strings.Cut(name, "="); strings.HasPrefix(name, "MLFLOW_") || strings.HasPrefix(name, "HF_MLFLOW_") {
			t.Setenv(name, "")
		}
	}
	t.Setenv("MLFLOW_TRACKING_URI", server.URL)
	s, err := FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	hasten(s)
	dir := t.TempDir()
	r := &trial{t: t, Run: Run{Name: "first", Events: filepath.Join(dir, "events"),
		State:  filepath.Join(dir, "mlflow.json"),
		Params: map[string]string{"optimizer.lr": "0.01", "chat_template": ""},
		Files:  map[string]string{"scorer": filepath.Join(dir, "scorer"), "best": filepath.Join(dir, "none")}}}
	r.Warn = func(text string) { r.warned(text) }
	if err := os.MkdirAll(filepath.Join(dir, "scorer/a folder"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"scorer.yaml": "format: 1\n", "a folder/x+y%20.txt": "x", "empty": ""} {
		if err := os.WriteFile(filepath.Join(dir, "scorer", name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if r.events, err = events.Open(r.Events, 0, 1700000000); err != nil {
		t.Fatal(err)
	}
	return server, s, r
}

func hasten(s *Settings) {
	s.interval, s.longest, s.timeout, s.patience = time.Millisecond, 20*time.Millisecond, 2*time.Second, time.Second
}

type trial struct {
	Run
	t      *testing.T
	events *events.Writer
	step   int64

	mu       sync.Mutex
	warnings []string
}

func (r *trial) warned(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warnings = append(r.warnings, text)
}

// train writes n steps.
func (r *trial) train(n int) {
	r.t.Helper()
	for range n {
		r.step++
		err := r.events.Add(r.step, 1700000000.25+float64(r.step),
			events.Scalar{Tag: "train/loss", Value: 1 / float64(r.step)},
			events.Scalar{Tag: "train/lr/a(b)", Value: 1e-5})
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *trial) start(s *Settings) *Tracker {
	r.t.Helper()
	tracker, err := Start(s, r.Run)
	if err != nil {
		r.t.Fatal(err)
	}
	return tracker
}

// whole fails unless the server has one run with n steps, each once and in order, and with the status.
func whole(t *testing.T, server *mlflowtest.Server, n int, status string) *mlflowtest.Run {
	t.Helper()
	runs, doubles := server.Runs()
	if len(runs) != 1 || len(doubles) > 0 {
		t.Fatalf("got %d runs, %d values twice (%v), want 1 run, none twice", len(runs), len(doubles), doubles)
	}
	for _, key := range []string{"train/loss", "train/lr/a_b_"} {
		values := runs[0].Metrics[key]
		if len(values) != n {
			t.Fatalf("%s: got %d values, want %d", key, len(values), n)
		}
		for i, v := range values {
			want := mlflowtest.Value{Step: int64(i) + 1, Timestamp: 1700000001250 + int64(i)*1000, Value: "1e-05"}
			if key == "train/loss" {
				want.Value = fmt.Sprint(float32(1 / float64(i+1)))
			}
			if v != want {
				t.Fatalf("%s: got %+v, want %+v", key, v, want)
			}
		}
	}
	if runs[0].Status != status {
		t.Errorf("got status %s, want %s", runs[0].Status, status)
	}
	return runs[0]
}

// TestRun: a run has its values, parameters, tags and files, however they are batched.
func TestRun(t *testing.T) {
	server, _, r := newRun(t)
	t.Setenv("MLFLOW_EXPERIMENT_NAME", "new")
	t.Setenv("MLFLOW_TAGS", `{"team": "blue"}`)
	t.Setenv("MLFLOW_TRACKING_TOKEN", "secret")
	s, err := FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	hasten(s)
	for i := range 250 {
		r.Params[fmt.Sprintf("losses.%d(x)", i)] = strings.Repeat("é", 3000)
	}
	r.train(1700) // in several batches
	tracker := r.start(s)
	r.train(3)
	tracker.Close(t.Context(), Finished)
	run := whole(t, server, 1703, Finished)
	if run.Name != "first" || run.Experiment != "1" || run.Tags["team"] != "blue" || len(run.Params) != 252 ||
		run.Params["optimizer.lr"] != "0.01" {
		t.Errorf("got name %s, experiment %s, tags %v, %d parameters, want first, 1, team blue, 252", run.Name,
			run.Experiment, run.Tags, len(run.Params))
	}
	want := map[string]string{"scorer/scorer.yaml": "format: 1\n", "scorer/a folder/x+y%20.txt": "x", "scorer/empty": ""}
	if fmt.Sprint(run.Files) != fmt.Sprint(want) {
		t.Errorf("got files %q, want %q", run.Files, want)
	}
	for _, line := range server.Requests() {
		if !strings.HasSuffix(line, " Bearer secret") {
			t.Errorf("got %q, want the token with it", line)
		}
	}
	if len(r.warnings) > 0 {
		t.Errorf("got warnings %q, want none", r.warnings)
	}
}

// TestValues: NaN and infinities are sent in the form that MLflow uses.
func TestValues(t *testing.T) {
	server, s, r := newRun(t)
	for i, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0} {
		if err := r.events.Add(int64(i), 1, events.Scalar{Tag: "x", Value: v}); err != nil {
			t.Fatal(err)
		}
	}
	r.start(s).Close(t.Context(), Finished)
	runs, _ := server.Runs()
	var got []string
	for _, v := range runs[0].Metrics["x"] {
		got = append(got, v.Value)
	}
	if want := []string{`"NaN"`, `"Infinity"`, `"-Infinity"`, "0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestRejectedParams: a server that rejects the parameters, as older ones do with long values, gets the metrics.
func TestRejectedParams(t *testing.T) {
	server, s, r := newRun(t)
	server.Fault(func(w http.ResponseWriter, q *http.Request) bool {
		body, err := io.ReadAll(q.Body)
		q.Body = io.NopCloser(bytes.NewReader(body))
		if err != nil || !bytes.Contains(body, []byte(`"params"`)) {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		return true
	})
	tracker := r.start(s)
	r.train(3)
	tracker.Close(t.Context(), Finished)
	if run := whole(t, server, 3, Finished); len(run.Params) > 0 {
		t.Errorf("got parameters %v, want none", run.Params)
	}
	want := "MLflow at " + server.URL + " rejects parameters: it responded 400 Bad Request: the run there lacks them"
	if !slices.Equal(r.warnings, []string{want}) {
		t.Errorf("got warnings %q, want %q", r.warnings, want)
	}
}

// TestOutage: failures are reported once, and nothing is lost or duplicated.
func TestOutage(t *testing.T) {
	hang := func(r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client has gone
		<-r.Context().Done()
	}
	for name, fault := range map[string]func(s *mlflowtest.Server, w http.ResponseWriter, r *http.Request){
		"503":            func(_ *mlflowtest.Server, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"401":            func(_ *mlflowtest.Server, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) },
		"429":            func(_ *mlflowtest.Server, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) },
		"a broken line":  func(*mlflowtest.Server, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"no answer":      func(_ *mlflowtest.Server, _ http.ResponseWriter, r *http.Request) { hang(r) },
		"another's page": func(_ *mlflowtest.Server, w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"answers are lost": func(s *mlflowtest.Server, w http.ResponseWriter, r *http.Request) {
			s.Answer(&lost{}, r)
			hang(r)
		},
		"answers break off": func(s *mlflowtest.Server, _ http.ResponseWriter, r *http.Request) {
			s.Answer(&lost{}, r)
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, s, r := newRun(t)
			s.timeout = 30 * time.Millisecond
			var n atomic.Int32
			server.Fault(func(w http.ResponseWriter, q *http.Request) bool {
				if k := n.Add(1); k%4 == 0 || k > 8 { // every fourth request succeeds, and later all do
					return false
				}
				fault(server, w, q)
				return true
			})
			tracker := r.start(s)
			for range 10 {
				r.train(3)
				time.Sleep(time.Millisecond)
			}
			for deadline := time.Now().Add(20 * time.Second); n.Load() <= 8 && time.Now().Before(deadline); {
				r.train(1)
				time.Sleep(5 * time.Millisecond)
			}
			tracker.Close(t.Context(), Finished)
			whole(t, server, int(r.step), Finished)
			if len(r.warnings) != 1 || !strings.Contains(r.warnings[0], "training continues") {
				t.Errorf("got warnings %q, want one", r.warnings)
			}
		})
	}
}

// lost is a response that gets lost.
type lost struct{ header http.Header }

func (l *lost) Header() http.Header {
	if l.header == nil {
		l.header = http.Header{}
	}
	return l.header
}

func (l *lost) Write(p []byte) (int, error) { return len(p), nil }

func (l *lost) WriteHeader(int) {}

// TestResumes: processes that end in any way continue one run at the server, from its last step; steps that are
// repeated after a kill are not sent again. The next process sends what one could not send.
func TestResumes(t *testing.T) {
	server, s, r := newRun(t)
	first := r.start(s)
	r.train(7)
	waitFor(t, func() bool {
		runs, _ := server.Runs()
		return len(runs) == 1 && len(runs[0].Metrics["train/loss"]) == 7
	})
	first.cancel() // as if the process were killed, after a checkpoint of step 4
	close(first.ending)
	<-first.done
	cut, err := events.Read(r.Events, 0, func(e events.Event) bool { return e.Step <= 4 })
	if err != nil {
		t.Fatal(err)
	}
	if r.events, err = events.Open(r.Events, cut, 0); err != nil {
		t.Fatal(err)
	}
	r.step = 4
	second := r.start(s)
	r.train(6)
	second.Close(t.Context(), Killed)
	whole(t, server, 10, Killed)

	server.Fault(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(502); return true })
	third := r.start(s)
	r.train(2)
	third.Close(t.Context(), Finished)
	if n := len(r.warnings); n != 2 || !strings.Contains(r.warnings[1], "rerun the same command to send it") {
		t.Errorf("got warnings %q, want that it cannot be reached, and that a part is missing", r.warnings)
	}
	server.Fault(nil)
	r.start(s).Close(t.Context(), Finished)
	whole(t, server, 12, Finished)
}

func waitFor(t *testing.T, ready func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ready(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server does not get what it is to have")
		}
	}
}

// TestOtherServer: a server that does not know the run gets the full run.
func TestOtherServer(t *testing.T) {
	_, s, r := newRun(t)
	r.train(3)
	r.start(s).Close(t.Context(), Finished)
	for _, move := range []bool{true, false} { // to another address; to the same
		other := mlflowtest.Start()
		defer other.Close()
		u := s.address("/")
		u.Host = strings.TrimPrefix(other.URL, "http://")
		s.server = u
		if !move {
			text, err := os.ReadFile(r.State)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(r.State, []byte(strings.ReplaceAll(string(text), "run0", "gone")), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		r.train(1)
		r.start(s).Close(t.Context(), Finished)
		whole(t, other, int(r.step), Finished)
	}
}

// TestHangingEnd: a server that does not respond at the end does not delay the run for long.
func TestHangingEnd(t *testing.T) {
	server, s, r := newRun(t)
	s.patience = 100 * time.Millisecond
	server.Fault(func(_ http.ResponseWriter, q *http.Request) bool {
		_, _ = io.Copy(io.Discard, q.Body)
		<-q.Context().Done()
		return true
	})
	for _, status := range []string{Finished, Killed, Failed} {
		begin := time.Now()
		tracker := r.start(s)
		r.train(1)
		tracker.Close(t.Context(), status)
		if took := time.Since(begin); took > s.timeout {
			t.Errorf("%s: got %v, want about %v", status, took, s.patience)
		}
	}
	if len(r.warnings) != 1 || !strings.Contains(r.warnings[0], "it does not respond: rerun the same command") {
		t.Errorf("got warnings %q, want one, of the run that has finished", r.warnings)
	}
}

// TestFiles: files go through the tracking server or not at all, and disabled files are not sent.
func TestFiles(t *testing.T) {
	server, s, r := newRun(t)
	s.artifacts = false
	r.train(1)
	r.start(s).Close(t.Context(), Finished)
	if run := whole(t, server, 1, Finished); len(run.Files) > 0 {
		t.Errorf("HF_MLFLOW_LOG_ARTIFACTS=0: got files %v, want none", run.Files)
	}
	const api = "/api/2.0/mlflow-artifacts/artifacts/"
	for uri, want := range map[string]string{"mlflow-artifacts:/1/r/artifacts": server.URL + api + "1/r/artifacts",
		"mlflow-artifacts://other:9/1/r": "http://other:9" + api + "1/r", "s3://bucket/1": "", "/a/b": "",
		"http://other" + api + "1": "http://other" + api + "1"} {
		got := ""
		if u := s.artifactRoot(uri); u != nil {
			got = u.String()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", uri, got, want)
		}
	}
}

// TestCertificates: a server of https is trusted by MLflow's variables, and not without them.
func TestCertificates(t *testing.T) {
	newRun(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Setenv("MLFLOW_TRACKING_URI", server.URL)
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(bundle, block, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		variable, value string
		trusted         bool
	}{
		{"MLFLOW_TRACKING_INSECURE_TLS", "false", false},
		{"MLFLOW_TRACKING_INSECURE_TLS", "true", true},
		{"MLFLOW_TRACKING_SERVER_CERT_PATH", bundle, true},
	} {
		t.Run(c.variable+"="+filepath.Base(c.value), func(t *testing.T) {
			t.Setenv(c.variable, c.value)
			s, err := FromEnvironment()
			if err != nil {
				t.Fatal(err)
			}
			if err := s.call(t.Context(), "x", nil, nil, nil); (err == nil) != c.trusted {
				t.Errorf("got error %v, want trusted: %v", err, c.trusted)
			}
		})
	}
}

// TestSettings: authentication as in MLflow's client, and settings that are refused.
func TestSettings(t *testing.T) {
	newRun(t)
	for name, c := range map[string]struct {
		variables map[string]string
		want      string // the Authorization
		fails     string
	}{
		"nobody":  {nil, "", ""},
		"a token": {map[string]string{"MLFLOW_TRACKING_TOKEN": "t"}, "Bearer t", ""},
		"a password": {map[string]string{"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "p",
			"MLFLOW_TRACKING_TOKEN": "t"}, "Basic dTpw", ""},
		"in the URI": {map[string]string{"MLFLOW_TRACKING_URI": "http://u:p@host"}, "Basic dTpw", ""},
		"no server":  {map[string]string{"MLFLOW_TRACKING_URI": ""}, "", "want the URL of a tracking server"},
		"a folder":   {map[string]string{"MLFLOW_TRACKING_URI": "sqlite:///m.db"}, "", `"sqlite:///m.db"`},
		"tags":       {map[string]string{"MLFLOW_TAGS": "[1]"}, "", "MLFLOW_TAGS"},
		"a timeout":  {map[string]string{"MLFLOW_HTTP_REQUEST_TIMEOUT": "0"}, "", "want seconds"},
		"no bundle":  {map[string]string{"MLFLOW_TRACKING_SERVER_CERT_PATH": "/none"}, "", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.variables {
				t.Setenv(k, v)
			}
			s, err := FromEnvironment()
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("got error %v, want one with %q", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			q := &http.Request{URL: s.address("/api"), Header: http.Header{}}
			s.authorize(q)
			if got := q.Header.Get("Authorization"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			q = &http.Request{URL: s.artifactRoot("http://other/x"), Header: http.Header{}}
			if s.authorize(q); q.Header.Get("Authorization") != "" {
				t.Error("got the secret shown to another host, want it kept")
			}
		})
	}
	_, s, r := newRun(t)
	r.State = t.TempDir()
	if _, err := Start(s, r.Run); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("a state that cannot be read: got error %v, want one", err)
	}
}
