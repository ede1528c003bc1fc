package ort

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/onnx"
)

// TestRunOrder: [onnx.RunOrder] is the order in which the runtime's profile shows the nodes of random graphs, and after
// [onnx.FirstResultsLast] the runtime computes outputs in the order in which they were in the graph.
func TestRunOrder(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := onnx.NewBuilder("order", 23)
		values := []string{b.Input("x", onnx.Float, onnx.Dims(2, 2))}
		read := map[string]bool{}
		pick := func() string { // mostly of the last ones
			v := values[len(values)-1-min(random.IntN(len(values)), random.IntN(len(values)))]
			read[v] = true
			return v
		}
		for i := range 60 { // each with an alpha of its own, or the runtime would merge equal ones
			in := []string{pick(), pick(), pick()}[:2+random.IntN(2)]
			values = append(values, b.OpA("Gemm", onnx.Attrs{"alpha": 1 + float64(i)/64}, in...))
		}
		for _, v := range values {
			if !read[v] && v != "x" {
				b.Output(v, v, onnx.Float, onnx.Dims(2, 2))
			}
		}
		names := func(nodes []*onnx.Node) (all []string) {
			for _, n := range nodes {
				all = append(all, n.Name)
			}
			return all
		}
		for _, moved := range []bool{false, true} {
			before := b.M.Nodes
			if moved {
				b.M.Nodes = onnx.FirstResultsLast(before)
			}
			want := names(onnx.RunOrder(b.M.Nodes))
			if diff := cmp.Diff(want, profiled(t, b.M)); diff != "" {
				t.Fatalf("seed %d, moved=%t: order (-want +run):\n%s", seed, moved, diff)
			}
			if moved {
				results := func(nodes []*onnx.Node) (all []string) {
					for _, n := range nodes {
						if !slices.ContainsFunc(n.Outputs, func(y string) bool { return read[y] }) {
							all = append(all, n.Name)
						}
					}
					return all
				}
				if diff := cmp.Diff(results(before), results(onnx.RunOrder(b.M.Nodes))); diff != "" {
					t.Errorf("seed %d: results (-want +got):\n%s", seed, diff)
				}
			}
		}
	}
}

// profiled runs a model once and returns its nodes in the order of the runtime's profile.
func profiled(t *testing.T, m *onnx.Model) (names []string) {
	t.Helper()
	prefix := filepath.Join(t.TempDir(), "profile")
	s, err := Open(m, Options{Profile: prefix, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(context.Background(), map[string]*tensor.Dense{
		"x": tensor.New(tensor.WithShape(2, 2), tensor.WithBacking([]float32{1e-3, 0, 0, 1e-3})),
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(prefix + "*")
	if err != nil || len(files) != 1 {
		t.Fatal(fmt.Sprint(files), err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	type event struct {
		Cat, Name string
		TS        int64
	}
	var events []event
	if err := json.Unmarshal(text, &events); err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.TS - b.TS) })
	for _, e := range events {
		if name, ok := strings.CutSuffix(e.Name, "_kernel_time"); ok && e.Cat == "Node" {
			names = append(names, name)
		}
	}
	return names
}
