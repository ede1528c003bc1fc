package lora

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"
)

// TestJoin combines two adapters: stacked matrices A, concatenated matrices B, and a branch for each.
func TestJoin(t *testing.T) {
	one := &Adapter{Config: NewConfig(1, 2, Names{}), Targets: []Target{{qProj, 1, 2, 2}, {vProj, 2, 3, 1.5}},
		Tensors: map[string]*tensor.Dense{
			NameA(qProj): matrix(1, 2, 1, 2), NameB(qProj): matrix(3, 1, 3, 4, 5),
			NameA(vProj): matrix(2, 1, 6, 7), NameB(vProj): matrix(1, 2, 8, 9),
		}}
	two := &Adapter{Config: NewConfig(2, 1, Names{}), Targets: []Target{{qProj, 2, 1, 0.5}},
		Tensors: map[string]*tensor.Dense{
			NameA(qProj): matrix(2, 2, 10, 11, 12, 13), NameB(qProj): matrix(3, 2, 14, 15, 16, 17, 18, 19),
		}}
	got, err := Join([]*Adapter{one, two})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]flat{
		NameA(qProj): {[]int{3, 2}, []float32{1, 2, 10, 11, 12, 13}},
		NameB(qProj): {[]int{3, 3}, []float32{3, 14, 15, 4, 16, 17, 5, 18, 19}},
		NameA(vProj): {[]int{2, 1}, []float32{6, 7}},
		NameB(vProj): {[]int{1, 2}, []float32{8, 9}},
	}
	if diff := cmp.Diff(want, flattened(got.Tensors)); diff != "" {
		t.Errorf("tensors (-want +got):\n%s", diff)
	}
	targets := []Target{{Module: qProj, Rank: 3, Scale: 1}, {Module: vProj, Rank: 2, Scale: 1}}
	if diff := cmp.Diff(targets, got.Targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	branches := map[string][]Branch{qProj: {{1, 2}, {2, 0.5}}, vProj: {{2, 1.5}, {}}}
	if diff := cmp.Diff(branches, got.Branches); diff != "" {
		t.Errorf("branches (-want +got):\n%s", diff)
	}
	if got.Config != one.Config {
		t.Errorf("got configuration %+v, want the first's", got.Config)
	}
	if v := one.Tensors[NameA(qProj)].Float32s(); !slices.Equal(v, []float32{1, 2}) {
		t.Errorf("the first's A: got %v, want it unchanged", v)
	}
}

// TestJoinRefuses: only plain matrices for the same backbone can be joined.
func TestJoinRefuses(t *testing.T) {
	plain := func(out, in int) *Adapter {
		return &Adapter{Config: NewConfig(1, 1, Names{}), Targets: []Target{{qProj, 1, 1, 1}},
			Tensors: map[string]*tensor.Dense{NameA(qProj): matrix(1, in, make([]float32, in)...),
				NameB(qProj): matrix(out, 1, make([]float32, out)...)}}
	}
	for name, test := range map[string]struct {
		change func(a *Adapter)
		want   string
	}{
		"plain": {func(*Adapter) {}, ""},
		"DoRA":  {func(a *Adapter) { a.Config.DoRA = true }, "adapter 2 uses DoRA"},
		"whole": {func(a *Adapter) { a.Whole = []string{"x"} }, "adapter 2 uses DoRA"},
		"start": {func(a *Adapter) { a.Config.Start = StartPiSSA }, "adapter 2 uses DoRA"},
		"shape": {func(a *Adapter) { *a = *plain(3, 3) }, qProj + ": "},
	} {
		t.Run(name, func(t *testing.T) {
			second := plain(3, 2)
			test.change(second)
			_, err := Join([]*Adapter{plain(3, 2), second})
			holdsError(t, "Join", err, test.want)
		})
	}
}
