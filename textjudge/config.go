// Package textjudge implements VLM judges: a vision-language model is asked about an edit, a strict grammar reads its
// text answers, and a rule computes a score from their numbers.
//
// A judge is a folder: judge.yaml and the prompts it names. Some judges ship with the program and are opened by name.
// An answer that does not follow the grammar, is out of range or was cut off is requested again with other seeds. If
// that fails too, the result is an error that keeps the answers' texts; it never becomes a number.
package textjudge

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/strictyaml"
)

// Config is a judge.yaml.
type Config struct {
	Format int    `yaml:"format"` // 1
	Kind   string `yaml:"kind"`   // text
	Name   string `yaml:"name"`
	Rule   string `yaml:"rule"`  // the name of the rule that computes scores
	About  string `yaml:"about"` // what it is, for people
	Pair   bool   `yaml:"pair"`  // asks which of edit and edit2 is better, in both orders

	Kinds []string `yaml:"kinds"` // of edits that questions may be asked about; none: edits have no kind

	// Component is the benchmark component that the score, class or numbers measure; "": none, or numbers are named
	// after components.
	Component string `yaml:"component" json:",omitempty"`

	Questions    []Question `yaml:"questions"`
	Scale        []float64  `yaml:"scale"`          // that the numbers' ranges are mapped to; none: unchanged
	Dimensions   []Derived  `yaml:"dimensions"`     // of each pass, in addition to the answers' own numbers
	Score        Formula    `yaml:"score"`          // of each pass; none: the judge names a class, or has only numbers
	ScoreOfMeans Formula    `yaml:"score_of_means"` // for average: first
	ScoreRange   []float64  `yaml:"score_range"`    // mapped to 0 and 1; none without a score

	Passes  int    `yaml:"passes"`  // how often every question is asked
	Average string `yaml:"average"` // last or first
	Repeats int    `yaml:"repeats"` // of a question whose answer is unreadable, with other seeds
	Seed    uint64 `yaml:"seed"`    // of the first pass; each next pass has the next seed

	Options Sampling `yaml:"options"`

	// Constrained masks tokens by the grammars during decoding, so that every answer is readable.
	Constrained bool `yaml:"constrained" json:",omitempty"` // omitted if unset, so that older fingerprints stay valid
}

// Question is asked in every pass.
type Question struct {
	Name     string    `yaml:"name"`
	Pictures []string  `yaml:"pictures"` // roles: sources, source, edit, edit2 ..., reference; or files, as ./a.png
	Kinds    []string  `yaml:"kinds"`    // it is asked about; none: all
	Prompt   string    `yaml:"prompt"`   // a Jinja file in the folder, with {{ instruction }}; "": published only
	Captions []string  `yaml:"captions"` // one text before each picture; may be empty
	Last     bool      `yaml:"pictures_last"`
	Answer   Grammar   `yaml:"answer"`
	Released *Released `yaml:"released"` // the published prompt, for users with a copy of its code
}

// Sampling holds the sampling options of answers. Unset options are left to the model.
type Sampling struct {
	MaxNewTokens      int      `yaml:"max_new_tokens" json:"max_new_tokens"`
	Temperature       *float64 `yaml:"temperature" json:"temperature"`
	TopK              *int     `yaml:"top_k" json:"top_k"`
	TopP              *float64 `yaml:"top_p" json:"top_p"`
	RepetitionPenalty *float64 `yaml:"repetition_penalty" json:"repetition_penalty"`
	Stop              []string `yaml:"stop" json:"stop"`
}

//go:embed shipped
var shipped embed.FS

// Shipped returns the names of the judges that ship with the program, sorted: a folder's name for its judge.yaml,
// folder/name for another name.yaml in it.
func Shipped() []string {
	files, _ := fs.Glob(shipped, "shipped/*/*.yaml") // the pattern is valid
	var names []string
	for _, f := range files {
		f = strings.TrimPrefix(f, "shipped/")
		names = append(names, strings.TrimSuffix(strings.TrimSuffix(f, ".yaml"), "/judge"))
	}
	slices.Sort(names)
	return names
}

