package benchmarks

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var mvei = &Benchmark{
	Name:  "mvei",
	Title: "MVEI, visual emotion: 3,086 statements about pictures, correct or incorrect",
	Needs: []string{
		"--ratings: MVEI_metadata.json, [{image_id, ov_emotion, statement_list: [{statement, label, class, subclass, " +
			"predict}]}], or its folder",
		"--scorer or --judge: images/IMAGE_ID beside it, or --images: a folder of the pictures",
	},
	Published: "wudq: the dataset MVEI",
	Predicts: `the same file with "predict" in every statement, or {"id": "image_id#0", "answer": "Correct"} ` +
		`(statements of a picture count from 0), ` +
		`or {"image_id": ..., "statement": ..., "answer": ...}`,
	Rules: []string{
		"keyword: lower case; \"incorrect\" anywhere is incorrect, else \"correct\" anywhere is correct, else the model " +
			"abstains, which is wrong; so is no answer",
		"answer_tag: the same inside <answer>...</answer>, or after the last <answer> or </think>, or anywhere; then the " +
			"letters A (correct) and B (incorrect)",
		"positive_ratio: share of answers read as correct; give_up_ratio: share of abstentions",
	},
	Flags: []string{"components", "write-authors", "images"},
	Load:  loadMVEI,
	Size:  3086,
	Counted: []string{"keyword", "keyword: sentiment polarity", "keyword: emotion interpretation",
		"keyword: scene context", "keyword: perception subjectivity"},
	Lower:   []string{"give_up_ratio"},
	Neutral: []string{"positive_ratio"},
}

// statements are the statements of MVEI with their truth.
type statements struct {
	keys         []Key // image_id#k
	image, text  []string
	label, class []string
	classes      []string
	index        map[string]int
	included     *statementsPredictions // answers that the data hold themselves
	entries      []row                  // as they were read
	images       string                 // folder of the pictures
}

// entry is one picture of MVEI_metadata.json.
type entry struct {
	ImageID    string `json:"image_id"`
	Statements []struct {
		Statement string  `json:"statement"`
		Label     string  `json:"label"`
		Class     string  `json:"class"`
		Predict   *string `json:"predict"`
	} `json:"statement_list"`
}

func (r row) entry() (e entry, err error) {
	b, err := json.Marshal(r.fields)
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err == nil && (e.ImageID == "" || len(e.Statements) == 0) {
		err = fmt.Errorf("image_id and a statement_list were expected")
	}
	return e, err
}

func loadMVEI(o Options) (Set, error) {
	path, err := locate(o.Data, "MVEI_metadata.json", "MVEI_predict.json")
	if err != nil {
		return nil, err
	}
	rows, err := readRows(path)
	if err != nil {
		return nil, err
	}
	s := &statements{index: map[string]int{}, images: o.Images}
	if s.images == "" {
		s.images = filepath.Join(filepath.Dir(path), "images")
	}
	answers := map[int]string{}
	var p problems
	for _, r := range rows {
		e, err := r.entry()
		if err != nil {
			p.add(r.where, "%v", err)
			continue
		}
		s.entries = append(s.entries, r)
		for k, st := range e.Statements {
			where := fmt.Sprintf("%s, statement %d", r.where, k)
			label := strings.ToLower(st.Label)
			if label != "correct" && label != "incorrect" {
				p.add(where, "label is %q: correct or incorrect was expected", st.Label)
			}
			if st.Statement == "" || st.Class == "" {
				p.add(where, "statement and class were expected")
			}
			if !slices.Contains(s.classes, st.Class) {
				s.classes = append(s.classes, st.Class)
			}
			id := e.ImageID + "#" + strconv.Itoa(k)
			if _, twice := s.index[id]; twice {
				p.add(where, "a second entry for the picture %s", e.ImageID)
				continue
			}
			i := len(s.keys)
			s.index[id] = i
			s.index[e.ImageID+"\n"+st.Statement] = i
			s.keys, s.image, s.text = append(s.keys, Key{ID: id}), append(s.image, e.ImageID), append(s.text, st.Statement)
			s.label, s.class = append(s.label, label), append(s.class, st.Class)
			if st.Predict != nil {
				answers[i] = *st.Predict
			}
		}
	}
	if len(answers) > 0 {
		s.included = &statementsPredictions{s, answers}
	}
	return s, p.err()
}

// Own returns the answers that the data hold themselves (MVEI_predict.json), if there are any.
func (s *statements) Predictions() (Predictions, bool) { return s.included, s.included != nil }

