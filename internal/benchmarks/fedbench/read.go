package fedbench

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
)

// fedComponents are the names allowed in --by and "by". reg is measured by what measured both LPIPS.
var fedComponents = []string{"id", "bg_rmse", "pq", "sc", "gta", "lpips_src_trg", "lpips_src_gt", "reg", "score"}

// fedNames are the other names that a component may have.
var fedNames = map[string][]string{
	"id":            {"identity", "ID", "arcface", "id"},
	"bg_rmse":       {"bg_rmse", "bg", "BG"},
	"pq":            {"pq", "PQ"},
	"sc":            {"sc", "SC"},
	"gta":           {"gta", "GTA"},
	"lpips_src_trg": {"lpips_src_trg", "lpips_trg", "lpips_edit"},
	"lpips_src_gt":  {"lpips_src_gt", "lpips_gt"},
}

// fedBounds are the scales of the components: a cosine, a difference of 8-bit values, a judge's 0 to 10, distances.
var fedBounds = map[string]protocol.Bounds{"id": {Low: -1, High: 1}, "bg_rmse": {Low: 0, High: 255},
	"pq": {Low: 0, High: 10}, "sc": {Low: 0, High: 10}, "gta": {Low: 0, High: 10},
	"lpips_src_trg": {Low: 0, High: math.Inf(1)}, "lpips_src_gt": {Low: 0, High: math.Inf(1)}}

// fedTriplet is a sample of the benchmark's data.
type fedTriplet struct {
	name, expression string
	instruction      map[string]string // by kind: dense, simple
	captions         [2]string         // of source and ground truth, "" if the data have none
	from             string            // identifies the source
	source, gt       protocol.Picture
}

// fedColumnNames are the names that a column of the triplets may have, the first one ours.
var fedColumnNames = map[string][]string{
	"sample":     {"sample", "id", "name"},
	"source":     {"source", "source_image", "src", "image"},
	"gt":         {"gt", "gt_image", "ground_truth", "target", "target_image"},
	"expression": {"expression", "trg_emotion", "target_emotion", "emotion"},
	"simple":     {"simple_instruction", "simple", "instruction"},
	"dense":      {"dense_instruction", "dense"},

	"source_caption": {"source_caption"},
	"caption":        {"caption", "target_caption", "gt_caption"},
}

// readTriplets reads the table of the triplets. Pictures are in its columns, or relative to a folder ("": the table's).
func (s *fed) readTriplets(path, folder string) error {
	files, err := protocol.LocateAll(path, "*.parquet", "*.jsonl", "*.csv", "*.json")
	if err != nil {
		return err
	}
	table, err := protocol.OpenSamples(files)
	if err != nil {
		return err
	}
	column := map[string]string{}
	for what, names := range fedColumnNames {
		if at := slices.IndexFunc(names, table.Has); at >= 0 {
			column[what] = names[at]
		} else if what == "sample" || what == "source" || what == "gt" {
			return fmt.Errorf("%s: there is no column %s", strings.Join(files, ", "), strings.Join(names, ", "))
		}
	}
	var texts []string
	for _, what := range []string{"sample", "expression", "simple", "dense", "source_caption", "caption"} {
		texts = append(texts, column[what])
	}
	return table.Each(texts, func(p protocol.Sample, text []string) error {
		t := fedTriplet{
			name:        text[0],
			expression:  text[1],
			instruction: map[string]string{},
			captions:    [2]string(text[4:6]),
			from:        p.PictureName(column["source"]),
			source:      p.Picture(column["source"], -1, folder),
			gt:          p.Picture(column["gt"], -1, folder),
		}
		for k, kind := range []string{"simple", "dense"} {
			if text[2+k] != "" {
				t.instruction[kind] = text[2+k]
			}
		}
		if err := checkFEDTags("", t.expression); err != nil {
			return err
		}
		if _, twice := s.index[t.name]; twice || t.name == "" {
			return fmt.Errorf("the sample %q: want one row per name, which must not be empty", t.name)
		}
		s.index[t.name] = len(s.triplets)
		s.triplets = append(s.triplets, t)
		return nil
	})
}

