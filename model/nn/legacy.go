package nn

import "assay/internal/strictjson"

// Legacy are the keys that transformers' PretrainedConfig put into every configuration before version 5, and those that
// say where a file comes from. They change no number here, or not at the values listed.
var Legacy = strictjson.Harmless{
	// where the file comes from
	"_name_or_path":                nil,
	"name_or_path":                 nil,
	"_commit_hash":                 nil,
	"architectures":                nil,
	"transformers_version":         nil,
	"model_type":                   nil, // read by who chose the family
	"tokenizer_class":              nil,
	"_attn_implementation_autoset": nil,
	"attn_implementation":          nil, // how attention is computed, not what
	"use_cache":                    nil, // of generation
	"initializer_range":            nil, // of weights that are not there yet
	"initializer_factor":           nil,
	// how weights are stored: safetensors says itself (see storedType)
	"dtype":        nil,
	"torch_dtype":  nil,
	"use_bfloat16": nil, // of TPUs
	// tokens: the tokenizer has its own
	"bos_token_id":           nil,
	"eos_token_id":           nil,
	"pad_token_id":           nil,
	"sep_token_id":           nil,
	"decoder_start_token_id": nil,
	"forced_bos_token_id":    nil,
	"forced_eos_token_id":    nil,
	"prefix":                 nil,
	// what a model returns besides
	"output_attentions":       nil,
	"output_hidden_states":    nil,
	"output_scores":           nil,
	"return_dict":             nil,
	"return_dict_in_generate": nil,
	"torchscript":             nil,
	"tf_legacy_loss":          nil,
	// other kinds of models
	"is_decoder":                  {false},
	"is_encoder_decoder":          {false},
	"add_cross_attention":         {false},
	"cross_attention_hidden_size": {nil},
	"tie_encoder_decoder":         {false},
	"pruned_heads":                {map[string]any{}, nil},
	"chunk_size_feed_forward":     nil, // rows of an MLP at a time
	"finetuning_task":             nil,
	"task_specific_params":        nil,
	"problem_type":                nil, // of classifiers
	"id2label":                    nil,
	"label2id":                    nil,
	"num_labels":                  nil,
	// of generation
	"max_length":                       nil,
	"min_length":                       nil,
	"do_sample":                        nil,
	"early_stopping":                   nil,
	"num_beams":                        nil,
	"num_beam_groups":                  nil,
	"diversity_penalty":                nil,
	"temperature":                      nil,
	"top_k":                            nil,
	"top_p":                            nil,
	"typical_p":                        nil,
	"repetition_penalty":               nil,
	"length_penalty":                   nil,
	"no_repeat_ngram_size":             nil,
	"encoder_no_repeat_ngram_size":     nil,
	"bad_words_ids":                    nil,
	"num_return_sequences":             nil,
	"remove_invalid_values":            nil,
	"exponential_decay_length_penalty": nil,
	"suppress_tokens":                  nil,
	"begin_suppress_tokens":            nil,
}
