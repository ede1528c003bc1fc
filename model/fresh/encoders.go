package fresh

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"strings"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/atomicfile"
	"assay/internal/jsonfile"
	"assay/model/nn"
)

// Transformer has the sizes of one transformer of an encoder.
type Transformer struct{ Hidden, Layers, Heads, Intermediate int }

// CLIPSizes are the dimensions of a CLIP.
type CLIPSizes struct {
	Picture, Patch int // sides of a picture and of a patch, pixels; Picture is a multiple of Patch
	Vision, Text   Transformer
	Projection     int // width of the embeddings
	Context        int // maximum tokens of a text
	Vocab          int // tokens at most: 512 bytes, two special ones, and merges
}

// DINOSizes are the dimensions of an image encoder in DINOv2's architecture. Intermediate is a multiple of Hidden.
type DINOSizes struct {
	Picture, Patch int
	Transformer
}

// CLIP's special tokens, and the regular expression that cuts lower-case text into words.
const (
	clipBegin = "<|startoftext|>"
	clipEnd   = "<|endoftext|>"
	clipWords = `<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+`
	clipWord  = "</w>" // ends the last token of a word
)

// CreateCLIP makes the checkpoint directory dir of a CLIP whose tokenizer learns from lines of text. dir must not
// exist or must be empty; it appears complete or not at all, and the same arguments produce the same bytes.
func CreateCLIP(dir string, s CLIPSizes, text string, seed uint64) error {
	if err := errors.Join(grid(s.Picture, s.Patch), s.Vision.check("vision"), s.Text.check("text")); err != nil {
		return err
	}
	b, err := trainBPE([]string{strings.ToLower(text)}, clipWords, clipWord, s.Vocab-2)
	if err != nil {
		return err
	}
	rows := len(b.Tokens) + 2
	files := map[string]object{
		"config.json":              s.config(rows),
		"preprocessor_config.json": pictures("CLIPImageProcessor", s.Picture, colourMean, colourStd),
		"tokenizer.json":           b.clipTokenizer(),
		"tokenizer_config.json": {
			"backend":          "tokenizers",
			"tokenizer_class":  "CLIPTokenizer",
			"processor_class":  "CLIPProcessor",
			"model_max_length": s.Context,
			"bos_token":        clipBegin, "eos_token": clipEnd, "pad_token": clipEnd, "unk_token": clipEnd},
	}
	tensors := Init(s.parameters(rows), seed)
	tensors["logit_scale"] = tensor.New(tensor.FromScalar(float32(math.Log(1 / 0.07)))) // as CLIP's training began
	return writeEncoder(dir, files, tensors)
}

// CreateDINO makes the checkpoint directory dir of an image encoder in DINOv2's architecture, as CreateCLIP does.
func CreateDINO(dir string, s DINOSizes, seed uint64) error {
	if err := errors.Join(grid(s.Picture, s.Patch), s.check("vision")); err != nil {
		return err
	}
	if s.Intermediate%s.Hidden != 0 {
		return SizeError{"intermediate", fmt.Sprintf("%d is not a multiple of the width, %d", s.Intermediate, s.Hidden)}
	}
	files := map[string]object{"config.json": s.config(),
		"preprocessor_config.json": pictures("BitImageProcessor", s.Picture, []float64{0.485, 0.456, 0.406},
			[]float64{0.229, 0.224, 0.225})}
	return writeEncoder(dir, files, Init(s.parameters(), seed))
}

func writeEncoder(dir string, files map[string]object, tensors map[string]*tensor.Dense) error {
	return atomicfile.WriteDir(dir, func(dir string) error {
		for name, value := range files {
			if err := jsonfile.Write(filepath.Join(dir, name), value); err != nil {
				return err
			}
		}
		return checkpoints.WriteFile(filepath.Join(dir, checkpoints.SingleFile), tensors, map[string]string{"format": "pt"})
	})
}

func grid(picture, patch int) error {
	if patch < 1 || picture < patch || picture%patch != 0 {
		return SizeError{"patch", fmt.Sprintf("patches of %d pixels do not fill a picture of %d", patch, picture)}
	}
	return nil
}

