package guard

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/data"
)

func photograph(t *testing.T, name string) *data.Picture {
	t.Helper()
	p, err := data.Open(filepath.Join("../../../testdata/oracle/images", name), data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestGuardPassesNothing: a picture in a folder is found, however it is encoded, or its file is reported.
func TestGuardPassesNothing(t *testing.T) {
	var b bytes.Buffer
	if err := photograph(t, "coffee.png").Resize(40, 30, data.Bilinear).EncodePNG(&b); err != nil {
		t.Fatal(err)
	}
	std := base64.StdEncoding.EncodeToString(b.Bytes())
	url := base64.URLEncoding.EncodeToString(b.Bytes())
	numbers := strings.Trim(strings.ReplaceAll(fmt.Sprint(b.Bytes()), " ", ","), "[]")
	object := func(text string) string {
		raw, err := json.Marshal(map[string]string{"p": text})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw) + "\n"
	}
	for name, c := range map[string]struct {
		text  string
		found bool
	}{
		"alphabet.jsonl": {object(url), true},
		"padding.jsonl":  {object(strings.TrimRight(std, "=")), true},
		"blank.jsonl":    {object(" " + std + "\n"), true},
		"lines.jsonl":    {object(std[:76] + "\n" + std[76:]), true},
		"html.jsonl":     {object(`<img alt="a" src="data:image/png;base64,` + std + `"> and text`), true},
		"within.jsonl":   {object(`[{"image": "` + std + `"}]`), true},
		"bytes.jsonl":    {`{"p": [` + numbers + "]}\n", true},
		"table.csv":      {"id,p\n1," + std + "\n", true},
		"table.tsv":      {"id\tp\n1\t" + std + "\n", true},
		"noname":         {b.String(), true},
		"photo.jfif":     {b.String(), true},
		"damaged.jsonl":  {object(std[:100] + "!!" + std[100:]), false},
		"cut.jsonl":      {object(std[:400]), false},
		"array.npy":      {"\x93NUMPY", false},
		"dump.pickle":    {"\x80\x04", false},
		"empty.json":     {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, name), []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			found, unread := guardFinds(t, dir)
			if c.found && (found != 1 || len(unread) > 0) || !c.found && (found > 0 || len(unread) == 0) {
				t.Errorf("got %d found, unread %q, want found: %v", found, unread, c.found)
			}
		})
	}
	t.Run("links", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "real"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "real", "a.png"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		for from, to := range map[string]string{"link": "real", "real/again": ".."} {
			if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
				t.Fatal(err)
			}
		}
		found, unread := guardFinds(t, filepath.Join(dir, "link"))
		if found != 1 || !slices.ContainsFunc(unread, func(s string) bool { return strings.Contains(s, "again: a link") }) {
			t.Errorf("found %d, unread %q", found, unread)
		}
	})
}

func guardFinds(t *testing.T, folder string) (found int, unread []string) {
	t.Helper()
	pictures, err := Pictures(t.Context(), []string{folder}, func(name string, err error) {
		unread = append(unread, filepath.Base(name)+": "+err.Error())
	})
	if err != nil {
		t.Fatal(err)
	}
	return len(pictures), unread
}
