package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"assay/internal/atomicfile"
)

// wording takes the questions and answers of a scorer from the user's copy of ADIEE's paper, which is not in this
// repository, and puts them into configurations in place.
type wording struct{ from string }

// worded describes the wording that was found.
type worded struct {
	Questions int  `json:"questions"`
	Answers   int  `json:"answers"`
	Published bool `json:"published"` // the wording matches the paper, by its digest
}

// paperWording is the SHA-256 of the quoted lines of arXiv 2507.07317, appendix B, each with a line feed.
const paperWording = "51e0e42b00efc84673e1e43c498e0d82a4af5ca93a93bd3a20f3b82f0b528073"

// quoted matches a line that is one quoted text with a placeholder, as in a list of a paper or program.
var quoted = regexp.MustCompile(`^[\s•*,\-]*["“”'](.*\[(INSTRUCTION|SCORE)\].*)["“”'][\s,.]*$`)

// read finds the texts. As in the released code, the instruction is in double quotes, and an answer follows the
// generation prompt after a space and ends with a full stop.
func (f *wording) read() (questions, answers []string, published bool, err error) {
	raw, err := os.ReadFile(f.from)
	if err != nil {
		return nil, nil, false, err
	}
	sum := sha256.New()
	for line := range strings.Lines(string(raw)) {
		m := quoted.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if m == nil {
			continue
		}
		io.WriteString(sum, m[1]+"\n")
		text := strings.TrimSpace(m[1])
		if m[2] == "INSTRUCTION" {
			if !strings.Contains(text, `"[INSTRUCTION]"`) {
				text = strings.ReplaceAll(text, "[INSTRUCTION]", `"[INSTRUCTION]"`)
			}
			questions = append(questions, text)
			continue
		}
		answers = append(answers, " "+strings.TrimSuffix(text, ".")+".")
	}
	if len(questions) == 0 || len(answers) == 0 {
		return nil, nil, false, fmt.Errorf("%s: found %d questions with [INSTRUCTION] and %d answers with [SCORE], each a "+
			"quoted line: want at least one of each", f.from, len(questions), len(answers))
	}
	return questions, answers, hex.EncodeToString(sum.Sum(nil)) == paperWording, nil
}

func (f *wording) write(files []string) (*worded, error) {
	questions, answers, published, err := f.read()
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		text := string(raw)
		for key, list := range map[string][]string{"question": questions, "answer": answers} {
			if text, err = replaced(text, key, list); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
		if err := atomicfile.WriteBytes(file, []byte(text)); err != nil {
			return nil, err
		}
	}
	return &worded{len(questions), len(answers), published}, nil
}

// replaced replaces the list of texts under a key of a configuration; everything else, including comments, is
// unchanged.
func replaced(text, key string, list []string) (string, error) {
	at := regexp.MustCompile(`(?m)^`+key+`:.*\n(?:[ \t]+.*\n)*`).FindAllStringIndex(text, -1)
	if len(at) != 1 {
		return "", fmt.Errorf("%d keys %q: want one", len(at), key)
	}
	var b strings.Builder
	b.WriteString(key + ":\n")
	for _, t := range list {
		b.WriteString("  - '" + strings.ReplaceAll(t, "'", "''") + "'\n")
	}
	return text[:at[0][0]] + b.String() + text[at[0][1]:], nil
}
