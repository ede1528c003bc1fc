package protocol

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// checkMixed refuses pairs with only an answer if others have scores, and the reverse: a rule would treat the other
// kind as missing.
func (j *PairPredictions) checkMixed(answered map[int]string, scored map[Slot]string, list *Problems) {
	for i, id := range j.IDs {
		answer, isAnswered := answered[i]
		score, isScored := scored[Slot{i, 0}]
		if !isScored {
			score, isScored = scored[Slot{i, 1}]
		}
		switch {
		case isAnswered && !isScored:
			list.Add(answer, "the pair %s has an answer but no scores, and others have scores: give answers and scores in "+
				"separate files, or both for every pair", id)
		case isScored && !isAnswered:
			list.Add(score, "the pair %s has scores but no answer, and others have answers: give answers and scores in "+
				"separate files, or both for every pair", id)
		}
	}
}

func (j *PairPredictions) readAnswer(r *Line, pair int, answered map[int]string) error {
	if first, ok := answered[pair]; ok {
		return fmt.Errorf("a second answer for %s (the first is in %s): want one", j.IDs[pair], first)
	}
	answered[pair] = r.Where
	j.answered[pair], j.anyAnswer = true, true
	if !r.Has("answer") {
		return nil // null: no answer
	}
	j.Answer[pair] = verdictOf(r.Text("answer"))
	return r.err
}

// bracketed is the pattern that GenAI-Bench's inference.py searches in a model's answer: the first line with a match,
// the longest match in it.
var bracketed = regexp.MustCompile(`\[\[.*\]\]`)

// verdictOf returns the verdict of an answer: the text in double brackets, verbatim, or the full answer if it has no
// brackets, such as A>B or A > B.
func verdictOf(answer string) string {
	if m := bracketed.FindString(answer); m != "" {
		return m[2 : len(m)-2]
	}
	if strings.Contains(answer, "[") {
		return answer // it has no verdict
	}
	return strings.ReplaceAll(strings.TrimSpace(answer), " ", "")
}

// answerNotes reports how many pairs have no answer, or one that the rule does not know: both count as wrong.
func (j *PairPredictions) answerNotes(rule PairRule) []string {
	return AnswerNotes(rule.Name+": ", j, func(i int) bool { return slices.Contains(rule.known, j.Answer[i]) })
}

// AnswerNotes reports how many pairs have no answer, or one that is not known; both count as wrong.
func AnswerNotes(rule string, j *PairPredictions, known func(i int) bool) (notes []string) {
	none, unreadable := 0, map[string]int{}
	total := 0
	for i := range j.IDs {
		switch {
		case j.Answer[i] == "":
			none++
		case !known(i):
			unreadable[j.Answer[i]]++
			total++
		}
	}
	if none > 0 && len(j.Rules) > 0 {
		notes = append(notes, fmt.Sprintf("%s%d of %d pairs have no answer, which counts as wrong", rule, none,
			len(j.IDs)))
	}
	if total > 0 {
		texts := slices.Sorted(maps.Keys(unreadable))
		for k := range texts {
			texts[k] = strconv.Quote(texts[k])
		}
		more := ""
		if len(texts) > 5 {
			texts, more = texts[:5], ", ..."
		}
		notes = append(notes, fmt.Sprintf("%s%d answers are unreadable and count as wrong: %s%s", rule, total,
			strings.Join(texts, ", "), more))
	}
	return notes
}
