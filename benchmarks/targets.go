package benchmarks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// hubTargets are ImagenHub's wanted results, found by the instruction and the captions of an edit, which GenAI-Bench
// repeats.
type hubTargets struct {
	root string
	ids  map[[3]string][]string
}

// openHubTargets reads dataset_lookup.json, {id: {instruction, source_global_caption, target_global_caption}}.
func openHubTargets(folder string) (*hubTargets, error) {
	path, err := locate(folder, "dataset_lookup.json")
	if err != nil {
		return nil, fmt.Errorf("--targets: %w", err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var lookup map[string]struct {
		Instruction string
		Before      string `json:"source_global_caption"`
		After       string `json:"target_global_caption"`
	}
	if err := json.Unmarshal(b, &lookup); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	t := &hubTargets{filepath.Dir(path), map[[3]string][]string{}}
	for _, id := range sortedNames(lookup) {
		e := lookup[id]
		key := [3]string{e.Instruction, e.Before, e.After}
		t.ids[key] = append(t.ids[key], id)
	}
	return t, nil
}

// of returns the wanted result of an edit; none if there is not exactly one.
func (t *hubTargets) of(instruction string, captions [2]string) Picture {
	if t == nil {
		return Picture{}
	}
	ids := t.ids[[3]string{instruction, captions[0], captions[1]}]
	if len(ids) != 1 {
		return Picture{}
	}
	return Picture{Path: filepath.Join(t.root, groundTruth, ids[0])}
}
