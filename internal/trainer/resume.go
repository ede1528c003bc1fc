package trainer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"assay/data"
	"assay/internal/exit"
	"assay/internal/store"
	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
)

// findCheckpoint looks for a checkpoint to resume from.
func (s *setup) findCheckpoint() error {
	if s.o.Fresh {
		return s.refuseForeign()
	}
	old, dir, problem, err := checkpoint.Find(s.config.Out)
	if err != nil {
		return fmt.Errorf("%w; repair it, or start over with --fresh", err)
	}
	if problem != nil {
		s.o.warn(fmt.Sprintf("%v; resuming from %s", problem, filepath.Base(dir)))
	}
	if old == nil && s.o.Resume {
		return exit.Usagef("--resume: there is no checkpoint in %s", filepath.Join(s.config.Out, config.CheckpointsDir))
	}
	if s.old, s.dir = old, dir; old == nil {
		return s.refuseForeign()
	}
	return nil
}

// refuseForeign refuses to start a new run in a folder with files that no run wrote, and that it would replace.
func (s *setup) refuseForeign() error {
	names, err := checkpoint.Foreign(s.config.Out)
	if err == nil && len(names) > 0 {
		err = exit.Usagef("out: %s has %s, which a run would replace, but no %s of a run: use another out, or move them away",
			s.config.Out, strings.Join(names, ", "), config.PlanFile)
		err = errors.Join(err, s.held.Forget())
	}
	return err
}

// shareCheckpoint broadcasts the checkpoint that the main process found.
func (s *setup) shareCheckpoint() error {
	found := struct {
		Old *checkpoint.State
		Dir string
	}{s.old, s.dir}
	err := s.strategy.Share("the checkpoint's state", &found)
	s.old, s.dir = found.Old, found.Dir
	return err
}

// describe records what a resumed run must find unchanged.
func (s *setup) describe() error {
	text, err := s.config.YAML()
	if err != nil {
		return err
	}
	s.state = checkpoint.State{Format: 1, Identity: checkpoint.Identity{Config: string(text),
		Model: maps.Clone(s.model.Fingerprint()), Data: s.data.Fingerprint}}
	s.state.JPEG, _ = data.JPEGDecoder()
	if m, ok := s.model.(models.Graph); ok {
		s.state.Kernels = m.Kernels().Used.String()
	}
	if s.state.Model == nil {
		s.state.Model = map[string]string{}
	}
	if m, ok := s.model.(interface {
		Files() (map[string]string, error)
	}); ok {
		if s.state.Files, err = m.Files(); err != nil {
			return err
		}
	}
	if b := s.validator.benchmark; b != nil {
		if s.state.Benchmark, err = b.Fingerprint(); err != nil {
			return fmt.Errorf("validate.benchmark: %w", err)
		}
	}
	if s.config.Init == "" {
		return nil
	}
	for _, name := range []string{"head.safetensors", "adapter_model.safetensors"} {
		digest, err := store.FileDigest(filepath.Join(s.config.Init, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		s.state.Model["init "+name] = digest.String()[:32]
	}
	return nil
}

// program is the digest of the running executable.
var program = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	digest, err := store.FileDigest(path)
	return digest.String()[:32], err
})

// sameRun returns an error if the processes differ in program, configuration, backbone, tables or options.
func (s *setup) sameRun() error {
	return s.strategy.Same("what is trained", func() (map[string]string, error) {
		digest, err := program()
		if err != nil {
			return nil, err
		}
		values, err := config.Values([]byte(s.state.Config))
		if err != nil {
			return nil, err
		}
		facts := map[string]string{
			"program": digest, "architecture": runtime.GOARCH, "JPEG decoder": s.state.JPEG,
			"kernels":         s.state.Kernels,
			"trained tensors": s.trains.Digest,
			"--fresh":         fmt.Sprint(s.o.Fresh), "--resume": fmt.Sprint(s.o.Resume),
			"--force-resume": fmt.Sprint(s.o.Force),
		}
		for name, v := range values {
			if name == "out" || !config.Moved(name, v, v) {
				facts["configuration: "+name] = v
			}
		}
		for name, v := range s.state.Model {
			facts["model: "+name] = v
		}
		for name, v := range s.state.Files {
			facts["backbone: "+name] = v
		}
		for name, v := range s.state.Data {
			facts["data: "+name] = v
		}
		for name, v := range s.state.Benchmark {
			facts[checkpoint.BenchmarkPrefix+name] = v
		}
		return facts, nil
	})
}

