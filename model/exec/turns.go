package exec

import (
	"fmt"

	"assay/data"
	"assay/model/backbone"
	"assay/model/text"
)

// CheckPair returns an error for an unknown way of showing pictures in messages: "" and sequence show them one by one,
// frames every two as the frames of one.
func CheckPair(pair string) error {
	switch pair {
	case "", backbone.Sequence, backbone.Frames:
		return nil
	}
	return fmt.Errorf("%q: messages show pictures as %s or %s", pair, backbone.Sequence, backbone.Frames)
}

// Frames reports whether messages show every two pictures as the frames of one.
func (p *Processor) Frames() bool { return p.pair == backbone.Frames }

// Turns returns messages about that many pictures in the form shown to the backbone. With frames, two consecutive
// pictures of a message take one place; each is the number of pictures per place.
func (p *Processor) Turns(messages []text.Message, pictures int) (turns []text.Message, each int, err error) {
	each = 1
	if p.Frames() {
		each = 2
	}
	shown := 0
	turns = make([]text.Message, len(messages))
	for i, m := range messages {
		turns[i].Role = m.Role
		row := 0 // of pictures
		for k, c := range m.Content {
			if c.Image {
				shown, row = shown+1, row+1
			}
			if !c.Image || (row-1)%each == 0 {
				turns[i].Content = append(turns[i].Content, c)
			}
			if last := k == len(m.Content)-1; last || !c.Image && c.Text != "" {
				if row%each != 0 {
					return nil, 0, fmt.Errorf("message %d: %d pictures in a row: every two are the frames of one, so an even number "+
						"is required", i+1, row)
				}
				row = 0
			}
		}
	}
	if shown != pictures {
		return nil, 0, fmt.Errorf("the messages show %d pictures, but there are %d", shown, pictures)
	}
	return turns, each, nil
}

// FitFrames returns the pictures of one place in a message: the second of two frames is resized to the first.
func FitFrames(shown []*data.Picture) ([]*data.Picture, error) {
	out := make([]*data.Picture, len(shown))
	for i, p := range shown {
		if err := p.Check(); err != nil {
			return nil, err
		}
		if out[i] = p; p.Width != shown[0].Width || p.Height != shown[0].Height {
			out[i] = p.Resize(shown[0].Width, shown[0].Height, data.Bicubic)
		}
	}
	return out, nil
}
