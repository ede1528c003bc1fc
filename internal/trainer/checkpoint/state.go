// Package checkpoint saves and restores a run: tensors (parameters and optimizer state) as slices, of which each
// process may have some, and a State of counters, metrics and fingerprints. It also manages the run directory: the
// lock, and folders that are replaced atomically.
package checkpoint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"assay/checkpoints"
	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/exit"
	"assay/internal/filelock"
	"assay/internal/optim"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/records"
)

// The files of a checkpoint.
const (
	stateFile  = "state.json"
	TensorFile = "state.safetensors"
)

// State is what a checkpoint holds besides tensors. The order of samples, the templates, augmentation and dropout are
// functions of seed and step, so no generator is saved.
type State struct {
	Format int `json:"format"`
	Progress
	Validations
	Train    *records.StepMetrics           `json:"train,omitempty"`    // of the last step
	Plateaus map[string]*optim.PlateauState `json:"plateaus,omitempty"` // of schedules of that kind, by group
	// Completions are the answers that the next step also learns from, by the index of their prompt in the batch.
	Completions map[int][]dataset.Completion `json:"completions,omitempty"`
	Identity

	began  time.Time // when training in this process began
	before float64   // seconds of training in earlier processes
}

// Progress is how far a run has got.
type Progress struct {
	Step       int64   `json:"step"`             // optimizer steps done, skipped ones included
	Updates    int64   `json:"updates"`          // updates of the optimizer, t of Adam
	Samples    int64   `json:"samples"`          // samples seen: epoch times samples per epoch plus index
	Edits      int64   `json:"edits,omitempty"`  // edits seen, if Samples counts whole groups
	Before     int64   `json:"before,omitempty"` // Samples before the last step
	MicroBatch int     `json:"micro_batch"`      // chosen when the run began
	Seconds    float64 `json:"seconds"`          // of training until the last checkpoint
	Metrics    int64   `json:"metrics"`          // bytes of metrics.jsonl
	Events     int64   `json:"events"`           // bytes of the event file
	EventsFile string  `json:"events_file"`
}

// Validations are the last validation and the best one.
type Validations struct {
	Validated int64                      `json:"validated"` // last step whose validation is in the metrics
	Last      *records.ValidationMetrics `json:"last,omitempty"`
	Best      *records.ValidationMetrics `json:"best,omitempty"`
	Worse     int64                      `json:"worse,omitempty"` // validations since the best one
}

// Identity is what must be unchanged when a run resumes.
type Identity struct {
	Config string            `json:"config"`          // YAML
	Model  map[string]string `json:"model"`           // fingerprint
	Files  map[string]string `json:"files,omitempty"` // digests of the backbone's files
	Data   map[string]string `json:"data"`            // hash and count of the tables

	Benchmark map[string]string `json:"benchmark,omitempty"` // fingerprint of the benchmark of validate.by
	Kernels   string            `json:"kernels,omitempty"`   // plain, fused; "" in earlier versions: plain
	JPEG      string            `json:"jpeg,omitempty"`      // decoder; "" in earlier versions: Go's
}

// Begin starts counting training time.
func (s *State) Begin() { s.began, s.before = time.Now(), s.Seconds }

// Elapsed returns the training time so far, in seconds.
func (s *State) Elapsed() float64 { return s.before + time.Since(s.began).Seconds() }

// Exhausted reports whether patience validations in a row were no better than the best one; with patience 0 it is
// false.
func (s *State) Exhausted(patience int64) bool { return patience > 0 && s.Worse >= patience }

// Seen returns the number of edits that the run has seen.
func (s *State) Seen(groups bool) int64 {
	if groups {
		return s.Edits
	}
	return s.Samples
}

// Checkpointer records when the last checkpoint was saved.
type Checkpointer struct {
	Step int64
	Time time.Time
}

// Due reports whether the run's configuration requires a checkpoint at a step.
func (k *Checkpointer) Due(c *config.CheckpointConfig, step int64) bool {
	return c.Steps > 0 && step-k.Step >= c.Steps || c.Minutes > 0 && time.Since(k.Time).Minutes() >= c.Minutes
}

