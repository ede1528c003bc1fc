package encoders

import (
	"encoding/json"
	"fmt"
	"math"

	"assay/data"
	"assay/model"
)

// size is a picture size in preprocessor_config.json: {"shortest_edge": n}, {"height": h, "width": w}, or, in old files, n.
type size struct {
	Shortest int `json:"shortest_edge"`
	Height   int `json:"height"`
	Width    int `json:"width"`
}

// UnmarshalJSON also takes a bare number: the shortest edge of a resize, the side of a crop.
func (s *size) UnmarshalJSON(raw []byte) error {
	if n := 0; json.Unmarshal(raw, &n) == nil {
		*s = size{Shortest: n}
		return nil
	}
	type plain size
	return json.Unmarshal(raw, (*plain)(s))
}

// processor prepares pictures as transformers' CLIPImageProcessorPil and BitImageProcessorPil do: bicubic resize, centre
// crop, x/255, normalise.
type processor struct {
	colours       model.Colours
	resize        size
	height, width int // what the tower sees, after the crop
}

func readProcessor(dir string) (*processor, error) {
	config := struct {
		Size   *size `json:"size"`
		Crop   *size `json:"crop_size"`
		Centre *bool `json:"do_center_crop"`
	}{}
	colours, file, err := model.ReadImageProcessor(dir, &config)
	if err != nil {
		return nil, err
	}
	p := &processor{colours: colours, resize: size{Shortest: 224}, height: 224, width: 224} // the classes' defaults
	if config.Size != nil {
		p.resize = *config.Size
	}
	if config.Crop != nil {
		p.height, p.width = config.Crop.Height, config.Crop.Width
		if config.Crop.Shortest > 0 {
			p.height, p.width = config.Crop.Shortest, config.Crop.Shortest
		}
	}
	if config.Centre != nil && !*config.Centre {
		p.height, p.width = p.resize.Height, p.resize.Width // of a shortest edge: 0, refused below
	}
	if p.height <= 0 || p.width <= 0 || p.resize.Shortest <= 0 && (p.resize.Height <= 0 || p.resize.Width <= 0) {
		return nil, fmt.Errorf("%s: size and crop_size do not say how large pictures get (want shortest_edge with a centre crop, or height and width)", file)
	}
	return p, nil
}

// pixels returns the normalised picture [3, height, width].
func (p *processor) pixels(x *data.Picture) []float32 {
	h, w := p.resize.Height, p.resize.Width
	if edge := p.resize.Shortest; edge > 0 {
		longer := func(long, short int) int { return int(float64(edge*long) / float64(short)) }
		if x.Height <= x.Width {
			h, w = edge, longer(x.Width, x.Height)
		} else {
			h, w = longer(x.Height, x.Width), edge
		}
	}
	x = x.Resize(w, h, data.Bicubic)
	// Half the difference rounds down, also below zero: a crop larger than the picture is black around it.
	margin := func(have, want int) int { return int(math.Floor(float64(have-want) / 2)) }
	return x.Crop(margin(w, p.width), margin(h, p.height), p.width, p.height).Normalize(p.colours.Mean, p.colours.Std)
}
