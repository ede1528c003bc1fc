package encoders

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/store"
)

func openCached(t *testing.T, m *Model, folder string) *Cached {
	t.Helper()
	s, err := store.Open(folder, store.Options{Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return cachedIn(t, m, s)
}

func cachedIn(t *testing.T, m *Model, s *store.Store) *Cached {
	t.Helper()
	cached, err := NewCached(m, s)
	if err != nil {
		t.Fatal(err)
	}
	return cached
}

// TestEncodedOnce: equal pictures, in any file, and equal texts are encoded once, in this process and the next.
func TestEncodedOnce(t *testing.T) {
	e, pictures := readExpectation(t)
	m, dir, ctx := open(t, filepath.Join(fixtures, "clip_half")), t.TempDir(), context.Background()
	copied := filepath.Join(t.TempDir(), "again.png")
	if err := pictures[0].WritePNG(copied); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	images := []data.Image{{Path: e.Pictures[0]}, {Path: copied}, {Path: "missing.png"}, {Path: e.Pictures[1]},
		{Bytes: raw}, {Path: e.Pictures[0]}}
	for i, encoded := range []int64{2 + 2, 0} {
		c := openCached(t, m, dir)
		got, problems, err := embedFiles(ctx, c, "../testdata/oracle/images", images)
		if err != nil {
			t.Fatal(err)
		}
		for k, same := range []int{0, 0, -1, 1, 0, 0} {
			if same < 0 {
				if problems[k] == nil || !strings.Contains(problems[k].Error(), "missing.png") || got[k] != nil {
					t.Errorf("a missing picture: %v, %v", got[k], problems[k])
				}
			} else if want := e.Expect["clip_half"].Images[same]; problems[k] != nil || !near32(got[k], want) {
				t.Errorf("run %d, picture %d: %v, want %v (%v)", i, k, got[k], want, problems[k])
			}
		}
		again, err := c.Images(ctx, pictures)
		if err != nil || !near32(again[1], e.Expect["clip_half"].Images[1]) {
			t.Errorf("decoded pictures: %v (%v)", again, err)
		}
		texts, err := c.Texts(ctx, []string{e.Texts[0], e.Texts[1], e.Texts[0]})
		if err != nil || !near32(texts[1], e.Expect["clip_half"].Texts[1]) || !slices.Equal(texts[0], texts[2]) {
			t.Errorf("texts: %v (%v)", texts, err)
		}
		if n, found := c.Counts(); n != encoded || found != 10-encoded {
			t.Errorf("run %d encoded %d and found %d, want %d and %d", i, n, found, encoded, 10-encoded)
		}
		// two pictures, one of them also as bytes of another file
		if decoded := c.pictures.Decoded(); decoded != encoded/4*3 {
			t.Errorf("run %d decoded %d pictures", i, decoded)
		}
	}
}

func near32(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) <= 1e-4 })
}

// TestDecodedOnce: two encoders share a decoded picture, in one call and in several.
func TestDecodedOnce(t *testing.T) {
	e, _ := readExpectation(t)
	s, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := &Measurer{CLIP: cachedIn(t, open(t, filepath.Join(fixtures, "clip_half")), s),
		DINO: cachedIn(t, open(t, filepath.Join(fixtures, "dino_registers")), s)}
	folder, a, b := "../testdata/oracle/images", e.Pictures[0], e.Pictures[1]
	edits := []*edit.Edit{editOf(folder, a, b, a, "a", "b"), editOf(folder, b, a, b, "", ""),
		editOf(folder, "", a, a, "", "")}
	for range 2 {
		if _, err := m.Measure(t.Context(), edits); err != nil {
			t.Fatal(err)
		}
		if n := m.CLIP.pictures.Decoded() + m.DINO.pictures.Decoded(); n != 2 {
			t.Errorf("%d pictures were decoded, there are 2", n)
		}
	}
	for _, c := range []*Cached{m.CLIP, m.DINO} {
		if n, _ := c.Counts(); n > 4 {
			t.Errorf("%d encoded", n)
		}
	}
}

