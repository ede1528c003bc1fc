package fresh

import (
	"cmp"
	"encoding/json"
	"maps"
)

// decimal is a number that is written to JSON with a decimal point, as Python writes a float.
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

// files are all JSON files of a checkpoint.
func (s Sizes) files(v *vocabulary) map[string]object {
	files := v.family.files(s, v)
	begin := v.begin
	begin = cmp.Or(begin, v.padding)
	generation := object{
		"_from_model_config": true,
		"bos_token_id":       v.id(begin),
		"eos_token_id":       v.id(v.end),
		"use_cache":          true,
	}
	if v.begin != "" {
		generation["pad_token_id"] = v.id(v.padding)
	}
	if v.generate != nil {
		generation = maps.Clone(v.generate)
		generation["bos_token_id"], generation["pad_token_id"] = v.id(begin), v.id(v.padding)
		generation["eos_token_id"] = []int{v.id(v.end), v.id(v.padding)}
	}
	files["generation_config.json"] = generation
	files["tokenizer.json"], files["tokenizer_config.json"] = v.tokenizerJSON(), v.tokenizerConfigJSON(s.Context)
	return files
}
