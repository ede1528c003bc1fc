// Package mlflow sends a run to an MLflow tracking server through MLflow's REST API while the run trains.
//
// It reads the metrics from the run's event file, so that training never waits for the server. It asks the server
// what it already has: runs/get returns the last step of each metric. After an outage, a lost response, or the end of
// this process, it sends the rest, and nothing twice. The run directory stores the run ID, so that a resumed run
// continues the same MLflow run.
package mlflow

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"assay/internal/jsonfile"
	"assay/internal/trainer/events"
	"assay/internal/version"
)

// The statuses of a run.
const (
	Running  = "RUNNING"
	Finished = "FINISHED"
	Failed   = "FAILED"
	Killed   = "KILLED" // interrupted: may resume
)

// Run is what is sent.
type Run struct {
	Name   string
	Events string // the event file
	State  string // the file that stores the run ID
	Params map[string]string
	Files  map[string]string // files and folders to send when the run has finished, by artifact name
	Warn   func(text string)
}

// Tracker sends a run until it is closed. A nil Tracker sends nothing.
type Tracker struct {
	*Settings
	run   Run
	state state

	opened bool             // run, parameters and latest match the server
	latest map[string]int64 // last step of each metric at the server
	root   *url.URL         // URL of the run's files; nil: they cannot be sent
	at     int64            // bytes of the event file that the server has

	warned   sync.Once
	rejected sync.Once
	ctx      context.Context
	cancel   context.CancelFunc
	ending   chan struct{} // closed when the run has ended
	done     chan struct{} // closed when follow has returned

	mu     sync.Mutex
	expiry *time.Timer // cancels a Close without progress; nil: the run trains
}

// state is the content of a run's file.
type state struct {
	Server string `json:"server"`
	Key    string `json:"key"`    // the value of keyTag, which identifies the run if its ID was lost
	RunID  string `json:"run_id"` // "": the run has not been created there
}

// keyTag is the tag that holds the key of a run.
const keyTag = "assay.run"

