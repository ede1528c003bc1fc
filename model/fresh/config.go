package fresh

import "encoding/json"

// decimal is a number that JSON spells with a point, as Python spells a float.
type decimal float64

func (d decimal) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(float64(d))
	for _, c := range b {
		if c == '.' || c == 'e' {
			return b, err
		}
	}
	return append(b, ".0"...), err
}

// initializerRange is what configurations carry for weights that a library adds; Init does not use it.
const initializerRange = decimal(0.02)

// configJSON is config.json in the spelling of transformers 5. rows is the number of rows of the embedding table.
func (s Sizes) configJSON(b *BPE, rows int) object {
	return object{
		"architectures":                  []string{"LlavaNextForConditionalGeneration"},
		"model_type":                     "llava_next",
		"dtype":                          "float32",
		"image_grid_pinpoints":           s.pinpoints(),
		"image_seq_length":               s.TileTokens(),
		"image_token_index":              b.id(picture),
		"multimodal_projector_bias":      true,
		"projector_hidden_act":           "gelu",
		"tie_word_embeddings":            false,
		"vision_feature_layer":           -2,
		"vision_feature_select_strategy": "default",
		"text_config": object{
			"model_type": "llama", "hidden_act": "silu", "hidden_size": s.Hidden, "intermediate_size": s.Intermediate,
			"num_hidden_layers": s.Layers, "num_attention_heads": s.Heads, "num_key_value_heads": s.KVHeads, "head_dim": s.Hidden / s.Heads,
			"vocab_size": rows, "max_position_embeddings": s.Context, "rms_norm_eps": decimal(1e-5),
			"rope_parameters": object{"rope_theta": decimal(s.RopeTheta), "rope_type": "default"},
			"attention_bias":  false, "attention_dropout": decimal(0), "mlp_bias": false, "pretraining_tp": 1, "use_cache": true,
			"tie_word_embeddings": false, "initializer_range": initializerRange,
			"bos_token_id": b.id(beginOfText), "eos_token_id": b.id(endOfTurn), "pad_token_id": b.id(padding),
		},
		"vision_config": object{
			"model_type": "clip_vision_model", "hidden_act": "quick_gelu", "hidden_size": s.VisionHidden, "intermediate_size": s.VisionIntermediate,
			"num_hidden_layers": s.VisionLayers, "num_attention_heads": s.VisionHeads, "num_channels": 3,
			"image_size": s.ImageSize, "patch_size": s.Patch, "projection_dim": s.VisionHidden,
			"layer_norm_eps": decimal(1e-5), "attention_dropout": decimal(0), "initializer_factor": decimal(1), "initializer_range": initializerRange,
		},
	}
}

// generationJSON is generation_config.json.
func generationJSON(b *BPE) object {
	return object{"_from_model_config": true, "bos_token_id": b.id(beginOfText), "eos_token_id": b.id(endOfTurn), "pad_token_id": b.id(padding), "use_cache": true}
}

// preprocessorJSON is preprocessor_config.json: CLIP's mean and deviation, bicubic resizing.
func (s Sizes) preprocessorJSON() object {
	return object{
		"image_processor_type": "LlavaNextImageProcessor",
		"do_convert_rgb":       true, "do_resize": true, "do_center_crop": true, "do_rescale": true, "do_normalize": true, "do_pad": true,
		"size": object{"shortest_edge": s.ImageSize}, "crop_size": object{"height": s.ImageSize, "width": s.ImageSize},
		"resample": 3, "rescale_factor": 1.0 / 255, "image_grid_pinpoints": s.pinpoints(),
		"image_mean": []float64{0.48145466, 0.4578275, 0.40821073}, "image_std": []float64{0.26862954, 0.26130258, 0.27577711},
	}
}

// processorJSON is processor_config.json.
func (s Sizes) processorJSON() object {
	return object{
		"processor_class": "LlavaNextProcessor", "image_processor": s.preprocessorJSON(), "image_token": picture,
		"num_additional_image_tokens": 1, "patch_size": s.Patch, "vision_feature_select_strategy": "default",
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