// Read implements Set.
func (s *statements) Read(path string) (Predictions, error) {
	rows, err := readRows(path)
	if err != nil {
		return nil, err
	}
	answers, seen := map[int]string{}, map[int]string{}
	var p problems
	set := func(where string, i int, answer string) {
		if first, ok := seen[i]; ok {
			p.add(where, "a second answer for %v (the first is in %s)", s.keys[i], first)
			return
		}
		seen[i] = where
		answers[i] = answer
	}
	for _, r := range rows {
		if r.has("statement_list") {
			e, err := r.entry()
			if err != nil {
				p.add(r.where, "%v", err)
				continue
			}
			for k, st := range e.Statements {
				i, ok := s.index[e.ImageID+"\n"+st.Statement]
				if !ok {
					p.add(r.where, "statement %d of %s is not in the data", k, e.ImageID)
				} else if st.Predict != nil {
					set(r.where, i, *st.Predict)
				}
			}
			continue
		}
		i, err := s.find(r)
		if err != nil {
			p.add(r.where, "%v", err)
			continue
		}
		answer := ""
		if field := r.first("answer", "predict", "generation"); r.has(field) {
			if answer, err = r.text(field); err != nil {
				p.add(r.where, "%v", err)
				continue
			}
		} else if _, ok := r.fields[field]; !ok {
			p.add(r.where, "there is no \"answer\"")
			continue
		}
		set(r.where, i, answer)
	}
	return &statementsPredictions{s, answers}, p.err()
}

func (s *statements) find(r row) (int, error) {
	field := r.first("id", "image_id")
	id, err := r.id(field)
	if err != nil {
		return 0, err
	}
	if i, ok := s.index[id]; ok {
		return i, nil
	}
	if n := r.first("index", "statement_index"); r.has(n) {
		at, err := r.id(n)
		if i, ok := s.index[id+"#"+at]; ok && err == nil {
			return i, nil
		}
	}
	if r.has("statement") {
		text, err := r.text("statement")
		if i, ok := s.index[id+"\n"+text]; ok && err == nil {
			return i, nil
		}
	}
	if i, err := strconv.Atoi(id); err == nil && field == "id" && i >= 0 && i < len(s.keys) {
		return i, nil
	}
	return 0, fmt.Errorf("%q is no statement: an id such as %q, or image_id and statement, were expected", id,
		s.keys[0].ID)
}

// Items implements Scorable: the picture is the edit, the statement the instruction, and there is no source.
func (s *statements) Items() ([]Item, error) {
	var p problems
	items := make([]Item, len(s.keys))
	for i, key := range s.keys {
		path := filepath.Join(s.images, filepath.FromSlash(s.image[i]))
		if i == 0 || s.image[i] != s.image[i-1] {
			filePicture(path, true, &p)
		}
		items[i] = Item{Key: key, Group: s.image[i], Edit: Picture{Path: path}, Instruction: s.text[i]}
	}
	return items, p.err()
}

// AnswerOf implements Questions: a score above the middle says that the statement is correct, one below that it is not,
// and the middle itself gives up.
func (s *statements) AnswerOf(above float64) string {
	switch sign(above) {
	case 1:
		return "Correct"
	case -1:
		return "Incorrect"
	}
	return ""
}

// The readings of an answer.
const (
	positive = "correct"
	negative = "incorrect"
	abstain  = "abstain"
)

// parseKeyword reads an answer by its words.
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

// parseTagged reads an answer inside <answer> tags: the first whole one; else what follows the last <answer> or
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

// statementsPredictions are answers by statement; one that is not there is missing, an empty one abstains.
type statementsPredictions struct {
	*statements
	answers map[int]string
}

func (j *statementsPredictions) Units() int { return len(j.keys) }

func (j *statementsPredictions) Complete(i int) bool {
	_, ok := j.answers[i]
	return ok
}

// mveiStats are the figures of one class, or of all.
type mveiStats struct {
	N             int   `json:"n"`
	Accuracy      Value `json:"accuracy"`
	PositiveRatio Value `json:"positive_ratio"`
	GiveUpRatio   Value `json:"give_up_ratio"`
}

