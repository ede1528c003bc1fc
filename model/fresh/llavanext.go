package fresh

import (
	_ "embed"
	"maps"
)

//go:embed llava_next.jinja
var llavaTemplate string

// Llama 3's special tokens and two of LLaVA's.
const (
	beginOfText = "<|begin_of_text|>"
	endOfTurn   = "<|eot_id|>"
	picture     = "<image>"
	padding     = "<pad>"

	llavaProcessor = "LlavaNextProcessor"
)

var llavaNext = family{
	words: `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ` +
		`?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	special: []string{
		beginOfText,
		"<|end_of_text|>",
		"<|start_header_id|>",
		"<|end_header_id|>",
		endOfTurn,
		picture,
		padding,
	},
	begin:     beginOfText,
	end:       endOfTurn,
	padding:   padding,
	whole:     true,
	processor: llavaProcessor,
	template:  llavaTemplate,
	image:     picture,
	defaults: func(s *Sizes) {
		s.ImageSize, s.Grid = 84, [][]int{{1, 2}, {2, 1}, {2, 2}, {1, 3}, {3, 1}}
	},
	check: func(s Sizes, want wanted) {
		want(s.ImageSize >= 1 && s.ImageSize <= 1<<20, "image_size", "%d is not between 1 and %d", s.ImageSize, 1<<20)
		want(s.Patch < 1 || s.ImageSize%s.Patch == 0, "image_size", "%d is not a multiple of the patch, %d", s.ImageSize,
			s.Patch)
		want(s.VisionHidden%4 == 0, "vision_hidden", "%d is not a multiple of 4", s.VisionHidden)
		want(s.VisionLayers != 1, "vision_layers", "1 is not enough: the features are taken before the last layer")
		want(len(s.Grid) > 0, "grid", "empty: name at least one arrangement of tiles")
		for i, g := range s.Grid {
			ok := len(g) == 2 && min(g[0], g[1]) >= 1 && max(g[0], g[1]) <= 64
			want(ok, "grid", "entry %d, %v, is not [rows, columns] between 1 and 64", i, g)
		}
	},
	files: func(s Sizes, v *vocabulary) map[string]object {
		return map[string]object{
			"config.json":              s.llavaConfig(v),
			"preprocessor_config.json": s.llavaPictures(),
			"processor_config.json":    s.llavaJoined(),
		}
	},
}

// llavaConfig is config.json in the spelling of transformers 5.
func (s Sizes) llavaConfig(v *vocabulary) object {
	text := s.textConfig(v, "llama", 1e-5)
	maps.Copy(text, object{
		"head_dim":        s.Hidden / s.Heads,
		"rope_parameters": object{"rope_theta": decimal(s.RopeTheta), "rope_type": "default"},
		"attention_bias":  false,
		"mlp_bias":        false,
		"pretraining_tp":  1,
		"bos_token_id":    v.id(beginOfText), "eos_token_id": v.id(endOfTurn), "pad_token_id": v.id(padding),
	})
	return object{
		"architectures":                  []string{"LlavaNextForConditionalGeneration"},
		"model_type":                     LlavaNext,
		"dtype":                          "float32",
		"image_grid_pinpoints":           s.pinpoints(),
		"image_seq_length":               s.TileTokens(),
		"image_token_index":              v.id(picture),
		"multimodal_projector_bias":      true,
		"projector_hidden_act":           "gelu",
		"tie_word_embeddings":            false,
		"vision_feature_layer":           -2,
		"vision_feature_select_strategy": "default",
		"text_config":                    text,
		"vision_config": object{
			"model_type":          "clip_vision_model",
			"hidden_act":          "quick_gelu",
			"hidden_size":         s.VisionHidden,
			"intermediate_size":   s.VisionIntermediate,
			"num_hidden_layers":   s.VisionLayers,
			"num_attention_heads": s.VisionHeads,
			"num_channels":        3,
			"image_size":          s.ImageSize,
			"patch_size":          s.Patch,
			"projection_dim":      s.VisionHidden,
			"layer_norm_eps":      decimal(1e-5),
			"attention_dropout":   decimal(0),
			"initializer_factor":  decimal(1),
			"initializer_range":   initializerRange,
		},
	}
}

// llavaPictures is preprocessor_config.json.
func (s Sizes) llavaPictures() object {
	return object{
		"image_processor_type": "LlavaNextImageProcessor",
		"do_convert_rgb":       true,
		"do_resize":            true,
		"do_center_crop":       true,
		"do_rescale":           true,
		"do_normalize":         true,
		"do_pad":               true,
		"size":                 object{"shortest_edge": s.ImageSize},
		"crop_size":            object{"height": s.ImageSize, "width": s.ImageSize},
		"resample":             3,
		"rescale_factor":       1.0 / 255,
		"image_grid_pinpoints": s.pinpoints(),
		"image_mean":           colourMean,
		"image_std":            colourStd,
	}
}

// llavaJoined is processor_config.json.
func (s Sizes) llavaJoined() object {
	return object{
		"processor_class":                llavaProcessor,
		"image_processor":                s.llavaPictures(),
		"image_token":                    picture,
		"num_additional_image_tokens":    1,
		"patch_size":                     s.Patch,
		"vision_feature_select_strategy": "default",
	}
}

// pinpoints are the arrangements of tiles in pixels, [height, width].
func (s Sizes) pinpoints() [][2]int {
	pixels := make([][2]int, len(s.Grid))
	for i, g := range s.Grid {
		pixels[i] = [2]int{g[0] * s.ImageSize, g[1] * s.ImageSize}
	}
	return pixels
}

// TileTokens is the number of image tokens of one tile; 0 if pictures are not cut into tiles.
func (s Sizes) TileTokens() int { return (s.ImageSize / s.Patch) * (s.ImageSize / s.Patch) }
