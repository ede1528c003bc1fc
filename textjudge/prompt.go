package textjudge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/pystring"
	"assay/model/text"
)

// Released says where a published prompt is in the user's copy of the code that it was published with.
type Released struct {
	File  string `yaml:"file"` // relative to the folder of the copy
	Parts []Part `yaml:"parts"`
	Join  string `yaml:"join"` // stands between the parts

	Instruction string `yaml:"instruction"` // the mark that is replaced by the instruction; "": there is none
	SHA256      string `yaml:"sha256"`      // of the text with the mark in it, UTF-8
}

// Part is a piece of a published prompt.
type Part struct {
	Name    string            `yaml:"name"`    // of a string in a Python file; "": the whole file
	Replace map[string]string `yaml:"replace"` // what the code replaces everywhere in it before use
}

// prompt is the text of a question.
type prompt struct {
	source  string // what stands for it in fingerprints
	render  func(instruction string) (string, error)
	warning string
}

// ownPrompt reads a Jinja template of a judge's folder.
func ownPrompt(folder fs.FS, name string) (*prompt, error) {
	raw, err := fs.ReadFile(folder, name)
	if err != nil {
		return nil, err
	}
	t, err := text.NewPrompt(string(raw), name)
	if err != nil {
		return nil, err
	}
	render := func(instruction string) (string, error) {
		return t.Render(map[string]any{"instruction": instruction})
	}
	if _, err := render("a"); err != nil {
		return nil, err
	}
	return &prompt{source: string(raw), render: render}, nil
}

// prompt reads a published prompt out of a copy of its code. A text that is not the published one is allowed, with a
// warning.
func (r *Released) prompt(copied string) (*prompt, error) {
	raw, err := os.ReadFile(filepath.Join(copied, filepath.FromSlash(r.File)))
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, part := range r.Parts {
		s := strings.ReplaceAll(string(raw), "\r\n", "\n")
		if part.Name != "" {
			if s, err = pystring.Find(s, part.Name); err != nil {
				return nil, fmt.Errorf("%s: %w", r.File, err)
			}
		}
		for from, to := range part.Replace {
			s = strings.ReplaceAll(s, from, to)
		}
		texts = append(texts, s)
	}
	source := strings.Join(texts, r.Join)
	p := &prompt{source: source, render: func(instruction string) (string, error) {
		if r.Instruction == "" {
			return source, nil
		}
		return strings.ReplaceAll(source, r.Instruction, instruction), nil
	}}
	if r.Instruction != "" && !strings.Contains(source, r.Instruction) {
		return nil, fmt.Errorf("%s: the prompt has no %s, which stands for the instruction", r.File, r.Instruction)
	}
	sum := sha256.Sum256([]byte(source))
	if got := hex.EncodeToString(sum[:]); got != r.SHA256 {
		p.warning = fmt.Sprintf("%s: the prompt is not the published one: SHA-256 %s, published %s", r.File, got, r.SHA256)
	}
	return p, nil
}
