package modeltest

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"assay/checkpoints"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/lora"
	"assay/model"
	"assay/model/batch"
	"assay/onnx"
)

// spelling is how a checkpoint is written.
type spelling struct {
	config string // name of the file that becomes config.json
	rename func(name string) string
	stored onnx.DType
	round  onnx.DType // values are rounded to this type first
}

func same(name string) string { return name }

// spellings scores equivalent checkpoints: with published names, with module paths as names, in half precision; all
// sharded.
func (f Family) spellings(t *testing.T) {
	long.Test(t)
	f.eachFile(t, func(t *testing.T, rs []*reference) {
		r := rs[0]
		hub := oracle.Read[map[string]string](t, filepath.Join(r.family, "backbone", "hub_names.json"))
		published := func(name string) string {
			if n, ok := hub[name]; ok {
				return n
			}
			return name
		}
		for _, s := range []spelling{
			{"config_hub.json", published, onnx.Float, onnx.Float},
			{"config.json", lora.Canonical, onnx.Float, onnx.Float},
		} {
			scorer := openScorer(t, respell(t, r, s))
			checkScore(t, scorer, scoreOf(t, scorer, r), r)
		}
		for _, half := range []onnx.DType{onnx.Float16, onnx.BFloat16} {
			stored := openScorer(t, respell(t, r, spelling{"config.json", same, half, half}))
			widened := openScorer(t, respell(t, r, spelling{"config.json", same, onnx.Float, half}))
			if got, want := scoreOf(t, stored, r), scoreOf(t, widened, r); !(math.Abs(got-want) <= 1e-6) {
				t.Errorf("%v: score %g, but %g with the same values stored as float", half, got, want)
			}
		}
	})
}

func scoreOf(t *testing.T, s *model.Scorer, r *reference) float64 {
	t.Helper()
	scores, err := s.Score01(context.Background(), []*batch.Sample{r.sample(t, s)})
	if err != nil {
		t.Fatal(err)
	}
	return scores[0]
}

// respell writes the case's backbone in another spelling, with the scorer next to it, and returns the scorer
// directory.
func respell(t *testing.T, r *reference, s spelling) string {
	t.Helper()
	root, from := t.TempDir(), filepath.Join(r.family, "backbone")
	to := filepath.Join(root, "backbone")
	copyFolder(t, from, to)
	copyFolder(t, r.scorer(), filepath.Join(root, r.Scorer))
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	config, err := os.ReadFile(filepath.Join(from, s.config))
	check(err)
	check(os.WriteFile(filepath.Join(to, "config.json"), config, 0o666))
	check(os.Remove(filepath.Join(to, checkpoints.SingleFile)))

	tensors := oracle.Tensors(t, filepath.Join(from, checkpoints.SingleFile))
	names := slices.Sorted(maps.Keys(tensors))
	weightMap := map[string]string{}
	for shard, part := range map[string][]string{
		"model-00001-of-00002.safetensors": names[:len(names)/2],
		"model-00002-of-00002.safetensors": names[len(names)/2:],
	} {
		var infos []checkpoints.TensorInfo
		for _, n := range part {
			info := checkpoints.TensorInfo{Name: s.rename(n), Type: s.stored}
			for _, d := range tensors[n].Shape() {
				info.Shape = append(info.Shape, int64(d))
			}
			infos = append(infos, info)
			weightMap[info.Name] = shard
		}
		w, err := checkpoints.NewWriter(filepath.Join(to, shard), infos, nil)
		check(err)
		for i, n := range part {
			data, err := checkpoints.AppendFloat32s(nil, s.round, tensors[n].Data().([]float32))
			check(err)
			values, err := checkpoints.Float32s(s.round, data)
			check(err)
			data, err = checkpoints.AppendFloat32s(nil, s.stored, values)
			check(err)
			check(w.Write(infos[i].Name, data))
		}
		check(w.Close())
	}
	index, err := json.Marshal(map[string]any{"metadata": map[string]any{}, "weight_map": weightMap})
	check(err)
	check(os.WriteFile(filepath.Join(to, checkpoints.IndexFile), index, 0o666))
	return filepath.Join(root, r.Scorer)
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
