package editors

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/internal/benchmarks/protocol"
	"assay/internal/pystring"
)

// ImgEditBench is ImgEdit-Bench.
var ImgEditBench = family.Benchmark("imgedit-bench", loadImgEdit)

func loadImgEdit(o protocol.Options) (protocol.Set, error) {
	path, err := protocol.Locate(o.Data, "basic_edit.json")
	if err != nil {
		return nil, err
	}
	var entries map[string]struct {
		ID     string `json:"id"`
		Prompt string `json:"prompt"`
		Kind   string `json:"edit_type"`
	}
	if err := protocol.ReadJSON(path, &entries, "{KEY: {id, prompt, edit_type}}"); err != nil {
		return nil, err
	}
	s, err := protocol.NewEditorSet("imgedit-bench", o)
	if err != nil {
		return nil, err
	}
	root := cmp.Or(o.Images, filepath.Join(filepath.Dir(path), "original_images"))
	s.OfGroups, s.Own = "mean of kinds", readImgEditResult
	s.Columns, s.Fields = []string{"published", "score"}, map[string][]string{"published": {"published"}}
	s.Bounds = map[string]protocol.Bounds{"published": {Low: 1, High: 5}, "score": protocol.ScoreBounds}
	s.Output = func(editor string, i int) string { return filepath.Join(editor, s.Samples[i].Item.ID+".png") }
	var p protocol.Problems
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		e := entries[key]
		if e.ID == "" || e.Kind == "" || e.Prompt == "" {
			p.Add(key, "want id, prompt and edit_type")
		}
		source := protocol.Picture{Path: filepath.Join(root, filepath.FromSlash(e.ID))}
		it := protocol.NewItem(protocol.Key{ID: key}, e.Prompt, source, protocol.Picture{})
		it.Kind = e.Kind
		p.Keep(s.Add(protocol.EditorSample{Group: e.Kind, Parts: []string{"all"}, Scored: true, Item: it}))
	}
	if len(s.Samples) == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	return s, p.Err()
}

// readImgEditResult reads the answers in an editor's result.json.
func readImgEditResult(editor string, j *protocol.EditorPredictions) error {
	path := filepath.Join(editor, "result.json")
	var texts map[string]json.RawMessage
	if err := protocol.ReadJSON(path, &texts, "{KEY: TEXT}"); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	var p protocol.Problems
	failed, odd := 0, 0
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		i, ok := j.Index[key]
		if !ok {
			p.Add(path, "%q is not a sample of the data", key)
			continue
		}
		var text string
		if json.Unmarshal(texts[key], &text) != nil {
			failed++ // {"error": ...}
			continue
		}
		v, usual, ok := imgEditScore(text)
		if !ok {
			failed++
			continue
		}
		if !usual {
			odd++
		}
		if err := j.Bounds["published"].Check("the mean of "+key, v); err != nil {
			p.Add(path, "%v", err)
			continue
		}
		if err := j.Set("published", "", i, v, path); err != nil {
			p.Add(path, "%v", err)
		}
	}
	if failed > 0 {
		j.Notes = append(j.Notes, fmt.Sprintf("published: %d of %d answers have no numbers and do not count", failed,
			len(texts)))
	}
	if odd > 0 {
		j.Notes = append(j.Notes, fmt.Sprintf("published: %d answers do not have three numbers from 1 to 5, but count "+
			"anyway, as with the authors", odd))
	}
	return p.Err()
}

// imgEditScore reads an answer as the authors do: the mean of the lines "NAME: DIGITS", rounded to two digits. usual
// reports whether these are three numbers from 1 to 5.
func imgEditScore(text string) (v float64, usual, ok bool) {
	sum, n, within := 0.0, 0, true
	for _, line := range pystring.Lines(text) {
		parts := strings.Split(pystring.Strip(line), ": ")
		if len(parts) != 2 {
			continue
		}
		digits, ok := pystring.Decimal(parts[1])
		x, err := strconv.ParseFloat(digits, 64)
		if !ok || err != nil {
			continue
		}
		within = within && x >= 1 && x <= 5
		sum += x
		n++
	}
	if n == 0 {
		return 0, false, false
	}
	v, err := strconv.ParseFloat(strconv.FormatFloat(sum/float64(n), 'f', 2, 64), 64) // as Python's round
	return v, within && n == 3, err == nil
}
