package readers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"assay/data"
)

func init() {
	register(Layout{
		Name:  "instructpix2pix",
		About: "InstructPix2Pix: seeds.json, <name>/prompt.json, <name>/<seed>_0.jpg and _1.jpg",
		open:  openInstructPix2Pix,
	})
}

// instructPix2Pix reads a source and a target for every seed of every prompt.
type instructPix2Pix struct {
	root    string
	prompts []seededPrompt
	starts  []int // first sample of every prompt, and the number of samples
}

type seededPrompt struct {
	name  string
	seeds []string
}

func (p *seededPrompt) UnmarshalJSON(raw []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(raw, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("want [name, [seeds]], have %.60s", raw)
	}
	var seeds []json.RawMessage
	if err := errors.Join(json.Unmarshal(pair[0], &p.name), json.Unmarshal(pair[1], &seeds)); err != nil {
		return err
	}
	for _, s := range seeds { // numbers or strings
		var text string
		if json.Unmarshal(s, &text) != nil {
			text = string(s)
		}
		p.seeds = append(p.seeds, text)
	}
	return nil
}

func openInstructPix2Pix(_ context.Context, o Options) (Reader, error) {
	path := filepath.Join(o.Path, "seeds.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &instructPix2Pix{root: o.Path, starts: []int{0}}
	if err := json.Unmarshal(raw, &r.prompts); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i, p := range r.prompts {
		r.starts = append(r.starts, r.starts[i]+len(p.seeds))
	}
	return r, nil
}

func (r *instructPix2Pix) Len() int     { return r.starts[len(r.starts)-1] }
func (r *instructPix2Pix) Close() error { return nil }

func (r *instructPix2Pix) Read(i int) (*Sample, error) {
	p := sort.Search(len(r.prompts)-1, func(p int) bool { return r.starts[p+1] > i })
	name, seed := r.prompts[p].name, r.prompts[p].seeds[i-r.starts[p]]
	if !filepath.IsLocal(name) || !filepath.IsLocal(seed) {
		return nil, fmt.Errorf("seeds.json: %q, seed %q is not a file of the dataset", name, seed)
	}
	dir := filepath.Join(r.root, name)
	raw, err := os.ReadFile(filepath.Join(dir, "prompt.json"))
	if err != nil {
		return nil, err
	}
	var prompt struct{ Input, Edit, Output string }
	if err := json.Unmarshal(raw, &prompt); err != nil {
		return nil, fmt.Errorf("%s/prompt.json: %w", name, err)
	}
	if prompt.Edit == "" {
		return nil, fmt.Errorf("%s/prompt.json: edit, the instruction, is empty", name)
	}
	return &Sample{
		ID:            name + "/" + seed,
		Session:       name,
		Instruction:   prompt.Edit,
		SourceCaption: prompt.Input,
		TargetCaption: prompt.Output,
		Source:        data.Image{Path: filepath.Join(dir, seed+"_0.jpg")},
		Target: data.Image{Path: filepath.Join(dir,
			seed+"_1.jpg")},
	}, nil
}
