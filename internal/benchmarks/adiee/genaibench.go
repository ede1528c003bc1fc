package adiee

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
)

// GenAIBench is GenAI-Bench's votes on edits.
var GenAIBench = &protocol.Benchmark{
	Name:  "genaibench",
	Title: "GenAI-Bench, image editing: 919 pairs with votes",
	Needs: []string{
		"--ratings: a folder with test_v1-*.parquet (919 pairs; --subset test: test-*.parquet), or such a file",
		"--targets (for clip_i and dino_i): ImagenHub_Text-Guided_IE with dataset_lookup.json and GroundTruth/, whose " +
			"edits these are",
		"--votes: without pictures, JSON lines of {id, vote_type}, id counting the rows from 0",
	},
	Published: "TIGER-Lab: the dataset GenAI-Bench, configuration image_edition",
	Predicts: `{"id": 0, "answer": "A>B"}, or {"id": 0, "left": 7.5, "right": 3}, or {"id": 0, "model": "left", ` +
		`"score": 7.5}`,
	Rules: []string{
		"official (answers): leftvote is right on A>B, A>>B; rightvote on B>A, B>>A; tievote on A=B, A=B=Good; " +
			"bothbad_vote on A=B, A=B=Bad; no answer is wrong. Of a model's words the verdict is what stands in double " +
			"brackets, [[A>B]], and that exactly (inference.py)",
		"adiee (scores on 0..10): t = round-half-to-even(s/5); the greater t wins; equal: tie if both s >= 9, else both bad",
		"threshold (scores): tie and both bad are one class; |left - right| <= eps is a tie; eps maximises the accuracy " +
			"(Deutsch et al. 2023), or --epsilon",
		protocol.ThresholdAsRun,
	},
	Flags:        []string{"votes", "subset", "epsilon", "images", "targets"},
	Load:         loadGenAIBench,
	Size:         919,
	Counted:      []string{"official"},
	PublishedCSV: publishedCSV,
}

var genAIVotes = []string{"leftvote", "rightvote", "tievote", "bothbad_vote"}

var genAIRules = append([]protocol.PairRule{
	protocol.AnswerRule("official", genAIVotes, map[string][]string{
		"leftvote":     {"A>B", "A>>B"},
		"rightvote":    {"B>A", "B>>A"},
		"tievote":      {"A=B", "A=B=Good"},
		"bothbad_vote": {"A=B", "A=B=Bad"},
	}),
	protocol.ADIEERule(genAIVotes, "leftvote", "rightvote", func(l, r float64) string {
		if l >= 9 && r >= 9 {
			return "tievote"
		}
		return "bothbad_vote"
	}),
}, protocol.ThresholdRules...)

// genAI is GenAI-Bench: the pairs, and where each lies (nothing with --votes).
type genAI struct {
	protocol.PairSet
	epsilon float64
	images  string
	subset  string // "" is the usual one
	places  []protocol.Sample
	text    []string    // the instructions
	prompts [][2]string // captions of source and target, "" where the columns are not there
	targets *hubTargets // nil without --targets
}

func loadGenAIBench(o protocol.Options) (protocol.Set, error) {
	s := &genAI{epsilon: o.Epsilon, images: o.Images}
	if o.Subset != "test_v1" {
		s.subset = o.Subset
	}
	s.PairSet = protocol.PairSet{Rules: genAIRules, Answers: []string{"A>B", "B>A", "A=B=Good", "A=B=Bad"},
		Side: map[string]string{"leftvote": protocol.Left, "rightvote": protocol.Right, "tievote": protocol.Tie,
			"bothbad_vote": protocol.Tie}}
	if err := checkGenAI(o); err != nil {
		return nil, err
	}
	if o.Votes != "" {
		o.NoteFiles(o.Votes)
		return s, s.readVotes(o.Votes)
	}
	subset := o.Subset
	if subset == "" {
		subset = "test_v1"
	}
	files, err := protocol.LocateAll(o.Data, subset+"-*.parquet", subset+".parquet", subset+".jsonl")
	if err != nil {
		return nil, err
	}
	generation := func(f string) bool { return !strings.Contains(f, "image_edition") }
	if edits := slices.DeleteFunc(slices.Clone(files), generation); len(edits) > 0 {
		files = edits // the whole dataset: not the parts on generation
	}
	o.NoteFiles(files...)
	table, err := protocol.OpenSamples(files, "vote_type")
	if err != nil {
		return nil, err
	}
	s.Show = func(i int) ([]protocol.CaptionedPicture, string) {
		it := s.pair(i)
		return []protocol.CaptionedPicture{protocol.Caption("source", it[0], "source"),
			protocol.Caption("left", it[0], "edit"), protocol.Caption("right", it[1], "edit")}, it[0].Instruction
	}
	if o.Targets != "" {
		if s.targets, err = openHubTargets(o.Targets); err != nil {
			return nil, err
		}
	}
	columns := []string{"vote_type", "instruct_prompt"}
	captioned := table.Has("source_prompt") && table.Has("target_prompt")
	if captioned {
		columns = append(columns, "source_prompt", "target_prompt")
	}
	return s, table.Each(columns, func(p protocol.Sample, text []string) error {
		s.Add(strconv.Itoa(len(s.IDs)), text[0])
		s.places, s.text = append(s.places, p), append(s.text, text[1])
		prompts := [2]string{}
		if captioned {
			prompts = [2]string(text[2:4])
		}
		s.prompts = append(s.prompts, prompts)
		if !slices.Contains(genAIVotes, text[0]) {
			return fmt.Errorf("vote_type is %q: one of %s was expected", text[0], strings.Join(genAIVotes, ", "))
		}
		return nil
	})
}

