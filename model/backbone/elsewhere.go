package backbone

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"assay/checkpoints"
)

// ownTensors are how names begin, in checkpoints of released judges, that are not the backbone's: their heads.
var ownTensors = []string{"rm_head.", "rm_heads.", "score_decoder."}

// BackboneName is the name that a tensor of a judge's checkpoint has in its backbone's; false: it is not of it.
func BackboneName(stored string) (string, bool) {
	for _, own := range ownTensors {
		if strings.HasPrefix(stored, own) {
			return "", false
		}
	}
	return strings.TrimPrefix(stored, "vlm."), true
}

// OpenBackboneWith opens the checkpoint directory dir with other weights than its own: a directory, or one .safetensors
// file, in the names of any version of transformers, maybe below "vlm.". The size of the vocabulary is that of their
// embedding table, whatever config.json says: judges that were trained with a new token have a table of their own.
// Their heads are left out: package released reads them.
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

// VocabOfTable gives config.json the vocab_size of the embedding table.
func VocabOfTable(config json.RawMessage, w *checkpoints.Weights) (json.RawMessage, error) {
	table := ""
	for _, name := range w.Names() {
		if strings.HasSuffix(name, "embed_tokens.weight") {
			if table != "" {
				return nil, fmt.Errorf("%s: %s and %s: which one is the embedding table?", w.Dir(), table, name)
			}
			table = name
		}
	}
	info, ok := w.Info(table)
	if !ok || len(info.Shape) != 2 {
		return nil, fmt.Errorf("%s: there is no embedding table (embed_tokens.weight) among its %d tensors", w.Dir(),
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
