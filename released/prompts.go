package released

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/exit"
	"assay/internal/pystring"
)

// prompt is the prompt template of a judge as in its code, with the field {text_prompt}.
type prompt struct {
	name     string // of the dimension
	variable string // in the judge's Python code
	file     string // in a folder of texts
	code     string // file of the judge's code that contains the variable
	sha256   string // of the published template with its suffix; "": not known
}

// suffix names what the judge's code appends to its templates, with the token whose state is read.
const suffix = "prompt_with_special_token"

// collator is the file of EditReward's code that contains the suffix, next to the file of the templates.
const collator = "data_collator_qwen_edit.py"

// readPrompts reads the templates of a judge: from a folder of texts, a Python file, or, for a single prompt, a text.
func readPrompts(path, token string, want []prompt) (texts []string, err error) {
	if path == "" {
		return nil, exit.Usage(errors.New("--prompts is needed: the judge's own, from your copy of its code: " +
			"a Python file, or a folder of texts"))
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("--prompts: %w", err)
	}
	switch {
	case info.IsDir():
		texts, err = promptFolder(path, token, want)
	case filepath.Ext(path) == ".py":
		texts, err = promptCode(path, token, want)
	case len(want) == 1:
		texts, err = promptFiles([]string{path})
	default:
		err = fmt.Errorf("want a Python file or a folder with %s and %s", want[0].file, want[1].file)
	}
	if err != nil {
		return nil, fmt.Errorf("--prompts %s: %w", path, err)
	}
	for i, text := range texts {
		if n := strings.Count(text, token); n != 1 {
			return nil, fmt.Errorf("--prompts %s: the prompt of %s contains the token %s %d times: want once (the code appends "+
				"%s to its templates)", path, want[i].name, token, n, suffix)
		}
	}
	return texts, nil
}

// promptFolder reads a folder of texts or, if there are none, the file of the judge's code in it.
func promptFolder(dir, token string, want []prompt) ([]string, error) {
	code := filepath.Join(dir, want[0].code)
	if _, err := os.Stat(filepath.Join(dir, want[0].file)); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(code); err == nil {
			return promptCode(code, token, want)
		}
	}
	var paths []string
	for _, p := range want {
		paths = append(paths, filepath.Join(dir, p.file))
	}
	return promptFiles(paths)
}

func promptFiles(paths []string) (texts []string, err error) {
	for _, p := range paths {
		raw, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(raw))
	}
	return texts, nil
}

// promptCode reads the templates by name from Python code, and appends the suffix to those that lack the token.
func promptCode(path, token string, want []prompt) ([]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	source := string(raw)
	var texts []string
	for _, p := range want {
		text, err := pystring.Plain(source, p.variable)
		if err != nil {
			return nil, err
		}
		if !strings.Contains(text, token) {
			end, err := findSuffix(source, path)
			if err != nil {
				return nil, err
			}
			text += end
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// findSuffix looks for the suffix in the code of the templates, then in the file next to it that contains it as
// published.
func findSuffix(source, path string) (string, error) {
	text, err := pystring.Plain(source, suffix)
	if !errors.Is(err, pystring.ErrAbsent) {
		return text, err
	}
	beside := filepath.Join(filepath.Dir(path), collator)
	raw, err := os.ReadFile(beside)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is neither a string %s, which follows the templates, nor a file %s", suffix, beside)
	} else if err != nil {
		return "", err
	}
	if text, err = pystring.Plain(string(raw), suffix); err != nil {
		err = fmt.Errorf("%s: %w", beside, err)
	}
	return text, err
}

// published compares texts with the published ones. It returns their digests by name, and warnings about texts that
// differ, or whose published version is not known.
func published(texts []string, want []prompt) (digests map[string]string, same bool, warnings []string) {
	digests, same = map[string]string{}, true
	for i, p := range want {
		digests[p.name] = digest(texts[i])
		switch {
		case p.sha256 == "":
			same = false
			warnings = append(warnings, fmt.Sprintf("the published prompt of %s is not known here: yours (SHA-256 %s) "+
				"cannot be compared with it", p.name, digests[p.name]))
		case p.sha256 != digests[p.name]:
			same = false
			warnings = append(warnings, fmt.Sprintf("the prompt of %s (SHA-256 %s) is not the published one (%s): the score is "+
				"not the published one either", p.name, digests[p.name], p.sha256))
		}
	}
	return digests, same, warnings
}