// compare refuses to resume a different run, unless forced. Without --fresh a new run overwrites only what a run
// without a checkpoint left: a scorer is written after the last checkpoint, so a scorer without one is not from such
// a run.
func (s *setup) compare(main bool) error {
	if s.old == nil {
		scorer := s.config.ResultPath()
		if _, err := os.Lstat(scorer); err == nil && main && !s.o.Fresh {
			return exit.Usagef("%s exists, but there is no checkpoint to resume from: use another out, or overwrite it with "+
				"--fresh", scorer)
		}
		return nil
	}
	was, err := models.TrainedIn(s.dir)
	if err != nil {
		return err
	}
	if was.Digest != s.trains.Digest { // its tensors fit nothing else, so --force-resume cannot help
		return exit.Usage(fmt.Errorf("the run in %s trains\n  %v in the checkpoint of step %d,\n  %v now (lora.parts, "+
			"lora.targets, mode, head and init decide)\nundo the change, use another out, or start over with --fresh",
			s.config.Out, was, s.old.Step, s.trains))
	}
	diff, err := checkpoint.Differences(s.old, &s.state)
	if err != nil {
		return err
	}
	rows, listed, err := s.data.MatchLedger(s.config.Out)
	if err != nil {
		return err
	}
	if listed && len(rows) == 0 { // the tables may differ, but the rows are the same
		diff = slices.DeleteFunc(diff, func(d string) bool { return strings.HasPrefix(d, "data: ") })
	} else if len(rows) > 10 {
		rows = append(rows[:10], fmt.Sprintf("data: and %d more rows", len(rows)-10))
	}
	diff = append(diff, rows...)
	if len(diff) == 0 {
		return nil
	}
	what := strings.Join(diff, "\n  ")
	if s.o.Force {
		s.o.warn("resuming although this differs:\n  " + what)
		return nil
	}
	return exit.Usage(fmt.Errorf("the run in %s is at step %d and was started differently:\n  %s\nundo the change, "+
		"use another out, start over with --fresh, or resume anyway with --force-resume",
		s.config.Out, s.old.Step, what))
}

// restore reads the checkpoint, if there is one.
func (s *setup) restore() error {
	s.optimizer.MakeGrads()
	if s.old == nil {
		return nil
	}
	here := s.optimizer.Tensors()
	n, err := s.strategy.Tensors(here)
	if err != nil {
		return err
	}
	if err := s.optimizer.Restore(s.dir, here, n, s.old.Updates); err != nil {
		return err
	}
	state := *s.old
	state.Identity = s.state.Identity
	if !maps.Equal(s.old.Benchmark, state.Benchmark) {
		state.ForgetBest()
	}
	s.state = state
	return nil
}

// sameRows returns an error if the processes differ in rows or parameters.
func (s *setup) sameRows() error {
	return s.strategy.Same("rows and parameters", func() (map[string]string, error) {
		facts, err := s.optimizer.Digest()
		if err != nil {
			return nil, err
		}
		parts := map[string]*dataset.Samples{"training rows": s.data.Train, "validation rows": s.data.Validation}
		for name, part := range parts {
			h := sha256.New()
			for i := range part.Rows {
				row := &part.Rows[i]
				fmt.Fprintf(h, "%q %q %q %q\n", row.ID, row.Digest, row.Group, row.Bad)
			}
			facts[name] = fmt.Sprintf("%d, %s", part.Len(), hex.EncodeToString(h.Sum(nil))[:32])
		}
		return facts, nil
	})
}
