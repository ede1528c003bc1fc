package labeling

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/data"
	"assay/heuristics"
	"assay/internal/packed"
	"assay/internal/shards"
	"assay/internal/tokens"
)

// colouredTable is a table of five outputs next to the fixtures' pictures, with captions.
func colouredTable(t *testing.T, header string, rows ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.csv")
	if err := os.WriteFile(path, []byte(header+"\n"+strings.Join(rows, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{layout: table, path: %s, pictures: %s/magicbrush_files/images, name: t}", path, fixtures)
}

const (
	one   = "100/100-input.png"
	two   = "100/100-output1.png"
	three = "200/200-input.png"
	four  = "200/200-output1.png"
)

// CLIP-D follows the profile: computed from raw embeddings, or from embeddings of length 1.
func TestClipDOfProfiles(t *testing.T) {
	source := colouredTable(t, "source,edit,target,method,instruction,source_caption,target_caption",
		one+","+three+","+two+",aurora,edit,a man,two men")
	values := map[string]float64{}
	for profile, d := range map[string]heuristics.Direction{"adiee-paper": heuristics.DirectionRaw,
		"adiee-released/1": heuristics.DirectionRaw, "assay": heuristics.DirectionUnit} {
		c := load(t, "out: out\nprofile: "+profile+"\nsources: ["+source+"]\n")
		e := &colours{}
		if _, err := run(t, c, models{Clip: e, Dino: e}, 1); err != nil {
			t.Fatal(err)
		}
		vector := func(name string) []float32 {
			p, err := data.Open(filepath.Join(fixtures, "magicbrush_files/images", name), data.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			v, err := e.Images(t.Context(), []*data.Picture{p})
			if err != nil {
				t.Fatal(err)
			}
			return v[0]
		}
		texts, err := e.Texts(t.Context(), []string{"a man", "two men"})
		if err != nil {
			t.Fatal(err)
		}
		want := d.Of(vector(one), vector(three), texts[0], texts[1])
		for _, row := range readTable(t, c) {
			if row.Method == "aurora" {
				values[profile] = *row.ClipD
				if !(math.Abs(*row.ClipD-want) <= 1e-12) {
					t.Errorf("%s: CLIP-D %v, want %v", profile, *row.ClipD, want)
				}
			}
			if name, _, _ := strings.Cut(profile, "/"); row.Profile != name+"/1" {
				t.Errorf("%s: got profile %q in the table, want it to begin so", profile, row.Profile)
			}
		}
	}
	if values["adiee-paper"] == values["assay"] {
		t.Error("got one CLIP-D by both definitions, want two")
	}
}

// checkpoint writes the files that determine an encoder's architecture.
func checkpoint(t *testing.T, config string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMixes(t *testing.T) {
	base16 := checkpoint(
		t,
		`{"model_type": "clip", "projection_dim": 512, "vision_config": {"hidden_size": 768, "num_hidden_layers": 12, `+
			`"patch_size": 16}}`,
	)
	short16 := checkpoint(t, `{"model_type": "clip", "vision_config": {"patch_size": 16}}`) // the rest are defaults
	base32 := checkpoint(t, `{"model_type": "clip", "vision_config": {}}`)
	large := checkpoint(
		t,
		`{"model_type": "clip", "projection_dim": 768, "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24, `+
			`"patch_size": 14, "projection_dim": 768}}`,
	)
	dino := checkpoint(t,
		`{"model_type": "dinov2", "hidden_size": 768, "num_hidden_layers": 12, "patch_size": 14, "image_size": 518}`)
	registers := checkpoint(t, `{"model_type": "dinov2_with_registers"}`)
	sources := "sources: [{layout: folder, path: FIXTURES/folder}]\n"
	for _, c := range []struct {
		name, yaml string
		want       []string // one part of each message
	}{
		{"as released", fmt.Sprintf("profile: adiee-released\nencoders: {clip: %s, dino: %s}\n", base16, dino), nil},
		{"with defaults", fmt.Sprintf("profile: adiee-released\nencoders: {clip: %s}\n", short16), nil},
		{"other patches", fmt.Sprintf("profile: adiee-released\nencoders: {clip: %s, dino: %s}\n", base32, dino),
			[]string{"measured with clip-vit-base-patch16, but encoders.clip is clip of 12 layers, width 768, patches of 32"}},
		{"larger", fmt.Sprintf("profile: adiee-released\nencoders: {clip: %s, dino: %s}\n", large, registers),
			[]string{"encoders.clip is clip of 24 layers",
				"measured with dinov2-base, but encoders.dino is dinov2_with_registers"}},
		{"percentiles go with any", fmt.Sprintf("profile: adiee-paper\nencoders: {clip: %s, dino: %s}\n", large, registers),
			nil},
		{"another definition", "profile: adiee-released\nencoders: {clip_d: unit}\n",
			[]string{"CLIP-D is raw, but CLIP-D is measured unit"}},
		{"no config", "profile: adiee-released\nencoders: {clip: FIXTURES}\n",
			[]string{"the architecture of encoders.clip is unknown"}},
		{"old name", "preset: paper\n", []string{"preset is the old name of profile: paper is profile assay/1"}},
		{"old mix", "preset: released\n", []string{"old name",
			"profiles are mixed: the thresholds are from adiee-released/1"}},
	} {
		got := load(t, "out: out\n"+sources+c.yaml).Mixes()
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: %q, want %q", c.name, got[i], want)
			}
		}
	}
}

// The profile of similarities that came with the data is compared with the configured one, also for a table that
// label wrote.
func TestGivenMixes(t *testing.T) {
	header := "source,edit,target,method,instruction,clip_d,clip_i,dino_i,profile"
	row := one + "," + three + "," + two + ",aurora,edit %s,0.1,0.9,0.9,%s"
	for _, c := range []struct{ profile, own, of, want string }{
		{"adiee-released", "adiee-released/1", "", ""},
		{"adiee-released", "adiee-released/1 + rules.weak", "", ""},
		{"adiee-released", "", "profile: adiee-released, ", ""},
		{"adiee-released", "", "", "their profile is unknown"},
		{"adiee-released", "assay/1", "",
			"profiles are mixed: 1 rows of source \"t\" come with similarities of assay/1 (CLIP-D unit)"},
		{"adiee-released", "adiee-released/1 with similarities of assay/1", "", "come with similarities of assay/1"},
		{"adiee-released", "assay/9", "", "profile assay has version 1 here"},
	} {
		source := colouredTable(t, header, fmt.Sprintf(row, "1", c.own))
		source = strings.Replace(source, "{", "{"+c.of, 1)
		cfg := load(t, "out: out\nprofile: "+c.profile+"\nsources: ["+source+"]\n")
		r, err := run(t, cfg, models{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Join(slices.DeleteFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "held out") }),
			"\n")
		if (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
			t.Errorf("%+v: %q", c, said)
		}
	}
}

// A number that the column undefined names does not exist, like a NaN; a number that is only missing fails nothing.
func TestUndefinedOfTables(t *testing.T) {
	source := colouredTable(t, "id,source,edit,method,instruction,clip_d,undefined",
		"a,"+one+","+three+",pr2pr,edit,nan,",
		"b,"+one+","+three+",pr2pr,change,,clip_d",
		"c,"+one+","+three+",pr2pr,alter,,",
		"d,"+one+","+three+",pr2pr,turn,,dino_i clip_d")
	r, err := run(t, load(t, "out: out\nprofile: adiee-released\nsources: ["+source+"]\n"), models{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := "4: 3 labelled, 1 without a label (none of its similarities is known 1), 0 skipped, 0 duplicates"
	if r.Samples.String() != want {
		t.Errorf("samples %s, want %s", &r.Samples, want)
	}
}

// Every sample and every row is accounted for.
func TestAccounts(t *testing.T) {
	header := "id,source,edit,target,method,instruction,clip_d,clip_i,dino_i"
	source := colouredTable(t, header,
		"a,"+one+","+three+","+two+",aurora,edit,0.1,0.9,0.9",    // labelled
		"a,"+one+","+four+","+two+",ip2p,edit,0.9,0.9,0.9",       // no rule applies
		"a,"+one+","+three+","+two+",aurora,edit,0.1,0.9,0.9",    // a duplicate
		"b,"+three+",none.png,,ip2p,edit,,,",                     // bad: no such picture
		"c,"+three+","+four+",,ip2p,edit it,,,",                  // nothing is known
		"c,"+three+","+one+",,pr2pr,edit it,nan,,",               // undefined: failed
		"c,"+three+","+two+",,mgie,edit it,,0.9,",                // CLIP-D is unknown
		"c,"+three+","+three+",,ip2p,edit it,,,",                 // bad: the id of another edit
		"d,"+four+","+one+",,ip2p,edit,,,", "e,"+four+",,,,x,,,") // no output: only its source is labelled
	cfg := load(t, "out: out\nprofile: adiee-released\nmax_bad: 1\nsources: ["+source+"]\n")
	r, err := run(t, cfg, models{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := "10: 3 labelled, 4 without a label (its CLIP-D is not known, and no rule applies 1; no rule applies 1; " +
		"none of its similarities is known 2), 2 skipped (bad 2), 1 duplicates"
	if r.Samples.String() != want {
		t.Errorf("samples %s\nwant    %s\n%+v", &r.Samples, want, r.Examples)
	}
	if sum := r.TableRows + r.Bad + r.Duplicates; r.Candidates.Total != sum || r.Candidates.Labelled != r.Labelled {
		t.Errorf("got %s, want the sum of %d rows in the table, %d bad, %d duplicates", &r.Candidates, r.TableRows,
			r.Bad, r.Duplicates)
	}
	raw, err := os.ReadFile(filepath.Join(cfg.Out, SkippedFile))
	if err != nil || !strings.Contains(string(raw), `sample 4 of source \"t\" has the same id but is another edit`) {
		t.Errorf("got %s (%v), want a row whose id another edit has", raw, err)
	}
	a := r.Samples
	a.Total++
	if err := a.check("samples"); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("a lost sample: got error %v, want an internal one", err)
	}
}

// A repeated edit must have the same values, or its row is bad: the first label would hide the second.
func TestContradictingDuplicates(t *testing.T) {
	header := "id,source,edit,target,method,instruction,label,clip_d,clip_i,dino_i"
	row := func(rest string) string { return "a," + one + "," + three + "," + two + ",aurora,edit," + rest }
	for _, c := range []struct{ first, again, want string }{
		{"0.3,0.1,0.9,0.9", "0.3,0.1,0.9,0.9", ""},
		{"0.3,0.1,0.9,0.9", ",0.1,0.9,0.9", ""},
		{"0.3,0.1,0.9,0.9", ",,,", ""},
		{"0.3,,,", "0.9,,,", "the same edit as t/a/aurora, with another label"},
		{",0.1,0.9,0.9", "0.9,0.1,0.9,0.9", "t/a/aurora, which comes first and has no label: list the data set with"},
		{",0.1,0.9,0.9", ",0.5,0.9,0.9", "with another clip_d"},
		{",0.1,0.9,0.9", ",0.1,0.9,0.7", "with another dino_i"},
		{",0.1,,0.9", ",0.1,0.9,0.9", "with another clip_i"},
	} {
		cfg := load(t, "out: out\nprofile: adiee-released\nmax_bad: 1\nsources: ["+
			colouredTable(t, header, row(c.first), row(c.again))+"]\n")
		r, err := run(t, cfg, models{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(cfg.Out, SkippedFile))
		if err != nil || !strings.Contains(string(raw), c.want) || (r.Bad == 1) != (c.want != "") {
			t.Errorf("%s, then %s: %d bad, %s, %v; want %q", c.first, c.again, r.Bad, raw, err, c.want)
		}
	}
}

// brokenEncoder returns NaN.
type brokenEncoder struct{ colours }

func (b *brokenEncoder) Images(ctx context.Context, pictures []*data.Picture) ([][]float32, error) {
	out, err := b.colours.Images(ctx, pictures)
	out[0][0] = float32(math.NaN())
	return out, err
}

// NaN from an encoder is a failure of the encoder, not of the edit.
func TestBrokenEncoder(t *testing.T) {
	c := load(t, "out: out\nsources: ["+colouredTable(t, "source,edit,instruction", one+","+two+",x")+"]\n")
	j, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	err = measure(t.Context(), j, models{Clip: &brokenEncoder{}}, shards.Ref{}, nil)
	if err == nil || !strings.Contains(err.Error(), "an encoder returned the embedding NaN") {
		t.Error(err)
	}
}

// Data sets of several files, named by a pattern, from the configuration to the table.
func TestPatterns(t *testing.T) {
	strangers := packed.Unpack(t, "../../data/readers/testdata/strangers.zip")
	c := load(t, strings.ReplaceAll(`
out: out
profile: adiee-released
sources:
  - {layout: webdataset, path: 'STRANGERS/webdataset/shard-{000..001}.tar', name: shards}
  - {layout: instructpix2pix-hub, path: STRANGERS/hub, name: hub}
`, "STRANGERS", strangers))
	r, err := run(t, c, models{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, row := range readTable(t, c) {
		got[row.ID] = row.Why
	}
	want := map[string]string{
		"shards/0000/a/source": "source",
		"shards/0000/a/target": "target",
		"shards/0000/a/mgie":   "given",
		"shards/0000/b/source": "source",
		"shards/0000/b/sdedit": "weak_editor",
		"shards/0001/a/source": "source",
		"shards/0001/a/edit":   "given",
		"hub/000001/source":    "source",
		"hub/000001/target":    "target",
	} // hub/000000 has the same content as shards/0000/a
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if s := r.Samples.String(); s != "5: 4 labelled, 0 without a label, 0 skipped, 1 duplicates" {
		t.Error(s)
	}
	path := filepath.Join(t.TempDir(), "label.yaml")
	if err := os.WriteFile(path, []byte("out: out\nsources: [{layout: webdataset, path: 'none-{0..3}.tar'}]\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "none-0.tar: no such file") {
		t.Error(err)
	}
}

// TestGivenSimilaritiesAreCosines: a percentage would pass every threshold.
func TestGivenSimilaritiesAreCosines(t *testing.T) {
	for _, o := range []heuristics.Candidate{{ClipI: heuristics.Measured(83)}, {DinoI: heuristics.Measured(-2)},
		{ClipD: heuristics.Measured(1.1)}} {
		if err := cosines(&o); err == nil || !strings.Contains(err.Error(), "a cosine is in -1..1") {
			t.Errorf("%+v: got error %v, want one that a cosine lies in -1..1", o, err)
		}
	}
	half := heuristics.Candidate{ClipI: heuristics.Measured(1.0005), ClipD: heuristics.Measured(math.NaN())}
	if err := cosines(&half); err != nil {
		t.Errorf("1 as a half float, and an undefined one: got error %v, want none", err)
	}
}

// reading refuses the texts that a tokenizer cannot read, as an encoder does.
type reading struct{ named }

func (r reading) Texts(ctx context.Context, texts []string) ([][]float32, error) {
	for _, text := range texts {
		if err := tokens.Check("text", text); err != nil {
			return nil, err
		}
	}
	return r.named.Texts(ctx, texts)
}

// A caption that no tokenizer reads makes its row unusable, and not the data set; without an encoder it does not
// matter.
func TestUnreadableCaption(t *testing.T) {
	dir := t.TempDir()
	var png bytes.Buffer
	if err := (&data.Picture{Width: 8, Height: 8, Pix: make([]byte, 3*8*8)}).EncodePNG(&png); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.png"), png.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	lines := ""
	for i, caption := range []string{"a red wall", `a \u0000 wall`, "a blue wall"} {
		lines += fmt.Sprintf(`{"id": "%d", "source": "a.png", "edit": "a.png", "target": "a.png", "method": "m", `+
			`"instruction": "do %d", "source_caption": "a wall", "target_caption": "%s"}`+"\n", i, i, caption)
	}
	if err := os.WriteFile(filepath.Join(dir, "t.jsonl"), []byte(lines), 0o666); err != nil {
		t.Fatal(err)
	}
	const config = "out: OUT\nsources: [{layout: table, path: TABLE}]\nrules: {clip_i: off, dino_i: off}\n" +
		"foreign: {instructions: 1}\nsplit: {validation: 0}\nmax_bad: 1\n"
	for _, e := range []models{{Clip: reading{}}, {}} {
		out := filepath.Join(t.TempDir(), "out")
		c := load(t, strings.NewReplacer("OUT", out, "TABLE", filepath.Join(dir, "t.jsonl")).Replace(config))
		r, err := run(t, c, e, 1)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(out, "skipped.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		const reason = `target_caption \"a \\x00 wall\" contains a zero byte`
		if said := strings.Contains(string(raw), reason); said != (e.Clip != nil) || (r.Bad == 1) != said {
			t.Errorf("with an encoder: %t: got %d bad rows and %s, want one with %q: %t", e.Clip != nil, r.Bad, raw, reason,
				e.Clip != nil)
		}
	}
}
