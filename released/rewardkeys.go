package released

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// trainingKeys are the keys of EditReward's and HPSv3's configuration files for training, its data and paths: no score
// depends on them.
var trainingKeys = strings.Fields(`
	model_name_or_path model_revision trust_remote_code torch_dtype attn_implementation disable_flash_attn2
	lora_enable vision_lora lora_r lora_alpha lora_dropout lora_target_modules lora_namespan_exclude lora_modules_to_save
	lora_task_type use_rslora num_lora_modules freeze_llm freeze_vision_tower tune_merger trainable_visual_layers
	train_json_list test_json_list reward_dim soft_label confidence_threshold tied_threshold max_length dataset_num_proc
	loss_type loss_hyperparameters center_rewards_coefficient learning_rate vision_lr merger_lr special_token_lr
	weight_decay adam_beta1 adam_beta2 adam_epsilon max_grad_norm optim lr_scheduler_type lr_scheduler_kwargs warmup_ratio
	warmup_steps num_train_epochs max_steps per_device_train_batch_size per_device_eval_batch_size
	gradient_accumulation_steps gradient_checkpointing gradient_checkpointing_kwargs deepspeed fsdp tf32 fp16 seed
	data_seed
	output_dir overwrite_output_dir run_name report_to logging_dir logging_steps logging_epochs logging_first_step
	logging_strategy eval_strategy evaluation_strategy eval_steps eval_epochs conduct_eval save_strategy save_steps
	save_epochs save_total_limit save_only_model save_full_model load_from_pretrained load_from_pretrained_step
	resume_from_checkpoint checkpoint_path do_train do_eval dataloader_num_workers dataloader_pin_memory
	dataloader_drop_last remove_unused_columns ddp_timeout ddp_find_unused_parameters local_rank
	visualization_steps max_viz_samples use_liger_kernel
`)

// rewardKeys returns the keys of a configuration; an unknown key is an error.
func rewardKeys(raw []byte) (map[string]bool, error) {
	var all map[string]any
	if err := yaml.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, key := range trainingKeys {
		known[key] = true
	}
	fields := reflect.TypeFor[rewardConfig]()
	for i := range fields.NumField() {
		known[fields.Field(i).Tag.Get("yaml")] = true
	}
	keys := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !known[key] || key == "" {
			return nil, fmt.Errorf("unknown key %q: it may change every score; remove it if it certainly does not",
				key)
		}
		keys[key] = all[key] != nil
	}
	return keys, nil
}

// require refuses a configuration that lacks keys on which scores depend.
func (c *rewardConfig) require(keys ...string) error {
	for _, key := range keys {
		if c.file != "" && !c.keys[key] {
			return fmt.Errorf("--config %s: %s is missing: want the YAML that the judge was trained with (its %s are "+
				"needed)", c.file, key, strings.Join(keys, ", "))
		}
	}
	return nil
}
