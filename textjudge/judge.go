package textjudge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/grammar"
	"assay/internal/store"
)

// Judge asks a model about edits. It is safe for concurrent use.
type Judge struct {
	Config   Config
	Workers  int      // edits that Score asks about at a time; 0: one
	Asks     string   // which prompts: "own", "published", or "altered" (a copy that differs from the published text)
	Warnings []string // at most one: names the prompts that differ from the published ones

	model       chat.Model
	prompts     []*prompt                // by question
	files       map[string]*data.Picture // pictures in the folder
	fingerprint string

	promptsDigest string
	languages     []*grammar.Grammar // by question; only with constrained answers
	few           *fewShot           // nil: none
}

// Settings override or complete what a judge.yaml sets.
type Settings struct {
	Copy    string // folder with the code that the prompts were published with; "": our own prompts
	Passes  int    // overrides the configured number; 0: as configured
	Average string // overrides the configured average; "": as configured

	Constrained bool // grammars mask tokens, even if the judge.yaml does not ask for it

	FewShot  string // conversations (.jsonl); the first ones are shown as earlier turns; "": none
	Examples int    // how many; 0: 8
}

// defaultExamples is the number of examples if none is given.
const defaultExamples = 8

// Open opens a judge (a folder, a judge.yaml or the name of a shipped judge) on a model, which the caller still owns
// and closes.
func Open(name string, m chat.Model, s Settings) (*Judge, error) {
	j, parts, err := read(name, s)
	if err != nil {
		return nil, err
	}
	j.model = m
	if chat.Frames(m) {
		if err := j.Config.checkFrames(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if s.FewShot != "" {
		few, err := j.readFewShot(s.FewShot, cmp.Or(s.Examples, defaultExamples))
		if err != nil {
			return nil, fmt.Errorf("examples: %w", err)
		}
		parts = append(parts, few...)
	}
	settings, err := json.Marshal(j.Config) // map keys are sorted
	if err != nil {
		return nil, err
	}
	if j.Config.Constrained {
		if j.languages, err = j.Config.languages(m); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	version := "textjudge-1"
	if len(j.Config.Scale) > 0 && len(j.Config.Kinds) > 0 { // textjudge-1 mapped all kinds from one question's range
		version = "textjudge-2"
	}
	all := slices.Concat([]string{version, m.Fingerprint()}, parts, []string{string(settings)})
	j.fingerprint = store.KeyOf(all...).String()
	j.promptsDigest = store.KeyOf(parts...).String()
	return j, nil
}

// read reads a judge without its model, and returns the parts that its prompt digest is computed from.
func read(name string, s Settings) (j *Judge, parts []string, err error) {
	folder, file, err := find(name)
	if err != nil {
		return nil, nil, err
	}
	c, err := readConfig(folder, file, shown(name, file))
	if err != nil {
		return nil, nil, err
	}
	if err := c.set(s); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	j = &Judge{Config: *c, files: map[string]*data.Picture{}}
	texts, altered := 0, []string(nil)
	for i := range c.Questions {
		q := &c.Questions[i]
		p, err := q.open(folder, s.Copy, q.kinds(c))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: question %s: %w", name, q.Name, err)
		}
		texts += p.texts
		for _, text := range p.altered {
			altered = append(altered, q.Name+": "+text)
		}
		j.prompts = append(j.prompts, p)
		parts = append(parts, p.source)
		for _, file := range q.Pictures {
			if !isFile(file) {
				continue
			}
			raw, err := fs.ReadFile(folder, path.Clean(file))
			if err == nil {
				j.files[file], err = data.Decode(raw, data.Limits{})
			}
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %s: %w", name, file, err)
			}
			digest := store.Key(j.files[file].Digest())
			parts = append(parts, digest.String())
		}
	}
	j.Warnings = alteredPrompts(c.Name, altered, texts)
	switch {
	case s.Copy == "":
		j.Asks = "own"
	case len(altered) == 0:
		j.Asks = "published"
	default:
		j.Asks = "altered"
	}
	return j, parts, nil
}

// alteredPrompts returns one warning for all of a judge's prompts that differ from the published ones, or none.
func alteredPrompts(judge string, altered []string, of int) []string {
	const few = 3
	if len(altered) == 0 {
		return nil
	}
	more := ""
	n := len(altered)
	if n > few {
		altered, more = altered[:few], fmt.Sprintf("; and %d more", n-few)
	}
	return []string{fmt.Sprintf("%d of %d prompts of %s are not the published ones, so neither are its scores: %s%s",
		n, of, judge, strings.Join(altered, "; "), more)}
}

// shown returns the name of a judge's file for messages.
func shown(name, file string) string {
	if strings.HasSuffix(name, ".yaml") {
		return name
	}
	return path.Join(name, file)
}

// set applies settings and checks the keys that they change.
func (c *Config) set(s Settings) error {
	if s.Passes != 0 {
		c.Passes = s.Passes
	}
	if s.Average != "" {
		c.Average = s.Average
	}
	c.Constrained = c.Constrained || s.Constrained
	var errs []error
	problem := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}
	c.checkPasses(problem)
	if c.Average == AverageFirst && c.ScoreOfMeans.By == "" {
		problem("average", "first: this judge has no score_of_means")
	}
	return errors.Join(errs...)
}

