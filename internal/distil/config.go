package distil

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/strictyaml"
	"assay/internal/trainer/config"
	"assay/model"
)

// load reads a training configuration.
func load(path string) (*config.Config, error) { return config.Load(path) }

// readable returns the error that train would return for a configuration, before the teacher is asked anything.
func readable(text []byte) error {
	dir, err := os.MkdirTemp("", "distil-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, configFile)
	if err := os.WriteFile(path, text, 0o666); err != nil {
		return err
	}
	if _, err := load(path); err != nil {
		return fmt.Errorf("the student's configuration: %w", err)
	}
	return nil
}

// configuration returns the student's configuration with the labels as its data, with losses that fit them if it has
// none, and with absolute paths.
func (r *run) configuration() ([]byte, error) {
	raw, err := os.ReadFile(r.Config)
	if err != nil {
		return nil, err
	}
	var c yaml.MapSlice
	if err := yaml.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Config, err)
	}
	out, err := filepath.Abs(r.Out)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(filepath.Dir(r.Config))
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"backbone", "init", "scorer"} {
		if text, ok := get(c, key).(string); ok && !filepath.IsAbs(text) {
			if path := filepath.Join(folder, text); exists(path) { // otherwise it is a name on the Hub
				c = set(c, key, path)
			}
		}
	}
	validate, _ := get(c, "validate").(map[string]any)
	benchmark, _ := validate["benchmark"].(map[string]any)
	for _, key := range []string{"ratings", "images", "votes", "targets"} {
		if text, ok := benchmark[key].(string); ok {
			benchmark[key] = strictyaml.Absolute(folder, text)
		}
	}
	if get(c, "cache") != nil {
		return nil, fmt.Errorf("%s: cache: leave it out; the run uses its own cache", r.Config)
	}
	c = set(c, "out", filepath.Join(out, "run"))
	data, _ := get(c, "data").(map[string]any)
	if data == nil {
		data = map[string]any{}
	}
	data["train"] = filepath.Join(out, labelsFile)
	if _, fraction := strictyaml.Float(data["validation"]); !fraction { // tables have other labels
		delete(data, "validation")
	}
	for _, key := range []string{"train_split", "validation_split", "columns"} {
		delete(data, key)
	}
	c = set(c, "data", data)
	if c, err = r.objective(c); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Config, err)
	}
	text, err := yaml.MarshalWithOptions(c, yaml.IndentSequence(true))
	return append([]byte("# Written by score distil; train --config runs it as it is.\n\n"), text...), err
}

// classes are the values of a student whose configuration does not set its head: eleven, like points from 0 to 10.
var classes = []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}

// objective adds the losses that the configuration does not set: on the distribution of the ratings over the classes,
// or on the order only; with reasons also on the teacher's text after the score.
func (r *run) objective(c yaml.MapSlice) (yaml.MapSlice, error) {
	if r.Reasons {
		if get(c, "scorer") != nil {
			return nil, errors.New("a scorer of format 2 has no text loss: leave out --reasons")
		}
		answer, ok := get(c, "answer").(string)
		if !ok {
			answer = config.Default().Answer[0]
		}
		if !strings.Contains(answer, model.WhyMark) {
			c = set(c, "answer", answer+" "+model.WhyMark)
		}
	}
	if get(c, "losses") != nil || get(c, "loss") != nil {
		return c, nil
	}
	if get(c, "scorer") != nil {
		return nil, errors.New("losses: a scorer with several heads needs the losses set, for example {kind: gaussian, " +
			"votes: soft}")
	}
	var term map[string]any
	head, _ := get(c, "head").(map[string]any)
	switch {
	case r.Order:
		term = map[string]any{"kind": "bradley_terry"}
	case head == nil || head["kind"] == nil && get(c, "init") == nil:
		if head == nil {
			head = map[string]any{}
		}
		head["kind"], head["values"] = "classification", classes
		c = set(c, "head", head)
		fallthrough
	case head["kind"] == "classification":
		term = map[string]any{"kind": "classes", "votes": "soft"}
	default:
		term = map[string]any{"kind": "l1"}
	}
	losses := []map[string]any{term}
	if r.Reasons {
		losses = append(losses, map[string]any{"kind": "text", "weight": 0.1})
	}
	return set(c, "losses", losses), nil
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// get returns the value of a key; set replaces or appends it. The mapping keeps its order.
func get(c yaml.MapSlice, key string) any {
	for _, item := range c {
		if item.Key == key {
			return item.Value
		}
	}
	return nil
}

func set(c yaml.MapSlice, key string, value any) yaml.MapSlice {
	for i := range c {
		if c[i].Key == key {
			c[i].Value = value
			return c
		}
	}
	return append(c, yaml.MapItem{Key: key, Value: value})
}
