package protocol

import (
	"fmt"
	"strconv"
	"strings"
)

// Family holds the descriptions of some benchmarks and the numbers that papers print for them: the files
// benchmarks.txt and published.csv. They are part of the program: a mistake in them is a bug, and panics.
//
// A benchmark is a paragraph of lines "key: text", which continue in indented lines: name, title, needs, published,
// predicts, rule, flags, size, counted, lower, neutral, headline. They are fields of [Benchmark]; a list has a line for
// each element.
type Family struct{ Benchmarks, Published string }

// Benchmark returns the benchmark with a name, whose published data load reads.
func (f Family) Benchmark(name string, load func(Options) (Set, error)) *Benchmark {
	unfolded := strings.ReplaceAll(f.Benchmarks, "\n    ", " ")
	for paragraph := range strings.SplitSeq(unfolded, "\n\n") {
		if strings.HasPrefix(paragraph, "name: "+name+"\n") {
			return parse(paragraph, &Benchmark{Load: load, PublishedCSV: f.Published})
		}
	}
	panic("no benchmark is described as " + name)
}

func parse(paragraph string, b *Benchmark) *Benchmark {
	texts := map[string]*string{"name": &b.Name, "title": &b.Title, "published": &b.Published, "predicts": &b.Predicts,
		"headline": &b.Headline}
	lists := map[string]*[]string{"needs": &b.Needs, "rule": &b.Rules, "counted": &b.Counted, "lower": &b.Lower,
		"neutral": &b.Neutral}
	for line := range strings.Lines(paragraph) {
		key, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case texts[key] != nil:
			*texts[key] = text
		case lists[key] != nil:
			*lists[key] = append(*lists[key], text)
		case key == "flags":
			b.Flags = strings.Fields(text)
		case key == "size":
			size, err := strconv.Atoi(text)
			if err != nil {
				panic(err)
			}
			b.Size = size
		default:
			panic(fmt.Sprintf("%s: %q is not a key of a description", b.Name, key))
		}
	}
	return b
}