// stats counts statements; one without an answer is an abstention, as in the authors' code, and so it is wrong.
func (j *statementsPredictions) stats(units []int, class string, parse func(string) string) mveiStats {
	var n, right, yes, none int
	for _, i := range units {
		if class != "" && j.class[i] != class {
			continue
		}
		n++
		read := parse(j.answers[i])
		if read == j.label[i] {
			right++
		}
		switch read {
		case positive:
			yes++
		case abstain:
			none++
		}
	}
	ratio := func(k int) Value { return Value(float64(k) / float64(n)) }
	return mveiStats{n, ratio(right), ratio(yes), ratio(none)}
}

func (j *statementsPredictions) Numbers(units []int) []Number {
	keyword := j.stats(units, "", parseKeyword)
	out := []Number{{Name: "keyword", Value: float64(keyword.Accuracy)},
		{Name: "answer_tag", Value: float64(j.stats(units, "", parseTagged).Accuracy)},
		{Name: "positive_ratio", Value: float64(keyword.PositiveRatio)},
		{Name: "give_up_ratio", Value: float64(keyword.GiveUpRatio)}}
	for _, c := range j.classes {
		out = append(out, Number{Name: "keyword: " + c, Value: float64(j.stats(units, c, parseKeyword).Accuracy)})
	}
	for i := range out {
		out[i].Counted = true
	}
	return out
}

// Guess implements Guessable: coins, or always "Correct".
func (s *statements) Guess(rng *rand.Rand) Predictions {
	j := &statementsPredictions{s, map[int]string{}}
	for i := range s.keys {
		j.answers[i] = "Correct"
		if rng != nil && rng.IntN(2) == 0 {
			j.answers[i] = "Incorrect"
		}
	}
	return j
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
		if err := json.Unmarshal(r.fields["statement_list"], &list); err != nil {
			return fmt.Errorf("%s: %w", r.where, err)
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
		entry := maps.Clone(r.fields)
		entry["statement_list"] = raw
		out = append(out, entry)
	}
	return writeIndented(filepath.Join(dir, "MVEI_predict.json"), out)
}

type mveiRule struct {
	mveiStats
	PerClass  map[string]mveiStats `json:"per_class"`
	Confusion Confusion            `json:"confusion"`
}

// mveiJSON is the JSON result of MVEI: the figures of the rule keyword, and of both rules by name.
type mveiJSON struct {
	Common
	Accuracy      Value                `json:"accuracy"`
	PositiveRatio Value                `json:"positive_ratio"`
	GiveUpRatio   Value                `json:"give_up_ratio"`
	PerClass      map[string]mveiStats `json:"per_class"`
	Rules         map[string]mveiRule  `json:"rules"`
}

func (j *statementsPredictions) Result() *Result {
	r := &Result{}
	var units []int
	for i := range j.keys {
		units = append(units, i)
		if j.Complete(i) {
			r.N++
		} else {
			r.Missing = append(r.Missing, j.keys[i])
		}
	}
	r.Numbers = j.Numbers(units)
	if n := len(r.Missing); n > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d of %d statements have no answer, which counts as an abstention and so as "+
			"wrong", n, len(units)))
	}
	rules := map[string]mveiRule{}
	for _, rule := range []struct {
		name  string
		parse func(string) string
	}{{"keyword", parseKeyword}, {"answer_tag", parseTagged}} {
		out := mveiRule{mveiStats: j.stats(units, "", rule.parse), PerClass: map[string]mveiStats{}}
		t := Table{Title: rule.name, Columns: []string{"n", "accuracy", "positive ratio", "give-up ratio"}}
		line := func(name string, s mveiStats) {
			t.Rows = append(t.Rows, TableRow{
				Name:  name,
				Cells: []float64{0, float64(s.Accuracy), float64(s.PositiveRatio), float64(s.GiveUpRatio)},
				Text:  []string{strconv.Itoa(s.N)},
			})
		}
		for _, c := range j.classes {
			out.PerClass[c] = j.stats(units, c, rule.parse)
			line(c, out.PerClass[c])
		}
		line("overall", out.mveiStats)
		var truth, predicted []string
		for _, i := range units {
			truth, predicted = append(truth, j.label[i]), append(predicted, rule.parse(j.answers[i]))
		}
		out.Confusion = newConfusion(rule.name, truth, predicted, []string{positive, negative},
			[]string{positive, negative, abstain})
		rules[rule.name] = out
		r.Tables, r.Confusions = append(r.Tables, t), append(r.Confusions, out.Confusion)
	}
	k := rules["keyword"]
	r.JSON = mveiJSON{r.common("mvei"), k.Accuracy, k.PositiveRatio, k.GiveUpRatio, k.PerClass, rules}
	return r
}
