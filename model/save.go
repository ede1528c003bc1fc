package model

import (
	"io"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/atomicfile"
)

// SaveScorer writes the scorer as it is now into the existing folder dir: scorer.yaml, head.safetensors, and the
// adapter in PEFT's files. For a fully trained backbone the checkpoint, under backbone/, takes the adapter's place.
// scorer.yaml names the backbone relative to dir, or to where dir's sibling will lie.
func (s *sessions) SaveScorer(dir string) error {
	p := ScorerState{Config: s.config, Tensors: map[string]*tensor.Dense{}, Adapter: s.adapter}
	for name, t := range s.tensors {
		if !strings.HasPrefix(name, termPrefix) && (s.adapter == nil || s.adapter.Tensors[name] == nil) {
			p.Tensors[name] = t
		}
	}
	if s.training != trainBackbone {
		return p.Save(dir)
	}
	if err := s.saveBackbone(filepath.Join(dir, "backbone")); err != nil {
		return err
	}
	c := *s.config
	c.Backbone, c.Weights, p.Config = filepath.Join(dir, "backbone"), "", &c
	if c.Origin != nil { // the weights are not the imported ones any more
		o := *c.Origin
		o.Weights, o.Base, c.Origin = nil, nil, &o
	}
	return p.Save(dir)
}

// Save writes scorer.yaml, head.safetensors and the adapter's files into the existing folder dir. A calibration is not
// written: it is of a scorer that is not trained any more.
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
	var err error
	if c.Backbone, err = atomicfile.From(dir, c.Backbone); err != nil {
		return err
	}
	if c.Weights != "" {
		if c.Weights, err = atomicfile.From(dir, c.Weights); err != nil {
			return err
		}
	}
	return WriteConfig(filepath.Join(dir, ConfigFile), &c)
}

// WriteConfig writes a scorer.yaml.
func WriteConfig(path string, c *ScorerConfig) error {
	text, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// saveBackbone writes a checkpoint like the one that was opened into dir, which must not exist, with the trained
// parameters as they are now. Parameters that no graph uses (a vision layer behind the features) are copied.
func (s *sessions) saveBackbone(dir string) error { return s.backbone.Weights.SaveAs(dir, s.trained) }