func (q *Question) open(folder fs.FS, copied string, kinds []string) (*prompt, error) {
	if copied == "" && q.Prompt == "" {
		return nil, fmt.Errorf(
			"its prompt is only in the authors' code: pass the folder of a copy of that code (--prompts), which "+
				"has %s",
			q.Released.File,
		)
	}
	if copied == "" {
		return ownPrompt(folder, q.Prompt)
	}
	if q.Released == nil {
		return nil, errors.New("it has no published prompt")
	}
	if len(q.Released.ByKind) > 0 {
		return q.Released.byKind(copied, kinds)
	}
	return q.Released.prompt(copied)
}

// Fingerprint is a digest of everything that results depend on: configuration, prompts, pictures in the folder and
// the model.
func (j *Judge) Fingerprint() (string, error) { return j.fingerprint, nil }

// Roles returns the roles of the pictures that an edit must have, sorted.
func (j *Judge) Roles() []string {
	roles := map[string]bool{}
	for _, q := range j.Config.Questions {
		for _, p := range q.Pictures {
			if !isFile(p) {
				roles[p] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(roles))
}

// Result is a judge's verdict on an edit, or on a pair.
type Result struct {
	Score      float64            `json:"score"`           // on the judge's score_range; 0 for a judge without scores
	Score01    float64            `json:"score01"`         // on 0..1
	Class      string             `json:"class,omitempty"` // for a judge that names a class
	Dimensions map[string]float64 `json:"dimensions,omitempty"`
	Agree      *bool              `json:"agree,omitempty"` // for a pair: both orders agree
	Answers    []Answer           `json:"answers"`         // every answer, readable or not
}

// Answer is the model's answer to a question.
type Answer struct {
	Question   string `json:"question"`
	Pass       int    `json:"pass"`              // from 0
	Try        int    `json:"try,omitempty"`     // from 0; retries use other seeds
	Swapped    bool   `json:"swapped,omitempty"` // for a pair: edit2 was shown first
	Text       string `json:"text"`
	Finish     string `json:"finish"`
	Prompt     int    `json:"prompt_tokens"`
	Completion int    `json:"completion_tokens"`
	Error      string `json:"error,omitempty"` // why it is unreadable

	Constrained bool `json:"constrained,omitempty"` // decoding was constrained by its grammar
}

// AnswerError reports that an answer was still unreadable after all repeats. The texts are in the result's answers.
type AnswerError struct {
	Question string
	Tries    int
	Err      error // an UnreadableError, also if the answer was cut off
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("question %s: %v (asked %d times)", e.Question, e.Err, e.Tries)
}

func (e *AnswerError) Unwrap() error { return e.Err }

// Unreadable distinguishes it from errors of pictures and servers.
func (e *AnswerError) Unreadable() bool { return true }

// Ask asks all questions about an edit, or about two edits for a judge of pairs. On an error the result holds the
// answers so far and no score.
func (j *Judge) Ask(ctx context.Context, edits ...*edit.Edit) (*Result, error) {
	want := 1
	if j.Config.Pair {
		want = 2
	}
	if len(edits) != want {
		return &Result{}, fmt.Errorf("the judge %s takes %d edits at a time, not %d", j.Config.Name, want,
			len(edits))
	}
	r, err := j.prepare(edits[0], edits[1:]...)
	if err != nil {
		return &Result{}, err
	}
	return j.answers(ctx, r)
}

// The dimensions of a pair: the verdict on its first edit in each order.
const (
	shownFirst  = "shown_first"
	shownSecond = "shown_second"
)

// answers asks all questions, for a pair in both orders.
func (j *Judge) answers(ctx context.Context, q *edit.Views) (*Result, error) {
	r := &Result{}
	score, dimensions, err := j.passes(ctx, q, false, r)
	if err != nil {
		return r, err
	}
	if j.Config.Pair {
		swapped := maps.Clone(q.ByRole)
		swapped["edit"], swapped["edit2"] = swapped["edit2"], swapped["edit"]
		other, _, err := j.passes(ctx, &edit.Views{Edit: q.Edit, ByRole: swapped}, true, r)
		if err != nil {
			return r, err
		}
		agree := side(score) == side(1-other)
		r.Agree = &agree
		dimensions = map[string]float64{shownFirst: score, shownSecond: 1 - other}
		score = (score + 1 - other) / 2
	}
	if r.Dimensions = dimensions; j.Config.Scores() {
		r.Score, r.Score01 = score, j.Config.onto().To01(score)
	}
	return r, nil
}

// side returns which edit of a pair a score prefers: 1 the first, -1 the second, 0 neither.
func side(score float64) int {
	switch {
	case score > 0.5:
		return 1
	case score < 0.5:
		return -1
	}
	return 0
}

// passes asks all questions in all passes.
func (j *Judge) passes(ctx context.Context, q *edit.Views, swapped bool, r *Result) (
	score float64, dimensions map[string]float64, err error) {
	var passes []map[string]float64
	for pass := range j.Config.Passes {
		numbers := map[string]float64{}
		for i := range j.Config.Questions {
			if !j.Config.Questions[i].asked(q.Kind) {
				continue
			}
			found, err := j.ask(ctx, i, q, Answer{Pass: pass, Swapped: swapped}, r)
			if err != nil {
				return 0, nil, err
			}
			if class := j.Config.Questions[i].Answer.class(found); class != "" {
				r.Class = class
				delete(found, "")
			}
			maps.Copy(numbers, j.Config.scaled(&j.Config.Questions[i], found))
		}
		passes = append(passes, numbers)
	}
	dimensions, score, err = j.Config.Combine(passes)
	return score, dimensions, err
}

// ask asks a question until its answer is readable, at most 1 + repeats times.
func (j *Judge) ask(ctx context.Context, question int, shown *edit.Views, a Answer, r *Result) (
	map[string]float64, error) {
	q, c := &j.Config.Questions[question], &j.Config
	a.Question, a.Constrained = q.Name, c.Constrained
	messages, err := j.messages(question, shown)
	if err != nil {
		return nil, err
	}
	for ; ; a.Try++ {
		o := c.options(a.Pass, a.Try)
		if c.Constrained {
			o.Grammar = j.languages[question]
		}
		answer, err := j.model.Chat(ctx, messages, o)
		if err != nil {
			return nil, fmt.Errorf("question %s: %w", q.Name, err)
		}
		a.Text, a.Finish, a.Error = answer.Text, answer.Finish, ""
		a.Prompt, a.Completion = answer.Usage.Prompt, answer.Usage.Completion
		numbers, err := q.read(answer)
		if err != nil {
			a.Error = err.Error()
		}
		r.Answers = append(r.Answers, a)
		if err == nil {
			return numbers, nil
		}
		if a.Try == c.Repeats {
			return nil, &AnswerError{q.Name, a.Try + 1, err}
		}
	}
}

// read reads an answer, and refuses one that was cut off.
func (q *Question) read(a *chat.Answer) (map[string]float64, error) {
	switch a.Finish {
	case chat.FinishStop:
		return q.Answer.Read(a.Text)
	case chat.FinishLength, chat.FinishContext:
		return nil, unreadable("cut_off", "the answer was cut off after %d tokens", a.Usage.Completion)
	}
	return nil, unreadable("cut_off", "the answer ended with %q", a.Finish)
}

// options returns the sampling options for a try of a pass. The first tries of the passes use seed, seed+1, ...; the
// second tries use the seeds after those, and so on.
func (c *Config) options(pass, try int) chat.Options {
	s := c.Options
	return chat.Options{
		MaxNewTokens:      s.MaxNewTokens,
		Temperature:       s.Temperature,
		TopK:              s.TopK,
		TopP:              s.TopP,
		RepetitionPenalty: s.RepetitionPenalty,
		Stop:              s.Stop,
		Seed:              c.Seed + uint64(try*c.Passes+pass),
	}
}

// numberMark is replaced by the number of the source (from 1) in the caption of the role sources.
const numberMark = "{n}"

func (j *Judge) messages(question int, shown *edit.Views) ([]chat.Message, error) {
	q := &j.Config.Questions[question]
	text, err := j.prompts[question].render(shown.Edit)
	if err != nil {
		return nil, fmt.Errorf("%w: question %s: %w", chat.ErrRequest, q.Name, err)
	}
	var parts []chat.Part
	for i, p := range q.Pictures {
		for n, role := range rolesOf(shown.Edit, []string{p}) {
			picture := j.files[p]
			if !isFile(p) {
				picture = shown.ByRole[role]
			}
			if len(q.Captions) > 0 {
				caption := q.Captions[i]
				if p == allSources {
					caption = strings.ReplaceAll(caption, numberMark, strconv.Itoa(n+1))
				}
				parts = append(parts, chat.Part{Text: caption})
			}
			parts = append(parts, chat.Part{Image: picture})
		}
	}
	if q.Last {
		parts = append([]chat.Part{{Text: text}}, parts...)
	} else {
		parts = append(parts, chat.Part{Text: text})
	}
	messages, err := j.few.before(shown.ByRole)
	return append(messages, chat.Message{Role: "user", Content: parts}), err
}
