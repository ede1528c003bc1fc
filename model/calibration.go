package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"assay/edit"
	"assay/internal/calibration"
	"assay/lora"
	"assay/model/exec"
	"assay/model/nn"
	"assay/onnx"
)

// readCalibration reads the calibration that scorer.yaml names; nil if it names none.
func readCalibration(dir string, c *ScorerConfig) (*calibration.Calibration, error) {
	if c.Calibration == "" {
		return nil, nil
	}
	k, err := calibration.Read(calibrationFile(dir, c))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("calibration: %w: score calibrate makes it, or take the line out of %s", err, ConfigFile)
	}
	return k, err
}

func calibrationFile(dir string, c *ScorerConfig) string {
	return filepath.Join(dir, filepath.FromSlash(c.Calibration))
}

// checkCalibration compares the calibration with the scorer.
func (p *ScorerState) checkCalibration() error {
	if p.Calibration.Scorer != p.Digest() {
		return fmt.Errorf("calibration: %s was fitted for another head, adapter or %s: fit it anew with score calibrate, or "+
			"take the line calibration out of %s", p.Config.Calibration, ConfigFile, ConfigFile)
	}
	for i := range p.Calibration.Maps {
		name := p.Calibration.Maps[i].Dimension
		if _, ok := p.Config.Heads[name]; name != "" && !ok {
			return fmt.Errorf("calibration: %s has a map of the dimension %q; the scorer has %s", p.Config.Calibration, name,
				p.Config.dimensionNames())
		}
	}
	return nil
}

// Digest identifies head, adapter and configuration of a scorer: what a calibration belongs to.
func (p *ScorerState) Digest() string {
	h := sha256.New()
	fmt.Fprintln(h, p.Config.identity())
	tensors := maps.Clone(p.Tensors)
	add := func(prefix string, a *lora.Adapter) {
		for _, t := range a.Targets {
			fmt.Fprintf(h, "%+v\n", t)
			for _, name := range []string{lora.NameA(t.Module), lora.NameB(t.Module)} {
				tensors[prefix+name] = a.Tensors[name]
			}
		}
	}
	if p.Adapter != nil {
		add("", p.Adapter)
	}
	for i, a := range p.Members {
		add(nn.MemberPrefix(i), a)
	}
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		fmt.Fprintln(h, name, tensors[name].Shape())
		h.Write(onnx.Float32Bytes(tensors[name].Data().([]float32)))
	}
	return hex.EncodeToString(h.Sum(nil))[:24]
}

// adoptCalibration makes the network report calibrated scores, where the scorer has a calibration and is not trained.
func (s *Scorer) adoptCalibration(p *ScorerState, o *Options) error {
	if p.Calibration == nil || p.Config.Calibration == "" || o.Raw || s.net.Plan.Training != exec.TrainNothing {
		return nil
	}
	if err := p.checkCalibration(); err != nil {
		return err
	}
	s.calibration = p.Calibration
	if !s.config.ScoreRange.Bounded() && s.scoreMap() != nil { // labels have a range, and so has the score now
		c := *s.config
		c.ScoreRange, s.config = edit.Range{0, 1}, &c
	}
	return nil
}

// CalibrationKey is the dimension under which a calibration of the score is kept: "", or the dimension that the score
// is, if it is made of that one alone.
func (c *ScorerConfig) CalibrationKey() string {
	same := []string{"mean", "sum", "min", "product"} // of one number
	if f := c.Score; len(f.Of) == 1 && slices.Contains(same, f.Fusion) {
		return f.Of[0]
	}
	return ""
}

// scoreMap is the calibration of the score; nil: it has none.
func (s *Scorer) scoreMap() *calibration.Map { return s.calibration.Find(s.config.CalibrationKey()) }

// calibrate replaces what heads and fusion say, on 0 to 1, by what it stands for.
func (s *Scorer) calibrate(score *edit.Score) {
	if s.calibration == nil {
		return
	}
	for i := range score.Dimensions {
		d := &score.Dimensions[i]
		if m := s.calibration.Find(d.Name); m != nil {
			d.Sigma = m.Sigma(d.Value, d.Sigma)
			d.Value, _ = m.At(d.Value)
		}
	}
	m := s.scoreMap()
	if m == nil {
		return
	}
	raw := score.Value
	score.Raw01, score.Sigma = &raw, m.Sigma(raw, score.Sigma)
	score.Value, _ = m.At(raw)
	if i := m.Interval; i != nil {
		low, high := max(0, score.Value-i.HalfWidth), min(1, score.Value+i.HalfWidth)
		score.Interval = &edit.Interval{Low: low, High: high, Coverage: i.Coverage}
	}
}

// calibrated is the score that is reported for what heads and fusion say, and d of the one / d of the other: 1 without
// a calibration.
func (s *Scorer) calibrated(raw float64) (score, slope float64) {
	m := s.scoreMap()
	if m == nil {
		return raw, 1
	}
	return m.At(raw)
}

func scaleBy(values []float32, by float64) {
	for i, v := range values {
		values[i] = float32(by * float64(v))
	}
}

// calibrationIdentity is what a fingerprint says of a calibration: nothing where there is none.
func (s *Scorer) calibrationIdentity() string {
	if s.calibration == nil {
		return ""
	}
	raw, err := json.Marshal(s.calibration)
	return fmt.Sprint(string(raw), err)
}
