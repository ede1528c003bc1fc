package lora

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/onnx"
)

// copyBackbone writes the oracle's checkpoint with a different type, in one file or two shards, with names changed by
// rename.
func copyBackbone(t *testing.T, dtype onnx.DType, shards int, rename func(string) string) string {
	t.Helper()
	from, err := checkpoints.OpenWeights(backbone)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	dir := t.TempDir()
	files := make([]string, shards)
	infos := make([][]checkpoints.TensorInfo, shards)
	var listed []string
	for i, name := range from.Names() {
		info, _ := from.Info(name)
		info.Name, info.Type = rename(name), dtype
		infos[i%shards] = append(infos[i%shards], info)
		listed = append(listed, fmt.Sprintf("%q: \"model-%05d-of-%05d.safetensors\"", info.Name, i%shards+1, shards))
	}
	for s := range files {
		files[s] = checkpoints.SingleFile
		if shards > 1 {
			files[s] = fmt.Sprintf("model-%05d-of-%05d.safetensors", s+1, shards)
		}
		w, err := checkpoints.NewWriter(filepath.Join(dir, files[s]), infos[s], map[string]string{"format": "pt"})
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range from.Names() {
			if i%shards != s {
				continue
			}
			d, err := from.Dense(name)
			if err != nil {
				t.Fatal(err)
			}
			data, err := checkpoints.AppendFloat32s(nil, dtype, d.Data().([]float32))
			if err == nil {
				err = w.Write(rename(name), data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if shards > 1 {
		text := "{\"weight_map\": {\n" + strings.Join(listed, ",\n") + "}}"
		if err := os.WriteFile(filepath.Join(dir, checkpoints.IndexFile), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func published(name string) string {
	return strings.Replace(name, "vision_tower.", "vision_tower.vision_model.", 1)
}

// TestMergeAgreesWithPEFT compares sampled values of all changed weights with those of merge_and_unload
// (tools/oracle/lora_match.py), and checks that nothing else changes.
func TestMergeAgreesWithPEFT(t *testing.T) {
	expect, err := checkpoints.OpenFile("testdata/merged.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer expect.Close()
	for _, c := range []struct {
		scorer, name string
		dtype        onnx.DType
		shards       int
		rename       func(string) string
		tolerance    float64 // relative to the value and to 0.02, a common size of the terms: a step of the type
	}{
		{"scorer", "float32", onnx.Float, 1, same, 5e-7},
		{"scorer_adiee", "float32", onnx.Float, 3, published, 5e-7},
		{"scorer", "bfloat16", onnx.BFloat16, 2, published, 1.0 / 128},
		{"scorer", "float16", onnx.Float16, 1, Canonical, 1.0 / 1024},
	} {
		t.Run(c.scorer+" "+c.name, func(t *testing.T) {
			w, err := checkpoints.OpenWeights(copyBackbone(t, c.dtype, c.shards, c.rename))
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			a, err := Load("../testdata/oracle/llavanext/" + c.scorer)
			if err != nil {
				t.Fatal(err)
			}
			out := t.TempDir()
			var done, all atomic.Int64
			if err := Merge(context.Background(), w, a, out, func(n int64) { done.Add(n) }); err != nil {
				t.Fatal(err)
			}
			merged, err := checkpoints.OpenWeights(out)
			if err != nil {
				t.Fatal(err)
			}
			defer merged.Close()
			prefix := c.scorer + "." + c.name + "."
			changed, exact, values := 0, 0, 0
			for _, name := range w.Names() {
				before, _ := w.Info(name)
				after, _ := merged.Info(name)
				if before.Type != after.Type || !slices.Equal(before.Shape, after.Shape) {
					t.Fatalf("%s: got %+v, want the type and shape of %+v", name, after, before)
				}
				all.Add(before.Length)
				was, _ := w.Bytes(name)
				is, _ := merged.Bytes(name)
				want, err := expect.Dense(prefix + Canonical(name))
				if err != nil { // not changed
					if !slices.Equal(was, is) {
						t.Errorf("%s: %s: got other bytes, want them as they were", prefix, name)
					}
					continue
				}
				changed++
				got, _ := merged.Dense(name)
				flat := got.Data().([]float32)
				for i, x := range want.Data().([]float32) {
					y := flat[i*(len(flat)-1)/60]
					values++
					if x == y {
						exact++
					}
					if !(math.Abs(float64(x-y)) <= c.tolerance*(math.Abs(float64(x))+0.02)) {
						t.Errorf("%s%s: value %d: got %v, want PEFT's %v", prefix, name, i, y, x)
					}
				}
			}
			count := 0
			for _, name := range expect.Names() {
				if strings.HasPrefix(name, prefix) {
					count++
				}
			}
			if changed != count || changed != len(a.Targets) {
				t.Errorf("%s: got %d weights changed, want PEFT's %d, of %d targets", prefix, changed, count, len(a.Targets))
			}
			if c.name != "float32" && exact < values*99/100 { // float32 sums halfway between two float16 numbers
				t.Errorf("%s: got %d of %d values equal to PEFT's, want 99 in 100", prefix, exact, values)
			}
			if done.Load() != all.Load() {
				t.Errorf("%s: progress: got %d bytes done, want %d", prefix, done.Load(), all.Load())
			}
			for _, s := range w.Shards() {
				if !slices.ContainsFunc(
					merged.Shards(),
					func(m *checkpoints.Shard) bool { return m.Name == s.Name && m.Metadata()["format"] == "pt" },
				) {
					t.Errorf("%s: got no shard %s with the format pt, want one", prefix, s.Name)
				}
			}
		})
	}
}

func TestMergeRefuses(t *testing.T) {
	a, err := Load("../testdata/oracle/llavanext/scorer")
	if err != nil {
		t.Fatal(err)
	}
	w, err := checkpoints.OpenWeights(backbone)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	out := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Merge(ctx, w, a, out, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Merge with a context that has ended: got error %v, want %v", err, context.Canceled)
	}
	// An output layer tied to the embedding has no weight of its own to change.
	tied := t.TempDir()
	tensors := map[string]*tensor.Dense{
		"model.embed_tokens.weight": tensor.New(tensor.WithShape(3, 2), tensor.Of(tensor.Float32)),
	}
	if err := checkpoints.WriteFile(filepath.Join(tied, checkpoints.SingleFile), tensors, nil); err != nil {
		t.Fatal(err)
	}
	small, err := checkpoints.OpenWeights(tied)
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	head, err := New(NewConfig(1, 1, Names{List: []string{"lm_head"}}), Modules(small), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := Merge(
		context.Background(),
		small,
		head,
		out,
		nil,
	); err == nil ||
		!strings.Contains(err.Error(), "no weight of its own") {
		t.Errorf("Merge: got error %v, want one with %q", err, "no weight of its own")
	}
	if left, _ := os.ReadDir(out); len(left) > 0 {
		t.Errorf("got files %v left behind, want none", left)
	}
}
