package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"assay/checkpoints"
	"assay/internal/atomicfile"
	"assay/optim"
)

// The files of a run directory and of a checkpoint.
const (
	ConfigFile     = "config.yaml" // as resolved
	CheckpointsDir = "checkpoints"
	ScorerDir      = "scorer" // the result
	BestDir        = "best"   // the scorer of the lowest validation L1
	stateFile      = "state.json"
	tensorFile     = "state.safetensors"
)

// state is what a checkpoint holds besides tensors. The order of samples, the templates, augmentation and dropout are
// functions of seed and step, so no generator is saved.
type state struct {
	Format     int     `json:"format"`
	Step       int64   `json:"step"`             // optimizer steps done, skipped ones included
	Updates    int64   `json:"updates"`          // updates of the optimizer, t of Adam
	Samples    int64   `json:"samples"`          // seen: epoch times samples of an epoch plus index
	Edits      int64   `json:"edits,omitempty"`  // seen, where Samples counts whole groups
	Before     int64   `json:"before,omitempty"` // Samples before the last step
	MicroBatch int     `json:"micro_batch"`      // as chosen when the run began
	Seconds    float64 `json:"seconds"`          // of training so far
	Metrics    int64   `json:"metrics"`          // bytes of metrics.jsonl
	Events     int64   `json:"events"`           // bytes of the event file
	EventsFile string  `json:"events_file"`

	Validated int64              `json:"validated"` // last step whose validation is in the metrics
	Last      *ValidationMetrics `json:"last,omitempty"`
	Best      *ValidationMetrics `json:"best,omitempty"`
	Worse     int64              `json:"worse,omitempty"` // validations since the best one
	Train     *StepMetrics       `json:"train,omitempty"` // of the last step

	Plateaus map[string]*optim.PlateauState `json:"plateaus,omitempty"` // of schedules of that kind, by group

	Config string            `json:"config"`          // YAML
	Model  map[string]string `json:"model"`           // fingerprint
	Files  map[string]string `json:"files,omitempty"` // digests of the backbone's
	Data   map[string]string `json:"data"`            // hash and count of the tables

	Benchmark map[string]string `json:"benchmark,omitempty"` // fingerprint of the one that validate.by names

	began  time.Time // of this process's training
	before float64   // seconds of training in earlier processes
}

// seen is the number of edits that the run has seen.
func (s *state) seen(l *Loader) int64 {
	if l.Groups != nil {
		return s.Edits
	}
	return s.Samples
}

// seconds is the time of training so far.
func (s *state) seconds() float64 { return s.before + time.Since(s.began).Seconds() }

// checkpointer knows when the last checkpoint was saved.
type checkpointer struct {
	step int64
	time time.Time
}

// due is true if the run's configuration wants a checkpoint at a step.
func (k *checkpointer) due(c *CheckpointConfig, step int64) bool {
	return c.Steps > 0 && step-k.step >= c.Steps || c.Minutes > 0 && time.Since(k.time).Minutes() >= c.Minutes
}

// saveIfDue writes a checkpoint if it is time.
func (t *Trainer) saveIfDue() (err error) {
	c := &t.config.Checkpoint
	due := t.checkpoints.due(c, t.state.Step)
	if c.Minutes > 0 { // where all processes write it, the main one looks at its clock
		due, err = t.strategy.due(due)
	}
	if err != nil || !due {
		return err
	}
	return t.save()
}

// save writes a checkpoint of parameters, moments and state.
func (t *Trainer) save() error {
	if err := t.strategy.save(t.optimizer, t.writeCheckpoint); err != nil {
		return err
	}
	t.checkpoints.step, t.checkpoints.time = t.state.Step, time.Now()
	return nil
}

// writeCheckpoint writes a checkpoint of tensors; each gives their contents, whose order does not matter.
func (t *Trainer) writeCheckpoint(tensors []tensorSlice, each func(put putter) error) error {
	if err := t.records.note(&t.state); err != nil {
		return err
	}
	s := &t.state
	s.Updates, s.Seconds = t.optimizer.groups.Updates(), s.seconds()
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	root := filepath.Join(t.config.Out, CheckpointsDir)
	return checkpoints.Save(root, s.Step, t.config.Checkpoint.Keep, func(dir string) error {
		if err := writeTensors(filepath.Join(dir, tensorFile), tensors, each); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, stateFile), append(text, '\n'), 0o666)
	})
}

// findState reads the state of the newest good checkpoint below a run directory; nil if there is none. problem tells of
// damaged ones that were passed over.
func findState(out string) (s *state, dir string, problem error, err error) {
	dir, _, err = checkpoints.Latest(filepath.Join(out, CheckpointsDir))
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
	s = &state{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, "", problem, fmt.Errorf("%s: %w", path, err)
	}
	if s.Format != 1 {
		return nil, "", problem, fmt.Errorf("%s: this program reads format 1, not %d", path, s.Format)
	}
	return s, dir, problem, nil
}

// restore copies a checkpoint's tensors into the parameters and the optimizer.
func (o *optimizer) restore(dir string, s *state, by strategy) error {
	here := o.tensors()
	tensors, err := by.tensors(here)
	if err != nil {
		return err
	}
	f, err := checkpoints.OpenFile(filepath.Join(dir, tensorFile))
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range here {
		if err := here[i].read(f); err != nil {
			return err
		}
	}
	if n := len(f.Names()); n != tensors {
		return fmt.Errorf("%s: it holds %d tensors, the model has %d parameters: it is of another model", f.Path(), n,
			len(o.params))
	}
	o.groups.SetUpdates(s.Updates)
	return nil
}

// replaceDir puts a folder into place of one that may be there already: written beside, synced, renamed.
func replaceDir(path string, write func(dir string) error) error {
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

// tidy removes what killed processes left of the folders that replaceDir writes. A folder that was just moved away
// comes back.
func tidy(out string) error {
	var errs []error
	files, err := filepath.Glob(filepath.Join(atomicfile.QuoteGlob(out), ".*.tmp"))
	errs = append(errs, err)
	for _, name := range files {
		errs = append(errs, os.RemoveAll(name))
	}
	for _, name := range resultDirs {
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

// hiddenSibling names a hidden sibling.
func hiddenSibling(path, what string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+what)
}

// writeConfig puts the resolved configuration into the run directory.
func writeConfig(c *Config) error {
	text, err := c.YAML()
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(c.Out, ConfigFile), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// removeRun removes what an earlier run left in a run directory.
func removeRun(out string) error {
	old, err := filepath.Glob(filepath.Join(atomicfile.QuoteGlob(out), "events.out.tfevents.*.assay"))
	for _, name := range append([]string{CheckpointsDir, MetricsFile, PlanFile, RowsFile, BadRowsFile}, resultDirs...) {
		path := filepath.Join(out, name)
		old = append(old, path, hiddenSibling(path, "new"), hiddenSibling(path, "old"))
	}
	for _, path := range old {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}
