package llavanext_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"assay/checkpoints"
	"assay/data"
	"assay/edit"
	"assay/internal/atomicfile"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/lora"
	"assay/model"
	"assay/onnx"
)

// largeConfig is the config.json of LLaVA-NeXT on Llama 3 8B as published: values equal to a default are omitted.
const largeConfig = `{"model_type": "llava_next", "image_token_index": 744, "vision_feature_layer": -2,
	"vision_feature_select_strategy": "default",
 "image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]], "torch_dtype": "float16",
 "text_config": {"model_type": "llama", "intermediate_size": 14336, "max_position_embeddings": 8192,
		"num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "vocab_size": 128320},
 "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
  "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14}}`

// largeCheckpoint makes a checkpoint directory of 8B parameters in sparse files: real sizes, no bytes on disk.
func largeCheckpoint(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	small := filepath.Join(oracle.Folders(t)[0], "llavanext", "backbone")
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"} {
		if err := atomicfile.Copy(filepath.Join(small, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"config.json": largeConfig,
		"preprocessor_config.json": `{"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}, ` +
			`"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "resample": 3}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	shapes := map[string][]int64{
		"image_newline":                            {4096},
		"language_model.lm_head.weight":            {128320, 4096},
		"language_model.model.embed_tokens.weight": {128320, 4096},
		"language_model.model.norm.weight":         {4096},
		"multi_modal_projector.linear_1.weight":    {4096, 1024},
		"multi_modal_projector.linear_1.bias":      {4096},
		"multi_modal_projector.linear_2.weight":    {4096, 4096},
		"multi_modal_projector.linear_2.bias":      {4096},
	}
	const tower = "vision_tower.vision_model."
	shapes[tower+"embeddings.class_embedding"], shapes[tower+"embeddings.patch_embedding.weight"] = []int64{
		1024,
	}, []int64{
		1024,
		3,
		14,
		14,
	}
	shapes[tower+"embeddings.position_embedding.weight"] = []int64{577, 1024}
	for _, n := range []string{"pre_layrnorm", "post_layernorm"} {
		shapes[tower+n+".weight"], shapes[tower+n+".bias"] = []int64{1024}, []int64{1024}
	}
	linear := func(name string, out, in int64, bias bool) {
		shapes[name+".weight"] = []int64{out, in}
		if bias {
			shapes[name+".bias"] = []int64{out}
		}
	}
	for i := range 24 {
		p := fmt.Sprintf("%sencoder.layers.%d.", tower, i)
		for _, n := range []string{"q_proj", "k_proj", "v_proj", "out_proj"} {
			linear(p+"self_attn."+n, 1024, 1024, true)
		}
		linear(p+"mlp.fc1", 4096, 1024, true)
		linear(p+"mlp.fc2", 1024, 4096, true)
		for _, n := range []string{"layer_norm1", "layer_norm2"} {
			shapes[p+n+".weight"], shapes[p+n+".bias"] = []int64{1024}, []int64{1024}
		}
	}
	for i := range 32 {
		p := fmt.Sprintf("language_model.model.layers.%d.", i)
		linear(p+"self_attn.q_proj", 4096, 4096, false)
		linear(p+"self_attn.k_proj", 1024, 4096, false)
		linear(p+"self_attn.v_proj", 1024, 4096, false)
		linear(p+"self_attn.o_proj", 4096, 4096, false)
		linear(p+"mlp.gate_proj", 14336, 4096, false)
		linear(p+"mlp.up_proj", 14336, 4096, false)
		linear(p+"mlp.down_proj", 4096, 14336, false)
		shapes[p+"input_layernorm.weight"], shapes[p+"post_attention_layernorm.weight"] = []int64{4096}, []int64{4096}
	}
	head, at := map[string]any{}, int64(0)
	for name, shape := range shapes {
		size := int64(onnx.Float16.Size())
		for _, d := range shape {
			size *= d
		}
		head[name] = map[string]any{"dtype": "F16", "shape": shape, "data_offsets": []int64{at, at + size}}
		at += size
	}
	text, err := json.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	file := filepath.Join(dir, checkpoints.SingleFile)
	start := []byte{byte(len(text)), byte(len(text) >> 8), byte(len(text) >> 16), 0, 0, 0, 0, 0}
	if err := os.WriteFile(file, append(start, text...), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, int64(8+len(text))+at); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestLargeGraph builds the training graph of an 8B model: it refers to the weights, so it takes only a few
// megabytes.
func TestLargeGraph(t *testing.T) {
	long.Test(t)
	dir := largeCheckpoint(t)
	c := (&model.OnePassConfig{
		Backbone: dir,
		Pair:     model.Concat,
		PairSize: []int{512, 512},
		Question: model.InstructionMark,
		Answer:   "[SCORE]",
		Head:     model.HeadConfig{Hidden: []int{256, 16}},
	}).Scorer()
	p, err := model.NewScorerState(c, lora.NewConfig(8, 16, lora.Names{Regex: `.*language_model.*\.(q_proj|v_proj)`}), 1)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	u, err := model.NewTuner(p, model.TuneOptions{TextLoss: 1, ScoreLoss: 10, Recompute: true})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	runtime.GC()
	runtime.ReadMemStats(&after)
	mib := float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)) / (1 << 20)
	t.Logf("%.1f MiB for the graph", mib)
	if mib > 24 {
		t.Errorf("the graph takes %.1f MiB; it must not hold weights", mib)
	}
	usage := u.Counts()
	if usage.Parameters < 8.3e9 || usage.Parameters > 8.4e9 || usage.Trainable < 3.4e6 || usage.Trainable > 4.6e6 {
		t.Errorf("%d parameters, of which %d are trained", usage.Parameters, usage.Trainable)
	}
}

// TestLargeMemory plans a step of an 8B model over a pair at full resolution, with more than 5,760 tokens. Attention
// in blocks avoids the scores of all rows by all rows, of which a step holds several at once.
func TestLargeMemory(t *testing.T) {
	long.Test(t)
	c := (&model.OnePassConfig{
		Backbone: largeCheckpoint(t),
		Pair:     model.Sequence,
		Question: model.InstructionMark,
		Answer:   "[SCORE]",
		Head:     model.HeadConfig{Hidden: []int{256, 16}},
	}).Scorer()
	square := data.NewPicture(672, 672)
	step := func(o model.TuneOptions) int64 {
		p, err := model.NewScorerState(c, lora.NewConfig(8, 16, lora.Names{Regex: `.*language_model.*\.(q_proj|v_proj)`}), 1)
		if err != nil {
			t.Fatal(err)
		}
		o.TextLoss, o.ScoreLoss = 1, 10
		u, err := model.NewTuner(p, o)
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		s, err := u.Sample(edit.New(square, square, "blur it"), model.Ask{})
		if err != nil {
			t.Fatal(err)
		}
		usage, err := u.Usage(s, 1, 2, false)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d tokens, blocks=%d, recompute=%v: %d MiB besides weights", len(s.IDs), o.Blocks, o.Recompute,
			usage.Bytes["training step"]>>20)
		if len(s.IDs) < 5760 {
			t.Fatalf("%d tokens", len(s.IDs))
		}
		return usage.Bytes["training step"]
	}
	less := step(model.TuneOptions{Recompute: true})
	all := step(model.TuneOptions{Recompute: true, Options: model.Options{Blocks: 1 << 30}})
	const scores = 4 * 32 * 5760 * 5760 // bytes per layer, which has the scores, their softmax, and the gradients of both
	if all-less < 2*scores {
		t.Errorf("%d MiB in blocks, %d MiB in one piece", less>>20, all>>20)
	}
}
