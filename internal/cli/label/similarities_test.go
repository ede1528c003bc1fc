package label

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/data"
	"assay/encoders"
	"assay/internal/exit"
	"assay/internal/oracle"
	"assay/internal/table"
)

// edits writes the fixture's edits as a table and returns its path and the expected numbers of each row.
func edits(t *testing.T, folder string, more ...string) (path string, want []map[string]float64) {
	t.Helper()
	type pair struct {
		ID                int
		Input, Edited, GT string
		CaptionBefore     string  `json:"caption_before"`
		CaptionAfter      string  `json:"caption_after"`
		ClipI             float64 `json:"clip_i"`
		ClipD             float64 `json:"clip_d"`
		DinoI             float64 `json:"dino_i"`
	}
	clip := oracle.Read[[]pair](t, filepath.Join(folder, "clip", "pairs.json"))
	dino := oracle.Read[[]pair](t, filepath.Join(folder, "dinov2", "pairs.json"))
	var lines []string
	for i, p := range clip {
		row := map[string]any{"id": i, "source_caption": p.CaptionBefore, "target_caption": p.CaptionAfter, "kept": []int{i}}
		for column, picture := range map[string]string{"source": p.Input, "edit": p.Edited, "target": p.GT} {
			row[column] = filepath.Join(folder, "clip", picture)
		}
		line, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
		want = append(want, map[string]float64{"clip_i": p.ClipI, "clip_d": p.ClipD, "dino_i": dino[i].DinoI})
	}
	path = filepath.Join(t.TempDir(), "edits.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(append(lines, more...), "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	return path, want
}

// run runs the command on the fixture's encoders.
func run(ctx context.Context, folder, cache, in, out string, more ...string) (code int, stdout string) {
	var o, e strings.Builder
	args := []string{"similarities", "--clip", filepath.Join(folder, "clip", "model"), "--dino",
		filepath.Join(folder, "dinov2", "model"),
		"--cache", cache, "--in", in, "--out", out, "--json"}
	code = App.Run(ctx, append(args, more...), &o, &e)
	return code, o.String() + e.String()
}

func records(t *testing.T, path string) []data.Record {
	t.Helper()
	table, err := data.OpenTable(path, data.WithRequired())
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	var list []data.Record
	for rec, err := range table.Records() {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, rec)
	}
	return list
}

func number(t *testing.T, rec data.Record, name string) *float64 {
	t.Helper()
	v, ok := rec.Get(name)
	x, err := data.Number(v)
	if !ok || err != nil {
		t.Fatalf("column %s: %v, %v", name, v, err)
	}
	return x
}

// TestSimilarities: the fixture's numbers in both formats, a table's own columns preserved, broken rows named, and
// nothing encoded twice.
func TestSimilarities(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		in, want := edits(t, folder, `{"id": 8, "source": "none.png", "edit": "none.png", "target": "none.png"}`,
			`{"id": 9, "edit": "x.png"}`, `{"broken`)
		cache := t.TempDir()
		for i, name := range []string{"measured.jsonl", "measured.parquet"} {
			out := filepath.Join(t.TempDir(), name)
			code, stdout := run(context.Background(), folder, cache, in, out)
			var result encoders.TableResult
			if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != exit.Failed {
				t.Fatalf("exit code %d: %s (%v)", code, stdout, err)
			}
			if result.Rows != len(want)+3 || result.Failed != 3 || result.Known["clip_d"] != len(want) || i > 0 &&
				result.Encoded != 0 || i == 0 && result.Encoded == 0 {
				t.Errorf("%s: %s", name, stdout)
			}
			got := records(t, out)
			for k, w := range want {
				for column, x := range w {
					if v := number(t, got[k], column); v == nil || !(math.Abs(*v-x) <= 1e-5) {
						t.Errorf("%s row %d: %s is %v, want %g", name, k, column, v, x)
					}
				}
				if number(t, got[k], "clip_t") == nil {
					t.Errorf("%s row %d has no clip_t", name, k)
				}
				if v, ok := got[k].Get("kept"); !ok || v == nil {
					t.Errorf("%s row %d lost its own column", name, k)
				}
			}
			for k, part := range []string{"none.png", "source", "want"} {
				rec := got[len(want)+k]
				v, _ := rec.Get("error")
				text, err := data.Text(v)
				if err != nil || !strings.Contains(text, part) && k < 2 || text == "" {
					t.Errorf("%s: error of broken row %d is %q, want %q (%v)", name, k, text, part, err)
				}
				for _, column := range []string{"clip_d", "clip_i", "dino_i", "clip_t"} {
					if x := number(t, rec, column); x != nil {
						t.Errorf("%s: broken row %d has %s %g", name, k, column, *x)
					}
				}
			}
			if _, err := os.Stat(out + ".progress"); !os.IsNotExist(err) {
				t.Errorf("the journal is left: %v", err)
			}
		}
	})
}

