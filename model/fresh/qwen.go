package fresh

import (
	_ "embed"
	"maps"
	"slices"
)

//go:embed qwen.jinja
var qwenTemplate string

//go:embed qwen3_vl.jinja
var qwen3Template string

// frames is temporal_patch_size: the two pictures of a pair shown as frames.
const frames = 2

// qwen is what the tokenizers of all Qwen-VLs have in common.
var qwen = family{
	words: `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ` +
		`?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	special: []string{
		"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
		"<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
		"<|image_pad|>", "<|video_pad|>",
	},
	end:      "<|im_end|>",
	padding:  "<|endoftext|>",
	nfc:      true,
	template: qwenTemplate,
}

var qwen2VL = qwen.with(func(f *family) {
	f.processor = "Qwen2VLProcessor"
	f.defaults = func(s *Sizes) { s.Merge, s.MinPixels, s.MaxPixels = 2, 4*28*28, 64*28*28 }
	f.check = func(s Sizes, want wanted) {
		s.checkQwen(want)
		want(s.VisionHidden < 1 || s.VisionIntermediate%s.VisionHidden == 0, "vision_intermediate",
			"%d is not a multiple of vision_hidden, %d", s.VisionIntermediate, s.VisionHidden)
	}
	f.files = func(s Sizes, v *vocabulary) map[string]object {
		text := s.qwen2Text(v, "qwen2_vl_text")
		vision := s.qwenVision("qwen2_vl_vision", "quick_gelu")
		vision["embed_dim"], vision["hidden_size"] = s.VisionHidden, s.Hidden
		vision["mlp_ratio"] = s.VisionIntermediate / s.VisionHidden
		return map[string]object{
			"config.json":              qwenConfig(v, Qwen2VL, "Qwen2VLForConditionalGeneration", text, vision),
			"preprocessor_config.json": s.qwenPictures(),
		}
	}
	f.generate = object{
		"do_sample":          true,
		"top_p":              0.001,
		"top_k":              1,
		"temperature":        0.1,
		"repetition_penalty": 1.05,
	}
})

var qwen25VL = qwen.with(func(f *family) {
	f.processor = "Qwen2_5_VLProcessor"
	f.defaults = func(s *Sizes) {
		s.Merge, s.Window, s.FullAttention, s.MinPixels, s.MaxPixels = 2, 112, []int{1, 3}, 4*28*28, 64*28*28
	}
	f.check = func(s Sizes, want wanted) {
		s.checkQwen(want)
		token := s.Patch * s.Merge
		want(token < 1 || s.Window >= token && s.Window%token == 0, "window",
			"%d is not a multiple of a token's %d pixels (patch times merge)", s.Window, token)
		s.checkLayers(want, "full_attention", s.FullAttention)
	}
	f.files = func(s Sizes, v *vocabulary) map[string]object {
		vision := s.qwenVision("qwen2_5_vl_vision", "silu")
		maps.Copy(vision, object{
			"hidden_size":           s.VisionHidden,
			"intermediate_size":     s.VisionIntermediate,
			"out_hidden_size":       s.Hidden,
			"window_size":           s.Window,
			"fullatt_block_indexes": append([]int{}, s.FullAttention...),
			"tokens_per_second":     4,
		})
		text := s.qwen2Text(v, "qwen2_5_vl_text")
		return map[string]object{
			"config.json":              qwenConfig(v, Qwen25VL, "Qwen2_5_VLForConditionalGeneration", text, vision),
			"preprocessor_config.json": s.qwenPictures(),
		}
	}
})

var qwen3VL = qwen.with(func(f *family) {
	f.processor, f.template = "Qwen3VLProcessor", qwen3Template
	f.added = []string{
		"<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
		"<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>",
	}
	f.defaults = func(s *Sizes) {
		s.Patch, s.Merge, s.MinPixels, s.MaxPixels = 16, 2, 4*32*32, 64*32*32
		s.HeadDim, s.PositionSide, s.Deepstack = 32, 16, []int{1, 2}
	}
	f.check = func(s Sizes, want wanted) {
		s.checkQwen(want)
		want(s.HeadDim >= 2 && s.HeadDim%2 == 0, "head_dim", "%d is not positive and even", s.HeadDim)
		want(s.PositionSide >= 1 && s.PositionSide <= 1<<10, "position_side", "%d is not between 1 and %d", s.PositionSide,
			1<<10)
		s.checkLayers(want, "deepstack", s.Deepstack)
		want(len(s.Deepstack) <= s.Layers, "deepstack", "%v are more than the language model's %d layers", s.Deepstack,
			s.Layers)
	}
	f.files = Sizes.qwen3Files
	f.generate = object{
		"do_sample":          true,
		"top_p":              0.8,
		"top_k":              20,
		"temperature":        0.7,
		"repetition_penalty": decimal(1),
	}
})

// with returns a changed copy.
func (f family) with(change func(f *family)) family {
	change(&f)
	return f
}

// checkQwen checks the sizes that all Qwen-VLs have.
func (s Sizes) checkQwen(want wanted) {
	token := s.Patch * s.Merge
	want(s.Merge >= 1 && s.Merge <= 64, "merge", "%d is not between 1 and 64", s.Merge)
	want(s.VisionHeads < 1 || s.VisionHidden%(4*s.VisionHeads) == 0, "vision_hidden",
		"%d is not a multiple of four times the %d vision_heads", s.VisionHidden, s.VisionHeads)
	want(s.MinPixels >= 1 && s.MinPixels <= s.MaxPixels, "min_pixels", "%d is not between 1 and max_pixels, %d",
		s.MinPixels, s.MaxPixels)
	want(s.MaxPixels >= token*token && s.MaxPixels <= 1<<30, "max_pixels", "%d is not between one token's %d and %d",
		s.MaxPixels, token*token, 1<<30)
	if s.Heads > 0 {
		sum := 0
		for _, n := range s.sections() {
			sum += max(n, 0)
		}
		want(len(s.sections()) == 3 && slices.Min(s.sections()) >= 0 && 2*sum == s.headDim(), "mrope_section",
			"%v are not three numbers that add up to %d, half of a head's width", s.MRopeSection, s.headDim()/2)
	}
}

// checkLayers checks a list of layers of the vision tower.
func (s Sizes) checkLayers(want wanted, key string, layers []int) {
	for k, i := range layers {
		want(i >= 0 && i < s.VisionLayers, key, "%d is not among the layers 0 to %d", i, s.VisionLayers-1)
		want(!slices.Contains(layers[:k], i), key, "%d is listed twice", i)
	}
}

// headDim is the width of the language model's heads.
func (s Sizes) headDim() int {
	if s.HeadDim != 0 {
		return s.HeadDim
	}
	return s.Hidden / s.Heads
}

// sections are the numbers of rotary frequencies for time, row and column, unless given: 2 : 3 : 3 as in the published
// models, 6 : 5 : 5 for qwen3_vl.
func (s Sizes) sections() []int {
	if len(s.MRopeSection) > 0 {
		return s.MRopeSection
	}
	half := s.headDim() / 2
	each := 3 * half / 8
	if s.Family == Qwen3VL {
		each = 5 * half / 16
	}
	return []int{half - 2*each, each, each}
}

// mrope is the rotary part of text_config.
func (s Sizes) mrope() object {
	o := object{"rope_theta": decimal(s.RopeTheta), "rope_type": "default", "mrope_section": s.sections()}
	if s.Family == Qwen3VL {
		o["mrope_interleaved"] = true
	}
	return o
}

// qwen2Text is text_config of a Qwen2.
func (s Sizes) qwen2Text(v *vocabulary, kind string) object {
	kinds := slices.Repeat([]string{"full_attention"}, s.Layers)
	text := s.textConfig(v, kind, 1e-6)
	maps.Copy(text, object{
		"rope_parameters":    s.mrope(),
		"layer_types":        kinds,
		"max_window_layers":  s.Layers,
		"sliding_window":     nil,
		"use_sliding_window": false,
		"bos_token_id":       v.id(v.padding),
		"eos_token_id":       v.id(v.end),
		"pad_token_id":       nil,
	})
	return text
}

// qwenVision is the part of vision_config that all Qwen-VLs have in common.
func (s Sizes) qwenVision(kind, activation string) object {
	return object{
		"model_type":          kind,
		"hidden_act":          activation,
		"depth":               s.VisionLayers,
		"num_heads":           s.VisionHeads,
		"in_channels":         3,
		"patch_size":          s.Patch,
		"temporal_patch_size": frames,
		"spatial_merge_size":  s.Merge,
		"rope_parameters":     object{"rope_theta": decimal(1e4), "rope_type": "axial"},
		"initializer_range":   initializerRange,
	}
}

// qwenConfig is config.json in the spelling of transformers 5.
func qwenConfig(v *vocabulary, modelType, class string, text, vision object) object {
	return object{
		"architectures":         []string{class},
		"model_type":            modelType,
		"dtype":                 "float32",
		"image_token_id":        v.id("<|image_pad|>"),
		"video_token_id":        v.id("<|video_pad|>"),
		"vision_start_token_id": v.id("<|vision_start|>"),
		"vision_end_token_id":   v.id("<|vision_end|>"),
		"tie_word_embeddings":   false,
		"text_config":           text,
		"vision_config":         vision,
	}
}

// qwen3Files are a Qwen3-VL's config.json, and preprocessor_config.json in the short form of published files.
func (s Sizes) qwen3Files(v *vocabulary) map[string]object {
	text := s.textConfig(v, "qwen3_vl_text", 1e-6)
	maps.Copy(text, object{
		"rope_parameters": s.mrope(),
		"head_dim":        s.HeadDim,
		"attention_bias":  false,
		"bos_token_id":    v.id(v.padding),
		"eos_token_id":    v.id(v.end),
		"pad_token_id":    nil,
	})
	vision := s.qwenVision("qwen3_vl_vision", "gelu_pytorch_tanh")
	maps.Copy(vision, object{
		"hidden_size":              s.VisionHidden,
		"intermediate_size":        s.VisionIntermediate,
		"out_hidden_size":          s.Hidden,
		"num_position_embeddings":  s.PositionSide * s.PositionSide,
		"deepstack_visual_indexes": append([]int{}, s.Deepstack...),
	})
	return map[string]object{
		"config.json": qwenConfig(v, Qwen3VL, "Qwen3VLForConditionalGeneration", text, vision),
		"preprocessor_config.json": {
			"image_processor_type": "Qwen2VLImageProcessorFast",
			"processor_class":      v.processor,
			"size":                 object{"shortest_edge": s.MinPixels, "longest_edge": s.MaxPixels},
			"patch_size":           s.Patch,
			"temporal_patch_size":  frames,
			"merge_size":           s.Merge,
			"image_mean":           []float64{0.5, 0.5, 0.5},
			"image_std":            []float64{0.5, 0.5, 0.5},
		},
	}
}

// qwenPictures is preprocessor_config.json. Despite their names, the edges are numbers of pixels.
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
