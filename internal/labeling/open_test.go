package labeling

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// broken are data sets of every layout that cannot be opened: the content to write into a file ("" removes it), and
// the expected error.
var broken = []struct{ layout, path, file, content, want string }{
	{"table", "t.csv", "t.csv", "source,edit\na,b\n",
		`source "mine": table: DIR/t.csv: no column "instruction", only source, edit`},
	{"table", "t.csv", "t.csv", "source,instruction\na,b\n", `t.csv: no column "edit"`},
	{"table", "t.csv", "t.csv", "source,edit,instruction\na,\xe9,c\n", "t.csv: line 2: not UTF-8"},
	{"table", "t.csv", "t.csv", "source,edit,instruction,edit\n", `t.csv: two columns "edit"`},
	{"table", "t.csv", "t.csv", "", "t.csv: empty, want a header line with the column names"},
	{"table", "t.csv", "t.csv", "source,edit,instruction\n", `source "mine": it contains no samples`},
	{"table", "t.jsonl", "t.jsonl", "", `source "mine": it contains no samples`},
	{"table", "t.csv", "t.csv", "source;edit;instruction\na;b;c\n", "want commas between the columns"},
	{"table", "t.jsonl", "t.jsonl", `{"source": "a"}`, `t.jsonl: no column "instruction", only source`},
	{"table", "t.parquet", "t.parquet", "PAR1 and no more", "t.parquet: damaged Parquet file"},
	{"table", "t.parquet", "t.parquet", "nothing of it", "t.parquet: not a table"},
	{"table", "d", "d/x.txt", "no table", "d: no .parquet, .jsonl, .json, .ndjson, .csv, .tsv or .arrow tables in it"},
	{"table", "d", "d/data-00000-of-00001.arrow", "no arrow", "data-00000-of-00001.arrow: not an arrow stream"},
	{"triplets", "t.csv", "t.csv", "source,instruction\n", `t.csv: no column "target"`},
	{"aim-bench", "d", "d/x.txt", "", "Instructions.json: no such file"},
	{"adiee-magicbrush", "t.jsonl", "t.jsonl", `{"instruction": "a"}`, `no column "source_img"`},
	{"emu-edit", "t.csv", "t.csv", "image\n", `no column "instruction"`},
	{"editreward", "t.csv", "t.csv", "source_img,instruction\n", `no column "left_output_image"`},
	{"magicbrush", "t.csv", "t.csv", "img_id\n", `no column "turn_index"`},
	{"magicbrush", "t.zip", "t.zip", "no archive", "t.zip: zip: not a valid zip file"},
	{"magicbrush", "d", "d/edit_turns.json", "[", "edit_turns.json: unexpected end of JSON input"},
	{"seed-data-edit", "d", "d/x.txt", "", "d: no annotations/*.jsonl found"},
	{"seed-data-edit", "d", "d/annotations/a.jsonl", `{"before": 1}`, `no column "source_image", only before`},
	{"instructpix2pix", "d", "d/seeds.json", "{}", "seeds.json: json: cannot unmarshal"},
	{"instructpix2pix", "d", "d/x.txt", "", "seeds.json: no such file"},
	{"instructpix2pix-hub", "t.csv", "t.csv", "original_image\n", `no column "edit_prompt"`},
	{"webdataset", "t.tar", "t.tar", "no archive", "t.tar: not a tar file"},
	{"folder", "d", "d/x.txt", "", "d: no folder in it has an instruction.txt"},
}

// The reader reports a data set that cannot be opened, with the file and the reason, for every layout.
func TestOpenBroken(t *testing.T) {
	for _, c := range broken {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, c.file)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.content), 0o644); err != nil {
			t.Fatal(err)
		}
		cfg := load(
			t,
			fmt.Sprintf(
				"out: out\nsources: [{layout: folder, path: FIXTURES/folder}, {layout: %s, path: %s, name: mine}]\n",
				c.layout,
				filepath.Join(dir, c.path),
			),
		)
		j, err := Open(t.Context(), cfg)
		if err == nil {
			j.Close()
		}
		var source *SourceError
		if !errors.As(err, &source) || source.Source != "mine" ||
			!strings.Contains(err.Error(), strings.ReplaceAll(c.want, "DIR", dir)) {
			t.Errorf("%s of %q: %v, want %s", c.layout, c.content, err, c.want)
		}
		report, err := Check(t.Context(), cfg, 10)
		if err != nil || report.OK || report.Sources[0].Error != "" ||
			!strings.Contains(report.Sources[1].Error, source.Err.Error()) {
			t.Errorf("%s of %q: got check %+v, %v, want the error %q", c.layout, c.content, report, err, source.Err)
		}
		if _, err := os.Stat(filepath.Join(cfg.Out, partsFolder)); err == nil {
			t.Errorf("%s: got a folder of parts, want none", c.layout)
		}
	}
}

func TestCheckReport(t *testing.T) {
	dir := t.TempDir()
	picture := fixtures + "/folder/hat/source.png"
	text := "before,edit,instruction,method,clip_d,clip_i,note\n" +
		picture + "," + picture + ",one,a,0.5,nan,x\n" +
		picture + ",none.png,two,,,,\n" +
		picture + "," + picture + ",three,a,,,\n" +
		picture + "," + picture + ",four,a,much,,\n"
	if err := os.WriteFile(filepath.Join(dir, "t.csv"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c := load(
		t,
		"out: out\nsources: [{layout: table, path: "+dir+"/t.csv, columns: {source: before}}, {layout: adiee-magicbrush, "+
			"path: FIXTURES/adiee}]\n",
	)
	r, err := Check(t.Context(), c, 100)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Sources[0]
	if r.OK || s.Samples != 4 || s.Read != 4 || s.Bad != 2 || s.Nulls["method"] != 1 || s.Nulls["clip_d"] != 2 ||
		s.Known["clip_d"] != 1 || s.Not["clip_i"] != 1 {
		t.Errorf("%+v", s)
	}
	reasons := strings.Join(s.Reasons, "\n")
	for _, want := range []string{"none.png: no such file", `column "clip_d": want a number, have "much"`} {
		if !strings.Contains(reasons, want) {
			t.Errorf("%s: no word of %s", reasons, want)
		}
	}
	var unused, missing []string
	for _, u := range s.Columns {
		if u.Field == "" {
			unused = append(unused, u.Column)
		} else if u.Column == "" {
			missing = append(missing, u.Field)
		} else if u.Mapped != (u.Field == "source") {
			t.Errorf("%+v", u)
		}
	}
	if fmt.Sprint(unused) != "[note]" ||
		fmt.Sprint(missing) != "[dino_i id label profile session source_caption split target target_caption undefined]" {
		t.Errorf("got unused %v, missing %v, want [note], all that the table lacks", unused, missing)
	}
	s = r.Sources[1]
	if s.Bad != 0 || s.Samples != 3 || s.Outputs != 8 || s.Pictures["png"] != 14 {
		t.Errorf("%+v", s)
	}
	for _, u := range s.Columns {
		if u.Field == "" && !strings.HasSuffix(u.Column, "_score") {
			t.Errorf("got %s among unused columns, want scores alone", u.Column)
		}
	}
	mixes := strings.Join(r.Mixes, "\n")
	for _, want := range []string{`1 rows of source "table" come with similarities, but their profile is unknown`,
		`8 rows of source "adiee-magicbrush" come with similarities of adiee-released/1`} {
		if !strings.Contains(mixes, want) {
			t.Errorf("%s\nno word of %s", mixes, want)
		}
	}
}