func (t Transformer) check(which string) error {
	if t.Hidden < 4 || t.Hidden%4 != 0 || t.Layers < 1 || t.Heads < 1 || t.Hidden%t.Heads != 0 || t.Intermediate < 1 {
		return SizeError{
			which,
			fmt.Sprintf("%+v: the width must be a multiple of 4 and of the heads, and each number at least 1", t),
		}
	}
	return nil
}

func (t Transformer) config(kind, activation string, eps float64, more object) object {
	o := object{"model_type": kind, "hidden_size": t.Hidden, "num_hidden_layers": t.Layers, "num_attention_heads": t.Heads,
		"hidden_act": activation, "layer_norm_eps": decimal(eps), "initializer_range": initializerRange}
	maps.Copy(o, more)
	return o
}

func (s CLIPSizes) config(rows int) object {
	common := func(t Transformer) object {
		return object{
			"intermediate_size":  t.Intermediate,
			"projection_dim":     s.Projection,
			"attention_dropout":  decimal(0),
			"initializer_factor": decimal(1),
		}
	}
	text, vision := common(s.Text), common(s.Vision)
	text["vocab_size"], text["max_position_embeddings"] = rows, s.Context
	text["bos_token_id"], text["eos_token_id"], text["pad_token_id"] = rows-2, rows-1, rows-1
	vision["image_size"], vision["patch_size"], vision["num_channels"] = s.Picture, s.Patch, 3
	return object{
		"model_type":             "clip",
		"architectures":          []string{"CLIPModel"},
		"dtype":                  "float32",
		"projection_dim":         s.Projection,
		"logit_scale_init_value": 2.6592,
		"initializer_factor":     decimal(1),
		"text_config":            s.Text.config("clip_text_model", "quick_gelu", 1e-5, text),
		"vision_config":          s.Vision.config("clip_vision_model", "quick_gelu", 1e-5, vision),
	}
}

func (s DINOSizes) config() object {
	last := fmt.Sprintf("stage%d", s.Layers)
	stages := []string{"stem"}
	for i := range s.Layers {
		stages = append(stages, fmt.Sprintf("stage%d", i+1))
	}
	return s.Transformer.config("dinov2", "gelu", 1e-6, object{
		"architectures": []string{"Dinov2Model"}, "dtype": "float32",
		"image_size":                   s.Picture,
		"patch_size":                   s.Patch,
		"num_channels":                 3,
		"mlp_ratio":                    s.Intermediate / s.Hidden,
		"qkv_bias":                     true,
		"layerscale_value":             decimal(1),
		"use_swiglu_ffn":               false,
		"use_mask_token":               true,
		"drop_path_rate":               decimal(0),
		"hidden_dropout_prob":          decimal(0),
		"attention_probs_dropout_prob": decimal(0),
		"apply_layernorm":              true,
		"reshape_hidden_states":        true,
		"stage_names":                  stages, "out_features": []string{last}, "out_indices": []int{s.Layers}})
}

// pictures is preprocessor_config.json.
func pictures(kind string, side int, mean, std []float64) object {
	return object{
		"image_processor_type": kind,
		"do_convert_rgb":       true,
		"do_resize":            true,
		"size":                 object{"shortest_edge": side},
		"resample":             3,
		"do_center_crop":       true,
		"crop_size":            object{"height": side, "width": side},
		"do_rescale":           true,
		"rescale_factor":       1.0 / 255,
		"do_normalize":         true,
		"image_mean":           mean,
		"image_std":            std,
	}
}

