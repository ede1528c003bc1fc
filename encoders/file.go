package encoders

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/checkpoints"
	"assay/internal/store"
	"assay/model/backbone"
	"assay/onnx"
	"assay/ort"
)

// openFile opens an exported graph with the names used by Optimum and transformers.js: an input pixel_values and an
// output image_embeds, pooler_output or last_hidden_state (then its class token), or the only output. Texts need
// input_ids (and optionally attention_mask) and text_embeds in the same graph, or in text_model.onnx next to
// vision_model.onnx; without them the encoder only embeds pictures. preprocessor_config.json and tokenizer.json are
// in the folder of the file or its parent.
func openFile(path string, o Options) (*Model, error) {
	m := &Model{path: path, batch: o.Batch}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	m.processor, err = readProcessor(folder)
	if errors.Is(err, fs.ErrNotExist) { // a processor_config.json without an image_processor, as transformers writes it
		above, e := readProcessor(filepath.Dir(folder))
		if !errors.Is(e, fs.ErrNotExist) {
			m.processor, err = above, e
		}
	}
	if err != nil {
		return nil, err
	}
	if err := m.openFiles(path, folder, o); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (m *Model) openFiles(path, folder string, o Options) error {
	images, err := openTower(path, o, inPixels, "image_embeds", "pooler_output", "last_hidden_state")
	if err != nil {
		return err
	}
	m.images = images.tower
	if m.kind, err = fileKind(folder); err != nil {
		return err
	}
	if images.output == "image_embeds" || slices.Contains(images.declared, inIDs) {
		m.kind = CLIP
	}
	m.images.fixed = images.size(inPixels, 0)
	p := m.processor
	if h, w := images.size(inPixels, 2), images.size(inPixels, 3); h > 0 && h != p.height || w > 0 && w != p.width {
		return fmt.Errorf("the graph takes %dx%d pixels, but the preprocessor's crop_size is %dx%d", h, w, p.height,
			p.width)
	}
	m.fingerprint = fmt.Sprintf("%s %+v", images.digest, *p)
	texts := path
	if !slices.Contains(images.declared, inIDs) {
		name := strings.Replace(filepath.Base(path), "vision", "text", 1)
		texts = filepath.Join(folder, name)
		if _, err := os.Stat(texts); name == filepath.Base(path) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	t, err := openTower(texts, o, inIDs, "text_embeds")
	if err != nil {
		return err
	}
	m.texts = &textTower{tower: *t.tower, length: t.size(inIDs, 1)}
	m.texts.fixed = t.size(inIDs, 0)
	if t.size(inMask, 0) >= 0 {
		m.texts.mask = inMask
	}
	limit, err := textLimit(folder)
	if err != nil {
		return err
	}
	if m.texts.length > 0 {
		limit = min(limit, m.texts.length)
	}
	words := beside(folder, "tokenizer.json")
	if m.texts.tokenizer, err = openTokenizer(words, limit); err != nil {
		return err
	}
	sum, err := store.FileDigest(filepath.Join(words, "tokenizer.json"))
	m.fingerprint += fmt.Sprint(" ", t.digest, m.texts.limit(), sum)
	return err
}

// fileKind is the kind of encoder in the config.json that belongs to a graph; "" if there is none.
func fileKind(folder string) (string, error) {
	var c struct {
		ModelType string `json:"model_type"`
	}
	path := filepath.Join(beside(folder, "config.json"), "config.json")
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return families[c.ModelType].kind, nil
}

const inMask = "attention_mask"

// textLimit is max_position_embeddings of the text tower in config.json, 77 if absent.
func textLimit(folder string) (int, error) {
	var c struct {
		Text struct {
			Positions int `json:"max_position_embeddings"`
		} `json:"text_config"`
	}
	c.Text.Positions = 77
	path := filepath.Join(beside(folder, "config.json"), "config.json")
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return c.Text.Positions, nil
}

// fileTower is a tower of an exported graph, pruned to the part that one of its outputs needs.
type fileTower struct {
	*tower
	declared []string // inputs of the full graph
	digest   string   // of the file
}

// openTower opens the part of a graph that computes the first of the outputs that exists (or its only output).
func openTower(path string, o Options, input string, outputs ...string) (*fileTower, error) {
	g, err := onnx.Read(path)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err == nil {
		folder, err = filepath.EvalSymlinks(folder) // ONNX Runtime rejects symbolic links
	}
	if err != nil {
		return nil, err
	}
	t := &fileTower{tower: &tower{input: input}}
	if t.digest, err = fileDigest(path, folder, g); err != nil {
		return nil, err
	}
	for _, in := range g.Inputs {
		t.declared = append(t.declared, in.Name)
	}
	at := -1
	for _, name := range outputs {
		if at < 0 {
			at = slices.IndexFunc(g.Outputs, func(v onnx.ValueInfo) bool { return v.Name == name })
		}
	}
	if at < 0 && len(g.Outputs) == 1 {
		at = 0
	}
	if at < 0 || !slices.Contains(t.declared, input) {
		return nil, fmt.Errorf("%s: want an input %s and an output %s", path, input, strings.Join(outputs, " or "))
	}
	t.output = g.Outputs[at].Name
	g.Outputs = g.Outputs[at : at+1]
	onnx.Prune(g)
	used := map[string]bool{}
	for _, n := range g.Nodes {
		for _, name := range n.Inputs {
			used[name] = true
		}
	}
	g.Inputs = slices.DeleteFunc(g.Inputs, func(v onnx.ValueInfo) bool { return !used[v.Name] })
	if t.Session, err = ort.Open(g, ort.Options{Device: o.Device, Threads: o.Threads, Folder: folder,
		NoSpin: true}); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, in := range t.Inputs() {
		if in.Name != input && in.Name != inMask {
			return nil, errors.Join(fmt.Errorf("%s: %s depends on the unknown input %s", path, t.output,
				in.Name), t.Close())
		}
	}
	return t, nil
}

// size returns a dimension of an input: 0 if it is free, -1 if there is no such input.
func (t *fileTower) size(input string, dim int) int {
	for _, in := range t.Inputs() {
		if in.Name == input && dim < len(in.Shape) {
			return max(int(in.Shape[dim].Size), 0)
		}
	}
	return -1
}

// beside returns the folder, either folder or its parent, that has one of the files; folder if neither does.
func beside(folder string, files ...string) string {
	for _, dir := range []string{folder, filepath.Dir(folder)} {
		for _, f := range files {
			if _, err := os.Stat(filepath.Join(dir, f)); err == nil {
				return dir
			}
		}
	}
	return folder
}

// fileDigest identifies a graph by its bytes and the bytes of its external weights.
func fileDigest(path, folder string, g *onnx.Model) (string, error) {
	sum, err := store.FileDigest(path)
	if err != nil {
		return "", err
	}
	parts := []string{sum.String()}
	seen := map[string]bool{}
	for _, t := range g.Initializers {
		if t.External == nil || seen[t.External.Location] {
			continue
		}
		seen[t.External.Location] = true
		if sum, err = store.FileDigest(filepath.Join(folder, t.External.Location)); err != nil {
			return "", err
		}
		parts = append(parts, t.External.Location, sum.String())
	}
	return store.KeyOf(parts...).String(), nil
}

// Fingerprint identifies the encoder at a path by the content of its files, without opening it. For an .onnx file it
// covers all files in its folder, and the JSON files in the parent folder, where its configuration may be.
func Fingerprint(path string) (string, error) {
	if !strings.EqualFold(filepath.Ext(path), ".onnx") {
		w, err := checkpoints.OpenWeights(path)
		if err != nil {
			return "", err
		}
		defer w.Close()
		return backbone.Fingerprint(path, w)
	}
	parts := []string{filepath.Base(path)}
	for k, folder := range []string{filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		files, err := os.ReadDir(folder) // sorted
		if err != nil {
			return "", err
		}
		for _, f := range slices.DeleteFunc(files, os.DirEntry.IsDir) {
			if k > 0 && filepath.Ext(f.Name()) != ".json" {
				continue
			}
			sum, err := store.FileDigest(filepath.Join(folder, f.Name()))
			if err != nil {
				return "", err
			}
			parts = append(parts, f.Name(), sum.String())
		}
	}
	return store.KeyOf(parts...).String()[:24], nil
}
