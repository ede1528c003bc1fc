package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/atomicfile"
)

// small writes the book's configurations for the small backbone. Each keeps its specific parts (data, labels, head,
// loss, mode) and takes the rest (backbone, question, adapter, optimizer, steps) from the demonstration.
type small struct{ root, out string }

// smallEpochs is the number of epochs of a configuration. One that draws one output of each instruction per epoch
// then sees about as many samples as in one epoch of the demonstration with as many instructions.
const smallEpochs = 6

func (s *small) write() (n int, err error) {
	var files []string
	for _, pattern := range []string{"reproduce/*/*.yaml", "reproduce/*/*/*.yaml", "examples/label-adiee.yaml"} {
		found, err := filepath.Glob(filepath.Join(s.root, pattern))
		if err != nil {
			return 0, err
		}
		files = append(files, found...)
	}
	for _, file := range files {
		inside, err := filepath.Rel(s.root, file)
		if err != nil {
			return n, err
		}
		config, err := s.convert(file)
		if err != nil {
			return n, fmt.Errorf("%s: %w", file, err)
		}
		if config == nil {
			continue
		}
		raw, err := yaml.Marshal(config)
		if err != nil {
			return n, err
		}
		raw = append([]byte("# "+inside+" in small, made by lab/reproduce.\n"), raw...)
		to := filepath.Join(s.out, inside)
		if old, err := os.ReadFile(to); err == nil && string(old) == string(raw) {
			n++
			continue // unchanged: keep its time stamp
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return n, err
		}
		if err := atomicfile.WriteBytes(to, raw); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func readYAML(path string) (m yaml.MapSlice, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return m, yaml.Unmarshal(raw, &m)
}

func get(m yaml.MapSlice, key string) (any, bool) {
	for _, item := range m {
		if item.Key == key {
			return item.Value, true
		}
	}
	return nil, false
}

func put(m *yaml.MapSlice, key string, value any) {
	for i := range *m {
		if (*m)[i].Key == key {
			(*m)[i].Value = value
			return
		}
	}
	*m = append(*m, yaml.MapItem{Key: key, Value: value})
}

// smallPolicy returns the small version of a configuration that learns from rewards.
func smallPolicy(book, out yaml.MapSlice, objective any) (yaml.MapSlice, error) {
	v, _ := get(book, "grpo")
	keys, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want grpo: {...}")
	}
	keys["max_completion_length"] = 8
	put(&out, "objective", objective)
	put(&out, "grpo", keys)
	put(&out, "optimizer", map[string]any{"lr": 3e-4})
	return out, nil
}

// convert scales a configuration down; nil: it is not a configuration of label or train.
func (s *small) convert(file string) (yaml.MapSlice, error) {
	book, err := readYAML(file)
	if err != nil {
		return nil, err
	}
	if sources, ok := get(book, "sources"); ok {
		// Thresholds that were measured with other encoders do not apply here: percentiles replace them, if there are
		// targets to measure.
		if strings.Contains(fmt.Sprint(sources), "adiee-magicbrush") {
			put(&book, "profile", "adiee-paper")
		}
		return book, nil
	}
	mode, ok := get(book, "mode")
	if _, hasData := get(book, "data"); !ok || !hasData { // score distil fills in its own data
		return nil, nil
	}
	base, drop := "scorer.yaml", []string{"out", "data", "head", "loss", "epochs"}
	if mode == "text" {
		base, drop = "caption-model.yaml", []string{"out", "data", "validate", "steps"}
	}
	out, err := readYAML(filepath.Join(s.root, "examples", "miniature", base))
	if err != nil {
		return nil, err
	}
	out = slices.DeleteFunc(out, func(item yaml.MapItem) bool { return slices.Contains(drop, item.Key.(string)) })
	put(&out, "backbone", "../../../backbones/tiny")
	put(&out, "threads", 1)
	put(&out, "epochs", smallEpochs)
	same := []string{"out", "data", "head"}
	if mode == "text" {
		same = append(same, "backbone") // a stand-in, which reproduce/run.sh links
	}
	for _, key := range same {
		if v, ok := get(book, key); ok {
			put(&out, key, v)
		}
	}
	if mode == "text" {
		if objective, ok := get(book, "objective"); ok {
			return smallPolicy(book, out, objective)
		}
		if v, ok := get(book, "text"); ok { // all weights are trained, at a tenth of an adapter's learning rate
			out = slices.DeleteFunc(out, func(item yaml.MapItem) bool { return item.Key == "lora" })
			put(&out, "text", v)
			put(&out, "optimizer", map[string]any{"lr": 3e-4})
		}
		return out, nil
	}
	loss, _ := get(book, "loss")
	weights, ok := loss.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want loss: {text: ..., score: ...}")
	}
	put(&out, "loss", map[string]any{"text": 0, "score": weights["score"]}) // the small question has no answer
	return out, nil
}
