package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"assay/checkpoints"
)

// Tables returns the names of the embedding table and of the output layer, which is the table itself in a tied checkpoint. The
// table's number of rows becomes Vocab: config.json may state another, and the score token's id is the table's next row.
func (c *TextConfig) Tables(w *checkpoints.Weights, embedding, output string) Keys {
	if info, ok := w.Info(embedding); ok && len(info.Shape) == 2 {
		c.Vocab = int(info.Shape[0])
	}
	if c.Tied {
		output = embedding
	}
	return Keys{Embedding: embedding, Output: output}
}

// Colours is how an image processor normalises: (x/255 - Mean) / Std for each of red, green and blue.
type Colours struct{ Mean, Std [3]float32 }

// ReadImageProcessor reads preprocessor_config.json, or image_processor in processor_config.json, of a checkpoint: the
// colours, and what else the family wants into the struct that into points to. It returns the file's name for errors.
// Processors that do anything but a bicubic resize, x/255 and normalisation are refused.
func ReadImageProcessor(dir string, into any) (c Colours, file string, err error) {
	raw, file, err := processorJSON(dir)
	if err != nil {
		return c, file, err
	}
	mean, std := [3]float64{0.48145466, 0.4578275, 0.40821073}, [3]float64{0.26862954, 0.26130258, 0.27577711} // OpenAI's CLIP
	common := struct {
		Mean      *[3]float64 `json:"image_mean"`
		Std       *[3]float64 `json:"image_std"`
		Resample  *int        `json:"resample"`
		Factor    *float64    `json:"rescale_factor"`
		Resize    *bool       `json:"do_resize"`
		Rescale   *bool       `json:"do_rescale"`
		Normalize *bool       `json:"do_normalize"`
	}{Mean: &mean, Std: &std}
	for _, v := range []any{&common, into} {
		if err := json.Unmarshal(raw, v); err != nil {
			return c, file, fmt.Errorf("%s: %w", file, err)
		}
	}
	if common.Resample != nil && *common.Resample != 3 {
		return c, file, fmt.Errorf("%s: resample %d is not supported; 3 (bicubic) is", file, *common.Resample)
	}
	if common.Factor != nil && math.Abs(*common.Factor*255-1) > 1e-6 {
		return c, file, fmt.Errorf("%s: rescale_factor %g is not supported; 1/255 is", file, *common.Factor)
	}
	for name, on := range map[string]*bool{"do_resize": common.Resize, "do_rescale": common.Rescale, "do_normalize": common.Normalize} {
		if on != nil && !*on {
			return c, file, fmt.Errorf("%s: %s false is not supported", file, name)
		}
	}
	for i := range 3 {
		c.Mean[i], c.Std[i] = float32(mean[i]), float32(std[i])
	}
	return c, file, nil
}

// processorJSON returns the image processor's configuration and where it was found.
func processorJSON(dir string) (raw json.RawMessage, file string, err error) {
	file = filepath.Join(dir, "preprocessor_config.json")
	raw, err = os.ReadFile(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return raw, file, err
	}
	file = filepath.Join(dir, "processor_config.json")
	outer := struct {
		Image json.RawMessage `json:"image_processor"`
	}{}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, file, fmt.Errorf("neither preprocessor_config.json nor processor_config.json can be read: %w", err)
	}
	if err := json.Unmarshal(text, &outer); err != nil {
		return nil, file, fmt.Errorf("%s: %w", file, err)
	}
	if outer.Image == nil {
		return nil, file, fmt.Errorf("%s: no image_processor in it, and no preprocessor_config.json beside it", file)
	}
	return outer.Image, file, nil
}
