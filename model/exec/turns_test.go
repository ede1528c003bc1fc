package exec

import (
	"strings"
	"testing"

	"assay/model/backbone"
	"assay/model/text"
)

// TestTurns: with frames, every two consecutive pictures of a message take one place. In the table i is a
// picture, a dot an empty text, any other letter a text, | the next message.
func TestTurns(t *testing.T) {
	for _, c := range []struct{ name, pair, messages, want string }{
		{"sequence", backbone.Sequence, "iia", "iia"},
		{"frames", backbone.Frames, "iia", "ia"},
		{"two pairs", backbone.Frames, "iiiia", "iia"},
		{"apart", backbone.Frames, "iiaii", "iai"},
		{"turns", backbone.Frames, "iia|b|ii", "ia|b|i"},
		{"none", backbone.Frames, "a", "a"},
		{"empty between", backbone.Frames, "i.ia", "i.a"},
		{"three", backbone.Frames, "iii", "message 1: 3 pictures in a row"},
		{"between", backbone.Frames, "iiaiai", "message 1: 1 pictures in a row"},
		{"over turns", backbone.Frames, "a|i|i", "message 2: 1 pictures in a row"},
		{"empty behind", backbone.Frames, "i.", "message 1: 1 pictures in a row"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var messages []text.Message
			for m := range strings.SplitSeq(c.messages, "|") {
				var content []text.Content
				for _, r := range m {
					content = append(content, text.Content{Image: r == 'i', Text: strings.Trim(string(r), "i.")})
				}
				messages = append(messages, text.Message{Role: "user", Content: content})
			}
			pictures := strings.Count(c.messages, "i")
			turns, _, err := (&Processor{pair: c.pair}).Turns(messages, pictures)
			var shown []string
			for _, m := range turns {
				var b strings.Builder
				for _, part := range m.Content {
					switch {
					case part.Image:
						b.WriteString("i")
					case part.Text == "":
						b.WriteString(".")
					}
					b.WriteString(part.Text)
				}
				shown = append(shown, b.String())
			}
			got := strings.Join(shown, "|")
			if err != nil {
				got, _, _ = strings.Cut(err.Error(), ": every two")
			}
			if got != c.want {
				t.Errorf("got %q (error %v), want %q", got, err, c.want)
			}
			if _, _, err := (&Processor{pair: c.pair}).Turns(messages, pictures+2); err == nil {
				t.Errorf("two pictures that no message shows: got no error, want one")
			}
		})
	}
}