// copyDir copies a checkpoint, so that a test may change it.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// embedFiles embeds pictures of a folder.
func embedFiles(ctx context.Context, c *Cached, folder string, images []data.Image) ([][]float32, []error, error) {
	pictures := make([]data.File, len(images))
	for i, m := range images {
		pictures[i] = data.File{Image: m, Folder: folder}
	}
	out, problems, err := files(ctx, []*Cached{c}, pictures, func(int, int) bool { return true })
	if err != nil {
		return nil, nil, err
	}
	return out[0], problems, nil
}

// TestChanged replaces a picture under the same name, and changes a file of the encoder by one byte in place,
// restoring its timestamps. No stale embedding may be served afterwards.
func TestChanged(t *testing.T) {
	dir, known := t.TempDir(), t.TempDir()
	e, pictures := readExpectation(t)
	path := filepath.Join(dir, "p.png")
	embed := func(model string) (v []float32, text []float32, encoded int64) {
		c := openCached(t, open(t, model), known)
		got, problems, err := embedFiles(t.Context(), c, dir, []data.Image{{Path: "p.png"}})
		if err := errors.Join(append(problems, err)...); err != nil {
			t.Fatal(err)
		}
		texts, err := c.Texts(t.Context(), []string{"a text"})
		if err != nil {
			t.Fatal(err)
		}
		n, _ := c.Counts()
		return got[0], texts[0], n
	}
	if err := pictures[0].WritePNG(path); err != nil {
		t.Fatal(err)
	}
	model := copyDir(t, filepath.Join(fixtures, "clip_half"))
	before, _, _ := embed(model)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := pictures[1].WritePNG(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	after, _, n := embed(model)
	if slices.Equal(before, after) || !near32(after, e.Expect["clip_half"].Images[1]) || n != 1 {
		t.Errorf("another picture has the embedding of the previous one (%d encoded)", n)
	}
	if _, _, n := embed(copyDir(t, model)); n != 0 {
		t.Errorf("the same encoder in another folder encodes %d again", n)
	}
	for file, change := range map[string]func(raw []byte){
		"model.safetensors":        func(raw []byte) { raw[len(raw)-1] ^= 0x40 },
		"preprocessor_config.json": func(raw []byte) { copy(raw[strings.Index(string(raw), "0.4"):], "0.3") },
		"tokenizer.json":           func(raw []byte) { raw[len(raw)-1] = ' ' },
	} {
		path := filepath.Join(model, file)
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		was := slices.Clone(raw)
		if change(raw); file == "tokenizer.json" {
			raw = append(was, ' ')
		}
		if err := os.WriteFile(path, raw, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		if _, _, n := embed(model); n != 2 {
			t.Errorf("%s changed: %d encoded, want 2", file, n)
		}
		if _, _, n := embed(model); n != 0 {
			t.Errorf("%s did not change again: %d encoded", file, n)
		}
	}
}

// TestOverwritten: weights that are overwritten while they are mapped and in use produce no embeddings.
func TestOverwritten(t *testing.T) {
	_, pictures := readExpectation(t)
	dir := copyDir(t, filepath.Join(fixtures, "clip_half"))
	m := open(t, dir)
	if _, err := m.Images(t.Context(), pictures[:1]); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.safetensors")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1] ^= 0x40
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(raw); err != nil {
		t.Fatal(err)
	}
	if got, err := m.Images(t.Context(), pictures[:1]); err == nil || !strings.Contains(err.Error(), "was changed while") {
		t.Errorf("images: got %v, %v, want an error that names the file", got, err)
	}
	if got, err := m.Texts(t.Context(), []string{"a text"}); err == nil {
		t.Errorf("texts: got %v, want an error", got)
	}
}
