package benchmarks

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

var genAIBench = &Benchmark{
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
		thresholdAsRun,
	},
	Flags:   []string{"votes", "subset", "epsilon", "images", "targets"},
	Load:    loadGenAIBench,
	Size:    919,
	Counted: []string{"official"},
}

var genAIVotes = []string{"leftvote", "rightvote", "tievote", "bothbad_vote"}

var genAIRules = append([]pairRule{
	answerRule("official", genAIVotes, map[string][]string{
		"leftvote":     {"A>B", "A>>B"},
		"rightvote":    {"B>A", "B>>A"},
		"tievote":      {"A=B", "A=B=Good"},
		"bothbad_vote": {"A=B", "A=B=Bad"},
	}),
	adieeRule(genAIVotes, "leftvote", "rightvote", func(l, r float64) string {
		if l >= 9 && r >= 9 {
			return "tievote"
		}
		return "bothbad_vote"
	}),
}, thresholdRules...)

// genAI is GenAI-Bench: the pairs, and where each lies (nothing with --votes).
type genAI struct {
	pairs
	epsilon float64
	images  string
	subset  string // "" is the usual one
	places  []place
	text    []string    // the instructions
	prompts [][2]string // captions of source and target, "" where the columns are not there
	targets *hubTargets // nil without --targets
}

func loadGenAIBench(o Options) (Set, error) {
	s := &genAI{epsilon: o.Epsilon, images: o.Images}
	if o.Subset != "test_v1" {
		s.subset = o.Subset
	}
	s.pairs = pairs{rules: genAIRules, answers: []string{"A>B", "B>A", "A=B=Good", "A=B=Bad"},
		side: map[string]string{"leftvote": left, "rightvote": right, "tievote": tie, "bothbad_vote": tie}}
	if err := checkGenAI(o); err != nil {
		return nil, err
	}
	if o.Votes != "" {
		o.note(o.Votes)
		return s, s.readVotes(o.Votes)
	}
	subset := o.Subset
	if subset == "" {
		subset = "test_v1"
	}
	files, err := locateAll(o.Data, subset+"-*.parquet", subset+".parquet", subset+".jsonl")
	if err != nil {
		return nil, err
	}
	generation := func(f string) bool { return !strings.Contains(f, "image_edition") }
	if edits := slices.DeleteFunc(slices.Clone(files), generation); len(edits) > 0 {
		files = edits // the whole dataset: not the parts on generation
	}
	o.note(files...)
	table, err := openSamples(files, "vote_type")
	if err != nil {
		return nil, err
	}
	s.show = func(i int) ([]CaptionedPicture, string) {
		it := s.pair(i)
		return []CaptionedPicture{{"source", it[0].Source}, {"left", it[0].Edit}, {"right", it[1].Edit}}, it[0].Instruction
	}
	if o.Targets != "" {
		if s.targets, err = openHubTargets(o.Targets); err != nil {
			return nil, err
		}
	}
	columns := []string{"vote_type", "instruct_prompt"}
	captioned := table.has("source_prompt") && table.has("target_prompt")
	if captioned {
		columns = append(columns, "source_prompt", "target_prompt")
	}
	return s, table.each(columns, func(p place, text []string) error {
		s.add(strconv.Itoa(len(s.ids)), text[0])
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
func checkGenAI(o Options) error {
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
	rows, err := readRows(path)
	if err != nil {
		return err
	}
	var p problems
	for _, r := range rows {
		id, err := r.id("id")
		if err != nil {
			p.add(r.where, "%v", err)
			continue
		}
		vote, err := r.text("vote_type")
		if err != nil {
			p.add(r.where, "%v", err)
			continue
		}
		if !slices.Contains(genAIVotes, vote) {
			p.add(r.where, "vote_type is %q: one of %s was expected", vote, strings.Join(genAIVotes, ", "))
			continue
		}
		if _, ok := s.index[id]; ok {
			p.add(r.where, "a second vote for %s", id)
			continue
		}
		s.add(id, vote)
	}
	return p.err()
}

// pair returns the two edits of a pair.
func (s *genAI) pair(i int) [2]Item {
	p := s.places[i]
	side := func(name string) Item {
		return Item{
			Key:         Key{s.ids[i], name},
			Group:       s.ids[i],
			Instruction: s.text[i],
			Source:      p.picture("source_image", -1, s.images),
			Edit:        p.picture(name+"_output_image", -1, s.images),
			Captions:    s.prompts[i],
			Target:      s.targets.of(s.text[i], s.prompts[i]),
		}
	}
	return [2]Item{side(left), side(right)}
}

// Items implements Scorable.
func (s *genAI) Items() ([]Item, error) {
	if s.places == nil {
		return nil, fmt.Errorf("votes alone hold no pictures: give --ratings with the Parquet files")
	}
	var p problems
	var items []Item
	for i := range s.ids {
		pair := s.pair(i)
		if pair[0].Instruction == "" {
			p.add(s.places[i].String(), "instruct_prompt is empty")
		}
		items = append(items, pair[:]...)
	}
	return items, p.err()
}

// Read implements Set.
func (s *genAI) Read(path string) (Predictions, error) {
	j, err := s.read(path, s.epsilon)
	return namedPairs{j, "genaibench", s.subset}, err
}

// Guess implements Guessable.
func (s *genAI) Guess(rng *rand.Rand) Predictions {
	return namedPairs{s.guess(rng, s.epsilon), "genaibench", s.subset}
}

// namedPairs are the predictions of a benchmark of pairs.
type namedPairs struct {
	*pairsPredictions
	name   string
	subset string // "": the pairs that published numbers are computed on
}

// Result implements Predictions.
func (j namedPairs) Result() *Result {
	r := j.result(j.name)
	r.Subset = j.subset
	return r
}
