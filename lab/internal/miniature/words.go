package miniature

import (
	_ "embed"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed words.yaml
var wordsText []byte

// words are the wordings of an edit, by its key; see words.yaml.
var words = func() (all map[string]struct {
	Asked           []string
	Caption, Change string
}) {
	if err := yaml.Unmarshal(wordsText, &all); err != nil {
		panic(err) // words.yaml is embedded
	}
	return all
}()

var pictureNames = []string{"picture", "photo", "image"}

func (e Edit) key() string {
	if e.Variant == "" {
		return string(e.Family)
	}
	return string(e.Family) + "/" + e.Variant
}

// ask words an edit as an instruction. Next to an edit of a shape it says "the picture", because "it" might be the
// shape.
func ask(rng *rand.Rand, e Edit, besideShape bool) string {
	text := pick(rng, words[e.key()].Asked)
	if besideShape {
		text = strings.ReplaceAll(text, "{it|", "{")
	}
	fill := strings.NewReplacer("{picture}", pick(rng, pictureNames), "{colour}", e.Colour, "{shape}", e.Shape, "{place}",
		e.Place)
	for text = fill.Replace(text); ; {
		end := strings.IndexByte(text, '}')
		if end < 0 {
			return article(text)
		}
		start := strings.LastIndexByte(text[:end], '{')
		text = text[:start] + pick(rng, strings.Split(text[start+1:end], "|")) + text[end+1:]
	}
}

// article corrects the article of the only colour that starts with a vowel.
func article(text string) string { return strings.ReplaceAll(text, "a orange", "an orange") }

// Instruction words edits as one instruction. Unless it says "then", its parts are in any order.
func Instruction(rng *rand.Rand, edits []Edit) string {
	joint := pick(rng, []string{" and ", " and then ", ", then ", ", "})
	parts := make([]string, len(edits))
	for i, e := range edits {
		parts[i] = ask(rng, e, len(edits) > 1 && len(touched(edits)) > 0)
	}
	if !strings.Contains(joint, "then") && rng.IntN(2) == 0 {
		slices.Reverse(parts)
	}
	return strings.Join(parts, joint)
}

// caption describes a scene, for image and text encoders.
func caption(photo *Photo, s *scene) string {
	text := "a photo of " + photo.Caption
	joint := " with "
	for _, sh := range s.shapes {
		text += joint + "a " + sh.colour + " " + sh.kind + " at the " + sh.place
		joint = " and "
	}
	for _, e := range s.effects {
		if e.Family == Border {
			text += ", with a " + e.Colour + " border"
		} else {
			text += ", " + words[e.key()].Caption
		}
	}
	return article(text)
}

// describe returns a description of what was done, in the order of Families.
func describe(c *Candidate) string {
	switch {
	case c.Kind == Corrupt:
		return "noise"
	case c.Kind == Foreign:
		return "another picture"
	case len(c.Done) == 0:
		return "nothing changed"
	}
	done := slices.Clone(c.Done)
	slices.SortStableFunc(done,
		func(a, b Step) int { return slices.Index(Families, a.Family) - slices.Index(Families, b.Family) })
	var parts []string
	for _, d := range done {
		fill := strings.NewReplacer("{colour}", d.Colour, "{shape}", d.Shape, "{place}", d.Place)
		text := fill.Replace(words[d.key()].Change)
		if !d.complete() {
			text = "slightly " + text
		}
		parts = append(parts, text)
	}
	if c.Kind == Damaged {
		parts = append(parts, "damage")
	}
	return strings.Join(parts, " and ")
}
