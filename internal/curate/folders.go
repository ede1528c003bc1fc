package curate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/jsonfile"
)

// diffusersRow is a row of an image folder of Hugging Face `datasets`: columns NAME_file_name become pictures NAME.
// The first three are the default columns of diffusers' train_instruct_pix2pix.py.
type diffusersRow struct {
	Source      string  `json:"source_file_name"`
	Prompt      string  `json:"prompt"`
	Edit        string  `json:"edit_file_name"`
	ID          string  `json:"id"`
	Instruction string  `json:"instruction"`
	Score       decimal `json:"score"`
	Level       int     `json:"level"`
	Weight      decimal `json:"weight"`
}

// decimal is written with a point or an exponent. Readers of JSON lines infer the type of a column from its first
// rows, and fail if decimals follow integers.
type decimal float64

// MarshalJSON implements json.Marshaler.
func (d decimal) MarshalJSON() ([]byte, error) {
	raw, err := json.Marshal(float64(d))
	if err == nil && !bytes.ContainsAny(raw, ".e") {
		raw = append(raw, ".0"...)
	}
	return raw, err
}

// writeDiffusers writes diffusers/: images/ and metadata.jsonl, for --train_data_dir or --dataset_name of diffusers'
// training scripts. It is a separate folder, since `datasets` takes every picture and metadata file below a folder.
func writeDiffusers(dir, _ string, examples []RewardLabel) error {
	rows := make([]diffusersRow, len(examples))
	names := map[string]string{} // picture of the labels -> its name in this folder
	name := func(from string) (string, error) {
		if to, ok := names[from]; ok {
			return to, nil
		}
		at := filepath.Join("diffusers", "images", filepath.Base(from[:len(from)-len(filepath.Ext(from))]))
		to, err := linkOneOf(data.PictureEndings, dir, from, at)
		if err != nil {
			return "", err
		}
		names[from], err = filepath.Rel("diffusers", to)
		return names[from], err
	}
	for i, e := range examples {
		source, err := name(e.Source)
		if err != nil {
			return err
		}
		edit, err := name(e.Edit)
		if err != nil {
			return err
		}
		rows[i] = diffusersRow{source, e.Prompt, edit, e.ID, e.Instruction, decimal(e.Score), e.Level, decimal(e.Weight)}
	}
	return jsonfile.WriteLines(filepath.Join(dir, "diffusers", "metadata.jsonl"), rows)
}

// writeCard writes a README.md that tells `datasets` which files to load, if the layouts have data for it. Without it
// load_dataset silently loads only the pictures in images/.
func writeCard(dir string, layouts []string) error {
	files := ""
	switch {
	case slices.Contains(layouts, "parquet"):
		files = "data.parquet"
	case slices.Contains(layouts, "diffusers"):
		files = "diffusers/**"
	default:
		return nil
	}
	text := "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: " + files + "\n---\n\n" +
		"Reward-conditioned labels, written by score condition.\n"
	return os.WriteFile(filepath.Join(dir, "README.md"), []byte(text), 0o666)
}

// aiToolkitConfig is dataset.yaml of ai-toolkit/, the datasets of a configuration of ostris' ai-toolkit: images/ with
// the edits and a .txt file next to each, control/ with the sources under the same names.
const aiToolkitConfig = `# Paste this into process: of a configuration for an editing model, such as
# config/examples/train_lora_flux_kontext_24gb.yaml or train_lora_qwen_image_edit_32gb.yaml.
datasets:
  - folder_path: %s
    control_path: %s
    caption_ext: "txt"
    caption_dropout_rate: 0.05
    shuffle_tokens: false # keeps the words of the score in place
    resolution: [512, 768, 1024]
`

// kohyaConfig is dataset.toml of kohya's musubi-tuner, in kohya/ with the same folders.
const kohyaConfig = `# For --dataset_config of musubi-tuner: FLUX.1 Kontext, FLUX.2, Qwen-Image-Edit.
[general]
resolution = [1024, 1024]
caption_extension = ".txt"
batch_size = 1
enable_bucket = true
bucket_no_upscale = false

[[datasets]]
image_directory = %s
control_directory = %s
cache_directory = %s
num_repeats = 1
`

// captionedEndings are the picture endings that both trainers look for.
var captionedEndings = []string{".png", ".jpg", ".jpeg", ".webp"}

// writeCaptioned returns a layout that writes images/ and control/ below a folder, and the configuration that names
// them, and a cache, by absolute paths, since trainers resolve relative ones from their working directory. Names of
// pictures are numbers of equal length, since trainers match prefixes.
func writeCaptioned(folder, file, config string) func(dir, out string, examples []RewardLabel) error {
	return func(dir, out string, examples []RewardLabel) error {
		out, err := filepath.Abs(out)
		if err != nil {
			return err
		}
		var paths []any
		for _, name := range []string{"images", "control", "cache"}[:strings.Count(config, "%s")] {
			quoted, err := json.Marshal(filepath.Join(out, folder, name))
			if err != nil {
				return err
			}
			paths = append(paths, quoted)
		}
		for i, e := range examples {
			name := fmt.Sprintf("%07d", i)
			at := filepath.Join(folder, "images", name)
			if _, err := linkOneOf(captionedEndings, dir, e.Edit, at); err != nil {
				return err
			}
			if _, err := linkOneOf(captionedEndings, dir, e.Source, filepath.Join(folder, "control", name)); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, at+".txt"), []byte(e.Prompt), 0o666); err != nil {
				return err
			}
		}
		text := fmt.Sprintf(config, paths...)
		return os.WriteFile(filepath.Join(dir, folder, file), []byte(text), 0o666)
	}
}
