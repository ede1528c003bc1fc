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

// SaveScorer writes the scorer as it is now into the existing folder dir: scorer.yaml, head.safetensors, and either the
// adapter in PEFT's files or, of a fully trained backbone, the checkpoint under backbone/. scorer.yaml names the
// backbone relative to dir, or to where dir's sibling will lie.
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
	c.Backbone = relative(dir, c.Backbone)
	if c.Weights != "" {
		c.Weights = relative(dir, c.Weights)
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

// relative gives a backbone's path as scorer.yaml states it: relative to the scorer where one root holds both.
func relative(scorer, backbone string) string {
	from, err1 := filepath.Abs(scorer)
	to, err2 := filepath.Abs(backbone)
	if err1 != nil || err2 != nil {
		return backbone
	}
	if r, err := filepath.Rel(from, to); err == nil {
		return filepath.ToSlash(r)
	}
	return to
}

// saveBackbone writes a checkpoint like the one that was opened into dir, which must not exist, with the trained
// parameters as they are now. Parameters that no graph uses (a vision layer behind the features) are copied.
func (s *sessions) saveBackbone(dir string) error { return s.backbone.Weights.SaveAs(dir, s.trained) }
