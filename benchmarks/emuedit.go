package benchmarks

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

var emuEdit = &Benchmark{
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

func loadEmuEdit(o Options) (Set, error) {
	files, err := locateAll(o.Data, "*.parquet", "*.jsonl", "*.csv")
	if err != nil {
		return nil, err
	}
	columns := []string{"instruction", "task", "split", "idx", "input_caption", "output_caption"}
	table, err := openSamples(files, append(slices.Clone(columns), "image")...)
	if err != nil {
		return nil, err
	}
	if err := differentEditors(o.Editors); err != nil {
		return nil, err
	}
	s := &graded{name: "emu-edit", editors: o.Editors, by: o.By,
		columns: []string{"clip_dir", "clip_im", "clip_out", "dino", "l1_source", "score"},
		bounds: map[string]bounds{"clip_dir": cosineBounds, "clip_im": cosineBounds, "clip_out": cosineBounds,
			"dino": cosineBounds, "l1_source": {0, 1}, "score": scoreBounds}}
	s.output = func(editor string, i int) string {
		base := filepath.Join(editor, filepath.FromSlash(s.samples[i].item.ID))
		if exists(base + ".jpg") {
			return base + ".jpg"
		}
		return base + ".png"
	}
	generations := table.has("edited_image") && table.has("model")
	if generations {
		columns = append(columns, "model")
	}
	err = table.each(columns, func(p place, text []string) error {
		task, split, idx := text[1], text[2], text[3]
		if split == "" || idx == "" || text[0] == "" || task == "" {
			return errors.New("instruction, task, split and idx were expected")
		}
		id := split + "/" + idx
		if generations { // a row for each sample and model
			if _, twice := s.held[text[6]][id]; twice || text[6] == "" {
				return fmt.Errorf("the output of %q for %s: one, of a model with a name, was expected", text[6], id)
			}
			s.hold(text[6], id, p.picture("edited_image", -1, o.Images))
		}
		if i, known := s.index[id]; known && generations {
			if s.samples[i].item.Instruction != text[0] {
				return fmt.Errorf("%s has another instruction here than before", id)
			}
			return nil
		}
		return s.add(gradedSample{group: task, parts: []string{split}, scored: true,
			item: Item{Key: Key{ID: id}, Instruction: text[0], Source: p.picture("image", -1, o.Images),
				Captions: [2]string{text[4], text[5]}}})
	})
	return s, err
}
