package backbone

import (
	"errors"
	"io/fs"
	"path/filepath"

	"assay/checkpoints"
	"assay/internal/store"
	"assay/internal/workers"
	"assay/model/nn"
)

// describing lists the files of a checkpoint, besides its weights, that affect its outputs.
var describing = []string{
	"config.json",
	"tokenizer.json",
	"tokenizer_config.json",
	"special_tokens_map.json",
	"added_tokens.json",
	"chat_template.json",
	"chat_template.jinja",
	"preprocessor_config.json",
	"processor_config.json",
	checkpoints.IndexFile,
}

// Fingerprint identifies a checkpoint by the full contents of its files. 16 GB are read once, at about a gigabyte per
// second and core; after that, unchanged file metadata is enough: see [store.Files]. Absent weights do not count.
func Fingerprint(dir string, w *checkpoints.Weights) (string, error) {
	var parts, paths []string
	for _, name := range describing {
		k, err := store.FileDigest(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return "", err
		}
		parts = append(parts, name, k.String())
	}
	if w.Dir() != dir { // separate weights: their index lists the tensors of each file that count
		switch k, err := store.FileDigest(filepath.Join(w.Dir(), checkpoints.IndexFile)); {
		case err == nil:
			parts = append(parts, "weights", k.String())
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	for _, s := range w.Shards() {
		paths = append(paths, s.Path())
		parts = append(parts, s.Name)
	}
	sums := make([]store.Key, len(paths))
	err := workers.Each(len(paths), 4, func(i int) (err error) {
		sums[i], err = store.FileDigest(paths[i])
		return err
	})
	for _, k := range sums {
		parts = append(parts, k.String())
	}
	return store.KeyOf(parts...).String()[:24], err
}

var _ nn.Weights = (*checkpoints.Weights)(nil)
