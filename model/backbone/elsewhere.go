package backbone

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"assay/checkpoints"
)

// ownTensors lists the name prefixes of the heads in checkpoints of released judges, which are not part of the
// backbone.
var ownTensors = []string{"rm_head.", "rm_heads.", "score_decoder."}

// BackboneName returns the name in the backbone of a tensor of a judge's checkpoint; false: it is not part of the
// backbone.
func BackboneName(stored string) (string, bool) {
	for _, own := range ownTensors {
		if strings.HasPrefix(stored, own) {
			return "", false
		}
	}
	return strings.TrimPrefix(stored, "vlm."), true
}

// OpenBackboneWith opens the checkpoint directory dir with weights from elsewhere: a directory, or one .safetensors
// file, with tensor names of any version of transformers, optionally under "vlm.". The vocabulary size is that of
// their embedding table, regardless of config.json: judges that were trained with a new token have their own table.
// Their heads are skipped: package released reads them.
func OpenBackboneWith(dir, weights string) (*Backbone, error) {
	return openBackbone(dir, func(string) (*checkpoints.Weights, error) {
		w, err := checkpoints.OpenWeightsAt(weights)
		if err != nil {
			return nil, err
		}
		if err := w.Rename(BackboneName); err != nil {
			w.Close()
			return nil, err
		}
		return w, nil
	}, VocabOfTable)
}

// VocabOfTable sets vocab_size in config.json to that of the embedding table.
func VocabOfTable(config json.RawMessage, w *checkpoints.Weights) (json.RawMessage, error) {
	table := ""
	for _, name := range w.Names() {
		if strings.HasSuffix(name, "embed_tokens.weight") {
			if table != "" {
				return nil, fmt.Errorf("%s: cannot tell which of %s and %s is the embedding table", w.Dir(), table, name)
			}
			table = name
		}
	}
	info, ok := w.Info(table)
	if !ok || len(info.Shape) != 2 {
		return nil, fmt.Errorf("%s: no embedding table (embed_tokens.weight) among its %d tensors", w.Dir(),
			len(w.Names()))
	}
	rows := json.RawMessage(strconv.FormatInt(info.Shape[0], 10))
	var whole, text map[string]json.RawMessage
	if err := json.Unmarshal(config, &whole); err != nil {
		return nil, err
	}
	const key = "vocab_size"
	_, flat := whole[key]
	if raw := whole["text_config"]; raw != nil {
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, fmt.Errorf("text_config: %w", err)
		}
		text[key] = rows
		raw, err := json.Marshal(text)
		if err != nil {
			return nil, err
		}
		whole["text_config"] = raw
	}
	if flat || text == nil {
		whole[key] = rows
	}
	return json.Marshal(whole)
}
