package editors

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"assay/internal/benchmarks/protocol"
)

// EmuEdit is the test split of Emu Edit.
var EmuEdit = family.Benchmark("emu-edit", loadEmuEdit)

func loadEmuEdit(o protocol.Options) (protocol.Set, error) {
	files, err := protocol.LocateAll(o.Data, "*.parquet", "*.jsonl", "*.csv")
	if err != nil {
		return nil, err
	}
	columns := []string{"instruction", "task", "split", "idx", "input_caption", "output_caption"}
	table, err := protocol.OpenSamples(files, append(slices.Clone(columns), "image")...)
	if err != nil {
		return nil, err
	}
	s, err := protocol.NewEditorSet("emu-edit", o)
	if err != nil {
		return nil, err
	}
	s.Columns = []string{"clip_dir", "clip_im", "clip_out", "dino", "l1_source", "score"}
	s.Bounds = map[string]protocol.Bounds{"clip_dir": protocol.CosineBounds, "clip_im": protocol.CosineBounds,
		"clip_out": protocol.CosineBounds, "dino": protocol.CosineBounds, "l1_source": {Low: 0, High: 1},
		"score": protocol.ScoreBounds}
	s.Output = func(editor string, i int) string {
		return protocol.FirstFile(filepath.Join(editor, filepath.FromSlash(s.Samples[i].Item.ID)), ".jpg", ".png")
	}
	generations := table.Has("edited_image") && table.Has("model")
	if generations {
		columns = append(columns, "model")
	}
	err = table.Each(columns, func(p protocol.Sample, text []string) error {
		task, split, idx := text[1], text[2], text[3]
		if split == "" || idx == "" || text[0] == "" || task == "" {
			return errors.New("want instruction, task, split and idx")
		}
		id := split + "/" + idx
		if generations { // a row for each sample and model
			if _, twice := s.Held[text[6]][id]; twice || text[6] == "" {
				return fmt.Errorf("the output of %q for %s: want one, of a model with a name", text[6], id)
			}
			s.Hold(text[6], id, p.Picture("edited_image", -1, o.Images))
		}
		if i, known := s.Index[id]; known && generations {
			if s.Samples[i].Item.Instruction != text[0] {
				return fmt.Errorf("%s has another instruction here than before", id)
			}
			return nil
		}
		it := protocol.NewItem(protocol.Key{ID: id}, text[0], p.Picture("image", -1, o.Images), protocol.Picture{})
		protocol.SetCaptions(it, [2]string{text[4], text[5]})
		return s.Add(protocol.EditorSample{Group: task, Parts: []string{split}, Source: p.PictureName("image"), Scored: true,
			Item: it})
	})
	return s, err
}