// Items implements Scorable: MODEL/KIND/SAMPLE.png of every editor and kind of instructions that it has.
func (s *fed) Items() ([]*edit.Edit, error) {
	if len(s.triplets) == 0 || len(s.editors) == 0 {
		return nil, errors.New("there are no pictures: give --ratings, a table of the triplets, and --editors, " +
			"folders MODEL with dense/SAMPLE.png or simple/SAMPLE.png")
	}
	var p protocol.Problems
	var items []*edit.Edit
	for _, dir := range s.editors {
		any := false
		for _, kind := range []string{"dense", "simple"} {
			if _, err := os.Stat(filepath.Join(dir, kind)); err != nil {
				continue
			}
			any = true
			for _, t := range s.triplets {
				if t.instruction[kind] == "" {
					p.Add(t.name, "there is no %s instruction", kind)
				}
				it := protocol.NewItem(protocol.Key{ID: t.name, Model: protocol.EditorName(dir) + "/" + kind},
					t.instruction[kind], t.source, protocol.FilePicture(filepath.Join(dir, kind, t.name+".png"), true, &p))
				it.Group = kind + " " + t.name
				it.Set(protocol.Target, t.gt)
				protocol.SetCaptions(it, t.captions)
				items = append(items, it)
			}
		}
		if !any {
			p.Add(dir, "there is no folder dense or simple")
		}
	}
	return items, p.Err()
}

// Read implements Set: a file of all components.
func (s *fed) Read(path string) (protocol.Predictions, error) {
	return s.read([]string{path}, true)
}

// ReadAll implements Mixed. The editors stay together, since votes compare them with each other.
func (s *fed) ReadAll(paths []string) ([]protocol.Editor, error) {
	files := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return slices.Contains(s.editors, path) })
	if len(files) == 0 {
		return nil, errors.New("there are no components: give --components, or --scorer")
	}
	j, err := s.read(files, len(files) == 1)
	if err != nil {
		return nil, err
	}
	return []protocol.Editor{{Predictions: j}}, nil
}

