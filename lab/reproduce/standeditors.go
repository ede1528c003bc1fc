package main

import (
	"cmp"
	"fmt"
	"slices"

	"assay/internal/stats"
)

// chosen is an editor whose outputs are, by truth, the best of a number drawn for each instruction; the worst for a
// negative number.
type chosen struct {
	name string
	of   int
}

// editorRow is a row of a table with outputs of several editors.
type editorRow struct {
	ID            string `json:"id"`
	Sample        string `json:"sample"`
	Source        string `json:"source"`
	Edit          string `json:"edit"`
	Target        string `json:"target"`
	Instruction   string `json:"instruction"`
	SourceCaption string `json:"source_caption"`
	TargetCaption string `json:"target_caption"`
	Method        string `json:"method"`
}

// edits writes the outputs of editors as edits.jsonl, and returns their mean true degrees.
func (s *set) edits(w *folder, editors []chosen) []float64 {
	rng := stats.NewRand(4)
	var lines []editorRow
	truth := make([]float64, len(editors))
	for _, g := range s.groups {
		for i, e := range editors {
			n := max(e.of, -e.of)
			var drawn []row
			for _, k := range rng.Perm(len(g))[:n] {
				drawn = append(drawn, g[k])
			}
			slices.SortStableFunc(drawn, func(a, b row) int { return cmp.Compare(a.truth.Degree, b.truth.Degree) })
			r := drawn[0]
			if e.of > 0 {
				r = drawn[n-1]
			}
			truth[i] += r.truth.Degree / float64(len(s.groups))
			lines = append(lines, editorRow{r.Group + "/" + e.name, r.Group, r.Source, r.Edit, r.Target, r.Instruction,
				r.SourceCaption, r.TargetCaption, e.name})
			for _, name := range []string{r.Source, r.Edit, r.Target} {
				w.copy(name, name)
			}
		}
	}
	writeLines(w, "edits.jsonl", lines)
	return truth
}

// tuned writes the outputs of an editor and of two better ones.
func (s *set) tuned(w *folder) {
	s.edits(w, []chosen{{"magicbrush", 1}, {"feedback", 2}, {"conditioning", 3}})
}

// arena writes the outputs of better and worse editors, and their true ranking.
func (s *set) arena(w *folder) {
	editors := []chosen{{"best of 4", 4}, {"best of 3", 3}, {"best of 2", 2}, {"one", 1}, {"worst of 2", -2},
		{"worst of 3", -3}}
	truth := s.edits(w, editors)
	var ranking []map[string]any
	for i, e := range editors {
		ranking = append(ranking, map[string]any{"model": e.name, "score": truth[i]})
	}
	writeLines(w, "ranking.jsonl", ranking)
}

// preferences writes votes with the counts that ADIEE's Table 4 prints.
func (s *set) preferences(w *folder) {
	var lines []map[string]any
	for winner, n := range map[string]int{"magicbrush": 914, "tie": 752, "conditioning": 1190} {
		for range n {
			lines = append(lines, map[string]any{"left": "magicbrush", "right": "conditioning", "winner": winner})
		}
	}
	slices.SortFunc(lines, func(a, b map[string]any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	writeLines(w, "votes.jsonl", lines)
}