// checkGenAI refuses a subset that is not there, and options that --votes would hide.
func checkGenAI(o protocol.Options) error {
	switch {
	case !slices.Contains([]string{"", "test_v1", "test"}, o.Subset):
		return fmt.Errorf("subset %q: test_v1 or test was expected", o.Subset)
	case o.Votes != "" && (o.Data != "" || o.Targets != "" || o.Images != ""):
		return errors.New("--votes are votes without pictures, in place of --ratings: leave out that, --images and " +
			"--targets, or --votes")
	}
	return nil
}

func (s *genAI) readVotes(path string) error {
	rows, err := protocol.ReadLines(path)
	if err != nil {
		return err
	}
	var p protocol.Problems
	for _, r := range rows {
		id, err := r.ID("id")
		if err != nil {
			p.Add(r.Where, "%v", err)
			continue
		}
		vote, err := r.Text("vote_type")
		if err != nil {
			p.Add(r.Where, "%v", err)
			continue
		}
		if !slices.Contains(genAIVotes, vote) {
			p.Add(r.Where, "vote_type is %q: one of %s was expected", vote, strings.Join(genAIVotes, ", "))
			continue
		}
		if _, ok := s.Index[id]; ok {
			p.Add(r.Where, "a second vote for %s", id)
			continue
		}
		s.Add(id, vote)
	}
	return p.Err()
}

// pair returns the two edits of a pair.
func (s *genAI) pair(i int) edit.Pair {
	p := s.places[i]
	side := func(name string) *edit.Edit {
		it := protocol.NewItem(protocol.Key{ID: s.IDs[i], Model: name}, s.text[i],
			p.Picture("source_image", -1, s.images), p.Picture(name+"_output_image", -1, s.images))
		it.Group = s.IDs[i]
		protocol.SetCaptions(it, s.prompts[i])
		protocol.SetPicture(it, protocol.Target, s.targets.of(s.text[i], s.prompts[i]))
		return it
	}
	return edit.Pair{side(protocol.Left), side(protocol.Right)}
}

// Items implements Scorable.
func (s *genAI) Items() ([]*edit.Edit, error) {
	if s.places == nil {
		return nil, fmt.Errorf("votes alone hold no pictures: give --ratings with the Parquet files")
	}
	var p protocol.Problems
	var items []*edit.Edit
	for i := range s.IDs {
		pair := s.pair(i)
		if pair[0].Instruction == "" {
			p.Add(s.places[i].String(), "instruct_prompt is empty")
		}
		items = append(items, pair[:]...)
	}
	return items, p.Err()
}

// Read implements Set.
func (s *genAI) Read(path string) (protocol.Predictions, error) {
	j, err := s.ReadPairs(path, s.epsilon)
	return namedPairs{j, "genaibench", s.subset}, err
}

// Guess implements Guessable.
func (s *genAI) Guess(rng *rand.Rand) protocol.Predictions {
	return namedPairs{s.GuessPairs(rng, s.epsilon), "genaibench", s.subset}
}

// namedPairs are the predictions of a benchmark of pairs.
type namedPairs struct {
	*protocol.PairPredictions
	name   string
	subset string // "": the pairs that published numbers are computed on
}

// Result implements Predictions.
func (j namedPairs) Result() *protocol.Result {
	r := j.PairResult(j.name)
	r.Subset = j.subset
	return r
}
