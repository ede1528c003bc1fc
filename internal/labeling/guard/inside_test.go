package guard

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/data"
)

// Pictures are found wherever they are in a table, and files that are not searched are reported.
func TestGuardLooksInside(t *testing.T) {
	dir := t.TempDir()
	var b bytes.Buffer
	if err := photograph(t, "coffee.png").Resize(40, 30, data.Bilinear).EncodePNG(&b); err != nil {
		t.Fatal(err)
	}
	text := base64.StdEncoding.EncodeToString(b.Bytes())
	object := map[string]any{"path": nil, "bytes": text}
	write := func(name string, v any) {
		raw, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("array.json", []any{map[string]any{"id": 1, "picture": object}, map[string]any{"id": 2, "text": text}})
	write("lists.json", []any{map[string]any{"turns": []any{map[string]any{"edited": object, "n": 1.5}, object},
		"url": "data:image/png;base64," + text, "embedding": []float64{1, 2}, "words": strings.Repeat("AAAA", 40)}})
	write("settings.json", map[string]any{"name": "a benchmark", "pictures": 300})
	for _, name := range []string{"closed.zip", "more.tar.gz", "odd.avif"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("\x00\x00\x00\x1cftypavif"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var unread []string
	pictures, err := Pictures(t.Context(), []string{dir}, func(name string, err error) {
		unread = append(unread, filepath.Base(name)+": "+err.Error())
	})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, p := range pictures {
		found = append(found, filepath.Base(p.Name))
		if p.Pixels != pictures[0].Pixels {
			t.Errorf("%s: other pixels", p.Name)
		}
	}
	want := []string{"array.json: row 1, picture", "array.json: row 2, text", "lists.json: row 1, turns",
		"lists.json: row 1, turns", "lists.json: row 1, url"}
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	slices.Sort(unread)
	if len(unread) != 4 {
		t.Fatalf("%q", unread)
	}
	for i, want := range []string{"closed.zip: not searched for pictures", "more.tar.gz: not searched",
		"AVIF pictures are not supported", "settings.json: "} {
		if !strings.Contains(unread[i], want) {
			t.Errorf("%q, want %q", unread[i], want)
		}
	}
}
