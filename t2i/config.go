package t2i

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/edit"
	"assay/encoders"
	"assay/internal/atomicfile"
	"assay/internal/calibration"
	"assay/internal/modelcard"
	"assay/internal/store"
	"assay/internal/strictyaml"
)

// ConfigFile is the file that makes a folder a reward.
const ConfigFile = "reward.yaml"

// Is reports whether a folder is a reward.
func Is(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ConfigFile))
	return err == nil
}

// The kinds of rewards.
const (
	clipScore   = "clip"
	pickScore   = "pickscore"
	hpsv2       = "hpsv2"
	aesthetic   = "aesthetic"
	imageReward = "imagereward"
)

// Config is reward.yaml.
type Config struct {
	Format int    `yaml:"format"` // 1
	Kind   string `yaml:"kind"`   // of [Kinds]

	Model   string `yaml:"model"`             // folder: configuration, tokenizer, weights; relative to the file
	Weights string `yaml:"weights,omitempty"` // if they are not the model's own: a folder, or a .safetensors file
	Head    string `yaml:"head,omitempty"`    // aesthetic: the layers over the embedding, .safetensors
	Digest  string `yaml:"digest"`            // of weights and tokenizer, as they were imported

	Preprocessing encoders.Preprocessing `yaml:"preprocessing"` // how pictures are resized and cropped

	Calibration string `yaml:"calibration,omitempty"` // written by `score calibrate` next to the file; "": none

	Scale []float64 `yaml:"scale,flow,omitempty"` // [a, b]: score = a + b * the reward's number; empty: that number
}

// kind describes a kind of reward.
type kind struct {
	preprocessing encoders.Preprocessing // of the authors' code
	reads         bool                   // a text
	card          modelcard.Card
}

// Kinds lists the kinds of rewards.
func Kinds() []string { return []string{clipScore, pickScore, hpsv2, aesthetic, imageReward} }

// readConfig reads reward.yaml, and reports all problems at once. Its paths become absolute, or relative to the
// working directory.
func readConfig(file string) (*Config, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (want a folder that score import created from a reward)", err)
	} else if err != nil {
		return nil, err
	}
	c := &Config{}
	d := strictyaml.Decode(file, raw, c)
	if !d.Unreadable {
		c.check(d.Problem)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	for _, path := range []*string{&c.Model, &c.Weights, &c.Head, &c.Calibration} {
		*path = strictyaml.Absolute(filepath.Dir(file), *path)
	}
	return c, nil
}

func (c *Config) check(problem func(key, format string, args ...any)) {
	if c.Format != 1 {
		problem("format", "%d: want 1", c.Format)
	}
	if _, known := kinds[c.Kind]; !known {
		problem("kind", "%q: want %s", c.Kind, strings.Join(Kinds(), ", "))
		return
	}
	if c.Model == "" {
		problem("model", "want a folder")
	}
	if (c.Head != "") != (c.Kind == aesthetic) {
		problem("head", "needed by aesthetic, and only by it")
	}
	if !slices.Contains(encoders.Preprocessings(), c.Preprocessing) {
		problem("preprocessing", "%q: want one of %q", c.Preprocessing, encoders.Preprocessings())
	}
	if len(c.Scale) != 0 && (len(c.Scale) != 2 || c.Scale[1] == 0) {
		problem("scale", "%v: want [a, b], for a + b times the reward, with b not 0", c.Scale)
	}
}

// InstallCalibration writes the calibration of a judge that was opened raw into its folder dir, and names it in
// reward.yaml.
func (j *Judge) InstallCalibration(dir string, m calibration.Map) error {
	file := cmp.Or(j.config.Calibration, filepath.Join(dir, calibration.File))
	k := &calibration.Calibration{Format: 1, Scorer: j.calibratedOf(), Maps: []calibration.Map{m}}
	if err := k.Write(file); err != nil || j.config.Calibration != "" {
		return err
	}
	config := filepath.Join(dir, ConfigFile)
	raw, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	line := "\ncalibration: " + calibration.File + "\n"
	return atomicfile.WriteBytes(config, append(bytes.TrimRight(raw, "\n"), line...))
}

// calibratedOf identifies what a calibration belongs to.
func (j *Judge) calibratedOf() string { return j.fingerprint[:24] }

// adoptCalibration makes the judge return calibrated scores, if it has a calibration.
func (j *Judge) adoptCalibration() error {
	if j.config.Calibration == "" {
		return nil
	}
	k, err := calibration.Read(j.config.Calibration)
	if err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	if k.Scorer != j.calibratedOf() {
		return fmt.Errorf("calibration: %s was fitted for other weights or another %s: refit it with score calibrate, or "+
			"remove the line calibration from %s", j.config.Calibration, ConfigFile, ConfigFile)
	}
	if j.calibration = k.Find(""); j.calibration == nil {
		return fmt.Errorf("calibration: %s has no map of the score", j.config.Calibration)
	}
	text, err := json.Marshal(j.calibration)
	j.fingerprint = store.KeyOf(j.fingerprint, string(text)).String()
	return err
}

// score returns the score of a reward's number v, and d score / d v. Labels, and so calibrated scores, are on 0 to 1.
func (j *Judge) score(v float64) (edit.Score, float64) {
	v, slope := j.config.scaled(v), j.config.slope()
	m := j.calibration
	if m == nil {
		return edit.Score{Value: v, Score01: v, Unbounded: true}, slope
	}
	y, by := m.At(v)
	s := edit.Score{Value: y, Score01: y, Raw01: &v}
	if i := m.Interval; i != nil {
		low, high := i.Around(y)
		s.Interval = &edit.Interval{Low: low, High: high, Coverage: i.Coverage}
	}
	return s, by * slope
}

// write writes reward.yaml.
func (c *Config) write(file string) error {
	raw, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(file, raw, 0o666)
}

// scaled returns the score of a reward's own number.
func (c *Config) scaled(v float64) float64 {
	if len(c.Scale) == 2 {
		return c.Scale[0] + c.Scale[1]*v
	}
	return v
}

// slope returns d score / d the reward's own number.
func (c *Config) slope() float64 {
	if len(c.Scale) == 2 {
		return c.Scale[1]
	}
	return 1
}