// Start starts sending a run. It does not wait for the server.
func Start(s *Settings, run Run) (*Tracker, error) {
	t := &Tracker{Settings: s, run: run, ending: make(chan struct{}), done: make(chan struct{})}
	raw, err := os.ReadFile(run.State)
	if err == nil {
		err = json.Unmarshal(raw, &t.state)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", run.State, err)
	}
	if server := strings.TrimSuffix(s.address("/").String(), "/"); t.state.Server != server {
		t.state = state{Server: server, Key: rand.Text()}
	}
	if s.runID != "" {
		t.state.RunID = s.runID
	}
	if err := t.saveState(); err != nil {
		return nil, err
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	go t.follow()
	return t, nil
}

func (t *Tracker) saveState() error { return jsonfile.Write(t.run.State, t.state) }

// follow polls the event file and sends what is new, with backoff after failures.
func (t *Tracker) follow() {
	defer close(t.done)
	for wait := t.interval; ; {
		if err := t.send(); err == nil {
			wait = t.interval
		} else {
			t.warn(err)
			wait = min(2*wait, t.longest)
		}
		select {
		case <-t.ending:
			return
		case <-time.After(wait):
		}
	}
}

// warn warns once about a failure at the server.
func (t *Tracker) warn(err error) {
	if t.ctx.Err() != nil { // Close itself ended the request
		return
	}
	t.warned.Do(func() {
		t.run.Warn(fmt.Sprintf("MLflow at %s: %v: training continues; the missing data is sent later", t.state.Server,
			err))
	})
}

// warnRejected warns once that the server does not accept parameters.
func (t *Tracker) warnRejected(err error) {
	t.rejected.Do(func() {
		t.run.Warn(fmt.Sprintf("MLflow at %s rejects parameters: %v: the run there lacks them", t.state.Server, err))
	})
}

// send sends the part of the event file that the server does not have.
func (t *Tracker) send() error {
	if !t.opened {
		if err := t.open(); err != nil {
			return err
		}
	}
	for {
		b := batch{RunID: t.state.RunID}
		next, err := events.Read(t.run.Events, t.at, func(e events.Event) bool {
			if len(b.Metrics)+len(e.Scalars) > maxMetrics {
				return false
			}
			b.Metrics = t.appendMetrics(b.Metrics, e)
			return true
		})
		if err != nil || next == t.at {
			return err
		}
		if len(b.Metrics) > 0 {
			if err := t.call(t.ctx, "runs/log-batch", nil, b, nil); err != nil {
				t.opened = false // the server may have stored it anyway
				return err
			}
			t.alive(t.patience)
		}
		for _, m := range b.Metrics {
			t.latest[m.Key] = m.Step
		}
		t.at = next
	}
}

// unnamed matches characters that are not allowed in metric names.
var unnamed = regexp.MustCompile(`[^0-9A-Za-z_\-. :/]`)

// appendMetrics appends the scalars of an event that the server does not have. Event files hold 32-bit values, which
// are sent as the shortest decimal: 1e-05 rather than 9.999999747378752e-06.
func (t *Tracker) appendMetrics(list []metric, e events.Event) []metric {
	for _, s := range e.Scalars {
		m := metric{Key: unnamed.ReplaceAllString(s.Tag, "_"), Timestamp: int64(math.Round(e.Wall * 1000)), Step: e.Step}
		if last, ok := t.latest[m.Key]; ok && m.Step <= last {
			continue
		}
		switch {
		case math.IsNaN(s.Value):
			m.Value = json.RawMessage(`"NaN"`)
		case math.IsInf(s.Value, 0):
			m.Value = json.RawMessage(map[bool]string{true: `"Infinity"`, false: `"-Infinity"`}[s.Value > 0])
		default:
			m.Value = strconv.AppendFloat(nil, s.Value, 'g', -1, 32)
		}
		list = append(list, m)
	}
	return list
}

// open finds or creates the run at the server, and asks what the server already has.
func (t *Tracker) open() error {
	if t.state.RunID == "" {
		if err := t.begin(); err != nil {
			return err
		}
	}
	r, err := t.getRun(t.ctx, t.state.RunID)
	if code(err) == "RESOURCE_DOES_NOT_EXIST" && t.runID == "" { // a different server at the address: it gets everything
		if err := t.begin(); err != nil {
			return err
		}
		r, err = t.getRun(t.ctx, t.state.RunID)
	}
	if err != nil {
		return err
	}
	t.latest = map[string]int64{}
	for _, m := range r.Data.Metrics {
		step, err := m.Step.Int64()
		if err != nil {
			return fmt.Errorf("not an MLflow response: %w", err)
		}
		t.latest[m.Key] = step
	}
	t.root = t.artifactRoot(r.Info.ArtifactURI)
	if r.Info.Status != Running {
		if err := t.setStatus(t.ctx, t.state.RunID, Running); err != nil {
			return err
		}
	}
	t.opened = true
	return t.sendParams(r.Data.Params)
}

// begin creates the run at the server, unless an earlier attempt did and its response was lost.
func (t *Tracker) begin() error {
	experiment, err := t.findExperiment(t.ctx)
	if err != nil {
		return err
	}
	id, err := t.findRun(t.ctx, experiment, keyTag, t.state.Key)
	if err == nil && id == "" {
		tags := []pair{{keyTag, t.state.Key}, {"assay.version", version.Version}, {"mlflow.source.name", "assay train"},
			{"mlflow.source.type", "LOCAL"}}
		if user := os.Getenv("USER"); user != "" {
			tags = append(tags, pair{"mlflow.user", user})
		}
		for _, name := range slices.Sorted(maps.Keys(t.tags)) {
			tags = append(tags, pair{name, t.tags[name]})
		}
		id, err = t.createRun(t.ctx, experiment, cmp.Or(t.runName, t.run.Name), tags)
	}
	if err != nil {
		return err
	}
	t.state.RunID, t.at = id, 0
	return t.saveState()
}

// sendParams sends the parameters that the server lacks: it does not allow changes. If the server rejects them, it
// still gets the metrics.
func (t *Tracker) sendParams(there []pair) error {
	has := map[string]bool{}
	for _, p := range there {
		has[p.Key] = true
	}
	var missing []pair
	for _, key := range slices.Sorted(maps.Keys(t.run.Params)) {
		value := []rune(t.run.Params[key])
		if name := unnamed.ReplaceAllString(key, "_"); !has[name] {
			missing = append(missing, pair{name, string(value[:min(len(value), maxParamText)])})
		}
	}
	for part := range slices.Chunk(missing, maxParams) {
		err := t.call(t.ctx, "runs/log-batch", nil, batch{RunID: t.state.RunID, Params: part}, nil)
		var refused *statusError
		if errors.As(err, &refused) && refused.status == http.StatusBadRequest {
			t.warnRejected(err)
		} else if err != nil {
			t.opened = false
			return err
		}
	}
	return nil
}

// attempts is the number of retries to send the end of a run.
const attempts = 5

// Close ends a run with a status. It sends what is missing, including the files of a finished run, as long as there
// is progress, or until ctx ends. The next process sends what could not be sent.
func (t *Tracker) Close(ctx context.Context, status string) {
	if t == nil {
		return
	}
	defer t.cancel()
	patience := t.patience
	if status == Finished {
		defer context.AfterFunc(ctx, t.cancel)()
	} else {
		patience = min(patience, 5*time.Second)
	}
	t.mu.Lock()
	t.expiry = time.AfterFunc(patience, t.cancel)
	t.mu.Unlock()
	defer t.expiry.Stop()
	close(t.ending)
	<-t.done
	if !t.opened { // the server could not be reached a moment ago
		t.alive(min(patience, 5*time.Second))
	}
	failed := t.finish(status)
	for i := 0; failed != nil && t.ctx.Err() == nil && i < attempts; i++ {
		select {
		case <-t.ctx.Done():
		case <-time.After(t.interval << i):
			if err := t.finish(status); err == nil || t.ctx.Err() == nil { // ignore an attempt that Close ended
				failed = err
			}
		}
	}
	if errors.Is(failed, context.Canceled) {
		failed = errors.New("it does not respond")
	}
	if failed != nil && status == Finished {
		t.run.Warn(fmt.Sprintf("MLflow at %s lacks a part of the run: %v: rerun the same command to send it", t.state.Server,
			failed))
	}
}

// alive lets Close wait another d from now.
func (t *Tracker) alive(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expiry != nil && t.ctx.Err() == nil {
		t.expiry.Reset(d)
	}
}

// finish sends the rest of the events, the files of a finished run, and the status.
func (t *Tracker) finish(status string) error {
	if err := t.send(); err != nil {
		return err
	}
	if status == Finished && t.artifacts {
		if err := t.sendFiles(); err != nil {
			return err
		}
	}
	return t.setStatus(t.ctx, t.state.RunID, status)
}

// sendFiles uploads the files through the tracking server.
func (t *Tracker) sendFiles() error {
	if t.root == nil {
		t.run.Warn(fmt.Sprintf("MLflow at %s stores files where only MLflow's own client can write: the scorer is not sent "+
			"(mlflow server --serve-artifacts accepts files itself)", t.state.Server))
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(t.run.Files)) {
		err := t.upload(t.ctx, t.root, name, t.run.Files[name], func() { t.alive(t.timeout) })
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
	}
	t.alive(t.patience)
	return nil
}