// TestSimilaritiesUndefined: undefined numbers are distinguished from missing ones, in both formats and in the
// message, also if another run keeps the numbers of an encoder that it is not given.
func TestSimilaritiesUndefined(t *testing.T) {
	folder := oracle.Folders(t)[0]
	picture := filepath.Join(folder, "clip",
		oracle.Read[[]struct{ Input string }](t, filepath.Join(folder, "clip", "pairs.json"))[0].Input)
	row := fmt.Sprintf(`{"source": %[1]q, "edit": %[1]q, "target_caption": "a cat"`, picture)
	in := filepath.Join(t.TempDir(), "edits.jsonl")
	if err := os.WriteFile(in, []byte(row+`, "source_caption": "a cat"}`+"\n"+row+"}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	check := func(out string) {
		for i, want := range []string{"clip_d", ""} {
			rec := records(t, out)[i]
			v, ok := rec.Get("undefined")
			if text, err := data.Text(v); err != nil || !ok || text != want || number(t, rec, "clip_d") != nil {
				t.Errorf("%s, row %d: undefined is %q, want %q (%v)", out, i, text, want, err)
			}
		}
	}
	for _, name := range []string{"measured.jsonl", "measured.parquet"} {
		out := filepath.Join(t.TempDir(), name)
		code, stdout := run(t.Context(), folder, cache, in, out)
		if code != exit.Done || !strings.Contains(stdout, `"undefined":{"clip_d":1}`) &&
			!strings.Contains(stdout, "\"undefined\": {\n  \"clip_d\": 1") {
			t.Fatalf("exit code %d: %s", code, stdout)
		}
		check(out)
		again := filepath.Join(t.TempDir(), "again.jsonl")
		var o, e strings.Builder
		if code := App.Run(
			t.Context(),
			[]string{
				"similarities",
				"--dino",
				filepath.Join(folder, "dinov2", "model"),
				"--cache",
				cache,
				"--in",
				out,
				"--out",
				again,
			},
			&o,
			&e,
		); code != exit.Done ||
			!strings.Contains(o.String(), "clip_d is undefined for 1 rows") {
			t.Fatalf("exit code %d: %s%s", code, &o, &e)
		}
		check(again)
	}
}

// TestSimilaritiesResume: an interrupted run says so, leaves no table, and resumes to the same bytes.
func TestSimilaritiesResume(t *testing.T) {
	folder := oracle.Folders(t)[0]
	in, _ := edits(t, folder)
	raw, err := os.ReadFile(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in, slices.Concat(slices.Repeat(append(raw, '\n'), 10)), 0o666); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	whole, part := filepath.Join(dir, "whole.jsonl"), filepath.Join(dir, "part.jsonl")
	if code, stdout := run(context.Background(), folder, t.TempDir(), in, whole); code != exit.Done {
		t.Fatalf("exit code %d: %s", code, stdout)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	code, stdout := run(ctx, folder, t.TempDir(), in, part)
	if _, err := os.Stat(part); code != exit.Interrupted || !os.IsNotExist(err) ||
		!strings.Contains(stdout, "rerun the same command to resume") {
		t.Fatalf("exit code %d: %s (%v)", code, stdout, err)
	}
	journal, err := os.ReadFile(part + ".progress")
	if err != nil {
		t.Fatal(err)
	}
	opened, err := data.OpenTable(in, data.WithRequired("source", "edit"))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	job := new(encoders.Measurer).Job(opened, table.Options{})
	e, err := job.Read(3)
	of, err := job.Content(e, err)
	if err != nil {
		t.Fatal(err)
	}
	// as if row 3 had been measured before the interrupt, and row 4 when it had the content of row 3
	row := fmt.Sprintf(`{"row":3,"of":%q,"clip_d":0.5}`+"\n"+`{"row":4,"of":%q,"clip_d":0.25}`+"\n", of, of)
	if err := os.WriteFile(part+".progress", append(journal, row...), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, stdout := run(context.Background(), folder, t.TempDir(), in, part); code != exit.Done {
		t.Fatalf("exit code %d: %s", code, stdout)
	}
	a, b := records(t, whole), records(t, part)
	if len(a) != 80 || len(b) != 80 {
		t.Fatalf("%d and %d rows, want 80", len(a), len(b))
	}
	if v := number(t, b[3], "clip_d"); v == nil || *v != 0.5 {
		t.Errorf("what the journal holds was measured again: %v", v)
	}
	if v := number(t, b[4], "clip_d"); v == nil || *v == 0.25 {
		t.Errorf("what the journal holds of another row was believed: %v", v)
	}
	for i := range a {
		x, errX := json.Marshal(a[i])
		y, errY := json.Marshal(b[i])
		if errX != nil || errY != nil || i != 3 && string(x) != string(y) {
			t.Errorf("row %d: %s and %s", i, x, y)
		}
	}
}

// TestSimilaritiesOfNothing: a table without targets and captions has nothing to measure, and the command says so.
func TestSimilaritiesOfNothing(t *testing.T) {
	folder := oracle.Folders(t)[0]
	dir := t.TempDir()
	picture := filepath.Join(folder, "images", "coffee.png")
	for lines, want := range map[string]bool{
		fmt.Sprintf(`{"source": %q, "edit": %[1]q, "goal": %[1]q}`, picture):   true,
		fmt.Sprintf(`{"source": %q, "edit": %[1]q, "target": %[1]q}`, picture): false,
		"": false,
	} {
		in := filepath.Join(dir, "in.jsonl")
		if err := os.WriteFile(in, []byte(lines), 0o666); err != nil {
			t.Fatal(err)
		}
		code, text := run(t.Context(), folder, filepath.Join(dir, "cache"), in, filepath.Join(dir, "out.jsonl"))
		if got := strings.Contains(text, "warning: nothing was measured"); code != exit.Done || got != want {
			t.Errorf("%s: got exit code %d, a warning %v, want %v: %s", lines, code, got, want, text)
		}
	}
}

func TestSimilaritiesUsage(t *testing.T) {
	folder := oracle.Folders(t)[0]
	in, _ := edits(t, folder)
	out := filepath.Join(t.TempDir(), "out.jsonl")
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"", exit.Wrong, "--in and --out"},
		{"--in " + in + " --out " + out, exit.Wrong, "--clip or --dino"},
		{"--clip x --in " + in + " --out out.txt", exit.Wrong, ".jsonl or .parquet"},
		{"--clip x --batch 0 --in " + in + " --out " + out, exit.Wrong, "at least 1"},
		{"--clip nowhere --in " + in + " --out " + out, exit.Wrong, "encoder nowhere"},
		{"--clip " + folder + "/clip/model --in nowhere.jsonl --out " + out, exit.Wrong, "nowhere.jsonl"},
	} {
		var stdout, stderr strings.Builder
		args := append([]string{"similarities", "--cache", t.TempDir()}, strings.Fields(tt.args)...)
		if code := App.Run(context.Background(), args, &stdout, &stderr); code != tt.code ||
			!strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%s: exit code %d, want %d: %s", tt.args, code, tt.code, stderr.String())
		}
	}
}

