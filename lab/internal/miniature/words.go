package miniature

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// templates say how an edit can be asked for, by family and variant. {a|b} is a choice; {colour}, {shape}, {place} and
// {picture} are filled in.
var templates = map[string][]string{
	"grey": {
		"make {it|the {picture}} {black and white|greyscale|grey}",
		"turn the {picture} {grey|greyscale|black and white}",
		"remove all the colour",
		"convert {it|the {picture}} to greyscale",
		"take the colour out of the {picture}",
	},
	"sepia": {
		"{give it|add} a sepia tone",
		"make {it|the {picture}} sepia",
		"turn the {picture} sepia",
		"make it look like an old sepia photo",
	},
	"invert": {
		"invert the colours",
		"make {it|the {picture}} a negative",
		"turn the {picture} into a negative",
		"{reverse|invert} all colours",
	},
	"pixelate": {
		"pixelate {it|the {picture}}",
		"make {it|the {picture}} {pixelated|blocky}",
		"turn the {picture} into large pixels",
	},

	"temperature/warmer": {
		"make {it|the {picture}|the colours} warmer",
		"give {it|the {picture}} a warmer tone",
		"add a warm tint",
		"warm up the colours",
	},
	"temperature/cooler": {
		"make {it|the {picture}|the colours} {cooler|colder}",
		"give {it|the {picture}} a {cooler|colder} tone",
		"add a cold tint",
		"cool down the colours",
	},
	"light/brighter": {
		"make {it|the {picture}} {brighter|lighter}",
		"brighten {it|the {picture}}",
		"increase the brightness",
		"add more light",
	},
	"light/darker": {
		"make {it|the {picture}} darker",
		"darken {it|the {picture}}",
		"{decrease|lower} the brightness",
	},
	"focus/blur": {
		"blur {it|the {picture}}",
		"make {it|the {picture}} {blurry|out of focus}",
		"put the {picture} out of focus",
	},
	"focus/sharpen": {
		"sharpen {it|the {picture}}",
		"make {it|the {picture}} {sharper|crisper}",
		"increase the sharpness",
	},
	"flip/horizontally": {
		"flip {it|the {picture}} horizontally",
		"mirror {it|the {picture}} left to right",
		"swap left and right",
	},
	"flip/vertically": {
		"flip {it|the {picture}} vertically",
		"mirror {it|the {picture}} top to bottom",
		"swap top and bottom",
	},

	"rotate/clockwise": {
		"rotate {it|the {picture}} 90 degrees clockwise",
		"turn {it|the {picture}} a quarter to the right",
	},
	"rotate/counterclockwise": {
		"rotate {it|the {picture}} 90 degrees counterclockwise",
		"turn {it|the {picture}} a quarter to the left",
	},
	"rotate/half": {
		"rotate {it|the {picture}} {180 degrees|by 180 degrees}",
		"turn {it|the {picture}} by half a turn",
	},

	"border": {
		"add a {colour} {border|frame}",
		"put a {colour} frame around {it|the {picture}}",
		"surround {it|the {picture}} with a {colour} border",
		"give {it|the {picture}} a {colour} {border|frame}",
	},
	"add": {
		"{add|put|draw|place} a {colour} {shape} {at|in} the {place}",
		"in the {place} {add|put|draw|place} a {colour} {shape}",
		"there should be a {colour} {shape} {at|in} the {place}",
	},
	"remove": {"{remove|delete|erase} the {shape}", "get rid of the {shape}", "take the {shape} away"},
	"recolour": {
		"{make|paint|colour} the {shape} {colour}",
		"change the {shape} to {colour}",
		"change the colour of the {shape} to {colour}",
		"turn the {shape} {colour}",
	},
	"move": {
		"move the {shape} to the {place}",
		"put the {shape} {in|at} the {place} instead",
		"shift the {shape} to the {place}",
	},
}

var pictureNames = []string{"picture", "photo", "image"}

func (e Edit) key() string {
	if e.Variant == "" {
		return string(e.Family)
	}
	return string(e.Family) + "/" + e.Variant
}

// ask words an edit as an instruction. Beside an edit of a shape it says "the picture", for "it" might be the shape.
func ask(rng *rand.Rand, e Edit, besideShape bool) string {
	text := pick(rng, templates[e.key()])
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

// article corrects the article of the one colour that begins with a vowel.
func article(text string) string { return strings.ReplaceAll(text, "a orange", "an orange") }

// Instruction words edits as one instruction. Unless it says "then", its parts stand in any order.
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

// styles are what captions say of effects.
var styles = map[string]string{
	"grey":                    "in black and white",
	"sepia":                   "in sepia",
	"invert":                  "as a negative",
	"pixelate":                "pixelated",
	"temperature/warmer":      "in warm colours",
	"temperature/cooler":      "in cold colours",
	"light/brighter":          "bright",
	"light/darker":            "dark",
	"focus/blur":              "blurry",
	"focus/sharpen":           "sharp",
	"flip/horizontally":       "flipped left to right",
	"flip/vertically":         "upside down",
	"rotate/clockwise":        "turned clockwise",
	"rotate/counterclockwise": "turned counterclockwise",
	"rotate/half":             "turned by 180 degrees",
}

// caption describes a scene, for encoders of pictures and texts.
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
			text += ", " + styles[e.key()]
		}
	}
	return article(text)
}

// changes are what descriptions of differences say, always in the same words: what is left to learn is in the pictures.
var changes = map[string]string{
	"grey":                    "grey",
	"sepia":                   "sepia",
	"invert":                  "negative",
	"pixelate":                "pixelated",
	"temperature/warmer":      "warmer",
	"temperature/cooler":      "cooler",
	"light/brighter":          "brighter",
	"light/darker":            "darker",
	"focus/blur":              "blurry",
	"focus/sharpen":           "sharper",
	"flip/horizontally":       "flipped horizontally",
	"flip/vertically":         "flipped vertically",
	"rotate/clockwise":        "turned clockwise",
	"rotate/counterclockwise": "turned counterclockwise",
	"rotate/half":             "turned by 180 degrees",
	"border":                  "{colour} border",
	"add":                     "{colour} {shape} added at the {place}",
	"remove":                  "{shape} removed",
	"recolour":                "{shape} changed to {colour}",
	"move":                    "{shape} moved to the {place}",
}

// describe says what was done, in the order of Families.
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
		text := strings.NewReplacer("{colour}", d.Colour, "{shape}", d.Shape, "{place}", d.Place).Replace(changes[d.key()])
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
