package modeltest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/oracle"
	"assay/model/backbone"
)

// parameters compares the list of parameters derived from the configuration with the tensors that transformers saved.
// Then it removes some tensors, and then all.
func (f Family) parameters(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		from := filepath.Join(folder, f.Folder, "backbone")
		stored := oracle.Tensors(t, filepath.Join(from, checkpoints.SingleFile))
		want := map[string][]int64{}
		for name, v := range stored {
			for _, d := range v.Shape() {
				want[name] = append(want[name], int64(d))
			}
		}
		dir := filepath.Join(t.TempDir(), "backbone")
		copyFolder(t, from, dir)
		b, err := backbone.OpenBackbone(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		compareParameters(t, want, b)

		lost := someMissing(t, b, stored, dir)
		parametersOfNone(t, dir, lost[len(lost)-1])
	})
}

// someMissing opens the backbone without some of its tensors and with one of a wrong shape: the error names each.
func someMissing(t *testing.T, b *backbone.Backbone, stored map[string]*tensor.Dense, dir string) (lost []string) {
	t.Helper()
	file := filepath.Join(dir, checkpoints.SingleFile)
	for _, p := range b.Parameters() {
		if !p.Unread && len(p.Shape) == 2 && len(lost) < 3 {
			lost = append(lost, p.Name)
		}
	}
	last := lost[len(lost)-1]
	for _, name := range lost[:len(lost)-1] {
		delete(stored, name)
	}
	stored[last] = tensor.New(tensor.WithShape(1, 2), tensor.Of(tensor.Float32))
	if err := errors.Join(os.Remove(file), checkpoints.WriteFile(file, stored, nil)); err != nil {
		t.Fatal(err)
	}
	_, err := backbone.OpenBackbone(dir)
	if err == nil {
		t.Fatal("a checkpoint without some of its tensors was opened")
	}
	for _, part := range append(slices.Clone(lost), "is missing", "has shape [1 2]") {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got error %v, want one with %q", err, part)
		}
	}
	return lost
}

// parametersOfNone lists the parameters of a checkpoint without weights, which cannot be opened. last is one of them.
func parametersOfNone(t *testing.T, dir, last string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, checkpoints.SingleFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := backbone.OpenBackbone(dir); err == nil || !strings.Contains(err.Error(), checkpoints.SingleFile) {
		t.Errorf("opening without weights: got error %v, want one that names the weights", err)
	}
	described, err := backbone.DescribeBackbone(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer described.Close()
	// The embedding tables may have more rows than config.json says.
	compareParameters(t, nil, described)
	if _, err := described.Weights.Dense(last); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading absent weights: got error %v, want one that is not fs.ErrNotExist", err)
	}
}

// compareParameters compares a backbone's list with the saved tensors, if given, and with the index of its weights.
func compareParameters(t *testing.T, want map[string][]int64, b *backbone.Backbone) {
	t.Helper()
	listed := map[string][]int64{}
	for _, p := range b.Parameters() {
		listed[p.Name] = p.Shape
		if info, ok := b.Weights.Info(p.Name); !ok || !slices.Equal(info.Shape, p.Shape) {
			t.Errorf("%s: %v in the weights, listed with %v", p.Name, info.Shape, p.Shape)
		}
	}
	if want == nil {
		return
	}
	if d := cmp.Diff(want, listed); d != "" {
		t.Errorf("parameters (-saved +listed):\n%s", d)
	}
}
