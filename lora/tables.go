package lora

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorgonia.org/tensor"
)

// The tables of the vocabulary, by path in transformers 5.
const (
	embeddingTable = "model.language_model.embed_tokens.weight"
	outputTable    = "lm_head.weight"
)

// copiesTable reports whether a parameter, in the file's spelling, is a table of the vocabulary that the configuration
// does not train. PEFT saves them with an adapter if a target is one of them, if their size may have changed, or if it
// is asked to (save_embedding_layers).
func (c *Config) copiesTable(path string) bool {
	if p := Canonical(path); p != embeddingTable && p != outputTable {
		return false
	}
	for p := parent(path); p != ""; p = parent(p) {
		if slices.ContainsFunc(c.ModulesToSave, func(end string) bool { return strings.HasSuffix(p, end) }) {
			return false
		}
	}
	return true
}

// BringsTable reports whether the adapter replaces a table of the vocabulary.
func (a *Adapter) BringsTable() bool {
	return slices.Contains(a.Whole, embeddingTable) || slices.Contains(a.Whole, outputTable)
}

// TiesWeights reports whether tables of the vocabulary stay tied when modules_to_save has one (ensure_weight_tying).
func (c *Config) TiesWeights() bool { return truthy(c.fields["ensure_weight_tying"]) }

// checkTables compares the tables in the adapter's file with the backbone's, and drops them: PEFT would replace the
// backbone's, which changes nothing if they are equal. An output layer that shares the embedding is compared with it.
func (a *Adapter) checkTables(w Values) error {
	for _, path := range slices.Sorted(maps.Keys(a.tables)) {
		key, embedding := "", ""
		for _, name := range w.Names() {
			switch Canonical(name) {
			case path:
				key = name
			case embeddingTable:
				embedding = name
			}
		}
		if key == "" {
			key = embedding
		}
		stored, err := w.Dense(key)
		if err != nil {
			return fmt.Errorf("tensor %q: the backbone's: %w", NameParameter(path), err)
		}
		if d := a.tables[path]; !d.Shape().Eq(stored.Shape()) || !slices.Equal(d.Float32s(), stored.Float32s()) {
			return fmt.Errorf("tensor %q, %v, is not the backbone's %s, %v: PEFT saved the table with the adapter, which "+
				"belongs to another backbone, or has a larger vocabulary or trained rows. Merge it with PEFT, and use the "+
				"merged checkpoint", NameParameter(path), d.Shape(), key, stored.Shape())
		}
	}
	a.tables = nil
	return nil
}

// addTable keeps a table of the file for checkTables.
func (a *Adapter) addTable(path string, d *tensor.Dense) {
	if a.tables == nil {
		a.tables = map[string]*tensor.Dense{}
	}
	a.tables[path] = d
}
