package curate

import (
	"regexp"
	"strings"
)

// ClipTokens is how many tokens of a text CLIP's text encoders take, with the two that begin and end it. The text
// encoders of Stable Diffusion are such; what is longer loses its end.
const ClipTokens = 77

// clipPieces are what CLIP's tokenizer cuts a text into before it looks for tokens. Marks count as letters, since the
// tokenizer joins them with these where Unicode has such a letter.
var clipPieces = regexp.MustCompile(`'s|'t|'re|'ve|'m|'ll|'d|[\p{L}\p{M}]+|\p{N}|[^\s\p{Z}\p{L}\p{M}\p{N}]+`)

// LeastClipTokens is a number of tokens that a text has at least, whatever the vocabulary of a CLIP tokenizer: every
// word, digit and run of marks is one or more, and two more begin and end the text.
func LeastClipTokens(text string) int {
	return 2 + len(clipPieces.FindAllStringIndex(strings.ToLower(text), -1))
}

// ScoreLast says whether something of the score stands behind the instruction, where an encoder that takes no more
// tokens cuts it off.
func (t Template) ScoreLast() bool {
	_, end, _ := strings.Cut(string(t), "{instruction}")
	return marks.MatchString(strings.ReplaceAll(end, "{instruction}", ""))
}

// clipLayouts are those whose trainers have CLIP's text encoder: InstructPix2Pix and MagicBrush, also in diffusers.
var clipLayouts = []string{"diffusers", "instructpix2pix", "magicbrush", "parquet"}