// TestSimilaritiesOfSwappedEncoders: CLIP given as DINOv2 is refused, and vice versa.
func TestSimilaritiesOfSwappedEncoders(t *testing.T) {
	folder := oracle.Folders(t)[0]
	in, _ := edits(t, folder)
	clip, dino := filepath.Join(folder, "clip", "model"), filepath.Join(folder, "dinov2", "model")
	for want, flags := range map[string][]string{
		"it is a DINOv2 encoder, want CLIP": {"--clip", dino},
		"it is a CLIP encoder, want DINOv2": {"--dino", clip},
	} {
		var o, e strings.Builder
		args := append([]string{"similarities", "--cache", t.TempDir(), "--in", in, "--out",
			filepath.Join(t.TempDir(), "out.jsonl")}, flags...)
		if code := App.Run(t.Context(), args, &o, &e); code == exit.Done || !strings.Contains(e.String(), want) {
			t.Errorf("%v: exit code %d: %s", flags, code, e.String())
		}
	}
}

// TestSimilaritiesOfRenamedCaptions: --columns also renames the caption columns, and a missing one is reported.
func TestSimilaritiesOfRenamedCaptions(t *testing.T) {
	folder := oracle.Folders(t)[0]
	in, want := edits(t, folder)
	raw, err := os.ReadFile(in)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("source_caption", "before", "target_caption", "after").Replace(string(raw))
	if err := os.WriteFile(in, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	out, cache := filepath.Join(t.TempDir(), "out.jsonl"), t.TempDir()
	code, stdout := run(t.Context(), folder, cache, in, out, "--columns", "source_caption=before,target_caption=after")
	var r encoders.TableResult
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != exit.Done || r.Known["clip_t"] != len(want) {
		t.Errorf("exit code %d: %s", code, stdout)
	}
	code, stdout = run(t.Context(), folder, cache, in, out, "--columns", "target_caption=behind")
	if code != exit.Wrong || !strings.Contains(stdout, `no column \"behind\", only`) {
		t.Errorf("exit code %d: %s", code, stdout)
	}
}
