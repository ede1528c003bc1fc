package nn

import "assay/internal/strictjson"

// Legacy lists the keys that transformers' PretrainedConfig wrote into every configuration before version 5, and keys
// that record where a file comes from. They do not affect any number here, or not at the values listed.
var Legacy = strictjson.Harmless{
	// other kinds of models
	"is_decoder":                  {false},
	"is_encoder_decoder":          {false},
	"add_cross_attention":         {false},
	"cross_attention_hidden_size": {nil},
	"tie_encoder_decoder":         {false},
	"pruned_heads":                {map[string]any{}, nil},
}.AnyValue(
	// where the file comes from; model_type was read to choose the family
	"_name_or_path", "name_or_path", "_commit_hash", "architectures", "transformers_version", "model_type",
	"tokenizer_class",
	// how attention is computed, not what
	"_attn_implementation_autoset", "attn_implementation",
	// initialization of new weights
	"initializer_range", "initializer_factor",
	// how weights are stored: safetensors records it (see storedType)
	"dtype", "torch_dtype", "use_bfloat16",
	// tokens: the tokenizer has its own
	"bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id", "forced_bos_token_id",
	"forced_eos_token_id", "prefix",
	// additional outputs of a model
	"output_attentions", "output_hidden_states", "output_scores", "return_dict", "return_dict_in_generate",
	"torchscript", "tf_legacy_loss",
	// rows that an MLP processes at once
	"chunk_size_feed_forward",
	// classifiers
	"finetuning_task", "task_specific_params", "problem_type", "id2label", "label2id", "num_labels",
	// generation
	"use_cache", "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
	"diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty",
	"no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences",
	"remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens",
)
