package fresh

import (
	_ "embed"
	"maps"
	"slices"
)

//go:embed qwen2_5_vl.jinja
var qwenTemplate string

// frames is temporal_patch_size: the two pictures of a pair shown as frames.
const frames = 2

var qwen25VL = family{
	words: `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	special: []string{
		"<|endoftext|>",
		"<|im_start|>",
		"<|im_end|>",
		"<|object_ref_start|>",
		"<|object_ref_end|>",
		"<|box_start|>",
		"<|box_end|>",
		"<|quad_start|>",
		"<|quad_end|>",
		"<|vision_start|>",
		"<|vision_end|>",
		"<|vision_pad|>",
		"<|image_pad|>",
		"<|video_pad|>",
	},
	end:       "<|im_end|>",
	padding:   "<|endoftext|>",
	nfc:       true,
	processor: "Qwen2_5_VLProcessor",
	template:  qwenTemplate,
	defaults: func(s *Sizes) {
		s.Merge, s.Window, s.FullAttention, s.MinPixels, s.MaxPixels = 2, 112, []int{1, 3}, 4*28*28, 64*28*28
	},
	check: func(s Sizes, want wanted) {
		token := s.Patch * s.Merge
		want(s.Merge >= 1 && s.Merge <= 64, "merge", "%d is not between 1 and 64", s.Merge)
		want(token < 1 || s.Window >= token && s.Window%token == 0, "window",
			"%d is not a multiple of a token's %d pixels (patch times merge)", s.Window, token)
		want(s.VisionHeads < 1 || s.VisionHidden%(4*s.VisionHeads) == 0, "vision_hidden",
			"%d is not a multiple of four times the %d vision_heads", s.VisionHidden, s.VisionHeads)
		for _, i := range s.FullAttention {
			want(i >= 0 && i < s.VisionLayers, "full_attention", "%d is not among the layers 0 to %d", i, s.VisionLayers-1)
		}
		want(s.MinPixels >= 1 && s.MinPixels <= s.MaxPixels, "min_pixels", "%d is not between 1 and max_pixels, %d",
			s.MinPixels, s.MaxPixels)
		want(s.MaxPixels >= token*token && s.MaxPixels <= 1<<30, "max_pixels", "%d is not between one token's %d and %d",
			s.MaxPixels, token*token, 1<<30)
		if s.Heads > 0 {
			sum := 0
			for _, n := range s.sections() {
				sum += max(n, 0)
			}
			want(len(s.sections()) == 3 && slices.Min(s.sections()) >= 0 && 2*sum == s.Hidden/s.Heads, "mrope_section",
				"%v are not three numbers that add up to %d, half of a head's width", s.MRopeSection, s.Hidden/s.Heads/2)
		}
	},
	files: func(s Sizes, v *vocabulary) map[string]object {
		return map[string]object{"config.json": s.qwenConfig(v), "preprocessor_config.json": s.qwenPictures()}
	},
}

// sections are the frequencies that turn with time, row and column: 2 : 3 : 3 as in the published models, unless given.
func (s Sizes) sections() []int {
	if len(s.MRopeSection) > 0 {
		return s.MRopeSection
	}
	half := s.Hidden / s.Heads / 2
	return []int{half - 2*(3*half/8), 3 * half / 8, 3 * half / 8}
}

// qwenConfig is config.json in the spelling of transformers 5.
func (s Sizes) qwenConfig(v *vocabulary) object {
	kinds := make([]string, s.Layers)
	for i := range kinds {
		kinds[i] = "full_attention"
	}
	text := s.textConfig(v, "qwen2_5_vl_text", 1e-6)
	maps.Copy(text, object{
		"rope_parameters": object{
			"rope_theta":    decimal(s.RopeTheta),
			"rope_type":     "default",
			"mrope_section": s.sections(),
		},
		"layer_types":        kinds,
		"max_window_layers":  s.Layers,
		"sliding_window":     nil,
		"use_sliding_window": false,
		"bos_token_id":       v.id(v.padding),
		"eos_token_id":       v.id(v.end),
		"pad_token_id":       nil,
	})
	return object{
		"architectures":         []string{"Qwen2_5_VLForConditionalGeneration"},
		"model_type":            Qwen25VL,
		"dtype":                 "float32",
		"image_token_id":        v.id("<|image_pad|>"),
		"video_token_id":        v.id("<|video_pad|>"),
		"vision_start_token_id": v.id("<|vision_start|>"),
		"vision_end_token_id":   v.id("<|vision_end|>"),
		"tie_word_embeddings":   false,
		"text_config":           text,
		"vision_config": object{
			"model_type":            "qwen2_5_vl_vision",
			"hidden_act":            "silu",
			"hidden_size":           s.VisionHidden,
			"intermediate_size":     s.VisionIntermediate,
			"depth":                 s.VisionLayers,
			"num_heads":             s.VisionHeads,
			"in_channels":           3,
			"out_hidden_size":       s.Hidden,
			"patch_size":            s.Patch,
			"temporal_patch_size":   frames,
			"spatial_merge_size":    s.Merge,
			"window_size":           s.Window,
			"fullatt_block_indexes": append([]int{}, s.FullAttention...),
			"tokens_per_second":     4,
			"rope_parameters":       object{"rope_theta": decimal(1e4), "rope_type": "axial"},
			"initializer_range":     initializerRange,
		},
	}
}

// qwenPictures is preprocessor_config.json. The edges are numbers of pixels in spite of their names.
func (s Sizes) qwenPictures() object {
	return object{
		"image_processor_type": "Qwen2VLImageProcessor",
		"do_convert_rgb":       true,
		"do_resize":            true,
		"do_rescale":           true,
		"do_normalize":         true,
		"size":                 object{"shortest_edge": s.MinPixels, "longest_edge": s.MaxPixels},
		"patch_size":           s.Patch,
		"temporal_patch_size":  frames,
		"merge_size":           s.Merge,
		"resample":             3,
		"rescale_factor":       1.0 / 255,
		"image_mean":           colourMean,
		"image_std":            colourStd,
	}
}
