// Package mvei implements MVEI: statements about the emotions that pictures evoke, each to be judged correct or
// incorrect. mvei.go reads the statements and lists them as items, answers.go reads and parses answers, and numbers.go
// computes the accuracy by both parsing rules.
package mvei

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
)

var (
	//go:embed benchmarks.txt
	benchmarksText string
	//go:embed published.csv
	publishedCSV string
)

// family holds the description and published numbers of the benchmark.
var family = protocol.Family{Benchmarks: benchmarksText, Published: publishedCSV}

// Benchmark is MVEI.
var Benchmark = family.Benchmark("mvei", loadMVEI)

// statements are the statements of MVEI with their truth.
type statements struct {
	keys         []protocol.Key // image_id#k
	image, text  []string
	label, class []string
	classes      []string
	index        map[string]int
	pictures     [][]int                // statements of each picture
	included     *statementsPredictions // answers contained in the data
	entries      []*protocol.Line       // as they were read
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

func entryOf(r *protocol.Line) (e entry, err error) {
	b, err := json.Marshal(r.Fields)
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	if err == nil && (e.ImageID == "" || len(e.Statements) == 0) {
		err = fmt.Errorf("want image_id and a statement_list")
	}
	return e, err
}

func loadMVEI(o protocol.Options) (protocol.Set, error) {
	path, err := protocol.Locate(o.Data, "MVEI_metadata.json", "MVEI_predict.json")
	if err != nil {
		return nil, err
	}
	rows, err := protocol.ReadLines(path)
	if err != nil {
		return nil, err
	}
	s := &statements{index: map[string]int{}, images: o.Images}
	s.images = cmp.Or(s.images, filepath.Join(filepath.Dir(path), "images"))
	answers := map[int]string{}
	var p protocol.Problems
	p.Each(rows, func(r *protocol.Line) error {
		e, err := entryOf(r)
		if err != nil {
			return err
		}
		s.entries = append(s.entries, r)
		var statements []int
		for k, st := range e.Statements {
			where := fmt.Sprintf("%s, statement %d", r.Where, k)
			label := strings.ToLower(st.Label)
			if label != "correct" && label != "incorrect" {
				p.Add(where, "label is %q: want correct or incorrect", st.Label)
			}
			if st.Statement == "" || st.Class == "" {
				p.Add(where, "want statement and class")
			}
			if !slices.Contains(s.classes, st.Class) {
				s.classes = append(s.classes, st.Class)
			}
			id := e.ImageID + "#" + strconv.Itoa(k)
			if _, twice := s.index[id]; twice {
				return fmt.Errorf("statement %d: a second entry for the picture %s", k, e.ImageID)
			}
			i := len(s.keys)
			s.index[id], s.index[e.ImageID+"\n"+st.Statement] = i, i
			s.keys, s.image, s.text = append(s.keys, protocol.Key{ID: id}), append(s.image, e.ImageID),
				append(s.text, st.Statement)
			s.label, s.class = append(s.label, label), append(s.class, st.Class)
			if st.Predict != nil {
				answers[i] = *st.Predict
			}
			statements = append(statements, i)
		}
		s.pictures = append(s.pictures, statements)
		return nil
	})
	if len(answers) > 0 {
		s.included = &statementsPredictions{s, answers}
	}
	return s, p.Err()
}

// Own returns the answers contained in the data (MVEI_predict.json), if there are any.
func (s *statements) Predictions() (protocol.Predictions, bool) { return s.included, s.included != nil }

// Items implements Scorable: the picture is the edit, the statement the instruction, and there is no source.
func (s *statements) Items() ([]*edit.Edit, error) {
	var p protocol.Problems
	items := make([]*edit.Edit, len(s.keys))
	for i, key := range s.keys {
		path := filepath.Join(s.images, filepath.FromSlash(s.image[i]))
		if i == 0 || s.image[i] != s.image[i-1] {
			protocol.FilePicture(path, true, &p)
		}
		items[i] = protocol.NewItem(key, s.text[i], protocol.Picture{}, protocol.Picture{Path: path})
		items[i].Group = s.image[i]
	}
	return items, p.Err()
}

// AnswerOf implements Questions: a score above the middle means that the statement is correct, one below that it is
// incorrect, and the middle itself is an abstention.
func (s *statements) AnswerOf(above float64) string {
	switch protocol.Sign(above) {
	case 1:
		return "Correct"
	case -1:
		return "Incorrect"
	}
	return ""
}

// Outputs implements Measurable.
func (s *statements) Outputs() ([]*edit.Edit, error) { return s.Items() }

// Line implements Measurable: a metric answers by its class, or by the sign of its number.
func (s *statements) Line(k protocol.Key, values map[string]any, _ string) map[string]any {
	line := map[string]any{"id": k.ID}
	for _, value := range values { // one metric's
		line["answer"] = value
		raw, err := json.Marshal(value)
		var v float64
		if err == nil && json.Unmarshal(raw, &v) == nil {
			line["answer"] = s.AnswerOf(v)
		}
	}
	return line
}
