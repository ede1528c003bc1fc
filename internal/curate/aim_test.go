package curate

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/scoring"
	"assay/internal/testfile"
)

// TestAIMBench: AIM-Bench, section 3.4, worked by hand. A source has eight candidates; each value is min-max
// normalised over only these eight (equation 3), and the five best stay.
func TestAIMBench(t *testing.T) {
	var all []Triplet
	for i := range 8 {
		v := float64(i)
		all = append(all,
			// VIE 0..7, the others constant, which become 0: quality 0.5 i/7
			Triplet{Row: i, Source: "a", VIE: v, ClipT: 0.3, Aesthetic: 5},
			// values that are larger than all of the other source's, and fall: quality 1 - i/7
			Triplet{Row: 8 + i, Source: "b", VIE: 20 - v, ClipT: 0.9 - v/10, Aesthetic: 9 - v})
	}
	for _, c := range []struct {
		name    string
		s       TripletSelection
		quality map[int]float64 // of chosen rows
		n       int
	}{
		{"five of each eight", TripletSelection{Rule: AIMBench, Top: 5},
			map[int]float64{3: 1.5 / 7, 7: 0.5, 8: 1, 12: 3. / 7}, 10},
		{"all", TripletSelection{Rule: AIMBench}, map[int]float64{0: 0, 7: 0.5, 8: 1, 15: 0}, 16},
		// over the table VIE is in 0..20, CLIP-T in 0.2..0.9, aesthetic in 2..9
		{"over the table", TripletSelection{Rule: AIMBench, Top: 1, OverTable: true},
			map[int]float64{7: 0.5*7/20 + 0.3*0.1/0.7 + 0.2*3/7, 8: 1}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			chosen, dropped, err := c.s.Select(all)
			if err != nil {
				t.Fatal(err)
			}
			if len(chosen) != c.n || len(dropped) != len(all)-c.n {
				t.Fatalf("%d chosen and %d dropped, want %d and %d", len(chosen), len(dropped), c.n, len(all)-c.n)
			}
			got := map[int]float64{}
			for _, x := range chosen {
				got[x.Row] = x.Quality
			}
			for row, want := range c.quality {
				if q, ok := got[row]; !ok || !(math.Abs(q-want) <= 1e-12) {
					t.Errorf("row %d: chosen %v with quality %v, want %v", row, ok, q, want)
				}
			}
		})
	}
	_, dropped, _ := TripletSelection{Rule: AIMBench, Top: 5}.Select(all)
	for row, want := range map[int]string{2: "quality 0.1429 is not among the 5 best of its source", 0: "quality 0.0000"} {
		if !strings.HasPrefix(dropped[row], want) {
			t.Errorf("row %d was dropped for %q, want %q", row, dropped[row], want)
		}
	}
}

// TestAIM40k: AIM-Bench, section 5.1: CLIP-I above 0.85, strictly, and equally many of each of the eight emotions.
func TestAIM40k(t *testing.T) {
	var all []Triplet
	for i, e := range Emotions {
		all = append(all, Triplet{Row: i, Emotion: e, ClipI: 0.9}, Triplet{Row: 8 + i, Emotion: e, ClipI: 0.95})
	}
	all = append(all, Triplet{Row: 16, Emotion: "fear", ClipI: 0.85}, Triplet{Row: 17, Emotion: "fear", ClipI: 0.8501},
		Triplet{Row: 18, Emotion: "joy", ClipI: 0.99})
	rows := func(each ...int) (out []int) { return each }
	for _, c := range []struct {
		name string
		per  int
		want []int
	}{
		{"as many as the rarest", 0, rows(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)},
		{"one of each, the highest clip_i", 1, rows(8, 9, 10, 11, 12, 13, 14, 15)},
	} {
		t.Run(c.name, func(t *testing.T) {
			chosen, dropped, err := TripletSelection{Rule: AIM40k, ClipI: 0.85, PerEmotion: c.per}.Select(all)
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, x := range chosen {
				got = append(got, x.Row)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("chose rows %v, want %v", got, c.want)
			}
			if len(dropped) != len(all)-len(c.want) {
				t.Errorf("dropped %d rows, want %d", len(dropped), len(all)-len(c.want))
			}
			for row, want := range map[int]string{
				16: "clip_i 0.85 is not above 0.85",
				17: "clip_i 0.8501 is not among the",
				18: `emotion "joy": want one of`,
			} {
				if !strings.HasPrefix(dropped[row], want) {
					t.Errorf("row %d was dropped for %q, want %q", row, dropped[row], want)
				}
			}
		})
	}
}

