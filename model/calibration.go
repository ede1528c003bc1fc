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
		err = fmt.Errorf("calibration: %w: create it with score calibrate, or remove the line from %s", err, ConfigFile)
	}
	return k, err
}

func calibrationFile(dir string, c *ScorerConfig) string {
	return filepath.Join(dir, filepath.FromSlash(c.Calibration))
}

// checkCalibration compares the calibration with the scorer.
func (p *ScorerState) checkCalibration() error {
	if p.Calibration.Scorer != p.Digest() {
		return fmt.Errorf("calibration: %s was fitted for another head, adapter or %s: refit it with score calibrate, or "+
			"remove the line calibration from %s", p.Config.Calibration, ConfigFile, ConfigFile)
	}
	for i := range p.Calibration.Maps {
		name := p.Calibration.Maps[i].Dimension
		if _, ok := p.Config.Heads[name]; name != "" && !ok {
			return fmt.Errorf("calibration: %s has a map for the dimension %q; the scorer has %s", p.Config.Calibration, name,
				p.Config.dimensionNames())
		}
	}
	return nil
}

// Digest identifies a scorer's head, adapter and configuration: a calibration belongs to exactly these.
func (p *ScorerState) Digest() string {
	h := sha256.New()
	fmt.Fprintln(h, p.Config.identity())
	if f := p.Config.Score; f != nil && len(f.Of) == 1 && f.LowerBound > 0 {
		fmt.Fprintln(h, "own map") // once such a score and its dimension shared one
	}
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

// adoptCalibration makes the network report calibrated scores, if the scorer has a calibration and is not trained.
func (s *Scorer) adoptCalibration(p *ScorerState, o *Options) error {
	if p.Calibration == nil || p.Config.Calibration == "" || o.Raw || s.net.Plan.Training != exec.TrainNothing {
		return nil
	}
	if err := p.checkCalibration(); err != nil {
		return err
	}
	s.calibration = p.Calibration
	if !s.config.ScoreRange.Bounded() && s.scoreMap() != nil { // labels have a range, so now the score has one
		c := *s.config
		c.ScoreRange, s.config = edit.Range{0, 1}, &c
	}
	return nil
}

// CalibrationKey is the dimension under which a calibration of the score is stored: "", or the score's dimension if it
// is the same number.
func (c *ScorerConfig) CalibrationKey() string {
	same := []string{"mean", "sum", "min", "product"} // of one number
	if f := c.Score; len(f.Of) == 1 && slices.Contains(same, f.Fusion) && f.LowerBound == 0 {
		return f.Of[0]
	}
	return ""
}

// scoreMap is the calibration of the score, or nil.
func (s *Scorer) scoreMap() *calibration.Map { return s.calibration.Find(s.config.CalibrationKey()) }

// calibrate replaces the outputs of heads and fusion, on 0 to 1, by their calibrated values.
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
		low, high := i.Around(score.Value)
		score.Interval = &edit.Interval{Low: low, High: high, Coverage: i.Coverage}
	}
}

// calibrated returns the score to report for the raw one of heads and fusion, and d score / d raw: 1 without a
// calibration.
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

// calibrationIdentity is the calibration's part of a fingerprint; "" without one.
func (s *Scorer) calibrationIdentity() string {
	if s.calibration == nil {
		return ""
	}
	raw, err := json.Marshal(s.calibration)
	return fmt.Sprint(string(raw), err)
}
