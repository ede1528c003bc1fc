package backbone

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/strictjson"
)

// Colours is the normalisation of an image processor: (x/255 - Mean) / Std for each of red, green and blue.
type Colours struct{ Mean, Std [3]float32 }

// ProcessorConfig is what a program needs to build a checkpoint's inputs, with the key names of Hugging Face's files.
type ProcessorConfig struct {
	ModelType    string     `json:"model_type"`
	ImageToken   string     `json:"image_token"` // represents a picture in prompts
	ImageTokenID int64      `json:"image_token_id"`
	PositionAxes int        `json:"position_axes"`           // of position_ids: 1, or 3: time, row, column
	TextTokens   int        `json:"max_position_embeddings"` // at most, not counting picture tokens
	MaxPosition  int64      `json:"max_position,omitempty"`  // of any token; 0: no limit. Only dynamic rope has one
	ImageMean    [3]float32 `json:"image_mean"`
	ImageStd     [3]float32 `json:"image_std"`
	PatchSize    int        `json:"patch_size"`

	ImageSize     int      `json:"image_size,omitempty"`           // LLaVA-NeXT: side of a tile, pixels
	GridPinpoints [][2]int `json:"image_grid_pinpoints,omitempty"` // [height, width] of its grids of tiles

	MergeSize         int `json:"merge_size,omitempty"`          // Qwen-VLs: patches along the edge of a token
	TemporalPatchSize int `json:"temporal_patch_size,omitempty"` // frames per patch
	MinPixels         int `json:"min_pixels,omitempty"`          // of a resized picture
	MaxPixels         int `json:"max_pixels,omitempty"`
	WindowSize        int `json:"window_size,omitempty"`             // Qwen2.5-VL: edge of a window, pixels
	PositionRows      int `json:"num_position_embeddings,omitempty"` // Qwen3-VL: rows of the tower's position table
}

// Processor returns the family's ProcessorConfig, completed with the fields that all families share.
func (o *Backbone) Processor() ProcessorConfig {
	p, d := o.ProcessorConfig(), o.Decoder()
	p.ImageToken, p.ImageTokenID = o.Placeholder(), d.ImageToken
	p.PositionAxes, p.TextTokens = d.Rope.Axes(), d.MaxPositions
	if most := int64(d.MaxPositions); d.Longest(most) != nil {
		p.MaxPosition = most - 1
	}
	return p
}

// ImageProcessor describes how to read the image processor of one kind of model.
type ImageProcessor struct {
	Kinds []string                   // names of the classes, without the endings Fast and Pil
	Read  func(o *strictjson.Object) // the keys of this kind
	Outer func(o *strictjson.Object) // the keys of processor_config.json besides image_processor; nil: they are ignored
}

// processorKeys are keys that do not affect the outputs of an image processor.
var processorKeys = strictjson.Harmless{
	// names
	"processor_class":  nil,
	"_processor_class": nil,
	"auto_map":         {nil},
	// options of the caller
	"return_tensors":   nil,
	"device":           nil,
	"disable_grouping": nil,

	"_valid_processor_keys": nil,
	"do_convert_rgb":        nil, // pictures are already RGB
	"default_to_square":     nil, // the meaning of a single-number size, which is rejected or makes no difference
	"data_format":           {"channels_first", nil},
	"input_data_format":     {nil},
	"do_pad":                nil, // pads a batch with all-zero pictures
	"pad_size":              {nil},
}

