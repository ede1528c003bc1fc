package mlflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"time"
)

// statusError is a response of the server that is not 2xx.
type statusError struct {
	status  int
	Code    string `json:"error_code"` // MLflow's: RESOURCE_DOES_NOT_EXIST, ...
	Message string `json:"message"`
}

func (e *statusError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("it responded %d %s", e.status, http.StatusText(e.status))
	}
	return fmt.Sprintf("it responded %d %s: %s", e.status, e.Code, e.Message)
}

// code returns MLflow's code of an error; "": none.
func code(err error) string {
	var e *statusError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// call sends a request of the tracking API, such as "runs/get", with a query or a JSON body, and decodes the response
// into v.
func (s *Settings) call(ctx context.Context, name string, query url.Values, body, v any) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	u := s.address("/api/2.0/mlflow/" + name)
	u.RawQuery = query.Encode()
	method, text := http.MethodGet, []byte(nil)
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(text))
	if err != nil {
		return err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return s.do(r, v)
}

// do sends a request and decodes the JSON response into v; nil: it is ignored.
func (s *Settings) do(r *http.Request, v any) error {
	s.authorize(r)
	answer, err := s.client.Do(r)
	if e := new(url.Error); errors.As(err, &e) {
		err = e.Err // the address may hold a password
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no response in %v", s.timeout)
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<26))
	if err != nil {
		return err
	}
	if answer.StatusCode/100 != 2 {
		e := &statusError{}
		_ = json.Unmarshal(text, e) // a proxy's response may not be JSON
		e.status = answer.StatusCode
		return e
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("not an MLflow response: %w", err)
	}
	return nil
}

// pair is a parameter or a tag.
type pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// metric is a value of a curve. The value is a number, or "NaN", "Infinity", "-Infinity".
type metric struct {
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	Timestamp int64           `json:"timestamp"` // milliseconds since 1970
	Step      int64           `json:"step"`
}

// batch is the body of runs/log-batch: at most 1000 metrics, 100 parameters and 100 tags.
type batch struct {
	RunID   string   `json:"run_id"`
	Metrics []metric `json:"metrics,omitempty"`
	Params  []pair   `json:"params,omitempty"`
}

const (
	maxMetrics   = 1000
	maxParams    = 100
	maxParamText = 6000 // characters of a parameter
)

// runInfo is a run as the server describes it.
type runInfo struct {
	Info struct {
		RunID       string `json:"run_id"`
		Status      string `json:"status"`
		ArtifactURI string `json:"artifact_uri"`
	} `json:"info"`
	Data struct {
		Metrics []struct {
			Key  string      `json:"key"`
			Step json.Number `json:"step"`
		} `json:"metrics"` // the last value of each
		Params []pair `json:"params"`
	} `json:"data"`
}

// findExperiment returns the ID of the experiment, which it creates if the server has none of that name.
func (s *Settings) findExperiment(ctx context.Context) (string, error) {
	if s.experiment == "" {
		return s.experimentID, nil
	}
	var found struct {
		Experiment struct {
			ID string `json:"experiment_id"`
		} `json:"experiment"`
	}
	get := func() (string, error) {
		err := s.call(ctx, "experiments/get-by-name", url.Values{"experiment_name": {s.experiment}}, nil, &found)
		return found.Experiment.ID, err
	}
	id, err := get()
	if code(err) != "RESOURCE_DOES_NOT_EXIST" {
		return id, err
	}
	var made struct {
		ID string `json:"experiment_id"`
	}
	err = s.call(ctx, "experiments/create", nil, map[string]string{"name": s.experiment}, &made)
	if code(err) == "RESOURCE_ALREADY_EXISTS" { // created by another run meanwhile
		return get()
	}
	return made.ID, err
}

// findRun returns the ID of the run with a tag; "": none.
func (s *Settings) findRun(ctx context.Context, experiment, tag, value string) (string, error) {
	var found struct {
		Runs []runInfo `json:"runs"`
	}
	err := s.call(ctx, "runs/search", nil, map[string]any{"experiment_ids": []string{experiment}, "max_results": 1,
		"filter": fmt.Sprintf("tags.`%s` = '%s'", tag, value)}, &found)
	if err != nil || len(found.Runs) == 0 {
		return "", err
	}
	return found.Runs[0].Info.RunID, nil
}

// createRun creates a run and returns its ID.
func (s *Settings) createRun(ctx context.Context, experiment, name string, tags []pair) (string, error) {
	var made struct {
		Run runInfo `json:"run"`
	}
	err := s.call(ctx, "runs/create", nil, map[string]any{"experiment_id": experiment, "run_name": name,
		"start_time": time.Now().UnixMilli(), "tags": tags}, &made)
	if err == nil && made.Run.Info.RunID == "" {
		err = errors.New("not an MLflow response: no run_id")
	}
	return made.Run.Info.RunID, err
}

func (s *Settings) getRun(ctx context.Context, id string) (*runInfo, error) {
	var found struct {
		Run runInfo `json:"run"`
	}
	err := s.call(ctx, "runs/get", url.Values{"run_id": {id}}, nil, &found)
	return &found.Run, err
}

// setStatus sets the status of a run, which has ended unless it is running.
func (s *Settings) setStatus(ctx context.Context, id, status string) error {
	body := map[string]any{"run_id": id, "status": status}
	if status != Running {
		body["end_time"] = time.Now().UnixMilli()
	}
	return s.call(ctx, "runs/update", nil, body, nil)
}

// upload uploads a file, or the files of a folder, below root under a name. alive is called as bytes are sent.
func (s *Settings) upload(ctx context.Context, root *url.URL, name, from string, alive func()) error {
	return filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		to := *root
		to.Path, to.RawPath = path.Join(root.Path, name, filepath.ToSlash(rel)), ""
		return s.uploadFile(ctx, &to, file, alive)
	})
}

func (s *Settings) uploadFile(ctx context.Context, to *url.URL, file string, alive func()) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, to.String(), &aliveReader{f, alive})
	if err != nil {
		return err
	}
	r.ContentLength = info.Size()
	if info.Size() == 0 {
		r.Body = http.NoBody
	}
	r.Header.Set("Content-Type", "application/octet-stream")
	if err := s.do(r, nil); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// aliveReader calls alive at every read.
type aliveReader struct {
	io.Reader
	alive func()
}

func (a *aliveReader) Read(p []byte) (int, error) {
	a.alive()
	return a.Reader.Read(p)
}