// TestBothRules: without a rule, the values and filters of both apply, as before there were rules. Worked by hand.
func TestBothRules(t *testing.T) {
	var all []Triplet
	for i, e := range Emotions { // two targets of each emotion, with one input each
		all = append(all, Triplet{Row: 2 * i, Target: e, Emotion: e, ClipI: 0.9, VIE: 4, ClipT: 0.2, Aesthetic: 5},
			Triplet{Row: 2*i + 1, Target: e + "2", Emotion: strings.ToUpper(e), ClipI: 0.86, VIE: 8, ClipT: 0.3, Aesthetic: 4})
	}
	all = append(all, Triplet{Row: 16, Target: "fear", Emotion: "fear", ClipI: 0.85, VIE: 10, ClipT: 1, Aesthetic: 10},
		Triplet{Row: 17, Target: "fear", Emotion: "fear", ClipI: 0.99, VIE: 6, ClipT: 0.2, Aesthetic: 6},
		Triplet{Row: 18, Target: "x", Emotion: "joy", ClipI: 0.99, VIE: 6, ClipT: 0.2, Aesthetic: 6})
	chosen, dropped, err := TripletSelection{ClipI: 0.85, Top: 1}.Select(all)
	if err != nil {
		t.Fatal(err)
	}
	// ranges 4..8, 0.2..0.3, 4..6: rows 2i have 0.2*0.5 = 0.1, rows 2i+1 0.8, row 17 0.25 + 0.2 = 0.45
	if len(chosen) != 16 || len(dropped) != 3 {
		t.Fatalf("%d chosen, %d dropped (%v), want 16 and 3", len(chosen), len(dropped), dropped)
	}
	for _, c := range chosen {
		want := 0.1
		if c.Row%2 == 1 {
			want = 0.8
		}
		if c.Row == 17 {
			want = 0.45
		}
		if !(math.Abs(c.Quality-want) <= 1e-12) {
			t.Errorf("row %d has quality %g, want %g", c.Row, c.Quality, want)
		}
	}
	// fear is the seventh: its first row loses to row 17
	for row, want := range map[int]string{16: "clip_i", 18: "emotion", 12: "target"} {
		if !strings.Contains(dropped[row], want) {
			t.Errorf("row %d was dropped for %q, want a reason with %s", row, dropped[row], want)
		}
	}
}

