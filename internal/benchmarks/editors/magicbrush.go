package editors

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
)

// MagicBrush is the test split of MagicBrush.
var MagicBrush = family.Benchmark("magicbrush", loadMagicBrush)

const (
	singleTurn = "single turn"
	multiTurn  = "multi-turn"
)

var magicBrushOutput = regexp.MustCompile(`^(.*)-output(\d+)\.(?:png|jpg)$`)

// magicBrushTurn is a line of edit_turns.json.
type magicBrushTurn struct{ Input, Output, Instruction string }

func loadMagicBrush(o protocol.Options) (protocol.Set, error) {
	if o.Data == "" {
		return nil, fmt.Errorf("there are no published data: give --ratings, the unpacked test set")
	}
	root := filepath.Join(o.Data, "images")
	if _, err := os.Stat(root); err != nil {
		root = o.Data
	}
	s, err := protocol.NewEditorSet("magicbrush", o)
	if err != nil {
		return nil, err
	}
	instructions, err := readTurns(o.Data)
	if err != nil {
		return nil, err
	}
	captions, err := readMagicBrushCaptions(o.Data)
	if err != nil {
		return nil, err
	}
	folders, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	one := protocol.Bounds{Low: 0, High: 1}
	s.Parts, s.Columns = []string{singleTurn, multiTurn}, []string{"l1", "l2", "clip_i", "dino", "clip_t", "score"}
	s.Bounds = map[string]protocol.Bounds{"l1": one, "l2": one, "clip_i": protocol.CosineBounds,
		"dino": protocol.CosineBounds, "clip_t": protocol.CosineBounds, "score": protocol.ScoreBounds}
	s.Output = func(editor string, i int) string { return magicBrushPicture(editor, s.Samples[i].Item.ID, turns(s, i)) }
	for _, d := range folders {
		if !d.IsDir() {
			continue
		}
		if err := addSession(s, root, d.Name(), instructions, captions[d.Name()]); err != nil {
			return nil, err
		}
	}
	if len(s.Samples) == 0 {
		return nil, fmt.Errorf("%s has no folders ID with ID-output1.png", root)
	}
	return s, nil
}

// turns returns how many turns the session of a sample has.
func turns(s *protocol.EditorSet, i int) int {
	id, _, _ := strings.Cut(s.Samples[i].Item.ID, "/")
	for n := 1; ; n++ {
		if _, ok := s.Index[id+"/"+strconv.Itoa(n)]; !ok {
			return n - 1
		}
	}
}

// magicBrushPicture returns the path of an editor's picture of a sample.
func magicBrushPicture(editor, sample string, turns int) string {
	id, turn, _ := strings.Cut(sample, "/")
	kind := "inde"
	if turn == "final" {
		kind, turn = "iter", strconv.Itoa(turns)
	}
	name := id + "_" + kind + "_" + turn
	if turn == "1" {
		name = id + "_1"
	}
	return protocol.FirstFile(filepath.Join(editor, id, name), ".jpg", ".png")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// addSession adds a session's turns, and its end.
func addSession(s *protocol.EditorSet, root, id string, instructions map[string]magicBrushTurn,
	captions map[string]string) error {
	entries, err := os.ReadDir(filepath.Join(root, id))
	if err != nil {
		return err
	}
	outputs := map[int]string{}
	for _, e := range entries {
		if m := magicBrushOutput.FindStringSubmatch(e.Name()); m != nil && m[1] == id {
			n, err := strconv.Atoi(m[2])
			if err != nil || outputs[n] != "" {
				return fmt.Errorf("%s: a second wanted result of turn %s", filepath.Join(root, id), m[2])
			}
			outputs[n] = e.Name()
		}
	}
	path := func(name string) string { return filepath.Join(root, id, name) }
	bare := func(name string) protocol.Picture { return protocol.Picture{Path: path(name), Bare: true} }
	wanted := func(id, output string) *edit.Edit {
		it := &edit.Edit{ID: id}
		it.Set(protocol.Target, bare(output))
		protocol.SetCaptions(it, [2]string{"", captions[output]})
		return it
	}
	for n := 1; n <= len(outputs); n++ {
		if outputs[n] == "" {
			return fmt.Errorf("%s: there are %d wanted results, and none of turn %d", path(""), len(outputs), n)
		}
		turn, known := instructions[outputs[n]]
		it := wanted(id+"/"+strconv.Itoa(n), outputs[n])
		it.Instruction = turn.Instruction
		if known {
			it.Set("source", bare(turn.Input))
		}
		sample := protocol.EditorSample{Item: it, Output: protocol.Picture{Bare: true}, Parts: []string{singleTurn},
			Source: id} // a turn starts from the wanted result of the one before
		sample.Scored = known
		if err := s.Add(sample); err != nil {
			return err
		}
	}
	if last := outputs[len(outputs)]; last != "" {
		// no number is of turns and ends, so an end is a unit of its own: an editor may have only one of the two
		return s.Add(protocol.EditorSample{Item: wanted(id+"/final", last), Output: protocol.Picture{Bare: true},
			Parts: []string{multiTurn}})
	}
	return nil
}

// readTurns reads edit_turns.json by the wanted result's name; nothing if it does not exist.
func readTurns(folder string) (map[string]magicBrushTurn, error) {
	path := filepath.Join(folder, "edit_turns.json")
	if !exists(path) {
		return nil, nil
	}
	var list []magicBrushTurn
	if err := protocol.ReadJSON(path, &list, "[{input, output, instruction}]"); err != nil {
		return nil, err
	}
	out := map[string]magicBrushTurn{}
	for _, t := range list {
		if _, twice := out[t.Output]; twice || t.Input == "" || t.Output == "" || t.Instruction == "" {
			return nil, fmt.Errorf("%s: %q: want input, output and instruction, once for each output", path,
				t.Output)
		}
		out[t.Output] = t
	}
	return out, nil
}

// readMagicBrushCaptions reads the captions of the wanted results by session and file; nothing if they do not exist.
func readMagicBrushCaptions(folder string) (out map[string]map[string]string, err error) {
	names := []string{"local_captions.json", "local_descriptions.json"}
	at := slices.IndexFunc(names, func(name string) bool { return exists(filepath.Join(folder, name)) })
	if at < 0 {
		return nil, nil
	}
	path := filepath.Join(folder, names[at])
	return out, protocol.ReadJSON(path, &out, "{ID: {FILE: CAPTION}}")
}
