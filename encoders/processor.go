package encoders

import (
	"assay/data"
	"assay/internal/strictjson"
	"assay/model/backbone"
)

// processor prepares pictures as transformers' CLIPImageProcessorPil and BitImageProcessorPil do: bicubic resize,
// centre crop, x/255, normalise.
type processor struct {
	colours       backbone.Colours
	resize        backbone.Size
	height, width int // input size of the tower, after the crop
}

func readProcessor(dir string) (*processor, error) {
	p := &processor{resize: backbone.Size{Shortest: 224}, height: 224, width: 224} // the classes' defaults
	colours, _, err := backbone.ReadImageProcessor(dir, backbone.ImageProcessor{
		Kinds: []string{"CLIPImageProcessor", "CLIPFeatureExtractor", "BitImageProcessor"},
		Read:  p.read,
	})
	p.colours = colours
	return p, err
}

func (p *processor) read(o *strictjson.Object) {
	crop, cut := backbone.Size{Height: 224, Width: 224}, true
	backbone.ReadSize(o, "size", &p.resize)
	if o.Get("do_center_crop", &cut); cut {
		backbone.ReadSize(o, "crop_size", &crop)
	}
	o.Raw("crop_size") // null without a crop
	if p.height, p.width = crop.Height, crop.Width; crop.Shortest > 0 {
		p.height, p.width = crop.Shortest, crop.Shortest
	}
	if !cut {
		if p.height, p.width = p.resize.Height, p.resize.Width; p.height <= 0 {
			o.Failf("do_center_crop", "false needs a size with height and width")
		}
	}
}

// resized is the size of a picture of width x height pixels before the crop.
func (p *processor) resized(width, height int) (w, h int) {
	edge := p.resize.Shortest
	if edge == 0 {
		return p.resize.Width, p.resize.Height
	}
	longer := func(long, short int) int { return int(float64(edge*long) / float64(short)) }
	if height <= width {
		return longer(width, height), edge
	}
	return edge, longer(height, width)
}

// pixels returns the normalised picture [3, height, width].
func (p *processor) pixels(x *data.Picture) []float32 {
	return (&Processor{*p, Transformers}).Pixels(x)
}
