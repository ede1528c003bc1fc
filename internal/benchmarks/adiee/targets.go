package adiee

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"assay/internal/benchmarks/protocol"
)

// hubTargets are ImagenHub's wanted results, found by the instruction and the captions of an edit, which GenAI-Bench
// repeats.
type hubTargets struct {
	root string
	ids  map[[3]string][]string
}

// hubEdit is ImagenHub's entry for a sample.
type hubEdit struct {
	Instruction string
	Before      string `json:"source_global_caption"`
	After       string `json:"target_global_caption"`
}

// readHubLookup reads ImagenHub's dataset_lookup.json under the folder that a flag names: samples by id.
func readHubLookup(flag, folder string) (path string, lookup map[string]hubEdit, err error) {
	if path, err = protocol.Locate(folder, "dataset_lookup.json"); err != nil {
		return "", nil, fmt.Errorf("%s: %w", flag, err)
	}
	return path, lookup, protocol.ReadJSON(path, &lookup, `{id: {"instruction": ...}}`)
}

// openHubTargets indexes the samples of a folder.
func openHubTargets(folder string) (*hubTargets, error) {
	path, lookup, err := readHubLookup("--targets", folder)
	if err != nil {
		return nil, err
	}
	t := &hubTargets{filepath.Dir(path), map[[3]string][]string{}}
	for _, id := range slices.Sorted(maps.Keys(lookup)) {
		e := lookup[id]
		key := [3]string{e.Instruction, e.Before, e.After}
		t.ids[key] = append(t.ids[key], id)
	}
	return t, nil
}

// of returns the wanted result of an edit; none unless there is exactly one.
func (t *hubTargets) of(instruction string, captions [2]string) protocol.Picture {
	if t == nil {
		return protocol.Picture{}
	}
	ids := t.ids[[3]string{instruction, captions[0], captions[1]}]
	if len(ids) != 1 {
		return protocol.Picture{}
	}
	return protocol.Picture{Path: filepath.Join(t.root, groundTruth, ids[0])}
}
