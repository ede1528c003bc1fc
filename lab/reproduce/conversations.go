package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"assay/data"
)

// conversations turns each labelled row into a conversation: both pictures and a judge's question, with the label, on
// 0 to 10, as the answer. A backbone without score token and head learns to score this way.
type conversations struct{ in, split, prompt, out string }

type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

type part struct {
	Type  string `json:"type"`
	Image string `json:"image,omitempty"`
	Text  string `json:"text,omitempty"`
}

type conversation struct {
	ID       string    `json:"id"`
	Messages []message `json:"messages"`
}

// blank is the placeholder for the instruction in a judge's prompt.
const blank = "{{ instruction }}"

func (f *conversations) write() (int, error) {
	if filepath.Dir(f.in) != filepath.Dir(f.out) {
		return 0, fmt.Errorf("%s: picture paths are relative to the table's folder: write into %s", f.out, filepath.Dir(f.in))
	}
	raw, err := os.ReadFile(f.prompt)
	if err != nil {
		return 0, err
	}
	prompt := strings.TrimSuffix(string(raw), "\n")
	if strings.Count(prompt, blank) != 1 || strings.Count(prompt, "{") != 2 {
		return 0, fmt.Errorf("%s: want a prompt with %s once and no other Jinja", f.prompt, blank)
	}
	t, err := data.OpenTable(f.in)
	if err != nil {
		return 0, err
	}
	defer t.Close()
	var all []conversation
	for row, err := range t.All() {
		if err != nil {
			return 0, err
		}
		if row.Label == nil || f.split != "" && row.Split != f.split {
			continue
		}
		if row.Source.Path == "" || row.Edit.Path == "" {
			return 0, fmt.Errorf("%s: row %s has embedded pictures: label them with `pictures: files`", f.in, row.ID)
		}
		all = append(all, conversation{row.ID, []message{
			{"user", []part{{Type: "image", Image: row.Source.Path}, {Type: "image", Image: row.Edit.Path},
				{Type: "text", Text: strings.Replace(prompt, blank, row.Instruction, 1)}}},
			{"assistant", strconv.FormatFloat(10**row.Label, 'f', 1, 64)},
		}})
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("%s: no labelled rows", f.in)
	}
	w := &folder{dir: filepath.Dir(f.out)}
	writeLines(w, filepath.Base(f.out), all)
	return len(all), w.err
}