// find opens the folder of a judge: a folder or file on disk, or a shipped judge by name.
func find(name string) (folder fs.FS, file string, err error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return os.DirFS(name), "judge.yaml", nil
	case err == nil:
		return os.DirFS(filepath.Dir(name)), filepath.Base(name), nil
	case !slices.Contains(Shipped(), name):
		return nil, "", fmt.Errorf("%s: no such file or folder, and no shipped judge has that name (shipped: %s)",
			name, strings.Join(Shipped(), ", "))
	}
	dir, file := path.Split(name)
	if file += ".yaml"; dir == "" {
		dir, file = name, "judge.yaml"
	}
	folder, err = fs.Sub(shipped, path.Join("shipped", dir))
	return folder, file, err
}

// Is reports whether a name is a judge: a shipped judge, a folder with a judge.yaml, or a file of the same kind.
func Is(name string) bool {
	folder, file, err := find(name)
	if err != nil {
		return false
	}
	raw, err := fs.ReadFile(folder, file)
	var c struct{ Kind string }
	return err == nil && yaml.Unmarshal(raw, &c) == nil && c.Kind == "text"
}

// readConfig reads a judge.yaml; its error lists all problems at once.
func readConfig(folder fs.FS, file, shown string) (*Config, error) {
	raw, err := fs.ReadFile(folder, file)
	if err != nil {
		return nil, err
	}
	c := &Config{Passes: 1, Average: AverageLast}
	d := strictyaml.Decode(shown, raw, c)
	if !d.Unreadable {
		c.check(d.Problem)
	}
	return c, d.Err()
}

// role matches the roles of the pictures that a question may show; it may also show files.
var role = regexp.MustCompile(`^(sources|source|source[2-9]|edit|edit[2-9]|reference)$`)

// isFile reports whether a picture is a file of the folder; otherwise it is a role.
func isFile(picture string) bool { return strings.HasPrefix(picture, "./") }

// check checks everything that the types do not enforce.
func (c *Config) check(problem func(key, format string, args ...any)) {
	if c.Format != 1 {
		problem("format", "%d: want 1", c.Format)
	}
	if c.Kind != "text" {
		problem("kind", "%q: want text", c.Kind)
	}
	if c.Name == "" || c.Rule == "" {
		problem("name", "name and rule are required: results contain them")
	}
	if len(c.Questions) == 0 {
		problem("questions", "none given")
	}
	known := c.checkQuestions(problem)
	if len(c.Scale) != 0 && (len(c.Scale) != 2 || !(c.Scale[0] < c.Scale[1])) {
		problem("scale", "%v: want the minimum and the maximum", c.Scale)
	}
	for i, d := range c.Dimensions {
		key := fmt.Sprintf("dimensions[%d]", i)
		checkFormula(key, d.formula(), known, problem)
		if d.Name == "" || known[d.Name] {
			problem(key+".name", "%q: want a name that no other number has", d.Name)
		}
		known[d.Name] = true
	}
	c.checkScore(known, problem)
	if c.Pair && !slices.Equal(c.ScoreRange, []float64{0, 1}) {
		problem("score_range", "of a pair: want [0, 1], where 1 means that the first edit shown is better")
	}
	c.checkPasses(problem)
}

// checkScore checks how the score is computed, or that there is a class or a number instead of a score.
func (c *Config) checkScore(known map[string]bool, problem func(key, format string, args ...any)) {
	classes := 0
	for i := range c.Questions {
		for _, v := range c.Questions[i].Answer.values() {
			classes += min(len(v.Classes), 1)
		}
	}
	switch {
	case classes > 1 || classes == 1 && (c.Passes > 1 || c.Scores() || len(known) > 0):
		problem("questions", "classes: want one such answer, in one pass, in a judge without numbers and score")
	case c.Scores():
		checkFormula("score", &c.Score, known, problem)
		if len(c.ScoreRange) != 2 || !(c.ScoreRange[0] < c.ScoreRange[1]) {
			problem("score_range", "%v: want the scores that become 0 and 1", c.ScoreRange)
		}
	case len(c.ScoreRange) > 0 || c.Pair || c.ScoreOfMeans.By != "" || c.Average == AverageFirst,
		classes+len(known) == 0:
		problem("score", "is required, except for judges that name a class or only return numbers")
	}
	if c.ScoreOfMeans.By != "" || c.Average == AverageFirst {
		checkFormula("score_of_means", &c.ScoreOfMeans, known, problem)
	}
}

// Scores reports whether the judge computes a score. Other judges name a class, or only return numbers.
func (c *Config) Scores() bool { return c.Score.By != "" || len(c.Score.Of) > 0 }

