package curate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// words are the five levels of a reward.
var words = [5]string{"one", "two", "three", "four", "five"}

// Template is the prompt that an editor is trained with. {instruction}, {word} (one to five), {level} (1 to 5),
// {level5} (the score mapped from 0..10 to 1..5, rounded) and {score} (0 to 10, one decimal) are replaced. A full stop
// after an instruction that ends with one is dropped.
type Template string

// Presets are the templates of published editors.
//
//   - adiee: as in ADIEE's released code, but a doubled full stop becomes one.
//   - hive: HIVE (Zhang et al. 2024).
//   - paper: ADIEE's section 3.4, the score normalised to 1..5 as a digit.
var Presets = map[string]Template{
	"adiee": "{instruction}. The image quality is {word} out of five.",
	"hive":  "{instruction}, image quality is {word} out of five",
	"paper": "{instruction} The image quality is {level5} out of five",
}

// level returns the level 1..5 of a score on 0..10, with the cuts 2, 4, 6, 8, 10: up to 2 is one, above 8 five.
func level(score10 float64) int {
	return int(min(max(math.Ceil(score10/2), 1), 5))
}

// Text fills in the template for a score on 0..10.
func (t Template) Text(instruction string, score10 float64) string {
	instruction = strings.TrimSpace(instruction)
	level := level(score10)
	clipped := min(max(score10, 0), 10)
	text := strings.NewReplacer(
		"{word}", words[level-1],
		"{level}", strconv.Itoa(level),
		"{level5}", strconv.Itoa(int(math.Round(1+4*clipped/10))),
		"{score}", strconv.FormatFloat(math.Abs(clipped), 'f', 1, 64), // no "-0.0"
	).Replace(string(t))
	parts := strings.Split(text, "{instruction}")
	for i := 1; i < len(parts) && strings.HasSuffix(instruction, "."); i++ {
		parts[i] = strings.TrimPrefix(parts[i], ".")
	}
	return strings.Join(parts, instruction)
}

// marks matches the placeholders of a template.
var marks = regexp.MustCompile(`\{[A-Za-z0-9_]*\}`)

// Check refuses a template without the instruction or without a score.
func (t Template) Check() error {
	if !strings.Contains(string(t), "{instruction}") {
		return fmt.Errorf("template %q: {instruction} is missing", t)
	}
	ofScore := []string{"{word}", "{level}", "{level5}", "{score}"}
	for _, mark := range marks.FindAllString(string(t), -1) {
		if mark != "{instruction}" && !slices.Contains(ofScore, mark) {
			return fmt.Errorf("template %q: %s is not one of {instruction}, %s", t, mark, strings.Join(ofScore, ", "))
		}
	}
	for _, mark := range ofScore {
		if strings.Contains(string(t), mark) {
			return nil
		}
	}
	return fmt.Errorf("template %q: one of {word}, {level}, {level5} and {score} is missing", t)
}

// RewardLabel is an edit with its reward, to train an editor on.
type RewardLabel struct {
	ID           string
	Source, Edit string   // picture files, relative to the folder of the labels
	References   []string // further sources
	Instruction  string
	Prompt       string // instruction and reward in words
	Score        float64
	Level        int
	Weight       float64 // sampling weight, with which all levels that occur are drawn equally often; the mean is 1
}

// repeated oversamples labels until every level that occurs has as many as the most frequent one. Each of n labels of
// a level comes floor(most/n) times; the remainder is drawn by the seed. All weights become 1.
func repeated(examples []RewardLabel, seed uint64) []RewardLabel {
	of := map[int][]int{}
	most := 0
	for i, e := range examples {
		of[e.Level] = append(of[e.Level], i)
		most = max(most, len(of[e.Level]))
	}
	times := make([]int, len(examples))
	rng := rand.New(rand.NewPCG(seed, 0xba1a))
	for level := 1; level <= len(words); level++ {
		rows := of[level]
		for rank, k := range rng.Perm(len(rows)) {
			times[rows[k]] = most / len(rows)
			if rank < most%len(rows) {
				times[rows[k]]++
			}
		}
	}
	var out []RewardLabel
	for i, e := range examples {
		e.Weight = 1
		out = append(out, slices.Repeat([]RewardLabel{e}, times[i])...)
	}
	return out
}

// balance sets the weights to the inverse frequency of each level: N / (levels count(level)).
func balance(examples []RewardLabel) {
	var counts [6]int
	levels := 0
	for _, e := range examples {
		if counts[e.Level]++; counts[e.Level] == 1 {
			levels++
		}
	}
	for i := range examples {
		examples[i].Weight = float64(len(examples)) / float64(levels*counts[examples[i].Level])
	}
}
