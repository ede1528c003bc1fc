package nn

import (
	"testing"

	"assay/internal/fuzzing"
	"assay/internal/strictjson"
)

// FuzzParseText: the text_config of a config.json is accepted or refused. An accepted one is usable: sizes are positive
// and key heads are shared evenly by query heads.
func FuzzParseText(f *testing.F) {
	x := fuzzing.New(f)
	x.Add(
		[]byte(`{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_scaling": {"rope_type": "llama3",
		"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}`),
	)
	x.Add([]byte(`{"model_type": "mistral", "sliding_window": null, "head_dim": 128, "num_key_value_heads": 8}`))
	x.Add([]byte(`{"model_type": "qwen2", "use_sliding_window": true, "max_window_layers": 2, "rope_theta": 1e6}`))
	x.Add([]byte(`{"model_type": "qwen2_5_vl_text", "rope_parameters": {"type": "mrope", "mrope_section": [16, 24, 24]}}`))
	x.Run(func(t testing.TB, raw []byte) {
		fuzzing.Bounded(t, 16<<20+256*uint64(len(raw)), func() {
			o, err := strictjson.Parse("config.json", raw)
			if err != nil {
				return
			}
			c := ParseText(o, "llama", "mistral", "qwen2", "qwen2_5_vl_text")
			if o.Err() == nil && (c.Heads <= 0 || c.KVHeads <= 0 || c.Heads%c.KVHeads != 0 || c.HeadDim <= 0) {
				t.Errorf("%d heads, %d key heads of %d", c.Heads, c.KVHeads, c.HeadDim)
			}
		})
	})
}