// Find reads the state of the newest good checkpoint below a run directory; nil if there is none. problem reports
// damaged checkpoints that were skipped.
func Find(out string) (s *State, dir string, problem error, err error) {
	dir, _, err = checkpoints.Latest(filepath.Join(out, config.CheckpointsDir))
	var damaged *checkpoints.DamagedError
	if errors.As(err, &damaged) && dir != "" {
		problem, err = err, nil
	}
	if err != nil || dir == "" {
		return nil, "", problem, err
	}
	path := filepath.Join(dir, stateFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, "", problem, err
	}
	s = &State{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, "", problem, fmt.Errorf("%s: %w", path, err)
	}
	if s.Format != 1 {
		return nil, "", problem, fmt.Errorf("%s: this program reads format 1, not %d", path, s.Format)
	}
	return s, dir, problem, nil
}

// Write writes a checkpoint of tensors and a state; each passes the contents of the tensors, in any order.
func Write(c *config.Config, s *State, tensors []Slice, each func(put Putter) error) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	root := filepath.Join(c.Out, config.CheckpointsDir)
	return checkpoints.Save(root, s.Step, c.Checkpoint.Keep, func(dir string) error {
		if err := writeTensors(filepath.Join(dir, TensorFile), tensors, each); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, stateFile), append(text, '\n'), 0o666)
	})
}

// ReplaceDir writes a folder atomically, replacing one that may exist: the new folder is written next to it, synced
// and renamed.
func ReplaceDir(path string, write func(dir string) error) error {
	fresh, old := hiddenSibling(path, "new"), hiddenSibling(path, "old")
	if err := errors.Join(os.RemoveAll(fresh), os.RemoveAll(old)); err != nil {
		return err
	}
	if err := atomicfile.WriteDir(fresh, write); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(path, old); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	return os.RemoveAll(old)
}

