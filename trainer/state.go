package trainer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"assay/checkpoints"
	"assay/trainer/checkpoint"
	"assay/trainer/config"
)

// saveIfDue writes a checkpoint if it is time.
func (t *Trainer) saveIfDue() (err error) {
	c := &t.config.Checkpoint
	due := t.checkpoints.Due(c, t.state.Step)
	if c.Minutes > 0 { // where all processes write it, the main one looks at its clock
		due, err = t.strategy.Due(due)
	}
	if err != nil || !due {
		return err
	}
	return t.save()
}

// save writes a checkpoint of parameters, moments and state.
func (t *Trainer) save() error {
	if err := t.strategy.Save(t.optimizer, t.writeCheckpoint); err != nil {
		return err
	}
	t.checkpoints.Step, t.checkpoints.Time = t.state.Step, time.Now()
	return nil
}

// writeCheckpoint writes a checkpoint of tensors; each gives their contents, whose order does not matter.
func (t *Trainer) writeCheckpoint(tensors []checkpoint.Slice, each func(put checkpoint.Putter) error) error {
	s := &t.state
	var err error
	if s.Metrics, s.Events, s.EventsFile, err = t.records.Sync(); err != nil {
		return err
	}
	s.Updates, s.Seconds = t.optimizer.Groups.Updates(), s.Elapsed()
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	root := filepath.Join(t.config.Out, config.CheckpointsDir)
	return checkpoints.Save(root, s.Step, t.config.Checkpoint.Keep, func(dir string) error {
		if err := checkpoint.WriteTensors(filepath.Join(dir, checkpoint.TensorFile), tensors, each); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, checkpoint.StateFile), append(text, '\n'), 0o666)
	})
}
