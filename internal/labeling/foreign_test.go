package labeling

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/data"
)

// named embeds pictures by their mean colour and texts by the colour they name.
type named struct{}

func (named) Images(_ context.Context, pictures []*data.Picture) ([][]float32, error) {
	var out [][]float32
	for _, p := range pictures {
		out = append(out, []float32{float32(p.Pix[0]), float32(p.Pix[1]), float32(p.Pix[2])})
	}
	return out, nil
}

func (named) Texts(_ context.Context, texts []string) ([][]float32, error) {
	var out [][]float32
	for _, t := range texts {
		v := []float32{100, 100, 100}
		for i, name := range []string{"red", "green", "blue"} {
			if strings.Contains(t, name) {
				v[i] = 250
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// Targets are paired with instructions that they do not fulfil, including the ones nearest in words, but never with a
// rewording of their own.
func TestForeignInstructions(t *testing.T) {
	dir := t.TempDir()
	paint := func(name string, r, g, b byte) string {
		p := &data.Picture{Width: 8, Height: 8, Pix: bytes.Repeat([]byte{r, g, b}, 64)}
		var png bytes.Buffer
		if err := p.EncodePNG(&png); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".png"), png.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		return name + ".png"
	}
	var lines bytes.Buffer
	paint("grey", 100, 100, 100)
	for i, c := range []struct{ instruction, colour string }{
		{"Make the big wall red.", "red"}, {"make the big wall green", "green"}, {"make the big wall blue",
			"blue"}, {"make the big wall all red", "red"}, {"something quite different, and blue", "blue"},
	} {
		target := paint(c.colour, 100, 100, 100)
		for k, name := range []string{"red", "green", "blue"} {
			if name == c.colour {
				rgb := []byte{100, 100, 100}
				rgb[k] = 250
				paint(c.colour, rgb[0], rgb[1], rgb[2])
			}
		}
		for _, editor := range []string{"one", "two"} { // a row for each output, still one task
			json.NewEncoder(&lines).Encode(map[string]any{"id": fmt.Sprint(i), "source": "grey.png", "edit": "grey.png",
				"target": target, "method": editor,
				"instruction": c.instruction, "source_caption": "a wall", "target_caption": "a " + c.colour + " wall"})
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "edits.jsonl"), lines.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(
		"out: out\nsources:\n  - {layout: table, path: %s}\nforeign: {instructions: 3}\nsplit: {validation: 0}\n",
		filepath.Join(dir, "edits.jsonl"),
	)
	asked := func(e models, shards int) map[string][]string {
		c := load(t, strings.Replace(config, "out: out",
			"out: "+filepath.Join(t.TempDir(), "out")+"\nrules: {clip_i: off, dino_i: off}", 1))
		if _, err := run(t, c, e, shards); err != nil {
			t.Fatal(err)
		}
		got := map[string][]string{}
		for _, r := range readTable(t, c) {
			if r.Why != "foreign_instruction" {
				continue
			}
			if r.Label == nil || *r.Label != 0 || r.Method != "target" || r.ClipD != nil && !(*r.ClipD <= 0.2) {
				t.Errorf("%s: got label %v, method %s, CLIP-D %v, want 0, target, at most the threshold", r.ID, r.Label,
					r.Method, r.ClipD)
			}
			own := strings.Split(r.ID, "/")[1]
			got[own] = append(got[own], r.Instruction)
		}
		for _, list := range got {
			slices.Sort(list)
		}
		return got
	}
	got := asked(models{Clip: named{}}, 1)
	want := []string{"make the big wall blue", "make the big wall green", "something quite different, and blue"}
	if d := cmp.Diff(want, got["0"]); d != "" {
		t.Errorf("asked of the red wall (-want +got):\n%s", d)
	}
	for own, list := range got {
		colour := map[string]string{"0": "red", "1": "green", "2": "blue", "3": "red", "4": "blue"}[own]
		if len(list) < 2 || slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, colour) }) {
			t.Errorf("task %s, %s: %q", own, colour, list)
		}
	}
	if len(got) != 3 { // two pairs of tasks share a target and get the same instructions
		t.Errorf("%d targets", len(got))
	}
	if d := cmp.Diff(got, asked(models{Clip: named{}}, 3)); d != "" {
		t.Errorf("got others by three shards (-want +got):\n%s", d)
	}
	for own, list := range asked(models{}, 1) { // nothing detects a rewording: the nearest instructions are not used
		if len(list) != 1 {
			t.Errorf("task %s without an encoder: %q", own, list)
		}
	}
}