// ReadImageProcessor reads the image processor of a checkpoint from where transformers does: image_processor in
// processor_config.json, else preprocessor_config.json. It returns the colours, and the file's name for errors.
// Processors that do anything besides a bicubic resize, x/255 and normalisation are rejected.
func ReadImageProcessor(dir string, p ImageProcessor) (c Colours, file string, err error) {
	o, outer, file, err := OpenProcessor(dir)
	if err != nil {
		return c, file, err
	}
	mean, std := []float64{0.48145466, 0.4578275, 0.40821073}, []float64{
		0.26862954,
		0.26130258,
		0.27577711,
	} // OpenAI's CLIP
	resample, factor := 3, 1.0/255
	readColour(o, "image_mean", &mean)
	readColour(o, "image_std", &std)
	o.Get("resample", &resample)
	o.Get("rescale_factor", &factor)
	for _, key := range []string{"do_resize", "do_rescale", "do_normalize"} {
		on := true
		if o.Get(key, &on); !on { // to transformers, null is false too
			o.Failf(key, "false is not supported")
		}
	}
	for _, key := range []string{"image_processor_type", "feature_extractor_type"} {
		kind := p.Kinds[0]
		o.Opt(key, &kind)
		kind = strings.TrimSuffix(strings.TrimSuffix(kind, "Fast"), "Pil")
		if !slices.Contains(p.Kinds, kind) {
			o.Failf(key, "%q is not supported here; %s are", kind, strings.Join(p.Kinds, ", "))
		}
	}
	if resample != 3 {
		o.Failf("resample", "%d is not supported; 3 (bicubic) is", resample)
	}
	if math.Abs(factor*255-1) > 1e-9 {
		o.Failf("rescale_factor", "%g is not supported; 1/255 is", factor)
	}
	for key, v := range map[string][]float64{"image_mean": mean, "image_std": std} {
		if len(v) != 3 || key == "image_std" && slices.Min(v) <= 0 {
			o.Failf(key, "%v: want three numbers, positive ones for image_std", v)
			return c, file, o.Err()
		}
	}
	for i := range 3 {
		c.Mean[i], c.Std[i] = float32(mean[i]), float32(std[i])
	}
	p.Read(o)
	o.Close(processorKeys)
	if outer != nil && p.Outer != nil {
		p.Outer(outer)
		return c, file, errors.Join(o.Err(), outer.Err())
	}
	return c, file, o.Err()
}

// readColour reads a number for each of red, green and blue, or one for all three.
func readColour(o *strictjson.Object, key string, into *[]float64) {
	one := 0.0
	if raw := o.Raw(key); raw != nil && string(raw) != "null" && json.Unmarshal(raw, &one) == nil {
		*into = []float64{one, one, one}
		return
	}
	o.Get(key, into)
}

// OpenProcessor returns the image processor's object and that of processor_config.json, nil if there is none.
func OpenProcessor(dir string) (image, outer *strictjson.Object, file string, err error) {
	file = filepath.Join(dir, "processor_config.json")
	if outer, err = open(file); outer != nil {
		if image = outer.Sub("image_processor"); image != nil || outer.Err() != nil {
			return image, outer, file, outer.Err()
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, file, err
	}
	file = filepath.Join(dir, "preprocessor_config.json")
	if image, err = open(file); errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w, and no image_processor in a processor_config.json next to it: get the file "+
			"from where the checkpoint comes from", err)
	}
	return image, outer, file, err
}

func open(file string) (*strictjson.Object, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return strictjson.Parse(file, raw)
}

// Size is a size in an image processor's configuration: {"shortest_edge": n}, {"height": h, "width": w}, or in old
// files just n, the shortest edge of a resize or the side of a crop.
type Size struct{ Shortest, Height, Width int }

// ReadSize reads a size, or leaves the default if the key is absent. Null is an error, as in transformers.
func ReadSize(o *strictjson.Object, key string, s *Size) {
	n := 0
	if raw := o.Raw(key); raw == nil || string(raw) == "null" {
		o.Get(key, &n) // refuses null
		return
	} else if json.Unmarshal(raw, &n) == nil {
		square := false
		o.Opt("default_to_square", &square)
		if *s = (Size{Shortest: n}); n < 1 || square {
			o.Failf(key, "%d: want an object with shortest_edge or height and width", n)
		}
		return
	}
	p := o.Sub(key)
	if p == nil {
		return
	}
	*s = Size{}
	p.Get("shortest_edge", &s.Shortest)
	p.Get("height", &s.Height)
	p.Get("width", &s.Width)
	p.Close(
		strictjson.Harmless{
			"longest_edge": {nil},
			"max_height":   {nil},
			"max_width":    {nil},
			"min_pixels":   {nil},
			"max_pixels":   {nil},
		},
	)
	if square := s.Height > 0 && s.Width > 0; (s.Shortest > 0) == square || s.Shortest < 0 || s.Height < 0 || s.Width < 0 {
		o.Failf(key, "want a positive shortest_edge, or a positive height and width")
	}
}
