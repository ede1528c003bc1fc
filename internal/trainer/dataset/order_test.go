package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/internal/trainer/config"

	"github.com/google/go-cmp/cmp"
)

func epochOf(o *Order, epoch int64) []int {
	var rows []int
	for i := range o.Len() {
		row, e := o.At(epoch*o.Len() + i)
		if e != epoch {
			panic("wrong epoch")
		}
		rows = append(rows, row)
	}
	return rows
}

func TestEveryEpochVisitsEveryRowOnce(t *testing.T) {
	for _, n := range []int{1, 2, 7, 100} {
		o := NewOrder(5, make([]string, n), "rows")
		var before []int
		for e := range int64(3) {
			rows := epochOf(o, e)
			if n > 7 && slices.Equal(rows, before) {
				t.Error("two epochs in the same order")
			}
			before = slices.Clone(rows)
			slices.Sort(rows)
			for i, r := range rows {
				if r != i {
					t.Fatalf("%d rows: %v", n, rows)
				}
			}
		}
	}
}

func TestOrderDependsOnSeedEpochAndIndexOnly(t *testing.T) {
	groups := make([]string, 50)
	a, b, other := NewOrder(1, groups, "rows"), NewOrder(1, groups, "rows"), NewOrder(2, groups, "rows")
	want := epochOf(a, 1)
	b.At(170) // from another epoch, and backwards
	var got []int
	for i := int64(99); i >= 50; i-- {
		row, _ := b.At(i)
		got = append(got, row)
	}
	slices.Reverse(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if slices.Equal(want, epochOf(other, 1)) {
		t.Error("the seed changes nothing")
	}
}

// TestShuffleIsEven counts where each of four rows lands, chi-square with 9 degrees of freedom: 27.9 is its 99.9 %
// quantile.
func TestShuffleIsEven(t *testing.T) {
	o := NewOrder(7, make([]string, 4), "rows")
	const epochs = 8000
	var count [4][4]float64
	for e := range int64(epochs) {
		for i, r := range epochOf(o, e) {
			count[i][r]++
		}
	}
	chi := 0.0
	for _, row := range count {
		for _, n := range row {
			chi += (n - epochs/4) * (n - epochs/4) / (epochs / 4)
		}
	}
	if chi > 27.9 {
		t.Errorf("chi-square %g: %v", chi, count)
	}
}

func TestGroupSamplingDrawsOneRowOfEachGroup(t *testing.T) {
	groups := []string{"a", "b", "a", "c", "b", "a", "d"}
	o := NewOrder(3, groups, "group")
	if o.Len() != 4 {
		t.Fatal(o.Units)
	}
	seen := map[int]int{}
	for e := range int64(300) {
		var names []string
		for _, r := range epochOf(o, e) {
			names = append(names, groups[r])
			seen[r]++
		}
		slices.Sort(names)
		if d := cmp.Diff([]string{"a", "b", "c", "d"}, names); d != "" {
			t.Fatal(d)
		}
	}
	for row, least := range []int{60, 110, 60, 300, 110, 60, 300} {
		if seen[row] < least {
			t.Errorf("row %d was drawn %d times", row, seen[row])
		}
	}
}

func TestHoldOut(t *testing.T) {
	groups := []string{"a", "b", "a", "c", "d", "e", "b", "f", "g", "h", "i", "j"}
	train, held := holdOut(1, groups, 0.2)
	in := map[string]bool{}
	for _, r := range train {
		in[groups[r]] = true
	}
	names := map[string]bool{}
	for _, r := range held {
		names[groups[r]] = true
		if in[groups[r]] {
			t.Error("group on both sides:", groups[r])
		}
	}
	if len(names) != 2 || len(train)+len(held) != len(groups) {
		t.Error(train, held)
	}
	if train, held := holdOut(1, []string{"a", "a"}, 0.5); len(train) != 2 || len(held) != 0 {
		t.Error("a single group must stay for training:", train, held)
	}
}

// TestNothingHeldOut: a fraction of one group is refused, for tables and for conversations, but not if the run has a
// list of its rows, or if its bad rows are reported anyway.
func TestNothingHeldOut(t *testing.T) {
	const edit = `{"group": "%s", "source": "p.png", "edit": "p.png", "instruction": "x", "label": 0.5}` + "\n"
	const talk = `{"messages": [{"role": "user", "content": "%s"}, {"role": "assistant", "content": "x"}]}` + "\n"
	for name, test := range map[string]struct {
		mode, rows string
		change     func(c *config.Config)
		refused    bool
	}{
		"one group":   {"lora", fmt.Sprintf(edit+edit, "a", "a"), nil, true},
		"two groups":  {"lora", fmt.Sprintf(edit+edit, "a", "b"), nil, false},
		"no fraction": {"lora", fmt.Sprintf(edit, "a"), func(c *config.Config) { c.Data.Validation.Fraction = 0 }, false},
		"a bad row":   {"lora", fmt.Sprintf(edit, "a") + `{"label": 7}` + "\n", nil, false},
		"a bad row allowed": {"lora", fmt.Sprintf(edit, "a") + `{"label": 7}` + "\n",
			func(c *config.Config) { c.Data.Skip = 1 }, true},
		"a list of rows": {"lora", fmt.Sprintf(edit, "a"), func(c *config.Config) {
			if err := os.WriteFile(filepath.Join(c.Out, RowsFile), nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}, false},
		"one conversation":  {config.ModeText, fmt.Sprintf(talk, "a"), nil, true},
		"two conversations": {config.ModeText, fmt.Sprintf(talk+talk, "a", "b"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := config.Default()
			c.Out, c.Mode, c.Data.Validation.Fraction = t.TempDir(), test.mode, 0.5
			writePicture(t, filepath.Join(c.Out, "p.png"), 1)
			c.Data.Train = config.Strings{filepath.Join(c.Out, "t.jsonl")}
			if err := os.WriteFile(c.Data.Train[0], []byte(test.rows), 0o666); err != nil {
				t.Fatal(err)
			}
			if test.change != nil {
				test.change(c)
			}
			d, err := Open(c)
			if err == nil {
				defer d.Close()
			}
			if !test.refused && err != nil {
				t.Errorf("got error %v, want none", err)
			}
			if test.refused && (exit.Code(err) != exit.Wrong ||
				!strings.Contains(err.Error(), "data.validation: 0.5 of 1 group holds out nothing")) {
				t.Errorf("got error %v, want wrong usage", err)
			}
		})
	}
}