// Tidy removes temporary files and folders that killed processes left. A folder that ReplaceDir had just moved away
// is restored.
func Tidy(out string) error {
	var errs []error
	files, err := filepath.Glob(filepath.Join(atomicfile.QuoteGlob(out), ".*.tmp"))
	errs = append(errs, err)
	for _, name := range files {
		errs = append(errs, os.RemoveAll(name))
	}
	for _, name := range config.ResultDirs {
		path := filepath.Join(out, name)
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			if err := os.Rename(hiddenSibling(path, "old"), path); err != nil && !errors.Is(err, os.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		for _, dir := range []string{hiddenSibling(path, "new"), hiddenSibling(path, "old")} {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// hiddenSibling returns the name of a hidden folder next to path.
func hiddenSibling(path, what string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+what)
}

// WriteConfig writes the resolved configuration into the run directory.
func WriteConfig(c *config.Config) error {
	text, err := c.Loadable()
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(c.Out, config.ConfigFile), text)
}

// written are the names in a run directory that only a run may have: a new one removes or overwrites them. PlanFile is
// none of them: it is written before them and never removed, so that it tells a run directory from any other.
var written = append([]string{config.CheckpointsDir, records.MetricsFile, dataset.RowsFile, dataset.BadRowsFile,
	records.PredictionsFile, config.ConfigFile, config.MLflowFile, config.WandBFile}, config.ResultDirs...)

// Foreign lists what a new run would remove or overwrite in a folder that is not a run directory.
func Foreign(out string) (names []string, err error) {
	has := func(name string) bool {
		_, failed := os.Lstat(filepath.Join(out, name))
		if failed != nil && !errors.Is(failed, os.ErrNotExist) {
			err = failed
		}
		return failed == nil
	}
	if has(config.PlanFile) || err != nil {
		return nil, err
	}
	for _, name := range written {
		if has(name) {
			names = append(names, name)
		}
	}
	return names, err
}

// RemoveRun removes what an earlier run left in a run directory, except PlanFile.
func RemoveRun(out string) error {
	old, err := filepath.Glob(filepath.Join(atomicfile.QuoteGlob(out), "events.out.tfevents.*.assay"))
	for _, name := range written {
		path := filepath.Join(out, name)
		old = append(old, path, hiddenSibling(path, "new"), hiddenSibling(path, "old"))
	}
	for _, path := range old {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// ForgetBest drops validations made with a different benchmark, which are no longer comparable. The scorer of the
// checkpoint is measured again.
func (s *State) ForgetBest() {
	s.Validations = Validations{}
	for _, p := range s.Plateaus {
		*p = optim.PlateauState{Cuts: p.Cuts}
	}
}

// InconsistentError occurred after the parameters had changed: the recorded state does not match them, so they must
// not be saved.
type InconsistentError struct{ Err error }

func (e *InconsistentError) Error() string { return e.Err.Error() }

// Unwrap returns the underlying error.
func (e *InconsistentError) Unwrap() error { return e.Err }

// Held is a locked run directory.
type Held struct {
	file  *os.File
	out   string
	owner string // as written into the file
	made  bool   // the file
}

// ownerPrefix begins what a process writes into the file.
const ownerPrefix = "process "

// Lock keeps a second process out of a run directory. Some network file systems lock for one machine alone: the process
// also writes its name into the file, so that [Held.Check] notices if a later one did.
func Lock(out string) (*Held, error) {
	path := filepath.Join(out, ".lock")
	_, absent := os.Lstat(path)
	f, err := filelock.Take(path)
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, fmt.Errorf("another process trains in %s: wait for it, or use another out", out)
	case err != nil:
		return nil, fmt.Errorf("the run directory %s: %w", out, err)
	}
	if old, err := os.ReadFile(path); err == nil && len(old) > 0 && !bytes.HasPrefix(old, []byte(ownerPrefix)) {
		f.Close()
		return nil, exit.Usagef("%s is not the lock of a run, which would replace it: use another out", path)
	}
	host, _ := os.Hostname() // the rest tells processes apart
	h := &Held{file: f, out: out, made: errors.Is(absent, os.ErrNotExist)}
	h.owner = fmt.Sprintf(ownerPrefix+"%d on %s, since %s\n", os.Getpid(), host, time.Now().Format(time.RFC3339Nano))
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteString(h.owner)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("the run directory %s: %w", out, err)
	}
	return h, nil
}

// Check returns an error if another process has locked the run directory since.
func (h *Held) Check() error {
	owner, err := os.ReadFile(filepath.Join(h.out, ".lock"))
	if errors.Is(err, os.ErrNotExist) || err == nil && string(owner) == h.owner {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the run directory %s: %w", h.out, err)
	}
	return fmt.Errorf("another process trains in %s as well (%s), and locks do not keep it out: this one ends, and has "+
		"not saved its last steps; use another out", h.out, strings.TrimSpace(string(owner)))
}

// Forget removes the lock's file from a folder that is no run directory, unless it was there before.
func (h *Held) Forget() error {
	if !h.made {
		return nil
	}
	return os.Remove(h.file.Name())
}

// Close unlocks the run directory.
func (h *Held) Close() { h.file.Close() }

// BenchmarkPrefix is the prefix of the fingerprint names of a benchmark.
const BenchmarkPrefix = "validate.benchmark: "

// Differences lists what differs from the checkpoint.
func Differences(old, now *State) ([]string, error) {
	past, err := config.Values([]byte(old.Config))
	if err != nil {
		return nil, fmt.Errorf("the configuration of the checkpoint: %w", err)
	}
	present, err := config.Values([]byte(now.Config))
	if err != nil {
		return nil, err
	}
	usual, err := config.Default().YAML()
	if err != nil {
		return nil, err
	}
	before, err := config.Values(usual)
	if err != nil {
		return nil, err
	}
	// A checkpoint of an earlier version lacks newer keys: they had their defaults.
	if _, ok := past["lora.parts"]; !ok { // except this one: what is trained was compared already
		before["lora.parts"] = present["lora.parts"]
	}
	for name := range past { // a map that is empty in the defaults
		for i, c := range name {
			if c == '.' {
				delete(before, name[:i])
			}
		}
	}
	maps.Copy(before, past)
	out := config.Changed("", before, present)
	out = append(out, config.Changed("model: ", old.Model, now.Model)...)
	if len(old.Files) > 0 && len(now.Files) > 0 { // earlier versions recorded none
		out = append(out, config.Changed("backbone: ", old.Files, now.Files)...)
	}
	out = append(out, config.Changed("data: ", old.Data, now.Data)...)
	if was, is := cmp.Or(old.JPEG, data.GoDecoder), cmp.Or(now.JPEG, data.GoDecoder); was != is {
		out = append(out, fmt.Sprintf("JPEG decoder: %s in the checkpoint, %s now (%s=go: Go's)", was, is, data.JPEGEnv))
	}
	return append(out, config.Changed(BenchmarkPrefix, old.Benchmark, now.Benchmark)...), nil
}