// TestEmptySelection: if no triplet is left, or too few of an emotion, the error counts the rows that each step
// dropped, in the order of the steps, with the first row of each.
func TestEmptySelection(t *testing.T) {
	row := func(fields string) string {
		return `{"input": "a.png", "target": "b.png", "instruction": "i", "score01": 0.5, ` + fields + "}\n"
	}
	low, high := row(`"emotion": "fear", "clip_i": 0.85`), row(`"emotion": "fear", "clip_i": 0.9`)
	bench := row(`"vie": 5, "clip_t": 0.3, "aesthetic": 5`)
	for _, c := range []struct {
		name, table string
		s           TripletSelection
		want        string // FILE is the table; "": no error
	}{
		{"no value that is needed", high, TripletSelection{ClipI: 0.85},
			"no triplet is left of 1 row: 1 cannot be used (FILE:1: vie is missing (or sc and pq))"},
		{"too low", low + low, TripletSelection{Rule: AIM40k, ClipI: 0.85},
			"no triplet is left of 2 rows: 2 have too low a clip_i (FILE:1: clip_i 0.85 is not above 0.85)"},
		{"steps", low + row(`"emotion": "joy", "clip_i": 1`) + row(`"emotion": "fear"`),
			TripletSelection{Rule: AIM40k, ClipI: 0.85}, "no triplet is left of 3 rows: 1 cannot be used " +
				`(FILE:3: clip_i is missing), 1 has none of the eight emotions (FILE:2: emotion "joy": want one of ` +
				strings.Join(Emotions, ", ") + "), 1 has too low a clip_i (FILE:1: "},
		{"one emotion", low + high, TripletSelection{Rule: AIM40k, ClipI: 0.85},
			"the emotions cannot be balanced: too few are left of some (" +
				"amusement 0, anger 0, awe 0, contentment 0, disgust 0, excitement 0, sadness 0). Of 2 rows: 1 has too low"},
		{"clip_i and emotion are enough for aim-40k", high, TripletSelection{Rule: AIM40k, ClipI: 0.85}, "too few are left"},
		{"aim-bench needs neither clip_i nor emotion", bench, TripletSelection{Rule: AIMBench}, ""},
		{"aim-bench without aesthetic", row(`"sc": 3, "pq": 4, "clip_t": 0.3`), TripletSelection{Rule: AIMBench},
			"no triplet is left of 1 row: 1 cannot be used (FILE:1: aesthetic is missing)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := testfile.Write(t, "t.jsonl", c.table)
			for _, name := range []string{"a.png", "b.png"} {
				if err := data.NewPicture(2, 2).WritePNG(filepath.Join(filepath.Dir(file), name)); err != nil {
					t.Fatal(err)
				}
			}
			table, scores := triplets(t, file)
			out := filepath.Join(t.TempDir(), "out")
			_, err := c.s.Write(table, scores, out, false)
			if c.want == "" {
				if err != nil {
					t.Errorf("Write: %v, want no error", err)
				}
				return
			}
			if want := strings.ReplaceAll(c.want, "FILE", file); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Write: %v, want %q", err, want)
			}
			if _, err := os.Stat(out); err == nil {
				t.Errorf("%s was created", out)
			}
		})
	}
}

// TestPicturesInside: pictures inside a table are told apart by their bytes, since the names of different ones may be
// the same ("image.png" in all rows is usual in data sets).
func TestPicturesInside(t *testing.T) {
	picture := func(level byte) string {
		p := data.NewPicture(2, 2)
		for i := range p.Pix {
			p.Pix[i] = level
		}
		var b bytes.Buffer
		if err := p.EncodePNG(&b); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`{"path": "image.png", "bytes": "%s"}`, base64.StdEncoding.EncodeToString(b.Bytes()))
	}
	var text strings.Builder
	for source := range 4 {
		for target := range 3 {
			fmt.Fprintf(&text, `{"input": %s, "target": %s, "instruction": "i", "score01": 0.5, "vie": %d, "clip_t": 0.3, `+
				`"aesthetic": 5}`+"\n", picture(byte(source)), picture(byte(100+10*source+target)), target)
		}
	}
	table, scores := triplets(t, testfile.Write(t, "t.jsonl", text.String()))
	s := TripletSelection{Rule: AIMBench, Top: 2}
	got, err := s.Write(table, scores, filepath.Join(t.TempDir(), "out"), false)
	want := &TripletCounts{Rows: 12, Chosen: 8, Dropped: 4, Sources: 4}
	if err != nil || *got != *want {
		t.Errorf("two of each source: got %+v, %v, want %+v", got, err, want)
	}
}

// triplets opens a table of triplets, and reads its scores.
func triplets(t *testing.T, file string) (*data.Table, scoring.Scores) {
	t.Helper()
	table, err := data.OpenTable(file, data.WithColumns(TripletColumns))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.Close() })
	scores, err := scoring.Read(table)
	if err != nil {
		t.Fatal(err)
	}
	return table, scores
}
