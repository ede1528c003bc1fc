package model

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/atomicfile"
	"assay/internal/hub"
	"assay/model/exec"
)

// SaveScorer writes the scorer as it is now into the existing folder dir: scorer.yaml, head.safetensors, and the
// adapter in PEFT's files. For a fully trained backbone, the checkpoint under backbone/ replaces the adapter.
// scorer.yaml names the backbone relative to dir, or to where dir's sibling will be.
func (s *Scorer) SaveScorer(dir string) error {
	p := ScorerState{Config: s.config, Tensors: map[string]*tensor.Dense{}, Adapter: s.net.Adapter}
	for name, t := range s.net.Tensors {
		if !strings.HasPrefix(name, termPrefix) && (s.net.Adapter == nil || s.net.Adapter.Tensors[name] == nil) {
			p.Tensors[name] = t
		}
	}
	if s.net.Plan.Training != exec.TrainBackbone {
		return p.Save(dir)
	}
	if err := s.net.Backbone.Weights.SaveAs(filepath.Join(dir, "backbone"), s.run.Sessions.Trained); err != nil {
		return err
	}
	c := *s.config
	c.Backbone, c.Weights, c.Digests, p.Config = filepath.Join(dir, "backbone"), "", nil, &c
	return p.Save(dir)
}

// Save writes scorer.yaml, head.safetensors and the adapter's files into the existing folder dir, with the digests of
// all files that scores depend on. A calibration is not written: it belongs to a scorer whose training is complete.
func (p *ScorerState) Save(dir string) error {
	metadata := map[string]string{"format": "pt"}
	if len(p.Tensors) > 0 {
		if err := checkpoints.WriteFile(filepath.Join(dir, HeadFile), p.Tensors, metadata); err != nil {
			return err
		}
	}
	if p.Adapter != nil {
		if err := p.Adapter.Save(dir); err != nil {
			return err
		}
	}
	c := *p.Config
	c.Calibration = ""
	if err := c.completeDigests(dir); err != nil {
		return err
	}
	var err error
	if c.Backbone, err = seenFrom(dir, c.Backbone); err != nil {
		return err
	}
	if c.Weights != "" {
		if c.Weights, err = seenFrom(dir, c.Weights); err != nil {
			return err
		}
	}
	return WriteConfig(filepath.Join(dir, ConfigFile), &c)
}

// seenFrom returns a path relative to a folder's real location, links resolved: see [Beside]. A path in the cache of
// the Hugging Face Hub becomes its name on the Hub, with the commit.
func seenFrom(dir, path string) (string, error) {
	if n, ok := hub.NameOf(path); ok {
		return n.String(), nil
	}
	dir, err1 := filepath.Abs(dir)
	path, err2 := filepath.Abs(path)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(folder, filepath.Base(path))
	}
	return atomicfile.From(real, path)
}

// WriteConfig writes a scorer.yaml.
func WriteConfig(path string, c *ScorerConfig) error {
	var file any = c
	if c.AddsToken() {
		file = c.OnePass()
	}
	text, err := yaml.Marshal(file)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, text)
}
