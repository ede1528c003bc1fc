package data

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/packed"
)

// readEdits describes all edits of a table, one per line.
func readEdits(t *testing.T, path string, columns map[string]string) (out []string) {
	t.Helper()
	e, err := OpenEdits(path, columns)
	if err != nil {
		return []string{err.Error()}
	}
	defer e.Close()
	out = append(out, e.Layout)
	for x, err := range e.All() {
		if err != nil {
			out = append(out, "error: "+strings.TrimPrefix(err.Error(), path))
			continue
		}
		label, labelled := x.Labels[""]
		if labelled != (x.Label != nil) || labelled && label != *x.Label {
			t.Errorf("labels %v, want the score %v among them", x.Labels, x.Label)
		}
		delete(x.Labels, "")
		line := fmt.Sprintf("%s|%s|%d|%d|%v|%v|%g", x.ID, x.Instruction, len(x.Source.Bytes)+len(x.Source.Path),
			len(x.Edit.Bytes)+len(x.Edit.Path), x.Labels, x.Ranks, x.Votes)
		if x.Label != nil {
			line += fmt.Sprintf("|%.4g", *x.Label)
		}
		if p := x.Verdict; p != nil {
			line += fmt.Sprintf("|%v %v %v %s", p.Second, p.Votes, p.Counted, p.Dimension)
			if p.Margin != nil {
				line += fmt.Sprint(" ", *p.Margin)
			}
		}
		out = append(out, line)
	}
	return out
}

func expectLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w && !(strings.HasPrefix(w, "error: ") && strings.HasPrefix(g, "error: ") && strings.Contains(g, w[7:])) {
			t.Errorf("line %d: got\n%s\nwant\n%s", i, g, w)
		}
	}
}

func TestEditsOfLabels(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	if err := os.WriteFile(path, []byte(`{"source": "a", "edit": "b", "instruction": "x", "label": 0.5, `+
		`"label_following": 1, "q": 0.25, "rank": 2, "votes": 5}
{"source": "a", "edit": "b", "instruction": "x", "label_following": null, "q": "", "rank": null}
{"source": "a", "edit": "b", "instruction": "x", "label_following": 1.5}
{"source": "a", "edit": "b", "instruction": "x", "votes": -1}
{"source": "a", "edit": "b", "instruction": "x", "rank_q": "first"}
`), 0o666); err != nil {
		t.Fatal(err)
	}
	expectLines(t, readEdits(t, path, map[string]string{"label_quality": "q"}), "labels",
		"|x|1|1|map[following:1 quality:0.25]|map[:2]|5|0.5", "|x|1|1|map[]|map[]|0",
		`error: column "label_following": 1.5 is outside 0..1`, `error: column "votes"`, `error: column "rank_q"`)
}

func TestEditsOfPreferences(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	if err := os.WriteFile(path, []byte(`{"prompt": "x", "source": "a", "chosen": "bb", "rejected": "ccc", `+
		`"margin": 1.5, "id": "p"}
{"prompt": [{"role": "user", "content": "do"}, {"role": "assistant", "content": "no"}, `+
		`{"role": "user", "content": [{"type": "text", "text": "it"}]}], "source": "a", `+
		`"chosen": "b", "rejected": "c", "votes_tie": 2, "dimension": "quality"}
{"prompt": "x", "source": "a", "chosen": "b", "rejected": "c", "votes_chosen": 0}
{"prompt": "x", "source": "a", "chosen": "b", "rejected": "c", "margin": -1}
{"prompt": "x", "chosen": "b", "rejected": "c"}
`), 0o666); err != nil {
		t.Fatal(err)
	}
	both := func(s string) []string { return []string{s, s} }
	want := []string{"preferences", "p/chosen|x|1|2|map[]|map[]|0|false [1 0 0] false  1.5",
		"p/rejected|x|1|3|map[]|map[]|0|true [1 0 0] false  1.5",
		"|do\nit|1|1|map[]|map[]|0|false [0 2 0] true quality", "|do\nit|1|1|map[]|map[]|0|true [0 2 0] true quality"}
	want = append(want, both("error: no votes")...)
	want = append(want, both("error: -1 is below 0: swap chosen and rejected")...)
	want = append(want, both(`error: no column "source"`)...)
	expectLines(t, readEdits(t, path, nil), want...)
}

