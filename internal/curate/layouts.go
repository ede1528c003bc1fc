package curate

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/jsonfile"
)

// Layouts are the formats that trainers of editors read, by name. Each writes files below dir, which already contains
// the pictures at the paths of the labels. dir is renamed to out when it is complete.
var Layouts = map[string]func(dir, out string, examples []RewardLabel) error{
	"ai-toolkit":      writeCaptioned("ai-toolkit", "dataset.yaml", aiToolkitConfig),
	"diffsynth":       writeDiffSynth,
	"diffusers":       writeDiffusers,
	"instructpix2pix": writeInstructPix2Pix,
	"kohya":           writeCaptioned("kohya", "dataset.toml", kohyaConfig),
	"magicbrush":      writeMagicBrush,
	"parquet":         writeExamplesParquet,
}

// LayoutNames lists the layouts.
func LayoutNames() []string { return slices.Sorted(maps.Keys(Layouts)) }

// diffSynth is a row of DiffSynth-Studio's metadata: image is the target, edit_image the source, or a list of several.
type diffSynth struct {
	Prompt    string  `json:"prompt"`
	Image     string  `json:"image"`
	EditImage any     `json:"edit_image"`
	Score     float64 `json:"score"`
	Weight    float64 `json:"weight"`
}

// writeDiffSynth writes metadata.csv, .json and .jsonl; paths are relative to the folder (--dataset_base_path). CSV
// has no lists: it is not written if an edit has several sources.
func writeDiffSynth(dir, _ string, examples []RewardLabel) error {
	rows, several := make([]diffSynth, len(examples)), false
	for i, e := range examples {
		rows[i] = diffSynth{e.Prompt, e.Edit, e.Source, e.Score, e.Weight}
		if len(e.References) > 0 {
			rows[i].EditImage, several = append([]string{e.Source}, e.References...), true
		}
	}
	if err := jsonfile.Write(filepath.Join(dir, "metadata.json"), rows); err != nil {
		return err
	}
	if err := jsonfile.WriteLines(filepath.Join(dir, "metadata.jsonl"), rows); err != nil {
		return err
	}
	if several {
		return nil
	}
	return atomicfile.Write(filepath.Join(dir, "metadata.csv"), func(w io.Writer) error {
		c := csv.NewWriter(w)
		c.Write([]string{"prompt", "image", "edit_image", "score", "weight"})
		number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
		for _, r := range rows {
			c.Write([]string{r.Prompt, r.Image, fmt.Sprint(r.EditImage), number(r.Score), number(r.Weight)})
		}
		c.Flush()
		return c.Error()
	})
}

// writeInstructPix2Pix writes instructpix2pix/: a folder for each example with SEED_0.jpg, SEED_1.jpg and
// prompt.json, and seeds.json, as EditDataset of InstructPix2Pix reads them. (The pictures keep their format: readers
// detect it from the content.)
func writeInstructPix2Pix(dir, _ string, examples []RewardLabel) error {
	var seeds []any
	for i, e := range examples {
		name := fmt.Sprintf("%07d", i)
		at := filepath.Join("instructpix2pix", name)
		if err := link(dir, e.Source, filepath.Join(at, "0_0.jpg")); err != nil {
			return err
		}
		if err := link(dir, e.Edit, filepath.Join(at, "0_1.jpg")); err != nil {
			return err
		}
		prompt := map[string]any{"edit": e.Prompt, "score": e.Score, "weight": e.Weight}
		raw, err := json.Marshal(prompt)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, at, "prompt.json"), raw, 0o666); err != nil {
			return err
		}
		seeds = append(seeds, []any{name, []string{"0"}})
	}
	return jsonfile.Write(filepath.Join(dir, "instructpix2pix", "seeds.json"), seeds)
}

// writeMagicBrush writes magicbrush/: images/ID/ID-input.png and ID-output1.png, edit_turns.json and
// edit_sessions.json, as in MagicBrush's training split (without masks).
func writeMagicBrush(dir, _ string, examples []RewardLabel) error {
	turns := []map[string]any{}
	sessions := map[string]any{}
	for i, e := range examples {
		id := fmt.Sprintf("%07d", i)
		in, out := id+"-input.png", id+"-output1.png"
		at := filepath.Join("magicbrush", "images", id)
		if err := link(dir, e.Source, filepath.Join(at, in)); err != nil {
			return err
		}
		if err := link(dir, e.Edit, filepath.Join(at, out)); err != nil {
			return err
		}
		turn := map[string]any{
			"input":       in,
			"output":      out,
			"instruction": e.Prompt,
			"score":       e.Score,
			"weight":      e.Weight,
		}
		turns = append(turns, turn)
		sessions[id] = []any{turn}
	}
	if err := jsonfile.Write(filepath.Join(dir, "magicbrush", "edit_turns.json"), turns); err != nil {
		return err
	}
	return jsonfile.Write(filepath.Join(dir, "magicbrush", "edit_sessions.json"), sessions)
}

// writeExamplesParquet writes data.parquet with the pictures inside, as Hugging Face `datasets` reads them. The first
// three columns are the default columns of diffusers' train_instruct_pix2pix.py.
func writeExamplesParquet(dir, _ string, examples []RewardLabel) error {
	columns := []data.Column{
		{Name: "source", Kind: data.KindImage},
		{Name: "prompt", Kind: data.KindText},
		{Name: "edit", Kind: data.KindImage},
		{Name: "id", Kind: data.KindText},
		{Name: "instruction", Kind: data.KindText},
		{Name: "score", Kind: data.KindNumber},
		{Name: "level", Kind: data.KindInteger},
		{Name: "weight", Kind: data.KindNumber},
	}
	if slices.ContainsFunc(examples, func(e RewardLabel) bool { return len(e.References) > 0 }) {
		columns = append(columns, data.Column{Name: "sources", Kind: data.KindImages})
	}
	return atomicfile.Write(filepath.Join(dir, "data.parquet"), func(out io.Writer) error {
		w, err := data.NewWriter(out, data.FormatParquet, columns)
		if err != nil {
			return err
		}
		for _, e := range examples {
			var pictures []data.Image // the edit, and its sources
			for _, path := range append([]string{e.Edit, e.Source}, e.References...) {
				raw, err := os.ReadFile(filepath.Join(dir, path))
				if err != nil {
					return err
				}
				pictures = append(pictures, data.Image{Path: path, Bytes: raw})
			}
			var r data.Record
			source := pictures[1]
			if len(e.References) > 0 {
				source = data.Image{}
				r.Set("sources", pictures[1:])
			}
			values := []any{
				source, e.Prompt, pictures[0], e.ID, e.Instruction, e.Score, int64(e.Level), e.Weight,
			}
			for i, v := range values {
				r.Set(columns[i].Name, v)
			}
			if err := w.Write(r); err != nil {
				return err
			}
		}
		return w.Close()
	})
}
