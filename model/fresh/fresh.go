// Package fresh makes new checkpoints: small models of the LLaVA-NeXT architecture in Hugging Face files, with a tokenizer
// trained on given text and weights ready to be trained from scratch. transformers loads them like any other.
package fresh

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"assay/checkpoints"
)

// rowMultiple is what the rows of the embedding table are rounded up to, so that matrix products have even sizes.
const rowMultiple = 64

// Facts describe a checkpoint that was made.
type Facts struct {
	Folder           string `json:"folder"`
	Parameters       int    `json:"parameters"`
	TextParameters   int    `json:"text_parameters"`   // of the language model
	VisionParameters int    `json:"vision_parameters"` // of the vision tower
	Vocab            int    `json:"vocab"`             // tokens, special ones included
	Merges           int    `json:"merges"`
	Rows             int    `json:"rows"`        // of the embedding table
	TileTokens       int    `json:"tile_tokens"` // image tokens of one tile
	Seed             uint64 `json:"seed"`
}

// Create makes the checkpoint directory dir from sizes, the UTF-8 text files that the tokenizer learns from, and a seed.
// The same arguments give the same bytes. dir must not exist, or be empty; it appears complete or not at all.
func Create(dir string, sizes Sizes, texts []string, seed uint64) (Facts, error) {
	if err := sizes.Check(); err != nil {
		return Facts{}, err
	}
	documents, err := readTexts(texts)
	if err != nil {
		return Facts{}, err
	}
	bpe, err := TrainBPE(documents, sizes.Vocab-len(specialTokens))
	if err != nil {
		return Facts{}, err
	}
	vocab := len(bpe.Tokens) + len(specialTokens)
	facts := Facts{
		Folder: dir, Vocab: vocab, Merges: len(bpe.Merges), Rows: (vocab + rowMultiple - 1) / rowMultiple * rowMultiple,
		TileTokens: sizes.TileTokens(), Seed: seed,
	}
	err = checkpoints.WriteDir(dir, func(dir string) error { return sizes.write(dir, bpe, &facts) })
	return facts, err
}

// write puts every file of the checkpoint into dir and counts the parameters.
func (s Sizes) write(dir string, bpe *BPE, facts *Facts) error {
	tensors := s.Init(facts.Rows, facts.Seed)
	for name, t := range tensors {
		n := t.Shape().TotalSize()
		facts.Parameters += n
		switch name[0] {
		case 'l':
			facts.TextParameters += n
		case 'v':
			facts.VisionParameters += n
		}
	}
	for _, f := range []struct {
		name  string
		value object
	}{
		{"config.json", s.configJSON(bpe, facts.Rows)},
		{"generation_config.json", generationJSON(bpe)},
		{"preprocessor_config.json", s.preprocessorJSON()},
		{"processor_config.json", s.processorJSON()},
		{"tokenizer.json", bpe.tokenizerJSON()},
		{"tokenizer_config.json", tokenizerConfigJSON(s.Context)},
	} {
		err := checkpoints.WriteAtomic(filepath.Join(dir, f.name), func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetEscapeHTML(false)
			e.SetIndent("", "  ")
			return e.Encode(f.value)
		})
		if err != nil {
			return err
		}
	}
	err := checkpoints.WriteAtomic(filepath.Join(dir, "chat_template.jinja"), func(w io.Writer) error {
		_, err := io.WriteString(w, chatTemplate)
		return err
	})
	if err != nil {
		return err
	}
	return checkpoints.WriteFile(filepath.Join(dir, "model.safetensors"), tensors, map[string]string{"format": "pt"})
}

// readTexts reads the files that the tokenizer learns from.
func readTexts(paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, errors.New("no text to train the tokenizer on: name at least one file")
	}
	var documents []string
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if !utf8.Valid(data) {
			return nil, fmt.Errorf("%s is not UTF-8 text", path)
		}
		documents = append(documents, string(data))
	}
	return documents, nil
}
