package checkpoint

import (
	"bytes"
	"encoding/gob"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/checkpoints"
	"assay/internal/optim"
	"assay/internal/trainer/config"
	"assay/internal/trainer/records"
)

// TestRoundTrip: Find returns the state that Write wrote, and slices of tensors read what other slices wrote.
func TestRoundTrip(t *testing.T) {
	c := config.Default()
	c.Out = t.TempDir()
	loss := records.Number(0.25)
	want := &State{
		Format:      1,
		Progress:    Progress{Step: 3, Updates: 2, Samples: 12, MicroBatch: 2, Metrics: 77, EventsFile: "events"},
		Validations: Validations{Validated: 2, Best: &records.ValidationMetrics{Step: 2, Loss: &loss}, Worse: 1},
		Plateaus:    map[string]*optim.PlateauState{"head": {Cuts: 2}},
		Identity:    Identity{Config: "mode: lora\n", Model: map[string]string{"backbone": "x"}},
	}
	whole := []Slice{
		NewSlice("moment1/a", []int{2, 3}, 0, []float32{1, 2, 3, 4, 5, 6}, nil),
		NewSlice("moment1/b", []int{4}, 0, nil, []byte{7, 8, 9, 10}),
	}
	if err := Write(c, want, whole, func(put Putter) error { return PutAll(whole, put) }); err != nil {
		t.Fatal(err)
	}
	got, dir, problem, err := Find(c.Out)
	if err != nil || problem != nil {
		t.Fatal(problem, err)
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(State{})); d != "" {
		t.Errorf("want -, got +:\n%s", d)
	}
	f, err := checkpoints.OpenFile(filepath.Join(dir, TensorFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	part := NewSlice("moment1/a", []int{2, 3}, 2, make([]float32, 3), nil)
	packed := NewSlice("moment1/b", []int{4}, 1, nil, make([]byte, 2))
	if err := errors.Join(part.Read(f), packed.Read(f)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]float32{3, 4, 5}, part.values); d != "" {
		t.Errorf("want -, got +:\n%s", d)
	}
	if d := cmp.Diff([]byte{8, 9}, packed.bytes); d != "" {
		t.Errorf("want -, got +:\n%s", d)
	}
	other := NewSlice("moment1/a", []int{3, 2}, 0, make([]float32, 6), nil)
	if err := other.Read(f); err == nil {
		t.Error("a tensor of another shape was read")
	}
}

// TestSlicesTravelEmpty: ranks send descriptions of their slices by gob, without the elements.
func TestSlicesTravelEmpty(t *testing.T) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode([]Slice{NewSlice("a", []int{5000}, 0, make([]float32, 5000), nil)}); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 500 {
		t.Errorf("got %d bytes, want only a description", b.Len())
	}
}

// TestPackets splits slices into packets that are full, except the last one.
func TestPackets(t *testing.T) {
	kept := []Slice{NewSlice("a", []int{5}, 0, make([]float32, 5), nil),
		NewSlice("b", []int{4}, 0, make([]float32, 4), nil)}
	var got [][]int
	for _, p := range Packets(kept, 4) {
		var lengths []int
		for _, s := range p {
			lengths = append(lengths, s.Length)
		}
		got = append(got, lengths)
	}
	if d := cmp.Diff([][]int{{4}, {1}, {4}}, got); d != "" {
		t.Errorf("want -, got +:\n%s", d)
	}
}

// TestDifferences: paths may differ, settings that affect results may not.
func TestDifferences(t *testing.T) {
	state := func(change func(c *config.Config)) *State {
		c := config.Default()
		c.Out = "out"
		change(c)
		text, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		return &State{Identity: Identity{Config: string(text), Model: map[string]string{"backbone": "x"}}}
	}
	old := state(func(*config.Config) {})
	now := state(func(*config.Config) {})
	now.JPEG = "libjpeg-turbo" // an earlier version noted no decoder: it was Go's
	want := []string{"JPEG decoder: go in the checkpoint, libjpeg-turbo now (ASSAY_LIBJPEG=go: Go's)"}
	if got, err := Differences(old, now); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("another decoder: got %q, %v, want %q", got, err, want)
	}
	if got, err := Differences(now, now); err != nil || got != nil {
		t.Errorf("the same decoder: got %q, %v, want nothing", got, err)
	}
	for name, test := range map[string]struct {
		change func(c *config.Config)
		want   []string
	}{
		"another folder": {func(c *config.Config) { c.Out = "elsewhere" }, nil},
		"another seed":   {func(c *config.Config) { c.Seed = 4 }, []string{"seed: 0 in the checkpoint, 4 now"}},
		"a nested key": {func(c *config.Config) { c.Lora.R = 4 },
			[]string{"lora.r: 8 in the checkpoint, 4 now"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Differences(old, state(test.change))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("want -, got +:\n%s", d)
			}
		})
	}
}

// TestMapsAreTheSame: a run whose maps have entries, and are empty in the defaults, resumes.
func TestMapsAreTheSame(t *testing.T) {
	state := func(columns map[string]string, ranks config.Overrides) *State {
		c := config.Default()
		c.Data.Columns, c.Lora.RankPattern = columns, ranks
		text, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		return &State{Identity: Identity{Config: string(text)}}
	}
	columns := map[string]string{"label": "score"}
	ranks := config.Overrides{{Key: "v_proj", Value: 2}, {Key: "layers.0.v_proj", Value: 3}}
	old := state(columns, ranks)
	for _, test := range []struct {
		now  *State
		want []string
	}{
		{old, nil},
		{state(columns, config.Overrides{{Key: "v_proj", Value: 2}, {Key: "layers.0.v_proj", Value: 4}}),
			[]string{"lora.rank_pattern.layers.0.v_proj: 3 in the checkpoint, 4 now"}},
		{state(nil, ranks), []string{"data.columns.label: score in the checkpoint, absent now",
			"data.columns: absent in the checkpoint, map[] now"}},
	} {
		if got, err := Differences(old, test.now); err != nil || cmp.Diff(test.want, got) != "" {
			t.Errorf("got %q, error %v, want %q", got, err, test.want)
		}
	}
}

// TestTidy: a folder that was moved away when a process was killed is restored, and other leftovers are removed.
func TestTidy(t *testing.T) {
	out := t.TempDir()
	best := filepath.Join(out, config.BestDir)
	write := func(text string) error {
		return ReplaceDir(best, func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte(text), 0o666) })
	}
	if err := errors.Join(write("first"), os.Rename(best, hiddenSibling(best, "old")),
		os.Mkdir(hiddenSibling(best, "new"), 0o777), Tidy(out)); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(best, "a")); string(text) != "first" || err != nil {
		t.Errorf("got %q, %v, want first", text, err)
	}
	if err := write("second"); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(out)
	if err != nil || len(left) != 1 {
		t.Errorf("got %v, %v, want only %s", left, err, config.BestDir)
	}
}
