package encoders

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/heuristics"
	"assay/internal/oracle"
)

// TestMeasureOracle measures the fixture's edits from their files, and compares with the similarities from
// transformers.
func TestMeasureOracle(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		clip, dino := openReference(t, folder, "clip"), openReference(t, folder, "dinov2")
		cache := t.TempDir()
		m := &Measurer{CLIP: openCached(t, clip.model, cache), DINO: openCached(t, dino.model, cache)}
		var edits []*edit.Edit
		for _, p := range clip.pairs {
			edits = append(edits, editOf(clip.dir, p.Input, p.Edited, p.GT, p.Before, p.After))
		}
		got, err := m.Measure(context.Background(), edits)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range got {
			name := fmt.Sprintf("pair%d.", i)
			want := heuristics.Cosine(oracle.Floats(t, clip.expect, name+"edited.image_embed"),
				oracle.Floats(t, clip.expect, name+"after.text_embed"))
			for _, v := range []struct {
				what string
				got  *float64
				want float64
			}{{"clip_i", s.ClipI, clip.pairs[i].ClipI}, {"clip_d", s.ClipD, clip.pairs[i].ClipD}, {"dino_i", s.DinoI,
				dino.pairs[i].DinoI}, {"clip_t", s.ClipT, want}} {
				if v.got == nil {
					t.Errorf("%s%s is not known: %v", name, v.what, s.Problems)
					continue
				}
				near(t, name+v.what, *v.got, v.want)
			}
		}
	})
}

// editOf is an edit of files in a folder.
func editOf(folder, source, output, target, before, after string) *edit.Edit {
	e := &edit.Edit{Texts: map[string]string{"source_caption": before, "target_caption": after}}
	for role, path := range map[string]string{"source": source, "edit": output, "target": target} {
		if path != "" {
			e.Set(role, data.File{Image: data.Image{Path: path}, Folder: folder})
		}
	}
	return e
}

// TestMissingIngredients: similarities that cannot be computed are nil, never 0, and the others are still computed.
func TestMissingIngredients(t *testing.T) {
	folder, err := filepath.Abs("../testdata/oracle/images")
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	clip := openCached(t, open(t, filepath.Join(fixtures, "clip_half")), cache)
	dino := openCached(t, open(t, filepath.Join(fixtures, "dino_giant")), cache)
	at := func(name string) edit.Picture { return data.File{Image: data.Image{Path: name}, Folder: folder} }
	all := func() *edit.Edit {
		return editOf(folder, "coffee.png", "coffee_blur.png", "hubble.png", "a cup", "stars")
	}
	change := func(f func(e *edit.Edit)) *edit.Edit {
		e := all()
		f(e)
		return e
	}
	text := func(role, text string) *edit.Edit {
		return change(func(e *edit.Edit) { e.Texts[role+"_caption"] = text })
	}
	tests := []struct {
		name     string
		m        Measurer
		e        *edit.Edit
		known    string // d, i, o (DINO), t
		problems int
	}{
		{"all", Measurer{clip, dino}, all(), "diot", 0},
		{"no target", Measurer{clip, dino}, change(func(e *edit.Edit) { e.Pictures = nil }), "dt", 0},
		{"no captions", Measurer{clip, dino}, change(func(e *edit.Edit) { e.Texts = nil }), "io", 0},
		{"no source caption", Measurer{clip, dino}, text("source", ""), "iot", 0},
		{"no target caption", Measurer{clip, dino}, text("target", ""), "io", 0},
		{"equal captions", Measurer{clip, dino}, text("source", "stars"), "iot", 0},
		{"the edit is the source", Measurer{clip, dino}, change(func(e *edit.Edit) { e.Output = e.Source() }), "diot", 0},
		{"no source", Measurer{clip, dino}, change(func(e *edit.Edit) { e.Sources = nil }), "iot", 0},
		{"CLIP alone", Measurer{clip, nil}, all(), "dit", 0},
		{"DINO alone", Measurer{nil, dino}, all(), "o", 0},
		{"CLIP without texts", Measurer{dino, nil}, all(), "i", 0},
		{"missing target", Measurer{clip, dino}, change(func(e *edit.Edit) { e.Set("target", at("none.png")) }), "dt", 1},
		{"missing edit", Measurer{clip, dino}, change(func(e *edit.Edit) { e.Output = at("none.png") }), "", 1},
		{"broken source", Measurer{clip, dino}, change(func(e *edit.Edit) {
			e.Set("source", data.File{Image: data.Image{Bytes: []byte("no picture")}})
		}), "iot", 1},
		{"caption with a zero byte", Measurer{clip, dino}, text("target", "a\x00"), "io", 1},
		{"nothing", Measurer{clip, dino}, &edit.Edit{}, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.m.Measure(context.Background(), []*edit.Edit{tt.e})
			if err != nil {
				t.Fatal(err)
			}
			known := ""
			for _, v := range []struct {
				letter string
				x      *float64
			}{{"d", got[0].ClipD}, {"i", got[0].ClipI}, {"o", got[0].DinoI}, {"t", got[0].ClipT}} {
				if v.x != nil {
					known += v.letter
				}
			}
			if known != tt.known || len(got[0].Problems) != tt.problems {
				t.Errorf("known are %q, want %q; problems %v, want %d", known, tt.known, got[0].Problems, tt.problems)
			}
			var want []string // of the inputs that are there
			if tt.name == "equal captions" {
				want = []string{"clip_d"}
			}
			if !slices.Equal(got[0].Undefined, want) {
				t.Errorf("undefined are %q, want %q", got[0].Undefined, want)
			}
		})
	}
}
