package nn

import "strings"

// What is missing for models that are not supported.
const (
	experts = "a mixture of experts: layers that route every token to a few of their MLPs"
	linear  = "linear attention: layers with a recurrent state"
	sound   = "an audio tower"
)

// lacks lists what model_types that people are likely to try would need besides a family package.
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
	"llava":               "the single-tile model: CLIP's tower without LLaVA-NeXT's grid",
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

// Lacking returns the note that an error appends about a model_type that is not supported; "" if there is none.
func Lacking(modelType string) string {
	if what := lacks[strings.ToLower(modelType)]; what != "" {
		return " (missing: " + what + ")"
	}
	return ""
}