// read merges the lines of files by sample, method and kind of instructions. In a single file without a scorer's column
// every line has all components, unless a run measured the file.
func (s *fed) read(paths []string, single bool) (*fedPredictions, error) {
	j := &fedPredictions{fed: s, by: map[string]string{}}
	maps.Copy(j.by, s.by)
	var p protocol.Problems
	at := map[string]int{}
	for _, path := range paths {
		rows, err := protocol.ReadLines(path)
		if err != nil {
			return nil, err
		}
		run, err := protocol.RunOf(path)
		if err != nil {
			return nil, err
		}
		seen := map[string]string{}
		p.Each(rows, func(r *protocol.Line) error {
			sample, err := s.readSample(r, single && !protocol.IsComponentFile(path))
			if err == nil {
				err = protocol.ReadBy(r, j.by, fedComponents)
			}
			if err == nil && r.Has("score") {
				err = j.run.Check("score", run)
			}
			if err != nil || r.Err() != nil {
				return err
			}
			name := fmt.Sprint(sample.key, sample.tags["instructions"])
			if first, ok := seen[name]; ok {
				return fmt.Errorf("a second line for %v (the first is in %s)", sample.key, first)
			}
			seen[name] = r.Where
			j.unnamed = j.unnamed || sample.unnamed
			if k, ok := at[name]; ok {
				return j.samples[k].merge(sample)
			}
			at[name] = len(j.samples)
			j.samples = append(j.samples, sample)
			return nil
		})
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	if j.by["reg"] == "" {
		j.by["reg"] = protocol.Judges(j.by, []string{"lpips_src_trg", "lpips_src_gt"})
	}
	j.finish()
	j.nameItems()
	if s.votes != "" {
		return j, j.readVotes(s.votes)
	}
	return j, nil
}

// merge adds the values of a sample from another file.
func (s *fedSample) merge(other fedSample) error {
	for tag, v := range other.tags {
		if first, ok := s.tags[tag]; ok && first != v {
			return fmt.Errorf("%s of %v is %q here, %q in %s", tag, s.key, v, first, s.where)
		}
		s.tags[tag] = v
	}
	for _, name := range slices.Sorted(maps.Keys(other.values)) {
		if _, ok := s.values[name]; ok {
			return fmt.Errorf("a second value of %s for %v (the first is in %s)", name, s.key, s.where)
		}
		s.values[name] = other.values[name]
	}
	return nil
}

// finish computes the samples, and the triplets that an editor has no line for.
func (j *fedPredictions) finish() {
	type part struct{ method, kind string }
	parts := map[part]map[string]bool{}
	for i := range j.samples {
		s := &j.samples[i]
		for _, c := range slices.Sorted(maps.Keys(fedNames)) {
			if v, ok := s.values[c]; !ok || math.IsNaN(v) {
				s.lacks = append(s.lacks, c)
			}
		}
		if t, ok := j.index[s.key.ID]; ok && s.tags["expression"] == "" && j.triplets[t].expression != "" {
			s.tags["expression"] = j.triplets[t].expression
		}
		s.err = j.compute(s.values)
		k := part{s.key.Model, s.tags["instructions"]}
		if parts[k] == nil {
			parts[k] = map[string]bool{}
		}
		parts[k][s.key.ID] = true
	}
	for _, t := range j.triplets {
		for k, has := range parts {
			if !has[t.name] {
				j.missing = append(j.missing, fedPart{t.name, k.method, k.kind})
			}
		}
	}
	slices.SortFunc(j.missing, func(a, b fedPart) int {
		return strings.Compare(a.key().Model+"\n"+a.sample, b.key().Model+"\n"+b.sample)
	})
}

// readSample reads a line. "id" is the sample's name if it is a string or if the identity has another field.
func (s *fed) readSample(r *protocol.Line, single bool) (fedSample, error) {
	out := fedSample{tags: map[string]string{}, values: map[string]float64{}, where: r.Where}
	identity := r.First(fedNames["id"]...)
	name := r.First("sample", "key", "name", "image")
	if !r.Has(name) && r.Has("id") && (identity != "id" || r.Fields["id"][0] == '"') {
		name = "id"
	}
	if r.Has(name) {
		out.key.ID = r.ID(name)
	} else if out.key.ID = strconv.Itoa(r.Index); !single {
		return out, errors.New("there is no \"sample\", which is needed to merge the lines of several files")
	}
	out.unnamed = !r.Has(name)
	if err := out.readTags(r); err != nil {
		return out, err
	}
	if _, known := s.index[out.key.ID]; len(s.triplets) > 0 && !known {
		return out, fmt.Errorf("the sample %q is not in the data: want a name such as %q", out.key.ID,
			s.triplets[0].name)
	}
	return out, out.readValues(r, name, single && !r.Has("score"))
}

// readValues reads components, all of them if the file is strict, and other metrics. name is the field of the sample.
func (s *fedSample) readValues(r *protocol.Line, name string, strict bool) error {
	known := map[string]bool{name: true}
	for component, names := range fedNames {
		field := r.First(names...)
		for _, other := range names {
			if _, err := protocol.ParseNumber(other, r.Fields[other]); err == nil && other != field && other != name &&
				r.Has(other) {
				return fmt.Errorf("%s and %s are both %s: want only one of them", field, other, component)
			}
		}
		if !r.Has(field) || field == name {
			if strict {
				return fmt.Errorf("there is no %q", component)
			}
			continue
		}
		v := r.Number(field)
		if err := fedBounds[component].Check(component, v); err != nil {
			return err
		}
		s.values[component], known[field] = v, true
	}
	for field, raw := range r.Fields { // other metrics, for the comparison with votes
		v, err := protocol.ParseNumber(field, raw)
		b, metric := protocol.BoundsOf(field)
		if metric && err == nil {
			err = b.Check(field, v)
		}
		if metric && err != nil {
			return err
		}
		if err != nil || known[field] || math.IsNaN(v) {
			continue
		}
		s.values[field] = v
	}
	return nil
}

// The values of tags: "" is none.
var (
	fedKinds       = []string{"dense", "simple"}
	fedExpressions = []string{"angry", "disgust", "fear", "happy", "neutral", "sad", "surprise"}
)

func checkFEDTags(kind, expression string) error {
	if kind != "" && !slices.Contains(fedKinds, kind) {
		return fmt.Errorf("the instructions are %q: want one of %s", kind, strings.Join(fedKinds, ", "))
	}
	if expression != "" && !slices.Contains(fedExpressions, expression) {
		return fmt.Errorf("the expression is %q: want one of %s", expression, strings.Join(fedExpressions,
			", "))
	}
	return nil
}

// readTags reads method, expression and instructions; a scorer's lines have "model": METHOD/INSTRUCTIONS.
func (s *fedSample) readTags(r *protocol.Line) error {
	for _, tag := range fedTags {
		if r.Has(tag) {
			s.tags[tag] = r.Text(tag)
		}
	}
	if _, ok := s.tags["method"]; !ok && r.Has("model") {
		model := r.Text("model")
		if method, kind, ok := strings.Cut(model, "/"); ok {
			s.tags["instructions"], model = kind, method
		}
		s.tags["method"] = model
	}
	s.key.Model = s.tags["method"]
	return checkFEDTags(s.tags["instructions"], s.tags["expression"])
}
