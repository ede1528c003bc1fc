package mvei

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/benchmarks/protocol"
	"assay/internal/jsonfile"
)

// Read implements Set.
func (s *statements) Read(path string) (protocol.Predictions, error) {
	answers, seen := map[int]string{}, map[int]string{}
	set := func(r *protocol.Line, i int, answer string) {
		if first, ok := seen[i]; ok {
			r.Fail("a second answer for %v (the first is in %s)", s.keys[i], first)
			return
		}
		seen[i], answers[i] = r.Where, answer
	}
	err := protocol.EachLine(path, func(r *protocol.Line) error {
		if r.Has("statement_list") {
			e, err := entryOf(r)
			for k, st := range e.Statements {
				i, ok := s.index[e.ImageID+"#"+strconv.Itoa(k)]
				if !ok || s.text[i] != st.Statement { // in another order
					i, ok = s.index[e.ImageID+"\n"+st.Statement]
				}
				if !ok {
					r.Fail("statement %d of %s is not in the data", k, e.ImageID)
				} else if st.Predict != nil {
					set(r, i, *st.Predict)
				}
			}
			return err
		}
		i, err := s.find(r)
		if err != nil {
			return err
		}
		answer, field := "", r.First("answer", "predict", "generation")
		if r.Has(field) {
			answer = r.Text(field)
		} else if _, ok := r.Fields[field]; !ok {
			return errors.New("there is no \"answer\"")
		}
		if r.OneOf("answer", "predict", "generation"); r.Err() == nil {
			set(r, i, answer)
		}
		return nil
	})
	return &statementsPredictions{s, answers}, err
}

// find returns the statement that a line names: by IMAGE#k, by the picture with the text or the place of the statement,
// or by its place among all. A name that the rest of the line contradicts is an error.
func (s *statements) find(r *protocol.Line) (i int, err error) {
	said := map[string]string{}
	for _, field := range []string{"id", "image_id", "index", "statement_index", "statement"} {
		if r.Has(field) {
			said[field] = r.ID(field)
		}
	}
	if r.Err() != nil {
		return 0, r.Err()
	}
	image := cmp.Or(said["image_id"], said["id"])
	if image == "" {
		return 0, errors.New("there is no \"id\", and no \"image_id\"")
	}
	i, ok := s.index[said["id"]]
	for _, key := range []string{image + "\n" + said["statement"],
		image + "#" + cmp.Or(said["index"], said["statement_index"])} {
		if !ok {
			i, ok = s.index[key]
		}
	}
	if at, err := strconv.Atoi(image); !ok && err == nil && !r.Has("image_id") && at >= 0 && at < len(s.keys) {
		i, ok = at, true
	}
	text := said["statement"]
	switch {
	case !ok:
		return 0, fmt.Errorf("%q is not a statement: want an id such as %q, or image_id and statement", image,
			s.keys[0].ID)
	case text != "" && text != s.text[i], r.Has("image_id") && image != s.image[i]:
		return 0, fmt.Errorf("%v is not the statement %q of %q, as the line says: want one statement",
			s.keys[i],
			text, image)
	}
	return i, nil
}

// The parsed values of an answer.
const (
	positive = "correct"
	negative = "incorrect"
	abstain  = "abstain"
)

// parseKeyword parses an answer by its keywords.
func parseKeyword(answer string) string {
	switch answer = strings.ToLower(answer); {
	case strings.Contains(answer, "incorrect"):
		return negative
	case strings.Contains(answer, "correct"):
		return positive
	}
	return abstain
}

var (
	answerTag = regexp.MustCompile(`(?is)<answer>(.*?)</answer>`)
	lastTag   = regexp.MustCompile(`(?i)<answer>|</think>`)
	loneA     = regexp.MustCompile(`A|(^|[^A-Za-z])a($|[^A-Za-z])`)
	loneB     = regexp.MustCompile(`B|(^|[^A-Za-z])b($|[^A-Za-z])`)
)

// parseTagged reads an answer inside <answer> tags: the first complete one; else the text after the last <answer> or
// </think>; else all of it. Words count first, then the letters A and B.
func parseTagged(answer string) string {
	if m := answerTag.FindStringSubmatch(answer); m != nil {
		answer = m[1]
	} else {
		if tags := lastTag.FindAllStringIndex(answer, -1); tags != nil {
			answer = answer[tags[len(tags)-1][1]:]
		}
	}
	if read := parseKeyword(answer); read != abstain {
		return read
	}
	switch {
	case loneA.MatchString(answer):
		return positive
	case loneB.MatchString(answer):
		return negative
	}
	return abstain
}

// WriteAuthors implements Writer: MVEI_predict.json, the data with the answers as "predict".
func (j *statementsPredictions) WriteAuthors(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	at := 0
	var out []map[string]json.RawMessage
	for _, r := range j.entries {
		var list []map[string]json.RawMessage
		if err := json.Unmarshal(r.Fields["statement_list"], &list); err != nil {
			return fmt.Errorf("%s: %w", r.Where, err)
		}
		for _, st := range list {
			delete(st, "predict")
			if answer, ok := j.answers[at]; ok {
				raw, err := json.Marshal(answer)
				if err != nil {
					return err
				}
				st["predict"] = raw
			}
			at++
		}
		raw, err := json.Marshal(list)
		if err != nil {
			return err
		}
		entry := maps.Clone(r.Fields)
		entry["statement_list"] = raw
		out = append(out, entry)
	}
	return jsonfile.Write(filepath.Join(dir, "MVEI_predict.json"), out)
}

// Answer implements Teachable.
func (s *statements) Answer(i int, words []string) (string, error) {
	read := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return parseKeyword(word) != s.label[i] })
	if len(read) != 1 {
		return "", fmt.Errorf("the statement is %s: want exactly one answer among the judge's %s that says so",
			s.label[i], strings.Join(words, ", "))
	}
	return read[0], nil
}
