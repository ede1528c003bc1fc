package lora

import (
	"maps"
	"slices"
	"testing"

	"gorgonia.org/tensor"
)

// TestTables: tables of the vocabulary that PEFT saved beside the matrices must be the backbone's, and are dropped.
func TestTables(t *testing.T) {
	const output, wrapped = "lm_head.weight", "lm_head.base_layer.weight"
	const embedding, older = "model.language_model.embed_tokens.weight", "model.embed_tokens.weight"
	for name, test := range map[string]struct {
		tables map[string]*tensor.Dense
		save   []string
		tied   bool
		want   string
		whole  []string
	}{
		"both": {tables: map[string]*tensor.Dense{
			output: matrix(2, 2, 5, 6, 7, 8), embedding: matrix(2, 2, 1, 2, 3, 4)}},
		"of a layer with an adapter": {tables: map[string]*tensor.Dense{wrapped: matrix(2, 2, 5, 6, 7, 8)}},
		"older spelling":             {tables: map[string]*tensor.Dense{older: matrix(2, 2, 1, 2, 3, 4)}},
		"tied":                       {tables: map[string]*tensor.Dense{output: matrix(2, 2, 1, 2, 3, 4)}, tied: true},
		"others when tied": {tables: map[string]*tensor.Dense{output: matrix(2, 2, 5, 6, 7, 8)}, tied: true,
			want: `tensor "base_model.model.lm_head.weight", (2, 2), is not the backbone's model.embed_tokens.weight, (2, 2)`},
		"trained rows": {tables: map[string]*tensor.Dense{embedding: matrix(2, 2, 1, 2, 3, 5)},
			want: "is not the backbone's model.embed_tokens.weight"},
		"more rows": {tables: map[string]*tensor.Dense{wrapped: matrix(3, 2, 5, 6, 7, 8, 9, 9)},
			want: `tensor "base_model.model.lm_head.weight", (3, 2), is not the backbone's lm_head.weight, (2, 2)`},
		"trained in full": {tables: map[string]*tensor.Dense{output: matrix(2, 2, 1, 1, 1, 1)},
			save: []string{"lm_head"}, whole: []string{output}},
	} {
		t.Run(name, func(t *testing.T) {
			w := smallBackbone()
			if test.tied {
				delete(w, output)
			}
			c := NewConfig(1, 2, Names{List: []string{"q_proj"}})
			tensors := maps.Clone(freshAdapter(t, c, w).Tensors)
			for path, d := range test.tables {
				tensors[tensorPrefix+path] = d
			}
			c.ModulesToSave = test.save
			a := &Adapter{Config: c, Tensors: map[string]*tensor.Dense{}, spelled: map[string]string{}}
			if err := a.take(tensors); err != nil {
				t.Fatal(err)
			}
			holdsError(t, "Bind", a.Bind(w), test.want)
			if !slices.Equal(a.Whole, test.whole) {
				t.Errorf("got full parameters %q, want %q", a.Whole, test.whole)
			}
			if got, want := len(a.Tensors), 2+len(test.whole); got != want {
				t.Errorf("got %d tensors, want %d", got, want)
			}
			if err := a.CheckWhole(w); err != nil {
				t.Errorf("CheckWhole: got error %v, want none", err)
			}
		})
	}
}
