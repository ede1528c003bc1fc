package score

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/internal/oracle"
)

// TestAbsent: a command whose scorer, table, picture or output folder is missing ends with exit code 2, so that a
// scheduler does not retry it (docs/commands.md).
func TestAbsent(t *testing.T) {
	dir := t.TempDir()
	table, scorer, _ := writeBatch(t, dir)
	picture := filepath.Join(oracle.Folders(t)[0], "images", "coffee.png")
	gone, out := filepath.Join(dir, "gone"), filepath.Join(dir, "out.jsonl")
	bare := filepath.Join(dir, "bare") // a scorer without its weights
	text, err := os.ReadFile(filepath.Join(scorer, "scorer.yaml"))
	if err != nil || os.Mkdir(bare, 0o777) != nil || os.WriteFile(filepath.Join(bare, "scorer.yaml"), text, 0o666) != nil {
		t.Fatal(err)
	}
	unknown := filepath.Join(dir, "unknown")
	if os.Mkdir(unknown, 0o777) != nil ||
		os.WriteFile(filepath.Join(unknown, "scorer.yaml"), append(text, "answr: so\n"...), 0o666) != nil {
		t.Fatal("no scorer was written")
	}
	note := filepath.Join(dir, "note.txt")
	if err := os.WriteFile(note, []byte("no table"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"batch --scorer GONE --in TABLE --out OUT", "gone/scorer.yaml: no such file"},
		{"batch --scorer GONE --in TABLE --out OUT --shard 1/2", "gone/scorer.yaml: no such file"},
		{"batch --scorer TABLE --in TABLE --out OUT", "not a directory"},
		{"batch --scorer BARE --in TABLE --out OUT", "no such file"},
		{"batch --scorer UNKNOWN --in TABLE --out OUT", "answr"},
		{"batch --scorer SCORER --in GONE --out OUT", "gone: no such file"},
		{"batch --scorer SCORER --in GONE --out OUT --shard 1/2", "gone: no such file"},
		{"batch --scorer SCORER --in NOTE --out OUT", "not a table"},
		{"batch --scorer SCORER --in TABLE --out GONE/out.jsonl", "no folder"},
		{"pair --scorer GONE --source PICTURE --edit PICTURE --instruction x", "gone/scorer.yaml: no such file"},
		{"pair --scorer SCORER --source GONE --edit PICTURE --instruction x", "gone: no such file"},
		{"pair --scorer SCORER --source PICTURE --edit GONE --instruction x", "gone: no such file"},
		{"serve --scorer GONE", "gone/scorer.yaml: no such file"},
		{"judge --config viescore --url http://localhost:1/v1 --model m --in GONE --out OUT", "gone: no such file"},
		{"judge --config viescore --backbone GONE --in TABLE --out OUT", "gone/config.json: no such file"},
		{"calibrate --scorer GONE --in TABLE --out OUT", "gone/scorer.yaml: no such file"},
		{"calibrate --scorer SCORER --in GONE --out OUT", "gone: no such file"},
		{"best --in GONE", "gone: no such file"},
		{"drift --before GONE --after TABLE", "gone: no such file"},
		{"condition --in GONE --out OUT", "gone: no such file"},
		{"aim --in GONE --out OUT", "gone: no such file"},
		{"chat --backbone GONE --text hello", "gone/config.json: no such file"},
	} {
		args := strings.Fields(strings.NewReplacer("GONE", gone, "TABLE", table, "OUT", out, "BARE", bare, "SCORER", scorer,
			"NOTE", note, "PICTURE", picture, "UNKNOWN", unknown).Replace(c.args))
		if code, stdout, stderr := run(t, args...); code != exit.Wrong || !strings.Contains(stderr, c.want) {
			t.Errorf("score %s: exit code %d, want %d and %q: %s%s", c.args, code, exit.Wrong, c.want, stdout, stderr)
		}
	}
}
