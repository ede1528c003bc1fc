// Package mlflowtest is a fake MLflow tracking server for tests, with the requests that a run makes. It responds as
// `mlflow server` 3.17 did with SQLite; tools/parity/tracking.py checks that against the real server. Unlike the real
// server, it detects values that are sent twice.
package mlflowtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
)

// Value is a value of a metric.
type Value struct {
	Step, Timestamp int64
	Value           string // JSON
}

// Run is a run at the server.
type Run struct {
	ID, Experiment, Name, Status string
	Tags, Params                 map[string]string
	Metrics                      map[string][]Value
	Files                        map[string]string
}

// Server is a tracking server.
type Server struct {
	*httptest.Server

	mu          sync.Mutex
	fault       func(w http.ResponseWriter, r *http.Request) bool
	experiments []string
	runs        []*Run
	doubles     []string
	requests    []string
}

// Start starts a server with the experiment Default.
func Start() *Server {
	s := &Server{experiments: []string{"Default"}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

// Fault sets a hook that is called before a request is served. It may respond itself, and then returns true. nil: no
// hook.
func (s *Server) Fault(fault func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Runs returns the runs so far, and the values that were sent twice.
func (s *Server) Runs() (runs []*Run, doubles []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs, s.doubles
}

// Requests returns the requests so far: method, path and Authorization header.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Answer serves a request as if no fault were set.
func (s *Server) Answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
	path, ok := strings.CutPrefix(r.URL.Path, "/api/2.0/mlflow-artifacts/artifacts/")
	if ok && r.Method == http.MethodPut {
		parts := strings.SplitN(path, "/", 4) // experiment, run, artifacts, file
		if run := s.run(parts[1]); run != nil {
			run.Files[parts[3]] = string(body)
		}
		return
	}
	var in request
	if len(body) > 0 && json.Unmarshal(body, &in) != nil {
		refuse(w, 400, "BAD_REQUEST", "no JSON")
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/api/2.0/mlflow/")
	handle := map[string]func(w http.ResponseWriter, r *http.Request, in *request){
		"GET experiments/get-by-name": s.getExperiment, "POST experiments/create": s.createExperiment,
		"POST runs/create": s.createRun, "GET runs/get": s.getRun, "POST runs/search": s.searchRuns,
		"POST runs/log-batch": s.logBatch, "POST runs/update": s.updateRun,
	}[r.Method+" "+name]
	if handle == nil {
		refuse(w, 404, "ENDPOINT_NOT_FOUND", name)
		return
	}
	handle(w, r, &in)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	fault := s.fault
	s.mu.Unlock()
	if fault == nil || !fault(w, r) {
		s.Answer(w, r)
	}
}

type pair struct{ Key, Value string }

// request is the body of any request.
type request struct {
	Name         string
	ExperimentID string `json:"experiment_id"`
	RunName      string `json:"run_name"`
	RunID        string `json:"run_id"`
	Status       string
	Filter       string
	Tags, Params []pair
	Metrics      []struct {
		Key             string
		Value           json.RawMessage
		Timestamp, Step int64
	}
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error_code": code, "message": message})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (s *Server) run(id string) *Run {
	for _, r := range s.runs {
		if r.ID == id {
			return r
		}
	}
	return nil
}

func (s *Server) getExperiment(w http.ResponseWriter, r *http.Request, _ *request) {
	for i, name := range s.experiments {
		if name == r.URL.Query().Get("experiment_name") {
			id := fmt.Sprint(i)
			answer(w, map[string]any{"experiment": map[string]any{"experiment_id": id, "name": name,
				"artifact_location": "mlflow-artifacts:/" + id, "lifecycle_stage": "active"}})
			return
		}
	}
	refuse(w, 404, "RESOURCE_DOES_NOT_EXIST", "Could not find experiment with name")
}

func (s *Server) createExperiment(w http.ResponseWriter, _ *http.Request, in *request) {
	s.experiments = append(s.experiments, in.Name)
	answer(w, map[string]string{"experiment_id": fmt.Sprint(len(s.experiments) - 1)})
}

func (s *Server) createRun(w http.ResponseWriter, _ *http.Request, in *request) {
	r := &Run{ID: fmt.Sprintf("run%d", len(s.runs)), Experiment: in.ExperimentID, Name: in.RunName, Status: "RUNNING",
		Tags: map[string]string{}, Params: map[string]string{}, Metrics: map[string][]Value{}, Files: map[string]string{}}
	for _, t := range in.Tags {
		r.Tags[t.Key] = t.Value
	}
	s.runs = append(s.runs, r)
	answer(w, map[string]any{"run": r.describe()})
}

// describe returns a run as runs/get does: each metric with the value of its last step.
func (r *Run) describe() map[string]any {
	var metrics []any
	for key, values := range r.Metrics {
		last := values[0]
		for _, v := range values {
			if v.Step >= last.Step {
				last = v
			}
		}
		metrics = append(metrics, map[string]any{"key": key, "value": json.RawMessage(last.Value),
			"timestamp": last.Timestamp, "step": last.Step})
	}
	var params []pair
	for key, value := range r.Params {
		params = append(params, pair{key, value})
	}
	return map[string]any{
		"info": map[string]any{"run_id": r.ID, "experiment_id": r.Experiment, "run_name": r.Name, "status": r.Status,
			"artifact_uri": "mlflow-artifacts:/" + r.Experiment + "/" + r.ID + "/artifacts", "lifecycle_stage": "active"},
		"data": map[string]any{"metrics": metrics, "params": params},
	}
}

func (s *Server) getRun(w http.ResponseWriter, r *http.Request, _ *request) {
	if run := s.run(r.URL.Query().Get("run_id")); run != nil {
		answer(w, map[string]any{"run": run.describe()})
		return
	}
	refuse(w, 404, "RESOURCE_DOES_NOT_EXIST", "Run with id not found")
}

var byTag = regexp.MustCompile("^tags.`(.+)` = '(.+)'$")

func (s *Server) searchRuns(w http.ResponseWriter, _ *http.Request, in *request) {
	m := byTag.FindStringSubmatch(in.Filter)
	if m == nil {
		refuse(w, 400, "INVALID_PARAMETER_VALUE", in.Filter)
		return
	}
	found := map[string]any{}
	for _, r := range s.runs {
		if r.Tags[m[1]] == m[2] {
			found["runs"] = []any{r.describe()}
		}
	}
	answer(w, found)
}

var allowed = regexp.MustCompile(`^[0-9A-Za-z_\-. :/]+$`)

func (s *Server) logBatch(w http.ResponseWriter, _ *http.Request, in *request) {
	r := s.run(in.RunID)
	if r == nil {
		refuse(w, 404, "RESOURCE_DOES_NOT_EXIST", "Run with id not found")
		return
	}
	if len(in.Metrics) > 1000 || len(in.Params) > 100 {
		refuse(w, 400, "INVALID_PARAMETER_VALUE", "A batch logging request can contain at most 1000 metrics, 100 params")
		return
	}
	for _, m := range in.Metrics {
		if !allowed.MatchString(m.Key) {
			refuse(w, 400, "INVALID_PARAMETER_VALUE", "Names may only contain alphanumerics, ...")
			return
		}
	}
	for _, p := range in.Params {
		if old, ok := r.Params[p.Key]; ok && old != p.Value || !allowed.MatchString(p.Key) || len(p.Value) > 6000 {
			refuse(w, 400, "INVALID_PARAMETER_VALUE", "Changing param values is not allowed")
			return
		}
		r.Params[p.Key] = p.Value
	}
	for _, m := range in.Metrics {
		for _, v := range r.Metrics[m.Key] {
			if v.Step == m.Step {
				s.doubles = append(s.doubles, fmt.Sprintf("%s of step %d", m.Key, m.Step))
			}
		}
		r.Metrics[m.Key] = append(r.Metrics[m.Key], Value{m.Step, m.Timestamp, string(m.Value)})
	}
	answer(w, struct{}{})
}

func (s *Server) updateRun(w http.ResponseWriter, _ *http.Request, in *request) {
	r := s.run(in.RunID)
	if r == nil {
		refuse(w, 404, "RESOURCE_DOES_NOT_EXIST", "Run with id not found")
		return
	}
	r.Status = in.Status
	answer(w, map[string]any{"run_info": r.describe()["info"]})
}