func (c *Config) checkPasses(problem func(key, format string, args ...any)) {
	greedy := c.Options.Temperature != nil && *c.Options.Temperature == 0
	if c.Passes < 1 || c.Passes > 1 && greedy {
		problem("passes", "%d: want 1 or more, and only 1 at temperature 0, where all passes are the same", c.Passes)
	}
	if c.Average != AverageLast && c.Average != AverageFirst {
		problem("average", "%q: want last (the mean of the passes' scores) or first (the score of their means)", c.Average)
	}
	if c.Repeats < 0 || c.Repeats > 0 && greedy {
		problem("repeats", "%d: want 0 or more, and 0 at temperature 0, where every answer is the same", c.Repeats)
	}
	if c.Constrained && len(c.Options.Stop) > 0 {
		problem("options.stop", "not allowed in a constrained judge: an answer ends where its grammar ends; leave stop out")
	}
	if c.Options.MaxNewTokens < 0 {
		problem("options.max_new_tokens", "%d: want 0 (the model's default) or more", c.Options.MaxNewTokens)
	}
}

// checkPictures checks which pictures a question shows, and their captions.
func (c *Config) checkPictures(key string, q *Question, problem func(key, format string, args ...any)) {
	for _, p := range q.Pictures {
		if !isFile(p) && !role.MatchString(p) {
			problem(
				key+".pictures",
				"%q: want sources, source, source2 to source9, edit, edit2 to edit9, reference, or a file like ./example.png",
				p,
			)
		}
	}
	if slices.Contains(q.Pictures, allSources) && slices.ContainsFunc(q.Pictures, isSource) {
		problem(key+".pictures", "sources includes every source: leave source, source2 ... out")
	}
	if c.Pair && (!slices.Contains(q.Pictures, "edit") || !slices.Contains(q.Pictures, "edit2")) {
		problem(key+".pictures", "of a pair: want edit and edit2 among them")
	}
	if len(q.Captions) != 0 && len(q.Captions) != len(q.Pictures) {
		problem(key+".captions", "%d for %d pictures: want one per picture", len(q.Captions), len(q.Pictures))
	}
}

func (c *Config) checkQuestion(
	key string, q *Question, known map[string]bool, problem func(key, format string, args ...any),
) (own []string) {
	if q.Name == "" {
		problem(key+".name", "is required")
	}
	if q.Prompt == "" && q.Released == nil {
		problem(key+".prompt", "is required: a Jinja file in this folder")
	}
	c.checkPictures(key, q, problem)
	q.Answer.check(key+".answer", problem)
	for name, v := range q.Answer.values() {
		at := key + ".answer.object." + name
		if q.Answer.Value != nil {
			at = key + ".answer.value"
		}
		if q.Answer.Lines != nil {
			at = key + ".answer.lines"
		}
		v.check(at, problem)
		for _, n := range v.names() {
			if known[n] || n == "" {
				problem(at, "%q: want a name that no other number has", n)
			}
			own = append(own, n)
		}
	}
	if _, one, _ := q.Answer.two(); q.Answer.Forgiving && one == "" {
		problem(key+".answer.forgiving", "want an object of a text and one value of numbers")
	}
	return own
}

func (v *Value) check(key string, problem func(key, format string, args ...any)) {
	kinds := 0
	for _, is := range []bool{len(v.List) > 0, v.Number != "", len(v.Choice) > 0, len(v.Classes) > 0, v.Text} {
		if is {
			kinds++
		}
	}
	if kinds != 1 {
		problem(key, "want one of list, number, choice, classes and text")
	}
	ranged := len(v.List) > 0 || v.Number != ""
	if ranged != (len(v.Range) == 2) || len(v.Range) == 2 && !(v.Range[0] < v.Range[1]) {
		problem(key+".range", "%v: want the minimum and the maximum for lists and numbers, and no range otherwise", v.Range)
	}
	if (v.As != "") != (len(v.Choice) > 0) || v.Within && len(v.Choice) == 0 {
		problem(key+".as", "%q: want the name of a choice's number", v.As)
	}
}

func checkFormula(key string, f *Formula, known map[string]bool, problem func(key, format string, args ...any)) {
	if formulas[f.By] == nil {
		problem(key+".by", "%q: want one of %s", f.By, strings.Join(slices.Sorted(maps.Keys(formulas)), ", "))
	}
	if len(f.Of) == 0 {
		problem(key+".of", "want names of numbers")
	}
	for _, name := range f.Of {
		if !known[name] {
			problem(key+".of", "%q: no number has that name (there are %s)", name,
				strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
}