// TestEditsOfEditReward reads the Parquet file that tools/oracle/readers.py wrote with pyarrow in the published
// columns.
func TestEditsOfEditReward(t *testing.T) {
	got := readEdits(t, filepath.Join(packed.Unpack(t, "readers/testdata/layouts.zip"), "editreward.parquet"), nil)
	for i := range got {
		parts := strings.Split(got[i], "|") // ignore the sizes of pictures
		if len(parts) > 4 {
			got[i] = strings.Join(append(parts[:2], parts[4:]...), "|")
		}
	}
	expectLines(t, got, "editreward", "k1/left|edit k1|map[]|map[]|0|1|false [1 0 0] false ",
		"k1/right|edit k1|map[]|map[]|0|0|true [1 0 0] false ", "k1/left|edit k1|map[]|map[]|0|1|false [0 1 0] false ",
		"k1/right|edit k1|map[]|map[]|0|1|true [0 1 0] false ", "k2/left|edit k2|map[]|map[]|0|0.1667|false [0 0 1] false ",
		"k2/right|edit k2|map[]|map[]|0|0.5|true [0 0 1] false ")
}

func TestMajority(t *testing.T) {
	for votes, want := range map[[3]float64][3]float64{
		{1, 0, 0}: {1, 0, 0}, {2, 1, 3}: {0, 0, 1}, {2, 0, 2}: {0, 1, 0}, {1, 3, 2}: {0, 1, 0}, {2, 2, 1}: {0, 1, 0},
	} {
		t.Run(fmt.Sprint(votes), func(t *testing.T) {
			if got := (&Verdict{Votes: votes}).Majority(); got != want {
				t.Errorf("%v: %v, want %v", votes, got, want)
			}
		})
	}
}

// If one of our columns is mapped to another name, a column with its own name is not ours.
func TestRenamedColumnHidesItsName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	for _, text := range []string{`"q": 0.25, "label_q": 0.75, "n": 7, "votes": 3, "r": 1, "rank": 2`,
		`"label_q": 0.75, "q": 0.25, "votes": 3, "n": 7, "rank": 2, "r": 1`} {
		row := `{"source": "s", "edit": "e", "instruction": "x", ` + text + `}`
		if err := os.WriteFile(path, []byte(row), 0o666); err != nil {
			t.Fatal(err)
		}
		expectLines(t, readEdits(t, path, map[string]string{"label_q": "q", "votes": "n", "rank": "r"}), LayoutLabels,
			"|x|1|1|map[q:0.25]|map[:1]|7")
	}
}

// TestClassNames: class names are labels in equal steps; they are skipped for unused dimensions.
func TestClassNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	row := `{"id": "%d", "source": "a", "edit": "b", "instruction": "x", "label_emotion": %s, "label_mood": %s}` + "\n"
	var text strings.Builder
	for i, v := range [][2]string{{`"awe"`, `"low"`}, {`"fear"`, "0.25"}, {"null", "null"}, {`"rage"`, "null"},
		{`"calm"`, "1.5"}} {
		fmt.Fprintf(&text, row, i, v[0], v[1])
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	e, err := OpenEdits(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Classes = map[string][]string{"emotion": {"calm", "awe", "fear"}}
	e.Unread = func(dimension string) bool { return dimension == "mood" }
	var got []string
	for x, err := range e.All() {
		got = append(got, fmt.Sprint(x.Labels))
		if err != nil {
			got[len(got)-1] = "error: " + err.Error()
		}
	}
	expectLines(t, got, "map[emotion:0.5]", "map[emotion:1 mood:0.25]", "map[]",
		`error: "rage" is not one of the classes calm, awe, fear`, "error: 1.5 is outside 0..1")
	e.Unread = nil
	if _, err := e.Read(0); err == nil || !strings.Contains(err.Error(), "want a number") {
		t.Errorf("a name where none may be: got %v, want a refusal", err)
	}
}
