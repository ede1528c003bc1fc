package strictyaml

import (
	"errors"
	"fmt"
	"testing"

	"assay/internal/fuzzing"

	"github.com/google/go-cmp/cmp"
)

type word struct {
	Number int64
	Auto   bool
}

func (w *word) UnmarshalValue(v any) error {
	if v == "auto" {
		w.Auto = true
		return nil
	}
	n, ok := Int(v)
	if !ok {
		return fmt.Errorf("want a whole number or auto, not %v", v)
	}
	w.Number = n
	return nil
}

type config struct {
	Name  string  `yaml:"name"`
	LR    float64 `yaml:"lr"`
	Seed  uint64  `yaml:"seed"`
	Steps int     `yaml:"steps"`
	On    bool    `yaml:"on"`
	Micro word    `yaml:"micro"`
	Lora  struct {
		R       int            `yaml:"r"`
		Pattern map[string]int `yaml:"pattern"`
		Targets []string       `yaml:"targets"`
	} `yaml:"lora"`
	Size []int `yaml:"size"`
	Head *struct {
		Hidden []int `yaml:"hidden"`
	} `yaml:"head"`
}

func TestDecode(t *testing.T) {
	text := `# comment
name: &n 'a: b'
lr: 2e-5
seed: 7
on: true
micro: auto
lora:
  r: 1e1
  pattern: {"a.b": 3}
  targets: [q_proj, *n]
size:
- 512
- 0x10
head: {hidden: []}
steps: null
`
	got := config{Steps: 5}
	if err := Decode("c.yaml", []byte(text), &got).Err(); err != nil {
		t.Fatal(err)
	}
	want := config{Name: "a: b", LR: 2e-5, Seed: 7, Steps: 5, On: true, Micro: word{Auto: true}, Size: []int{512, 16}}
	want.Lora.R, want.Lora.Pattern, want.Lora.Targets = 10, map[string]int{"a.b": 3}, []string{"q_proj", "a: b"}
	want.Head = &struct {
		Hidden []int `yaml:"hidden"`
	}{Hidden: []int{}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestEmpty(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n"} {
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) {
			got := config{Steps: 5}
			if err := Decode("c.yaml", []byte(text), &got).Err(); err != nil || got.Steps != 5 {
				t.Errorf("%q: got %+v, %v, want steps 5 as before", text, got, err)
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	text := `name: 3
lrr: 1e-4
seed: -1
on: maybe
micro: [1]
lora: {r: eight, rank: 8, targets: q_proj, pattern: [1]}
steps: 1.5
size: [1, two]
lr: .nan
lr: 3
head: 5
zebra: 1
`
	var c config
	d := Decode("c.yaml", []byte(text), &c)
	d.Problem("lora.alpha", "wanted here")
	d.Problem("absent", "wanted")
	if !d.Has("lora.r") || d.Has("lora.alpha") || !d.Bad("lora") || !d.Bad("size") || d.Bad("size.x") {
		t.Errorf("Has: got %t, %t, want true, false; Bad: got %t, %t, %t, want true, true, false", d.Has("lora.r"),
			d.Has("lora.alpha"), d.Bad("lora"), d.Bad("size"), d.Bad("size.x"))
	}
	var got []string
	var p Problems
	if !errors.As(d.Err(), &p) {
		t.Fatalf("got %v, want Problems", d.Err())
	}
	for _, x := range p {
		got = append(got, x.String())
	}
	want := []string{
		`c.yaml:1:1: absent: wanted`,
		`c.yaml:1:7: name: want a string, not 3 (put it in quotes)`,
		`c.yaml:2:1: lrr: unknown key (did you mean lr?)`,
		`c.yaml:3:7: seed: want a whole number of at least 0, not -1`,
		`c.yaml:4:5: on: want true or false, not maybe`,
		`c.yaml:5:8: micro: want a whole number or auto, not [1]`,
		`c.yaml:6:1: lora.alpha: wanted here`,
		`c.yaml:6:11: lora.r: want a whole number, not eight`,
		`c.yaml:6:18: lora.rank: unknown key (known keys: pattern, r, targets)`,
		`c.yaml:6:36: lora.targets: want a list, not q_proj`,
		`c.yaml:6:53: lora.pattern: want keys with values (a mapping), not a list`,
		`c.yaml:7:8: steps: want a whole number, not 1.5`,
		`c.yaml:8:11: size[1]: want a whole number, not two`,
		`c.yaml:9:5: lr: want a number, not .nan`,
		`c.yaml:10:1: lr: duplicate key`,
		`c.yaml:11:7: head: want keys with values (a mapping), not 5`,
		`c.yaml:12:1: zebra: unknown key (known keys: head, lora, lr, micro, name, on, seed, size, steps)`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestSyntaxAndShape(t *testing.T) {
	for text, want := range map[string]string{
		"name: [a\nlr: 1\n":     "c.yaml:2:1: ",
		"- a\n":                 "c.yaml:1:1: want keys with values (a mapping), not a list",
		"name: a\n---\nlr: 1\n": "c.yaml:3:",
		"name: a\n\tlr: 1\n":    "c.yaml:",
	} {
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) {
			var c config
			err := Decode("c.yaml", []byte(text), &c).Err()
			if err == nil || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
				t.Errorf("%q: got error %v, want one that begins with %q", text, err, want)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	x := fuzzing.New(f)
	x.Add(
		[]byte("name: a\nlora: {r: 1, targets: [a, b]}\n"),
		[]byte("a: &x [*x]\n"),
		[]byte("? [a]\n: b\n<<: {name: 1}\n!!str 1: 2\n"),
	)
	x.Run(func(t testing.TB, text []byte) {
		fuzzing.Bounded(t, 64<<20+16<<10*uint64(len(text)), func() {
			var c config
			_ = Decode("c.yaml", text, &c).Err()
		})
	})
}

// TestBytes: sizes with units and without, and back.
func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{"512MiB": 512 << 20, "2 GB": 2e9, "1.5GiB": 3 << 29, "0": 0,
		"1000": 1000, "70B": 70} {
		t.Run(text, func(t *testing.T) {
			var c struct {
				B Bytes `yaml:"b"`
			}
			if err := Decode("c.yaml", []byte("b: "+text+"\n"), &c).Err(); err != nil || c.B != want {
				t.Errorf("%s: got %d, %v, want %d", text, c.B, err, want)
			}
			var again Bytes
			if err := again.Set(want.String()); err != nil || again != want {
				t.Errorf("%s is written as %s, which is %d: %v", text, want, again, err)
			}
		})
	}
	for _, text := range []string{"-1", "1.5", "much", "-2GiB", "9e30GB", "[1]", "disk"} {
		t.Run(text, func(t *testing.T) {
			var c struct {
				B Bytes `yaml:"b"`
			}
			if err := Decode("c.yaml", []byte("b: "+text+"\n"), &c).Err(); err == nil {
				t.Errorf("%s: got %d bytes, want an error", text, c.B)
			}
		})
	}
}

// TestZeroInFront: 010 is eight to some parsers and ten to others.
func TestZeroInFront(t *testing.T) {
	for text, refused := range map[string]bool{"steps: 010": true, "lr: 010": true, "size: [1, -07]": true,
		"micro: 012": true, "steps: 0": false, "steps: 0o10": false, "steps: 0x10": false, "lr: 0.5": false,
		"lr: 01.5": false, "name: '010'": false} {
		t.Run(text, func(t *testing.T) {
			var c config
			if err := Decode("a.yaml", []byte(text), &c).Err(); (err != nil) != refused {
				t.Errorf("%s: got error %v, want one: %t", text, err, refused)
			}
		})
	}
}

// TestHas: a key whose value is null, however it is written, counts as absent.
func TestHas(t *testing.T) {
	var c struct {
		Steps *int `yaml:"steps"`
		Train struct {
			LR   *float64 `yaml:"lr"`
			Last *int     `yaml:"last"`
			Rows []string `yaml:"rows"`
			Name string   `yaml:"name"`
			Kept *bool    `yaml:"kept"`
		} `yaml:"train"`
	}
	text := "steps: &none null\ntrain:\n  lr: ~\n  last:\n  rows: []\n  name: ''\n  kept: *none\n"
	d := Decode("run.yaml", []byte(text), &c)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{"steps": false, "train": true, "train.lr": false, "train.last": false,
		"train.rows": true, "train.name": true, "train.kept": false, "train.other": false} {
		t.Run(key, func(t *testing.T) {
			if got := d.Has(key); got != want {
				t.Errorf("Has(%q) is %t, want %t", key, got, want)
			}
		})
	}
	d.Problem("train.lr", "is wrong")
	if err := d.Err(); err == nil || err.Error() != "run.yaml:3:3: train.lr: is wrong" {
		t.Errorf("a problem of a null key: got error %v, want it at 3:3", err)
	}
}
