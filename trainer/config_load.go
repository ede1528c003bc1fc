package trainer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"

	"assay/internal/strictyaml"
	"assay/model"
)

// Load reads a run's YAML file. The error lists everything that is wrong with it, each problem with file and line (a
// strictyaml.Problems), or says why the file cannot be read. All paths of the result are absolute.
func Load(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	c := Default()
	d := strictyaml.Decode(path, text, c)
	if d.Unreadable {
		return nil, d.Err()
	}
	if c.Init != "" && !d.Bad("init") {
		base := Default()
		if err := base.fromScorer(absolute(folder, c.Init)); err != nil {
			d.Problem("init", "%v", err)
		} else {
			d = strictyaml.Decode(path, text, base)
			keepsHead(d, base, c.Init)
			c = base
		}
	}
	if d.Has("backbone") && c.Backbone != "" {
		c.Backbone = absolute(folder, c.Backbone)
	}
	for _, p := range []*string{&c.Init, &c.Out, &c.Cache.Folder} {
		*p = absolute(folder, *p)
	}
	for _, tables := range []Strings{c.Data.Train, c.Data.Validation.Tables} {
		for i := range tables {
			tables[i] = absolute(folder, tables[i])
		}
	}
	if c.Steps > 0 && !d.Has("epochs") {
		c.Epochs = 0
	}
	c.check(d)
	if err := d.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

func absolute(folder, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}

// scorerFile is scorer.yaml, format 1.
type scorerFile struct {
	Format        int              `yaml:"format"`
	Backbone      string           `yaml:"backbone"`
	Pair          string           `yaml:"pair"`
	PairSize      []int            `yaml:"pair_size"`
	Question      string           `yaml:"question"`
	Answer        string           `yaml:"answer"`
	TextLoss      string           `yaml:"text_loss"`
	ScoreRange    []float64        `yaml:"score_range"`
	Head          model.HeadConfig `yaml:"head"`
	ScoreToken    string           `yaml:"score_token"`
	ScorePosition string           `yaml:"score_position"`
	ChatTemplate  string           `yaml:"chat_template"`
	EndOfTurn     string           `yaml:"end_of_turn"`
	Dtype         string           `yaml:"dtype"`
}

// fromScorer takes what a scorer directory says as the defaults of a run that goes on from it.
func (c *Config) fromScorer(dir string) error {
	path := filepath.Join(dir, "scorer.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("not a scorer directory: %w", err)
	}
	s := scorerFile{Pair: c.Pair, TextLoss: "answer", ScoreRange: c.ScoreRange, ScoreToken: c.ScoreToken,
		ScorePosition: c.ScorePosition, Dtype: c.Dtype, Head: model.HeadConfig{Activation: "relu", Kind: "regression"}}
	d := strictyaml.Decode(path, text, &s)
	if s.Format != 1 {
		d.Problem("format", "this program reads format 1, not %d", s.Format)
	}
	if err := d.Err(); err != nil {
		return err
	}
	c.Backbone = absolute(dir, s.Backbone)
	c.Pair, c.PairSize, c.TextLoss, c.ScoreRange = s.Pair, s.PairSize, s.TextLoss, s.ScoreRange
	c.Question, c.Answer, c.Head = Strings{s.Question}, Strings{s.Answer}, s.Head
	c.ScoreToken, c.ScorePosition, c.Dtype = s.ScoreToken, s.ScorePosition, s.Dtype
	c.ChatTemplate, c.EndOfTurn = s.ChatTemplate, s.EndOfTurn
	return nil
}

// keepsHead refuses a head other than the one whose weights init brings.
func keepsHead(d *strictyaml.Document, c *Config, init string) {
	if !d.Has("head") || d.Bad("head") {
		return
	}
	was := Default()
	if err := was.fromScorer(absolute(filepath.Dir(d.File), init)); err != nil {
		return // told already
	}
	a, errA := yaml.Marshal(was.Head)
	b, errB := yaml.Marshal(c.Head)
	if errors.Join(errA, errB) == nil && string(a) != string(b) {
		d.Problem("head", "the scorer of init has another head:\n%s", a)
	}
}

// YAML writes the configuration with every key, as Load reads it.
func (c *Config) YAML() ([]byte, error) {
	return yaml.MarshalWithOptions(c, yaml.Flow(false), yaml.IndentSequence(true))
}
