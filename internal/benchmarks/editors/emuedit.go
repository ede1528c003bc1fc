package editors

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"assay/internal/benchmarks/protocol"
)

// EmuEdit is the test split of Emu Edit.
var EmuEdit = &protocol.Benchmark{
	Name:  "emu-edit",
	Title: "Emu Edit's test set: similarities of source, edit and captions, 7 tasks",
	Needs: []string{
		"--ratings: the data set's Parquet files: instruction, image, task, split, idx, input_caption, output_caption; " +
			"those with Emu Edit's own outputs have edited_image and model, too",
		"--editors: folders MODEL with SPLIT/IDX.png",
		"--component l1_source and files of metrics: clip_dir (of: [edit, source, caption, source_caption]), clip_im and " +
			"dino (of: [edit, source]), clip_out (of: [edit, caption]): docs/metrics.md",
	},
	Published: "facebook: the data sets emu_edit_test_set and emu_edit_test_set_generations, whose cards count " +
		"validation and test the other way round (2,022 and 3,589 samples)",
	Predicts: `{"id": "test/12", "model": "MODEL", "clip_im": 0.87, "l1_source": 0.09}, id being split/idx, ` +
		`or with "score"`,
	Rules: []string{
		"clip_dir: cosine of the change of the picture and of the captions; clip_im, dino: cosines of the edit and the " +
			"source; clip_out: of the edit and the output's caption",
		"l1_source: mean |a - b| of values on 0..1, the edit resized (bicubic) to the source's size",
		"means over the samples of a split, all of them and each task's; the paper does not say which encoders it used",
	},
	Flags:    []string{"components", "component", "editors", "by", "images", "lower"},
	Load:     loadEmuEdit,
	Headline: "clip_dir: test",
}

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
			return errors.New("instruction, task, split and idx were expected")
		}
		id := split + "/" + idx
		if generations { // a row for each sample and model
			if _, twice := s.Held[text[6]][id]; twice || text[6] == "" {
				return fmt.Errorf("the output of %q for %s: one, of a model with a name, was expected", text[6], id)
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
		return s.Add(protocol.EditorSample{Group: task, Parts: []string{split}, Scored: true, Item: it})
	})
	return s, err
}
