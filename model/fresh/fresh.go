// Package fresh makes new checkpoints: small models of the LLaVA-NeXT and Qwen-VL architectures in Hugging Face files.
// Each has a tokenizer trained on given text, and weights ready to be trained from scratch. transformers loads them
// like any other.
package fresh

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"

	"assay/checkpoints"
	"assay/internal/atomicfile"
	"assay/internal/jsonfile"
	"assay/model/backbone"
	_ "assay/model/families" // they know their parameters
)

// Summary describes a new checkpoint.
type Summary struct {
	Folder           string `json:"folder"`
	Parameters       int    `json:"parameters"`
	TextParameters   int    `json:"text_parameters"`   // of the language model and its tables
	VisionParameters int    `json:"vision_parameters"` // of the vision tower, and what joins it to the language model
	Vocab            int    `json:"vocab"`             // tokens, special ones included
	Merges           int    `json:"merges"`
	Rows             int    `json:"rows"`                  // of the embedding table
	TileTokens       int    `json:"tile_tokens,omitempty"` // image tokens of one tile (llava_next)
	Seed             uint64 `json:"seed"`
}

// Create makes the checkpoint directory dir from sizes, the UTF-8 text files that the tokenizer learns from, and a
// seed. The same arguments give the same bytes. dir must not exist, or be empty; it appears complete or not at all.
func Create(dir string, sizes Sizes, texts []string, seed uint64) (Summary, error) {
	if err := sizes.Check(); err != nil {
		return Summary{}, err
	}
	documents, err := readTexts(texts)
	if err != nil {
		return Summary{}, err
	}
	v, err := families[sizes.Family].train(documents, sizes.Vocab)
	if err != nil {
		return Summary{}, err
	}
	facts := Summary{
		Folder:     dir,
		Vocab:      v.size(),
		Merges:     len(v.Merges),
		Rows:       v.rows,
		TileTokens: sizes.TileTokens(),
		Seed:       seed,
	}
	err = atomicfile.WriteDir(dir, func(dir string) error { return sizes.write(dir, v, &facts) })
	return facts, err
}

// write puts every file of the checkpoint into dir and counts the parameters: those that package model wants of this
// configuration.
func (s Sizes) write(dir string, v *vocabulary, facts *Summary) error {
	for name, value := range s.files(v) {
		if err := jsonfile.Write(filepath.Join(dir, name), value); err != nil {
			return err
		}
	}
	err := atomicfile.WriteBytes(filepath.Join(dir, "chat_template.jinja"), []byte(v.template))
	if err != nil {
		return err
	}
	b, err := backbone.DescribeBackbone(dir)
	if err != nil {
		return err
	}
	defer b.Close()
	tensors := Init(b.Parameters(), facts.Seed)
	for name, t := range tensors {
		n := t.Shape().TotalSize()
		facts.Parameters += n
		if b.VisionKey(name) {
			facts.VisionParameters += n
		} else {
			facts.TextParameters += n
		}
	}
	return checkpoints.WriteFile(filepath.Join(dir, checkpoints.SingleFile), tensors, map[string]string{"format": "pt"})
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
