package house

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// pages lists the documentation whose links and commands are checked.
func pages(t *testing.T) []string {
	t.Helper()
	return filesBelow(t, ".md")
}

// block is a code block of a page, fenced or indented.
type block struct {
	line  int // of its first line, from 1
	text  string
	aside string // the reason in a comment <!-- not run: reason --> right above the block
}

var notRun = regexp.MustCompile(`^<!-- not run: (.+) -->$`)

// blocks returns the code blocks of a page, and its prose without them.
func blocks(text string) (code []block, prose string) {
	var open *block
	var rest strings.Builder
	fenced, blank, aside := false, true, ""
	for i, line := range strings.Split(text, "\n") {
		fence := strings.HasPrefix(line, "```")
		inside, indented := strings.CutPrefix(line, "    ")
		switch {
		case fence && fenced:
			fenced, open = false, nil
		case fence:
			fenced = true
			code = append(code, block{line: i + 2, aside: aside})
			open = &code[len(code)-1]
		case fenced:
			open.text += line + "\n"
		case indented && (open != nil || blank):
			if open == nil {
				code = append(code, block{line: i + 1, aside: aside})
				open = &code[len(code)-1]
			}
			open.text += inside + "\n"
		case line == "" && open != nil:
			open.text += "\n"
		default:
			open = nil
			rest.WriteString(line + "\n")
		}
		blank = line == ""
		if m := notRun.FindStringSubmatch(line); m != nil {
			aside = m[1]
		} else if !blank {
			aside = ""
		}
	}
	return code, rest.String()
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	spans   = regexp.MustCompile("`[^`\n]*`")
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchors returns the anchors that GitHub generates for a page's headings.
func anchors(prose string) map[string]bool {
	names := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(prose, -1) {
		var name strings.Builder
		for _, r := range strings.ToLower(linked.ReplaceAllString(m[1], "$1")) {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				name.WriteRune(r)
			case r == ' ':
				name.WriteRune('-')
			}
		}
		unique := name.String()
		for n := 1; names[unique]; n++ {
			unique = fmt.Sprintf("%s-%d", name.String(), n)
		}
		names[unique] = true
	}
	return names
}

// TestLinks checks the target of every relative link in the documentation, and its heading if the link has a
// fragment.
func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		_, prose := blocks(string(read(t, page)))
		for _, m := range link.FindAllStringSubmatch(spans.ReplaceAllString(prose, ""), -1) {
			to, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: link %s: got error %v, want none", page, m[1], err)
				continue
			}
			if to.Scheme != "" {
				continue
			}
			target := page
			if to.Path != "" {
				target = path.Join(path.Dir(page), to.Path)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
				t.Errorf("%s: link %s: got nothing at %s, want a file", page, m[1], target)
				continue
			}
			if to.Fragment == "" || path.Ext(target) != ".md" {
				continue
			}
			if _, prose := blocks(string(read(t, target))); !anchors(prose)[to.Fragment] {
				t.Errorf("%s: link %s: got no heading #%s in %s, want one", page, m[1], to.Fragment, target)
			}
		}
	}
}

// TestPathsOfOneMachine: results written by scripts contain no paths of the machine that they ran on.
func TestPathsOfOneMachine(t *testing.T) {
	for _, page := range pages(t) {
		if filepath.Base(page) != "small.md" {
			continue
		}
		if at := ownPath.FindString(string(read(t, page))); at != "" {
			t.Errorf("%s: got the path %q of one machine, want none", page, at)
		}
	}
}

var ownPath = regexp.MustCompile(`(?m)(?:^|[\s=])/(?:tmp|work|home|root)/\S*`)

// TestNamedPages checks that the pages named in messages, help texts and comments of Go files exist.
func TestNamedPages(t *testing.T) {
	named := regexp.MustCompile(`\bdocs/[\w/-]+\.md\b`)
	for name, text := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, page := range named.FindAllString(string(text), -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(page))); err != nil {
				t.Errorf("%s names %s: %v", name, page, err)
			}
		}
	}
}

var place = regexp.MustCompile("`([a-z_]+)(/[\\w./-]+)`")

// elsewhere are paths that are not below the repository root: in a package, or in a run directory.
var elsewhere = map[string]bool{"testdata/fuzz": true, "checkpoints/step-N/": true}

// TestPlaces checks that files and packages of this repository that the documentation names in code quotes exist.
func TestPlaces(t *testing.T) {
	for _, page := range pages(t) {
		if page == "CHANGELOG.md" {
			continue // describes the past
		}
		_, prose := blocks(string(read(t, page)))
		for _, m := range place.FindAllStringSubmatch(prose, -1) {
			_, err := os.Stat(filepath.Join(root, m[1]))
			users := strings.HasPrefix(page, "reproduce/") && (m[1] == "data" || m[1] == "backbones")
			if err != nil || m[1] == "build" || m[1] == "bin" || users || elsewhere[m[1]+m[2]] {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, m[1]+m[2])); err != nil {
				t.Errorf("%s: got %s%s, want an existing file", page, m[1], m[2])
			}
		}
	}
}

func TestBlocks(t *testing.T) {
	code, prose := blocks("# A b\n\n    one\n\n    two\n\n" +
		"text\n    no block\n<!-- not run: slow -->\n```\nthree\n```\n")
	want := []block{{3, "one\n\ntwo\n\n", ""}, {11, "three\n", "slow"}}
	if fmt.Sprint(code) != fmt.Sprint(want) || !strings.Contains(prose, "no block") || !anchors(prose)["a-b"] {
		t.Errorf("got %+v, prose %q, want %+v, and the prose without the code", code, prose, want)
	}
}
