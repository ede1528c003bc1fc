package curate

import (
	"regexp"
	"strings"
)

// ClipTokens is the context length of CLIP's text encoders, begin and end tokens included. Those of Stable Diffusion
// truncate longer prompts.
const ClipTokens = 77

// clipPieces matches the pieces into which CLIP's tokenizer splits a text before BPE. Combining marks count as
// letters, since the tokenizer joins them where Unicode has such a letter.
var clipPieces = regexp.MustCompile(`'s|'t|'re|'ve|'m|'ll|'d|[\p{L}\p{M}]+|\p{N}|[^\s\p{Z}\p{L}\p{M}\p{N}]+`)

// LeastClipTokens is a lower bound of the tokens of a text with any CLIP vocabulary: one for each word, digit and run
// of marks, and two for begin and end.
func LeastClipTokens(text string) int {
	return 2 + len(clipPieces.FindAllStringIndex(strings.ToLower(text), -1))
}

// clipLayouts are the layouts of trainers with CLIP's text encoder: InstructPix2Pix and MagicBrush, also in diffusers.
var clipLayouts = []string{"diffusers", "instructpix2pix", "magicbrush", "parquet"}
