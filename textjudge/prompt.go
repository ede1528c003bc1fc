package textjudge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/edit"
	"assay/internal/pystring"
	"assay/model/text"
)

// Released locates a published prompt in the user's copy of the code that it was published with.
type Released struct {
	File  string `yaml:"file"` // relative to the folder of the copy
	Parts []Part `yaml:"parts"`
	Join  string `yaml:"join"` // between the parts

	Instruction string `yaml:"instruction"` // the placeholder that the instruction replaces; "": none
	SHA256      string `yaml:"sha256"`      // of the text with its placeholders, UTF-8

	Fields map[string]string `yaml:"fields"` // placeholders of other texts, by name
	Format bool              `yaml:"format"` // Python's str.format is applied: doubled braces become single ones
	ByKind map[string]string `yaml:"kinds"`  // instead of parts: the file is JSON, {KIND: TEXT}; SHA-256 by kind
}

// Part is a piece of a published prompt.
type Part struct {
	Text    string            `yaml:"text" json:",omitempty"` // added by the code, instead of text of the file
	Name    string            `yaml:"name"`                   // of a string in a Python file; "": the whole file
	Replace map[string]string `yaml:"replace"`                // what the code replaces throughout it
}

// prompt is the prompt of a question.
type prompt struct {
	source  string // identifies it in fingerprints
	render  func(*edit.Edit) (string, error)
	texts   int      // published prompts that it is built from; 0: it is our own
	altered []string // the ones that differ from the published text
}

// ownPrompt reads a Jinja template from a judge's folder.
func ownPrompt(folder fs.FS, name string) (*prompt, error) {
	raw, err := fs.ReadFile(folder, name)
	if err != nil {
		return nil, err
	}
	t, err := text.NewPrompt(string(raw), name)
	if err != nil {
		return nil, err
	}
	render := func(e *edit.Edit) (string, error) {
		all := map[string]any{"instruction": e.Instruction}
		for name, v := range e.Texts {
			all[name] = v
		}
		return t.Render(all)
	}
	if _, err := render(&edit.Edit{Instruction: "a"}); err != nil {
		return nil, err
	}
	return &prompt{source: string(raw), render: render}, nil
}

// prompt reads a published prompt from a copy of its code. A text that differs from the published one is allowed and
// reported in altered.
func (r *Released) prompt(copied string) (*prompt, error) {
	raw, err := os.ReadFile(filepath.Join(copied, filepath.FromSlash(r.File)))
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, part := range r.Parts {
		s := strings.ReplaceAll(string(raw), "\r\n", "\n")
		if part.Text != "" {
			texts = append(texts, part.Text)
			continue
		}
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
	return r.fill(strings.Join(texts, r.Join), r.SHA256)
}

// fill builds a prompt from a text with placeholders; digest is the SHA-256 of the published text.
func (r *Released) fill(source, digest string) (*prompt, error) {
	marks := map[string]string{} // by placeholder: the name of the text that replaces it
	if r.Instruction != "" {
		marks[r.Instruction] = "instruction"
	}
	for name, mark := range r.Fields {
		marks[mark] = name
	}
	pieces, err := pystring.Cut(source, marks, r.Format)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.File, err)
	}
	p := &prompt{source: source, texts: 1, render: func(e *edit.Edit) (string, error) {
		var b strings.Builder
		for _, piece := range pieces {
			text := piece.Text
			switch name := marks[piece.Mark]; {
			case piece.Mark == "":
			case name == "instruction":
				text = e.Instruction
			case e.Texts[name] == "":
				return "", fmt.Errorf("there is no %s, which the prompt needs", name)
			default:
				text = e.Texts[name]
			}
			b.WriteString(text)
		}
		return b.String(), nil
	}}
	sum := sha256.Sum256([]byte(source))
	if got := hex.EncodeToString(sum[:]); got != digest {
		p.altered = []string{fmt.Sprintf("%s has SHA-256 %s, the published one %s", r.File, got, digest)}
	}
	return p, nil
}
