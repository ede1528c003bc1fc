package config

// elsewhere are names of Hugging Face's TrainingArguments, of PEFT's LoraConfig and of TRL, and the keys that say the
// same here.
var elsewhere = map[string]string{
	"adam_epsilon":                "optimizer.eps",
	"bf16":                        "dtype: bfloat16",
	"eval_steps":                  "validate.every",
	"gradient_accumulation_steps": "batch_size, which a step takes in runs of micro_batch",
	"gradient_checkpointing":      "recompute: layers",
	"learning_rate":               "optimizer.lr",
	"load_best_model_at_end":      "validate.by",
	"lora_alpha":                  "lora.alpha",
	"lora_dropout":                "lora.dropout",
	"lora_r":                      "lora.r",
	"lora_target_modules":         "lora.targets",
	"lr":                          "optimizer.lr",
	"lr_scheduler_type":           "schedule.kind",
	"max_grad_norm":               "clip_norm",
	"max_steps":                   "steps",
	"model_name_or_path":          "backbone",
	"num_train_epochs":            "epochs",
	"optim":                       "optimizer.name",
	"output_dir":                  "out",
	"per_device_train_batch_size": "micro_batch",
	"save_steps":                  "checkpoint.steps",
	"save_total_limit":            "checkpoint.keep",
	"target_modules":              "lora.targets",
	"train_file":                  "data.train",
	"validation_file":             "data.validation",
	"warmup_ratio":                "schedule.warmup",
	"warmup_steps":                "schedule.warmup",
	"weight_decay":                "optimizer.weight_decay",
}

// KeyElsewhere says which key is meant by a name that other programs have for it; "": none.
func (c *Config) KeyElsewhere(name string) string { return elsewhere[name] }