// clipTokenizer is the tokenizer as transformers saves CLIP's.
func (b *bpe) clipTokenizer() object {
	vocab := make(map[string]int, len(b.Tokens)+2)
	for id, token := range b.Tokens {
		vocab[token] = id
	}
	begin, end := len(b.Tokens), len(b.Tokens)+1
	vocab[clipBegin], vocab[clipEnd] = begin, end
	added := func(id int, token string) object {
		return object{
			"id":          id,
			"content":     token,
			"single_word": false,
			"lstrip":      false,
			"rstrip":      false,
			"normalized":  false,
			"special":     true,
		}
	}
	byteLevel := func(prefix bool) object {
		return object{"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": true, "use_regex": true}
	}
	return object{
		"version":      "1.0",
		"truncation":   nil,
		"padding":      nil,
		"added_tokens": []object{added(begin, clipBegin), added(end, clipEnd)},
		"normalizer": object{"type": "Sequence", "normalizers": []object{{"type": "NFC"},
			{"type": "Replace", "pattern": object{"Regex": `\s+`}, "content": " "}, {"type": "Lowercase"}}},
		"pre_tokenizer": object{"type": "Sequence", "pretokenizers": []object{
			{"type": "Split", "pattern": object{"Regex": clipWords}, "behavior": "Removed", "invert": true}, byteLevel(false)}},
		"post_processor": object{
			"type":             "RobertaProcessing",
			"sep":              []any{clipEnd, end},
			"cls":              []any{clipBegin, begin},
			"trim_offsets":     false,
			"add_prefix_space": false,
		},
		"decoder": byteLevel(true),
		"model": object{
			"type":                      "BPE",
			"dropout":                   nil,
			"unk_token":                 clipEnd,
			"continuing_subword_prefix": "",
			"end_of_word_suffix":        clipWord,
			"fuse_unk":                  false,
			"byte_fallback":             false,
			"ignore_merges":             false,
			"vocab":                     vocab,
			"merges":                    b.merges(),
		},
	}
}

// parameters are all tensors of a CLIP except logit_scale.
func (s CLIPSizes) parameters(rows int) nn.Parameters {
	var p nn.Parameters
	tower := func(key string, t Transformer) {
		for i := range t.Layers {
			p.ViTLayer(fmt.Sprintf("%sencoder.layers.%d.", key, i), t.Hidden, t.Intermediate, t.Layers)
		}
	}
	side := s.Picture / s.Patch
	p.Add(nn.RoleEmbedding, "vision_model.embeddings.class_embedding", s.Vision.Hidden)
	p.Add(nn.RoleWeight, "vision_model.embeddings.patch_embedding.weight", s.Vision.Hidden, 3, s.Patch, s.Patch)
	p.Add(nn.RolePositions, "vision_model.embeddings.position_embedding.weight", side*side+1, s.Vision.Hidden)
	p.LayerNorm("vision_model.pre_layrnorm", s.Vision.Hidden)
	tower("vision_model.", s.Vision)
	p.LayerNorm("vision_model.post_layernorm", s.Vision.Hidden)
	p.Linear("visual_projection", s.Projection, s.Vision.Hidden, false)
	p.Add(nn.RoleEmbedding, "text_model.embeddings.token_embedding.weight", rows, s.Text.Hidden)
	p.Add(nn.RoleEmbedding, "text_model.embeddings.position_embedding.weight", s.Context, s.Text.Hidden)
	tower("text_model.", s.Text)
	p.LayerNorm("text_model.final_layer_norm", s.Text.Hidden)
	p.Linear("text_projection", s.Projection, s.Text.Hidden, false)
	return p
}

// parameters are all tensors, under the published names.
func (s DINOSizes) parameters() nn.Parameters {
	var p nn.Parameters
	side := s.Picture / s.Patch
	p.Add(nn.RoleEmbedding, "embeddings.cls_token", 1, 1, s.Hidden)
	p.Add(nn.RoleBias, "embeddings.mask_token", 1, s.Hidden)
	p.Add(nn.RolePositions, "embeddings.position_embeddings", 1, side*side+1, s.Hidden)
	p.Add(nn.RoleWeight, "embeddings.patch_embeddings.projection.weight", s.Hidden, 3, s.Patch, s.Patch)
	p.Add(nn.RoleBias, "embeddings.patch_embeddings.projection.bias", s.Hidden)
	for i := range s.Layers {
		key := fmt.Sprintf("encoder.layer.%d.", i)
		p.LayerNorm(key+"norm1", s.Hidden)
		for _, name := range []string{"query", "key", "value"} {
			p.Linear(key+"attention.attention."+name, s.Hidden, s.Hidden, true)
		}
		p.Residual(key+"attention.output.dense", s.Hidden, s.Hidden, true, s.Layers)
		p.Add(nn.RoleNorm, key+"layer_scale1.lambda1", s.Hidden)
		p.LayerNorm(key+"norm2", s.Hidden)
		p.Linear(key+"mlp.fc1", s.Intermediate, s.Hidden, true)
		p.Residual(key+"mlp.fc2", s.Hidden, s.Intermediate, true, s.Layers)
		p.Add(nn.RoleNorm, key+"layer_scale2.lambda1", s.Hidden)
	}
	p.LayerNorm("layernorm", s.Hidden)
	return p
}
