package nn

import "strings"

// What would have to be there for models that are not supported.
const (
	experts = "a mixture of experts: layers that send every token to a few of their MLPs"
	linear  = "linear attention: layers whose state runs along the text"
	sound   = "a tower for sound"
)

// lacks says what model_types that people may well try would need besides a folder of their own.
var lacks = map[string]string{
	"qwen3_vl_moe":        experts,
	"qwen3_vl_moe_text":   experts,
	"qwen3_moe":           experts,
	"qwen2_moe":           experts,
	"mixtral":             experts,
	"glm4v_moe":           experts,
	"ernie4_5_vl_moe":     experts,
	"llama4":              experts,
	"deepseek_vl_v2":      experts,
	"kimi_vl":             experts,
	"qwen3_5":             linear,
	"qwen3_5_moe":         linear + "; " + experts,
	"qwen3_next":          linear + "; " + experts,
	"qwen2_5_omni":        sound,
	"qwen3_omni_moe":      sound + "; " + experts,
	"llava":               "the model of one tile: CLIP's tower without LLaVA-NeXT's grid",
	"llava_onevision":     "SigLIP's tower, and tiles that are resized after it",
	"internvl":            "the InternViT tower and its pixel shuffle",
	"internvl_chat":       "the InternViT tower and its pixel shuffle",
	"glm4v":               "GLM's tower and text model",
	"gemma3":              "SigLIP's tower and Gemma's text model",
	"paligemma":           "SigLIP's tower and Gemma's text model",
	"idefics3":            "SigLIP's tower and its pixel shuffle",
	"smolvlm":             "SigLIP's tower and its pixel shuffle",
	"mllama":              "cross-attention from text to pictures",
	"mistral3":            "Pixtral's tower",
	"pixtral":             "Pixtral's tower",
	"siglip_vision_model": "SigLIP's tower",
}

// Lacking is what an error says of a model_type that is not supported.
func Lacking(modelType string) string {
	if what := lacks[strings.ToLower(modelType)]; what != "" {
		return " (missing: " + what + ")"
	}
	return ""
}
