package score

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/exit"
	"assay/internal/oracle"
	"assay/internal/scoring"
	"assay/internal/table"
)

// run runs a command line as the process would.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = App.Run(context.Background(), args, &out, &err)
	return code, out.String(), err.String()
}

// bomb is a PNG file that claims to have 20,000 x 20,000 pixels.
func bomb() []byte {
	var b bytes.Buffer
	b.WriteString("\x89PNG\r\n\x1a\n")
	chunk := func(kind string, body []byte) {
		binary.Write(&b, binary.BigEndian, uint32(len(body)))
		b.WriteString(kind)
		b.Write(body)
		binary.Write(&b, binary.BigEndian, crc32.ChecksumIEEE(append([]byte(kind), body...)))
	}
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 20000), 20000)
	chunk("IHDR", append(head, 8, 2, 0, 0, 0))
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	w.Write(make([]byte, 1<<20))
	w.Close()
	chunk("IDAT", z.Bytes())
	chunk("IEND", nil)
	return b.Bytes()
}

// writeBatch writes a table of the oracle's cases with bad rows in between, and returns the expected scores of the
// good rows.
func writeBatch(t *testing.T, dir string) (table, scorer string, want map[string]float64) {
	t.Helper()
	family := filepath.Join(oracle.Folders(t)[0], "llavanext")
	for name, raw := range map[string][]byte{"broken.png": []byte("\x89PNG\r\n\x1a\nno more"), "bomb.png": bomb()} {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var text strings.Builder
	want = map[string]float64{}
	row := func(id, source, edit, instruction string) {
		line, err := json.Marshal(
			map[string]any{
				"id":          id,
				"source":      source,
				"edit":        edit,
				"instruction": instruction,
				"label":       7,
				"mine":        map[string]any{"kept": id},
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	for _, c := range oracle.Read[[]oracle.Case](t, filepath.Join(family, "cases.json")) {
		if c.Scorer != "scorer" {
			continue
		}
		id := fmt.Sprint("case", c.ID)
		source, edit := filepath.Join(family, c.Source), filepath.Join(family, c.Edited)
		row(id, source, edit, c.Instruction)
		want[id] = c.Score
		row("broken"+id, source, "broken.png", c.Instruction)
		row("bomb"+id, "bomb.png", edit, c.Instruction)
		row("missing"+id, source, "nowhere.png", c.Instruction)
		row("empty"+id, source, edit, " ")
		row("long"+id, source, edit, strings.Repeat("x ", 9000)) // longer than the model's context
	}
	table = filepath.Join(dir, "in.jsonl")
	if err := os.WriteFile(table, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return table, filepath.Join(family, "scorer"), want
}

// checkBatch reads what batch wrote: order kept, good rows scored, bad ones with an error and no number.
func checkBatch(t *testing.T, path, in string, want map[string]float64) {
	t.Helper()
	input, err := data.OpenTable(in)
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	out, err := data.OpenTable(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if out.Len() != input.Len() {
		t.Fatalf("%d rows, want %d", out.Len(), input.Len())
	}
	for i := range out.Len() {
		rec, err := out.Record(i)
		if err != nil {
			t.Fatal(err)
		}
		old, err := input.Record(i)
		if err != nil {
			t.Fatal(err)
		}
		text := func(r data.Record, name string) string {
			v, _ := r.Get(name)
			s, err := data.Text(v)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		id := text(rec, "id")
		if was := text(old, "id"); id != was {
			t.Fatalf("row %d is %v, want %v", i, id, was)
		}
		score, _ := rec.Get("score")
		got, err := data.Number(score)
		if err != nil {
			t.Fatal(err)
		}
		message := text(rec, "error")
		if w, good := want[id]; good {
			if got == nil || !(math.Abs(*got-w) <= 1e-4) || message != "" {
				t.Errorf("%s: score %v, error %q, want %g", id, score, message, w)
			}
		} else if got != nil || message == "" {
			t.Errorf("%s: score %v, error %q; want an error and no number", id, score, message)
		}
	}
}

func TestBatch(t *testing.T) {
	for _, name := range []string{"out.jsonl", "out.parquet"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			in, scorer, want := writeBatch(t, dir)
			out := filepath.Join(dir, name)
			code, stdout, stderr := run(t, "batch", "--scorer", scorer, "--in", in, "--out", out, "--json")
			var r scoring.TableCounts
			if err := json.Unmarshal(
				[]byte(stdout),
				&r,
			); err != nil || code != exit.Failed || r.Scored != len(want) ||
				r.Failed != 5*len(want) {
				t.Fatalf("%d %q %q", code, stdout, stderr)
			}
			checkBatch(t, out, in, want)
			if _, err := os.Stat(out + ".progress"); !os.IsNotExist(err) {
				t.Error("the journal is left behind")
			}
			again := filepath.Join(dir, "again"+filepath.Ext(name)) // the output can be read and scored again
			if code, _, stderr := run(t, "batch", "--scorer", scorer, "--in", out, "--out", again); code != exit.Failed {
				t.Errorf("%d %q", code, stderr)
			}
			checkBatch(t, again, in, want)
		})
	}
}

// TestBatchResumes interrupts a batch: rows that were scored are not scored again, and a torn line does no harm.
func TestBatchResumes(t *testing.T) {
	dir := t.TempDir()
	in, scorer, want := writeBatch(t, dir)
	out := filepath.Join(dir, "out.jsonl")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	if code := App.Run(
		ctx,
		[]string{"batch", "--scorer", scorer, "--in", in, "--out", out},
		&stdout,
		&stderr,
	); code != exit.Interrupted {
		t.Fatalf("%d %q %q", code, stdout.String(), stderr.String())
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Fatal("an interrupted batch wrote its output")
	}
	f, err := os.OpenFile(out+".progress", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := data.OpenTable(in, data.WithOnly("source", "edit", "instruction"))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	row, err := rows.Read(0)
	content, unknown := table.Content(rows.Folder(), err, row.Instruction, row.Source, row.Edit)
	if unknown != nil {
		t.Fatal(unknown)
	}
	scored := fmt.Sprintf(`{"row":0,"of":%q,"score":2.5,"score01":0.25}`, content)
	other := fmt.Sprintf(`{"row":1,"of":%q,"score":2.5,"score01":0.25}`, content) // row 1 was changed since
	if _, err := f.WriteString(scored + "\n" + other + "\n" + `{"row":5,"sco`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if code, stdout, stderr := run(t, "batch", "--scorer", scorer, "--in", in, "--out", out); code != exit.Failed {
		t.Fatalf("%d %q %q", code, stdout, stderr)
	}
	want["case0"] = 2.5 // from the journal: it was not scored again
	checkBatch(t, out, in, want)

	// the journal of another scorer is not used
	if err := os.WriteFile(out+".progress", []byte(`{"in":"x","rows":3,"scorer":"y"}`+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(
		t,
		"batch",
		"--scorer",
		scorer,
		"--in",
		in,
		"--out",
		out,
	); code != exit.Wrong ||
		!strings.Contains(stderr, "another run") {
		t.Errorf("another run's progress: got exit code %d and %q, want %d", code, stderr, exit.Wrong)
	}
}

func TestPair(t *testing.T) {
	family := filepath.Join(oracle.Folders(t)[0], "llavanext")
	for _, c := range oracle.Read[[]oracle.Case](t, filepath.Join(family, "cases_adiee.json")) {
		code, stdout, stderr := run(
			t,
			"pair",
			"--scorer",
			filepath.Join(family, c.Scorer),
			"--source",
			filepath.Join(family, c.Source),
			"--edit",
			filepath.Join(family, c.Edited),
			"--instruction",
			c.Instruction,
			"--json",
		)
		var got struct{ Score *float64 }
		if err := json.Unmarshal(
			[]byte(stdout),
			&got,
		); err != nil || code != exit.Done || got.Score == nil ||
			!(math.Abs(*got.Score-c.Score) <= 1e-4) {
			t.Errorf("case %d: %d %q %q, want %g", c.ID, code, stdout, stderr, c.Score)
		}
	}
	if code, _, stderr := run(
		t,
		"pair",
		"--scorer",
		"nowhere",
		"--source",
		"a",
		"--edit",
		"b",
		"--instruction",
		"c",
	); code != exit.Wrong ||
		!strings.Contains(stderr, "nowhere") {
		t.Errorf("%d %q", code, stderr)
	}
	for _, args := range [][]string{nil, {"--source", "a", "--edit", "b", "--scorer", "c"},
		{"--source", "a", "--edit", "b", "--scorer", "c", "--instruction", "d", "--device", "gpu"}} {
		if code, _, stderr := run(t, append([]string{"pair"}, args...)...); code != exit.Wrong {
			t.Errorf("%q: %d %q, want %d", args, code, stderr, exit.Wrong)
		}
	}
}

// TestFlagsThatMeanNothing: flags that would be ignored end with exit code 2, and so do paths that cannot be written.
func TestFlagsThatMeanNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	table := []byte(`{"source": "a.png", "edit": "b.png", "instruction": "x", "score01": 0.5}` + "\n")
	for _, name := range []string{"in.jsonl", "in.png"} {
		if err := os.WriteFile(name, table, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range [][2]string{
		{"batch --scorer s --in in.jsonl --out o.jsonl --passes 4", "--passes requires --judge"},
		{"batch --scorer s --in in.jsonl --out o.jsonl --url http://a", "--url requires --judge"},
		{"batch --scorer s --in in.jsonl --out o.jsonl --margin 3", "--margin requires --pairs"},
		{"batch --scorer s --in in.jsonl --out o.jsonl --margin inf --pairs p", "finite number"},
		{"batch --scorer s --in in.jsonl --out no/o.jsonl", "no folder no"},
		{"batch --judge viescore --in in.jsonl --out o.jsonl --url http://a --model m --concurrency -1", "concurrency: want"},
		{"best --in in.jsonl --model m", "--model requires --url or --server"},
		{"best --in in.jsonl --out o.parquet", "ends in .jsonl"},
		{"bench imagenhub --clip c", "--clip requires --baseline"},
		{"bench imagenhub --ratings r --predictions p --out o", "--out requires --scorer"},
		{"bench imagenhub --ratings r --data d", "[ratings data]"},
		{"bench magicbrush --boxes b", "--boxes requires --component"},
		{"serve --scorer s --chat-adapter a", "--chat-adapter requires --chat-backbone"},
		{"serve --scorer s --url http://a", "--url requires --judge"},
		{"judge --config c --backbone b --model m", "--model requires --url or --server"},
		{"gradient --scorer s --source a --edit b --heatmap x.jpg", "ends in .png"},
		{"gradient --scorer s --source a --edit in.png --instruction x --heatmap ./in.png",
			"./in.png is also the file of --edit"},
		{"chat --backbone b --in in.jsonl --out in.jsonl", "in.jsonl is also the file of --in"},
		{"gradient --scorer s --source a --edit b --out g.npy", "--instruction is needed"},
		{"gradient --scorer s --source a --edit b --instruction x", "--out or --heatmap is needed"},
		{"condition --in in.jsonl --out labels --preset hive --template t", "[preset template]"},
		{"condition --in in.jsonl --out labels --range 0,1,2", "want two finite numbers"},
		{"condition --in in.jsonl --out labels --range 0,inf", "want two finite numbers"},
		{"condition --in in.jsonl --out in.jsonl", "a file has that name"},
	} {
		code, _, stderr := run(t, strings.Fields(c[0])...)
		if code != 2 || !strings.Contains(stderr, c[1]) {
			t.Errorf("%s: exit code %d: %s", c[0], code, stderr)
		}
	}
}

// TestBestOfTable: the best edits of a table are printed by group, with the instruction.
func TestBestOfTable(t *testing.T) {
	t.Chdir(t.TempDir())
	row := `{"id": %q, "source": "a.png", "edit": %q, "instruction": %q, "score01": %g, "score": %g}` + "\n"
	table := fmt.Sprintf(row, "1", "b.png", "make it red", 0.5, 5.) +
		fmt.Sprintf(row, "2", "c.png", "make it red", 0.75, 7.5) +
		fmt.Sprintf(row, "3", "d.png", "make it blue", 0.25, 2.5)
	if err := os.WriteFile("in.jsonl", []byte(table), 0o666); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(t, "best", "--in", "in.jsonl", "--keep", "2")
	want := `a.png "make it red"
1 of 2  7.5000  +2.5000  c.png
2 of 2  5.0000  last  b.png
a.png "make it blue"
1 of 1  2.5000  alone  d.png
`
	if code != 0 || stdout != want {
		t.Errorf("exit code %d: %q, want %q; %s", code, stdout, want, stderr)
	}
}
