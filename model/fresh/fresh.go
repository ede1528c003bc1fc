// Package fresh creates new checkpoints: small models of the LLaVA-NeXT and Qwen-VL architectures, and CLIP and DINOv2
// encoders, in Hugging Face files that transformers loads like any other.
//
// [Create] checks the [Sizes], trains a byte-level BPE on the given text, writes config, processor and tokenizer files,
// and initialises the weights for training from scratch ([Init]). [CreateCLIP] and [CreateDINO] do this for encoders,
// of which DINO's has no tokenizer. The same arguments produce the same bytes.
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
	_ "assay/model/families" // their parameter lists
)

// Summary describes a new checkpoint.
type Summary struct {
	Folder           string `json:"folder"`
	Parameters       int    `json:"parameters"`
	TextParameters   int    `json:"text_parameters"`   // of the language model and its tables
	VisionParameters int    `json:"vision_parameters"` // of the vision tower and its projector or merger
	Vocab            int    `json:"vocab"`             // tokens, special ones included
	Merges           int    `json:"merges"`
	Rows             int    `json:"rows"`                  // of the embedding table
	TileTokens       int    `json:"tile_tokens,omitempty"` // image tokens of one tile (llava_next)
	Seed             uint64 `json:"seed"`
}

// Create writes the checkpoint directory dir from sizes, the UTF-8 text files that the tokenizer is trained on, and a
// seed. The same arguments produce the same bytes. dir must not exist or must be empty; it appears complete or not at
// all.
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

// write writes every file of the checkpoint into dir and counts the parameters that package model expects for this
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

// readTexts reads the files that the tokenizer is trained on.
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
