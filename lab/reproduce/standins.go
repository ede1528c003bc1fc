package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/stats"
	"assay/lab/internal/miniature"
)

// standIns are data sets of the miniature world, as written by `miniature`, and the folder where they are rewritten
// in published layouts.
type standIns struct{ train, edits, exam, out string }

// editors maps the editors of the miniature world to published names: weak to weak, strong to strong.
var editors = map[string]string{"stray": "diffedit", "rough": "sdedit", "plain": "instructpix2pix",
	"steady": "magicbrush", "careful": "aurora"}

// global are the families of edits of the whole picture, like Emu Edit's tasks global and style.
var global = []miniature.Family{"temperature", "grey", "sepia", "invert", "light", "focus", "pixelate"}

func (s *standIns) write() error {
	train, err1 := readSet(s.train)
	edits, err2 := readSet(s.edits)
	exam, err3 := readSet(s.exam)
	if err := cmp.Or(err1, err2, err3); err != nil {
		return err
	}
	for _, part := range []struct {
		name  string
		of    *set
		write func(s *set, w *folder)
	}{
		{"ADIEE-MagicBrush-Data", train, (*set).magicBrush},
		{"emu_edit_generations", edits, (*set).emuEdit},
		{"SEED-Data-Edit-Part2-3", train, (*set).sequences},
		{"ImagenHub", exam, (*set).imagenHub},
		{"GenAI-Bench", exam, (*set).genAIBench},
		{"AURORA-Bench", exam, (*set).aurora},
		{"editors", exam, (*set).tuned},
		{"preferences", exam, (*set).preferences},
		{"GenAI-Arena", exam, (*set).arena},
		{"AIM-bench", exam, (*set).aimBench},
		{"FED-Bench", exam, (*set).fedBench},
		{"MVEI", exam, (*set).mvei},
		{"MVEI-train", train, (*set).mvei},
	} {
		dir := filepath.Join(s.out, part.name)
		if _, err := os.Stat(dir); err == nil {
			continue // if it exists, it is complete
		}
		if err := os.MkdirAll(s.out, 0o777); err != nil {
			return err
		}
		err := atomicfile.WriteDir(dir, func(dir string) error {
			w := &folder{dir: dir, pictures: part.of.dir}
			part.write(part.of, w)
			return w.err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// set is a data set of the miniature world: rows of its tables by group, in order, with the truth of each.
type set struct {
	dir            string
	groups, chains [][]row
}

// row is a line of edits.jsonl or chains.jsonl.
type row struct {
	ID            string `json:"id"`
	Group         string `json:"group"`
	Source        string `json:"source"`
	Edit          string `json:"edit"`
	Target        string `json:"target"`
	Instruction   string `json:"instruction"`
	SourceCaption string `json:"source_caption"`
	TargetCaption string `json:"target_caption"`
	Method        string `json:"method"`

	Chain      string `json:"img_id"` // for chains, with the pictures of a turn
	TurnSource string `json:"source_img"`
	TurnTarget string `json:"target_img"`

	truth miniature.Truth
}

func readSet(dir string) (*set, error) {
	all, err := miniature.ReadTruth(filepath.Join(dir, miniature.TruthFile))
	if err != nil {
		return nil, err
	}
	truth := map[string]miniature.Truth{}
	for _, t := range all {
		truth[t.ID] = t
	}
	s := &set{dir: dir}
	read := func(table string, key func(row) string, into *[][]row) error {
		raw, err := os.ReadFile(filepath.Join(dir, table+".jsonl"))
		if err != nil {
			return err
		}
		last := ""
		for line := range strings.Lines(string(raw)) {
			var r row
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				return fmt.Errorf("%s: %w", table, err)
			}
			r.truth = truth[r.ID]
			if k := key(r); len(*into) == 0 || k != last {
				last = k
				*into = append(*into, nil)
			}
			(*into)[len(*into)-1] = append((*into)[len(*into)-1], r)
		}
		return nil
	}
	if err := read(miniature.EditsTable, func(r row) string { return r.Group }, &s.groups); err != nil {
		return nil, err
	}
	err = read(miniature.ChainsTable, func(r row) string { return r.Chain }, &s.chains)
	if os.IsNotExist(err) {
		err = nil // an exam has none
	}
	return s, err
}

// cell is a value of a table with the kind of its column.
type cell struct {
	name  string
	kind  data.Kind
	value any
}

func picture(name, path string) cell { return cell{name, data.KindImage, path} }
func text(name, value string) cell   { return cell{name, data.KindText, value} }

// magicBrush writes ADIEE-MagicBrush-Data: a row for each instruction, with the outputs of all editors. Similarities
// are computed later by the encoders of the labels.
func (s *set) magicBrush(w *folder) {
	var rows [][]cell
	for _, g := range s.groups {
		cells := []cell{text("id", g[0].Group), text("img_id", g[0].Group), picture("source_img", g[0].Source),
			picture("target_img", g[0].Target), text("instruction", g[0].Instruction),
			text("source_caption", g[0].SourceCaption), text("target_caption", g[0].TargetCaption)}
		for _, r := range g {
			cells = append(cells, picture(editors[r.Method]+"_img", r.Edit))
		}
		rows = append(rows, cells)
	}
	w.table("train-00000-of-00001.parquet", rows)
}

// emuEdit writes Emu Edit's generations: a row for each instruction and editor, without targets.
func (s *set) emuEdit(w *folder) {
	var rows [][]cell
	for _, g := range s.groups {
		for _, r := range g {
			task := "local"
			if slices.Contains(global, r.truth.Family) {
				task = "global"
			}
			rows = append(rows, []cell{text("hash", r.Group), picture("image", r.Source), picture("edited_image", r.Edit),
				text("model", editors[r.Method]), text("instruction", r.Instruction), text("task", task),
				text("input_caption", r.SourceCaption), text("output_caption", r.TargetCaption)})
		}
	}
	w.table("test-00000-of-00001.parquet", rows)
}

// sequences writes SEED-Data-Edit's part 3: a line for each chain, with pictures as files.
func (s *set) sequences(w *folder) {
	var lines []map[string]any
	for _, turns := range s.chains {
		line := map[string]any{"source_image": turns[0].TurnSource}
		w.copy(turns[0].TurnSource, turns[0].TurnSource)
		for j, t := range turns {
			line[fmt.Sprintf("instruction_%d", j+1)] = t.Instruction
			line[fmt.Sprintf("edit_image_%d", j+1)] = t.TurnTarget
			w.copy(t.TurnTarget, t.TurnTarget)
		}
		lines = append(lines, line)
	}
	writeLines(w, "annotations/multi_turn.jsonl", lines)
}

// raters is the number of people who rate each output of ImagenHub.
const raters = 3

// rate returns the ratings of a simulated rater for an output, in steps of 0.5: how well the instruction was
// followed, which is the true degree with an error of up to 0.2, and how natural the picture is.
func rate(rng *rand.Rand, t miniature.Truth) (sc, pq float64) {
	followed := t.Degree + 0.4*rng.Float64() - 0.2
	switch {
	case followed >= 0.75:
		sc = 1
	case followed >= 0.25:
		sc = 0.5
	}
	pq = map[miniature.Kind]float64{miniature.Corrupt: 0, miniature.Damaged: 0.5}[t.Kind]
	if t.Kind != miniature.Corrupt && t.Kind != miniature.Damaged {
		pq = 1
	}
	if rng.Float64() < 0.1 {
		pq = 0.5
	}
	return sc, pq
}

// imagenHub writes ImagenHub's ratings and pictures, with the editors that have outputs for every instruction.
func (s *set) imagenHub(w *folder) {
	rng := stats.NewRand(1)
	lookup := map[string]map[string]string{}
	methods := len(s.groups[0])
	for _, g := range s.groups {
		methods = min(methods, len(g))
	}
	var tsv [raters]strings.Builder
	for r := range tsv {
		tsv[r].WriteString("uid")
		for _, o := range s.groups[0][:methods] {
			tsv[r].WriteString("\t" + o.Method)
		}
		tsv[r].WriteString("\n")
	}
	for _, g := range s.groups {
		id := "sample_" + g[0].Group + "_1.png"
		lookup[id] = map[string]string{"instruction": g[0].Instruction, "source_global_caption": g[0].SourceCaption,
			"target_global_caption": g[0].TargetCaption}
		places := map[string]string{"input": g[0].Source, "GroundTruth": g[0].Target}
		for _, o := range g[:methods] {
			places[o.Method] = o.Edit
		}
		for folder, name := range places {
			w.copy(name, folder+"/"+id)
		}
		for r := range tsv {
			tsv[r].WriteString(id)
			for _, o := range g[:methods] {
				sc, pq := rate(rng, o.truth)
				fmt.Fprintf(&tsv[r], "\t[%g, %g]", sc, pq)
			}
			tsv[r].WriteString("\n")
		}
	}
	for r := range tsv {
		w.file(fmt.Sprintf("Text-Guided_IE_rater%d.tsv", r+1), []byte(tsv[r].String()))
	}
	w.json("dataset_lookup.json", lookup)
}

// pairsOf draws two pairs of outputs of each instruction.
func (s *set) pairsOf(rng *rand.Rand) (pairs [][2]row) {
	for _, g := range s.groups {
		order := rng.Perm(len(g))
		pairs = append(pairs, [2]row{g[order[0]], g[order[1]]}, [2]row{g[order[2]], g[order[3]]})
	}
	return pairs
}

// better returns which of two outputs is better: 1, -1, or 0 if the degrees differ by at most Margin.
func better(a, b row) int {
	switch d := a.truth.Degree - b.truth.Degree; {
	case d > miniature.Margin:
		return 1
	case d < -miniature.Margin:
		return -1
	}
	return 0
}

// genAIBench writes GenAI-Bench's pairs with their votes.
func (s *set) genAIBench(w *folder) {
	var rows [][]cell
	for _, p := range s.pairsOf(stats.NewRand(2)) {
		vote := map[int]string{1: "leftvote", -1: "rightvote", 0: "bothbad_vote"}[better(p[0], p[1])]
		if vote == "bothbad_vote" && min(p[0].truth.Degree, p[1].truth.Degree) >= 0.8 {
			vote = "tievote"
		}
		rows = append(rows, []cell{picture("source_image", p[0].Source), picture("left_output_image", p[0].Edit),
			picture("right_output_image", p[1].Edit), text("instruct_prompt", p[0].Instruction),
			text("source_prompt", p[0].SourceCaption), text("target_prompt", p[0].TargetCaption), text("vote_type", vote)})
	}
	w.table("test_v1-00000-of-00001.parquet", rows)
}

// aurora writes both parts of AURORA-Bench, and the captions of the edits for CLIP-D and CLIP-T.
func (s *set) aurora(w *folder) {
	var points, pairs []map[string]any
	var captions []map[string]string
	done := map[string]bool{}
	keep := func(names ...string) {
		for _, name := range names {
			if !done[name] {
				done[name] = true
				w.copy(name, name)
			}
		}
	}
	for _, g := range s.groups {
		for _, r := range g {
			captions = append(captions, map[string]string{"id": fmt.Sprint(len(points)), "source_caption": r.SourceCaption,
				"target_caption": r.TargetCaption})
			points = append(points, map[string]any{"input": r.Source, "gen": r.Edit, "prompt": r.Instruction,
				"score": 2 * r.truth.Degree, "model": r.Method})
			keep(r.Source, r.Edit)
		}
	}
	var pairCaptions []map[string]string
	for _, p := range s.pairsOf(stats.NewRand(3)) {
		winner := map[int]string{1: p[0].Method, -1: p[1].Method, 0: "tie"}[better(p[0], p[1])]
		pairCaptions = append(pairCaptions, map[string]string{"id": fmt.Sprint(len(pairs)),
			"source_caption": p[0].SourceCaption, "target_caption": p[0].TargetCaption})
		pairs = append(pairs, map[string]any{"input": p[0].Source, "gens": []string{p[0].Edit, p[1].Edit},
			"prompt": p[0].Instruction, "winner": winner, "models": []string{p[0].Method, p[1].Method}})
	}
	w.json("human_ratings_updated_prompt.json", points)
	w.json("human_ratings_pairwise.json", pairs)
	writeLines(w, "captions-pairs.jsonl", pairCaptions)
	writeLines(w, "captions.jsonl", captions)
}
